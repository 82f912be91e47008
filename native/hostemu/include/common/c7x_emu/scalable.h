/* Namespace c7x: vector types as wide as the core's registers, and traits of them (SPRUIG8, scalable vectors). */
#ifndef C7X_EMU_SCALABLE_H
#define C7X_EMU_SCALABLE_H

#include "stream.h"

namespace c7x_emu {

/* Vectors of one lane are scalars. */
template <class T, int N>
struct scalable {
  typedef vec<T, N> type;
};
template <class T>
struct scalable<T, 1> {
  typedef T type;
};

template <class T>
struct lane_type {
  typedef T type;
};
template <>
struct lane_type<char> {
  typedef int8_t type;
};
template <>
struct lane_type<long long> {
  typedef int64_t type;
};
template <>
struct lane_type<unsigned long long> {
  typedef uint64_t type;
};

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }

template <class V>
struct shape {
  typedef typename lane_type<V>::type element;
  static constexpr int lanes = 1;
  typedef vec<element, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(element))> full;
};
template <class T, int N>
struct shape<vec<T, N>> {
  typedef T element;
  static constexpr int lanes = N;
  typedef vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))> full;
};
template <class T, int N>
struct shape<cvec<T, N>> {
  typedef cvec<T, 1> element;
  static constexpr int lanes = N;
  typedef cvec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(2 * sizeof(T))> full;
};

}  // namespace c7x_emu

namespace c7x {

#define C7X_EMU_SCALABLE(name, T)                                                                                      \
  typedef c7x_emu::vec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T))> name##_vec;                            \
  typedef c7x_emu::scalable<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T)) / 2>::type name##_hvec;            \
  typedef c7x_emu::scalable<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(sizeof(T)) / 4>::type name##_qvec;            \
  typedef name##_vec* name##_vec_ptr;                                                                                  \
  typedef name##_hvec* name##_hvec_ptr;                                                                                \
  typedef name##_qvec* name##_qvec_ptr;                                                                                \
  template <class From>                                                                                                \
  inline name##_vec as_##name##_vec(const From& from) { return c7x_emu::reinterpret<name##_vec>(from); }              \
  template <class From>                                                                                                \
  inline name##_hvec as_##name##_hvec(const From& from) { return c7x_emu::reinterpret<name##_hvec>(from); }           \
  template <class From>                                                                                                \
  inline name##_vec convert_##name##_vec(const From& from) { return c7x_emu::convert<name##_vec>(from); }             \
  template <class From>                                                                                                \
  inline name##_hvec convert_##name##_hvec(const From& from) { return c7x_emu::convert<name##_hvec>(from); }
#define C7X_EMU_SCALABLE_COMPLEX(name, T)                                                                              \
  typedef c7x_emu::cvec<T, __C7X_VEC_SIZE_BYTES__ / static_cast<int>(2 * sizeof(T))> name##_vec;                       \
  typedef name##_vec* name##_vec_ptr;                                                                                  \
  template <class From>                                                                                                \
  inline name##_vec as_##name##_vec(const From& from) { return c7x_emu::reinterpret<name##_vec>(from); }

C7X_EMU_SCALABLE(char, int8_t)
C7X_EMU_SCALABLE(uchar, uint8_t)
C7X_EMU_SCALABLE(short, int16_t)
C7X_EMU_SCALABLE(ushort, uint16_t)
C7X_EMU_SCALABLE(int, int32_t)
C7X_EMU_SCALABLE(uint, uint32_t)
C7X_EMU_SCALABLE(long, int64_t)
C7X_EMU_SCALABLE(ulong, uint64_t)
C7X_EMU_SCALABLE(float, float)
C7X_EMU_SCALABLE(double, double)
C7X_EMU_SCALABLE_COMPLEX(cchar, int8_t)
C7X_EMU_SCALABLE_COMPLEX(cshort, int16_t)
C7X_EMU_SCALABLE_COMPLEX(cint, int32_t)
C7X_EMU_SCALABLE_COMPLEX(cfloat, float)
C7X_EMU_SCALABLE_COMPLEX(clong, int64_t)
C7X_EMU_SCALABLE_COMPLEX(cdouble, double)

