#include "firmware.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "c7x_weights.h"
#include "elf_module.h"
#include "export_table.h"

namespace vdsp {

Firmware firmware;

void drain_dma();
void set_memory_exports();

namespace {

constexpr int kFast = 0;
constexpr int kMain = 1;
constexpr uint64_t kObjectAlignment = 128;
constexpr uint64_t kOutputAlignment = C7X_RESULT_ALIGNMENT;
constexpr size_t kMaxReason = 600;

template <typename T>
T read_message(const uint8_t* request) {
  T message;
  std::memcpy(&message, request, sizeof message);
  return message;
}

size_t put(const void* message, size_t length, uint8_t* response) {
  std::memcpy(response, message, length);
  return length;
}

// An answer of type T with its header filled in.
template <typename T>
T answer_to(const uint8_t* request, int32_t status) {
  T message = {};
  const auto header = read_message<c7x_msg_header>(request);
  message.header = {header.type | C7X_MSG_RESPONSE, header.seq, sizeof(T), status};
  return message;
}

size_t bare_answer(const uint8_t* request, int32_t status, uint8_t* response) {
  const auto header = read_message<c7x_msg_header>(request);
  const c7x_msg_header message = {header.type | C7X_MSG_RESPONSE, header.seq, sizeof message, status};
  return put(&message, sizeof message, response);
}

size_t smallest_request(uint32_t type) {
  switch (type) {
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
      return sizeof(c7x_msg_header);
    case C7X_MSG_DYN_LOAD:
      return sizeof(c7x_dyn_load_request);
    case C7X_MSG_DYN_UNLOAD:
      return sizeof(c7x_dyn_unload_request);
    case C7X_MSG_MODEL_LOAD:
      return sizeof(c7x_model_load_request);
    case C7X_MSG_MODEL_UNLOAD:
      return sizeof(c7x_model_unload_request);
    case C7X_MSG_INFER:
      return sizeof(c7x_infer_request);
    case C7X_MSG_INFER_LARGE:
      return sizeof(c7x_infer_large_request);
    default:
      return SIZE_MAX;
  }
}

uint32_t uptime_ms(const State& state) { return static_cast<uint32_t>((now_ns() - state.start_ns) / 1000000); }

bool has_export(const vdsp_export& entry, const Options& options) {
  switch (entry.availability) {
    case VDSP_ALWAYS:
    case VDSP_RTS:
      return true;
    case VDSP_TIDL:
      return options.has_tidl;
    case VDSP_MMALIB:
      return options.has_mmalib;
    case VDSP_STUB:
      return false;
  }
  return false;
}

const vdsp_export* find_export(const char* name) {
  int low = 0, high = vdsp_num_exports;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int order = std::strcmp(name, vdsp_exports[middle].name);
    if (order == 0) {
      return &vdsp_exports[middle];
    }
    (order < 0 ? high : low) = order < 0 ? middle : middle + 1;
  }
  return nullptr;
}

// Where a name leads that only the pseudo firmware has: nothing is mapped there.
constexpr uint64_t kNowhere = 0xDEAD0000DEAD0000u;

// A pseudo firmware's name with the address that the real one puts in its place.
Import resolve_import(void* context, const char* name, uint64_t* address) {
  const auto& options = *static_cast<const Options*>(context);
  const vdsp_export* const entry = find_export(name);
  if (entry != nullptr && has_export(*entry, options)) {
    *address = reinterpret_cast<uintptr_t>(entry->address);
    return Import::kResolved;
  }
  if (options.strict) {
    return Import::kForbidden;
  }
  // As on a board, the load succeeds and a call goes astray.
  *address = kNowhere;
  return Import::kResolved;
}

uint8_t* pointer_to(uint64_t address) { return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address)); }

int run_entry(uint64_t address, c7x_any* inputs, int count, c7x_any* constants, c7x_any* result) {
  using Entry = int (*)(void*, int, void*, void*);
  return reinterpret_cast<Entry>(pointer_to(address))(inputs, count, constants, result);
}

void run_function(uint64_t address) { reinterpret_cast<void (*)()>(pointer_to(address))(); }

void run_deleter(void (*deleter)(void*), void* object) { deleter(object); }

}  // namespace

uint64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// ---- start, text, memory ----

Firmware::Firmware() : calls_{run_entry, run_function, run_deleter, _exit} {}

bool Firmware::start(const char* shm_path, Sharing sharing, uint64_t base, const Options& options) {
  if (!memory_.map(shm_path, sharing, base)) {
    return false;
  }
  state_ = static_cast<State*>(memory_.state());
  set_memory_exports();
  reset(options);
  return true;
}

void Firmware::reset(const Options& options) {
  options_ = options;
  std::memset(static_cast<void*>(state_), 0, offsetof(State, main));
  state_->start_ns = now_ns();
  state_->current = -1;
  pool_reset(&state_->main, static_cast<uint32_t>(C7X_MAIN_POOL_SIZE));
  pool_reset(&state_->fast, static_cast<uint32_t>(C7X_FAST_POOL_SIZE));
  reset_text();
}

void Firmware::reset_text() {
  state_->text_size = 0;
  const c7x_printf_header header = {C7X_PRINTF_MAGIC, 0, C7X_PRINTF_CAPACITY, 0};
  std::memcpy(memory_.carveout() + C7X_PRINTF_OFFSET, &header, sizeof header);
}

void Firmware::text(const char* characters, size_t length) {
  uint8_t* const buffer = memory_.carveout() + C7X_PRINTF_OFFSET;
  const size_t room = C7X_PRINTF_CAPACITY - state_->text_size;
  length = length < room ? length : room;
  std::memcpy(buffer + sizeof(c7x_printf_header) + state_->text_size, characters, length);
  state_->text_size += static_cast<uint32_t>(length);
  std::memcpy(buffer + offsetof(c7x_printf_header, write_index), &state_->text_size, sizeof state_->text_size);
}

