#include "elf_module.h"

#include <elf.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "memory.h"

namespace vdsp {

namespace {

constexpr uint64_t kMaxSymbols = 1u << 13;
constexpr char kSymsSection[] = ".dsp_syms_out";
constexpr size_t kSymsSectionLength = 13;
constexpr char kSymsSoname[] = "dsp_syms.out";

// Values found while one module is placed, so that a file with many relocations costs one look-up a symbol.
struct FoundValues {
  uint64_t values[kMaxSymbols];
  bool known[kMaxSymbols];
};
FoundValues found_values;

template <typename T>
T read_at(const uint8_t* file, uint64_t offset) {
  T value;
  std::memcpy(&value, file + offset, sizeof value);
  return value;
}

// What a relocation does, for both machines; the rest of their kinds do not occur in modules, or may not.
enum class Reloc { kNone, kRelative, kAbsolute, kTls, kIndirect, kUnknown };

Reloc classify(uint16_t machine, uint32_t type) {
  if (machine == kMachineX86_64) {
    switch (type) {
      case R_X86_64_NONE:
        return Reloc::kNone;
      case R_X86_64_RELATIVE:
        return Reloc::kRelative;
      case R_X86_64_64:
      case R_X86_64_GLOB_DAT:
      case R_X86_64_JUMP_SLOT:
        return Reloc::kAbsolute;
      case R_X86_64_DTPMOD64:
      case R_X86_64_DTPOFF64:
      case R_X86_64_TPOFF64:
      case R_X86_64_TLSDESC:
        return Reloc::kTls;
      case R_X86_64_IRELATIVE:
        return Reloc::kIndirect;
      default:
        return Reloc::kUnknown;
    }
  }
  switch (type) {
    case R_AARCH64_NONE:
      return Reloc::kNone;
    case R_AARCH64_RELATIVE:
      return Reloc::kRelative;
    case R_AARCH64_ABS64:
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT:
      return Reloc::kAbsolute;
    case R_AARCH64_TLS_DTPMOD:
    case R_AARCH64_TLS_DTPREL:
    case R_AARCH64_TLS_TPREL:
    case R_AARCH64_TLSDESC:
      return Reloc::kTls;
    case R_AARCH64_IRELATIVE:
      return Reloc::kIndirect;
    default:
      return Reloc::kUnknown;
  }
}

const char* machine_name(uint16_t machine) {
  switch (machine) {
    case kMachineX86_64:
      return "x86-64";
    case kMachineAArch64:
      return "AArch64";
    case kMachineC7000:
      return "TI C7000";
    default:
      return "another machine";
  }
}

}  // namespace

bool ElfFile::fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_, sizeof error_, format, arguments);
  va_end(arguments);
  return false;
}

bool ElfFile::parse(const uint8_t* file, uint64_t size, uint16_t machine) {
  *this = ElfFile();
  file_ = file;
  size_ = size;
  machine_ = machine;
  return read_header() && read_segments();
}

bool ElfFile::read_header() {
  if (size_ < sizeof(Elf64_Ehdr)) {
    return fail("the file has %llu bytes, too few for an ELF header", static_cast<unsigned long long>(size_));
  }
  const auto header = read_at<Elf64_Ehdr>(file_, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return fail("the file is not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return fail("the file is not a 64-bit little-endian ELF file");
  }
  if (header.e_machine != machine_) {
    return fail("the file is for %s (e_machine %u), this virtual DSP runs %s code", machine_name(header.e_machine),
                header.e_machine, machine_name(machine_));
  }
  type_ = header.e_type;
  if (type_ != ET_DYN && type_ != ET_EXEC) {
    return fail("the file is neither a shared object nor an executable (e_type %u)", type_);
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      !inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) {
    return fail("the program headers are missing or beyond the end of the file");
  }
  if (header.e_shnum != 0 && (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
                              !inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)))) {
    return fail("the section headers are beyond the end of the file");
  }
  phoff_ = header.e_phoff;
  phnum_ = header.e_phnum;
  shoff_ = header.e_shoff;
  shnum_ = header.e_shnum;
  shstrndx_ = header.e_shstrndx;
  return true;
}

