/* The client: one request at a time, staging, and everything that the DSP says is checked before it is believed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little endian");
_Static_assert(sizeof(void*) == 8, "the host descriptor of arm-client.md section 2 is that of a 64-bit machine");
_Static_assert(sizeof(c7x_tensor_desc_t) == 80 && offsetof(c7x_tensor_desc_t, shape) == 32, "host descriptor");
_Static_assert(C7X_CLIENT_MAX_RANK == C7X_WIRE_MAX_RANK, "rank");
_Static_assert(C7X_CLIENT_MAX_INPUTS == C7X_INFER_LARGE_MAX_INPUTS, "inputs");

#define TIMEOUT_VARIABLE "C7X_TIMEOUT_MS"
#define TRANSPORT_VARIABLE "C7X_TRANSPORT"
#define ROOT_VARIABLE "C7X_ROOT"
/* Descriptors of INFER_LARGE, at the very end of the staging region: far from the ELF file at its start. */
#define DESCS_SIZE ((size_t)C7X_CLIENT_MAX_INPUTS * sizeof(c7x_wire_desc))
#define DESCS_OFFSET ((size_t)C7X_STAGING_SIZE - DESCS_SIZE)
#define MAX_OUTPUTS_OF_FIRMWARE 128u
#define DRAIN_AT_ONCE 1024

_Static_assert(DESCS_OFFSET % C7X_STAGING_ALIGNMENT == 0, "descriptors are aligned");

struct c7x_client {
  pthread_mutex_t lock;
  c7x_transport* transport;
  uint8_t* base;
  c7x_error_t error;

  int cancel_fd;
  atomic_int in_flight;
  int timeout_ms;
  uint32_t seq;
  int unanswered; /* a request was given up: its answer may come yet, and the DSP may still work on it */
  int broken;

  /* Of the staging region: [0, image_end) the ELF file or weights, [image_end, reserved_end) c7x_client_stage_alloc. */
  size_t image_end, reserved_end;
  uint32_t handle;    /* the usable module that this client loaded, or 0 */
  int loaded_any;     /* whether this client ever staged a module */

  int oom;
  uint32_t oom_requested, oom_free, oom_total;

  c7x_printf_fn printf_callback;
  void* printf_user;
};

static _Thread_local c7x_error_t open_error;

static size_t align_up(size_t value) {
  return (value + (C7X_STAGING_ALIGNMENT - 1)) & ~(size_t)(C7X_STAGING_ALIGNMENT - 1);
}

/* Whether [offset, offset + size) lies inside [0, limit). */
static int within(uint64_t offset, uint64_t size, uint64_t limit) { return size <= limit && offset <= limit - size; }

/* ---- messages ---- */

static int disconnected(c7x_client_t* c, const char* what, int number) {
  c->broken = 1;
  return c7x_fail_client(&c->error, C7X_CLIENT_ERR_DISCONNECTED, "the DSP went away while %s (errno %d)", what, number);
}

/* Waits until the transport is ready for `events`; 0, or an error when time is up, the caller cancelled, or the other
 * side is gone. `deadline` < 0 waits for ever. */
static int wait_ready(c7x_client_t* c, short events, int64_t deadline) {
  struct pollfd fds[2] = {{.fd = c->transport->fd, .events = events}, {.fd = c->cancel_fd, .events = POLLIN}};
  for (;;) {
    int64_t left = deadline < 0 ? -1 : deadline - c7x_now_ms();
    if (deadline >= 0 && left < 0) left = 0;
    int ready = poll(fds, 2, (int)(left > INT_MAX ? INT_MAX : left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return c7x_fail_errno(&c->error, errno, "cannot wait for the DSP");
    if (fds[1].revents != 0)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_CANCELLED, "the request was cancelled");
    /* Before what is ready: a transport that is ready without having anything must not keep us here. */
    if (deadline >= 0 && c7x_now_ms() >= deadline)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_TIMEOUT, "the DSP did not answer in time (see " TIMEOUT_VARIABLE ")");
    if (fds[0].revents & events) return 0;
    if (fds[0].revents != 0) return disconnected(c, "waiting", 0);
  }
}

static int is_retry(int number) { return number == EAGAIN || number == EWOULDBLOCK || number == EINTR; }

/* Throws away what arrived unasked; some of it, when there is no end to it. */
static int drain(c7x_client_t* c) {
  uint8_t message[C7X_MAX_MESSAGE];
  for (int count = 0; count < DRAIN_AT_ONCE; count++) {
    ssize_t got = c->transport->receive(c->transport, message, sizeof message);
    if (got > 0) {
      c7x_log(C7X_LOG_DEBUG, "dropped a late message of %zd bytes", got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && is_retry(errno)) return 0;
    return disconnected(c, "nothing was asked", got < 0 ? errno : 0);
  }
  return 0;
}

static int send_message(c7x_client_t* c, const void* message, size_t size, int64_t deadline) {
  for (;;) {
    ssize_t sent = c->transport->send(c->transport, message, size);
    if (sent == (ssize_t)size) return 0;
    if (sent >= 0)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "%zd of %zu bytes of a message were sent", sent, size);
    if (errno == EINTR) continue;
    if (!is_retry(errno)) return disconnected(c, "sending", errno);
    int rc = wait_ready(c, POLLOUT, deadline);
    if (rc != 0) return rc;
  }
}

/* Receives the answer to request `seq` of type `type`. On success *size is its length, at least a header, and its header
 * is right; its status is not looked at. */
