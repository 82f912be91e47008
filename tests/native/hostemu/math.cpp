/* Applies a function of kernels/math.h to floats from standard input: math NAME. Functions of two operands take the first
 * half of the input with the second half. With "time" behind it, prints seconds an element of the kernel and of C's libm
 * instead. */
#include "../../../native/hostemu/kernels/math.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

typedef c7x_math::vec vec;

static float exact_recip(float x) { return 1 / x; }
static float exact_rsqrt(float x) { return 1 / std::sqrt(x); }

static const struct {
  const char* name;
  vec (*kernel)(const vec&);
  float (*scalar)(float);
} functions[] = {
    {"exp", c7x_math::exp, expf},     {"log", c7x_math::log, logf},       {"log2", c7x_math::log2, log2f},
    {"log10", c7x_math::log10, log10f}, {"sqrt", c7x_math::sqrt, sqrtf},  {"rsqrt", c7x_math::rsqrt, exact_rsqrt},
    {"recip", c7x_math::recip, exact_recip}, {"sin", c7x_math::sin, sinf}, {"cos", c7x_math::cos, cosf},
    {"tan", c7x_math::tan, tanf},     {"tanh", c7x_math::tanh, tanhf},    {"asin", c7x_math::asin, asinf},
    {"acos", c7x_math::acos, acosf},  {"atan", c7x_math::atan, atanf},
};
static const struct {
  const char* name;
  vec (*kernel)(const vec&, const vec&);
  float (*scalar)(float, float);
} functions_of_two[] = {
    {"pow", c7x_math::pow, powf}, {"atan2", c7x_math::atan2, atan2f},
};

static __SE_TEMPLATE_v1 floats(size_t count) {
  __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
  se.ICNT0 = static_cast<uint32_t>(count);
  se.ELETYPE = c7x::se_eletype<vec>::value;
  se.VECLEN = c7x::se_veclen<vec>::value;
  return se;
}

/* Both engines are open, whether f reads the second operand or not. */
template <class F>
static void apply(const float* in, const float* second, float* out, size_t count, F f) {
  __SA_TEMPLATE_v1 sa = __gen_SA_TEMPLATE_v1();
  sa.ICNT0 = static_cast<uint32_t>(count);
  sa.VECLEN = c7x::sa_veclen<vec>::value;
  __SE0_OPEN(in, floats(count));
  __SE1_OPEN(second, floats(count));
  __SA0_OPEN(sa);
  for (size_t i = 0; i < count; i += c7x::element_count_of<vec>::value) {
    const vec y = f();
    const __vpred lanes = c7x::strm_agen<0, vec>::get_vpred();
    __vstore_pred(lanes, c7x::strm_agen<0, vec>::get_adv(out), y);
  }
  __SE0_CLOSE();
  __SE1_CLOSE();
  __SA0_CLOSE();
}

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Kernel, class Scalar>
static int report(bool timed, size_t count, const std::vector<float>& out, Kernel kernel, Scalar scalar) {
  if (!timed) {
    kernel();
    std::fwrite(out.data(), sizeof(float), out.size(), stdout);
    return 0;
  }
  double best[2] = {1e9, 1e9};
  for (int run = 0; run < 20; ++run) {
    const double t0 = now();
    kernel();
    const double t1 = now();
    scalar();
    const double t2 = now();
    if (t1 - t0 < best[0]) best[0] = t1 - t0;
    if (t2 - t1 < best[1]) best[1] = t2 - t1;
  }
  std::printf("%.3e %.3e\n", best[0] / count, best[1] / count);
  return 0;
}

int main(int argc, char** argv) {
  std::vector<float> in, out;
  float x;
  while (std::fread(&x, sizeof(x), 1, stdin) == 1) in.push_back(x);
  if (argc < 2) return 1;
  const bool timed = argc > 2;
  for (const auto& f : functions) {
    if (std::strcmp(f.name, argv[1]) != 0) continue;
    out.resize(in.size());
    const auto one = [&f] { return f.kernel(c7x::strm_eng<0, vec>::get_adv()); };
    return report(
        timed, in.size(), out, [&] { apply(in.data(), in.data(), out.data(), in.size(), one); },
        [&] {
          for (size_t i = 0; i < in.size(); ++i) out[i] = f.scalar(in[i]);
        });
  }
  for (const auto& f : functions_of_two) {
    if (std::strcmp(f.name, argv[1]) != 0) continue;
    const size_t half = in.size() / 2;
    const float* second = in.data() + half;
    out.resize(half);
    const auto two = [&f] {
      const vec a = c7x::strm_eng<0, vec>::get_adv();
      return f.kernel(a, c7x::strm_eng<1, vec>::get_adv());
    };
    return report(
        timed, half, out, [&] { apply(in.data(), second, out.data(), half, two); },
        [&] {
          for (size_t i = 0; i < half; ++i) out[i] = f.scalar(in[i], second[i]);
        });
  }
  return 1;
}
