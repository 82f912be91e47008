/* Elementary functions of float vectors in C7x code: only vectors, predicates and intrinsics that cl7x has as well.
 *
 * Reductions are those of Cody and Waite; polynomials are minimax fits of the kind in Cephes (Moshier). Worst errors
 * against the exact value, over the ranges that tests/integration/test_hostemu.py sweeps, stand at each function; NaN,
 * infinity and signed zero come out as C's libm gives them, except where a function says otherwise.
 */
#ifndef C7X_MATH_H
#define C7X_MATH_H

#include <c7x.h>
#include <c7x_scalable.h>

#include <limits>

namespace c7x_math {

typedef c7x::float_vec vec;
typedef c7x::int_vec ivec;
typedef c7x::uint_vec uvec;

/* C++14 has no hexadecimal floating point. */
constexpr float two_to(int n) { return n == 0 ? 1.0f : n > 0 ? 2.0f * two_to(n - 1) : 0.5f * two_to(n + 1); }

inline vec infinity() { return vec(std::numeric_limits<float>::infinity()); }
inline vec not_a_number() { return vec(std::numeric_limits<float>::quiet_NaN()); }
inline ivec bits(const vec& x) { return c7x::as_int_vec(x); }
inline vec of_bits(const ivec& x) { return c7x::as_float_vec(x); }

/* 2^n for n from -126 to 127. */
inline vec power_of_two(const ivec& n) { return of_bits((n + 127) << 23); }

/* sign of s on x >= 0 */
inline vec with_sign(const vec& x, const vec& s) { return of_bits(bits(x) | (bits(s) & ivec(std::numeric_limits<int32_t>::min()))); }

/* 1/x; below 2.5 ulp. Very small and very large operands are scaled so that the iteration stays among normal numbers. */
inline vec recip(const vec& x) {
  const vec a = __abs(x);
  const __vpred small = __cmp_lt_pred(a, vec(two_to(-100))), large = __cmp_gt_pred(a, vec(two_to(100)));
  const vec scale = __select(small, vec(two_to(64)), __select(large, vec(two_to(-64)), vec(1)));
  const vec y = x * scale;
  const vec seed = __recip(y);
  vec r = seed;
  r = r * (2.0f - y * r);
  r = r * (2.0f - y * r);
  /* Of zero and infinity the seed is the answer; the iteration makes NaN of it. */
  const __vpred special = __or(__cmp_eq_pred(y, vec(0)), __cmp_eq_pred(__abs(y), infinity()));
  return __select(special, seed, r) * scale;
}

/* 1/sqrt(x); below 3 ulp. */
inline vec rsqrt(const vec& x) {
  const __vpred small = __cmp_lt_pred(x, vec(two_to(-100)));
  const vec y = __select(small, x * two_to(64), x);
  const vec seed = __recip_sqrt(y);
  const vec half = y * 0.5f;
  vec r = seed;
  r = r * (1.5f - (half * r) * r);
  r = r * (1.5f - (half * r) * r);
  const __vpred special = __or(__cmp_eq_pred(y, vec(0)), __cmp_eq_pred(y, infinity()));
  return __select(special, seed, r) * __select(small, vec(two_to(32)), vec(1));
}

/* sqrt(x); below 1 ulp. */
inline vec sqrt(const vec& x) {
  const __vpred small = __cmp_lt_pred(x, vec(two_to(-100)));
  const vec y = __select(small, x * two_to(64), x);
  vec r = __recip_sqrt(y);
  const vec half = y * 0.5f;
  r = r * (1.5f - (half * r) * r);
  r = r * (1.5f - (half * r) * r);
  vec s = y * r;
  s = s + 0.5f * r * (y - s * s);
  s = s * __select(small, vec(two_to(-32)), vec(1));
  const __vpred special = __or(__cmp_eq_pred(x, vec(0)), __cmp_eq_pred(x, infinity()));
  return __select(special, x, s);
}

/* exp(x); below 1.5 ulp for results that are normal. */
inline vec exp(const vec& x) {
  const vec limited = __min(__max(x, vec(-110)), vec(90));
  const ivec n = __float_to_int(limited * 1.44269504088896341f);
  const vec k = __int_to_float(n);
  vec r = limited - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  vec p = vec(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  /* In two steps: 2^n alone may leave the range of normal numbers. */
  const ivec first = n >> 1;
  vec y = p * power_of_two(first) * power_of_two(n - first);
  y = __select(__cmp_gt_pred(x, vec(88.72284f)), infinity(), y);
  y = __select(__cmp_lt_pred(x, vec(-104.0f)), vec(0), y);
  return __select(__cmp_eq_pred(x, x), y, x);
}

/* x = (1 + m) * 2^k with 1 + m from sqrt(1/2) to sqrt(2), and rest = log(1 + m) - m. */
struct logarithm {
  vec m, k, rest;
};
inline logarithm reduce_log(const vec& x) {
  const __vpred small = __cmp_lt_pred(x, vec(two_to(-126)));
  const vec y = __select(small, x * two_to(23), x);
  ivec e = ((bits(y) >> 23) & 255) - 126;
  vec m = of_bits((bits(y) & 0x007FFFFF) | 0x3F000000);
  const __vpred low = __cmp_lt_pred(m, vec(0.707106781186547524f));
  e = __select(low, e - 1, e);
  m = __select(low, m + m, m) - 1.0f;
  const vec z = m * m;
  vec p = vec(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  logarithm l;
  l.m = m;
  l.k = __int_to_float(e) - __select(small, vec(23), vec(0));
  l.rest = p * m * z;
  return l;
}
/* What logarithms of zero, infinity, NaN and negative numbers are. */
inline vec finish_log(const vec& x, const vec& result) {
  vec r = __select(__cmp_eq_pred(x, infinity()), x, result);
  r = __select(__cmp_eq_pred(x, vec(0)), -infinity(), r);
  r = __select(__cmp_lt_pred(x, vec(0)), not_a_number(), r);
  return __select(__cmp_eq_pred(x, x), r, x);
}

/* log(x); below 1.5 ulp. */
inline vec log(const vec& x) {
  const logarithm l = reduce_log(x);
  vec r = l.rest + l.k * -2.12194440e-4f;
  r = r - 0.5f * (l.m * l.m);
  return finish_log(x, (l.m + r) + l.k * 0.693359375f);
}

/* log2(x); below 2 ulp. The factor log2(e) - 1 keeps the leading term exact. */
inline vec log2(const vec& x) {
  const logarithm l = reduce_log(x);
  const vec r = l.rest - 0.5f * (l.m * l.m);
  const float factor = 0.44269504088896340735992f;
  vec sum = r * factor + l.m * factor;
  sum = sum + r;
  sum = sum + l.m;
  return finish_log(x, sum + l.k);
}

/* log10(x); below 2 ulp. Both constants are split so that the products with k and the leading part are exact. */
inline vec log10(const vec& x) {
  const logarithm l = reduce_log(x);
  const vec r = l.rest - 0.5f * (l.m * l.m);
  vec sum = (l.m + r) * 7.00731903251827651129e-4f;
  sum = sum + l.k * 2.48745663981195213739e-4f;
  sum = sum + r * 4.3359375e-1f;
  sum = sum + l.m * 4.3359375e-1f;
  return finish_log(x, sum + l.k * 3.00781250e-1f);
}

/* sin(x + quadrants * pi/2), for |x| up to 8192; NaN beyond, where the reduction would lose its digits. */
inline vec sine_from(const vec& x, int quadrants) {
  const vec limited = __select(__cmp_le_pred(__abs(x), vec(8192)), x, vec(0));
  const ivec n = __float_to_int(limited * 0.636619772367581343f);
  const vec k = __int_to_float(n);
  /* pi/2 in pieces of eleven bits and less: their products with k are exact. */
  vec r = limited - k * 1.5703125f;
  r = r - k * 4.8351287841796875e-4f;
  r = r - k * 3.13855707645416259765625e-7f;
  r = r - k * 6.077100506506192e-11f;
  const vec z = r * r;
  vec s = vec(-1.9515295891e-4f);
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  vec c = vec(2.443315711809948e-5f);
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const ivec q = n + quadrants;
  const __vpred odd = __cmp_eq_pred(q & 1, ivec(1)), negative = __cmp_eq_pred(q & 2, ivec(2));
  const vec y = __select(odd, c, s);
  const vec signed_y = __select(negative, -y, y);
  return __select(__cmp_le_pred(__abs(x), vec(8192)), signed_y, not_a_number());
}
/* sin(x), cos(x); below 3 ulp for |x| up to 8192; where the result is below 0.1, the error is below 2^-24 instead. */
inline vec sin(const vec& x) { return __select(__cmp_eq_pred(x, vec(0)), x, sine_from(x, 0)); }
inline vec cos(const vec& x) { return sine_from(x, 1); }

/* tanh(x); below 3 ulp. */
inline vec tanh(const vec& x) {
  const vec a = __abs(x);
  const vec z = x * x;
  vec p = vec(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  p = p * z * x + x;
  const vec e = exp(a + a) + 1.0f;
  const vec tail = with_sign(1.0f - 2.0f * recip(e), x);
  const vec y = __select(__cmp_lt_pred(a, vec(0.625f)), p, tail);
  const __vpred itself = __or(__negate(__cmp_eq_pred(x, x)), __cmp_eq_pred(x, vec(0)));
  return __select(itself, x, y);
}

}  // namespace c7x_math

#endif
