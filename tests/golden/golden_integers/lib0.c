/* lib0.c: model golden_integers, compiled by c7x for c_static -mcpu=c7x.
 * Generated; compiles alone as C99 and as C++14. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__C7000__) && !defined(_HOST_BUILD)
#define CG_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CG_EXPORT __attribute__((visibility("default")))
#else
#define CG_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
CG_EXPORT int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena);
CG_EXPORT int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result);
#ifdef __cplusplus
}
#endif

/* Memory layout of what crosses the border between a module and its firmware (module ABI, sections 1 to 3).
 *
 * The layouts are those of TVM's FFI for C (TVMFFIAny, DLTensor inside an object); the names are ours, so a program may
 * include TVM's own headers beside this one. Every size and offset is asserted below. Needs 64-bit pointers.
 * Plain C99 and C++14.
 */
#ifndef C7X_ABI_H
#define C7X_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Type indices of c7x_any.type_index and c7x_object.type_index. */
#define C7X_TYPE_NONE 0
#define C7X_TYPE_INT 1
#define C7X_TYPE_BOOL 2
#define C7X_TYPE_FLOAT 3
#define C7X_TYPE_OPAQUE_PTR 4
#define C7X_TYPE_DTYPE 5
#define C7X_TYPE_DEVICE 6
#define C7X_TYPE_DLTENSOR_PTR 7
#define C7X_TYPE_RAW_STR 8
#define C7X_TYPE_BYTE_ARRAY_PTR 9
#define C7X_TYPE_OBJECT_RVALUE_REF 10
#define C7X_TYPE_SMALL_STR 11
#define C7X_TYPE_SMALL_BYTES 12
#define C7X_TYPE_OBJECT 64
#define C7X_TYPE_STR 65
#define C7X_TYPE_BYTES 66
#define C7X_TYPE_ERROR 67
#define C7X_TYPE_FUNCTION 68
#define C7X_TYPE_SHAPE 69
#define C7X_TYPE_TENSOR 70
#define C7X_TYPE_ARRAY 71
#define C7X_TYPE_MAP 72
#define C7X_TYPE_MODULE 73
#define C7X_TYPE_OPAQUE_PY_OBJECT 74
#define C7X_TYPE_STORAGE 128

/* dtype codes (DLPack). */
#define C7X_DTYPE_INT 0
#define C7X_DTYPE_UINT 1
#define C7X_DTYPE_FLOAT 2
#define C7X_DTYPE_BFLOAT 4
#define C7X_DTYPE_BOOL 6

#define C7X_MAX_RANK 8            /* of a tensor object */
#define C7X_MAX_WIRE_RANK 6       /* of a tensor in a protocol message */
#define C7X_MAX_ARRAY 128         /* elements of an array object, so outputs of a model */

typedef struct c7x_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} c7x_dtype;

typedef struct c7x_device {
  int32_t device_type;
  int32_t device_id;
} c7x_device;

/* First part of every object. A NULL deleter means that there is nothing to free. */
typedef struct c7x_object {
  int32_t type_index;
  int32_t ref_counter;
  void (*deleter)(void *self);
} c7x_object;

/* A value: TVMFFIAny. `small_len` is the length of a small string and zero for all other types. */
typedef struct c7x_any {
  int32_t type_index;
  uint32_t small_len;
  union {
    int64_t i64;
    double f64;
    void *ptr;
    c7x_dtype dtype;
    c7x_device device;
    uint8_t bytes[8];
  } v;
} c7x_any;

/* Type 70. `shape` normally points to `shape_storage`; `strides` NULL means compact row-major. `flags` bit 0: the object
 * owns its data. From `data` to `byte_offset` it is a DLTensor. */
typedef struct c7x_tensor {
  c7x_object header;
  void *data;
  c7x_device device;
  int32_t ndim;
  c7x_dtype dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
  int64_t shape_storage[C7X_MAX_RANK];
  int64_t strides_storage[C7X_MAX_RANK];
  uint32_t flags;
  uint32_t pad;
  void *storage_ref;
} c7x_tensor;

/* Type 71. */
typedef struct c7x_array {
  c7x_object header;
  int32_t size;
  int32_t pad;
  c7x_any elements[C7X_MAX_ARRAY];
} c7x_array;

/* Type 69. */
typedef struct c7x_shape {
  c7x_object header;
  int64_t *data;
  uint64_t size;
  int64_t inline_data[C7X_MAX_RANK];
} c7x_shape;

