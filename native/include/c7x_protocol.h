/* Messages between an Arm host and the compute service of a C7x DSP, and the memory both sides share.
 *
 * Section numbers are those of the specification of the wire protocol. All integers are little endian; structures are
 * packed, so some 64-bit fields are not aligned: take their value, never their address. Every size and offset is
 * asserted below, and c7x/run/protocol.py is held to this file by a test. Plain C99 and C++14.
 */
#ifndef C7X_PROTOCOL_H
#define C7X_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transport (section 1) ---- */

#define C7X_SERVICE_ENDPOINT 20               /* local rpmsg address of the service on the DSP */
#define C7X_SERVICE_NAME "rpmsg_chrdev"       /* what the firmware announces */
#define C7X_CLIENT_NAME "c7x-compute"         /* what a client asks for when it creates its endpoint */
#define C7X_RPMSG_ADDR_ANY UINT32_C(0xFFFFFFFF)
#define C7X_MAX_MESSAGE 512                   /* buffers of the firmware */
#define C7X_MAX_RPMSG_PAYLOAD 496             /* what fits a vring buffer beside the rpmsg header: stay below */
#define C7X_MIN_MESSAGE 16                    /* shorter messages get no answer */
#define C7X_SERVICE_VERSION UINT32_C(0x020000)
#define C7X_VERSION_MAJOR(v) (((v) >> 16) & 0xFFu)
#define C7X_VERSION_MINOR(v) (((v) >> 8) & 0xFFu)
#define C7X_VERSION_PATCH(v) ((v) & 0xFFu)

/* ---- message types ---- */

#define C7X_MSG_PING UINT32_C(0x0001)
#define C7X_MSG_GET_STATUS UINT32_C(0x0003)
#define C7X_MSG_DYN_LOAD UINT32_C(0x0010)
#define C7X_MSG_DYN_UNLOAD UINT32_C(0x0012)
#define C7X_MSG_MODEL_LOAD UINT32_C(0x0020)
#define C7X_MSG_INFER UINT32_C(0x0021)
#define C7X_MSG_MODEL_UNLOAD UINT32_C(0x0022)
#define C7X_MSG_INFER_LARGE UINT32_C(0x0023)
#define C7X_MSG_RESPONSE UINT32_C(0x1000)     /* set in the type of an answer */
#define C7X_MSG_INFER_RESPONSE UINT32_C(0x1021) /* of INFER and of INFER_LARGE */

/* ---- status codes ---- */

#define C7X_STATUS_SUCCESS 0
#define C7X_STATUS_ERR_GENERIC (-1)
#define C7X_STATUS_ERR_INVALID (-2)
#define C7X_STATUS_ERR_NOMEM (-3)
#define C7X_STATUS_ERR_BUSY (-4)
#define C7X_STATUS_ERR_TIMEOUT (-5)
#define C7X_STATUS_ERR_ADDR (-6)
#define C7X_STATUS_ERR_SIZE (-7)
#define C7X_STATUS_ERR_OP (-8)
#define C7X_STATUS_ERR_LOAD (-9)
#define C7X_STATUS_ERR_SYMBOL (-10)
#define C7X_STATUS_ERR_CALL (-11)
#define C7X_STATUS_ERR_HANDLE (-12)
#define C7X_STATUS_ERR_WEIGHTS (-13)
#define C7X_STATUS_ERR_TENSOR (-14)

/* ---- limits ---- */

#define C7X_WIRE_MAX_RANK 6
#define C7X_INFER_MAX_INPUTS 4                /* of INFER; more need INFER_LARGE */
#define C7X_INFER_LARGE_MAX_INPUTS 128
#define C7X_MAX_INLINE_DESCS 5                /* that fit an INFER response; more are out of band */
#define C7X_MAX_MODULES 4
#define C7X_MAX_MODELS 4
#define C7X_FLAG_REPEAT_MASK UINT32_C(0xFFFF) /* 0 and 1 both mean one run */
#define C7X_FLAG_KV_RESIDENT UINT32_C(0x10000) /* honoured by INFER_LARGE only */

/* ---- memory map (section 5) ----
 *
 * The carveout is one shared buffer: a region's offset in it is its address minus C7X_CARVEOUT_ADDR. Addresses in
 * messages are always those of the DSP. */

