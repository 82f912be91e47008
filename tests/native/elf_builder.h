// A small module, a shared object with its pseudo firmware inside, written byte by byte: what a compiler would not make, and
// without one.
#ifndef C7X_TESTS_ELF_BUILDER_H
#define C7X_TESTS_ELF_BUILDER_H

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "elf_module.h"

namespace {

// Offsets of a small shared object: file offset and address are the same up to the read-only segment.
constexpr uint64_t kHash = 0x200, kSyms = 0x240, kStrings = 0x340, kRela = 0x400, kText = 0x500, kDynamic = 0x600;
constexpr uint64_t kData = 0x700, kBss = 0x740, kBssEnd = 0x7C0, kConstants = 0x800, kConstantsEnd = 0x880;
constexpr uint64_t kConstantsVaddr = 0x1000, kInner = 0x900;

template <typename T>
void put(std::vector<uint8_t>* file, uint64_t offset, const T& value) {
  if (file->size() < offset + sizeof value) {
    file->resize(offset + sizeof value);
  }
  std::memcpy(file->data() + offset, &value, sizeof value);
}

template <typename T>
T get(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Builder {
  uint16_t machine = vdsp::kMachineX86_64;
  uint32_t relative = R_X86_64_RELATIVE;
  uint32_t absolute = R_X86_64_GLOB_DAT;
  std::string soname = "lib0.out";
  bool inner = false;
  std::vector<Elf64_Rela> rela;
  std::vector<Elf64_Dyn> more;
  std::vector<uint8_t> inner_file;
  std::vector<uint8_t> weights;  // at most 120 bytes; with them symbol 6, their size

  // Symbols: 1 cg_main_dsp (text), 2 printf (undefined), 3 weights (constants), 4 helper (weak, undefined),
  // 5 absent (undefined). The pseudo firmware defines printf in their place.
  std::vector<uint8_t> build() const {
    std::vector<uint8_t> file(inner ? kConstantsEnd + 64 : kInner);
    std::string strings(1, '\0');
    const auto name = [&strings](const std::string& text) {
      const auto at = static_cast<uint32_t>(strings.size());
      strings += text + '\0';
      return at;
    };
    std::vector<Elf64_Sym> symbols(1);
    const auto symbol = [&](const char* text, uint64_t value, uint16_t section, unsigned bind) {
      Elf64_Sym s = {};
      s.st_name = name(text);
      s.st_value = value;
      s.st_shndx = section;
      s.st_info = static_cast<unsigned char>(ELF64_ST_INFO(bind, STT_NOTYPE));
      symbols.push_back(s);
    };
    if (inner) {
      symbol("printf", kText, 1, STB_GLOBAL);
    } else {
      symbol("cg_main_dsp", kText, 1, STB_GLOBAL);
      symbol("printf", 0, SHN_UNDEF, STB_GLOBAL);
      symbol("_binary_weights_bin_start", kConstantsVaddr, 2, STB_GLOBAL);
      symbol("helper", 0, SHN_UNDEF, STB_WEAK);
      symbol("absent", 0, SHN_UNDEF, STB_GLOBAL);
    }
    if (!weights.empty()) {
      symbol("_binary_weights_bin_size", kConstantsVaddr + (kConstantsEnd - 4 - kConstants), 2, STB_GLOBAL);
      std::memcpy(file.data() + kConstants, weights.data(), weights.size());
      put(&file, kConstantsEnd - 4, static_cast<uint32_t>(weights.size()));
    }
    const uint32_t soname_at = name(soname), needed_at = name("dsp_syms.out");
    const uint32_t section_names[3] = {name(".dsp_syms_out"), name(".rodata.weights"), name(".shstrtab")};
    for (size_t i = 0; i < symbols.size(); ++i) {
      put(&file, kSyms + i * sizeof(Elf64_Sym), symbols[i]);
    }
    put(&file, kHash, uint32_t{1});
    put(&file, kHash + 4, static_cast<uint32_t>(symbols.size()));
    std::memcpy(file.data() + kStrings, strings.data(), strings.size());
    for (size_t i = 0; i < rela.size(); ++i) {
      put(&file, kRela + i * sizeof(Elf64_Rela), rela[i]);
    }
    std::vector<Elf64_Dyn> dynamic;
    const auto tag = [&dynamic](int64_t key, uint64_t value) {
      Elf64_Dyn entry = {};
      entry.d_tag = key;
      entry.d_un.d_val = value;
      dynamic.push_back(entry);
    };
    tag(DT_STRTAB, kStrings);
    tag(DT_STRSZ, strings.size());
    tag(DT_SYMTAB, kSyms);
    tag(DT_HASH, kHash);
    tag(DT_SONAME, soname_at);
    if (!inner) {
      tag(DT_NEEDED, needed_at);
      tag(DT_RELA, kRela);
      tag(DT_RELASZ, rela.size() * sizeof(Elf64_Rela));
    }
    dynamic.insert(dynamic.end(), more.begin(), more.end());
    tag(DT_NULL, 0);
    for (size_t i = 0; i < dynamic.size(); ++i) {
      put(&file, kDynamic + i * sizeof(Elf64_Dyn), dynamic[i]);
    }
    put(&file, kData, uint64_t{0x5555});
    const Elf64_Phdr segments[] = {
        {PT_LOAD, PF_R | PF_X, 0, 0, 0, kDynamic, kDynamic, 0x80},
        {PT_LOAD, PF_R | PF_W, kDynamic, kDynamic, kDynamic, kBss - kDynamic, kBssEnd - kDynamic, 0x80},
        {PT_LOAD, PF_R, kConstants, kConstantsVaddr, kConstantsVaddr, kConstantsEnd - kConstants,
         kConstantsEnd - kConstants, 0x80},
        {PT_DYNAMIC, PF_R | PF_W, kDynamic, kDynamic, kDynamic, dynamic.size() * sizeof(Elf64_Dyn),
         dynamic.size() * sizeof(Elf64_Dyn), 8},
    };
    put(&file, sizeof(Elf64_Ehdr), segments);
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = machine;
    header.e_phoff = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 4;
    if (!inner) {
      file.insert(file.end(), inner_file.begin(), inner_file.end());
      Elf64_Shdr sections[4] = {};
      sections[1].sh_name = section_names[0];
      sections[1].sh_type = SHT_PROGBITS;
      sections[1].sh_offset = kInner;
      sections[1].sh_size = inner_file.size();
      sections[2].sh_name = section_names[1];
      sections[2].sh_type = SHT_PROGBITS;
      sections[2].sh_flags = SHF_ALLOC;
      sections[2].sh_addr = kConstantsVaddr;
      sections[2].sh_offset = kConstants;
      sections[2].sh_size = kConstantsEnd - kConstants;
      sections[3].sh_name = section_names[2];
      sections[3].sh_type = SHT_STRTAB;
      sections[3].sh_offset = kStrings;
      sections[3].sh_size = strings.size();
      header.e_shoff = (file.size() + 7) & ~uint64_t{7};
      header.e_shentsize = sizeof(Elf64_Shdr);
      header.e_shnum = 4;
      header.e_shstrndx = 3;
      put(&file, header.e_shoff, sections);
    }
    put(&file, 0, header);
    return file;
  }
};

Builder module_for(uint16_t machine) {
  Builder inner;
  inner.machine = machine;
  inner.inner = true;
  inner.soname = "dsp_syms.out";
  Builder module;
  module.machine = machine;
  module.inner_file = inner.build();
  if (machine == vdsp::kMachineAArch64) {
    module.relative = R_AARCH64_RELATIVE;
    module.absolute = R_AARCH64_ABS64;
  }
  const auto entry = [&module](uint64_t at, uint64_t symbol, uint32_t type, int64_t addend) {
    module.rela.push_back(Elf64_Rela{at, ELF64_R_INFO(symbol, type), addend});
  };
  entry(kData + 8, 0, module.relative, kText + 4);
  entry(kData + 16, 0, module.relative, kConstantsVaddr + 16);
  entry(kData + 24, 1, module.absolute, 8);
  entry(kData + 32, 2, module.absolute, 0);
  entry(kData + 40, 3, module.absolute, 0);
  entry(kData + 48, 4, module.absolute, 0);
  return module;
}

}  // namespace

#endif