#undef C7X_EMU_SCALABLE
#undef C7X_EMU_SCALABLE_COMPLEX

template <class V>
struct element_count_of {
  static constexpr int value = c7x_emu::shape<V>::lanes;
};
template <class V>
constexpr int element_count_of<V>::value;

template <class V>
struct element_type_of {
  typedef typename c7x_emu::shape<V>::element type;
};

/* The widest vector of T's element. */
template <class T>
struct make_full_vector {
  typedef typename c7x_emu::shape<T>::full type;
};

/* How many elements of a type the core's registers hold. */
template <class T>
struct max_simd {
  static constexpr int value = c7x_emu::shape<typename c7x_emu::shape<T>::full>::lanes;
};
template <class T>
constexpr int max_simd<T>::value;

template <class To, class From>
inline To reinterpret(const From& from) { return c7x_emu::reinterpret<To>(from); }
template <class To, class From>
inline To convert(const From& from) { return c7x_emu::convert<To>(from); }

template <class V>
struct se_veclen {
  static constexpr __SE_VECLEN value = static_cast<__SE_VECLEN>(c7x_emu::log2_of(c7x_emu::shape<V>::lanes));
};
template <class V>
constexpr __SE_VECLEN se_veclen<V>::value;
template <class V>
struct sa_veclen {
  static constexpr __SA_VECLEN value = static_cast<__SA_VECLEN>(c7x_emu::log2_of(c7x_emu::shape<V>::lanes));
};
template <class V>
constexpr __SA_VECLEN sa_veclen<V>::value;
template <class V>
struct se_eletype {
  static_assert(std::is_arithmetic<typename c7x_emu::shape<V>::element>::value,
                "element types of complex streams are not implemented");
  static constexpr __SE_ELETYPE value =
      static_cast<__SE_ELETYPE>(c7x_emu::log2_of(static_cast<int>(sizeof(typename c7x_emu::shape<V>::element))));
};
template <class V>
constexpr __SE_ELETYPE se_eletype<V>::value;

/* The duplication that fills a vector with one element of it. */
template <class T, class V = typename make_full_vector<T>::type>
struct se_eledup {
  static_assert(std::is_same<typename c7x_emu::shape<T>::element, typename c7x_emu::shape<V>::element>::value &&
                    c7x_emu::shape<T>::lanes == 1 && std::is_arithmetic<typename c7x_emu::shape<V>::element>::value,
                "duplication of other than the vector's own real elements is not implemented");
  static constexpr __SE_ELEDUP value = static_cast<__SE_ELEDUP>(c7x_emu::log2_of(c7x_emu::shape<V>::lanes));
};
template <class T, class V>
constexpr __SE_ELEDUP se_eledup<T, V>::value;

template <int I, class V>
struct strm_eng {
  static_assert(I == 0 || I == 1, "there are two streaming engines");
  static V get() { return c7x_emu::stream_read<I, V>(I == 0 ? "SE0" : "SE1"); }
  static V get_adv() { return c7x_emu::stream_read_advance<I, V>(I == 0 ? "SE0" : "SE1"); }
};

template <int I, class V>
struct strm_agen {
  static_assert(I >= 0 && I < 4, "there are four streaming address generators");
  static constexpr const char* name() { return I == 0 ? "SA0" : I == 1 ? "SA1" : I == 2 ? "SA2" : "SA3"; }
  template <class P>
  static auto get(P* pointer) -> decltype(c7x_emu::stream_address<I, V>("", pointer)) {
    return c7x_emu::stream_address<I, V>(name(), pointer);
  }
  template <class P>
  static auto get_adv(P* pointer) -> decltype(c7x_emu::stream_address<I, V>("", pointer)) {
    return c7x_emu::stream_address_advance<I, V>(name(), pointer);
  }
  static __vpred get_vpred() { return c7x_emu::stream_predicate<I, V>(name()); }
};

}  // namespace c7x

#endif
