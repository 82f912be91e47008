/* Scalar arithmetic of generated kernels, defined for every operand: no undefined behaviour, no trap.
 *
 * The text of this file is copied into every lib0.c after c7x_vector.h. C99 and C++14; every function is static, inline
 * and may go unused. Suffixes name the type: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64. What PyTorch leaves to the platform
 * or answers with an exception is decided here:
 *   - integer add, sub, mul, neg and abs wrap; a shift by a negative count or by the width or more gives 0, or for a
 *     right shift of a signed value its sign fill;
 *   - an integer division or remainder by zero gives 0 (PyTorch raises, a DSP kernel cannot); MIN / -1 wraps to MIN;
 *   - a float converts to int32/int64 by truncation, saturating, NaN to 0; to a narrower integer by way of int32, and to
 *     uint32 by way of int64, keeping the low bits (so -1.0 becomes 255 as uint8); to uint64 saturating above, negative
 *     values by way of int64;
 *   - max and min hand on NaN from either side; float floor division and remainder follow Python's rules, as
 *     torch.floor_divide and torch.remainder do.
 * Nothing here may be compiled with -ffast-math or -ffinite-math-only.
 */
#ifndef C7X_SCALAR_H
#define C7X_SCALAR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef C7X_INLINE
#if defined(__GNUC__) || defined(__clang__)
#define C7X_INLINE static inline __attribute__((always_inline, unused))
#else
#define C7X_INLINE static inline
#endif
#endif

/* --- bits --- */

#define C7X_DEFINE_REINTERPRET(NAME, FROM, TO) \
  C7X_INLINE TO NAME(FROM x) {                 \
    TO y;                                      \
    memcpy(&y, &x, sizeof(y));                 \
    return y;                                  \
  }

C7X_DEFINE_REINTERPRET(c7x_f32_as_u32, float, uint32_t)
C7X_DEFINE_REINTERPRET(c7x_f32_as_i32, float, int32_t)
C7X_DEFINE_REINTERPRET(c7x_u32_as_f32, uint32_t, float)
C7X_DEFINE_REINTERPRET(c7x_i32_as_f32, int32_t, float)
C7X_DEFINE_REINTERPRET(c7x_f64_as_u64, double, uint64_t)
C7X_DEFINE_REINTERPRET(c7x_f64_as_i64, double, int64_t)
C7X_DEFINE_REINTERPRET(c7x_u64_as_f64, uint64_t, double)
C7X_DEFINE_REINTERPRET(c7x_i64_as_f64, int64_t, double)

C7X_INLINE int32_t c7x_popcount(uint64_t x) {
  x -= (x >> 1) & UINT64_C(0x5555555555555555);
  x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
  x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (int32_t)((x * UINT64_C(0x0101010101010101)) >> 56);
}

/* Leading zeros of the low `width` bits; `width` for 0. */
C7X_INLINE int32_t c7x_clz(uint64_t x, int32_t width) {
  int32_t bits;
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  x |= x >> 16;
  x |= x >> 32;
  bits = c7x_popcount(x);
  return width - bits;
}

/* --- integers: S suffix, T type, W the unsigned type the arithmetic is done in, B bits --- */

#define C7X_DEFINE_INTEGER(S, T, W, B)                                                                   \
  C7X_INLINE T c7x_add_##S(T a, T b) { return (T)((W)a + (W)b); }                                        \
  C7X_INLINE T c7x_sub_##S(T a, T b) { return (T)((W)a - (W)b); }                                        \
  C7X_INLINE T c7x_mul_##S(T a, T b) { return (T)((W)a * (W)b); }                                        \
  C7X_INLINE T c7x_max_##S(T a, T b) { return a > b ? a : b; }                                           \
  C7X_INLINE T c7x_min_##S(T a, T b) { return a < b ? a : b; }                                           \
  C7X_INLINE T c7x_shl_##S(T a, T n) { return (uint64_t)n < B ? (T)((W)a << n) : (T)0; }

#define C7X_DEFINE_SIGNED(S, T, W, B)                                                                    \
  C7X_DEFINE_INTEGER(S, T, W, B)                                                                         \
  C7X_INLINE T c7x_shr_##S(T a, T n) { return (T)(a >> ((uint64_t)n < B ? n : (T)(B - 1))); }            \
  C7X_INLINE T c7x_abs_##S(T a) { return a < 0 ? (T)((W)0 - (W)a) : a; }                                 \
  C7X_INLINE T c7x_div_##S(T a, T b) {                                                                   \
    const T d = (b == 0 || b == -1) ? (T)1 : b;                                                          \
    return b == 0 ? (T)0 : (b == -1 ? (T)((W)0 - (W)a) : (T)(a / d));                                    \
  }                                                                                                      \
  C7X_INLINE T c7x_mod_##S(T a, T b) {                                                                   \
    const T d = (b == 0 || b == -1) ? (T)1 : b;                                                          \
    return (T)(a % d);                                                                                   \
  }                                                                                                      \
  C7X_INLINE T c7x_floordiv_##S(T a, T b) {                                                              \
    const T q = c7x_div_##S(a, b);                                                                       \
    return (c7x_mod_##S(a, b) != 0 && (a < 0) != (b < 0)) ? (T)(q - 1) : q;                              \
  }                                                                                                      \
  C7X_INLINE T c7x_floormod_##S(T a, T b) {                                                              \
    const T r = c7x_mod_##S(a, b);                                                                       \
    return (r != 0 && (r < 0) != (b < 0)) ? (T)(r + b) : r;                                              \
  }

