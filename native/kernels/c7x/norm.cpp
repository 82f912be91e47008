/* Layer norm and the softmax of a box-distribution head, kernels.md section 3, with streams and vectors. Sums of a row are
 * taken in integers, or by lanes, and quotients are products with a reciprocal: results are within one step of the output's
 * scale of the reference. Where that cannot be promised, the reference runs. */
#if C7X_KERNELS_C7X
#include "streams.h"

#include "c7x_kernels.h"
#include "c7x_platform.h"

using namespace c7x_streams;

C7X_REFERENCE(c7x_int8_layer_norm);
C7X_REFERENCE(c7x_int8_dfl_softmax);

namespace {

/* Scales and zero points that networks have. With an output scale far below the rounding errors of a float near 1, or an
 * input scale that takes sums out of its range, another order of operations is visible. */
bool ordinary(float sx, int32_t zy, float sy) {
  const float tiny = 1.0f / 65536.0f, huge = 65536.0f;
  return sx > tiny && sx < huge && sy > tiny && sy < huge && zy >= -128 && zy <= 127;
}

/* RQ(y), the scalar rule: sat8(trunc(y / sy + 0.5) + zy). NaN becomes zy. */
ivec requantize(const fvec& y, const fvec& inverse, const ivec& zy) {
  const fvec scaled = y * inverse + 0.5f;
  const fvec number = __select(__cmp_eq_pred(scaled, scaled), scaled, fvec(0));
  return saturate8(__float_to_int_rtz(__min(__max(number, fvec(-1024.0f)), fvec(1024.0f))) + zy);
}

/* exp(x) for x <= 0, the board's approximation (kernels.md 1.1). */
fvec exp_of_negative(const fvec& x) {
  const fvec t = x * 1.44269504090f;
  const fvec limited = __max(t, fvec(-28.0f));
  const ivec k = __float_to_int(limited);
  const fvec f = (limited - __int_to_float(k)) * 0.693147181f;
  const fvec square = f * f;
  const fvec value = 1.0f + f + square * 0.5f + 0.1666667f * (square * f) + 0.0416667f * (square * square);
  const fvec scaled = value * c7x::as_float_vec((k + 127) << 23);
  return __select(__cmp_lt_pred(t, fvec(-28.5f)), fvec(0), scaled);
}

fvec reciprocal(const fvec& x) {
  fvec r = __recip(x);
  r = r * (2.0f - x * r);
  return r * (2.0f - x * r);
}

const fvec* vector_at(const float* p) { return reinterpret_cast<const fvec*>(p); }

}  // namespace

int32_t c7x_int8_layer_norm(const void* in, const void* weight, const void* bias, void* out, int32_t outer, int32_t norm,
                            float eps, int32_t zx, float sx, int32_t zy, float sy) {
  const bool possible = in != nullptr && weight != nullptr && bias != nullptr && out != nullptr && outer > 0;
  /* Squares of a byte add up to 2^31 after 2^17 of them. */
  if (!possible || norm < WORDS || norm >= 1 << 17 || !ordinary(sx, zy, sy) || !(eps > 0.0f) ||
      static_cast<int64_t>(outer) * norm > INT32_MAX) {
    return c7x_int8_layer_norm_reference(in, weight, bias, out, outer, norm, eps, zx, sx, zy, sy);
  }
  const float* w = static_cast<const float*>(weight);
  const float* b = static_cast<const float*>(bias);
  const int32_t head = whole(norm, WORDS);
  /* Rows twice: for the sums, then for the results. The end of a row that fills no vector reads as zeros. */
  __SE_TEMPLATE_v1 se = bytes_as<ivec>(norm);
  se.DIMFMT = __SE_DIMFMT_3D;
  se.ICNT1 = 2;
  se.DIM1 = 0;
  se.ICNT2 = static_cast<uint32_t>(outer);
  se.DIM2 = norm;
  __SE0_OPEN(const_cast<void*>(in), se);
  for (int64_t row = 0; row < outer; ++row) {
    const int8_t* x = static_cast<const int8_t*>(in) + row * norm;
    int8_t* y = static_cast<int8_t*>(out) + row * norm;
    ivec sums(0), squares(0);
    for (int32_t i = 0; i < norm; i += WORDS) {
      const ivec v = c7x::strm_eng<0, ivec>::get_adv();
      sums = sums + v;
      squares = squares + v * v;
    }
    /* The zero point drops out. */
    const int64_t sum = sum_of_lanes(sums), square = sum_of_lanes(squares);
    const float n = static_cast<float>(norm);
    const float mean = static_cast<float>(sum) / n;
    const float variance = static_cast<float>(square * norm - sum * sum) / (n * n) * (sx * sx);
    const float factor = sx / sqrtf(variance + eps);
    const fvec centre(mean), by(factor), inverse(1.0f / sy);
    for (int32_t i = 0; i < head; i += WORDS) {
      const fvec v = (as_floats(c7x::strm_eng<0, ivec>::get_adv()) - centre) * by;
      store_low_bytes(y + i, requantize(v * *vector_at(w + i) + *vector_at(b + i), inverse, ivec(zy)));
    }
    for (int32_t i = head; i < norm; ++i) {
      y[i] = c7x_rq((static_cast<float>(x[i]) - mean) * factor * w[i] + b[i], zy, sy);
    }
    if (head < norm) c7x::strm_eng<0, ivec>::get_adv();
  }
  __SE0_CLOSE();
  return 0;
}

