/* kernels.md section 2, section 4 and the concatenation of section 3, with streams and vectors. */
#if C7X_KERNELS_C7X
#include "streams.h"

#include "c7x_kernels.h"

using namespace c7x_streams;

C7X_REFERENCE(c7x_int8_gelu);
C7X_REFERENCE(c7x_int8_silu);
C7X_REFERENCE(c7x_int8_hardswish);
C7X_REFERENCE(c7x_int8_hardsigmoid);
C7X_REFERENCE(c7x_int8_silu_f32out);
C7X_REFERENCE(c7x_int8_clamp);
C7X_REFERENCE(c7x_int8_requantize_clamp);
C7X_REFERENCE(c7x_int8_rescale);
C7X_REFERENCE(c7x_int8_quantize);
C7X_REFERENCE(c7x_int8_channel_scale_multiply);
C7X_REFERENCE(c7x_int8_concat_rescale);
C7X_REFERENCE(c7x_int8_residual_add_relu);
C7X_REFERENCE(c7x_int16_residual_add_relu);

namespace {

#if defined(__C7524__)
/* Below this many elements, filling a table of 256 costs more than it saves. */
constexpr int32_t WORTH_A_TABLE = 256;

void every_byte(int8_t* bytes) {
  for (int32_t v = -128; v < 128; ++v) bytes[v + 128] = static_cast<int8_t>(v);
}

/* The 256 words inside the core, indexed by the bits of a byte. */
struct table {
  static void set(int32_t byte, uint32_t word) { __ilut_init(static_cast<uint32_t>(byte & 255), word); }
  static ivec read(const ivec& bytes) { return c7x::as_int_vec(__ilut_read_uint(c7x::as_uint_vec(bytes & 255))); }
};
#endif

/* A function of a byte is looked up where the core has a table; the values are the reference's. */
int32_t activation(decltype(c7x_int8_gelu)* reference, const void* in, void* out, int32_t n, int32_t zx, float sx,
                   int32_t zy, float sy) {
#if defined(__C7524__)
  if (in != nullptr && out != nullptr && n >= WORTH_A_TABLE) {
    int8_t bytes[256], values[256];
    const int32_t head = whole(n, WORDS);
    const int8_t* x = static_cast<const int8_t*>(in);
    int8_t* y = static_cast<int8_t*>(out);
    every_byte(bytes);
    reference(bytes, values, 256, zx, sx, zy, sy);
    for (int32_t i = 0; i < 256; ++i) table::set(bytes[i], static_cast<uint32_t>(values[i]));
    map_bytes(x, y, head, table::read);
    return reference(x + head, y + head, n - head, zx, sx, zy, sy);
  }
#endif
  return reference(in, out, n, zx, sx, zy, sy);
}

/* sat8(asr(x * q, 13) + offset) for n bytes, a multiple of WORDS. False, and nothing is written, where words overflow. */
bool map_q13(const int8_t* in, int8_t* out, int32_t n, int32_t q, int64_t offset) {
  if (!fit(128, q) || offset < -(1 << 20) || offset > 1 << 20) return false;
  const ivec factor(q), added(static_cast<int32_t>(offset));
  map_bytes(in, out, n, [&](const ivec& x) { return saturate8(asr(x * factor, 13) + added); });
  return true;
}

void rescale(const int8_t* in, int8_t* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  const int32_t q = c7x_q13(sx / sy);
  int32_t head = zx == zy && sx == sy ? 0 : whole(n, WORDS);
  if (head > 0 && !map_q13(in, out, head, q, zy - c7x_mul_q13(zx, q))) head = 0;
  c7x_int8_rescale_reference(in + head, out + head, n - head, zx, sx, zy, sy);
}

void quantize(const float* in, int8_t* out, int32_t n, float inv_scale, float offset) {
  const int32_t head = whole(n, WORDS);
  const fvec scale(inv_scale), added(offset), low(-128.0f), high(127.0f);
  if (head > 0) {
    __SE0_OPEN(const_cast<float*>(in), elements<fvec>(head));
    for (int32_t i = 0; i < head; i += WORDS) {
      const fvec v = c7x::strm_eng<0, fvec>::get_adv() * scale + added;
      const fvec number = __select(__cmp_eq_pred(v, v), v, fvec(0));
      store_low_bytes(out + i, __float_to_int(__min(__max(number, low), high)));
    }
    __SE0_CLOSE();
  }
  for (int32_t i = head; i < n; ++i) {
    const float v = in[i] * inv_scale + offset;
    out[i] = i < c7x_vector_part(n) ? c7x_round_even8(v) : c7x_round_away8(v);
  }
}

}  // namespace

