/* Integer arithmetic of the quantised kernels, eight int32 lanes at a time: products of bytes and of 16-bit integers
 * added up exactly, and the way back from a sum to a quantised value.
 *
 * The text of this file is copied into a lib0.c that needs it, behind c7x_vector.h. Every helper computes the same bits
 * on every machine; where a processor has an instruction for it, GCC's and clang's name of that instruction is used, and
 * plain lanes otherwise. */
#ifndef C7X_INTEGER_H
#define C7X_INTEGER_H

/* None of these under __C7000__, where a host emulation may well be compiled for a processor that has them. */
#if defined(__has_builtin) && !defined(__C7000__)
#define C7X_HAS(name) __has_builtin(name)
#else
#define C7X_HAS(name) 0
#endif

/* The right shift of a negative number is the compiler's choice; the ratios below need the arithmetic one. */
typedef char c7x_shifts_keep_the_sign[((int32_t)-3 >> 1) == -2 && ((int64_t)-3 >> 1) == -2 ? 1 : -1];

C7X_INLINE c7x_i32x8 c7x_load8i(const int32_t *p) { return *(const c7x_i32x8 *)p; }
C7X_INLINE void c7x_store8i(int32_t *p, c7x_i32x8 v) { *(c7x_i32x8 *)p = v; }

/* Eight groups of four bytes, or of two 16-bit integers. */
C7X_INLINE c7x_i32x8 c7x_load32b(const void *p) {
  c7x_i32x8 v;
  memcpy(&v, p, 32);
  return v;
}

/* The group at p in all lanes. */
C7X_INLINE c7x_i32x8 c7x_splat4b(const void *p) {
  int32_t group;
  memcpy(&group, p, 4);
  return c7x_splat8i(group);
}

/* ---- AVX2 ----
 *
 * With C7X_CLONES (c7x_vector.h) a program built for every x86-64 picks when it starts. Functions that name instructions
 * cannot be cloned by the compiler, so the kernels hold a twin of each hot function, written with these. */

#if defined(__AVX2__) || defined(__C7000__)
#if C7X_HAS(__builtin_ia32_pmaddwd256) && C7X_HAS(__builtin_ia32_pmuldq256) && C7X_HAS(__builtin_ia32_packssdw128)
#define C7X_WITH_AVX2 C7X_INLINE
#endif
#elif defined(C7X_CLONES)
/* GCC, which knows these instructions but says so only where they are switched on. */
#define C7X_WITH_AVX2 static inline __attribute__((always_inline, unused, target("avx2")))
#define C7X_TWIN __attribute__((noinline, target("avx2")))
#define C7X_USE_TWIN (__builtin_cpu_supports("avx2") != 0)
#endif

/* Around a hot loop of integers: not inlined, so that the loops around it take no registers from it. */
#if defined(__GNUC__) || defined(__clang__)
#define C7X_HOT __attribute__((noinline))
#else
#define C7X_HOT
#endif

#if defined(C7X_WITH_AVX2)
typedef int16_t c7x_i16x16 __attribute__((vector_size(32)));

/* Not the plain helpers: GCC takes their bodies apart for the baseline before it inlines them here. */
C7X_WITH_AVX2 c7x_i32x8 c7x_splat8i_avx2(int32_t x) {
  const c7x_i32x8 v = {x, x, x, x, x, x, x, x};
  return v;
}
C7X_WITH_AVX2 c7x_i32x8 c7x_load8i_avx2(const int32_t *p) { return *(const c7x_i32x8 *)p; }
C7X_WITH_AVX2 c7x_i32x8 c7x_load32b_avx2(const void *p) {
  c7x_i32x8 v;
  memcpy(&v, p, 32);
  return v;
}
C7X_WITH_AVX2 c7x_i32x8 c7x_splat4b_avx2(const void *p) {
  int32_t group;
  memcpy(&group, p, 4);
  return c7x_splat8i_avx2(group);
}

