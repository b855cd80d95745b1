// Files that have their name only when they are whole.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace normalcrafter::convert {

/// Written under its partial name and renamed by commit(). What is not committed stays, unless
/// discard() is called. Every call may end in a Failure (Output, DiskFull).
class OutputFile {
 public:
  /// Replaces a partial file that is there.
  explicit OutputFile(std::filesystem::path path);

  void write(const void* data, std::size_t bytes);
  /// Over what is there, from `offset` on; the next write() goes on at the end.
  void write_at(std::int64_t offset, const void* data, std::size_t bytes);
  /// Everything that was written can be seen by others.
  void flush();
  /// Ends the writing; the file keeps its partial name.
  void close();
  void commit();
  void discard();

  std::FILE* stream() const { return stream_.get(); }
  const std::filesystem::path& partial() const { return partial_; }

 private:
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  void check(bool ok) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<std::FILE, Close> stream_;
};

/// Gives a file that was written by others under its partial name the name `path`.
void rename_whole(const std::filesystem::path& path);

}  // namespace normalcrafter::convert
