/* TVMT tensor files (input.bin, output.bin): target attributes, section 8. Plain C99; no state, nothing is allocated. */
#ifndef C7X_TENSORFILE_H
#define C7X_TENSORFILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "c7x_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_TENSORFILE_MAGIC UINT32_C(0x54564D54)
#define C7X_TENSORFILE_VERSION 1

typedef enum c7x_tensorfile_status {
  C7X_TENSORFILE_OK = 0,
  C7X_TENSORFILE_ERR_NULL,
  C7X_TENSORFILE_ERR_MAGIC,
  C7X_TENSORFILE_ERR_VERSION,
  C7X_TENSORFILE_ERR_COUNT,      /* more tensors than the caller has room for */
  C7X_TENSORFILE_ERR_END,        /* the file ends too early */
  C7X_TENSORFILE_ERR_RANK,       /* outside 0..8 */
  C7X_TENSORFILE_ERR_DTYPE,
  C7X_TENSORFILE_ERR_SIZE,       /* data size and shape disagree, or a negative dimension */
  C7X_TENSORFILE_ERR_TRAILING,   /* bytes after the last tensor */
  C7X_TENSORFILE_ERR_WRITE       /* the stream failed; errno says why */
} c7x_tensorfile_status;

/* A compact row-major tensor. Bool is code 1 with 8 bits; the reader turns code 6 into that. When read, `data` points
 * into the file's bytes and has no alignment. */
typedef struct c7x_tensorfile_tensor {
  uint8_t code;
  uint8_t bits;
  int32_t ndim;
  int64_t shape[C7X_MAX_RANK];
  uint64_t nbytes;
  const void *data;
} c7x_tensorfile_tensor;

/* Where reading stopped. */
typedef struct c7x_tensorfile_place {
  uint32_t tensor;
  uint64_t offset;
} c7x_tensorfile_place;

/* One sentence for a status; static storage. */
const char *c7x_tensorfile_status_text(int status);

/* Bytes of a compact tensor; returns 0 on a negative dimension or when the size does not fit 63 bits, else 1. */
int c7x_tensor_nbytes(const int64_t *shape, int32_t ndim, uint32_t bits, uint64_t *nbytes);

/* Reads the tensors of a whole file into tensors[0..capacity). `*count` is the number in the file's header, also when it
 * is above the capacity. `place` may be NULL. */
int c7x_tensorfile_read(const void *data, size_t size, c7x_tensorfile_tensor *tensors, uint32_t capacity,
                        uint32_t *count, c7x_tensorfile_place *place);

/* Writes a file of `count` tensors. Flushing and closing is the caller's part. */
int c7x_tensorfile_write(FILE *stream, const c7x_tensorfile_tensor *tensors, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* C7X_TENSORFILE_H */
