/* kernels.md section 6. Convolution and matrix product are one loop nest: rows of 16-bit weights against columns of
 * 16-bit inputs, four by two at a time, which compilers turn into the multiply-add of pairs that every processor has.
 * Rows and columns are made from the tensors per call: each element is used often enough to pay for it.
 *
 * 16-bit weights are split, w = 256 * high + low with both in -128..128, so that the same loop serves them: a sum of
 * CHUNK products fits an int32 either way. */
#include "mmalib/mmalib_wrappers.h"

#include "c7x_check_l2.h"
#include "c7x_kernel_math.h"
#include "c7x_platform.h"

#define ROWS 4
#define COLUMNS 2
#define DEPTH_MULTIPLE 16       /* rows and columns are filled up with zeros to whole vectors */
#define CHUNK_NARROW 65536      /* * 2^7 * 2^7 = 2^30 */
#define CHUNK_WIDE 256          /* * 2^15 * 2^7 = 2^30 */
#define STRIP_BYTES 262144      /* of columns at a time: about a second-level cache */
#define ALIGNMENT 64
#define MIN_GUARD 128           /* bytes in front of an input that lies in L2, where the board's kernels may address */

C7X_INLINE int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

C7X_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

C7X_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

C7X_INLINE int64_t saturating_add(int64_t a, int64_t b) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return b > 0 ? INT64_MAX : INT64_MIN;
  return a + b;
}

/* By a factor of at most 8 bits. */
C7X_INLINE int64_t saturating_scale(int64_t a, int32_t factor) {
  if (a > INT64_MAX / 256 || a < -(INT64_MAX / 256)) {
    const int64_t limit = factor == 0 ? INT64_MAX : INT64_MAX / (factor < 0 ? -factor : factor);
    if (a > limit || a < -limit) {
      if (factor == 0) return 0;
      return (a > 0) == (factor > 0) ? INT64_MAX : INT64_MIN;
    }
  }
  return a * factor;
}

/* How sums become outputs. */
typedef struct epilogue {
  const void *bias;             /* int32, or int64 when wide; NULL is 0 */
  const uint8_t *scale;         /* NULL is 1 */
  const uint8_t *shift;         /* NULL is 0 */
  int signed_scale;
  int32_t plain_shift;          /* when not negative, the sum is only shifted, without rounding */
} epilogue;

/* The element before saturation. */
C7X_INLINE int64_t finish(const epilogue *e, int wide, int64_t channel, int64_t sum) {
  int64_t v = sum;
  int32_t factor = 1;
  int32_t shift = 0;
  if (e->plain_shift >= 0) return c7x_asr64(v, e->plain_shift);
  if (e->bias != NULL) {
    v = saturating_add(v, wide ? ((const int64_t *)e->bias)[channel] : ((const int32_t *)e->bias)[channel]);
  }
  if (e->scale != NULL) factor = e->signed_scale ? (int8_t)e->scale[channel] : e->scale[channel];
  if (e->shift != NULL) shift = e->shift[channel];
  v = saturating_scale(v, factor);
  if (shift == 0) return v;
  if (shift > 63) return 0;
  return c7x_asr64(saturating_add(v, INT64_C(1) << (shift - 1)), shift);
}

C7X_INLINE int32_t element(const void *data, int wide, int64_t i) {
  return wide ? ((const int16_t *)data)[i] : ((const int8_t *)data)[i];
}

C7X_INLINE void store(void *data, int wide, int64_t i, int64_t v) {
  if (wide) {
    ((int16_t *)data)[i] = c7x_sat16(v);
  } else {
    ((int8_t *)data)[i] = c7x_sat8(v);
  }
}

/* Parts of one block of workspace, one after the other. */
static void *take(uint8_t **at, int64_t bytes) {
  uint8_t *part = *at;
  *at += round_up(bytes, ALIGNMENT);
  return part;
}

static uint8_t *get_workspace(int64_t bytes) {
  return (uint8_t *)TVMBackendAllocWorkspace(1, 0, (uint64_t)bytes, 0, 8);
}

static void free_workspace(void *workspace) { TVMBackendFreeWorkspace(1, 0, workspace); }

/* ---- convolution and matrix product ---- */

/* A convolution of an image [H, W, C] by rows [C, KH, KW]; a matrix product is one with a 1 x 1 kernel, whose columns are
 * the image's positions. Strides count elements of the caller's tensors. */
