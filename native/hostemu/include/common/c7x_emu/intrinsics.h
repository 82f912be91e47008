/* Written by tools/generate.py from intrinsics.toml; change that. */

#ifndef C7X_EMU_INTRINSICS_H
#define C7X_EMU_INTRINSICS_H

#include "bytes.h"
#include "lookup.h"
#include "fir.h"

/* __vstore_pred: Stores the bytes whose flag is set; the others are not touched. Scalars, complex and Boolean predicates too. */
template <class P, class V>
inline void __vstore_pred(const __vpred& p, P* to, const V& v) {
  static_assert(sizeof(V) <= __C7X_VEC_SIZE_BYTES__, "the vector is wider than the core's registers");
  c7x_emu::store_bytes(p, to, &v, static_cast<int>(sizeof(V)));
}
template <class P, class T, int N>
inline void __vstore_pred(const c7x_emu::vec<bool, N>& p, P* to, const c7x_emu::vec<T, N>& v) {
  c7x_emu::store_bytes(c7x_emu::scaled<T>(p), to, &v, static_cast<int>(sizeof(v)));
}

/* __select: Bytes of the first operand where the flag is set, of the second elsewhere. */
template <class T, int N>
inline c7x_emu::vec<T, N> __select(const __vpred& p, const c7x_emu::vec<T, N>& a, const typename c7x_emu::identity<c7x_emu::vec<T, N>>::type& b) {
  return c7x_emu::select(p, a, b);
}
template <class T, int N>
inline c7x_emu::cvec<T, N> __select(const __vpred& p, const c7x_emu::cvec<T, N>& a, const c7x_emu::cvec<T, N>& b) {
  return c7x_emu::select(p, a, b);
}
template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
inline T __select(const __vpred& p, T a, T b) { return c7x_emu::select(p, a, b); }
template <class T, int N>
inline c7x_emu::vec<T, N> __select(const c7x_emu::vec<bool, N>& p, const c7x_emu::vec<T, N>& a, const typename c7x_emu::identity<c7x_emu::vec<T, N>>::type& b) {
  return c7x_emu::select(c7x_emu::scaled<T>(p), a, b);
}

/* __expand: Bytes of ones where the flag is set, zeros elsewhere. */
inline c7x_emu::vec<int8_t, __C7X_VEC_SIZE_BYTES__> __expand(const __vpred& p) {
  c7x_emu::vec<int8_t, __C7X_VEC_SIZE_BYTES__> r;
  for (int i = 0; i < __C7X_VEC_SIZE_BYTES__; ++i) r.s[i] = p.m[i] ? -1 : 0;
  return r;
}

