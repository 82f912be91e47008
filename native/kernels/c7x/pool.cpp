/* Pooling and resizing of kernels.md section 3, with streams and vectors. One stream walks all windows that lie inside the
 * input: columns of a vector, the window's columns and rows, vectors of an output row, output rows, planes. Outputs at the
 * border, and those that fill no vector, are computed one by one. */
#if C7X_KERNELS_C7X
#include "streams.h"

#include "c7x_kernels.h"

using namespace c7x_streams;

C7X_REFERENCE(c7x_int8_max_pool);
C7X_REFERENCE(c7x_int8_max_pool_tidl);
C7X_REFERENCE(c7x_int8_global_avg_pool);
C7X_REFERENCE(c7x_int8_avg_pool);
C7X_REFERENCE(c7x_int8_resize2d_nearest2x);

namespace {

struct window {
  int32_t N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW;
};

bool possible(const window& w) {
  return w.N >= 0 && w.C >= 0 && w.H_in > 0 && w.W_in > 0 && w.H_out > 0 && w.W_out > 0 && w.kH > 0 && w.kW > 0 &&
         w.sH > 0 && w.sW > 0 && w.pH >= 0 && w.pW >= 0;
}

/* The outputs first..end-1 whose whole window lies inside the input. */
struct span {
  int32_t first, end;
};
span inside(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t outputs) {
  const int64_t first = (padding + stride - 1) / stride, last = size - taps + padding;
  const int64_t end = last < 0 ? 0 : last / stride + 1 < outputs ? last / stride + 1 : outputs;
  return {static_cast<int32_t>(first < end ? first : end), static_cast<int32_t>(end)};
}

/* The part of the outputs that vectors compute: rows and columns, the columns a multiple of HALVES. */
struct region {
  span rows, columns;
  bool holds(int32_t oh, int32_t ow) const {
    return oh >= rows.first && oh < rows.end && ow >= columns.first && ow < columns.end;
  }
};
region vector_region(const window& w) {
  region r = {inside(w.H_in, w.kH, w.sH, w.pH, w.H_out), inside(w.W_in, w.kW, w.sW, w.pW, w.W_out)};
  r.columns.end = r.columns.first + whole(r.columns.end - r.columns.first, HALVES);
  return r;
}

/* Whether streams reach: decimation knows distances of one and two, and the fields of a template have 32 bits. */
bool streams_reach(const window& w, const region& r) {
  const int64_t plane = static_cast<int64_t>(w.H_in) * w.W_in;
  return w.sW <= 2 && r.columns.first < r.columns.end && r.rows.first < r.rows.end && w.N > 0 && w.C > 0 &&
         static_cast<int64_t>(w.sH) * w.W_in <= INT32_MAX && plane * w.N * w.C <= INT32_MAX;
}

/* For every vector of the region: start, then `tap` for each input under the window, as half words; then `done` with the
 * plane, row and first column of the outputs. */
template <class Tap, class Done>
void for_each_vector(const window& w, const region& r, const int8_t* in, const svec& start, Tap tap, Done done) {
  const int32_t blocks = (r.columns.end - r.columns.first) / HALVES, rows = r.rows.end - r.rows.first;
  const int32_t planes = w.N * w.C;
  /* Of a distance of two the last element is left out: nobody needs it, and it may lie behind the input. */
  __SE_TEMPLATE_v1 se = bytes_as<svec>(HALVES * w.sW - (w.sW - 1));
  se.DECIM = w.sW == 2 ? __SE_DECIM_2 : __SE_DECIM_OFF;
  se.DIMFMT = __SE_DIMFMT_6D;
  se.ICNT1 = static_cast<uint32_t>(w.kW);
  se.DIM1 = 1;
  se.ICNT2 = static_cast<uint32_t>(w.kH);
  se.DIM2 = w.W_in;
  se.ICNT3 = static_cast<uint32_t>(blocks);
  se.DIM3 = HALVES * w.sW;
  se.ICNT4 = static_cast<uint32_t>(rows);
  se.DIM4 = w.sH * w.W_in;
  se.ICNT5 = static_cast<uint32_t>(planes);
  se.DIM5 = w.H_in * w.W_in;
  const int32_t top = r.rows.first * w.sH - w.pH, left = r.columns.first * w.sW - w.pW;
  const int32_t taps = w.kH * w.kW;
  __SE0_OPEN(const_cast<int8_t*>(in) + static_cast<int64_t>(top) * w.W_in + left, se);
  for (int32_t plane = 0; plane < planes; ++plane) {
    for (int32_t row = r.rows.first; row < r.rows.end; ++row) {
      for (int32_t column = r.columns.first; column < r.columns.end; column += HALVES) {
        svec v = start;
        for (int32_t k = 0; k < taps; ++k) v = tap(v, c7x::strm_eng<0, svec>::get_adv());
        done(plane, row, column, v);
      }
    }
  }
  __SE0_CLOSE();
}

/* `one` for every output outside the region: plane, row, column. */
template <class One>
void for_each_other(const window& w, const region& r, One one) {
  for (int32_t plane = 0; plane < w.N * w.C; ++plane) {
    for (int32_t oh = 0; oh < w.H_out; ++oh) {
      for (int32_t ow = 0; ow < w.W_out; ++ow) {
        if (!r.holds(oh, ow)) one(plane, oh, ow);
      }
    }
  }
}

/* The taps of one output that lie inside a plane: rows and columns of the input. */
struct taps {
  span rows, columns;
  bool complete;
};
taps taps_of(const window& w, int32_t oh, int32_t ow) {
  const int64_t top = static_cast<int64_t>(oh) * w.sH - w.pH, left = static_cast<int64_t>(ow) * w.sW - w.pW;
  const int64_t bottom = top + w.kH, right = left + w.kW;
  taps t;
  t.rows = {static_cast<int32_t>(top < 0 ? 0 : top), static_cast<int32_t>(bottom < w.H_in ? bottom : w.H_in)};
  t.columns = {static_cast<int32_t>(left < 0 ? 0 : left), static_cast<int32_t>(right < w.W_in ? right : w.W_in)};
  t.complete = top >= 0 && left >= 0 && bottom <= w.H_in && right <= w.W_in;
  return t;
}

int8_t largest(const window& w, const int8_t* plane, int32_t oh, int32_t ow, int8_t padding) {
  const taps t = taps_of(w, oh, ow);
  int8_t best = t.complete ? INT8_MIN : padding;
  for (int64_t h = t.rows.first; h < t.rows.end; ++h) {
    for (int64_t i = t.columns.first; i < t.columns.end; ++i) {
      const int8_t v = plane[h * w.W_in + i];
      best = v > best ? v : best;
    }
  }
  return best;
}

int32_t max_pool(decltype(c7x_int8_max_pool)* reference, const void* in, void* out, const window& w, int8_t padding) {
  const region r = in != nullptr && out != nullptr && possible(w) ? vector_region(w) : region{{0, 0}, {0, 0}};
  if (!streams_reach(w, r)) {
    return reference(in, out, w.N, w.C, w.H_in, w.W_in, w.H_out, w.W_out, w.kH, w.kW, w.sH, w.sW, w.pH, w.pW);
  }
  const int8_t* x = static_cast<const int8_t*>(in);
  int8_t* y = static_cast<int8_t*>(out);
  const int64_t in_plane = static_cast<int64_t>(w.H_in) * w.W_in, out_plane = static_cast<int64_t>(w.H_out) * w.W_out;
  for_each_vector(
      w, r, x, svec(INT8_MIN), [](const svec& a, const svec& b) { return __max(a, b); },
      [&](int32_t plane, int32_t row, int32_t column, const svec& v) {
        int8_t* to = y + plane * out_plane + static_cast<int64_t>(row) * w.W_out + column;
        __vstore_packl(reinterpret_cast<c7x::char_hvec_ptr>(to), v);
      });
  for_each_other(w, r, [&](int32_t plane, int32_t oh, int32_t ow) {
    y[plane * out_plane + static_cast<int64_t>(oh) * w.W_out + ow] = largest(w, x + plane * in_plane, oh, ow, padding);
  });
  return 0;
}

int32_t sum_inside(const window& w, const int8_t* plane, const taps& t) {
  int32_t sum = 0;
  for (int64_t h = t.rows.first; h < t.rows.end; ++h) {
    for (int64_t i = t.columns.first; i < t.columns.end; ++i) sum += plane[h * w.W_in + i];
  }
  return sum;
}

}  // namespace

