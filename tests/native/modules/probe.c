/* A module that does what its first input asks for: int32 {command, argument}. Right and wrong behaviour for the tests of
 * the virtual DSP. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c7x_abi.h"
#include "c7x_kernels.h"
#include "c7x_platform.h"

#define EXPORT __attribute__((visibility("default")))

enum {
  OUTPUTS,      /* `argument` float outputs, output i of shape [i + 1] filled with i; 0: no result */
  INPUTS,       /* int64 {number of inputs, sum of all bytes after the first input} */
  PRINT,        /* `argument` lines of 100 characters */
  RETURN,       /* `argument` */
  ALLOCATE,     /* `argument` MiB; -3 when there are none */
  CRASH,        /* in way `argument` */
  READ_BSS,
  KEEP_POINTER, /* argument 0: keep one to new memory; 1: return what it points to */
  OVERRUN,      /* a pool block by `argument` bytes */
  FREE_TWICE,
  FREE_MEMORY,  /* int64 {main, fast} */
  DMA,          /* float {before the wait, after it} */
  BAD_OUTPUT,   /* in way `argument` */
  KERNEL,       /* c7x_int8_relu over {-2, -1, 0, 1}, as int8 */
  CONSTANTS,    /* the first float of the first tensor constant, or -1 */
  RETURN_INPUT, /* the second input's object as the output */
  REGISTERS,    /* puts input (0) or a new tensor (1) into a register file */
  MATH,         /* float exp and sin of 1 */
  PACKED        /* the builtins in packed form; a view of 6 floats of the second input, or the number of the check that fails */
};

static c7x_tensor tensors[128];
static c7x_array array;
static float floats[128 * 128];
static int64_t numbers[4];
static int8_t bytes[128];
static volatile float never_written[4];  /* else the compiler puts zeros in its place */
static float *kept;
static c7x_any registers[4];

EXPORT int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result);

static void set_tensor(c7x_tensor *t, void *data, int code, int bits, int64_t length) {
  memset(t, 0, sizeof *t);
  t->header.type_index = C7X_TYPE_TENSOR;
  t->header.ref_counter = 1;
  t->data = data;
  t->ndim = 1;
  t->dtype.code = (uint8_t)code;
  t->dtype.bits = (uint8_t)bits;
  t->dtype.lanes = 1;
  t->shape = t->shape_storage;
  t->shape_storage[0] = length;
}

static int one(c7x_any *slot, void *data, int code, int bits, int64_t length) {
  set_tensor(&tensors[0], data, code, bits, length);
  slot->type_index = C7X_TYPE_TENSOR;
  slot->v.ptr = &tensors[0];
  return 0;
}

static int outputs(c7x_any *slot, int32_t count) {
  if (count == 0) {
    return 0;
  }
  memset(&array, 0, sizeof array);
  array.header.type_index = C7X_TYPE_ARRAY;
  array.header.ref_counter = 1;
  array.size = count;
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t k = 0; k <= i; ++k) {
      floats[i * 128 + k] = (float)i;
    }
    set_tensor(&tensors[i], &floats[i * 128], C7X_DTYPE_FLOAT, 32, i + 1);
    array.elements[i].type_index = C7X_TYPE_TENSOR;
    array.elements[i].v.ptr = &tensors[i];
  }
  slot->type_index = count == 1 ? C7X_TYPE_TENSOR : C7X_TYPE_ARRAY;
  slot->v.ptr = count == 1 ? (void *)&tensors[0] : (void *)&array;
  return 0;
}

__attribute__((noinline)) static int recurse(volatile int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return recurse(depth + 1) + frame[0];
}

static int crash(int32_t way, uint8_t *input) {
  volatile int zero = 0;
  switch (way) {
    case 0: *(volatile int *)8 = 1; break;
    case 1: input[0] = 1; break;                                             /* staging is not the module's */
    case 2: *(volatile char *)((char *)tvm_dsp_alloc(16, 16, 1) + ((size_t)352 << 20)) = 1; break;
    case 3: abort(); break;
    case 4: return recurse(0);
    case 5: for (;;) { __asm__ volatile(""); } break;
    case 6: tvm_dsp_get_l2_base()[-1] = 1; break;
    default: return way / zero;
  }
  return 0;
}

