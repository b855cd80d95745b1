// What ends a conversion, with the program's exit status for it.
#pragma once

#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

namespace normalcrafter::convert {

/// The exit status by kind. docs/convert.md lists them for users.
enum class Status {
  Done = 0,
  Failed = 1,         ///< none of the kinds below
  Usage = 2,          ///< the command line
  InputMissing = 3,   ///< there is no such input, or it may not be read
  NotVideo = 4,       ///< the input has no pictures that can be decoded
  InputDamaged = 5,   ///< the input broke off, or turned out damaged after its first frames
  Output = 6,         ///< the output exists already or cannot be written
  DiskFull = 7,       ///< no space left
  Model = 8,          ///< model, device, or a plugin that is not installed
  OutOfMemory = 9,    ///< on host or device
  Undetermined = 10,  ///< --check-axes found no clear answer
  Interrupted = 130,  ///< SIGINT
  Terminated = 143,   ///< SIGTERM
};

/// In words for the user: what was wrong, where, and what to do.
class Failure : public std::runtime_error {
 public:
  Failure(Status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

/// Of any exception: one that is no Failure is the memory's end, or of no known kind.
Failure as_failure(const std::exception& error);

/// The first failure on a stream's thread, for another thread to read. GStreamer knows no
/// exceptions, so that what it calls keeps them here.
class FirstFailure {
 public:
  void keep(const std::exception& error);
  std::optional<Failure> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

/// The status and the words for a failed system call on `path`: "PATH: No space left on device".
Failure output_failure(const std::string& path, int error_number);

}  // namespace normalcrafter::convert