typedef struct problem {
  const void *in;
  int64_t C, H, W, in_c, in_h, in_w;
  int64_t top, left, padded_h, padded_w;
  const void *weights;
  int64_t rows, weight_row, weight_c;
  int64_t KH, KW, stride_h, stride_w, OH, OW;
  void *out;
  int64_t out_row, out_column;
  epilogue end;
} problem;

/* What the padding above and to the left of the first window takes in front of the input must be L2 where the input is
 * (target-attributes.md, section 4). This reference reads none of it. */
C7X_INLINE void check_guard(const problem *p, int wide) {
  const int64_t reach = (p->top * p->W + p->left) * (wide ? (int64_t)sizeof(int16_t) : 1);
  (void)reach;
  C7X_CHECK_L2_GUARD(p->in, (size_t)larger(MIN_GUARD, reach));
}

/* sums[c * ROWS + r] = row r times column c, over n elements. */
C7X_KERNEL
static void dot_block(const int16_t *C7X_RESTRICT row, const int16_t *C7X_RESTRICT column, int64_t depth, int64_t n,
                      int32_t *C7X_RESTRICT sums) {
  const int16_t *r0 = row, *r1 = row + depth, *r2 = row + 2 * depth, *r3 = row + 3 * depth;
  const int16_t *c0 = column, *c1 = column + depth;
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t x = c0[i];
    const int32_t y = c1[i];
    s0 += x * r0[i];
    s1 += x * r1[i];
    s2 += x * r2[i];
    s3 += x * r3[i];
    t0 += y * r0[i];
    t1 += y * r1[i];
    t2 += y * r2[i];
    t3 += y * r3[i];
  }
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  sums[3] = s3;
  sums[4] = t0;
  sums[5] = t1;
  sums[6] = t2;
  sums[7] = t3;
}

static void narrow_sums(const int16_t *row, const int16_t *column, int64_t depth, int64_t *sums) {
  int32_t total[ROWS * COLUMNS] = {0};
  for (int64_t k = 0; k < depth; k += CHUNK_NARROW) {
    int32_t part[ROWS * COLUMNS];
    dot_block(row + k, column + k, depth, smaller(CHUNK_NARROW, depth - k), part);
    for (int i = 0; i < ROWS * COLUMNS; ++i) total[i] = c7x_add_i32(total[i], part[i]);
  }
  for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i] = total[i];
}

static void wide_sums(const int16_t *low, const int16_t *high, const int16_t *column, int64_t depth, int64_t *sums) {
  for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i] = 0;
  for (int64_t k = 0; k < depth; k += CHUNK_WIDE) {
    const int64_t n = smaller(CHUNK_WIDE, depth - k);
    int32_t small[ROWS * COLUMNS];
    int32_t big[ROWS * COLUMNS];
    dot_block(low + k, column + k, depth, n, small);
    dot_block(high + k, column + k, depth, n, big);
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i] += small[i] + (int64_t)big[i] * 256;
  }
}

/* The image [padded_h, padded_w, C] as 16 bits, zeros around it. */
C7X_INLINE void make_image(const problem *p, int wide, int16_t *image) {
  memset(image, 0, (size_t)(p->padded_h * p->padded_w * p->C) * sizeof *image);
  for (int64_t h = 0; h < p->H; ++h) {
    int16_t *row = image + ((h + p->top) * p->padded_w + p->left) * p->C;
    for (int64_t c = 0; c < p->C; ++c) {
      const int64_t from = c * p->in_c + h * p->in_h;
      for (int64_t w = 0; w < p->W; ++w) row[w * p->C + c] = (int16_t)element(p->in, wide, from + w * p->in_w);
    }
  }
}

/* The weights as rows [round_up(rows, ROWS), depth] in the order of the image: KH, KW, C. */
C7X_INLINE void make_rows(const problem *p, int wide, int64_t depth, int16_t *low, int16_t *high) {
  const int64_t taps = p->KH * p->KW;
  const size_t bytes = (size_t)(round_up(p->rows, ROWS) * depth) * sizeof *low;
  memset(low, 0, bytes);
  if (wide) memset(high, 0, bytes);
  for (int64_t r = 0; r < p->rows; ++r) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < p->C; ++c) {
        const int32_t w = element(p->weights, wide, r * p->weight_row + c * p->weight_c + tap);
        const int64_t at = r * depth + tap * p->C + c;
        const int32_t upper = wide ? c7x_asr32(w + 128, 8) : 0;
        low[at] = (int16_t)(w - upper * 256);
        if (wide) high[at] = (int16_t)upper;
      }
    }
  }
}

