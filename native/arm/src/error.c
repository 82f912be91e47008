/* Errors in their three domains, the fixed texts of c7x_strerror, the log. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static const int kClientErrno[] = {
    [C7X_CLIENT_ERR_ARGUMENT] = EINVAL,      [C7X_CLIENT_ERR_PROTOCOL] = EPROTO,
    [C7X_CLIENT_ERR_TIMEOUT] = ETIMEDOUT,    [C7X_CLIENT_ERR_CANCELLED] = ECANCELED,
    [C7X_CLIENT_ERR_DISCONNECTED] = ENOTCONN, [C7X_CLIENT_ERR_TOO_LARGE] = EFBIG,
    [C7X_CLIENT_ERR_BUSY] = EBUSY,           [C7X_CLIENT_ERR_STALE] = ESTALE,
    [C7X_CLIENT_ERR_NO_DEVICE] = ENODEV,     [C7X_CLIENT_ERR_OUTPUTS] = EOVERFLOW,
    [C7X_CLIENT_ERR_UNSUPPORTED] = EOPNOTSUPP, [C7X_CLIENT_ERR_FULL] = ENOMEM,
};

static void fill(c7x_error_t* error, int domain, int code, const char* format, va_list arguments) {
  error->domain = domain;
  error->code = code;
  vsnprintf(error->text, sizeof error->text, format, arguments);
}

int c7x_fail_errno(c7x_error_t* error, int number, const char* format, ...) {
  va_list arguments;
  /* A failure must not be returned as 0, whatever a system call left behind. */
  if (number <= 0) number = EIO;
  va_start(arguments, format);
  fill(error, C7X_DOMAIN_ERRNO, number, format, arguments);
  va_end(arguments);
  size_t used = strlen(error->text);
  char reason[96];
  if (strerror_r(number, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "errno %d", number);
  snprintf(error->text + used, sizeof error->text - used, ": %s", reason);
  return -number;
}

int c7x_fail_client(c7x_error_t* error, int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, C7X_DOMAIN_CLIENT, code, format, arguments);
  va_end(arguments);
  return -kClientErrno[code];
}

int c7x_fail_dsp(c7x_error_t* error, int32_t status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, C7X_DOMAIN_DSP, status, format, arguments);
  va_end(arguments);
  size_t used = strlen(error->text);
  snprintf(error->text + used, sizeof error->text - used, ": %s (status %d)", c7x_strerror(status), (int)status);
  /* The protocol has negative codes only; anything else must not look like success. */
  return status < 0 ? status : -EPROTO;
}

void c7x_clear_error(c7x_error_t* error) {
  error->domain = C7X_DOMAIN_NONE;
  error->code = 0;
  error->text[0] = '\0';
}

const char* c7x_strerror(int code) {
  switch (code) {
    case 0: return "Success";
    case C7X_STATUS_ERR_GENERIC: return "Generic error";
    case C7X_STATUS_ERR_INVALID: return "Invalid parameter";
    case C7X_STATUS_ERR_NOMEM: return "Out of memory";
    case C7X_STATUS_ERR_BUSY: return "Service busy";
    case C7X_STATUS_ERR_TIMEOUT: return "Operation timeout";
    case C7X_STATUS_ERR_ADDR: return "Invalid address";
    case C7X_STATUS_ERR_SIZE: return "Invalid size";
    case C7X_STATUS_ERR_OP: return "Unknown operation";
    case C7X_STATUS_ERR_LOAD: return "Dynamic load failed";
    case C7X_STATUS_ERR_SYMBOL: return "Symbol lookup failed";
    case C7X_STATUS_ERR_CALL: return "Function call failed";
    case C7X_STATUS_ERR_HANDLE: return "Invalid handle/id";
    case C7X_STATUS_ERR_WEIGHTS: return "Weights parsing failed";
    case C7X_STATUS_ERR_TENSOR: return "Tensor construction failed";
    case -EINVAL: return "Invalid argument";
    case -ETIMEDOUT: return "Timeout";
    case -EPROTO: return "Protocol error";
    case -ENODEV: return "Device not found";
    case -EFBIG: return "File too large";
    default: return "Unknown error";
  }
}

static _Atomic(c7x_log_fn) log_callback;
static _Atomic(void*) log_user;

void c7x_set_log_callback(c7x_log_fn callback, void* user) {
  /* Nobody may see a new function with the old argument. */
  atomic_store(&log_callback, (c7x_log_fn)0);
  atomic_store(&log_user, user);
  atomic_store(&log_callback, callback);
}

void c7x_log(int level, const char* format, ...) {
  c7x_log_fn callback = atomic_load(&log_callback);
  if (callback == 0) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  callback(level, text, atomic_load(&log_user));
}
