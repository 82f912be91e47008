// The reader of weights.bin (native/runtime/c7x_weights.c).
//
// The input: two bytes of a place, one byte that is added there between measuring and loading (the virtual DSP's clients
// can change the bytes at any time), and the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "c7x_weights.h"

namespace {

volatile uint8_t sink;

void touch(const void* data, size_t size) {
  for (size_t i = 0; i < size; ++i) sink = static_cast<const uint8_t*>(data)[i];
}

void check_constants(const c7x_any* constants, uint64_t count, const uint8_t* file, size_t size) {
  for (uint64_t i = 0; i < count; ++i) {
    const c7x_any& value = constants[i];
    if (value.type_index == C7X_TYPE_TENSOR) {
      const auto* tensor = static_cast<const c7x_tensor*>(value.v.ptr);
      uint64_t bytes = (uint64_t{tensor->dtype.bits} * tensor->dtype.lanes + 7) / 8;
      for (int32_t k = 0; k < tensor->ndim; ++k) bytes *= static_cast<uint64_t>(tensor->shape[k]);
      const auto* data = static_cast<const uint8_t*>(tensor->data);
      if (data < file || data + bytes > file + size) abort();
      touch(data, bytes);
    } else if (value.type_index == C7X_TYPE_SHAPE) {
      const auto* shape = static_cast<const c7x_shape*>(value.v.ptr);
      touch(shape->data, shape->size * sizeof(int64_t));
    } else if (value.type_index == C7X_TYPE_STR) {
      const auto* text = static_cast<const c7x_str*>(value.v.ptr);
      if (text->data[text->size] != '\0') abort();
      touch(text->data, text->size);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t place = data[0] | data[1] << 8;
  const uint8_t change = data[2];
  size -= 3;
  const std::unique_ptr<uint8_t[]> file(new uint8_t[size + (size == 0)]);
  std::memcpy(file.get(), data + 3, size);

  c7x_weights_layout layout = {};
  int status = c7x_weights_scan(file.get(), size, &layout);
  if (c7x_weights_status_text(status) == nullptr || layout.offset > size) abort();
  if (status != C7X_WEIGHTS_OK) return 0;
  if (place < size) file[place] = static_cast<uint8_t>(file[place] + change);
  const size_t needed = static_cast<size_t>(layout.memory_bytes);
  const std::unique_ptr<uint8_t[]> memory(new uint8_t[needed + (needed == 0)]);
  c7x_any* constants = nullptr;
  const uint64_t count = layout.num_constants;
  status = c7x_weights_load(file.get(), size, &layout, memory.get(), needed, &constants);
  if ((status != C7X_WEIGHTS_OK || count == 0) != (constants == nullptr)) abort();
  if (status == C7X_WEIGHTS_OK && count != 0) check_constants(constants, count, file.get(), size);
  return 0;
}
