/* Vectors, complex elements, accessors, conversions and the scalable layer, at addresses of every alignment. */
#include <c7x.h>
#include <c7x_scalable.h>

#include <cmath>

static int failures = 0;
#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);    \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

template <class V>
static bool same(const V& a, const V& b) {
  return std::memcmp(&a, &b, sizeof(V)) == 0;
}

static void constructors() {
  const int8 v = int8(int4(1, 2, 3, 4), 5, int2(6, 7), 8.9f);
  for (int i = 0; i < 8; ++i) CHECK(v.s[i] == i + 1);
  CHECK(same(int4(7), int4(7, 7, 7, 7)));
  CHECK(same((float4)1.5, float4(1.5f, 1.5f, 1.5f, 1.5f)));
  CHECK(same(uchar4(-1), uchar4(255, 255, 255, 255)));
  const int4 listed = (int4){4, 3, 2, 1};
  CHECK(listed.s0() == 4 && listed.s3() == 1);
  CHECK(same(int8(v.even(), v.odd()), int8(1, 3, 5, 7, 2, 4, 6, 8)));
  static_assert(sizeof(int8) == 32 && alignof(int8) == 1, "vectors are packed");
  static_assert(std::is_same<int8, __int8>::value && std::is_same<int8_ptr, int8*>::value, "both names are one type");
}

static void accessors() {
  uchar16 v = uchar16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  CHECK(v.sa() == 10 && v.sf() == 15 && v.x() == 0 && v.w() == 3);
  CHECK(v.hi().lo().s1() == 9);
  CHECK(same(uchar4(v.even().hi()), uchar4(8, 10, 12, 14)));
  CHECK(same(uchar4(v.odd().even()), uchar4(1, 5, 9, 13)));
  CHECK(same(uchar4(v.odd().odd()), uchar4(3, 7, 11, 15)));
  CHECK(same(uchar4(v.hi().even().value()), uchar4(8, 10, 12, 14)));
  CHECK(v.even()[3] == 6 && v.odd().s1() == 3);
  v.lo() = uchar8(100);
  CHECK(v.s7() == 100 && v.s8() == 8);
  v.hi().hi().odd() = uchar2(7, 9);
  CHECK(v.sd() == 7 && v.sf() == 9 && v.se() == 14);
  v.s[3] = 55;
  v.s4() += 1;
  CHECK(v.s3() == 55 && v.s4() == 101);
  int4 w = int4(1, 2, 3, 4);
  w.even() = w.odd();
  CHECK(same(w, int4(2, 2, 4, 4)));
  CHECK(same(w.even() + w.odd(), int2(4, 8)));
  int2 two = int2(1, 2);
  CHECK(two.lo() == 1 && two.hi() == 2 && two.even() == 1 && two.odd() == 2);
  two.odd() = 9;
  CHECK(two.s1() == 9);
  const int4 fixed = w;
  CHECK(same(fixed.even(), int2(2, 4)) && same(fixed.lo(), int2(2, 2)));
}

static void operators() {
  CHECK(same(char4(127, -128, 100, 5) + char4(1, -1, 100, 0), char4(-128, 127, -56, 5)));
  CHECK(same(ushort2(65535, 300) * ushort2(65535, 300), ushort2(1, 24464)));
  CHECK(same(int2(std::numeric_limits<int32_t>::min(), 5) - 6, int2(2147483642, -1)));
  CHECK(same(-int2(std::numeric_limits<int32_t>::min(), 5), int2(std::numeric_limits<int32_t>::min(), -5)));
  CHECK(same(int4(7, -7, 7, std::numeric_limits<int32_t>::min()) / int4(2, 2, -2, -1), int4(3, -3, -3, std::numeric_limits<int32_t>::min())));
  CHECK(same(int4(7, -7, 7, std::numeric_limits<int32_t>::min()) % int4(2, 2, -2, -1), int4(1, -1, 1, 0)));
  CHECK(same(uint2(7, 1) << 28u, uint2(0x70000000u, 0x10000000u)));
  CHECK(same((uint2(7, 1) << 28u) >> 30, uint2(1, 0)));
  CHECK(same(int2(-8, 8) >> 1, int2(-4, 4)));
  CHECK(same(int2(-8, 8) >> 32, int2(-1, 0)) && same(int2(-8, 8) << 32, int2(0, 0)) && same(int2(-8, 8) << -1, int2(0, 0)));
  CHECK(same(1.0f + float2(1, 2), float2(2, 3)) && same(float2(1, 2) * 2.0, float2(2, 4)));
  CHECK(same(float2(1, 2) < float2(2, 1), int2(-1, 0)) && same(uchar2(1, 2) == 2, char2(0, -1)));
  CHECK(same(!int2(0, 4), int2(-1, 0)) && same(~int2(0, 4), int2(-1, -5)));
  CHECK(same((int2(6, 5) & 3) | 8, int2(10, 9)) && same(int2(6, 5) ^ int2(3, 3), int2(5, 6)));
  CHECK(same(-float2(0.0f, 1.0f), float2(-0.0f, -1.0f)));
  int2 v = int2(1, 2);
  v += 2;
  v *= int2(2, 3);
  v <<= 1;
  CHECK(same(v, int2(12, 24)) && same(v++, int2(12, 24)) && same(--v, int2(12, 24)));
}