/* Type 128. `pool`: 0 fast, 1 main. */
typedef struct c7x_storage {
  c7x_object header;
  void *data;
  uint64_t size;
  c7x_device device;
  int32_t pool;
  int32_t pad;
} c7x_storage;

/* Type 65. */
typedef struct c7x_str {
  c7x_object header;
  const char *data;
  uint64_t size;
} c7x_str;

#if defined(__cplusplus)
#define C7X_ABI_ASSERT(condition, tag) static_assert(condition, #tag)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define C7X_ABI_ASSERT(condition, tag) _Static_assert(condition, #tag)
#else
#define C7X_ABI_ASSERT(condition, tag) typedef char c7x_abi_assert_##tag[(condition) ? 1 : -1]
#endif
#define C7X_ABI_SIZE(type, size) C7X_ABI_ASSERT(sizeof(type) == (size), type##_size)
#define C7X_ABI_OFFSET(type, field, offset) \
  C7X_ABI_ASSERT(offsetof(type, field) == (offset), type##_##field##_offset)

C7X_ABI_SIZE(c7x_dtype, 4);
C7X_ABI_OFFSET(c7x_dtype, code, 0);
C7X_ABI_OFFSET(c7x_dtype, bits, 1);
C7X_ABI_OFFSET(c7x_dtype, lanes, 2);

C7X_ABI_SIZE(c7x_device, 8);
C7X_ABI_OFFSET(c7x_device, device_type, 0);
C7X_ABI_OFFSET(c7x_device, device_id, 4);

C7X_ABI_SIZE(c7x_object, 16);
C7X_ABI_OFFSET(c7x_object, type_index, 0);
C7X_ABI_OFFSET(c7x_object, ref_counter, 4);
C7X_ABI_OFFSET(c7x_object, deleter, 8);

C7X_ABI_SIZE(c7x_any, 16);
C7X_ABI_OFFSET(c7x_any, type_index, 0);
C7X_ABI_OFFSET(c7x_any, small_len, 4);
C7X_ABI_OFFSET(c7x_any, v, 8);

C7X_ABI_SIZE(c7x_tensor, 208);
C7X_ABI_OFFSET(c7x_tensor, header, 0);
C7X_ABI_OFFSET(c7x_tensor, data, 16);
C7X_ABI_OFFSET(c7x_tensor, device, 24);
C7X_ABI_OFFSET(c7x_tensor, ndim, 32);
C7X_ABI_OFFSET(c7x_tensor, dtype, 36);
C7X_ABI_OFFSET(c7x_tensor, shape, 40);
C7X_ABI_OFFSET(c7x_tensor, strides, 48);
C7X_ABI_OFFSET(c7x_tensor, byte_offset, 56);
C7X_ABI_OFFSET(c7x_tensor, shape_storage, 64);
C7X_ABI_OFFSET(c7x_tensor, strides_storage, 128);
C7X_ABI_OFFSET(c7x_tensor, flags, 192);
C7X_ABI_OFFSET(c7x_tensor, pad, 196);
C7X_ABI_OFFSET(c7x_tensor, storage_ref, 200);

C7X_ABI_SIZE(c7x_array, 2072);
C7X_ABI_OFFSET(c7x_array, size, 16);
C7X_ABI_OFFSET(c7x_array, pad, 20);
C7X_ABI_OFFSET(c7x_array, elements, 24);

C7X_ABI_SIZE(c7x_shape, 96);
C7X_ABI_OFFSET(c7x_shape, data, 16);
C7X_ABI_OFFSET(c7x_shape, size, 24);
C7X_ABI_OFFSET(c7x_shape, inline_data, 32);

C7X_ABI_SIZE(c7x_storage, 48);
C7X_ABI_OFFSET(c7x_storage, data, 16);
C7X_ABI_OFFSET(c7x_storage, size, 24);
C7X_ABI_OFFSET(c7x_storage, device, 32);
C7X_ABI_OFFSET(c7x_storage, pool, 40);
C7X_ABI_OFFSET(c7x_storage, pad, 44);

C7X_ABI_SIZE(c7x_str, 32);
C7X_ABI_OFFSET(c7x_str, data, 16);
C7X_ABI_OFFSET(c7x_str, size, 24);

#undef C7X_ABI_SIZE
#undef C7X_ABI_OFFSET
#undef C7X_ABI_ASSERT

#ifdef __cplusplus
}
#endif

#endif /* C7X_ABI_H */

/* ... c7x_vector.h ... */

/* ... c7x_scalar.h ... */

static int32_t __tvm_ffi_fused_multiply_add(const int32_t* C7X_RESTRICT in0, const int32_t* C7X_RESTRICT in1, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_add_i32(c7x_mul_i32(in0[i0], in1[i0]), 7);
  }
  return 0;
}