int32_t c7x_int8_gelu(const void* in, void* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(c7x_int8_gelu_reference, in, out, n, zx, sx, zy, sy);
}

int32_t c7x_int8_silu(const void* in, void* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(c7x_int8_silu_reference, in, out, n, zx, sx, zy, sy);
}

int32_t c7x_int8_hardswish(const void* in, void* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(c7x_int8_hardswish_reference, in, out, n, zx, sx, zy, sy);
}

int32_t c7x_int8_hardsigmoid(const void* in, void* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  return activation(c7x_int8_hardsigmoid_reference, in, out, n, zx, sx, zy, sy);
}

int32_t c7x_int8_silu_f32out(const void* in, void* out, int32_t n, int32_t zx, float sx) {
#if defined(__C7524__)
  if (in != nullptr && out != nullptr && n >= WORTH_A_TABLE) {
    int8_t bytes[256];
    float values[256];
    const int32_t head = whole(n, WORDS);
    const int8_t* x = static_cast<const int8_t*>(in);
    float* y = static_cast<float*>(out);
    every_byte(bytes);
    c7x_int8_silu_f32out_reference(bytes, values, 256, zx, sx);
    for (int32_t i = 0; i < 256; ++i) table::set(bytes[i], c7x_f32_as_u32(values[i]));
    __SE0_OPEN(const_cast<int8_t*>(x), bytes_as<ivec>(head));
    for (int32_t i = 0; i < head; i += WORDS) {
      *reinterpret_cast<ivec*>(y + i) = table::read(c7x::strm_eng<0, ivec>::get_adv());
    }
    __SE0_CLOSE();
    return c7x_int8_silu_f32out_reference(x + head, y + head, n - head, zx, sx);
  }
#endif
  return c7x_int8_silu_f32out_reference(in, out, n, zx, sx);
}

int32_t c7x_int8_relu(const void* in, void* out, int32_t n, int32_t clip_lo) {
  return c7x_int8_clamp(in, out, n, clip_lo, 127);
}

int32_t c7x_int8_clamp(const void* in, void* out, int32_t n, int32_t lo, int32_t hi) {
  const int8_t* x = static_cast<const int8_t*>(in);
  int8_t* y = static_cast<int8_t*>(out);
  if (in == nullptr || out == nullptr || n < 0) return C7X_REFUSED;
  const int32_t head = whole(n, BYTES);
  if (head > 0) {
    const cvec least(c7x_sat8(lo)), most(c7x_sat8(hi));
    __SE0_OPEN(const_cast<int8_t*>(x), bytes_as<cvec>(head));
    for (int32_t i = 0; i < head; i += BYTES) {
      *reinterpret_cast<cvec*>(y + i) = __min(__max(c7x::strm_eng<0, cvec>::get_adv(), least), most);
    }
    __SE0_CLOSE();
  }
  return c7x_int8_clamp_reference(x + head, y + head, n - head, lo, hi);
}

int32_t c7x_int8_requantize_clamp(const void* in, void* out, int32_t n, float combined_scale, int32_t lo, int32_t hi) {
  const int8_t* x = static_cast<const int8_t*>(in);
  int8_t* y = static_cast<int8_t*>(out);
  const int32_t q = c7x_q13(combined_scale);
  if (in == nullptr || out == nullptr || n < 0) return C7X_REFUSED;
  const int32_t head = fit(128, q) ? whole(n, WORDS) : 0;
  const ivec factor(q), least(lo), most(hi);
  map_bytes(x, y, head, [&](const ivec& v) { return saturate8(__min(__max(asr(v * factor, 13), least), most)); });
  return c7x_int8_requantize_clamp_reference(x + head, y + head, n - head, combined_scale, lo, hi);
}

int32_t c7x_int8_rescale(const void* in, void* out, int32_t n, int32_t zx, float sx, int32_t zy, float sy) {
  if (in == nullptr || out == nullptr || n < 0) return C7X_REFUSED;
  rescale(static_cast<const int8_t*>(in), static_cast<int8_t*>(out), n, zx, sx, zy, sy);
  return 0;
}

