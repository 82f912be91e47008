// c7x_compute: the DSP's services on the command line. Commands, texts and JSON are those that scripts already parse
// (docs/arm-client.md lists them); results go to standard output, the text of modules to standard error.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "c7x_client.h"
#include "c7x_protocol.h"
#include "json.h"
#include "sysfs.h"

namespace {

constexpr size_t kMaxShapeText = 4095;
constexpr size_t kMaxDtypeText = 2047;
constexpr size_t kMaxHeader = 4095;
constexpr int kMaxOutputs = 128;
constexpr int kTracePollMs = 500;

const char kUsage[] =
    "usage: c7x_compute COMMAND [ARGUMENT...] [OPTION...]\n"
    "\n"
    "Commands:\n"
    "  ping                     check that the DSP answers\n"
    "  status                   version, uptime and job counters\n"
    "  load FILE                load a module (lib0.out); prints handle=N\n"
    "  unload HANDLE            unload it\n"
    "  model-load FILE          load a weights.bin; prints model_id=N\n"
    "  model-unload ID          unload it\n"
    "  infer HANDLE MODEL_ID    run a loaded module; MODEL_ID 0 takes the module's own weights\n"
    "  run                      load, infer and unload --module; one line of JSON\n"
    "  profile                  as run, with two inferences; cycles are the mean of both\n"
    "  session-run              load --module, then infer for every request on standard input\n"
    "  trace                    show the DSP's trace until interrupted\n"
    "  help                     this text\n"
    "\n"
    "Options:\n"
    "  -m, --module FILE        the module\n"
    "  -i, --input FILE         raw tensors, one after the other, without a header\n"
    "  -o, --output FILE        where the outputs go, in the same form\n"
    "  -s, --shape SHAPES       1,3,224,224 or 1,16;4 for several inputs; default: one dimension, the whole file\n"
    "  -d, --dtype NAMES        float16, float32 (default), float64, int8 to int64 or uint8 to uint64; int8;float32 for\n"
    "                           several inputs, the first for those not named\n"
    "  -h, --help               this text\n"
    "\n"
    "The DSP is the virtual one when it runs, else the board's; C7X_TRANSPORT=vdsp or rpmsg decides. C7X_TIMEOUT_MS is\n"
    "how long to wait for an answer.\n"
    "\n"
    "Example: c7x_compute run --module build/lib0.out --input in.bin --shape 1,3,224,224 --output out.bin\n";

struct Dtype {
  const char* name;
  int code;
  int bits;
};
const Dtype kDtypes[] = {{"float32", 2, 32}, {"float16", 2, 16}, {"int64", 0, 64}, {"int32", 0, 32},
                         {"int16", 0, 16},   {"int8", 0, 8},     {"uint16", 1, 16}, {"uint8", 1, 8},
                         {"float64", 2, 64}, {"uint32", 1, 32}, {"uint64", 1, 64}};

volatile sig_atomic_t g_stop = 0;
c7x_client_t* volatile g_client = nullptr;

void OnSignal(int) {
  g_stop = 1;
  if (g_client != nullptr) c7x_client_cancel(g_client);
}

// Read calls end with EINTR instead of going on.
void CatchSignals() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

struct Options {
  std::vector<std::string> positional;
  std::string module, input, output, shape, dtype;
  bool has_input = false;
};

// ---- errors as text

// The fixed text that scripts look for, and what the library knows beyond it.
std::string ErrorText(c7x_client_t* client, int rc) {
  c7x_error_t error;
  c7x_client_last_error(client, &error);
  std::string text;
  switch (error.domain) {
    case C7X_DOMAIN_DSP:
      text = c7x_strerror(error.code);
      std::fprintf(stderr, "c7x: %s\n", error.text);
      break;
    case C7X_DOMAIN_CLIENT: {
      const std::string fixed = c7x_strerror(rc);
      text = fixed == "Unknown error" || fixed == "Success" ? error.text : fixed + ": " + error.text;
      break;
    }
    default:
      text = error.text;
  }
  uint32_t requested, free_bytes, total;
  if (client != nullptr && c7x_client_get_last_oom(client, &requested, &free_bytes, &total)) {
    char figures[128];
    std::snprintf(figures, sizeof figures, " (requested %.1f MB, %.1f MB free of %.1f MB)", requested / 1e6, free_bytes / 1e6,
                  total / 1e6);
    text += figures;
  }
  return text;
}

// Nothing opened: the text of the class that the int convention would have had.
std::string OpenErrorText() {
  c7x_error_t error;
  c7x_client_last_error(nullptr, &error);
  const bool missing = error.domain == C7X_DOMAIN_CLIENT && error.code == C7X_CLIENT_ERR_NO_DEVICE;
  return (missing ? "Device not found: " : "") + std::string(error.text);
}

void PrintModuleText(const char* text, size_t size, void*) { fwrite(text, 1, size, stderr); }

void PrintLog(int level, const char* text, void*) {
  if (level >= C7X_LOG_WARNING) std::fprintf(stderr, "c7x: %s\n", text);
}

// A connected client; `text` says why there is none.
class Connection {
 public:
  Connection() : client_(c7x_client_open()) {
    g_client = client_;
    if (client_ != nullptr) c7x_client_set_printf_callback(client_, PrintModuleText, nullptr);
  }
  ~Connection() {
    g_client = nullptr;
    c7x_client_close(client_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  c7x_client_t* get() const { return client_; }
  std::string Error(int rc) const { return client_ == nullptr ? OpenErrorText() : ErrorText(client_, rc); }

 private:
  c7x_client_t* client_;
};

// ---- tensors

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

bool ParseNumber(const std::string& text, uint64_t limit, uint64_t* value) {
  char* end;
  errno = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  *value = std::strtoull(text.c_str(), &end, 10);
  return errno == 0 && *end == '\0' && *value <= limit;
}

// Descriptors without data for inputs that together have `total` bytes; false with `error` set.
bool DescribeInputs(const std::string& shape, const std::string& dtype, uint64_t total,
                    std::vector<c7x_tensor_desc_t>* inputs, std::string* error) {
  if (shape.size() > kMaxShapeText || dtype.size() > kMaxDtypeText) {
    *error = "the text of shapes or dtypes is too long";
    return false;
  }
  std::vector<std::string> names = Split(dtype.empty() ? "float32" : dtype, ';');
  std::vector<std::string> shapes = Split(shape, ';');
  if (shapes.size() > C7X_CLIENT_MAX_INPUTS) {
    *error = std::to_string(shapes.size()) + " inputs: at most " + std::to_string(C7X_CLIENT_MAX_INPUTS) + " are possible";
    return false;
  }
  inputs->clear();
  uint64_t sum = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string& name = i < names.size() && !names[i].empty() ? names[i] : names[0];
    const Dtype* type = nullptr;
    for (const Dtype& candidate : kDtypes) {
      if (name == candidate.name) type = &candidate;
    }
    if (type == nullptr) {
      *error = "unknown dtype " + name;
      return false;
    }
    c7x_tensor_desc_t desc = c7x_tensor_desc_t();
    desc.dtype_code = type->code;
    desc.dtype_bits = type->bits;
    uint64_t bytes = static_cast<uint64_t>(type->bits / 8);
    if (shape.empty()) {
      desc.ndim = 1;
      desc.shape[0] = static_cast<int64_t>(total / bytes);
      bytes *= total / bytes;
    } else if (!shapes[i].empty()) {
      const std::vector<std::string> dims = Split(shapes[i], ',');
      if (dims.size() > C7X_CLIENT_MAX_RANK) {
        *error = "shape " + shapes[i] + " has more than " + std::to_string(C7X_CLIENT_MAX_RANK) + " dimensions";
        return false;
      }
      for (const std::string& dim : dims) {
        uint64_t value;
        if (!ParseNumber(dim, INT64_MAX, &value) || __builtin_mul_overflow(bytes, value, &bytes)) {
          *error = "shape " + shapes[i] + " is not a list of sizes";
          return false;
        }
        desc.shape[desc.ndim++] = static_cast<int64_t>(value);
      }
    }
    desc.data_size = bytes;
    if (__builtin_add_overflow(sum, bytes, &sum)) sum = UINT64_MAX;
    inputs->push_back(desc);
  }
  if (sum != total) {
    *error = "the input has " + std::to_string(total) + " bytes, its shapes and dtypes need " + std::to_string(sum);
    return false;
  }
  return true;
}

bool ReadFile(const std::string& path, std::vector<char>* content, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  struct stat info;
  if (file && stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    content->resize(static_cast<size_t>(info.st_size));
    file.read(content->data(), static_cast<std::streamsize>(content->size()));
    if (file.gcount() == static_cast<std::streamsize>(content->size())) return true;
  }
  *error = "cannot read " + path;
  return false;
}

// Sets the inputs' data to consecutive parts of `content`.
void PlaceInputs(char* content, std::vector<c7x_tensor_desc_t>* inputs) {
  for (c7x_tensor_desc_t& input : *inputs) {
    // An address of its own even for an empty tensor: NULL would mean the KV cache.
    input.data = content;
    content += input.data_size;
  }
}

bool WriteOutputs(const std::string& path, const c7x_tensor_desc_t* outputs, int count, size_t* bytes, std::string* error) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  *bytes = 0;
  for (int i = 0; i < count && file; ++i) {
    file.write(static_cast<const char*>(outputs[i].data), static_cast<std::streamsize>(outputs[i].data_size));
    *bytes += outputs[i].data_size;
  }
  file.close();
  if (file) return true;
  *error = "cannot write " + path;
  return false;
}

// Inputs of `infer`, `run` and `profile`, read from --input.
bool LoadInputs(const Options& options, std::vector<char>* content, std::vector<c7x_tensor_desc_t>* inputs,
                std::string* error) {
  if (!options.has_input) return true;
  // One byte more, so that an empty input has an address.
  if (!ReadFile(options.input, content, error)) return false;
  const size_t size = content->size();
  content->resize(size + 1);
  if (!DescribeInputs(options.shape, options.dtype, size, inputs, error)) return false;
  PlaceInputs(content->data(), inputs);
  return true;
}

// ---- JSON

std::string ErrorJson(const char* stage, const std::string& text) {
  return "{\"status\": \"error\", " + (stage ? "\"stage\": " + JsonString(stage) + ", " : std::string()) +
         "\"error\": " + JsonString(text) + "}";
}

// run's object without its closing brace.
std::string ResultJson(uint64_t cycles, const c7x_tensor_desc_t* outputs, int count) {
  std::string text = "{\"status\": \"ok\", \"cycles\": " + std::to_string(cycles) +
                     ", \"num_outputs\": " + std::to_string(count) + ", \"outputs\": [";
  for (int i = 0; i < count; ++i) {
    const c7x_tensor_desc_t& output = outputs[i];
    text += std::string(i ? ", " : "") + "{\"index\": " + std::to_string(i) + ", \"ndim\": " + std::to_string(output.ndim) +
            ", \"dtype_code\": " + std::to_string(output.dtype_code) +
            ", \"dtype_bits\": " + std::to_string(output.dtype_bits) +
            ", \"data_size\": " + std::to_string(output.data_size) + ", \"shape\": [";
    for (int d = 0; d < output.ndim; ++d) text += (d ? ", " : "") + std::to_string(output.shape[d]);
    text += "]}";
  }
  return text + "]";
}

// ---- commands; each returns the exit code

int Fail(const char* what, const std::string& text) {
  std::printf("%s: %s\n", what, text.c_str());
  return 1;
}

std::string Version(uint32_t version) {
  char text[48];
  std::snprintf(text, sizeof text, "%u.%u.%u", C7X_VERSION_MAJOR(version), C7X_VERSION_MINOR(version),
                C7X_VERSION_PATCH(version));
  return text;
}

int Ping(const Options&) {
  Connection dsp;
  uint32_t version = 0, uptime = 0;
  int rc = dsp.get() ? c7x_client_ping(dsp.get(), &version, &uptime) : -ENODEV;
  if (rc != 0) return Fail("PING failed", dsp.Error(rc));
  std::printf("PING successful!\n  Version: %s\n  Uptime:  %u.%03u seconds\n", Version(version).c_str(), uptime / 1000,
              uptime % 1000);
  return 0;
}

int Status(const Options&) {
  Connection dsp;
  c7x_status_t status;
  int rc = dsp.get() ? c7x_client_get_status(dsp.get(), &status) : -ENODEV;
  if (rc != 0) return Fail("Failed to get status", dsp.Error(rc));
  std::printf(
      "C7x Compute Service Status:\n  Version:        %s\n  Uptime:         %u.%03u seconds\n"
      "  Jobs completed: %u\n  Jobs failed:    %u\n",
      Version(status.version).c_str(), status.uptime_ms / 1000, status.uptime_ms % 1000, status.jobs_completed,
      status.jobs_failed);
  return 0;
}

using LoadFunction = int (*)(c7x_client_t*, const char*, uint32_t*);
using UnloadFunction = int (*)(c7x_client_t*, uint32_t);

int LoadFile(const Options& options, LoadFunction load, const char* what, const char* key) {
  Connection dsp;
  uint32_t id = 0;
  const std::string subject = what;
  int rc = dsp.get() ? load(dsp.get(), options.positional[0].c_str(), &id) : -ENODEV;
  if (rc != 0) return Fail((subject + " load failed").c_str(), dsp.Error(rc));
  std::printf("%s loaded successfully: %s=%u\n", what, key, id);
  return 0;
}

int UnloadId(const Options& options, UnloadFunction unload, const char* what, const char* key) {
  const std::string failed = std::string(what) + " unload failed";
  uint64_t id;
  if (!ParseNumber(options.positional[0], UINT32_MAX, &id))
    return Fail(failed.c_str(), "Invalid argument: " + options.positional[0] + " is not a number");
  Connection dsp;
  int rc = dsp.get() ? unload(dsp.get(), static_cast<uint32_t>(id)) : -ENODEV;
  if (rc != 0) return Fail(failed.c_str(), dsp.Error(rc));
  std::printf("%s unloaded: %s=%u\n", what, key, static_cast<uint32_t>(id));
  return 0;
}

int ModelLoad(const Options& options) { return LoadFile(options, c7x_client_model_load, "Model", "model_id"); }
int ModelUnload(const Options& options) { return UnloadId(options, c7x_client_model_unload, "Model", "model_id"); }
int Load(const Options& options) { return LoadFile(options, c7x_client_dyn_load, "Module", "handle"); }
int Unload(const Options& options) { return UnloadId(options, c7x_client_dyn_unload, "Module", "handle"); }

int Infer(const Options& options) {
  const char kFailed[] = "Inference failed";
  uint64_t handle, model_id;
  if (!ParseNumber(options.positional[0], UINT32_MAX, &handle) || !ParseNumber(options.positional[1], UINT32_MAX, &model_id))
    return Fail(kFailed, "Invalid argument: handle and model id are numbers");
  std::vector<char> content;
  std::vector<c7x_tensor_desc_t> inputs;
  std::string error;
  if (!LoadInputs(options, &content, &inputs, &error)) return Fail(kFailed, error);
  Connection dsp;
  c7x_tensor_desc_t outputs[kMaxOutputs];
  int count = 0;
  uint64_t cycles = 0;
  int rc = dsp.get() ? c7x_client_infer_bounded(dsp.get(), static_cast<uint32_t>(handle), static_cast<uint32_t>(model_id),
                                                inputs.data(), static_cast<int>(inputs.size()), outputs, kMaxOutputs, &count,
                                                &cycles, 0)
                     : -ENODEV;
  if (rc != 0) return Fail(kFailed, dsp.Error(rc));
  std::printf("Inference complete: %" PRIu64 " cycles\n  Outputs: %d\n", cycles, count);
  if (!options.output.empty()) {
    size_t bytes;
    if (!WriteOutputs(options.output, outputs, count, &bytes, &error)) return Fail(kFailed, error);
    std::printf("  Written %zu bytes (%d tensors) to %s\n", bytes, count, options.output.c_str());
  }
  return 0;
}

// A line of JSON; the exit code says which.
int Answer(const std::string& line, int code) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return code;
}

