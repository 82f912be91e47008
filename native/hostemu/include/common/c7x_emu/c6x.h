/* Written by tools/generate.py from intrinsics.toml; change that. */

#ifndef C7X_EMU_C6X_H
#define C7X_EMU_C6X_H

#include "c6x_words.h"

/* _abs: Absolute value; the smallest integer becomes the largest. */
inline int32_t _abs(int32_t a) {
  using namespace c7x_emu::c6x;
  return c7x_emu::absolute(a, std::true_type());
}

/* _abs2: Absolute values of the half-words; the smallest becomes the largest. */
inline int32_t _abs2(int32_t a) {
  using namespace c7x_emu::c6x;
  return by_halves(a, 0, [](int32_t x, int32_t) { return clip16(x < 0 ? -x : x); });
}

/* _add2: Sums of the half-words; each wraps. */
inline int32_t _add2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return x + y; });
}

/* _add4: Sums of the bytes; each wraps. */
inline int32_t _add4(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_bytes(a, b, [](int32_t x, int32_t y) { return x + y; });
}

/* _avg2: Averages of the signed half-words, halves rounded up. */
inline int32_t _avg2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return (x + y + 1) >> 1; });
}

/* _avgu4: Averages of the unsigned bytes, halves rounded up. */
inline uint32_t _avgu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, b, [](int32_t x, int32_t y) { return (x + y + 1) >> 1; });
}

/* _bitc4: Number of ones in every byte. */
inline uint32_t _bitc4(uint32_t a) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, 0, [](int32_t x, int32_t) { return __builtin_popcount(static_cast<unsigned>(x)); });
}

/* _bitr: The bits in reverse order. */
inline uint32_t _bitr(uint32_t a) {
  using namespace c7x_emu::c6x;
  return reversed(a);
}

/* _clr: a with bits b to c cleared. */
inline uint32_t _clr(uint32_t a, uint32_t b, uint32_t c) {
  using namespace c7x_emu::c6x;
  return a & ~field(b, c);
}

/* _cmpeq2: Bit i is set where half-word i of a and b is equal. */
inline int32_t _cmpeq2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_halves(a, b, [](int32_t x, int32_t y) { return x == y; });
}

/* _cmpeq4: Bit i is set where byte i of a and b is equal. */
inline int32_t _cmpeq4(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_bytes(a, b, [](int32_t x, int32_t y) { return x == y; });
}

/* _cmpgt2: Bit i is set where signed half-word i of a is greater. */
inline int32_t _cmpgt2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_halves(a, b, [](int32_t x, int32_t y) { return x > y; });
}

/* _cmpgtu4: Bit i is set where unsigned byte i of a is greater. */
inline uint32_t _cmpgtu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_bytes(a, b, [](int32_t x, int32_t y) { return x > y; });
}

/* _cmplt2: Bit i is set where signed half-word i of a is less. */
inline int32_t _cmplt2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_halves(a, b, [](int32_t x, int32_t y) { return x < y; });
}

/* _cmpltu4: Bit i is set where unsigned byte i of a is less. */
inline uint32_t _cmpltu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return flags_of_bytes(a, b, [](int32_t x, int32_t y) { return x < y; });
}

/* _deal: The odd bits in the high half-word, the even ones in the low one. */
inline uint32_t _deal(uint32_t a) {
  using namespace c7x_emu::c6x;
  return dealt(a);
}

/* _dotp2: Sum of the products of signed half-words. */
inline int32_t _dotp2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(half(a, 0)) * half(b, 0) + int64_t(half(a, 1)) * half(b, 1));
}

/* _dotpn2: Product of the high half-words minus that of the low ones. */
inline int32_t _dotpn2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(half(a, 1)) * half(b, 1) - int64_t(half(a, 0)) * half(b, 0));
}

/* _dotpsu4: Sum of the products of a's signed and b's unsigned bytes. */
inline int32_t _dotpsu4(int32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(signed_byte(a, 0)) * byte(b, 0) + int64_t(signed_byte(a, 1)) * byte(b, 1) + int64_t(signed_byte(a, 2)) * byte(b, 2) + int64_t(signed_byte(a, 3)) * byte(b, 3));
}

/* _dotpu4: Sum of the products of unsigned bytes. */
inline uint32_t _dotpu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return byte(a, 0) * byte(b, 0) + byte(a, 1) * byte(b, 1) + byte(a, 2) * byte(b, 2) + byte(a, 3) * byte(b, 3);
}

/* _ext: a shifted left by b, then right by c with its sign. */
inline int32_t _ext(int32_t a, uint32_t b, uint32_t c) {
  using namespace c7x_emu::c6x;
  return static_cast<int32_t>(static_cast<uint32_t>(a) << (b & 31)) >> (c & 31);
}

/* _extu: a shifted left by b, then right by c with zeros. */
inline uint32_t _extu(uint32_t a, uint32_t b, uint32_t c) {
  using namespace c7x_emu::c6x;
  return (a << (b & 31)) >> (c & 31);
}