#define C7X_CARVEOUT_ADDR UINT64_C(0xC0000000)
#define C7X_CARVEOUT_SIZE UINT64_C(0x20000000)
#define C7X_STAGING_ADDR UINT64_C(0xC0000000)
#define C7X_STAGING_SIZE UINT64_C(0x1D400000)
#define C7X_STAGING_OFFSET UINT64_C(0)
#define C7X_KV_ADDR UINT64_C(0xDD400000)
#define C7X_KV_SIZE UINT64_C(0x00C00000)
#define C7X_KV_OFFSET UINT64_C(0x1D400000)
#define C7X_KV_SLOT_SIZE UINT64_C(196608)
#define C7X_KV_SLOTS 60
#define C7X_RESULT_ADDR UINT64_C(0xDE000000)
#define C7X_RESULT_SIZE UINT64_C(0x02000000)
#define C7X_RESULT_OFFSET UINT64_C(0x1E000000)
#define C7X_RESULT_ALIGNMENT 64               /* of outputs in the result region */
#define C7X_PRINTF_ADDR UINT64_C(0xDFFF0000)
#define C7X_PRINTF_SIZE UINT64_C(0x10000)     /* the tail of the result region */
#define C7X_PRINTF_OFFSET UINT64_C(0x1FFF0000)
#define C7X_MAIN_POOL_ADDR UINT64_C(0x102000000)
#define C7X_MAIN_POOL_SIZE UINT64_C(0x16000000)
#define C7X_L2_ADDR UINT64_C(0x7E000000)
#define C7X_L2_SIZE UINT64_C(0x140000)
#define C7X_L2_AUX_ADDR UINT64_C(0x7F000000)
#define C7X_L2_AUX_SIZE UINT64_C(0x3C000)
#define C7X_FAST_POOL_ADDR UINT64_C(0x7F000000)
#define C7X_FAST_POOL_SIZE UINT64_C(0x20000)
#define C7X_L1_AUX_ADDR UINT64_C(0x7F03C000)
#define C7X_L1_AUX_SIZE UINT64_C(0x4000)
#define C7X_CARVEOUT_PHYS_J722S_EVM UINT64_C(0x900000000)
#define C7X_CARVEOUT_PHYS_BEAGLEY_AI UINT64_C(0x8A0000000)

/* A cache line of the DSP, which every staged input should start on (section 6). */
#define C7X_STAGING_ALIGNMENT 128

/* ---- printf buffer (section 4) ---- */

#define C7X_PRINTF_MAGIC UINT32_C(0x50524E54)
#define C7X_PRINTF_CAPACITY UINT32_C(65520)
#define C7X_PRINTF_MAX_CALL 511               /* characters one printf call may write */

/* ---- the virtual DSP (docs/virtual-dsp.md) ----
 *
 * The same messages, bare, one a packet, over a Unix socket of type SOCK_SEQPACKET; the carveout is a file of
 * C7X_CARVEOUT_SIZE bytes that client and virtual DSP map. Both lie in the user's run-time folder,
 * $XDG_RUNTIME_DIR/c7x, or /tmp/c7x-<uid> where that variable is not set; the environment variables name others.
 * When only the socket's path is known, the carveout is the file beside it whose suffix is .shm. */

#define C7X_VDSP_SOCKET_NAME "vdsp.sock"
#define C7X_VDSP_SHM_NAME "vdsp.shm"
#define C7X_VDSP_SOCKET_ENV "C7X_VDSP_SOCKET"
#define C7X_VDSP_SHM_ENV "C7X_VDSP_SHM"

/* ---- messages (sections 1 and 2) ---- */

#pragma pack(push, 1)

/* First in every message. `len` is the whole message; requests have status 0. */
typedef struct c7x_msg_header {
  uint32_t type;
  uint32_t seq;
  uint32_t len;
  int32_t status;
} c7x_msg_header;

/* A tensor. `data_addr` is a DSP address. `reserved`: 0 in requests; of an element of a tuple its index in responses. */
typedef struct c7x_wire_desc {
  uint64_t data_addr;
  uint64_t data_size;
  int32_t ndim;
  int32_t dtype_code;
  int32_t dtype_bits;
  int32_t reserved;
  int64_t shape[C7X_WIRE_MAX_RANK];
} c7x_wire_desc;