static int receive_answer(c7x_client_t* c, uint32_t type, uint32_t answer_type, uint32_t seq, uint8_t* answer,
                          size_t* size, int64_t deadline) {
  for (;;) {
    ssize_t got = c->transport->receive(c->transport, answer, C7X_MAX_MESSAGE);
    if (got == 0) return disconnected(c, "working", 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (!is_retry(errno)) return disconnected(c, "working", errno);
      int rc = wait_ready(c, POLLIN, deadline);
      if (rc != 0) return rc;
      continue;
    }
    if (got < C7X_MIN_MESSAGE || got > C7X_MAX_MESSAGE)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP sent a message of %zd bytes", got);
    c7x_msg_header header;
    memcpy(&header, answer, sizeof header);
    if (header.seq != seq) {
      /* The answer to a request that was given up, here or by a client before with the same endpoint address. */
      c7x_log(C7X_LOG_WARNING, "dropped the answer to request %u, waiting for that to %u", header.seq, seq);
      if (deadline >= 0 && c7x_now_ms() >= deadline)
        return c7x_fail_client(&c->error, C7X_CLIENT_ERR_TIMEOUT, "the DSP answered in time, but not to this request");
      int rc = wait_ready(c, POLLIN, deadline);
      if (rc != 0) return rc;
      continue;
    }
    if (header.len != (uint32_t)got)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP sent %zd bytes and says they are %u", got,
                             header.len);
    int refusal = header.type == (type | C7X_MSG_RESPONSE) && header.status != C7X_STATUS_SUCCESS;
    if (header.type != answer_type && !refusal)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP answered message 0x%x with message 0x%x", type,
                             header.type);
    *size = (size_t)got;
    return 0;
  }
}

static int64_t deadline_after(int timeout_ms, uint32_t runs) {
  return timeout_ms < 0 ? -1 : c7x_now_ms() + (int64_t)timeout_ms * (runs > 1 ? runs : 1);
}

/* One request and its answer. The request's header is filled here. On success the answer's status is SUCCESS and it has at
 * least `smallest` bytes; a status of the DSP is returned as an error, with what it sent in `answer`. */
static int exchange(c7x_client_t* c, const char* what, void* request, size_t request_size, uint32_t type,
                    uint32_t answer_type, size_t smallest, uint8_t* answer, size_t* answer_size, uint32_t runs) {
  *answer_size = 0;
  if (c->broken)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_DISCONNECTED, "the connection to the DSP is lost; open a new client");
  uint64_t token;
  while (read(c->cancel_fd, &token, sizeof token) > 0) {
  }
  atomic_store(&c->in_flight, 1);
  int rc = drain(c);
  if (rc == 0 && c->unanswered) {
    /* The DSP takes one request after the other: once it answers this one, it has done with the one given up. */
    c7x_msg_header ping = {C7X_MSG_PING, ++c->seq, sizeof ping, 0};
    int64_t deadline = deadline_after(c->timeout_ms, 1);
    rc = send_message(c, &ping, sizeof ping, deadline);
    if (rc == 0)
      rc = receive_answer(c, C7X_MSG_PING, C7X_MSG_PING | C7X_MSG_RESPONSE, ping.seq, answer, answer_size, deadline);
    if (rc == 0) c->unanswered = 0;
  }
  if (rc == 0) {
    c7x_msg_header header = {type, ++c->seq, (uint32_t)request_size, 0};
    memcpy(request, &header, sizeof header);
    int64_t deadline = deadline_after(c->timeout_ms, runs);
    rc = send_message(c, request, request_size, deadline);
    if (rc == 0) {
      rc = receive_answer(c, type, answer_type, header.seq, answer, answer_size, deadline);
      if (rc != 0) c->unanswered = 1;
    }
  }
  atomic_store(&c->in_flight, 0);
  if (rc != 0) {
    *answer_size = 0;
    return rc;
  }
  c7x_msg_header header;
  memcpy(&header, answer, sizeof header);
  if (header.status != C7X_STATUS_SUCCESS) return c7x_fail_dsp(&c->error, header.status, "%s failed", what);
  if (*answer_size < smallest)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP answered message 0x%x with %zu bytes instead of %zu",
                           type, *answer_size, smallest);
  return 0;
}

/* Before the carveout is touched: the client works, and its memory is there. */
static int check_usable(c7x_client_t* c) {
  if (c->broken) return disconnected(c, "nothing was asked", 0);
  if (c->transport->is_whole == NULL || c->transport->is_whole(c->transport)) return 0;
  c->broken = 1;
  return c7x_fail_client(&c->error, C7X_CLIENT_ERR_DISCONNECTED, "another process shortened the memory shared with the DSP");
}

static int sync_to_dsp(c7x_client_t* c) {
  if (c->transport->sync_to_dsp(c->transport) == 0) return 0;
  return c7x_fail_errno(&c->error, errno, "cannot synchronise the shared memory for the DSP");
}

static int sync_from_dsp(c7x_client_t* c) {
  int rc = check_usable(c);
  if (rc != 0) return rc;
  if (c->transport->sync_from_dsp(c->transport) == 0) return 0;
  return c7x_fail_errno(&c->error, errno, "cannot synchronise the shared memory from the DSP");
}

