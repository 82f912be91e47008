// The VM builtins in packed form (module ABI, section 8.4): int (const Any* arguments, int32 count, Any* result).
//
// The ABI gives names and signature; what the arguments are is that of Relax's builtins of the same names in Apache TVM
// (vm.builtin.alloc_storage and so on). A first argument that is the VM's context, an opaque pointer or None, may be there
// or not, and so may what follows the arguments that matter (memory scopes, error texts). Objects in `result` are new
// references.
#include <cstring>

#include "c7x_abi.h"
#include "c7x_protocol.h"
#include "firmware.h"

extern "C" {
c7x_storage* TVMDSPStorageAlloc(size_t bytes, c7x_device device, c7x_dtype dtype);
c7x_tensor* TVMDSPStorageAllocNDArray(c7x_storage* storage, int64_t offset, const int64_t* shape, int32_t ndim,
                                      c7x_dtype dtype);
c7x_tensor* TVMDSPBuiltinAllocShapeHeap(int64_t slots);
c7x_shape* TVMDSPBuiltinMakeShape(c7x_tensor* heap, int32_t count, const int32_t* codes, const int64_t* values);
int TVMDSPBuiltinMatchShape(const c7x_any* value, c7x_tensor* heap, int32_t count, const int32_t* codes,
                            const int64_t* values);
int TVMDSPBuiltinCheckTensorInfo(const c7x_tensor* tensor, int32_t ndim, c7x_dtype dtype);
c7x_tensor* TVMDSPBuiltinReshapeDirect(c7x_tensor* tensor, const int64_t* shape, int32_t ndim);
void TVMFFIAnyCopy(c7x_any* source, c7x_any* destination);
void TVMFFIObjectIncRef(void* object);
void TVMFFIObjectDecRef(void* object);
}

namespace {

constexpr int kWrong = C7X_STATUS_ERR_GENERIC;
constexpr int kNoMemory = C7X_STATUS_ERR_NOMEM;
constexpr uint64_t kObjectAlignment = 128;
constexpr int kMain = 1;

// The codes of MakeShape or MatchShape: those that use a slot of the heap, and the last one.
struct CodeSet {
  int32_t store, load, last;
};
constexpr CodeSet kMakeCodes = {1, 1, 1}, kMatchCodes = {1, 3, 3};

// The arguments, one after the other; what is missing or of another type makes the call wrong.
class Arguments {
 public:
  Arguments(const c7x_any* values, int32_t count) : values_(values), left_(values == nullptr ? 0 : count) {}

  const c7x_any* any() {
    if (left_ <= 0) {
      wrong_ = true;
      return nullptr;
    }
    left_ -= 1;
    return values_++;
  }

  void skip_context() {
    if (left_ > 0 && (values_->type_index == C7X_TYPE_OPAQUE_PTR || values_->type_index == C7X_TYPE_NONE)) {
      any();
    }
  }

  int64_t integer() {
    const c7x_any* const value = typed(C7X_TYPE_INT);
    return value == nullptr ? 0 : value->v.i64;
  }

  int32_t small_integer(int64_t low, int64_t high) {
    const int64_t value = integer();
    wrong_ = wrong_ || value < low || value > high;
    return wrong_ ? 0 : static_cast<int32_t>(value);
  }

  c7x_dtype dtype() {
    const c7x_any* const value = typed(C7X_TYPE_DTYPE);
    return value == nullptr ? c7x_dtype{} : value->v.dtype;
  }

  template <typename T>
  T* object(int32_t type) {
    const c7x_any* const value = typed(type);
    wrong_ = wrong_ || value->v.ptr == nullptr;
    return wrong_ ? nullptr : static_cast<T*>(value->v.ptr);
  }

  // A shape of at most the rank an object has room for.
  c7x_shape* shape() {
    auto* const found = object<c7x_shape>(C7X_TYPE_SHAPE);
    wrong_ = wrong_ || found->size > C7X_MAX_RANK;
    return wrong_ ? nullptr : found;
  }