static int32_t __tvm_ffi_floor_divide(const int32_t* C7X_RESTRICT in0, const int32_t* C7X_RESTRICT in1, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_floordiv_i32(in0[i0], in1[i0]);
  }
  return 0;
}

static int32_t __tvm_ffi_fused_maximum_minimum(const int32_t* C7X_RESTRICT in0, int32_t* C7X_RESTRICT out0) {
  for (int32_t i0 = 0; i0 < 6; ++i0) {
    out0[i0] = c7x_min_i32(c7x_max_i32(in0[i0], -2), 3);
  }
  return 0;
}

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  const uint8_t *w = (const uint8_t *)weights;
  uint8_t *a = (uint8_t *)arena;
  int32_t status = 0;
  (void)inputs;
  (void)outputs;
  (void)w;
  (void)a;
  /* 0: add: multiply, add at golden.py:46 */
  status = __tvm_ffi_fused_multiply_add((const int32_t *)inputs[0], (const int32_t *)inputs[1], (int32_t *)outputs[0]);
  if (status != 0) return status;
  /* 1: floor_divide: floor_divide at golden.py:46 */
  status = __tvm_ffi_floor_divide((const int32_t *)inputs[0], (const int32_t *)inputs[1], (int32_t *)outputs[1]);
  if (status != 0) return status;
  /* 2: clamp: maximum, minimum at golden.py:46 */
  status = __tvm_ffi_fused_maximum_minimum((const int32_t *)inputs[0], (int32_t *)outputs[2]);
  if (status != 0) return status;
  return status;
}

static C7X_ALIGNED(128) uint8_t cg_output_0[24];

static C7X_ALIGNED(128) uint8_t cg_output_1[24];

static C7X_ALIGNED(128) uint8_t cg_output_2[24];

static c7x_tensor cg_output_objects[3];

static c7x_array cg_output_array;

static void cg_set_output(c7x_tensor *tensor, void *data, int code, int bits, int ndim) {
  memset(tensor, 0, sizeof(*tensor));
  tensor->header.type_index = C7X_TYPE_TENSOR;
  tensor->header.ref_counter = 1;
  tensor->data = data;
  tensor->ndim = ndim;
  tensor->dtype.code = (uint8_t)code;
  tensor->dtype.bits = (uint8_t)bits;
  tensor->dtype.lanes = 1;
  tensor->shape = tensor->shape_storage;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const c7x_any *cells = (const c7x_any *)inputs;
  c7x_any *slot = (c7x_any *)result;
  const void *input_data[2];
  void *output_data[3];
  const void *weights = NULL;
  int32_t status;
  int i;
  (void)inputs;
  (void)constants;
  if (num_inputs != 2 || slot == NULL) return -1;
  if (cells == NULL) return -1;
  for (i = 0; i < num_inputs; ++i) {
    const c7x_tensor *tensor = (const c7x_tensor *)cells[i].v.ptr;
    if (cells[i].type_index != C7X_TYPE_TENSOR || tensor == NULL) return -1;
    input_data[i] = (const uint8_t *)tensor->data + tensor->byte_offset;
  }
  output_data[0] = cg_output_0;
  output_data[1] = cg_output_1;
  output_data[2] = cg_output_2;
  status = cg_main(input_data, output_data, weights, NULL);
  if (status != 0) return (int)status;
  cg_set_output(&cg_output_objects[0], cg_output_0, 0, 32, 1);
  cg_output_objects[0].shape_storage[0] = 6;
  cg_set_output(&cg_output_objects[1], cg_output_1, 0, 32, 1);
  cg_output_objects[1].shape_storage[0] = 6;
  cg_set_output(&cg_output_objects[2], cg_output_2, 0, 32, 1);
  cg_output_objects[2].shape_storage[0] = 6;
  slot->small_len = 0;
  memset(&cg_output_array, 0, sizeof(cg_output_array));
  cg_output_array.header.type_index = C7X_TYPE_ARRAY;
  cg_output_array.header.ref_counter = 1;
  cg_output_array.size = 3;
  cg_output_array.elements[0].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[0].v.ptr = &cg_output_objects[0];
  cg_output_array.elements[1].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[1].v.ptr = &cg_output_objects[1];
  cg_output_array.elements[2].type_index = C7X_TYPE_TENSOR;
  cg_output_array.elements[2].v.ptr = &cg_output_objects[2];
  slot->type_index = C7X_TYPE_ARRAY;
  slot->v.ptr = &cg_output_array;
  return 0;
}
