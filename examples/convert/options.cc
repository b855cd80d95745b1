#include "options.h"

#include <array>
#include <cstdio>
#include <numeric>

#include "failure.h"
#include "gst_handles.h"
#include "relight.h"
#include "sequence.h"

namespace normalcrafter::convert {
namespace {

constexpr const char* kSummary =
    "Turns a video, a numbered sequence of pictures (in-%05d.png) or a folder of pictures into\n"
    "surface normals. The ending of OUTPUT says what is written: video (mp4, mov, mkv, webm), one\n"
    "picture a frame (normals-%05d.png or .exr), or a NumPy array (npy, npz).";

constexpr const char* kDescription =
    "A LENGTH is a number of frames (250) or a time (10s, 1:02.5).\n"
    "\n"
    "Exit status: 0 done, 2 command line, 3 input missing, 4 not a video that can be decoded, 5 "
    "input\n"
    "damaged or cut short, 6 output exists or cannot be written, 7 disk full, 8 model, device or "
    "a\n"
    "plugin, 9 out of memory, 10 axes undetermined, 130 and 143 interrupted, 1 anything else.";

/// What GLib fills in.
struct Raw {
  int bits = 8;
  int quality = -1;
  int warm_up = Options{}.warm_up;
  gint64 number = -1;
  gboolean lossless = FALSE;
  gboolean resume = FALSE;
  gboolean overwrite = FALSE;
  gboolean quiet = FALSE;
  gboolean check_axes = FALSE;
  gboolean count = FALSE;
  gboolean version = FALSE;
  char* exr_type = nullptr;
  char* preview = nullptr;
  char* light = nullptr;
  char* fps = nullptr;
  char* start = nullptr;
  char* frames = nullptr;
  char* trim = nullptr;
  char* progress = nullptr;
  char** files = nullptr;

