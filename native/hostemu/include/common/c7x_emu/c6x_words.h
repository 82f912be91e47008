/* Words as two half-words or four bytes, for the intrinsics of C6000 code in c6x.h. */
#ifndef C7X_EMU_C6X_WORDS_H
#define C7X_EMU_C6X_WORDS_H

#include "base.h"

namespace c7x_emu {
namespace c6x {

/* Half-word or byte i of a word, counted from the low end. */
inline int32_t half(int32_t x, int i) { return static_cast<int16_t>(static_cast<uint32_t>(x) >> (16 * i)); }
inline uint32_t unsigned_half(uint32_t x, int i) { return (x >> (16 * i)) & 0xFFFFu; }
inline int32_t signed_byte(int32_t x, int i) { return static_cast<int8_t>(static_cast<uint32_t>(x) >> (8 * i)); }
inline uint32_t byte(uint32_t x, int i) { return (x >> (8 * i)) & 0xFFu; }

/* A word from its parts, the high one first; each is cut to its width. */
inline uint32_t halves(uint32_t high, uint32_t low) { return high << 16 | (low & 0xFFFFu); }
inline uint32_t bytes(uint32_t b3, uint32_t b2, uint32_t b1, uint32_t b0) {
  return halves(b3 << 8 | (b2 & 0xFFu), b1 << 8 | (b0 & 0xFFu));
}

inline int32_t word(int64_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x)); }
inline int32_t clip(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }
inline int32_t clip16(int32_t x) { return clip(x, -32768, 32767); }
inline uint32_t unsigned_clip(int32_t x) { return static_cast<uint32_t>(clip(x, 0, 255)); }
/* Only the product of two smallest half-words leaves the range. */
inline int32_t doubled(int32_t x) { return saturate_lane<int32_t>(static_cast<int64_t>(x) * 2); }

template <class F>
inline int32_t by_halves(int32_t a, int32_t b, F f) {
  const int32_t high = f(half(a, 1), half(b, 1)), low = f(half(a, 0), half(b, 0));
  return static_cast<int32_t>(halves(static_cast<uint32_t>(high), static_cast<uint32_t>(low)));
}
template <class F>
inline uint32_t by_unsigned_bytes(uint32_t a, uint32_t b, F f) {
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) {
    const int32_t part = f(static_cast<int32_t>(byte(a, i)), static_cast<int32_t>(byte(b, i)));
    r |= (static_cast<uint32_t>(part) & 0xFFu) << (8 * i);
  }
  return r;
}
template <class F>
inline int32_t by_bytes(int32_t a, int32_t b, F f) {
  return static_cast<int32_t>(by_unsigned_bytes(static_cast<uint32_t>(a), static_cast<uint32_t>(b), f));
}
template <class F>
inline int32_t flags_of_halves(int32_t a, int32_t b, F f) {
  return (f(half(a, 1), half(b, 1)) ? 2 : 0) | (f(half(a, 0), half(b, 0)) ? 1 : 0);
}
template <class F, class T>
inline T flags_of_bytes(T a, T b, F f) {
  uint32_t flags = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t x = byte(static_cast<uint32_t>(a), i), y = byte(static_cast<uint32_t>(b), i);
    if (f(static_cast<int32_t>(x), static_cast<int32_t>(y))) flags |= 1u << i;
  }
  return static_cast<T>(flags);
}

/* Bits low to high, none when high is lower. */
inline uint32_t field(uint32_t low, uint32_t high) {
  const uint32_t first = low & 31, last = high & 31;
  return first > last ? 0 : (0xFFFFFFFFu >> (31 - last)) & (0xFFFFFFFFu << first);
}
/* Zeros before the first one. */
inline uint32_t leading(uint32_t x) { return x == 0 ? 32u : static_cast<uint32_t>(__builtin_clz(x)); }
inline uint32_t reversed(uint32_t x) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i) r |= ((x >> i) & 1u) << (31 - i);
  return r;
}
inline uint32_t dealt(uint32_t x) {
  uint32_t r = 0;
  for (int i = 0; i < 16; ++i) r |= ((x >> (2 * i)) & 1u) << i | ((x >> (2 * i + 1)) & 1u) << (16 + i);
  return r;
}
inline uint32_t shuffled(uint32_t x) {
  uint32_t r = 0;
  for (int i = 0; i < 16; ++i) r |= ((x >> i) & 1u) << (2 * i) | ((x >> (16 + i)) & 1u) << (2 * i + 1);
  return r;
}

}  // namespace c6x
}  // namespace c7x_emu

#endif