#define C7X_DEFINE_UNSIGNED(S, T, W, B)                                                                  \
  C7X_DEFINE_INTEGER(S, T, W, B)                                                                         \
  C7X_INLINE T c7x_shr_##S(T a, T n) { return (uint64_t)n < B ? (T)(a >> n) : (T)0; }                    \
  C7X_INLINE T c7x_abs_##S(T a) { return a; }                                                            \
  C7X_INLINE T c7x_div_##S(T a, T b) { return b == 0 ? (T)0 : (T)(a / (b == 0 ? (T)1 : b)); }            \
  C7X_INLINE T c7x_mod_##S(T a, T b) { return b == 0 ? (T)0 : (T)(a % (b == 0 ? (T)1 : b)); }            \
  C7X_INLINE T c7x_floordiv_##S(T a, T b) { return c7x_div_##S(a, b); }                                  \
  C7X_INLINE T c7x_floormod_##S(T a, T b) { return c7x_mod_##S(a, b); }

C7X_DEFINE_SIGNED(i8, int8_t, uint32_t, 8)
C7X_DEFINE_SIGNED(i16, int16_t, uint32_t, 16)
C7X_DEFINE_SIGNED(i32, int32_t, uint32_t, 32)
C7X_DEFINE_SIGNED(i64, int64_t, uint64_t, 64)
C7X_DEFINE_UNSIGNED(u8, uint8_t, uint32_t, 8)
C7X_DEFINE_UNSIGNED(u16, uint16_t, uint32_t, 16)
C7X_DEFINE_UNSIGNED(u32, uint32_t, uint32_t, 32)
C7X_DEFINE_UNSIGNED(u64, uint64_t, uint64_t, 64)

/* --- floats: S suffix, T type, F the suffix of the C library's functions --- */

#define C7X_DEFINE_FLOAT(S, T, F)                                                                        \
  C7X_INLINE int c7x_isnan_##S(T x) { return x != x; }                                                   \
  C7X_INLINE int c7x_isinf_##S(T x) { return x == (T)INFINITY || x == -(T)INFINITY; }                    \
  C7X_INLINE int c7x_isfinite_##S(T x) { return x - x == (T)0; }                                         \
  C7X_INLINE T c7x_max_##S(T a, T b) { return ((a > b) | (a != a)) ? a : b; }                            \
  C7X_INLINE T c7x_min_##S(T a, T b) { return ((a < b) | (a != a)) ? a : b; }                            \
  /* With a bound that is no NaN one comparison is enough. */                                            \
  C7X_INLINE T c7x_max_bound_##S(T x, T bound) { return bound > x ? bound : x; }                         \
  C7X_INLINE T c7x_min_bound_##S(T x, T bound) { return bound < x ? bound : x; }                         \
  C7X_INLINE T c7x_square_##S(T x) { return x * x; }                                                     \
  C7X_INLINE T c7x_cube_##S(T x) { return x * x * x; }                                                   \
  C7X_INLINE T c7x_rsqrt_##S(T x) { return (T)1 / sqrt##F(x); }                                          \
  C7X_INLINE T c7x_floormod_##S(T a, T b) {                                                              \
    const T r = fmod##F(a, b);                                                                           \
    return (r != (T)0 && (r < (T)0) != (b < (T)0)) ? r + b : r;                                          \
  }                                                                                                      \
  C7X_INLINE T c7x_floordiv_##S(T a, T b) {                                                              \
    const T r = fmod##F(a, b);                                                                           \
    T q = (a - r) / b;                                                                                   \
    T whole;                                                                                             \
    if (b == (T)0) return a / b;                                                                         \
    if (r != (T)0 && (r < (T)0) != (b < (T)0)) q -= (T)1;                                                \
    if (q == (T)0) return copysign##F((T)0, a / b);                                                      \
    whole = floor##F(q);                                                                                 \
    return q - whole > (T)0.5 ? whole + (T)1 : whole;                                                    \
  }                                                                                                      \
  C7X_INLINE int32_t c7x_##S##_to_i32(T x) {                                                             \
    return x >= (T)2147483648.0 ? INT32_MAX                                                              \
                                : (x >= (T)-2147483648.0 ? (int32_t)x : (x == x ? INT32_MIN : 0));       \
  }                                                                                                      \
  C7X_INLINE int64_t c7x_##S##_to_i64(T x) {                                                             \
    return x >= (T)9223372036854775808.0                                                                 \
               ? INT64_MAX                                                                               \
               : (x >= (T)-9223372036854775808.0 ? (int64_t)x : (x == x ? INT64_MIN : 0));               \
  }                                                                                                      \
  C7X_INLINE int8_t c7x_##S##_to_i8(T x) { return (int8_t)c7x_##S##_to_i32(x); }                         \
  C7X_INLINE int16_t c7x_##S##_to_i16(T x) { return (int16_t)c7x_##S##_to_i32(x); }                      \
  C7X_INLINE uint8_t c7x_##S##_to_u8(T x) { return (uint8_t)c7x_##S##_to_i32(x); }                       \
  C7X_INLINE uint16_t c7x_##S##_to_u16(T x) { return (uint16_t)c7x_##S##_to_i32(x); }                    \
  C7X_INLINE uint32_t c7x_##S##_to_u32(T x) { return (uint32_t)c7x_##S##_to_i64(x); }                    \
  C7X_INLINE uint64_t c7x_##S##_to_u64(T x) {                                                            \
    return x >= (T)18446744073709551616.0                                                                \
               ? UINT64_MAX                                                                              \
               : (x >= (T)9223372036854775808.0 ? (uint64_t)x : (uint64_t)c7x_##S##_to_i64(x));          \
  }