bool ElfFile::read_segments() {
  uint64_t dynamic_offset = 0, dynamic_size = 0;
  bool has_dynamic = false;
  uint64_t low = UINT64_MAX, high = 0;
  for (uint16_t i = 0; i < phnum_; ++i) {
    const auto header = read_at<Elf64_Phdr>(file_, phoff_ + uint64_t{i} * sizeof(Elf64_Phdr));
    if (header.p_type == PT_TLS) {
      return fail("the module has thread-local storage, which the firmware has not");
    }
    if (header.p_type == PT_DYNAMIC) {
      if (!inside(header.p_offset, header.p_filesz)) {
        return fail("the dynamic table is beyond the end of the file");
      }
      dynamic_offset = header.p_offset;
      dynamic_size = header.p_filesz;
      has_dynamic = true;
    }
    if (header.p_type != PT_LOAD) {
      continue;
    }
    if (num_segments_ == kMaxSegments) {
      return fail("there are more than %d segments", kMaxSegments);
    }
    if (header.p_filesz > header.p_memsz || header.p_vaddr > UINT64_MAX / 2 || header.p_memsz > UINT64_MAX / 2) {
      return fail("segment %u has an impossible size", i);
    }
    // Strictly below: the firmware's loader wants something after each segment's content.
    if (!inside(header.p_offset, header.p_filesz) || header.p_offset + header.p_filesz >= size_) {
      return fail("segment %u reaches the end of the file or goes beyond it", i);
    }
    Segment& segment = segments_[num_segments_];
    segment.vaddr = header.p_vaddr;
    segment.offset = header.p_offset;
    segment.filesz = header.p_filesz;
    segment.memsz = header.p_memsz;
    segment.flags = header.p_flags;
    segment.in_place = (header.p_flags & (PF_W | PF_X)) == 0;
    if (segment.in_place && segment.memsz != segment.filesz) {
      return fail("segment %u is read-only and larger in memory than in the file", i);
    }
    for (int k = 0; k < num_segments_; ++k) {
      const Segment& other = segments_[k];
      if (segment.vaddr < other.vaddr + other.memsz && other.vaddr < segment.vaddr + segment.memsz) {
        return fail("segments %d and %u overlap", k, i);
      }
    }
    num_segments_ += 1;
    if (!segment.in_place) {
      low = segment.vaddr < low ? segment.vaddr : low;
      const uint64_t end = segment.vaddr + segment.memsz;
      high = end > high ? end : high;
    }
  }
  if (num_segments_ == 0) {
    return fail("there is no segment to load");
  }
  if (!has_dynamic) {
    return fail("there is no dynamic table");
  }
  if (low < high) {
    pool_vaddr_ = low & ~(segment_alignment(machine_) - 1);
    pool_bytes_ = high - pool_vaddr_;
  }
  return read_dynamic(dynamic_offset, dynamic_size);
}

bool ElfFile::file_offset(uint64_t vaddr, uint64_t bytes, uint64_t* offset) const {
  for (int i = 0; i < num_segments_; ++i) {
    const Segment& segment = segments_[i];
    if (vaddr >= segment.vaddr && vaddr - segment.vaddr <= segment.filesz &&
        bytes <= segment.filesz - (vaddr - segment.vaddr)) {
      *offset = segment.offset + (vaddr - segment.vaddr);
      return true;
    }
  }
  return false;
}

bool ElfFile::string_at(uint64_t index, char* text) const {
  if (index >= strings_.size) {
    return false;
  }
  const uint64_t room = strings_.size - index;
  const uint64_t limit = room < kMaxSymbolName ? room : kMaxSymbolName;
  for (uint64_t i = 0; i < limit; ++i) {
    text[i] = static_cast<char>(file_[strings_.offset + index + i]);
    if (text[i] == '\0') {
      return true;
    }
  }
  return false;
}

