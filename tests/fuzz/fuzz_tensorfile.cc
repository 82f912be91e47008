// The reader of TVMT tensor files (native/runtime/c7x_tensorfile.c). What it takes is written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "c7x_tensorfile.h"

namespace {

constexpr uint32_t kCapacity = 16;

void check_same(const c7x_tensorfile_tensor& a, const c7x_tensorfile_tensor& b) {
  if (a.code != b.code || a.bits != b.bits || a.ndim != b.ndim || a.nbytes != b.nbytes) abort();
  for (int32_t i = 0; i < a.ndim; ++i)
    if (a.shape[i] != b.shape[i]) abort();
  if (a.nbytes != 0 && std::memcmp(a.data, b.data, a.nbytes) != 0) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::unique_ptr<uint8_t[]> file(new uint8_t[size + (size == 0)]);
  if (size != 0) std::memcpy(file.get(), data, size);
  c7x_tensorfile_tensor tensors[kCapacity];
  c7x_tensorfile_place place = {};
  uint32_t count = 0;
  const int status = c7x_tensorfile_read(file.get(), size, tensors, kCapacity, &count, &place);
  if (c7x_tensorfile_status_text(status) == nullptr || place.offset > size) abort();
  if (status != C7X_TENSORFILE_OK) return 0;

  char* written = nullptr;
  size_t written_size = 0;
  FILE* const stream = open_memstream(&written, &written_size);
  if (stream == nullptr || c7x_tensorfile_write(stream, tensors, count) != C7X_TENSORFILE_OK || std::fclose(stream) != 0) {
    abort();
  }
  c7x_tensorfile_tensor again[kCapacity];
  uint32_t again_count = 0;
  if (written_size != size ||
      c7x_tensorfile_read(written, written_size, again, kCapacity, &again_count, nullptr) != C7X_TENSORFILE_OK ||
      again_count != count) {
    abort();
  }
  for (uint32_t i = 0; i < count; ++i) check_same(tensors[i], again[i]);
  std::free(written);
  return 0;
}