C7X_WITH_AVX2 c7x_i32x8 c7x_madd_avx2(c7x_i32x8 x, c7x_i32x8 w) {
  return (c7x_i32x8)__builtin_ia32_pmaddwd256((c7x_i16x16)x, (c7x_i16x16)w);
}

C7X_WITH_AVX2 c7x_i32x8 c7x_dot2_avx2(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) { return sum + c7x_madd_avx2(x, w); }

C7X_WITH_AVX2 c7x_i32x8 c7x_dot4_avx2(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) {
  const c7x_i32x8 mask = c7x_splat8i_avx2(0x00ff00ff);
  const c7x_i32x8 odd = (c7x_i32x8)((c7x_i16x16)w >> 8);
  const c7x_i32x8 even = (c7x_i32x8)((c7x_i16x16)(w << 8) >> 8);
  return sum + c7x_madd_avx2(x & mask, even) + c7x_madd_avx2((x >> 8) & mask, odd);
}

C7X_WITH_AVX2 c7x_i32x8 c7x_mul16_avx2(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) {
  return sum + c7x_madd_avx2(x, w & c7x_splat8i_avx2(0x0000ffff));
}

C7X_WITH_AVX2 c7x_i32x8 c7x_widen8_avx2(const int8_t *p) {
#if C7X_HAS(__builtin_ia32_pmovsxbd256) || defined(C7X_USE_TWIN)
  typedef int64_t i64x2 __attribute__((vector_size(16)));
  typedef char bytes16 __attribute__((vector_size(16)));
  int64_t bits;
  memcpy(&bits, p, 8);
  return (c7x_i32x8)__builtin_ia32_pmovsxbd256((bytes16)(i64x2){bits, 0});
#else
  typedef int8_t bytes8 __attribute__((vector_size(8)));
  typedef int32_t words8 __attribute__((vector_size(32)));
  bytes8 v;
  memcpy(&v, p, 8);
  return (c7x_i32x8)__builtin_convertvector(v, words8);
#endif
}

C7X_WITH_AVX2 void c7x_narrow8_avx2(int8_t *p, c7x_i32x8 x) {
  typedef int32_t words4 __attribute__((vector_size(16)));
  typedef int16_t shorts8 __attribute__((vector_size(16)));
  typedef int64_t i64x2 __attribute__((vector_size(16)));
  words4 v[2];
  shorts8 half;
  int64_t bits;
  memcpy(v, &x, 32);
  half = (shorts8)__builtin_ia32_packssdw128(v[0], v[1]);
  bits = ((i64x2)__builtin_ia32_packsswb128(half, half))[0];
  memcpy(p, &bits, 8);
}

C7X_WITH_AVX2 c7x_i32x8 c7x_clamp8i_avx2(c7x_i32x8 v, int32_t low, int32_t high) {
  const c7x_i32x8 least = c7x_splat8i_avx2(low), most = c7x_splat8i_avx2(high);
  const c7x_i32x8 under = (c7x_i32x8)(v < least);
  const c7x_i32x8 raised = (least & under) | (v & ~under);
  const c7x_i32x8 over = (c7x_i32x8)(raised > most);
  return (most & over) | (raised & ~over);
}

