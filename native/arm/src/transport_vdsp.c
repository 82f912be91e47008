/* The virtual DSP: bare messages over a Unix socket of type SOCK_SEQPACKET, the carveout in a file. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

typedef struct vdsp_transport {
  c7x_transport base;
  int lock_fd;
  int shm_fd; /* -1 when the kernel keeps the memory from being cut */
} vdsp_transport;

int64_t c7x_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int c7x_lock_file(const char* path, c7x_error_t* error) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    c7x_fail_errno(error, errno, "cannot open the lock file %s", path);
    return -1;
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) {
    c7x_fail_client(error, C7X_CLIENT_ERR_BUSY, "the DSP is busy: another client holds %s", path);
  } else {
    c7x_fail_errno(error, errno, "cannot lock %s", path);
  }
  close(fd);
  return -1;
}

int c7x_vdsp_socket_path(char* path, size_t size) {
  const char* named = getenv(C7X_VDSP_SOCKET_ENV);
  const char* folder = getenv("XDG_RUNTIME_DIR");
  int used;
  if (named != NULL && named[0] != '\0') {
    used = snprintf(path, size, "%s", named);
  } else if (folder != NULL && folder[0] != '\0') {
    used = snprintf(path, size, "%s/c7x/%s", folder, C7X_VDSP_SOCKET_NAME);
  } else {
    used = snprintf(path, size, "/tmp/c7x-%u/%s", (unsigned)getuid(), C7X_VDSP_SOCKET_NAME);
  }
  return used > 0 && (size_t)used < size ? 0 : -1;
}

/* The file beside the socket: its suffix replaced by .shm. */
static int shm_beside(const char* socket_path, char* path, size_t size) {
  const char* slash = strrchr(socket_path, '/');
  const char* name = slash ? slash + 1 : socket_path;
  const char* dot = strrchr(name, '.');
  int stem = (int)(dot != NULL && dot != name ? dot - socket_path : (ptrdiff_t)strlen(socket_path));
  int used = snprintf(path, size, "%.*s.shm", stem, socket_path);
  return used > 0 && (size_t)used < size ? 0 : -1;
}

static ssize_t vdsp_send(c7x_transport* self, const void* message, size_t size) {
  return send(self->fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t vdsp_receive(c7x_transport* self, void* message, size_t size) {
  /* MSG_TRUNC gives the true length of a message that is too long. */
  return recv(self->fd, message, size, MSG_DONTWAIT | MSG_TRUNC);
}

static int vdsp_sync(c7x_transport* self) {
  (void)self;
  return 0;
}

/* Touching pages behind the end of a mapped file kills the process. */
static int reaches(int fd, off_t* size) {
  struct stat info;
  if (fstat(fd, &info) != 0) return 0;
  *size = info.st_size;
  return info.st_size >= (off_t)C7X_CARVEOUT_SIZE;
}

static int vdsp_is_whole(c7x_transport* self) {
  off_t size;
  return reaches(((vdsp_transport*)self)->shm_fd, &size);
}

static void vdsp_close(c7x_transport* self) {
  vdsp_transport* vdsp = (vdsp_transport*)self;
  if (self->fd >= 0) close(self->fd);
  if (vdsp->lock_fd >= 0) close(vdsp->lock_fd);
  if (vdsp->shm_fd >= 0) close(vdsp->shm_fd);
  free(vdsp);
}

static int connect_to(const char* path, c7x_error_t* error) {
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) {
    c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, "the socket's path is longer than %zu bytes: %s",
                    sizeof address.sun_path - 1, path);
    return -1;
  }
  memcpy(address.sun_path, path, strlen(path));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    c7x_fail_errno(error, errno, "cannot make a socket");
    return -1;
  }
  if (connect(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
  int number = errno;
  close(fd);
  if (number == ENOENT || number == ECONNREFUSED) {
    c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE, "no virtual DSP answers at %s: run c7x vdsp start", path);
  } else if (number == EAGAIN) {
    c7x_fail_client(error, C7X_CLIENT_ERR_BUSY, "the virtual DSP at %s takes no further connection", path);
  } else {
    c7x_fail_errno(error, number, "cannot connect to the virtual DSP at %s", path);
  }
  return -1;
}

static int map_carveout(vdsp_transport* vdsp, const char* path, c7x_error_t* error) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  off_t size = 0;
  if (fd < 0) {
    c7x_fail_errno(error, errno, "cannot open the virtual DSP's memory %s", path);
    return -1;
  }
  /* Before the size: a seal that comes later would not matter, a cut in between would. */
  int seals = fcntl(fd, F_GET_SEALS);
  int rc = -1;
  if (!reaches(fd, &size)) {
    c7x_fail_client(error, C7X_CLIENT_ERR_PROTOCOL, "%s has %lld bytes instead of %llu", path, (long long)size,
                    (unsigned long long)C7X_CARVEOUT_SIZE);
  } else {
    void* mapping = mmap(NULL, C7X_CARVEOUT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping != MAP_FAILED) {
      vdsp->base.base = (uint8_t*)mapping;
      rc = 0;
    } else {
      c7x_fail_errno(error, errno, "cannot map %s", path);
    }
  }
  if (rc == 0 && (seals < 0 || (seals & F_SEAL_SHRINK) == 0)) {
    vdsp->shm_fd = fd;
    vdsp->base.is_whole = vdsp_is_whole;
  } else {
    close(fd);
  }
  return rc;
}

c7x_transport* c7x_vdsp_open(const char* socket_path, const char* shm_path, c7x_error_t* error) {
  char beside[1024], lock[1024];
  if (shm_path == NULL || shm_path[0] == '\0') {
    if (shm_beside(socket_path, beside, sizeof beside) != 0) {
      c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, "the socket's path is too long");
      return NULL;
    }
    shm_path = beside;
  }
  vdsp_transport* vdsp = (vdsp_transport*)calloc(1, sizeof *vdsp);
  if (vdsp == NULL) {
    c7x_fail_errno(error, ENOMEM, "cannot open the virtual DSP");
    return NULL;
  }
  vdsp->lock_fd = vdsp->shm_fd = -1;
  c7x_transport* self = &vdsp->base;
  *self = (c7x_transport){.name = "vdsp", .explains_loads = 1, .fd = -1, .send = vdsp_send, .receive = vdsp_receive,
                          .sync_to_dsp = vdsp_sync, .sync_from_dsp = vdsp_sync, .close = vdsp_close};
  int used = snprintf(lock, sizeof lock, "%s.lock", socket_path);
  if (used < 0 || (size_t)used >= sizeof lock) {
    c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, "the socket's path is too long");
  } else if (access(socket_path, F_OK) != 0) {
    c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE, "no virtual DSP answers at %s: run c7x vdsp start", socket_path);
  } else if ((vdsp->lock_fd = c7x_lock_file(lock, error)) >= 0 && (self->fd = connect_to(socket_path, error)) >= 0 &&
             map_carveout(vdsp, shm_path, error) == 0) {
    return self;
  }
  vdsp_close(self);
  return NULL;
}
