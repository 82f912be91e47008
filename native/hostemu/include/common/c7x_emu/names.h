/* The type names: int8, __int8, int8_ptr, as_int8(), convert_int8() and so on, up to the vector width of the core. */
#ifndef C7X_EMU_NAMES_H
#define C7X_EMU_NAMES_H

#include <sys/types.h> /* uint, ushort and ulong, where the C library has them */

#include "complex.h"

typedef unsigned char uchar;
#if !defined(__USE_MISC)
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#endif

/* `plain` is the name without underscores, which C7X_EMU_NO_SHORT_NAMES leaves out, as --vectypes=off does. */
#if defined(C7X_EMU_NO_SHORT_NAMES)
#define C7X_EMU_PLAIN(plain, underscored)
#else
#define C7X_EMU_PLAIN(plain, underscored)                                                                              \
  typedef underscored plain;                                                                                           \
  typedef plain* plain##_ptr;                                                                                          \
  template <class From>                                                                                                \
  inline plain as_##plain(const From& from) { return c7x_emu::reinterpret<plain>(from); }                             \
  template <class From>                                                                                                \
  inline plain convert_##plain(const From& from) { return c7x_emu::convert<plain>(from); }
#endif

#define C7X_EMU_NAME(plain, underscored, ...)                                                                          \
  typedef __VA_ARGS__ underscored;                                                                                     \
  typedef underscored* underscored##_ptr;                                                                              \
  template <class From>                                                                                                \
  inline underscored __as_##plain(const From& from) { return c7x_emu::reinterpret<underscored>(from); }               \
  template <class From>                                                                                                \
  inline underscored __convert_##plain(const From& from) { return c7x_emu::convert<underscored>(from); }              \
  C7X_EMU_PLAIN(plain, underscored)

#define C7X_EMU_VECTOR(name, T, N) C7X_EMU_NAME(name##N, __##name##N, c7x_emu::vec<T, N>)
#define C7X_EMU_COMPLEX(name, T, N)                                                                                    \
  typedef c7x_emu::cvec<T, N> __##name##N;                                                                             \
  typedef __##name##N* __##name##N##_ptr;                                                                              \
  C7X_EMU_COMPLEX_PLAIN(name##N, __##name##N)
#if defined(C7X_EMU_NO_SHORT_NAMES)
#define C7X_EMU_COMPLEX_PLAIN(plain, underscored)
#else
#define C7X_EMU_COMPLEX_PLAIN(plain, underscored) \
  typedef underscored plain;                      \
  typedef plain* plain##_ptr;
#endif

#define C7X_EMU_SCALAR(name, T)                                                                                        \
  template <class From>                                                                                                \
  inline T __as_##name(const From& from) { return c7x_emu::reinterpret<T>(from); }                                    \
  template <class From>                                                                                                \
  inline T __convert_##name(const From& from) { return c7x_emu::convert<T>(from); }                                   \
  C7X_EMU_SCALAR_PLAIN(name, T)
#if defined(C7X_EMU_NO_SHORT_NAMES)
#define C7X_EMU_SCALAR_PLAIN(name, T)
#else
#define C7X_EMU_SCALAR_PLAIN(name, T)                                                   \
  template <class From>                                                                 \
  inline T as_##name(const From& from) { return c7x_emu::reinterpret<T>(from); }       \
  template <class From>                                                                 \
  inline T convert_##name(const From& from) { return c7x_emu::convert<T>(from); }
#endif

/* Lengths 2 to 64, by the bits of an element; a vector that the core does not have is not declared. */
#if __C7X_VEC_SIZE_BITS__ == 512
#define C7X_EMU_512(...) __VA_ARGS__
#else
#define C7X_EMU_512(...)
#endif
#define C7X_EMU_LENGTHS_64(kind, name, T) kind(name, T, 2) kind(name, T, 4) C7X_EMU_512(kind(name, T, 8))
#define C7X_EMU_LENGTHS_32(kind, name, T) kind(name, T, 2) kind(name, T, 4) kind(name, T, 8) C7X_EMU_512(kind(name, T, 16))
#define C7X_EMU_LENGTHS_16(kind, name, T) \
  kind(name, T, 2) kind(name, T, 4) kind(name, T, 8) kind(name, T, 16) C7X_EMU_512(kind(name, T, 32))
#define C7X_EMU_LENGTHS_8(kind, name, T) \
  kind(name, T, 2) kind(name, T, 4) kind(name, T, 8) kind(name, T, 16) kind(name, T, 32) C7X_EMU_512(kind(name, T, 64))
#define C7X_EMU_LENGTHS_128(kind, name, T) kind(name, T, 2) C7X_EMU_512(kind(name, T, 4))

C7X_EMU_LENGTHS_8(C7X_EMU_VECTOR, char, int8_t)
C7X_EMU_LENGTHS_8(C7X_EMU_VECTOR, uchar, uint8_t)
C7X_EMU_LENGTHS_8(C7X_EMU_VECTOR, bool, bool)
C7X_EMU_LENGTHS_16(C7X_EMU_VECTOR, short, int16_t)
C7X_EMU_LENGTHS_16(C7X_EMU_VECTOR, ushort, uint16_t)
C7X_EMU_LENGTHS_32(C7X_EMU_VECTOR, int, int32_t)
C7X_EMU_LENGTHS_32(C7X_EMU_VECTOR, uint, uint32_t)
C7X_EMU_LENGTHS_32(C7X_EMU_VECTOR, float, float)
C7X_EMU_LENGTHS_64(C7X_EMU_VECTOR, long, int64_t)
C7X_EMU_LENGTHS_64(C7X_EMU_VECTOR, ulong, uint64_t)
C7X_EMU_LENGTHS_64(C7X_EMU_VECTOR, double, double)
C7X_EMU_LENGTHS_16(C7X_EMU_COMPLEX, cchar, int8_t)
C7X_EMU_LENGTHS_32(C7X_EMU_COMPLEX, cshort, int16_t)
C7X_EMU_LENGTHS_64(C7X_EMU_COMPLEX, cint, int32_t)
C7X_EMU_LENGTHS_64(C7X_EMU_COMPLEX, cfloat, float)
C7X_EMU_LENGTHS_128(C7X_EMU_COMPLEX, clong, int64_t)
C7X_EMU_LENGTHS_128(C7X_EMU_COMPLEX, cdouble, double)
typedef c7x_emu::cvec<int8_t, 1> cchar, __cchar;
typedef c7x_emu::cvec<int16_t, 1> cshort, __cshort;
typedef c7x_emu::cvec<int32_t, 1> cint, __cint;
typedef c7x_emu::cvec<float, 1> cfloat, __cfloat;
typedef c7x_emu::cvec<int64_t, 1> clong, __clong;
typedef c7x_emu::cvec<double, 1> cdouble, __cdouble;
C7X_EMU_SCALAR(char, int8_t)
C7X_EMU_SCALAR(uchar, uint8_t)
C7X_EMU_SCALAR(short, int16_t)
C7X_EMU_SCALAR(ushort, uint16_t)
C7X_EMU_SCALAR(int, int32_t)
C7X_EMU_SCALAR(uint, uint32_t)
C7X_EMU_SCALAR(float, float)
C7X_EMU_SCALAR(long, int64_t)
C7X_EMU_SCALAR(ulong, uint64_t)
C7X_EMU_SCALAR(double, double)

#endif
