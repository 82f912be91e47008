#include <cstring>

#include "bytes.h"
#include "c7x_tensorfile.h"
#include "check.h"

namespace {

Bytes head(uint32_t count) { return Bytes().put<uint32_t>(0x54564D54).put<uint32_t>(1).put<uint32_t>(count); }

Bytes& tensor(Bytes& b, std::initializer_list<int64_t> shape, int32_t code, int32_t bits, int64_t nbytes) {
  b.put<int32_t>(static_cast<int32_t>(shape.size()));
  for (int64_t dim : shape) b.put<int64_t>(dim);
  return b.put<int32_t>(code).put<int32_t>(bits).put<int64_t>(nbytes);
}

Bytes two_tensors() {
  Bytes b = head(2);
  tensor(b, {3}, 6, 8, 3).put<uint8_t>(0).put<uint8_t>(1).put<uint8_t>(2);
  tensor(b, {2, 1}, 2, 32, 8).put<float>(1.0f).put<float>(-2.0f);
  return b;
}

struct Read {
  int status;
  uint32_t count;
  c7x_tensorfile_place place;
  std::unique_ptr<uint8_t[]> data;
  c7x_tensorfile_tensor tensors[4];
};

Read read(const Bytes& bytes, size_t size) {
  Read r{};
  r.data = bytes.exact(size);
  r.status = c7x_tensorfile_read(r.data.get(), size, r.tensors, 4, &r.count, &r.place);
  return r;
}

int status_of(const Bytes& bytes) { return read(bytes, bytes.size()).status; }

void reads() {
  const Bytes b = two_tensors();
  const Read r = read(b, b.size());
  CHECK_EQ(r.status, 0);
  CHECK_EQ(r.count, 2u);
  CHECK_EQ(int{r.tensors[0].code}, 1);  // bool becomes unsigned
  CHECK_EQ(int{r.tensors[0].bits}, 8);
  CHECK_EQ(r.tensors[1].ndim, 2);
  CHECK_EQ(r.tensors[1].shape[0], 2);
  CHECK_EQ(r.tensors[1].nbytes, 8u);
  float second;
  std::memcpy(&second, static_cast<const char*>(r.tensors[1].data) + 4, 4);
  CHECK_EQ(second, -2.0f);
  CHECK_EQ(r.place.offset, b.size());
  Bytes scalar = head(1);
  CHECK_EQ(status_of(tensor(scalar, {}, 0, 64, 8).put<int64_t>(1)), 0);
  Bytes empty = head(1);
  CHECK_EQ(status_of(tensor(empty, {INT64_MAX, INT64_MAX, 0}, 2, 64, 0)), 0);
  CHECK_EQ(status_of(head(0)), 0);
}

void refuses() {
  CHECK_EQ(status_of(Bytes()), C7X_TENSORFILE_ERR_MAGIC);
  CHECK_EQ(status_of(two_tensors().patch<uint32_t>(0, 1)), C7X_TENSORFILE_ERR_MAGIC);
  CHECK_EQ(status_of(two_tensors().patch<uint32_t>(4, 2)), C7X_TENSORFILE_ERR_VERSION);
  CHECK_EQ(status_of(two_tensors().patch<uint32_t>(8, 5)), C7X_TENSORFILE_ERR_COUNT);
  CHECK_EQ(status_of(two_tensors().patch<uint32_t>(8, 3)), C7X_TENSORFILE_ERR_END);
  CHECK_EQ(status_of(two_tensors().patch<uint32_t>(8, 1)), C7X_TENSORFILE_ERR_TRAILING);
  CHECK_EQ(status_of(two_tensors().put<uint8_t>(0)), C7X_TENSORFILE_ERR_TRAILING);
  CHECK_EQ(status_of(two_tensors().patch<int32_t>(12, 9)), C7X_TENSORFILE_ERR_RANK);
  CHECK_EQ(status_of(two_tensors().patch<int32_t>(12, -1)), C7X_TENSORFILE_ERR_RANK);
  CHECK_EQ(status_of(two_tensors().patch<int64_t>(16, 4)), C7X_TENSORFILE_ERR_SIZE);
  CHECK_EQ(status_of(two_tensors().patch<int64_t>(16, -3)), C7X_TENSORFILE_ERR_SIZE);
  CHECK_EQ(status_of(two_tensors().patch<int32_t>(24, 4)), C7X_TENSORFILE_ERR_DTYPE);
  CHECK_EQ(status_of(two_tensors().patch<int32_t>(28, 7)), C7X_TENSORFILE_ERR_DTYPE);
  CHECK_EQ(status_of(two_tensors().patch<int64_t>(32, 2)), C7X_TENSORFILE_ERR_SIZE);
  Bytes overflow = head(1);
  CHECK_EQ(status_of(tensor(overflow, {INT64_C(1) << 62, 4}, 2, 32, 0)), C7X_TENSORFILE_ERR_SIZE);
  Bytes huge = head(1);
  CHECK_EQ(status_of(tensor(huge, {INT64_C(1) << 40}, 0, 8, INT64_C(1) << 40)), C7X_TENSORFILE_ERR_END);
  CHECK_EQ(c7x_tensorfile_read(nullptr, 0, nullptr, 0, nullptr, nullptr), C7X_TENSORFILE_ERR_NULL);
}

void writes_what_it_reads() {
  Bytes b = head(2);
  tensor(b, {3}, 1, 8, 3).put<uint8_t>(0).put<uint8_t>(1).put<uint8_t>(0);
  tensor(b, {2, 1}, 2, 32, 8).put<float>(1.0f).put<float>(-2.0f);
  const Read r = read(b, b.size());
  FILE* file = std::tmpfile();
  CHECK(file != nullptr);
  CHECK_EQ(c7x_tensorfile_write(file, r.tensors, r.count), 0);
  std::rewind(file);
  std::unique_ptr<uint8_t[]> back(new uint8_t[b.size() + 1]);
  CHECK_EQ(std::fread(back.get(), 1, b.size() + 1, file), b.size());
  CHECK_EQ(std::memcmp(back.get(), r.data.get(), b.size()), 0);
  std::fclose(file);
  FILE* full = std::fopen("/dev/full", "wb");
  if (full != nullptr) {
    std::setvbuf(full, nullptr, _IONBF, 0);
    CHECK_EQ(c7x_tensorfile_write(full, r.tensors, r.count), C7X_TENSORFILE_ERR_WRITE);
    std::fclose(full);
  }
}

void survives_truncation_and_mutation() {
  const Bytes valid = two_tensors();
  for (size_t size = 0; size < valid.size(); ++size) {
    CHECK(read(valid, size).status != 0);
  }
  Random random(2);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = valid;
    mutate(bytes, random);
    const Read r = read(bytes, bytes.size());
    // What is accepted lies inside the file.
    for (uint32_t t = 0; r.status == 0 && t < r.count; ++t) {
      const auto* data = static_cast<const uint8_t*>(r.tensors[t].data);
      CHECK(data >= r.data.get() && data + r.tensors[t].nbytes <= r.data.get() + bytes.size());
    }
  }
}

}  // namespace

int main() {
  reads();
  refuses();
  writes_what_it_reads();
  survives_truncation_and_mutation();
}
