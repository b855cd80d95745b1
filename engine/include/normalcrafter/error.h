// One error type for everything that the engine reports.
#pragma once

#include <stdexcept>
#include <string>

namespace normalcrafter {

/// What kind of fault an Error is; callers map it to their own domains.
enum class ErrorCode {
  Settings,           ///< an option or a combination of options that cannot work
  NotFound,           ///< a model directory or one of its files is not there
  OpenRead,           ///< a file is there but cannot be read
  InvalidModel,       ///< a file's content is malformed, unsupported, or does not fit the others
  OutOfMemory,        ///< host or device memory ran out
  DeviceUnavailable,  ///< the requested device is not usable here
  NetworkFailed,      ///< a network could not be evaluated
  NonFinite,          ///< a network produced NaN or infinity; the text names window and stage
  Cancelled,          ///< Session::cancel() was called
};

/// The only exception type that leaves the engine. what() says what was wrong, where, and what to
/// do.
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace normalcrafter
