#include "c7x_weights.h"

#include <string.h>

typedef struct reader {
  const uint8_t *data;
  uint64_t size;
  uint64_t offset;
} reader;

/* One entry as it stands in the file; `payload` is the offset of its variable part. */
typedef struct entry {
  int32_t type_index;
  int32_t ndim;
  c7x_dtype dtype;
  uint64_t dims;       /* offset of the int64 values of a tensor's or shape's dimensions */
  uint64_t num_dims;
  uint64_t bytes;      /* offset of a tensor's data or a string's characters */
  uint64_t num_bytes;
  uint64_t scalar;     /* raw payload of an integer, float or dtype */
} entry;

const char *c7x_weights_status_text(int status) {
  switch (status) {
    case C7X_WEIGHTS_OK: return "ok";
    case C7X_WEIGHTS_ERR_NULL: return "a null pointer was given";
    case C7X_WEIGHTS_ERR_MAGIC: return "a tensor does not start with the tensor magic";
    case C7X_WEIGHTS_ERR_TOO_MANY: return "more than 4096 constants, or a tensor rank outside 0 to 16";
    case C7X_WEIGHTS_ERR_SHAPE_POOL: return "the shape pool is full";
    case C7X_WEIGHTS_ERR_STRING_POOL: return "the string pool is full";
    case C7X_WEIGHTS_ERR_TYPE: return "an entry has an unknown type";
    case C7X_WEIGHTS_ERR_END: return "the file ends in the middle of an entry";
    case C7X_WEIGHTS_ERR_TENSOR_POOL: return "the tensor pool is full";
    case C7X_WEIGHTS_ERR_NOT_INITIALISED: return "the constants loader is not initialised";
    case C7X_WEIGHTS_ERR_NOMEM: return "there is not enough memory for the constants";
    case C7X_WEIGHTS_ERR_SIZE: return "a tensor's data size does not match its shape and dtype";
    default: return "unknown status";
  }
}

/* Moves past `count` bytes, which are left at *at; 0 when they are not all there. */
static int take(reader *r, uint64_t count, uint64_t *at) {
  if (count > r->size - r->offset) {
    return 0;
  }
  *at = r->offset;
  r->offset += count;
  return 1;
}

static int take_value(reader *r, void *value, size_t count) {
  uint64_t at;
  if (!take(r, count, &at)) {
    return 0;
  }
  memcpy(value, r->data + at, count);
  return 1;
}

static int read_tensor(reader *r, entry *e) {
  uint64_t magic, reserved, expected;
  int64_t num_bytes;
  c7x_device device;
  int overflow = 0;
  int empty = 0;
  if (!take_value(r, &magic, sizeof magic)) {
    return C7X_WEIGHTS_ERR_END;
  }
  if (magic != C7X_WEIGHTS_TENSOR_MAGIC) {
    return C7X_WEIGHTS_ERR_MAGIC;
  }
  if (!take_value(r, &reserved, sizeof reserved) || !take_value(r, &device, sizeof device) ||
      !take_value(r, &e->ndim, sizeof e->ndim)) {
    return C7X_WEIGHTS_ERR_END;
  }
  if (e->ndim < 0 || e->ndim > C7X_WEIGHTS_MAX_RANK) {
    return C7X_WEIGHTS_ERR_TOO_MANY;
  }
  e->num_dims = (uint64_t)e->ndim;
  if (!take_value(r, &e->dtype, sizeof e->dtype) || !take(r, 8 * e->num_dims, &e->dims) ||
      !take_value(r, &num_bytes, sizeof num_bytes)) {
    return C7X_WEIGHTS_ERR_END;
  }
  expected = ((uint64_t)e->dtype.bits * e->dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < e->ndim; ++i) {
    int64_t dim;
    memcpy(&dim, r->data + e->dims + 8 * (uint64_t)i, sizeof dim);
    if (dim < 0) {
      return C7X_WEIGHTS_ERR_SIZE;
    }
    if (dim == 0) {
      empty = 1;
    } else if (expected > UINT64_MAX / (uint64_t)dim) {
      overflow = 1;
    } else {
      expected *= (uint64_t)dim;
    }
  }
  if (empty) {
    expected = 0;
  }
  if (num_bytes < 0 || (overflow && !empty) || (uint64_t)num_bytes != expected) {
    return C7X_WEIGHTS_ERR_SIZE;
  }
  e->num_bytes = expected;
  return take(r, expected, &e->bytes) ? C7X_WEIGHTS_OK : C7X_WEIGHTS_ERR_END;
}