static void note_oom(c7x_client_t* c, int rc, const uint8_t* answer, size_t size, size_t offset) {
  if (rc != C7X_STATUS_ERR_NOMEM || c->error.domain != C7X_DOMAIN_DSP || size < offset + 12) return;
  memcpy(&c->oom_requested, answer + offset, 4);
  memcpy(&c->oom_free, answer + offset + 4, 4);
  memcpy(&c->oom_total, answer + offset + 8, 4);
  c->oom = (c->oom_requested | c->oom_free | c->oom_total) != 0;
}

/* Every public function: take the client, forget the last error. */
static void enter(c7x_client_t* c) {
  pthread_mutex_lock(&c->lock);
  c7x_clear_error(&c->error);
}

static int leave(c7x_client_t* c, int rc) {
  pthread_mutex_unlock(&c->lock);
  return rc;
}

static int invalid(c7x_client_t* c, const char* condition) {
  if (c == NULL) return -EINVAL;
  enter(c);
  return leave(c, c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "invalid argument: %s does not hold", condition));
}

#define REQUIRE(client, condition)                                             \
  do {                                                                         \
    if ((client) == NULL || !(condition)) return invalid(client, #condition); \
  } while (0)

/* ---- connection ---- */

c7x_client_t* c7x_client_adopt(c7x_transport* transport, c7x_error_t* error) {
  const char* text = getenv(TIMEOUT_VARIABLE);
  long timeout_ms = C7X_CLIENT_DEFAULT_TIMEOUT_MS;
  c7x_client_t* c = NULL;
  int cancel_fd = -1;
  if (text != NULL && text[0] != '\0') {
    char* end;
    timeout_ms = strtol(text, &end, 10);
    if (*end != '\0' || timeout_ms == 0 || timeout_ms < -1 || timeout_ms > INT_MAX) {
      c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, TIMEOUT_VARIABLE "=%s is not a number of milliseconds, nor -1", text);
      goto failed;
    }
  }
  cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  c = (c7x_client_t*)calloc(1, sizeof *c);
  if (cancel_fd < 0 || c == NULL) {
    c7x_fail_errno(error, errno, "cannot make a client");
    goto failed;
  }
  pthread_mutex_init(&c->lock, NULL);
  atomic_init(&c->in_flight, 0);
  c->transport = transport;
  c->base = transport->base;
  c->cancel_fd = cancel_fd;
  c->timeout_ms = (int)timeout_ms;
  /* Another start for every client, so that an answer to an earlier client's request is not taken for one to ours. */
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  c->seq = (uint32_t)now.tv_nsec * UINT32_C(2654435761) ^ (uint32_t)now.tv_sec ^ (uint32_t)getpid() << 16;
  c7x_log(C7X_LOG_INFO, "connected to the DSP over %s", transport->name);
  return c;

failed:
  free(c);
  if (cancel_fd >= 0) close(cancel_fd);
  munmap(transport->base, C7X_CARVEOUT_SIZE);
  transport->close(transport);
  return NULL;
}

static c7x_transport* open_vdsp(c7x_error_t* error) {
  char path[1024];
  if (c7x_vdsp_socket_path(path, sizeof path) != 0) {
    c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, "the path of the virtual DSP's socket is too long");
    return NULL;
  }
  return c7x_vdsp_open(path, getenv(C7X_VDSP_SHM_ENV), error);
}

static c7x_transport* open_rpmsg(c7x_error_t* error) {
  const char* root = getenv(ROOT_VARIABLE);
  return c7x_rpmsg_open(&c7x_linux_kernel, root != NULL ? root : "", error);
}

c7x_client_t* c7x_client_open(void) {
  const char* name = getenv(TRANSPORT_VARIABLE);
  c7x_error_t* error = &open_error;
  c7x_transport* transport = NULL;
  char path[1024];
  c7x_clear_error(error);
  if (name != NULL && strcmp(name, "vdsp") == 0) {
    transport = open_vdsp(error);
  } else if (name != NULL && strcmp(name, "rpmsg") == 0) {
    transport = open_rpmsg(error);
  } else if (name != NULL && name[0] != '\0') {
    c7x_fail_client(error, C7X_CLIENT_ERR_ARGUMENT, TRANSPORT_VARIABLE "=%s is neither rpmsg nor vdsp", name);
  } else {
    int there = c7x_vdsp_socket_path(path, sizeof path) == 0 && access(path, F_OK) == 0;
    if (there) transport = open_vdsp(error);
    /* A socket that nobody listens to any more is no reason to miss the board's DSP. */
    int dead = there && transport == NULL && error->domain == C7X_DOMAIN_CLIENT && error->code == C7X_CLIENT_ERR_NO_DEVICE;
    if (!there || dead) {
      c7x_error_t other;
      c7x_clear_error(&other);
      transport = open_rpmsg(&other);
      if (transport != NULL) c7x_clear_error(error);
      else if (!dead) *error = other;
    }
  }
  return transport == NULL ? NULL : c7x_client_adopt(transport, error);
}

