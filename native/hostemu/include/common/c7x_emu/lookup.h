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

#endif
