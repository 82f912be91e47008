/* The compute kernels that c7x firmware always exports, as a host reference (kernels.md sections 2 to 5), bit-exact to
 * tests/kernel_models.py. No set-up call is needed. Plain C99 and C++14; the MMALIB wrappers are in mmalib/.
 * Built with C7X_KERNELS_C7X=1, those of c7x/, in C7x code with vectors, take the place of some.
 *
 * Conventions. Tensors are compact, NCHW where they have a spatial shape, and aligned to their elements. `zx, sx` are
 * the zero point and scale of the input, `zy, sy` of the output; an int8 x stands for DQ(x) = (x - zx) * sx. Every
 * kernel returns 0, or -1 and writes nothing when a pointer that it needs is NULL, a size is negative or a shape is
 * impossible. A size of 0 is no error. Elementwise kernels (relu to quantize_rgb) may write over their input.
 *
 * Rounding. RQ(y), a float y as int8, is sat8(trunc(y / sy + 0.5) + zy): the "scalar rule", used everywhere. Built with
 * C7X_KERNELS_VECTOR_RULE=1, the kernels marked V treat the first floor(n / 8) * 8 elements as the board's vector code
 * does, by sat8(rne(clamp(y * (1 / sy) + zy, -128, 127))), with its exp approximation and reciprocal.
 *
 * What kernels.md leaves open is decided so:
 *   - float expressions are evaluated in float, operation by operation from the left, without contraction; sums run in
 *     index order. exp, erf are the correctly rounded float results (by way of double);
 *   - a float becomes an int32 by truncation, saturating, NaN to 0; integer arithmetic after it is that of unbounded
 *     integers (products and sums are 64 bits wide, or narrower where that cannot overflow);
 *   - bounds and clips outside int8 saturate to int8;
 *   - the vector reciprocal starts from 1/x cut to 8 bits of mantissa, the least accurate seed the board may have: the
 *     last bit of a float result may differ there.
 */
#ifndef C7X_KERNELS_H
#define C7X_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, section 2: in int8 [n], out int8 [n] ---- */

/* 0.5 * x * (1 + erf(x / sqrt 2)). */
int32_t c7x_int8_gelu(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy);
/* V. x / (1 + exp(-x)). */
int32_t c7x_int8_silu(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy);
/* V. x * clamp(x + 3, 0, 6) / 6. */
int32_t c7x_int8_hardswish(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy);
/* clamp(x / 6 + 0.5, 0, 1). */
int32_t c7x_int8_hardsigmoid(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy);
/* V. x / (1 + exp(-x)) as float32: out [n]. */
int32_t c7x_int8_silu_f32out(const void *in, void *out, int32_t n, int32_t zx, float sx);
/* max(x, clip_lo). */
int32_t c7x_int8_relu(const void *in, void *out, int32_t n, int32_t clip_lo);
/* min(max(x, lo), hi). */
int32_t c7x_int8_clamp(const void *in, void *out, int32_t n, int32_t lo, int32_t hi);
/* min(max(asr(x * q, 13), lo), hi), q = trunc(combined_scale * 8192 + 0.5). */
int32_t c7x_int8_requantize_clamp(const void *in, void *out, int32_t n, float combined_scale, int32_t lo, int32_t hi);
/* The Q13 map of section 1.1; a copy when scale and zero point are equal. */
int32_t c7x_int8_rescale(const void *in, void *out, int32_t n, int32_t zx, float sx, int32_t zy, float sy);
/* V. in float32 [n]. sat8(round(x * inv_scale + zp)), halves away from zero (V: to even); NaN becomes 0. */
int32_t c7x_int8_quantize(const void *in, void *out, int32_t n, float inv_scale, int32_t zp);
/* V, each plane by itself. in float32 [N, 3, HW], out int8 [N, 3, HW]; plane c: sat8(round(x * inv_c + off_c)). */
int32_t c7x_int8_quantize_rgb(const void *in, void *out, int32_t N, int32_t HW, float inv_0, float off_0, float inv_1,
                              float off_1, float inv_2, float off_2);
/* excitation int8 [C], feature_map int8 [C, HW], out int8 [C, HW]; q = trunc((exc[c] - z_exc) * s_exc * s_feat / s_out *
 * 8192 + 0.5), out = sat8(asr(x * q, 13) + z_out - asr(z_feat * q, 13)). */
int32_t c7x_int8_channel_scale_multiply(const void *excitation, const void *feature_map, void *out, int32_t C, int32_t HW,
                                        float s_exc, int32_t z_exc, float s_feat, int32_t z_feat, float s_out,
                                        int32_t z_out);

/* ---- pooling, normalisation, movement, section 3 ---- */

/* in int8 [N, C, H_in, W_in], out int8 [N, C, H_out, W_out]. Padding counts as -128; pH and pW are above and to the left,
 * what the window takes below and to the right is padding too. */
int32_t c7x_int8_max_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW);
/* The same with padding that counts as 0. Only firmware with TIDL has it. */
int32_t c7x_int8_max_pool_tidl(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                               int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW);
/* in int8 [N, C, H, W], out int8 [N, C]. RQ(sum(x - zx) * (sx / HW)). */
int32_t c7x_int8_global_avg_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H, int32_t W, int32_t zx,
                                 float sx, int32_t zy, float sy);
/* Shapes as max_pool. RQ(sum(x - zx) * (sx / (kH * kW))), padding counting as real zero. 3x3 with stride 1, padding 1 and
 * an output as large as the input, both dimensions in 3..40: away from the border sat8(asr(sum(x - zx) * q, 13) + zy),
 * q = trunc(sx / 9 / sy * 8192 + 0.5). */
