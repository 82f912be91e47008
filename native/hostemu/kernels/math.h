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
typedef c7x::double_vec dvec;

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
inline void reduce_log(const vec& x, vec& m, vec& k, vec& rest) {
  const __vpred small = __cmp_lt_pred(x, vec(two_to(-126)));
  const vec y = __select(small, x * two_to(23), x);
  ivec e = ((bits(y) >> 23) & 255) - 126;
  m = of_bits((bits(y) & 0x007FFFFF) | 0x3F000000);
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
  k = __int_to_float(e) - __select(small, vec(23), vec(0));
  rest = p * m * z;
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
  vec m, k, rest;
  reduce_log(x, m, k, rest);
  vec r = rest + k * -2.12194440e-4f;
  r = r - 0.5f * (m * m);
  return finish_log(x, (m + r) + k * 0.693359375f);
}

/* log2(x); below 2 ulp. The factor log2(e) - 1 keeps the leading term exact. */
inline vec log2(const vec& x) {
  vec m, k, rest;
  reduce_log(x, m, k, rest);
  const vec r = rest - 0.5f * (m * m);
  const float factor = 0.44269504088896340735992f;
  vec sum = r * factor + m * factor;
  sum = sum + r;
  sum = sum + m;
  return finish_log(x, sum + k);
}

/* log10(x); below 2 ulp. Both constants are split so that the products with k and the leading part are exact. */
inline vec log10(const vec& x) {
  vec m, k, rest;
  reduce_log(x, m, k, rest);
  const vec r = rest - 0.5f * (m * m);
  vec sum = (m + r) * 7.00731903251827651129e-4f;
  sum = sum + k * 2.48745663981195213739e-4f;
  sum = sum + r * 4.3359375e-1f;
  sum = sum + m * 4.3359375e-1f;
  return finish_log(x, sum + k * 3.00781250e-1f);
}

/* Beyond, the reduction would lose its digits. False for NaN. */
inline __vpred angle_in_range(const vec& x) { return __cmp_le_pred(__abs(x), vec(8192)); }

/* x = n * pi/2 + r with |r| up to pi/4, for an angle in range. (A structure of vectors would cost compilers registers.) */
inline void reduce_angle(const vec& x, ivec& n, vec& r) {
  const vec limited = __select(angle_in_range(x), x, vec(0));
  n = __float_to_int(limited * 0.636619772367581343f);
  const vec k = __int_to_float(n);
  /* pi/2 in pieces of eleven bits and less: their products with k are exact. */
  r = limited - k * 1.5703125f;
  r = r - k * 4.8351287841796875e-4f;
  r = r - k * 3.13855707645416259765625e-7f;
  r = r - k * 6.077100506506192e-11f;
}

/* sin(x + quadrants * pi/2); NaN where the angle is out of range. */
inline vec sine_from(const vec& x, int quadrants) {
  ivec n;
  vec r;
  reduce_angle(x, n, r);
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
  return __select(angle_in_range(x), signed_y, not_a_number());
}
/* sin(x), cos(x); below 3 ulp for |x| up to 8192; where the result is below 0.1, the error is below 2^-24 instead. */
inline vec sin(const vec& x) { return __select(__cmp_eq_pred(x, vec(0)), x, sine_from(x, 0)); }
inline vec cos(const vec& x) { return sine_from(x, 1); }

/* tan(x); below 5 ulp for |x| up to 8192; where the result is below 0.1, the error is below 2^-23 instead. */
inline vec tan(const vec& x) {
  ivec n;
  vec r;
  reduce_angle(x, n, r);
  const vec z = r * r;
  vec p = vec(9.395770748e-3f);
  p = p * z + 3.102694205e-3f;
  p = p * z + 2.444068608e-2f;
  p = p * z + 5.340838054e-2f;
  p = p * z + 1.333883371e-1f;
  p = p * z + 3.333315556e-1f;
  const vec t = p * z * r + r;
  const __vpred odd = __cmp_eq_pred(n & 1, ivec(1));
  const vec y = __select(odd, -recip(t), t);
  return __select(__cmp_eq_pred(x, vec(0)), x, __select(angle_in_range(x), y, not_a_number()));
}

/* asin(s) - s for s from 0 to 1/2, z = s * s. */
inline vec arcsine_rest(const vec& s, const vec& z) {
  vec p = vec(4.216646565e-2f);
  p = p * z + 2.417942816e-2f;
  p = p * z + 4.547039219e-2f;
  p = p * z + 7.495297525e-2f;
  p = p * z + 1.666675248e-1f;
  return p * z * s;
}

