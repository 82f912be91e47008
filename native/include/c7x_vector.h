/* Eight float lanes, written once for cl7x (`float8`), TI's and our host emulation of it, GCC and clang.
 *
 * The text of this file is copied into every lib0.c. C99 and C++14; every function is static, inline and may go unused.
 * Nothing here depends on fast-math: NaN, infinity and the sign of the order of operands keep their IEEE meaning.
 */
#ifndef C7X_VECTOR_H
#define C7X_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__C7000__)
#include <c7x.h>
#endif

#ifndef C7X_RESTRICT
#if defined(__GNUC__) || defined(__clang__)
#define C7X_RESTRICT __restrict
#elif defined(__cplusplus)
#define C7X_RESTRICT __restrict
#else
#define C7X_RESTRICT restrict
#endif
#endif

#ifndef C7X_ALIGNED
#define C7X_ALIGNED(n) __attribute__((aligned(n)))
#endif

#if defined(__GNUC__) || defined(__clang__)
#define C7X_INLINE static inline __attribute__((always_inline, unused))
#else
#define C7X_INLINE static inline
#endif

/* Marks a function around a hot loop. It is not inlined, so that the loops around it take no registers from it. With
 * C7X_CLONES (GCC, x86-64, a C library with indirect functions) it is compiled for AVX2 and FMA as well, and the program
 * picks when it starts; without, it is what -march says. */
#if defined(C7X_CLONES)
#define C7X_KERNEL __attribute__((noinline, target_clones("default", "arch=x86-64-v3")))
#elif defined(__GNUC__) || defined(__clang__)
#define C7X_KERNEL __attribute__((noinline))
#else
#define C7X_KERNEL
#endif

#if defined(__C7000__)

/* Vector conditions are predicates here, and lanes are reached through memory: an accessor is a member in cl7x and a
 * call in the host emulation, and a cast-style constructor means two different things. */
typedef float8 c7x_f32x8;
typedef int8 c7x_i32x8;

C7X_INLINE c7x_f32x8 c7x_load8(const float *p) { return *(const c7x_f32x8 *)p; }
C7X_INLINE void c7x_store8(float *p, c7x_f32x8 v) { *(c7x_f32x8 *)p = v; }

C7X_INLINE c7x_f32x8 c7x_splat8(float x) {
  float lanes[8];
  for (int32_t i = 0; i < 8; ++i) lanes[i] = x;
  return c7x_load8(lanes);
}

C7X_INLINE c7x_i32x8 c7x_splat8i(int32_t x) {
  int32_t lanes[8];
  for (int32_t i = 0; i < 8; ++i) lanes[i] = x;
  return *(const c7x_i32x8 *)lanes;
}

C7X_INLINE c7x_i32x8 c7x_bits8(c7x_f32x8 v) { return __as_int8(v); }
C7X_INLINE c7x_f32x8 c7x_from_bits8(c7x_i32x8 v) { return __as_float8(v); }

/* Lane by lane a < b ? x : y; a comparison with NaN is false. */
C7X_INLINE c7x_f32x8 c7x_select_lt8(c7x_f32x8 a, c7x_f32x8 b, c7x_f32x8 x, c7x_f32x8 y) {
  return __select(__cmp_lt_pred(a, b), x, y);
}

#else

/* Without AVX a 32-byte vector is passed in memory, which GCC and clang remark on; all users are inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Model inputs and outputs are aligned to their elements only, hence the four bytes. */
typedef int32_t c7x_i32x8 __attribute__((vector_size(32), aligned(4), may_alias));

C7X_INLINE c7x_i32x8 c7x_splat8i(int32_t x) {
  const c7x_i32x8 v = {x, x, x, x, x, x, x, x};
  return v;
}

#if defined(__GNUC__) && !defined(__clang__) && !defined(__AVX__) && !defined(C7X_CLONES)

/* GCC keeps vectors that are wider than the machine's registers in memory, which costs a factor of ten. A structure of two
 * halves it takes apart. Only floats: integer kernels have no long chains. */
#define C7X_HALVES 1
typedef float c7x_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t c7x_i32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef struct c7x_f32x8 {
  c7x_f32x4 lo, hi;
} c7x_f32x8;

C7X_INLINE c7x_f32x8 c7x_halves8(c7x_f32x4 lo, c7x_f32x4 hi) {
  c7x_f32x8 v;
  v.lo = lo;
  v.hi = hi;
  return v;
}