/* __cmp_lt_pred: Flags of the lanes where a < b; false for NaN. */
inline __vpred __cmp_lt_pred(int8_t a, int8_t b) { return c7x_emu::predicate_of_scalar<int8_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int8_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(uint8_t a, uint8_t b) { return c7x_emu::predicate_of_scalar<uint8_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint8_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(int16_t a, int16_t b) { return c7x_emu::predicate_of_scalar<int16_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int16_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(uint16_t a, uint16_t b) { return c7x_emu::predicate_of_scalar<uint16_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint16_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(int32_t a, int32_t b) { return c7x_emu::predicate_of_scalar<int32_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int32_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(uint32_t a, uint32_t b) { return c7x_emu::predicate_of_scalar<uint32_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint32_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(int64_t a, int64_t b) { return c7x_emu::predicate_of_scalar<int64_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int64_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(uint64_t a, uint64_t b) { return c7x_emu::predicate_of_scalar<uint64_t>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint64_t>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(float a, float b) { return c7x_emu::predicate_of_scalar<float>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<float>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<float>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_lt_pred(double a, double b) { return c7x_emu::predicate_of_scalar<double>(a < b); }
template <int N>
inline __vpred __cmp_lt_pred(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<double>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<double>::mask>(a.s[i] < b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}

/* __cmp_le_pred: Flags of the lanes where a <= b; false for NaN. */
inline __vpred __cmp_le_pred(int8_t a, int8_t b) { return c7x_emu::predicate_of_scalar<int8_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int8_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(uint8_t a, uint8_t b) { return c7x_emu::predicate_of_scalar<uint8_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint8_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(int16_t a, int16_t b) { return c7x_emu::predicate_of_scalar<int16_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int16_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(uint16_t a, uint16_t b) { return c7x_emu::predicate_of_scalar<uint16_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint16_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(int32_t a, int32_t b) { return c7x_emu::predicate_of_scalar<int32_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int32_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(uint32_t a, uint32_t b) { return c7x_emu::predicate_of_scalar<uint32_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint32_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(int64_t a, int64_t b) { return c7x_emu::predicate_of_scalar<int64_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int64_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(uint64_t a, uint64_t b) { return c7x_emu::predicate_of_scalar<uint64_t>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint64_t>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(float a, float b) { return c7x_emu::predicate_of_scalar<float>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<float>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<float>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_le_pred(double a, double b) { return c7x_emu::predicate_of_scalar<double>(a <= b); }
template <int N>
inline __vpred __cmp_le_pred(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<double>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<double>::mask>(a.s[i] <= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}

/* __cmp_eq_pred: Flags of the lanes where a == b; false for NaN. */
inline __vpred __cmp_eq_pred(int8_t a, int8_t b) { return c7x_emu::predicate_of_scalar<int8_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int8_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(uint8_t a, uint8_t b) { return c7x_emu::predicate_of_scalar<uint8_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint8_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(int16_t a, int16_t b) { return c7x_emu::predicate_of_scalar<int16_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int16_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(uint16_t a, uint16_t b) { return c7x_emu::predicate_of_scalar<uint16_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint16_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(int32_t a, int32_t b) { return c7x_emu::predicate_of_scalar<int32_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int32_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(uint32_t a, uint32_t b) { return c7x_emu::predicate_of_scalar<uint32_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint32_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(int64_t a, int64_t b) { return c7x_emu::predicate_of_scalar<int64_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int64_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(uint64_t a, uint64_t b) { return c7x_emu::predicate_of_scalar<uint64_t>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint64_t>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(float a, float b) { return c7x_emu::predicate_of_scalar<float>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<float>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<float>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_eq_pred(double a, double b) { return c7x_emu::predicate_of_scalar<double>(a == b); }
template <int N>
inline __vpred __cmp_eq_pred(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<double>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<double>::mask>(a.s[i] == b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}

/* __cmp_gt_pred: Flags of the lanes where a > b; false for NaN. */
inline __vpred __cmp_gt_pred(int8_t a, int8_t b) { return c7x_emu::predicate_of_scalar<int8_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int8_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(uint8_t a, uint8_t b) { return c7x_emu::predicate_of_scalar<uint8_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint8_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(int16_t a, int16_t b) { return c7x_emu::predicate_of_scalar<int16_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int16_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(uint16_t a, uint16_t b) { return c7x_emu::predicate_of_scalar<uint16_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint16_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(int32_t a, int32_t b) { return c7x_emu::predicate_of_scalar<int32_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int32_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(uint32_t a, uint32_t b) { return c7x_emu::predicate_of_scalar<uint32_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint32_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(int64_t a, int64_t b) { return c7x_emu::predicate_of_scalar<int64_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int64_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(uint64_t a, uint64_t b) { return c7x_emu::predicate_of_scalar<uint64_t>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint64_t>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(float a, float b) { return c7x_emu::predicate_of_scalar<float>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<float>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<float>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_gt_pred(double a, double b) { return c7x_emu::predicate_of_scalar<double>(a > b); }
template <int N>
inline __vpred __cmp_gt_pred(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<double>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<double>::mask>(a.s[i] > b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}

/* __cmp_ge_pred: Flags of the lanes where a >= b; false for NaN. */
inline __vpred __cmp_ge_pred(int8_t a, int8_t b) { return c7x_emu::predicate_of_scalar<int8_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int8_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(uint8_t a, uint8_t b) { return c7x_emu::predicate_of_scalar<uint8_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint8_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint8_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(int16_t a, int16_t b) { return c7x_emu::predicate_of_scalar<int16_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int16_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(uint16_t a, uint16_t b) { return c7x_emu::predicate_of_scalar<uint16_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint16_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint16_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(int32_t a, int32_t b) { return c7x_emu::predicate_of_scalar<int32_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int32_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(uint32_t a, uint32_t b) { return c7x_emu::predicate_of_scalar<uint32_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint32_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint32_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(int64_t a, int64_t b) { return c7x_emu::predicate_of_scalar<int64_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<int64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<int64_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(uint64_t a, uint64_t b) { return c7x_emu::predicate_of_scalar<uint64_t>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<uint64_t>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<uint64_t>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(float a, float b) { return c7x_emu::predicate_of_scalar<float>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<float>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<float>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}
inline __vpred __cmp_ge_pred(double a, double b) { return c7x_emu::predicate_of_scalar<double>(a >= b); }
template <int N>
inline __vpred __cmp_ge_pred(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<c7x_emu::lane_info<double>::mask, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = static_cast<c7x_emu::lane_info<double>::mask>(a.s[i] >= b.s[i] ? -1 : 0);
  return c7x_emu::predicate_of(r);
}

/* __mask_char: Flags of the first n bytes; none for n below one. */
inline __vpred __mask_char(int32_t n) { return __vpred::first(n); }

/* __mask_short: Flags of the first n lanes of 16 bits. */
inline __vpred __mask_short(int32_t n) { return __vpred::first(static_cast<int64_t>(n) * 2); }

/* __mask_int: Flags of the first n lanes of 32 bits. */
inline __vpred __mask_int(int32_t n) { return __vpred::first(static_cast<int64_t>(n) * 4); }

/* __mask_long: Flags of the first n lanes of 64 bits. */
inline __vpred __mask_long(int32_t n) { return __vpred::first(static_cast<int64_t>(n) * 8); }

/* _mvrp: A predicate from its bits, one a byte of the register. */
inline __vpred _mvrp(uint64_t bits) { return __vpred(bits); }

/* __negate: The flags, inverted. */
inline __vpred __negate(const __vpred& p) {
  __vpred r;
  for (int i = 0; i < __vpred::bytes; ++i) r.m[i] = static_cast<uint8_t>(~p.m[i]);
  return r;
}

/* __and (predicates): Flags that are set in both. */
inline __vpred __and(const __vpred& p, const __vpred& q) {
  __vpred r;
  for (int i = 0; i < __vpred::bytes; ++i) r.m[i] = p.m[i] & q.m[i];
  return r;
}

/* __or (predicates): Flags that are set in one or both. */
inline __vpred __or(const __vpred& p, const __vpred& q) {
  __vpred r;
  for (int i = 0; i < __vpred::bytes; ++i) r.m[i] = p.m[i] | q.m[i];
  return r;
}

/* __xor (predicates): Flags that are set in exactly one. */
inline __vpred __xor(const __vpred& p, const __vpred& q) {
  __vpred r;
  for (int i = 0; i < __vpred::bytes; ++i) r.m[i] = p.m[i] ^ q.m[i];
  return r;
}

/* __pdupl2b_pp: Every flag of the low half twice: flags 0, 0, 1, 1, 2, 2, ... */
inline __vpred __pdupl2b_pp(const __vpred& p) {
  __vpred r;
  for (int i = 0; i < __vpred::bytes; ++i) r.m[i] = p.m[i / 2];
  return r;
}

/* __abs: Absolute value; the smallest integer becomes the largest. */
inline int8_t __abs(int8_t a) { typedef int8_t T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<int8_t, N> __abs(const c7x_emu::vec<int8_t, N>& a) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(int8_t(a.s[i]));
  return r;
}
inline int16_t __abs(int16_t a) { typedef int16_t T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<int16_t, N> __abs(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(int16_t(a.s[i]));
  return r;
}
inline int32_t __abs(int32_t a) { typedef int32_t T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<int32_t, N> __abs(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(int32_t(a.s[i]));
  return r;
}
inline int64_t __abs(int64_t a) { typedef int64_t T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<int64_t, N> __abs(const c7x_emu::vec<int64_t, N>& a) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(int64_t(a.s[i]));
  return r;
}
inline float __abs(float a) { typedef float T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<float, N> __abs(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(float(a.s[i]));
  return r;
}
inline double __abs(double a) { typedef double T; return c7x_emu::absolute(a, std::integral_constant<bool, std::is_integral<T>::value>()); }
template <int N>
inline c7x_emu::vec<double, N> __abs(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<double, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs(double(a.s[i]));
  return r;
}

/* __max: a where a > b, else b: the second operand when a lane is NaN. */
inline int8_t __max(int8_t a, int8_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<int8_t, N> __max(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __max(uint8_t a, uint8_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<uint8_t, N> __max(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __max(int16_t a, int16_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<int16_t, N> __max(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __max(uint16_t a, uint16_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<uint16_t, N> __max(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __max(int32_t a, int32_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<int32_t, N> __max(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __max(uint32_t a, uint32_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<uint32_t, N> __max(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __max(int64_t a, int64_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<int64_t, N> __max(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __max(uint64_t a, uint64_t b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<uint64_t, N> __max(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}
inline float __max(float a, float b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<float, N> __max(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(float(a.s[i]), float(b.s[i]));
  return r;
}
inline double __max(double a, double b) { return a > b ? a : b; }
template <int N>
inline c7x_emu::vec<double, N> __max(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<double, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __max(double(a.s[i]), double(b.s[i]));
  return r;
}

/* __min: a where a < b, else b: the second operand when a lane is NaN. */
inline int8_t __min(int8_t a, int8_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<int8_t, N> __min(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __min(uint8_t a, uint8_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<uint8_t, N> __min(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __min(int16_t a, int16_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<int16_t, N> __min(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __min(uint16_t a, uint16_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<uint16_t, N> __min(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __min(int32_t a, int32_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<int32_t, N> __min(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __min(uint32_t a, uint32_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<uint32_t, N> __min(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __min(int64_t a, int64_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<int64_t, N> __min(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __min(uint64_t a, uint64_t b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<uint64_t, N> __min(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}
inline float __min(float a, float b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<float, N> __min(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(float(a.s[i]), float(b.s[i]));
  return r;
}
inline double __min(double a, double b) { return a < b ? a : b; }
template <int N>
inline c7x_emu::vec<double, N> __min(const c7x_emu::vec<double, N>& a, const typename c7x_emu::identity<c7x_emu::vec<double, N>>::type& b) {
  c7x_emu::vec<double, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __min(double(a.s[i]), double(b.s[i]));
  return r;
}

/* __add_sat: Sum, brought into the range of the type. */
inline int8_t __add_sat(int8_t a, int8_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int8_t, N> __add_sat(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __add_sat(uint8_t a, uint8_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __add_sat(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __add_sat(int16_t a, int16_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int16_t, N> __add_sat(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __add_sat(uint16_t a, uint16_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __add_sat(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __add_sat(int32_t a, int32_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int32_t, N> __add_sat(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __add_sat(uint32_t a, uint32_t b) { return c7x_emu::add_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __add_sat(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __add_sat(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}

/* __sub_sat: Difference a - b, brought into the range of the type. */
inline int8_t __sub_sat(int8_t a, int8_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int8_t, N> __sub_sat(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __sub_sat(uint8_t a, uint8_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __sub_sat(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __sub_sat(int16_t a, int16_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int16_t, N> __sub_sat(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __sub_sat(uint16_t a, uint16_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __sub_sat(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __sub_sat(int32_t a, int32_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<int32_t, N> __sub_sat(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __sub_sat(uint32_t a, uint32_t b) { return c7x_emu::subtract_saturating(a, b); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __sub_sat(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __sub_sat(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}

/* __vaddw_vvv: Sum that wraps. */
inline int32_t __vaddw_vvv(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
template <int N>
inline c7x_emu::vec<int32_t, N> __vaddw_vvv(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vaddw_vvv(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}

/* __vaddsp_vvv: Sum. */
inline float __vaddsp_vvv(float a, float b) { return a + b; }
template <int N>
inline c7x_emu::vec<float, N> __vaddsp_vvv(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vaddsp_vvv(float(a.s[i]), float(b.s[i]));
  return r;
}

/* __popcount_char: Number of ones in every lane of 8 bits. */
inline int8_t __popcount_char(int8_t a) { typedef int8_t T; return static_cast<T>(__builtin_popcount(static_cast<uint8_t>(a))); }
template <int N>
inline c7x_emu::vec<int8_t, N> __popcount_char(const c7x_emu::vec<int8_t, N>& a) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_char(int8_t(a.s[i]));
  return r;
}
inline uint8_t __popcount_char(uint8_t a) { typedef uint8_t T; return static_cast<T>(__builtin_popcount(static_cast<uint8_t>(a))); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __popcount_char(const c7x_emu::vec<uint8_t, N>& a) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_char(uint8_t(a.s[i]));
  return r;
}

/* __popcount_short: Number of ones in every lane of 16 bits. */
inline int16_t __popcount_short(int16_t a) { typedef int16_t T; return static_cast<T>(__builtin_popcount(static_cast<uint16_t>(a))); }
template <int N>
inline c7x_emu::vec<int16_t, N> __popcount_short(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_short(int16_t(a.s[i]));
  return r;
}
inline uint16_t __popcount_short(uint16_t a) { typedef uint16_t T; return static_cast<T>(__builtin_popcount(static_cast<uint16_t>(a))); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __popcount_short(const c7x_emu::vec<uint16_t, N>& a) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_short(uint16_t(a.s[i]));
  return r;
}

/* __popcount_int: Number of ones in every lane of 32 bits. */
inline int32_t __popcount_int(int32_t a) { typedef int32_t T; return static_cast<T>(__builtin_popcount(static_cast<uint32_t>(a))); }
template <int N>
inline c7x_emu::vec<int32_t, N> __popcount_int(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_int(int32_t(a.s[i]));
  return r;
}
inline uint32_t __popcount_int(uint32_t a) { typedef uint32_t T; return static_cast<T>(__builtin_popcount(static_cast<uint32_t>(a))); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __popcount_int(const c7x_emu::vec<uint32_t, N>& a) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __popcount_int(uint32_t(a.s[i]));
  return r;
}

/* __leftmost_bit_detect_one: Number of zeros in front of the first one; 32 without a one. */
inline int32_t __leftmost_bit_detect_one(int32_t a) { typedef int32_t T; return static_cast<T>(a == T(0) ? 32 : __builtin_clz(static_cast<uint32_t>(a))); }
template <int N>
inline c7x_emu::vec<int32_t, N> __leftmost_bit_detect_one(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __leftmost_bit_detect_one(int32_t(a.s[i]));
  return r;
}
inline uint32_t __leftmost_bit_detect_one(uint32_t a) { typedef uint32_t T; return static_cast<T>(a == T(0) ? 32 : __builtin_clz(static_cast<uint32_t>(a))); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __leftmost_bit_detect_one(const c7x_emu::vec<uint32_t, N>& a) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __leftmost_bit_detect_one(uint32_t(a.s[i]));
  return r;
}

/* __and: Bitwise and. */
inline int8_t __and(int8_t a, int8_t b) { typedef int8_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<int8_t, N> __and(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __and(uint8_t a, uint8_t b) { typedef uint8_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __and(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __and(int16_t a, int16_t b) { typedef int16_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<int16_t, N> __and(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __and(uint16_t a, uint16_t b) { typedef uint16_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __and(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __and(int32_t a, int32_t b) { typedef int32_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<int32_t, N> __and(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __and(uint32_t a, uint32_t b) { typedef uint32_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __and(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __and(int64_t a, int64_t b) { typedef int64_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<int64_t, N> __and(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __and(uint64_t a, uint64_t b) { typedef uint64_t T; return static_cast<T>(a & b); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __and(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __and(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __or: Bitwise or. */
inline int8_t __or(int8_t a, int8_t b) { typedef int8_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<int8_t, N> __or(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __or(uint8_t a, uint8_t b) { typedef uint8_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __or(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __or(int16_t a, int16_t b) { typedef int16_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<int16_t, N> __or(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __or(uint16_t a, uint16_t b) { typedef uint16_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __or(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __or(int32_t a, int32_t b) { typedef int32_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<int32_t, N> __or(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __or(uint32_t a, uint32_t b) { typedef uint32_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __or(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __or(int64_t a, int64_t b) { typedef int64_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<int64_t, N> __or(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __or(uint64_t a, uint64_t b) { typedef uint64_t T; return static_cast<T>(a | b); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __or(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __or(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __xor: Bitwise exclusive or. */
inline int8_t __xor(int8_t a, int8_t b) { typedef int8_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<int8_t, N> __xor(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __xor(uint8_t a, uint8_t b) { typedef uint8_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __xor(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __xor(int16_t a, int16_t b) { typedef int16_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<int16_t, N> __xor(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __xor(uint16_t a, uint16_t b) { typedef uint16_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __xor(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __xor(int32_t a, int32_t b) { typedef int32_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<int32_t, N> __xor(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __xor(uint32_t a, uint32_t b) { typedef uint32_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __xor(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __xor(int64_t a, int64_t b) { typedef int64_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<int64_t, N> __xor(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __xor(uint64_t a, uint64_t b) { typedef uint64_t T; return static_cast<T>(a ^ b); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __xor(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __xor(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __vxorw_vvv: Bitwise exclusive or of words. */
inline int32_t __vxorw_vvv(int32_t a, int32_t b) { return a ^ b; }
template <int N>
inline c7x_emu::vec<int32_t, N> __vxorw_vvv(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vxorw_vvv(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}

/* __shift_left: a shifted left by b; zero when b is the width or more, or negative. */
inline int8_t __shift_left(int8_t a, int8_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int8_t, N> __shift_left(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __shift_left(uint8_t a, uint8_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __shift_left(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __shift_left(int16_t a, int16_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int16_t, N> __shift_left(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __shift_left(uint16_t a, uint16_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __shift_left(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __shift_left(int32_t a, int32_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int32_t, N> __shift_left(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __shift_left(uint32_t a, uint32_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __shift_left(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __shift_left(int64_t a, int64_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int64_t, N> __shift_left(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __shift_left(uint64_t a, uint64_t b) { return c7x_emu::shift_left(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __shift_left(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_left(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __shift_right: a shifted right by b, arithmetic for signed types; sign or zeros only when b is the width or more, or negative. */
inline int8_t __shift_right(int8_t a, int8_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int8_t, N> __shift_right(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(int8_t(a.s[i]), int8_t(b.s[i]));
  return r;
}
inline uint8_t __shift_right(uint8_t a, uint8_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __shift_right(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline int16_t __shift_right(int16_t a, int16_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int16_t, N> __shift_right(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(int16_t(a.s[i]), int16_t(b.s[i]));
  return r;
}
inline uint16_t __shift_right(uint16_t a, uint16_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __shift_right(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline int32_t __shift_right(int32_t a, int32_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int32_t, N> __shift_right(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __shift_right(uint32_t a, uint32_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __shift_right(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __shift_right(int64_t a, int64_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int64_t, N> __shift_right(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __shift_right(uint64_t a, uint64_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __shift_right(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __vshrw_vvv: As __shift_right of int. */
inline int32_t __vshrw_vvv(int32_t a, int32_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int32_t, N> __vshrw_vvv(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vshrw_vvv(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}

/* __shift_right_full: As __shift_right. */
inline int32_t __shift_right_full(int32_t a, int32_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int32_t, N> __shift_right_full(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right_full(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}
inline uint32_t __shift_right_full(uint32_t a, uint32_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __shift_right_full(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right_full(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}
inline int64_t __shift_right_full(int64_t a, int64_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<int64_t, N> __shift_right_full(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  c7x_emu::vec<int64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right_full(int64_t(a.s[i]), int64_t(b.s[i]));
  return r;
}
inline uint64_t __shift_right_full(uint64_t a, uint64_t b) { return c7x_emu::shift_right(a, b, std::true_type()); }
template <int N>
inline c7x_emu::vec<uint64_t, N> __shift_right_full(const c7x_emu::vec<uint64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& b) {
  c7x_emu::vec<uint64_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __shift_right_full(uint64_t(a.s[i]), uint64_t(b.s[i]));
  return r;
}

/* __int_to_float: To the nearest float, halves to even. */
inline float __int_to_float(int32_t a) { return static_cast<float>(a); }
template <int N>
inline c7x_emu::vec<float, N> __int_to_float(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __int_to_float(int32_t(a.s[i]));
  return r;
}
inline float __int_to_float(uint32_t a) { return static_cast<float>(a); }
template <int N>
inline c7x_emu::vec<float, N> __int_to_float(const c7x_emu::vec<uint32_t, N>& a) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __int_to_float(uint32_t(a.s[i]));
  return r;
}

/* __float_to_int: To the nearest integer, halves to even; saturates; NaN goes to the end its sign bit points to. */
inline int32_t __float_to_int(float a) { return c7x_emu::round_lane<int32_t>(a); }
template <int N>
inline c7x_emu::vec<int32_t, N> __float_to_int(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __float_to_int(float(a.s[i]));
  return r;
}

/* __float_to_int_rtz: Cuts the fraction off; saturates; NaN as in __float_to_int. */
inline int32_t __float_to_int_rtz(float a) { return c7x_emu::convert_lane<int32_t>(a); }
template <int N>
inline c7x_emu::vec<int32_t, N> __float_to_int_rtz(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __float_to_int_rtz(float(a.s[i]));
  return r;
}

/* __low_int_to_double: Doubles of the even lanes. */
template <int N>
inline c7x_emu::vec<double, N / 2> __low_int_to_double(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<double, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<double>(a.s[2 * i]);
  return r;
}

/* __high_int_to_double: Doubles of the odd lanes. */
template <int N>
inline c7x_emu::vec<double, N / 2> __high_int_to_double(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<double, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<double>(a.s[2 * i + 1]);
  return r;
}

/* __low_float_to_double: Doubles of the even lanes. */
template <int N>
inline c7x_emu::vec<double, N / 2> __low_float_to_double(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<double, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<double>(a.s[2 * i]);
  return r;
}

/* __high_float_to_double: Doubles of the odd lanes. */
template <int N>
inline c7x_emu::vec<double, N / 2> __high_float_to_double(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<double, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<double>(a.s[2 * i + 1]);
  return r;
}

/* __double_to_float: Floats, each in both words of its pair. */
template <int N>
inline c7x_emu::vec<float, N * 2> __double_to_float(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<float, N * 2> r;
  for (int i = 0; i < N; ++i) r.s[2 * i] = r.s[2 * i + 1] = static_cast<float>(a.s[i]);
  return r;
}

/* __double_to_int: To the nearest integer, halves to even, each in both words of its pair; saturates. */
template <int N>
inline c7x_emu::vec<int32_t, N * 2> __double_to_int(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<int32_t, N * 2> r;
  for (int i = 0; i < N; ++i) r.s[2 * i] = r.s[2 * i + 1] = c7x_emu::round_lane<int32_t>(double(a.s[i]));
  return r;
}

/* __double_to_int_rtz: Cuts the fraction off, each integer in both words of its pair; saturates. */
template <int N>
inline c7x_emu::vec<int32_t, N * 2> __double_to_int_rtz(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<int32_t, N * 2> r;
  for (int i = 0; i < N; ++i) r.s[2 * i] = r.s[2 * i + 1] = c7x_emu::convert_lane<int32_t>(double(a.s[i]));
  return r;
}

/* __low_half_int_to_float: Floats of lanes 0 and 1 of every four. */
template <int N>
inline c7x_emu::vec<float, N / 2> __low_half_int_to_float(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<float, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<float>(a.s[i / 2 * 4 + i % 2]);
  return r;
}
template <int N>
inline c7x_emu::vec<float, N / 2> __low_half_int_to_float(const c7x_emu::vec<uint16_t, N>& a) {
  c7x_emu::vec<float, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<float>(a.s[i / 2 * 4 + i % 2]);
  return r;
}

/* __high_half_int_to_float: Floats of lanes 2 and 3 of every four. */
template <int N>
inline c7x_emu::vec<float, N / 2> __high_half_int_to_float(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<float, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<float>(a.s[i / 2 * 4 + i % 2 + 2]);
  return r;
}
template <int N>
inline c7x_emu::vec<float, N / 2> __high_half_int_to_float(const c7x_emu::vec<uint16_t, N>& a) {
  c7x_emu::vec<float, N / 2> r;
  for (int i = 0; i < N / 2; ++i) r.s[i] = static_cast<float>(a.s[i / 2 * 4 + i % 2 + 2]);
  return r;
}

/* __permute: Byte i of the result is byte a[i] of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  std::memcpy(table, b.s, N);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_even_even_int: __permute of the even words of c, then those of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_even_even_int(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  c7x_emu::every_second(table, c.s, N, 4, 0);
  c7x_emu::every_second(table + N / 2, b.s, N, 4, 0);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_odd_odd_int: __permute of the odd words of c, then those of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_odd_odd_int(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  c7x_emu::every_second(table, c.s, N, 4, 1);
  c7x_emu::every_second(table + N / 2, b.s, N, 4, 1);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_even_even_short: __permute of the even half-words of c, then those of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_even_even_short(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  c7x_emu::every_second(table, c.s, N, 2, 0);
  c7x_emu::every_second(table + N / 2, b.s, N, 2, 0);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_odd_odd_short: __permute of the odd half-words of c, then those of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_odd_odd_short(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  c7x_emu::every_second(table, c.s, N, 2, 1);
  c7x_emu::every_second(table + N / 2, b.s, N, 2, 1);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_even_even_char: __permute of the even bytes of c, then those of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_even_even_char(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  c7x_emu::every_second(table, c.s, N, 1, 0);
  c7x_emu::every_second(table + N / 2, b.s, N, 1, 0);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_low_low: __permute of the low half of c, then that of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_low_low(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  std::memcpy(table, c.s, N / 2);
  std::memcpy(table + N / 2, b.s, N / 2);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __permute_high_high: __permute of the high half of c, then that of b. */
template <int N>
inline c7x_emu::vec<uint8_t, N> __permute_high_high(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& c) {
  c7x_emu::vec<uint8_t, N> r;
  uint8_t table[N];
  std::memcpy(table, c.s + N / 2, N / 2);
  std::memcpy(table + N / 2, b.s + N / 2, N / 2);
  r = c7x_emu::look_up(a, table);
  return r;
}

/* __pack_sat (to short): Lanes of b and a in turn, saturated to 16 bits. */
template <int N>
inline c7x_emu::vec<int16_t, N * 2> __pack_sat(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[2 * i] = c7x_emu::saturate_lane<int16_t>(int32_t(b.s[i]));
    r.s[2 * i + 1] = c7x_emu::saturate_lane<int16_t>(int32_t(a.s[i]));
  }
  return r;
}

/* __pack_sat (to char): Lanes of b and a in turn, saturated to 8 bits. */
template <int N>
inline c7x_emu::vec<int8_t, N * 2> __pack_sat(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[2 * i] = c7x_emu::saturate_lane<int8_t>(int16_t(b.s[i]));
    r.s[2 * i + 1] = c7x_emu::saturate_lane<int8_t>(int16_t(a.s[i]));
  }
  return r;
}

/* __pack_usat (to uchar): Lanes of b and a in turn, saturated to 8 bits without sign. */
template <int N>
inline c7x_emu::vec<uint8_t, N * 2> __pack_usat(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[2 * i] = c7x_emu::saturate_lane<uint8_t>(int16_t(b.s[i]));
    r.s[2 * i + 1] = c7x_emu::saturate_lane<uint8_t>(int16_t(a.s[i]));
  }
  return r;
}

/* __pack_usat (to ushort): Lanes of b and a in turn, saturated to 16 bits without sign. */
template <int N>
inline c7x_emu::vec<uint16_t, N * 2> __pack_usat(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[2 * i] = c7x_emu::saturate_lane<uint16_t>(int32_t(b.s[i]));
    r.s[2 * i + 1] = c7x_emu::saturate_lane<uint16_t>(int32_t(a.s[i]));
  }
  return r;
}

/* __vspackuhb_vvv: Lanes of b and a in turn, saturated to 8 bits without sign. */
template <int N>
inline c7x_emu::vec<uint8_t, N * 2> __vspackuhb_vvv(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[2 * i] = c7x_emu::saturate_lane<uint8_t>(int16_t(b.s[i]));
    r.s[2 * i + 1] = c7x_emu::saturate_lane<uint8_t>(int16_t(a.s[i]));
  }
  return r;
}

/* __vpackw_vvv: Of every pair of words the low one, of b and a in turn. */
template <int N>
inline c7x_emu::vec<int32_t, N> __vpackw_vvv(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[2 * i];
    r.s[2 * i + 1] = a.s[2 * i];
  }
  return r;
}

/* __pack_consec_low: The low half of every lane: those of b, then those of a. */
template <int N>
inline c7x_emu::vec<int8_t, N * 2> __pack_consec_low(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  typedef int8_t H;
  c7x_emu::vec<int8_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i]);
    r.s[N + i] = static_cast<H>(a.s[i]);
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N * 2> __pack_consec_low(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  typedef int16_t H;
  c7x_emu::vec<int16_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i]);
    r.s[N + i] = static_cast<H>(a.s[i]);
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N * 2> __pack_consec_low(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  typedef int32_t H;
  c7x_emu::vec<int32_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i]);
    r.s[N + i] = static_cast<H>(a.s[i]);
  }
  return r;
}

/* __pack_consec_high: The high half of every lane: those of b, then those of a. */
template <int N>
inline c7x_emu::vec<int8_t, N * 2> __pack_consec_high(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  typedef int8_t H;
  c7x_emu::vec<int8_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i] >> (sizeof(H) * 8));
    r.s[N + i] = static_cast<H>(a.s[i] >> (sizeof(H) * 8));
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N * 2> __pack_consec_high(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  typedef int16_t H;
  c7x_emu::vec<int16_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i] >> (sizeof(H) * 8));
    r.s[N + i] = static_cast<H>(a.s[i] >> (sizeof(H) * 8));
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N * 2> __pack_consec_high(const c7x_emu::vec<int64_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& b) {
  typedef int32_t H;
  c7x_emu::vec<int32_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i] = static_cast<H>(b.s[i] >> (sizeof(H) * 8));
    r.s[N + i] = static_cast<H>(a.s[i] >> (sizeof(H) * 8));
  }
  return r;
}

/* __get_vector_element: Lane i; ends the program when there is none. */
template <class T, int N>
inline T __get_vector_element(const c7x_emu::vec<T, N>& v, int64_t i) {
  if (i < 0 || i >= N) c7x_emu::die("__get_vector_element", "the vector has no such lane");
  return v.s[i];
}

/* __sort_asc: The lanes in rising order. */
template <int N>
inline c7x_emu::vec<int32_t, N> __sort_asc(const c7x_emu::vec<int32_t, N>& a) {
  typedef int32_t T;
  c7x_emu::vec<int32_t, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] < r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __sort_asc(const c7x_emu::vec<uint32_t, N>& a) {
  typedef uint32_t T;
  c7x_emu::vec<uint32_t, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] < r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}
template <int N>
inline c7x_emu::vec<float, N> __sort_asc(const c7x_emu::vec<float, N>& a) {
  typedef float T;
  c7x_emu::vec<float, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] < r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}

/* __sort_desc: The lanes in falling order. */
template <int N>
inline c7x_emu::vec<int32_t, N> __sort_desc(const c7x_emu::vec<int32_t, N>& a) {
  typedef int32_t T;
  c7x_emu::vec<int32_t, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] > r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __sort_desc(const c7x_emu::vec<uint32_t, N>& a) {
  typedef uint32_t T;
  c7x_emu::vec<uint32_t, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] > r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}
template <int N>
inline c7x_emu::vec<float, N> __sort_desc(const c7x_emu::vec<float, N>& a) {
  typedef float T;
  c7x_emu::vec<float, N> r;
  r = a;
  for (int i = 1; i < N; ++i)
    for (int k = i; k > 0 && r.s[k] > r.s[k - 1]; --k) {
      const T lane = r.s[k];
      r.s[k] = r.s[k - 1];
      r.s[k - 1] = lane;
    }
  return r;
}

/* __vload_dup: Loads a vector, every element twice: elements 0, 0, 1, 1, ... */
template <class T, int N>
inline c7x_emu::vec<T, 2 * N> __vload_dup(const c7x_emu::vec<T, N>* from) {
  c7x_emu::vec<T, 2 * N> r;
  for (int i = 0; i < 2 * N; ++i) r.s[i] = from->s[i / 2];
  return r;
}

/* __vload_dup (of an element): Loads one element into every lane of the register. */
template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
inline c7x_emu::vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))> __vload_dup(const T* from) {
  c7x_emu::vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))> r;
  for (T& lane : r.s) lane = *from;
  return r;
}

/* __vstore_packl: Stores the low half of every lane. */
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<int16_t, N>& b) {
  typedef int16_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<uint16_t, N>& b) {
  typedef uint16_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<int32_t, N>& b) {
  typedef int32_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<uint32_t, N>& b) {
  typedef uint32_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<int64_t, N>& b) {
  typedef int64_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl(P* a, const c7x_emu::vec<uint64_t, N>& b) {
  typedef uint64_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}

/* __vstore_pred_packl: __vstore_packl of the bytes whose flag is set. */
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<int16_t, N>& c) {
  typedef int16_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<uint16_t, N>& c) {
  typedef uint16_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<int32_t, N>& c) {
  typedef int32_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<uint32_t, N>& c) {
  typedef uint32_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<int64_t, N>& c) {
  typedef int64_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl(const __vpred& a, P* b, const c7x_emu::vec<uint64_t, N>& c) {
  typedef uint64_t T;
  uint8_t packed[N * sizeof(T) / 2];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}

/* __vstore_packl_2src: Stores the low half of every lane of b, then of c. */
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<int16_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& c) {
  typedef int16_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<uint16_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& c) {
  typedef uint16_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<int32_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& c) {
  typedef int32_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<uint32_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& c) {
  typedef uint32_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<int64_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& c) {
  typedef int64_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_packl_2src(P* a, const c7x_emu::vec<uint64_t, N>& b, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& c) {
  typedef uint64_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, b, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, c, static_cast<int>(sizeof(T) / 2));
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}

/* __vstore_pred_packl_2src: __vstore_packl_2src of the bytes whose flag is set. */
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<int16_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& d) {
  typedef int16_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<uint16_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& d) {
  typedef uint16_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<int32_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& d) {
  typedef int32_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<uint32_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& d) {
  typedef uint32_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<int64_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<int64_t, N>>::type& d) {
  typedef int64_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_packl_2src(const __vpred& a, P* b, const c7x_emu::vec<uint64_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<uint64_t, N>>::type& d) {
  typedef uint64_t T;
  uint8_t packed[N * sizeof(T)];
  c7x_emu::low_bytes(packed, c, static_cast<int>(sizeof(T) / 2));
  c7x_emu::low_bytes(packed + N * sizeof(T) / 2, d, static_cast<int>(sizeof(T) / 2));
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}

/* __vstore_pack_byte: Stores the low byte of every word. */
template <class P, int N>
inline void __vstore_pack_byte(P* a, const c7x_emu::vec<int32_t, N>& b) {
  uint8_t packed[N];
  c7x_emu::low_bytes(packed, b, 1);
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}
template <class P, int N>
inline void __vstore_pack_byte(P* a, const c7x_emu::vec<uint32_t, N>& b) {
  uint8_t packed[N];
  c7x_emu::low_bytes(packed, b, 1);
  std::memcpy(static_cast<void*>(a), packed, sizeof(packed));
}

/* __vstore_pred_pack_byte: __vstore_pack_byte of the bytes whose flag is set. */
template <class P, int N>
inline void __vstore_pred_pack_byte(const __vpred& a, P* b, const c7x_emu::vec<int32_t, N>& c) {
  uint8_t packed[N];
  c7x_emu::low_bytes(packed, c, 1);
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_pack_byte(const __vpred& a, P* b, const c7x_emu::vec<uint32_t, N>& c) {
  uint8_t packed[N];
  c7x_emu::low_bytes(packed, c, 1);
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}

/* __vstore_pred_pack_byte_2src: The low byte of every word of c, then of d, where the flag is set. */
template <class P, int N>
inline void __vstore_pred_pack_byte_2src(const __vpred& a, P* b, const c7x_emu::vec<int32_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& d) {
  uint8_t packed[2 * N];
  c7x_emu::low_bytes(packed, c, 1);
  c7x_emu::low_bytes(packed + N, d, 1);
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}
template <class P, int N>
inline void __vstore_pred_pack_byte_2src(const __vpred& a, P* b, const c7x_emu::vec<uint32_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& d) {
  uint8_t packed[2 * N];
  c7x_emu::low_bytes(packed, c, 1);
  c7x_emu::low_bytes(packed + N, d, 1);
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}

/* __vstore_pred_interleave: The even bytes of c and d in turn, where the flag is set. */
template <class P, int N>
inline void __vstore_pred_interleave(const __vpred& a, P* b, const c7x_emu::vec<uint8_t, N>& c, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& d) {
  uint8_t packed[N];
  for (int i = 0; i < N / 2; ++i) {
    packed[2 * i] = c.s[2 * i];
    packed[2 * i + 1] = d.s[2 * i];
  }
  c7x_emu::store_bytes(a, b, packed, static_cast<int>(sizeof(packed)));
}

/* __vmpyhw_vvw: Products: c of the even lanes, d of the odd ones. */
template <int N>
inline void __vmpyhw_vvw(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b, c7x_emu::vec<int32_t, N / 2>& c, c7x_emu::vec<int32_t, N / 2>& d) {
  for (int i = 0; i < N / 2; ++i) {
    const int32_t even = int32_t(a.s[2 * i]) * b.s[2 * i], odd = int32_t(a.s[2 * i + 1]) * b.s[2 * i + 1];
    c.s[i] = even;
    d.s[i] = odd;
  }
}

/* __vmpyubh_vvw: Products: c of the even lanes, d of the odd ones. */
template <int N>
inline void __vmpyubh_vvw(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b, c7x_emu::vec<uint16_t, N / 2>& c, c7x_emu::vec<uint16_t, N / 2>& d) {
  for (int i = 0; i < N / 2; ++i) {
    const uint16_t even = static_cast<uint16_t>(a.s[2 * i] * b.s[2 * i]);
    const uint16_t odd = static_cast<uint16_t>(a.s[2 * i + 1] * b.s[2 * i + 1]);
    c.s[i] = even;
    d.s[i] = odd;
  }
}

/* __vmpysuhw_vvw: Products: c of the even lanes, d of the odd ones. */
template <int N>
inline void __vmpysuhw_vvw(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b, c7x_emu::vec<int32_t, N / 2>& c, c7x_emu::vec<int32_t, N / 2>& d) {
  for (int i = 0; i < N / 2; ++i) {
    const int32_t even = static_cast<int32_t>(int64_t(a.s[2 * i]) * b.s[2 * i]);
    const int32_t odd = static_cast<int32_t>(int64_t(a.s[2 * i + 1]) * b.s[2 * i + 1]);
    c.s[i] = even;
    d.s[i] = odd;
  }
}

/* __vmpywd_vvw: Products: c of the even lanes, d of the odd ones. */
template <int N>
inline void __vmpywd_vvw(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b, c7x_emu::vec<int64_t, N / 2>& c, c7x_emu::vec<int64_t, N / 2>& d) {
  for (int i = 0; i < N / 2; ++i) {
    const int64_t even = int64_t(a.s[2 * i]) * b.s[2 * i], odd = int64_t(a.s[2 * i + 1]) * b.s[2 * i + 1];
    c.s[i] = even;
    d.s[i] = odd;
  }
}

/* __vmpysp2dp_vvw: Exact products: c of the even lanes, d of the odd ones. */
template <int N>
inline void __vmpysp2dp_vvw(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b, c7x_emu::vec<double, N / 2>& c, c7x_emu::vec<double, N / 2>& d) {
  for (int i = 0; i < N / 2; ++i) {
    const double even = double(a.s[2 * i]) * b.s[2 * i], odd = double(a.s[2 * i + 1]) * b.s[2 * i + 1];
    c.s[i] = even;
    d.s[i] = odd;
  }
}

/* __vfir4hw_vww: Filter of four taps over the half-words of SE0, then SE1: result i is the sum of data i + k times coefficient k. c is the low half of the results, d the high one. Every four coefficients must be the same. */
inline void __vfir4hw_vww(const c7x_emu::half_words& a, __SE_REG_PAIR b, c7x_emu::words& c, c7x_emu::words& d) {
  int16_t taps[4], data[2 * c7x_emu::fir_lanes];
  c7x_emu::take_taps("__vfir4hw_vww", taps, a);
  const bool advance = b == __SE_REG_PAIR_0_ADV;
  c7x_emu::take_data("__vfir4hw_vww", data, advance ? __SE_REG_0_ADV : __SE_REG_0);
  c7x_emu::take_data("__vfir4hw_vww", data + c7x_emu::fir_lanes, advance ? __SE_REG_1_ADV : __SE_REG_1);
  for (int i = 0; i < c7x_emu::fir_lanes / 2; ++i) {
    c.s[i] = c7x_emu::filtered<4>(data + i, taps);
    d.s[i] = c7x_emu::filtered<4>(data + c7x_emu::fir_lanes / 2 + i, taps);
  }
}

/* __vfir8hw_wvv: Filter of eight taps over the half-words of an engine: result i is the sum of data i + k times coefficient k, of which a has the first four and b the others. Every four coefficients must be the same. */
inline c7x_emu::words __vfir8hw_wvv(const c7x_emu::half_words& a, const c7x_emu::half_words& b, __SE_REG c) {
  int16_t taps[8], data[c7x_emu::fir_lanes];
  c7x_emu::take_taps("__vfir8hw_wvv", taps, a);
  c7x_emu::take_taps("__vfir8hw_wvv", taps + 4, b);
  c7x_emu::take_data("__vfir8hw_wvv", data, c);
  c7x_emu::words r;
  for (int i = 0; i < c7x_emu::fir_lanes / 2; ++i) r.s[i] = c7x_emu::filtered<8>(data + i, taps);
  return r;
}

/* __vmpyww_vvv: Low word of the product. */
inline int32_t __vmpyww_vvv(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b)); }
template <int N>
inline c7x_emu::vec<int32_t, N> __vmpyww_vvv(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vmpyww_vvv(int32_t(a.s[i]), int32_t(b.s[i]));
  return r;
}

/* __vmpysp_vvv: Product. */
inline float __vmpysp_vvv(float a, float b) { return a * b; }
template <int N>
inline c7x_emu::vec<float, N> __vmpysp_vvv(const c7x_emu::vec<float, N>& a, const typename c7x_emu::identity<c7x_emu::vec<float, N>>::type& b) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __vmpysp_vvv(float(a.s[i]), float(b.s[i]));
  return r;
}

/* __recip: 1/a with a relative error just below 1/256; exact with C7X_EMU_EXACT_SEEDS. Infinity for zero. */
inline float __recip(float a) { return c7x_emu::reciprocal_seed(a); }
template <int N>
inline c7x_emu::vec<float, N> __recip(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __recip(float(a.s[i]));
  return r;
}
inline double __recip(double a) { return c7x_emu::reciprocal_seed(a); }
template <int N>
inline c7x_emu::vec<double, N> __recip(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<double, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __recip(double(a.s[i]));
  return r;
}

/* __recip_sqrt: 1/sqrt(a) with a relative error just below 1/256; exact with C7X_EMU_EXACT_SEEDS. Infinity for zero, NaN below. */
inline float __recip_sqrt(float a) { return c7x_emu::reciprocal_root_seed(a); }
template <int N>
inline c7x_emu::vec<float, N> __recip_sqrt(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<float, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __recip_sqrt(float(a.s[i]));
  return r;
}
inline double __recip_sqrt(double a) { return c7x_emu::reciprocal_root_seed(a); }
template <int N>
inline c7x_emu::vec<double, N> __recip_sqrt(const c7x_emu::vec<double, N>& a) {
  c7x_emu::vec<double, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __recip_sqrt(double(a.s[i]));
  return r;
}

/* __ilut_init: Sets a word of the core's inner table; ends the program outside its 256 words. */
#if defined(__C7524__)
inline void __ilut_init(uint32_t index, uint32_t word) { c7x_emu::inner_word("__ilut_init", index) = word; }
#endif

/* __ilut_read_uint: Words of the core's inner table at the indices; ends the program outside its 256 words. */
#if defined(__C7524__)
template <int N>
inline c7x_emu::vec<uint32_t, N> __ilut_read_uint(const c7x_emu::vec<uint32_t, N>& index) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = c7x_emu::inner_word("__ilut_read_uint", index.s[i]);
  return r;
}
#endif

/* __lut_set_param: Packs __sLTCRFlags_t; ends the program for all but 16 tables of words without interpolation and promotion. */
#if defined(__C7100__) || defined(__C7120__)
inline uint64_t __lut_set_param(const __sLTCRFlags_t* flags) { return c7x_emu::look_up_flags(*flags); }
#endif

/* __LUT_SET_LTCR: Sets the flags of a set: its tables share TBLSIZE. */
#if defined(__C7100__) || defined(__C7120__)
inline void __LUT_SET_LTCR(int set, uint64_t bytes) {
  c7x_emu::look_up_of("__LUT_SET_LTCR", set).words = static_cast<uint32_t>(bytes / c7x_emu::look_up_set::tables / 4);
}
#endif

/* __LUT_SET_LTBR: Checks the set only: every set has a memory of its own here. */
#if defined(__C7100__) || defined(__C7120__)
inline void __LUT_SET_LTBR(int set, uint32_t base) {
  (void)base;
  c7x_emu::look_up_of("__LUT_SET_LTBR", set);
}
#endif

/* __LUT_SET_LTER: Enables sets; those enabled before stay so. */
#if defined(__C7100__) || defined(__C7120__)
inline void __LUT_SET_LTER(int sets) {
  for (int i = 0; i < 4; ++i)
    if ((sets >> i) & 1) c7x_emu::look_up_of("__LUT_SET_LTER", i).enabled = true;
}
#endif

/* __lookup_init: Sets rows c and c + 1 of all tables to the two words that b repeats; ends the program when b does not repeat. */
#if defined(__C7100__) || defined(__C7120__)
inline void __lookup_init(int set, const c7x_emu::vec<uint32_t, 16>& data, uint32_t row) {
  c7x_emu::look_up_init(set, data, row);
}
#endif

/* __lookup_read_int: Words of the tables at the indices, which are unsigned or signed; ends the program outside the table. */
#if defined(__C7100__) || defined(__C7120__)
template <class I>
inline c7x_emu::vec<int32_t, 16> __lookup_read_int(int set, const c7x_emu::vec<I, 16>& index) {
  return c7x_emu::look_up_read<int32_t>("__lookup_read_int", set, index);
}
#endif

/* __lookup_read_uint: As __lookup_read_int. */
#if defined(__C7100__) || defined(__C7120__)
template <class I>
inline c7x_emu::vec<uint32_t, 16> __lookup_read_uint(int set, const c7x_emu::vec<I, 16>& index) {
  return c7x_emu::look_up_read<uint32_t>("__lookup_read_uint", set, index);
}
#endif

/* __deal_stride2: The even lanes, then the odd ones. */
template <int N>
inline c7x_emu::vec<int8_t, N> __deal_stride2(const c7x_emu::vec<int8_t, N>& a) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint8_t, N> __deal_stride2(const c7x_emu::vec<uint8_t, N>& a) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N> __deal_stride2(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __deal_stride2(const c7x_emu::vec<uint16_t, N>& a) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N> __deal_stride2(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __deal_stride2(const c7x_emu::vec<uint32_t, N>& a) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = a.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i + 1];
  }
  return r;
}

/* __shuffle_stride2: Lanes of the low and of the high half in turn; __deal_stride2 undoes it. */
template <int N>
inline c7x_emu::vec<int8_t, N> __shuffle_stride2(const c7x_emu::vec<int8_t, N>& a) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint8_t, N> __shuffle_stride2(const c7x_emu::vec<uint8_t, N>& a) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N> __shuffle_stride2(const c7x_emu::vec<int16_t, N>& a) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __shuffle_stride2(const c7x_emu::vec<uint16_t, N>& a) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N> __shuffle_stride2(const c7x_emu::vec<int32_t, N>& a) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __shuffle_stride2(const c7x_emu::vec<uint32_t, N>& a) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = a.s[i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}

/* __shuffle_stride2_low_low: Lanes of the low halves of b and a in turn. */
template <int N>
inline c7x_emu::vec<int8_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint8_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __shuffle_stride2_low_low(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[i];
    r.s[2 * i + 1] = a.s[i];
  }
  return r;
}

/* __shuffle_stride2_high_high: Lanes of the high halves of b and a in turn. */
template <int N>
inline c7x_emu::vec<int8_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<int8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int8_t, N>>::type& b) {
  c7x_emu::vec<int8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint8_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int16_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<int32_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int32_t, N>>::type& b) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}
template <int N>
inline c7x_emu::vec<uint32_t, N> __shuffle_stride2_high_high(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[N / 2 + i];
    r.s[2 * i + 1] = a.s[N / 2 + i];
  }
  return r;
}

/* __gather_set_bits: The bytes whose flag is set, moved together to the low end; zeros follow. */
template <int N>
inline c7x_emu::vec<int8_t, N> __gather_set_bits(const __vpred& a, const c7x_emu::vec<int8_t, N>& b) {
  c7x_emu::vec<int8_t, N> r;
  int taken = 0;
  for (int i = 0; i < N; ++i)
    if (a.m[i]) r.s[taken++] = b.s[i];
  while (taken < N) r.s[taken++] = 0;
  return r;
}

/* __vpackl2_vvv: Low half-words of the words of b and a in turn. */
template <int N>
inline c7x_emu::vec<int16_t, N> __vpackl2_vvv(const c7x_emu::vec<int16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<int16_t, N>>::type& b) {
  c7x_emu::vec<int16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[2 * i] = b.s[2 * i];
    r.s[2 * i + 1] = a.s[2 * i];
  }
  return r;
}

/* __vspinthpk_vv: Every pair of lanes to the nearest integers of 16 bits, in the low word of the pair; the high word is zero. */
template <int N>
inline c7x_emu::vec<int16_t, N * 2> __vspinthpk_vv(const c7x_emu::vec<float, N>& a) {
  c7x_emu::vec<int16_t, N * 2> r;
  for (int i = 0; i < N; ++i) {
    r.s[i / 2 * 4 + i % 2] = c7x_emu::round_lane<int16_t>(a.s[i]);
    r.s[i / 2 * 4 + i % 2 + 2] = 0;
  }
  return r;
}

/* __vhpackl_vvv: Low half-words of the words of b, then of those of a. */
template <int N>
inline c7x_emu::vec<uint16_t, N> __vhpackl_vvv(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N / 2; ++i) {
    r.s[i] = b.s[2 * i];
    r.s[N / 2 + i] = a.s[2 * i];
  }
  return r;
}

/* __dual_sort_lo_asc_hi_asc: The lanes of the low half in rising order, and those of the high half. */
template <int N>
inline c7x_emu::vec<int16_t, N> __dual_sort_lo_asc_hi_asc(const c7x_emu::vec<int16_t, N>& a) {
  typedef int16_t T;
  c7x_emu::vec<int16_t, N> r;
  r = a;
  for (int half = 0; half < N; half += N / 2)
    for (int i = 1; i < N / 2; ++i)
      for (int k = half + i; k > half && r.s[k] < r.s[k - 1]; --k) {
        const T lane = r.s[k];
        r.s[k] = r.s[k - 1];
        r.s[k - 1] = lane;
      }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __dual_sort_lo_asc_hi_asc(const c7x_emu::vec<uint16_t, N>& a) {
  typedef uint16_t T;
  c7x_emu::vec<uint16_t, N> r;
  r = a;
  for (int half = 0; half < N; half += N / 2)
    for (int i = 1; i < N / 2; ++i)
      for (int k = half + i; k > half && r.s[k] < r.s[k - 1]; --k) {
        const T lane = r.s[k];
        r.s[k] = r.s[k - 1];
        r.s[k - 1] = lane;
      }
  return r;
}

/* __dual_sort_lo_desc_hi_desc: The lanes of the low half in falling order, and those of the high half. */
template <int N>
inline c7x_emu::vec<int16_t, N> __dual_sort_lo_desc_hi_desc(const c7x_emu::vec<int16_t, N>& a) {
  typedef int16_t T;
  c7x_emu::vec<int16_t, N> r;
  r = a;
  for (int half = 0; half < N; half += N / 2)
    for (int i = 1; i < N / 2; ++i)
      for (int k = half + i; k > half && r.s[k] > r.s[k - 1]; --k) {
        const T lane = r.s[k];
        r.s[k] = r.s[k - 1];
        r.s[k - 1] = lane;
      }
  return r;
}
template <int N>
inline c7x_emu::vec<uint16_t, N> __dual_sort_lo_desc_hi_desc(const c7x_emu::vec<uint16_t, N>& a) {
  typedef uint16_t T;
  c7x_emu::vec<uint16_t, N> r;
  r = a;
  for (int half = 0; half < N; half += N / 2)
    for (int i = 1; i < N / 2; ++i)
      for (int k = half + i; k > half && r.s[k] > r.s[k - 1]; --k) {
        const T lane = r.s[k];
        r.s[k] = r.s[k - 1];
        r.s[k - 1] = lane;
      }
  return r;
}

/* __horizontal_add (signed): Sum of all lanes, in 64 bits; wraps. */
template <int N>
inline int64_t __horizontal_add(const c7x_emu::vec<int32_t, N>& a) { return c7x_emu::sum_of_lanes(a); }
template <int N>
inline int64_t __horizontal_add(const c7x_emu::vec<int64_t, N>& a) { return c7x_emu::sum_of_lanes(a); }

/* __horizontal_add (unsigned): Sum of all lanes, in 64 bits; wraps. */
template <int N>
inline uint64_t __horizontal_add(const c7x_emu::vec<uint32_t, N>& a) { return static_cast<uint64_t>(c7x_emu::sum_of_lanes(a)); }
template <int N>
inline uint64_t __horizontal_add(const c7x_emu::vec<uint64_t, N>& a) { return static_cast<uint64_t>(c7x_emu::sum_of_lanes(a)); }

/* __abs_diff: Distance of a and b. */
inline uint8_t __abs_diff(uint8_t a, uint8_t b) { typedef uint8_t T; return static_cast<T>(a > b ? a - b : b - a); }
template <int N>
inline c7x_emu::vec<uint8_t, N> __abs_diff(const c7x_emu::vec<uint8_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& b) {
  c7x_emu::vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs_diff(uint8_t(a.s[i]), uint8_t(b.s[i]));
  return r;
}
inline uint16_t __abs_diff(uint16_t a, uint16_t b) { typedef uint16_t T; return static_cast<T>(a > b ? a - b : b - a); }
template <int N>
inline c7x_emu::vec<uint16_t, N> __abs_diff(const c7x_emu::vec<uint16_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint16_t, N>>::type& b) {
  c7x_emu::vec<uint16_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs_diff(uint16_t(a.s[i]), uint16_t(b.s[i]));
  return r;
}
inline uint32_t __abs_diff(uint32_t a, uint32_t b) { typedef uint32_t T; return static_cast<T>(a > b ? a - b : b - a); }
template <int N>
inline c7x_emu::vec<uint32_t, N> __abs_diff(const c7x_emu::vec<uint32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint32_t, N>>::type& b) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = __abs_diff(uint32_t(a.s[i]), uint32_t(b.s[i]));
  return r;
}

/* __saturate: a, brought into the range of a signed integer of b bits; ends the program when b is not from 1 to 32. */
template <int N>
inline c7x_emu::vec<int32_t, N> __saturate(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& bits) {
  c7x_emu::vec<int32_t, N> r;
  for (int i = 0; i < N; ++i) {
    const int64_t high = (int64_t(1) << (c7x_emu::bits_of_range("__saturate", bits.s[i]) - 1)) - 1, lane = a.s[i];
    r.s[i] = static_cast<int32_t>(lane > high ? high : lane < -high - 1 ? -high - 1 : lane);
  }
  return r;
}

/* __saturate_s2u: a, brought into the range of an unsigned integer of b bits; ends the program when b is not from 1 to 32. */
template <int N>
inline c7x_emu::vec<uint32_t, N> __saturate_s2u(const c7x_emu::vec<int32_t, N>& a, const typename c7x_emu::identity<c7x_emu::vec<uint8_t, N>>::type& bits) {
  c7x_emu::vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) {
    const int64_t high = (int64_t(1) << c7x_emu::bits_of_range("__saturate_s2u", bits.s[i])) - 1, lane = a.s[i];
    r.s[i] = static_cast<uint32_t>(lane > high ? high : lane < 0 ? 0 : lane);
  }
  return r;
}

/* __duplicate: A vector of the register's width with the scalar in every lane. */
template <class T>
inline c7x_emu::vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))> __duplicate(T x) {
  return c7x_emu::vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))>(x);
}

/* __hist: Adds one to the word at the index in the table of every lane; ends the program outside the table. */
#if defined(__C7100__) || defined(__C7120__)
inline void __hist(int set, const c7x_emu::vec<uint32_t, 16>& index) { c7x_emu::count_in_tables("__hist", set, index); }
#endif

#endif
