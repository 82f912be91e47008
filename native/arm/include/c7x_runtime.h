// C++14 API of libc7x_arm_runtime.so: c7x::Module runs a loadable module (lib0.out) on a C7x DSP.
//
//   auto module = c7x::Module::Load("lib0.out");
//   c7x::OutputTensor out = module.Run(&input);
//
// Needs DLPack's header, c7x_client.h beside this file, and -lc7x_arm_runtime. One Module at a time can be open on a
// machine: the DSP is one, and its firmware runs one module.
#ifndef C7X_RUNTIME_H
#define C7X_RUNTIME_H

#include <dlpack/dlpack.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "c7x_client.h"

namespace c7x {

constexpr int kMaxOutputs = 64;
constexpr int kMaxInputs = 128;

// What Load, Run and the other throwing functions throw. domain() is one of c7x_error_domain, code() belongs to it.
class Error : public std::runtime_error {
 public:
  Error(const std::string& text, int domain, int code) : std::runtime_error(text), domain_(domain), code_(code) {}
  int domain() const { return domain_; }
  int code() const { return code_; }

 private:
  int domain_;
  int code_;
};

// An output. `dl.data` points into memory shared with the DSP and is valid until the module's next inference or Close;
// copies of an OutputTensor share it. `dl.shape` is the object's own.
struct OutputTensor {
  DLTensor dl;
  int64_t _shape[C7X_CLIENT_MAX_RANK];
  size_t data_size;

  OutputTensor() : dl(), _shape(), data_size(0) { dl.shape = _shape; }
  OutputTensor(const OutputTensor& other) { Assign(other); }
  OutputTensor& operator=(const OutputTensor& other) {
    if (this != &other) Assign(other);
    return *this;
  }

 private:
  void Assign(const OutputTensor& other) {
    dl = other.dl;
    data_size = other.data_size;
    std::memcpy(_shape, other._shape, sizeof _shape);
    dl.shape = _shape;
  }
};

namespace detail {

// What a Module and its Functions share, so that a Function outlives a moved or closed Module.
struct State {
  c7x_client_t* client = nullptr;
  uint32_t handle = 0;
  uint64_t cycles = 0;
  std::string error;
  int error_domain = C7X_DOMAIN_NONE;
  int error_code = 0;

  struct Staged {
    DLTensor tensor;
    std::array<int64_t, C7X_CLIENT_MAX_RANK> shape;
  };
  std::vector<std::unique_ptr<Staged>> staged;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { Close(); }

  void Close() {
    if (client == nullptr) return;
    if (handle != 0) c7x_client_dyn_unload(client, handle);
    c7x_client_close(client);
    client = nullptr;
    handle = 0;
    // Their memory is gone. A rank below 0 is refused wherever they are passed.
    for (auto& item : staged) {
      item->tensor.data = nullptr;
      item->tensor.ndim = -1;
    }
  }

  int Fail(int rc, int domain, int code, const std::string& text) {
    error = text;
    error_domain = domain;
    error_code = code;
    return rc;
  }

  int FailArgument(const std::string& text) {
    return Fail(-EINVAL, C7X_DOMAIN_CLIENT, C7X_CLIENT_ERR_ARGUMENT, text);
  }

  int FailFromClient(int rc) {
    c7x_error_t details;
    c7x_client_last_error(client, &details);
    return Fail(rc, details.domain, details.code, details.text);
  }