/* Columns first .. first + count - 1, each what one output's window covers, and one of zeros when count is odd. */
static void make_columns(const problem *p, const int16_t *image, int64_t depth, int64_t first, int64_t count,
                         int16_t *columns) {
  const int64_t run = p->KW * p->C;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t oh = (first + i) / p->OW;
    const int64_t ow = (first + i) % p->OW;
    int16_t *column = columns + i * depth;
    for (int64_t kh = 0; kh < p->KH; ++kh) {
      const int16_t *from = image + ((oh * p->stride_h + kh) * p->padded_w + ow * p->stride_w) * p->C;
      memcpy(column + kh * run, from, (size_t)run * sizeof *column);
    }
    memset(column + p->KH * run, 0, (size_t)(depth - p->KH * run) * sizeof *column);
  }
  if (count % COLUMNS != 0) memset(columns + count * depth, 0, (size_t)depth * sizeof *columns);
}

C7X_INLINE int32_t solve(const problem *p, int wide) {
  const int64_t depth = round_up(p->KH * p->KW * p->C, DEPTH_MULTIPLE);
  const int64_t positions = p->OH * p->OW;
  const int64_t fitting = STRIP_BYTES / (depth * (int64_t)sizeof(int16_t)) / COLUMNS * COLUMNS;
  const int64_t strip = fitting < COLUMNS ? COLUMNS : smaller(fitting, round_up(positions, COLUMNS));
  const int64_t image_bytes = p->padded_h * p->padded_w * p->C * (int64_t)sizeof(int16_t);
  const int64_t row_bytes = round_up(p->rows, ROWS) * depth * (int64_t)sizeof(int16_t);
  const int64_t column_bytes = strip * depth * (int64_t)sizeof(int16_t);
  uint8_t *const workspace = get_workspace(round_up(image_bytes, ALIGNMENT) + (wide ? 2 : 1) * row_bytes +
                                           column_bytes + 2 * ALIGNMENT);
  uint8_t *at = workspace;
  int16_t *image, *low, *high, *columns;
  if (workspace == NULL) return C7X_REFUSED;
  check_guard(p, wide);
  image = (int16_t *)take(&at, image_bytes);
  columns = (int16_t *)take(&at, column_bytes);
  low = (int16_t *)take(&at, row_bytes);
  high = wide ? (int16_t *)take(&at, row_bytes) : low;
  make_image(p, wide, image);
  make_rows(p, wide, depth, low, high);
  for (int64_t first = 0; first < positions; first += strip) {
    const int64_t count = smaller(strip, positions - first);
    make_columns(p, image, depth, first, count, columns);
    for (int64_t r = 0; r < p->rows; r += ROWS) {
      const int64_t rows = smaller(ROWS, p->rows - r);
      for (int64_t i = 0; i < count; i += COLUMNS) {
        int64_t sums[ROWS * COLUMNS];
        if (wide) {
          wide_sums(low + r * depth, high + r * depth, columns + i * depth, depth, sums);
        } else {
          narrow_sums(low + r * depth, columns + i * depth, depth, sums);
        }
        for (int64_t c = 0; c < smaller(COLUMNS, count - i); ++c) {
          for (int64_t j = 0; j < rows; ++j) {
            store(p->out, wide, (r + j) * p->out_row + (first + i + c) * p->out_column,
                  finish(&p->end, wide, r + j, sums[c * ROWS + j]));
          }
        }
      }
    }
  }
  free_workspace(workspace);
  return 0;
}

static int32_t solve_narrow(const problem *p) { return solve(p, 0); }
static int32_t solve_wide(const problem *p) { return solve(p, 1); }

/* Rows of `weights` [N, K] (or [K, N] when not transposed) against the rows of `in` [M, K]. */
static problem matrix_product(const void *in, const void *weights, int transposed, void *out, int32_t M, int32_t K,
                              int32_t N, epilogue end) {
  problem p;
  memset(&p, 0, sizeof p);
  p.in = in;
  p.C = K;
  p.H = p.padded_h = p.OH = 1;
  p.W = p.padded_w = p.OW = M;
  p.in_c = 1;
  p.in_w = K;
  p.weights = weights;
  p.rows = N;
  p.weight_row = transposed ? K : 1;
  p.weight_c = transposed ? 1 : N;
  p.KH = p.KW = p.stride_h = p.stride_w = 1;
  p.out = out;
  p.out_row = 1;
  p.out_column = N;
  p.end = end;
  return p;
}