static int bad_output(c7x_any *slot, int32_t way) {
  one(slot, floats, C7X_DTYPE_FLOAT, 32, 4);
  memset(floats, 0, 16);
  switch (way) {
    case 0: tensors[0].data = (void *)0x1000; break;
    case 1: slot->v.ptr = (void *)0x1000; break;
    case 2: tensors[0].ndim = 7; break;
    case 3: tensors[0].byte_offset = 4; break;
    case 4: tensors[0].shape_storage[0] = -1; break;
    case 5: tensors[0].shape_storage[0] = (int64_t)1 << 62; break;
    case 6: tensors[0].shape = (int64_t *)0x1000; break;
    case 7: memset(&array, 0, sizeof array); array.size = 1000; slot->type_index = C7X_TYPE_ARRAY; slot->v.ptr = &array; break;
    case 8: slot->type_index = C7X_TYPE_STR; break;                          /* neither tensor nor array: no outputs */
    default: tensors[0].shape_storage[0] = (int64_t)8 << 20; tensors[0].data = tvm_dsp_alloc((size_t)32 << 20, 128, 1);
      memset(tensors[0].data, 0, (size_t)32 << 20);                          /* as large as the result region */
  }
  return 0;
}

#define PACKED_BUILTIN(name) extern int TVMDSPBuiltin##name##Packed(const c7x_any *, int32_t, c7x_any *)
PACKED_BUILTIN(AllocStorage);
PACKED_BUILTIN(AllocTensor);
PACKED_BUILTIN(AllocShapeHeap);
PACKED_BUILTIN(MakeShape);
PACKED_BUILTIN(MatchShape);
PACKED_BUILTIN(CheckTensorInfo);
PACKED_BUILTIN(NullValue);
PACKED_BUILTIN(Copy);
PACKED_BUILTIN(MakeTuple);
PACKED_BUILTIN(Reshape);

static c7x_any integer(int64_t value) {
  c7x_any any;
  memset(&any, 0, sizeof any);
  any.type_index = C7X_TYPE_INT;
  any.v.i64 = value;
  return any;
}

static c7x_any float32(void) {
  const c7x_dtype dtype = {C7X_DTYPE_FLOAT, 32, 1};
  c7x_any any = integer(0);
  any.type_index = C7X_TYPE_DTYPE;
  any.v.dtype = dtype;
  return any;
}

static c7x_any none(void) {
  c7x_any any = integer(0);
  any.type_index = C7X_TYPE_NONE;
  return any;
}

/* What a program for Relax's VM does with an input of 6 floats in any shape: it learns the length, makes a storage and a
 * tensor of it, copies, and gives out a tuple of the tensor as (2, 3) and of nothing. */
