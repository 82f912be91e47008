/* C API of libc7x_arm_runtime.so: runs loadable modules (lib0.out) on a C7x DSP from the Arm cores beside it, or on the
 * virtual DSP of `c7x vdsp start`.
 *
 * Return values. Unless said otherwise a function returns 0, or a negative number: the status of the DSP for what the
 * DSP refused, a negative errno for everything else. The two ranges overlap; c7x_client_last_error tells them apart.
 *
 * Which DSP. C7X_TRANSPORT=rpmsg takes the board's DSP, C7X_TRANSPORT=vdsp the virtual one, whose socket is
 * C7X_VDSP_SOCKET or lies in the run-time folder. Without C7X_TRANSPORT the virtual DSP is taken when its socket is
 * there, else the board's. One client at a time: a second one gets EBUSY.
 *
 * Threads. Requests of one client are carried out one after the other, so threads may share a client; only the memory
 * that outputs point to is then shared as well. c7x_client_cancel may be called from any thread and from a signal
 * handler. No function may run at the same time as c7x_client_close or afterwards.
 *
 * The library writes nothing to standard output or standard error. */
#ifndef C7X_CLIENT_H
#define C7X_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(C7X_CLIENT_BUILD)
#define C7X_API __attribute__((visibility("default")))
#else
#define C7X_API
#endif

#define C7X_CLIENT_MAX_RANK 6
#define C7X_CLIENT_MAX_INPUTS 128
/* Of c7x_client_infer, c7x_client_infer_repeat and c7x_client_infer_flags, which are not told how many descriptors the
 * caller has room for: arrays of `outputs` need this many. */
#define C7X_CLIENT_MAX_OUTPUTS 64
#define C7X_CLIENT_DEFAULT_TIMEOUT_MS 60000

typedef struct c7x_client c7x_client_t;

typedef struct c7x_status {
  uint32_t version;
  uint32_t uptime_ms;
  uint32_t jobs_completed;
  uint32_t jobs_failed;
} c7x_status_t;

/* A tensor, compact and row-major. Inputs: `data` NULL with a `data_size` means the next tensor of the KV region, which
 * the DSP holds; data in the staging region is used where it lies, any other is copied there. Outputs: `data` points
 * into the result region and is valid until the next request. */
typedef struct c7x_tensor_desc {
  void* data;
  size_t data_size; /* bytes */
  int32_t ndim;
  int32_t dtype_code; /* as in DLPack: 0 int, 1 unsigned, 2 float */
  int32_t dtype_bits;
  int64_t shape[C7X_CLIENT_MAX_RANK];
} c7x_tensor_desc_t;

/* ---- connection ---- */

/* Connects to the DSP. Returns NULL on failure; c7x_client_last_error(NULL, ...) then says why, in the same thread. */
C7X_API c7x_client_t* c7x_client_open(void);

/* Releases everything; modules stay loaded. NULL is allowed. */
C7X_API void c7x_client_close(c7x_client_t* client);

/* As c7x_client_close, but leaves private zeroed memory in the place of the shared buffer, so that pointers into it stay
 * readable; for bindings whose objects may outlive the client. The caller releases it with c7x_release_memory.
 * Returns its address, the staging buffer's, or NULL. */
C7X_API void* c7x_client_close_keep_memory(c7x_client_t* client);
C7X_API void c7x_release_memory(void* memory);

C7X_API int c7x_client_ping(c7x_client_t* client, uint32_t* version, uint32_t* uptime_ms);
C7X_API int c7x_client_get_status(c7x_client_t* client, c7x_status_t* status);

/* Milliseconds to wait for an answer; of a repeated inference, for each run. -1 waits for ever. Initially
 * C7X_TIMEOUT_MS from the environment, or C7X_CLIENT_DEFAULT_TIMEOUT_MS. After a timeout the next request first makes
 * sure that the DSP has finished the one that was given up. */
C7X_API int c7x_client_set_timeout(c7x_client_t* client, int timeout_ms);

/* Makes the request in flight return -ECANCELED at once; the DSP carries it out all the same. Does nothing when no
 * request is in flight. */
C7X_API int c7x_client_cancel(c7x_client_t* client);

/* ---- memory ---- */

C7X_API void* c7x_client_get_input_buffer(c7x_client_t* client, size_t* size);  /* staging region */
C7X_API void* c7x_client_get_output_buffer(c7x_client_t* client, size_t* size); /* result region */
C7X_API void* c7x_client_get_staging_buffer(c7x_client_t* client, size_t* size);
C7X_API void* c7x_client_get_result_buffer(c7x_client_t* client, size_t* size);

/* The first byte of the staging region that neither a module nor c7x_client_stage_alloc uses, a multiple of 128; 0 when
 * no module is loaded. The library copies inputs to the upper end of the region, towards this offset. */
C7X_API size_t c7x_client_get_input_data_offset(c7x_client_t* client);

/* Reserves `size` bytes of the staging region, aligned to 128, until a module is loaded or unloaded. Inputs written
 * there are not copied. -ENOMEM when the region is full. */
C7X_API int c7x_client_stage_alloc(c7x_client_t* client, size_t size, void** data);

/* ---- modules and weights ---- */

/* Loads a module. The file goes to the start of the staging region, where a module keeps its read-only data: modules
 * loaded before are no longer usable, nor is what c7x_client_stage_alloc gave out. */
C7X_API int c7x_client_dyn_load(c7x_client_t* client, const char* elf_path, uint32_t* handle);
C7X_API int c7x_client_dyn_unload(c7x_client_t* client, uint32_t handle);

