// The firmware's side of the wire protocol (sections 3 and 4): modules, models, pools, the printf buffer.
//
// The server forks a process that runs modules; everything that must outlive a crash of it lies in State, in shared
// memory. Pointers in State are good in every such process, because all of them are forked from the same server.
#ifndef C7X_VDSP_FIRMWARE_H
#define C7X_VDSP_FIRMWARE_H

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "c7x_abi.h"
#include "c7x_protocol.h"
#include "memory.h"
#include "pool.h"

namespace vdsp {

struct Options {
  const char* board = "j722s-evm";
  bool has_tidl = true;
  bool has_mmalib = true;
  // Fail on what a board leaves undefined.
  bool strict = true;
  // The main-pool allocation, counted from 1 since the start, that fails; 0: none.
  uint64_t oom_at = 0;
};

// The largest answer: an INFER response with 128 descriptors, which no board could send.
constexpr size_t kMaxResponse = 60 + 80 * 128;

// How a process that runs modules ends on purpose after a violation of strict mode, whose text it has written.
constexpr int kExitViolation = 70;

// How a module's code is run and how its process ends. The fuzz targets, which have no code to run, put theirs in place.
struct ModuleCalls {
  int (*entry)(uint64_t address, c7x_any* inputs, int count, c7x_any* constants, c7x_any* result);
  void (*function)(uint64_t address);
  void (*destroy)(void (*deleter)(void*), void* object);
  void (*end)(int code);  // does not return
};

struct Module {
  uint32_t used;
  uint32_t handle;
  uint32_t lost;  // its memory was given back when another module was unloaded
  uint32_t pool_offset, pool_bytes;
  uint64_t entry, profile, cleanup, weights_start, weights_size;  // addresses here; 0: not exported
};

struct Model {
  uint32_t used;
  uint32_t id;
  uint64_t num_constants;
  c7x_any* constants;
};

struct OomRecord {
  uint32_t failed;
  uint32_t requested, free, total;
};

struct State {
  uint64_t start_ns;
  uint32_t jobs_completed, jobs_failed;
  uint32_t last_handle, last_model_id;
  Module modules[C7X_MAX_MODULES];
  Model models[C7X_MAX_MODELS];
  int32_t current;  // index in modules, or -1
  uint64_t entry;   // the entry point that INFER calls
  uint32_t embedded_id;
  uint8_t* constants_memory;  // of the one constants store
  c7x_any* loaded_constants;  // what the constant getters return
  int32_t num_loaded_constants;
  OomRecord oom;
  uint64_t main_allocs;  // since the start, for oom_at
  PoolMark main_mark, fast_mark;
  PoolMark load_mark;  // of the main pool before a DYN_LOAD that is under way
  c7x_any* registers;
  int32_t num_registers;
  uint32_t system_symbols;
  uint32_t in_call;  // a module's code is running
  uint32_t text_size;
  Pool main, fast;
};
static_assert(sizeof(State) <= Memory::kStateBytes, "the state fits its mapping");

class Firmware {
 public:
  Firmware();

  // `shm_path` and `sharing` are those of Memory::map.
  bool start(const char* shm_path, Sharing sharing, uint64_t base, const Options& options);

  // Forgets everything since the start.
  void reset(const Options& options);

  void set_calls(const ModuleCalls& calls) { calls_ = calls; }

  // In a process that is about to run modules: handlers that report a crash, protection of the inputs.
  bool enter_child();

  // Answers a request of at least 16 bytes that the server can answer by itself; 0 when a module or the loader has to
  // run, which is handle()'s part. Returns the answer's length.
  size_t handle_light(const uint8_t* request, size_t length, uint8_t* response);
  size_t handle(const uint8_t* request, size_t length, uint8_t* response);

  // The answer when the process that ran handle() died: `why` is appended to the printf text.
  size_t answer_for_crash(const uint8_t* request, size_t length, const char* why, uint8_t* response);

  // ---- for the exports ----
  Memory& memory() { return memory_; }
  State& state() { return *state_; }
  const Options& options() const { return options_; }

  // Appends to the printf buffer, which drops what does not fit.
  void text(const char* characters, size_t length);
  void textf(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Ends this process with a reason in the printf buffer: what the module did is undefined on a board.
  [[noreturn]] void violation(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Memory of a pool (0 fast, 1 main), or null. A failure of the main pool is recorded.
  void* allocate(uint64_t bytes, uint64_t alignment, int pool);
  void release(void* pointer);
  uint64_t available(int pool) const;

  int force_free_registers();

  // Runs an object's deleter; false when it has none.
  bool destroy(c7x_object* object);

 private:
  size_t dyn_load(const uint8_t* request, uint8_t* response);
  size_t dyn_unload(const uint8_t* request, uint8_t* response);
  size_t model_load(const uint8_t* request, uint8_t* response);
  size_t model_unload(const uint8_t* request, uint8_t* response);
  size_t infer(const uint8_t* request, size_t length, uint8_t* response);
  size_t infer_large(const uint8_t* request, uint8_t* response);

  int32_t load_module(uint64_t elf_size, uint32_t* handle);
  void finish_unload(Module* module);
  int32_t load_constants(const uint8_t* data, uint64_t size, uint32_t* id, uint64_t* count);
  void free_constants();
  void load_failed(const char* format, ...) __attribute__((format(printf, 2, 3)));

  int32_t make_input(const c7x_wire_desc& desc, c7x_tensor* tensor, c7x_any* cell);
  int32_t find_entry(uint32_t handle, uint64_t* entry);
  int32_t find_constants(uint32_t id, c7x_any** constants);
  int call_entry(uint64_t entry, c7x_any* inputs, int count, c7x_any* constants, c7x_any* result, uint64_t* cycles);
  void call_void(uint64_t function);
  void check_after_call();
  c7x_infer_response* begin_infer(const uint8_t* request, uint8_t* response);
  size_t finish_infer(c7x_infer_response* answer, const c7x_any& result, bool large, bool kv_resident);
  size_t extract(c7x_infer_response* answer, const c7x_any& result, bool large, bool kv_resident);
  const c7x_tensor* check_tensor(const void* object);
  void check_output(const c7x_tensor& tensor, uint64_t bytes, uint32_t index);
  void reset_text();
  Module* find_module(uint32_t handle);
  Pool* pool(int index);
  uint8_t* pool_base(int index);
  void rewind(int index, PoolMark mark);

  Memory memory_;
  State* state_ = nullptr;
  Options options_;
  ModuleCalls calls_;
};

extern Firmware firmware;

uint64_t now_ns();

}  // namespace vdsp

#endif
