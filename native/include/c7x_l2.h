/* L2 scratch memory: operands of a kernel are copied there by DMA before it runs (module ABI, sections 7 and 8.6).
 *
 * The text of this file is copied into a lib0.c that needs it. A bump allocator: every block is rounded up to 128 bytes,
 * and a call of a kernel gives back all that it took. What each takes is planned when lib0.c is written, so L2 is
 * never full. With C7X_CHECK_L2 (c7x build --check-l2) each step is watched by native/runtime/c7x_check_l2.c. */
#ifndef C7X_L2_H
#define C7X_L2_H

#define C7X_L2_ALIGNMENT 128
#define C7X_DMA_QUEUE 0 /* the only one that the firmware initialises */

#ifdef __cplusplus
extern "C" {
#endif
int tvm_dsp_dma_copy(int queue, void *dst, const void *src, int bytes, int bypass_cache);
int tvm_dsp_dma_wait(int queue, int max_inflight);
#if !defined(__C7000__) || defined(_HOST_BUILD)
uint8_t *tvm_dsp_get_l2_base(void);
uint32_t tvm_dsp_get_l2_size(void);
#endif
#ifdef C7X_CHECK_L2
void c7x_check_l2_open(void);
void c7x_check_l2_enter(const char *layer, const uint8_t *top);
void c7x_check_l2_take(const uint8_t *block, int32_t bytes);
void c7x_check_l2_leave(const uint8_t *top);
void c7x_check_l2_close(const uint8_t *top);
#define C7X_L2_WATCH(step) c7x_check_l2_##step
#else
#define C7X_L2_WATCH(step) (void)0
#endif
#ifdef __cplusplus
}
#endif

typedef struct c7x_l2 {
  uint8_t *top; /* of the blocks that are taken */
  uint8_t *end;
} c7x_l2;

/* All of L2, nothing taken: at every entry. */
C7X_INLINE c7x_l2 c7x_l2_open(void) {
  c7x_l2 l2;
#if defined(__C7000__) && !defined(_HOST_BUILD)
  l2.top = (uint8_t *)(uintptr_t)0x7E000000U;
  l2.end = l2.top + 0x140000;
#else
  l2.top = tvm_dsp_get_l2_base();
  l2.end = l2.top == NULL ? NULL : l2.top + tvm_dsp_get_l2_size();
#endif
  C7X_L2_WATCH(open());
  return l2;
}

/* A new block of `bytes`; NULL when they are not there. */
C7X_INLINE uint8_t *c7x_l2_take(c7x_l2 *l2, int32_t bytes) {
  uint8_t *const block = l2->top;
  const int32_t rounded = (bytes + C7X_L2_ALIGNMENT - 1) / C7X_L2_ALIGNMENT * C7X_L2_ALIGNMENT;
  if (rounded > l2->end - l2->top) return NULL;
  l2->top += rounded;
  C7X_L2_WATCH(take(block, bytes));
  return block;
}

/* Begins a call of a kernel with a guard of `guard` bytes, which the kernel may address in front of its input; what it
 * finds there does not matter. Returns what c7x_l2_leave wants back. */
C7X_INLINE uint8_t *c7x_l2_enter(c7x_l2 *l2, const char *layer, int32_t guard) {
  uint8_t *const mark = l2->top;
  (void)layer;
  C7X_L2_WATCH(enter(layer, l2->top));
  c7x_l2_take(l2, guard);
  return mark;
}

/* `bytes` of DDR in a new block, when the copy is complete; NULL when it failed. */
C7X_INLINE void *c7x_l2_copy(c7x_l2 *l2, const void *from, int32_t bytes) {
  uint8_t *const to = c7x_l2_take(l2, bytes);
  if (to == NULL || tvm_dsp_dma_copy(C7X_DMA_QUEUE, to, from, bytes, 0) != 0) return NULL;
  return tvm_dsp_dma_wait(C7X_DMA_QUEUE, 0) == 0 ? to : NULL;
}

/* Ends the call of a kernel: all that it took is free again. */
C7X_INLINE void c7x_l2_leave(c7x_l2 *l2, uint8_t *mark) {
  l2->top = mark;
  C7X_L2_WATCH(leave(mark));
}

/* Before every return with success. */
C7X_INLINE void c7x_l2_close(const c7x_l2 *l2) {
  (void)l2;
  C7X_L2_WATCH(close(l2->top));
}

#endif /* C7X_L2_H */