C7X_WITH_AVX2 c7x_i32x8 c7x_requantize8_avx2(c7x_i32x8 sum, const int32_t *multiplier, const int32_t *shift) {
  typedef int64_t i64x4 __attribute__((vector_size(32)));
  typedef uint64_t u64x4 __attribute__((vector_size(32)));
  typedef int32_t i32x8 __attribute__((vector_size(32)));
  const i32x8 m = (i32x8)c7x_load8i_avx2(multiplier);
  const u64x4 s = (u64x4)c7x_load8i_avx2(shift);
  const u64x4 one = {1, 1, 1, 1};
  const u64x4 bit62 = one << 62;
  const u64x4 word = {UINT64_C(0xffffffff), UINT64_C(0xffffffff), UINT64_C(0xffffffff), UINT64_C(0xffffffff)};
  const u64x4 s_even = s & word, s_odd = s >> 32;
  /* 2^62 makes the number positive, so that a logical shift does; what it becomes is taken away again. */
  const u64x4 p_even = (u64x4)(i64x4)__builtin_ia32_pmuldq256((i32x8)sum, m);
  const u64x4 p_odd =
      (u64x4)(i64x4)__builtin_ia32_pmuldq256((i32x8)((u64x4)sum >> 32), (i32x8)((u64x4)m >> 32));
  const u64x4 even = ((p_even + (bit62 + (one << (s_even - one)))) >> s_even) - (bit62 >> s_even);
  const u64x4 odd = ((p_odd + (bit62 + (one << (s_odd - one)))) >> s_odd) - (bit62 >> s_odd);
  return (c7x_i32x8)((even & word) | (odd << 32));
}
#endif

/* ---- sums of products ---- */

/* Sums of the two products in every lane, over pairs of int16. */
C7X_INLINE c7x_i32x8 c7x_madd(c7x_i32x8 x, c7x_i32x8 w) {
#if defined(__AVX2__) && defined(C7X_WITH_AVX2)
  return c7x_madd_avx2(x, w);
#elif defined(__SSE2__) && C7X_HAS(__builtin_ia32_pmaddwd128)
  /* Through memory: compilers take a vector of 32 bytes apart anyway, and shuffles of it lane by lane. */
  typedef int16_t shorts8 __attribute__((vector_size(16)));
  shorts8 xs[2], ws[2], sums[2];
  c7x_i32x8 sum;
  memcpy(xs, &x, 32);
  memcpy(ws, &w, 32);
  sums[0] = (shorts8)__builtin_ia32_pmaddwd128(xs[0], ws[0]);
  sums[1] = (shorts8)__builtin_ia32_pmaddwd128(xs[1], ws[1]);
  memcpy(&sum, sums, 32);
  return sum;
#else
  return ((x << 16) >> 16) * ((w << 16) >> 16) + (x >> 16) * (w >> 16);
#endif
}

/* sum + x0 w0 + x1 w1 in every lane, over pairs of int16. */
C7X_INLINE c7x_i32x8 c7x_dot2(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) { return sum + c7x_madd(x, w); }

/* sum + x0 w0 + ... + x3 w3 in every lane, over groups of four: x without a sign, w with one. */
C7X_INLINE c7x_i32x8 c7x_dot4(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) && C7X_HAS(__builtin_ia32_vpdpbusd_v8si)
  return (c7x_i32x8)__builtin_ia32_vpdpbusd_v8si(sum, x, w);
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && C7X_HAS(__builtin_ia32_vpdpbusd256)
  return (c7x_i32x8)__builtin_ia32_vpdpbusd256(sum, x, w);
#elif defined(__AVX2__) && defined(C7X_WITH_AVX2)
  return c7x_dot4_avx2(sum, x, w);
#else
  const c7x_i32x8 low = x & c7x_splat8i(0x00ff00ff);
  const c7x_i32x8 high = (x >> 8) & c7x_splat8i(0x00ff00ff);
  /* Bytes 0 and 2, and bytes 1 and 3, as pairs of int16 with their signs. */
  const c7x_i32x8 even = (((w << 24) >> 24) & c7x_splat8i(0x0000ffff)) | (((w << 8) >> 24) << 16);
  const c7x_i32x8 odd = (((w << 16) >> 24) & c7x_splat8i(0x0000ffff)) | ((w >> 24) << 16);
  return sum + c7x_madd(low, even) + c7x_madd(high, odd);
#endif
}

