#include "output_kind.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "failure.h"

namespace normalcrafter::convert {
namespace {

struct Ending {
  const char* text;
  OutputKind kind;
};

constexpr Ending kEndings[] = {
    {".mp4", OutputKind::Mp4},      {".m4v", OutputKind::Mp4},   {".mov", OutputKind::Mov},
    {".mkv", OutputKind::Matroska}, {".webm", OutputKind::WebM}, {".png", OutputKind::Png},
    {".exr", OutputKind::Exr},      {".npy", OutputKind::Npy},   {".npz", OutputKind::Npz},
};

}  // namespace

OutputKind output_kind(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const auto* known = std::find_if(std::begin(kEndings), std::end(kEndings),
                                   [&](const Ending& e) { return e.text == ending; });
  if (known != std::end(kEndings)) return known->kind;
  throw Failure(Status::Usage, path +
                                   ": the ending says what is written, and this one is none of "
                                   "mp4, m4v, mov, mkv, webm, png, exr, npy and npz");
}

bool is_video(OutputKind kind) {
  return kind == OutputKind::Mp4 || kind == OutputKind::Mov || kind == OutputKind::Matroska ||
         kind == OutputKind::WebM;
}

bool is_sequence(OutputKind kind) {
  return kind == OutputKind::Png || kind == OutputKind::Exr;
}

bool is_float(OutputKind kind) {
  return kind == OutputKind::Exr || kind == OutputKind::Npy || kind == OutputKind::Npz;
}

std::filesystem::path partial_name(const std::filesystem::path& path) {
  std::filesystem::path name = path.stem();
  name += ".partial";
  name += path.extension();
  return path.parent_path() / name;
}

}  // namespace normalcrafter::convert
