#include <cstring>
#include <string>

#include "bytes.h"
#include "c7x_weights.h"
#include "check.h"

namespace {

Bytes& tensor_head(Bytes& b, std::initializer_list<int64_t> shape, int64_t nbytes, uint8_t code = 2, uint8_t bits = 32) {
  b.put<int32_t>(70).put<uint64_t>(0xDD5E40F096B4A13F).put<uint64_t>(0).put<int32_t>(1).put<int32_t>(0);
  b.put<int32_t>(static_cast<int32_t>(shape.size())).put<uint8_t>(code).put<uint8_t>(bits).put<uint16_t>(1);
  for (int64_t dim : shape) b.put<int64_t>(dim);
  return b.put<int64_t>(nbytes);
}

// One entry of every kind, with padding in front of a tensor.
Bytes every_kind() {
  Bytes b;
  b.put<uint64_t>(7);
  b.put<int32_t>(65).put<uint64_t>(3).text("abc");          // ends at 23
  b.zeros(1);                                               // tensor entry at 24
  tensor_head(b, {2, 3}, 24);
  for (int i = 0; i < 6; ++i) b.put<float>(1.5f * static_cast<float>(i));
  b.put<int32_t>(69).put<uint64_t>(2).put<int64_t>(4).put<int64_t>(-1);
  b.put<int32_t>(1).put<int64_t>(-5);
  b.put<int32_t>(3).put<double>(0.25);
  b.put<int32_t>(5).put<uint8_t>(2).put<uint8_t>(32).put<uint16_t>(1);
  tensor_head(b, {}, 8, 0, 64).put<int64_t>(99);
  return b;
}

struct Loaded {
  int status;
  c7x_weights_layout layout;
  std::unique_ptr<uint8_t[]> data;
  std::unique_ptr<c7x_any[]> memory;
  c7x_any* constants;
};

Loaded load(const Bytes& bytes, size_t size) {
  Loaded l{};
  l.data = bytes.exact(size);
  l.status = c7x_weights_scan(l.data.get(), size, &l.layout);
  if (l.status == C7X_WEIGHTS_OK) {
    CHECK_EQ(l.layout.memory_bytes % 16, 0u);
    l.memory.reset(new c7x_any[l.layout.memory_bytes / 16 + 1]);
    l.status = c7x_weights_load(l.data.get(), size, &l.layout, l.memory.get(), l.layout.memory_bytes, &l.constants);
  }
  return l;
}

int status_of(const Bytes& bytes) { return load(bytes, bytes.size()).status; }

void reads_every_kind() {
  const Bytes bytes = every_kind();
  const Loaded l = load(bytes, bytes.size());
  CHECK_EQ(l.status, 0);
  CHECK_EQ(l.layout.num_constants, 7u);
  CHECK_EQ(l.layout.offset, bytes.size());
  const c7x_any* c = l.constants;

  CHECK_EQ(c[0].type_index, 65);
  const auto* str = static_cast<const c7x_str*>(c[0].v.ptr);
  CHECK_EQ(std::string(str->data), "abc");
  CHECK_EQ(str->size, 3u);

  CHECK_EQ(c[1].type_index, 70);
  const auto* tensor = static_cast<const c7x_tensor*>(c[1].v.ptr);
  CHECK_EQ(tensor->header.type_index, 70);
  CHECK_EQ(tensor->header.ref_counter, 1);
  CHECK(tensor->header.deleter == nullptr);
  CHECK_EQ(tensor->device.device_type, 1);
  CHECK_EQ(tensor->ndim, 2);
  CHECK_EQ(tensor->shape[0], 2);
  CHECK_EQ(tensor->shape[1], 3);
  CHECK(tensor->strides == nullptr);
  CHECK_EQ(tensor->byte_offset, 0u);
  // In place: inside the file's own bytes, at the entry plus 44 + 8 * rank.
  CHECK(tensor->data == l.data.get() + 24 + 44 + 16);
  float last;
  std::memcpy(&last, static_cast<const char*>(tensor->data) + 20, 4);
  CHECK_EQ(last, 7.5f);

  const auto* shape = static_cast<const c7x_shape*>(c[2].v.ptr);
  CHECK_EQ(c[2].type_index, 69);
  CHECK_EQ(shape->size, 2u);
  CHECK_EQ(shape->data[1], -1);
  CHECK_EQ(c[3].type_index, 1);
  CHECK_EQ(c[3].v.i64, -5);
  CHECK_EQ(c[4].type_index, 3);
  CHECK_EQ(c[4].v.f64, 0.25);
  CHECK_EQ(c[5].type_index, 5);
  CHECK_EQ(c[5].v.dtype.bits, 32);
  CHECK_EQ(static_cast<const c7x_tensor*>(c[6].v.ptr)->ndim, 0);
}

void empty_is_no_constants() {
  c7x_weights_layout layout;
  c7x_any* constants = reinterpret_cast<c7x_any*>(1);
  CHECK_EQ(c7x_weights_scan(nullptr, 0, &layout), 0);
  CHECK_EQ(c7x_weights_load(nullptr, 0, &layout, nullptr, 0, &constants), 0);
  CHECK(constants == nullptr);
  CHECK_EQ(c7x_weights_scan(nullptr, 8, &layout), C7X_WEIGHTS_ERR_NULL);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(0)), 0);
}

