/* The export table (exports.inc) with addresses. */
#ifndef C7X_VDSP_EXPORT_TABLE_H
#define C7X_VDSP_EXPORT_TABLE_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vdsp_availability { VDSP_ALWAYS, VDSP_TIDL, VDSP_MMALIB, VDSP_STUB, VDSP_RTS } vdsp_availability;

typedef struct vdsp_export {
  const char *name;
  const void *address; /* NULL for VDSP_STUB */
  vdsp_availability availability;
} vdsp_export;

/* In strcmp order. */
extern const vdsp_export vdsp_exports[];
extern const int vdsp_num_exports;

#ifdef __cplusplus
}
#endif

#endif
