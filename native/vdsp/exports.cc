// What the firmware offers to modules (module ABI, section 8), except the compute kernels, which native/kernels holds.
#include "c7x_platform.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "export_table.h"
#include "firmware.h"

using vdsp::firmware;

extern "C" void TVMFFIObjectDecRef(void* pointer);

namespace {

constexpr uint64_t kObjectAlignment = 128;
constexpr uint64_t kFastStorageBytes = 32768;
constexpr int kFast = 0;
constexpr int kMain = 1;
constexpr uint32_t kMaxSystemSymbols = 128;
constexpr size_t kMaxLogLine = 256;

void print(const char* format, va_list arguments) {
  char line[C7X_PRINTF_MAX_CALL + 1];
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  if (length > 0) {
    firmware.text(line, static_cast<size_t>(length) < sizeof line ? static_cast<size_t>(length) : sizeof line - 1);
  }
}

void trace(const char* format, va_list arguments) {
  char line[kMaxLogLine];
  std::vsnprintf(line, sizeof line, format, arguments);
  std::fprintf(stderr, "[DSP] %s\n", line);
}

// A copy on the queue that has not been waited for. Strict mode makes it late, so that reading too early shows.
struct PendingCopy {
  void* dst;
  const void* src;
  size_t bytes;
};
PendingCopy pending;

void drain() {
  if (pending.bytes != 0) {
    std::memcpy(pending.dst, pending.src, pending.bytes);
    pending.bytes = 0;
  }
}

template <typename T>
T* new_object(int32_t type, void (*deleter)(void*)) {
  auto* const object = static_cast<T*>(firmware.allocate(sizeof(T), kObjectAlignment, kMain));
  if (object != nullptr) {
    std::memset(object, 0, sizeof *object);
    object->header.type_index = type;
    object->header.ref_counter = 1;
    object->header.deleter = deleter;
  }
  return object;
}

void delete_storage(void* self) {
  auto* const storage = static_cast<c7x_storage*>(self);
  firmware.release(storage->data);
  firmware.release(storage);
}

void delete_tensor(void* self) {
  auto* const tensor = static_cast<c7x_tensor*>(self);
  if (tensor->storage_ref != nullptr) {
    TVMFFIObjectDecRef(tensor->storage_ref);
  }
  firmware.release(tensor);
}

void delete_plain(void* self) { firmware.release(self); }

}  // namespace

namespace vdsp {
void drain_dma() { drain(); }
}  // namespace vdsp

extern "C" {

// ---- 8.1 C library ----

void* firmware_memcpy(void* dst, const void* src, size_t bytes) { return std::memcpy(dst, src, bytes); }
void* firmware_memmove(void* dst, const void* src, size_t bytes) { return std::memmove(dst, src, bytes); }
void* firmware_memset(void* dst, int value, size_t bytes) { return std::memset(dst, value, bytes); }
int firmware_memcmp(const void* a, const void* b, size_t bytes) { return std::memcmp(a, b, bytes); }

int firmware_vprintf(const char* format, va_list arguments) {
  print(format, arguments);
  return 0;
}

int firmware_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
  return 0;
}

int firmware_vsnprintf(char* text, size_t size, const char* format, va_list arguments) {
  return std::vsnprintf(text, size, format, arguments);
}

int firmware_snprintf(char* text, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, size, format, arguments);
  va_end(arguments);
  return length;
}

int firmware_fputs(const char* text, void* stream) {
  (void)stream;
  firmware.text(text, std::strlen(text));
  return 0;
}

int firmware_puts(const char* text) {
  firmware_fputs(text, nullptr);
  firmware.text("\n", 1);
  return 0;
}

int firmware_fflush(void* stream) {
  (void)stream;
  return 0;
}

void* firmware_malloc(size_t bytes) { return firmware.allocate(bytes, kObjectAlignment, kMain); }

void* firmware_calloc(size_t count, size_t bytes) {
  size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    return nullptr;
  }
  void* const memory = firmware_malloc(total);
  return memory == nullptr ? nullptr : std::memset(memory, 0, total);
}

void firmware_free(void* pointer) { firmware.release(pointer); }

void firmware_abort() { firmware.violation("the module called abort"); }

// ---- 8.2 backend ----

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits) {
  (void)device_type;
  (void)device_id;
  (void)dtype_code;
  (void)dtype_bits;
  return firmware.allocate(bytes, kObjectAlignment, kMain);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* pointer) {
  (void)device_type;
  (void)device_id;
  firmware.release(pointer);
  return 0;
}