void refuses_damage() {
  CHECK_EQ(status_of(Bytes().put<uint32_t>(0)), C7X_WEIGHTS_ERR_END);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(4097)), C7X_WEIGHTS_ERR_TOO_MANY);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(1)), C7X_WEIGHTS_ERR_END);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(1).put<int32_t>(72)), C7X_WEIGHTS_ERR_TYPE);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(1).put<int32_t>(70).put<uint64_t>(1).zeros(60)), C7X_WEIGHTS_ERR_MAGIC);
  const size_t head = 8;  // of the file; offsets below are those of the tensor payload
  auto tensor = [] {
    Bytes b;
    b.put<uint64_t>(1);
    return tensor_head(b, {2, 2}, 16).zeros(16);
  };
  CHECK_EQ(status_of(tensor()), 0);
  CHECK_EQ(status_of(tensor().patch<int32_t>(head + 28, 17)), C7X_WEIGHTS_ERR_TOO_MANY);
  CHECK_EQ(status_of(tensor().patch<int32_t>(head + 28, -1)), C7X_WEIGHTS_ERR_TOO_MANY);
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 36, 3)), C7X_WEIGHTS_ERR_SIZE);
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 36, -2)), C7X_WEIGHTS_ERR_SIZE);
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 36, INT64_MAX)), C7X_WEIGHTS_ERR_SIZE);
  // 2^62 * 2 * 4 bytes is 2^65, whose low 64 bits are 0.
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 36, INT64_C(1) << 62).patch<int64_t>(head + 52, 0)),
           C7X_WEIGHTS_ERR_SIZE);
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 52, -16)), C7X_WEIGHTS_ERR_SIZE);
  CHECK_EQ(status_of(tensor().patch<int64_t>(head + 52, 17)), C7X_WEIGHTS_ERR_SIZE);
  // Lengths that wrap around when they are added or multiplied.
  CHECK_EQ(status_of(Bytes().put<uint64_t>(1).put<int32_t>(69).put<uint64_t>(UINT64_MAX / 8 + 1)), C7X_WEIGHTS_ERR_END);
  CHECK_EQ(status_of(Bytes().put<uint64_t>(1).put<int32_t>(65).put<uint64_t>(UINT64_MAX)), C7X_WEIGHTS_ERR_END);
}

void reports_where() {
  Bytes b;
  b.put<uint64_t>(2).put<int32_t>(1).put<int64_t>(0).put<int32_t>(72);
  const Loaded l = load(b, b.size());
  CHECK_EQ(l.layout.index, 1u);
  CHECK_EQ(l.layout.offset, 20u);
  CHECK(std::strstr(c7x_weights_status_text(l.status), "unknown type") != nullptr);
}

