#include <ImfChannelList.h>
#include <ImfFrameBuffer.h>
#include <ImfHeader.h>
#include <ImfIO.h>
#include <ImfInputFile.h>
#include <ImfOutputFile.h>
#include <ImfStringAttribute.h>
#include <half.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "failure.h"
#include "picture_files.h"

namespace normalcrafter::convert {
namespace {

constexpr const char* kSettings = "normalcrafterSettings";
constexpr const char* kChannels[] = {"R", "G", "B"};

/// Remembers what failed: OpenEXR writes its table of lines in a destructor, which swallows it.
class Stream final : public Imf::OStream {
 public:
  explicit Stream(OutputFile& file)
      : Imf::OStream(file.partial().c_str()), stream_(file.stream()) {}
  void write(const char bytes[], int count) override {
    errno = 0;
    const auto size = static_cast<std::size_t>(count);
    check(std::fwrite(bytes, 1, size, stream_) == size);
  }
  std::uint64_t tellp() override { return static_cast<std::uint64_t>(ftello(stream_)); }
  void seekp(std::uint64_t position) override {
    check(fseeko(stream_, static_cast<off_t>(position), SEEK_SET) == 0);
  }
  bool failed() const { return failed_; }
  int error() const { return error_; }

 private:
  void check(bool ok) {
    if (ok) return;
    failed_ = true;
    error_ = errno;
    throw std::runtime_error("writing failed");
  }

  std::FILE* stream_;
  bool failed_ = false;
  int error_ = 0;
};

Imf::Header header_of(const NormalFrame& frame, Imf::PixelType type, const PictureNote& note) {
  Imf::Header header(frame.width, frame.height);
  header.compression() = Imf::ZIP_COMPRESSION;
  for (const char* channel : kChannels) header.channels().insert(channel, Imf::Channel(type));
  header.insert("comments", Imf::StringAttribute("R, G, B: x, y, z of unit vectors"));
  header.insert("software", Imf::StringAttribute("normalcrafter-convert"));
  header.insert(kSettings, Imf::StringAttribute(note.settings));
  return header;
}

template <typename Number>
std::vector<Number> packed(const NormalFrame& frame) {
  std::vector<Number> numbers(static_cast<std::size_t>(frame.width) * frame.height * 3);
  auto* to = numbers.data();
  std::vector<float> row(static_cast<std::size_t>(frame.width) * 3);
  for (int y = 0; y < frame.height; ++y) {
    std::memcpy(row.data(), frame.row(y), row.size() * sizeof(float));
    for (const float value : row) *to++ = Number(value);
  }
  return numbers;
}

template <typename Number>
void write_as(Stream& stream, const NormalFrame& frame, Imf::PixelType type,
              const PictureNote& note) {
  std::vector<Number> numbers = packed<Number>(frame);
  const std::size_t pixel = 3 * sizeof(Number);
  Imf::FrameBuffer buffer;
  for (std::size_t i = 0; i < 3; ++i) {
    buffer.insert(kChannels[i], Imf::Slice(type, reinterpret_cast<char*>(numbers.data() + i), pixel,
                                           pixel * static_cast<std::size_t>(frame.width)));
  }
  Imf::OutputFile file(stream, header_of(frame, type, note));
  file.setFrameBuffer(buffer);
  file.writePixels(frame.height);
}

}  // namespace

void write_exr(OutputFile& file, const NormalFrame& frame, ExrType type, const PictureNote& note) {
  const std::string path = file.partial().string();
  Stream stream(file);
  std::string reason;
  try {
    if (type == ExrType::Half) {
      write_as<half>(stream, frame, Imf::HALF, note);
    } else {
      write_as<float>(stream, frame, Imf::FLOAT, note);
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (stream.failed()) throw output_failure(path, stream.error());
  if (!reason.empty()) throw Failure(Status::Output, path + ": " + reason);
}

std::optional<PictureNote> read_exr_note(const std::string& path) try {
  const Imf::InputFile file(path.c_str());
  const auto* note = file.header().findTypedAttribute<Imf::StringAttribute>(kSettings);
  if (note == nullptr) return std::nullopt;
  return PictureNote{note->value()};
} catch (const std::exception&) {
  return std::nullopt;
}

}  // namespace normalcrafter::convert