static int packed(c7x_any input, c7x_any *slot) {
  extern void TVMFFIAnyClear(c7x_any *);
  c7x_any heap, shape, storage, tensor, view, nothing, copy, flat;
  const c7x_any context = none();
  {
    c7x_any a[2] = {context, integer(2)};
    if (TVMDSPBuiltinAllocShapeHeapPacked(a, 2, &heap) != 0) return 1;
    if (TVMDSPBuiltinAllocShapeHeapPacked(a, 1, &copy) != -1) return 2;
  }
  {
    c7x_any a[4] = {input, integer(1), float32(), none()};
    if (TVMDSPBuiltinCheckTensorInfoPacked(a, 4, &copy) != 0) return 3;
    a[1] = integer(2);
    if (TVMDSPBuiltinCheckTensorInfoPacked(a, 4, &copy) != -1) return 4;
    a[1] = integer(-1);
    if (TVMDSPBuiltinCheckTensorInfoPacked(a, 2, &copy) != 0) return 5;
  }
  {
    /* Store the length in slot 1, then compare with the number and with the slot. */
    c7x_any a[6] = {input, heap, integer(1), integer(1), integer(1), none()};
    if (TVMDSPBuiltinMatchShapePacked(a, 6, &copy) != 0) return 6;
    a[3] = integer(3);
    if (TVMDSPBuiltinMatchShapePacked(a, 6, &copy) != 0) return 7;
    a[3] = integer(0);
    a[4] = integer(7);
    if (TVMDSPBuiltinMatchShapePacked(a, 6, &copy) != -1) return 8;
    a[3] = integer(1);
    a[4] = integer(2); /* the heap has slots 0 and 1 */
    if (TVMDSPBuiltinMatchShapePacked(a, 6, &copy) != -1) return 9;
  }
  {
    c7x_any a[4] = {heap, integer(1), integer(1), integer(1)};
    if (TVMDSPBuiltinMakeShapePacked(a, 4, &flat) != 0) return 10;
    if (((c7x_shape *)flat.v.ptr)->size != 1 || ((c7x_shape *)flat.v.ptr)->data[0] != 6) return 11;
    if (TVMDSPBuiltinMakeShapePacked(a, 3, &copy) != -1) return 12;
  }
  {
    c7x_any a[6] = {none(), integer(2), integer(0), integer(2), integer(0), integer(3)};
    if (TVMDSPBuiltinMakeShapePacked(a, 6, &shape) != 0) return 13;
  }
  {
    c7x_any a[4] = {context, flat, integer(0), float32()};
    if (TVMDSPBuiltinAllocStoragePacked(a, 4, &storage) != 0) return 14;
    if (storage.type_index != C7X_TYPE_STORAGE || ((c7x_storage *)storage.v.ptr)->size != 24) return 15;
    a[1] = integer((int64_t)1 << 60);
    if (TVMDSPBuiltinAllocStoragePacked(a, 4, &copy) != -3) return 16;
  }
  {
    c7x_any a[4] = {storage, integer(0), flat, float32()};
    if (TVMDSPBuiltinAllocTensorPacked(a, 4, &tensor) != 0) return 17;
    a[0] = flat;
    if (TVMDSPBuiltinAllocTensorPacked(a, 4, &copy) != -1) return 18;
  }
  memcpy(((c7x_tensor *)tensor.v.ptr)->data, ((c7x_tensor *)input.v.ptr)->data, 24);
  {
    c7x_any a[2] = {tensor, shape};
    if (TVMDSPBuiltinReshapePacked(a, 2, &view) != 0) return 19;
    if (((c7x_object *)tensor.v.ptr)->ref_counter != 2) return 20;
  }
  if (TVMDSPBuiltinNullValuePacked(NULL, 0, &nothing) != 0 || nothing.type_index != C7X_TYPE_NONE) return 21;
  if (TVMDSPBuiltinCopyPacked(&view, 1, &copy) != 0 || ((c7x_object *)view.v.ptr)->ref_counter != 2) return 22;
  {
    c7x_any a[2] = {copy, nothing};
    if (TVMDSPBuiltinMakeTuplePacked(a, 2, slot) != 0) return 23;
    if (slot->type_index != C7X_TYPE_ARRAY || ((c7x_array *)slot->v.ptr)->size != 2) return 24;
  }
  TVMFFIAnyClear(&copy);
  TVMFFIAnyClear(&view);
  TVMFFIAnyClear(&tensor);
  TVMFFIAnyClear(&storage);
  TVMFFIAnyClear(&shape);
  TVMFFIAnyClear(&flat);
  TVMFFIAnyClear(&heap);
  /* What is left is the tuple's alone. */
  return ((c7x_object *)((c7x_array *)slot->v.ptr)->elements[0].v.ptr)->ref_counter == 1 ? 0 : 25;
}

