/* Vectors: N lanes in memory order, aligned to one byte, so that any address may be read through a vector pointer. */
#ifndef C7X_EMU_VECTOR_H
#define C7X_EMU_VECTOR_H

#include "base.h"

namespace c7x_emu {

template <class T, int N>
struct vec;

/* A lane in memory. Deduction would drop the attribute, so functions that take a pointer to lanes name T themselves. */
template <class T>
struct unaligned {
  typedef T type __attribute__((aligned(1)));
};

/* A half of a vector, which for vectors of two lanes is a scalar. */
template <class T, int N>
struct part {
  typedef vec<T, N> type;
};
template <class T>
struct part<T, 1> {
  typedef T type __attribute__((aligned(1)));
};

template <class V>
struct traits;
template <class T, int N>
struct traits<vec<T, N>> {
  typedef T element;
  static constexpr int lanes = N;
};

inline void print_lane(bool x) { std::printf("%d", x ? 1 : 0); }
inline void print_lane(double x) { std::printf("%g", x); }
inline void print_lane(int64_t x) { std::printf("%lld", static_cast<long long>(x)); }
inline void print_lane(uint64_t x) { std::printf("%llu", static_cast<unsigned long long>(x)); }
template <class T>
inline void print_any_lane(T x) {
  typedef typename std::conditional<std::is_same<T, bool>::value, bool,
      typename std::conditional<std::is_floating_point<T>::value, double,
          typename std::conditional<std::is_signed<T>::value, int64_t, uint64_t>::type>::type>::type wide;
  print_lane(static_cast<wide>(x));
}

/* Every second lane of a vector, as a place: it can be assigned to. Becomes a vector where one is needed. */
template <class V, int stride>
struct view {
  typedef typename traits<V>::element T;
  typedef T lane_t __attribute__((aligned(1)));
  static constexpr int M = traits<V>::lanes;

  lane_t* first;

  operator V() const {
    V r;
    for (int i = 0; i < M; ++i) r.s[i] = first[i * stride];
    return r;
  }
  V value() const { return *this; }
  view& operator=(const V& v) {
    for (int i = 0; i < M; ++i) first[i * stride] = v.s[i];
    return *this;
  }
  view& operator=(const view& other) { return *this = other.value(); }
  view(const view&) = default;
  explicit view(lane_t* lanes) : first(lanes) {}

