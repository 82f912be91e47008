/* cg_dsp: runs a compiled model once on a host, the way the firmware runs a module on the device.
 *
 * Reads input.bin (TVMT) and weights.bin, calls cg_main_dsp with the objects a firmware would present, writes output.bin
 * and the lines of the target attributes' section 9. Every failure ends with exit code 1 and one message on standard
 * error: the fact, its likely cause, the next step.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mmap flags, MADV_HUGEPAGE under -std=c99 */
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "c7x_abi.h"
#include "c7x_model.h"
#include "c7x_platform.h"
#include "c7x_tensorfile.h"
#include "c7x_weights.h"

#define DATA_ALIGNMENT 128      /* of weights and inputs: a cache line of the device */
#define MAX_RUNS 1000000
#define TEXT_BYTES 512

/* Present only when the module was compiled with profile-layers or debug-alloc. */
extern void TVMPrintLayerProfile(void) __attribute__((weak));
extern void TVMPrintAllocSummary(void) __attribute__((weak));

typedef struct options {
  const char *input;
  const char *weights;
  const char *output;
  long repeat;
  long warmup;
  int time;
} options;

typedef struct bytes {
  uint8_t *data;
  size_t size;
} bytes;

typedef struct outputs {
  uint32_t count;
  c7x_tensorfile_tensor tensors[C7X_MAX_ARRAY];
} outputs;

static const char usage[] =
    "usage: cg_dsp [--input FILE] [--weights FILE] [--output FILE] [--repeat N] [--warmup N] [--time]\n"
    "\n"
    "Runs the compiled model on a host.\n"
    "\n"
    "  --input FILE    tensor file with the inputs (input.bin)\n"
    "  --weights FILE  the model's constants (weights.bin)\n"
    "  --output FILE   tensor file to write (output.bin)\n"
    "  --repeat N      run N times and check that every run gives the same output bits (1)\n"
    "  --warmup N      runs before those that are timed (0)\n"
    "  --time          print the host time of every run\n"
    "\n"
    "All times are host times. They say nothing about the DSP.\n";

static void fail(const char *cause, const char *hint, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

static void fail(const char *cause, const char *hint, const char *format, ...) {
  va_list arguments;
  fflush(stdout);
  fputs("cg_dsp: error: ", stderr);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n  cause: %s\n  hint: %s\n", cause, hint);
  exit(EXIT_FAILURE);
}

/* ---- options ---- */

static long parse_count(const char *name, const char *text, long minimum) {
  char *end;
  long value;
  errno = 0;
  value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < minimum || value > MAX_RUNS) {
    fail("the value is no whole number, or out of range", "give a number of runs, such as 10",
         "%s takes a number from %ld to %d, not '%s'", name, minimum, MAX_RUNS, text);
  }
  return value;
}

static options parse_options(int argc, char **argv) {
  options o = {"input.bin", "weights.bin", "output.bin", 1, 0, 0};
  const struct {
    const char *name;
    const char **text;
    long *count;
    long minimum;
  } table[] = {
      {"--input", &o.input, NULL, 0},   {"--weights", &o.weights, NULL, 0}, {"--output", &o.output, NULL, 0},
      {"--repeat", NULL, &o.repeat, 1}, {"--warmup", NULL, &o.warmup, 0},
  };
  for (int i = 1; i < argc; ++i) {
    const char *argument = argv[i];
    size_t k;
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      fputs(usage, stdout);
      exit(EXIT_SUCCESS);
    }
    if (strcmp(argument, "--time") == 0) {
      o.time = 1;
      continue;
    }
    for (k = 0; k < sizeof table / sizeof table[0]; ++k) {
      const size_t length = strlen(table[k].name);
      const char *value;
      if (strncmp(argument, table[k].name, length) != 0 || (argument[length] != '\0' && argument[length] != '=')) {
        continue;
      }
      value = argument[length] == '=' ? argument + length + 1 : argv[++i];
      if (value == NULL || *value == '\0') {
        fail("the option ends the command line", "cg_dsp --help", "%s needs a value", table[k].name);
      }
      if (table[k].text != NULL) {
        *table[k].text = value;
      } else {
        *table[k].count = parse_count(table[k].name, value, table[k].minimum);
      }
      break;
    }
    if (k == sizeof table / sizeof table[0]) {
      fail("the option is misspelt, or belongs to another program", "cg_dsp --help", "unknown argument '%s'", argument);
    }
  }
  return o;
}

