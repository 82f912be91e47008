// The module loader: what it takes for both machines, what it refuses and why, and files that lie.
#include "check.h"
#include "elf_builder.h"
#include "elf_module.h"
#include "memory.h"

#include <elf.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using vdsp::ElfFile;
using vdsp::Import;

constexpr uint64_t kFirmwareAddress = 0x1122334455667788;

Import resolve(void* context, const char* name, uint64_t* address) {
  CHECK(std::strcmp(name, "printf") == 0);
  if (context != nullptr) {
    return Import::kForbidden;
  }
  *address = kFirmwareAddress;
  return Import::kResolved;
}

alignas(128) uint8_t block[0x2000];

// The loader's complaint; empty when the module loads.
std::string load(const std::vector<uint8_t>& bytes, uint16_t machine, ElfFile* file, void* context = nullptr) {
  // An exact copy, so that a sanitizer sees one byte too far.
  static std::vector<uint8_t> copy;
  copy = bytes;
  copy.shrink_to_fit();
  static ElfFile inner;
  if (!file->parse(copy.data(), copy.size(), machine) || !file->check_module(&inner)) {
    return file->error();
  }
  if (file->pool_bytes() > sizeof block) {
    return "too large for this test";
  }
  return file->place(block, copy.data(), true, inner, resolve, context) ? "" : file->error();
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void test_loads(uint16_t machine) {
  ElfFile file;
  const std::vector<uint8_t> bytes = module_for(machine).build();
  static std::vector<uint8_t> copy;
  copy = bytes;
  static ElfFile inner;
  CHECK(file.parse(copy.data(), copy.size(), machine));
  CHECK(file.check_module(&inner));
  CHECK_EQ(file.pool_bytes(), kBssEnd);
  CHECK_EQ(std::string(file.soname()), "lib0.out");
  CHECK(file.place(block, copy.data(), true, inner, resolve, nullptr));
  CHECK_EQ(get<uint64_t>(block + kData), 0x5555u);
  CHECK_EQ(get<uint64_t>(block + kData + 8), address_of(block + kText + 4));
  CHECK_EQ(get<uint64_t>(block + kData + 16), address_of(copy.data() + kConstants + 16));
  CHECK_EQ(get<uint64_t>(block + kData + 24), address_of(block + kText + 8));
  CHECK_EQ(get<uint64_t>(block + kData + 32), kFirmwareAddress);
  CHECK_EQ(get<uint64_t>(block + kData + 40), address_of(copy.data() + kConstants));
  CHECK_EQ(get<uint64_t>(block + kData + 48), 0u);
  CHECK(vdsp::is_poisoned(block + kBss, kBssEnd - kBss));
  uint64_t address = 0;
  CHECK(file.find_symbol("cg_main_dsp", &address));
  CHECK_EQ(address, address_of(block + kText));
  CHECK(!file.find_symbol("printf", &address));
  CHECK(!file.find_symbol("", &address));
}

void expect(const std::string& complaint, const std::string& words) {
  if (complaint.find(words) == std::string::npos) {
    std::cerr << "expected \"" << words << "\" in \"" << complaint << "\"\n";
    std::exit(1);
  }
}

template <typename T>
void change(std::vector<uint8_t>* file, uint64_t offset, T value) {
  put(file, offset, value);
}

void test_refusals() {
  const Builder good = module_for(vdsp::kMachineX86_64);
  const std::vector<uint8_t> bytes = good.build();
  const auto header = get<Elf64_Ehdr>(bytes.data());
  const uint64_t phdr = sizeof(Elf64_Ehdr), shdr = header.e_shoff;
  ElfFile file;
  CHECK_EQ(load(bytes, vdsp::kMachineX86_64, &file), "");
  expect(load(bytes, vdsp::kMachineAArch64, &file), "for x86-64");
  expect(load({}, vdsp::kMachineX86_64, &file), "too few");
  const struct {
    const char* words;
    std::function<void(std::vector<uint8_t>*)> edit;
  } cases[] = {
      {"not an ELF file", [](auto* f) { (*f)[0] = 0; }},
      {"64-bit", [](auto* f) { (*f)[EI_CLASS] = ELFCLASS32; }},
      {"little-endian", [](auto* f) { (*f)[EI_DATA] = ELFDATA2MSB; }},
      {"TI C7000", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_machine), uint16_t{145}); }},
      {"e_type", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_REL}); }},
      {"not a shared object", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_EXEC}); }},
      {"program headers", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_phnum), uint16_t{0}); }},
      {"program headers", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 8); }},
      {"section headers", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_shoff), uint64_t{1} << 40); }},
      {"no section headers", [](auto* f) { change(f, offsetof(Elf64_Ehdr, e_shnum), uint16_t{0}); }},
      {"no section .dsp_syms_out", [=](auto* f) { change(f, shdr + sizeof(Elf64_Shdr) + 4, uint32_t{SHT_NULL}); }},
      {"beyond the end", [=](auto* f) { change(f, shdr + sizeof(Elf64_Shdr) + 32, UINT64_MAX); }},
      {"impossible size", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_filesz), uint64_t{1} << 50); }},
      {"impossible size", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_vaddr), UINT64_MAX); }},
      {"end of the file", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_offset), uint64_t{1} << 50); }},
      {"overlap", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_vaddr), kDynamic); }},
      {"thread-local", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_type), uint32_t{PT_TLS}); }},
      {"no dynamic table", [=](auto* f) { change(f, phdr + 3 * sizeof(Elf64_Phdr), uint32_t{PT_NOTE}); }},
      {"read-only", [=](auto* f) { change(f, phdr + offsetof(Elf64_Phdr, p_flags) + sizeof(Elf64_Phdr), uint32_t{PF_R}); }},
      {"lacks one of", [](auto* f) { change(f, kDynamic, int64_t{DT_DEBUG}); }},
      {"string table", [](auto* f) { change(f, kDynamic + 8, uint64_t{0x9999}); }},
      {"symbol table", [](auto* f) { change(f, kHash + 4, uint32_t{1} << 20); }},
      {"symbol table", [](auto* f) { change(f, kHash + 4, uint32_t{8191}); }},
      {"hash table", [](auto* f) { change(f, kDynamic + 3 * 16 + 8, UINT64_MAX - 3); }},
      {"relocations lie", [](auto* f) { change(f, kDynamic + 7 * 16 + 8, uint64_t{1} << 40); }},
      {"soname", [](auto* f) { change(f, kDynamic + 4 * 16 + 8, uint64_t{0}); }},
      {"depends on 1 files, among them lib0.out", [](auto* f) {
         change(f, kDynamic + 5 * 16 + 8, get<uint64_t>(f->data() + kDynamic + 4 * 16 + 8)); }},
  };
  for (const auto& item : cases) {
    std::vector<uint8_t> copy = bytes;
    item.edit(&copy);
    expect(load(copy, vdsp::kMachineX86_64, &file), item.words);
  }
  // Truncated anywhere.
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK(!load(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<long>(size)), vdsp::kMachineX86_64, &file).empty());
  }
}

