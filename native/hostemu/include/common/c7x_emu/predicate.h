/* __vpred: one flag a byte of the vector register, kept as bytes of ones so that selects are bitwise. */
#ifndef C7X_EMU_PREDICATE_H
#define C7X_EMU_PREDICATE_H

#include "names.h"

namespace c7x_emu {

struct predicate {
  static constexpr int bytes = __C7X_VEC_SIZE_BYTES__;
  uint8_t m[bytes];

  predicate() = default;
  explicit predicate(uint64_t bits) {
    for (int i = 0; i < bytes; ++i) m[i] = (bits >> i) & 1 ? 0xFF : 0;
  }
  explicit operator uint64_t() const {
    uint64_t bits = 0;
    for (int i = 0; i < bytes; ++i) bits |= static_cast<uint64_t>(m[i] & 1) << i;
    return bits;
  }
  static predicate first(int64_t count) {
    predicate p;
    for (int i = 0; i < bytes; ++i) p.m[i] = i < count ? 0xFF : 0;
    return p;
  }
  void print() const { std::printf("0x%016llx\n", static_cast<unsigned long long>(static_cast<uint64_t>(*this))); }
};

/* Lanes of ones and zeros to flags; bytes behind the vector are false. */
template <class M, int N>
inline predicate predicate_of(const vec<M, N>& lanes) {
  predicate p;
  std::memset(p.m, 0, sizeof(p.m));
  std::memcpy(p.m, lanes.s, sizeof(lanes.s));
  return p;
}
template <class T>
inline predicate predicate_of_scalar(bool x) {
  return predicate::first(x ? static_cast<int>(sizeof(T)) : 0);
}

template <class V>
inline V select(const predicate& p, const V& a, const V& b) {
  static_assert(sizeof(V) <= sizeof(p.m), "the vector is wider than the core's registers");
  V r;
  const uint8_t* x = reinterpret_cast<const uint8_t*>(&a);
  const uint8_t* y = reinterpret_cast<const uint8_t*>(&b);
  uint8_t* z = reinterpret_cast<uint8_t*>(&r);
  for (unsigned i = 0; i < sizeof(V); ++i) z[i] = static_cast<uint8_t>((x[i] & p.m[i]) | (y[i] & ~p.m[i]));
  return r;
}

/* Bytes whose flag is false are neither written nor touched. */
inline void store_bytes(const predicate& p, void* to, const void* from, int count) {
  uint8_t all = 0xFF;
  for (int i = 0; i < count; ++i) all &= p.m[i];
  if (all == 0xFF) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  for (int i = 0; i < count; ++i)
    if (p.m[i]) static_cast<uint8_t*>(to)[i] = static_cast<const uint8_t*>(from)[i];
}

template <class T, int N>
inline predicate scaled(const vec<bool, N>& flags) {
  static_assert(sizeof(T) * N <= __C7X_VEC_SIZE_BYTES__, "the vector is wider than the core's registers");
  predicate p;
  std::memset(p.m, 0, sizeof(p.m));
  for (int i = 0; i < N; ++i) std::memset(p.m + i * sizeof(T), flags.s[i] ? 0xFF : 0, sizeof(T));
  return p;
}

}  // namespace c7x_emu

typedef c7x_emu::predicate __vpred;
#if !defined(C7X_EMU_NO_SHORT_NAMES)
typedef c7x_emu::predicate vpred;
#endif

#endif
