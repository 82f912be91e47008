// Little-endian bytes, built up piece by piece, and a deterministic source of mutations.
#ifndef C7X_TESTS_BYTES_H
#define C7X_TESTS_BYTES_H

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    const auto* raw = reinterpret_cast<const uint8_t*>(&value);
    data_.insert(data_.end(), raw, raw + sizeof value);
    return *this;
  }
  Bytes& zeros(size_t count) {
    data_.insert(data_.end(), count, 0);
    return *this;
  }
  Bytes& text(const char* characters) {
    data_.insert(data_.end(), characters, characters + std::strlen(characters));
    return *this;
  }
  template <typename T>
  Bytes& patch(size_t offset, T value) {
    std::memcpy(&data_.at(offset + sizeof value - 1) - (sizeof value - 1), &value, sizeof value);
    return *this;
  }
  size_t size() const { return data_.size(); }
  uint8_t& operator[](size_t index) { return data_.at(index); }
  // The first `count` bytes in memory of exactly that size, so that a sanitizer sees one byte too far.
  std::unique_ptr<uint8_t[]> exact(size_t count) const {
    std::unique_ptr<uint8_t[]> copy(new uint8_t[count]);
    if (count != 0) std::memcpy(copy.get(), data_.data(), count);
    return copy;
  }

 private:
  std::vector<uint8_t> data_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t limit) {
    state_ = state_ * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return static_cast<uint32_t>((state_ >> 33) % limit);
  }

 private:
  uint64_t state_;
};

// Changes a few bytes, preferring values at the edge of what a length may be.
inline void mutate(Bytes& bytes, Random& random) {
  static const uint8_t edges[] = {0x00, 0x01, 0x7F, 0x80, 0xFF, 0x46, 0x45, 0x41};
  const uint32_t changes = 1 + random.below(4);
  for (uint32_t i = 0; i < changes; ++i) {
    bytes[random.below(static_cast<uint32_t>(bytes.size()))] =
        random.below(2) != 0 ? edges[random.below(8)] : static_cast<uint8_t>(random.below(256));
  }
}

#endif