C7X_DEFINE_FLOAT(f32, float, f)
C7X_DEFINE_FLOAT(f64, double, )

/* --- float32 functions without a branch or a library call, so that a loop over them becomes vector code and gives the
 * same bits wherever floats are IEEE and products are not contracted. The coefficients are minimax fits of the quotients
 * named below; errors are measured over all of float32 by tests/integration/test_printer_run.py. --- */

/* e^x, at most 1 ulp: x = n ln2 + r, e^r = 1 + r + r^2 q(r) on |r| <= ln2/2. The scale 2^n goes in two factors, so that
 * results below 2^-126 are rounded once and those above FLT_MAX become infinity. */
C7X_INLINE float c7x_exp_f32(float x) {
  const float low = x < -104.0f ? -104.0f : x;
  const float in = low > 89.0f ? 89.0f : low;
  /* Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits. */
  const float shifted = in * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (in - n * 0.693145752f) - n * 1.42860677e-06f;
  const uint32_t k = c7x_f32_as_u32(shifted) - 0x4b400000u;
  const uint32_t half = ((k + 512u) >> 1) - 256u;
  const float scale0 = c7x_u32_as_f32((half + 127u) << 23);
  const float scale1 = c7x_u32_as_f32((k - half + 127u) << 23);
  float q = 0.00138144672f;
  q = q * r + 0.00836878084f;
  q = q * r + 0.0416683927f;
  q = q * r + 0.166665196f;
  q = q * r + 0.49999994f;
  return ((1.0f + (r + r * r * q)) * scale0) * scale1;
}

/* 1 / (1 + e^-x), at most 3 ulp; 0 below -88.7, as PyTorch. */
C7X_INLINE float c7x_sigmoid_f32(float x) { return 1.0f / (1.0f + c7x_exp_f32(-x)); }
C7X_INLINE double c7x_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }

/* tanh x, at most 2 ulp: x + x^3 p(x^2) below 0.625, 1 - 2 / (e^2x + 1) above. */
C7X_INLINE float c7x_tanh_f32(float x) {
  const uint32_t sign = c7x_f32_as_u32(x) & 0x80000000u;
  const float a = fabsf(x);
  const float z = x * x;
  const float far = 1.0f - 2.0f / (c7x_exp_f32(2.0f * a) + 1.0f);
  float p = -0.00570498733f;
  p = p * z + 0.020639088f;
  p = p * z - 0.0537397154f;
  p = p * z + 0.133314416f;
  p = p * z - 0.333332807f;
  p = a + a * (z * p);
  return c7x_u32_as_f32(c7x_f32_as_u32(a < 0.625f ? p : far) | sign);
}

/* erf x, at most 2 ulp: x + x p(x^2) below 1, 1 - e^q(x) above with q a fit of log erfc; 1 from 3.95 on. */
C7X_INLINE float c7x_erf_f32(float x) {
  const uint32_t sign = c7x_f32_as_u32(x) & 0x80000000u;
  const float a = fabsf(x);
  const float t = a > 3.95f ? 3.95f : a;
  const float z = t * t;
  float p = 7.85388402e-05f;
  float q = -2.16976077e-05f;
  p = p * z - 0.000801020127f;
  p = p * z + 0.00518832868f;
  p = p * z - 0.0268538129f;
  p = p * z + 0.112835854f;
  p = p * z - 0.37612626f;
  p = p * z + 0.128379167f;
  p = a + a * p;
  q = q * t + 0.00044147257f;
  q = q * t - 0.00420528417f;
  q = q * t + 0.0252103377f;
  q = q * t - 0.108422101f;
  q = q * t - 0.633216381f;
  q = q * t - 1.12958026f;
  q = q * t + 0.000188467646f;
  q = 1.0f - c7x_exp_f32(q);
  return c7x_u32_as_f32(c7x_f32_as_u32(a < 1.0f ? p : q) | sign);
}

#endif /* C7X_SCALAR_H */
