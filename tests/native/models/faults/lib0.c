/* A model that misbehaves on request: the int32 input says how, the output is the input. No weights. */
#include "c7x_abi.h"
#include "c7x_model.h"
#include "c7x_platform.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINE, REFUSE, OUT_OF_MEMORY, ABORT, SEGFAULT, NO_RESULT, UNSTABLE, HANG, WRONG_SHAPE, OTHER_CODE, USE_PLATFORM };

static int32_t y;
static c7x_tensor y_object;
static int runs;

void TVMPrintLayerProfile(void);
void TVMPrintLayerProfile(void) { printf("===== TVM Layer Profile =====\nruns: %d\n", runs); }

static int use_platform(void) {
  uint8_t *const l2 = tvm_dsp_get_l2_base();
  uint8_t *const fast = (uint8_t *)tvm_dsp_alloc(1000, 128, C7X_POOL_FAST);
  uint8_t *const main_pool = (uint8_t *)TVMBackendAllocWorkspace(1, 0, 5000, 2, 32);
  if (l2 == NULL || fast == NULL || main_pool == NULL || (uintptr_t)fast % 128 != 0 || (uintptr_t)main_pool % 128 != 0) {
    return C7X_ERR_NOMEM;
  }
  memset(l2, 7, tvm_dsp_get_l2_size());
  if (tvm_dsp_dma_copy(0, fast, l2, 1000, 0) != 0 || tvm_dsp_dma_wait(0, 0) != 0 || fast[999] != 7) {
    return C7X_ERR_GENERIC;
  }
  tvm_dsp_free(fast);
  return TVMBackendFreeWorkspace(1, 0, main_pool);
}

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  (void)weights;
  (void)arena;
  *(int32_t *)outputs[0] = *(const int32_t *)inputs[0];
  return C7X_OK;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const int32_t fault = *(const int32_t *)((const c7x_tensor *)((const c7x_any *)inputs)[0].v.ptr)->data;
  c7x_any *const slot = (c7x_any *)result;
  (void)num_inputs;
  (void)constants;
  runs += 1;
  y = fault;
  memset(&y_object, 0, sizeof y_object);
  y_object.header.type_index = C7X_TYPE_TENSOR;
  y_object.data = &y;
  y_object.dtype.code = C7X_DTYPE_INT;
  y_object.dtype.bits = 32;
  y_object.dtype.lanes = 1;
  y_object.shape = y_object.shape_storage;
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &y_object;
  switch (fault) {
    case REFUSE: return C7X_ERR_GENERIC;
    case OUT_OF_MEMORY: return tvm_dsp_alloc((size_t)1 << 30, 128, C7X_POOL_MAIN) == NULL ? C7X_ERR_NOMEM : 0;
    case ABORT: abort();
    case SEGFAULT: raise(SIGSEGV); break;
    case NO_RESULT: slot->type_index = C7X_TYPE_NONE; break;
    case UNSTABLE: y = runs; break;
    case HANG: for (;;) { }
    case WRONG_SHAPE: y_object.ndim = 1; y_object.shape_storage[0] = 1; break;
    case OTHER_CODE: return -77;
    case USE_PLATFORM: return use_platform();
    default: break;
  }
  return 0;
}
