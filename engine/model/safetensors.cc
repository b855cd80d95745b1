#include "model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "model/in_quotes.h"

namespace normalcrafter {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::uint64_t kPrefetchBytes = 64 << 20;

using Tensors = std::map<std::string, SafetensorsEntry>;

[[noreturn]] void fail(SafetensorsFault fault, const std::string& path, const std::string& reason) {
  throw SafetensorsError(fault, path + ": " + reason);
}

/// Bytes an element, 0 for a dtype that is not known.
std::uint64_t dtype_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> kSizes[] = {
      {"BOOL", 1},    {"U8", 1},          {"I8", 1},          {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"I16", 2},     {"U16", 2},
      {"F16", 2},     {"BF16", 2},        {"I32", 4},         {"U32", 4},     {"F32", 4},
      {"C64", 8},     {"F64", 8},         {"I64", 8},         {"U64", 8}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return static_cast<std::uint64_t>(bytes);
  }
  return 0;
}

/// Where the first byte is that is not UTF-8 (RFC 3629: no surrogates, no overlong forms).
std::optional<std::size_t> invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    }
    const unsigned second = byte(i + 1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return i;
    }
    i += length;
  }
  return std::nullopt;
}

/// One tensor's entry while it is read: what was there, not yet checked against each other.
struct RawEntry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

/// Takes the header token by token. A parser into a tree would merge duplicate keys silently, and
/// nlohmann's token parser keeps no call stack, however deep the nesting.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  /// By name, as the header has them.
  const std::map<std::string, RawEntry>& entries() const { return entries_; }

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return other("binary"); }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  [[noreturn]] bool parse_error(std::size_t position, const std::string&,
                                const nlohmann::detail::exception&) override {
    fail(SafetensorsFault::BadJson, path_,
         "the header is not JSON from its byte " + std::to_string(position) + " on");
  }

 private:
  /// What the next token belongs to.
  enum class Place { Header, Names, Metadata, Entry, Numbers, Ignored };

  bool other(const std::string& value);
  std::vector<std::uint64_t>& numbers();
  [[noreturn]] void bad_entry(const std::string& reason) const {
    fail(SafetensorsFault::BadEntry, path_, "tensor " + in_quotes(name_) + ": " + reason);
  }
  void refuse_if_metadata() const {
    if (place_ == Place::Metadata || (place_ == Place::Names && name_ == "__metadata__")) {
      fail(SafetensorsFault::BadMetadata, path_, "__metadata__ is not a map of strings");
    }
  }
  bool known_field() const {
    return field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
  }

  const std::string& path_;
  std::map<std::string, RawEntry> entries_;
  Place place_ = Place::Header;
  int ignored_depth_ = 0;  ///< of a field that the format does not define
  bool has_metadata_ = false;
  std::string name_;   ///< of the present tensor
  std::string field_;  ///< of its entry
  std::set<std::string> fields_;
};

std::vector<std::uint64_t>& HeaderReader::numbers() {
  RawEntry& entry = entries_.at(name_);
  return field_ == "shape" ? *entry.shape : *entry.offsets;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ != Place::Numbers) return other(std::to_string(value));
  numbers().push_back(value);
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (place_ == Place::Metadata) return true;
  if (place_ != Place::Entry || field_ != "dtype") return other(in_quotes(value));
  entries_.at(name_).dtype = value;
  return true;
}

