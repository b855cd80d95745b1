// The engine without GStreamer: packed 8-bit RGB frames from standard input, normals to standard
// output.
//   ffmpeg -i in.mp4 -f rawvideo -pix_fmt rgb24 - | raw-normals MODEL WIDTH HEIGHT > normals.rgb
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "normalcrafter/engine.h"

namespace nc = normalcrafter;

namespace {

void write_rows(const nc::NormalView& picture) {
  const auto* rows = static_cast<const unsigned char*>(picture.data);
  const std::size_t row = 3 * static_cast<std::size_t>(picture.size.width);
  for (int y = 0; y < picture.size.height; ++y)
    std::fwrite(rows + y * picture.row_stride, 1, row, stdout);
}

int run(nc::Engine* engine, const char* model, nc::Size size) {
  const nc::LogFunction log = [](nc::LogLevel level, const std::string& text) {
    if (level != nc::LogLevel::Debug) std::fprintf(stderr, "%s\n", text.c_str());
  };
  nc::ModelOptions options;
  options.directory = model;
  const auto session = engine->create_session(engine->open_model(options, log), {},
                                              {.frame = write_rows, .progress = {}, .log = log});
  std::vector<unsigned char> picture(3 * static_cast<std::size_t>(size.width) * size.height);
  const nc::FrameView view{size, picture.data(), 3 * static_cast<std::ptrdiff_t>(size.width)};
  while (std::fread(picture.data(), 1, picture.size(), stdin) == picture.size())
    session->push(view);
  session->finish();
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  nc::Engine* engine = normalcrafter_engine(nc::kEngineAbi);
  if (engine == nullptr) {
    std::fprintf(stderr, "the engine is of another version than this program\n");
    return 1;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("raw-normals, engine %s\n", engine->version());
    return 0;
  }
  const nc::Size size = argc == 4 ? nc::Size{std::atoi(argv[2]), std::atoi(argv[3])} : nc::Size{};
  if (size.width < 1 || size.height < 1) {
    std::fprintf(stderr, "usage: raw-normals MODEL WIDTH HEIGHT < frames.rgb > normals.rgb\n");
    return 2;
  }
  return run(engine, argv[1], size);
} catch (const nc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