static void conversions() {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const int32_t most = std::numeric_limits<int32_t>::max(), least = std::numeric_limits<int32_t>::min();
  CHECK(same(convert_int8(float8(1.9f, -1.9f, 3e9f, -3e9f, inf, -inf, nan, -nan)), int8(1, -1, most, least, most, least, most, least)));
  CHECK(same(convert_uchar4(float4(-1, 255.9f, 256, 0.5f)), uchar4(0, 255, 255, 0)));
  CHECK(same(convert_char4(int4(127, 128, -129, 5)), char4(127, -128, 127, 5)));
  CHECK(same(__convert_double2(int2(3, -4)), double2(3, -4)));
  CHECK(same(c7x::convert<c7x::int_vec>(c7x::uint_vec(4294967295u)), c7x::int_vec(-1)));
  CHECK(convert_long(float(9.3e18f)) == std::numeric_limits<int64_t>::max() && convert_ulong(1.9e19) == std::numeric_limits<uint64_t>::max());
  CHECK(as_int(1.0f) == 0x3F800000 && __as_uint(1.0f) == 0x3F800000u);
  CHECK(same(as_uchar8(uint2(0x04030201u, 0x08070605u)), uchar8(1, 2, 3, 4, 5, 6, 7, 8)));
  CHECK(same(as_float2(int64_t(0x3F80000040000000)), float2(2, 1)));
}

static void complexes() {
  cfloat a(1, 2);
  const cfloat product = a * cfloat(3, -1);
  CHECK(product.r() == 5 && product.i() == 5);
  a.r() = 7;
  CHECK((a + a) == cfloat(14, 4) && (a - a) == cfloat(0, 0) && -a == cfloat(-7, -2));
  cshort4 v = cshort4(1, 2, 3, 4, 5, 6, 7, 8);
  CHECK(same(short4(v.r()), short4(1, 3, 5, 7)) && same(short4(v.i()), short4(2, 4, 6, 8)));
  CHECK(v.s[2] == cshort(5, 6) && v.hi().s0() == cshort(5, 6) && v.odd().s1() == cshort(7, 8));
  v.i() = short4(0);
  v.lo() = cshort2(cshort(9, 9), cshort(8, 8));
  CHECK(same(v, cshort4(cshort2(9, 9, 8, 8), cshort(5, 0), cshort(7, 0))));
  CHECK(same(cint2(2, 3, 1, 1) * cint2(4, 5, 0, 1), cint2(-7, 22, -1, 1)));
  v += v;
  CHECK(v.s[3] == cshort(14, 0));
  static_assert(sizeof(c7x::cfloat_vec) == __C7X_VEC_SIZE_BYTES__, "complex vectors fill a register");
}

static void addresses() {
  unsigned char memory[2 * __C7X_VEC_SIZE_BYTES__ + 16];
  for (int offset = 0; offset < 9; ++offset) {
    for (unsigned i = 0; i < sizeof(memory); ++i) memory[i] = static_cast<unsigned char>(i);
    c7x::int_vec* p = reinterpret_cast<c7x::int_vec*>(memory + offset);
    const c7x::int_vec v = *p;
    CHECK(std::memcmp(&v, memory + offset, sizeof(v)) == 0);
    p->even() = v.odd();
    p->s1() += 1;
    p->lo().s0() = 3;
    p[1] = v * 2;
    CHECK(p->s0() == 3 && memory[offset] == 3);
    __vstore_pred(__mask_int(1), p, c7x::int_vec(-1));
    CHECK(p->s0() == -1 && p[1].s0() == static_cast<int32_t>(uint32_t(v.s0()) * 2));
    c7x::double_vec* d = reinterpret_cast<c7x::double_vec*>(memory + offset);
    *d = c7x::double_vec(0.5);
    *d = *d + *d;
    CHECK(d->s1() == 1.0);
  }
}

