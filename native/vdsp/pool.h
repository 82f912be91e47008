// A memory pool of the firmware (protocol, section 8): first fit over freed blocks, else a bump pointer, 16 bytes of
// header in front of each block.
//
// native/runtime/c7x_pool.h keeps its lists in those headers. A module that misbehaves may overwrite them, so here the
// truth lies outside the pool, and the headers only show what was overwritten. Plain data in shared memory.
#ifndef C7X_VDSP_POOL_H
#define C7X_VDSP_POOL_H

#include <cstdint>

namespace vdsp {

constexpr uint32_t kBlockMagic = 0x54564D41u;
constexpr uint32_t kBlockHeader = 16;
constexpr uint32_t kTailBytes = 112;  // what alignment to 128 leaves between a block and the next header
constexpr uint32_t kMaxBlocks = 1u << 16;

struct Block {
  uint32_t offset;  // of the payload in the pool
  uint32_t size;
  uint32_t live;
};

// What a pool goes back to at the start of INFER_LARGE.
struct PoolMark {
  uint32_t top;
};

struct Pool {
  uint32_t size;
  uint32_t top;         // bytes handed out so far, freed blocks included
  uint32_t num_allocs;  // since the last reset or rewind
  uint32_t num_frees;
  uint32_t num_blocks;
  uint32_t num_free;  // of the blocks
  Block blocks[kMaxBlocks];
};

void pool_reset(Pool* pool, uint32_t size);

// The offset of a block's payload, or -1 when there is no room. `alignment` is a power of two; the size is rounded up to
// it. `base` is the pool's memory.
int64_t pool_alloc(Pool* pool, uint8_t* base, uint64_t size, uint64_t alignment);

// False when no live block starts there. When as many blocks were freed as allocated, the pool goes back to its base, as
// the firmware's does, whatever is still loaded.
bool pool_free(Pool* pool, uint64_t offset);

PoolMark pool_mark(const Pool* pool);
void pool_rewind(Pool* pool, PoolMark mark);

inline uint32_t pool_available(const Pool* pool) { return pool->size - pool->top; }

// A live block whose header, or the space after it, was overwritten; null when there is none.
const Block* pool_damaged(const Pool* pool, const uint8_t* base);

// The block, live or freed, that holds the byte at `offset`, or null.
const Block* pool_block_at(const Pool* pool, uint64_t offset);

}  // namespace vdsp

#endif
