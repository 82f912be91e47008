/* Intrinsics of the C6000 for code that comes from there. */
#include "c7x.h"

#include "../common/c7x_emu/c6x.h"