  Raw() = default;
  Raw(const Raw&) = delete;
  ~Raw() {
    for (char* text : {exr_type, preview, light, fps, start, frames, trim, progress}) g_free(text);
    g_strfreev(files);
  }
};

auto entries_of(Raw& raw) {
  return std::to_array<GOptionEntry>({
      {"start", 0, 0, G_OPTION_ARG_STRING, &raw.start,
       "Leave out this much at the beginning. A time is sought, frames are counted", "LENGTH"},
      {"frames", 0, 0, G_OPTION_ARG_STRING, &raw.frames, "Convert this much (default: all)",
       "LENGTH"},
      {"trim", 0, 0, G_OPTION_ARG_STRING, &raw.trim,
       "For a piece of a clip: so many frames at its beginning and at its end are converted and "
       "not "
       "written",
       "N,N"},
      {"fps", 0, 0, G_OPTION_ARG_STRING, &raw.fps, "Frame rate of pictures: 25, 23.976, 24000/1001",
       "RATE"},
      {"bits", 0, 0, G_OPTION_ARG_INT, &raw.bits, "PNG: bits a component (default: 8)", "8|16"},
      {"exr-type", 0, 0, G_OPTION_ARG_STRING, &raw.exr_type,
       "EXR: type of the numbers (default: half)", "half|float"},
      {"quality", 0, 0, G_OPTION_ARG_INT, &raw.quality,
       "Video: 0 to 100 (default: 75; mkv is lossless unless this is given)", "N"},
      {"lossless", 0, 0, G_OPTION_ARG_NONE, &raw.lossless,
       "mkv, mov: nothing is lost (mkv: as without --quality)", nullptr},
      {"preview", 0, 0, G_OPTION_ARG_FILENAME, &raw.preview,
       "Write also a contact sheet (png) or a video of the normals lit from one side", "FILE"},
      {"light", 0, 0, G_OPTION_ARG_STRING, &raw.light,
       "Preview: the direction of the light, x to the right, y up, z to the viewer (default: "
       "-0.4,0.5,0.75)",
       "X,Y,Z"},
      {"number", 0, 0, G_OPTION_ARG_INT64, &raw.number,
       "Sequence: the first file's number (default: the input's number, or 0)", "N"},
      {"resume", 0, 0, G_OPTION_ARG_NONE, &raw.resume,
       "Sequence: go on where an interrupted run stopped", nullptr},
      {"warm-up", 0, 0, G_OPTION_ARG_INT, &raw.warm_up,
       "With --resume: windows computed again before the first new frame (default: 3)", "N"},
      {"overwrite", 'y', 0, G_OPTION_ARG_NONE, &raw.overwrite, "Replace output that is there",
       nullptr},
      {"progress", 0, 0, G_OPTION_ARG_STRING, &raw.progress,
       "How progress is shown: a bar, or one JSON object a line on the standard output",
       "bar|json"},
      {"quiet", 'q', 0, G_OPTION_ARG_NONE, &raw.quiet, "Show errors and warnings only", nullptr},
      {"check-axes", 0, 0, G_OPTION_ARG_NONE, &raw.check_axes,
       "Show the model a sphere and report which way its axes point; takes no files", nullptr},
      {"count", 0, 0, G_OPTION_ARG_NONE, &raw.count,
       "Convert nothing: decode INPUT and print, as JSON, its frames and what decides how they can "
       "be cut into pieces",
       nullptr},
      {"version", 0, 0, G_OPTION_ARG_NONE, &raw.version, "Show the versions", nullptr},
      {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &raw.files, nullptr, "INPUT OUTPUT"},
      {},
  });
}

[[noreturn]] void refuse(const std::string& why) {
  throw Failure(Status::Usage, why);
}

std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

template <typename T>
T chosen(const char* option, const std::string& text,
         std::initializer_list<std::pair<const char*, T>> known) {
  std::string names;
  for (const auto& [name, value] : known) {
    if (text == name) return value;
    names += (names.empty() ? "" : " or ") + std::string(name);
  }
  refuse("--" + std::string(option) + "=" + text + ": it takes " + names);
}

/// "25", "24000/1001" or "23.976", which stands for the film rate.
void parse_fps(const std::string& text, Options& options) {
  int end = 0;
  int read =
      std::sscanf(text.c_str(), "%d/%d%n", &options.fps_numerator, &options.fps_denominator, &end);
  if (read != 2) {
    double rate = 0;
    read = std::sscanf(text.c_str(), "%lf%n", &rate, &end);
    if (read == 1 && rate > 0 && rate < 1e6)
      gst_util_double_to_fraction(rate, &options.fps_numerator, &options.fps_denominator);
  }
  if (read < 1 || static_cast<std::size_t>(end) != text.size() || options.fps_numerator < 1 ||
      options.fps_denominator < 1)
    refuse("--fps=" + text + ": not a frame rate such as 25 or 24000/1001");
}

Trim parse_trim(const std::string& text) {
  long long before = 0;
  long long after = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lld,%lld%n", &before, &after, &end) != 2 ||
      static_cast<std::size_t>(end) != text.size() || before < 0 || after < 0)
    refuse("--trim=" + text + ": it takes two numbers of frames, as in 30,4");
  return {before, after};
}

Options options_of(const Raw& raw) {
  Options options;
  options.bits = raw.bits;
  options.exr_type = chosen<ExrType>("exr-type", text_or(raw.exr_type, "half"),
                                     {{"half", ExrType::Half}, {"float", ExrType::Float}});
  options.lossless = raw.lossless != FALSE;
  if (raw.quality != -1) options.quality = raw.quality;
  options.preview = text_or(raw.preview, "");
  options.light = text_or(raw.light, options.light.c_str());
  if (raw.fps != nullptr) parse_fps(raw.fps, options);
  if (raw.start != nullptr) options.start = parse_amount("start", raw.start);
  if (raw.frames != nullptr) options.frames = parse_amount("frames", raw.frames);
  if (raw.trim != nullptr) options.trim = parse_trim(raw.trim);
  if (raw.number != -1) options.first_number = raw.number;
  options.resume = raw.resume != FALSE;
  options.warm_up = raw.warm_up;
  options.overwrite = raw.overwrite != FALSE;
  options.progress =
      chosen<ProgressMode>("progress", text_or(raw.progress, "bar"),
                           {{"bar", ProgressMode::Bar}, {"json", ProgressMode::Json}});
  if (raw.quiet) options.progress = ProgressMode::Quiet;
  options.check_axes = raw.check_axes != FALSE;
  options.count = raw.count != FALSE;
  options.version = raw.version != FALSE;
  return options;
}

void take_files(char** files, Options& options) {
  const guint count = files != nullptr ? g_strv_length(files) : 0;
  if (options.check_axes || options.version) {
    if (count > 0) refuse(std::string(files[0]) + ": --check-axes and --version take no files");
    return;
  }
  if (count != 2) refuse("INPUT and OUTPUT are needed, and nothing else; --help lists the options");
  options.input = files[0];
  options.output = files[1];
  options.kind = output_kind(options.output);
  options.is_numbered = is_sequence(options.kind) && Pattern::parse(options.output);
  if (is_sequence(options.kind) && !options.is_numbered)
    options.output = without_number(options.output);
}

bool keeps_alpha(const Options& options) {
  for (const auto& [name, value] : options.element)
    if (name == "alpha" && value == "copy") return true;
  return false;
}

/// Where the end is has to be known when the frames before it are written.
void check_trim(const Options& options) {
  if (options.trim->after > 0 && !options.frames)
    refuse("--trim at the end needs --frames: only then it is known where that is");
  if (options.frames && options.frames->unit != Amount::Unit::Frames)
    refuse("--trim needs --frames as a number of frames");
  if (options.frames && options.frames->value <= options.trim->before + options.trim->after)
    refuse("--trim leaves nothing of --frames=" + std::to_string(options.frames->value));
  if (options.resume) refuse("--trim and --resume exclude each other");
  if (!options.preview.empty()) refuse("--preview shows whole clips, --trim is for pieces");
}

void check_together(const Options& options) {
  const bool video = is_video(options.kind);
  if (options.bits != 8 && options.bits != 16)
    refuse("--bits=" + std::to_string(options.bits) + ": it takes 8 or 16");
  if (options.bits == 16 && options.kind != OutputKind::Png) refuse("--bits=16 is for png");
  if (options.quality && (*options.quality < 0 || *options.quality > 100))
    refuse("--quality=" + std::to_string(*options.quality) + ": it takes 0 to 100");
  if ((options.quality || options.lossless) && !video)
    refuse("--quality and --lossless are for video");
  // Ten bits of YCbCr, encoded without loss, come back up to two codes off: players' conversions to
  // RGB are not that exact.
  if (options.lossless && options.kind != OutputKind::Matroska && options.kind != OutputKind::Mov)
    refuse("--lossless is for mkv and mov: what this container holds is YCbCr, which rounds");
  if (options.quality && options.lossless) refuse("--quality and --lossless exclude each other");
  if (options.resume && !is_sequence(options.kind))
    refuse("--resume is for sequences of pictures: the other files are written in one go");
  if (options.resume && options.overwrite) refuse("--resume and --overwrite exclude each other");
  if (options.first_number && *options.first_number < 0) refuse("--number takes 0 and more");
  if (options.first_number && !is_sequence(options.kind)) refuse("--number is for png and exr");
  if (options.trim) check_trim(options);
  if (options.warm_up < 0) refuse("--warm-up takes 0 and more");
  if (options.frames && options.frames->value == 0) refuse("--frames=0: nothing to convert");
  if (keeps_alpha(options) && options.kind != OutputKind::Png)
    refuse("--alpha=copy is for png: the other formats written here hold no alpha");
  if (!options.preview.empty() && !is_video(output_kind(options.preview)) &&
      output_kind(options.preview) != OutputKind::Png)
    refuse("--preview=" + options.preview + ": a contact sheet is a png, a lit one a video");
  if (!options.preview.empty() && options.preview == options.output)
    refuse("--preview=" + options.preview + " is the output itself");
  parse_light(options.light, "model");
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, GstElement* element) {
  Raw raw;
  ElementSettings settings;
  const auto entries = entries_of(raw);
  const Handle<GOptionContext> context(g_option_context_new(nullptr));
  g_option_context_set_summary(context.get(), kSummary);
  g_option_context_set_description(context.get(), kDescription);
  g_option_context_add_main_entries(context.get(), entries.data(), nullptr);
  if (element != nullptr)
    g_option_context_add_group(context.get(), element_option_group(element, &settings));
  char** parsed = g_new0(char*, arguments.size() + 1);
  for (std::size_t i = 0; i < arguments.size(); ++i) parsed[i] = g_strdup(arguments[i].c_str());
  GError* error = nullptr;
  const bool ok = g_option_context_parse_strv(context.get(), &parsed, &error);
  g_strfreev(parsed);
  const Handle<GError> owned(error);
  if (!ok) refuse(owned->message);
  Options options = options_of(raw);
  options.element = std::move(settings);
  take_files(raw.files, options);
  if (!options.check_axes && !options.version) check_together(options);
  return options;
}

}  // namespace normalcrafter::convert
