#include <png.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <memory>

#include "failure.h"
#include "picture_files.h"

namespace normalcrafter::convert {
namespace {

constexpr const char* kSoftware = "Software";
constexpr const char* kSettings = "normalcrafter-settings";

// libpng's own prints.
void leave(png_structp png, png_const_charp) {
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

struct Writer {
  Writer() : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, leave, ignore_warning)) {
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  png_structp png;
  png_infop info = nullptr;
};

struct Reader {
  Reader() : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, leave, ignore_warning)) {
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  png_structp png;
  png_infop info = nullptr;
};

void set_text(png_text& text, const char* key, const char* value) {
  text = {};
  text.compression = PNG_TEXT_COMPRESSION_NONE;
  text.key = const_cast<png_charp>(key);
  text.text = const_cast<png_charp>(value);
}

/// False after an error of libpng. It jumps out of its functions, so nothing here has a destructor.
bool encode(const Writer& writer, std::FILE* stream, const NormalFrame& frame, bool alpha,
            const char* settings) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_init_io(writer.png, stream);
  const bool has_fourth = frame.samples != Samples::Rgb8;
  const int depth = frame.samples == Samples::Rgba16Be ? 16 : 8;
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(frame.width),
               static_cast<png_uint_32>(frame.height), depth,
               has_fourth && alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_text texts[2];
  set_text(texts[0], kSoftware, "normalcrafter-convert");
  set_text(texts[1], kSettings, settings);
  png_set_text(writer.png, writer.info, texts, 2);
  png_write_info(writer.png, writer.info);
  if (has_fourth && !alpha) png_set_filler(writer.png, 0, PNG_FILLER_AFTER);
  for (int y = 0; y < frame.height; ++y)
    png_write_row(writer.png, reinterpret_cast<png_const_bytep>(frame.row(y)));
  png_write_end(writer.png, writer.info);
  return true;
}

bool read_header(const Reader& reader, std::FILE* stream) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_init_io(reader.png, stream);
  png_read_info(reader.png, reader.info);
  return true;
}

}  // namespace

void write_png(OutputFile& file, const NormalFrame& frame, bool alpha, const PictureNote& note) {
  const Writer writer;
  if (writer.info == nullptr) throw Failure(Status::OutOfMemory, "libpng is out of memory");
  errno = 0;
  if (!encode(writer, file.stream(), frame, alpha, note.settings.c_str()))
    throw output_failure(file.partial().string(), errno);
}

std::optional<PictureNote> read_png_note(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  const Reader reader;
  if (!file || reader.info == nullptr || !read_header(reader, file.get())) return std::nullopt;
  png_textp texts = nullptr;
  const int count = png_get_text(reader.png, reader.info, &texts, nullptr);
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(texts[i].key, kSettings) == 0) return PictureNote{texts[i].text};
  }
  return std::nullopt;
}

}  // namespace normalcrafter::convert
