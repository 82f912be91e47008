#include "c7x_tensorfile.h"

#include <string.h>

typedef struct reader {
  const uint8_t *data;
  uint64_t size;
  uint64_t offset;
} reader;

const char *c7x_tensorfile_status_text(int status) {
  switch (status) {
    case C7X_TENSORFILE_OK: return "ok";
    case C7X_TENSORFILE_ERR_NULL: return "a null pointer was given";
    case C7X_TENSORFILE_ERR_MAGIC: return "it does not start with the magic of a tensor file";
    case C7X_TENSORFILE_ERR_VERSION: return "its version is not 1";
    case C7X_TENSORFILE_ERR_COUNT: return "it holds too many tensors";
    case C7X_TENSORFILE_ERR_END: return "it ends in the middle of a tensor";
    case C7X_TENSORFILE_ERR_RANK: return "a tensor's rank is outside 0 to 8";
    case C7X_TENSORFILE_ERR_DTYPE: return "a tensor's dtype is unknown";
    case C7X_TENSORFILE_ERR_SIZE: return "a tensor's data size does not match its shape and dtype";
    case C7X_TENSORFILE_ERR_TRAILING: return "bytes follow the last tensor";
    case C7X_TENSORFILE_ERR_WRITE: return "writing failed";
    default: return "unknown status";
  }
}

int c7x_tensor_nbytes(const int64_t *shape, int32_t ndim, uint32_t bits, uint64_t *nbytes) {
  uint64_t n = bits / 8;
  int fits = 1;
  int empty = 0;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) {
      return 0;
    }
    if (shape[i] == 0) {
      empty = 1;
    } else if (n > (uint64_t)INT64_MAX / (uint64_t)shape[i]) {
      fits = 0;
    } else {
      n *= (uint64_t)shape[i];
    }
  }
  *nbytes = empty ? 0 : n;
  return fits || empty;
}

static int take_value(reader *r, void *value, size_t count) {
  if (count > r->size - r->offset) {
    return 0;
  }
  memcpy(value, r->data + r->offset, count);
  r->offset += count;
  return 1;
}

static int known_dtype(int32_t code, int32_t bits) {
  switch (code) {
    case C7X_DTYPE_INT:
    case C7X_DTYPE_UINT: return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case C7X_DTYPE_FLOAT: return bits == 16 || bits == 32 || bits == 64;
    case C7X_DTYPE_BOOL: return bits == 8;
    default: return 0;
  }
}

static int read_tensor(reader *r, c7x_tensorfile_tensor *t) {
  int32_t code, bits;
  int64_t nbytes;
  memset(t, 0, sizeof *t);
  if (!take_value(r, &t->ndim, sizeof t->ndim)) {
    return C7X_TENSORFILE_ERR_END;
  }
  if (t->ndim < 0 || t->ndim > C7X_MAX_RANK) {
    return C7X_TENSORFILE_ERR_RANK;
  }
  if (!take_value(r, t->shape, 8 * (size_t)t->ndim) || !take_value(r, &code, sizeof code) ||
      !take_value(r, &bits, sizeof bits) || !take_value(r, &nbytes, sizeof nbytes)) {
    return C7X_TENSORFILE_ERR_END;
  }
  if (!known_dtype(code, bits)) {
    return C7X_TENSORFILE_ERR_DTYPE;
  }
  t->code = code == C7X_DTYPE_BOOL ? C7X_DTYPE_UINT : (uint8_t)code;
  t->bits = (uint8_t)bits;
  if (!c7x_tensor_nbytes(t->shape, t->ndim, t->bits, &t->nbytes) || nbytes < 0 || (uint64_t)nbytes != t->nbytes) {
    return C7X_TENSORFILE_ERR_SIZE;
  }
  if (t->nbytes > r->size - r->offset) {
    return C7X_TENSORFILE_ERR_END;
  }
  t->data = r->data + r->offset;
  r->offset += t->nbytes;
  return C7X_TENSORFILE_OK;
}

static int read_file(reader *r, c7x_tensorfile_tensor *tensors, uint32_t capacity, uint32_t *count,
                     c7x_tensorfile_place *place) {
  uint32_t magic, version;
  if (!take_value(r, &magic, sizeof magic) || magic != C7X_TENSORFILE_MAGIC) {
    return C7X_TENSORFILE_ERR_MAGIC;
  }
  if (!take_value(r, &version, sizeof version)) {
    return C7X_TENSORFILE_ERR_END;
  }
  if (version != C7X_TENSORFILE_VERSION) {
    return C7X_TENSORFILE_ERR_VERSION;
  }
  if (!take_value(r, count, sizeof *count)) {
    return C7X_TENSORFILE_ERR_END;
  }
  if (*count > capacity) {
    return C7X_TENSORFILE_ERR_COUNT;
  }
  for (uint32_t i = 0; i < *count; ++i) {
    int status;
    place->tensor = i;
    place->offset = r->offset;
    status = read_tensor(r, &tensors[i]);
    if (status != C7X_TENSORFILE_OK) {
      return status;
    }
  }
  place->offset = r->offset;
  return r->offset == r->size ? C7X_TENSORFILE_OK : C7X_TENSORFILE_ERR_TRAILING;
}

int c7x_tensorfile_read(const void *data, size_t size, c7x_tensorfile_tensor *tensors, uint32_t capacity,
                        uint32_t *count, c7x_tensorfile_place *place) {
  c7x_tensorfile_place ignored;
  reader r;
  if (data == NULL || count == NULL || (tensors == NULL && capacity != 0)) {
    return C7X_TENSORFILE_ERR_NULL;
  }
  place = place != NULL ? place : &ignored;
  place->tensor = 0;
  place->offset = 0;
  *count = 0;
  r.data = (const uint8_t *)data;
  r.size = size;
  r.offset = 0;
  return read_file(&r, tensors, capacity, count, place);
}

static int put(FILE *stream, const void *value, size_t count) {
  return count == 0 || fwrite(value, 1, count, stream) == count;
}

int c7x_tensorfile_write(FILE *stream, const c7x_tensorfile_tensor *tensors, uint32_t count) {
  const uint32_t head[3] = {C7X_TENSORFILE_MAGIC, C7X_TENSORFILE_VERSION, count};
  if (!put(stream, head, sizeof head)) {
    return C7X_TENSORFILE_ERR_WRITE;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const c7x_tensorfile_tensor *t = &tensors[i];
    const int32_t dtype[2] = {t->code == C7X_DTYPE_BOOL ? C7X_DTYPE_UINT : t->code, t->bits};
    const int64_t nbytes = (int64_t)t->nbytes;
    if (!put(stream, &t->ndim, sizeof t->ndim) || !put(stream, t->shape, 8 * (size_t)t->ndim) ||
        !put(stream, dtype, sizeof dtype) || !put(stream, &nbytes, sizeof nbytes) ||
        !put(stream, t->data, (size_t)t->nbytes)) {
      return C7X_TENSORFILE_ERR_WRITE;
    }
  }
  return C7X_TENSORFILE_OK;
}
