// The protocol server of the virtual DSP (native/vdsp/firmware.cc) in this process: messages, what lies in staging, and what
// a module does, which is a script instead of code.
//
// The input: a byte of options (1: not strict, 2: the board without TIDL, 4: the third allocation fails), then steps:
//
//   0 length:u16 bytes                a message
//   1 offset:u16 length:u16 bytes     bytes for staging, at an offset that is a multiple of 16
//   2 which:u8                        a good module for staging: 0 plain, 1 with weights
//   3 length:u8 bytes                 what a module does in the next calls: pairs of an action and its argument
//
// A step's number is taken modulo 4; what the input lacks is 0. Not executed: code. A DYN_LOAD of any bytes may succeed, so
// entry points lead to the script. What would crash a module's process (a deleter out of nowhere) is answered as a crash.
#include <sys/mman.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "c7x_abi.h"
#include "c7x_protocol.h"
#include "elf_builder.h"
#include "firmware.h"

using vdsp::firmware;

namespace vdsp {
void drain_dma();
}

extern "C" {
int tvm_dsp_dma_copy(int queue, void* dst, const void* src, int bytes, int bypass_cache);
int tvm_dsp_dma_wait(int queue, int max_inflight);
int firmware_printf(const char* format, ...);
void TVMFFIAnyClear(c7x_any* value);
void TVMDSPRegFileInit(c7x_any* registers, int32_t count);
void TVMDSPRegSetAny(int32_t index, const c7x_any* value);
int TVMDSPRegFileCleanup();
#define PACKED(name) int TVMDSPBuiltin##name##Packed(const c7x_any*, int32_t, c7x_any*)
PACKED(AllocStorage);
PACKED(AllocTensor);
PACKED(AllocShapeHeap);
PACKED(MakeShape);
PACKED(MatchShape);
PACKED(CheckTensorInfo);
PACKED(NullValue);
PACKED(Copy);
PACKED(MakeTuple);
PACKED(Reshape);
#undef PACKED
}

