/* Streaming engines and streaming address generators: one nest of up to six loops, read as vectors, or as addresses
 * with predicates.
 *
 * Semantics (docs/hostemu.md gives the evidence for each). The element at loop counters i0..i5 lies at
 * i0 + i1*DIM1 + ... + i5*DIM5 elements from the base; with DIR_DEC, -1 - i0 stands for i0. A loop with circular
 * addressing changes only the address bits inside its block. A vector never reaches across the end of loop 0: what is
 * missing is zero, and false in a predicate. Formatting goes in the order promotion, decimation, element duplication,
 * vector length, group duplication; VECLEN counts formatted elements.
 */
#ifndef C7X_EMU_STREAM_H
#define C7X_EMU_STREAM_H

#include "predicate.h"

typedef enum { __SE_ELETYPE_8BIT = 0, __SE_ELETYPE_16BIT = 1, __SE_ELETYPE_32BIT = 2, __SE_ELETYPE_64BIT = 3 } __SE_ELETYPE;
typedef enum {
  __SE_TRANSPOSE_OFF = 0,
  __SE_TRANSPOSE_8BIT,
  __SE_TRANSPOSE_16BIT,
  __SE_TRANSPOSE_32BIT,
  __SE_TRANSPOSE_64BIT,
  __SE_TRANSPOSE_128BIT,
  __SE_TRANSPOSE_256BIT
} __SE_TRANSPOSE;
typedef enum {
  __SE_PROMOTE_OFF = 0,
  __SE_PROMOTE_2X_ZEROEXT,
  __SE_PROMOTE_4X_ZEROEXT,
  __SE_PROMOTE_8X_ZEROEXT,
  __SE_PROMOTE_2X_SIGNEXT,
  __SE_PROMOTE_4X_SIGNEXT,
  __SE_PROMOTE_8X_SIGNEXT
} __SE_PROMOTE;
typedef enum {
  __SE_VECLEN_1ELEM = 0,
  __SE_VECLEN_2ELEMS,
  __SE_VECLEN_4ELEMS,
  __SE_VECLEN_8ELEMS,
  __SE_VECLEN_16ELEMS,
  __SE_VECLEN_32ELEMS,
  __SE_VECLEN_64ELEMS
} __SE_VECLEN;
typedef enum {
  __SE_ELEDUP_OFF = 0,
  __SE_ELEDUP_2X,
  __SE_ELEDUP_4X,
  __SE_ELEDUP_8X,
  __SE_ELEDUP_16X,
  __SE_ELEDUP_32X,
  __SE_ELEDUP_64X
} __SE_ELEDUP;
typedef enum { __SE_GRPDUP_OFF = 0, __SE_GRPDUP_ON } __SE_GRPDUP;
typedef enum { __SE_DECIM_OFF = 0, __SE_DECIM_2, __SE_DECIM_4 } __SE_DECIM;
typedef enum {
  __SE_DIMFMT_1D = 0,
  __SE_DIMFMT_2D,
  __SE_DIMFMT_3D,
  __SE_DIMFMT_4D,
  __SE_DIMFMT_5D,
  __SE_DIMFMT_6D
} __SE_DIMFMT;
typedef enum { __SE_DIR_INC = 0, __SE_DIR_DEC } __SE_DIR;
typedef enum {
  __SE_DECDIM_OFF = 0,
  __SE_DECDIM_DIM1,
  __SE_DECDIM_DIM2,
  __SE_DECDIM_DIM3,
  __SE_DECDIM_DIM4,
  __SE_DECDIM_DIM5
} __SE_DECDIM;
/* The secondary dimension; without one only the primary dimension counts. */
typedef enum {
  __SE_DECDIMSD_OFF = 0,
  __SE_DECDIMSD_DIM0,
  __SE_DECDIMSD_DIM1,
  __SE_DECDIMSD_DIM2,
  __SE_DECDIMSD_DIM3,
  __SE_DECDIMSD_DIM4,
  __SE_DECDIMSD_DIM5
} __SE_DECDIMSD;
typedef enum {
  __SE_LEZR_OFF = 0,
  __SE_LEZR_ICNT0,
  __SE_LEZR_ICNT1,
  __SE_LEZR_ICNT2,
  __SE_LEZR_ICNT3,
  __SE_LEZR_ICNT4,
  __SE_LEZR_ICNT5
} __SE_LEZR;
typedef enum { __SE_AM_LINEAR = 0, __SE_AM_CIRC_CBK0, __SE_AM_CIRC_CBK1 } __SE_AM;