/* Windows along one axis; 0 when there is none. */
static int64_t windows(int32_t size, int32_t before, int32_t after, int32_t kernel, int32_t stride) {
  const int64_t padded = (int64_t)size + before + after;
  if (size <= 0 || before < 0 || after < 0 || kernel <= 0 || stride <= 0 || padded < kernel) return 0;
  return (padded - kernel) / stride + 1;
}

/* Fills in the problem of a convolution; 0 when its shape is impossible. */
static int convolution(problem *p, void *input, void *kernel, void *bias, void *scale, void *shift, void *output,
                       int32_t C_in, int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW,
                       int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom, int32_t pad_left,
                       int32_t pad_right) {
  memset(p, 0, sizeof *p);
  p->OH = windows(H_in, pad_top, pad_bottom, KH, stride_h);
  p->OW = windows(W_in, pad_left, pad_right, KW, stride_w);
  if (input == NULL || kernel == NULL || output == NULL || C_in <= 0 || C_out <= 0 || p->OH == 0 || p->OW == 0) return 0;
  p->in = input;
  p->C = C_in;
  p->H = H_in;
  p->W = W_in;
  p->in_c = (int64_t)H_in * W_in;
  p->in_h = W_in;
  p->in_w = 1;
  p->top = pad_top;
  p->left = pad_left;
  p->padded_h = (int64_t)H_in + pad_top + pad_bottom;
  p->padded_w = (int64_t)W_in + pad_left + pad_right;
  p->weights = kernel;
  p->rows = C_out;
  p->weight_row = (int64_t)C_in * KH * KW;
  p->weight_c = (int64_t)KH * KW;
  p->KH = KH;
  p->KW = KW;
  p->stride_h = stride_h;
  p->stride_w = stride_w;
  p->out = output;
  p->out_row = p->OH * p->OW;
  p->out_column = 1;
  p->end.bias = bias;
  p->end.scale = (const uint8_t *)scale;
  p->end.shift = (const uint8_t *)shift;
  p->end.plain_shift = -1;
  return 1;
}

static int multiples(int32_t a, int32_t b, int32_t c, int32_t of) {
  return a > 0 && b > 0 && c > 0 && a % of == 0 && b % of == 0 && c % of == 0;
}

int32_t mmalib_matmul_i8(void *A, void *B, void *C, int32_t M, int32_t K, int32_t N, int32_t shift) {
  const epilogue end = {NULL, NULL, NULL, 0, shift};
  problem p;
  if (A == NULL || B == NULL || C == NULL || shift < 0) return C7X_REFUSED;
  if (!multiples(M, K, N, MMALIB_MATMUL_I8_MULTIPLE)) return C7X_REFUSED;
  p = matrix_product(A, B, 0, C, M, K, N, end);
  return solve_narrow(&p);
}

int32_t mmalib_matmul_i16(void *A, void *B, void *C, int32_t M, int32_t K, int32_t N, int32_t shift) {
  const epilogue end = {NULL, NULL, NULL, 0, shift};
  problem p;
  if (A == NULL || B == NULL || C == NULL || shift < 0) return C7X_REFUSED;
  if (!multiples(M, K, N, MMALIB_MATMUL_I16_MULTIPLE)) return C7X_REFUSED;
  p = matrix_product(A, B, 0, C, M, K, N, end);
  return solve_wide(&p);
}

int32_t mmalib_matmul_bias_i8(void *input, void *weights, void *bias, void *scale, void *shift, void *output, int32_t M,
                              int32_t K, int32_t N) {
  const epilogue end = {bias, (const uint8_t *)scale, (const uint8_t *)shift, 1, -1};
  problem p;
  if (input == NULL || weights == NULL || output == NULL || M <= 0) return C7X_REFUSED;
  if (!multiples(K, N, N, MMALIB_MATMUL_BIAS_I8_MULTIPLE)) return C7X_REFUSED;
  p = matrix_product(input, weights, 1, output, M, K, N, end);
  return solve_narrow(&p);
}

int32_t mmalib_matmul_bias_i16(void *input, void *weights, void *bias, void *scale, void *shift, void *output, int32_t M,
                               int32_t K, int32_t N) {
  const epilogue end = {bias, (const uint8_t *)scale, (const uint8_t *)shift, 1, -1};
  problem p;
  if (input == NULL || weights == NULL || output == NULL || M <= 0) return C7X_REFUSED;
  if (!multiples(K, N, N, MMALIB_MATMUL_BIAS_I16_MULTIPLE)) return C7X_REFUSED;
  p = matrix_product(input, weights, 1, output, M, K, N, end);
  return solve_wide(&p);
}