int TVMBackendGetFuncFromEnv(void* module, const char* name, void* out) {
  (void)module;
  (void)name;
  (void)out;
  return -1;
}

int TVMBackendGetFuncFromGlobalRegistry(const char* name, void* out) {
  (void)name;
  (void)out;
  return -1;
}

int TVMBackendRegisterSystemLibSymbol(const char* name, void* address) {
  (void)name;
  (void)address;
  if (firmware.state().system_symbols == kMaxSystemSymbols) {
    return -1;
  }
  firmware.state().system_symbols += 1;
  return 0;
}

int TVMBackendParallelLaunch(int (*task)(int, void*, void*), void* data, int count) {
  struct Environment {
    void* sync_handle;
    int32_t num_task;
  } environment = {nullptr, count > 0 ? count : 1};
  for (int i = 0; i < environment.num_task; ++i) {
    if (const int status = task(i, &environment, data)) {
      return status;
    }
  }
  return 0;
}

int TVMBackendParallelBarrier(int task, void* environment) {
  (void)task;
  (void)environment;
  return 0;
}

// ---- 8.5 FFI helpers ----

void TVMFFIObjectIncRef(void* object) { static_cast<c7x_object*>(object)->ref_counter += 1; }

void TVMFFIObjectDecRef(void* pointer) {
  auto* const object = static_cast<c7x_object*>(pointer);
  object->ref_counter -= 1;
  if (object->ref_counter == 0) {
    firmware.destroy(object);
  }
}

int TVMFFIObjectFree(void* object) {
  TVMFFIObjectDecRef(object);
  return 0;
}

void TVMFFIAnyMove(c7x_any* source, c7x_any* destination) {
  *destination = *source;
  std::memset(source, 0, sizeof *source);
}

void TVMFFIAnyCopy(c7x_any* source, c7x_any* destination) {
  *destination = *source;
  if (source->type_index >= C7X_TYPE_OBJECT && source->v.ptr != nullptr) {
    TVMFFIObjectIncRef(source->v.ptr);
  }
}

void TVMFFIAnyClear(c7x_any* value) {
  if (value->type_index >= C7X_TYPE_OBJECT && value->v.ptr != nullptr) {
    TVMFFIObjectDecRef(value->v.ptr);
  }
  std::memset(value, 0, sizeof *value);
}

// ---- 8.3 VM builtins ----

c7x_storage* TVMDSPStorageAlloc(size_t bytes, c7x_device device, c7x_dtype dtype) {
  (void)dtype;
  auto* const storage = new_object<c7x_storage>(C7X_TYPE_STORAGE, delete_storage);
  if (storage == nullptr) {
    return nullptr;
  }
  storage->pool = kFast;
  storage->data = bytes <= kFastStorageBytes ? firmware.allocate(bytes, kObjectAlignment, kFast) : nullptr;
  if (storage->data == nullptr) {
    storage->pool = kMain;
    storage->data = firmware.allocate(bytes, kObjectAlignment, kMain);
  }
  if (storage->data == nullptr) {
    firmware.release(storage);
    return nullptr;
  }
  storage->size = bytes;
  storage->device = device;
  return storage;
}

c7x_storage* TVMDSPBuiltinAllocStorage(int64_t bytes, int32_t device, c7x_dtype dtype) {
  return bytes < 0 ? nullptr : TVMDSPStorageAlloc(static_cast<size_t>(bytes), c7x_device{device, 0}, dtype);
}

static c7x_tensor* make_tensor(void* data, const int64_t* shape, int32_t ndim, c7x_dtype dtype) {
  if (ndim < 0 || ndim > C7X_MAX_RANK || (ndim > 0 && shape == nullptr)) {
    return nullptr;
  }
  auto* const tensor = new_object<c7x_tensor>(C7X_TYPE_TENSOR, delete_tensor);
  if (tensor != nullptr) {
    tensor->data = data;
    tensor->ndim = ndim;
    tensor->dtype = dtype;
    tensor->shape = tensor->shape_storage;
    for (int32_t i = 0; i < ndim; ++i) {
      tensor->shape_storage[i] = shape[i];
    }
  }
  return tensor;
}

c7x_tensor* TVMDSPStorageAllocNDArray(c7x_storage* storage, int64_t offset, const int64_t* shape, int32_t ndim,
                                      c7x_dtype dtype) {
  if (storage == nullptr || offset < 0) {
    return nullptr;
  }
  c7x_tensor* const tensor = make_tensor(static_cast<uint8_t*>(storage->data) + offset, shape, ndim, dtype);
  if (tensor != nullptr) {
    tensor->device = storage->device;
    tensor->storage_ref = storage;
    TVMFFIObjectIncRef(storage);
  }
  return tensor;
}

