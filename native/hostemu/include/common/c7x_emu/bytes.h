/* Moves of bytes that the generated intrinsics share. */
#ifndef C7X_EMU_BYTES_H
#define C7X_EMU_BYTES_H

#include "predicate.h"

namespace c7x_emu {

/* Of `bytes` bytes, every second unit of `unit` bytes, from unit 0 or unit 1 on. */
inline void every_second(void* to, const void* from, int bytes, int unit, int first) {
  for (int i = 0; i * 2 * unit < bytes; ++i)
    std::memcpy(static_cast<char*>(to) + i * unit, static_cast<const char*>(from) + (2 * i + first) * unit,
                static_cast<size_t>(unit));
}

/* Bytes of a table as wide as the vector of indices; an index counts modulo that width. */
template <int N>
inline vec<uint8_t, N> look_up(const vec<uint8_t, N>& index, const uint8_t* table) {
  vec<uint8_t, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = table[index.s[i] & (N - 1)];
  return r;
}

/* Modulo 2^64. */
template <class T, int N>
inline int64_t sum_of_lanes(const vec<T, N>& v) {
  uint64_t sum = 0;
  for (int i = 0; i < N; ++i) sum += static_cast<uint64_t>(static_cast<int64_t>(v.s[i]));
  return static_cast<int64_t>(sum);
}

/* A number of bits that a saturation takes. */
inline int bits_of_range(const char* name, int bits) {
  if (bits < 1 || bits > 32) die(name, "the number of bits is not from 1 to 32");
  return bits;
}

/* The low `size` bytes of every lane, one after another. */
template <class T, int N>
inline void low_bytes(uint8_t* to, const vec<T, N>& v, int size) {
  for (int i = 0; i < N; ++i) {
    const T lane = v.s[i];
    std::memcpy(to + i * size, &lane, static_cast<size_t>(size));
  }
}

}  // namespace c7x_emu

#endif