void test_dynamic_refusals() {
  ElfFile file;
  const auto with_tag = [&file](int64_t tag, uint64_t value) {
    Builder module = module_for(vdsp::kMachineX86_64);
    Elf64_Dyn entry = {};
    entry.d_tag = tag;
    entry.d_un.d_val = value;
    module.more.push_back(entry);
    return load(module.build(), vdsp::kMachineX86_64, &file);
  };
  expect(with_tag(DT_INIT_ARRAYSZ, 8), "constructors");
  expect(with_tag(DT_PREINIT_ARRAYSZ, 8), "constructors");
  expect(with_tag(DT_INIT, kText), "constructors");
  CHECK_EQ(with_tag(DT_INIT_ARRAYSZ, 0), "");
  expect(with_tag(DT_REL, kRela), "RELA");
  expect(with_tag(DT_PLTREL, DT_REL), "RELA");
  expect(with_tag(DT_RELAENT, 16), "RELA");
  expect(with_tag(DT_NEEDED, 1), "depends on 2 files");
}

void test_relocation_refusals(uint16_t machine) {
  const bool x86 = machine == vdsp::kMachineX86_64;
  ElfFile file;
  const auto with = [&](uint64_t at, uint64_t symbol, uint32_t type, int64_t addend) {
    Builder module = module_for(machine);
    module.rela.push_back(Elf64_Rela{at, ELF64_R_INFO(symbol, type), addend});
    return load(module.build(), machine, &file);
  };
  const uint32_t relative = x86 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
  const uint32_t absolute = x86 ? R_X86_64_64 : R_AARCH64_GLOB_DAT;
  CHECK_EQ(with(kData + 48, 2, absolute, 0), "");
  expect(with(kBssEnd - 4, 0, relative, 0), "outside the segments");
  expect(with(UINT64_MAX - 3, 0, relative, 0), "outside the segments");
  expect(with(kData, 0, relative, 0x123456), "points outside");
  expect(with(kData, 0, relative, -1), "points outside");
  expect(with(kConstantsVaddr, 0, relative, 0), "read-only segment, where a board loses it");
  expect(with(kData, 6, absolute, 0), "names symbol 6 of 6");
  expect(with(kData, 5, absolute, 0), "imports absent, which dsp_syms.out does not define");
  expect(with(kData, 0, x86 ? R_X86_64_DTPMOD64 : R_AARCH64_TLS_DTPMOD, 0), "thread-local");
  expect(with(kData, 0, x86 ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE, 0), "indirect");
  expect(with(kData, 0, x86 ? R_X86_64_PC32 : R_AARCH64_COPY, 0), "not supported");
  int forbidden = 0;
  expect(load(module_for(machine).build(), machine, &file, &forbidden),
         "imports printf, which the firmware of this board does not have");
}

