/* The DSP of a board: rpmsg messages, the carveout from a DMA heap, attached to the remote processor.
 *
 * Devices are found by the name of the DSP in the device tree, never by their numbers, which change with every boot. All
 * paths are below `root`, so that tests can build a tree of their own; system calls on devices go through c7x_kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "sysfs.h"

#define HEAP_PATH "/dev/dma_heap/carveout_vision_apps_shared-memories"
#define LOCK_PATH "/run/lock/c7x-" C7X_DSP_NAME ".lock"
/* How long udev may take to make the node of a new endpoint. */
#define NODE_WAIT_MS 2000
#define NODE_POLL_MS 5

typedef struct endpoint_info {
  char name[32];
  uint32_t src;
  uint32_t dst;
} endpoint_info;

typedef struct heap_allocation {
  uint64_t len;
  uint32_t fd;
  uint32_t fd_flags;
  uint64_t heap_flags;
} heap_allocation;

typedef struct rproc_attachment {
  uint32_t fd;
  uint32_t padding;
  uint64_t phys;
} rproc_attachment;

#define CREATE_ENDPOINT _IOW(0xB5, 1, endpoint_info)
#define DESTROY_ENDPOINT _IO(0xB5, 2)
#define HEAP_ALLOC _IOWR('H', 0, heap_allocation)
#define RPROC_ATTACH _IOWR(0xB7, 0, rproc_attachment)
#define DMA_BUF_SYNC _IOW('b', 0, uint64_t)
#define SYNC_END_WRITE UINT64_C(6)
#define SYNC_START_READ UINT64_C(1)

/* The kernel's numbers, arm-client.md section 1; the third macro's value depends on padding. */
_Static_assert(CREATE_ENDPOINT == 0x4028B501, "RPMSG_CREATE_EPT_IOCTL");
_Static_assert(HEAP_ALLOC == 0xC0184800, "DMA_HEAP_IOCTL_ALLOC");
_Static_assert(RPROC_ATTACH == 0xC010B700, "attach ioctl of TI's remoteproc driver");
_Static_assert(DMA_BUF_SYNC == 0x40086200, "DMA_BUF_IOCTL_SYNC");

typedef struct rpmsg_transport {
  c7x_transport base;
  const c7x_kernel* kernel;
  int lock_fd, rproc_fd, buffer_fd;
} rpmsg_transport;

static int linux_open(const char* path, int flags) { return open(path, flags); }
static int linux_ioctl(int fd, unsigned long request, void* argument) { return ioctl(fd, request, argument); }
static void linux_sleep_ms(int milliseconds) {
  struct timespec wait = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  nanosleep(&wait, NULL);
}
const c7x_kernel c7x_linux_kernel = {linux_open, linux_ioctl, c7x_now_ms, linux_sleep_ms};

/* ---- the endpoint ---- */

static int contains(const int* numbers, int count, int number) {
  for (int i = 0; i < count; i++)
    if (numbers[i] == number) return 1;
  return 0;
}

/* Whether /sys/class/rpmsg/rpmsgN is an endpoint like the one that was asked for. */
static int is_our_kind(const char* root, int number) {
  char path[PATH_MAX + 64], text[64];
  snprintf(path, sizeof path, "%s/sys/class/rpmsg/rpmsg%d", root, number);
  if (!c7x_belongs_to_dsp(path)) return 0;
  snprintf(path, sizeof path, "%s/sys/class/rpmsg/rpmsg%d/name", root, number);
  c7x_read_line(path, text, sizeof text);
  if (strcmp(text, C7X_CLIENT_NAME) != 0) return 0;
  snprintf(path, sizeof path, "%s/sys/class/rpmsg/rpmsg%d/dst", root, number);
  c7x_read_line(path, text, sizeof text);
  return strtol(text, NULL, 0) == C7X_SERVICE_ENDPOINT;
}