static void release(c7x_client_t* c) {
  c->transport->close(c->transport);
  close(c->cancel_fd);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

void c7x_client_close(c7x_client_t* c) {
  if (c == NULL) return;
  munmap(c->base, C7X_CARVEOUT_SIZE);
  release(c);
}

void* c7x_client_close_keep_memory(c7x_client_t* c) {
  if (c == NULL) return NULL;
  /* One call replaces the mapping: no other thread sees the addresses unmapped. */
  void* memory = mmap(c->base, C7X_CARVEOUT_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  release(c);
  return memory == MAP_FAILED ? NULL : memory;
}

void c7x_release_memory(void* memory) {
  if (memory != NULL) munmap(memory, C7X_CARVEOUT_SIZE);
}

int c7x_client_ping(c7x_client_t* c, uint32_t* version, uint32_t* uptime_ms) {
  REQUIRE(c, 1);
  enter(c);
  c7x_msg_header request;
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size;
  c7x_ping_response response;
  int rc = exchange(c, "ping", &request, sizeof request, C7X_MSG_PING, C7X_MSG_PING | C7X_MSG_RESPONSE, sizeof response,
                    answer, &size, 1);
  if (rc != 0) return leave(c, rc);
  memcpy(&response, answer, sizeof response);
  if (version != NULL) *version = response.version;
  if (uptime_ms != NULL) *uptime_ms = response.uptime_ms;
  return leave(c, 0);
}

int c7x_client_get_status(c7x_client_t* c, c7x_status_t* status) {
  REQUIRE(c, status != NULL);
  enter(c);
  c7x_msg_header request;
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size;
  c7x_status_response response;
  int rc = exchange(c, "status", &request, sizeof request, C7X_MSG_GET_STATUS, C7X_MSG_GET_STATUS | C7X_MSG_RESPONSE,
                    sizeof response, answer, &size, 1);
  if (rc != 0) return leave(c, rc);
  memcpy(&response, answer, sizeof response);
  *status = (c7x_status_t){response.version, response.uptime_ms, response.jobs_completed, response.jobs_failed};
  return leave(c, 0);
}

int c7x_client_set_timeout(c7x_client_t* c, int timeout_ms) {
  REQUIRE(c, 1);
  enter(c);
  if (timeout_ms == 0 || timeout_ms < -1)
    return leave(c, c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "a timeout of %d ms has no meaning", timeout_ms));
  c->timeout_ms = timeout_ms;
  return leave(c, 0);
}

int c7x_client_cancel(c7x_client_t* c) {
  REQUIRE(c, 1);
  uint64_t one = 1;
  if (!atomic_load(&c->in_flight)) return 0;
  int number = errno; /* may run in a signal handler */
  ssize_t done = write(c->cancel_fd, &one, sizeof one);
  errno = number;
  return done == (ssize_t)sizeof one ? 0 : -EIO;
}

/* ---- memory ---- */

void* c7x_client_get_input_buffer(c7x_client_t* c, size_t* size) {
  if (c == NULL) return NULL;
  if (size != NULL) *size = C7X_STAGING_SIZE;
  return c->base + C7X_STAGING_OFFSET;
}

void* c7x_client_get_output_buffer(c7x_client_t* c, size_t* size) {
  if (c == NULL) return NULL;
  if (size != NULL) *size = C7X_RESULT_SIZE;
  return c->base + C7X_RESULT_OFFSET;
}

void* c7x_client_get_staging_buffer(c7x_client_t* c, size_t* size) { return c7x_client_get_input_buffer(c, size); }
void* c7x_client_get_result_buffer(c7x_client_t* c, size_t* size) { return c7x_client_get_output_buffer(c, size); }

size_t c7x_client_get_input_data_offset(c7x_client_t* c) {
  if (c == NULL) return 0;
  pthread_mutex_lock(&c->lock);
  size_t offset = c->reserved_end;
  pthread_mutex_unlock(&c->lock);
  return offset;
}

int c7x_client_stage_alloc(c7x_client_t* c, size_t size, void** data) {
  REQUIRE(c, data != NULL);
  enter(c);
  if (!within(c->reserved_end, size, DESCS_OFFSET))
    return leave(c, c7x_fail_client(&c->error, C7X_CLIENT_ERR_FULL, "%zu bytes do not fit the staging region: %zu are free",
                                    size, DESCS_OFFSET - c->reserved_end));
  *data = c->base + c->reserved_end;
  c->reserved_end = align_up(c->reserved_end + size);
  return leave(c, 0);
}

/* ---- files ---- */

static void set_image(c7x_client_t* c, size_t size) { c->image_end = c->reserved_end = align_up(size); }

/* Copies a file to the start of the staging region. Whatever can be found out beforehand is, since the region holds the
 * read-only data of a loaded module: `*touched` says whether that is gone. */
static int stage_file(c7x_client_t* c, const char* path, size_t* size, int* touched) {
  *touched = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return c7x_fail_errno(&c->error, errno, "cannot open %s", path);
  struct stat info;
  int rc = 0;
  if (fstat(fd, &info) != 0) {
    rc = c7x_fail_errno(&c->error, errno, "cannot read %s", path);
  } else if (!S_ISREG(info.st_mode)) {
    rc = c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "%s is not a regular file", path);
  } else if (info.st_size == 0) {
    rc = c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "%s is empty", path);
  } else if ((uint64_t)info.st_size > DESCS_OFFSET) {
    rc = c7x_fail_client(&c->error, C7X_CLIENT_ERR_TOO_LARGE, "%s has %lld bytes; the staging region takes %zu", path,
                         (long long)info.st_size, DESCS_OFFSET);
  }
  size_t length = rc == 0 ? (size_t)info.st_size : 0;
  for (size_t done = 0; rc == 0 && done < length;) {
    ssize_t got = read(fd, c->base + done, length - done);
    if (got > 0) {
      *touched = 1;
      done += (size_t)got;
    } else if (got == 0) {
      rc = c7x_fail_errno(&c->error, EIO, "%s ended after %zu of %zu bytes", path, done, length);
    } else if (errno != EINTR) {
      rc = c7x_fail_errno(&c->error, errno, "cannot read %s", path);
    }
  }
  close(fd);
  *size = length;
  return rc;
}