bool ElfFile::read_dynamic(uint64_t offset, uint64_t size) {
  uint64_t strtab = 0, strsz = 0, symtab = 0, hash = 0, rela = 0, relasz = 0, relaent = sizeof(Elf64_Rela);
  uint64_t jmprel = 0, pltrelsz = 0, pltrel = DT_RELA, soname = 0, needed = 0, init = 0;
  bool has_strtab = false, has_symtab = false, has_hash = false, has_soname = false, has_rel = false;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= size; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(file_, offset + at);
    const uint64_t value = entry.d_un.d_val;
    if (entry.d_tag == DT_NULL) {
      break;
    }
    switch (entry.d_tag) {
      case DT_STRTAB:
        strtab = value;
        has_strtab = true;
        break;
      case DT_STRSZ:
        strsz = value;
        break;
      case DT_SYMTAB:
        symtab = value;
        has_symtab = true;
        break;
      case DT_HASH:
        hash = value;
        has_hash = true;
        break;
      case DT_SONAME:
        soname = value;
        has_soname = true;
        break;
      case DT_NEEDED:
        needed = value;
        num_needed_ += 1;
        break;
      case DT_RELA:
        rela = value;
        break;
      case DT_RELASZ:
        relasz = value;
        break;
      case DT_RELAENT:
        relaent = value;
        break;
      case DT_JMPREL:
        jmprel = value;
        break;
      case DT_PLTRELSZ:
        pltrelsz = value;
        break;
      case DT_PLTREL:
        pltrel = value;
        break;
      case DT_REL:
      case DT_RELSZ:
        has_rel = has_rel || value != 0;
        break;
      case DT_INIT:
      case DT_INIT_ARRAYSZ:
      case DT_PREINIT_ARRAYSZ:
        init |= value;
        break;
      default:
        break;
    }
  }
  has_init_ = init != 0;
  if (!has_strtab || !has_symtab || !has_hash || !has_soname || strsz == 0) {
    return fail("the dynamic table lacks one of DT_STRTAB, DT_STRSZ, DT_SYMTAB, DT_HASH and DT_SONAME");
  }
  if (has_rel || pltrel != DT_RELA || relaent != sizeof(Elf64_Rela)) {
    return fail("the relocations are not of the kind RELA");
  }
  strings_.size = strsz;
  if (!file_offset(strtab, strsz, &strings_.offset)) {
    return fail("the string table lies outside the segments");
  }
  uint64_t at = 0;
  if (!file_offset(hash, 8, &at)) {
    return fail("the hash table lies outside the segments");
  }
  num_symbols_ = read_at<uint32_t>(file_, at + 4);
  symbols_.size = num_symbols_ * sizeof(Elf64_Sym);
  if (num_symbols_ > kMaxSymbols || !file_offset(symtab, symbols_.size, &symbols_.offset)) {
    return fail("the symbol table lies outside the segments");
  }
  rela_.size = relasz;
  plt_rela_.size = pltrelsz;
  if ((relasz != 0 && !file_offset(rela, relasz, &rela_.offset)) ||
      (pltrelsz != 0 && !file_offset(jmprel, pltrelsz, &plt_rela_.offset))) {
    return fail("the relocations lie outside the segments");
  }
  if (!string_at(soname, soname_) || soname_[0] == '\0') {
    return fail("the file has no soname");
  }
  if (num_needed_ > 0 && !string_at(needed, needed_)) {
    return fail("the name of a dependency lies outside the string table");
  }
  return true;
}

bool ElfFile::read_sections(Table* dsp_syms) {
  *dsp_syms = {};
  if (shnum_ == 0) {
    return fail("there are no section headers");
  }
  const auto names = read_at<Elf64_Shdr>(file_, shoff_ + uint64_t{shstrndx_} * sizeof(Elf64_Shdr));
  if (!inside(names.sh_offset, names.sh_size)) {
    return fail("the section names are beyond the end of the file");
  }
  for (uint16_t i = 0; i < shnum_; ++i) {
    const auto section = read_at<Elf64_Shdr>(file_, shoff_ + uint64_t{i} * sizeof(Elf64_Shdr));
    char name[32] = {};
    for (size_t k = 0; k + 1 < sizeof name && section.sh_name < names.sh_size && k < names.sh_size - section.sh_name; ++k) {
      name[k] = static_cast<char>(file_[names.sh_offset + section.sh_name + k]);
      if (name[k] == '\0') {
        break;
      }
    }
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) {
      continue;
    }
    if (!inside(section.sh_offset, section.sh_size)) {
      return fail("section %s is beyond the end of the file", name);
    }
    if (std::strncmp(name, kSymsSection, kSymsSectionLength) == 0) {
      *dsp_syms = {section.sh_offset, section.sh_size};
    }
    const bool constant = (section.sh_flags & SHF_ALLOC) != 0 && std::strncmp(name, ".rodata", 7) == 0 &&
                          std::strcmp(name, ".rodata.weights") != 0;
    for (int k = 0; constant && k < num_segments_; ++k) {
      if (segments_[k].in_place && section.sh_addr >= segments_[k].vaddr &&
          section.sh_addr - segments_[k].vaddr < segments_[k].memsz) {
        return fail("section %s lies in a read-only segment, which is used in place, far from the code that reads it; "
                    "link the module as c7x build does",
                    name);
      }
    }
  }
  if (dsp_syms->size == 0) {
    return fail("there is no section %s", kSymsSection);
  }
  return true;
}

