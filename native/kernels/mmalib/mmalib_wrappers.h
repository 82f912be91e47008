/* The firmware's wrappers around MMALIB, as a host reference (kernels.md section 6), bit-exact to
 * tests/kernel_models.py. The build of a module pre-includes this file by the name mmalib/mmalib_wrappers.h. No set-up
 * call is needed. Plain C99 and C++14.
 *
 * Conventions. Tensors are compact, batch 1. Temporary memory comes from the main pool (TVMBackendAllocWorkspace). Every
 * function returns 0, or -1 and writes nothing when a pointer that it needs is NULL, a size is not positive, a shape is
 * outside what the table of section 6 allows, or there is no memory. Pointers need no alignment here; on a board they
 * should be 64-byte aligned.
 *
 * Quantised output QR, per output channel c: a = sum of products; b = a + bias[c]; p = b * scale[c];
 * r = asr(p + (shift[c] > 0 ? 2^(shift[c] - 1) : 0), shift[c]); the output is sat8(r) or sat16(r). A NULL bias, scale or
 * shift stands for 0, 1, 0.
 *
 * What kernels.md leaves open is decided so:
 *   - a wraps as an int32 for int8 data, where 2^31 / 2^14 products fit. It is 64 bits wide for int16 data; b, p and r
 *     are 64 bits wide for both and saturate;
 *   - a shift of 64 or more gives 0 in QR, and the sign in matmul_i8 and matmul_i16, which do not round;
 *   - sizes that the documents only recommend are refused when the public compiler would not send them either.
 */
#ifndef C7X_MMALIB_WRAPPERS_H
#define C7X_MMALIB_WRAPPERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What M, K and N (matmul), or K and N (matmul_bias), must be multiples of. */
#define MMALIB_MATMUL_I8_MULTIPLE 64
#define MMALIB_MATMUL_I16_MULTIPLE 16
#define MMALIB_MATMUL_BIAS_I8_MULTIPLE 32
#define MMALIB_MATMUL_BIAS_I16_MULTIPLE 16

/* A int8 [M, K], B int8 [K, N], C int8 [M, N]: sat8(asr(sum, shift)), shift >= 0, no rounding. */
int32_t mmalib_matmul_i8(void *A, void *B, void *C, int32_t M, int32_t K, int32_t N, int32_t shift);
/* The same with int16 and sat16. */
int32_t mmalib_matmul_i16(void *A, void *B, void *C, int32_t M, int32_t K, int32_t N, int32_t shift);

/* input int8 [C_in, H_in, W_in], kernel int8 [C_out, C_in, KH, KW], bias int32, scale uint8, shift uint8 [C_out],
 * output int8 [C_out, OH, OW], OH = (H_in + pad_top + pad_bottom - KH) / stride_h + 1. Padding is integer 0. QR. */
int32_t mmalib_conv2d_i8(void *input, void *kernel, void *bias, void *scale, void *shift, void *output, int32_t C_in,
                         int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW, int32_t stride_h,
                         int32_t stride_w, int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right);
/* The output channels oc_start .. oc_start + C_out_tile - 1: `kernel` holds only theirs, bias, scale, shift and output are
 * those of the whole tensor. */
int32_t mmalib_conv2d_i8_sliced(void *input, void *kernel, void *bias, void *scale, void *shift, void *output,
                                int32_t C_in, int32_t H_in, int32_t W_in, int32_t C_out_tile, int32_t KH, int32_t KW,
                                int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                int32_t pad_left, int32_t pad_right, int32_t oc_start);
/* Kernel int8 [C_out, C_in / groups, KH, KW], one convolution per group. No pointer may be NULL; 1 < groups < C_in divides
 * C_in and C_out. When a group fails, the rest of the output is set to 0 and the group's code returned. */
int32_t mmalib_conv2d_i8_grouped_loop(void *input, void *kernel, void *bias, void *scale, void *shift, void *output,
                                      int32_t C_in, int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW,
                                      int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                      int32_t pad_left, int32_t pad_right, int32_t groups);
/* As conv2d_i8 with int16 data and weights and bias int64. */
int32_t mmalib_conv2d_i16(void *input, void *kernel, void *bias, void *scale, void *shift, void *output, int32_t C_in,
                          int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW, int32_t stride_h,
                          int32_t stride_w, int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right);

/* input int8 [channels, H_in, W_in], weights int8 [channels, 1, KH, KW], the rest as conv2d_i8. KH = KW is 3, 5 or 7, the
 * strides are 1 or 2, num_groups is channels. */
int32_t mmalib_depthwise_conv2d_i8(void *input, void *weights, void *bias, void *scale, void *shift, void *output,
                                   int32_t channels, int32_t H_in, int32_t W_in, int32_t KH, int32_t KW,
                                   int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                   int32_t pad_left, int32_t pad_right, int32_t num_groups);
/* The same with int16 data and weights and bias int64; only 3 x 3. */
int32_t mmalib_depthwise_conv2d_i16(void *input, void *weights, void *bias, void *scale, void *shift, void *output,
                                    int32_t channels, int32_t H_in, int32_t W_in, int32_t KH, int32_t KW,
                                    int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                    int32_t pad_left, int32_t pad_right, int32_t num_groups);

/* input int8 [M, K], weights int8 [N, K], bias int32, scale, shift uint8 [N], output int8 [M, N]. QR per column, the scale
 * read as signed: keep it in 1..127. */
int32_t mmalib_matmul_bias_i8(void *input, void *weights, void *bias, void *scale, void *shift, void *output, int32_t M,
                              int32_t K, int32_t N);
/* The same with int16 data and weights and bias int64. */
int32_t mmalib_matmul_bias_i16(void *input, void *weights, void *bias, void *scale, void *shift, void *output, int32_t M,
                               int32_t K, int32_t N);

#ifdef __cplusplus
}
#endif

#endif /* C7X_MMALIB_WRAPPERS_H */