/* Appends the last line of the printf buffer to the text of a refused load. */
static void explain_load(c7x_client_t* c) {
  c7x_printf_header header;
  const char* buffer = (const char*)c->base + C7X_PRINTF_OFFSET;
  memcpy(&header, buffer, sizeof header);
  if (header.magic != C7X_PRINTF_MAGIC || header.write_index > C7X_PRINTF_CAPACITY) return;
  const char* text = buffer + sizeof header;
  size_t end = header.write_index;
  while (end > 0 && text[end - 1] == '\n') end--;
  size_t start = end;
  while (start > 0 && text[start - 1] != '\n') start--;
  size_t used = strlen(c->error.text);
  if (end > start)
    snprintf(c->error.text + used, sizeof c->error.text - used, ": %.*s", (int)(end - start), text + start);
}

int c7x_client_dyn_load(c7x_client_t* c, const char* path, uint32_t* handle) {
  REQUIRE(c, path != NULL && handle != NULL);
  enter(c);
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size, elf_size;
  int touched = 0;
  c->oom = 0;
  int rc = check_usable(c);
  if (rc == 0) rc = stage_file(c, path, &elf_size, &touched);
  if (rc != 0 && (c->broken || !touched)) return leave(c, rc);
  c->loaded_any = 1;
  c->handle = 0;
  set_image(c, 0);
  if (rc == 0) rc = sync_to_dsp(c);
  if (rc == 0) {
    c7x_dyn_load_request request = {.elf_size = (uint32_t)elf_size};
    c7x_dyn_load_response response;
    rc = exchange(c, "loading the module", &request, sizeof request, C7X_MSG_DYN_LOAD,
                  C7X_MSG_DYN_LOAD | C7X_MSG_RESPONSE, sizeof response, answer, &size, 1);
    note_oom(c, rc, answer, size, offsetof(c7x_dyn_load_response, oom_requested));
    if (rc != 0 && c->error.domain == C7X_DOMAIN_DSP && c->transport->explains_loads) {
      c7x_error_t failure = c->error;
      int gone = check_usable(c);
      c->error = failure;
      if (gone == 0) explain_load(c);
    }
    if (rc == 0) {
      memcpy(&response, answer, sizeof response);
      if (response.module_handle == 0) {
        rc = c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP loaded a module and gave it the handle 0");
      } else {
        c->handle = *handle = response.module_handle;
        set_image(c, elf_size);
      }
    }
  }
  return leave(c, rc);
}

int c7x_client_dyn_unload(c7x_client_t* c, uint32_t handle) {
  REQUIRE(c, 1);
  enter(c);
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size;
  c7x_dyn_unload_request request = {.module_handle = handle};
  int rc = exchange(c, "unloading the module", &request, sizeof request, C7X_MSG_DYN_UNLOAD,
                    C7X_MSG_DYN_UNLOAD | C7X_MSG_RESPONSE, sizeof(c7x_msg_header), answer, &size, 1);
  if (rc == 0) {
    /* The firmware resets both memory pools, whichever module it was: none is usable now. */
    c->handle = 0;
    set_image(c, 0);
  }
  return leave(c, rc);
}

int c7x_client_model_load(c7x_client_t* c, const char* path, uint32_t* model_id) {
  REQUIRE(c, path != NULL && model_id != NULL);
  enter(c);
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size, file_size;
  int touched = 0;
  c->oom = 0;
  int rc = check_usable(c);
  if (rc == 0) rc = stage_file(c, path, &file_size, &touched);
  if (!c->broken && touched && c->handle != 0)
    c7x_log(C7X_LOG_WARNING, "the weights overwrote read-only data of the loaded module; embed weights in the module");
  if (rc == 0) rc = sync_to_dsp(c);
  if (rc == 0) {
    c7x_model_load_request request = {.weights_size = (uint32_t)file_size};
    c7x_model_load_response response;
    rc = exchange(c, "loading the weights", &request, sizeof request, C7X_MSG_MODEL_LOAD,
                  C7X_MSG_MODEL_LOAD | C7X_MSG_RESPONSE, sizeof response, answer, &size, 1);
    note_oom(c, rc, answer, size, offsetof(c7x_model_load_response, oom_requested));
    if (rc == 0) {
      memcpy(&response, answer, sizeof response);
      *model_id = response.model_id;
      /* The DSP reads the weights where they lie. */
      if (align_up(file_size) > c->image_end) {
        c->image_end = align_up(file_size);
        if (c->reserved_end < c->image_end) c->reserved_end = c->image_end;
      }
    }
  }
  return leave(c, rc);
}

int c7x_client_model_unload(c7x_client_t* c, uint32_t model_id) {
  REQUIRE(c, 1);
  enter(c);
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t size;
  c7x_model_unload_request request = {.model_id = model_id};
  return leave(c, exchange(c, "unloading the weights", &request, sizeof request, C7X_MSG_MODEL_UNLOAD,
                           C7X_MSG_MODEL_UNLOAD | C7X_MSG_RESPONSE, sizeof(c7x_msg_header), answer, &size, 1));
}

/* ---- inputs ---- */

