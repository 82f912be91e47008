/* log(1 + exp(x)) of an array, as one writes it for the C7x: a streaming engine reads, an address generator says where
 * and which lanes to store, and nothing names a vector length. */
#include <c7x.h>
#include <c7x_scalable.h>

#include "../kernels/math.h"

#include <cstdio>

static void softplus(const float* in, float* out, uint32_t count) {
  typedef c7x::float_vec vec;
  __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
  se.ICNT0 = count;
  se.DIMFMT = __SE_DIMFMT_1D;
  se.ELETYPE = c7x::se_eletype<vec>::value;
  se.VECLEN = c7x::se_veclen<vec>::value;
  __SA_TEMPLATE_v1 sa = __gen_SA_TEMPLATE_v1();
  sa.ICNT0 = count;
  sa.DIMFMT = __SA_DIMFMT_1D;
  sa.VECLEN = c7x::sa_veclen<vec>::value;

  __SE0_OPEN(in, se);
  __SA0_OPEN(sa);
  for (uint32_t i = 0; i < count; i += c7x::element_count_of<vec>::value) {
    const vec x = c7x::strm_eng<0, vec>::get_adv();
    /* max(x, 0) + log(1 + exp(-|x|)) does not overflow. */
    const vec y = __max(x, vec(0)) + c7x_math::log(c7x_math::exp(-__abs(x)) + 1.0f);
    const __vpred lanes = c7x::strm_agen<0, vec>::get_vpred();
    __vstore_pred(lanes, c7x::strm_agen<0, vec>::get_adv(out), y);
  }
  __SE0_CLOSE();
  __SA0_CLOSE();
}

int main() {
  const float in[11] = {-100, -10, -2, -1, -0.5f, 0, 0.5f, 1, 2, 10, 100};
  float out[12];
  out[11] = 42;
  softplus(in, out, 11);
  for (int i = 0; i < 11; ++i) std::printf("%g %.6g\n", in[i], out[i]);
  return out[11] == 42 ? 0 : 1;
}