typedef enum {
  __SA_VECLEN_1ELEM = 0,
  __SA_VECLEN_2ELEMS,
  __SA_VECLEN_4ELEMS,
  __SA_VECLEN_8ELEMS,
  __SA_VECLEN_16ELEMS,
  __SA_VECLEN_32ELEMS,
  __SA_VECLEN_64ELEMS
} __SA_VECLEN;
typedef enum {
  __SA_DIMFMT_1D = 0,
  __SA_DIMFMT_2D,
  __SA_DIMFMT_3D,
  __SA_DIMFMT_4D,
  __SA_DIMFMT_5D,
  __SA_DIMFMT_6D
} __SA_DIMFMT;
typedef enum {
  __SA_DECDIM_OFF = 0,
  __SA_DECDIM_DIM1,
  __SA_DECDIM_DIM2,
  __SA_DECDIM_DIM3,
  __SA_DECDIM_DIM4,
  __SA_DECDIM_DIM5
} __SA_DECDIM;
typedef enum {
  __SA_DECDIMSD_OFF = 0,
  __SA_DECDIMSD_DIM0,
  __SA_DECDIMSD_DIM1,
  __SA_DECDIMSD_DIM2,
  __SA_DECDIMSD_DIM3,
  __SA_DECDIMSD_DIM4,
  __SA_DECDIMSD_DIM5
} __SA_DECDIMSD;
/* Address generators are linear only: a circular mode ends the program. */
typedef enum { __SA_AM_LINEAR = 0, __SA_AM_CIRC_CBK0, __SA_AM_CIRC_CBK1 } __SA_AM;

/* 512 bits, as on the processor. */
typedef struct {
  uint32_t ICNT0, ICNT1, ICNT2, ICNT3, ICNT4, ICNT5;
  int32_t DIM1, DIM2, DIM3, DIM4, DIM5;
  uint32_t DECDIM1_WIDTH, DECDIM2_WIDTH;
  uint8_t LEZR_CNT;
  uint8_t CBK0 : 4;
  uint8_t CBK1 : 4;
  __SE_ELETYPE ELETYPE : 4;
  __SE_TRANSPOSE TRANSPOSE : 4;
  __SE_PROMOTE PROMOTE : 4;
  __SE_VECLEN VECLEN : 4;
  __SE_ELEDUP ELEDUP : 4;
  __SE_GRPDUP GRPDUP : 2;
  __SE_DECIM DECIM : 2;
  __SE_DIMFMT DIMFMT : 4;
  __SE_DIR DIR : 2;
  __SE_DECDIM DECDIM1 : 4;
  __SE_DECDIM DECDIM2 : 4;
  __SE_DECDIMSD DECDIM1SD : 4;
  __SE_DECDIMSD DECDIM2SD : 4;
  __SE_LEZR LEZR : 4;
  __SE_AM AM0 : 2, AM1 : 2, AM2 : 2, AM3 : 2, AM4 : 2, AM5 : 2;
} __SE_TEMPLATE_v1;

typedef struct {
  uint32_t ICNT0, ICNT1, ICNT2, ICNT3, ICNT4, ICNT5;
  int32_t DIM1, DIM2, DIM3, DIM4, DIM5;
  uint32_t DECDIM1_WIDTH, DECDIM2_WIDTH;
  uint8_t CBK0 : 4;
  uint8_t CBK1 : 4;
  __SA_VECLEN VECLEN : 4;
  __SA_DIMFMT DIMFMT : 4;
  __SA_DECDIM DECDIM1 : 4;
  __SA_DECDIM DECDIM2 : 4;
  __SA_DECDIMSD DECDIM1SD : 4;
  __SA_DECDIMSD DECDIM2SD : 4;
  __SA_AM AM0 : 2, AM1 : 2, AM2 : 2, AM3 : 2, AM4 : 2, AM5 : 2;
} __SA_TEMPLATE_v1;