  [[noreturn]] void Throw() const { throw Error(error, error_domain, error_code); }
};

inline bool IsCompact(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Bytes of a compact tensor, or -1 when its shape makes no sense.
inline int64_t DataSize(const int64_t* shape, int ndim, DLDataType dtype) {
  int64_t bytes = (static_cast<int64_t>(dtype.bits) * dtype.lanes + 7) / 8;
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0 || __builtin_mul_overflow(bytes, shape[i], &bytes)) return -1;
  }
  return bytes;
}

inline int Infer(State& state, const DLTensor* const* inputs, int n, OutputTensor* outputs, int* n_out) {
  if (state.client == nullptr)
    return state.Fail(-ENOTCONN, C7X_DOMAIN_CLIENT, C7X_CLIENT_ERR_DISCONNECTED, "the module is closed");
  if (n < 0 || n > kMaxInputs || (n > 0 && inputs == nullptr) || outputs == nullptr || n_out == nullptr)
    return state.FailArgument("a module takes 0 to " + std::to_string(kMaxInputs) + " inputs, and room for outputs");
  std::vector<c7x_tensor_desc_t> in(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const DLTensor* tensor = inputs[i];
    const std::string name = "input " + std::to_string(i);
    if (tensor == nullptr || tensor->ndim < 0 || tensor->ndim > C7X_CLIENT_MAX_RANK)
      return state.FailArgument(name + " is missing, closed, or of a rank above " + std::to_string(C7X_CLIENT_MAX_RANK));
    if (!IsCompact(*tensor)) return state.FailArgument(name + " is not compact: copy it first");
    int64_t size = DataSize(tensor->shape, tensor->ndim, tensor->dtype);
    if (size < 0) return state.FailArgument(name + " has a shape without meaning");
    c7x_tensor_desc_t& desc = in[static_cast<size_t>(i)];
    desc = c7x_tensor_desc_t();
    if (tensor->data != nullptr) desc.data = static_cast<char*>(tensor->data) + tensor->byte_offset;
    desc.data_size = static_cast<size_t>(size);
    desc.ndim = tensor->ndim;
    desc.dtype_code = tensor->dtype.code;
    desc.dtype_bits = tensor->dtype.bits;
    for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  }
  c7x_tensor_desc_t out[kMaxOutputs];
  int count = 0;
  int rc = c7x_client_infer_bounded(state.client, state.handle, 0, in.data(), n, out, kMaxOutputs, &count, &state.cycles, 0);
  if (rc != 0) return state.FailFromClient(rc);
  for (int i = 0; i < count; ++i) {
    OutputTensor& output = outputs[i];
    output.dl = DLTensor();
    output.dl.data = out[i].data;
    output.dl.device.device_type = kDLCPU;
    output.dl.ndim = out[i].ndim;
    output.dl.dtype.code = static_cast<uint8_t>(out[i].dtype_code);
    output.dl.dtype.bits = static_cast<uint8_t>(out[i].dtype_bits);
    output.dl.dtype.lanes = 1;
    std::memcpy(output._shape, out[i].shape, sizeof output._shape);
    output.dl.shape = output._shape;
    output.data_size = out[i].data_size;
  }
  *n_out = count;
  return 0;
}

}  // namespace detail

// An entry of a module. Stays valid when its Module is moved; returns an error when it is closed.
class Function {
 public:
  // 0, or a negative number: the DSP's status or -errno. `outputs` has room for kMaxOutputs.
  int operator()(const DLTensor* const* inputs, int n, OutputTensor* outputs, int* n_out) const {
    return detail::Infer(*state_, inputs, n, outputs, n_out);
  }

 private:
  friend class Module;
  explicit Function(std::shared_ptr<detail::State> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::State> state_;
};

// A module on the DSP. Not thread-safe, but for Cancel.
class Module {
 public:
  // Connects to the DSP and loads the module at `path`; throws Error.
  static Module Load(const std::string& path) {
    auto state = std::make_shared<detail::State>();
    state->client = c7x_client_open();
    int rc = 0;
    if (state->client != nullptr) rc = c7x_client_dyn_load(state->client, path.c_str(), &state->handle);
    if (state->client == nullptr || rc != 0) {
      state->FailFromClient(rc);
      state->Throw();
    }
    return Module(std::move(state));
  }