bool ElfFile::check_module(ElfFile* inner) {
  Table dsp_syms;
  if (type_ != ET_DYN) {
    return fail("the file is not a shared object (e_type %u)", type_);
  }
  if (!read_sections(&dsp_syms)) {
    return false;
  }
  if (!inner->parse(file_ + dsp_syms.offset, dsp_syms.size, machine_)) {
    return fail("section %s: %s", kSymsSection, inner->error());
  }
  if (std::strcmp(inner->soname(), kSymsSoname) != 0) {
    return fail("section %s holds %s instead of %s", kSymsSection, inner->soname(), kSymsSoname);
  }
  if (num_needed_ != 1 || std::strcmp(needed_, kSymsSoname) != 0) {
    return fail("the module depends on %d files%s%s, where %s alone is allowed", num_needed_,
                num_needed_ > 0 ? ", among them " : "", needed_, kSymsSoname);
  }
  if (has_init_) {
    return fail("the module has constructors, which the firmware does not run");
  }
  if (pool_bytes_ == 0) {
    return fail("the module has no code");
  }
  return true;
}

bool ElfFile::to_host(uint64_t vaddr, uint64_t* address) const {
  // An address just past a segment's end belongs to it unless another segment begins there.
  for (const bool at_end : {false, true}) {
    for (int i = 0; i < num_segments_; ++i) {
      const Segment& segment = segments_[i];
      if (vaddr < segment.vaddr || vaddr - segment.vaddr > segment.memsz ||
          (vaddr - segment.vaddr == segment.memsz) != at_end) {
        continue;
      }
      const uint8_t* const base = segment.in_place ? in_place_ + segment.offset : block_ + (segment.vaddr - pool_vaddr_);
      *address = reinterpret_cast<uintptr_t>(base) + (vaddr - segment.vaddr);
      return true;
    }
  }
  return false;
}

bool ElfFile::find_defined(const char* name, uint64_t* index) const {
  for (uint64_t i = 1; i < num_symbols_; ++i) {
    const auto symbol = read_at<Elf64_Sym>(file_, symbols_.offset + i * sizeof(Elf64_Sym));
    char text[kMaxSymbolName];
    if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && string_at(symbol.st_name, text) &&
        std::strcmp(text, name) == 0) {
      *index = i;
      return true;
    }
  }
  return false;
}

bool ElfFile::defines(const char* name) const {
  uint64_t index = 0;
  return find_defined(name, &index);
}

bool ElfFile::find_symbol(const char* name, uint64_t* address) const {
  uint64_t index = 0;
  if (!find_defined(name, &index)) {
    return false;
  }
  const auto symbol = read_at<Elf64_Sym>(file_, symbols_.offset + index * sizeof(Elf64_Sym));
  return to_host(symbol.st_value, address);
}