int RunRepeated(const Options& options, uint32_t repeat) {
  std::vector<char> content;
  std::vector<c7x_tensor_desc_t> inputs;
  std::string error;
  if (options.module.empty()) return Answer(ErrorJson("unknown", "--module is missing"), 1);
  if (!LoadInputs(options, &content, &inputs, &error)) return Answer(ErrorJson("unknown", error), 1);
  Connection dsp;
  if (dsp.get() == nullptr) return Answer(ErrorJson("open", dsp.Error(0)), 1);
  uint32_t handle;
  int rc = c7x_client_dyn_load(dsp.get(), options.module.c_str(), &handle);
  if (rc != 0) return Answer(ErrorJson("load", dsp.Error(rc)), 1);
  c7x_tensor_desc_t outputs[kMaxOutputs];
  int count = 0;
  uint64_t cycles = 0;
  rc = c7x_client_infer_bounded(dsp.get(), handle, 0, inputs.data(), static_cast<int>(inputs.size()), outputs, kMaxOutputs,
                                &count, &cycles, repeat);
  std::string line;
  size_t bytes;
  if (rc != 0) {
    line = ErrorJson("infer", dsp.Error(rc));
  } else if (!options.output.empty() && !WriteOutputs(options.output, outputs, count, &bytes, &error)) {
    rc = -EIO;
    line = ErrorJson("infer", error);
  } else {
    // With inputs the DSP adds the runs up, without it gives the last.
    line = ResultJson(inputs.empty() ? cycles : cycles / repeat, outputs, count) + "}";
  }
  int unloaded = c7x_client_dyn_unload(dsp.get(), handle);
  if (rc == 0 && unloaded != 0) return Answer(ErrorJson("unload", dsp.Error(unloaded)), 1);
  return Answer(line, rc == 0 ? 0 : 1);
}