/* ---- memory and files ---- */

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count != 0 ? count : 1, size != 0 ? size : 1);
  if (memory == NULL) {
    fail("the machine or container has too little memory", "free some memory, or raise the container's limit",
         "cannot allocate %zu objects of %zu bytes", count, size);
  }
  return memory;
}

/* Page-aligned, so aligned to DATA_ALIGNMENT. A page takes no memory before it is written. */
static uint8_t *map_bytes(size_t size) {
  void *memory = mmap(NULL, size != 0 ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(strerror(errno), "free some memory, or raise the container's limit", "cannot allocate %zu bytes", size);
  }
#ifdef MADV_HUGEPAGE
  madvise(memory, size, MADV_HUGEPAGE); /* fewer TLB misses when the weights stream through; may be refused */
#endif
  return (uint8_t *)memory;
}

static void unmap_bytes(void *memory, size_t size) { munmap(memory, size != 0 ? size : 1); }

/* The whole file in memory of its own: it cannot change under the model, unlike a mapping of the file. */
static bytes read_file(const char *path, const char *hint) {
  bytes file;
  struct stat info;
  size_t done = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info) != 0) {
    fail(strerror(errno), hint, "cannot open %s", path);
  }
  if (!S_ISREG(info.st_mode)) {
    fail("it is a folder, a pipe or a device", hint, "%s is not a regular file", path);
  }
  file.size = (size_t)info.st_size;
  file.data = map_bytes(file.size);
  while (done < file.size) {
    const ssize_t n = read(fd, file.data + done, file.size - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      fail(n < 0 ? strerror(errno) : "the file became shorter while it was read", hint, "cannot read %s", path);
    }
    done += (size_t)n;
  }
  close(fd);
  return file;
}

/* ---- text ---- */

static const char *shape_text(char *text, const int64_t *shape, int32_t ndim) {
  size_t used = (size_t)snprintf(text, TEXT_BYTES, "[");
  for (int32_t i = 0; i < ndim && used < TEXT_BYTES; ++i) {
    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%" PRId64, i != 0 ? ", " : "", shape[i]);
  }
  if (used < TEXT_BYTES) {
    snprintf(text + used, TEXT_BYTES - used, "]");
  }
  return text;
}

static void print_tensor(const char *what, uint32_t index, const c7x_tensorfile_tensor *t) {
  char text[TEXT_BYTES];
  printf("%s[%" PRIu32 "]: shape=%s, dtype=%d.%d\n", what, index, shape_text(text, t->shape, t->ndim), t->code,
         t->bits);
}

static const char *code_name(int code) {
  switch (code) {
    case C7X_DTYPE_INT: return "int";
    case C7X_DTYPE_UINT: return "uint";
    case C7X_DTYPE_FLOAT: return "float";
    default: return "type ";
  }
}

/* ---- weights ---- */

/* The constants, as an array of values (NULL when there are none; else the start of an allocation), and their number.
 * Tensor data stays in the file's bytes, which live as long as the process. */