void Firmware::textf(const char* format, ...) {
  char line[kMaxReason];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text(line, std::strlen(line));
}

void Firmware::violation(const char* format, ...) {
  char line[kMaxReason];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  textf("[vdsp] %s\n", line);
  std::fprintf(stderr, "[vdsp] %s\n", line);
  calls_.end(kExitViolation);
  __builtin_unreachable();
}

// The protocol has no field for the reason, so it goes to the log, and where a client of the virtual DSP may look.
void Firmware::load_failed(const char* format, ...) {
  char line[kMaxReason];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[DLOAD] %s\n", line);
  textf("[DLOAD] %s\n", line);
}

Pool* Firmware::pool(int index) { return index == kMain ? &state_->main : &state_->fast; }
uint8_t* Firmware::pool_base(int index) { return memory_.region(index == kMain ? kMainPool : kAux).host; }

void* Firmware::allocate(uint64_t bytes, uint64_t alignment, int index) {
  if (index != kFast && index != kMain) {
    return nullptr;
  }
  const bool forced = index == kMain && ++state_->main_allocs == options_.oom_at;
  const int64_t offset = forced ? -1 : pool_alloc(pool(index), pool_base(index), bytes, alignment);
  if (offset < 0) {
    if (index == kMain) {
      const uint64_t most = UINT32_MAX;
      state_->oom = {1, static_cast<uint32_t>(bytes < most ? bytes : most), pool_available(&state_->main),
                     state_->main.size};
    }
    return nullptr;
  }
  if (options_.strict) {
    const Block* const block = pool_block_at(pool(index), static_cast<uint64_t>(offset));
    const uint64_t end = static_cast<uint64_t>(offset) + (block != nullptr ? block->size : bytes);
    for (const Module& module : state_->modules) {
      if (index == kMain && module.used != 0 && module.lost == 0 && static_cast<uint64_t>(offset) < module.pool_offset + module.pool_bytes &&
          module.pool_offset < end) {
        violation("an allocation of %llu bytes would overlay module %u: as many blocks were freed as allocated, so the "
                  "main pool fell back to its base",
                  static_cast<unsigned long long>(bytes), module.handle);
      }
    }
    poison(pool_base(index) + offset, static_cast<size_t>(end - static_cast<uint64_t>(offset)));
  }
  return pool_base(index) + offset;
}

void Firmware::release(void* pointer) {
  if (pointer == nullptr) {
    return;
  }
  for (const int index : {kFast, kMain}) {
    if (!memory_.region(index == kMain ? kMainPool : kAux).contains(pointer, 0)) {
      continue;
    }
    const auto offset = static_cast<uint64_t>(static_cast<uint8_t*>(pointer) - pool_base(index));
    const Block* const found = pool_block_at(pool(index), offset);
    const Block block = found != nullptr ? *found : Block{};
    if (pool_free(pool(index), offset)) {
      if (options_.strict) {
        poison(pointer, block.size);
      }
      return;
    }
  }
  if (options_.strict) {
    violation("%p was freed, which is not a live block of a pool (freed twice, or from before a rewind)", pointer);
  }
}

uint64_t Firmware::available(int index) const {
  if (index != kFast && index != kMain) {
    return 0;
  }
  return pool_available(index == kMain ? &state_->main : &state_->fast);
}

void Firmware::rewind(int index, PoolMark mark) {
  const uint32_t top = pool(index)->top;
  pool_rewind(pool(index), mark);
  if (options_.strict && top > mark.top) {
    poison(pool_base(index) + mark.top, top - mark.top);
  }
}

// ---- the process that runs modules ----

namespace {

alignas(16) uint8_t signal_stack[64 * 1024];

void on_crash(int number, siginfo_t* info, void* context) {
  Memory& memory = firmware.memory();
  if (!memory.intact()) {
    // The printf buffer is gone too.
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const char* name = number == SIGSEGV   ? "SIGSEGV"
                     : number == SIGBUS  ? "SIGBUS"
                     : number == SIGILL  ? "SIGILL"
                     : number == SIGFPE  ? "SIGFPE"
                     : number == SIGTRAP ? "SIGTRAP"
                                         : "SIGABRT";
  firmware.textf("[vdsp] the module crashed: %s at address 0x%llx", name, static_cast<unsigned long long>(address));
  for (int i = 0; i < kNumRegions; ++i) {
    const Region& region = memory.region(static_cast<RegionIndex>(i));
    const auto start = reinterpret_cast<uintptr_t>(region.host);
    if (address >= start && address - start < region.size) {
      firmware.textf(", byte 0x%llx of the %s region%s", static_cast<unsigned long long>(address - start), region.name,
                     i == kStaging || i == kKv ? ", which a module may only read" : "");
    } else if (i > kKv && address >= start + region.size && address - start - region.size < kGuardBytes) {
      firmware.textf(", just beyond the %s region", region.name);
    } else if ((i == kStaging || i > kResult) && address < start && start - address <= kGuardBytes) {
      firmware.textf(", just before the %s region", region.name);
    }
  }
  const auto* const machine = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  const auto pc = static_cast<uint64_t>(machine->uc_mcontext.gregs[REG_RIP]);
#else
  const auto pc = static_cast<uint64_t>(machine->uc_mcontext.pc);
#endif
  const auto pool = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory.region(kMainPool).host));
  for (const Module& module : firmware.state().modules) {
    if (module.used != 0 && pc - pool - module.pool_offset < module.pool_bytes) {
      firmware.textf("; the code is at offset 0x%llx of module %u",
                     static_cast<unsigned long long>(pc - pool - module.pool_offset), module.handle);
    }
  }
  firmware.text("\n", 1);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

bool Firmware::enter_child() {
  stack_t stack = {};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  struct sigaction action = {};
  action.sa_sigaction = on_crash;
  // Without SA_NODEFER the signal that on_crash raises again would wait for its end.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (sigaltstack(&stack, nullptr) != 0) {
    return false;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT}) {
    if (sigaction(number, &action, nullptr) != 0) {
      return false;
    }
  }
  return !options_.strict || memory_.protect_inputs();
}

