/* A memory pool as the firmware has it: first fit over freed blocks, else a bump pointer. Plain C99; the caller owns the
 * memory and the struct. Not thread safe, like the firmware. */
#ifndef C7X_POOL_H
#define C7X_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct c7x_pool_block c7x_pool_block;

typedef struct c7x_pool {
  uint8_t *base;
  size_t size;
  size_t top;               /* bytes of the pool that were handed out, freed blocks included */
  size_t peak;              /* highest `top` */
  uint64_t num_allocs;
  uint64_t num_frees;
  size_t failed_request;    /* size of the last request that did not fit, 0 when all did */
  c7x_pool_block *free_list;
} c7x_pool;

/* An empty pool over `size` bytes at `base`, aligned to 16. */
void c7x_pool_init(c7x_pool *pool, void *base, size_t size);

/* `size` bytes aligned to `alignment` (a power of two; below 16 counts as 16). The block is not cleared. NULL when the
 * pool is full or the alignment is no power of two. A size of 0 gives a block that may be freed. */
void *c7x_pool_alloc(c7x_pool *pool, size_t size, size_t alignment);

/* Gives a block back; when it was the last one, the pool starts again at its base. NULL is allowed. Returns 0, or -1 when
 * the pointer is not that of a live block (freed twice, or never allocated). */
int c7x_pool_free(c7x_pool *pool, void *pointer);

/* Whether the pointer lies inside the pool. */
int c7x_pool_owns(const c7x_pool *pool, const void *pointer);

/* Bytes above the bump pointer; freed blocks do not count. */
size_t c7x_pool_available(const c7x_pool *pool);

#ifdef __cplusplus
}
#endif

#endif /* C7X_POOL_H */
