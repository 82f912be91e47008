#include "pool.h"

#include <cstring>

#include "memory.h"

namespace vdsp {

namespace {

struct Header {
  uint32_t magic;
  uint32_t size;
  uint64_t next;
};
static_assert(sizeof(Header) == kBlockHeader, "as the firmware's");

// How much after a block that ends at `end` and before `limit` shows that somebody wrote past its end.
uint32_t tail_bytes(const Pool& pool, uint32_t end, uint32_t limit) {
  const uint32_t room = (limit < pool.size ? limit : pool.size) - end;
  return room < kTailBytes ? room : kTailBytes;
}

void write_header(uint8_t* base, const Block& block) {
  const Header header = {kBlockMagic, block.size, 0};
  std::memcpy(base + block.offset - kBlockHeader, &header, sizeof header);
}

}  // namespace

void pool_reset(Pool* pool, uint32_t size) {
  pool->size = size;
  pool->top = 0;
  pool->num_allocs = 0;
  pool->num_frees = 0;
  pool->num_blocks = 0;
  pool->num_free = 0;
}

int64_t pool_alloc(Pool* pool, uint8_t* base, uint64_t size, uint64_t alignment) {
  alignment = alignment < kBlockHeader ? kBlockHeader : alignment;
  if ((alignment & (alignment - 1)) != 0 || alignment > pool->size || size > pool->size) {
    return -1;
  }
  const uint64_t rounded = (size + alignment - 1) & ~(alignment - 1);
  for (uint32_t i = 0; pool->num_free > 0 && i < pool->num_blocks; ++i) {
    Block& block = pool->blocks[i];
    if (block.live == 0 && block.size >= rounded && (reinterpret_cast<uintptr_t>(base) + block.offset) % alignment == 0) {
      block.live = 1;
      pool->num_free -= 1;
      pool->num_allocs += 1;
      write_header(base, block);
      return block.offset;
    }
  }
  const uintptr_t start = reinterpret_cast<uintptr_t>(base) + pool->top + kBlockHeader;
  const uint64_t offset = pool->top + kBlockHeader + (-start & (alignment - 1));
  if (pool->num_blocks == kMaxBlocks || offset > pool->size || rounded > pool->size - offset) {
    return -1;
  }
  Block& block = pool->blocks[pool->num_blocks];
  block = {static_cast<uint32_t>(offset), static_cast<uint32_t>(rounded), 1};
  pool->num_blocks += 1;
  pool->num_allocs += 1;
  pool->top = static_cast<uint32_t>(offset + rounded);
  write_header(base, block);
  poison(base + pool->top, tail_bytes(*pool, pool->top, pool->size));
  return block.offset;
}

bool pool_free(Pool* pool, uint64_t offset) {
  for (uint32_t i = pool->num_blocks; i-- > 0;) {
    Block& block = pool->blocks[i];
    if (block.offset == offset && block.live != 0) {
      block.live = 0;
      pool->num_free += 1;
      pool->num_frees += 1;
      if (pool->num_frees == pool->num_allocs) {
        pool_reset(pool, pool->size);
      }
      return true;
    }
  }
  return false;
}

PoolMark pool_mark(const Pool* pool) { return {pool->top}; }

void pool_rewind(Pool* pool, PoolMark mark) {
  // By address, not by count: after a fall to the base the blocks below the mark are no longer listed.
  while (pool->num_blocks > 0 && pool->blocks[pool->num_blocks - 1].offset >= mark.top) {
    pool->num_blocks -= 1;
    pool->num_free -= pool->blocks[pool->num_blocks].live == 0 ? 1 : 0;
  }
  pool->top = mark.top;
  pool->num_allocs = 0;
  pool->num_frees = 0;
}

const Block* pool_damaged(const Pool* pool, const uint8_t* base) {
  for (uint32_t i = 0; i < pool->num_blocks; ++i) {
    const Block& block = pool->blocks[i];
    Header header;
    std::memcpy(&header, base + block.offset - kBlockHeader, sizeof header);
    const uint32_t end = block.offset + block.size;
    const uint32_t next = i + 1 < pool->num_blocks ? pool->blocks[i + 1].offset - kBlockHeader : pool->size;
    if (block.live != 0 && (header.magic != kBlockMagic || header.size != block.size ||
                            !is_poisoned(base + end, tail_bytes(*pool, end, next)))) {
      return &block;
    }
  }
  return nullptr;
}

const Block* pool_block_at(const Pool* pool, uint64_t offset) {
  for (uint32_t i = 0; i < pool->num_blocks; ++i) {
    const Block& block = pool->blocks[i];
    if (offset >= block.offset && offset - block.offset < block.size) {
      return &block;
    }
  }
  return nullptr;
}

}  // namespace vdsp