static c7x_any *load_weights(const char *path, uint64_t *count) {
  static const char hint[] = "use the weights.bin that was written with this cg_dsp, or compile the model again";
  bytes file;
  c7x_weights_layout layout;
  c7x_any *constants;
  int status;
  *count = 0;
  if (c7x_model.weights_bytes == 0 && access(path, F_OK) != 0) {
    return NULL;
  }
  file = read_file(path, hint);
  if (file.size != c7x_model.weights_bytes) {
    fail("the file is truncated, or belongs to another model", hint, "%s has %zu bytes, the model needs %" PRIu64, path,
         file.size, c7x_model.weights_bytes);
  }
  status = c7x_weights_scan(file.data, file.size, &layout);
  if (status == C7X_WEIGHTS_OK) {
    void *memory = allocate(1, (size_t)layout.memory_bytes);
    status = c7x_weights_load(file.data, file.size, &layout, memory, (size_t)layout.memory_bytes, &constants);
  }
  if (status != C7X_WEIGHTS_OK) {
    fail(c7x_weights_status_text(status), hint, "%s is damaged at constant %" PRIu64 ", byte %" PRIu64 " (code %d)",
         path, layout.index, layout.offset, status);
  }
  if (layout.num_constants < (uint64_t)c7x_model.num_constants) {
    fail("the file belongs to another model", hint, "%s holds %" PRIu64 " constants, the model reads %d", path,
         layout.num_constants, (int)c7x_model.num_constants);
  }
  *count = layout.num_constants;
  return constants;
}

/* ---- inputs ---- */

static int same_shape(const c7x_tensor_info *info, const c7x_tensorfile_tensor *t) {
  return info->ndim == t->ndim &&
         (t->ndim == 0 || memcmp(info->shape, t->shape, sizeof(int64_t) * (size_t)t->ndim) == 0);
}

static void check_input(const char *path, int32_t index, const c7x_tensorfile_tensor *t) {
  static const char hint[] = "write the inputs in the order, shapes and dtypes of io.json";
  const c7x_tensor_info *info = &c7x_model.inputs[index];
  char expected[TEXT_BYTES], given[TEXT_BYTES];
  if (t->code != info->code || t->bits != info->bits) {
    fail("the tensor was converted to another type, or the inputs are in the wrong order", hint,
         "input %d (%s) has dtype %s%d in %s, the model takes %s", (int)index, info->name, code_name(t->code), t->bits,
         path, info->dtype);
  }
  if (!same_shape(info, t)) {
    fail("a dimension is missing or the inputs are in the wrong order", hint,
         "input %d (%s) has shape %s in %s, the model takes %s", (int)index, info->name,
         shape_text(given, t->shape, t->ndim), path, shape_text(expected, info->shape, info->ndim));
  }
}

/* Copies one input to memory of its own: in the file it has no alignment. */
static uint8_t *copy_input(const c7x_tensor_info *info, const c7x_tensorfile_tensor *t) {
  uint8_t *data = map_bytes((size_t)t->nbytes);
  if (strcmp(info->dtype, "bool") == 0) {
    const uint8_t *source = (const uint8_t *)t->data;
    for (uint64_t i = 0; i < t->nbytes; ++i) {
      data[i] = source[i] != 0;
    }
  } else if (t->nbytes != 0) {
    memcpy(data, t->data, (size_t)t->nbytes);
  }
  return data;
}

/* The inputs as the firmware presents them (module ABI, section 3.4): an array of values that point to tensor objects, all
 * in one allocation; the data has memory of its own until the process ends. */