/// A value where it may not be, unless it belongs to something ignored.
bool HeaderReader::other(const std::string& value) {
  refuse_if_metadata();
  if (place_ == Place::Names) bad_entry("its entry is " + value + ", an object is expected");
  if (place_ == Place::Numbers) {
    fail(SafetensorsFault::BadNumber, path_,
         "tensor " + in_quotes(name_) + ": " + field_ + " holds " + value +
             ", whole numbers from 0 to 2^64-1 are expected");
  }
  if (place_ == Place::Entry && known_field()) bad_entry(field_ + " is " + value);
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (place_ == Place::Header) {
    place_ = Place::Names;
  } else if (place_ == Place::Names) {
    place_ = name_ == "__metadata__" ? Place::Metadata : Place::Entry;
    fields_.clear();
  } else if (place_ == Place::Ignored || (place_ == Place::Entry && !known_field())) {
    place_ = Place::Ignored;
    ++ignored_depth_;
  } else {
    refuse_if_metadata();
    bad_entry(field_ + " holds an object");
  }
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::Names) {
    name_ = name;
    const bool is_new = name == "__metadata__" ? !std::exchange(has_metadata_, true)
                                               : entries_.try_emplace(name).second;
    if (!is_new) {
      fail(SafetensorsFault::DuplicateName, path_, "holds the name " + in_quotes(name) + " twice");
    }
  } else if (place_ != Place::Ignored) {
    field_ = name;
    if (!fields_.insert(name).second) {
      fail(SafetensorsFault::DuplicateField, path_,
           in_quotes(name_) + " has the field " + in_quotes(name) + " twice");
    }
  }
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::Ignored) {
    if (--ignored_depth_ == 0) place_ = Place::Entry;
    return true;
  }
  if (place_ == Place::Entry) {
    const RawEntry& entry = entries_.at(name_);
    if (!entry.dtype) bad_entry("has no dtype");
    if (!entry.shape) bad_entry("has no shape");
    if (!entry.offsets) bad_entry("has no data_offsets");
  }
  place_ = place_ == Place::Names ? Place::Header : Place::Names;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ == Place::Ignored || (place_ == Place::Entry && !known_field())) {
    place_ = Place::Ignored;
    ++ignored_depth_;
    return true;
  }
  if (place_ != Place::Entry || field_ == "dtype") return other("an array");
  RawEntry& entry = entries_.at(name_);
  (field_ == "shape" ? entry.shape : entry.offsets).emplace();
  place_ = Place::Numbers;
  return true;
}

bool HeaderReader::end_array() {
  if (place_ == Place::Ignored && --ignored_depth_ > 0) return true;
  place_ = Place::Entry;
  return true;
}

/// One tensor's dtype, shape and offsets against each other. The offset is still relative to the
/// first byte after the header.
SafetensorsEntry checked(const RawEntry& raw, const std::string& name, const std::string& path) {
  const std::string tensor = "tensor " + in_quotes(name) + ": ";
  const std::uint64_t element = dtype_bytes(*raw.dtype);
  if (element == 0) {
    fail(SafetensorsFault::UnknownDtype, path, tensor + "unknown dtype " + in_quotes(*raw.dtype));
  }
  SafetensorsEntry entry;
  entry.dtype = *raw.dtype;
  entry.bytes = element;
  for (const std::uint64_t side : *raw.shape) {
    if (side > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        __builtin_mul_overflow(entry.bytes, side, &entry.bytes)) {
      fail(SafetensorsFault::SizeOverflow, path, tensor + "its shape has too many elements");
    }
    entry.shape.push_back(static_cast<std::int64_t>(side));
  }
  if (raw.offsets->size() != 2) {
    fail(SafetensorsFault::BadEntry, path, tensor + "data_offsets does not hold two numbers");
  }
  const std::uint64_t begin = raw.offsets->front();
  const std::uint64_t end = raw.offsets->back();
  if (begin > end) {
    fail(SafetensorsFault::BadOffsets, path,
         tensor + "ends at " + std::to_string(end) + ", before it begins at " +
             std::to_string(begin));
  }
  if (end - begin != entry.bytes) {
    fail(SafetensorsFault::SizeMismatch, path,
         tensor + "dtype and shape need " + std::to_string(entry.bytes) +
             " bytes, data_offsets span " + std::to_string(end - begin));
  }
  entry.offset = begin;
  return entry;
}