int32_t c7x_int8_quantize(const void* in, void* out, int32_t n, float inv_scale, int32_t zp) {
  if (in == nullptr || out == nullptr || n < 0) return C7X_REFUSED;
  quantize(static_cast<const float*>(in), static_cast<int8_t*>(out), n, inv_scale, static_cast<float>(zp));
  return 0;
}

int32_t c7x_int8_quantize_rgb(const void* in, void* out, int32_t N, int32_t HW, float inv_0, float off_0, float inv_1,
                              float off_1, float inv_2, float off_2) {
  const float inv_scale[3] = {inv_0, inv_1, inv_2};
  const float offset[3] = {off_0, off_1, off_2};
  const float* x = static_cast<const float*>(in);
  int8_t* y = static_cast<int8_t*>(out);
  if (in == nullptr || out == nullptr || N < 0 || HW < 0) return C7X_REFUSED;
  for (int64_t plane = 0; plane < static_cast<int64_t>(N) * 3; ++plane) {
    quantize(x + plane * HW, y + plane * HW, HW, inv_scale[plane % 3], offset[plane % 3]);
  }
  return 0;
}

int32_t c7x_int8_channel_scale_multiply(const void* excitation, const void* feature_map, void* out, int32_t C, int32_t HW,
                                        float s_exc, int32_t z_exc, float s_feat, int32_t z_feat, float s_out,
                                        int32_t z_out) {
  const int8_t* gate = static_cast<const int8_t*>(excitation);
  const int8_t* x = static_cast<const int8_t*>(feature_map);
  int8_t* y = static_cast<int8_t*>(out);
  if (excitation == nullptr || feature_map == nullptr || out == nullptr || C < 0 || HW < 0) return C7X_REFUSED;
  for (int64_t c = 0; c < C; ++c) {
    const int32_t q = c7x_q13(c7x_dq(gate[c], z_exc, s_exc) * s_feat / s_out);
    const int64_t offset = z_out - c7x_mul_q13(z_feat, q);
    int32_t head = whole(HW, WORDS);
    if (!map_q13(x + c * HW, y + c * HW, head, q, offset)) head = 0;
    c7x_map_q13(x + c * HW + head, y + c * HW + head, HW - head, q, offset);
  }
  return 0;
}

int32_t c7x_int8_concat_rescale(const void* in1, int32_t C1, float s1, int32_t z1, const void* in2, int32_t C2, float s2,
                                int32_t z2, const void* in3, int32_t C3, float s3, int32_t z3, const void* in4,
                                int32_t C4, float s4, int32_t z4, void* out, int32_t HW, float s_out, int32_t z_out) {
  const struct {
    const void* data;
    int32_t channels;
    float scale;
    int32_t zero_point;
  } sources[4] = {{in1, C1, s1, z1}, {in2, C2, s2, z2}, {in3, C3, s3, z3}, {in4, C4, s4, z4}};
  int8_t* y = static_cast<int8_t*>(out);
  if (out == nullptr || HW < 0) return C7X_REFUSED;
  bool counts_fit = true;
  for (const auto& s : sources) {
    if (s.channels < 0 || (s.channels > 0 && s.data == nullptr)) return C7X_REFUSED;
    counts_fit = counts_fit && static_cast<int64_t>(s.channels) * HW <= INT32_MAX;
  }
  if (!counts_fit) {
    return c7x_int8_concat_rescale_reference(in1, C1, s1, z1, in2, C2, s2, z2, in3, C3, s3, z3, in4, C4, s4, z4, out, HW,
                                             s_out, z_out);
  }
  for (const auto& s : sources) {
    const int32_t n = s.channels * HW;
    if (n > 0) rescale(static_cast<const int8_t*>(s.data), y, n, s.zero_point, s.scale, z_out, s_out);
    y += n;
  }
  return 0;
}