void Firmware::call_void(uint64_t function) {
  state_->in_call = 1;
  calls_.function(function);
  drain_dma();
  state_->in_call = 0;
  check_after_call();
}

int Firmware::call_entry(uint64_t entry, c7x_any* inputs, int count, c7x_any* constants, c7x_any* result,
                         uint64_t* cycles) {
  std::memset(result, 0, sizeof *result);
  state_->in_call = 1;
  const uint64_t start = now_ns();
  const int returned = calls_.entry(entry, inputs, count, constants, result);
  *cycles = now_ns() - start;
  drain_dma();
  state_->in_call = 0;
  check_after_call();
  return returned;
}

void Firmware::check_after_call() {
  if (!options_.strict) {
    return;
  }
  for (const int index : {kFast, kMain}) {
    if (const Block* const block = pool_damaged(pool(index), pool_base(index))) {
      violation("the module wrote outside its memory, just before or after the block of %u bytes at 0x%llx of the %s pool",
                block->size, static_cast<unsigned long long>(memory_.to_dsp(pool_base(index) + block->offset)),
                index == kMain ? "main" : "fast");
    }
  }
}

int Firmware::force_free_registers() {
  c7x_any* const registers = state_->registers;
  int count = 0;
  for (int32_t i = 0; registers != nullptr && i < state_->num_registers; ++i) {
    if (options_.strict && memory_.find(&registers[i], sizeof registers[i]) == nullptr) {
      violation("the register file at %p lies outside the module's memory", static_cast<void*>(registers));
    }
    if (registers[i].type_index < C7X_TYPE_OBJECT || registers[i].v.ptr == nullptr) {
      continue;
    }
    auto* const object = static_cast<c7x_object*>(registers[i].v.ptr);
    if (options_.strict) {
      const Region* const region = memory_.find(object, sizeof *object);
      if (region == nullptr || region == &memory_.region(kStack) || object->type_index == static_cast<int32_t>(kPoison)) {
        violation("register %d still holds an object that is gone: clear the slots of inputs before returning", i);
      }
    }
    registers[i] = c7x_any{};
    object->ref_counter = 0;
    count += destroy(object) ? 1 : 0;
  }
  return count;
}

bool Firmware::destroy(c7x_object* object) {
  if (object->deleter == nullptr) {
    return false;
  }
  calls_.destroy(object->deleter, object);
  return true;
}

// ---- messages ----

size_t Firmware::handle_light(const uint8_t* request, size_t length, uint8_t* response) {
  const auto header = read_message<c7x_msg_header>(request);
  if (length < smallest_request(header.type)) {
    return bare_answer(request, C7X_STATUS_ERR_INVALID, response);
  }
  if (header.type == C7X_MSG_PING) {
    auto answer = answer_to<c7x_ping_response>(request, C7X_STATUS_SUCCESS);
    answer.version = C7X_SERVICE_VERSION;
    answer.uptime_ms = uptime_ms(*state_);
    return put(&answer, sizeof answer, response);
  }
  if (header.type == C7X_MSG_GET_STATUS) {
    auto answer = answer_to<c7x_status_response>(request, C7X_STATUS_SUCCESS);
    answer.version = C7X_SERVICE_VERSION;
    answer.uptime_ms = uptime_ms(*state_);
    answer.jobs_completed = state_->jobs_completed;
    answer.jobs_failed = state_->jobs_failed;
    return put(&answer, sizeof answer, response);
  }
  return 0;
}

size_t Firmware::handle(const uint8_t* request, size_t length, uint8_t* response) {
  const auto header = read_message<c7x_msg_header>(request);
  switch (header.type) {
    case C7X_MSG_DYN_LOAD:
      return dyn_load(request, response);
    case C7X_MSG_DYN_UNLOAD:
      return dyn_unload(request, response);
    case C7X_MSG_MODEL_LOAD:
      return model_load(request, response);
    case C7X_MSG_MODEL_UNLOAD:
      return model_unload(request, response);
    case C7X_MSG_INFER:
      return infer(request, length, response);
    case C7X_MSG_INFER_LARGE:
      return infer_large(request, response);
    default:
      return bare_answer(request, C7X_STATUS_ERR_INVALID, response);
  }
}

size_t Firmware::answer_for_crash(const uint8_t* request, size_t length, const char* why, uint8_t* response) {
  (void)length;
  const auto header = read_message<c7x_msg_header>(request);
  if (why[0] != '\0') {
    textf("[vdsp] %s\n", why);
  }
  state_->in_call = 0;
  switch (header.type) {
    case C7X_MSG_DYN_LOAD: {
      pool_rewind(&state_->main, state_->load_mark);
      auto answer = answer_to<c7x_dyn_load_response>(request, C7X_STATUS_ERR_LOAD);
      return put(&answer, sizeof answer, response);
    }
    case C7X_MSG_DYN_UNLOAD: {
      const auto message = read_message<c7x_dyn_unload_request>(request);
      if (Module* const module = find_module(message.module_handle)) {
        finish_unload(module);
      }
      return bare_answer(request, C7X_STATUS_ERR_CALL, response);
    }
    case C7X_MSG_MODEL_LOAD: {
      auto answer = answer_to<c7x_model_load_response>(request, C7X_STATUS_ERR_WEIGHTS);
      return put(&answer, sizeof answer, response);
    }
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE: {
      state_->jobs_failed += 1;
      auto answer = answer_to<c7x_infer_response>(request, C7X_STATUS_ERR_CALL);
      answer.header.type = C7X_MSG_INFER_RESPONSE;
      answer.return_value = -1;
      answer.printf_size = state_->text_size;
      return put(&answer, sizeof answer, response);
    }
    default:
      return bare_answer(request, C7X_STATUS_ERR_GENERIC, response);
  }
}