/* Creates an endpoint and opens its node: the descriptor, or -1 with `error` filled. */
static int open_endpoint(const c7x_kernel* kernel, const char* root, int control, c7x_error_t* error) {
  char path[PATH_MAX + 64], folder[PATH_MAX];
  int before[C7X_MAX_NODES], after[C7X_MAX_NODES];
  snprintf(folder, sizeof folder, "%s/sys/class/rpmsg", root);
  int count_before = c7x_list_numbers(folder, "rpmsg", before);

  snprintf(path, sizeof path, "%s/dev/rpmsg_ctrl%d", root, control);
  int control_fd = kernel->open(path, O_RDWR | O_CLOEXEC);
  if (control_fd < 0) {
    c7x_fail_errno(error, errno, "cannot open %s%s", path, errno == EACCES ? " (root is needed)" : "");
    return -1;
  }
  endpoint_info info = {.name = C7X_CLIENT_NAME, .src = C7X_RPMSG_ADDR_ANY, .dst = C7X_SERVICE_ENDPOINT};
  int created = kernel->ioctl(control_fd, CREATE_ENDPOINT, &info);
  int number = errno;
  close(control_fd);
  if (created != 0) {
    c7x_fail_errno(error, number, "cannot create an endpoint through %s", path);
    return -1;
  }

  /* Nodes that were there before belong to others. Another process may have made one like ours just now, but an endpoint
   * opens only once, so whichever can be opened is free. */
  int64_t deadline = kernel->now_ms() + NODE_WAIT_MS;
  for (;;) {
    int count = c7x_list_numbers(folder, "rpmsg", after);
    for (int i = 0; i < count; i++) {
      if (contains(before, count_before, after[i]) || !is_our_kind(root, after[i])) continue;
      snprintf(path, sizeof path, "%s/dev/rpmsg%d", root, after[i]);
      int fd = kernel->open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
      if (fd >= 0) return fd;
      if (errno != EBUSY && errno != ENOENT && errno != EACCES) {
        c7x_fail_errno(error, errno, "cannot open %s", path);
        return -1;
      }
    }
    if (kernel->now_ms() >= deadline) break;
    kernel->sleep_ms(NODE_POLL_MS);
  }
  c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE, "the node of the new endpoint did not appear in %s/dev within %d ms",
                  root, NODE_WAIT_MS);
  return -1;
}

/* ---- the carveout ---- */

static int allocate_carveout(rpmsg_transport* rpmsg, const char* root, c7x_error_t* error) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s", root, HEAP_PATH);
  int heap = rpmsg->kernel->open(path, O_RDONLY | O_CLOEXEC);
  if (heap < 0) return c7x_fail_errno(error, errno, "cannot open %s", path);
  heap_allocation allocation = {.len = C7X_CARVEOUT_SIZE, .fd_flags = O_RDWR | O_CLOEXEC};
  int done = rpmsg->kernel->ioctl(heap, HEAP_ALLOC, &allocation);
  int number = errno;
  close(heap);
  /* It is the whole heap, so a client that does not know our lock file shows here. */
  if (done != 0 && number == ENOMEM)
    return c7x_fail_client(error, C7X_CLIENT_ERR_BUSY, "the DSP is busy: its shared memory is in use");
  if (done != 0) return c7x_fail_errno(error, number, "cannot allocate the shared memory from %s", path);
  rpmsg->buffer_fd = (int)allocation.fd;
  void* mapping = mmap(NULL, C7X_CARVEOUT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, rpmsg->buffer_fd, 0);
  if (mapping == MAP_FAILED) return c7x_fail_errno(error, errno, "cannot map the shared memory");
  rpmsg->base.base = (uint8_t*)mapping;
  return 0;
}

static int attach_carveout(rpmsg_transport* rpmsg, const char* root, c7x_error_t* error) {
  char path[PATH_MAX], state[32];
  int number = c7x_find_device(root, "remoteproc", "remoteproc");
  if (number < 0)
    return c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE, "no remote processor in %s/sys/class/remoteproc is " C7X_DSP_NAME,
                           root);
  snprintf(path, sizeof path, "%s/sys/class/remoteproc/remoteproc%d/state", root, number);
  c7x_read_line(path, state, sizeof state);
  if (state[0] != '\0' && strcmp(state, "running") != 0 && strcmp(state, "attached") != 0)
    return c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE, "the DSP is %s: start it with echo start > %s", state, path);
  snprintf(path, sizeof path, "%s/dev/remoteproc%d", root, number);
  rpmsg->rproc_fd = rpmsg->kernel->open(path, O_RDONLY | O_CLOEXEC);
  if (rpmsg->rproc_fd < 0) return c7x_fail_errno(error, errno, "cannot open %s", path);
  rproc_attachment attachment = {.fd = (uint32_t)rpmsg->buffer_fd};
  if (rpmsg->kernel->ioctl(rpmsg->rproc_fd, RPROC_ATTACH, &attachment) != 0)
    return c7x_fail_errno(error, errno, "cannot attach the shared memory to the DSP through %s", path);
  /* With another base the DSP would read and write memory that is not ours. */
  if (attachment.phys != C7X_CARVEOUT_PHYS_J722S_EVM && attachment.phys != C7X_CARVEOUT_PHYS_BEAGLEY_AI)
    return c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE,
                           "the shared memory lies at 0x%llx, where no known board has it: device tree and firmware differ",
                           (unsigned long long)attachment.phys);
  c7x_log(C7X_LOG_INFO, "shared memory at 0x%llx, remoteproc%d", (unsigned long long)attachment.phys, number);
  return 0;
}