c7x_tensor* TVMDSPBuiltinAllocTensor(c7x_storage* storage, int64_t offset, const int64_t* shape, int32_t ndim,
                                     c7x_dtype dtype) {
  return TVMDSPStorageAllocNDArray(storage, offset, shape, ndim, dtype);
}

c7x_tensor* TVMDSPBuiltinAllocShapeHeap(int64_t slots) {
  const c7x_dtype int64 = {C7X_DTYPE_INT, 64, 1};
  c7x_storage* const storage = TVMDSPBuiltinAllocStorage(slots * int64_t{sizeof(int64_t)}, 0, int64);
  if (storage == nullptr) {
    return nullptr;
  }
  c7x_tensor* const heap = TVMDSPStorageAllocNDArray(storage, 0, &slots, 1, int64);
  TVMFFIObjectDecRef(storage);
  return heap;
}

c7x_shape* TVMDSPBuiltinMakeShape(c7x_tensor* heap, int32_t count, const int32_t* codes, const int64_t* values) {
  if (count < 0 || count > C7X_MAX_RANK) {
    return nullptr;
  }
  auto* const shape = new_object<c7x_shape>(C7X_TYPE_SHAPE, delete_plain);
  if (shape == nullptr) {
    return nullptr;
  }
  shape->data = shape->inline_data;
  shape->size = static_cast<uint64_t>(count);
  for (int32_t i = 0; i < count; ++i) {
    shape->inline_data[i] = codes[i] == 0 ? values[i] : static_cast<const int64_t*>(heap->data)[values[i]];
  }
  return shape;
}

int TVMDSPBuiltinMatchShape(const c7x_any* value, c7x_tensor* heap, int32_t count, const int32_t* codes,
                            const int64_t* values) {
  const int64_t* dims = nullptr;
  int64_t ndim = 0;
  if (value->type_index == C7X_TYPE_TENSOR) {
    const auto* const tensor = static_cast<const c7x_tensor*>(value->v.ptr);
    dims = tensor->shape;
    ndim = tensor->ndim;
  } else if (value->type_index == C7X_TYPE_SHAPE) {
    const auto* const shape = static_cast<const c7x_shape*>(value->v.ptr);
    dims = shape->data;
    ndim = static_cast<int64_t>(shape->size);
  }
  if (dims == nullptr || ndim != count) {
    return -1;
  }
  enum { kAssertImmediate, kStore, kNothing, kAssertLoaded };
  for (int32_t i = 0; i < count; ++i) {
    auto* const slots = heap == nullptr ? nullptr : static_cast<int64_t*>(heap->data);
    if (codes[i] == kStore) {
      slots[values[i]] = dims[i];
    } else if ((codes[i] == kAssertImmediate && dims[i] != values[i]) ||
               (codes[i] == kAssertLoaded && dims[i] != slots[values[i]])) {
      return -1;
    }
  }
  return 0;
}

int TVMDSPBuiltinCheckTensorInfo(const c7x_tensor* tensor, int32_t ndim, c7x_dtype dtype) {
  const bool any_dtype = dtype.bits == 0;
  return (ndim < 0 || tensor->ndim == ndim) &&
                 (any_dtype || (tensor->dtype.code == dtype.code && tensor->dtype.bits == dtype.bits))
             ? 0
             : -1;
}

int TVMDSPBuiltinCheckShapeInfo(const c7x_shape* shape, int32_t ndim) {
  return ndim < 0 || shape->size == static_cast<uint64_t>(ndim) ? 0 : -1;
}

void TVMDSPBuiltinNullValue(c7x_any* value) { std::memset(value, 0, sizeof *value); }

c7x_tensor* TVMDSPBuiltinReshapeDirect(c7x_tensor* tensor, const int64_t* shape, int32_t ndim) {
  return make_tensor(tensor->data, shape, ndim, tensor->dtype);
}

c7x_tensor* TVMDSPBuiltinMakeTupleDirect(c7x_any* values, int32_t count) {
  return count > 0 ? static_cast<c7x_tensor*>(values[0].v.ptr) : nullptr;
}

void TVMDSPRegFileInit(c7x_any* registers, int32_t count) {
  firmware.state().registers = registers;
  firmware.state().num_registers = count < 0 ? 0 : count;
}

void TVMDSPRegSetAny(int32_t index, const c7x_any* value) {
  if (firmware.state().registers != nullptr && index >= 0 && index < firmware.state().num_registers) {
    firmware.state().registers[index] = *value;
  }
}