// ---- modules and models ----

Module* Firmware::find_module(uint32_t handle) {
  for (Module& module : state_->modules) {
    if (module.used != 0 && module.handle == handle && handle != 0) {
      return &module;
    }
  }
  return nullptr;
}

size_t Firmware::dyn_load(const uint8_t* request, uint8_t* response) {
  const auto message = read_message<c7x_dyn_load_request>(request);
  auto answer = answer_to<c7x_dyn_load_response>(request, C7X_STATUS_ERR_SIZE);
  if (message.elf_size == 0 || message.elf_size > C7X_STAGING_SIZE) {
    return put(&answer, sizeof answer, response);
  }
  reset_text();
  state_->oom = {};
  answer.header.status = load_module(message.elf_size, &answer.module_handle);
  if (answer.header.status == C7X_STATUS_ERR_NOMEM) {
    answer.oom_requested = state_->oom.requested;
    answer.oom_free = state_->oom.free;
    answer.oom_total = state_->oom.total;
  }
  return put(&answer, sizeof answer, response);
}

int32_t Firmware::load_module(uint64_t elf_size, uint32_t* handle) {
  Module* slot = nullptr;
  int32_t index = -1;
  for (int32_t i = 0; i < C7X_MAX_MODULES && slot == nullptr; ++i) {
    slot = state_->modules[i].used == 0 ? &state_->modules[i] : nullptr;
    index = i;
  }
  if (slot == nullptr) {
    load_failed("%d modules are loaded, which is the most", C7X_MAX_MODULES);
    return C7X_STATUS_ERR_LOAD;
  }
  static ElfFile file, inner;
  const uint8_t* const staged = memory_.region(kStaging).host;
  state_->load_mark = pool_mark(&state_->main);
  if (!file.parse(staged, elf_size, kHostMachine) || !file.check_module(&inner)) {
    load_failed("%s", file.error());
    return C7X_STATUS_ERR_LOAD;
  }
  auto* const block = static_cast<uint8_t*>(allocate(file.pool_bytes(), segment_alignment(kHostMachine), kMain));
  if (block == nullptr) {
    load_failed("the module needs %llu bytes of the main pool, %u are free",
                static_cast<unsigned long long>(file.pool_bytes()), state_->oom.free);
    return C7X_STATUS_ERR_NOMEM;
  }
  if (!file.place(block, staged, options_.strict, inner, resolve_import, &options_)) {
    load_failed("%s", file.error());
    release(block);
    return C7X_STATUS_ERR_LOAD;
  }
  Module module = {};
  module.used = 1;
  module.handle = ++state_->last_handle;
  module.pool_offset = static_cast<uint32_t>(block - pool_base(kMain));
  module.pool_bytes = static_cast<uint32_t>(file.pool_bytes());
  const struct {
    const char* name;
    uint64_t* address;
  } wanted[] = {
      {"cg_main_dsp", &module.entry},
      {"TVMPrintLayerProfile", &module.profile},
      {"tidl_bridge_cleanup", &module.cleanup},
      {"_binary_weights_bin_start", &module.weights_start},
      {"_binary_weights_bin_size", &module.weights_size},
  };
  for (const auto& symbol : wanted) {
    if (!file.find_symbol(symbol.name, symbol.address)) {
      *symbol.address = 0;
    }
  }
  *slot = module;
  state_->current = index;
  state_->entry = module.entry;
  if (module.weights_start != 0 && module.weights_size != 0) {
    uint32_t bytes = 0;
    const uint8_t* const start = pointer_to(module.weights_start);
    if (memory_.find(pointer_to(module.weights_size), sizeof bytes) != nullptr) {
      std::memcpy(&bytes, pointer_to(module.weights_size), sizeof bytes);
    }
    uint32_t id = 0;
    uint64_t count = 0;
    const bool there = memory_.find(start, bytes) != nullptr;
    if (there && load_constants(start, bytes, &id, &count) == C7X_STATUS_SUCCESS) {
      state_->embedded_id = id;
    } else if (!there) {
      load_failed("the embedded weights lie outside the module; it is loaded without them");
    }
  }
  state_->main_mark = pool_mark(&state_->main);
  state_->fast_mark = pool_mark(&state_->fast);
  std::fprintf(stderr, "[DLOAD] Loaded module %u: %s, %u bytes of the main pool\n", module.handle, file.soname(),
               module.pool_bytes);
  *handle = module.handle;
  return C7X_STATUS_SUCCESS;
}

void Firmware::finish_unload(Module* module) {
  if (state_->current >= 0 && module == &state_->modules[state_->current]) {
    state_->registers = nullptr;
    state_->num_registers = 0;
    for (Model& model : state_->models) {
      if (model.used != 0 && model.id == state_->embedded_id) {
        model = {};
      }
    }
    state_->embedded_id = 0;
    state_->constants_memory = nullptr;
    state_->loaded_constants = nullptr;
    state_->num_loaded_constants = 0;
    state_->current = -1;
    state_->entry = 0;
  }
  *module = {};
  for (Module& other : state_->modules) {
    other.lost = other.used;
  }
  if (options_.strict) {
    poison(pool_base(kMain), state_->main.top);
    poison(pool_base(kFast), state_->fast.top);
  }
  pool_reset(&state_->main, state_->main.size);
  pool_reset(&state_->fast, state_->fast.size);
  state_->main_mark = {};
  state_->fast_mark = {};
}

