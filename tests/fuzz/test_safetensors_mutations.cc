// Mutated safetensors files: the reader must accept or refuse each, never crash, and what it
// accepts must lie within the file. The seed is fixed, so a failure repeats.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "model/safetensors.h"
#include "model_files.h"

namespace normalcrafter {
namespace {

using testing::safetensors;

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> files = {
      safetensors("{}"),
      safetensors(R"({"__metadata__":{"format":"pt"},)"
                  R"("a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                  R"("a.bias":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},)"
                  R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[30,38]},)"
                  R"("none":{"dtype":"I64","shape":[0,4],"data_offsets":[38,38]}}  )",
                  std::string(38, 'd')),
      safetensors("{\"\xc3\xa9\\u00e9\":{\"note\":[{\"x\":[null,true,-1.5e3]}],\"dtype\":\"U8\","
                  "\"shape\":[1],\"data_offsets\":[0,1]}}",
                  "x"),
  };
  return files;
}

/// Pieces that parsers stumble over.
const std::vector<std::string> kPieces = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          ",",
                                          ":",
                                          "-",
                                          "0",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "1e999",
                                          "1.5",
                                          "null",
                                          "\\u0000",
                                          "\\ud800",
                                          "\"dtype\"",
                                          "\"shape\":[",
                                          "\"data_offsets\":[0,0]",
                                          "\"__metadata__\":",
                                          std::string(1, '\0'),
                                          "\xff",
                                          "\xed\xa0\x80",
                                          std::string(300, '[')};

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutated(std::string bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    const std::size_t data = bytes.size() - 8 - length;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(bytes);
    // Half of the files get a length again that leaves the data its size, so that the mutation
    // reaches the parser.
    if (bytes.size() >= 8 + data && below(2) == 0) {
      length = bytes.size() - 8 - data;
      std::memcpy(bytes.data(), &length, 8);
    }
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void change(std::string& bytes) {
    if (bytes.empty()) return;
    const std::size_t place = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[place] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(8)));
        break;
      case 2:
        bytes.erase(place, 1 + below(8));
        break;
      case 3:
        bytes.insert(place, kPieces[below(kPieces.size())]);
        break;
      case 4:
        bytes.insert(place, bytes.substr(below(bytes.size()), 1 + below(40)));
        break;
      default:
        bytes.resize(place);
    }
  }

  std::mt19937 random_;
};

/// Whether the reader took the file; then every tensor must be readable.
bool accepted(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    for (const auto& [name, tensor] : file.tensors()) {
      std::string bytes(tensor.bytes, '\0');
      file.read(tensor, 0, std::as_writable_bytes(std::span(bytes)));
    }
    return true;
  } catch (const SafetensorsError& error) {
    EXPECT_EQ(std::string(error.what()).rfind(path, 0), 0U) << error.what();
    return false;
  }
}

/// A file in memory: tens of thousands of them on a disk would take minutes.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("mutated", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  bool write(const std::string& bytes) {
    return ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, bytes.data(), bytes.size(),
                                                        0) == static_cast<ssize_t>(bytes.size());
  }

 private:
  int descriptor_;
};

TEST(SafetensorsMutations, EveryMutatedFileIsReadWholeOrRefusedWithANamedFault) {
  MemoryFile file;
  Mutator mutator(20240917);
  int taken = 0;
  constexpr int kFiles = 50'000;
  for (int i = 0; i < kFiles; ++i) {
    const auto& seed = seeds()[static_cast<std::size_t>(i) % seeds().size()];
    ASSERT_TRUE(file.write(mutator.mutated(seed)));
    taken += accepted(file.path());
  }
  // Both outcomes occur often enough that neither way out went untested.
  EXPECT_GT(taken, kFiles / 100);
  EXPECT_LT(taken, kFiles / 2);
}

}  // namespace
}  // namespace normalcrafter
