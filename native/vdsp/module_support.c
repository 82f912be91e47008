/* Linked into every module for the virtual DSP: what generated code takes from the processor on the device, and no board's
 * firmware exports. Uses no library. */
#define _POSIX_C_SOURCE 199309L /* struct timespec under -std=c99 */

#include <stdint.h>
#include <time.h>

uint64_t c7x_cycle_counter(void);

/* Host time in nanoseconds, by system call: the C library is not there to ask. */
__attribute__((visibility("hidden"))) uint64_t c7x_cycle_counter(void) {
  struct timespec now;
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(228L), "D"((long)CLOCK_MONOTONIC), "S"(&now)
                   : "rcx", "r11", "memory");
  (void)result;
#elif defined(__aarch64__)
  register long number __asm__("x8") = 113;
  register long clock __asm__("x0") = CLOCK_MONOTONIC;
  register struct timespec *where __asm__("x1") = &now;
  __asm__ volatile("svc 0" : "+r"(clock) : "r"(number), "r"(where) : "memory");
#else
#error "the virtual DSP runs on x86-64 and AArch64"
#endif
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
