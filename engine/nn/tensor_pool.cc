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
#include <utility>
#include <vector>

namespace normalcrafter {
namespace {

// Pages of this size are mapped and cleared at once. Smaller tensors are malloc()'s business.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

thread_local bool in_scope = false;

struct Block {
  char* memory = nullptr;
  std::size_t size = 0;
  /// Sizes of the mappings that it is made of, in order. mremap() takes one at a time.
  std::vector<std::size_t> pieces;
};

void unmap(const Block& block) noexcept {
  ::munmap(block.memory, block.size);
}

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
  return {start + before, size, {}};
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
    Block block;
    try {
      block = take(size);
      if (block.memory == nullptr) make(size, block);
      if (block.memory == nullptr) return nullptr;
      used_.emplace(block.memory, block);
      used_bytes_ += block.size;
      most_used_ = std::max(most_used_, used_bytes_);
      return block.memory;
    } catch (const std::bad_alloc&) {
      if (block.memory != nullptr) unmap(block);
      return nullptr;
    }
  }

  // The smallest kept block that is not much too large.
  Block take(std::size_t size) {
    auto best = freed_.end();
    for (auto block = freed_.begin(); block != freed_.end(); ++block) {
      if (block->size < size || block->size > size + size / 16) continue;
      if (best == freed_.end() || block->size < best->size) best = block;
    }
    if (best == freed_.end()) return {};
    Block block = std::move(*best);
    freed_.erase(best);
    kept_ -= block.size;
    return block;
  }

  // A new block. Pages of kept blocks, of whatever size they are, take the place of its own, which
  // nobody has touched: what is in use and what is kept grow only by what is lacking.
  void make(std::size_t size, Block& block) {
    block = map_block(size);
    if (block.memory == nullptr) return;
    std::size_t filled = 0;
    while (size - filled >= kHugePage && !freed_.empty()) {
      const std::size_t most = (size - filled) / kHugePage * kHugePage;
      const std::size_t moved = move_pages(block.memory + filled, most);
      if (moved > 0) block.pieces.push_back(moved);
      filled += moved;
    }
    if (filled < size) block.pieces.push_back(size - filled);
    most_used_ = std::max(most_used_, used_bytes_ + size);
    shrink_to(most_used_ - used_bytes_ - size);
  }

  // Moves at most `most` bytes of the oldest kept block's first piece to `to`, where something is
  // mapped: whole huge pages only, those move without being touched. Returns how many.
  std::size_t move_pages(char* to, std::size_t most) noexcept {
    Block& oldest = freed_.front();
    std::size_t& piece = oldest.pieces.front();
    const std::size_t size = std::min(most, piece / kHugePage * kHugePage);
    const bool moved = size > 0 && ::mremap(oldest.memory, size, size,
                                            MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
    // What cannot move goes back to the system with its piece.
    const std::size_t gone = moved ? size : piece;
    if (!moved) ::munmap(oldest.memory, gone);
    oldest.memory += gone;
    oldest.size -= gone;
    piece -= gone;
    kept_ -= gone;
    if (piece == 0) oldest.pieces.erase(oldest.pieces.begin());
    if (oldest.pieces.empty()) freed_.pop_front();
    return moved ? size : 0;
  }

  // False if it is not one of the pool's, which all begin on a huge page.
  bool put_back(void* memory) noexcept {
    if (reinterpret_cast<std::uintptr_t>(memory) % kHugePage != 0) return false;
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return false;
    const std::size_t size = found->second.size;
    try {
      freed_.push_back(std::move(found->second));
      kept_ += size;
    } catch (const std::bad_alloc&) {
      ::munmap(memory, size);
    }
    used_.erase(found);
    used_bytes_ -= size;
    return true;
  }

  void shrink_to(std::size_t most) noexcept {
    while (kept_ > most) {
      kept_ -= freed_.front().size;
      unmap(freed_.front());
      freed_.pop_front();
    }
  }

  c10::Allocator* others_;
  std::mutex mutex_;
  std::deque<Block> freed_;  // the longest unused first
  std::unordered_map<void*, Block> used_;
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
