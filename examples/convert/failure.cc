#include "failure.h"

#include <cerrno>
#include <cstring>
#include <new>

namespace normalcrafter::convert {

Failure as_failure(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) return *failure;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {Status::OutOfMemory, "the memory ran out"};
  return {Status::Failed, error.what()};
}

void FirstFailure::keep(const std::exception& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = as_failure(error);
}

std::optional<Failure> FirstFailure::get() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Failure output_failure(const std::string& path, int error_number) {
  // EFBIG is the limit of a process or of a file system, which lacks space in the same way.
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  const std::string reason =
      error_number != 0 ? std::strerror(error_number) : "writing failed for an unknown reason";
  return {full ? Status::DiskFull : Status::Output, path + ": " + reason};
}

}  // namespace normalcrafter::convert
