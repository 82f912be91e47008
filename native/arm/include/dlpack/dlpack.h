/* The part of DLPack's C structures that c7x_runtime.h needs. A DLPack header installed on the machine (Debian:
 * libdlpack-dev) is taken instead when the compiler finds one after this folder. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif

#if defined(__has_include_next)
#if __has_include_next(<dlpack/dlpack.h>)
#define C7X_HAVE_SYSTEM_DLPACK 1
#endif
#endif

#ifdef C7X_HAVE_SYSTEM_DLPACK
#include_next <dlpack/dlpack.h>
#elif !defined(DLPACK_DLPACK_H_)
/* The published header's guard: whichever of the two comes first defines the structures. */
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { kDLCPU = 1 } DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U
} DLDataTypeCode;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* NULL: compact and row-major */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

#ifdef __cplusplus
}
#endif
#endif