/* _hill: The high word. */
inline uint32_t _hill(int64_t a) {
  using namespace c7x_emu::c6x;
  return static_cast<uint32_t>(static_cast<uint64_t>(a) >> 32);
}

/* _itoll: 64 bits from a high word, a, and a low one, b. */
inline int64_t _itoll(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return static_cast<int64_t>(static_cast<uint64_t>(a) << 32 | b);
}

/* _lmbd: How many bits stand before the first one (a is 1) or zero (a is 0) of b, from the left; 32 when there is none. */
inline uint32_t _lmbd(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return leading((a & 1) != 0 ? b : ~b);
}

/* _loll: The low word. */
inline uint32_t _loll(int64_t a) {
  using namespace c7x_emu::c6x;
  return static_cast<uint32_t>(a);
}

/* _max2: The greater of signed half-words. */
inline int32_t _max2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return x > y ? x : y; });
}

/* _maxu4: The greater of unsigned bytes. */
inline uint32_t _maxu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, b, [](int32_t x, int32_t y) { return x > y ? x : y; });
}

/* _min2: The lesser of signed half-words. */
inline int32_t _min2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return x < y ? x : y; });
}

/* _minu4: The lesser of unsigned bytes. */
inline uint32_t _minu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, b, [](int32_t x, int32_t y) { return x < y ? x : y; });
}

/* _mpy: Product of the low half-words, signed. */
inline int32_t _mpy(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return half(a, 0) * half(b, 0);
}

/* _mpy2ll: Products of the high and of the low half-words, signed, in the high and the low word. */
inline int64_t _mpy2ll(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(half(a, 1) * half(b, 1))) << 32 | static_cast<uint32_t>(half(a, 0) * half(b, 0)));
}

/* _mpy32: Low word of the product. */
inline int32_t _mpy32(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(a) * b);
}

/* _mpy32ll: The product in 64 bits. */
inline int64_t _mpy32ll(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return int64_t(a) * b;
}

/* _mpyh: Product of the high half-words, signed. */
inline int32_t _mpyh(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return half(a, 1) * half(b, 1);
}

/* _mpyhl: Product of a's high and b's low half-word, signed. */
inline int32_t _mpyhl(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return half(a, 1) * half(b, 0);
}

/* _mpyhu: Product of the high half-words, unsigned. */
inline uint32_t _mpyhu(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return unsigned_half(a, 1) * unsigned_half(b, 1);
}

/* _mpylh: Product of a's low and b's high half-word, signed. */
inline int32_t _mpylh(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return half(a, 0) * half(b, 1);
}

/* _mpysu: Product of a's signed and b's unsigned low half-word. */
inline int32_t _mpysu(int32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(half(a, 0)) * unsigned_half(b, 0));
}

/* _mpyu: Product of the low half-words, unsigned. */
inline uint32_t _mpyu(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return unsigned_half(a, 0) * unsigned_half(b, 0);
}

/* _mpyus: Product of a's unsigned and b's signed low half-word. */
inline int32_t _mpyus(uint32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return word(int64_t(unsigned_half(a, 0)) * half(b, 0));
}

/* _norm: How many bits after the sign repeat it. */
inline uint32_t _norm(int32_t a) {
  using namespace c7x_emu::c6x;
  return static_cast<uint32_t>(leading(static_cast<uint32_t>(a < 0 ? ~a : a)) - 1);
}

/* _pack2: Low half-word of a, then that of b. */
inline uint32_t _pack2(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return halves(unsigned_half(a, 0), unsigned_half(b, 0));
}

/* _packh2: High half-word of a, then that of b. */
inline uint32_t _packh2(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return halves(unsigned_half(a, 1), unsigned_half(b, 1));
}

/* _packh4: High bytes of the half-words of a, then of b. */
inline uint32_t _packh4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return bytes(byte(a, 3), byte(a, 1), byte(b, 3), byte(b, 1));
}

/* _packhl2: High half-word of a, then the low one of b. */
inline uint32_t _packhl2(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return halves(unsigned_half(a, 1), unsigned_half(b, 0));
}

/* _packl4: Low bytes of the half-words of a, then of b. */
inline uint32_t _packl4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return bytes(byte(a, 2), byte(a, 0), byte(b, 2), byte(b, 0));
}

/* _packlh2: Low half-word of a, then the high one of b. */
inline uint32_t _packlh2(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return halves(unsigned_half(a, 0), unsigned_half(b, 1));
}

/* _rotl: a rotated left by b. */
inline uint32_t _rotl(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return a << (b & 31) | (a >> (31 - (b & 31)) >> 1);
}

/* _sadd: Sum, saturated. */
inline int32_t _sadd(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return c7x_emu::add_saturating(a, b);
}

/* _sadd2: Sums of the signed half-words, saturated. */
inline int32_t _sadd2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return clip16(x + y); });
}

/* _saddu4: Sums of the unsigned bytes, saturated. */
inline uint32_t _saddu4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, b, [](int32_t x, int32_t y) { return clip(x + y, 0, 255); });
}

