// The pools of the virtual DSP: first fit, rewind, the fall to the base, and what overruns leave behind.
#include "check.h"
#include "memory.h"
#include "pool.h"

#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr uint32_t kSize = 64 * 1024;
alignas(4096) uint8_t memory[kSize];
auto pool_storage = std::make_unique<vdsp::Pool>();
vdsp::Pool* const pool = pool_storage.get();

int64_t alloc(uint64_t size, uint64_t alignment = 128) { return vdsp::pool_alloc(pool, memory, size, alignment); }

void test_bump_and_header() {
  vdsp::pool_reset(pool, kSize);
  CHECK_EQ(alloc(100), 128);
  CHECK_EQ(alloc(1), 128 + 128 + 128);
  CHECK_EQ(alloc(1, 1), 512 + 16);
  uint32_t header[2];
  std::memcpy(header, memory + 128 - 16, sizeof header);
  CHECK_EQ(header[0], 0x54564D41u);
  CHECK_EQ(header[1], 128u);
  CHECK_EQ(vdsp::pool_available(pool), kSize - 512 - 32);
  CHECK(vdsp::pool_damaged(pool, memory) == nullptr);
}

void test_limits() {
  vdsp::pool_reset(pool, kSize);
  CHECK_EQ(alloc(kSize), -1);
  CHECK_EQ(alloc(UINT64_MAX), -1);
  CHECK_EQ(alloc(16, 48), -1);
  CHECK_EQ(alloc(16, 1u << 31), -1);
  CHECK_EQ(alloc(kSize - 128), 128);
  CHECK_EQ(alloc(0, 16), -1);
  CHECK(vdsp::pool_damaged(pool, memory) == nullptr);
  CHECK(!vdsp::pool_free(pool, 127));
  CHECK(vdsp::pool_free(pool, 128));
  CHECK(!vdsp::pool_free(pool, 128));
}

void test_first_fit() {
  vdsp::pool_reset(pool, kSize);
  const int64_t a = alloc(256), b = alloc(512), c = alloc(128), d = alloc(128);
  CHECK(vdsp::pool_free(pool, static_cast<uint64_t>(b)));
  CHECK(vdsp::pool_free(pool, static_cast<uint64_t>(a)));
  CHECK_EQ(alloc(300), b);
  CHECK_EQ(alloc(100), a);
  CHECK(alloc(100) > d);
  CHECK(c > b);
}

void test_fall_to_the_base() {
  vdsp::pool_reset(pool, kSize);
  const auto a = static_cast<uint64_t>(alloc(256)), b = static_cast<uint64_t>(alloc(256));
  CHECK(vdsp::pool_free(pool, a));
  CHECK(pool->top != 0);
  CHECK(vdsp::pool_free(pool, b));
  CHECK_EQ(pool->top, 0u);
  CHECK_EQ(alloc(16), 128);
}

void test_rewind() {
  vdsp::pool_reset(pool, kSize);
  alloc(256);
  const vdsp::PoolMark mark = vdsp::pool_mark(pool);
  const int64_t b = alloc(100);
  alloc(100);
  vdsp::pool_rewind(pool, mark);
  CHECK_EQ(pool->num_blocks, 1u);
  CHECK_EQ(pool->num_allocs, 0u);
  CHECK_EQ(alloc(100), b);
  // One allocated, one freed since the rewind: to the base, below the mark.
  CHECK(vdsp::pool_free(pool, static_cast<uint64_t>(b)));
  CHECK_EQ(pool->top, 0u);
  vdsp::pool_rewind(pool, mark);
  CHECK_EQ(pool->top, mark.top);
  CHECK_EQ(pool->num_blocks, 0u);
  CHECK_EQ(alloc(100), b);
  alloc(100);
  vdsp::pool_rewind(pool, mark);
  CHECK_EQ(pool->num_blocks, 0u);
}

void test_damage() {
  for (const int64_t at : {int64_t{-16}, int64_t{-12}, int64_t{256}, int64_t{256 + 111}}) {
    vdsp::pool_reset(pool, kSize);
    const int64_t a = alloc(256), b = alloc(256);
    CHECK(vdsp::pool_damaged(pool, memory) == nullptr);
    memory[a + at] ^= 1;
    CHECK(vdsp::pool_damaged(pool, memory) != nullptr);
    memory[a + at] ^= 1;
    memory[b + at] ^= 1;
    CHECK(vdsp::pool_damaged(pool, memory) != nullptr);
    CHECK(vdsp::pool_free(pool, static_cast<uint64_t>(b)));
    CHECK(vdsp::pool_damaged(pool, memory) == nullptr);
  }
}

void test_many_blocks() {
  std::vector<uint8_t> large(size_t{4} << 20);
  vdsp::pool_reset(pool, static_cast<uint32_t>(large.size()));
  uint32_t count = 0;
  while (vdsp::pool_alloc(pool, large.data(), 16, 16) >= 0) {
    ++count;
  }
  CHECK_EQ(count, vdsp::kMaxBlocks);
}

}  // namespace

int main() {
  test_bump_and_header();
  test_limits();
  test_first_fit();
  test_fall_to_the_base();
  test_rewind();
  test_damage();
  test_many_blocks();
  return 0;
}