static c7x_any *load_inputs(const char *path) {
  static const char hint[] = "write the file again, for example with c7x run";
  c7x_tensorfile_tensor tensors[C7X_MAX_ARRAY];
  c7x_tensorfile_place place;
  const bytes file = read_file(path, hint);
  uint32_t count;
  c7x_any *values;
  c7x_tensor *objects;
  const int status = c7x_tensorfile_read(file.data, file.size, tensors, C7X_MAX_ARRAY, &count, &place);
  if (status != C7X_TENSORFILE_OK) {
    fail(c7x_tensorfile_status_text(status), hint, "%s is not a valid tensor file (tensor %" PRIu32 ", byte %" PRIu64 ")",
         path, place.tensor, place.offset);
  }
  if (count != (uint32_t)c7x_model.num_inputs) {
    fail("an input is missing, or the file belongs to another model", "write one tensor for each input in io.json",
         "%s holds %" PRIu32 " tensors, the model takes %d", path, count, (int)c7x_model.num_inputs);
  }
  values = (c7x_any *)allocate(count, sizeof *values + sizeof *objects);
  objects = (c7x_tensor *)(void *)(values + count);
  for (uint32_t i = 0; i < count; ++i) {
    const c7x_tensorfile_tensor *t = &tensors[i];
    c7x_tensor *object = &objects[i];
    check_input(path, (int32_t)i, t);
    object->header.type_index = C7X_TYPE_TENSOR;
    object->header.ref_counter = 1;
    object->data = copy_input(&c7x_model.inputs[i], t);
    object->ndim = t->ndim;
    object->dtype.code = t->code;
    object->dtype.bits = t->bits;
    object->dtype.lanes = 1;
    object->shape = object->shape_storage;
    memcpy(object->shape_storage, t->shape, sizeof(int64_t) * (size_t)t->ndim);
    values[i].type_index = C7X_TYPE_TENSOR;
    values[i].v.ptr = object;
    print_tensor("Input", i, t);
  }
  unmap_bytes(file.data, file.size);
  return values;
}

/* ---- outputs ---- */

static const char module_hint[] = "compile the model again; if it stays, report it with the model";

static int compact(const c7x_tensor *t) {
  int64_t stride = 1;
  for (int32_t i = t->ndim - 1; t->strides != NULL && i >= 0; --i) {
    if (t->shape[i] != 1 && t->strides[i] != stride) {
      return 0;
    }
    stride *= t->shape[i];
  }
  return t->byte_offset == 0 && t->dtype.lanes == 1;
}

static void take_output(const c7x_any *value, outputs *out) {
  const uint32_t i = out->count;
  c7x_tensorfile_tensor *t = &out->tensors[i];
  const c7x_tensor_info *info = &c7x_model.outputs[i];
  const c7x_tensor *object = (const c7x_tensor *)value->v.ptr;
  if (value->type_index != C7X_TYPE_TENSOR || object == NULL) {
    fail("lib0.c was changed, or does not belong to devc.c", module_hint, "output %" PRIu32 " is no tensor (type %d)", i,
         (int)value->type_index);
  }
  if (object->ndim < 0 || object->ndim > C7X_MAX_RANK || !compact(object)) {
    fail("lib0.c was changed, or does not belong to devc.c", module_hint,
         "output %" PRIu32 " is not compact or has rank %d", i, (int)object->ndim);
  }
  memset(t, 0, sizeof *t);
  t->code = object->dtype.code;
  t->bits = object->dtype.bits;
  t->ndim = object->ndim;
  t->data = object->data;
  if (t->ndim != 0) {
    memcpy(t->shape, object->shape, sizeof(int64_t) * (size_t)t->ndim);
  }
  if (t->code != info->code || t->bits != info->bits || !same_shape(info, t)) {
    char expected[TEXT_BYTES], given[TEXT_BYTES];
    fail("lib0.c does not belong to devc.c", module_hint,
         "output %" PRIu32 " (%s) has shape %s and dtype %s%d, the model promises %s and %s", i, info->name,
         shape_text(given, t->shape, t->ndim), code_name(t->code), t->bits,
         shape_text(expected, info->shape, info->ndim), info->dtype);
  }
  t->nbytes = info->nbytes;
  if (t->data == NULL && t->nbytes != 0) {
    fail("lib0.c was changed", module_hint, "output %" PRIu32 " has no data", i);
  }
  out->count += 1;
}