C7X_INLINE c7x_f32x8 c7x_load8(const float *p) { return c7x_halves8(*(const c7x_f32x4 *)p, *(const c7x_f32x4 *)(p + 4)); }
C7X_INLINE void c7x_store8(float *p, c7x_f32x8 v) {
  *(c7x_f32x4 *)p = v.lo;
  *(c7x_f32x4 *)(p + 4) = v.hi;
}

C7X_INLINE c7x_f32x8 c7x_splat8(float x) {
  const c7x_f32x4 half = {x, x, x, x};
  return c7x_halves8(half, half);
}
C7X_INLINE c7x_i32x8 c7x_bits8(c7x_f32x8 v) {
  c7x_i32x8 bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}
C7X_INLINE c7x_f32x8 c7x_from_bits8(c7x_i32x8 bits) {
  c7x_f32x8 v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

C7X_INLINE c7x_f32x8 c7x_add8(c7x_f32x8 a, c7x_f32x8 b) { return c7x_halves8(a.lo + b.lo, a.hi + b.hi); }
C7X_INLINE c7x_f32x8 c7x_sub8(c7x_f32x8 a, c7x_f32x8 b) { return c7x_halves8(a.lo - b.lo, a.hi - b.hi); }
C7X_INLINE c7x_f32x8 c7x_mul8(c7x_f32x8 a, c7x_f32x8 b) { return c7x_halves8(a.lo * b.lo, a.hi * b.hi); }
C7X_INLINE c7x_f32x8 c7x_div8(c7x_f32x8 a, c7x_f32x8 b) { return c7x_halves8(a.lo / b.lo, a.hi / b.hi); }
C7X_INLINE c7x_f32x8 c7x_fma8(c7x_f32x8 a, c7x_f32x8 b, c7x_f32x8 c) {
  return c7x_halves8(a.lo * b.lo + c.lo, a.hi * b.hi + c.hi);
}

C7X_INLINE c7x_f32x4 c7x_select_lt4(c7x_f32x4 a, c7x_f32x4 b, c7x_f32x4 x, c7x_f32x4 y) {
  const c7x_i32x4 less = (c7x_i32x4)(a < b);
  return (c7x_f32x4)((less & (c7x_i32x4)x) | (~less & (c7x_i32x4)y));
}
/* Lane by lane a < b ? x : y; a comparison with NaN is false. */
C7X_INLINE c7x_f32x8 c7x_select_lt8(c7x_f32x8 a, c7x_f32x8 b, c7x_f32x8 x, c7x_f32x8 y) {
  return c7x_halves8(c7x_select_lt4(a.lo, b.lo, x.lo, y.lo), c7x_select_lt4(a.hi, b.hi, x.hi, y.hi));
}

#else

typedef float c7x_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));

C7X_INLINE c7x_f32x8 c7x_load8(const float *p) { return *(const c7x_f32x8 *)p; }
C7X_INLINE void c7x_store8(float *p, c7x_f32x8 v) { *(c7x_f32x8 *)p = v; }

/* A macro, since GCC takes the body of a function apart for the baseline before it inlines it into a clone. */
#define c7x_splat8(x)                                                                            \
  __extension__({                                                                                \
    const float c7x_lane = (x);                                                                  \
    (c7x_f32x8){c7x_lane, c7x_lane, c7x_lane, c7x_lane, c7x_lane, c7x_lane, c7x_lane, c7x_lane}; \
  })

C7X_INLINE c7x_i32x8 c7x_bits8(c7x_f32x8 v) { return (c7x_i32x8)v; }
C7X_INLINE c7x_f32x8 c7x_from_bits8(c7x_i32x8 v) { return (c7x_f32x8)v; }

/* Lane by lane a < b ? x : y; a comparison with NaN is false. */
C7X_INLINE c7x_f32x8 c7x_select_lt8(c7x_f32x8 a, c7x_f32x8 b, c7x_f32x8 x, c7x_f32x8 y) {
  const c7x_i32x8 less = (c7x_i32x8)(a < b);
  return (c7x_f32x8)((less & (c7x_i32x8)x) | (~less & (c7x_i32x8)y));
}

#endif /* halves or whole vectors */
#endif /* DSP or host */

