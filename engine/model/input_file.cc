#include "model/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

// Linux transfers at most 0x7ffff000 bytes a call.
constexpr std::size_t kLargestRead = std::size_t{1} << 30;

std::string reason(int error) {
  return std::generic_category().message(error);
}

bool is_symbolic_link(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    throw Error(ErrorCode::NotFound, is_symbolic_link(path)
                                         ? path + ": symbolic link to a file that is not there"
                                         : path + ": no such file");
  }
  throw Error(ErrorCode::OpenRead, path + ": cannot be opened: " + reason(error));
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer before fstat() can refuse it.
  do {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail_to_open(path_, errno);

  struct stat status = {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(ErrorCode::OpenRead,
                path_ + (known && S_ISDIR(status.st_mode) ? ": is a directory, a file is expected"
                                                          : ": is not a regular file"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  written_ = status.st_mtim;
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      written_(other.written_) {}

void InputFile::read(std::uint64_t offset, std::span<std::byte> destination) const {
  while (!destination.empty()) {
    const ssize_t count =
        ::pread(descriptor_, destination.data(), std::min(destination.size(), kLargestRead),
                static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ErrorCode::OpenRead, path_ + ": cannot be read: " + reason(errno));
    }
    if (count == 0) {
      throw Error(ErrorCode::OpenRead, path_ + ": ends at byte " + std::to_string(offset) +
                                           ", but had " + std::to_string(size_) +
                                           " when it was opened: it has shrunk meanwhile");
    }
    offset += static_cast<std::uint64_t>(count);
    destination = destination.subspan(static_cast<std::size_t>(count));
  }
  if (!is_unchanged()) {
    throw Error(ErrorCode::OpenRead,
                path_ + ": has been written to since it was opened; start again with the new file");
  }
}

bool InputFile::is_unchanged() const noexcept {
  struct stat now = {};
  return ::fstat(descriptor_, &now) == 0 && static_cast<std::uint64_t>(now.st_size) == size_ &&
         now.st_mtim.tv_sec == written_.tv_sec && now.st_mtim.tv_nsec == written_.tv_nsec;
}

bool InputFile::is_current() const noexcept {
  struct stat mine = {};
  struct stat there = {};
  return is_unchanged() && ::fstat(descriptor_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

void InputFile::prefetch(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                  POSIX_FADV_WILLNEED);
}

}  // namespace normalcrafter