size_t Firmware::dyn_unload(const uint8_t* request, uint8_t* response) {
  const auto message = read_message<c7x_dyn_unload_request>(request);
  Module* const module = find_module(message.module_handle);
  if (module == nullptr) {
    return bare_answer(request, C7X_STATUS_ERR_HANDLE, response);
  }
  reset_text();
  if (state_->current >= 0 && module == &state_->modules[state_->current] && module->lost == 0) {
    if (module->cleanup != 0) {
      call_void(module->cleanup);
    }
    force_free_registers();
  }
  finish_unload(module);
  return bare_answer(request, C7X_STATUS_SUCCESS, response);
}

void Firmware::free_constants() {
  if (state_->constants_memory == nullptr) {
    return;
  }
  const auto offset = static_cast<uint64_t>(state_->constants_memory - pool_base(kMain));
  const Block* const block = pool_block_at(&state_->main, offset);
  const uint32_t bytes = block != nullptr ? block->size : 0;
  // Nothing to give back after the pool fell to its base.
  if (pool_free(&state_->main, offset) && options_.strict) {
    poison(state_->constants_memory, bytes);
  }
  state_->constants_memory = nullptr;
  state_->loaded_constants = nullptr;
  state_->num_loaded_constants = 0;
}

int32_t Firmware::load_constants(const uint8_t* data, uint64_t size, uint32_t* id, uint64_t* count) {
  Model* slot = nullptr;
  for (Model& model : state_->models) {
    slot = slot == nullptr && model.used == 0 ? &model : slot;
  }
  if (slot == nullptr) {
    load_failed("%d models are loaded, which is the most", C7X_MAX_MODELS);
    return C7X_STATUS_ERR_WEIGHTS;
  }
  c7x_weights_layout layout = {};
  int status = c7x_weights_scan(data, static_cast<size_t>(size), &layout);
  if (status != C7X_WEIGHTS_OK) {
    load_failed("weights: %s (constant %llu, byte %llu)", c7x_weights_status_text(status),
                static_cast<unsigned long long>(layout.index), static_cast<unsigned long long>(layout.offset));
    return C7X_STATUS_ERR_WEIGHTS;
  }
  free_constants();
  c7x_any* constants = nullptr;
  if (layout.num_constants != 0) {
    auto* const memory = static_cast<uint8_t*>(allocate(layout.memory_bytes, kObjectAlignment, kMain));
    if (memory == nullptr) {
      return C7X_STATUS_ERR_NOMEM;
    }
    state_->constants_memory = memory;
    // The bytes may have changed since the scan: they are in the client's hands.
    status = c7x_weights_load(data, static_cast<size_t>(size), &layout, memory,
                              static_cast<size_t>(layout.memory_bytes), &constants);
    if (status != C7X_WEIGHTS_OK) {
      load_failed("weights: %s", c7x_weights_status_text(status));
      free_constants();
      return C7X_STATUS_ERR_WEIGHTS;
    }
  }
  *slot = {1, ++state_->last_model_id, layout.num_constants, constants};
  state_->loaded_constants = constants;
  state_->num_loaded_constants = static_cast<int32_t>(layout.num_constants);
  *id = slot->id;
  *count = layout.num_constants;
  return C7X_STATUS_SUCCESS;
}

size_t Firmware::model_load(const uint8_t* request, uint8_t* response) {
  const auto message = read_message<c7x_model_load_request>(request);
  auto answer = answer_to<c7x_model_load_response>(request, C7X_STATUS_ERR_SIZE);
  if (message.weights_size == 0 || message.weights_size > C7X_STAGING_SIZE) {
    return put(&answer, sizeof answer, response);
  }
  reset_text();
  state_->oom = {};
  uint64_t count = 0;
  answer.header.status =
      load_constants(memory_.region(kStaging).host, message.weights_size, &answer.model_id, &count);
  answer.num_constants = static_cast<uint32_t>(count);
  if (answer.header.status == C7X_STATUS_ERR_NOMEM) {
    answer.oom_requested = state_->oom.requested;
    answer.oom_free = state_->oom.free;
    answer.oom_total = state_->oom.total;
  }
  return put(&answer, sizeof answer, response);
}

size_t Firmware::model_unload(const uint8_t* request, uint8_t* response) {
  const auto message = read_message<c7x_model_unload_request>(request);
  for (Model& model : state_->models) {
    if (model.used != 0 && model.id == message.model_id && message.model_id != 0) {
      model = {};
      return bare_answer(request, C7X_STATUS_SUCCESS, response);
    }
  }
  return bare_answer(request, C7X_STATUS_ERR_HANDLE, response);
}

// ---- inference ----

int32_t Firmware::make_input(const c7x_wire_desc& desc, c7x_tensor* tensor, c7x_any* cell) {
  uint8_t* data = memory_.at(kStaging, desc.data_addr, desc.data_size);
  data = data != nullptr ? data : memory_.at(kKv, desc.data_addr, desc.data_size);
  if (data == nullptr) {
    if (desc.data_addr != 0 && desc.data_size != 0) {
      return C7X_STATUS_ERR_TENSOR;
    }
    data = pointer_to(desc.data_addr);
  }
  std::memset(tensor, 0, sizeof *tensor);
  tensor->header.type_index = C7X_TYPE_TENSOR;
  tensor->header.ref_counter = 1;
  tensor->data = data;
  tensor->ndim = desc.ndim < 0 ? 0 : desc.ndim > C7X_WIRE_MAX_RANK ? C7X_WIRE_MAX_RANK : desc.ndim;
  tensor->dtype = {static_cast<uint8_t>(desc.dtype_code), static_cast<uint8_t>(desc.dtype_bits), 1};
  tensor->shape = tensor->shape_storage;
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    tensor->shape_storage[i] = desc.shape[i];
  }
  std::memset(cell, 0, sizeof *cell);
  cell->type_index = C7X_TYPE_TENSOR;
  cell->v.ptr = tensor;
  return C7X_STATUS_SUCCESS;
}