/// The tensors must cover the `size` bytes after the header, each byte once.
void check_layout(const Tensors& tensors, std::uint64_t size, const std::string& path) {
  std::vector<const Tensors::value_type*> sorted;
  sorted.reserve(tensors.size());
  for (const auto& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.offset, a->second.bytes) <
           std::pair(b->second.offset, b->second.bytes);
  });
  std::uint64_t covered = 0;
  for (const auto* tensor : sorted) {
    const auto& [name, entry] = *tensor;
    if (entry.offset + entry.bytes > size) {
      fail(SafetensorsFault::BeyondEnd, path,
           "tensor " + in_quotes(name) + " ends at byte " +
               std::to_string(entry.offset + entry.bytes) + " of the data, but the file holds " +
               std::to_string(size) + ": it is truncated; fetch it again");
    }
    if (entry.offset != covered) {
      const bool overlap = entry.offset < covered;
      fail(overlap ? SafetensorsFault::Overlap : SafetensorsFault::Hole, path,
           "tensor " + in_quotes(name) + " begins at byte " + std::to_string(entry.offset) +
               " of the data, the one before ends at " + std::to_string(covered) +
               (overlap ? ": they overlap" : ": a hole"));
    }
    covered += entry.bytes;
  }
  if (covered != size) {
    fail(SafetensorsFault::TrailingBytes, path,
         std::to_string(size - covered) + " bytes follow the last tensor");
  }
}

/// What people often have in a weights file's place: the pointer that Git leaves without LFS.
std::string hint(const InputFile& file) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  std::string start(std::min<std::uint64_t>(file.size(), kPointer.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  return start == kPointer ? " (this is a Git LFS pointer, not the weights: run git lfs pull)" : "";
}

std::string read_header(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < kLengthBytes) {
    fail(SafetensorsFault::ShortFile, path,
         file.size() == 0 ? "is empty"
                          : "has only " + std::to_string(file.size()) + " bytes, no header");
  }
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLargestHeader) {
    fail(SafetensorsFault::OversizedHeader, path,
         "claims a header of " + std::to_string(length) + " bytes, more than the format's " +
             std::to_string(kLargestHeader) + hint(file));
  }
  if (length > file.size() - kLengthBytes) {
    fail(SafetensorsFault::TruncatedHeader, path,
         "claims a header of " + std::to_string(length) + " bytes, but the file has " +
             std::to_string(file.size()) + ": it is truncated; fetch it again");
  }
  std::string header(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  return header;
}

Tensors parse_header(const std::string& header, const std::string& path) {
  if (const auto position = invalid_utf8(header)) {
    fail(SafetensorsFault::BadUtf8, path,
         "the header is not UTF-8 at its byte " + std::to_string(*position));
  }
  if (!header.starts_with('{')) {
    fail(SafetensorsFault::NotAnObject, path, "the header does not begin with {");
  }
  // nlohmann's lexer takes a NUL byte for the end of its input and would accept what follows.
  if (const auto position = header.find('\0'); position != std::string::npos) {
    fail(SafetensorsFault::BadJson, path,
         "the header holds a NUL byte at its byte " + std::to_string(position));
  }
  HeaderReader reader(path);
  nlohmann::json::sax_parse(header, &reader);
  Tensors tensors;
  for (const auto& [name, raw] : reader.entries()) {
    tensors.emplace_hint(tensors.end(), name, checked(raw, name, path));
  }
  return tensors;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string header = read_header(file_);
  tensors_ = parse_header(header, path);
  const std::uint64_t data_start = kLengthBytes + header.size();
  check_layout(tensors_, file_.size() - data_start, path);
  for (auto& [name, entry] : tensors_) entry.offset += data_start;
}

void SafetensorsFile::read(const SafetensorsEntry& tensor, std::uint64_t skip,
                           std::span<std::byte> destination) const {
  file_.read(tensor.offset + skip, destination);
}

void SafetensorsFile::prefetch_after(const SafetensorsEntry& tensor) const noexcept {
  file_.prefetch(tensor.offset + tensor.bytes, kPrefetchBytes);
}

}  // namespace normalcrafter
