// The five cases of the C++ runtime's test (load and close, inference, reference, staged input, repeated), and what a
// Module promises beyond them. Arguments: a module with one output, one with two.
#include <c7x_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                          \
    }                                                                        \
  } while (0)

namespace {

const DLDataType kFloat = {kDLFloat, 32, 1};

struct Input {
  std::vector<float> data;
  std::vector<int64_t> shape;
  DLTensor dl;
  Input(std::vector<int64_t> dims, float start) : shape(std::move(dims)), dl() {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    for (int64_t i = 0; i < count; ++i) data.push_back(start + static_cast<float>(i));
    dl.data = data.data();
    dl.device.device_type = kDLCPU;
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = kFloat;
    dl.shape = shape.data();
  }
};

const float* Floats(const c7x::OutputTensor& tensor) { return static_cast<const float*>(tensor.dl.data); }

template <typename F>
bool Throws(F function) {
  try {
    function();
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

void LoadAndClose(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  CHECK(Throws([&] { c7x::Module::Load(path); }));  // busy
  module.Close();
  module.Close();
  CHECK(module.StagingBuffer() == nullptr);
  CHECK(Throws([&] { Input x({4}, 1); module.Run(&x.dl); }));
  CHECK(Throws([] { c7x::Module::Load("/nonexistent"); }));
  c7x::Module::Load(path).Close();
}

void Inference(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  Input x({2, 3}, 1);
  CHECK(module.LastCycles() == 0);
  c7x::OutputTensor out = module.Run(&x.dl);
  CHECK(out.dl.ndim == 2 && out.dl.shape[0] == 2 && out.dl.shape[1] == 3);
  CHECK(out.dl.dtype.code == kDLFloat && out.dl.dtype.bits == 32 && out.dl.dtype.lanes == 1);
  CHECK(out.data_size == 24 && out.dl.strides == nullptr && out.dl.byte_offset == 0);
  CHECK(module.LastCycles() > 0);
  c7x::OutputTensor copy = out;
  CHECK(copy.dl.shape == copy._shape && copy.dl.data == out.dl.data);
  size_t size = 0;
  CHECK(module.StagingBuffer(&size) != nullptr && size == 0x1D400000);
}

void Reference(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  Input x({2, 3}, 1), y({5}, 9);
  std::vector<c7x::OutputTensor> out = module.Run(std::vector<const DLTensor*>{&x.dl, &y.dl});
  CHECK(out.size() == 2);
  for (size_t i = 0; i < x.data.size(); ++i) {
    CHECK(Floats(out[0])[i] == x.data[i]);
    CHECK(Floats(out[1])[i] == 2 * x.data[i]);
  }
  // byte_offset counts.
  Input z({4}, 1);
  z.shape[0] = 2;
  z.dl.byte_offset = 8;
  CHECK(Floats(module.Run(&z.dl))[0] == 3);
}

void CreateInput(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  const int64_t shape[] = {4, 8, 1, 1, 1, 1, 1};
  DLTensor* a = module.CreateInput(shape, 2, kFloat);
  DLTensor* b = module.CreateInput(shape, 2, kFloat);
  CHECK(a != nullptr && b != nullptr && a->data != b->data);
  CHECK(reinterpret_cast<uintptr_t>(a->data) % 128 == 0);
  CHECK(module.CreateInput(shape, 7, kFloat) == nullptr);
  CHECK(module.LastError().find("rank") != std::string::npos);
  const int64_t huge[] = {int64_t(1) << 40};
  CHECK(module.CreateInput(huge, 1, kFloat) == nullptr);
  for (int i = 0; i < 32; ++i) {
    static_cast<float*>(a->data)[i] = static_cast<float>(i);
    static_cast<float*>(b->data)[i] = -1;
  }
  Input copied({3}, 7);
  for (int round = 0; round < 3; ++round) {
    std::vector<c7x::OutputTensor> out = module.Run(std::vector<const DLTensor*>{a, &copied.dl, b});
    for (int i = 0; i < 32; ++i) CHECK(Floats(out[0])[i] == static_cast<float>(i));
  }
  int made = 2;
  while (module.CreateInput(shape, 1, kFloat) != nullptr) ++made;
  CHECK(made == c7x::kMaxInputs);
  module.Close();
  CHECK(a->data == nullptr);
  c7x::Module second = c7x::Module::Load(path);
  CHECK(Throws([&] { second.Run(a); }));  // it belonged to the first
}

void Lifetimes(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  std::string printed;
  module.SetPrintf([](const char* text, size_t size, void* user) { static_cast<std::string*>(user)->append(text, size); },
                   &printed);
  Input x({4}, 1), y({4}, 10);
  c7x::OutputTensor first = module.Run(&x.dl);
  CHECK(printed.find("inputs: 1") != std::string::npos);
  // Nothing but the next Run touches them: no new input, no failed call, no move, no question.
  const int64_t shape[] = {1000};
  CHECK(module.CreateInput(shape, 1, kFloat) != nullptr);
  CHECK(Throws([&] { module.Run(static_cast<const DLTensor*>(nullptr)); }));
  module.SetTimeout(60000);
  c7x::Module moved = std::move(module);
  for (int i = 0; i < 4; ++i) CHECK(Floats(first)[i] == x.data[static_cast<size_t>(i)]);
  c7x::OutputTensor second = moved.Run(&y.dl);
  CHECK(second.dl.data == first.dl.data && Floats(first)[0] == 10);  // the first result's memory is the second's now
  moved.SetPrintf(nullptr, nullptr);
  printed.clear();
  moved.Run(&x.dl);
  CHECK(printed.empty());
}

void Repeated(const char* path) {
  c7x::Module module = c7x::Module::Load(path);
  Input x({16}, 0.5f);
  for (int i = 0; i < 100; ++i) {
    c7x::OutputTensor out = module.Run(&x.dl);
    CHECK(std::memcmp(out.dl.data, x.data.data(), out.data_size) == 0);
  }
}

void FunctionsAndMoves(const char* path) {
  c7x::Module first = c7x::Module::Load(path);
  c7x::Function function = first["anything"];
  c7x::Module module = std::move(first);
  CHECK(Throws([&] { first["main"]; }));
  Input x({4}, 1);
  const DLTensor* inputs[] = {&x.dl};
  std::vector<c7x::OutputTensor> outputs(c7x::kMaxOutputs);
  int count = 0;
  CHECK(function(inputs, 1, outputs.data(), &count) == 0 && count == 1);  // the move did not break it
  CHECK(function(inputs, 129, outputs.data(), &count) == -EINVAL);
  CHECK(function(nullptr, 0, outputs.data(), &count) == 0);
  const int64_t strides[] = {2};
  x.dl.strides = const_cast<int64_t*>(strides);
  CHECK(function(inputs, 1, outputs.data(), &count) == -EINVAL);
  CHECK(module.LastError().find("compact") != std::string::npos);
  module.SetTimeout(5000);
  CHECK(Throws([&] { module.SetTimeout(0); }));
  module.Close();
  CHECK(function(inputs, 1, outputs.data(), &count) == -ENOTCONN);
  try {
    c7x::Module::Load("/nonexistent");
    CHECK(false);
  } catch (const c7x::Error& error) {
    CHECK(error.domain() == C7X_DOMAIN_ERRNO && error.code() == ENOENT);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  LoadAndClose(argv[1]);
  Inference(argv[1]);
  Reference(argv[2]);
  CreateInput(argv[1]);
  Lifetimes(argv[1]);
  Repeated(argv[1]);
  FunctionsAndMoves(argv[1]);
  std::puts("ok");
  return 0;
}
