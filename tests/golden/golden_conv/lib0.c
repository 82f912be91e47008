/* lib0.c: model golden_conv, compiled by c7x for c_static -mcpu=c7x.
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

static int32_t __tvm_ffi_fused_reshape_permute_dims_reshape(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 8; ++i0) {
    for (int32_t i1 = 0; i1 < 8; ++i1) {
      for (int32_t i2 = 0; i2 < 3; ++i2) {
        out0[((i0 * 24) + (i1 * 3)) + i2] = in0[((i2 * 64) + (i0 * 8)) + i1];
      }
    }
  }
  return 0;
}

static void __tvm_ffi_conv2d_3x3_relu_pad(const float* C7X_RESTRICT image, float* C7X_RESTRICT dst, int32_t first) {
  for (int32_t i = 0; i < 10; ++i) {
    const int32_t y = first + i - 1;
    float* const d = dst + i * 30;
    if (y < 0 || y >= 8) {
      memset(d, 0, 30 * sizeof(float));
      continue;
    }
    memset(d, 0, 3 * sizeof(float));
    memcpy(d + 3, image + y * 24, 24 * sizeof(float));
    memset(d + 27, 0, 3 * sizeof(float));
  }
}
C7X_KERNEL static void __tvm_ffi_conv2d_3x3_relu_block1_tile(const float* s0, const float* s1, const float* s2, const float* s3, const float* s4, const float* s5, const float* s6, const float* s7, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, float* C7X_RESTRICT d) {
  c7x_f32x8 a0_0 = c7x_load8(bias + 0);
  c7x_f32x8 a1_0 = a0_0;
  c7x_f32x8 a2_0 = a0_0;
  c7x_f32x8 a3_0 = a0_0;
  c7x_f32x8 a4_0 = a0_0;
  c7x_f32x8 a5_0 = a0_0;
  c7x_f32x8 a6_0 = a0_0;
  c7x_f32x8 a7_0 = a0_0;
  for (int32_t r = 0; r < 3; ++r) {
    for (int32_t k = 0; k < 9; ++k) {
      const c7x_f32x8 w0 = c7x_load8(w + 0);
      c7x_f32x8 x;
      x = c7x_splat8(s0[k]);
      a0_0 = c7x_fma8(x, w0, a0_0);
      x = c7x_splat8(s1[k]);
      a1_0 = c7x_fma8(x, w0, a1_0);
      x = c7x_splat8(s2[k]);
      a2_0 = c7x_fma8(x, w0, a2_0);
      x = c7x_splat8(s3[k]);
      a3_0 = c7x_fma8(x, w0, a3_0);
      x = c7x_splat8(s4[k]);
      a4_0 = c7x_fma8(x, w0, a4_0);
      x = c7x_splat8(s5[k]);
      a5_0 = c7x_fma8(x, w0, a5_0);
      x = c7x_splat8(s6[k]);
      a6_0 = c7x_fma8(x, w0, a6_0);
      x = c7x_splat8(s7[k]);
      a7_0 = c7x_fma8(x, w0, a7_0);
      w += 8;
    }
    s0 += 30; s1 += 30; s2 += 30; s3 += 30; s4 += 30; s5 += 30; s6 += 30; s7 += 30;
  }
  c7x_store8(d + 0, c7x_relu8(a0_0));
  c7x_store8(d + 8, c7x_relu8(a1_0));
  c7x_store8(d + 16, c7x_relu8(a2_0));
  c7x_store8(d + 24, c7x_relu8(a3_0));
  c7x_store8(d + 32, c7x_relu8(a4_0));
  c7x_store8(d + 40, c7x_relu8(a5_0));
  c7x_store8(d + 48, c7x_relu8(a6_0));
  c7x_store8(d + 56, c7x_relu8(a7_0));
}

static void __tvm_ffi_conv2d_3x3_relu_block1(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, float* C7X_RESTRICT dst, int32_t first, int32_t last) {
  for (int32_t tile = first; tile < last; tile += 8) {
    const int32_t p = tile < 56 ? tile : 56;
    __tvm_ffi_conv2d_3x3_relu_block1_tile(src + (p / 8 * 30 + p % 8 * 3), src + ((p + 1) / 8 * 30 + (p + 1) % 8 * 3), src + ((p + 2) / 8 * 30 + (p + 2) % 8 * 3), src + ((p + 3) / 8 * 30 + (p + 3) % 8 * 3), src + ((p + 4) / 8 * 30 + (p + 4) % 8 * 3), src + ((p + 5) / 8 * 30 + (p + 5) % 8 * 3), src + ((p + 6) / 8 * 30 + (p + 6) % 8 * 3), src + ((p + 7) / 8 * 30 + (p + 7) % 8 * 3), weights, bias, dst + p * 8);
  }
}
static int32_t __tvm_ffi_conv2d_3x3_relu(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, const float* C7X_RESTRICT in2, float* C7X_RESTRICT out0, uint8_t* C7X_RESTRICT workspace) {
  float* const padded = (float*)(void*)workspace;
  for (int32_t n = 0; n < 1; ++n) {
  for (int32_t strip = 0; strip < 8; strip += 8) {
    const int32_t y = strip < 0 ? strip : 0;
    __tvm_ffi_conv2d_3x3_relu_pad(in0 + n * 192, padded, y * 1);
    for (int32_t g = 0; g < 1; ++g) {
      const float* const src = padded + g * 3;
      const float* const wts = in1 + g * 216;
      const float* const bias = in2 + g * 8;
      float* const dst = out0 + (n * 8 + y) * 64 + g * 8;
      for (int32_t m = 0; m < 64; m += 64) {
        const int32_t end = m + 64 < 64 ? m + 64 : 64;
        for (int32_t b = 0; b < 1; ++b) __tvm_ffi_conv2d_3x3_relu_block1(src, wts + (b * 1 + 0) * 216, bias + (b * 1 + 0) * 8, dst + (b * 1 + 0) * 8, m, end);
      }
    }
  }
  }
  return 0;
}

static int32_t __tvm_ffi_max_pool2d(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 4; ++i0) {
    for (int32_t i1 = 0; i1 < 4; ++i1) {
      const int32_t v0 = (i0 * 32) + (i1 * 8);
      for (int32_t i2 = 0; i2 < 8; ++i2) {
        out0[v0 + i2] = -INFINITY;
      }
      for (int32_t i3 = 0; i3 < 2; ++i3) {
        for (int32_t i4 = 0; i4 < 2; ++i4) {
          for (int32_t i5 = 0; i5 < 8; ++i5) {
            const int32_t v1 = v0 + i5;
            out0[v1] = c7x_max_f32(out0[v1], in0[((((i0 * 128) + (i3 * 64)) + (i1 * 16)) + (i4 * 8)) + i5]);
          }
        }
      }
    }
  }
  return 0;
}

static int32_t __tvm_ffi_fused_reshape_permute_dims_reshape_1(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 8; ++i0) {
    for (int32_t i1 = 0; i1 < 4; ++i1) {
      for (int32_t i2 = 0; i2 < 4; ++i2) {
        out0[((i0 * 16) + (i1 * 4)) + i2] = in0[((i1 * 32) + (i2 * 8)) + i0];
      }
    }
  }
  return 0;
}

static const C7X_ALIGNED(64) float cg_constant_0[8] = {(-0.5439456f), (-0.23450202f), 0.4109522f, (-0.36279902f), 0.52047086f, (-0.77962863f), (-0.26835498f), 0.7177788f};

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const uint8_t *w = (const uint8_t *)weights;
  uint8_t *a = (uint8_t *)arena;
  int32_t status = 0;
  (void)inputs;
  (void)outputs;
  (void)w;
  (void)a;
  /* 0: _native_batch_norm_legit_no_training__norm_conv_last_as: reshape, permute_dims, reshape (convolution) in 0 */
  status = __tvm_ffi_fused_reshape_permute_dims_reshape((const float *)inputs[0], (float *)(a + 3328));
  if (status != 0) return status;
  /* 1: relu: nn.conv2d, nn.batch_norm, nn.relu (convolution, _native_batch_norm_legit_no_training, relu) in 0, 1, 2 */
  status = __tvm_ffi_conv2d_3x3_relu((const float *)(a + 3328), (const float *)(w + 128), (const float *)cg_constant_0, (float *)(a + 0), (uint8_t *)(a + 2048));
  if (status != 0) return status;
  /* 2: max_pool2d: nn.max_pool2d (max_pool2d) in 3 */
  status = __tvm_ffi_max_pool2d((const float *)(a + 0), (float *)(a + 2048));
  if (status != 0) return status;
  /* 3: max_pool2d_as_as: reshape, permute_dims, reshape (max_pool2d) in 3 */
  status = __tvm_ffi_fused_reshape_permute_dims_reshape_1((const float *)(a + 2048), (float *)outputs[0]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_arena[4096];

static C7X_ALIGNED(128) uint8_t cg_output_0[512];

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
  cg_set_output(&cg_output_objects[0], cg_output_0, 2, 32, 4);
  cg_output_objects[0].shape_storage[0] = 1;
  cg_output_objects[0].shape_storage[1] = 8;
  cg_output_objects[0].shape_storage[2] = 4;
  cg_output_objects[0].shape_storage[3] = 4;
  slot->small_len = 0;
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &cg_output_objects[0];
  return 0;
}
