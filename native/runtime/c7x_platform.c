#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* clock_gettime, MAP_ANONYMOUS and MAP_NORESERVE under -std=c99 */
#endif

#include "c7x_platform.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "c7x_check_l2.h"
#include "c7x_pool.h"

#define NUM_POOLS 2
#define WORKSPACE_ALIGNMENT 128

static c7x_pool pools[NUM_POOLS];
static const size_t pool_bytes[NUM_POOLS] = {C7X_FAST_POOL_BYTES, C7X_MAIN_POOL_BYTES};
#ifndef C7X_CHECK_L2
static uint8_t *l2_base;
#endif

uint64_t c7x_cycle_counter(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void *reserve(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* The pool with its memory reserved; NULL when there is no such pool or no memory. */
static c7x_pool *get_pool(int index) {
  c7x_pool *pool;
  if (index < 0 || index >= NUM_POOLS) {
    return NULL;
  }
  pool = &pools[index];
  if (pool->base == NULL) {
    void *memory = reserve(pool_bytes[index]);
    if (memory == NULL) {
      return NULL;
    }
    c7x_pool_init(pool, memory, pool_bytes[index]);
  }
  return pool;
}

static int overlap(const void *a, const void *b, size_t bytes) {
  const uintptr_t p = (uintptr_t)a;
  const uintptr_t q = (uintptr_t)b;
  return p < q ? q - p < bytes : p - q < bytes;
}

int tvm_dsp_dma_copy(int queue, void *dst, const void *src, int bytes, int bypass_cache) {
  (void)bypass_cache;
  if (queue != 0 || bytes < 0) {
    return -1;
  }
  if (bytes == 0) {
    return 0;
  }
  if (dst == NULL || src == NULL || overlap(dst, src, (size_t)bytes)) {
    return -1;
  }
#ifdef C7X_CHECK_L2
  c7x_check_l2_copy(dst, src, (size_t)bytes);
#else
  memcpy(dst, src, (size_t)bytes);
#endif
  return 0;
}

int tvm_dsp_dma_wait(int queue, int max_inflight) {
  if (queue != 0 || max_inflight < 0) {
    return -1;
  }
#ifdef C7X_CHECK_L2
  if (max_inflight == 0) {
    c7x_check_l2_wait();
  }
#endif
  return 0;
}

uint8_t *tvm_dsp_get_l2_base(void) {
#ifdef C7X_CHECK_L2
  return c7x_check_l2_base();
#else
  if (l2_base == NULL) {
    l2_base = (uint8_t *)reserve(C7X_L2_BYTES);
  }
  return l2_base;
#endif
}

uint32_t tvm_dsp_get_l2_size(void) { return C7X_L2_BYTES; }

void *tvm_dsp_alloc(size_t bytes, size_t alignment, int pool) {
  c7x_pool *p = get_pool(pool);
  return p == NULL ? NULL : c7x_pool_alloc(p, bytes, alignment);
}

void tvm_dsp_free(void *pointer) {
  if (pointer == NULL) {
    return;
  }
  for (int i = 0; i < NUM_POOLS; ++i) {
    if (pools[i].base != NULL && c7x_pool_owns(&pools[i], pointer) && c7x_pool_free(&pools[i], pointer) == 0) {
      return;
    }
  }
  fprintf(stderr, "tvm_dsp_free: %p is not a live block of a pool (freed twice, or not allocated there)\n", pointer);
  abort();
}

size_t tvm_dsp_get_free_memory(int pool) {
  const c7x_pool *p = get_pool(pool);
  return p == NULL ? 0 : c7x_pool_available(p);
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits) {
  (void)device_type;
  (void)device_id;
  (void)dtype_code;
  (void)dtype_bits;
  return tvm_dsp_alloc((size_t)bytes, WORKSPACE_ALIGNMENT, C7X_POOL_MAIN);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *pointer) {
  (void)device_type;
  (void)device_id;
  tvm_dsp_free(pointer);
  return 0;
}

void tvm_dsp_cache_writeback(void *address, size_t bytes) {
  (void)address;
  (void)bytes;
}

void tvm_dsp_cache_invalidate(void *address, size_t bytes) {
  (void)address;
  (void)bytes;
}

void tvm_dsp_cache_writeback_invalidate(void *address, size_t bytes) {
  (void)address;
  (void)bytes;
}

void tvm_dsp_log(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

size_t c7x_platform_peak(int pool) { return pool < 0 || pool >= NUM_POOLS ? 0 : pools[pool].peak; }

size_t c7x_platform_failed_request(int pool) {
  return pool < 0 || pool >= NUM_POOLS ? 0 : pools[pool].failed_request;
}