/* Module ABI, section 3.5: one tensor, or an array of tensors. */
static void take_outputs(const c7x_any *result, outputs *out) {
  const c7x_array *array = (const c7x_array *)result->v.ptr;
  int32_t count = -1;
  if (result->type_index == C7X_TYPE_TENSOR) {
    count = 1;
  } else if (result->type_index == C7X_TYPE_ARRAY && array != NULL) {
    count = array->size;
  }
  if (count != c7x_model.num_outputs) {
    fail("lib0.c was changed, or does not belong to devc.c", module_hint,
         "the result (type %d, %d values) is not the model's %d outputs", (int)result->type_index, (int)count,
         (int)c7x_model.num_outputs);
  }
  out->count = 0;
  if (result->type_index == C7X_TYPE_TENSOR) {
    take_output(result, out);
    return;
  }
  for (int32_t i = 0; i < count; ++i) {
    take_output(&array->elements[i], out);
  }
}

static void write_outputs(const char *path, const outputs *out) {
  static const char hint[] = "free some space, or choose another file with --output";
  const size_t size = strlen(path) + 32;
  char *temporary = (char *)allocate(1, size);
  FILE *stream;
  int done;
  snprintf(temporary, size, "%s.%ld.tmp", path, (long)getpid());
  stream = fopen(temporary, "wb");
  if (stream == NULL) {
    fail(strerror(errno), hint, "cannot write %s", path);
  }
  done = c7x_tensorfile_write(stream, out->tensors, out->count) == C7X_TENSORFILE_OK;
  done = fclose(stream) == 0 && done;
  if (!done || rename(temporary, path) != 0) {
    const int error = errno;
    unlink(temporary);
    fail(strerror(error), hint, "cannot write %s", path);
  }
  free(temporary);
}

/* A hash in which no change of a single word can be lost (each step is a bijection of the state); one pass, no copy. */
static uint64_t hash_outputs(const outputs *out) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (uint32_t i = 0; i < out->count; ++i) {
    const uint8_t *data = (const uint8_t *)out->tensors[i].data;
    for (uint64_t at = 0; at < out->tensors[i].nbytes; at += 8) {
      const uint64_t rest = out->tensors[i].nbytes - at;
      uint64_t word = 0;
      memcpy(&word, data + at, rest < 8 ? (size_t)rest : 8);
      hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
      hash ^= hash >> 29;
    }
  }
  return hash;
}

/* ---- running ---- */

static void check_status(int status) {
  if (status == 0) {
    return;
  }
  if (status == C7X_ERR_NOMEM) {
    const int pool = c7x_platform_failed_request(C7X_POOL_MAIN) != 0 ? C7X_POOL_MAIN : C7X_POOL_FAST;
    char cause[TEXT_BYTES];
    snprintf(cause, sizeof cause, "the %s pool is full (requested %.1f MB, %.1f MB free of %.1f MB)",
             pool == C7X_POOL_MAIN ? "main" : "fast", 1e-6 * (double)c7x_platform_failed_request(pool),
             1e-6 * (double)tvm_dsp_get_free_memory(pool),
             1e-6 * (double)(pool == C7X_POOL_MAIN ? C7X_MAIN_POOL_BYTES : C7X_FAST_POOL_BYTES));
    fail(cause, "use a smaller model or input", "cg_main_dsp returned %d: out of memory", status);
  }
  fail("the model refused its inputs or a kernel failed; see the lines above, if any", module_hint,
       "cg_main_dsp returned %d", status);
}

/* Runs the model once, with an empty result slot as the firmware gives it; the counter's difference in ticks. */
static uint64_t run_once(c7x_any *inputs, c7x_any *constants, outputs *out) {
  c7x_any result;
  uint64_t start, ticks;
  int status;
  memset(&result, 0, sizeof result);
  start = c7x_cycle_counter();
  status = cg_main_dsp(inputs, c7x_model.num_inputs, constants, &result);
  ticks = c7x_cycle_counter() - start;
  check_status(status);
  take_outputs(&result, out);
  return ticks;
}