static void predicates() {
  CHECK(static_cast<uint64_t>(_mvrp(0x1234)) == 0x1234);
  CHECK(static_cast<uint64_t>(__cmp_gt_pred(int4(1, 5, 1, 5), 3)) == 0xF0F0u);
  CHECK(static_cast<uint64_t>(__cmp_eq_pred(int16_t(3), int16_t(3))) == 3u);
  CHECK(same(__select(__cmp_lt_pred(int4(1, 2, 3, 4), 3), int4(0), -1), int4(0, 0, -1, -1)));
  CHECK(same(__select(bool4(0, 1, 1, 0), int4(1), int4(2)), int4(2, 1, 1, 2)));
  CHECK(__select(__cmp_lt_pred(1.0f, 2.0f), 5.0f, 6.0f) == 5.0f);
  int4 stored = int4(0);
  char4 bytes = char4(0);
  __vstore_pred(bool4(0, 1, 1, 0), &stored, int4(7));
  __vstore_pred(bool4(0, 1, 1, 0), &bytes, char4(7));
  CHECK(same(stored, int4(0, 7, 7, 0)) && same(bytes, char4(0, 7, 7, 0)));
  float lane = 0;
  __vstore_pred(__mask_int(0), &lane, 1.0f);
  CHECK(lane == 0);
  __vstore_pred(__mask_int(1), &lane, 1.0f);
  CHECK(lane == 1);
  CHECK(__max(2, 3) == 3 && __abs(-2.5f) == 2.5f && same(__min(float2(1, 5), 2), float2(1, 2)));
}

static void scalable() {
  typedef c7x::make_full_vector<float>::type vec;
  static_assert(std::is_same<vec, c7x::float_vec>::value, "");
  static_assert(std::is_same<c7x::make_full_vector<c7x::char_hvec>::type, c7x::char_vec>::value, "");
  static_assert(std::is_same<c7x::element_type_of<vec>::type, float>::value, "");
  static_assert(c7x::element_count_of<vec>::value * 4 == __C7X_VEC_SIZE_BYTES__, "");
  static_assert(c7x::element_count_of<float>::value == 1, "");
  static_assert(c7x::element_count_of<c7x::short_qvec>::value * 8 == __C7X_VEC_SIZE_BYTES__, "");
  static_assert(c7x::max_simd<int16_t>::value * 2 == __C7X_VEC_SIZE_BYTES__, "");
  static_assert(c7x::se_veclen<int8>::value == __SE_VECLEN_8ELEMS && c7x::sa_veclen<uchar2>::value == __SA_VECLEN_2ELEMS, "");
  static_assert(c7x::se_eletype<c7x::double_vec>::value == __SE_ELETYPE_64BIT, "");
  static_assert(sizeof(__SE_TEMPLATE_v1) == 64, "a template has 512 bits");
  const __SE_ELEDUP of_double = c7x::se_eledup<double>::value, of_four = c7x::se_eledup<int32_t, int4>::value;
  CHECK(8 << of_double == __C7X_VEC_SIZE_BYTES__ && of_four == __SE_ELEDUP_4X);
  CHECK(same(c7x::reinterpret<c7x::uint_vec>(vec(1)), c7x::uint_vec(0x3F800000u)));
  CHECK(same(c7x::as_uchar_vec(c7x::uint_vec(0x01010101u)), c7x::uchar_vec(1)));
}

/* One element of a stream in every lane, as filters take their coefficients. */
static void element_in_every_lane() {
  const int16_t elements[] = {5, -6, 7};
  __SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1();
  t.ICNT0 = 3;
  t.ELETYPE = c7x::se_eletype<c7x::short_vec>::value;
  t.VECLEN = c7x::se_veclen<c7x::short_vec>::value;
  t.ELEDUP = c7x::se_eledup<int16_t, c7x::short_vec>::value;
  __SE0_OPEN(elements, t);
  for (int16_t element : elements)
    CHECK(same(c7x::strm_eng<0, c7x::short_vec>::get_adv(), c7x::short_vec(element)));
  __SE0_CLOSE();
  for (const int16_t& element : elements) CHECK(same(__vload_dup(&element), c7x::short_vec(element)));
  const double number = 2.5;
  CHECK(same(__vload_dup(&number), c7x::double_vec(2.5)));
}

/* Intrinsics whose operands differ in width, which the test of the table does not make. */
static void narrow_operands() {
  const int4 a(-300, 300, -5, 127);
  const uchar4 eight(8);
  CHECK(same(__saturate(a, eight), int4(-128, 127, -5, 127)));
  CHECK(same(__saturate(a, uchar4(32)), a) && same(__saturate(a, uchar4(1)), int4(-1, 0, -1, 0)));
  CHECK(same(__saturate_s2u(a, eight), uint4(0, 255, 0, 127)));
  CHECK(same(__saturate_s2u(a, uchar4(1, 2, 3, 4)), uint4(0, 3, 0, 15)));
  CHECK(same(__saturate_s2u(int4(-1, 2147483647, 0, 1), uchar4(32)), uint4(0, 2147483647, 0, 1)));
  CHECK(same(__duplicate(2.5f), c7x::float_vec(2.5f)) && same(__duplicate(int8_t(-3)), c7x::char_vec(-3)));
}

int main() {
  constructors();
  accessors();
  operators();
  conversions();
  complexes();
  addresses();
  predicates();
  scalable();
  element_in_every_lane();
  narrow_operands();
  return failures != 0;
}