/* The engines as operands of the few intrinsics that read them themselves; a pair is SE0, then SE1 (SPRUIG8, streaming
 * engine operands). */
typedef enum { __SE_REG_0 = 0, __SE_REG_0_ADV, __SE_REG_1, __SE_REG_1_ADV } __SE_REG;
typedef enum { __SE_REG_PAIR_0 = 0, __SE_REG_PAIR_0_ADV } __SE_REG_PAIR;

static_assert(sizeof(__SE_TEMPLATE_v1) <= 64 && sizeof(__SA_TEMPLATE_v1) <= 64, "a template has 512 bits");

/* Counts of one, all else off: what is not set does nothing. */
inline __SE_TEMPLATE_v1 __gen_SE_TEMPLATE_v1() {
  __SE_TEMPLATE_v1 t;
  std::memset(&t, 0, sizeof(t));
  t.ICNT0 = t.ICNT1 = t.ICNT2 = t.ICNT3 = t.ICNT4 = t.ICNT5 = 1;
  return t;
}
inline __SA_TEMPLATE_v1 __gen_SA_TEMPLATE_v1() {
  __SA_TEMPLATE_v1 t;
  std::memset(&t, 0, sizeof(t));
  t.ICNT0 = t.ICNT1 = t.ICNT2 = t.ICNT3 = t.ICNT4 = t.ICNT5 = 1;
  return t;
}

namespace c7x_emu {

/* The loops, without knowledge of memory: where the next vector starts, and which of its elements count. */
struct nest {
  static constexpr int loops = 6;
  struct limit { /* DECDIMx: lanes at or behind width - counter offsets of two loops do not count */
    int64_t width;
    int dimension; /* 0: off */
    int secondary; /* -1: off */
  };

  int64_t count[loops];
  int64_t stride[loops]; /* of loop 0 only the sign */
  int64_t at[loops];
  int64_t per_vector; /* memory elements that a vector takes from loop 0 */
  limit limits[2];
  int used;
  bool done;
  int ended; /* loops that the last step ended, innermost first: 1 means loop 0 */

  template <class Template>
  void open(const Template& t, int64_t elements) {
    const int64_t counts[loops] = {t.ICNT0, t.ICNT1, t.ICNT2, t.ICNT3, t.ICNT4, t.ICNT5};
    const int64_t strides[loops] = {1, t.DIM1, t.DIM2, t.DIM3, t.DIM4, t.DIM5};
    used = static_cast<int>(t.DIMFMT) + 1;
    done = false;
    ended = 0;
    per_vector = elements;
    for (int k = 0; k < loops; ++k) {
      count[k] = k < used ? counts[k] : 1;
      stride[k] = k < used ? strides[k] : 0;
      at[k] = 0;
      if (count[k] == 0) done = true;
    }
    limits[0] = limit{t.DECDIM1_WIDTH, static_cast<int>(t.DECDIM1), static_cast<int>(t.DECDIM1SD) - 1};
    limits[1] = limit{t.DECDIM2_WIDTH, static_cast<int>(t.DECDIM2), static_cast<int>(t.DECDIM2SD) - 1};
  }

  int64_t offset() const {
    int64_t sum = at[0] * stride[0];
    for (int k = 1; k < used; ++k) sum += at[k] * stride[k];
    return sum;
  }

  /* How many memory elements of the vector at hand count; they are its first ones. */
  int64_t valid() const {
    if (done) return 0;
    int64_t left = count[0] - at[0];
    if (left > per_vector) left = per_vector;
    for (const limit& l : limits) {
      if (l.dimension == 0) continue;
      int64_t room = l.width - at[l.dimension] * stride[l.dimension];
      if (l.secondary == 0) room -= at[0];
      if (l.secondary > 0) room -= at[l.secondary] * stride[l.secondary];
      if (room < left) left = room;
    }
    return left < 0 ? 0 : left;
  }

