#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace vdsp {

namespace {
// The byte of the pattern at an address: it lies on multiples of four, so that aligned loads see it whole.
uint8_t poison_byte(const uint8_t* address) {
  return static_cast<uint8_t>(kPoison >> reinterpret_cast<uintptr_t>(address) % 4 * 8);
}
}  // namespace

void poison(void* memory, size_t bytes) {
  auto* const p = static_cast<uint8_t*>(memory);
  size_t i = 0;
  for (; i < bytes && reinterpret_cast<uintptr_t>(p + i) % 4 != 0; ++i) {
    p[i] = poison_byte(p + i);
  }
  for (; i + 4 <= bytes; i += 4) {
    std::memcpy(p + i, &kPoison, 4);
  }
  for (; i < bytes; ++i) {
    p[i] = poison_byte(p + i);
  }
}

bool is_poisoned(const void* memory, size_t bytes) {
  const auto* const p = static_cast<const uint8_t*>(memory);
  for (size_t i = 0; i < bytes; ++i) {
    if (p[i] != poison_byte(p + i)) {
      return false;
    }
  }
  return true;
}

namespace {

// Address space for a region between two guards; the hint puts it at its DSP address where that is free.
uint8_t* reserve(uint64_t size, uint64_t hint) {
  void* const wanted = hint < kGuardBytes ? nullptr : reinterpret_cast<void*>(hint - kGuardBytes);
  const auto bytes = static_cast<size_t>(size) + 2 * kGuardBytes;
  void* const space = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return space == MAP_FAILED ? nullptr : static_cast<uint8_t*>(space) + kGuardBytes;
}

uint8_t* map_shared(uint64_t size, uint64_t hint, int protection, int fd, off_t offset) {
  uint8_t* const place = reserve(size, hint);
  if (place == nullptr) {
    return nullptr;
  }
  const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* const memory = mmap(place, static_cast<size_t>(size), protection, flags, fd, offset);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

}  // namespace

namespace {

int make_sealed(const char* path) {
  const int fd = memfd_create("c7x-vdsp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  char link[64];
  std::snprintf(link, sizeof link, "/proc/%d/fd/%d", static_cast<int>(getpid()), fd);
  if (fd >= 0 && fchmod(fd, 0600) == 0 && ftruncate(fd, static_cast<off_t>(C7X_CARVEOUT_SIZE)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
      (path == nullptr || symlink(link, path) == 0)) {
    return fd;
  }
  if (fd >= 0) {
    close(fd);
  }
  return -1;
}

int make_plain(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(C7X_CARVEOUT_SIZE)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

bool Memory::intact() const {
  struct stat info;
  return fstat(carveout_fd_, &info) == 0 && info.st_size >= static_cast<off_t>(C7X_CARVEOUT_SIZE);
}

bool Memory::map(const char* shm_path, Sharing sharing, uint64_t base) {
  base_ = base;
  if (shm_path != nullptr) {
    // Fresh memory: a client that still maps that of an earlier server must not reach into this one.
    unlink(shm_path);
  }
  const int fd = sharing == Sharing::kSealed ? make_sealed(shm_path) : make_plain(shm_path);
  if (fd < 0) {
    return false;
  }
  carveout_fd_ = fd;
  carveout_ = map_shared(C7X_CARVEOUT_SIZE, base, PROT_READ | PROT_WRITE, fd, 0);
  kv_writable_ = map_shared(C7X_KV_SIZE, 0, PROT_READ | PROT_WRITE, fd, static_cast<off_t>(C7X_KV_OFFSET));
  if (carveout_ == nullptr || kv_writable_ == nullptr) {
    return false;
  }
  regions_[kStaging] = {"staging", carveout_, base, C7X_STAGING_SIZE};
  regions_[kKv] = {"KV", carveout_ + C7X_KV_OFFSET, base + C7X_KV_OFFSET, C7X_KV_SIZE};
  regions_[kResult] = {"result", carveout_ + C7X_RESULT_OFFSET, base + C7X_RESULT_OFFSET, C7X_RESULT_SIZE};
  regions_[kMainPool] = {"main pool", nullptr, C7X_MAIN_POOL_ADDR, C7X_MAIN_POOL_SIZE};
  regions_[kL2] = {"L2", nullptr, C7X_L2_ADDR, C7X_L2_SIZE};
  regions_[kAux] = {"L2 auxiliary", nullptr, C7X_L2_AUX_ADDR, C7X_L2_AUX_SIZE + C7X_L1_AUX_SIZE};
  regions_[kStack] = {"firmware stack", nullptr, 0, kStackBytes};
  for (int i = kMainPool; i < kNumRegions; ++i) {
    const int execute = i == kMainPool ? PROT_EXEC : 0;
    regions_[i].host = map_shared(regions_[i].size, regions_[i].dsp, PROT_READ | PROT_WRITE | execute, -1, 0);
    if (regions_[i].host == nullptr) {
      return false;
    }
  }
  state_ = map_shared(kStateBytes, 0, PROT_READ | PROT_WRITE, -1, 0);
  return state_ != nullptr;
}

bool Memory::protect_inputs() {
  return mprotect(carveout_, static_cast<size_t>(C7X_STAGING_SIZE + C7X_KV_SIZE), PROT_READ) == 0;
}

const Region* Memory::find(const void* pointer, uint64_t bytes) const {
  for (const Region& region : regions_) {
    if (region.contains(pointer, bytes)) {
      return &region;
    }
  }
  return nullptr;
}

uint8_t* Memory::at(RegionIndex index, uint64_t address, uint64_t bytes) const {
  const Region& region = regions_[index];
  if (bytes > region.size || address < region.dsp || address - region.dsp > region.size - bytes) {
    return nullptr;
  }
  return region.host + (address - region.dsp);
}

uint64_t Memory::to_dsp(const void* pointer) const {
  for (const Region& region : regions_) {
    if (region.dsp != 0 && region.contains(pointer, 0)) {
      return region.dsp + static_cast<uint64_t>(static_cast<const uint8_t*>(pointer) - region.host);
    }
  }
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace vdsp
