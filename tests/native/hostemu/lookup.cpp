/* Look-up tables of C7100 and C7120, set up as public code does it: two sets, two words a row pair, 16 equal tables. */
#include <c7x.h>
#include <c7x_scalable.h>

static uint32_t entry(int set, uint32_t i) { return i * 2654435761u + static_cast<uint32_t>(set) * 77u; }

int main() {
  __sLTCRFlags_t flags;
  flags.INTERPOLATION = __LUT_INTERP_OFF;
  flags.SATURATION = __LUT_SAT_OFF;
  flags.SIGNUNSIGN = __LUT_SIGNED;
  flags.ELETYPE = __LUT_ELETYPE_32BIT;
  flags.NUMTBLS = __LUT_NUM_TBL_16;
  flags.TBLSIZE = __LUT_TBL_SIZE_2KBYTES;
  flags.WEIGHTSIZE = __LUT_WSIZE_8BIT;
  flags.PROMOTION = __LUT_PROMOTE_OFF;
  if (__lut_set_param(&flags) != 2048) return 4;
  const __LUT_SET sets[2] = {__LUT_SET0, __LUT_SET1};
  const __LUT_ENABLE enables[2] = {__LUT_ENABLE_0, __LUT_ENABLE_1};
  /* 2 KiB in 16 tables: 32 words each. */
  for (int set = 0; set < 2; ++set) {
    __LUT_SET_LTCR(sets[set], __lut_set_param(&flags));
    if (c7x_emu::look_up_sets<0>::set[set].words != 32) return 3;
    __LUT_SET_LTBR(sets[set], 0x2000u * static_cast<uint32_t>(set));
    __LUT_SET_LTER(enables[set]);
    for (uint32_t row = 0; row < 32; row += 2) {
      const c7x::ulong_vec pair = (c7x::ulong_vec)(entry(set, row) | static_cast<uint64_t>(entry(set, row + 1)) << 32);
      __lookup_init(sets[set], __as_uint16(pair), row);
    }
  }
  for (int set = 0; set < 2; ++set)
    for (uint32_t first = 0; first < 17; ++first) {
      c7x::uint_vec index;
      for (uint32_t k = 0; k < 16; ++k) index.s[k] = first + (k * 5) % 16;
      const c7x::int_vec s = __lookup_read_int(sets[set], index);
      const c7x::uint_vec u = __lookup_read_uint(sets[set], c7x::as_int_vec(index));
      for (int k = 0; k < 16; ++k) {
        if (s.s[k] != static_cast<int32_t>(entry(set, index.s[k]))) return 1;
        if (u.s[k] != entry(set, index.s[k])) return 2;
      }
    }
  /* A histogram: lanes count apart, the sum over all tables is the number of each value. */
  const __LUT_SET third = __LUT_SET2;
  __LUT_SET_LTCR(third, __lut_set_param(&flags));
  __LUT_SET_LTER(__LUT_ENABLE_2);
  for (uint32_t row = 0; row < 32; row += 2) __lookup_init(third, c7x::uint_vec(0), row);
  uint64_t counts[32] = {};
  for (uint32_t round = 0; round < 9; ++round) {
    c7x::uint_vec values;
    for (uint32_t k = 0; k < 16; ++k) {
      values.s[k] = (round * k + k / 3) % 32;
      ++counts[values.s[k]];
    }
    __hist(third, values);
  }
  for (uint32_t value = 0; value < 32; ++value)
    if (__horizontal_add(__lookup_read_uint(third, c7x::uint_vec(value))) != counts[value]) return 5;
  if (__lookup_read_int(__LUT_SET0, c7x::uint_vec(1)).s[0] != static_cast<int32_t>(entry(0, 1))) return 6;
  return 0;
}
