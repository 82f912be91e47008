/* Kernels of kernels.md section 3 that normalise: layer norm and the softmax of a box-distribution head. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"
#include "c7x_platform.h"

int32_t c7x_int8_layer_norm(const void *in, const void *weight, const void *bias, void *out, int32_t outer, int32_t norm,
                            float eps, int32_t zx, float sx, int32_t zy, float sy) {
  const float *w = (const float *)weight;
  const float *b = (const float *)bias;
  float table[256];
  if (in == NULL || weight == NULL || bias == NULL || out == NULL || outer < 0 || norm <= 0) return C7X_REFUSED;
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_dq(v, zx, sx);
  for (int64_t row = 0; row < outer; ++row) {
    const int8_t *x = (const int8_t *)in + row * norm;
    int8_t *y = (int8_t *)out + row * norm;
    float sum = 0.0f;
    float squares = 0.0f;
    float mean, std_dev;
    for (int32_t i = 0; i < norm; ++i) sum += C7X_TABLE(table, x[i]);
    mean = sum / (float)norm;
    for (int32_t i = 0; i < norm; ++i) {
      const float d = C7X_TABLE(table, x[i]) - mean;
      squares += d * d;
    }
    std_dev = sqrtf(squares / (float)norm + eps);
    for (int32_t i = 0; i < norm; ++i) {
      y[i] = c7x_rq((C7X_TABLE(table, x[i]) - mean) / std_dev * w[i] + b[i], zy, sy);
    }
  }
  return 0;
}

int32_t c7x_int8_dfl_softmax(const void *in, void *out, int32_t B, int32_t A, int32_t K, int32_t N, int32_t zx, float sx,
                             int32_t zy, float sy) {
  float table[256];
  float *largest, *total, *power;
  void *workspace;
  if (in == NULL || out == NULL || B < 0 || A < 0 || K <= 0 || N < 0) return C7X_REFUSED;
  workspace = TVMBackendAllocWorkspace(1, 0, (UINT64_C(2) * (uint64_t)N + (uint64_t)K * (uint64_t)N) * sizeof(float), 2,
                                       32);
  if (workspace == NULL) return C7X_REFUSED;
  largest = (float *)workspace;
  total = largest + N;
  power = total + N;
  for (int32_t v = -128; v < 128; ++v) C7X_TABLE(table, v) = c7x_dq(v, zx, sx);
  for (int64_t ba = 0; ba < (int64_t)B * A; ++ba) {
    const int8_t *x = (const int8_t *)in + ba * K * N;
    int8_t *y = (int8_t *)out + ((ba / A) * K * A + ba % A) * N;
    for (int32_t n = 0; n < N; ++n) {
      largest[n] = C7X_TABLE(table, x[n]);
      total[n] = 0.0f;
    }
    for (int64_t k = 1; k < K; ++k) {
      for (int32_t n = 0; n < N; ++n) {
        const float v = C7X_TABLE(table, x[k * N + n]);
        largest[n] = v > largest[n] ? v : largest[n];
      }
    }
    for (int64_t k = 0; k < K; ++k) {
      for (int32_t n = 0; n < N; ++n) {
        power[k * N + n] = c7x_expf(C7X_TABLE(table, x[k * N + n]) - largest[n]);
        total[n] += power[k * N + n];
      }
    }
    for (int64_t k = 0; k < K; ++k) {
      for (int32_t n = 0; n < N; ++n) y[k * A * N + n] = c7x_rq(power[k * N + n] / total[n], zy, sy);
    }
  }
  TVMBackendFreeWorkspace(1, 0, workspace);
  return 0;
}
