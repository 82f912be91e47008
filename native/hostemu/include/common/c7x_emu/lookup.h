/* The table inside the C7524 core that __ilut_read_uint reads: 32-bit words, one set a thread. */
#ifndef C7X_EMU_LOOKUP_H
#define C7X_EMU_LOOKUP_H

#include "predicate.h"

#if defined(__C7524__)
namespace c7x_emu {

template <int I>
struct inner_table {
  static constexpr uint32_t words = 256;
  static thread_local uint32_t word[words];
};
template <int I>
thread_local uint32_t inner_table<I>::word[inner_table<I>::words];

inline uint32_t& inner_word(const char* name, uint32_t index) {
  if (index >= inner_table<0>::words) die(name, "the index lies outside the table of 256 words");
  return inner_table<0>::word[index];
}

}  // namespace c7x_emu
#endif

#if defined(__C7100__) || defined(__C7120__)
/* Look-up tables in the first level of memory. There is what 16 tables of words without interpolation need, one for each
 * lane, all filled alike: sets with other flags end the program. */
typedef enum { __LUT_INTERP_OFF = 0, __LUT_INTERP_ON } __LUT_INTERPOLATION;
typedef enum { __LUT_SAT_OFF = 0, __LUT_SAT_ON } __LUT_SATURATION;
typedef enum { __LUT_UNSIGNED = 0, __LUT_SIGNED } __LUT_SIGNUNSIGN;
typedef enum { __LUT_ELETYPE_8BIT = 0, __LUT_ELETYPE_16BIT, __LUT_ELETYPE_32BIT } __LUT_ELETYPE;
typedef enum {
  __LUT_NUM_TBL_1 = 0,
  __LUT_NUM_TBL_2,
  __LUT_NUM_TBL_4,
  __LUT_NUM_TBL_8,
  __LUT_NUM_TBL_16
} __LUT_NUM_TBL;
typedef enum { __LUT_TBL_SIZE_2KBYTES = 2, __LUT_TBL_SIZE_16KBYTES = 16 } __LUT_TBL_SIZE;
typedef enum { __LUT_WSIZE_8BIT = 0 } __LUT_WSIZE;
typedef enum { __LUT_PROMOTE_OFF = 0, __LUT_PROMOTE_2X, __LUT_PROMOTE_4X } __LUT_PROMOTE;
typedef enum { __LUT_SET0 = 0, __LUT_SET1, __LUT_SET2, __LUT_SET3 } __LUT_SET;
typedef enum { __LUT_ENABLE_0 = 1, __LUT_ENABLE_1 = 2, __LUT_ENABLE_2 = 4, __LUT_ENABLE_3 = 8 } __LUT_ENABLE;

typedef struct {
  __LUT_INTERPOLATION INTERPOLATION;
  __LUT_SATURATION SATURATION;
  __LUT_SIGNUNSIGN SIGNUNSIGN;
  __LUT_ELETYPE ELETYPE;
  __LUT_NUM_TBL NUMTBLS;
  __LUT_TBL_SIZE TBLSIZE;
  __LUT_WSIZE WEIGHTSIZE;
  __LUT_PROMOTE PROMOTION;
} __sLTCRFlags_t;

namespace c7x_emu {

struct look_up_set {
  static constexpr int tables = 16;
  uint32_t word[16384 / sizeof(uint32_t) / tables][tables];
  uint32_t words; /* of each table; 0 until the flags are set */
  bool enabled;
};
template <int I>
struct look_up_sets {
  static thread_local look_up_set set[4];
};
template <int I>
thread_local look_up_set look_up_sets<I>::set[4];

inline look_up_set& look_up_of(const char* name, int set) {
  if (set < 0 || set > 3) die(name, "there are four sets of look-up tables");
  return look_up_sets<0>::set[set];
}

inline uint64_t look_up_flags(const __sLTCRFlags_t& f) {
  if (f.INTERPOLATION != __LUT_INTERP_OFF) die("__lut_set_param", "INTERPOLATION is not implemented");
  if (f.ELETYPE != __LUT_ELETYPE_32BIT) die("__lut_set_param", "ELETYPE: only words are implemented");
  if (f.NUMTBLS != __LUT_NUM_TBL_16) die("__lut_set_param", "NUMTBLS: only 16 tables are implemented");
  if (f.PROMOTION != __LUT_PROMOTE_OFF) die("__lut_set_param", "PROMOTION is not implemented");
  return static_cast<uint64_t>(f.TBLSIZE) * 1024;
}

inline void look_up_init(int set, const vec<uint32_t, 16>& data, uint32_t row) {
  look_up_set& s = look_up_of("__lookup_init", set);
  for (int i = 2; i < 16; ++i)
    if (data.s[i] != data.s[i & 1]) die("__lookup_init", "tables that differ are not implemented: repeat the two words");
  if (row + 1 >= s.words) die("__lookup_init", "the row lies outside the table");
  for (int table = 0; table < look_up_set::tables; ++table) {
    s.word[row][table] = data.s[0];
    s.word[row + 1][table] = data.s[1];
  }
}

/* The word at an index of the table of lane i. */
template <class I>
inline uint32_t& look_up_word(const char* name, look_up_set& s, I index, int i) {
  if (!s.enabled) die(name, "the set is not enabled");
  const uint32_t at = static_cast<uint32_t>(index);
  if (at >= s.words) die(name, "the index lies outside the table");
  return s.word[at][i];
}

template <class T, class I>
inline vec<T, 16> look_up_read(const char* name, int set, const vec<I, 16>& index) {
  look_up_set& s = look_up_of(name, set);
  vec<T, 16> r;
  for (int i = 0; i < 16; ++i) r.s[i] = static_cast<T>(look_up_word(name, s, I(index.s[i]), i));
  return r;
}

inline void count_in_tables(const char* name, int set, const vec<uint32_t, 16>& index) {
  look_up_set& s = look_up_of(name, set);
  for (int i = 0; i < 16; ++i) ++look_up_word(name, s, uint32_t(index.s[i]), i);
}

}  // namespace c7x_emu
#endif

#endif
