// Reader of the safetensors format: 8 bytes little-endian header length, a JSON header naming each
// tensor's dtype, shape and place, then the tensors' bytes.
// https://github.com/huggingface/safetensors
//
// The header is checked whole when the file is opened; tensors are read by position into memory of
// the caller's (input_file.h says why the file is not mapped). Nothing here knows Torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/input_file.h"
#include "normalcrafter/error.h"

namespace normalcrafter {

/// The ways in which a file's bytes can be wrong.
enum class SafetensorsFault {
  ShortFile,        ///< not even the 8 bytes of the header's length
  OversizedHeader,  ///< a header of more than 100 MB, the format's limit
  TruncatedHeader,  ///< the file ends within the header
  BadUtf8,          ///< the header is not UTF-8
  NotAnObject,      ///< the header is not a JSON object; it must begin with "{"
  BadJson,          ///< the header is not JSON
  DuplicateName,    ///< two tensors of one name
  DuplicateField,   ///< a field twice in a tensor's entry, or a key twice in __metadata__
  BadMetadata,      ///< __metadata__ is not a map of strings
  BadEntry,         ///< an entry is not an object, or lacks a field, or has one of the wrong type
  UnknownDtype,     ///< a dtype that the format does not define (or has bits of less than a byte)
  BadNumber,        ///< a negative or non-integer number in shape or data_offsets
  SizeOverflow,     ///< a tensor of more bytes than can be counted
  BadOffsets,       ///< a tensor ends before it begins
  SizeMismatch,     ///< the offsets' distance is not what dtype and shape need
  BeyondEnd,        ///< a tensor ends after the end of the file: the file is truncated
  Overlap,          ///< two tensors share bytes
  Hole,             ///< bytes between tensors that belong to none
  TrailingBytes,    ///< bytes after the last tensor
};

/// An Error InvalidModel that says which.
class SafetensorsError : public Error {
 public:
  SafetensorsError(SafetensorsFault fault, const std::string& message)
      : Error(ErrorCode::InvalidModel, message), fault_(fault) {}
  SafetensorsFault fault() const noexcept { return fault_; }

 private:
  SafetensorsFault fault_;
};

/// One tensor of a file. `offset` + `bytes` never exceeds the size the file had when opened, and
/// `bytes` is the product of `shape` and the dtype's size.
struct SafetensorsEntry {
  std::string dtype;                ///< as published: "F32", "F16", "BF16", "I64", ...
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::uint64_t offset = 0;         ///< in the file
  std::uint64_t bytes = 0;
};

class SafetensorsFile {
 public:
  /// Opens the file and checks its header. Throws SafetensorsError naming file and tensor, or Error
  /// NotFound or OpenRead.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, SafetensorsEntry>& tensors() const { return tensors_; }

  /// Reads `destination.size()` bytes of the tensor, `skip` bytes after its first one. Throws Error
  /// OpenRead, also when the file has been written to since. Thread-safe.
  void read(const SafetensorsEntry& tensor, std::uint64_t skip,
            std::span<std::byte> destination) const;
  /// Lets the system fetch what follows the tensor in the file, a few dozen MB, while the caller
  /// works on the tensor.
  void prefetch_after(const SafetensorsEntry& tensor) const noexcept;
  /// False once the file has been replaced, deleted or written to.
  bool is_current() const noexcept { return file_.is_current(); }

 private:
  InputFile file_;
  std::map<std::string, SafetensorsEntry> tensors_;
};

}  // namespace normalcrafter