// More than three zero bytes pass the first of the firmware's passes and break the second.
void too_much_padding_fails_like_the_firmware() {
  Bytes b;
  b.put<uint64_t>(1).zeros(4);
  tensor_head(b, {}, 4).zeros(4);
  c7x_weights_layout layout;
  CHECK_EQ(c7x_weights_scan(&b[0], b.size(), &layout), 0);
  CHECK_EQ(status_of(b), C7X_WEIGHTS_ERR_TYPE);
}

// A layout of other bytes (a caller's mistake) must not lead to writes outside the memory it measured.
void a_layout_of_other_bytes_is_noticed() {
  auto status = [](const Bytes& measured, const Bytes& loaded) {
    const auto data = loaded.exact(loaded.size());
    const auto other = measured.exact(measured.size());
    c7x_weights_layout layout;
    CHECK_EQ(c7x_weights_scan(other.get(), measured.size(), &layout), 0);
    std::unique_ptr<c7x_any[]> memory(new c7x_any[layout.memory_bytes / 16]);
    c7x_any* constants;
    return c7x_weights_load(data.get(), loaded.size(), &layout, memory.get(), layout.memory_bytes, &constants);
  };
  Bytes tensor = Bytes().put<uint64_t>(1);
  tensor_head(tensor, {1}, 4).zeros(4);
  Bytes higher_rank = Bytes().put<uint64_t>(1);
  tensor_head(higher_rank, {1, 1}, 4).zeros(4);
  const Bytes shape = Bytes().put<uint64_t>(1).put<int32_t>(69).put<uint64_t>(1).put<int64_t>(4);
  const Bytes text = Bytes().put<uint64_t>(1).put<int32_t>(65).put<uint64_t>(1).text("a");
  const Bytes longer = Bytes().put<uint64_t>(1).put<int32_t>(65).put<uint64_t>(90).zeros(90);
  CHECK_EQ(status(tensor, tensor), 0);
  CHECK_EQ(status(shape, tensor), C7X_WEIGHTS_ERR_TENSOR_POOL);
  CHECK_EQ(status(tensor, higher_rank), C7X_WEIGHTS_ERR_SHAPE_POOL);
  CHECK_EQ(status(tensor, shape), C7X_WEIGHTS_ERR_SHAPE_POOL);
  CHECK_EQ(status(tensor, text), C7X_WEIGHTS_ERR_STRING_POOL);
  CHECK_EQ(status(text, longer), C7X_WEIGHTS_ERR_STRING_POOL);
}

void needs_enough_memory() {
  const Bytes b = every_kind();
  const auto data = b.exact(b.size());
  c7x_weights_layout layout;
  CHECK_EQ(c7x_weights_scan(data.get(), b.size(), &layout), 0);
  std::unique_ptr<c7x_any[]> memory(new c7x_any[layout.memory_bytes / 16]);
  c7x_any* constants;
  CHECK_EQ(c7x_weights_load(data.get(), b.size(), &layout, memory.get(), layout.memory_bytes - 1, &constants),
           C7X_WEIGHTS_ERR_NOMEM);
  CHECK_EQ(c7x_weights_load(data.get(), b.size(), &layout, nullptr, layout.memory_bytes, &constants),
           C7X_WEIGHTS_ERR_NOMEM);
}

void survives_truncation_and_mutation() {
  const Bytes valid = every_kind();
  for (size_t size = 1; size < valid.size(); ++size) {
    CHECK(load(valid, size).status < 0);
  }
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = valid;
    mutate(bytes, random);
    const size_t size = random.below(4) == 0 ? random.below(static_cast<uint32_t>(bytes.size())) : bytes.size();
    load(bytes, size);
  }
}

}  // namespace

int main() {
  reads_every_kind();
  empty_is_no_constants();
  refuses_damage();
  reports_where();
  too_much_padding_fails_like_the_firmware();
  a_layout_of_other_bytes_is_noticed();
  needs_enough_memory();
  survives_truncation_and_mutation();
}