  void step() {
    ended = 0;
    if (done) return;
    at[0] += per_vector;
    if (at[0] < count[0]) return;
    at[0] = 0;
    ended = 1;
    for (int k = 1; k < used; ++k) {
      if (++at[k] < count[k]) return;
      at[k] = 0;
      ended = k + 1;
    }
    done = true;
  }
};

inline int power(int log2) { return 1 << log2; }

/* An address that moves inside its block: the bits above `inside` stay. A linear loop has a block of all addresses. */
inline const char* moved(const char* from, int64_t bytes, uintptr_t inside) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(from), to = at + static_cast<uintptr_t>(bytes);
  return reinterpret_cast<const char*>((at & ~inside) | (to & inside));
}

struct engine {
  static constexpr int width = __C7X_VEC_SIZE_BYTES__;

  bool is_open = false;
  const char* base = nullptr;
  nest loops = nest();
  int element = 1;   /* bytes in memory */
  int promoted = 1;  /* bytes in the register */
  bool sign = false;
  int decimation = 1, duplication = 1, lanes = 1;
  bool group = false;
  int granule = 0; /* transposition: memory elements of a granule; 0: off */
  int64_t columns = 0;
  int64_t origin = 0; /* offset of the first element: -1 where loop 0 runs downwards */
  bool contiguous = false; /* vectors are memory as it lies there */
  bool circular = false;
  uintptr_t inside[nest::loops] = {}; /* address bits that a loop changes */
  int lezr = 0; /* 1: loop 0 */
  int lezr_count = 0, zeros = 0;
  bool current_known = false;
  unsigned char current[width] = {};

  constexpr engine() = default;

  void open(const char* name, const void* address, const __SE_TEMPLATE_v1& t) {
    if (is_open) die(name, "the engine is open already");
    if (t.ELETYPE > __SE_ELETYPE_64BIT) die(name, "ELETYPE: this element type is not implemented");
    if (t.TRANSPOSE > __SE_TRANSPOSE_256BIT) die(name, "TRANSPOSE: no such granule");
    if (t.PROMOTE > __SE_PROMOTE_8X_SIGNEXT) die(name, "PROMOTE: no such promotion");
    if (t.VECLEN > __SE_VECLEN_64ELEMS) die(name, "VECLEN: no such vector length");
    if (t.ELEDUP > __SE_ELEDUP_64X) die(name, "ELEDUP: no such duplication");
    if (t.DECIM > __SE_DECIM_4) die(name, "DECIM: no such decimation");
    if (t.DIMFMT > __SE_DIMFMT_6D) die(name, "DIMFMT: this dimension format is not implemented");
    static const int promotions[] = {1, 2, 4, 8, 2, 4, 8};
    base = static_cast<const char*>(address);
    element = power(t.ELETYPE);
    const int promotion = promotions[t.PROMOTE];
    sign = t.PROMOTE >= __SE_PROMOTE_2X_SIGNEXT;
    promoted = element * promotion;
    decimation = power(t.DECIM);
    duplication = power(t.ELEDUP);
    lanes = power(t.VECLEN);
    group = t.GRPDUP == __SE_GRPDUP_ON;
    origin = 0;
    lezr = t.LEZR;
    lezr_count = t.LEZR_CNT;
    zeros = 0;
    if (promoted > 8) die(name, "PROMOTE: the element would exceed 64 bits");
    if (decimation > promotion) die(name, "DECIM: decimation exceeds promotion");
    if (lanes * promoted > width) die(name, "VECLEN: the vector would exceed the register");
    if (duplication > lanes) die(name, "ELEDUP: duplication exceeds VECLEN");
    granule = t.TRANSPOSE == __SE_TRANSPOSE_OFF ? 0 : power(t.TRANSPOSE - __SE_TRANSPOSE_8BIT) / element;
    check_dimensions(name, t);
    open_blocks(name, t);
    if (t.TRANSPOSE != __SE_TRANSPOSE_OFF) {
      if (granule == 0) die(name, "TRANSPOSE: the granule is smaller than an element");
      if (granule > lanes) die(name, "TRANSPOSE: the granule exceeds VECLEN");
      if (decimation > 1) die(name, "TRANSPOSE with DECIM is not implemented");
      if (duplication > 1) die(name, "TRANSPOSE with ELEDUP is not implemented");
      if (circular) die(name, "TRANSPOSE with AM: circular addressing is not implemented");
      if (t.DIR != __SE_DIR_INC) die(name, "TRANSPOSE with DIR is not implemented");
      if (t.DECDIM1 || t.DECDIM2) die(name, "TRANSPOSE with DECDIM is not implemented");
      if (lezr) die(name, "TRANSPOSE with LEZR: the processor does not support it");
      open_transposed(t);
    } else {
      loops.open(t, static_cast<int64_t>(lanes) * decimation / duplication);
      if (t.DIR == __SE_DIR_DEC) loops.stride[0] = origin = -1;
    }
    contiguous = promoted == element && decimation == 1 && duplication == 1 && origin == 0 && !circular && granule == 0;
    is_open = true;
    current_known = false;
  }