static int read_entry(reader *r, entry *e) {
  memset(e, 0, sizeof *e);
  if (!take_value(r, &e->type_index, sizeof e->type_index)) {
    return C7X_WEIGHTS_ERR_END;
  }
  switch (e->type_index) {
    case C7X_TYPE_TENSOR:
      return read_tensor(r, e);
    case C7X_TYPE_SHAPE:
      if (!take_value(r, &e->num_dims, sizeof e->num_dims) || e->num_dims > r->size / 8 ||
          !take(r, 8 * e->num_dims, &e->dims)) {
        return C7X_WEIGHTS_ERR_END;
      }
      return C7X_WEIGHTS_OK;
    case C7X_TYPE_STR:
      if (!take_value(r, &e->num_bytes, sizeof e->num_bytes) || !take(r, e->num_bytes, &e->bytes)) {
        return C7X_WEIGHTS_ERR_END;
      }
      return C7X_WEIGHTS_OK;
    case C7X_TYPE_INT:
    case C7X_TYPE_FLOAT:
      return take_value(r, &e->scalar, 8) ? C7X_WEIGHTS_OK : C7X_WEIGHTS_ERR_END;
    case C7X_TYPE_DTYPE:
      return take_value(r, &e->dtype, sizeof e->dtype) ? C7X_WEIGHTS_OK : C7X_WEIGHTS_ERR_END;
    default:
      return C7X_WEIGHTS_ERR_TYPE;
  }
}

/* The two passes of the firmware skip padding differently. Both rules are kept, so that a file which only the first one
 * takes fails here as it fails there (where they end up apart, the second one lands on a zero byte, which is no type). */
static void skip_padding_first_pass(reader *r) {
  while (r->offset < r->size && r->data[r->offset] == 0) {
    ++r->offset;
  }
}

static void skip_padding_second_pass(reader *r) {
  if (r->offset % 4 != 0 && r->offset < r->size && r->data[r->offset] == 0) {
    uint64_t rounded = (r->offset + 3) & ~UINT64_C(3);
    r->offset = rounded < r->size ? rounded : r->size;
  }
}

static void count_entry(c7x_weights_layout *layout, const entry *e) {
  layout->num_dims += e->num_dims;
  layout->num_tensors += e->type_index == C7X_TYPE_TENSOR;
  layout->num_shapes += e->type_index == C7X_TYPE_SHAPE;
  if (e->type_index == C7X_TYPE_STR) {
    layout->num_strings += 1;
    layout->string_bytes += e->num_bytes + 1;
  }
}

/* Only a layout of other bytes gets this far wrong, but then the pools would overflow. */
static int check_pools(const c7x_weights_layout *used, const c7x_weights_layout *pools) {
  if (used->num_tensors > pools->num_tensors) {
    return C7X_WEIGHTS_ERR_TENSOR_POOL;
  }
  if (used->num_dims > pools->num_dims || used->num_shapes > pools->num_shapes) {
    return C7X_WEIGHTS_ERR_SHAPE_POOL;
  }
  if (used->num_strings > pools->num_strings || used->string_bytes > pools->string_bytes) {
    return C7X_WEIGHTS_ERR_STRING_POOL;
  }
  return C7X_WEIGHTS_OK;
}

static uint64_t round_up_16(uint64_t n) { return (n + 15) & ~UINT64_C(15); }

static uint64_t memory_bytes(const c7x_weights_layout *layout) {
  /* No sum can overflow: the counts are bounded by the file's size, which fits the address space. */
  return layout->num_constants * sizeof(c7x_any) + layout->num_tensors * sizeof(c7x_tensor) +
         layout->num_shapes * sizeof(c7x_shape) + layout->num_strings * sizeof(c7x_str) +
         round_up_16(layout->num_dims * sizeof(int64_t)) + round_up_16(layout->string_bytes);
}

