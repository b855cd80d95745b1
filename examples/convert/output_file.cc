#include "output_file.h"

#include <cerrno>
#include <system_error>

#include "failure.h"
#include "output_kind.h"

namespace normalcrafter::convert {

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      partial_(partial_name(path_)),
      stream_(std::fopen(partial_.c_str(), "w+be")) {
  check(stream_ != nullptr);
}

void OutputFile::check(bool ok) const {
  if (!ok) throw output_failure(partial_.string(), errno);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  errno = 0;
  check(std::fwrite(data, 1, bytes, stream_.get()) == bytes);
}

void OutputFile::write_at(std::int64_t offset, const void* data, std::size_t bytes) {
  errno = 0;
  check(fseeko(stream_.get(), offset, SEEK_SET) == 0);
  write(data, bytes);
  check(fseeko(stream_.get(), 0, SEEK_END) == 0);
}

void OutputFile::flush() {
  errno = 0;
  check(std::fflush(stream_.get()) == 0);
}

void OutputFile::close() {
  errno = 0;
  // Buffered bytes are written here, so a full disk may show only now.
  check(std::fclose(stream_.release()) == 0);
}

void OutputFile::commit() {
  close();
  rename_whole(path_);
}

void OutputFile::discard() {
  stream_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void rename_whole(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(partial_name(path), path, error);
  if (error) throw output_failure(path.string(), error.value());
}

}  // namespace normalcrafter::convert