int Run(const Options& options) { return RunRepeated(options, 1); }
int Profile(const Options& options) { return RunRepeated(options, 2); }

// ---- session-run

// Standard input, read through a buffer of its own: lines and raw bytes follow each other.
class Input {
 public:
  // 1: a line, 0: the end, -1: longer than the limit (the rest is skipped).
  int Line(std::string* line) {
    line->clear();
    bool too_long = false;
    for (;;) {
      if (at_ == end_ && !Fill()) return line->empty() ? 0 : (too_long ? -1 : 1);
      char c = buffer_[at_++];
      if (c == '\n') return too_long ? -1 : 1;
      if (line->size() < kMaxHeader) *line += c;
      else too_long = true;
    }
  }

  // Reads, or with data NULL skips, `size` bytes; false when the input ends before.
  bool Bytes(char* data, uint64_t size) {
    while (size > 0) {
      if (at_ == end_ && !Fill()) return false;
      size_t step = end_ - at_;
      if (step > size) step = static_cast<size_t>(size);
      if (data != nullptr) {
        std::memcpy(data, buffer_ + at_, step);
        data += step;
      }
      at_ += step;
      size -= step;
    }
    return true;
  }

 private:
  bool Fill() {
    at_ = end_ = 0;
    for (;;) {
      ssize_t got = g_stop ? 0 : read(STDIN_FILENO, buffer_, sizeof buffer_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      end_ = static_cast<size_t>(got);
      return true;
    }
  }
  char buffer_[65536];
  size_t at_ = 0, end_ = 0;
};

class Session {
 public:
  Session(c7x_client_t* client, uint32_t handle) : client_(client), handle_(handle) {}