  // The shape heap; None when no slot of it is used.
  c7x_tensor* heap() {
    if (left_ > 0 && values_->type_index == C7X_TYPE_NONE) {
      any();
      return nullptr;
    }
    return object<c7x_tensor>(C7X_TYPE_TENSOR);
  }

  bool next_is(int32_t type) const { return left_ > 0 && values_->type_index == type; }
  int32_t left() const { return left_; }
  bool wrong() const { return wrong_; }

 private:
  const c7x_any* typed(int32_t type) {
    const c7x_any* const value = any();
    wrong_ = wrong_ || value->type_index != type;
    return wrong_ ? nullptr : value;
  }

  const c7x_any* values_;
  int32_t left_;
  bool wrong_ = false;
};

// Pairs of code and value, one for each dimension. False when one is missing or names a slot that the heap has not.
struct Codes {
  int32_t count = 0;
  int32_t codes[C7X_MAX_RANK] = {};
  int64_t values[C7X_MAX_RANK] = {};

  bool read(Arguments* arguments, const c7x_tensor* heap, const CodeSet& set) {
    count = arguments->small_integer(0, C7X_MAX_RANK);
    const int64_t slots = heap == nullptr || heap->ndim != 1 || heap->dtype.bits != 64 ? 0 : heap->shape[0];
    for (int32_t i = 0; i < count; ++i) {
      codes[i] = arguments->small_integer(0, set.last);
      values[i] = arguments->integer();
      if ((codes[i] == set.store || codes[i] == set.load) && (values[i] < 0 || values[i] >= slots)) {
        return false;
      }
    }
    return !arguments->wrong();
  }
};

int give(c7x_any* result, void* object) {
  std::memset(result, 0, sizeof *result);
  if (object == nullptr) {
    return kNoMemory;
  }
  result->type_index = static_cast<c7x_object*>(object)->type_index;
  result->v.ptr = object;
  return 0;
}

void delete_array(void* self) {
  auto* const array = static_cast<c7x_array*>(self);
  for (int32_t i = 0; i < array->size; ++i) {
    if (array->elements[i].type_index >= C7X_TYPE_OBJECT && array->elements[i].v.ptr != nullptr) {
      TVMFFIObjectDecRef(array->elements[i].v.ptr);
    }
  }
  vdsp::firmware.release(array);
}

}  // namespace

extern "C" {

int TVMDSPBuiltinAllocStoragePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  arguments.skip_context();
  uint64_t bytes = 1;
  if (arguments.next_is(C7X_TYPE_INT)) {
    const int64_t length = arguments.integer();
    bytes = length < 0 ? UINT64_MAX : static_cast<uint64_t>(length);
  } else if (const c7x_shape* const shape = arguments.shape()) {
    for (uint64_t i = 0; i < shape->size; ++i) {
      if (shape->data[i] < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(shape->data[i]), &bytes)) {
        return kWrong;
      }
    }
  }
  const int32_t device = arguments.small_integer(INT32_MIN, INT32_MAX);
  const c7x_dtype dtype = arguments.dtype();
  const uint64_t element = (uint64_t{dtype.bits} * dtype.lanes + 7) / 8;
  if (arguments.wrong() || element == 0) {
    return kWrong;
  }
  if (__builtin_mul_overflow(bytes, element, &bytes)) {
    return kNoMemory;
  }
  return give(result, TVMDSPStorageAlloc(bytes, c7x_device{device, 0}, dtype));
}

int TVMDSPBuiltinAllocTensorPacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  auto* const storage = arguments.object<c7x_storage>(C7X_TYPE_STORAGE);
  const int64_t offset = arguments.integer();
  const c7x_shape* const shape = arguments.shape();
  const c7x_dtype dtype = arguments.dtype();
  if (arguments.wrong() || offset < 0) {
    return kWrong;
  }
  return give(result, TVMDSPStorageAllocNDArray(storage, offset, shape->data, static_cast<int32_t>(shape->size), dtype));
}

