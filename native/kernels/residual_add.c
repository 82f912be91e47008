/* kernels.md section 4. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"

/* The layout is the firmware's. */
typedef char c7x_residual_params_layout[sizeof(c7x_residual_params) == 16 &&
                                                offsetof(c7x_residual_params, zp_x) == 12 &&
                                                offsetof(c7x_residual_params, zp_out) == 14
                                            ? 1
                                            : -1];

static int64_t magnitude(int32_t v) { return v < 0 ? -(int64_t)v : v; }

int32_t c7x_int8_residual_add_relu(const void *x, const void *skip, const void *params, void *output,
                                   int32_t num_elements, int32_t has_relu) {
  const int8_t *a = (const int8_t *)x;
  const int8_t *b = (const int8_t *)skip;
  int8_t *y = (int8_t *)output;
  const int32_t floor = has_relu != 0 ? 0 : INT32_MIN;
  c7x_residual_params p;
  if (x == NULL || skip == NULL || params == NULL || output == NULL || num_elements < 0) return C7X_REFUSED;
  memcpy(&p, params, sizeof p);
  if (p.shift < 0) return C7X_REFUSED;
  /* |x - zp| <= 255, and 2^30 leaves room for the zero point. */
  if ((magnitude(p.M_x) + magnitude(p.M_skip)) * 255 < INT64_C(1) << 30) {
    for (int32_t i = 0; i < num_elements; ++i) {
      const int32_t sum = (a[i] - p.zp_x) * p.M_x + (b[i] - p.zp_skip) * p.M_skip;
      const int32_t v = c7x_asr32(sum, p.shift) + p.zp_out;
      y[i] = (int8_t)c7x_sat8_i32(v > floor ? v : floor);
    }
  } else {
    for (int32_t i = 0; i < num_elements; ++i) {
      const int64_t sum = (int64_t)(a[i] - p.zp_x) * p.M_x + (int64_t)(b[i] - p.zp_skip) * p.M_skip;
      const int64_t v = c7x_asr64(sum, p.shift) + p.zp_out;
      y[i] = c7x_sat8(v > floor ? v : floor);
    }
  }
  return 0;
}

int32_t c7x_int16_residual_add_relu(const void *x, const void *skip, const void *params, void *output,
                                    int32_t num_elements, int32_t has_relu) {
  const int16_t *a = (const int16_t *)x;
  const int16_t *b = (const int16_t *)skip;
  int16_t *y = (int16_t *)output;
  const int64_t floor = has_relu != 0 ? 0 : INT64_MIN;
  c7x_residual_params p;
  if (x == NULL || skip == NULL || params == NULL || output == NULL || num_elements < 0) return C7X_REFUSED;
  memcpy(&p, params, sizeof p);
  if (p.shift < 0) return C7X_REFUSED;
  for (int32_t i = 0; i < num_elements; ++i) {
    const int64_t sum = (int64_t)(a[i] - p.zp_x) * p.M_x + (int64_t)(b[i] - p.zp_skip) * p.M_skip;
    const int64_t v = c7x_asr64(sum, p.shift) + p.zp_out;
    y[i] = c7x_sat16(v > floor ? v : floor);
  }
  return 0;
}