int32_t c7x_int8_avg_pool(const void *in, void *out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW,
                          int32_t zx, float sx, int32_t zy, float sy);
/* in int8 [outer, norm], weight and bias float32 [norm], out int8 [outer, norm].
 * RQ((x - mean) / sqrt(var + eps) * w + b) with the row's mean and biased variance. */
int32_t c7x_int8_layer_norm(const void *in, const void *weight, const void *bias, void *out, int32_t outer, int32_t norm,
                            float eps, int32_t zx, float sx, int32_t zy, float sy);
/* in int8 [C, H, W], out int8 [C, 2H, 2W]: out[c, i, j] = in[c, i / 2, j / 2]. */
int32_t c7x_int8_resize2d_nearest2x(const void *in, void *out, int32_t C, int32_t H, int32_t W);
/* in1 int8 [C1, H, W], in2 int8 [C2, 2H, 2W], out int8 [C1 + C2, 2H, 2W]: RQ(SiLU(DQ(in1))) upsampled twice, then
 * RQ(DQ(in2)). */
int32_t c7x_int8_fpn_upsample_concat(const void *in1, int32_t C1, int32_t H, int32_t W, int32_t z1, float s1,
                                     const void *in2, int32_t C2, int32_t z2, float s2, void *out, float s_out,
                                     int32_t z_out);
/* The same; out1_presize float32 [C1, H, W] is SiLU(DQ(in1)). */
int32_t c7x_int8_fpn_upsample_concat_ex(const void *in1, int32_t C1, int32_t H, int32_t W, int32_t z1, float s1,
                                        const void *in2, int32_t C2, int32_t z2, float s2, void *out, float s_out,
                                        int32_t z_out, void *out1_presize);
/* in_k int8 [C_k, HW] (C_k may be 0, in_k then NULL), out int8 [C_1 + .. + C_4, HW]: each source copied when its
 * quantisation is the output's, else through the Q13 map. */
int32_t c7x_int8_concat_rescale(const void *in1, int32_t C1, float s1, int32_t z1, const void *in2, int32_t C2, float s2,
                                int32_t z2, const void *in3, int32_t C3, float s3, int32_t z3, const void *in4,
                                int32_t C4, float s4, int32_t z4, void *out, int32_t HW, float s_out, int32_t z_out);
/* in_k int8 [C, n_k] (n_k may be 0, in_k then NULL), out float32 [C, n_1 + .. + n_4]: 1 / (1 + exp(-DQ(x))). */
int32_t c7x_int8_concat_sigmoid(const void *in1, int32_t n1, float s1, int32_t z1, const void *in2, int32_t n2, float s2,
                                int32_t z2, const void *in3, int32_t n3, float s3, int32_t z3, const void *in4,
                                int32_t n4, float s4, int32_t z4, void *out, int32_t C);
/* in int8 [B, A, K, N], out int8 [B, K, A, N]: RQ of the softmax over K. Takes (2 * N + K * N) floats of workspace; -1
 * when there are none. */
int32_t c7x_int8_dfl_softmax(const void *in, void *out, int32_t B, int32_t A, int32_t K, int32_t N, int32_t zx, float sx,
                             int32_t zy, float sy);

/* ---- residual add, section 4 ---- */

/* What `params` points to (any alignment): offsets 0, 4, 8, 12, 13, 14, 15. A negative shift is refused. */
typedef struct c7x_residual_params {
  int32_t M_x;
  int32_t M_skip;
  int32_t shift;
  int8_t zp_x;
  int8_t zp_skip;
  int8_t zp_out;
  int8_t pad;
} c7x_residual_params;

/* x, skip, output int8 [num_elements]. v = asr((x - zp_x) * M_x + (s - zp_skip) * M_skip, shift) + zp_out;
 * output = sat8(has_relu ? max(v, 0) : v). The clip is at integer 0, whatever zp_out is. */
int32_t c7x_int8_residual_add_relu(const void *x, const void *skip, const void *params, void *output,
                                   int32_t num_elements, int32_t has_relu);
/* The same with int16 data and sat16. */
int32_t c7x_int16_residual_add_relu(const void *x, const void *skip, const void *params, void *output,
                                    int32_t num_elements, int32_t has_relu);

/* ---- float and language-model kernels, section 5 ---- */

/* activation float32 [M, K], weights int8 [N, K], scale float32 [N], output float32 [M, N]: scale[n] * sum(a * w).
 * -1 when K is no multiple of 8, where the board's vector code would leave out the rest. */
int32_t c7x_dequantize_vecmatmul(const void *activation, const void *weights, const void *scale, void *output, int32_t M,
                                 int32_t K, int32_t N);
/* One query position: Q float32 [q_heads, dim], K_cache and V_cache float32 [kv_heads, len, dim], mask float32 [len],
 * output float32 [q_heads, dim]: softmax(Q K^T / sqrt(dim) + mask) V, kv head = q head / (q_heads / kv_heads). -1 unless
 * kv_heads divides q_heads, head_dim is a multiple of 8 up to 128 and max_cache_len is 1..1024. */
int32_t c7x_sdpa_decode(const void *Q, const void *K_cache, const void *V_cache, const void *mask, void *output,
                        int32_t num_q_heads, int32_t num_kv_heads, int32_t head_dim, int32_t max_cache_len);
/* data float32 [batch, n], out_val float32 [batch, k], out_idx int64 [batch, k]: the k largest of a row, descending.
 * Equal values come here in the order of their index and NaN first, neither of which the board promises. -1 when k <= 0,
 * k > n, or there is no workspace (k int32). */
int32_t c7x_topk(const void *data, void *out_val, void *out_idx, int32_t batch, int32_t n, int32_t k);

#ifdef __cplusplus
}
#endif

#endif /* C7X_KERNELS_H */
