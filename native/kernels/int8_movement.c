/* Kernels of kernels.md section 3 that move data: resize, upsample and concatenation. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"

/* One row twice as wide, written twice, through a table. */
static void double_row(const int8_t *row, int8_t *out, int32_t W, const int8_t *table) {
  for (int32_t i = 0; i < W; ++i) out[2 * (int64_t)i] = out[2 * (int64_t)i + 1] = C7X_TABLE(table, row[i]);
  memcpy(out + 2 * (int64_t)W, out, 2 * (size_t)W);
}

static void double_rows(const int8_t *in, int8_t *out, int64_t rows, int32_t W, const int8_t *table) {
  if (W == 0) return;
  for (int64_t r = 0; r < rows; ++r) double_row(in + r * W, out + r * 4 * W, W, table);
}

int32_t c7x_int8_resize2d_nearest2x(const void *in, void *out, int32_t C, int32_t H, int32_t W) {
  int8_t same[256];
  if (in == NULL || out == NULL || C < 0 || H < 0 || W < 0) return C7X_REFUSED;
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(same, v) = (int8_t)v;
  double_rows((const int8_t *)in, (int8_t *)out, (int64_t)C * H, W, same);
  return 0;
}

static int32_t fpn(const void *in1, int32_t C1, int32_t H, int32_t W, int32_t z1, float s1, const void *in2, int32_t C2,
                   int32_t z2, float s2, void *out, float s_out, int32_t z_out, float *presize) {
  const int8_t *x = (const int8_t *)in1;
  int8_t *y = (int8_t *)out;
  const int64_t n1 = (int64_t)C1 * H * W;
  float silu[256];
  int8_t table[256];
  if (in1 == NULL || in2 == NULL || out == NULL || C1 < 0 || C2 < 0 || H < 0 || W < 0) return C7X_REFUSED;
  for (int32_t v = -128; v < 128; ++v) {
    C7X_TABLE(silu, v) = c7x_silu(c7x_dq(v, z1, s1));
    C7X_TABLE(table, v) = c7x_rq(C7X_TABLE(silu, v), z_out, s_out);
  }
  double_rows(x, y, (int64_t)C1 * H, W, table);
  if (presize != NULL) {
    for (int64_t i = 0; i < n1; ++i) presize[i] = C7X_TABLE(silu, x[i]);
  }
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_rq(c7x_dq(v, z2, s2), z_out, s_out);
  c7x_map_table((const int8_t *)in2, y + 4 * n1, 4 * (int64_t)C2 * H * W, table);
  return 0;
}

int32_t c7x_int8_fpn_upsample_concat(const void *in1, int32_t C1, int32_t H, int32_t W, int32_t z1, float s1,
                                     const void *in2, int32_t C2, int32_t z2, float s2, void *out, float s_out,
                                     int32_t z_out) {
  return fpn(in1, C1, H, W, z1, s1, in2, C2, z2, s2, out, s_out, z_out, NULL);
}

int32_t c7x_int8_fpn_upsample_concat_ex(const void *in1, int32_t C1, int32_t H, int32_t W, int32_t z1, float s1,
                                        const void *in2, int32_t C2, int32_t z2, float s2, void *out, float s_out,
                                        int32_t z_out, void *out1_presize) {
  if (out1_presize == NULL) return C7X_REFUSED;
  return fpn(in1, C1, H, W, z1, s1, in2, C2, z2, s2, out, s_out, z_out, (float *)out1_presize);
}

#define SOURCES 4

/* One tensor to concatenate: `size` is its part of the concatenated axis. */
typedef struct source {
  const int8_t *data;
  int32_t size;
  float scale;
  int32_t zero_point;
} source;

static int complete(const source *sources) {
  for (int k = 0; k < SOURCES; ++k) {
    if (sources[k].size < 0 || (sources[k].size > 0 && sources[k].data == NULL)) return 0;
  }
  return 1;
}

int32_t c7x_int8_concat_rescale(const void *in1, int32_t C1, float s1, int32_t z1, const void *in2, int32_t C2, float s2,
                                int32_t z2, const void *in3, int32_t C3, float s3, int32_t z3, const void *in4,
                                int32_t C4, float s4, int32_t z4, void *out, int32_t HW, float s_out, int32_t z_out) {
  const source sources[SOURCES] = {{(const int8_t *)in1, C1, s1, z1},
                                   {(const int8_t *)in2, C2, s2, z2},
                                   {(const int8_t *)in3, C3, s3, z3},
                                   {(const int8_t *)in4, C4, s4, z4}};
  int8_t *y = (int8_t *)out;
  if (out == NULL || HW < 0 || !complete(sources)) return C7X_REFUSED;
  for (int k = 0; k < SOURCES; ++k) {
    const int64_t n = (int64_t)sources[k].size * HW;
    c7x_map_rescale(sources[k].data, y, n, sources[k].zero_point, sources[k].scale, z_out, s_out);
    y += n;
  }
  return 0;
}

int32_t c7x_int8_concat_sigmoid(const void *in1, int32_t n1, float s1, int32_t z1, const void *in2, int32_t n2, float s2,
                                int32_t z2, const void *in3, int32_t n3, float s3, int32_t z3, const void *in4,
                                int32_t n4, float s4, int32_t z4, void *out, int32_t C) {
  const source sources[SOURCES] = {{(const int8_t *)in1, n1, s1, z1},
                                   {(const int8_t *)in2, n2, s2, z2},
                                   {(const int8_t *)in3, n3, s3, z3},
                                   {(const int8_t *)in4, n4, s4, z4}};
  int64_t width = 0;
  int64_t start = 0;
  if (out == NULL || C < 0 || !complete(sources)) return C7X_REFUSED;
  for (int k = 0; k < SOURCES; ++k) width += sources[k].size;
  for (int k = 0; k < SOURCES; ++k) {
    const source s = sources[k];
    float table[256];
    if (s.size == 0) continue;
    for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_sigmoid(c7x_dq(v, s.zero_point, s.scale));
    for (int64_t c = 0; c < C; ++c) {
      float *y = (float *)out + c * width + start;
      for (int64_t i = 0; i < s.size; ++i) y[i] = C7X_TABLE(table, s.data[c * s.size + i]);
    }
    start += s.size;
  }
  return 0;
}
