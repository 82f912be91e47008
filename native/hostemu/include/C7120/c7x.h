/* C7000 host emulation, core C7120: vectors of 512 bits. */
#ifndef C7X_EMU_CORE_H
#define C7X_EMU_CORE_H

#ifndef __C7120__
#define __C7120__ 1
#endif
#define __C7X_VEC_SIZE_BITS__ 512
#define __C7X_VEC_SIZE_BYTES__ 64

#include "../common/c7x_emu/emulation.h"

#endif
