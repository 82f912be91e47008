/* C7000 host emulation, core C7100: the layer that does not name a vector length. */
#include "c7x.h"