int32_t Firmware::find_entry(uint32_t handle, uint64_t* entry) {
  const Module* const module = state_->entry != 0 ? &state_->modules[state_->current] : find_module(handle);
  if (module == nullptr || module->entry == 0) {
    return C7X_STATUS_ERR_SYMBOL;
  }
  if (module->lost != 0 && options_.strict) {
    violation("module %u runs after the unloading of another module gave back its memory", module->handle);
  }
  *entry = module->entry;
  return C7X_STATUS_SUCCESS;
}

int32_t Firmware::find_constants(uint32_t id, c7x_any** constants) {
  const uint32_t effective = id != 0 ? id : state_->embedded_id;
  *constants = nullptr;
  if (effective == 0) {
    return C7X_STATUS_SUCCESS;
  }
  for (const Model& model : state_->models) {
    if (model.used != 0 && model.id == effective) {
      *constants = model.constants;
      return C7X_STATUS_SUCCESS;
    }
  }
  return C7X_STATUS_ERR_HANDLE;
}

// What a call finds on the firmware's stack.
namespace {
struct CallFrame {
  c7x_any result;
  c7x_any cells[C7X_INFER_LARGE_MAX_INPUTS];
  c7x_tensor tensors[C7X_INFER_MAX_INPUTS];
};
static_assert(sizeof(CallFrame) <= kStackBytes, "the frame fits the stack");
}  // namespace

c7x_infer_response* Firmware::begin_infer(const uint8_t* request, uint8_t* response) {
  auto* const answer = reinterpret_cast<c7x_infer_response*>(response);
  *answer = answer_to<c7x_infer_response>(request, C7X_STATUS_SUCCESS);
  answer->header.type = C7X_MSG_INFER_RESPONSE;
  reset_text();
  state_->oom = {};
  return answer;
}

size_t Firmware::infer(const uint8_t* request, size_t length, uint8_t* response) {
  const auto message = read_message<c7x_infer_request>(request);
  c7x_infer_response* const answer = begin_infer(request, response);
  const auto refuse = [&](int32_t status) {
    answer->header.status = status;
    return sizeof *answer;
  };
  if (message.module_handle == 0) {
    return refuse(C7X_STATUS_ERR_HANDLE);
  }
  if (message.num_inputs > C7X_INFER_MAX_INPUTS || length < C7X_INFER_REQUEST_SIZE(message.num_inputs)) {
    return refuse(C7X_STATUS_ERR_TENSOR);
  }
  uint64_t entry = 0;
  c7x_any* constants = nullptr;
  if (const int32_t status = find_entry(message.module_handle, &entry)) {
    return refuse(status);
  }
  if (const int32_t status = find_constants(message.model_id, &constants)) {
    return refuse(status);
  }
  auto* const frame = reinterpret_cast<CallFrame*>(memory_.region(kStack).host);
  for (uint32_t i = 0; i < message.num_inputs; ++i) {
    const size_t at = offsetof(c7x_infer_request, inputs) + i * sizeof(c7x_wire_desc);
    if (const int32_t status =
            make_input(read_message<c7x_wire_desc>(request + at), &frame->tensors[i], &frame->cells[i])) {
      return refuse(status);
    }
  }
  const uint32_t wanted = message.flags & C7X_FLAG_REPEAT_MASK;
  const uint32_t repeat = wanted == 0 ? 1 : wanted;
  const uint64_t profile = state_->current >= 0 ? state_->modules[state_->current].profile : 0;
  for (uint32_t i = 0; i < repeat && answer->return_value == 0; ++i) {
    uint64_t cycles = 0;
    answer->return_value =
        call_entry(entry, frame->cells, static_cast<int>(message.num_inputs), constants, &frame->result, &cycles);
    answer->cycles = cycles;
    if (repeat > 1) {
      textf("\n[Iteration %u/%u] %llu cycles (%.2f ms)\n", i + 1, repeat, static_cast<unsigned long long>(cycles),
            static_cast<double>(cycles) / 1e6);
    }
    if (profile != 0) {
      call_void(profile);
    }
  }
  const size_t size = finish_infer(answer, frame->result, false, false);
  if (options_.strict) {
    poison(frame->tensors, sizeof frame->tensors);
  }
  return size;
}