int TVMDSPBuiltinAllocShapeHeapPacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  arguments.skip_context();
  const int64_t slots = arguments.integer();
  if (arguments.wrong() || slots < 0 || slots > INT32_MAX) {
    return kWrong;
  }
  return give(result, TVMDSPBuiltinAllocShapeHeap(slots));
}

int TVMDSPBuiltinMakeShapePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  c7x_tensor* const heap = arguments.heap();
  Codes codes;
  if (arguments.wrong() || !codes.read(&arguments, heap, kMakeCodes)) {
    return kWrong;
  }
  return give(result, TVMDSPBuiltinMakeShape(heap, codes.count, codes.codes, codes.values));
}

int TVMDSPBuiltinMatchShapePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  const c7x_any* const value = arguments.any();
  c7x_tensor* const heap = arguments.wrong() ? nullptr : arguments.heap();
  Codes codes;
  if (arguments.wrong() || value->v.ptr == nullptr || !codes.read(&arguments, heap, kMatchCodes)) {
    return kWrong;
  }
  std::memset(result, 0, sizeof *result);
  return TVMDSPBuiltinMatchShape(value, heap, codes.count, codes.codes, codes.values);
}

int TVMDSPBuiltinCheckTensorInfoPacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  const auto* const tensor = arguments.object<c7x_tensor>(C7X_TYPE_TENSOR);
  const int32_t ndim = arguments.small_integer(-1, INT32_MAX);
  const c7x_dtype dtype = arguments.next_is(C7X_TYPE_DTYPE) ? arguments.dtype() : c7x_dtype{};
  if (arguments.wrong()) {
    return kWrong;
  }
  std::memset(result, 0, sizeof *result);
  return TVMDSPBuiltinCheckTensorInfo(tensor, ndim, dtype);
}

int TVMDSPBuiltinNullValuePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  (void)values;
  (void)count;
  std::memset(result, 0, sizeof *result);
  return 0;
}

int TVMDSPBuiltinCopyPacked(const c7x_any* values, int32_t count, c7x_any* result) {
  if (values == nullptr || count < 1) {
    return kWrong;
  }
  c7x_any value = values[0];
  TVMFFIAnyCopy(&value, result);
  return 0;
}

int TVMDSPBuiltinMakeTuplePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  if (count < 0 || count > C7X_MAX_ARRAY || (values == nullptr && count > 0)) {
    return kWrong;
  }
  auto* const array = static_cast<c7x_array*>(vdsp::firmware.allocate(sizeof(c7x_array), kObjectAlignment, kMain));
  if (array == nullptr) {
    return give(result, nullptr);
  }
  std::memset(array, 0, sizeof *array);
  array->header = {C7X_TYPE_ARRAY, 1, delete_array};
  array->size = count;
  for (int32_t i = 0; i < count; ++i) {
    c7x_any value = values[i];
    TVMFFIAnyCopy(&value, &array->elements[i]);
  }
  return give(result, array);
}

int TVMDSPBuiltinReshapePacked(const c7x_any* values, int32_t count, c7x_any* result) {
  Arguments arguments(values, count);
  auto* const tensor = arguments.object<c7x_tensor>(C7X_TYPE_TENSOR);
  const c7x_shape* const shape = arguments.shape();
  if (arguments.wrong()) {
    return kWrong;
  }
  c7x_tensor* const view = TVMDSPBuiltinReshapeDirect(tensor, shape->data, static_cast<int32_t>(shape->size));
  if (view != nullptr) {
    // Unlike the direct form's, whose caller keeps the source.
    view->storage_ref = tensor;
    TVMFFIObjectIncRef(tensor);
  }
  return give(result, view);
}

}  // extern "C"