namespace {

constexpr size_t kStagingUsed = (size_t{1} << 20) + (size_t{64} << 10);
constexpr uint32_t kPoolBytes = 4u << 20;
constexpr int kMostRepeats = 4;
constexpr int kMostActions = 64;
constexpr int kCrash = 1;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t byte() {
    if (left_ == 0) return 0;
    left_ -= 1;
    return *data_++;
  }
  size_t word() {
    const size_t low = byte();
    return low | static_cast<size_t>(byte()) << 8;
  }
  // As many bytes as there are, up to `size`.
  const uint8_t* bytes(size_t* size) {
    *size = *size < left_ ? *size : left_;
    const uint8_t* const start = data_;
    data_ += *size;
    left_ -= *size;
    return start;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

std::jmp_buf out_of_module;
std::vector<uint8_t> script;
// Objects that builtins made and the script's call has not given back.
std::vector<c7x_any> objects;
// Blocks that a call has allocated. Not local to it: a call may end by longjmp.
std::vector<void*> blocks;
// What a module keeps in its own data: nothing in pools, which are rewound.
c7x_any registers[4];

[[noreturn]] void crash() { std::longjmp(out_of_module, kCrash); }

void end_process(int code) { std::longjmp(out_of_module, code); }

// ---- what a module does ----

c7x_any any(int32_t type, int64_t value) {
  c7x_any result = {};
  result.type_index = type;
  result.v.i64 = value;
  return result;
}

int64_t number(uint8_t argument) {
  static const int64_t numbers[] = {0, 1, 2, 3, 8, 9, 128, 4096, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, -1, int64_t{1} << 40};
  return numbers[argument % (sizeof numbers / sizeof numbers[0])];
}

// An argument for a builtin: a number, a dtype, nothing, or an object of this call.
c7x_any pick(uint8_t argument) {
  if ((argument & 0x80) != 0 && !objects.empty()) return objects[argument % objects.size()];
  switch (argument >> 5 & 3) {
    case 0:
      return any(C7X_TYPE_INT, number(argument & 31));
    case 1: {
      c7x_any value = any(C7X_TYPE_DTYPE, 0);
      value.v.dtype = {static_cast<uint8_t>(argument & 3), static_cast<uint8_t>(8 << (argument >> 2 & 3)), 1};
      return value;
    }
    case 2:
      return any(C7X_TYPE_NONE, 0);
    default:
      return any(C7X_TYPE_OPAQUE_PTR, 0);
  }
}

void call_builtin(Input* in, uint8_t which) {
  static int (*const functions[])(const c7x_any*, int32_t, c7x_any*) = {
      TVMDSPBuiltinAllocStoragePacked, TVMDSPBuiltinAllocTensorPacked,     TVMDSPBuiltinAllocShapeHeapPacked,
      TVMDSPBuiltinMakeShapePacked,    TVMDSPBuiltinMatchShapePacked,      TVMDSPBuiltinCheckTensorInfoPacked,
      TVMDSPBuiltinNullValuePacked,    TVMDSPBuiltinCopyPacked,            TVMDSPBuiltinMakeTuplePacked,
      TVMDSPBuiltinReshapePacked,
  };
  c7x_any arguments[8];
  const int32_t count = in->byte() % 8;
  for (int32_t i = 0; i < count; ++i) arguments[i] = pick(in->byte());
  c7x_any result = any(-77, 0);
  if (functions[which % 10](arguments, count, &result) == 0 && result.type_index >= C7X_TYPE_OBJECT) {
    if (result.v.ptr == nullptr) abort();
    const auto* const tensor = static_cast<const c7x_tensor*>(result.v.ptr);
    if (result.type_index == C7X_TYPE_TENSOR && which % 10 != 2 && tensor->dtype.bits == 64) {
      // Could be taken for a shape heap that it is not, and what a builtin then writes is the module's fault.
      TVMFFIAnyClear(&result);
    } else {
      objects.push_back(result);
    }
  }
}

// An object with its header, at the alignment of the firmware's.
template <typename T>
T* make(int32_t type) {
  auto* const object = static_cast<T*>(firmware.allocate(sizeof(T), 128, 1));
  if (object == nullptr) return nullptr;
  std::memset(static_cast<void*>(object), 0, sizeof *object);
  object->header.type_index = type;
  object->header.ref_counter = 1;
  return object;
}

// A tensor to put out. Wild pointers and shapes only in strict mode, whose checks have to find them.
c7x_tensor* make_output(Input* in) {
  const bool strict = firmware.options().strict;
  auto* const tensor = make<c7x_tensor>(C7X_TYPE_TENSOR);
  if (tensor == nullptr) return nullptr;
  const uint8_t form = in->byte();
  tensor->ndim = strict && (form & 0x80) != 0 ? in->byte() - 100 : form & 7;
  tensor->dtype = {static_cast<uint8_t>(form >> 3 & 3), static_cast<uint8_t>(8 << (form >> 5 & 3)), 1};
  tensor->shape = tensor->shape_storage;
  uint64_t bytes = 8;
  for (int32_t i = 0; i < C7X_MAX_RANK; ++i) {
    const uint8_t dim = in->byte();
    tensor->shape_storage[i] = strict && dim >= 0x80 ? number(dim) : dim % 6;
    bytes *= static_cast<uint64_t>(tensor->shape_storage[i]) % 4097 + 1;
  }
  const uint8_t place = in->byte();
  vdsp::Memory& memory = firmware.memory();
  if (strict && place % 8 == 1) {
    tensor->data = reinterpret_cast<void*>(static_cast<uintptr_t>(number(in->byte())));
  } else if (place % 8 == 2) {
    tensor->data = memory.region(vdsp::kResult).host + in->word();
  } else if (place % 8 == 3) {
    tensor->data = memory.region(vdsp::kStaging).host + in->word();
  } else if (strict && place % 8 == 4) {
    const vdsp::Region& region = memory.region(static_cast<vdsp::RegionIndex>(in->byte() % vdsp::kNumRegions));
    tensor->data = region.host + region.size - in->byte();
  } else {
    bytes = bytes < (1u << 21) ? bytes : 1u << 21;
    tensor->data = firmware.allocate(bytes, 128, 1);
    if (tensor->data == nullptr) return nullptr;
    if ((place & 8) == 0) std::memset(tensor->data, 1, bytes);
  }
  if (strict && place % 32 == 31) tensor->shape = reinterpret_cast<int64_t*>(static_cast<uintptr_t>(number(in->byte())));
  if (strict && place % 32 == 30) tensor->strides = tensor->shape;
  if (strict && place % 32 == 29) tensor->byte_offset = 4;
  return tensor;
}

bool put_array(Input* in, uint8_t argument, c7x_any* result) {
  auto* const array = make<c7x_array>(C7X_TYPE_ARRAY);
  if (array == nullptr) return false;
  array->size = argument % (C7X_MAX_ARRAY + 1);
  c7x_tensor* tensor = nullptr;
  for (int32_t i = 0; i < array->size; ++i) {
    if (i < 8) tensor = make_output(in);
    if (tensor == nullptr) return false;
    array->elements[i] = any(i % 7 == 6 ? C7X_TYPE_STR : C7X_TYPE_TENSOR, 0);
    array->elements[i].v.ptr = tensor;
  }
  if (firmware.options().strict && argument >= 0xF0) array->size = static_cast<int32_t>(number(argument));
  *result = any(C7X_TYPE_ARRAY, 0);
  result->v.ptr = array;
  return true;
}

int act(Input* in, c7x_any* result) {
  blocks.clear();
  for (int i = 0; i < kMostActions && !in->empty(); ++i) {
    const uint8_t action = in->byte(), argument = in->byte();
    switch (action % 12) {
      case 0:
        return static_cast<int8_t>(argument);
      case 1:
        if (void* block = firmware.allocate(uint64_t{1} << argument % 24, uint64_t{1} << argument / 32, argument & 1)) {
          blocks.push_back(block);
        }
        break;
      case 2:
        if (!blocks.empty()) firmware.release(blocks[argument % blocks.size()]);
        break;
      case 3:
        for (int k = 0; k < argument; ++k) firmware_printf("%0*d\n", argument * 2, k);
        break;
      case 4:
        if (c7x_tensor* const tensor = make_output(in)) {
          *result = any(C7X_TYPE_TENSOR, 0);
          result->v.ptr = tensor;
        }
        break;
      case 5:
        if (!put_array(in, argument, result)) return C7X_STATUS_ERR_NOMEM;
        break;
      case 6:
        call_builtin(in, argument);
        break;
      case 7: {
        TVMDSPRegFileInit(registers, argument % 5);
        const c7x_any value = pick(argument);
        if (value.type_index < C7X_TYPE_OBJECT) TVMDSPRegSetAny(argument % 7 - 1, &value);
        break;
      }
      case 8:
        TVMDSPRegFileCleanup();
        break;
      case 9:
        if (blocks.size() >= 2) tvm_dsp_dma_copy(argument & 1, blocks[0], blocks[1], argument & 1 ? -1 : 1, 0);
        tvm_dsp_dma_wait(argument & 1, argument - 1);
        break;
      case 10:
        if (firmware.options().strict) {
          *result = (argument & 0x80) != 0 ? pick(argument) : any(static_cast<int32_t>(number(argument)), number(in->byte()));
        }
        break;
      default:
        firmware.release(firmware.options().strict ? reinterpret_cast<void*>(uintptr_t{argument} * 4096) : nullptr);
        break;
    }
  }
  return 0;
}

int run_entry(uint64_t, c7x_any* inputs, int count, c7x_any* constants, c7x_any* result) {
  for (int i = 0; i < count; ++i) {
    const auto* const tensor = static_cast<const c7x_tensor*>(inputs[i].v.ptr);
    if (inputs[i].type_index != C7X_TYPE_TENSOR || tensor->ndim < 0 || tensor->ndim > C7X_WIRE_MAX_RANK) abort();
  }
  if (constants != nullptr && firmware.memory().find(constants, sizeof *constants) == nullptr) abort();
  if (result->type_index != C7X_TYPE_NONE || result->v.ptr != nullptr) abort();
  Input in(script.data(), script.size());
  const int returned = act(&in, result);
  for (c7x_any& object : objects) TVMFFIAnyClear(&object);
  objects.clear();
  return returned;
}

void run_function(uint64_t) { firmware_printf("called\n"); }

void run_deleter(void (*deleter)(void*), void* object) {
  // Only builtins make objects with deleters here, and the script gives them back in the call that made them.
  for (const c7x_any& made : objects) {
    if (made.v.ptr == object) {
      deleter(object);
      return;
    }
  }
  // A part of one of them, as the storage of a tensor: alive because its owner is.
  if (firmware.memory().region(vdsp::kMainPool).contains(object, sizeof(c7x_object)) && !objects.empty()) {
    deleter(object);
    return;
  }
  crash();
}

// ---- messages ----

void check_answer(const uint8_t* request, const uint8_t* response, size_t size) {
  c7x_msg_header asked, answered;
  if (size < sizeof answered || size > vdsp::kMaxResponse) abort();
  std::memcpy(&asked, request, sizeof asked);
  std::memcpy(&answered, response, sizeof answered);
  const bool inference = asked.type == C7X_MSG_INFER_LARGE && answered.type == C7X_MSG_INFER_RESPONSE;
  if (answered.seq != asked.seq || answered.len != size || answered.status > 0 || answered.status < C7X_STATUS_ERR_TENSOR ||
      (answered.type != (asked.type | C7X_MSG_RESPONSE) && !inference)) {
    abort();
  }
  if (answered.type == C7X_MSG_INFER_RESPONSE && size >= sizeof(c7x_infer_response)) {
    c7x_infer_response answer;
    std::memcpy(&answer, response, sizeof answer);
    if (answer.printf_size > C7X_PRINTF_CAPACITY || answer.num_outputs > C7X_MAX_ARRAY) abort();
    if (answer.descs_addr != 0 &&
        firmware.memory().at(vdsp::kResult, answer.descs_addr, answer.descs_size) == nullptr) {
      abort();
    }
  }
  for (const vdsp::Pool* const pool : {&firmware.state().main, &firmware.state().fast}) {
    if (pool->top > pool->size || pool->num_free > pool->num_blocks) abort();
  }
}

void send(std::vector<uint8_t> message) {
  if (message.size() < sizeof(c7x_msg_header)) return;
  c7x_msg_header header;
  std::memcpy(&header, message.data(), sizeof header);
  // Both forms have their flags there.
  constexpr size_t kFlags = offsetof(c7x_infer_request, flags);
  static_assert(kFlags == offsetof(c7x_infer_large_request, flags), "the same place");
  if ((header.type == C7X_MSG_INFER || header.type == C7X_MSG_INFER_LARGE) && message.size() >= kFlags + 2) {
    message[kFlags] %= kMostRepeats;
    message[kFlags + 1] = 0;
  }
  message.shrink_to_fit();
  static uint8_t response[vdsp::kMaxResponse];
  std::memset(response, 0, sizeof response);
  volatile size_t size = firmware.handle_light(message.data(), message.size(), response);
  if (size == 0) {
    if (setjmp(out_of_module) == 0) {
      size = firmware.handle(message.data(), message.size(), response);
    } else {
      objects.clear();
      vdsp::drain_dma();
      size = firmware.answer_for_crash(message.data(), message.size(), "ended", response);
    }
  }
  check_answer(message.data(), response, size);
}

void stage_module(uint8_t which) {
  static std::vector<uint8_t> modules[2];
  if (modules[0].empty()) {
    Builder builder = module_for(vdsp::kHostMachine);
    modules[0] = builder.build();
    // One constant, the integer 7.
    builder.weights = {1, 0, 0, 0, 0, 0, 0, 0, C7X_TYPE_INT, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0};
    modules[1] = builder.build();
  }
  uint8_t* const staging = firmware.memory().region(vdsp::kStaging).host;
  std::memcpy(staging, modules[which % 2].data(), modules[which % 2].size());
}

void start(uint8_t bits) {
  vdsp::Options options;
  options.strict = (bits & 1) == 0;
  options.has_tidl = (bits & 2) == 0;
  options.oom_at = (bits & 4) != 0 ? 3 : 0;
  static bool started = false;
  if (!started) {
    if (!firmware.start(nullptr, vdsp::Sharing::kSealed, C7X_CARVEOUT_ADDR, options)) abort();
    firmware.set_calls({run_entry, run_function, run_deleter, end_process});
    started = true;
  }
  firmware.reset(options);
  // A real one is large enough to make a run slow.
  firmware.state().main.size = kPoolBytes;
  std::memset(firmware.memory().region(vdsp::kStaging).host, 0, kStagingUsed);
  std::memset(registers, 0, sizeof registers);
  script.clear();
  objects.clear();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  start(in.byte());
  while (!in.empty()) {
    switch (in.byte() % 4) {
      case 0: {
        size_t length = in.word() & 0x3FF;
        const uint8_t* const bytes = in.bytes(&length);
        send(std::vector<uint8_t>(bytes, bytes + length));
        break;
      }
      case 1: {
        const size_t offset = in.word() * 16;
        size_t length = in.word();
        const uint8_t* const bytes = in.bytes(&length);
        if (length != 0) std::memcpy(firmware.memory().region(vdsp::kStaging).host + offset, bytes, length);
        break;
      }
      case 2:
        stage_module(in.byte());
        break;
      default: {
        size_t length = in.byte();
        const uint8_t* const bytes = in.bytes(&length);
        script.assign(bytes, bytes + length);
        break;
      }
    }
  }
  return 0;
}
