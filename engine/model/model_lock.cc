#include "model/model_lock.h"

#include <chrono>

namespace normalcrafter {

bool ModelLock::take() {
  const auto self = std::this_thread::get_id();
  if (depth_ > 0 && owner_ != self) return false;
  owner_ = self;
  ++depth_;
  return true;
}

void ModelLock::lock(const Checkpoint& checkpoint) {
  // The canceller does not know this lock, so the wait wakes up now and then to look at the flag.
  constexpr std::chrono::milliseconds kPoll(5);
  std::unique_lock guard(mutex_);
  while (!take()) {
    checkpoint.check();
    released_.wait_for(guard, kPoll);
  }
}

bool ModelLock::try_lock() {
  const std::lock_guard guard(mutex_);
  return depth_ == 0 && take();
}

void ModelLock::unlock() {
  {
    const std::lock_guard guard(mutex_);
    if (--depth_ > 0) return;
    owner_ = {};
  }
  released_.notify_one();
}

}  // namespace normalcrafter
