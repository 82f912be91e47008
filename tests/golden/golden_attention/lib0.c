/* lib0.c: model golden_attention, compiled by c7x for c_static -mcpu=c7x.
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

C7X_KERNEL static void __tvm_ffi_matmul_5x24x8_block2_tile(const float* s0, const float* s1, const float* s2, const float* s3, const float* s4, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, float* C7X_RESTRICT d) {
  c7x_f32x8 a0_0 = c7x_load8(bias + 0);
  c7x_f32x8 a0_1 = c7x_load8(bias + 8);
  c7x_f32x8 a1_0 = a0_0, a1_1 = a0_1;
  c7x_f32x8 a2_0 = a0_0, a2_1 = a0_1;
  c7x_f32x8 a3_0 = a0_0, a3_1 = a0_1;
  c7x_f32x8 a4_0 = a0_0, a4_1 = a0_1;
  for (int32_t k = 0; k < 8; ++k) {
    const c7x_f32x8 w0 = c7x_load8(w + 0);
    const c7x_f32x8 w1 = c7x_load8(w + 8);
    c7x_f32x8 x;
    x = c7x_splat8(s0[k]);
    a0_0 = c7x_fma8(x, w0, a0_0);
    a0_1 = c7x_fma8(x, w1, a0_1);
    x = c7x_splat8(s1[k]);
    a1_0 = c7x_fma8(x, w0, a1_0);
    a1_1 = c7x_fma8(x, w1, a1_1);
    x = c7x_splat8(s2[k]);
    a2_0 = c7x_fma8(x, w0, a2_0);
    a2_1 = c7x_fma8(x, w1, a2_1);
    x = c7x_splat8(s3[k]);
    a3_0 = c7x_fma8(x, w0, a3_0);
    a3_1 = c7x_fma8(x, w1, a3_1);
    x = c7x_splat8(s4[k]);
    a4_0 = c7x_fma8(x, w0, a4_0);
    a4_1 = c7x_fma8(x, w1, a4_1);
    w += 16;
  }
  c7x_store8(d + 0, a0_0);
  c7x_store8(d + 8, a0_1);
  c7x_store8(d + 24, a1_0);
  c7x_store8(d + 32, a1_1);
  c7x_store8(d + 48, a2_0);
  c7x_store8(d + 56, a2_1);
  c7x_store8(d + 72, a3_0);
  c7x_store8(d + 80, a3_1);
  c7x_store8(d + 96, a4_0);
  c7x_store8(d + 104, a4_1);
}

static void __tvm_ffi_matmul_5x24x8_block2(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, float* C7X_RESTRICT dst, int32_t first, int32_t last) {
  for (int32_t tile = first; tile < last; tile += 5) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_matmul_5x24x8_block2_tile(src + (p * 8), src + ((p + 1) * 8), src + ((p + 2) * 8), src + ((p + 3) * 8), src + ((p + 4) * 8), weights, bias, dst + p * 24);
  }
}

C7X_KERNEL static void __tvm_ffi_matmul_5x24x8_block1_tile(const float* s0, const float* s1, const float* s2, const float* s3, const float* s4, const float* C7X_RESTRICT w, const float* C7X_RESTRICT bias, float* C7X_RESTRICT d) {
  c7x_f32x8 a0_0 = c7x_load8(bias + 0);
  c7x_f32x8 a1_0 = a0_0;
  c7x_f32x8 a2_0 = a0_0;
  c7x_f32x8 a3_0 = a0_0;
  c7x_f32x8 a4_0 = a0_0;
  for (int32_t k = 0; k < 8; ++k) {
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
    w += 8;
  }
  c7x_store8(d + 0, a0_0);
  c7x_store8(d + 24, a1_0);
  c7x_store8(d + 48, a2_0);
  c7x_store8(d + 72, a3_0);
  c7x_store8(d + 96, a4_0);
}

static void __tvm_ffi_matmul_5x24x8_block1(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, const float* C7X_RESTRICT bias, float* C7X_RESTRICT dst, int32_t first, int32_t last) {
  for (int32_t tile = first; tile < last; tile += 5) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_matmul_5x24x8_block1_tile(src + (p * 8), src + ((p + 1) * 8), src + ((p + 2) * 8), src + ((p + 3) * 8), src + ((p + 4) * 8), weights, bias, dst + p * 24);
  }
}
static int32_t __tvm_ffi_matmul_5x24x8(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, const float* C7X_RESTRICT in2, float* C7X_RESTRICT out0) {
  const float* const src = in0;
  const float* const wts = in1;
  const float* const bias = in2;
  float* const dst = out0;
  for (int32_t m = 0; m < 5; m += 5) {
    const int32_t end = m + 5 < 5 ? m + 5 : 5;
    for (int32_t b = 0; b < 1; ++b) __tvm_ffi_matmul_5x24x8_block2(src, wts + (b * 2 + 0) * 64, bias + (b * 2 + 0) * 8, dst + (b * 2 + 0) * 8, m, end);
    for (int32_t b = 0; b < 1; ++b) __tvm_ffi_matmul_5x24x8_block1(src, wts + (b * 1 + 2) * 64, bias + (b * 1 + 2) * 8, dst + (b * 1 + 2) * 8, m, end);
  }
  return 0;
}

static int32_t __tvm_ffi_fused_strided_slice_reshape_strided_slice(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 2; ++i0) {
    for (int32_t i1 = 0; i1 < 5; ++i1) {
      for (int32_t i2 = 0; i2 < 4; ++i2) {
        out0[((i0 * 20) + (i1 * 4)) + i2] = in0[((i1 * 24) + (i0 * 4)) + i2];
      }
    }
  }
  return 0;
}

static int32_t __tvm_ffi_fused_strided_slice_reshape_permute_dims(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 2; ++i0) {
    for (int32_t i1 = 0; i1 < 5; ++i1) {
      for (int32_t i2 = 0; i2 < 4; ++i2) {
        out0[((i0 * 20) + (i1 * 4)) + i2] = in0[(((i1 * 24) + (i0 * 4)) + i2) + 8];
      }
    }
  }
  return 0;
}

static int32_t __tvm_ffi_fused_strided_slice_reshape_strided_slice_1(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 2; ++i0) {
    for (int32_t i1 = 0; i1 < 5; ++i1) {
      for (int32_t i2 = 0; i2 < 4; ++i2) {
        out0[((i0 * 20) + (i1 * 4)) + i2] = in0[(((i1 * 24) + (i0 * 4)) + i2) + 16];
      }
    }
  }
  return 0;
}

C7X_KERNEL static void __tvm_ffi_batch_matmul_2x5x5x4_block1_tile(const float* s0, const float* s1, const float* s2, const float* s3, const float* s4, const float* C7X_RESTRICT w, float* C7X_RESTRICT d, int32_t tail) {
  c7x_f32x8 a0_0 = c7x_splat8(0.0f);
  c7x_f32x8 a1_0 = a0_0;
  c7x_f32x8 a2_0 = a0_0;
  c7x_f32x8 a3_0 = a0_0;
  c7x_f32x8 a4_0 = a0_0;
  for (int32_t k = 0; k < 4; ++k) {
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
    w += 8;
  }
  c7x_store8_n(d + 0, a0_0, tail);
  c7x_store8_n(d + 5, a1_0, tail);
  c7x_store8_n(d + 10, a2_0, tail);
  c7x_store8_n(d + 15, a3_0, tail);
  c7x_store8_n(d + 20, a4_0, tail);
}

static void __tvm_ffi_batch_matmul_2x5x5x4_block1(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, float* C7X_RESTRICT dst, int32_t first, int32_t last, int32_t tail) {
  for (int32_t tile = first; tile < last; tile += 5) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_batch_matmul_2x5x5x4_block1_tile(src + (p * 4), src + ((p + 1) * 4), src + ((p + 2) * 4), src + ((p + 3) * 4), src + ((p + 4) * 4), weights, dst + p * 5, tail);
  }
}
static void __tvm_ffi_batch_matmul_2x5x5x4_pack(const float* C7X_RESTRICT b, float* C7X_RESTRICT d) {
  for (int32_t o = 0; o < 8; o += 8) {
    for (int32_t i = 0; i < 4; ++i) {
      d[0] = b[((o + 0 < 5 ? o + 0 : 4)) * 4 + i];
      d[1] = b[((o + 1 < 5 ? o + 1 : 4)) * 4 + i];
      d[2] = b[((o + 2 < 5 ? o + 2 : 4)) * 4 + i];
      d[3] = b[((o + 3 < 5 ? o + 3 : 4)) * 4 + i];
      d[4] = b[((o + 4 < 5 ? o + 4 : 4)) * 4 + i];
      d[5] = b[((o + 5 < 5 ? o + 5 : 4)) * 4 + i];
      d[6] = b[((o + 6 < 5 ? o + 6 : 4)) * 4 + i];
      d[7] = b[((o + 7 < 5 ? o + 7 : 4)) * 4 + i];
      d += 8;
    }
  }
}

static int32_t __tvm_ffi_batch_matmul_2x5x5x4(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, float* C7X_RESTRICT out0, uint8_t* C7X_RESTRICT workspace) {
  for (int32_t n = 0; n < 2; ++n) {
    const float* const src = in0 + n * 20;
    float* const dst = out0 + n * 25;
    float* const wts = (float*)(void*)workspace;
    __tvm_ffi_batch_matmul_2x5x5x4_pack(in1 + n * 20, wts);
    for (int32_t m = 0; m < 5; m += 5) {
      const int32_t end = m + 5 < 5 ? m + 5 : 5;
      for (int32_t b = 0; b < 1; ++b) __tvm_ffi_batch_matmul_2x5x5x4_block1(src, wts + (b * 1 + 0) * 32, dst + (b * 1 + 0) * 8, m, end, 5);
    }
  }
  return 0;
}

static int32_t __tvm_ffi_fused_multiply_reshape_add(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 2; ++i0) {
    for (int32_t i1 = 0; i1 < 5; ++i1) {
      for (int32_t i2 = 0; i2 < 5; ++i2) {
        const int32_t v0 = i1 * 5;
        const int32_t v1 = ((i0 * 25) + v0) + i2;
        out0[v1] = (in0[v1] * 0.5f) + in1[v0 + i2];
      }
    }
  }
  return 0;
}

static int32_t __tvm_ffi_softmax_5(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t n = 0; n < 10; ++n) {
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

C7X_KERNEL static void __tvm_ffi_batch_matmul_2x5x4x5_block1_tile(const float* s0, const float* s1, const float* s2, const float* s3, const float* s4, const float* C7X_RESTRICT w, float* C7X_RESTRICT d, int32_t tail) {
  c7x_f32x8 a0_0 = c7x_splat8(0.0f);
  c7x_f32x8 a1_0 = a0_0;
  c7x_f32x8 a2_0 = a0_0;
  c7x_f32x8 a3_0 = a0_0;
  c7x_f32x8 a4_0 = a0_0;
  for (int32_t k = 0; k < 5; ++k) {
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
    w += 8;
  }
  c7x_store8_n(d + 0, a0_0, tail);
  c7x_store8_n(d + 4, a1_0, tail);
  c7x_store8_n(d + 8, a2_0, tail);
  c7x_store8_n(d + 12, a3_0, tail);
  c7x_store8_n(d + 16, a4_0, tail);
}

static void __tvm_ffi_batch_matmul_2x5x4x5_block1(const float* C7X_RESTRICT src, const float* C7X_RESTRICT weights, float* C7X_RESTRICT dst, int32_t first, int32_t last, int32_t tail) {
  for (int32_t tile = first; tile < last; tile += 5) {
    const int32_t p = tile < 0 ? tile : 0;
    __tvm_ffi_batch_matmul_2x5x4x5_block1_tile(src + (p * 5), src + ((p + 1) * 5), src + ((p + 2) * 5), src + ((p + 3) * 5), src + ((p + 4) * 5), weights, dst + p * 4, tail);
  }
}
static void __tvm_ffi_batch_matmul_2x5x4x5_pack(const float* C7X_RESTRICT b, float* C7X_RESTRICT d) {
  for (int32_t o = 0; o < 8; o += 8) {
    for (int32_t i = 0; i < 5; ++i) {
      c7x_store8(d + 0, o + 8 <= 4 ? c7x_load8(b + i * 4 + o) : c7x_load8_n(b + i * 4 + o, 4 - (o)));
      d += 8;
    }
  }
}

static int32_t __tvm_ffi_batch_matmul_2x5x4x5(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, float* C7X_RESTRICT out0, uint8_t* C7X_RESTRICT workspace) {
  for (int32_t n = 0; n < 2; ++n) {
    const float* const src = in0 + n * 25;
    float* const dst = out0 + n * 20;
    float* const wts = (float*)(void*)workspace;
    __tvm_ffi_batch_matmul_2x5x4x5_pack(in1 + n * 20, wts);
    for (int32_t m = 0; m < 5; m += 5) {
      const int32_t end = m + 5 < 5 ? m + 5 : 5;
      for (int32_t b = 0; b < 1; ++b) __tvm_ffi_batch_matmul_2x5x4x5_block1(src, wts + (b * 1 + 0) * 40, dst + (b * 1 + 0) * 8, m, end, 4);
    }
  }
  return 0;
}

static int32_t __tvm_ffi_fused_permute_dims_reshape_reshape(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 5; ++i0) {
    for (int32_t i1 = 0; i1 < 8; ++i1) {
      out0[(i0 * 8) + i1] = in0[(((i1 / 4) * 20) + (i0 * 4)) + (i1 % 4)];
    }
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
  /* 0: linear: matmul, reshape, add (linear) at golden.py:75 */
  status = __tvm_ffi_matmul_5x24x8((const float *)inputs[0], (const float *)(w + 320), (const float *)(w + 128), (float *)(a + 0));
  if (status != 0) return status;
  /* 1: slice_1: strided_slice, reshape, strided_slice (slice_1) at golden.py:75 */
  status = __tvm_ffi_fused_strided_slice_reshape_strided_slice((const float *)(a + 0), (float *)(a + 512));
  if (status != 0) return status;
  /* 2: matmul_rows: strided_slice, reshape, permute_dims (slice_2, matmul) at golden.py:75, golden.py:76 */
  status = __tvm_ffi_fused_strided_slice_reshape_permute_dims((const float *)(a + 0), (float *)(a + 768));
  if (status != 0) return status;
  /* 3: slice_3: strided_slice, reshape, strided_slice (slice_3) at golden.py:75 */
  status = __tvm_ffi_fused_strided_slice_reshape_strided_slice_1((const float *)(a + 0), (float *)(a + 1024));
  if (status != 0) return status;
  /* 4: matmul: matmul (matmul) at golden.py:76 */
  status = __tvm_ffi_batch_matmul_2x5x5x4((const float *)(a + 512), (const float *)(a + 768), (float *)(a + 0), (uint8_t *)(a + 256));
  if (status != 0) return status;
  /* 5: add: multiply, reshape, add (mul, add) at golden.py:76 */
  status = __tvm_ffi_fused_multiply_reshape_add((const float *)(a + 0), (const float *)(w + 1216), (float *)(a + 256));
  if (status != 0) return status;
  /* 6: _softmax: nn.softmax (_softmax) at golden.py:76 */
  status = __tvm_ffi_softmax_5((const float *)(a + 256), (float *)(a + 0));
  if (status != 0) return status;
  /* 7: matmul_1: matmul (matmul_1, permute_2) at golden.py:76 */
  status = __tvm_ffi_batch_matmul_2x5x4x5((const float *)(a + 0), (const float *)(a + 1024), (float *)(a + 256), (uint8_t *)(a + 512));
  if (status != 0) return status;
  /* 8: view_1: permute_dims, reshape, reshape (permute_2, view_1) at golden.py:76 */
  status = __tvm_ffi_fused_permute_dims_reshape_reshape((const float *)(a + 256), (float *)outputs[0]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_arena[1280];

static C7X_ALIGNED(128) uint8_t cg_output_0[160];

static c7x_tensor cg_output_objects[1];

/* Entry of weights.bin and offset of its data from the file's start. */
static const uint64_t cg_weights[3][2] = {
    {1, 128},
    {3, 320},
    {5, 1216}};

/* The start of weights.bin in memory. The loader hands out one object per entry, pointing into the file, so every
 * object must agree about where the file starts; NULL when there are no constants or they do not fit this module. */
static const void *cg_find_weights(const c7x_any *constants) {
  const uint8_t *base = NULL;
  int i;
  if (constants == NULL) return NULL;
  for (i = 0; i < 3; ++i) {
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
  cg_set_output(&cg_output_objects[0], cg_output_0, 2, 32, 3);
  cg_output_objects[0].shape_storage[0] = 1;
  cg_output_objects[0].shape_storage[1] = 5;
  cg_output_objects[0].shape_storage[2] = 8;
  slot->small_len = 0;
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &cg_output_objects[0];
  return 0;
}
