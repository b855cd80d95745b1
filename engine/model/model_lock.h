// The lock around a shared model: re-entrant, and a wait for it can be cancelled.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "nn/checkpoint.h"

namespace normalcrafter {

/// One thread at a time, which may lock again. A wait can take minutes (another session's UNet
/// window), so it looks at a Checkpoint meanwhile.
class ModelLock {
 public:
  /// Waits for the lock; throws Error Cancelled within a few milliseconds of the cancellation.
  void lock(const Checkpoint& checkpoint);
  /// False also where this thread has the lock: what is locked may be in use further up its stack.
  bool try_lock();
  void unlock();

 private:
  bool take();  // with mutex_ held

  std::mutex mutex_;
  std::condition_variable released_;
  std::thread::id owner_;
  int depth_ = 0;
};

}  // namespace normalcrafter