int c7x_weights_scan(const void *data, size_t size, c7x_weights_layout *layout) {
  reader r;
  uint64_t count;
  if (layout == NULL) {
    return C7X_WEIGHTS_ERR_NULL;
  }
  memset(layout, 0, sizeof *layout);
  if (size == 0) {
    return C7X_WEIGHTS_OK;
  }
  if (data == NULL) {
    return C7X_WEIGHTS_ERR_NULL;
  }
  r.data = (const uint8_t *)data;
  r.size = size;
  r.offset = 0;
  if (!take_value(&r, &count, sizeof count)) {
    return C7X_WEIGHTS_ERR_END;
  }
  if (count > C7X_WEIGHTS_MAX_CONSTANTS) {
    return C7X_WEIGHTS_ERR_TOO_MANY;
  }
  for (uint64_t i = 0; i < count; ++i) {
    entry e;
    int status;
    layout->index = i;
    skip_padding_first_pass(&r);
    layout->offset = r.offset;
    status = read_entry(&r, &e);
    if (status != C7X_WEIGHTS_OK) {
      return status;
    }
    count_entry(layout, &e);
  }
  layout->num_constants = count;
  layout->memory_bytes = memory_bytes(layout);
  layout->offset = r.offset;
  return C7X_WEIGHTS_OK;
}

static void init_object(c7x_object *object, int32_t type_index) {
  object->type_index = type_index;
  object->ref_counter = 1;
  object->deleter = NULL;
}

int c7x_weights_load(const void *data, size_t size, c7x_weights_layout *layout, void *memory, size_t memory_size,
                     c7x_any **constants) {
  reader r;
  c7x_weights_layout used;
  c7x_any *values;
  c7x_tensor *tensor;
  c7x_shape *shape;
  c7x_str *str;
  int64_t *dims;
  char *text;
  if (layout == NULL || constants == NULL) {
    return C7X_WEIGHTS_ERR_NULL;
  }
  *constants = NULL;
  if (layout->num_constants == 0) {
    return C7X_WEIGHTS_OK;
  }
  if (data == NULL) {
    return C7X_WEIGHTS_ERR_NULL;
  }
  if (memory == NULL || memory_size < layout->memory_bytes) {
    return C7X_WEIGHTS_ERR_NOMEM;
  }
  memset(memory, 0, (size_t)layout->memory_bytes);
  values = (c7x_any *)memory;
  tensor = (c7x_tensor *)(void *)(values + layout->num_constants);
  shape = (c7x_shape *)(void *)(tensor + layout->num_tensors);
  str = (c7x_str *)(void *)(shape + layout->num_shapes);
  dims = (int64_t *)(void *)(str + layout->num_strings);
  text = (char *)dims + round_up_16(layout->num_dims * sizeof(int64_t));
  r.data = (const uint8_t *)data;
  r.size = size;
  r.offset = sizeof(uint64_t);
  memset(&used, 0, sizeof used);
  for (uint64_t i = 0; i < layout->num_constants; ++i) {
    entry e;
    int status;
    layout->index = i;
    skip_padding_second_pass(&r);
    layout->offset = r.offset;
    status = read_entry(&r, &e);
    if (status == C7X_WEIGHTS_OK) {
      count_entry(&used, &e);
      status = check_pools(&used, layout);
    }
    if (status != C7X_WEIGHTS_OK) {
      return status;
    }
    values[i].type_index = e.type_index;
    if (e.num_dims != 0) {
      memcpy(dims, r.data + e.dims, (size_t)(8 * e.num_dims));
    }
    switch (e.type_index) {
      case C7X_TYPE_TENSOR:
        init_object(&tensor->header, C7X_TYPE_TENSOR);
        /* The object's field is not const; nothing that takes a constant writes through it. */
        tensor->data = (void *)(uintptr_t)(r.data + e.bytes);
        tensor->device.device_type = 1;
        tensor->ndim = e.ndim;
        tensor->dtype = e.dtype;
        tensor->shape = dims;
        values[i].v.ptr = tensor++;
        break;
      case C7X_TYPE_SHAPE:
        init_object(&shape->header, C7X_TYPE_SHAPE);
        shape->data = dims;
        shape->size = e.num_dims;
        values[i].v.ptr = shape++;
        break;
      case C7X_TYPE_STR:
        init_object(&str->header, C7X_TYPE_STR);
        memcpy(text, r.data + e.bytes, (size_t)e.num_bytes);
        str->data = text;
        str->size = e.num_bytes;
        text += e.num_bytes + 1;
        values[i].v.ptr = str++;
        break;
      case C7X_TYPE_DTYPE:
        values[i].v.dtype = e.dtype;
        break;
      default:
        memcpy(values[i].v.bytes, &e.scalar, sizeof e.scalar);
        break;
    }
    dims += e.num_dims;
  }
  layout->offset = r.offset;
  *constants = values;
  return C7X_WEIGHTS_OK;
}