static int check_input(c7x_client_t* c, int index, const c7x_tensor_desc_t* input) {
  if (input->ndim < 0 || input->ndim > C7X_CLIENT_MAX_RANK)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "input %d has rank %d; the DSP takes 0 to %d", index,
                           (int)input->ndim, C7X_CLIENT_MAX_RANK);
  if (input->dtype_code < 0 || input->dtype_code > 255 || input->dtype_bits < 1 || input->dtype_bits > 255)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "input %d has dtype code %d with %d bits", index,
                           (int)input->dtype_code, (int)input->dtype_bits);
  for (int i = 0; i < input->ndim; i++)
    if (input->shape[i] < 0)
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "dimension %d of input %d is negative", i, index);
  return 0;
}

/* The offset in the carveout of data that the DSP can read where it lies, or -1. */
static int64_t offset_in_place(const c7x_client_t* c, const c7x_tensor_desc_t* input) {
  uintptr_t start = (uintptr_t)input->data, base = (uintptr_t)c->base;
  if (start < base) return -1;
  uint64_t offset = start - base;
  if (within(offset, input->data_size, C7X_STAGING_SIZE)) return (int64_t)offset;
  if (offset >= C7X_KV_OFFSET && within(offset - C7X_KV_OFFSET, input->data_size, C7X_KV_SIZE)) return (int64_t)offset;
  return -1;
}

/* Copies inputs as needed and fills their wire descriptors. */
static int stage_inputs(c7x_client_t* c, const c7x_tensor_desc_t* inputs, int n, c7x_wire_desc* wire) {
  /* Copies lie at the upper end of the region, below the descriptors. Their bytes, and the end of what is in use. */
  size_t copied = 0, used = c->reserved_end;
  unsigned kv = 0;
  for (int i = 0; i < n; i++) {
    const c7x_tensor_desc_t* input = &inputs[i];
    int rc = check_input(c, i, input);
    if (rc != 0) return rc;
    int64_t offset = input->data == NULL ? -1 : offset_in_place(c, input);
    if (input->data == NULL && input->data_size > 0) {
      if (kv >= C7X_KV_SLOTS || input->data_size > C7X_KV_SLOT_SIZE)
        return c7x_fail_client(&c->error, C7X_CLIENT_ERR_TOO_LARGE,
                               "KV tensor %u of %zu bytes: there are %d slots of %llu bytes", kv, input->data_size,
                               C7X_KV_SLOTS, (unsigned long long)C7X_KV_SLOT_SIZE);
      wire[i].data_addr = C7X_KV_ADDR + C7X_KV_SLOT_SIZE * kv++;
    } else if (offset >= 0) {
      wire[i].data_addr = C7X_CARVEOUT_ADDR + (uint64_t)offset;
      if ((uint64_t)offset + input->data_size > used && (uint64_t)offset < C7X_STAGING_SIZE)
        used = (size_t)offset + input->data_size;
    } else {
      wire[i].data_addr = 0; /* not known before all sizes are */
      if (!within(copied, input->data_size, DESCS_OFFSET))
        return c7x_fail_client(&c->error, C7X_CLIENT_ERR_TOO_LARGE, "the inputs do not fit the staging region");
      copied = align_up(copied + input->data_size);
    }
    wire[i].data_size = input->data_size;
    wire[i].ndim = input->ndim;
    wire[i].dtype_code = input->dtype_code;
    wire[i].dtype_bits = input->dtype_bits;
    wire[i].reserved = 0;
    memset(wire[i].shape, 0, sizeof wire[i].shape);
    for (int d = 0; d < input->ndim; d++) wire[i].shape[d] = input->shape[d];
  }
  if (used > DESCS_OFFSET || copied > DESCS_OFFSET - used)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_TOO_LARGE,
                           "the inputs do not fit the staging region: %zu bytes, %zu are free", copied,
                           used > DESCS_OFFSET ? 0 : DESCS_OFFSET - used);
  size_t offset = DESCS_OFFSET - copied;
  for (int i = 0; i < n; i++) {
    if (wire[i].data_addr != 0) continue;
    if (inputs[i].data_size > 0) memcpy(c->base + offset, inputs[i].data, inputs[i].data_size);
    wire[i].data_addr = C7X_CARVEOUT_ADDR + offset;
    offset = align_up(offset + inputs[i].data_size);
  }
  return 0;
}

/* ---- outputs ---- */

/* Turns a descriptor of the DSP into one of ours, unless it is not to be believed. */
static int take_output(c7x_client_t* c, unsigned index, const c7x_wire_desc* wire, c7x_tensor_desc_t* output) {
  c7x_wire_desc desc = *wire;
  if (desc.ndim < 0 || desc.ndim > C7X_WIRE_MAX_RANK)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_OUTPUTS, "output %u has rank %d; the protocol carries up to %d", index,
                           (int)desc.ndim, C7X_WIRE_MAX_RANK);
  if (desc.dtype_code < 0 || desc.dtype_code > 255 || desc.dtype_bits < 0 || desc.dtype_bits > 255)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "output %u has dtype code %d with %d bits", index,
                           (int)desc.dtype_code, (int)desc.dtype_bits);
  /* As the firmware computes it: whole bytes of an element only. */
  uint64_t bytes = (uint64_t)(desc.dtype_bits / 8);
  int overflow = 0;
  for (int i = 0; i < desc.ndim; i++)
    overflow |= desc.shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)desc.shape[i], &bytes);
  if (overflow || bytes != desc.data_size)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "output %u has %llu bytes, which its shape contradicts", index,
                           (unsigned long long)desc.data_size);
  uint64_t offset = desc.data_addr - C7X_RESULT_ADDR;
  /* The firmware reports the address in its own memory of an output for which the result region had no room. */
  if (bytes > 0 && !within(offset, bytes, C7X_RESULT_SIZE))
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_OUTPUTS,
                           "output %u of %llu bytes at 0x%llx is not in the result region of %llu bytes", index,
                           (unsigned long long)bytes, (unsigned long long)desc.data_addr,
                           (unsigned long long)C7X_RESULT_SIZE);
  memset(output, 0, sizeof *output);
  output->data = c->base + C7X_RESULT_OFFSET + (bytes > 0 ? offset : 0);
  output->data_size = (size_t)bytes;
  output->ndim = desc.ndim;
  output->dtype_code = desc.dtype_code;
  output->dtype_bits = desc.dtype_bits;
  for (int i = 0; i < desc.ndim; i++) output->shape[i] = desc.shape[i];
  return 0;
}

