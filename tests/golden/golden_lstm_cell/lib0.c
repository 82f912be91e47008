/* lib0.c: model golden_lstm_cell, compiled by c7x for c_static -mcpu=c7x.
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

C7X_KERNEL static void __tvm_ffi_matmul_1x12x4_block2_tile(const float* s0, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, float* C7X_RESTRICT d, int32_t tail) {
  c7x_f32x8 a0_0 = c7x_load8(bias + 0);
  c7x_f32x8 a0_1 = c7x_load8_n(bias + 8, tail);
  for (int32_t k = 0; k < 4; ++k) {
    const c7x_f32x8 w0 = c7x_load8(w + 0);
    const c7x_f32x8 w1 = c7x_load8(w + 8);
    c7x_f32x8 x;
    x = c7x_splat8(s0[k]);
    a0_0 = c7x_fma8(x, w0, a0_0);
    a0_1 = c7x_fma8(x, w1, a0_1);
    w += 16;
  }
  c7x_store8(d + 0, a0_0);
  c7x_store8_n(d + 8, a0_1, tail);
}

static void __tvm_ffi_matmul_1x12x4_block2(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, float* C7X_RESTRICT dst, int32_t first, int32_t last, int32_t tail) {
  for (int32_t tile = first; tile < last; tile += 1) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_matmul_1x12x4_block2_tile(src + (p * 4), weights, bias, dst + p * 12, tail);
  }
}
static int32_t __tvm_ffi_matmul_1x12x4(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, const float* C7X_RESTRICT in2, float* C7X_RESTRICT out0) {
  const float* const src = in0;
  const float* const wts = in1;
  const float* const bias = in2;
  float* const dst = out0;
  for (int32_t m = 0; m < 1; m += 1) {
    const int32_t end = m + 1 < 1 ? m + 1 : 1;
    for (int32_t b = 0; b < 1; ++b) __tvm_ffi_matmul_1x12x4_block2(src, wts + (b * 2 + 0) * 32, bias + (b * 2 + 0) * 8, dst + (b * 2 + 0) * 8, m, end, 4);
  }
  return 0;
}

C7X_KERNEL static void __tvm_ffi_matmul_1x12x3_add_block2_tile(const float* s0, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, const float* C7X_RESTRICT res, float* C7X_RESTRICT d, int32_t tail) {
  c7x_f32x8 a0_0 = c7x_load8(bias + 0);
  c7x_f32x8 a0_1 = c7x_load8_n(bias + 8, tail);
  for (int32_t k = 0; k < 3; ++k) {
    const c7x_f32x8 w0 = c7x_load8(w + 0);
    const c7x_f32x8 w1 = c7x_load8(w + 8);
    c7x_f32x8 x;
    x = c7x_splat8(s0[k]);
    a0_0 = c7x_fma8(x, w0, a0_0);
    a0_1 = c7x_fma8(x, w1, a0_1);
    w += 16;
  }
  c7x_store8(d + 0, c7x_add8(a0_0, c7x_load8(res + 0)));
  c7x_store8_n(d + 8, c7x_add8(a0_1, c7x_load8_n(res + 8, tail)), tail);
}

static void __tvm_ffi_matmul_1x12x3_add_block2(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, const float* C7X_RESTRICT res, float* C7X_RESTRICT dst, int32_t first, int32_t last, int32_t tail) {
  for (int32_t tile = first; tile < last; tile += 1) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_matmul_1x12x3_add_block2_tile(src + (p * 3), weights, bias, res + p * 12, dst + p * 12, tail);
  }
}
static int32_t __tvm_ffi_matmul_1x12x3_add(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, const float* C7X_RESTRICT in2, const float* C7X_RESTRICT in3, float* C7X_RESTRICT out0) {
  const float* const src = in0;
  const float* const wts = in1;
  const float* const bias = in2;
  const float* const res = in3;
  float* const dst = out0;
  for (int32_t m = 0; m < 1; m += 1) {
    const int32_t end = m + 1 < 1 ? m + 1 : 1;
    for (int32_t b = 0; b < 1; ++b) __tvm_ffi_matmul_1x12x3_add_block2(src, wts + (b * 2 + 0) * 24, bias + (b * 2 + 0) * 8, res + (b * 2 + 0) * 8, dst + (b * 2 + 0) * 8, m, end, 4);
  }
  return 0;
}

static int32_t __tvm_ffi_fused_strided_slice_strided_slice_strided_slice_6_more(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    out0[i0] = (c7x_sigmoid_f32(in0[i0 + 3]) * in1[i0]) + (c7x_sigmoid_f32(in0[i0]) * c7x_tanh_f32(in0[i0 + 6]));
  }
  return 0;
}

static int32_t __tvm_ffi_fused_strided_slice_sigmoid_tanh_multiply(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    out0[i0] = c7x_sigmoid_f32(in0[i0 + 9]) * c7x_tanh_f32(in1[i0]);
  }
  return 0;
}

static const C7X_ALIGNED(64) float cg_constant_0[12] = {(-0.578125f), 0.0f, 0.578125f, (-0.375f), 0.203125f, (-0.75f), (-0.171875f), 0.40625f, (-0.546875f), 0.03125f, 0.609375f, (-0.34375f)};

static const C7X_ALIGNED(64) float cg_constant_1[12] = {(-0.75f), (-0.171875f), 0.40625f, (-0.546875f), 0.03125f, 0.609375f, (-0.34375f), 0.234375f, (-0.71875f), (-0.140625f), 0.4375f, (-0.515625f)};

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const uint8_t *w = (const uint8_t *)weights;
  uint8_t *a = (uint8_t *)arena;
  int32_t status = 0;
  (void)inputs;
  (void)outputs;
  (void)w;
  (void)a;
  /* 0: linear_1: matmul, add (linear_1) at golden.py:61 */
  status = __tvm_ffi_matmul_1x12x4((const float *)inputs[0], (const float *)(w + 128), (const float *)cg_constant_0, (float *)(a + 0));
  if (status != 0) return status;
  /* 1: add: matmul, add, add (linear, add) at golden.py:61 */
  status = __tvm_ffi_matmul_1x12x3_add((const float *)inputs[1], (const float *)(w + 448), (const float *)cg_constant_1, (const float *)(a + 0), (float *)(a + 128));
  if (status != 0) return status;
  /* 2: add_1: strided_slice, strided_slice, strided_slice, sigmoid, sigmoid, tanh, multiply, multiply, add (sigmoid, sigmoid_1, tanh, mul, mul_1, add_1) at golden.py:61 */
  status = __tvm_ffi_fused_strided_slice_strided_slice_strided_slice_6_more((const float *)(a + 128), (const float *)inputs[2], (float *)outputs[1]);
  if (status != 0) return status;
  /* 3: mul_2: strided_slice, sigmoid, tanh, multiply (sigmoid_2, tanh_1, mul_2) at golden.py:61 */
  status = __tvm_ffi_fused_strided_slice_sigmoid_tanh_multiply((const float *)(a + 128), (const float *)outputs[1], (float *)outputs[0]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_arena[256];

static C7X_ALIGNED(128) uint8_t cg_output_0[12];

static C7X_ALIGNED(128) uint8_t cg_output_1[12];

static c7x_tensor cg_output_objects[2];

static c7x_array cg_output_array;

/* Entry of weights.bin and offset of its data from the file's start. */
static const uint64_t cg_weights[2][2] = {
    {1, 128},
    {3, 448}};

/* The start of weights.bin in memory. The loader hands out one object per entry, pointing into the file, so every
 * object must agree about where the file starts; NULL when there are no constants or they do not fit this module. */
static const void *cg_find_weights(const c7x_any *constants) {
  const uint8_t *base = NULL;
  int i;
  if (constants == NULL) return NULL;
  for (i = 0; i < 2; ++i) {
    const c7x_any *cell = &constants[cg_weights[i][0]];
    const uint8_t *start;
    if (cell->type_index != C7X_TYPE_TENSOR || cell->v.ptr == NULL) return NULL;
    start = (const uint8_t *)((const c7x_tensor *)cell->v.ptr)->data - cg_weights[i][1];
    if (i > 0 && start != base) return NULL;
    base = start;
  }
  return base;
}

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
  const void *input_data[3];
  void *output_data[2];
  const void *weights = NULL;
  int32_t status;
  int i;
  (void)inputs;
  (void)constants;
  if (num_inputs != 3 || slot == NULL) return -1;
  if (cells == NULL) return -1;
  for (i = 0; i < num_inputs; ++i) {
    const c7x_tensor *tensor = (const c7x_tensor *)cells[i].v.ptr;
    if (cells[i].type_index != C7X_TYPE_TENSOR || tensor == NULL) return -1;
    input_data[i] = (const uint8_t *)tensor->data + tensor->byte_offset;
  }
  weights = cg_find_weights((const c7x_any *)constants);
  if (weights == NULL) return -1;
  output_data[0] = cg_output_0;
  output_data[1] = cg_output_1;
  status = cg_main(input_data, output_data, weights, cg_arena);
  if (status != 0) return (int)status;
  cg_set_output(&cg_output_objects[0], cg_output_0, 2, 32, 2);
  cg_output_objects[0].shape_storage[0] = 1;
  cg_output_objects[0].shape_storage[1] = 3;
  cg_set_output(&cg_output_objects[1], cg_output_1, 2, 32, 2);
  cg_output_objects[1].shape_storage[0] = 1;
  cg_output_objects[1].shape_storage[1] = 3;
  slot->small_len = 0;
  memset(&cg_output_array, 0, sizeof(cg_output_array));
  cg_output_array.header.type_index = C7X_TYPE_ARRAY;
  cg_output_array.header.ref_counter = 1;
  cg_output_array.size = 2;
  cg_output_array.elements[0].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[0].v.ptr = &cg_output_objects[0];
  cg_output_array.elements[1].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[1].v.ptr = &cg_output_objects[1];
  slot->type_index = C7X_TYPE_ARRAY;
  slot->v.ptr = &cg_output_array;
  return 0;
}
