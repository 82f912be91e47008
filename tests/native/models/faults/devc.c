#include "c7x_model.h"

static const c7x_tensor_info inputs[1] = {{"fault", "int32", 0, 32, 0, NULL, 4}};
static const c7x_tensor_info outputs[1] = {{"y", "int32", 0, 32, 0, NULL, 4}};

const c7x_model_info c7x_model = {C7X_MODEL_VERSION, "faults", "c_static", "", 1, inputs, 1, outputs, 1, 0, 0, 128, 0};