  // Serves requests until exit or the end of input; false when standard input or output broke in the middle.
  bool Serve() {
    std::string line;
    for (;;) {
      int got = input_->Line(&line);
      if (got == 0) return true;
      JsonObject request;
      std::string error, op;
      if (got < 0) {
        error = "the request's line is longer than " + std::to_string(kMaxHeader) + " bytes";
      } else if (line.find_first_not_of(" \t\r") == std::string::npos) {
        continue;
      } else if (request.Parse(line, &error) && (!request.GetString("op", &op) || (op != "infer" && op != "exit"))) {
        error = "op is neither infer nor exit";
      }
      if (error.empty() && op == "exit") return true;
      if (!error.empty()) {
        // Its payload can only be skipped when its size is known.
        int64_t size;
        if (request.GetNumber("input_size", &size) && !input_->Bytes(nullptr, static_cast<uint64_t>(size))) return false;
        if (!Respond(ErrorJson(nullptr, error), nullptr, 0)) return false;
      } else if (!Infer(request)) {
        return false;
      }
    }
  }

 private:
  static int64_t NumberOr(const JsonObject& request, const char* key, int64_t fallback) {
    int64_t value;
    return request.GetNumber(key, &value) ? value : fallback;
  }

  bool Infer(const JsonObject& request) {
    int64_t count, size;
    std::string shape, dtype, error;
    if (!request.GetNumber("input_size", &size)) {
      return Respond(ErrorJson(nullptr, "infer needs input_size"), nullptr, 0);
    }
    std::vector<c7x_tensor_desc_t> inputs;
    if (!request.GetNumber("num_inputs", &count) || !request.GetString("shape", &shape) ||
        !request.GetString("dtype", &dtype)) {
      error = "infer needs num_inputs, shape and dtype";
    } else if (static_cast<uint64_t>(size) > C7X_STAGING_SIZE) {
      error = std::string(c7x_strerror(-EFBIG)) + ": " + std::to_string(size) + " bytes of input";
    } else if (count == 0 && size == 0) {
      // All inputs are in the KV cache, or the model has none.
    } else if (DescribeInputs(shape, dtype, static_cast<uint64_t>(size), &inputs, &error) &&
               static_cast<int64_t>(inputs.size()) != count) {
      error = "num_inputs is " + std::to_string(count) + ", shape describes " + std::to_string(inputs.size());
    }
    if (!error.empty()) {
      return input_->Bytes(nullptr, static_cast<uint64_t>(size)) && Respond(ErrorJson(nullptr, error), nullptr, 0);
    }
    if (!Receive(static_cast<size_t>(size), &inputs)) return false;

    uint32_t flags = 0;
    if (NumberOr(request, "kv_resident", 0) != 0) {
      flags = C7X_FLAG_KV_RESIDENT;
      if (!AddCache(request, &inputs, &error)) return Respond(ErrorJson(nullptr, error), nullptr, 0);
    }
    c7x_tensor_desc_t outputs[kMaxOutputs];
    int num_outputs = 0;
    uint64_t cycles = 0;
    int rc = c7x_client_infer_bounded(client_, handle_, 0, inputs.data(), static_cast<int>(inputs.size()), outputs,
                                      kMaxOutputs, &num_outputs, &cycles, flags);
    if (rc != 0) return Respond(ErrorJson(nullptr, ErrorText(client_, rc)), nullptr, 0);
    size_t bytes = 0;
    for (int i = 0; i < num_outputs; ++i) bytes += outputs[i].data_size;
    return Respond(ResultJson(cycles, outputs, num_outputs) + ", \"output_size\": " + std::to_string(bytes) + "}", outputs,
                   num_outputs);
  }

