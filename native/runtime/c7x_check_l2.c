#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS and MAP_NORESERVE under -std=c99 */
#endif

#include "c7x_check_l2.h"
#include "c7x_platform.h"

/* c7x build --check-l2 defines it. Without it nothing is left of this file, which still has to compile. */
#ifdef C7X_CHECK_L2

#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARGIN ((size_t)65536) /* around L2, poisoned too */
#define FILL 0x5A              /* what poisoned memory holds, for code that AddressSanitizer does not watch */
#define MAX_BLOCKS 8
#define TEXT_BYTES 256

typedef struct block {
  const uint8_t *start;
  size_t room;
  size_t copied; /* bytes that a copy has filled, once it has been waited for */
} block;

typedef struct copy {
  uint8_t *dst;
  const void *src;
  size_t bytes;
} copy;

static uint8_t *base;
static const char *layer; /* the running one, or the last one that ran; NULL before the first */
static int running;
static block blocks[MAX_BLOCKS]; /* of the running layer */
static int num_blocks;
static copy pending; /* bytes is 0 when there is none */

static void violation(const char *cause, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

static void violation(const char *cause, const char *format, ...) {
  va_list arguments;
  fflush(stdout);
  fputs("cg_dsp: error: L2 check: ", stderr);
  if (layer == NULL) {
    fputs("before the first layer with operands in L2", stderr);
  } else {
    fprintf(stderr, running ? "layer %s" : "after layer %s", layer);
  }
  fputs(": ", stderr);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n  cause: %s\n  hint: compile the model again; if it stays, report it with the model\n", cause);
  fflush(stderr);
  _exit(1);
}

static int in_l2(const void *pointer) {
  const uintptr_t p = (uintptr_t)pointer, start = (uintptr_t)base;
  return base != NULL && p >= start && p - start < C7X_L2_BYTES;
}

static size_t at(const void *pointer) { return (size_t)((uintptr_t)pointer - (uintptr_t)base); }

static void poison(const uint8_t *start, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(start, bytes);
  memset((uint8_t *)(uintptr_t)start, FILL, bytes);
  ASAN_POISON_MEMORY_REGION(start, bytes);
}

uint8_t *c7x_check_l2_base(void) {
  if (base == NULL) {
    const size_t bytes = C7X_L2_BYTES + 2 * MARGIN;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    ASAN_POISON_MEMORY_REGION(memory, bytes);
    base = (uint8_t *)memory + MARGIN;
  }
  return base;
}

/* ---- the steps of generated code ---- */

void c7x_check_l2_open(void) {
  layer = NULL;
  running = 0;
  num_blocks = 0;
  pending.bytes = 0;
  if (base != NULL) poison(base, C7X_L2_BYTES);
}

void c7x_check_l2_enter(const char *name, const uint8_t *top) {
  if (running || top != base) {
    violation("each layer begins with an empty L2", "it did not give back %zu bytes before layer %s", at(top), name);
  }
  layer = name;
  running = 1;
}

void c7x_check_l2_take(const uint8_t *start, int32_t bytes) {
  if (num_blocks == MAX_BLOCKS) violation("a layer has a guard and two operands", "it takes more than %d blocks", MAX_BLOCKS);
  blocks[num_blocks].start = start;
  blocks[num_blocks].room = (size_t)bytes;
  blocks[num_blocks].copied = 0;
  num_blocks += 1;
}

void c7x_check_l2_leave(const uint8_t *top) {
  if (pending.bytes != 0) {
    violation("tvm_dsp_dma_wait is missing", "the copy of %zu bytes to byte %zu of L2 was never waited for",
              pending.bytes, at(pending.dst));
  }
  poison(top, C7X_L2_BYTES - at(top));
  num_blocks = 0;
  running = 0;
}

void c7x_check_l2_close(const uint8_t *top) {
  if (running || top != base) {
    violation("each layer gives back what it took", "%zu bytes of L2 are still taken at the end", at(top));
  }
}

/* ---- DMA ---- */

void c7x_check_l2_copy(void *dst, const void *src, size_t bytes) {
  c7x_check_l2_wait();
  pending.dst = (uint8_t *)dst;
  pending.src = src;
  pending.bytes = bytes;
  if (in_l2(dst)) {
    int i = num_blocks - 1;
    while (i >= 0 && blocks[i].start != (const uint8_t *)dst) --i;
    if (i < 0) violation("it was not taken, or has been given back", "a copy to byte %zu of L2", at(dst));
    if (bytes > blocks[i].room) {
      violation("the copy is longer than its block", "%zu bytes are copied to a block of %zu", bytes, blocks[i].room);
    }
    poison((const uint8_t *)dst, bytes);
  }
}

void c7x_check_l2_wait(void) {
  if (pending.bytes == 0) return;
  if (in_l2(pending.dst)) ASAN_UNPOISON_MEMORY_REGION(pending.dst, pending.bytes);
  memcpy(pending.dst, pending.src, pending.bytes);
  for (int i = 0; i < num_blocks; ++i) {
    if (blocks[i].start == pending.dst) blocks[i].copied = pending.bytes;
  }
  pending.bytes = 0;
}

/* ---- kernels ---- */

void c7x_check_l2_guard(const void *input, size_t bytes) {
  if (in_l2(input) && at(input) < bytes) {
    violation("a kernel addresses memory in front of its input",
              "its input lies %zu bytes behind the start of L2, which is less than its guard of %zu", at(input), bytes);
  }
}

/* What the byte at `p` is, for the message. */
static void describe(const uint8_t *p, char *text) {
  snprintf(text, TEXT_BYTES, "no layer copied anything there");
  for (int i = 0; i < num_blocks; ++i) {
    const block *b = &blocks[i];
    const size_t offset = (size_t)(p - b->start);
    if (p < b->start || offset >= (b->room + 127) / 128 * 128) continue;
    if (pending.bytes != 0 && pending.dst == b->start) {
      snprintf(text, TEXT_BYTES, "the copy of %zu bytes to it has not been waited for", pending.bytes);
    } else if (b->copied == 0) {
      snprintf(text, TEXT_BYTES, i == 0 ? "it is in the guard of the input" : "nothing was copied to this block");
    } else {
      snprintf(text, TEXT_BYTES, "%zu bytes were copied to its block, which begins at byte %zu", b->copied, at(b->start));
    }
  }
}

/* Called by AddressSanitizer before its own report, which follows when the address is none of ours. */
void __asan_on_error(void) {
  const uint8_t *const p = (const uint8_t *)__asan_get_report_address();
  const uintptr_t low = (uintptr_t)base - MARGIN;
  char cause[TEXT_BYTES];
  if (base == NULL || (uintptr_t)p < low || (uintptr_t)p - low >= C7X_L2_BYTES + 2 * MARGIN) return;
  describe(p, cause);
  violation(cause, "it %s byte %td of L2", __asan_get_report_access_type() ? "writes" : "reads", p - base);
}
#endif /* C7X_CHECK_L2 */
