#include "nn/tensor_pool.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>

namespace normalcrafter {
namespace {

// Pages of this size are mapped and cleared at once. Smaller tensors are malloc()'s business.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

thread_local bool in_scope = false;

struct Block {
  void* memory = nullptr;
  std::size_t size = 0;
};

// Up to whole small pages: the system maps a block's last part with those.
std::size_t rounded(std::size_t size) {
  constexpr std::size_t kPage = 4096;
  return (size + kPage - 1) / kPage * kPage;
}

// A mapping that begins on a huge page, or none. Not MAP_NORESERVE: the system then refuses what it
// can never have, as it does with malloc(), in place of killing the process later.
Block map_block(std::size_t size) {
  void* memory =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* start = static_cast<char*>(memory);
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + size, kHugePage - before);
  ::madvise(start + before, size, MADV_HUGEPAGE);
  return {start + before, size};
}

class Pool final : public c10::Allocator {
 public:
  explicit Pool(c10::Allocator* others) : others_(others) {}

  c10::DataPtr allocate(std::size_t size) override {
    void* memory = in_scope && size >= kHugePage ? take_or_map(rounded(size)) : nullptr;
    // Where the pool has none, the other one says that memory is short.
    if (memory == nullptr) memory = others_->raw_allocate(size);
    return {memory, memory, &Pool::release, c10::Device(c10::kCPU)};
  }
  // LibTorch wants one deleter for all that an allocator gives.
  c10::DeleterFnPtr raw_deleter() const override { return &Pool::release; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }

  bool can_stand_in() const { return others_->raw_deleter() != nullptr; }

  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    shrink_to(0);
    most_used_ = used_bytes_;
  }
  std::size_t kept() noexcept {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  static void release(void* memory) noexcept;

  void* take_or_map(std::size_t size) {
    const std::lock_guard lock(mutex_);
    Block block = take(size);
    if (block.memory == nullptr) {
      // Room first: what is in use and what is kept stay below the most that was ever in use.
      most_used_ = std::max(most_used_, used_bytes_ + size);
      shrink_to(most_used_ - used_bytes_ - size);
      block = map_block(size);
      if (block.memory == nullptr) return nullptr;
    }
    try {
      used_[block.memory] = block.size;
    } catch (const std::bad_alloc&) {
      ::munmap(block.memory, block.size);
      return nullptr;
    }
    used_bytes_ += block.size;
    most_used_ = std::max(most_used_, used_bytes_);
    return block.memory;
  }

  // The smallest kept block that is not much too large.
  Block take(std::size_t size) {
    auto best = freed_.end();
    for (auto block = freed_.begin(); block != freed_.end(); ++block) {
      if (block->size < size || block->size > size + size / 16) continue;
      if (best == freed_.end() || block->size < best->size) best = block;
    }
    if (best == freed_.end()) return {};
    const Block block = *best;
    freed_.erase(best);
    kept_ -= block.size;
    return block;
  }

  // False if it is not one of the pool's, which all begin on a huge page.
  bool put_back(void* memory) noexcept {
    if (reinterpret_cast<std::uintptr_t>(memory) % kHugePage != 0) return false;
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return false;
    const Block block{memory, found->second};
    used_.erase(found);
    used_bytes_ -= block.size;
    try {
      freed_.push_back(block);
      kept_ += block.size;
    } catch (const std::bad_alloc&) {
      ::munmap(block.memory, block.size);
    }
    return true;
  }

  void shrink_to(std::size_t most) noexcept {
    while (kept_ > most) {
      const Block oldest = freed_.front();
      freed_.pop_front();
      kept_ -= oldest.size;
      ::munmap(oldest.memory, oldest.size);
    }
  }

  c10::Allocator* others_;
  std::mutex mutex_;
  std::deque<Block> freed_;  // the longest unused first
  std::unordered_map<void*, std::size_t> used_;
  std::size_t kept_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t most_used_ = 0;  // since trim()
};

// Put in front of LibTorch's allocator once, and never taken away: tensors may outlive anything.
Pool& pool() {
  static Pool& instance = []() -> Pool& {
    auto* made = new Pool(c10::GetCPUAllocator());
    // One that cannot free by pointer alone keeps its place; the pool is then never asked.
    if (made->can_stand_in()) c10::SetCPUAllocator(made, /*priority=*/UINT8_MAX);
    return *made;
  }();
  return instance;
}

void Pool::release(void* memory) noexcept {
  Pool& here = pool();
  if (!here.put_back(memory)) here.others_->raw_deallocate(memory);
}

}  // namespace

TensorPool::Scope::Scope() : outer_(in_scope) {
  pool();
  in_scope = true;
}

TensorPool::Scope::~Scope() {
  in_scope = outer_;
}

void TensorPool::trim() noexcept {
  pool().trim();
}

std::size_t TensorPool::kept() noexcept {
  return pool().kept();
}

}  // namespace normalcrafter
