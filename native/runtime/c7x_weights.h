/* The loader of weights.bin (weights format): constants as objects whose tensor data stays in the file's buffer.
 *
 * Two calls: c7x_weights_scan measures, the caller provides the memory, c7x_weights_load fills it. Nothing is allocated
 * here, so the loader also works inside a firmware's pool. Plain C99; no state.
 */
#ifndef C7X_WEIGHTS_H
#define C7X_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "c7x_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_WEIGHTS_TENSOR_MAGIC UINT64_C(0xDD5E40F096B4A13F)
#define C7X_WEIGHTS_MAX_CONSTANTS 4096
#define C7X_WEIGHTS_MAX_RANK 16

/* The firmware's loader codes, -1 to -10; -11 is a check of ours that a firmware may not make. -9 is never returned by
 * this loader, which has no state, and the pool codes only when the layout is that of other bytes. */
typedef enum c7x_weights_status {
  C7X_WEIGHTS_OK = 0,
  C7X_WEIGHTS_ERR_NULL = -1,
  C7X_WEIGHTS_ERR_MAGIC = -2,
  C7X_WEIGHTS_ERR_TOO_MANY = -3,      /* more than 4096 constants, or a rank outside 0..16 */
  C7X_WEIGHTS_ERR_SHAPE_POOL = -4,
  C7X_WEIGHTS_ERR_STRING_POOL = -5,
  C7X_WEIGHTS_ERR_TYPE = -6,
  C7X_WEIGHTS_ERR_END = -7,
  C7X_WEIGHTS_ERR_TENSOR_POOL = -8,
  C7X_WEIGHTS_ERR_NOT_INITIALISED = -9,
  C7X_WEIGHTS_ERR_NOMEM = -10,
  C7X_WEIGHTS_ERR_SIZE = -11          /* data size and shape disagree, or a negative dimension */
} c7x_weights_status;

/* What a scan found. On failure `index` and `offset` say at which constant and byte; else `offset` is where the last
 * entry ends. */
typedef struct c7x_weights_layout {
  uint64_t num_constants;
  uint64_t num_tensors;
  uint64_t num_dims;       /* int64 values of all tensor shapes and shape constants */
  uint64_t num_shapes;
  uint64_t num_strings;
  uint64_t string_bytes;   /* with one terminator a string */
  uint64_t memory_bytes;   /* what c7x_weights_load needs */
  uint64_t index;
  uint64_t offset;
} c7x_weights_layout;

/* One sentence for a status; static storage. */
const char *c7x_weights_status_text(int status);

/* Checks the whole buffer and measures it. `size` 0 is a valid file of no constants. `data` may have any alignment. */
int c7x_weights_scan(const void *data, size_t size, c7x_weights_layout *layout);

/* Makes the constants in `memory` (at least layout->memory_bytes, aligned to 16). Tensor data pointers go into `data`,
 * which must outlive them; strings, shapes and objects live in `memory`. Objects have reference count 1 and no deleter,
 * device (1, 0). `*constants` becomes the array of layout->num_constants values, NULL when there are none.
 * `layout` must come from a scan of the same bytes; on failure its index and offset are set. */
int c7x_weights_load(const void *data, size_t size, c7x_weights_layout *layout, void *memory, size_t memory_size,
                     c7x_any **constants);

#ifdef __cplusplus
}
#endif

#endif /* C7X_WEIGHTS_H */
