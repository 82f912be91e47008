/* What the parts of libc7x_arm_runtime share: errors, logging, and the interface of a transport. */
#ifndef C7X_ARM_INTERNAL_H
#define C7X_ARM_INTERNAL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "c7x_client.h"
#include "c7x_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `error` and gives the value that the public function returns. */
int c7x_fail_errno(c7x_error_t* error, int number, const char* format, ...) __attribute__((format(printf, 3, 4)));
int c7x_fail_client(c7x_error_t* error, int code, const char* format, ...) __attribute__((format(printf, 3, 4)));
int c7x_fail_dsp(c7x_error_t* error, int32_t status, const char* format, ...) __attribute__((format(printf, 3, 4)));
void c7x_clear_error(c7x_error_t* error);

void c7x_log(int level, const char* format, ...) __attribute__((format(printf, 2, 3)));

/* A way to the DSP: messages over `fd`, and the carveout of C7X_CARVEOUT_SIZE bytes mapped at `base`. */
typedef struct c7x_transport c7x_transport;
struct c7x_transport {
  const char* name;
  int explains_loads; /* whether the reason for a refused load is in the printf buffer */
  int fd;             /* for poll; non-blocking */
  uint8_t* base;
  /* As send(2) and recv(2) of whole messages: bytes, or -1 with errno. receive gives 0 when the other side is gone. */
  ssize_t (*send)(c7x_transport* self, const void* message, size_t size);
  ssize_t (*receive)(c7x_transport* self, void* message, size_t size);
  /* Whether the carveout is all there, before it is touched; NULL where nothing can cut it. */
  int (*is_whole)(c7x_transport* self);
  /* Make what the Arm side wrote visible to the DSP, and the reverse; 0, or -1 with errno. */
  int (*sync_to_dsp)(c7x_transport* self);
  int (*sync_from_dsp)(c7x_transport* self);
  /* Releases everything but the mapping, and the object. */
  void (*close)(c7x_transport* self);
};

/* System calls that a test replaces to stand in for the kernel of a board. */
typedef struct c7x_kernel {
  int (*open)(const char* path, int flags);
  int (*ioctl)(int fd, unsigned long request, void* argument);
  int64_t (*now_ms)(void);
  void (*sleep_ms)(int milliseconds);
} c7x_kernel;
extern const c7x_kernel c7x_linux_kernel;

/* All of these return NULL with `error` filled. */
c7x_transport* c7x_vdsp_open(const char* socket_path, const char* shm_path, c7x_error_t* error);
c7x_transport* c7x_rpmsg_open(const c7x_kernel* kernel, const char* root, c7x_error_t* error);
c7x_client_t* c7x_client_adopt(c7x_transport* transport, c7x_error_t* error);

/* Path of the virtual DSP's socket, from the environment or in the run-time folder. */
int c7x_vdsp_socket_path(char* path, size_t size);

/* Opens and locks a file: its descriptor, or -1 with `error` filled (BUSY when another process holds the lock). */
int c7x_lock_file(const char* path, c7x_error_t* error);

int64_t c7x_now_ms(void);

#ifdef __cplusplus
}
#endif

#endif /* C7X_ARM_INTERNAL_H */