/* asin(x); below 3 ulp. From 1/2 on, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). NaN for |x| > 1. */
inline vec asin(const vec& x) {
  const vec a = __abs(x);
  const __vpred large = __cmp_gt_pred(a, vec(0.5f));
  const vec half = 0.5f * (1.0f - a);
  const vec z = __select(large, half, a * a), s = __select(large, sqrt(half), a);
  const vec rest = arcsine_rest(s, z);
  const vec folded = 1.57079632679489662f - 2.0f * (s + rest);
  return with_sign(__select(large, folded, s + rest), x);
}

/* acos(x); below 2.5 ulp. NaN for |x| > 1. */
inline vec acos(const vec& x) {
  const vec a = __abs(x);
  const __vpred large = __cmp_gt_pred(a, vec(0.5f)), negative = __cmp_lt_pred(x, vec(0));
  const vec half = 0.5f * (1.0f - a);
  const vec z = __select(large, half, a * a), s = __select(large, sqrt(half), x);
  const vec rest = arcsine_rest(s, z);
  const vec near_one = 2.0f * (s + rest);
  /* pi is not a float: what 3.14159274 has too much. */
  const vec near_minus_one = 3.14159265358979324f - (near_one + 8.74227766e-8f);
  const vec middle = 1.57079632679489662f - (s + (rest + 4.37113883e-8f));
  return __select(large, __select(negative, near_minus_one, near_one), middle);
}

/* atan(t) for t from 0 to 1. */
inline vec arctangent_below_one(const vec& t) {
  const __vpred large = __cmp_gt_pred(t, vec(0.414213562373095049f));
  const vec u = __select(large, (t - 1.0f) * recip(t + 1.0f), t);
  const vec z = u * u;
  vec p = vec(8.053705683e-2f);
  p = p * z - 1.387767381e-1f;
  p = p * z + 1.997770960e-1f;
  p = p * z - 3.333294913e-1f;
  const vec rest = p * z * u;
  return __select(large, 0.785398163397448310f + (u + (rest - 2.18556941e-8f)), u + rest);
}

/* atan(x); below 3.5 ulp. Above 1, atan(x) = pi/2 - atan(1/x). */
inline vec atan(const vec& x) {
  const vec a = __abs(x);
  const __vpred large = __cmp_gt_pred(a, vec(1));
  const vec p = arctangent_below_one(__select(large, recip(a), a));
  const vec y = __select(large, 1.57079632679489662f - (p + 4.37113883e-8f), p);
  return with_sign(y, x);
}

/* atan2(y, x), the angle of the point (x, y); below 5 ulp. */
inline vec atan2(const vec& y, const vec& x) {
  const vec a = __abs(y), b = __abs(x);
  const __vpred steep = __cmp_gt_pred(a, b);
  vec lower = __select(steep, b, a), upper = __select(steep, a, b);
  /* Infinities count as equal to each other and as larger than all else. */
  const __vpred infinite = __cmp_eq_pred(upper, infinity());
  lower = __select(infinite, __select(__cmp_eq_pred(lower, infinity()), vec(1), vec(0)), lower);
  upper = __select(infinite, vec(1), upper);
  /* The reciprocal of a very small number is not finite: both are made larger by the same factor. */
  const vec scale = __select(__cmp_lt_pred(upper, vec(two_to(-60))), vec(two_to(64)),
                             __select(__cmp_gt_pred(upper, vec(two_to(60))), vec(two_to(-64)), vec(1)));
  const vec ratio = (lower * scale) * recip(upper * scale);
  vec p = arctangent_below_one(__select(__cmp_eq_pred(upper, vec(0)), vec(0), ratio));
  p = __select(steep, 1.57079632679489662f - (p + 4.37113883e-8f), p);
  const __vpred left = __cmp_lt_pred(bits(x), ivec(0));
  p = __select(left, 3.14159265358979324f - (p + 8.74227766e-8f), p);
  const __vpred numbers = __and(__cmp_eq_pred(x, x), __cmp_eq_pred(y, y));
  return __select(numbers, with_sign(p, y), not_a_number());
}

