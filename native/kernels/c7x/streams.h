/* What the kernels of this folder share: words of the core's width from streams of bytes, and the arithmetic of
 * kernels.md 1.1 on them. C++14 for cl7x and for the host emulation. */
#ifndef C7X_STREAMS_H
#define C7X_STREAMS_H

#include <c7x.h>
#include <c7x_scalable.h>

#include <stdint.h>
#include <string.h>

#include "c7x_kernel_math.h"

/* Declares the reference definition of a kernel (reference_names.h). */
#define C7X_REFERENCE(kernel) extern "C" decltype(kernel) kernel##_reference

namespace c7x_streams {

typedef c7x::int_vec ivec;
typedef c7x::float_vec fvec;
typedef c7x::short_vec svec;
typedef c7x::char_vec cvec;

constexpr int32_t WORDS = c7x::element_count_of<ivec>::value;
constexpr int32_t HALVES = c7x::element_count_of<svec>::value;
constexpr int32_t BYTES = c7x::element_count_of<cvec>::value;

/* How many of n elements whole vectors cover; the reference takes the others, which is the board's rule for kernels
 * marked V (kernels.md 1.1). */
inline int32_t whole(int32_t n, int32_t lanes) { return n / lanes * lanes; }

/* A stream of n bytes, one dimension, promoted to the lanes of V with their sign. */
template <class V>
inline __SE_TEMPLATE_v1 bytes_as(int32_t n) {
  constexpr int size = static_cast<int>(sizeof(V)) / c7x::element_count_of<V>::value;
  __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
  se.ICNT0 = static_cast<uint32_t>(n);
  se.ELETYPE = __SE_ELETYPE_8BIT;
  se.VECLEN = c7x::se_veclen<V>::value;
  se.PROMOTE = size == 4 ? __SE_PROMOTE_4X_SIGNEXT : size == 2 ? __SE_PROMOTE_2X_SIGNEXT : __SE_PROMOTE_OFF;
  return se;
}

/* The same of elements that are V's own. */
template <class V>
inline __SE_TEMPLATE_v1 elements(int32_t n) {
  __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
  se.ICNT0 = static_cast<uint32_t>(n);
  se.ELETYPE = c7x::se_eletype<V>::value;
  se.VECLEN = c7x::se_veclen<V>::value;
  return se;
}

inline void store_low_bytes(int8_t* to, const ivec& v) { __vstore_pack_byte(reinterpret_cast<c7x::char_qvec_ptr>(to), v); }

inline ivec saturate8(const ivec& v) { return __min(__max(v, ivec(-128)), ivec(127)); }
inline fvec as_floats(const ivec& v) { return __int_to_float(v); }

/* out[i] = f(in[i]) for n bytes, a multiple of WORDS; f takes and gives words, the results are in the range of a byte.
 * The output may be the input: a stream only ever reads ahead of what is stored. */
template <class F>
inline void map_bytes(const int8_t* in, int8_t* out, int32_t n, F f) {
  if (n == 0) return;
  __SE0_OPEN(const_cast<int8_t*>(in), bytes_as<ivec>(n));
  for (int32_t i = 0; i < n; i += WORDS) store_low_bytes(out + i, f(c7x::strm_eng<0, ivec>::get_adv()));
  __SE0_CLOSE();
}

/* The sum of all lanes, which wraps. */
inline int32_t sum_of_lanes(const ivec& v) {
  int32_t lanes[WORDS];
  int32_t sum = 0;
  memcpy(lanes, &v, sizeof(lanes));
  for (int32_t i = 0; i < WORDS; ++i) sum += lanes[i];
  return sum;
}

/* Whether x * q + y * r stays below 2^30 for all |x|, |y| <= limit: a zero point still fits the word then. */
inline bool fit(int64_t limit, int64_t q, int64_t r = 0) {
  return limit * ((q < 0 ? -q : q) + (r < 0 ? -r : r)) < INT64_C(1) << 30;
}

/* asr(v, n) for n of any size from 0 on. */
inline ivec asr(const ivec& v, int32_t n) { return v >> (n < 31 ? n : 31); }

}  // namespace c7x_streams

#endif
