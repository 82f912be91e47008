#include "c7x_pool.h"

#include <string.h>

#define LIVE UINT32_C(0x54564D41)
#define FREED UINT32_C(0x44454546)
#define MIN_ALIGNMENT 16

/* Header in front of each block, as large as the firmware's (protocol, section 8). */
struct c7x_pool_block {
  uint32_t state;
  uint32_t size;
  c7x_pool_block *next;
};

void c7x_pool_init(c7x_pool *pool, void *base, size_t size) {
  memset(pool, 0, sizeof *pool);
  pool->base = (uint8_t *)base;
  pool->size = size < UINT32_MAX ? size : UINT32_MAX;
}

static void *payload(c7x_pool_block *block) { return block + 1; }

static void *reuse(c7x_pool *pool, size_t size, size_t alignment) {
  for (c7x_pool_block **link = &pool->free_list; *link != NULL; link = &(*link)->next) {
    c7x_pool_block *block = *link;
    if (block->size >= size && (uintptr_t)payload(block) % alignment == 0) {
      *link = block->next;
      block->state = LIVE;
      return payload(block);
    }
  }
  return NULL;
}

static void *bump(c7x_pool *pool, size_t size, size_t alignment) {
  const size_t room = pool->size - pool->top;
  const uintptr_t start = (uintptr_t)pool->base + pool->top + sizeof(c7x_pool_block);
  const size_t gap = (size_t)(-start & (alignment - 1));
  uint8_t *at;
  c7x_pool_block *block;
  if (room < sizeof *block || room - sizeof *block < gap || room - sizeof *block - gap < size) {
    return NULL;
  }
  at = pool->base + pool->top + sizeof *block + gap;
  block = (c7x_pool_block *)(void *)at - 1;
  block->state = LIVE;
  block->size = (uint32_t)size;
  block->next = NULL;
  pool->top += sizeof *block + gap + size;
  pool->peak = pool->top > pool->peak ? pool->top : pool->peak;
  return at;
}

void *c7x_pool_alloc(c7x_pool *pool, size_t size, size_t alignment) {
  size_t rounded;
  void *pointer = NULL;
  alignment = alignment < MIN_ALIGNMENT ? MIN_ALIGNMENT : alignment;
  if ((alignment & (alignment - 1)) != 0) {
    return NULL;
  }
  rounded = (size + alignment - 1) & ~(alignment - 1);
  if (rounded >= size) {
    pointer = reuse(pool, rounded, alignment);
    if (pointer == NULL) {
      pointer = bump(pool, rounded, alignment);
    }
  }
  if (pointer == NULL) {
    pool->failed_request = size;
  } else {
    pool->num_allocs += 1;
  }
  return pointer;
}

int c7x_pool_free(c7x_pool *pool, void *pointer) {
  c7x_pool_block *block;
  if (pointer == NULL) {
    return 0;
  }
  if (!c7x_pool_owns(pool, pointer) || (uintptr_t)pointer % MIN_ALIGNMENT != 0 ||
      (size_t)((uint8_t *)pointer - pool->base) < sizeof *block) {
    return -1;
  }
  block = (c7x_pool_block *)pointer - 1;
  if (block->state != LIVE) {
    return -1;
  }
  block->state = FREED;
  block->next = pool->free_list;
  pool->free_list = block;
  pool->num_frees += 1;
  if (pool->num_frees == pool->num_allocs) {
    pool->top = 0;
    pool->free_list = NULL;
  }
  return 0;
}

int c7x_pool_owns(const c7x_pool *pool, const void *pointer) {
  const uintptr_t p = (uintptr_t)pointer;
  const uintptr_t base = (uintptr_t)pool->base;
  return p >= base && p - base < pool->size;
}

size_t c7x_pool_available(const c7x_pool *pool) { return pool->size - pool->top; }