int32_t c7x_int8_max_pool(const void* in, void* out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  return max_pool(c7x_int8_max_pool_reference, in, out, w, INT8_MIN);
}

int32_t c7x_int8_max_pool_tidl(const void* in, void* out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                               int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  return max_pool(c7x_int8_max_pool_tidl_reference, in, out, w, 0);
}

int32_t c7x_int8_avg_pool(const void* in, void* out, int32_t N, int32_t C, int32_t H_in, int32_t W_in, int32_t H_out,
                          int32_t W_out, int32_t kH, int32_t kW, int32_t sH, int32_t sW, int32_t pH, int32_t pW,
                          int32_t zx, float sx, int32_t zy, float sy) {
  const window w = {N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW};
  const region r = in != nullptr && out != nullptr && possible(w) ? vector_region(w) : region{{0, 0}, {0, 0}};
  const int64_t area = static_cast<int64_t>(kH) * kW;
  /* Half words hold the sum of 255 bytes. */
  if (!streams_reach(w, r) || area > 255) {
    return c7x_int8_avg_pool_reference(in, out, N, C, H_in, W_in, H_out, W_out, kH, kW, sH, sW, pH, pW, zx, sx, zy, sy);
  }
  const int8_t* x = static_cast<const int8_t*>(in);
  int8_t* y = static_cast<int8_t*>(out);
  const int64_t in_plane = static_cast<int64_t>(H_in) * W_in, out_plane = static_cast<int64_t>(H_out) * W_out;
  const bool fast = kH == 3 && kW == 3 && sH == 1 && sW == 1 && pH == 1 && pW == 1 && H_out == H_in && W_out == W_in &&
                    H_in >= 3 && H_in <= 40 && W_in >= 3 && W_in <= 40;
  const float factor = sx / static_cast<float>(area);
  const int32_t q = fast ? c7x_q13(sx / 9.0f / sy) : 0;
  /* A correct division is scalar; it is one of `area` steps. */
  const auto complete = [&](int64_t sum) {
    const int64_t rest = sum - area * zx;
    return fast ? c7x_sat8(c7x_mul_q13(rest, q) + zy) : c7x_rq(static_cast<float>(rest) * factor, zy, sy);
  };
  for_each_vector(
      w, r, x, svec(0), [](const svec& a, const svec& b) { return a + b; },
      [&](int32_t plane, int32_t row, int32_t column, const svec& v) {
        int8_t* to = y + plane * out_plane + static_cast<int64_t>(row) * W_out + column;
        int16_t sums[HALVES];
        memcpy(sums, &v, sizeof(sums));
        for (int32_t i = 0; i < HALVES; ++i) to[i] = complete(sums[i]);
      });
  for_each_other(w, r, [&](int32_t plane, int32_t oh, int32_t ow) {
    const taps t = taps_of(w, oh, ow);
    const int64_t sum = sum_inside(w, x + plane * in_plane, t);
    const int64_t rows = t.rows.end > t.rows.first ? t.rows.end - t.rows.first : 0;
    const int64_t columns = t.columns.end > t.columns.first ? t.columns.end - t.columns.first : 0;
    int8_t& to = y[plane * out_plane + static_cast<int64_t>(oh) * W_out + ow];
    to = t.complete ? complete(sum) : c7x_rq(static_cast<float>(sum - rows * columns * zx) * factor, zy, sy);
  });
  return 0;
}

