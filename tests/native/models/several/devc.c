#include "c7x_model.h"

static const int64_t shape_a[2] = {2, 3};
static const int64_t shape_flag[1] = {3};
static const c7x_tensor_info inputs[3] = {{"a", "float32", 2, 32, 2, shape_a, 24},
                                          {"flag", "bool", 1, 8, 1, shape_flag, 3},
                                          {"k", "int64", 0, 64, 0, NULL, 8}};
static const c7x_tensor_info outputs[3] = {{"doubled", "float32", 2, 32, 2, shape_a, 24},
                                           {"inverted", "bool", 1, 8, 1, shape_flag, 3},
                                           {"next", "int64", 0, 64, 0, NULL, 8}};

const c7x_model_info c7x_model = {C7X_MODEL_VERSION, "several", "c_static", "", 3, inputs, 3, outputs, 1, 0, 0, 128, 0};