size_t Firmware::infer_large(const uint8_t* request, uint8_t* response) {
  const auto message = read_message<c7x_infer_large_request>(request);
  c7x_infer_response* const answer = begin_infer(request, response);
  answer->return_value = -1;
  c7x_tensor* tensors[C7X_INFER_LARGE_MAX_INPUTS] = {};
  const auto release_inputs = [&] {
    for (c7x_tensor* const tensor : tensors) {
      release(tensor);
    }
  };
  const auto refuse = [&](int32_t status) {
    answer->header.status = status;
    if (status == C7X_STATUS_ERR_NOMEM) {
      answer->oom_requested = state_->oom.requested;
      answer->oom_free = state_->oom.free;
      answer->oom_total = state_->oom.total;
    }
    release_inputs();
    return sizeof *answer;
  };
  if (message.module_handle == 0) {
    return refuse(C7X_STATUS_ERR_HANDLE);
  }
  if (message.num_inputs == 0 || message.num_inputs > C7X_INFER_LARGE_MAX_INPUTS) {
    return refuse(C7X_STATUS_ERR_TENSOR);
  }
  const uint8_t* const descs = memory_.at(kStaging, message.descs_addr, message.descs_size);
  if (descs == nullptr) {
    return refuse(C7X_STATUS_ERR_ADDR);
  }
  force_free_registers();
  rewind(kMain, state_->main_mark);
  rewind(kFast, state_->fast_mark);
  state_->loaded_constants = nullptr;
  state_->num_loaded_constants = 0;
  for (uint32_t i = 0; i < message.num_inputs; ++i) {
    tensors[i] = static_cast<c7x_tensor*>(allocate(sizeof(c7x_tensor), kObjectAlignment, kMain));
    if (tensors[i] == nullptr) {
      return refuse(C7X_STATUS_ERR_NOMEM);
    }
  }
  auto* const frame = reinterpret_cast<CallFrame*>(memory_.region(kStack).host);
  for (uint32_t i = 0; i < message.num_inputs; ++i) {
    // The array's size is not checked against the count, as on a board; its place in staging is, so nothing faults.
    const uint64_t at = uint64_t{i} * sizeof(c7x_wire_desc);
    const uint8_t* const desc = memory_.at(kStaging, message.descs_addr + at, sizeof(c7x_wire_desc));
    if (desc == nullptr) {
      return refuse(C7X_STATUS_ERR_TENSOR);
    }
    if (options_.strict && at + sizeof(c7x_wire_desc) > message.descs_size) {
      violation("descs_size is %u, too small for %u descriptors", message.descs_size, message.num_inputs);
    }
    if (const int32_t status = make_input(read_message<c7x_wire_desc>(desc), tensors[i], &frame->cells[i])) {
      return refuse(status);
    }
  }
  uint64_t entry = 0;
  c7x_any* constants = nullptr;
  if (const int32_t status = find_entry(message.module_handle, &entry)) {
    return refuse(status);
  }
  if (const int32_t status = find_constants(message.model_id, &constants)) {
    return refuse(status);
  }
  const uint32_t wanted = message.flags & C7X_FLAG_REPEAT_MASK;
  const uint32_t repeat = wanted == 0 ? 1 : wanted;
  for (uint32_t i = 0; i < repeat; ++i) {
    uint64_t cycles = 0;
    answer->return_value =
        call_entry(entry, frame->cells, static_cast<int>(message.num_inputs), constants, &frame->result, &cycles);
    answer->cycles += cycles;
  }
  const Module* const module = find_module(message.module_handle);
  if (module != nullptr && module->profile != 0) {
    call_void(module->profile);
  }
  const size_t size = finish_infer(answer, frame->result, true, (message.flags & C7X_FLAG_KV_RESIDENT) != 0);
  release_inputs();
  return size;
}

size_t Firmware::finish_infer(c7x_infer_response* answer, const c7x_any& result, bool large, bool kv_resident) {
  size_t size = sizeof *answer;
  if (answer->return_value != 0) {
    const bool oom = answer->return_value == C7X_STATUS_ERR_NOMEM || state_->oom.failed != 0;
    answer->header.status = oom ? C7X_STATUS_ERR_NOMEM : C7X_STATUS_ERR_CALL;
    if (oom) {
      answer->oom_requested = state_->oom.requested;
      answer->oom_free = state_->oom.free;
      answer->oom_total = state_->oom.total;
    }
    state_->jobs_failed += 1;
  } else {
    size = extract(answer, result, large, kv_resident);
    state_->jobs_completed += 1;
  }
  answer->printf_size = state_->text_size;
  answer->header.len = static_cast<uint32_t>(size);
  return size;
}

const c7x_tensor* Firmware::check_tensor(const void* object) {
  const auto* const tensor = static_cast<const c7x_tensor*>(object);
  if (!options_.strict) {
    return tensor;
  }
  if (memory_.find(tensor, sizeof *tensor) == nullptr) {
    violation("an output object at %p lies outside the module's memory", object);
  }
  if (tensor->ndim < 0 || tensor->ndim > C7X_WIRE_MAX_RANK) {
    violation("an output has rank %d, a client can be told of 0 to %d", tensor->ndim, C7X_WIRE_MAX_RANK);
  }
  if (memory_.find(tensor->shape, static_cast<uint64_t>(tensor->ndim) * sizeof(int64_t)) == nullptr && tensor->ndim > 0) {
    violation("the shape of an output at %p lies outside the module's memory", static_cast<void*>(tensor->shape));
  }
  if (tensor->byte_offset != 0 || tensor->strides != nullptr || tensor->dtype.lanes != 1) {
    violation("an output is not compact: byte_offset, strides and lanes are ignored by a board");
  }
  return tensor;
}

namespace {

// Product of the shape and of the whole bytes of an element, as the firmware reckons it; false when it overflows.
bool tensor_bytes(const c7x_tensor& tensor, int32_t ndim, uint64_t* bytes) {
  *bytes = tensor.dtype.bits / 8u;
  for (int32_t i = 0; i < ndim; ++i) {
    if (tensor.shape[i] < 0 || __builtin_mul_overflow(*bytes, static_cast<uint64_t>(tensor.shape[i]), bytes)) {
      return false;
    }
  }
  return true;
}

// An empty output may have no data at all.
void copy(uint8_t* target, const void* source, uint64_t bytes) {
  if (bytes != 0) {
    std::memcpy(target, source, static_cast<size_t>(bytes));
  }
}

// The first element that is the poison, or was computed from it: arithmetic keeps a NaN's payload. UINT64_MAX: none.
uint64_t find_poison(const uint8_t* data, uint64_t bytes, c7x_dtype dtype) {
  const uint64_t step = dtype.bits / 8u;
  if (dtype.code != C7X_DTYPE_FLOAT || (step != 4 && step != 8)) {
    return UINT64_MAX;
  }
  for (uint64_t at = 0; at + step <= bytes; at += step) {
    uint32_t low = 0, high = 0;
    std::memcpy(&low, data + at, 4);
    std::memcpy(&high, data + at + step - 4, 4);
    // Without the sign; a signalling float64 becomes quiet by arithmetic.
    const uint32_t quiet_bit = step == 8 ? 0x00080000u : 0u;
    if ((high & 0x7FFFFFFFu & ~quiet_bit) == (kPoison & ~quiet_bit) && (step == 4 || low == kPoison)) {
      return at / step;
    }
  }
  return UINT64_MAX;
}

}  // namespace