static int compare_ticks(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a;
  const uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static double seconds(double ticks) { return ticks * 1e-9; }

static void print_times(uint64_t *ticks, long count, int each) {
  double sum = 0;
  for (long i = 0; i < count; ++i) {
    sum += (double)ticks[i];
    if (each) {
      printf("Host time[%ld]: %.9f s\n", i, seconds((double)ticks[i]));
    }
  }
  qsort(ticks, (size_t)count, sizeof *ticks, compare_ticks);
  printf("Host time min: %.9f s\n", seconds((double)ticks[0]));
  printf("Host time median: %.9f s\n", seconds(((double)ticks[(count - 1) / 2] + (double)ticks[count / 2]) / 2));
  printf("Host time mean: %.9f s\n", seconds(sum / (double)count));
}

static void run(const options *o, c7x_any *inputs, c7x_any *constants, outputs *out) {
  uint64_t *ticks = (uint64_t *)allocate((size_t)o->repeat, sizeof *ticks);
  uint64_t first = 0;
  for (long i = -o->warmup; i < o->repeat; ++i) {
    const uint64_t t = run_once(inputs, constants, out);
    if (i >= 0) {
      ticks[i] = t;
    }
    if (o->warmup + o->repeat > 1) {
      const uint64_t hash = hash_outputs(out);
      if (i == -o->warmup) {
        first = hash;
      } else if (hash != first) {
        fail("the model reads memory that it did not write, or writes outside its buffers",
             "build with build type asan and run again, and report it with the model",
             "run %ld gave other output bits than run 1", i + o->warmup + 1);
      }
    }
  }
  /* On a host the counter is a clock: nanoseconds, under the name that the device's output uses. */
  printf("Cycles: %" PRIu64 "\n", ticks[o->repeat - 1]);
  if (o->repeat > 1 || o->time) {
    print_times(ticks, o->repeat, o->time);
  }
  free(ticks);
}

/* Peak resident memory from /proc, in bytes; 0 when unknown. getrusage would count the parent's pages before exec. */
static uint64_t peak_rss(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  uint64_t kib = 0;
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1) {
      break;
    }
  }
  if (status != NULL) {
    fclose(status);
  }
  return kib * 1024;
}

static void print_memory(const outputs *out) {
  const uint64_t rss = peak_rss();
  uint64_t l3 = c7x_platform_peak(C7X_POOL_MAIN) + c7x_model.arena_bytes;
  for (uint32_t i = 0; i < out->count; ++i) {
    l3 += out->tensors[i].nbytes;
  }
  if (rss != 0) {
    printf("Host memory: peak RSS=%" PRIu64 "\n", rss);
  }
  /* Arena and outputs are static memory of the module, which the device's loader puts into the main pool (L3). */
  printf("Memory: L2 peak=%zu, L3 peak=%" PRIu64 "\n", c7x_platform_peak(C7X_POOL_FAST), l3);
}

int main(int argc, char **argv) {
  static outputs out;
  const options o = parse_options(argc, argv);
  c7x_any *constants, *inputs;
  uint64_t num_constants;
  if (c7x_model.version != C7X_MODEL_VERSION || c7x_model.num_inputs > C7X_MAX_ARRAY ||
      c7x_model.num_outputs > C7X_MAX_ARRAY) {
    fail("devc.c was written by another version of c7x", "compile the model again",
         "the model's description (version %d) does not fit this runtime", (int)c7x_model.version);
  }
  constants = load_weights(o.weights, &num_constants);
  printf("Loaded %" PRIu64 " constants\n", num_constants);
  inputs = load_inputs(o.input);
  run(&o, inputs, constants, &out);
  if (TVMPrintLayerProfile) {
    TVMPrintLayerProfile();
  }
  if (TVMPrintAllocSummary) {
    TVMPrintAllocSummary();
  }
  printf("Num outputs: %" PRIu32 "\n", out.count);
  for (uint32_t i = 0; i < out.count; ++i) {
    print_tensor("Output", i, &out.tensors[i]);
  }
  write_outputs(o.output, &out);
  print_memory(&out);
  free(inputs);
  free(constants);
  printf("Done\n");
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fail(strerror(errno), "give standard output somewhere to go", "cannot write to standard output");
  }
  return EXIT_SUCCESS;
}