static int take_outputs(c7x_client_t* c, const uint8_t* answer, size_t size, const c7x_infer_response* response,
                        c7x_tensor_desc_t* outputs, int max_outputs, int* n_out) {
  const uint8_t* descs = answer + offsetof(c7x_infer_response, outputs);
  uint64_t bytes = (uint64_t)response->num_outputs * sizeof(c7x_wire_desc);
  if (response->num_outputs > MAX_OUTPUTS_OF_FIRMWARE)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "the DSP reports %u outputs", response->num_outputs);
  if (response->num_outputs > (uint32_t)max_outputs)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_OUTPUTS, "the module has %u outputs, the caller takes %d",
                           response->num_outputs, max_outputs);
  if (response->descs_addr != 0) {
    uint64_t offset = response->descs_addr - C7X_RESULT_ADDR;
    if (bytes > response->descs_size || !within(offset, bytes, C7X_RESULT_SIZE))
      return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL,
                             "%u descriptors in %u bytes at 0x%llx are not in the result region", response->num_outputs,
                             response->descs_size, (unsigned long long)response->descs_addr);
    descs = c->base + C7X_RESULT_OFFSET + offset;
  } else if (!within(offsetof(c7x_infer_response, outputs), bytes, size)) {
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_PROTOCOL, "an answer of %zu bytes cannot hold %u descriptors", size,
                           response->num_outputs);
  }
  for (uint32_t i = 0; i < response->num_outputs; i++) {
    c7x_wire_desc desc;
    memcpy(&desc, descs + i * sizeof desc, sizeof desc);
    int rc = take_output(c, i, &desc, &outputs[i]);
    if (rc != 0) return rc;
  }
  *n_out = (int)response->num_outputs;
  return 0;
}

/* A copy of what the module printed, or NULL; the DSP may go on writing there. */
static char* take_text(c7x_client_t* c, uint32_t size) {
  const uint8_t* buffer = c->base + C7X_PRINTF_OFFSET;
  c7x_printf_header header;
  if (size == 0 || c->printf_callback == NULL) return NULL;
  memcpy(&header, buffer, sizeof header);
  if (size > C7X_PRINTF_CAPACITY || header.magic != C7X_PRINTF_MAGIC) {
    c7x_log(C7X_LOG_WARNING, "dropped %u bytes of the module's text: its buffer was overwritten", size);
    return NULL;
  }
  char* text = (char*)malloc(size);
  if (text != NULL) memcpy(text, buffer + sizeof header, size);
  return text;
}

/* ---- inference ---- */

typedef union infer_request {
  c7x_infer_request small;
  c7x_infer_large_request large;
  uint8_t bytes[C7X_INFER_REQUEST_SIZE(C7X_INFER_MAX_INPUTS)];
} infer_request;

/* INFER_LARGE whenever it is possible. Unlike INFER it takes more than 4 inputs, answers rightly when there are more than
 * 5 outputs (how many is not known before), honours KV_RESIDENT, and rewinds the DSP's memory pools, so that nothing adds
 * up from one inference to the next. It needs an input, and loses weights that came by MODEL_LOAD. */
static int prepare_request(c7x_client_t* c, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs, int n_in,
                           uint32_t flags, infer_request* request, size_t* size, uint32_t* type) {
  c7x_wire_desc wire[C7X_CLIENT_MAX_INPUTS];
  int large = n_in > 0 && model_id == 0;
  if (flags & ~(C7X_FLAG_REPEAT_MASK | C7X_FLAG_KV_RESIDENT))
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_ARGUMENT, "flags 0x%x has bits that must be 0", flags);
  if (!large && (n_in > C7X_INFER_MAX_INPUTS || (flags & C7X_FLAG_KV_RESIDENT)))
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_UNSUPPORTED,
                           "more than %d inputs, or a KV cache, need a module with embedded weights and an input",
                           C7X_INFER_MAX_INPUTS);
  if (c->loaded_any && handle != c->handle)
    return c7x_fail_client(&c->error, C7X_CLIENT_ERR_STALE,
                           "handle %u is not usable: a later load or unload replaced the module", handle);
  int rc = check_usable(c);
  if (rc == 0) rc = stage_inputs(c, inputs, n_in, wire);
  if (rc != 0) return rc;
  memset(request, 0, sizeof *request);
  if (large) {
    memcpy(c->base + DESCS_OFFSET, wire, (size_t)n_in * sizeof wire[0]);
    request->large.module_handle = handle;
    request->large.model_id = model_id;
    request->large.num_inputs = (uint32_t)n_in;
    request->large.flags = flags;
    request->large.descs_addr = C7X_CARVEOUT_ADDR + DESCS_OFFSET;
    request->large.descs_size = (uint32_t)((size_t)n_in * sizeof wire[0]);
    *size = sizeof request->large;
    *type = C7X_MSG_INFER_LARGE;
  } else {
    request->small.module_handle = handle;
    request->small.model_id = model_id;
    request->small.num_inputs = (uint32_t)n_in;
    request->small.flags = flags;
    memcpy(request->bytes + offsetof(c7x_infer_request, inputs), wire, (size_t)n_in * sizeof wire[0]);
    *size = C7X_INFER_REQUEST_SIZE(n_in);
    *type = C7X_MSG_INFER;
  }
  return sync_to_dsp(c);
}