int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {
  const c7x_any *cells = (const c7x_any *)inputs;
  c7x_any *slot = (c7x_any *)result;
  const c7x_tensor *first = num_inputs > 0 ? (const c7x_tensor *)cells[0].v.ptr : NULL;
  const int32_t *ask = first != NULL ? (const int32_t *)first->data : NULL;
  const int32_t argument = ask != NULL ? ask[1] : 1;
  int i;
  if (slot->type_index != 0 || slot->v.ptr != NULL) {
    return -99;
  }
  switch (ask != NULL ? ask[0] : OUTPUTS) {
    case OUTPUTS:
      return outputs(slot, argument);
    case INPUTS:
      numbers[0] = num_inputs;
      numbers[1] = 0;
      for (i = 1; i < num_inputs; ++i) {
        const c7x_tensor *t = (const c7x_tensor *)cells[i].v.ptr;
        if (cells[i].type_index != C7X_TYPE_TENSOR || t->header.type_index != C7X_TYPE_TENSOR ||
            t->header.ref_counter != 1 || t->header.deleter != NULL || t->strides != NULL || t->byte_offset != 0 ||
            t->dtype.lanes != 1 || t->device.device_type != 0 || t->ndim != 1 || t->shape != t->shape_storage) {
          return -98;
        }
        for (int64_t k = 0; k < t->shape[0] * t->dtype.bits / 8; ++k) {
          numbers[1] += ((const uint8_t *)t->data)[k];
        }
      }
      return one(slot, numbers, C7X_DTYPE_INT, 64, 2);
    case PRINT:
      for (i = 0; i < argument; ++i) {
        printf("%099d\n", i);
      }
      return 0;
    case RETURN:
      return argument;
    case ALLOCATE:
      return malloc((size_t)argument << 20) == NULL ? -3 : 0;
    case CRASH:
      return crash(argument, (uint8_t *)first->data);
    case READ_BSS:
      for (i = 0; i < 4; ++i) {
        floats[i] = never_written[i] * 2.0f + 1.0f;
      }
      return one(slot, floats, C7X_DTYPE_FLOAT, 32, 4);
    case KEEP_POINTER:
      if (argument == 0) {
        kept = (float *)malloc(64);
        kept[0] = 1.5f;
      }
      floats[0] = kept[0];
      return one(slot, floats, C7X_DTYPE_FLOAT, 32, 1);
    case OVERRUN: {
      volatile char *a = (volatile char *)tvm_dsp_alloc(128, 128, 1);
      void *b = tvm_dsp_alloc(128, 128, 1);
      for (i = 0; i < 128 + argument; ++i) {
        a[i] = 0;
      }
      return b == NULL;
    }
    case FREE_TWICE: {
      void *p = tvm_dsp_alloc(16, 16, 1);
      tvm_dsp_free(p);
      tvm_dsp_free(p);
      return 0;
    }
    case FREE_MEMORY:
      numbers[0] = (int64_t)tvm_dsp_get_free_memory(1);
      numbers[1] = (int64_t)tvm_dsp_get_free_memory(0);
      return one(slot, numbers, C7X_DTYPE_INT, 64, 2);
    case DMA:
      floats[4] = 7.0f;
      floats[8] = 0.0f;
      if (tvm_dsp_dma_copy(0, &floats[8], &floats[4], 4, 0) != 0 || tvm_dsp_dma_copy(1, floats, floats, 4, 0) != -1) {
        return -97;
      }
      floats[0] = ((volatile float *)floats)[8];
      if (tvm_dsp_dma_wait(0, 0) != 0) {
        return -96;
      }
      floats[1] = ((volatile float *)floats)[8];
      return one(slot, floats, C7X_DTYPE_FLOAT, 32, 2);
    case BAD_OUTPUT:
      return bad_output(slot, argument);
    case KERNEL: {
      static const int8_t values[4] = {-2, -1, 0, 1};
      if (c7x_int8_relu(values, bytes, 4, 0) != 0) {
        return -95;
      }
      return one(slot, bytes, C7X_DTYPE_INT, 8, 4);
    }
    case CONSTANTS: {
      const c7x_any *cell = (const c7x_any *)constants;
      floats[0] = -1.0f;
      while (cell != NULL && cell->type_index == C7X_TYPE_STR) {
        ++cell;
      }
      if (cell != NULL && cell->type_index == C7X_TYPE_TENSOR) {
        floats[0] = ((const float *)((const c7x_tensor *)cell->v.ptr)->data)[0];
      }
      return one(slot, floats, C7X_DTYPE_FLOAT, 32, 1);
    }
    case RETURN_INPUT:
      slot->type_index = C7X_TYPE_TENSOR;
      slot->v.ptr = cells[1].v.ptr;
      return 0;
    case REGISTERS: {
      extern void TVMDSPRegFileInit(c7x_any *, int32_t);
      extern c7x_storage *TVMDSPBuiltinAllocStorage(int64_t, int32_t, c7x_dtype);
      memset(registers, 0, sizeof registers);
      TVMDSPRegFileInit(registers, 4);
      registers[1] = cells[0];
      if (argument != 0) {
        const c7x_dtype dtype = {C7X_DTYPE_FLOAT, 32, 1};
        registers[1].type_index = C7X_TYPE_STORAGE;
        registers[1].v.ptr = TVMDSPBuiltinAllocStorage(64, 0, dtype);
      }
      return 0;
    }
    case MATH:
      floats[0] = expf(1.0f);
      floats[1] = sinf(1.0f);
      return one(slot, floats, C7X_DTYPE_FLOAT, 32, 2);
    case PACKED:
      return packed(cells[1], slot);
    default:
      return -1;
  }
}

#ifdef WITH_PROFILE
EXPORT void TVMPrintLayerProfile(void);
void TVMPrintLayerProfile(void) { printf("profile\n"); }
#endif

#ifdef WITH_CLEANUP
EXPORT void tidl_bridge_cleanup(void);
void tidl_bridge_cleanup(void) {
  printf("cleanup\n");
#if WITH_CLEANUP > 1
  *(volatile int *)8 = 1;
#endif
}
#endif

#ifdef WITH_TIDL
EXPORT int32_t use_tidl(void);
int32_t use_tidl(void) { return c7x_int8_max_pool_tidl(NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); }
#endif
