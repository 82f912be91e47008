/* What a compiled model tells about itself (devc.c), and how a C program calls it (lib0.c).
 *
 * The compiler copies this file's text into <model>.h, so a model's files need nothing else; the runtime includes it
 * from here. Plain C99 and C++14.
 */
#ifndef C7X_MODEL_H
#define C7X_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_MODEL_VERSION 1

/* Return values of cg_main and cg_main_dsp (module ABI, section 1). */
#define C7X_OK 0
#define C7X_ERR_GENERIC (-1)
#define C7X_ERR_NOMEM (-3)

/* One input or output. `shape` has `ndim` entries (NULL when ndim is 0); dtype codes follow DLPack, bool is code 1 with
 * 8 bits. `nbytes` is the size of the compact row-major tensor. */
typedef struct c7x_tensor_info {
  const char *name;
  const char *dtype;
  uint8_t code;
  uint8_t bits;
  int32_t ndim;
  const int64_t *shape;
  uint64_t nbytes;
} c7x_tensor_info;

/* The model. All pointers are to static storage. */
typedef struct c7x_model_info {
  int32_t version;            /* C7X_MODEL_VERSION */
  const char *name;           /* from the model's file name */
  const char *target;         /* the target string it was compiled for */
  const char *provenance;     /* SHA-256 over lib0.c, weights.bin and the interface, hex */
  int32_t num_inputs;
  const c7x_tensor_info *inputs;
  int32_t num_outputs;
  const c7x_tensor_info *outputs;
  int32_t num_layers;         /* calls in cg_main */
  int32_t num_constants;      /* entries of weights.bin that lib0.c reads by index */
  uint64_t arena_bytes;       /* scratch memory cg_main needs */
  uint64_t arena_alignment;   /* of the arena and of the weights, in bytes */
  uint64_t weights_bytes;     /* size of weights.bin */
} c7x_model_info;

extern const c7x_model_info c7x_model;

/* Runs the model once.
 *
 * inputs, outputs: one pointer per tensor, in the order of c7x_model.inputs and .outputs, compact row-major, aligned to
 * the element size; outputs may not overlap inputs, weights or each other.
 * weights: the bytes of weights.bin, aligned to c7x_model.arena_alignment (NULL when weights_bytes is 0).
 * arena: arena_bytes of scratch memory with that alignment (NULL when 0); need not be cleared and keeps nothing between
 * calls. Nothing is allocated. Returns C7X_OK or C7X_ERR_GENERIC. */
int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena);

/* The entry that c7x firmware and cg_dsp call (module ABI, sections 1 to 3): an array of TVMFFIAny inputs, their number,
 * the constants of weights.bin, the result slot. Uses the module's own static arena and outputs; not re-entrant. */
int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result);

#ifdef __cplusplus
}
#endif

#endif /* C7X_MODEL_H */
