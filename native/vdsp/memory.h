// The memory of the virtual DSP: the regions of the wire protocol's section 5 as mappings that the server and the process
// that runs modules share, with unmapped guards around each.
#ifndef C7X_VDSP_MEMORY_H
#define C7X_VDSP_MEMORY_H

#include <cstddef>
#include <cstdint>

#include "c7x_protocol.h"

namespace vdsp {

// Fills memory that a board leaves undefined. As float32 and float64 it is a quiet NaN whose payload arithmetic carries
// along, as a pointer it is not canonical, as an integer it is far out of every range.
constexpr uint32_t kPoison = 0x7FF4DEADu;
void poison(void* memory, size_t bytes);
bool is_poisoned(const void* memory, size_t bytes);

// The unmapped space before and after each region.
constexpr size_t kGuardBytes = size_t{1} << 20;

// Stands for the firmware's stack: what it hands to a module for the time of one call.
constexpr size_t kStackBytes = size_t{64} << 10;

struct Region {
  const char* name;
  uint8_t* host;
  uint64_t dsp;  // 0: not on the DSP's map
  uint64_t size;

  bool contains(const void* pointer, uint64_t bytes) const {
    const auto p = reinterpret_cast<uintptr_t>(pointer);
    const auto start = reinterpret_cast<uintptr_t>(host);
    return bytes <= size && p >= start && p - start <= size - bytes;
  }
};

enum RegionIndex { kStaging, kKv, kResult, kMainPool, kL2, kAux, kStack, kNumRegions };

// What `shm_path` is. kSealed: a link to memory without a name, which nobody can shorten under those who map it. kPlain: a
// file, for clients who do not see the processes of this one (another container).
enum class Sharing { kSealed, kPlain };

class Memory {
 public:
  // Maps everything. `shm_path` is where clients find the carveout, with mode 0600; what is there is replaced. Null: the
  // carveout has no path. `base` is the DSP address of the carveout. Returns false with errno set.
  bool map(const char* shm_path, Sharing sharing, uint64_t base);

  // Whether the carveout is all there: touching what another process cut off its file would end this one by SIGBUS.
  bool intact() const;

  // What a process that runs modules may not write any more: staging and KV (strict).
  bool protect_inputs();

  uint8_t* carveout() const { return carveout_; }
  int carveout_fd() const { return carveout_fd_; }
  const Region& region(RegionIndex index) const { return regions_[index]; }
  uint64_t base() const { return base_; }

  // The KV region for the firmware's own writes, which protect_inputs does not take away.
  uint8_t* kv_writable() const { return kv_writable_; }

  // Memory of the server that outlives the processes that run modules.
  void* state() const { return state_; }
  static constexpr size_t kStateBytes = size_t{8} << 20;

  // The region that holds [pointer, pointer + bytes) entirely, or null.
  const Region* find(const void* pointer, uint64_t bytes) const;

  // Host address of `bytes` bytes at a DSP address of the carveout's part `index`; null when they are not all there.
  uint8_t* at(RegionIndex index, uint64_t address, uint64_t bytes) const;

  // DSP address of a host pointer into one of the regions; any other pointer comes back as it is.
  uint64_t to_dsp(const void* pointer) const;

 private:
  Region regions_[kNumRegions] = {};
  int carveout_fd_ = -1;
  uint8_t* carveout_ = nullptr;
  uint8_t* kv_writable_ = nullptr;
  void* state_ = nullptr;
  uint64_t base_ = 0;
};

}  // namespace vdsp

#endif
