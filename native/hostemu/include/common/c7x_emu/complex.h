/* Complex elements and vectors of them: real and imaginary parts alternate in memory. */
#ifndef C7X_EMU_COMPLEX_H
#define C7X_EMU_COMPLEX_H

#include "vector.h"

namespace c7x_emu {

template <class T, int N>
struct cvec {
  typedef T lane_t __attribute__((aligned(1)));
  static constexpr int lanes = N;
  typedef cvec<T, 1> element;
  typedef cvec<T, (N > 1 ? N / 2 : 1)> half_t;

  cvec<T, 1> s[N];

  cvec() = default;
  template <class A, class B, class... Xs>
  cvec(A a, B b, Xs... xs) {
    fill(std::is_arithmetic<A>(), a, b, xs...);
  }
  explicit cvec(const cvec<T, 1>& x) {
    for (int i = 0; i < N; ++i) s[i] = x;
  }

  half_t& lo() { return *reinterpret_cast<half_t*>(s); }
  half_t& hi() { return *reinterpret_cast<half_t*>(s + N / 2); }
  const half_t& lo() const { return *reinterpret_cast<const half_t*>(s); }
  const half_t& hi() const { return *reinterpret_cast<const half_t*>(s + N / 2); }
  cvec<T, 1>& s0() { return s[0]; }
  cvec<T, 1>& s1() { return s[1]; }
  half_t even() const { return second(0); }
  half_t odd() const { return second(1); }
  view<vec<T, N>, 2> r() { return view<vec<T, N>, 2>(reinterpret_cast<lane_t*>(this)); }
  view<vec<T, N>, 2> i() { return view<vec<T, N>, 2>(reinterpret_cast<lane_t*>(this) + 1); }
  vec<T, N> r() const { return const_cast<cvec*>(this)->r(); }
  vec<T, N> i() const { return const_cast<cvec*>(this)->i(); }

  friend cvec operator+(const cvec& a, const cvec& b) { return zip(a, b, add()); }
  friend cvec operator-(const cvec& a, const cvec& b) { return zip(a, b, subtract()); }
  friend cvec operator*(const cvec& a, const cvec& b) { return zip(a, b, multiply()); }
  friend cvec operator-(const cvec& a) {
    cvec zero;
    for (int k = 0; k < N; ++k) zero.s[k] = -a.s[k];
    return zero;
  }
  cvec& operator+=(const cvec& b) { return *this = *this + b; }
  cvec& operator-=(const cvec& b) { return *this = *this - b; }
  cvec& operator*=(const cvec& b) { return *this = *this * b; }

  void print() const {
    for (int k = 0; k < N; ++k) {
      std::printf(k ? "," : "(");
      s[k].print_element();
    }
    std::printf(")\n");
  }

 private:
  struct add { cvec<T, 1> operator()(const cvec<T, 1>& a, const cvec<T, 1>& b) const { return a + b; } };
  struct subtract { cvec<T, 1> operator()(const cvec<T, 1>& a, const cvec<T, 1>& b) const { return a - b; } };
  struct multiply { cvec<T, 1> operator()(const cvec<T, 1>& a, const cvec<T, 1>& b) const { return a * b; } };
  template <class F>
  static cvec zip(const cvec& a, const cvec& b, F f) {
    cvec result;
    for (int k = 0; k < N; ++k) result.s[k] = f(a.s[k], b.s[k]);
    return result;
  }
  half_t second(int from) const {
    half_t result;
    cvec<T, 1>* at = reinterpret_cast<cvec<T, 1>*>(&result);
    for (int k = 0; k < N / 2; ++k) at[k] = s[from + k * 2];
    return result;
  }
  /* Scalars: r, i, r, i, ...; otherwise complex scalars and vectors, one after another. */
  template <class... Xs>
  void fill(std::true_type, const Xs&... xs) {
    static_assert(sizeof...(Xs) == 2 * N, "a complex vector needs a real and an imaginary part for every lane");
    put_lanes<T>(reinterpret_cast<lane_t*>(this), xs...);
  }
  template <class... Xs>
  void fill(std::false_type, const Xs&... xs) {
    cvec<T, 1>* end = append(s, xs...);
    if (end != s + N) die("complex vector", "the number of lanes given is not that of the vector");
  }
  static cvec<T, 1>* append(cvec<T, 1>* at) { return at; }
  template <int M, class... Xs>
  static cvec<T, 1>* append(cvec<T, 1>* at, const cvec<T, M>& x, const Xs&... xs) {
    std::memcpy(static_cast<void*>(at), static_cast<const void*>(&x), sizeof(x));
    return append(at + M, xs...);
  }
};

template <class T>
struct cvec<T, 1> {
  typedef T lane_t __attribute__((aligned(1)));
  typedef typename wrap<T>::type U;
  static constexpr int lanes = 1;
  lane_t re, im;

  cvec() = default;
  template <class A, class B, class = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value>::type>
  cvec(A r, B i) : re(static_cast<T>(r)), im(static_cast<T>(i)) {}

  lane_t& r() { return re; }
  lane_t& i() { return im; }
  T r() const { return re; }
  T i() const { return im; }

  friend cvec operator+(const cvec& a, const cvec& b) { return cvec(sum(a.re, b.re), sum(a.im, b.im)); }
  friend cvec operator-(const cvec& a, const cvec& b) { return cvec(difference(a.re, b.re), difference(a.im, b.im)); }
  friend cvec operator*(const cvec& a, const cvec& b) {
    return cvec(difference(product(a.re, b.re), product(a.im, b.im)), sum(product(a.re, b.im), product(a.im, b.re)));
  }
  friend cvec operator-(const cvec& a) {
    return std::is_integral<T>::value ? cvec(difference(0, a.re), difference(0, a.im)) : cvec(-a.re, -a.im);
  }
  friend bool operator==(const cvec& a, const cvec& b) { return a.re == b.re && a.im == b.im; }
  friend bool operator!=(const cvec& a, const cvec& b) { return !(a == b); }
  void print_element() const {
    std::printf("(");
    print_any_lane<T>(re);
    std::printf(",");
    print_any_lane<T>(im);
    std::printf(")");
  }
  void print() const {
    print_element();
    std::printf("\n");
  }

 private:
  static T sum(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T difference(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  static T product(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
};

template <class T, int N>
struct traits<cvec<T, N>> {
  typedef cvec<T, 1> element;
  static constexpr int lanes = N;
};

}  // namespace c7x_emu

#endif