// A file that lies must never make the loader read or write anything that is not its own.
void test_mutations(uint16_t machine) {
  const std::vector<uint8_t> bytes = module_for(machine).build();
  std::mt19937_64 random(20240301);
  const uint64_t odd[] = {0, 1, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 32, 1ull << 47,
                          INT64_MAX, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 0x7F, bytes.size(), bytes.size() - 1};
  ElfFile file;
  int loaded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> copy = bytes;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t width = size_t{1} << (random() % 4);
      const uint64_t value = random() % 3 == 0 ? random() : odd[random() % (sizeof odd / sizeof odd[0])];
      const size_t at = static_cast<size_t>(random() % (copy.size() - 8));
      std::memcpy(copy.data() + (random() % 2 == 0 ? at / width * width : at), &value, width);
    }
    if (random() % 8 == 0) {
      copy.resize(static_cast<size_t>(random() % copy.size()));
    }
    // The resolver of this test knows printf alone; a renamed symbol would not be an error of the loader.
    static ElfFile inner;
    static std::vector<uint8_t> exact;
    exact = copy;
    exact.shrink_to_fit();
    const auto any_name = [](void*, const char*, uint64_t* address) {
      *address = kFirmwareAddress;
      return Import::kResolved;
    };
    if (file.parse(exact.data(), exact.size(), machine) && file.check_module(&inner) &&
        file.pool_bytes() <= sizeof block && file.place(block, exact.data(), true, inner, any_name, nullptr)) {
      uint64_t address = 0;
      file.find_symbol("cg_main_dsp", &address);
      ++loaded;
    }
  }
  CHECK(loaded > 100);
  CHECK(loaded < 19000);
}

}  // namespace

int main() {
  for (const uint16_t machine : {vdsp::kMachineX86_64, vdsp::kMachineAArch64}) {
    test_loads(machine);
    test_relocation_refusals(machine);
    test_mutations(machine);
  }
  test_refusals();
  test_dynamic_refusals();
  return 0;
}
