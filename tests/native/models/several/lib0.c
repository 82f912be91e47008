/* Inputs: a float32 [2, 3], flag bool [3], k int64 []. Outputs: a * 2; not flag; k + 1; no weights. */
#include "c7x_abi.h"
#include "c7x_model.h"

#include <string.h>

static float doubled[6];
static uint8_t inverted[3];
static int64_t next;
static c7x_tensor objects[3];
static c7x_array array;

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  (void)weights;
  (void)arena;
  for (int i = 0; i < 6; ++i) {
    ((float *)outputs[0])[i] = ((const float *)inputs[0])[i] * 2.0f;
  }
  for (int i = 0; i < 3; ++i) {
    /* Right only for 0 and 1: shows that other bytes do not get here. */
    ((uint8_t *)outputs[1])[i] = (uint8_t)(1 - ((const uint8_t *)inputs[1])[i]);
  }
  *(int64_t *)outputs[2] = *(const int64_t *)inputs[2] + 1;
  return C7X_OK;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const c7x_any *const cells = (const c7x_any *)inputs;
  c7x_any *const slot = (c7x_any *)result;
  const void *in[3];
  void *out[3];
  out[0] = doubled;
  out[1] = inverted;
  out[2] = &next;
  if (num_inputs != 3 || constants != NULL) {
    return C7X_ERR_GENERIC;
  }
  for (int i = 0; i < 3; ++i) {
    const c7x_tensor *const t = (const c7x_tensor *)cells[i].v.ptr;
    if (cells[i].type_index != C7X_TYPE_TENSOR || t->header.ref_counter != 1 || t->header.deleter != NULL ||
        t->strides != NULL || t->byte_offset != 0 || t->dtype.lanes != 1 || t->ndim != c7x_model.inputs[i].ndim) {
      return C7X_ERR_GENERIC;
    }
    in[i] = t->data;
  }
  if (cg_main(in, out, NULL, NULL) != C7X_OK) {
    return C7X_ERR_GENERIC;
  }
  memset(&array, 0, sizeof array);
  array.header.type_index = C7X_TYPE_ARRAY;
  array.header.ref_counter = 1;
  array.size = 3;
  for (int i = 0; i < 3; ++i) {
    const c7x_tensor_info *const info = &c7x_model.outputs[i];
    c7x_tensor *const t = &objects[i];
    memset(t, 0, sizeof *t);
    t->header.type_index = C7X_TYPE_TENSOR;
    t->header.ref_counter = 1;
    t->data = out[i];
    t->ndim = info->ndim;
    t->dtype.code = info->code;
    t->dtype.bits = info->bits;
    t->dtype.lanes = 1;
    t->shape = t->shape_storage;
    for (int32_t k = 0; k < info->ndim; ++k) {
      t->shape_storage[k] = info->shape[k];
    }
    array.elements[i].type_index = C7X_TYPE_TENSOR;
    array.elements[i].v.ptr = t;
  }
  slot->type_index = C7X_TYPE_ARRAY;
  slot->v.ptr = &array;
  return 0;
}
