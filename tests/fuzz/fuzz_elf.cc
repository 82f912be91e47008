// The module loader (native/vdsp/elf_module.cc), for both machines. The input is a module.
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "elf_module.h"

namespace {

constexpr uint64_t kMostPool = uint64_t{1} << 20;

// The firmware's answer to a name: each of the three, by its length.
vdsp::Import resolve(void*, const char* name, uint64_t* address) {
  switch (std::strlen(name) % 8) {
    case 0:
      return vdsp::Import::kForbidden;
    case 1:
      return vdsp::Import::kMissing;
    default:
      *address = 0x1122334455667788;
      return vdsp::Import::kResolved;
  }
}

uint16_t machine_of(const uint8_t* file, size_t size) {
  uint16_t machine = 0;
  if (size >= sizeof(Elf64_Ehdr)) std::memcpy(&machine, file + offsetof(Elf64_Ehdr, e_machine), sizeof machine);
  return machine == vdsp::kMachineAArch64 ? machine : vdsp::kMachineX86_64;
}

void check_symbol(const vdsp::ElfFile& module, const char* name, const uint8_t* block, const uint8_t* file, size_t size) {
  uint64_t address = 0;
  if (!module.find_symbol(name, &address)) return;
  if (!module.defines(name)) abort();
  const auto in = [address](const uint8_t* start, uint64_t length) {
    return address - reinterpret_cast<uintptr_t>(start) <= length;
  };
  if (!in(block, module.pool_bytes()) && !in(file, size)) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::unique_ptr<uint8_t[]> file(new uint8_t[size + (size == 0)]);
  if (size != 0) std::memcpy(file.get(), data, size);
  static vdsp::ElfFile module, inner;
  if (!module.parse(file.get(), size, machine_of(file.get(), size)) || !module.check_module(&inner)) {
    if (module.error()[0] == '\0') abort();
    return 0;
  }
  if (module.pool_bytes() > kMostPool) return 0;
  // Exactly as large as the loader asks for, at the alignment that it asks for.
  constexpr uint64_t kAlignment = vdsp::segment_alignment(vdsp::kMachineAArch64);
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, module.pool_bytes()) != 0) abort();
  const std::unique_ptr<void, void (*)(void*)> owner(memory, std::free);
  auto* const block = static_cast<uint8_t*>(memory);
  if (!module.place(block, file.get(), (data[size - 1] & 1) == 0, inner, resolve, nullptr)) {
    if (module.error()[0] == '\0') abort();
    return 0;
  }
  for (const char* const name : {"cg_main_dsp", "TVMPrintLayerProfile", "_binary_weights_bin_start"}) {
    check_symbol(module, name, block, file.get(), size);
  }
  return 0;
}