int32_t mmalib_conv2d_i8(void *input, void *kernel, void *bias, void *scale, void *shift, void *output, int32_t C_in,
                         int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW, int32_t stride_h,
                         int32_t stride_w, int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right) {
  problem p;
  if (!convolution(&p, input, kernel, bias, scale, shift, output, C_in, H_in, W_in, C_out, KH, KW, stride_h, stride_w,
                   pad_top, pad_bottom, pad_left, pad_right)) {
    return C7X_REFUSED;
  }
  return solve_narrow(&p);
}

int32_t mmalib_conv2d_i16(void *input, void *kernel, void *bias, void *scale, void *shift, void *output, int32_t C_in,
                          int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW, int32_t stride_h,
                          int32_t stride_w, int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right) {
  problem p;
  if (!convolution(&p, input, kernel, bias, scale, shift, output, C_in, H_in, W_in, C_out, KH, KW, stride_h, stride_w,
                   pad_top, pad_bottom, pad_left, pad_right)) {
    return C7X_REFUSED;
  }
  return solve_wide(&p);
}

/* The same channels of a tensor with `bytes` a channel; NULL stays NULL. */
static void *from_channel(void *data, int64_t channel, int64_t bytes) {
  return data == NULL ? NULL : (uint8_t *)data + channel * bytes;
}

int32_t mmalib_conv2d_i8_sliced(void *input, void *kernel, void *bias, void *scale, void *shift, void *output,
                                int32_t C_in, int32_t H_in, int32_t W_in, int32_t C_out_tile, int32_t KH, int32_t KW,
                                int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                int32_t pad_left, int32_t pad_right, int32_t oc_start) {
  const int64_t plane = windows(H_in, pad_top, pad_bottom, KH, stride_h) * windows(W_in, pad_left, pad_right, KW, stride_w);
  if (oc_start < 0) return C7X_REFUSED;
  return mmalib_conv2d_i8(input, kernel, from_channel(bias, oc_start, sizeof(int32_t)), from_channel(scale, oc_start, 1),
                          from_channel(shift, oc_start, 1), from_channel(output, oc_start, plane), C_in, H_in, W_in,
                          C_out_tile, KH, KW, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right);
}

int32_t mmalib_conv2d_i8_grouped_loop(void *input, void *kernel, void *bias, void *scale, void *shift, void *output,
                                      int32_t C_in, int32_t H_in, int32_t W_in, int32_t C_out, int32_t KH, int32_t KW,
                                      int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                      int32_t pad_left, int32_t pad_right, int32_t groups) {
  const int64_t plane = windows(H_in, pad_top, pad_bottom, KH, stride_h) * windows(W_in, pad_left, pad_right, KW, stride_w);
  int32_t inputs, outputs;
  if (input == NULL || kernel == NULL || bias == NULL || scale == NULL || shift == NULL || output == NULL) {
    return C7X_REFUSED;
  }
  if (groups <= 1 || groups >= C_in || C_in % groups != 0 || C_out <= 0 || C_out % groups != 0 || plane == 0) {
    return C7X_REFUSED;
  }
  inputs = C_in / groups;
  outputs = C_out / groups;
  for (int32_t g = 0; g < groups; ++g) {
    const int64_t first = (int64_t)g * outputs;
    const int32_t status = mmalib_conv2d_i8(
        from_channel(input, (int64_t)g * inputs, (int64_t)H_in * W_in),
        from_channel(kernel, first, (int64_t)inputs * KH * KW), from_channel(bias, first, sizeof(int32_t)),
        from_channel(scale, first, 1), from_channel(shift, first, 1), from_channel(output, first, plane), inputs, H_in,
        W_in, outputs, KH, KW, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right);
    if (status != 0) {
      memset(from_channel(output, first, plane), 0, (size_t)((C_out - first) * plane));
      return status;
    }
  }
  return 0;
}

/* ---- depthwise ---- */

/* sums[i] += weight * row[i * stride]. */
C7X_INLINE void add_tap_narrow(int32_t *C7X_RESTRICT sums, const int16_t *C7X_RESTRICT row, int32_t weight, int64_t n,
                               int64_t stride) {
  for (int64_t i = 0; i < n; ++i) sums[i] += weight * row[i * stride];
}

C7X_INLINE void add_tap_wide(int64_t *C7X_RESTRICT sums, const int16_t *C7X_RESTRICT row, int32_t weight, int64_t n,
                             int64_t stride) {
  for (int64_t i = 0; i < n; ++i) sums[i] += weight * row[i * stride];
}

