/* Names that C7000 code tests, and the one way in which the emulation gives up: with the name of what is missing. */
#ifndef C7X_EMU_BASE_H
#define C7X_EMU_BASE_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#if !defined(__GNUC__)
#error "C7000 host emulation needs g++ or clang++"
#endif
#if defined(__FAST_MATH__)
#error "C7000 host emulation needs IEEE arithmetic: compile without -ffast-math"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "C7000 host emulation needs a little-endian machine"
#endif

#ifndef __C7000__
#define __C7000__ 1
#endif
#ifndef __C7X_HOSTEM__
#define __C7X_HOSTEM__ 1
#endif
#ifndef __TI_COMPILER_VERSION__
/* The first compiler that takes constructor-style vectors, which this emulation needs too (SPRUIG6 5.1). */
#define __TI_COMPILER_VERSION__ 3000000
#endif

#define _nassert(condition) ((void)0)

namespace c7x_emu {

/* A template field, mode or value that has no meaning here ends the program: a wrong number would travel on. */
[[noreturn]] inline void die(const char* name, const char* what) {
  std::fprintf(stderr, "c7x host emulation: %s: %s\n", name, what);
  std::abort();
}

template <class T, class... Ts>
struct is_one_of : std::false_type {};
template <class T, class U, class... Ts>
struct is_one_of<T, U, Ts...> : std::conditional<std::is_same<T, U>::value, std::true_type, is_one_of<T, Ts...>>::type {};

/* Keeps a parameter out of template argument deduction, so that scalars convert to vectors there. */
template <class T>
struct identity {
  typedef T type;
};

template <class T>
struct lane_info {
  static constexpr bool integer = std::is_integral<T>::value;
  typedef typename std::conditional<
      sizeof(T) == 1, int8_t,
      typename std::conditional<sizeof(T) == 2, int16_t,
                                typename std::conditional<sizeof(T) == 4, int32_t, int64_t>::type>::type>::type mask;
};

/* What arithmetic on a lane is done in: unsigned of at least 32 bits, so that it wraps; floating point as it is. */
template <class T, bool integer = std::is_integral<T>::value>
struct wrap {
  typedef typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type type;
};
template <class T>
struct wrap<T, false> {
  typedef T type;
};

template <class T>
inline T shift_left(T a, T n, std::true_type) {
  typedef typename wrap<T>::type U;
  const U amount = static_cast<U>(n);
  return amount >= sizeof(T) * 8 ? T(0) : static_cast<T>(static_cast<U>(a) << (amount & (sizeof(U) * 8 - 1)));
}
template <class T>
inline T shift_right(T a, T n, std::true_type) {
  typedef typename wrap<T>::type U;
  const U amount = static_cast<U>(n);
  const T fill = static_cast<T>(a < T(0) ? -1 : 0);
  return amount >= sizeof(T) * 8 ? fill : static_cast<T>(a >> (amount & (sizeof(T) * 8 - 1)));
}

template <class T>
inline T divide(T a, T b, std::true_type) {
  if (b == T(0)) die("operator/", "integer division by zero");
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) return static_cast<T>(typename wrap<T>::type(0) - a);
  return static_cast<T>(a / b);
}
template <class T>
inline T divide(T a, T b, std::false_type) {
  return a / b;
}
template <class T>
inline T modulo(T a, T b) {
  if (b == T(0)) die("operator%", "integer division by zero");
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) return T(0);
  return static_cast<T>(a % b);
}

/* Conversions between lanes. Floating point to integer cuts off and stays in range, since C leaves what lies outside
 * undefined and machines differ; NaN goes to the end its sign bit points to. */
template <class To, class From, bool to_integer = std::is_integral<To>::value,
          bool from_integer = std::is_integral<From>::value>
struct lane_convert {
  static To call(From x) { return static_cast<To>(x); }
};
template <class From>
constexpr From two_to(int n) {
  return n == 0 ? From(1) : From(2) * two_to<From>(n - 1);
}
template <class To, class From>
struct lane_convert<To, From, true, false> {
  static To call(From x) {
    typedef std::numeric_limits<To> limits;
    /* 2^digits is exact in every floating point type here; the largest integer itself may not be. */
    constexpr From end = two_to<From>(limits::digits), first = std::is_signed<To>::value ? -end : From(0);
    const bool inside = x > first && x < end;
    const To outside = std::signbit(x) ? limits::min() : limits::max();
    return inside ? static_cast<To>(inside ? x : From(0)) : outside;
  }
};
template <class From>
struct lane_convert<bool, From, true, false> {
  static bool call(From x) { return x != From(0); }
};
template <class To, class From>
inline To convert_lane(From x) {
  return lane_convert<To, From>::call(x);
}

/* The same to the nearest integer, halves to even. */
template <class To, class From>
inline To round_lane(From x) {
  return convert_lane<To>(x == x ? std::nearbyint(x) : x);
}

template <class To, class From>
inline To saturate_lane(From x) {
  typedef std::numeric_limits<To> limits;
  return x < From(limits::min()) ? limits::min() : x > From(limits::max()) ? limits::max() : static_cast<To>(x);
}

/* The exact result of a sum or difference of lanes up to 32 bits, then of 64, brought into the lane's range. */
template <class T>
inline T add_saturating(T a, T b) {
  T r;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < T(0) ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}
template <class T>
inline T subtract_saturating(T a, T b) {
  T r;
  if (!__builtin_sub_overflow(a, b, &r)) return r;
  return (std::is_unsigned<T>::value || a < T(0)) ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}
template <class T>
inline T absolute(T a, std::true_type) {
  return a >= T(0) ? a : a == std::numeric_limits<T>::min() ? std::numeric_limits<T>::max() : static_cast<T>(-a);
}
template <class T>
inline T absolute(T a, std::false_type) {
  return std::fabs(a);
}

/* Seeds of Newton iterations. The processor promises eight bits and no more, so by default the seed is off by nearly
 * that much, in a direction that depends on the operand: a kernel with one iteration too few shows. */
template <class T>
inline T seed_error(T x) {
#if defined(C7X_EMU_EXACT_SEEDS)
  (void)x;
  return T(1);
#else
  typename lane_info<T>::mask bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const T off = T(1) / T(256) - T(1) / T(65536);
  return (bits >> (std::numeric_limits<T>::digits - 3)) & 1 ? T(1) + off : T(1) - off;
#endif
}
template <class T>
inline T reciprocal_seed(T x) {
  return (T(1) / x) * seed_error(x);
}
template <class T>
inline T reciprocal_root_seed(T x) {
  return (T(1) / std::sqrt(x)) * seed_error(x);
}

}  // namespace c7x_emu

#endif
