/* The archive of a core. All code is in the headers; linking it costs nothing and lets one path switch to TI's package. */
#include <c7x.h>

extern "C" const char c7x_emu_name[] = "open host emulation of the C7000";
extern "C" const int c7x_emu_vector_bits = __C7X_VEC_SIZE_BITS__;
