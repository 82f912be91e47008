/* The layouts hold in C; the header's own assertions do the work when it is compiled. */
#include "c7x_abi.h"
#include "c7x_model.h"
#include "c7x_platform.h"
#include "c7x_pool.h"
#include "c7x_tensorfile.h"
#include "c7x_weights.h"

int main(void) {
  c7x_any value = {C7X_TYPE_FLOAT, 0, {0}};
  value.v.f64 = 1.0;
  /* Little endian: the sign and exponent of a double are in its last byte. */
  return sizeof(c7x_tensor) == 208 && value.v.bytes[7] == 0x3F ? 0 : 1;
}