  // Receives the payload where the DSP reads it.
  bool Receive(size_t size, std::vector<c7x_tensor_desc_t>* inputs) {
    if (size + 1 > capacity_) {
      void* data;
      // Room for the largest request so far; what the smaller ones used stays unused.
      if (c7x_client_stage_alloc(client_, size + 1, &data) == 0) {
        staged_ = static_cast<char*>(data);
        capacity_ = size + 1;
      } else {
        spare_.resize(size + 1);
        staged_ = spare_.data();
        capacity_ = spare_.size();
      }
    }
    if (!input_->Bytes(staged_, size)) return false;
    PlaceInputs(staged_, inputs);
    return true;
  }

  // Inputs that the DSP keeps, behind those that were sent.
  static bool AddCache(const JsonObject& request, std::vector<c7x_tensor_desc_t>* inputs, std::string* error) {
    const int64_t tensors = NumberOr(request, "kv_num_tensors", C7X_KV_SLOTS);
    const int64_t heads = NumberOr(request, "kv_num_heads", 3);
    const int64_t length = NumberOr(request, "kv_max_cache_len", 256);
    const int64_t dim = NumberOr(request, "kv_head_dim", 64);
    if (tensors > C7X_KV_SLOTS || static_cast<int64_t>(inputs->size()) >= tensors) {
      if (tensors <= C7X_KV_SLOTS) return true;
      *error = "kv_num_tensors is above " + std::to_string(C7X_KV_SLOTS);
      return false;
    }
    for (int64_t i = 0; i < tensors; ++i) {
      c7x_tensor_desc_t desc = c7x_tensor_desc_t();
      desc.data_size = C7X_KV_SLOT_SIZE;
      desc.ndim = 4;
      desc.dtype_code = 2;
      desc.dtype_bits = 32;
      desc.shape[0] = 1;
      desc.shape[1] = heads;
      desc.shape[2] = length;
      desc.shape[3] = dim;
      inputs->push_back(desc);
    }
    return true;
  }

