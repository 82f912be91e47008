/* What the vector FIR filters share. */
#ifndef C7X_EMU_FIR_H
#define C7X_EMU_FIR_H

#include "stream.h"

namespace c7x_emu {

constexpr int fir_lanes = __C7X_VEC_SIZE_BYTES__ / 2;
typedef vec<int16_t, fir_lanes> half_words;
typedef vec<int32_t, fir_lanes / 2> words;

/* Which outputs a group of four coefficients is for is not known where the groups differ. */
inline void take_taps(const char* name, int16_t* taps, const half_words& coefficients) {
  for (int i = 0; i < fir_lanes; ++i)
    if (coefficients.s[i] != coefficients.s[i % 4])
      die(name, "coefficients that differ from one group of four to the next are not implemented");
  std::memcpy(taps, coefficients.s, 4 * sizeof(*taps));
}

inline void take_data(const char* name, int16_t* data, __SE_REG engine) {
  const half_words read = stream_read<half_words>(name, engine);
  std::memcpy(data, read.s, sizeof(read.s));
}

/* A sum that wraps. */
template <int Taps>
inline int32_t filtered(const int16_t* data, const int16_t* taps) {
  uint32_t sum = 0;
  for (int k = 0; k < Taps; ++k) sum += static_cast<uint32_t>(int32_t(data[k]) * taps[k]);
  return static_cast<int32_t>(sum);
}

}  // namespace c7x_emu

#endif
