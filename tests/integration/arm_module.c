/* A module written by hand for tests of the Arm side. Its macros, set with -D:
 *
 * OUTPUTS  how many tensors it returns (default 1). Output i is input 0 times i + 1, as float; without inputs it has the
 *          shape [4] and the values i + 1.
 * RETURN   what it returns instead of 0.
 * CRASH    it writes to address 8.
 * HANG     it never returns.
 * RANK     rank of its outputs: 1s are put before the input's shape.
 */
#include <stdio.h>
#include <string.h>

#include "c7x_abi.h"

#ifndef OUTPUTS
#define OUTPUTS 1
#endif
#define CAPACITY (OUTPUTS > 8 ? 4096 : 8 << 20)

static c7x_tensor tensors[OUTPUTS > 0 ? OUTPUTS : 1];
static c7x_array array;
static float data[OUTPUTS > 0 ? OUTPUTS : 1][CAPACITY];

__attribute__((visibility("default"))) int cg_main_dsp(c7x_any *inputs, int num_inputs, void *constants, c7x_any *result) {
  (void)constants;
  const c7x_tensor *x = num_inputs > 0 ? (const c7x_tensor *)inputs[0].v.ptr : 0;
  int64_t count = 1;
  printf("inputs: %d\n", num_inputs);
#ifdef RETURN
  return RETURN;
#endif
#ifdef CRASH
  *(volatile int *)8 = 1;
#endif
#ifdef HANG
  for (;;) { volatile int spin = 0; (void)spin; }
#endif
  for (int i = 0; x != 0 && i < x->ndim; i++) count *= x->shape[i];
  if (x == 0) count = 4;
  if (count > CAPACITY) return -1;
  memset(&array, 0, sizeof array);
  for (int i = 0; i < OUTPUTS; i++) {
    c7x_tensor *y = &tensors[i];
    memset(y, 0, sizeof *y);
    y->header.type_index = C7X_TYPE_TENSOR;
    y->header.ref_counter = 1;
    y->data = data[i];
    y->ndim = x != 0 ? x->ndim : 1;
    y->dtype.code = C7X_DTYPE_FLOAT;
    y->dtype.bits = 32;
    y->dtype.lanes = 1;
    y->shape = y->shape_storage;
    for (int d = 0; d < y->ndim; d++) y->shape[d] = x != 0 ? x->shape[d] : 4;
#ifdef RANK
    for (int d = 0; d < RANK; d++) y->shape[d] = d < RANK - y->ndim ? 1 : x->shape[d - (RANK - y->ndim)];
    y->ndim = RANK;
#endif
    for (int64_t k = 0; k < count; k++) data[i][k] = (x != 0 ? ((const float *)x->data)[k] : 1.0f) * (float)(i + 1);
    array.elements[i].type_index = C7X_TYPE_TENSOR;
    array.elements[i].v.ptr = y;
  }
  array.header.type_index = C7X_TYPE_ARRAY;
  array.header.ref_counter = 1;
  array.size = OUTPUTS;
  result->type_index = OUTPUTS == 1 ? C7X_TYPE_TENSOR : C7X_TYPE_ARRAY;
  result->v.ptr = OUTPUTS == 1 ? (void *)tensors : (void *)&array;
  return 0;
}