/* sum + x * w in every lane, where x and w are within an int16. */
C7X_INLINE c7x_i32x8 c7x_mul16(c7x_i32x8 sum, c7x_i32x8 x, c7x_i32x8 w) {
#if defined(__SSE2__) && !defined(__C7000__)
  return sum + c7x_madd(x, w & c7x_splat8i(0x0000ffff));
#else
  return sum + x * w;
#endif
}

/* ---- lanes from and to bytes ---- */

/* Eight bytes with their signs. */
C7X_INLINE c7x_i32x8 c7x_widen8(const int8_t *p) {
#if defined(__AVX2__) && defined(C7X_WITH_AVX2)
  return c7x_widen8_avx2(p);
#else
  int32_t v[8];
  for (int32_t i = 0; i < 8; ++i) v[i] = p[i];
  return c7x_load8i(v);
#endif
}

/* The lanes, each within -128..127, as eight bytes. */
C7X_INLINE void c7x_narrow8(int8_t *p, c7x_i32x8 x) {
#if defined(__AVX512VL__) && C7X_HAS(__builtin_convertvector)
  typedef int8_t bytes8 __attribute__((vector_size(8)));
  typedef int32_t words8 __attribute__((vector_size(32)));
  const bytes8 v = __builtin_convertvector((words8)x, bytes8);
  memcpy(p, &v, 8);
#elif defined(__AVX2__) && defined(C7X_WITH_AVX2)
  c7x_narrow8_avx2(p, x);
#else
  int32_t v[8];
  c7x_store8i(v, x);
  for (int32_t i = 0; i < 8; ++i) p[i] = (int8_t)v[i];
#endif
}

C7X_INLINE int32_t c7x_clamp_i32(int32_t v, int32_t low, int32_t high) { return v < low ? low : (v > high ? high : v); }
C7X_INLINE int64_t c7x_clamp_i64(int64_t v, int64_t low, int64_t high) { return v < low ? low : (v > high ? high : v); }

C7X_INLINE c7x_i32x8 c7x_clamp8i(c7x_i32x8 v, int32_t low, int32_t high) {
#if defined(__AVX2__) && defined(C7X_WITH_AVX2)
  return c7x_clamp8i_avx2(v, low, high);
#else
  int32_t lanes[8];
  c7x_store8i(lanes, v);
  for (int32_t i = 0; i < 8; ++i) lanes[i] = c7x_clamp_i32(lanes[i], low, high);
  return c7x_load8i(lanes);
#endif
}

/* ---- requantisation ---- */

/* Floor of (sum * multiplier + half) / 2^shift, half = 2^(shift - 1): sum times a ratio, rounded, halves up.
 * 0 <= multiplier < 2^31, 1 <= shift <= 62. */
C7X_INLINE int64_t c7x_requantize(int32_t sum, int32_t multiplier, int32_t shift) {
  return ((int64_t)sum * multiplier + (INT64_C(1) << (shift - 1))) >> shift;
}

/* The same for a sum of up to 47 bits, 17 <= shift <= 62: the low 16 bits apart, since the product has too many. */
C7X_INLINE int64_t c7x_requantize64(int64_t sum, int32_t multiplier, int32_t shift) {
  const int64_t low = (sum & 0xffff) * multiplier + (INT64_C(1) << (shift - 1));
  return ((sum >> 16) * multiplier + (low >> 16)) >> (shift - 16);
}

/* c7x_requantize in eight lanes, each with its own ratio; 31 <= shift. */
C7X_INLINE c7x_i32x8 c7x_requantize8(c7x_i32x8 sum, const int32_t *multiplier, const int32_t *shift) {
#if defined(__AVX2__) && defined(C7X_WITH_AVX2)
  return c7x_requantize8_avx2(sum, multiplier, shift);
#else
  int32_t lanes[8];
  c7x_store8i(lanes, sum);
  for (int32_t i = 0; i < 8; ++i) lanes[i] = (int32_t)c7x_requantize(lanes[i], multiplier[i], shift[i]);
  return c7x_load8i(lanes);
#endif
}

#endif /* C7X_INTEGER_H */