  bool Respond(const std::string& line, const c7x_tensor_desc_t* outputs, int count) {
    std::fprintf(stdout, "%s\n", line.c_str());
    for (int i = 0; i < count; ++i) fwrite(outputs[i].data, 1, outputs[i].data_size, stdout);
    return std::fflush(stdout) == 0 && !std::ferror(stdout);
  }

  c7x_client_t* client_;
  uint32_t handle_;
  std::unique_ptr<Input> input_{new Input()};
  char* staged_ = nullptr;
  size_t capacity_ = 0;
  std::vector<char> spare_;
};

int SessionRun(const Options& options) {
  if (options.module.empty()) return Answer(ErrorJson(nullptr, "--module is missing"), 1);
  CatchSignals();
  Connection dsp;
  if (dsp.get() == nullptr) return Answer(ErrorJson(nullptr, dsp.Error(0)), 1);
  uint32_t handle;
  int rc = c7x_client_dyn_load(dsp.get(), options.module.c_str(), &handle);
  if (rc != 0) return Answer(ErrorJson(nullptr, dsp.Error(rc)), 1);
  Answer("{\"status\": \"ready\", \"module\": " + JsonString(options.module) + "}", 0);
  bool served = Session(dsp.get(), handle).Serve();
  int unloaded = c7x_client_dyn_unload(dsp.get(), handle);
  return served && unloaded == 0 ? 0 : 1;
}

// ---- trace

int Trace(const Options&) {
  const char* root = std::getenv("C7X_ROOT");
  const std::string prefix = root != nullptr ? root : "";
  int number = c7x_find_device(prefix.c_str(), "remoteproc", "remoteproc");
  if (number < 0) return Fail("Trace failed", "Device not found: no remote processor is " C7X_DSP_NAME);
  const std::string path = prefix + "/sys/kernel/debug/remoteproc/remoteproc" + std::to_string(number) + "/trace0";
  CatchSignals();
  std::string shown;
  for (bool first = true; !g_stop; first = false) {
    // Its size is unknown: files below /sys/kernel/debug say 0.
    std::string text;
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && first) return Fail("Trace failed", "cannot open " + path + ": " + std::strerror(errno));
    char buffer[4096];
    ssize_t got = 0;
    while (fd >= 0 && (got = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(got));
    if (fd >= 0) close(fd);
    // The buffer wraps around; then all of it is shown again.
    const bool continued = text.compare(0, shown.size(), shown) == 0;
    const size_t start = continued ? shown.size() : 0;
    fwrite(text.data() + start, 1, text.size() - start, stdout);
    if (std::fflush(stdout) != 0) return 1;
    shown = text;
    struct timespec wait = {0, kTracePollMs * 1000000L};
    if (!g_stop) nanosleep(&wait, nullptr);
  }
  return 0;
}

int Help(const Options&) {
  std::fputs(kUsage, stdout);
  return 0;
}

struct Command {
  const char* name;
  size_t positional;
  int (*run)(const Options&);
};
const Command kCommands[] = {
    {"ping", 0, Ping},          {"status", 0, Status},     {"model-load", 1, ModelLoad}, {"model-unload", 1, ModelUnload},
    {"load", 1, Load},          {"unload", 1, Unload},     {"infer", 2, Infer},          {"run", 0, Run},
    {"profile", 0, Profile},    {"session-run", 0, SessionRun}, {"trace", 0, Trace},     {"help", 0, Help},
};

struct OptionName {
  const char* name;
  const char* letter;
  std::string Options::*value;
};
const OptionName kOptions[] = {{"--input", "-i", &Options::input},
                               {"--output", "-o", &Options::output},
                               {"--shape", "-s", &Options::shape},
                               {"--dtype", "-d", &Options::dtype},
                               {"--module", "-m", &Options::module}};

int Usage(const std::string& complaint) {
  std::fprintf(stderr, "c7x_compute: %s\n\n%s", complaint.c_str(), kUsage);
  return 1;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kUsage, stdout);
    return 1;
  }
  Options options;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") return Help(options);
    const size_t equals = word.compare(0, 2, "--") == 0 ? word.find('=') : std::string::npos;
    const OptionName* option = nullptr;
    for (const OptionName& candidate : kOptions) {
      if (word.substr(0, equals) == candidate.name || word == candidate.letter) option = &candidate;
    }
    if (option != nullptr) {
      if (equals == std::string::npos && i + 1 == words.size()) return Usage(word + " needs a value");
      options.*option->value = equals != std::string::npos ? word.substr(equals + 1) : words[++i];
      options.has_input |= option->value == &Options::input;
    } else if (word.size() > 1 && word[0] == '-') {
      return Usage("unknown option " + word);
    } else {
      options.positional.push_back(word);
    }
  }
  if (options.positional.empty()) return Usage("a command is missing");
  const std::string name = options.positional[0];
  options.positional.erase(options.positional.begin());
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    if (options.positional.size() != command.positional)
      return Usage(name + " takes " + std::to_string(command.positional) + " arguments");
    return command.run(options);
  }
  return Usage("unknown command " + name);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  c7x_set_log_callback(PrintLog, nullptr);
  return Main(argc, argv);
}
