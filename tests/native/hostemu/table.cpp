/* The inner table of C7524: every word, read through vectors of scattered indices. */
#include <c7x.h>
#include <c7x_scalable.h>

int main() {
  for (uint32_t i = 0; i < 256; ++i) __ilut_init(i, i * 1000003u);
  for (uint32_t first = 0; first < 249; ++first) {
    c7x::uint_vec index;
    for (int k = 0; k < 8; ++k) index.s[k] = first + (k * 5) % 8;
    const c7x::uint_vec word = __ilut_read_uint(index);
    for (int k = 0; k < 8; ++k)
      if (word.s[k] != index.s[k] * 1000003u) return 1;
  }
  return 0;
}