int32_t c7x_int8_residual_add_relu(const void* x, const void* skip, const void* params, void* output,
                                   int32_t num_elements, int32_t has_relu) {
  const int8_t* a = static_cast<const int8_t*>(x);
  const int8_t* b = static_cast<const int8_t*>(skip);
  int8_t* y = static_cast<int8_t*>(output);
  c7x_residual_params p;
  if (x == nullptr || skip == nullptr || params == nullptr || output == nullptr || num_elements < 0) return C7X_REFUSED;
  memcpy(&p, params, sizeof(p));
  if (p.shift < 0) return C7X_REFUSED;
  /* |x - zp| <= 255. */
  const int32_t head = fit(255, p.M_x, p.M_skip) ? whole(num_elements, WORDS) : 0;
  if (head > 0) {
    const ivec m_x(p.M_x), m_skip(p.M_skip), zp_x(p.zp_x), zp_skip(p.zp_skip), zp_out(p.zp_out);
    const ivec floor(has_relu != 0 ? 0 : INT32_MIN);
    __SE0_OPEN(const_cast<int8_t*>(a), bytes_as<ivec>(head));
    __SE1_OPEN(const_cast<int8_t*>(b), bytes_as<ivec>(head));
    for (int32_t i = 0; i < head; i += WORDS) {
      const ivec first = (c7x::strm_eng<0, ivec>::get_adv() - zp_x) * m_x;
      const ivec sum = first + (c7x::strm_eng<1, ivec>::get_adv() - zp_skip) * m_skip;
      store_low_bytes(y + i, saturate8(__max(asr(sum, p.shift) + zp_out, floor)));
    }
    __SE0_CLOSE();
    __SE1_CLOSE();
  }
  return c7x_int8_residual_add_relu_reference(a + head, b + head, params, y + head, num_elements - head, has_relu);
}

int32_t c7x_int16_residual_add_relu(const void* x, const void* skip, const void* params, void* output,
                                    int32_t num_elements, int32_t has_relu) {
  constexpr int32_t PART = 12;
  const int16_t* a = static_cast<const int16_t*>(x);
  const int16_t* b = static_cast<const int16_t*>(skip);
  int16_t* y = static_cast<int16_t*>(output);
  c7x_residual_params p;
  if (x == nullptr || skip == nullptr || params == nullptr || output == nullptr || num_elements < 0) return C7X_REFUSED;
  memcpy(&p, params, sizeof(p));
  if (p.shift < 0) return C7X_REFUSED;
  /* The sum of products needs more than a word. Multipliers are split at bit 12: with the low parts' sum shifted by 12
   * and added to that of the high ones, what is left to shift is exactly floor(sum / 2^shift). */
  const bool exact = p.shift >= PART && fit(1 << 16, p.M_x >> PART, p.M_skip >> PART);
  const int32_t head = exact ? whole(num_elements, WORDS) : 0;
  if (head > 0) {
    const ivec high_x(p.M_x >> PART), high_skip(p.M_skip >> PART);
    const ivec low_x(p.M_x & ((1 << PART) - 1)), low_skip(p.M_skip & ((1 << PART) - 1));
    const ivec zp_x(p.zp_x), zp_skip(p.zp_skip), zp_out(p.zp_out), floor(has_relu != 0 ? 0 : INT32_MIN);
    __SE_TEMPLATE_v1 se = elements<svec>(head);
    se.VECLEN = c7x::se_veclen<ivec>::value;
    se.PROMOTE = __SE_PROMOTE_2X_SIGNEXT;
    __SE0_OPEN(const_cast<int16_t*>(a), se);
    __SE1_OPEN(const_cast<int16_t*>(b), se);
    for (int32_t i = 0; i < head; i += WORDS) {
      const ivec u = c7x::strm_eng<0, ivec>::get_adv() - zp_x;
      const ivec v = c7x::strm_eng<1, ivec>::get_adv() - zp_skip;
      const ivec low = u * low_x + v * low_skip;
      const ivec sum = u * high_x + v * high_skip + (low >> PART);
      const ivec r = __max(asr(sum, p.shift - PART) + zp_out, floor);
      __vstore_packl(reinterpret_cast<c7x::short_hvec_ptr>(y + i), __min(__max(r, ivec(-32768)), ivec(32767)));
    }
    __SE0_CLOSE();
    __SE1_CLOSE();
  }
  return c7x_int16_residual_add_relu_reference(a + head, b + head, params, y + head, num_elements - head, has_relu);
}

#endif /* C7X_KERNELS_C7X: without it, the reference is all there is. */
