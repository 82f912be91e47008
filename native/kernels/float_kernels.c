/* kernels.md section 5. Sums run in index order; several of them side by side hide the latency of an addition. */
#include "c7x_kernel_math.h"
#include "c7x_kernels.h"
#include "c7x_platform.h"

#define SIDE_BY_SIDE 8
#define MAX_HEAD_DIM 128
#define MAX_CACHE_LEN 1024

/* out[j] = sum over k of a[k] * w[j * K + k], for `rows` rows. */
C7X_INLINE void weigh_rows(const float *a, const int8_t *w, int64_t K, int32_t rows, float *out) {
  for (int32_t j = 0; j < rows; ++j) out[j] = 0.0f;
  for (int64_t k = 0; k < K; ++k) {
    for (int32_t j = 0; j < rows; ++j) out[j] += a[k] * (float)w[j * K + k];
  }
}

int32_t c7x_dequantize_vecmatmul(const void *activation, const void *weights, const void *scale, void *output, int32_t M,
                                 int32_t K, int32_t N) {
  const float *s = (const float *)scale;
  if (activation == NULL || weights == NULL || scale == NULL || output == NULL) return C7X_REFUSED;
  if (M < 0 || K < 0 || N < 0 || K % 8 != 0) return C7X_REFUSED;
  for (int64_t m = 0; m < M; ++m) {
    const float *a = (const float *)activation + m * K;
    float *y = (float *)output + m * N;
    for (int32_t n = 0; n < N; n += SIDE_BY_SIDE) {
      const int8_t *w = (const int8_t *)weights + (int64_t)n * K;
      const int32_t rows = N - n < SIDE_BY_SIDE ? N - n : SIDE_BY_SIDE;
      float sums[SIDE_BY_SIDE];
      if (rows == SIDE_BY_SIDE) {
        weigh_rows(a, w, K, SIDE_BY_SIDE, sums);
      } else {
        weigh_rows(a, w, K, rows, sums);
      }
      for (int32_t j = 0; j < rows; ++j) y[n + j] = s[n + j] * sums[j];
    }
  }
  return 0;
}

int32_t c7x_sdpa_decode(const void *Q, const void *K_cache, const void *V_cache, const void *mask, void *output,
                        int32_t num_q_heads, int32_t num_kv_heads, int32_t head_dim, int32_t max_cache_len) {
  const float *bias = (const float *)mask;
  float weight[MAX_CACHE_LEN];
  float scale;
  if (Q == NULL || K_cache == NULL || V_cache == NULL || mask == NULL || output == NULL) return C7X_REFUSED;
  if (num_q_heads <= 0 || num_kv_heads <= 0 || num_q_heads % num_kv_heads != 0) return C7X_REFUSED;
  if (head_dim <= 0 || head_dim % 8 != 0 || head_dim > MAX_HEAD_DIM) return C7X_REFUSED;
  if (max_cache_len <= 0 || max_cache_len > MAX_CACHE_LEN) return C7X_REFUSED;
  scale = 1.0f / sqrtf((float)head_dim);
  for (int32_t head = 0; head < num_q_heads; ++head) {
    const int64_t cache = (int64_t)(head / (num_q_heads / num_kv_heads)) * max_cache_len * head_dim;
    const float *q = (const float *)Q + (int64_t)head * head_dim;
    const float *keys = (const float *)K_cache + cache;
    const float *values = (const float *)V_cache + cache;
    float *y = (float *)output + (int64_t)head * head_dim;
    float largest = -INFINITY;
    float total = 0.0f;
    for (int32_t t = 0; t < max_cache_len; ++t) {
      float dot = 0.0f;
      for (int32_t d = 0; d < head_dim; ++d) dot += q[d] * keys[(int64_t)t * head_dim + d];
      weight[t] = dot * scale + bias[t];
      largest = weight[t] > largest ? weight[t] : largest;
    }
    for (int32_t t = 0; t < max_cache_len; ++t) {
      weight[t] = c7x_expf(weight[t] - largest);
      total += weight[t];
    }
    for (int32_t d = 0; d < head_dim; ++d) y[d] = 0.0f;
    for (int32_t t = 0; t < max_cache_len; ++t) {
      const float share = weight[t] / total;
      for (int32_t d = 0; d < head_dim; ++d) y[d] += share * values[(int64_t)t * head_dim + d];
    }
  }
  return 0;
}

/* Whether element i comes before j: the larger value, NaN as the largest, then the lower index. */
static int before(const float *row, int32_t i, int32_t j) {
  const int nan_i = row[i] != row[i];
  const int nan_j = row[j] != row[j];
  if (nan_i != nan_j) return nan_i;
  if (!nan_i && row[i] != row[j]) return row[i] > row[j];
  return i < j;
}

/* Lets the element at `at` sink in a heap whose root comes last. */
static void sink(const float *row, int32_t *heap, int32_t size, int32_t at) {
  const int32_t moved = heap[at];
  for (int64_t child = 2 * (int64_t)at + 1; child < size; child = 2 * (int64_t)at + 1) {
    if (child + 1 < size && before(row, heap[child], heap[child + 1])) ++child;
    if (!before(row, moved, heap[child])) break;
    heap[at] = heap[child];
    at = (int32_t)child;
  }
  heap[at] = moved;
}

int32_t c7x_topk(const void *data, void *out_val, void *out_idx, int32_t batch, int32_t n, int32_t k) {
  int32_t *heap;
  if (data == NULL || out_val == NULL || out_idx == NULL || batch < 0 || k <= 0 || k > n) return C7X_REFUSED;
  heap = (int32_t *)TVMBackendAllocWorkspace(1, 0, (uint64_t)k * sizeof(int32_t), 0, 32);
  if (heap == NULL) return C7X_REFUSED;
  for (int64_t b = 0; b < batch; ++b) {
    const float *row = (const float *)data + b * n;
    float *values = (float *)out_val + b * k;
    int64_t *indices = (int64_t *)out_idx + b * k;
    for (int32_t i = 0; i < k; ++i) heap[i] = i;
    for (int32_t i = k / 2 - 1; i >= 0; --i) sink(row, heap, k, i);
    for (int32_t i = k; i < n; ++i) {
      if (before(row, i, heap[0])) {
        heap[0] = i;
        sink(row, heap, k, 0);
      }
    }
    for (int32_t i = k - 1; i >= 0; --i) {
      values[i] = row[heap[0]];
      indices[i] = heap[0];
      heap[0] = heap[i];
      sink(row, heap, i, 0);
    }
  }
  TVMBackendFreeWorkspace(1, 0, heap);
  return 0;
}