/* _set: a with bits b to c set. */
inline uint32_t _set(uint32_t a, uint32_t b, uint32_t c) {
  using namespace c7x_emu::c6x;
  return a | field(b, c);
}

/* _shfl: Bits of the high half-word become the odd ones, of the low one the even ones; undoes _deal. */
inline uint32_t _shfl(uint32_t a) {
  using namespace c7x_emu::c6x;
  return shuffled(a);
}

/* _shlmb: b one byte to the left, the high byte of a behind it. */
inline uint32_t _shlmb(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return b << 8 | a >> 24;
}

/* _shr2: Signed half-words shifted right by b. */
inline int32_t _shr2(int32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return static_cast<int32_t>(halves(static_cast<uint32_t>(half(a, 1) >> (b & 31)), static_cast<uint32_t>(half(a, 0) >> (b & 31))));
}

/* _shrmb: b one byte to the right, the low byte of a before it. */
inline uint32_t _shrmb(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return b >> 8 | a << 24;
}

/* _shru2: Unsigned half-words shifted right by b. */
inline uint32_t _shru2(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return halves(unsigned_half(a, 1) >> (b & 31), unsigned_half(a, 0) >> (b & 31));
}

/* _smpy: Twice the product of the low half-words, signed and saturated. */
inline int32_t _smpy(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return doubled(half(a, 0) * half(b, 0));
}

/* _smpyh: Twice the product of the high half-words, signed and saturated. */
inline int32_t _smpyh(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return doubled(half(a, 1) * half(b, 1));
}

/* _smpyhl: Twice the product of a's high and b's low half-word, signed and saturated. */
inline int32_t _smpyhl(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return doubled(half(a, 1) * half(b, 0));
}

/* _smpylh: Twice the product of a's low and b's high half-word, signed and saturated. */
inline int32_t _smpylh(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return doubled(half(a, 0) * half(b, 1));
}

/* _spack2: a and b saturated to half-words. */
inline int32_t _spack2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return static_cast<int32_t>(halves(static_cast<uint32_t>(clip16(a)), static_cast<uint32_t>(clip16(b))));
}

/* _spacku4: Signed half-words of a, then of b, saturated to unsigned bytes. */
inline uint32_t _spacku4(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return bytes(unsigned_clip(half(a, 1)), unsigned_clip(half(a, 0)), unsigned_clip(half(b, 1)), unsigned_clip(half(b, 0)));
}

/* _sshl: a shifted left by b, saturated. */
inline int32_t _sshl(int32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return c7x_emu::saturate_lane<int32_t>(static_cast<int64_t>(a) * (int64_t(1) << (b & 31)));
}

/* _ssub: Difference, saturated. */
inline int32_t _ssub(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return c7x_emu::subtract_saturating(a, b);
}

/* _ssub2: Differences of the signed half-words, saturated. */
inline int32_t _ssub2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return clip16(x - y); });
}

/* _sub2: Differences of the half-words; each wraps. */
inline int32_t _sub2(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_halves(a, b, [](int32_t x, int32_t y) { return x - y; });
}

/* _sub4: Differences of the bytes; each wraps. */
inline int32_t _sub4(int32_t a, int32_t b) {
  using namespace c7x_emu::c6x;
  return by_bytes(a, b, [](int32_t x, int32_t y) { return x - y; });
}

/* _subabs4: Distances of the unsigned bytes. */
inline uint32_t _subabs4(uint32_t a, uint32_t b) {
  using namespace c7x_emu::c6x;
  return by_unsigned_bytes(a, b, [](int32_t x, int32_t y) { return x > y ? x - y : y - x; });
}

/* _swap4: The bytes of each half-word exchanged. */
inline uint32_t _swap4(uint32_t a) {
  using namespace c7x_emu::c6x;
  return bytes(byte(a, 2), byte(a, 3), byte(a, 0), byte(a, 1));
}

/* _unpkhu4: The high two bytes as unsigned half-words. */
inline uint32_t _unpkhu4(uint32_t a) {
  using namespace c7x_emu::c6x;
  return halves(byte(a, 3), byte(a, 2));
}

/* _unpklu4: The low two bytes as unsigned half-words. */
inline uint32_t _unpklu4(uint32_t a) {
  using namespace c7x_emu::c6x;
  return halves(byte(a, 1), byte(a, 0));
}

/* _xpnd2: Half-words of ones where bit 0 or 1 is set. */
inline uint32_t _xpnd2(uint32_t a) {
  using namespace c7x_emu::c6x;
  return halves((a & 2) != 0 ? 0xFFFFu : 0, (a & 1) != 0 ? 0xFFFFu : 0);
}

/* _xpnd4: Bytes of ones where bits 0 to 3 are set. */
inline uint32_t _xpnd4(uint32_t a) {
  using namespace c7x_emu::c6x;
  return bytes((a & 8) != 0 ? 255u : 0, (a & 4) != 0 ? 255u : 0, (a & 2) != 0 ? 255u : 0, (a & 1) != 0 ? 255u : 0);
}

#endif
