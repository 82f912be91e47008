// Pools and the platform functions a module may call.
#include <cstring>
#include <vector>

#include "bytes.h"
#include "c7x_platform.h"
#include "c7x_pool.h"
#include "check.h"

namespace {

alignas(128) uint8_t memory[4096];

bool aligned(const void* pointer, size_t alignment) { return reinterpret_cast<uintptr_t>(pointer) % alignment == 0; }

void pool_basics() {
  c7x_pool pool;
  c7x_pool_init(&pool, memory, sizeof memory);
  void* a = c7x_pool_alloc(&pool, 100, 128);
  void* b = c7x_pool_alloc(&pool, 1, 1);
  CHECK(a != nullptr && aligned(a, 128));
  CHECK(b != nullptr && aligned(b, 16));
  std::memset(a, 0xAA, 100);
  std::memset(b, 0xBB, 1);
  const size_t peak = pool.peak;
  CHECK(peak >= 128 + 16 && peak <= 512);
  CHECK_EQ(c7x_pool_free(&pool, a), 0);
  CHECK_EQ(c7x_pool_free(&pool, a), -1);  // twice
  CHECK_EQ(c7x_pool_alloc(&pool, 128, 128), a);  // first fit takes the freed block
  CHECK_EQ(c7x_pool_free(&pool, a), 0);
  CHECK_EQ(c7x_pool_free(&pool, b), 0);
  CHECK_EQ(pool.top, 0u);  // all given back: the pool starts again
  CHECK_EQ(pool.peak, peak);
  CHECK_EQ(c7x_pool_available(&pool), sizeof memory);
}

void pool_limits() {
  c7x_pool pool;
  c7x_pool_init(&pool, memory, sizeof memory);
  CHECK(c7x_pool_alloc(&pool, sizeof memory, 16) == nullptr);  // the header needs room too
  CHECK_EQ(pool.failed_request, sizeof memory);
  CHECK(c7x_pool_alloc(&pool, SIZE_MAX, 128) == nullptr);
  CHECK(c7x_pool_alloc(&pool, SIZE_MAX - 64, 128) == nullptr);
  CHECK(c7x_pool_alloc(&pool, 16, 48) == nullptr);
  CHECK(c7x_pool_alloc(&pool, sizeof memory - 16, 16) != nullptr);
  CHECK(c7x_pool_alloc(&pool, 0, 16) == nullptr);
  CHECK_EQ(c7x_pool_free(&pool, nullptr), 0);
  CHECK_EQ(c7x_pool_free(&pool, memory), -1);
  CHECK_EQ(c7x_pool_free(&pool, memory + 100), -1);
  int outside;
  CHECK_EQ(c7x_pool_free(&pool, &outside), -1);
  c7x_pool_init(&pool, memory, 8);
  CHECK(c7x_pool_alloc(&pool, 0, 16) == nullptr);
}

// Blocks never overlap and keep their bytes, whatever the order of requests.
void pool_random() {
  struct Block {
    uint8_t* data;
    size_t size;
    uint8_t mark;
  };
  c7x_pool pool;
  c7x_pool_init(&pool, memory, sizeof memory);
  Random random(3);
  std::vector<Block> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random.below(2) == 0) {
      const size_t size = random.below(300);
      const size_t alignment = size_t{1} << random.below(9);
      auto* data = static_cast<uint8_t*>(c7x_pool_alloc(&pool, size, alignment));
      if (data == nullptr) continue;
      CHECK(aligned(data, alignment));
      CHECK(data >= memory && data + size <= memory + sizeof memory);
      const Block block{data, size, static_cast<uint8_t>(step)};
      std::memset(data, block.mark, size);
      live.push_back(block);
    } else {
      const size_t index = random.below(static_cast<uint32_t>(live.size()));
      const Block block = live[index];
      for (size_t i = 0; i < block.size; ++i) CHECK_EQ(int{block.data[i]}, int{block.mark});
      CHECK_EQ(c7x_pool_free(&pool, block.data), 0);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  CHECK(pool.num_allocs > 1000);
}

void dma() {
  uint8_t* l2 = tvm_dsp_get_l2_base();
  CHECK(l2 != nullptr && aligned(l2, 128));
  CHECK_EQ(tvm_dsp_get_l2_size(), 0x140000u);
  uint8_t source[64];
  std::memset(source, 5, sizeof source);
  CHECK_EQ(tvm_dsp_dma_copy(0, l2, source, 64, 0), 0);
  CHECK_EQ(tvm_dsp_dma_wait(0, 0), 0);
  CHECK_EQ(std::memcmp(l2, source, 64), 0);
  CHECK_EQ(tvm_dsp_dma_copy(0, nullptr, nullptr, 0, 0), 0);
  CHECK_EQ(tvm_dsp_dma_copy(1, l2, source, 64, 0), -1);
  CHECK_EQ(tvm_dsp_dma_copy(0, l2, source, -1, 0), -1);
  CHECK_EQ(tvm_dsp_dma_copy(0, l2, nullptr, 1, 0), -1);
  CHECK_EQ(tvm_dsp_dma_copy(0, l2 + 32, l2, 64, 0), -1);
  CHECK_EQ(tvm_dsp_dma_copy(0, l2 + 64, l2, 64, 0), 0);
  CHECK_EQ(tvm_dsp_dma_wait(2, 0), -1);
  CHECK_EQ(tvm_dsp_dma_wait(0, -1), -1);
}

void platform_pools() {
  CHECK_EQ(tvm_dsp_get_free_memory(C7X_POOL_FAST), size_t{4} << 20);
  CHECK_EQ(tvm_dsp_get_free_memory(C7X_POOL_MAIN), size_t{352} << 20);
  CHECK_EQ(tvm_dsp_get_free_memory(7), 0u);
  CHECK(tvm_dsp_alloc(1, 1, 7) == nullptr);
  void* fast = tvm_dsp_alloc(1000, 128, C7X_POOL_FAST);
  void* workspace = TVMBackendAllocWorkspace(1, 0, 300u << 20, 2, 32);
  CHECK(fast != nullptr && aligned(fast, 128));
  CHECK(workspace != nullptr && aligned(workspace, 128));
  CHECK(TVMBackendAllocWorkspace(1, 0, 300u << 20, 2, 32) == nullptr);
  CHECK_EQ(c7x_platform_failed_request(C7X_POOL_MAIN), size_t{300} << 20);
  CHECK_EQ(TVMBackendFreeWorkspace(1, 0, workspace), 0);
  tvm_dsp_free(fast);
  tvm_dsp_free(nullptr);
  CHECK_EQ(tvm_dsp_get_free_memory(C7X_POOL_MAIN), size_t{352} << 20);
  CHECK(c7x_platform_peak(C7X_POOL_MAIN) >= size_t{300} << 20);
  CHECK(c7x_platform_peak(C7X_POOL_FAST) >= 1024);
}

void clock_moves_forward() {
  const uint64_t start = c7x_cycle_counter();
  CHECK(c7x_cycle_counter() >= start);
}

}  // namespace

int main() {
  pool_basics();
  pool_limits();
  pool_random();
  dma();
  platform_pools();
  clock_moves_forward();
}
