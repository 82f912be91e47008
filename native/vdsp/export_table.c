/* In C, where a name is enough to take a function's address. Functions of ours are declared without parameters: only
 * their addresses are used here. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sincos */
#endif

#include "export_table.h"

#include <math.h>
#include <stddef.h>

/* The C library's functions lead to ours; memory functions to the host's. */
#define DECLARE_libc(name) extern void firmware_##name(void);
#define DECLARE_math(name)
#define DECLARE_dma_utils(name)
#define DECLARE_packed(name) extern void name(void);
#define DECLARE_backend(name) extern void name(void);
#define DECLARE_builtin(name) extern void name(void);
#define DECLARE_ffi(name) extern void name(void);
#define DECLARE_platform(name) extern void name(void);
#define DECLARE_tidl_support(name) extern void name(void);
#define DECLARE_kernel(name) extern void name(void);
#define DECLARE_mmalib(name) extern void name(void);
#define C7X_EXPORT_FUNCTION(name, group, availability) DECLARE_##group(name)
#define C7X_EXPORT_DATA(name, group, availability) extern char name[];
#include "exports.inc"
#undef C7X_EXPORT_FUNCTION
#undef C7X_EXPORT_DATA

#define ADDRESS_libc(name) (const void *)firmware_##name
#define ADDRESS_math(name) (const void *)name
#define ADDRESS_dma_utils(name) NULL
#define ADDRESS_packed(name) (const void *)name
#define ADDRESS_backend(name) (const void *)name
#define ADDRESS_builtin(name) (const void *)name
#define ADDRESS_ffi(name) (const void *)name
#define ADDRESS_platform(name) (const void *)name
#define ADDRESS_tidl_support(name) (const void *)name
#define ADDRESS_kernel(name) (const void *)name
#define ADDRESS_mmalib(name) (const void *)name

#define C7X_EXPORT_FUNCTION(name, group, availability) {#name, ADDRESS_##group(name), VDSP_##availability},
#define C7X_EXPORT_DATA(name, group, availability) {#name, name, VDSP_##availability},
const vdsp_export vdsp_exports[] = {
#include "exports.inc"
};
const int vdsp_num_exports = (int)(sizeof vdsp_exports / sizeof vdsp_exports[0]);
