#include "c7x_model.h"

static const int64_t shape[2] = {1, 4};
static const c7x_tensor_info inputs[1] = {{"x", "float32", 2, 32, 2, shape, 16}};
static const c7x_tensor_info outputs[1] = {{"y", "float32", 2, 32, 2, shape, 16}};

/* 8 (count), 12 + 8 (string of 8), and 44 + 8 * 1 + 16 for each of two tensors of 4 floats. */
const c7x_model_info c7x_model = {C7X_MODEL_VERSION, "affine", "c_static", "", 1, inputs, 1, outputs, 1, 3, 0, 128, 164};
