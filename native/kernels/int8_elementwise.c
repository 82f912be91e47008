/* kernels.md section 2. A function of one byte has 256 values: they are computed once per call and looked up. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"

typedef float (*unary)(float);

static float gelu(float x) { return 0.5f * x * (1.0f + c7x_erff(x / 1.41421356f)); }
static float silu(float x) { return c7x_silu(x); }
static float silu_vector(float x) { return c7x_silu_vector(x); }

static float hardswish(float x) {
  const float low = x + 3.0f < 0.0f ? 0.0f : x + 3.0f;
  return x * (low > 6.0f ? 6.0f : low) / 6.0f;
}

static float hardsigmoid(float x) {
  const float y = x / 6.0f + 0.5f;
  const float low = y < 0.0f ? 0.0f : y;
  return low > 1.0f ? 1.0f : low;
}

/* RQ(function(DQ(x))); `vector` is the board's form of it for whole vectors, NULL for kernels without one. */
static int32_t activation(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy,
                          unary function, unary vector) {
  const int8_t *x = (const int8_t *)in;
  int8_t *y = (int8_t *)out;
  const int32_t head = vector == NULL ? 0 : c7x_vector_part(n);
  int8_t table[256];
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  if (head > 0) {
    for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_rq_vector(vector(c7x_dq(v, zx, sx)), zy, sy);
    c7x_map_table(x, y, head, table);
  }
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_rq(function(c7x_dq(v, zx, sx)), zy, sy);
  c7x_map_table(x + head, y + head, n - head, table);
  return 0;
}

int32_t c7x_int8_gelu(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(in, out, n, zx, sx, zy, sy, gelu, NULL);
}

int32_t c7x_int8_silu(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(in, out, n, zx, sx, zy, sy, silu, silu_vector);
}

int32_t c7x_int8_hardswish(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(in, out, n, zx, sx, zy, sy, hardswish, hardswish);
}

int32_t c7x_int8_hardsigmoid(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(in, out, n, zx, sx, zy, sy, hardsigmoid, NULL);
}

int32_t c7x_int8_silu_f32out(const void *in, void *out, int32_t n, int32_t zx, float sx) {
  const int8_t *x = (const int8_t *)in;
  float *y = (float *)out;
  const int32_t head = c7x_vector_part(n);
  float table[256];
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  if (head > 0) {
    for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_silu_vector(c7x_dq(v, zx, sx));
    for (int32_t i = 0; i < head; ++i) y[i] = C7X_TABLE(table, x[i]);
  }
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_silu(c7x_dq(v, zx, sx));
  for (int32_t i = head; i < n; ++i) y[i] = C7X_TABLE(table, x[i]);
  return 0;
}

int32_t c7x_int8_relu(const void *in, void *out, int32_t n, int32_t clip_lo) {
  return c7x_int8_clamp(in, out, n, clip_lo, 127);
}

int32_t c7x_int8_clamp(const void *in, void *out, int32_t n, int32_t lo, int32_t hi) {
  const int8_t *x = (const int8_t *)in;
  int8_t *y = (int8_t *)out;
  /* Saturated bounds give the saturated result, and leave arithmetic on bytes. */
  const int8_t least = c7x_sat8(lo);
  const int8_t most = c7x_sat8(hi);
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  for (int32_t i = 0; i < n; ++i) {
    const int8_t raised = x[i] > least ? x[i] : least;
    y[i] = raised < most ? raised : most;
  }
  return 0;
}

int32_t c7x_int8_requantize_clamp(const void *in, void *out, int32_t n, float combined_scale, int32_t lo, int32_t hi) {
  const int32_t q = c7x_q13(combined_scale);
  int8_t table[256];
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  for (int32_t v = -128; v < 128; ++v) {
    const int64_t scaled = c7x_mul_q13(v, q);
    const int64_t raised = scaled > lo ? scaled : lo;
    C7X_TABLE(table, v) = c7x_sat8(raised < hi ? raised : hi);
  }
  c7x_map_table((const int8_t *)in, (int8_t *)out, n, table);
  return 0;
}

int32_t c7x_int8_rescale(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  c7x_map_rescale((const int8_t *)in, (int8_t *)out, n, zx, sx, zy, sy);
  return 0;
}

static void quantize(const float *in, int8_t *out, int32_t n, float inv_scale, float offset) {
  const int32_t head = c7x_vector_part(n);
  for (int32_t i = 0; i < head; ++i) out[i] = c7x_round_even8(in[i] * inv_scale + offset);
  for (int32_t i = head; i < n; ++i) out[i] = c7x_round_away8(in[i] * inv_scale + offset);
}

int32_t c7x_int8_quantize(const void *in, void *out, int32_t n, float inv_scale, int32_t zp) {
  if (in == NULL || out == NULL || n < 0) return C7X_REFUSED;
  quantize((const float *)in, (int8_t *)out, n, inv_scale, (float)zp);
  return 0;
}

int32_t c7x_int8_quantize_rgb(const void *in, void *out, int32_t N, int32_t HW, float inv_0, float off_0, float inv_1,
                              float off_1, float inv_2, float off_2) {
  const float inv_scale[3] = {inv_0, inv_1, inv_2};
  const float offset[3] = {off_0, off_1, off_2};
  const float *x = (const float *)in;
  int8_t *y = (int8_t *)out;
  if (in == NULL || out == NULL || N < 0 || HW < 0) return C7X_REFUSED;
  for (int64_t plane = 0; plane < (int64_t)N * 3; ++plane) {
    quantize(x + plane * HW, y + plane * HW, HW, inv_scale[plane % 3], offset[plane % 3]);
  }
  return 0;
}

int32_t c7x_int8_channel_scale_multiply(const void *excitation, const void *feature_map, void *out, int32_t C, int32_t HW,
                                        float s_exc, int32_t z_exc, float s_feat, int32_t z_feat, float s_out,
                                        int32_t z_out) {
  const int8_t *gate = (const int8_t *)excitation;
  const int8_t *x = (const int8_t *)feature_map;
  int8_t *y = (int8_t *)out;
  if (excitation == NULL || feature_map == NULL || out == NULL || C < 0 || HW < 0) return C7X_REFUSED;
  for (int64_t c = 0; c < C; ++c) {
    const int32_t q = c7x_q13(c7x_dq(gate[c], z_exc, s_exc) * s_feat / s_out);
    c7x_map_q13(x + c * HW, y + c * HW, HW, q, z_out - c7x_mul_q13(z_feat, q));
  }
  return 0;
}
