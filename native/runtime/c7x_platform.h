/* What a module may call besides the C library (module ABI, sections 8.2 and 8.6), on a host. Plain C99.
 *
 * Memory is reserved at the first use and only the pages that a module touches become resident. One process, one thread,
 * like the firmware.
 */
#ifndef C7X_PLATFORM_H
#define C7X_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_POOL_FAST 0
#define C7X_POOL_MAIN 1
#define C7X_FAST_POOL_BYTES ((size_t)4 << 20)
#define C7X_MAIN_POOL_BYTES ((size_t)352 << 20)
#define C7X_L2_BYTES UINT32_C(0x140000)

/* The clock behind layer profiles and the line `Cycles:`. On a host it counts nanoseconds of a monotonic clock: HOST TIME,
 * never to be read as cycles of the DSP. On the device the firmware's build supplies the time-stamp counter instead. */
uint64_t c7x_cycle_counter(void);

/* Asynchronous copy on a queue; here done at once. 0, or -1 for a queue other than 0, a negative size, a null pointer with
 * a size, or overlapping ranges. */
int tvm_dsp_dma_copy(int queue, void *dst, const void *src, int bytes, int bypass_cache);
/* Waits until at most `max_inflight` copies are left: 0, or -1 for a bad queue or a negative number. */
int tvm_dsp_dma_wait(int queue, int max_inflight);

/* The L2 scratch area: 1.25 MiB, aligned to 128 bytes; NULL when the host has no memory. */
uint8_t *tvm_dsp_get_l2_base(void);
uint32_t tvm_dsp_get_l2_size(void);

/* Memory of a pool (C7X_POOL_FAST, C7X_POOL_MAIN); NULL when it is full or the pool unknown. A pointer that is no live
 * block ends the process with a message: on the device it would corrupt the pool. */
void *tvm_dsp_alloc(size_t bytes, size_t alignment, int pool);
void tvm_dsp_free(void *pointer);
size_t tvm_dsp_get_free_memory(int pool);

/* DDR scratch, aligned to 128 bytes; NULL when the main pool is full. */
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *pointer);

/* No effect, as in the firmware. */
void tvm_dsp_cache_writeback(void *address, size_t bytes);
void tvm_dsp_cache_invalidate(void *address, size_t bytes);
void tvm_dsp_cache_writeback_invalidate(void *address, size_t bytes);

/* A line of the trace: standard error. */
void tvm_dsp_log(const char *format, ...);

/* For the host program: highest use of a pool in bytes, and the size of the last request that it could not serve (0 when
 * there was none). */
size_t c7x_platform_peak(int pool);
size_t c7x_platform_failed_request(int pool);

#ifdef __cplusplus
}
#endif

#endif /* C7X_PLATFORM_H */