int TVMDSPRegFileCleanup() { return firmware.force_free_registers(); }

// ---- 8.6 DMA, L2, platform ----

int tvm_dsp_dma_copy(int queue, void* dst, const void* src, int bytes, int bypass_cache) {
  (void)bypass_cache;
  if (queue != 0 || bytes < 0 || (bytes > 0 && (dst == nullptr || src == nullptr))) {
    return -1;
  }
  drain();
  pending = {dst, src, static_cast<size_t>(bytes)};
  if (!firmware.options().strict) {
    drain();
  }
  return 0;
}

int tvm_dsp_dma_wait(int queue, int max_inflight) {
  if (queue != 0 || max_inflight < 0) {
    return -1;
  }
  if (max_inflight == 0) {
    drain();
  }
  return 0;
}

uint8_t* tvm_dsp_get_l2_base() { return firmware.memory().region(vdsp::kL2).host; }
uint32_t tvm_dsp_get_l2_size() { return static_cast<uint32_t>(C7X_L2_SIZE); }
void* tvm_dsp_alloc(size_t bytes, size_t alignment, int pool) { return firmware.allocate(bytes, alignment, pool); }
void tvm_dsp_free(void* pointer) { firmware.release(pointer); }
size_t tvm_dsp_get_free_memory(int pool) { return static_cast<size_t>(firmware.available(pool)); }

void tvm_dsp_cache_writeback(void*, size_t) {}
void tvm_dsp_cache_invalidate(void*, size_t) {}
void tvm_dsp_cache_writeback_invalidate(void*, size_t) {}

void tvm_dsp_log(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  trace(format, arguments);
  va_end(arguments);
}

void DebugP_log(char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  trace(format, arguments);
  va_end(arguments);
}

void dsp_trace_msg(const char* text) { std::fprintf(stderr, "[DSP] %s\n", text); }

c7x_any* TVMDSPGetConstant(int index) {
  const vdsp::State& state = firmware.state();
  return index >= 0 && index < state.num_loaded_constants ? state.loaded_constants + index : nullptr;
}

c7x_any* TVMDSPGetAllConstants(int* count) {
  *count = firmware.state().num_loaded_constants;
  return firmware.state().loaded_constants;
}

void CacheP_inv(void*, uint32_t, uint32_t) {}
void CacheP_wb(void*, uint32_t, uint32_t) {}
void CacheP_wbInv(void*, uint32_t, uint32_t) {}

// ---- 8.7 TIDL support ----

extern uint64_t g_l1_mem_addr, g_l1_mem_size, g_l2_mem_addr, g_l2_mem_size, g_l3_mem_addr, g_l3_mem_size;
extern uint64_t TIDL_VISION_FXNS;
uint64_t g_l1_mem_addr, g_l1_mem_size, g_l2_mem_addr, g_l2_mem_size, g_l3_mem_addr, g_l3_mem_size;
uint64_t TIDL_VISION_FXNS;

void* getUDMADrvObjPtr() { firmware.violation("the module asks for the DMA driver, which the virtual DSP does not have"); }
void* appUdmaGetObj() { return getUDMADrvObjPtr(); }

void* appMemAlloc(uint32_t heap, uint32_t bytes, uint32_t alignment) {
  (void)heap;
  return firmware.allocate(bytes, alignment == 0 ? kObjectAlignment : alignment, kMain);
}

int32_t appMemFree(uint32_t heap, void* pointer, uint32_t bytes) {
  (void)heap;
  (void)bytes;
  firmware.release(pointer);
  return 0;
}

int32_t TVM_lockInterrupts() { return 0; }
void TVM_unlockInterrupts(int32_t) {}
void TVM_cacheWbInv() {}
int32_t TVM_cacheWbInvRegion(void*, uint32_t) { return 0; }

}  // extern "C"

namespace vdsp {

// Data exports hold addresses of this process, as the firmware's hold the DSP's.
void set_memory_exports() {
  const auto address = [](RegionIndex index) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(firmware.memory().region(index).host));
  };
  g_l1_mem_addr = address(kAux) + C7X_L2_AUX_SIZE;
  g_l1_mem_size = C7X_L1_AUX_SIZE;
  g_l2_mem_addr = address(kL2);
  g_l2_mem_size = C7X_L2_SIZE;
  g_l3_mem_addr = address(kAux);
  g_l3_mem_size = C7X_L2_AUX_SIZE;
}

}  // namespace vdsp