  void close() {
    is_open = false;
    current_known = false;
  }

  const unsigned char* get(const char* name) {
    if (!is_open) die(name, "the engine is not open");
    if (!current_known) {
      fetch();
      current_known = true;
    }
    return current;
  }
  void advance() {
    current_known = false;
    if (zeros > 0) {
      --zeros;
      return;
    }
    loops.step();
    if (lezr && loops.ended >= lezr) zeros = lezr_count;
  }

 private:
  template <class Template>
  static void check_dimensions(const char* name, const Template& t) {
    const int used = static_cast<int>(t.DIMFMT);
    if (static_cast<int>(t.DECDIM1) > used || static_cast<int>(t.DECDIM2) > used)
      die(name, "DECDIM: the dimension is not one of DIMFMT");
    if (static_cast<int>(t.DECDIM1SD) > used + 1 || static_cast<int>(t.DECDIM2SD) > used + 1)
      die(name, "DECDIMSD: the dimension is not one of DIMFMT");
  }

  /* Block size number B means 512 << B bytes, up to 4 GiB. */
  static uintptr_t block(const char* name, unsigned number) {
    if (number > 23) die(name, "CBK0, CBK1: no such block size");
    return (static_cast<uintptr_t>(512) << number) - 1;
  }

  void open_blocks(const char* name, const __SE_TEMPLATE_v1& t) {
    const __SE_AM modes[nest::loops] = {t.AM0, t.AM1, t.AM2, t.AM3, t.AM4, t.AM5};
    circular = false;
    for (int k = 0; k < nest::loops; ++k) {
      inside[k] = ~static_cast<uintptr_t>(0);
      if (k > static_cast<int>(t.DIMFMT) || modes[k] == __SE_AM_LINEAR) continue;
      if (modes[k] > __SE_AM_CIRC_CBK1) die(name, "AM: no such addressing mode");
      inside[k] = block(name, modes[k] == __SE_AM_CIRC_CBK0 ? t.CBK0 : t.CBK0 + t.CBK1 + 1u);
      circular = true;
    }
    if (circular && reinterpret_cast<uintptr_t>(base) % static_cast<uintptr_t>(element) != 0)
      die(name, "AM: circular addressing needs a base aligned to the element");
  }

  /* Transposed, loop 1 runs inside: its steps fill a vector, granule by granule, and the steps of loop 0 are columns of
   * granules. */
  void open_transposed(const __SE_TEMPLATE_v1& t) {
    __SE_TEMPLATE_v1 swapped = t;
    columns = t.ICNT0;
    swapped.ICNT0 = t.DIMFMT == __SE_DIMFMT_1D ? 1 : t.ICNT1;
    swapped.ICNT1 = static_cast<uint32_t>((columns + granule - 1) / granule);
    swapped.DIM1 = granule;
    if (t.DIMFMT == __SE_DIMFMT_1D) swapped.DIMFMT = __SE_DIMFMT_2D;
    loops.open(swapped, lanes / granule);
    loops.stride[0] = t.DIMFMT == __SE_DIMFMT_1D ? 0 : t.DIM1;
  }

  void put(int lane, const char* from) {
    unsigned char* to = current + lane * promoted;
    std::memcpy(to, from, static_cast<size_t>(element));
    if (promoted > element) {
      const bool negative = sign && (to[element - 1] & 0x80);
      std::memset(to + element, negative ? 0xFF : 0, static_cast<size_t>(promoted - element));
    }
  }

