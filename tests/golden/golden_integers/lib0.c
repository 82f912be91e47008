/* lib0.c: model golden_integers, compiled by c7x for c_static -mcpu=c7x.
 * Generated; compiles alone as C99 and as C++14. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__C7000__) && !defined(_HOST_BUILD)
#define CG_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CG_EXPORT __attribute__((visibility("default")))
#else
#define CG_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
CG_EXPORT int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena);
CG_EXPORT int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result);
#ifdef __cplusplus
}
#endif

/* ... c7x_abi.h ... */

/* ... c7x_vector.h ... */

/* ... c7x_scalar.h ... */

static int32_t __tvm_ffi_fused_multiply_add(const int32_t* C7X_RESTRICT in0, const int32_t* C7X_RESTRICT in1, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_add_i32(c7x_mul_i32(in0[i0], in1[i0]), 7);
  }
  return 0;
}

static int32_t __tvm_ffi_floor_divide(const int32_t* C7X_RESTRICT in0, const int32_t* C7X_RESTRICT in1, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_floordiv_i32(in0[i0], in1[i0]);
  }
  return 0;
}

static int32_t __tvm_ffi_fused_maximum_minimum(const int32_t* C7X_RESTRICT in0, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_min_i32(c7x_max_i32(in0[i0], -2), 3);
  }
  return 0;
}

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const uint8_t *w = (const uint8_t *)weights;
  uint8_t *a = (uint8_t *)arena;
  int32_t status = 0;
  (void)inputs;
  (void)outputs;
  (void)w;
  (void)a;
  /* 0: add: multiply, add (mul, add) at golden.py:46 */
  status = __tvm_ffi_fused_multiply_add((const int32_t *)inputs[0], (const int32_t *)inputs[1], (int32_t *)outputs[0]);
  if (status != 0) return status;
  /* 1: floor_divide: floor_divide (floor_divide) at golden.py:46 */
  status = __tvm_ffi_floor_divide((const int32_t *)inputs[0], (const int32_t *)inputs[1], (int32_t *)outputs[1]);
  if (status != 0) return status;
  /* 2: clamp: maximum, minimum (clamp) at golden.py:46 */
  status = __tvm_ffi_fused_maximum_minimum((const int32_t *)inputs[0], (int32_t *)outputs[2]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_output_0[24];

static C7X_ALIGNED(128) uint8_t cg_output_1[24];

static C7X_ALIGNED(128) uint8_t cg_output_2[24];

static c7x_tensor cg_output_objects[3];

static c7x_array cg_output_array;

static void cg_set_output(c7x_tensor *tensor, void *data, int code, int bits, int ndim) {
  memset(tensor, 0, sizeof(*tensor));
  tensor->header.type_index = C7X_TYPE_TENSOR;
  tensor->header.ref_counter = 1;
  tensor->data = data;
  tensor->ndim = ndim;
  tensor->dtype.code = (uint8_t)code;
  tensor->dtype.bits = (uint8_t)bits;
  tensor->dtype.lanes = 1;
  tensor->shape = tensor->shape_storage;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const c7x_any *cells = (const c7x_any *)inputs;
  c7x_any *slot = (c7x_any *)result;
  const void *input_data[2];
  void *output_data[3];
  const void *weights = NULL;
  int32_t status;
  int i;
  (void)inputs;
  (void)constants;
  if (num_inputs != 2 || slot == NULL) return -1;
  if (cells == NULL) return -1;
  for (i = 0; i < num_inputs; ++i) {
    const c7x_tensor *tensor = (const c7x_tensor *)cells[i].v.ptr;
    if (cells[i].type_index != C7X_TYPE_TENSOR || tensor == NULL) return -1;
    input_data[i] = (const uint8_t *)tensor->data + tensor->byte_offset;
  }
  output_data[0] = cg_output_0;
  output_data[1] = cg_output_1;
  output_data[2] = cg_output_2;
  status = cg_main(input_data, output_data, weights, NULL);
  if (status != 0) return (int)status;
  cg_set_output(&cg_output_objects[0], cg_output_0, 0, 32, 1);
  cg_output_objects[0].shape_storage[0] = 6;
  cg_set_output(&cg_output_objects[1], cg_output_1, 0, 32, 1);
  cg_output_objects[1].shape_storage[0] = 6;
  cg_set_output(&cg_output_objects[2], cg_output_2, 0, 32, 1);
  cg_output_objects[2].shape_storage[0] = 6;
  slot->small_len = 0;
  memset(&cg_output_array, 0, sizeof(cg_output_array));
  cg_output_array.header.type_index = C7X_TYPE_ARRAY;
  cg_output_array.header.ref_counter = 1;
  cg_output_array.size = 3;
  cg_output_array.elements[0].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[0].v.ptr = &cg_output_objects[0];
  cg_output_array.elements[1].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[1].v.ptr = &cg_output_objects[1];
  cg_output_array.elements[2].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[2].v.ptr = &cg_output_objects[2];
  slot->type_index = C7X_TYPE_ARRAY;
  slot->v.ptr = &cg_output_array;
  return 0;
}
