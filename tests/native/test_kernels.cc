// The reference kernels with the runtime's own pools behind them: values worked out by hand, no set-up call.
#include "c7x_kernels.h"
#include "c7x_platform.h"
#include "check.h"
#include "mmalib/mmalib_wrappers.h"

namespace {

void test_convolution() {
  int8_t input[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  int8_t kernel[8] = {1, 0, 0, 1, -1, 1, -1, 1};
  int32_t bias[2] = {0, 10};
  uint8_t scale[2] = {1, 3};
  uint8_t shift[2] = {1, 0};
  int8_t output[8];
  CHECK(mmalib_conv2d_i8(input, kernel, bias, scale, shift, output, 1, 3, 3, 2, 2, 2, 1, 1, 0, 0, 0, 0) == 0);
  // (1 + 5 + 1) >> 1, ...; then (1 + 1 + 10) * 3.
  CHECK(output[0] == 3 && output[1] == 4 && output[2] == 6 && output[3] == 7);
  CHECK(output[4] == 36 && output[5] == 36 && output[6] == 36 && output[7] == 36);
}

void test_relu_in_place() {
  int8_t x[3] = {-128, 0, 127};
  CHECK(c7x_int8_relu(x, x, 3, -5) == 0);
  CHECK(x[0] == -5 && x[1] == 0 && x[2] == 127);
  CHECK(c7x_int8_relu(x, nullptr, 3, -5) == -1);
}

void test_topk() {
  const float data[4] = {1.0f, 4.0f, -2.0f, 3.0f};
  float values[2];
  int64_t indices[2];
  CHECK(c7x_topk(data, values, indices, 1, 4, 2) == 0);
  CHECK(values[0] == 4.0f && values[1] == 3.0f && indices[0] == 1 && indices[1] == 3);
}

// Workspace comes from the main pool and goes back to it.
void test_workspace() {
  const size_t before = tvm_dsp_get_free_memory(C7X_POOL_MAIN);
  int8_t x[4] = {1, 2, 3, 4};
  int8_t y[4];
  void *all;
  CHECK(c7x_int8_dfl_softmax(x, y, 1, 1, 2, 2, 0, 1.0f, 0, 0.01f) == 0);
  CHECK(tvm_dsp_get_free_memory(C7X_POOL_MAIN) == before);
  all = tvm_dsp_alloc(before - 128, 64, C7X_POOL_MAIN);
  CHECK(all != nullptr);
  CHECK(c7x_int8_dfl_softmax(x, y, 1, 1, 2, 2, 0, 1.0f, 0, 0.01f) == -1);
  tvm_dsp_free(all);
  CHECK(c7x_int8_dfl_softmax(x, y, 1, 1, 2, 2, 0, 1.0f, 0, 0.01f) == 0);
}

}  // namespace

int main() {
  test_convolution();
  test_relu_in_place();
  test_topk();
  test_workspace();
  return 0;
}
