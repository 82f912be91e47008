/* Pooling kernels of kernels.md section 3. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"

typedef struct window {
  int32_t N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW;
} window;

static int possible(const window *w) {
  return w->N >= 0 && w->C >= 0 && w->H_in > 0 && w->W_in > 0 && w->H_out > 0 && w->W_out > 0 && w->kH > 0 &&
         w->kW > 0 && w->sH > 0 && w->sW > 0 && w->pH >= 0 && w->pW >= 0;
}

/* The outputs first..end-1 whose tap `offset` (from the window's start at output 0) lies inside `size` inputs. */
typedef struct span {
  int32_t first, end;
} span;

static span taps_inside(int64_t offset, int32_t stride, int32_t size, int32_t outputs) {
  const int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const int64_t end = offset < size ? (size - offset + stride - 1) / stride : 0;
  span s;
  s.end = (int32_t)(end < outputs ? end : outputs);
  s.first = (int32_t)(first < s.end ? first : s.end);
  return s;
}

C7X_INLINE void raise_by(int8_t *C7X_RESTRICT row, const int8_t *C7X_RESTRICT in, int32_t n, int32_t stride) {
  for (int32_t i = 0; i < n; ++i) {
    const int8_t v = in[(int64_t)i * stride];
    row[i] = v > row[i] ? v : row[i];
  }
}

static void raise_to(int8_t *row, int32_t first, int32_t end, int8_t floor) {
  for (int32_t i = first; i < end; ++i) row[i] = row[i] > floor ? row[i] : floor;
}

/* One output row. Taps outside count as `padding`; -128 changes nothing. */
static void max_row(const window *w, const int8_t *plane, int8_t *row, int32_t oh, int8_t padding) {
  memset(row, -128, (size_t)w->W_out);
  for (int32_t kh = 0; kh < w->kH; ++kh) {
    const int64_t ih = (int64_t)oh * w->sH - w->pH + kh;
    if (ih < 0 || ih >= w->H_in) {
      raise_to(row, 0, w->W_out, padding);
      continue;
    }
    for (int32_t kw = 0; kw < w->kW; ++kw) {
      const int64_t offset = (int64_t)kw - w->pW;
      const span s = taps_inside(offset, w->sW, w->W_in, w->W_out);
      if (s.first < s.end) {
        const int8_t *in = plane + ih * w->W_in + (int64_t)s.first * w->sW + offset;
        if (w->sW == 1) {
          raise_by(row + s.first, in, s.end - s.first, 1);
        } else if (w->sW == 2) {
          raise_by(row + s.first, in, s.end - s.first, 2);
        } else {
          raise_by(row + s.first, in, s.end - s.first, w->sW);
        }
      }
      raise_to(row, 0, s.first, padding);
      raise_to(row, s.end, w->W_out, padding);
    }
  }
}

static int32_t max_pool(const void *in, void *out, const window *w, int8_t padding) {
  const int8_t *x = (const int8_t *)in;
  int8_t *y = (int8_t *)out;
  if (in == NULL || out == NULL || !possible(w)) return C7X_REFUSED;
  for (int64_t p = 0; p < (int64_t)w->N * w->C; ++p) {
    for (int32_t oh = 0; oh < w->H_out; ++oh) {
      max_row(w, x + p * w->H_in * w->W_in, y + (p * w->H_out + oh) * w->W_out, oh, padding);
    }
  }
  return 0;
}

int32_t c7x_int8_max_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  return max_pool(in, out, &w, -128);
}

int32_t c7x_int8_max_pool_tidl(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                               int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  return max_pool(in, out, &w, 0);
}

int32_t c7x_int8_global_avg_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H, int32_t W, int32_t zx,
                                 float sx, int32_t zy, float sy) {
  const int8_t *x = (const int8_t *)in;
  int8_t *y = (int8_t *)out;
  const int64_t HW = (int64_t)H * W;
  const float factor = sx / (float)HW;
  if (in == NULL || out == NULL || N < 0 || C < 0 || H <= 0 || W <= 0) return C7X_REFUSED;
  for (int64_t p = 0; p < (int64_t)N * C; ++p) {
    int64_t sum = 0;
    for (int32_t h = 0; h < H; ++h) {
      const int8_t *row = x + p * HW + (int64_t)h * W;
      int32_t part = 0; /* a row would need 2^24 columns to overflow it */
      for (int32_t i = 0; i < W; ++i) part += row[i];
      sum += part;
    }
    y[p] = c7x_rq((float)(sum - HW * zx) * factor, zy, sy);
  }
  return 0;
}

/* Sum of x - zx over the window's taps inside the plane. */
static int64_t window_sum(const window *w, const int8_t *plane, int32_t oh, int32_t ow, int32_t zx) {
  const int64_t top = (int64_t)oh * w->sH - w->pH;
  const int64_t left = (int64_t)ow * w->sW - w->pW;
  const int64_t first_h = top < 0 ? 0 : top;
  const int64_t first_w = left < 0 ? 0 : left;
  const int64_t end_h = top + w->kH < w->H_in ? top + w->kH : w->H_in;
  const int64_t end_w = left + w->kW < w->W_in ? left + w->kW : w->W_in;
  int64_t sum = 0;
  for (int64_t h = first_h; h < end_h; ++h) {
    for (int64_t i = first_w; i < end_w; ++i) sum += (int64_t)plane[h * w->W_in + i] - zx;
  }
  return sum;
}

/* The inner outputs of the 3x3 fast path, from sums of three in a column. */
static void avg3_inner(const window *w, const int8_t *plane, int8_t *out, int32_t zx, int32_t zy, int32_t q) {
  const int32_t W = w->W_in;
  for (int32_t h = 1; h < w->H_in - 1; ++h) {
    const int8_t *row = plane + (int64_t)h * W;
    int32_t column[40];
    for (int32_t i = 0; i < W; ++i) column[i] = row[i - W] + row[i] + row[i + W];
    for (int32_t i = 1; i < W - 1; ++i) {
      const int64_t sum = (int64_t)(column[i - 1] + column[i] + column[i + 1]) - INT64_C(9) * zx;
      out[(int64_t)h * W + i] = c7x_sat8(c7x_mul_q13(sum, q) + zy);
    }
  }
}

int32_t c7x_int8_avg_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW,
                          int32_t zx, float sx, int32_t zy, float sy) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  const int fast = kH == 3 && kW == 3 && sH == 1 && sW == 1 && pH == 1 && pW == 1 && H_out == H_in && W_out == W_in &&
                   H_in >= 3 && H_in <= 40 && W_in >= 3 && W_in <= 40;
  const float factor = sx / (float)((int64_t)kH * kW);
  if (in == NULL || out == NULL || !possible(&w)) return C7X_REFUSED;
  for (int64_t p = 0; p < (int64_t)N * C; ++p) {
    const int8_t *plane = (const int8_t *)in + p * H_in * W_in;
    int8_t *y = (int8_t *)out + p * H_out * W_out;
    if (fast) avg3_inner(&w, plane, y, zx, zy, c7x_q13(sx / 9.0f / sy));
    for (int32_t oh = 0; oh < H_out; ++oh) {
      const int inner = fast && oh > 0 && oh < H_out - 1;
      for (int32_t ow = 0; ow < W_out; ow += inner ? W_out - 1 : 1) {
        y[(int64_t)oh * W_out + ow] = c7x_rq((float)window_sum(&w, plane, oh, ow, zx) * factor, zy, sy);
      }
    }
  }
  return 0;
}