#if !defined(C7X_HALVES)
C7X_INLINE c7x_f32x8 c7x_add8(c7x_f32x8 a, c7x_f32x8 b) { return a + b; }
C7X_INLINE c7x_f32x8 c7x_sub8(c7x_f32x8 a, c7x_f32x8 b) { return a - b; }
C7X_INLINE c7x_f32x8 c7x_mul8(c7x_f32x8 a, c7x_f32x8 b) { return a * b; }
C7X_INLINE c7x_f32x8 c7x_div8(c7x_f32x8 a, c7x_f32x8 b) { return a / b; }
/* a * b + c: one rounding where the compiler may contract (-ffp-contract=fast), two elsewhere. */
C7X_INLINE c7x_f32x8 c7x_fma8(c7x_f32x8 a, c7x_f32x8 b, c7x_f32x8 c) { return a * b + c; }
#endif

/* The first n floats (0 <= n <= 8), the other lanes 0; nothing behind them is read. */
C7X_INLINE c7x_f32x8 c7x_load8_n(const float *p, int32_t n) {
  float lanes[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (int32_t i = 0; i < n; ++i) lanes[i] = p[i];
  return c7x_load8(lanes);
}

/* Writes the first n lanes (0 <= n <= 8) and nothing behind them. */
C7X_INLINE void c7x_store8_n(float *p, c7x_f32x8 v, int32_t n) {
  float lanes[8];
  c7x_store8(lanes, v);
  for (int32_t i = 0; i < n; ++i) p[i] = lanes[i];
}

/* The larger or smaller of two; a NaN in `x` is kept, a NaN in `bound` is not looked at. */
C7X_INLINE c7x_f32x8 c7x_max8(c7x_f32x8 x, c7x_f32x8 bound) { return c7x_select_lt8(x, bound, bound, x); }
C7X_INLINE c7x_f32x8 c7x_min8(c7x_f32x8 x, c7x_f32x8 bound) { return c7x_select_lt8(bound, x, bound, x); }

C7X_INLINE c7x_f32x8 c7x_relu8(c7x_f32x8 x) { return c7x_max8(x, c7x_splat8(0.0f)); }
C7X_INLINE c7x_f32x8 c7x_relu68(c7x_f32x8 x) { return c7x_min8(c7x_relu8(x), c7x_splat8(6.0f)); }

/* Sum of the lanes, as a tree. */
C7X_INLINE float c7x_hadd8(c7x_f32x8 v) {
  float t[8];
  c7x_store8(t, v);
  return ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
}

/* Largest lane; lanes that are NaN lose against any number. */
C7X_INLINE float c7x_hmax8(c7x_f32x8 v) {
  float t[8];
  float best;
  c7x_store8(t, v);
  best = t[0];
  for (int32_t i = 1; i < 8; ++i) best = t[i] > best || best != best ? t[i] : best;
  return best;
}

/* exp(x), about one unit in the last place; subnormal results, overflow to infinity, exp(-inf) = 0 and NaN as IEEE.
 *
 * x = n ln2 + r with |r| <= ln2/2; exp(r) by the degree-6 polynomial that interpolates it at Chebyshev's nodes (relative
 * error 1e-8); 2^n in two factors, since n reaches beyond the exponents of normal numbers on either side. */
C7X_INLINE c7x_f32x8 c7x_exp8(c7x_f32x8 x) {
  const c7x_f32x8 magic = c7x_splat8(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
  c7x_f32x8 t, n, r, p;
  c7x_i32x8 e, half;
  x = c7x_min8(c7x_max8(x, c7x_splat8(-106.0f)), c7x_splat8(90.0f));
  t = c7x_fma8(x, c7x_splat8(1.44269504f), magic);
  n = c7x_sub8(t, magic);
  r = c7x_fma8(n, c7x_splat8(-0.693359375f), x);
  r = c7x_fma8(n, c7x_splat8(2.12194440e-4f), r);
  p = c7x_splat8(0.0013941213f);
  p = c7x_fma8(p, r, c7x_splat8(0.00837521f));
  p = c7x_fma8(p, r, c7x_splat8(0.04166635f));
  p = c7x_fma8(p, r, c7x_splat8(0.16666414f));
  p = c7x_fma8(p, r, c7x_splat8(0.5f));
  p = c7x_fma8(p, r, c7x_splat8(1.0f));
  p = c7x_fma8(p, r, c7x_splat8(1.0f));
  e = c7x_bits8(t) - c7x_splat8i(0x4b400000);
  half = e >> 1;
  p = c7x_mul8(p, c7x_from_bits8((half + c7x_splat8i(127)) << 23));
  return c7x_mul8(p, c7x_from_bits8((e - half + c7x_splat8i(127)) << 23));
}

#endif /* C7X_VECTOR_H */