  view<vec<T, M / 2>, stride * 2> even() const { return view<vec<T, M / 2>, stride * 2>(first); }
  view<vec<T, M / 2>, stride * 2> odd() const { return view<vec<T, M / 2>, stride * 2>(first + stride); }
  view<vec<T, M / 2>, stride> lo() const { return view<vec<T, M / 2>, stride>(first); }
  view<vec<T, M / 2>, stride> hi() const { return view<vec<T, M / 2>, stride>(first + stride * (M / 2)); }
  lane_t& operator[](int i) const { return first[i * stride]; }
  lane_t& s0() const { return first[0]; }
  lane_t& s1() const { return first[stride]; }
  void print() const { value().print(); }
};

/* vec(a, b, ...): scalars and vectors of the same element, one after another (SPRUIG6 5.1). */
template <class T, class X>
struct piece {
  static_assert(std::is_arithmetic<X>::value, "a vector is built from scalars and from vectors of its own element type");
  static constexpr int lanes = 1;
  static void put(typename unaligned<T>::type* at, const X& x) { *at = static_cast<T>(x); }
};
template <class T, int M>
struct piece<T, vec<T, M>> {
  static constexpr int lanes = M;
  static void put(typename unaligned<T>::type* at, const vec<T, M>& x) { std::memcpy(at, x.s, sizeof(x.s)); }
};
template <class T, class V, int stride>
struct piece<T, view<V, stride>> : piece<T, V> {};

template <class T>
inline constexpr int count_lanes() { return 0; }
template <class T, class X, class... Xs>
inline constexpr int count_lanes() { return piece<T, X>::lanes + count_lanes<T, Xs...>(); }

template <class T>
inline void put_lanes(typename unaligned<T>::type*) {}
template <class T, class X, class... Xs>
inline void put_lanes(typename unaligned<T>::type* at, const X& x, const Xs&... xs) {
  piece<T, X>::put(at, x);
  put_lanes<T>(at + piece<T, X>::lanes, xs...);
}

template <class T, int N>
struct pairs {
  typedef view<vec<T, N / 2>, 2> place;
  typedef vec<T, N / 2> value;
  static place every_second(typename unaligned<T>::type* at) { return place(at); }
  static value every_second_of(const typename unaligned<T>::type* at) {
    value r;
    for (int i = 0; i < N / 2; ++i) r.s[i] = at[i * 2];
    return r;
  }
};
template <class T>
struct pairs<T, 2> {
  typedef typename unaligned<T>::type& place;
  typedef T value;
  static place every_second(typename unaligned<T>::type* at) { return *at; }
  static value every_second_of(const typename unaligned<T>::type* at) { return *at; }
};

#define C7X_EMU_ACCESSOR(name, index)                                          \
  lane_t& name() {                                                             \
    static_assert(index < N, "the vector has no lane " #name);                 \
    return s[index];                                                           \
  }                                                                            \
  T name() const {                                                             \
    static_assert(index < N, "the vector has no lane " #name);                 \
    return s[index];                                                           \
  }

/* Integers wrap. */
#define C7X_EMU_ARITHMETIC(op)                                                 \
  friend vec operator op(const vec& a, const vec& b) {                         \
    typedef typename wrap<T>::type U;                                          \
    vec r;                                                                     \
    for (int i = 0; i < N; ++i) r.s[i] = static_cast<T>(static_cast<U>(a.s[i]) op static_cast<U>(b.s[i])); \
    return r;                                                                  \
  }                                                                            \
  vec& operator op##=(const vec& b) { return *this = *this op b; }
#define C7X_EMU_WITH(op, call)                                                 \
  friend vec operator op(const vec& a, const vec& b) {                         \
    vec r;                                                                     \
    for (int i = 0; i < N; ++i) r.s[i] = call;                                 \
    return r;                                                                  \
  }                                                                            \
  vec& operator op##=(const vec& b) { return *this = *this op b; }
/* Lanes of ones where true, as in OpenCL. */
#define C7X_EMU_COMPARISON(op)                                                 \
  friend vec<mask_t, N> operator op(const vec& a, const vec& b) {              \
    vec<mask_t, N> r;                                                          \
    for (int i = 0; i < N; ++i) r.s[i] = static_cast<mask_t>(a.s[i] op b.s[i] ? -1 : 0); \
    return r;                                                                  \
  }

template <class T, int N>
struct vec {
  typedef T lane_t __attribute__((aligned(1)));
  typedef typename lane_info<T>::mask mask_t;
  typedef std::integral_constant<bool, std::is_integral<T>::value> integer;
  typedef typename part<T, N / 2>::type half_t;

  lane_t s[N];

  vec() = default;
  template <class X, class = typename std::enable_if<std::is_arithmetic<X>::value>::type>
  vec(X x) {
    const T lane = static_cast<T>(x);
    for (int i = 0; i < N; ++i) s[i] = lane;
  }
  template <class A, class B, class... Xs>
  vec(A a, B b, Xs... xs) { /* by value: a reference to a lane at an odd address is none to a T */
    static_assert(count_lanes<T, A, B, Xs...>() == N, "the number of lanes given is not that of the vector");
    put_lanes<T>(s, a, b, xs...);
  }

  C7X_EMU_ACCESSOR(s0, 0) C7X_EMU_ACCESSOR(s1, 1) C7X_EMU_ACCESSOR(s2, 2) C7X_EMU_ACCESSOR(s3, 3)
  C7X_EMU_ACCESSOR(s4, 4) C7X_EMU_ACCESSOR(s5, 5) C7X_EMU_ACCESSOR(s6, 6) C7X_EMU_ACCESSOR(s7, 7)
  C7X_EMU_ACCESSOR(s8, 8) C7X_EMU_ACCESSOR(s9, 9) C7X_EMU_ACCESSOR(sa, 10) C7X_EMU_ACCESSOR(sb, 11)
  C7X_EMU_ACCESSOR(sc, 12) C7X_EMU_ACCESSOR(sd, 13) C7X_EMU_ACCESSOR(se, 14) C7X_EMU_ACCESSOR(sf, 15)
  C7X_EMU_ACCESSOR(x, 0) C7X_EMU_ACCESSOR(y, 1) C7X_EMU_ACCESSOR(z, 2) C7X_EMU_ACCESSOR(w, 3)

  half_t& lo() { return *reinterpret_cast<half_t*>(s); }
  half_t& hi() { return *reinterpret_cast<half_t*>(s + N / 2); }
  const half_t& lo() const { return *reinterpret_cast<const half_t*>(s); }
  const half_t& hi() const { return *reinterpret_cast<const half_t*>(s + N / 2); }
  typename pairs<T, N>::place even() { return pairs<T, N>::every_second(s); }
  typename pairs<T, N>::place odd() { return pairs<T, N>::every_second(s + 1); }
  typename pairs<T, N>::value even() const { return pairs<T, N>::every_second_of(s); }
  typename pairs<T, N>::value odd() const { return pairs<T, N>::every_second_of(s + 1); }

  C7X_EMU_ARITHMETIC(+)
  C7X_EMU_ARITHMETIC(-)
  C7X_EMU_ARITHMETIC(*)
  C7X_EMU_WITH(/, divide(T(a.s[i]), T(b.s[i]), integer()))
  C7X_EMU_WITH(%, modulo(T(a.s[i]), T(b.s[i])))
  C7X_EMU_WITH(&, static_cast<T>(a.s[i] & b.s[i]))
  C7X_EMU_WITH(|, static_cast<T>(a.s[i] | b.s[i]))
  C7X_EMU_WITH(^, static_cast<T>(a.s[i] ^ b.s[i]))
  C7X_EMU_WITH(<<, shift_left(T(a.s[i]), T(b.s[i]), integer()))
  C7X_EMU_WITH(>>, shift_right(T(a.s[i]), T(b.s[i]), integer()))
  C7X_EMU_COMPARISON(==)
  C7X_EMU_COMPARISON(!=)
  C7X_EMU_COMPARISON(<)
  C7X_EMU_COMPARISON(<=)
  C7X_EMU_COMPARISON(>)
  C7X_EMU_COMPARISON(>=)

  friend vec operator-(const vec& a) {
    typedef typename wrap<T>::type U;
    vec r;
    for (int i = 0; i < N; ++i) r.s[i] = std::is_integral<T>::value ? static_cast<T>(U(0) - static_cast<U>(a.s[i])) : static_cast<T>(-a.s[i]);
    return r;
  }
  friend vec operator+(const vec& a) { return a; }
  friend vec operator~(const vec& a) {
    vec r;
    for (int i = 0; i < N; ++i) r.s[i] = static_cast<T>(~a.s[i]);
    return r;
  }
  friend vec<mask_t, N> operator!(const vec& a) { return a == vec(0); }
  vec& operator++() { return *this += vec(1); }
  vec& operator--() { return *this -= vec(1); }
  vec operator++(int) {
    const vec old = *this;
    *this += vec(1);
    return old;
  }
  vec operator--(int) {
    const vec old = *this;
    *this -= vec(1);
    return old;
  }

  void print() const {
    for (int i = 0; i < N; ++i) {
      std::printf(i ? "," : "(");
      print_any_lane<T>(s[i]);
    }
    std::printf(")\n");
  }
};

#undef C7X_EMU_ACCESSOR
#undef C7X_EMU_ARITHMETIC
#undef C7X_EMU_WITH
#undef C7X_EMU_COMPARISON

/* Same bits, other type (SPRUIG8, re-interpretation functions). Scalars count as vectors of one lane. */
template <class To, class From>
inline To reinterpret(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "reinterpretation keeps the number of bits");
  To to;
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(to));
  return to;
}

template <class To, class From>
struct converter {
  static To call(const From& x) { return convert_lane<To>(x); }
};
template <class A, class B, int N>
struct converter<vec<A, N>, vec<B, N>> {
  static vec<A, N> call(const vec<B, N>& v) {
    vec<A, N> r;
    for (int i = 0; i < N; ++i) r.s[i] = convert_lane<A>(B(v.s[i]));
    return r;
  }
};
template <class A, class V, int stride>
struct converter<A, view<V, stride>> {
  static A call(const view<V, stride>& v) { return converter<A, V>::call(v.value()); }
};
template <class To, class From>
inline To convert(const From& from) {
  return converter<To, From>::call(from);
}

}  // namespace c7x_emu

#endif