  /* Loops outside loop 0 move the address in turn, the outermost first. */
  const char* start_of_loop_0() const {
    const char* from = base;
    for (int k = loops.used - 1; k > 0; --k) from = moved(from, loops.at[k] * loops.stride[k] * element, inside[k]);
    return from;
  }

  void fetch() {
    std::memset(current, 0, sizeof(current));
    const int64_t valid = zeros > 0 ? 0 : loops.valid();
    const int64_t start = loops.offset() + origin;
    if (contiguous) {
      if (valid > 0) std::memcpy(current, base + start * element, static_cast<size_t>(valid * element));
    } else if (granule) {
      const int64_t column = loops.at[1] * granule;
      for (int64_t row = 0; row < valid; ++row)
        for (int k = 0; k < granule && column + k < columns; ++k)
          put(static_cast<int>(row) * granule + k, base + (start + row * loops.stride[0] + k) * element);
    } else if (circular) {
      const char* from = start_of_loop_0();
      int lane = 0;
      for (int64_t i = 0; i < valid; i += decimation) {
        const int64_t offset = (loops.at[0] + i) * loops.stride[0] + origin;
        for (int copy = 0; copy < duplication; ++copy) put(lane++, moved(from, offset * element, inside[0]));
      }
    } else {
      const char* from = base + start * element;
      const int64_t step = loops.stride[0] * element * decimation;
      int lane = 0;
      for (int64_t i = 0; i < valid; i += decimation, from += step)
        for (int copy = 0; copy < duplication; ++copy) put(lane++, from);
    }
    if (group) {
      const int bytes = lanes * promoted;
      for (int at = bytes; at < width; at += bytes) std::memcpy(current + at, current, static_cast<size_t>(bytes));
    }
  }
};

struct generator {
  bool is_open = false;
  nest loops = nest();

  constexpr generator() = default;

  void open(const char* name, const __SA_TEMPLATE_v1& t) {
    if (is_open) die(name, "the address generator is open already");
    if (t.AM0 | t.AM1 | t.AM2 | t.AM3 | t.AM4 | t.AM5) die(name, "AM: circular addressing is not implemented");
    if (t.VECLEN > __SA_VECLEN_64ELEMS) die(name, "VECLEN: no such vector length");
    if (t.DIMFMT > __SA_DIMFMT_6D) die(name, "DIMFMT: this dimension format is not implemented");
    const int used = static_cast<int>(t.DIMFMT);
    if (static_cast<int>(t.DECDIM1) > used || static_cast<int>(t.DECDIM2) > used)
      die(name, "DECDIM: the dimension is not one of DIMFMT");
    if (static_cast<int>(t.DECDIM1SD) > used + 1 || static_cast<int>(t.DECDIM2SD) > used + 1)
      die(name, "DECDIMSD: the dimension is not one of DIMFMT");
    loops.open(t, power(t.VECLEN));
    is_open = true;
  }
  void close() { is_open = false; }
  const nest& get(const char* name) const {
    if (!is_open) die(name, "the address generator is not open");
    return loops;
  }
};

/* One set a thread, as one a core. */
template <int I>
struct units {
  static thread_local engine se;
  static thread_local generator sa;
};
template <int I>
thread_local engine units<I>::se;
template <int I>
thread_local generator units<I>::sa;

template <class V>
struct element_of {
  typedef V type;
};
template <class T, int N>
struct element_of<vec<T, N>> {
  typedef T type;
};
template <class T, int N>
struct element_of<cvec<T, N>> {
  typedef cvec<T, 1> type;
};

template <int I, class V>
inline V stream_read(const char* name) {
  static_assert(sizeof(V) <= __C7X_VEC_SIZE_BYTES__, "the type is wider than the core's registers");
  V v;
  std::memcpy(static_cast<void*>(&v), units<I>::se.get(name), sizeof(v));
  return v;
}
template <int I, class V>
inline V stream_read_advance(const char* name) {
  const V v = stream_read<I, V>(name);
  units<I>::se.advance();
  return v;
}

template <class V>
inline V stream_read(const char* name, __SE_REG engine) {
  switch (engine) {
    case __SE_REG_0: return stream_read<0, V>(name);
    case __SE_REG_0_ADV: return stream_read_advance<0, V>(name);
    case __SE_REG_1: return stream_read<1, V>(name);
    case __SE_REG_1_ADV: return stream_read_advance<1, V>(name);
  }
  die(name, "no such streaming engine");
}

