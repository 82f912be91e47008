/* C7000 host emulation, core C7524: vectors of 256 bits. */
#ifndef C7X_EMU_CORE_H
#define C7X_EMU_CORE_H

#ifndef __C7524__
#define __C7524__ 1
#endif
#define __C7X_VEC_SIZE_BITS__ 256
#define __C7X_VEC_SIZE_BYTES__ 32

#include "../common/c7x_emu/emulation.h"

#endif
