/* The numeric primitives of kernels.md 1.1, shared by the reference kernels. Private to native/kernels. */
#ifndef C7X_KERNEL_MATH_H
#define C7X_KERNEL_MATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>

/* c7x_vector.h first: it defines what c7x_scalar.h defines only where it is missing. */
#include "c7x_vector.h"

#include "c7x_scalar.h"

#ifdef __FAST_MATH__
#error "reference kernels are bit-exact: build them without -ffast-math, and with -ffp-contract=off"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "reference kernels need float arithmetic in float: build for a processor with IEEE float registers"
#endif

/* Kernels in C7x code take the place of the reference (c7x/reference_names.h). They have vectors, so the vector rule. */
#ifndef C7X_KERNELS_C7X
#define C7X_KERNELS_C7X 0
#endif
#if C7X_KERNELS_C7X && !defined(C7X_STREAMS_H)
#include "c7x/reference_names.h"
#endif

#ifndef C7X_KERNELS_VECTOR_RULE
#define C7X_KERNELS_VECTOR_RULE C7X_KERNELS_C7X
#endif

#define C7X_REFUSED (-1)

/* The right shift of a negative number is the compiler's choice; asr below needs the arithmetic one. */
typedef char c7x_shift_is_arithmetic[((int32_t)-3 >> 1) == -2 && ((int64_t)-3 >> 1) == -2 ? 1 : -1];

/* Floor of a / 2^n, n >= 0 of any size. */
C7X_INLINE int32_t c7x_asr32(int32_t a, int32_t n) { return a >> (n < 31 ? n : 31); }
C7X_INLINE int64_t c7x_asr64(int64_t a, int32_t n) { return a >> (n < 63 ? n : 63); }

C7X_INLINE int32_t c7x_sat8_i32(int32_t v) { return v < -128 ? -128 : (v > 127 ? 127 : v); }
C7X_INLINE int8_t c7x_sat8(int64_t v) { return (int8_t)(v < -128 ? -128 : (v > 127 ? 127 : v)); }
C7X_INLINE int16_t c7x_sat16(int64_t v) { return (int16_t)(v < -32768 ? -32768 : (v > 32767 ? 32767 : v)); }

C7X_INLINE float c7x_dq(int32_t x, int32_t zx, float sx) { return (float)((int64_t)x - zx) * sx; }

C7X_INLINE int8_t c7x_rq(float y, int32_t zy, float sy) {
  return c7x_sat8((int64_t)c7x_f32_to_i32(y / sy + 0.5f) + zy);
}

/* Nearest integer of a float in -128..127, halves to even: adding 1.5 * 2^23 leaves no bits for a fraction. */
C7X_INLINE int32_t c7x_rne_small(float v) { return (int32_t)((v + 12582912.0f) - 12582912.0f); }

/* Clamped to int8's range; NaN becomes 0. */
C7X_INLINE float c7x_clamp8(float v) {
  const float number = v == v ? v : 0.0f;
  const float low = number < -128.0f ? -128.0f : number;
  return low > 127.0f ? 127.0f : low;
}

C7X_INLINE int8_t c7x_round_even8(float v) { return (int8_t)c7x_rne_small(c7x_clamp8(v)); }

C7X_INLINE int8_t c7x_round_away8(float v) {
  const float small = c7x_clamp8(v);
  const int32_t whole = (int32_t)small;
  const float rest = small - (float)whole;
  return (int8_t)(whole + (rest >= 0.5f) - (rest <= -0.5f));
}

C7X_INLINE int8_t c7x_rq_vector(float y, int32_t zy, float sy) {
  return c7x_round_even8(y * (1.0f / sy) + (float)zy);
}

C7X_INLINE int32_t c7x_q13(float ratio) { return c7x_f32_to_i32(ratio * 8192.0f + 0.5f); }

/* asr(v * q, 13) for |v| < 2^40, in two parts since the product may need more than 64 bits. */
C7X_INLINE int64_t c7x_mul_q13(int64_t v, int32_t q) {
  const int64_t high = c7x_asr64(v, 13);
  return high * q + c7x_asr64((v - high * 8192) * q, 13);
}

/* Correctly rounded but for one case in some 10^8: double carries 29 bits more. */
C7X_INLINE float c7x_expf(float x) { return (float)exp((double)x); }
C7X_INLINE float c7x_erff(float x) { return (float)erf((double)x); }

C7X_INLINE float c7x_silu(float x) { return x / (1.0f + c7x_expf(-x)); }
C7X_INLINE float c7x_sigmoid(float x) { return 1.0f / (1.0f + c7x_expf(-x)); }

C7X_INLINE float c7x_exp_vector(float x) {
  const float t = x * 1.44269504090f;
  float k, f, square, value;
  if (!(t >= -28.5f)) return t == t ? 0.0f : t;
  if (t > 28.5f) return FLT_MAX;
  k = (t + 12582912.0f) - 12582912.0f;
  f = (t - k) * 0.693147181f;
  square = f * f;
  value = 1.0f + f + square * 0.5f + 0.1666667f * (square * f) + 0.0416667f * (square * square);
  return ldexpf(value, (int)k);
}

C7X_INLINE float c7x_reciprocal_vector(float x) {
  float r = c7x_u32_as_f32(c7x_f32_as_u32(1.0f / x) & 0xffff8000u);
  r = r * (2.0f - x * r);
  return r * (2.0f - x * r);
}

C7X_INLINE float c7x_silu_vector(float x) { return x * c7x_reciprocal_vector(1.0f + c7x_exp_vector(-x)); }

/* How many of n elements the vector rule covers. */
C7X_INLINE int32_t c7x_vector_part(int32_t n) { return C7X_KERNELS_VECTOR_RULE ? n / 8 * 8 : 0; }

/* A function of an int8 as a table, indexed by its byte. */
#define C7X_TABLE(table, x) ((table)[(uint8_t)(x)])

C7X_INLINE void c7x_map_table(const int8_t *in, int8_t *out, int64_t n, const int8_t *table) {
  for (int64_t i = 0; i < n; ++i) out[i] = C7X_TABLE(table, in[i]);
}

/* out = sat8(asr(x * q, 13) + offset). */
C7X_INLINE void c7x_map_q13(const int8_t *in, int8_t *out, int64_t n, int32_t q, int64_t offset) {
  if (q > -(1 << 23) && q < 1 << 23) {
    /* |x * q| < 2^30, so the first term is below 2^17: an offset beyond that saturates as well. */
    const int32_t near = (int32_t)(offset < -(1 << 20) ? -(1 << 20) : (offset > 1 << 20 ? 1 << 20 : offset));
    for (int64_t i = 0; i < n; ++i) out[i] = (int8_t)c7x_sat8_i32(c7x_asr32(in[i] * q, 13) + near);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = c7x_sat8(c7x_mul_q13(in[i], q) + offset);
  }
}

/* The Q13 map of an element, or a copy when the quantisation stays the same. */
C7X_INLINE void c7x_map_rescale(const int8_t *in, int8_t *out, int64_t n, int32_t zx, float sx, int32_t zy, float sy) {
  if (zx == zy && sx == sy) {
    if (n > 0) memmove(out, in, (size_t)n);
  } else {
    const int32_t q = c7x_q13(sx / sy);
    c7x_map_q13(in, out, n, q, zy - c7x_mul_q13(zx, q));
  }
}

#endif /* C7X_KERNEL_MATH_H */