/* One output row of one channel. */
C7X_INLINE void depthwise_row(const problem *p, int wide, const int16_t *plane, int64_t channel, int64_t oh,
                              int64_t stride, void *sums) {
  const int64_t at = (channel * p->OH + oh) * p->OW;
  memset(sums, 0, (size_t)p->OW * (wide ? sizeof(int64_t) : sizeof(int32_t)));
  for (int64_t kh = 0; kh < p->KH; ++kh) {
    for (int64_t kw = 0; kw < p->KW; ++kw) {
      const int32_t weight = element(p->weights, wide, (channel * p->KH + kh) * p->KW + kw);
      const int16_t *row = plane + (oh * p->stride_h + kh) * p->padded_w + kw;
      if (wide) {
        add_tap_wide((int64_t *)sums, row, weight, p->OW, stride);
      } else {
        add_tap_narrow((int32_t *)sums, row, weight, p->OW, stride);
      }
    }
  }
  for (int64_t i = 0; i < p->OW; ++i) {
    store(p->out, wide, at + i,
          finish(&p->end, wide, channel, wide ? ((int64_t *)sums)[i] : ((int32_t *)sums)[i]));
  }
}

C7X_INLINE int32_t depthwise(const problem *p, int wide, int64_t channels) {
  const int64_t plane_bytes = p->padded_h * p->padded_w * (int64_t)sizeof(int16_t);
  uint8_t *const workspace = get_workspace(round_up(plane_bytes, ALIGNMENT) + p->OW * (int64_t)sizeof(int64_t));
  uint8_t *at = workspace;
  problem one = *p;
  int16_t *plane;
  void *sums;
  if (workspace == NULL) return C7X_REFUSED;
  check_guard(p, wide);
  plane = (int16_t *)take(&at, plane_bytes);
  sums = at;
  one.C = 1;
  for (int64_t channel = 0; channel < channels; ++channel) {
    one.in = (const uint8_t *)p->in + channel * p->in_c * (wide ? (int64_t)sizeof(int16_t) : 1);
    make_image(&one, wide, plane);
    for (int64_t oh = 0; oh < p->OH; ++oh) {
      if (p->stride_w == 1) {
        depthwise_row(&one, wide, plane, channel, oh, 1, sums);
      } else {
        depthwise_row(&one, wide, plane, channel, oh, 2, sums);
      }
    }
  }
  free_workspace(workspace);
  return 0;
}

static int depthwise_shape(int32_t channels, int32_t KH, int32_t KW, int32_t stride_h, int32_t stride_w,
                           int32_t num_groups) {
  return num_groups == channels && KH == KW && (KH == 3 || KH == 5 || KH == 7) && (stride_h == 1 || stride_h == 2) &&
         (stride_w == 1 || stride_w == 2);
}

int32_t mmalib_depthwise_conv2d_i8(void *input, void *weights, void *bias, void *scale, void *shift, void *output,
                                   int32_t channels, int32_t H_in, int32_t W_in, int32_t KH, int32_t KW,
                                   int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                   int32_t pad_left, int32_t pad_right, int32_t num_groups) {
  problem p;
  if (!depthwise_shape(channels, KH, KW, stride_h, stride_w, num_groups) ||
      !convolution(&p, input, weights, bias, scale, shift, output, channels, H_in, W_in, channels, KH, KW, stride_h,
                   stride_w, pad_top, pad_bottom, pad_left, pad_right)) {
    return C7X_REFUSED;
  }
  return depthwise(&p, 0, channels);
}

int32_t mmalib_depthwise_conv2d_i16(void *input, void *weights, void *bias, void *scale, void *shift, void *output,
                                    int32_t channels, int32_t H_in, int32_t W_in, int32_t KH, int32_t KW,
                                    int32_t stride_h, int32_t stride_w, int32_t pad_top, int32_t pad_bottom,
                                    int32_t pad_left, int32_t pad_right, int32_t num_groups) {
  problem p;
  if (KH != 3 || !depthwise_shape(channels, KH, KW, stride_h, stride_w, num_groups) ||
      !convolution(&p, input, weights, bias, scale, shift, output, channels, H_in, W_in, channels, KH, KW, stride_h,
                   stride_w, pad_top, pad_bottom, pad_left, pad_right)) {
    return C7X_REFUSED;
  }
  return depthwise(&p, 1, channels);
}