/* PING and GET_STATUS requests, DYN_UNLOAD and MODEL_UNLOAD responses, and every refusal of a malformed message are a
 * bare header. */

typedef struct c7x_ping_response {
  c7x_msg_header header;
  uint32_t version;
  uint32_t uptime_ms;
} c7x_ping_response;

typedef struct c7x_status_response {
  c7x_msg_header header;
  uint32_t version;
  uint32_t uptime_ms;
  uint32_t jobs_completed;
  uint32_t jobs_failed;
} c7x_status_response;

/* The ELF file lies at the start of the staging region. */
typedef struct c7x_dyn_load_request {
  c7x_msg_header header;
  uint32_t elf_size;
  uint32_t flags;
  uint32_t reserved[2];
} c7x_dyn_load_request;

typedef struct c7x_dyn_load_response {
  c7x_msg_header header;
  uint32_t module_handle;
  uint32_t text_size;
  uint32_t data_size;
  uint32_t oom_requested;
  uint32_t oom_free;
  uint32_t oom_total;
} c7x_dyn_load_response;

typedef struct c7x_dyn_unload_request {
  c7x_msg_header header;
  uint32_t module_handle;
} c7x_dyn_unload_request;

/* weights.bin lies at the start of the staging region. */
typedef struct c7x_model_load_request {
  c7x_msg_header header;
  uint32_t weights_size;
  uint32_t flags;
  uint32_t reserved[2];
} c7x_model_load_request;

typedef struct c7x_model_load_response {
  c7x_msg_header header;
  uint32_t model_id;
  uint32_t num_constants;
  uint32_t oom_requested;
  uint32_t oom_free;
  uint32_t oom_total;
} c7x_model_load_response;

typedef struct c7x_model_unload_request {
  c7x_msg_header header;
  uint32_t model_id;
} c7x_model_unload_request;

/* Followed by further descriptors; one slot is always there, so the smallest message has 112 bytes. */
typedef struct c7x_infer_request {
  c7x_msg_header header;
  uint32_t module_handle;
  uint32_t model_id;
  uint32_t num_inputs;
  uint32_t flags;
  c7x_wire_desc inputs[1];
} c7x_infer_request;

typedef struct c7x_infer_large_request {
  c7x_msg_header header;
  uint32_t module_handle;
  uint32_t model_id;
  uint32_t num_inputs;
  uint32_t flags;
  uint64_t descs_addr;
  uint32_t descs_size;
  uint32_t reserved;
} c7x_infer_large_request;

/* Followed by further descriptors when `descs_addr` is 0; one slot is always there. */
typedef struct c7x_infer_response {
  c7x_msg_header header;
  int32_t return_value;
  uint64_t cycles;
  uint32_t num_outputs;
  uint32_t printf_size;
  uint64_t descs_addr;
  uint32_t descs_size;
  uint32_t oom_requested;
  uint32_t oom_free;
  uint32_t oom_total;
  c7x_wire_desc outputs[1];
} c7x_infer_response;

/* In front of the text of the printf buffer. */
typedef struct c7x_printf_header {
  uint32_t magic;
  uint32_t write_index;
  uint32_t capacity;
  uint32_t reserved;
} c7x_printf_header;

#pragma pack(pop)

/* Bytes of an INFER request, and of an INFER response with its descriptors inline, of `n` tensors. */
#define C7X_INFER_REQUEST_SIZE(n) ((n) > 1 ? 32u + 80u * (uint32_t)(n) : 112u)
#define C7X_INFER_RESPONSE_SIZE(n) ((n) > 1 ? 60u + 80u * (uint32_t)(n) : 140u)

