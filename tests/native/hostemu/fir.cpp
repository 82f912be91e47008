/* Vector FIR filters that read the streaming engines, against plain loops. */
#include <c7x.h>
#include <c7x_scalable.h>

#include <vector>

static int failures = 0;
#define CHECK(...)                                                    \
  do {                                                                \
    if (!(__VA_ARGS__)) {                                             \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #__VA_ARGS__);  \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

static const int lanes = c7x::element_count_of<c7x::short_vec>::value;
static const int blocks = 3;

/* Output i of a filter, as 32 bits that wrap. */
template <class T>
static int32_t filtered(const T* data, const int16_t* coefficients, int taps, int i) {
  uint32_t sum = 0;
  for (int k = 0; k < taps; ++k) sum += static_cast<uint32_t>(int32_t(data[i + k]) * coefficients[k]);
  return static_cast<int32_t>(sum);
}

static c7x::short_vec repeated(const int16_t* four) {
  uint64_t group;
  std::memcpy(&group, four, sizeof(group));
  return c7x::as_short_vec(__vload_dup(&group));
}

static std::vector<int16_t> samples(int count) {
  std::vector<int16_t> data(static_cast<size_t>(count));
  uint32_t state = 1;
  for (int16_t& x : data) x = static_cast<int16_t>((state = state * 1664525u + 1013904223u) >> 16);
  for (int i = 0; i < 6; ++i) data[static_cast<size_t>(i)] = -32768;
  return data;
}

static __SE_TEMPLATE_v1 half_words(int count) {
  __SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1();
  t.ICNT0 = static_cast<uint32_t>(count);
  t.ELETYPE = __SE_ELETYPE_16BIT;
  t.VECLEN = c7x::se_veclen<c7x::short_vec>::value;
  return t;
}

static void four_taps() {
  const int count = lanes * (blocks + 1);
  const std::vector<int16_t> data = samples(count);
  for (const std::vector<int16_t>& four : {std::vector<int16_t>{1, -20, 300, -4000}, std::vector<int16_t>(4, -32768)}) {
    const c7x::short_vec coefficients = repeated(four.data());
    __SE0_OPEN(data.data(), half_words(lanes * blocks));
    __SE1_OPEN(data.data() + lanes, half_words(lanes * blocks));
    for (int block = 0; block < blocks; ++block) {
      c7x::int_vec low, high, again_low, again_high;
      __vfir4hw_vww(coefficients, __SE_REG_PAIR_0, again_low, again_high);
      __vfir4hw_vww(coefficients, __SE_REG_PAIR_0_ADV, low, high);
      CHECK(std::memcmp(&low, &again_low, sizeof(low)) == 0 && std::memcmp(&high, &again_high, sizeof(high)) == 0);
      const c7x::short_vec packed = __deal_stride2(__pack_sat(high, low));
      for (int i = 0; i < lanes; ++i) {
        const int32_t want = filtered(data.data(), four.data(), 4, block * lanes + i);
        CHECK((i < lanes / 2 ? low.s[i] : high.s[i - lanes / 2]) == want);
        CHECK(packed.s[i] == (want > 32767 ? 32767 : want < -32768 ? -32768 : want));
      }
    }
    /* Both engines have advanced to their ends. */
    CHECK(c7x::strm_eng<0, c7x::short_vec>::get().s0() == 0 && c7x::strm_eng<1, c7x::short_vec>::get().s0() == 0);
    __SE0_CLOSE();
    __SE1_CLOSE();
  }
}

static void eight_taps() {
  std::vector<uint8_t> data(static_cast<size_t>(lanes * blocks));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 37 + 200);
  const int16_t eight[] = {5, -6, 700, 8, -9000, 1, 32767, -32768};
  const c7x::short_vec first = repeated(eight), second = repeated(eight + 4);
  /* Every vector starts half a vector behind the one before. */
  __SE_TEMPLATE_v1 t = half_words(lanes);
  t.ELETYPE = __SE_ELETYPE_8BIT;
  t.PROMOTE = __SE_PROMOTE_2X_ZEROEXT;
  t.DIMFMT = __SE_DIMFMT_2D;
  t.ICNT1 = 2 * blocks - 1;
  t.DIM1 = lanes / 2;
  __SE0_OPEN(data.data(), t);
  __SE1_OPEN(data.data() + lanes / 2, t);
  for (int block = 0; block < 2 * blocks - 2; ++block) {
    const c7x::int_vec again = __vfir8hw_wvv(first, second, __SE_REG_0);
    const c7x::int_vec result = __vfir8hw_wvv(first, second, __SE_REG_0_ADV);
    const c7x::int_vec other_again = __vfir8hw_wvv(first, second, __SE_REG_1);
    const c7x::int_vec other = __vfir8hw_wvv(first, second, __SE_REG_1_ADV);
    CHECK(std::memcmp(&result, &again, sizeof(result)) == 0 && std::memcmp(&other, &other_again, sizeof(other)) == 0);
    for (int i = 0; i < lanes / 2; ++i) {
      CHECK(result.s[i] == filtered(data.data(), eight, 8, block * lanes / 2 + i));
      if (block < 2 * blocks - 3) CHECK(other.s[i] == filtered(data.data(), eight, 8, (block + 1) * lanes / 2 + i));
    }
  }
  __SE0_CLOSE();
  __SE1_CLOSE();
}

/* A convolution: coefficients come from a stream that runs downwards, and three of them are filled up with a zero. */
static void reversed_coefficients() {
  const std::vector<int16_t> data = samples(2 * lanes);
  const int16_t filter[] = {3, -5, 7, 11, 13, -17};
  __SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1();
  t.ELETYPE = __SE_ELETYPE_16BIT;
  t.VECLEN = __SE_VECLEN_4ELEMS;
  t.GRPDUP = __SE_GRPDUP_ON;
  t.DIR = __SE_DIR_DEC;
  t.DIMFMT = __SE_DIMFMT_2D;
  t.ICNT0 = 3;
  t.ICNT1 = 2;
  t.DIM1 = -3;
  c7x::short_vec rows[2];
  __SE1_OPEN(filter + 6, t);
  for (c7x::short_vec& row : rows) row = c7x::strm_eng<1, c7x::short_vec>::get_adv();
  __SE1_CLOSE();
  for (int row = 0; row < 2; ++row) {
    __SE0_OPEN(data.data(), half_words(lanes));
    __SE1_OPEN(data.data() + lanes, half_words(lanes));
    c7x::int_vec low, high;
    __vfir4hw_vww(rows[row], __SE_REG_PAIR_0_ADV, low, high);
    const int16_t* last = filter + 5 - 3 * row;
    for (int i = 0; i < lanes; ++i) {
      const int32_t want = data[static_cast<size_t>(i)] * last[0] + data[static_cast<size_t>(i + 1)] * last[-1] +
                           data[static_cast<size_t>(i + 2)] * last[-2];
      CHECK((i < lanes / 2 ? low.s[i] : high.s[i - lanes / 2]) == want);
    }
    __SE0_CLOSE();
    __SE1_CLOSE();
  }
}

int main() {
  four_taps();
  eight_taps();
  reversed_coefficients();
  return failures != 0;
}