  Module(Module&&) = default;
  Module& operator=(Module&& other) {
    if (this != &other) {
      Close();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() { Close(); }

  // Every name gives the module's one entry, cg_main_dsp.
  Function operator[](const std::string& name) const {
    (void)name;
    return Function(Require());
  }

  // Runs a module with one input; its first output. Throws Error.
  OutputTensor Run(const DLTensor* input) {
    std::vector<OutputTensor> outputs = Run(std::vector<const DLTensor*>{input});
    if (outputs.empty())
      throw Error("the module has no output", C7X_DOMAIN_CLIENT, C7X_CLIENT_ERR_OUTPUTS);
    return outputs[0];
  }

  // Throws Error.
  std::vector<OutputTensor> Run(const std::vector<const DLTensor*>& inputs) {
    const std::shared_ptr<detail::State>& state = Require();
    std::vector<OutputTensor> outputs(kMaxOutputs);
    int count = 0;
    if (detail::Infer(*state, inputs.data(), static_cast<int>(inputs.size()), outputs.data(), &count) != 0) state->Throw();
    outputs.resize(static_cast<size_t>(count));
    return outputs;
  }

  // A tensor in memory shared with the DSP, which Run uses where it is; nullptr when the rank, the size or the number of
  // tensors is too large. Belongs to the module and is invalid after Close.
  DLTensor* CreateInput(const int64_t* shape, int ndim, DLDataType dtype) {
    if (!state_ || state_->client == nullptr) return nullptr;
    detail::State& state = *state_;
    if (ndim < 0 || ndim > C7X_CLIENT_MAX_RANK || (ndim > 0 && shape == nullptr) || state.staged.size() >= kMaxInputs) {
      state.FailArgument("no room for another staged input, or a rank above " + std::to_string(C7X_CLIENT_MAX_RANK));
      return nullptr;
    }
    int64_t size = detail::DataSize(shape, ndim, dtype);
    void* data = nullptr;
    int rc = size < 0 ? state.FailArgument("a shape without meaning")
                      : c7x_client_stage_alloc(state.client, static_cast<size_t>(size), &data);
    if (rc != 0) {
      if (size >= 0) state.FailFromClient(rc);
      return nullptr;
    }
    std::unique_ptr<detail::State::Staged> item(new detail::State::Staged());
    for (int i = 0; i < ndim; ++i) item->shape[static_cast<size_t>(i)] = shape[i];
    item->tensor.data = data;
    item->tensor.device.device_type = kDLCPU;
    item->tensor.ndim = ndim;
    item->tensor.dtype = dtype;
    item->tensor.shape = item->shape.data();
    state.staged.push_back(std::move(item));
    return &state.staged.back()->tensor;
  }

  // The whole staging region; nullptr when closed.
  void* StagingBuffer(size_t* size = nullptr) const {
    return state_ ? c7x_client_get_input_buffer(state_->client, size) : nullptr;
  }

  // Unloads the module and disconnects. May be called again.
  void Close() {
    if (state_) state_->Close();
  }

  // DSP cycles of the last inference; 0 initially.
  uint64_t LastCycles() const { return state_ ? state_->cycles : 0; }

  // Why the last call failed that did not throw.
  std::string LastError() const { return state_ ? state_->error : std::string(); }

  // Milliseconds to wait for the DSP's answers; -1 waits for ever. Throws Error.
  void SetTimeout(int timeout_ms) {
    const std::shared_ptr<detail::State>& state = Require();
    int rc = c7x_client_set_timeout(state->client, timeout_ms);
    if (rc != 0) {
      state->FailFromClient(rc);
      state->Throw();
    }
  }

  // Where text goes that the module prints while it runs, `size` bytes without a terminator; nullptr, the initial value,
  // drops it. Called in Run's thread, before it returns. Throws Error.
  void SetPrintf(c7x_printf_fn callback, void* user) {
    const std::shared_ptr<detail::State>& state = Require();
    if (state->client != nullptr) c7x_client_set_printf_callback(state->client, callback, user);
  }

  // Makes an inference in another thread end with an error.
  void Cancel() {
    if (state_ && state_->client != nullptr) c7x_client_cancel(state_->client);
  }

 private:
  explicit Module(std::shared_ptr<detail::State> state) : state_(std::move(state)) {}

  const std::shared_ptr<detail::State>& Require() const {
    if (!state_) throw Error("the module was moved from", C7X_DOMAIN_CLIENT, C7X_CLIENT_ERR_ARGUMENT);
    return state_;
  }

  std::shared_ptr<detail::State> state_;
};

}  // namespace c7x

#endif  // C7X_RUNTIME_H