/* Loads a weights.bin for modules without weights of their own. The firmware keeps it at the start of the staging
 * region, over a loaded module's read-only data; embed the weights instead. */
C7X_API int c7x_client_model_load(c7x_client_t* client, const char* weights_path, uint32_t* model_id);
C7X_API int c7x_client_model_unload(c7x_client_t* client, uint32_t model_id);

/* ---- inference ---- */

/* Runs a module once. `model_id` 0 takes the module's own weights. `outputs` has room for C7X_CLIENT_MAX_OUTPUTS.
 * `cycles` may be NULL. -EINVAL for n_in < 1 or > 128 and for a rank above 6, -EFBIG when inputs do not fit. */
C7X_API int c7x_client_infer(c7x_client_t* client, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t* inputs,
                             int n_in, c7x_tensor_desc_t* outputs, int* n_out, uint64_t* cycles);

/* Runs it `repeat & 0xFFFF` times; `cycles` is the sum when there is at least one input and model_id is 0, else of the
 * last run. */
C7X_API int c7x_client_infer_repeat(c7x_client_t* client, uint32_t handle, uint32_t model_id,
                                    const c7x_tensor_desc_t* inputs, int n_in, c7x_tensor_desc_t* outputs, int* n_out,
                                    uint64_t* cycles, uint32_t repeat);

/* `flags`: repeat count in bits 15..0, bit 16 keeps the KV cache on the DSP. */
C7X_API int c7x_client_infer_flags(c7x_client_t* client, uint32_t handle, uint32_t model_id,
                                   const c7x_tensor_desc_t* inputs, int n_in, c7x_tensor_desc_t* outputs, int* n_out,
                                   uint64_t* cycles, uint32_t flags);

/* As c7x_client_infer_flags, with room for `max_outputs` descriptors, and with n_in = 0 allowed. -EOVERFLOW when there
 * are more outputs. */
C7X_API int c7x_client_infer_bounded(c7x_client_t* client, uint32_t handle, uint32_t model_id,
                                     const c7x_tensor_desc_t* inputs, int n_in, c7x_tensor_desc_t* outputs,
                                     int max_outputs, int* n_out, uint64_t* cycles, uint32_t flags);

/* ---- errors ---- */

enum c7x_error_domain {
  C7X_DOMAIN_NONE = 0,   /* the last call succeeded */
  C7X_DOMAIN_ERRNO = 1,  /* code: a positive errno, of a system call that failed */
  C7X_DOMAIN_DSP = 2,    /* code: the negative status that the DSP answered with */
  C7X_DOMAIN_CLIENT = 3  /* code: enum c7x_client_error, found by this library */
};

enum c7x_client_error {
  C7X_CLIENT_ERR_ARGUMENT = 1,     /* -EINVAL */
  C7X_CLIENT_ERR_PROTOCOL = 2,     /* -EPROTO: an answer that the protocol does not allow */
  C7X_CLIENT_ERR_TIMEOUT = 3,      /* -ETIMEDOUT */
  C7X_CLIENT_ERR_CANCELLED = 4,    /* -ECANCELED */
  C7X_CLIENT_ERR_DISCONNECTED = 5, /* -ENOTCONN: the DSP went away; open a new client */
  C7X_CLIENT_ERR_TOO_LARGE = 6,    /* -EFBIG */
  C7X_CLIENT_ERR_BUSY = 7,         /* -EBUSY: another client holds the DSP */
  C7X_CLIENT_ERR_STALE = 8,        /* -ESTALE: a handle that a later load or unload made invalid */
  C7X_CLIENT_ERR_NO_DEVICE = 9,    /* -ENODEV */
  C7X_CLIENT_ERR_OUTPUTS = 10,     /* -EOVERFLOW: more outputs than the caller or the result region has room for */
  C7X_CLIENT_ERR_UNSUPPORTED = 11, /* -EOPNOTSUPP */
  C7X_CLIENT_ERR_FULL = 12         /* -ENOMEM: the staging region is full */
};

typedef struct c7x_error {
  int32_t domain; /* enum c7x_error_domain */
  int32_t code;
  char text[248]; /* one sentence, always terminated */
} c7x_error_t;

/* What went wrong in the client's last call (of c7x_client_open in this thread when `client` is NULL). Returns the
 * domain. */
C7X_API int c7x_client_last_error(c7x_client_t* client, c7x_error_t* error);

/* A fixed text for a return value. */
C7X_API const char* c7x_strerror(int code);

/* 1 when the last load or inference failed for want of DSP memory and the DSP told how many bytes it needed; else 0,
 * and the arguments are left alone. */
C7X_API int c7x_client_get_last_oom(c7x_client_t* client, uint32_t* requested, uint32_t* free_bytes, uint32_t* total);

/* ---- messages ---- */

enum c7x_log_level { C7X_LOG_DEBUG = 0, C7X_LOG_INFO = 1, C7X_LOG_WARNING = 2 };
typedef void (*c7x_log_fn)(int level, const char* text, void* user);
typedef void (*c7x_printf_fn)(const char* text, size_t size, void* user);

/* Where the library's own messages go, for the whole process; NULL, the initial value, drops them. */
C7X_API void c7x_set_log_callback(c7x_log_fn callback, void* user);

/* Where text goes that a module printed during an inference, `size` bytes without a terminator; NULL, the initial
 * value, drops it. Called in the thread of the inference, before it returns. */
C7X_API void c7x_client_set_printf_callback(c7x_client_t* client, c7x_printf_fn callback, void* user);

#ifdef __cplusplus
}
#endif

#endif /* C7X_CLIENT_H */
