/* y = x * w + b over 4 floats; w is constant 1, b is constant 2 of weights.bin (constant 0 is a string). */
#include "c7x_abi.h"
#include "c7x_model.h"

#include <string.h>

static float y[4];
static c7x_tensor y_object;

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const float *const x = (const float *)inputs[0];
  const float *const *const wb = (const float *const *)weights;
  (void)arena;
  for (int i = 0; i < 4; ++i) {
    ((float *)outputs[0])[i] = x[i] * wb[0][i] + wb[1][i];
  }
  return C7X_OK;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const c7x_any *const cells = (const c7x_any *)inputs;
  const c7x_any *const table = (const c7x_any *)constants;
  c7x_any *const slot = (c7x_any *)result;
  const void *in[1];
  void *out[1] = {y};
  const void *wb[2];
  if (num_inputs != 1 || constants == NULL || slot->type_index != C7X_TYPE_NONE || table[0].type_index != C7X_TYPE_STR) {
    return C7X_ERR_GENERIC;
  }
  in[0] = ((const c7x_tensor *)cells[0].v.ptr)->data;
  wb[0] = ((const c7x_tensor *)table[1].v.ptr)->data;
  wb[1] = ((const c7x_tensor *)table[2].v.ptr)->data;
  if ((uintptr_t)in[0] % 128 != 0 || cg_main(in, out, wb, NULL) != C7X_OK) {
    return C7X_ERR_GENERIC;
  }
  memset(&y_object, 0, sizeof y_object);
  y_object.header.type_index = C7X_TYPE_TENSOR;
  y_object.header.ref_counter = 1;
  y_object.data = y;
  y_object.ndim = 2;
  y_object.dtype.code = C7X_DTYPE_FLOAT;
  y_object.dtype.bits = 32;
  y_object.dtype.lanes = 1;
  y_object.shape = y_object.shape_storage;
  y_object.shape_storage[0] = 1;
  y_object.shape_storage[1] = 4;
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &y_object;
  return 0;
}