int c7x_client_infer_bounded(c7x_client_t* c, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs,
                             int n_in, c7x_tensor_desc_t* outputs, int max_outputs, int* n_out, uint64_t* cycles,
                             uint32_t flags) {
  REQUIRE(c, (inputs != NULL || n_in == 0) && outputs != NULL && n_out != NULL && n_in >= 0 &&
                 n_in <= C7X_CLIENT_MAX_INPUTS && max_outputs >= 0);
  enter(c);
  infer_request request;
  uint8_t answer[C7X_MAX_MESSAGE];
  size_t request_size = 0, size;
  uint32_t type = 0;
  c->oom = 0;
  int rc = prepare_request(c, handle, model_id, inputs, n_in, flags, &request, &request_size, &type);
  if (rc != 0) return leave(c, rc);
  rc = exchange(c, "the inference", &request, request_size, type, C7X_MSG_INFER_RESPONSE, sizeof(c7x_infer_response),
                answer, &size, flags & C7X_FLAG_REPEAT_MASK);
  note_oom(c, rc, answer, size, offsetof(c7x_infer_response, oom_requested));

  /* A failed run may have printed why, so the fixed part is looked at whenever it is there. */
  char* text = NULL;
  uint32_t text_size = 0;
  c7x_printf_fn callback = c->printf_callback;
  void* user = c->printf_user;
  if (size >= offsetof(c7x_infer_response, outputs) && (rc == 0 || c->error.domain == C7X_DOMAIN_DSP)) {
    c7x_infer_response response;
    memset(&response, 0, sizeof response);
    memcpy(&response, answer, size < sizeof response ? size : sizeof response);
    c7x_error_t failure = c->error;
    int synced = sync_from_dsp(c);
    if (rc != 0) {
      c->error = failure;
      if (rc == C7X_STATUS_ERR_CALL && failure.domain == C7X_DOMAIN_DSP)
        c7x_fail_dsp(&c->error, rc, "the module returned %d: the inference failed", (int)response.return_value);
    } else {
      rc = synced;
    }
    if (synced == 0) {
      text_size = response.printf_size;
      text = take_text(c, text_size);
    }
    if (rc == 0) rc = take_outputs(c, answer, size, &response, outputs, max_outputs, n_out);
    if (rc == 0 && cycles != NULL) *cycles = response.cycles;
  }
  pthread_mutex_unlock(&c->lock);
  /* Without the lock: the callback may use the client. */
  if (text != NULL) callback(text, text_size, user);
  free(text);
  return rc;
}

int c7x_client_infer_flags(c7x_client_t* c, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs, int n_in,
                           c7x_tensor_desc_t* outputs, int* n_out, uint64_t* cycles, uint32_t flags) {
  REQUIRE(c, n_in >= 1 && inputs != NULL);
  return c7x_client_infer_bounded(c, handle, model_id, inputs, n_in, outputs, C7X_CLIENT_MAX_OUTPUTS, n_out, cycles, flags);
}

int c7x_client_infer_repeat(c7x_client_t* c, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs, int n_in,
                            c7x_tensor_desc_t* outputs, int* n_out, uint64_t* cycles, uint32_t repeat) {
  return c7x_client_infer_flags(c, handle, model_id, inputs, n_in, outputs, n_out, cycles, repeat & C7X_FLAG_REPEAT_MASK);
}

int c7x_client_infer(c7x_client_t* c, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs, int n_in,
                     c7x_tensor_desc_t* outputs, int* n_out, uint64_t* cycles) {
  return c7x_client_infer_flags(c, handle, model_id, inputs, n_in, outputs, n_out, cycles, 0);
}

/* ---- errors and text ---- */

int c7x_client_last_error(c7x_client_t* c, c7x_error_t* error) {
  if (c == NULL) {
    if (error != NULL) *error = open_error;
    return open_error.domain;
  }
  pthread_mutex_lock(&c->lock);
  int domain = c->error.domain;
  if (error != NULL) *error = c->error;
  pthread_mutex_unlock(&c->lock);
  return domain;
}

int c7x_client_get_last_oom(c7x_client_t* c, uint32_t* requested, uint32_t* free_bytes, uint32_t* total) {
  if (c == NULL) return 0;
  pthread_mutex_lock(&c->lock);
  int known = c->oom;
  if (known && requested != NULL) *requested = c->oom_requested;
  if (known && free_bytes != NULL) *free_bytes = c->oom_free;
  if (known && total != NULL) *total = c->oom_total;
  pthread_mutex_unlock(&c->lock);
  return known;
}

void c7x_client_set_printf_callback(c7x_client_t* c, c7x_printf_fn callback, void* user) {
  if (c == NULL) return;
  pthread_mutex_lock(&c->lock);
  c->printf_callback = callback;
  c->printf_user = user;
  pthread_mutex_unlock(&c->lock);
}
