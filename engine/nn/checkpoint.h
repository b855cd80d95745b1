// Where a long computation may be interrupted.
#pragma once

#include <atomic>

namespace normalcrafter {

/// Networks call check() between their blocks, waits and loads between their steps; it throws Error
/// Cancelled once the flag is set. The flag may be set from any thread.
class Checkpoint {
 public:
  explicit Checkpoint(const std::atomic<bool>& cancelled) : cancelled_(&cancelled) {}
  void check() const;
  bool cancelled() const noexcept { return cancelled_->load(std::memory_order_relaxed); }

 private:
  const std::atomic<bool>* cancelled_;
};

}  // namespace normalcrafter
