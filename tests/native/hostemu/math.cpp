/* Applies a function of kernels/math.h to floats from standard input: math NAME. With "time" behind it, prints seconds an
 * element of the kernel and of C's libm instead. */
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
    {"exp", c7x_math::exp, expf},   {"log", c7x_math::log, logf},       {"sqrt", c7x_math::sqrt, sqrtf},
    {"sin", c7x_math::sin, sinf},   {"rsqrt", c7x_math::rsqrt, exact_rsqrt}, {"recip", c7x_math::recip, exact_recip},
    {"cos", c7x_math::cos, cosf},   {"tanh", c7x_math::tanh, tanhf},
    {"log2", c7x_math::log2, log2f}, {"log10", c7x_math::log10, log10f},
};

template <class F>
static void apply(const float* in, float* out, size_t count, F f) {
  __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
  se.ICNT0 = static_cast<uint32_t>(count);
  se.ELETYPE = c7x::se_eletype<vec>::value;
  se.VECLEN = c7x::se_veclen<vec>::value;
  __SA_TEMPLATE_v1 sa = __gen_SA_TEMPLATE_v1();
  sa.ICNT0 = static_cast<uint32_t>(count);
  sa.VECLEN = c7x::sa_veclen<vec>::value;
  __SE0_OPEN(in, se);
  __SA0_OPEN(sa);
  for (size_t i = 0; i < count; i += c7x::element_count_of<vec>::value) {
    const vec y = f(c7x::strm_eng<0, vec>::get_adv());
    const __vpred lanes = c7x::strm_agen<0, vec>::get_vpred();
    __vstore_pred(lanes, c7x::strm_agen<0, vec>::get_adv(out), y);
  }
  __SE0_CLOSE();
  __SA0_CLOSE();
}

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv) {
  std::vector<float> in, out;
  float x;
  while (std::fread(&x, sizeof(x), 1, stdin) == 1) in.push_back(x);
  out.resize(in.size());
  for (const auto& f : functions) {
    if (argc < 2 || std::strcmp(f.name, argv[1]) != 0) continue;
    if (argc == 2) {
      apply(in.data(), out.data(), in.size(), f.kernel);
      std::fwrite(out.data(), sizeof(float), out.size(), stdout);
      return 0;
    }
    double best[2] = {1e9, 1e9};
    for (int run = 0; run < 20; ++run) {
      const double t0 = now();
      apply(in.data(), out.data(), in.size(), f.kernel);
      const double t1 = now();
      for (size_t i = 0; i < in.size(); ++i) out[i] = f.scalar(in[i]);
      const double t2 = now();
      if (t1 - t0 < best[0]) best[0] = t1 - t0;
      if (t2 - t1 < best[1]) best[1] = t2 - t1;
    }
    std::printf("%.3e %.3e\n", best[0] / in.size(), best[1] / in.size());
    return 0;
  }
  return 1;
}
