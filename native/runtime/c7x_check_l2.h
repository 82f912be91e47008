/* The checker of L2 staging (c7x build --check-l2): a build in which L2 holds only what the running layer copied.
 *
 * Everything else of L2 is poisoned for AddressSanitizer, which the whole program is built with: what no layer took, the
 * guards, what an ended layer gave back, what lies between the end of a copy and the end of its block, and the target of a
 * copy until it has been waited for. So a kernel that touches any of it is found at the byte. Beside that, each step is
 * checked: blocks are given back, copies fit their block and are waited for, a guard lies in front of an input. A violation
 * ends the process with a message that names the layer. Plain C99. */
#ifndef C7X_CHECK_L2_H
#define C7X_CHECK_L2_H

#ifndef C7X_CHECK_L2
#define C7X_CHECK_L2_GUARD(input, bytes) ((void)0)
#else

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What generated code does, from native/include/c7x_l2.h: `layer` is its index and name, `top` the end of the blocks that
 * are taken, `block` a new block for `bytes`. */
void c7x_check_l2_open(void);
void c7x_check_l2_enter(const char *layer, const uint8_t *top);
void c7x_check_l2_take(const uint8_t *block, int32_t bytes);
void c7x_check_l2_leave(const uint8_t *top);
void c7x_check_l2_close(const uint8_t *top);

/* The DMA functions, whose arguments have been checked: a copy happens when it is waited for, or before the next one. */
void c7x_check_l2_copy(void *dst, const void *src, size_t bytes);
void c7x_check_l2_wait(void);

/* The L2 area; NULL when the host has no memory. */
uint8_t *c7x_check_l2_base(void);

/* What a kernel needs: when its input lies in L2, `bytes` of L2 in front of it. */
void c7x_check_l2_guard(const void *input, size_t bytes);
#define C7X_CHECK_L2_GUARD(input, bytes) c7x_check_l2_guard(input, bytes)

#ifdef __cplusplus
}
#endif

#endif
#endif /* C7X_CHECK_L2_H */