int32_t c7x_int8_dfl_softmax(const void* in, void* out, int32_t B, int32_t A, int32_t K, int32_t N, int32_t zx, float sx,
                             int32_t zy, float sy) {
  const bool possible = in != nullptr && out != nullptr && B > 0 && A > 0 && K > 0 && N > 0;
  const int64_t all = possible ? static_cast<int64_t>(B) * A : 0;
  if (!possible || N % WORDS != 0 || !ordinary(sx, zy, sy) || all > INT32_MAX || all * K > INT32_MAX / N) {
    return c7x_int8_dfl_softmax_reference(in, out, B, A, K, N, zx, sx, zy, sy);
  }
  /* As much as the firmware's kernel takes, so that memory runs out where it would there. */
  void* workspace = TVMBackendAllocWorkspace(
      1, 0, (UINT64_C(2) * static_cast<uint64_t>(N) + static_cast<uint64_t>(K) * static_cast<uint64_t>(N)) * sizeof(float), 2,
      32);
  if (workspace == nullptr) return C7X_REFUSED;
  float* power = static_cast<float*>(workspace);
  /* Columns of a vector, all k, twice: for the largest, then for the powers; vectors of a row; rows. */
  __SE_TEMPLATE_v1 se = bytes_as<ivec>(WORDS);
  se.DIMFMT = __SE_DIMFMT_5D;
  se.ICNT1 = static_cast<uint32_t>(K);
  se.DIM1 = N;
  se.ICNT2 = 2;
  se.DIM2 = 0;
  se.ICNT3 = static_cast<uint32_t>(N / WORDS);
  se.DIM3 = WORDS;
  se.ICNT4 = static_cast<uint32_t>(all);
  se.DIM4 = K * N;
  const fvec scale(sx), inverse(1.0f / sy);
  __SE0_OPEN(const_cast<void*>(in), se);
  for (int64_t ba = 0; ba < all; ++ba) {
    int8_t* y = static_cast<int8_t*>(out) + ((ba / A) * K * A + ba % A) * N;
    for (int32_t n = 0; n < N; n += WORDS) {
      ivec largest(-128);
      for (int32_t k = 0; k < K; ++k) largest = __max(largest, c7x::strm_eng<0, ivec>::get_adv());
      fvec total(0);
      for (int32_t k = 0; k < K; ++k) {
        const fvec p = exp_of_negative(as_floats(c7x::strm_eng<0, ivec>::get_adv() - largest) * scale);
        memcpy(power + static_cast<int64_t>(k) * WORDS, &p, sizeof(p));
        total = total + p;
      }
      const fvec share = reciprocal(total);
      for (int64_t k = 0; k < K; ++k) {
        store_low_bytes(y + k * A * N + n, requantize(*vector_at(power + k * WORDS) * share, inverse, ivec(zy)));
      }
    }
  }
  __SE0_CLOSE();
  TVMBackendFreeWorkspace(1, 0, workspace);
  return 0;
}

#endif /* C7X_KERNELS_C7X: without it, the reference is all there is. */
