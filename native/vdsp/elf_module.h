// Loads a module, an ELF64 shared object, the way the firmware's loader does (module ABI, section 5), without dlopen.
//
// Executable and writable segments are copied into one block of the main pool: code of x86-64 and AArch64 reaches its
// data relative to the program counter, so their distances must stay. Read-only segments are used in place in staging.
// The bytes come from a client and may change at any time: every number is copied before it is checked.
#ifndef C7X_VDSP_ELF_MODULE_H
#define C7X_VDSP_ELF_MODULE_H

#include <cstddef>
#include <cstdint>

namespace vdsp {

constexpr uint16_t kMachineX86_64 = 62;
constexpr uint16_t kMachineAArch64 = 183;
constexpr uint16_t kMachineC7000 = 145;

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = kMachineX86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = kMachineAArch64;
#else
#error "the virtual DSP runs on x86-64 and AArch64"
#endif

constexpr int kMaxSegments = 16;
// Of the block that segments are loaded into. AArch64 code forms addresses from 4 KiB pages and needs a whole number of
// them between where it was linked and where it runs.
constexpr uint64_t segment_alignment(uint16_t machine) { return machine == kMachineAArch64 ? 4096 : 128; }
constexpr size_t kMaxSymbolName = 256;

// What an imported name is.
enum class Import { kResolved, kMissing, kForbidden };

class ElfFile;

// Finds the address of a name that the module takes from the firmware. kForbidden: the firmware of this board has no such
// symbol although the pseudo firmware names it.
using Resolver = Import (*)(void* context, const char* name, uint64_t* address);

// A parsed file. Nothing is allocated; the file's bytes must stay where they are.
class ElfFile {
 public:
  // Checks headers, segments and dynamic table. On failure error() says what is wrong.
  bool parse(const uint8_t* file, uint64_t size, uint16_t machine);

  // What a module needs beyond that: one dependency, no constructors, section .dsp_syms_out, nothing but data that stands
  // alone in read-only segments. `inner` becomes the pseudo firmware.
  bool check_module(ElfFile* inner);

  // Bytes of main pool for the executable and writable segments together.
  uint64_t pool_bytes() const { return pool_bytes_; }

  // Copies the segments to `block` (pool_bytes() bytes, aligned to segment_alignment), resolves and relocates. With `fill_bss` the bytes
  // that no file content covers are poisoned. The staging area holds the file at `in_place`.
  bool place(uint8_t* block, const uint8_t* in_place, bool fill_bss, const ElfFile& inner, Resolver resolver,
             void* context);

  // After place(): the address of a symbol that the module defines.
  bool find_symbol(const char* name, uint64_t* address) const;

  // Whether the file defines a global symbol of this name.
  bool defines(const char* name) const;

  const char* soname() const { return soname_; }
  const char* error() const { return error_; }

 private:
  struct Segment {
    uint64_t vaddr, offset, filesz, memsz;
    uint32_t flags;
    bool in_place;
  };
  struct Table {
    uint64_t offset, size;
  };

  bool fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
  bool read_header();
  bool read_segments();
  bool read_dynamic(uint64_t offset, uint64_t size);
  bool read_sections(Table* dsp_syms);
  bool relocate(const Table& table, const ElfFile& inner, Resolver resolver, void* context);
  bool symbol_value(uint64_t index, const ElfFile& inner, Resolver resolver, void* context, uint64_t* value);
  bool inside(uint64_t offset, uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }
  bool file_offset(uint64_t vaddr, uint64_t bytes, uint64_t* offset) const;
  bool string_at(uint64_t index, char* text) const;
  bool to_host(uint64_t vaddr, uint64_t* address) const;
  bool find_defined(const char* name, uint64_t* index) const;

  const uint8_t* file_ = nullptr;
  uint64_t size_ = 0;
  uint16_t machine_ = 0;
  uint64_t phoff_ = 0, shoff_ = 0;
  uint16_t phnum_ = 0, shnum_ = 0, shstrndx_ = 0, type_ = 0;
  Segment segments_[kMaxSegments];
  int num_segments_ = 0;
  uint64_t pool_vaddr_ = 0, pool_bytes_ = 0;
  Table strings_ = {}, symbols_ = {}, rela_ = {}, plt_rela_ = {};
  uint64_t num_symbols_ = 0;
  int num_needed_ = 0;
  char needed_[kMaxSymbolName] = {};
  char soname_[kMaxSymbolName] = {};
  bool has_init_ = false;
  uint8_t* block_ = nullptr;
  const uint8_t* in_place_ = nullptr;
  char error_[400] = {};
};

}  // namespace vdsp

#endif