/* Offsets count elements of the type that is loaded or stored. */
template <int I, class V, class P>
inline typename std::conditional<std::is_const<P>::value, const V, V>::type* stream_address(const char* name, P* pointer) {
  typedef typename std::conditional<std::is_const<P>::value, const char, char>::type byte;
  typedef typename std::conditional<std::is_const<P>::value, const V, V>::type target;
  const int64_t bytes = units<I>::sa.get(name).offset() * static_cast<int64_t>(sizeof(typename element_of<V>::type));
  return reinterpret_cast<target*>(reinterpret_cast<byte*>(pointer) + bytes);
}
template <int I, class V, class P>
inline typename std::conditional<std::is_const<P>::value, const V, V>::type* stream_address_advance(const char* name, P* pointer) {
  auto* address = stream_address<I, V>(name, pointer);
  units<I>::sa.loops.step();
  return address;
}
template <int I, class V>
inline predicate stream_predicate(const char* name) {
  return predicate::first(units<I>::sa.get(name).valid() * static_cast<int64_t>(sizeof(typename element_of<V>::type)));
}

}  // namespace c7x_emu

#define __SE0_OPEN(pointer, parameters) (c7x_emu::units<0>::se.open("SE0", (pointer), (parameters)))
#define __SE1_OPEN(pointer, parameters) (c7x_emu::units<1>::se.open("SE1", (pointer), (parameters)))
#define __SE0_CLOSE() (c7x_emu::units<0>::se.close())
#define __SE1_CLOSE() (c7x_emu::units<1>::se.close())
#define __SE0(type) (c7x_emu::stream_read<0, type>("SE0"))
#define __SE1(type) (c7x_emu::stream_read<1, type>("SE1"))
#define __SE0ADV(type) (c7x_emu::stream_read_advance<0, type>("SE0"))
#define __SE1ADV(type) (c7x_emu::stream_read_advance<1, type>("SE1"))

#define __SA0_OPEN(parameters) (c7x_emu::units<0>::sa.open("SA0", (parameters)))
#define __SA1_OPEN(parameters) (c7x_emu::units<1>::sa.open("SA1", (parameters)))
#define __SA2_OPEN(parameters) (c7x_emu::units<2>::sa.open("SA2", (parameters)))
#define __SA3_OPEN(parameters) (c7x_emu::units<3>::sa.open("SA3", (parameters)))
#define __SA0_CLOSE() (c7x_emu::units<0>::sa.close())
#define __SA1_CLOSE() (c7x_emu::units<1>::sa.close())
#define __SA2_CLOSE() (c7x_emu::units<2>::sa.close())
#define __SA3_CLOSE() (c7x_emu::units<3>::sa.close())
#define __SA0(type, pointer) (c7x_emu::stream_address<0, type>("SA0", (pointer)))
#define __SA1(type, pointer) (c7x_emu::stream_address<1, type>("SA1", (pointer)))
#define __SA2(type, pointer) (c7x_emu::stream_address<2, type>("SA2", (pointer)))
#define __SA3(type, pointer) (c7x_emu::stream_address<3, type>("SA3", (pointer)))
#define __SA0ADV(type, pointer) (c7x_emu::stream_address_advance<0, type>("SA0", (pointer)))
#define __SA1ADV(type, pointer) (c7x_emu::stream_address_advance<1, type>("SA1", (pointer)))
#define __SA2ADV(type, pointer) (c7x_emu::stream_address_advance<2, type>("SA2", (pointer)))
#define __SA3ADV(type, pointer) (c7x_emu::stream_address_advance<3, type>("SA3", (pointer)))
#define __SA0_VPRED(type) (c7x_emu::stream_predicate<0, type>("SA0"))
#define __SA1_VPRED(type) (c7x_emu::stream_predicate<1, type>("SA1"))
#define __SA2_VPRED(type) (c7x_emu::stream_predicate<2, type>("SA2"))
#define __SA3_VPRED(type) (c7x_emu::stream_predicate<3, type>("SA3"))

#endif
