// A regular file opened once and read by position.
//
// Not memory-mapped on purpose: a mapped file that shrinks (overwritten by a download, a network
// share that goes away) kills the process with SIGBUS, and a plugin inside somebody's application
// may not install process-wide signal handlers. With pread() it is an ordinary error.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace normalcrafter {

/// Owns the descriptor, so that a file deleted or replaced meanwhile keeps its content here. read()
/// may be called from several threads.
class InputFile {
 public:
  /// Throws Error NotFound when there is no such file, OpenRead when it is there but not readable
  /// or not a regular file. Never blocks, not even on a FIFO.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `destination` with the bytes from `offset` on. Throws Error OpenRead when the file ends
  /// before, when it has been written to since it was opened (a download or a training run over it:
  /// what is read then need not belong together), or when the system reports a fault.
  void read(std::uint64_t offset, std::span<std::byte> destination) const;
  /// Lets the system fetch these bytes meanwhile. A hint: errors do not matter.
  void prefetch(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// False once the path leads to another file, or to none, or the file has been written to.
  bool is_current() const noexcept;

 private:
  bool is_unchanged() const noexcept;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  timespec written_ = {};  ///< when it was last, as of opening
};

}  // namespace normalcrafter