int32_t c7x_int8_global_avg_pool(const void* in, void* out, int32_t N, int32_t C, int32_t H, int32_t W, int32_t zx,
                                 float sx, int32_t zy, float sy) {
  const int64_t HW = static_cast<int64_t>(H) * W, planes = static_cast<int64_t>(N) * C;
  const bool possible = in != nullptr && out != nullptr && N >= 0 && C >= 0 && H > 0 && W > 0;
  if (!possible || HW < WORDS || HW >= 1 << 24 || planes > INT32_MAX || planes * HW > INT32_MAX) {
    return c7x_int8_global_avg_pool_reference(in, out, N, C, H, W, zx, sx, zy, sy);
  }
  if (planes == 0) return 0;
  int8_t* y = static_cast<int8_t*>(out);
  const float factor = sx / static_cast<float>(HW);
  __SE_TEMPLATE_v1 se = bytes_as<ivec>(static_cast<int32_t>(HW));
  se.DIMFMT = __SE_DIMFMT_2D;
  se.ICNT1 = static_cast<uint32_t>(planes);
  se.DIM1 = static_cast<int32_t>(HW);
  __SE0_OPEN(const_cast<void*>(in), se);
  for (int64_t plane = 0; plane < planes; ++plane) {
    ivec sums(0);
    for (int64_t i = 0; i < HW; i += WORDS) sums = sums + c7x::strm_eng<0, ivec>::get_adv();
    y[plane] = c7x_rq(static_cast<float>(sum_of_lanes(sums) - HW * zx) * factor, zy, sy);
  }
  __SE0_CLOSE();
  return 0;
}