/* ---- the transport ---- */

static ssize_t rpmsg_send(c7x_transport* self, const void* message, size_t size) {
  return write(self->fd, message, size);
}

static ssize_t rpmsg_receive(c7x_transport* self, void* message, size_t size) {
  return read(self->fd, message, size);
}

static int sync_buffer(c7x_transport* self, uint64_t flags) {
  rpmsg_transport* rpmsg = (rpmsg_transport*)self;
  int done;
  do {
    done = rpmsg->kernel->ioctl(rpmsg->buffer_fd, DMA_BUF_SYNC, &flags);
  } while (done != 0 && (errno == EINTR || errno == EAGAIN));
  return done;
}

static int rpmsg_sync_to_dsp(c7x_transport* self) { return sync_buffer(self, SYNC_END_WRITE); }
static int rpmsg_sync_from_dsp(c7x_transport* self) { return sync_buffer(self, SYNC_START_READ); }

static void close_if_open(int fd) {
  if (fd >= 0) close(fd);
}

static void rpmsg_close(c7x_transport* self) {
  rpmsg_transport* rpmsg = (rpmsg_transport*)self;
  if (self->fd >= 0) {
    /* The node would stay until the DSP stops otherwise. */
    if (rpmsg->kernel->ioctl(self->fd, DESTROY_ENDPOINT, NULL) != 0)
      c7x_log(C7X_LOG_WARNING, "cannot destroy the rpmsg endpoint: errno %d", errno);
    close(self->fd);
  }
  /* In this order: the DSP's mapping belongs to the remoteproc descriptor. */
  close_if_open(rpmsg->rproc_fd);
  close_if_open(rpmsg->buffer_fd);
  close_if_open(rpmsg->lock_fd);
  free(rpmsg);
}

c7x_transport* c7x_rpmsg_open(const c7x_kernel* kernel, const char* root, c7x_error_t* error) {
  char path[PATH_MAX];
  if (strlen(root) + 128 > PATH_MAX) {
    c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, "the path of the root folder is too long");
    return NULL;
  }
  int control = c7x_find_device(root, "rpmsg", "rpmsg_ctrl");
  if (control < 0) {
    c7x_fail_client(error, C7X_CLIENT_ERR_NO_DEVICE,
                    "no rpmsg control device in %s/sys/class/rpmsg belongs to " C7X_DSP_NAME
                    ": this is no board, or its DSP does not run", root);
    return NULL;
  }
  rpmsg_transport* rpmsg = (rpmsg_transport*)calloc(1, sizeof *rpmsg);
  if (rpmsg == NULL) {
    c7x_fail_errno(error, ENOMEM, "cannot open the DSP");
    return NULL;
  }
  c7x_transport* self = &rpmsg->base;
  *self = (c7x_transport){.name = "rpmsg", .fd = -1, .send = rpmsg_send, .receive = rpmsg_receive,
                          .sync_to_dsp = rpmsg_sync_to_dsp, .sync_from_dsp = rpmsg_sync_from_dsp, .close = rpmsg_close};
  rpmsg->kernel = kernel;
  rpmsg->lock_fd = rpmsg->rproc_fd = rpmsg->buffer_fd = -1;
  snprintf(path, sizeof path, "%s%s", root, LOCK_PATH);
  if ((rpmsg->lock_fd = c7x_lock_file(path, error)) >= 0 && allocate_carveout(rpmsg, root, error) == 0 &&
      attach_carveout(rpmsg, root, error) == 0 && (self->fd = open_endpoint(kernel, root, control, error)) >= 0)
    return self;
  if (self->base != NULL) munmap(self->base, C7X_CARVEOUT_SIZE);
  rpmsg_close(self);
  return NULL;
}