#if defined(__cplusplus)
#define C7X_WIRE_ASSERT(condition, tag) static_assert(condition, #tag)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define C7X_WIRE_ASSERT(condition, tag) _Static_assert(condition, #tag)
#else
#define C7X_WIRE_ASSERT(condition, tag) typedef char c7x_wire_assert_##tag[(condition) ? 1 : -1]
#endif
#define C7X_WIRE_SIZE(type, size) C7X_WIRE_ASSERT(sizeof(type) == (size), type##_size)
#define C7X_WIRE_OFFSET(type, field, offset) \
  C7X_WIRE_ASSERT(offsetof(type, field) == (offset), type##_##field##_offset)

C7X_WIRE_SIZE(c7x_msg_header, 16);
C7X_WIRE_OFFSET(c7x_msg_header, type, 0);
C7X_WIRE_OFFSET(c7x_msg_header, seq, 4);
C7X_WIRE_OFFSET(c7x_msg_header, len, 8);
C7X_WIRE_OFFSET(c7x_msg_header, status, 12);

C7X_WIRE_SIZE(c7x_wire_desc, 80);
C7X_WIRE_OFFSET(c7x_wire_desc, data_addr, 0);
C7X_WIRE_OFFSET(c7x_wire_desc, data_size, 8);
C7X_WIRE_OFFSET(c7x_wire_desc, ndim, 16);
C7X_WIRE_OFFSET(c7x_wire_desc, dtype_code, 20);
C7X_WIRE_OFFSET(c7x_wire_desc, dtype_bits, 24);
C7X_WIRE_OFFSET(c7x_wire_desc, reserved, 28);
C7X_WIRE_OFFSET(c7x_wire_desc, shape, 32);

C7X_WIRE_SIZE(c7x_ping_response, 24);
C7X_WIRE_OFFSET(c7x_ping_response, version, 16);
C7X_WIRE_OFFSET(c7x_ping_response, uptime_ms, 20);

C7X_WIRE_SIZE(c7x_status_response, 32);
C7X_WIRE_OFFSET(c7x_status_response, version, 16);
C7X_WIRE_OFFSET(c7x_status_response, uptime_ms, 20);
C7X_WIRE_OFFSET(c7x_status_response, jobs_completed, 24);
C7X_WIRE_OFFSET(c7x_status_response, jobs_failed, 28);

C7X_WIRE_SIZE(c7x_dyn_load_request, 32);
C7X_WIRE_OFFSET(c7x_dyn_load_request, elf_size, 16);
C7X_WIRE_OFFSET(c7x_dyn_load_request, flags, 20);
C7X_WIRE_OFFSET(c7x_dyn_load_request, reserved, 24);

C7X_WIRE_SIZE(c7x_dyn_load_response, 40);
C7X_WIRE_OFFSET(c7x_dyn_load_response, module_handle, 16);
C7X_WIRE_OFFSET(c7x_dyn_load_response, text_size, 20);
C7X_WIRE_OFFSET(c7x_dyn_load_response, data_size, 24);
C7X_WIRE_OFFSET(c7x_dyn_load_response, oom_requested, 28);
C7X_WIRE_OFFSET(c7x_dyn_load_response, oom_free, 32);
C7X_WIRE_OFFSET(c7x_dyn_load_response, oom_total, 36);

C7X_WIRE_SIZE(c7x_dyn_unload_request, 20);
C7X_WIRE_OFFSET(c7x_dyn_unload_request, module_handle, 16);

C7X_WIRE_SIZE(c7x_model_load_request, 32);
C7X_WIRE_OFFSET(c7x_model_load_request, weights_size, 16);
C7X_WIRE_OFFSET(c7x_model_load_request, flags, 20);
C7X_WIRE_OFFSET(c7x_model_load_request, reserved, 24);

C7X_WIRE_SIZE(c7x_model_load_response, 36);
C7X_WIRE_OFFSET(c7x_model_load_response, model_id, 16);
C7X_WIRE_OFFSET(c7x_model_load_response, num_constants, 20);
C7X_WIRE_OFFSET(c7x_model_load_response, oom_requested, 24);
C7X_WIRE_OFFSET(c7x_model_load_response, oom_free, 28);
C7X_WIRE_OFFSET(c7x_model_load_response, oom_total, 32);

C7X_WIRE_SIZE(c7x_model_unload_request, 20);
C7X_WIRE_OFFSET(c7x_model_unload_request, model_id, 16);

C7X_WIRE_SIZE(c7x_infer_request, 112);
C7X_WIRE_OFFSET(c7x_infer_request, module_handle, 16);
C7X_WIRE_OFFSET(c7x_infer_request, model_id, 20);
C7X_WIRE_OFFSET(c7x_infer_request, num_inputs, 24);
C7X_WIRE_OFFSET(c7x_infer_request, flags, 28);
C7X_WIRE_OFFSET(c7x_infer_request, inputs, 32);

C7X_WIRE_SIZE(c7x_infer_large_request, 48);
C7X_WIRE_OFFSET(c7x_infer_large_request, module_handle, 16);
C7X_WIRE_OFFSET(c7x_infer_large_request, model_id, 20);
C7X_WIRE_OFFSET(c7x_infer_large_request, num_inputs, 24);
C7X_WIRE_OFFSET(c7x_infer_large_request, flags, 28);
C7X_WIRE_OFFSET(c7x_infer_large_request, descs_addr, 32);
C7X_WIRE_OFFSET(c7x_infer_large_request, descs_size, 40);
C7X_WIRE_OFFSET(c7x_infer_large_request, reserved, 44);

C7X_WIRE_SIZE(c7x_infer_response, 140);
C7X_WIRE_OFFSET(c7x_infer_response, return_value, 16);
C7X_WIRE_OFFSET(c7x_infer_response, cycles, 20);
C7X_WIRE_OFFSET(c7x_infer_response, num_outputs, 28);
C7X_WIRE_OFFSET(c7x_infer_response, printf_size, 32);
C7X_WIRE_OFFSET(c7x_infer_response, descs_addr, 36);
C7X_WIRE_OFFSET(c7x_infer_response, descs_size, 44);
C7X_WIRE_OFFSET(c7x_infer_response, oom_requested, 48);
C7X_WIRE_OFFSET(c7x_infer_response, oom_free, 52);
C7X_WIRE_OFFSET(c7x_infer_response, oom_total, 56);
C7X_WIRE_OFFSET(c7x_infer_response, outputs, 60);

C7X_WIRE_SIZE(c7x_printf_header, 16);
C7X_WIRE_OFFSET(c7x_printf_header, magic, 0);
C7X_WIRE_OFFSET(c7x_printf_header, write_index, 4);
C7X_WIRE_OFFSET(c7x_printf_header, capacity, 8);
C7X_WIRE_OFFSET(c7x_printf_header, reserved, 12);

C7X_WIRE_ASSERT(C7X_STAGING_OFFSET + C7X_STAGING_SIZE == C7X_KV_OFFSET, staging_ends_at_kv);
C7X_WIRE_ASSERT(C7X_KV_OFFSET + C7X_KV_SIZE == C7X_RESULT_OFFSET, kv_ends_at_result);
C7X_WIRE_ASSERT(C7X_RESULT_OFFSET + C7X_RESULT_SIZE == C7X_CARVEOUT_SIZE, result_ends_the_carveout);
C7X_WIRE_ASSERT(C7X_PRINTF_OFFSET + C7X_PRINTF_SIZE == C7X_CARVEOUT_SIZE, printf_ends_the_carveout);
C7X_WIRE_ASSERT(C7X_STAGING_ADDR - C7X_CARVEOUT_ADDR == C7X_STAGING_OFFSET, staging_address);
C7X_WIRE_ASSERT(C7X_KV_ADDR - C7X_CARVEOUT_ADDR == C7X_KV_OFFSET, kv_address);
C7X_WIRE_ASSERT(C7X_RESULT_ADDR - C7X_CARVEOUT_ADDR == C7X_RESULT_OFFSET, result_address);
C7X_WIRE_ASSERT(C7X_PRINTF_ADDR - C7X_CARVEOUT_ADDR == C7X_PRINTF_OFFSET, printf_address);
C7X_WIRE_ASSERT(C7X_KV_SLOTS * C7X_KV_SLOT_SIZE <= C7X_KV_SIZE, kv_slots_fit);
C7X_WIRE_ASSERT(C7X_PRINTF_CAPACITY + sizeof(c7x_printf_header) == C7X_PRINTF_SIZE, printf_capacity);
C7X_WIRE_ASSERT(C7X_INFER_RESPONSE_SIZE(C7X_MAX_INLINE_DESCS) <= C7X_MAX_MESSAGE, inline_descriptors_fit);
C7X_WIRE_ASSERT(C7X_INFER_REQUEST_SIZE(C7X_INFER_MAX_INPUTS) <= C7X_MAX_RPMSG_PAYLOAD, infer_fits_a_payload);

#undef C7X_WIRE_SIZE
#undef C7X_WIRE_OFFSET
#undef C7X_WIRE_ASSERT

#ifdef __cplusplus
}
#endif

#endif /* C7X_PROTOCOL_H */