size_t Firmware::extract(c7x_infer_response* answer, const c7x_any& result, bool large, bool kv_resident) {
  struct Output {
    const c7x_tensor* tensor;
    int32_t index;
  } outputs[C7X_MAX_ARRAY];
  uint32_t count = 0;
  const bool is_array = result.type_index == C7X_TYPE_ARRAY;
  if (result.v.ptr == nullptr || (result.type_index != C7X_TYPE_TENSOR && !is_array)) {
    return sizeof *answer;
  }
  if (!is_array) {
    outputs[count++] = {check_tensor(result.v.ptr), 0};
  } else {
    const auto* const array = static_cast<const c7x_array*>(result.v.ptr);
    if (options_.strict && (memory_.find(array, sizeof *array) == nullptr || array->size < 0 || array->size > C7X_MAX_ARRAY)) {
      violation("the array of outputs at %p is not one", result.v.ptr);
    }
    uint64_t kv_slot = 0;
    for (int32_t i = 0; i < array->size && i < C7X_MAX_ARRAY; ++i) {
      if (array->elements[i].type_index != C7X_TYPE_TENSOR || array->elements[i].v.ptr == nullptr) {
        continue;
      }
      const c7x_tensor* const tensor = check_tensor(array->elements[i].v.ptr);
      if (!kv_resident || i == 0) {
        outputs[count++] = {tensor, i};
        continue;
      }
      uint64_t bytes = 0;
      if (kv_slot < C7X_KV_SLOTS && tensor_bytes(*tensor, tensor->ndim, &bytes)) {
        check_output(*tensor, bytes, static_cast<uint32_t>(i));
        copy(memory_.kv_writable() + kv_slot * C7X_KV_SLOT_SIZE, tensor->data,
             bytes < C7X_KV_SLOT_SIZE ? bytes : C7X_KV_SLOT_SIZE);
        kv_slot += 1;
      }
    }
  }
  const bool out_of_band = count > C7X_MAX_INLINE_DESCS;
  if (options_.strict && out_of_band && !large) {
    violation("%u outputs need INFER_LARGE: the answer to INFER would overrun a board's message buffer", count);
  }
  const Region& region = memory_.region(kResult);
  auto* const inline_descs = reinterpret_cast<uint8_t*>(answer) + offsetof(c7x_infer_response, outputs);
  c7x_wire_desc descs[C7X_MAX_ARRAY] = {};
  uint64_t offset = 0;
  const auto check_room = [&](uint64_t bytes, const char* what) {
    const uint64_t usable = C7X_RESULT_SIZE - C7X_PRINTF_SIZE;
    if (options_.strict && (offset > usable || bytes > usable - offset)) {
      violation("%s need more than the %llu bytes of the result region before the printf buffer", what,
                static_cast<unsigned long long>(usable));
    }
    return offset <= C7X_RESULT_SIZE && bytes <= C7X_RESULT_SIZE - offset;
  };
  for (uint32_t i = 0; i < count; ++i) {
    const c7x_tensor& tensor = *outputs[i].tensor;
    c7x_wire_desc& desc = descs[i];
    const int32_t ndim = tensor.ndim < 0 ? 0 : tensor.ndim > C7X_WIRE_MAX_RANK ? C7X_WIRE_MAX_RANK : tensor.ndim;
    uint64_t bytes = 0;
    if (!tensor_bytes(tensor, ndim, &bytes)) {
      violation("output %u has an impossible shape", i);
    }
    check_output(tensor, bytes, i);
    desc.data_addr = memory_.to_dsp(tensor.data);
    desc.data_size = bytes;
    desc.ndim = ndim;
    desc.dtype_code = tensor.dtype.code;
    desc.dtype_bits = tensor.dtype.bits;
    desc.reserved = is_array ? outputs[i].index : 0;
    for (int32_t k = 0; k < ndim; ++k) {
      desc.shape[k] = tensor.shape[k];
    }
    if (region.contains(tensor.data, bytes)) {
      continue;
    }
    if (check_room(bytes, "the outputs")) {
      copy(region.host + offset, tensor.data, bytes);
      desc.data_addr = region.dsp + offset;
      offset += (bytes + kOutputAlignment - 1) & ~(kOutputAlignment - 1);
    }
  }
  answer->num_outputs = count;
  const uint64_t descs_size = count * sizeof(c7x_wire_desc);
  if (out_of_band && check_room(descs_size, "the outputs and their descriptors")) {
    std::memcpy(region.host + offset, descs, static_cast<size_t>(descs_size));
    answer->descs_addr = region.dsp + offset;
    answer->descs_size = static_cast<uint32_t>(descs_size);
    // A board's INFER says it sends them inline all the same.
    return large ? sizeof *answer : C7X_INFER_RESPONSE_SIZE(count);
  }
  std::memcpy(inline_descs, descs, static_cast<size_t>(descs_size));
  return C7X_INFER_RESPONSE_SIZE(count);
}

void Firmware::check_output(const c7x_tensor& tensor, uint64_t bytes, uint32_t index) {
  if (!options_.strict || bytes == 0) {
    return;
  }
  const auto* const data = static_cast<const uint8_t*>(tensor.data);
  if (memory_.find(data, bytes) == nullptr) {
    violation("the %llu bytes of output %u at %p lie outside the module's memory",
              static_cast<unsigned long long>(bytes), index, tensor.data);
  }
  const uint64_t element = find_poison(data, bytes, tensor.dtype);
  if (element != UINT64_MAX) {
    violation("element %llu of output %u comes from memory that was never written: a static without initialiser, or a "
              "pointer kept from an earlier call",
              static_cast<unsigned long long>(element), index);
  }
}

}  // namespace vdsp
