/* lib0.c: model golden_linear_softmax, compiled by c7x for c_static -mcpu=c7x.
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

C7X_KERNEL static void __tvm_ffi_matmul_2x5x12_block1_tile(const float* s0, const float* s1, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, float* C7X_RESTRICT d, int32_t tail) {
  c7x_f32x8 a0_0 = c7x_load8_n(bias + 0, tail);
  c7x_f32x8 a1_0 = a0_0;
  for (int32_t k = 0; k < 12; ++k) {
    const c7x_f32x8 w0 = c7x_load8(w + 0);
    c7x_f32x8 x;
    x = c7x_splat8(s0[k]);
    a0_0 = c7x_fma8(x, w0, a0_0);
    x = c7x_splat8(s1[k]);
    a1_0 = c7x_fma8(x, w0, a1_0);
    w += 8;
  }
  c7x_store8_n(d + 0, a0_0, tail);
  c7x_store8_n(d + 5, a1_0, tail);
}

static void __tvm_ffi_matmul_2x5x12_block1(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, float* C7X_RESTRICT dst, int32_t first, int32_t last, int32_t tail) {
  for (int32_t tile = first; tile < last; tile += 2) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_matmul_2x5x12_block1_tile(src + (p * 12), src + ((p + 1) * 12), weights, bias, dst + p * 5, tail);
  }
}
static int32_t __tvm_ffi_matmul_2x5x12(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, const float* C7X_RESTRICT in2, float* C7X_RESTRICT out0) {
  const float* const src = in0;
  const float* const wts = in1;
  const float* const bias = in2;
  float* const dst = out0;
  for (int32_t m = 0; m < 2; m += 2) {
    const int32_t end = m + 2 < 2 ? m + 2 : 2;
    for (int32_t b = 0; b < 1; ++b) __tvm_ffi_matmul_2x5x12_block1(src, wts + (b * 1 + 0) * 96, bias + (b * 1 + 0) * 8, dst + (b * 1 + 0) * 8, m, end, 5);
  }
  return 0;
}

static int32_t __tvm_ffi_softmax_5(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t n = 0; n < 2; ++n) {
    const float* const x = in0 + n * 5;
    float* const y = out0 + n * 5;
    c7x_f32x8 top = c7x_splat8(-INFINITY), sum = c7x_splat8(0.0f);
    float last[8];
    for (int32_t i = 0; i < 8; ++i) last[i] = i < 5 ? x[0 + i] : -INFINITY;
    top = c7x_max8(top, c7x_load8(last));
    const c7x_f32x8 shift = c7x_splat8(c7x_hmax8(top));
    const c7x_f32x8 e = c7x_exp8(c7x_sub8(c7x_load8(last), shift));
    sum = c7x_add8(sum, e);
    const c7x_f32x8 scale = c7x_splat8(1.0f / c7x_hadd8(sum));
    c7x_store8_n(y + 0, c7x_mul8(e, scale), 5);
  }
  return 0;
}

static const C7X_ALIGNED(64) float cg_constant_0[5] = {(-0.75f), (-0.171875f), 0.40625f, (-0.546875f), 0.03125f};

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const uint8_t *w = (const uint8_t *)weights;
  uint8_t *a = (uint8_t *)arena;
  int32_t status = 0;
  (void)inputs;
  (void)outputs;
  (void)w;
  (void)a;
  /* 0: linear: matmul, add (linear) in 0 */
  status = __tvm_ffi_matmul_2x5x12((const float *)inputs[0], (const float *)(w + 128), (const float *)cg_constant_0, (float *)(a + 0));
  if (status != 0) return status;
  /* 1: _softmax: nn.softmax (_softmax) in 1 */
  status = __tvm_ffi_softmax_5((const float *)(a + 0), (float *)outputs[0]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_arena[128];

static C7X_ALIGNED(128) uint8_t cg_output_0[40];

static c7x_tensor cg_output_objects[1];

/* Entry of weights.bin and offset of its data from the file's start. */
static const uint64_t cg_weights[1][2] = {
    {1, 128}};

/* The start of weights.bin in memory. The loader hands out one object per entry, pointing into the file, so every
 * object must agree about where the file starts; NULL when there are no constants or they do not fit this module. */
static const void *cg_find_weights(const c7x_any *constants) {
  const uint8_t *base = NULL;
  int i;
  if (constants == NULL) return NULL;
  for (i = 0; i < 1; ++i) {
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
  const void *input_data[1];
  void *output_data[1];
  const void *weights = NULL;
  int32_t status;
  int i;
  (void)inputs;
  (void)constants;
  if (num_inputs != 1 || slot == NULL) return -1;
  if (cells == NULL) return -1;
  for (i = 0; i < num_inputs; ++i) {
    const c7x_tensor *tensor = (const c7x_tensor *)cells[i].v.ptr;
    if (cells[i].type_index != C7X_TYPE_TENSOR || tensor == NULL) return -1;
    input_data[i] = (const uint8_t *)tensor->data + tensor->byte_offset;
  }
  weights = cg_find_weights((const c7x_any *)constants);
  if (weights == NULL) return -1;
  output_data[0] = cg_output_0;
  status = cg_main(input_data, output_data, weights, cg_arena);
  if (status != 0) return (int)status;
  cg_set_output(&cg_output_objects[0], cg_output_0, 2, 32, 2);
  cg_output_objects[0].shape_storage[0] = 2;
  cg_output_objects[0].shape_storage[1] = 5;
  slot->small_len = 0;
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &cg_output_objects[0];
  return 0;
}
