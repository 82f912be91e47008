/* Everything, in the order of dependence. Include c7x.h of a core's folder instead of this file. */
#ifndef C7X_EMU_EMULATION_H
#define C7X_EMU_EMULATION_H

#include "base.h"
#include "vector.h"
#include "complex.h"
#include "names.h"
#include "predicate.h"
#include "lookup.h"
#include "stream.h"
#include "fir.h"
#include "intrinsics.h"
#include "scalable.h"

#endif