/* y * log2(a) for a > 0, for one half of the lanes. Single precision would lose seven bits of it for large results. */
inline dvec power_exponent(const dvec& significand, const dvec& exponent, const dvec& y) {
  const dvec denominator = significand + 1.0;
  dvec r = __recip(denominator);
  r = r * (2.0 - denominator * r);
  r = r * (2.0 - denominator * r);
  r = r * (2.0 - denominator * r);
  const dvec s = (significand - 1.0) * r, z = s * s;
  dvec p = dvec(3.40749336961997384e-1);
  p = p * z + 4.11671724054834431e-1;
  p = p * z + 5.77083600769280336e-1;
  p = p * z + 9.61796673263015323e-1;
  p = p * z + 2.88539008179014944;
  const dvec t = y * (p * s + exponent);
  return __min(__max(t, dvec(-200)), dvec(200));
}

/* pow(x, y); below 1.5 ulp for results that are normal. 2^(y log2(x)), the logarithm in double precision. */
inline vec pow(const vec& x, const vec& y) {
  const vec a = __abs(x);
  const __vpred small = __cmp_lt_pred(a, vec(two_to(-126)));
  const vec scaled = __select(small, a * two_to(23), a);
  ivec e = (bits(scaled) >> 23) - 127;
  vec m = of_bits((bits(scaled) & 0x007FFFFF) | 0x3F800000);
  const __vpred high = __cmp_gt_pred(m, vec(1.41421356237309505f));
  m = __select(high, 0.5f * m, m);
  e = __select(high, e + 1, e) - __select(small, ivec(23), ivec(0));

  /* Even and odd lanes apart, since doubles are twice as wide; a float comes back in both words of its pair. */
  const dvec low = power_exponent(__low_float_to_double(m), __low_int_to_double(e), __low_float_to_double(y));
  const dvec upper = power_exponent(__high_float_to_double(m), __high_int_to_double(e), __high_float_to_double(y));
  const __vpred odd_lanes = __cmp_lt_pred(c7x::as_int_vec(c7x::ulong_vec(0xFFFFFFFF00000000u)), ivec(0));
  const ivec n = __select(odd_lanes, __double_to_int(upper), __double_to_int(low));
  const vec r = __select(odd_lanes, __double_to_float(upper - __high_int_to_double(n)),
                         __double_to_float(low - __low_int_to_double(n)));
  vec p = vec(1.535343309e-4f);
  p = p * r + 1.339887470e-3f;
  p = p * r + 9.618437145e-3f;
  p = p * r + 5.550332470e-2f;
  p = p * r + 2.402264792e-1f;
  p = p * r + 6.931472029e-1f;
  p = p * r + 1.0f;
  /* In two steps: 2^n alone may leave the range of normal numbers. */
  const ivec first = n >> 1;
  vec result = p * power_of_two(first) * power_of_two(n - first);

  /* C99, annex F.9.4.4. */
  const __vpred above_one = __cmp_gt_pred(a, vec(1)), below_one = __cmp_lt_pred(a, vec(1));
  const __vpred rising = __cmp_gt_pred(y, vec(0)), falling = __cmp_lt_pred(y, vec(0));
  const __vpred extreme = __or(__cmp_eq_pred(__abs(y), infinity()),
                               __or(__cmp_eq_pred(a, vec(0)), __cmp_eq_pred(a, infinity())));
  const __vpred grows = __or(__and(above_one, rising), __and(below_one, falling));
  result = __select(extreme, __select(grows, infinity(), vec(0)), result);
  const ivec whole = __float_to_int(y);
  const __vpred integral = __or(__cmp_eq_pred(__int_to_float(whole), y), __cmp_gt_pred(__abs(y), vec(two_to(23))));
  const __vpred odd = __and(__cmp_le_pred(__abs(y), vec(two_to(24))), __cmp_eq_pred(whole & 1, ivec(1)));
  const __vpred negative = __cmp_lt_pred(bits(x), ivec(0));
  result = __select(__and(negative, __and(integral, odd)), -result, result);
  const __vpred root_of_negative = __and(__cmp_lt_pred(x, vec(0)), __negate(integral));
  result = __select(__and(root_of_negative, __negate(extreme)), not_a_number(), result);
  const __vpred numbers = __and(__cmp_eq_pred(x, x), __cmp_eq_pred(y, y));
  result = __select(numbers, result, not_a_number());
  const __vpred one = __or(__cmp_eq_pred(x, vec(1)), __or(__cmp_eq_pred(y, vec(0)),
                           __and(__cmp_eq_pred(a, vec(1)), __cmp_eq_pred(__abs(y), infinity()))));
  return __select(one, vec(1), result);
}

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