int32_t c7x_int8_resize2d_nearest2x(const void* in, void* out, int32_t C, int32_t H, int32_t W) {
  const int64_t rows = static_cast<int64_t>(C) * H;
  if (in == nullptr || out == nullptr || C <= 0 || H <= 0 || W <= 0 || rows * W > INT32_MAX / 4) {
    return c7x_int8_resize2d_nearest2x_reference(in, out, C, H, W);
  }
  int8_t* even = static_cast<int8_t*>(out);
  int8_t* odd = even + 2 * static_cast<int64_t>(W);
  __SE_TEMPLATE_v1 se = bytes_as<cvec>(W);
  se.ELEDUP = __SE_ELEDUP_2X;
  se.DIMFMT = __SE_DIMFMT_2D;
  se.ICNT1 = static_cast<uint32_t>(rows);
  se.DIM1 = W;
  /* Predicates end each row where it ends; a row and its copy lie next to each other. */
  __SA_TEMPLATE_v1 sa = __gen_SA_TEMPLATE_v1();
  sa.VECLEN = c7x::sa_veclen<cvec>::value;
  sa.DIMFMT = __SA_DIMFMT_2D;
  sa.ICNT0 = 2 * static_cast<uint32_t>(W);
  sa.ICNT1 = static_cast<uint32_t>(rows);
  sa.DIM1 = 4 * W;
  __SE0_OPEN(const_cast<void*>(in), se);
  __SA0_OPEN(sa);
  __SA1_OPEN(sa);
  const int64_t vectors = (2 * static_cast<int64_t>(W) + BYTES - 1) / BYTES * rows;
  for (int64_t i = 0; i < vectors; ++i) {
    const cvec v = c7x::strm_eng<0, cvec>::get_adv();
    const __vpred lanes = c7x::strm_agen<0, cvec>::get_vpred();
    __vstore_pred(lanes, c7x::strm_agen<0, cvec>::get_adv(even), v);
    __vstore_pred(lanes, c7x::strm_agen<1, cvec>::get_adv(odd), v);
  }
  __SE0_CLOSE();
  __SA0_CLOSE();
  __SA1_CLOSE();
  return 0;
}

#endif /* C7X_KERNELS_C7X: without it, the reference is all there is. */