bool ElfFile::symbol_value(uint64_t index, const ElfFile& inner, Resolver resolver, void* context, uint64_t* value) {
  const auto symbol = read_at<Elf64_Sym>(file_, symbols_.offset + index * sizeof(Elf64_Sym));
  char name[kMaxSymbolName] = {};
  if (!string_at(symbol.st_name, name)) {
    return fail("the name of symbol %llu lies outside the string table or is too long",
                static_cast<unsigned long long>(index));
  }
  if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) {
    return fail("%s is an indirect function, which a board's loader does not know", name);
  }
  // The dependency comes before the module itself.
  if (ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && inner.defines(name)) {
    switch (resolver(context, name, value)) {
      case Import::kResolved:
        return true;
      case Import::kForbidden:
        return fail("the module imports %s, which the firmware of this board does not have", name);
      case Import::kMissing:
        break;
    }
  }
  if (symbol.st_shndx == SHN_ABS) {
    *value = symbol.st_value;
    return true;
  }
  if (symbol.st_shndx != SHN_UNDEF) {
    return to_host(symbol.st_value, value) || fail("symbol %s lies outside the segments", name);
  }
  if (ELF64_ST_BIND(symbol.st_info) == STB_WEAK) {
    *value = 0;
    return true;
  }
  return fail("the module imports %s, which %s does not define", name, kSymsSoname);
}

bool ElfFile::relocate(const Table& table, const ElfFile& inner, Resolver resolver, void* context) {
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.size; at += sizeof(Elf64_Rela)) {
    const auto entry = read_at<Elf64_Rela>(file_, table.offset + at);
    const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
    const uint64_t index = ELF64_R_SYM(entry.r_info);
    const auto addend = static_cast<uint64_t>(entry.r_addend);
    const Reloc kind = classify(machine_, type);
    if (kind == Reloc::kNone) {
      continue;
    }
    if (kind == Reloc::kTls) {
      return fail("relocation %u is for thread-local storage, which the firmware has not", type);
    }
    if (kind == Reloc::kIndirect) {
      return fail("relocation %u calls an indirect function, which a board's loader does not know", type);
    }
    if (kind == Reloc::kUnknown) {
      return fail("relocation %u is not supported: compile the module with -fPIC", type);
    }
    const Segment* target = nullptr;
    for (int i = 0; i < num_segments_; ++i) {
      const Segment& segment = segments_[i];
      if (entry.r_offset >= segment.vaddr && segment.memsz >= sizeof(uint64_t) &&
          entry.r_offset - segment.vaddr <= segment.memsz - sizeof(uint64_t)) {
        target = &segment;
      }
    }
    if (target == nullptr) {
      return fail("relocation %u changes something outside the segments", type);
    }
    if (target->in_place) {
      return fail("relocation %u changes a read-only segment, where a board loses it", type);
    }
    uint64_t value = 0;
    if (kind == Reloc::kRelative) {
      if (!to_host(addend, &value)) {
        return fail("relocation %u points outside the segments", type);
      }
    } else {
      if (index >= num_symbols_) {
        return fail("relocation %u names symbol %llu of %llu", type, static_cast<unsigned long long>(index),
                    static_cast<unsigned long long>(num_symbols_));
      }
      if (!found_values.known[index]) {
        if (!symbol_value(index, inner, resolver, context, &found_values.values[index])) {
          return false;
        }
        found_values.known[index] = true;
      }
      value = found_values.values[index] + addend;
    }
    std::memcpy(block_ + (entry.r_offset - pool_vaddr_), &value, sizeof value);
  }
  return true;
}

bool ElfFile::place(uint8_t* block, const uint8_t* in_place, bool fill_bss, const ElfFile& inner, Resolver resolver,
                    void* context) {
  block_ = block;
  in_place_ = in_place;
  std::memset(found_values.known, 0, sizeof found_values.known);
  if (fill_bss) {
    poison(block, static_cast<size_t>(pool_bytes_));
  }
  for (int i = 0; i < num_segments_; ++i) {
    const Segment& segment = segments_[i];
    if (!segment.in_place) {
      std::memcpy(block + (segment.vaddr - pool_vaddr_), file_ + segment.offset, static_cast<size_t>(segment.filesz));
    }
  }
  if (!relocate(rela_, inner, resolver, context) || !relocate(plt_rela_, inner, resolver, context)) {
    return false;
  }
  __builtin___clear_cache(reinterpret_cast<char*>(block), reinterpret_cast<char*>(block) + pool_bytes_);
  return true;
}

}  // namespace vdsp
