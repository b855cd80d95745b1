#include "output_plan.h"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <set>

#include "failure.h"
#include "npy.h"
#include "npz.h"

namespace normalcrafter::convert {
namespace {

namespace fs = std::filesystem;

void check_folder(const std::string& file) {
  fs::path folder = fs::path(file).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (!fs::exists(folder, error)) {
    fs::create_directory(folder, error);
    if (error) throw Failure(Status::Output, folder.string() + ": " + error.message());
  }
  if (!fs::is_directory(folder, error) || access(folder.c_str(), W_OK) != 0)
    throw Failure(Status::Output, folder.string() + ": not a folder that can be written to");
}

/// The partial file may hold hours of an earlier run.
void check_file(const std::string& file, bool overwrite) {
  check_folder(file);
  std::error_code error;
  if (fs::is_directory(file, error)) throw Failure(Status::Output, file + ": is a folder");
  if (overwrite) return;
  if (fs::exists(file, error))
    throw Failure(Status::Output, file + ": is there already; --overwrite replaces it");
  const fs::path partial = partial_name(file);
  if (fs::exists(partial, error)) {
    throw Failure(Status::Output, partial.string() +
                                      ": is left of an earlier run; remove it, give it another "
                                      "name, or let --overwrite replace it");
  }
}

PictureFormat format_of(const Options& options, const std::string& settings) {
  PictureFormat format;
  format.exr = options.kind == OutputKind::Exr;
  format.exr_type = options.exr_type;
  for (const auto& [name, value] : options.element)
    if (name == "alpha") format.alpha = value == "copy";
  std::string note = format.exr ? options.exr_type == ExrType::Half ? "half" : "float"
                                : std::to_string(options.bits) + " bits";
  // A piece is to be as the whole clip's run makes it.
  if (options.start.value > 0 && !options.trim) note += " start=" + to_string(options.start);
  if (!settings.empty()) note += " " + settings;
  format.note = {note};
  return format;
}

Samples samples_of(const Options& options, const PictureFormat& format) {
  if (is_float(options.kind)) return Samples::Float;
  if (options.bits == 16) return Samples::Rgba16Be;
  return format.alpha ? Samples::Rgba8 : Samples::Rgb8;
}

/// How many numbers the run writes, as far as it can be told: without --frames it is all that
/// follow.
std::int64_t most_written(const Options& options, const InputPlan& input) {
  if (!options.frames) return std::numeric_limits<std::int64_t>::max();
  if (input.pictures) {
    const PictureRange chosen =
        cut(input.pictures->files, {options.start, options.frames}, input.rate);
    return static_cast<std::int64_t>(chosen.files.size());
  }
  return options.frames->unit == Amount::Unit::Frames ? options.frames->value : 0;
}

/// The files with the numbers that are written, but for pictures that the run reads. What lies
/// behind a part of a clip stays, as it may be the rest of the clip. Beside a piece everything
/// stays: others may be writing there.
std::vector<fs::path> replaced_by(const Options& options, const InputPlan& input,
                                  const OutputPlan& plan,
                                  const std::vector<std::int64_t>& present) {
  if (options.trim || present.empty()) return {};
  std::error_code ignored;
  std::set<fs::path> read;
  if (input.pictures)
    for (const fs::path& file : input.pictures->files) read.insert(fs::canonical(file, ignored));
  const std::int64_t most = most_written(options, input);
  std::vector<fs::path> replaced;
  for (const std::int64_t number : present) {
    if (number < plan.first || number - plan.first >= most) continue;
    const fs::path file = plan.pattern->file(number);
    if (read.count(fs::canonical(file, ignored)) == 0) replaced.push_back(file);
  }
  return replaced;
}

void plan_sequence(const Options& options, const InputPlan& input, const Windows& windows,
                   OutputPlan& plan) {
  check_folder(options.output);
  plan.first = first_number(options, input);
  if (options.resume) {
    plan.resume = plan_resume(count_written(*plan.pattern, plan.first, plan.format), windows,
                              options.warm_up);
    return;
  }
  const auto present = plan.pattern->present();
  if (!options.overwrite && !present.empty()) {
    throw Failure(Status::Output, plan.pattern->file(present.front()).string() +
                                      ": is there already; --resume goes on after such files, "
                                      "--overwrite replaces them");
  }
  plan.replaced = replaced_by(options, input, plan, present);
}

Written written_of(const Options& options, const ResumePlan& resume) {
  if (!options.trim) return {resume.discard, resume.skip + resume.discard, std::nullopt};
  const auto [before, after] = *options.trim;
  if (!options.frames) return {before, 0, std::nullopt};
  return {before, 0, options.frames->value - before - after};
}

}  // namespace

std::int64_t first_number(const Options& options, const InputPlan& input) {
  if (options.first_number) return *options.first_number;
  if (!input.pictures) return 0;
  RangeRequest all;
  all.start = options.start;
  return input.pictures->first_number + cut(input.pictures->files, all, input.rate).first;
}

OutputPlan plan_output(const Options& options, const InputPlan& input, const Windows& windows,
                       const std::string& settings) {
  OutputPlan plan;
  plan.format = format_of(options, settings);
  plan.samples = samples_of(options, plan.format);
  if (options.is_numbered) plan.pattern = Pattern::parse(options.output);
  if (plan.pattern) {
    plan_sequence(options, input, windows, plan);
  } else {
    if (options.resume)
      throw Failure(Status::Usage, "--resume needs a numbered name, as in normals-%05d.png");
    check_file(options.output, options.overwrite);
  }
  if (!options.preview.empty()) check_file(options.preview, options.overwrite);
  plan.written = written_of(options, plan.resume);
  return plan;
}

void remove_replaced(const OutputPlan& plan) {
  for (const fs::path& file : plan.replaced) {
    std::error_code error;
    fs::remove(file, error);
    if (error) throw output_failure(file.string(), error.value());
  }
}

std::unique_ptr<FrameSink> make_writer(const Options& options, const OutputPlan& plan) {
  switch (options.kind) {
    case OutputKind::Png:
    case OutputKind::Exr:
      if (plan.pattern)
        return std::make_unique<SequenceWriter>(*plan.pattern, plan.first, plan.format);
      return std::make_unique<PictureWriter>(options.output, plan.format);
    case OutputKind::Npy:
      return std::make_unique<NpyFile>(options.output);
    case OutputKind::Npz:
      return std::make_unique<NpzFile>(options.output);
    default:
      return nullptr;
  }
}

}  // namespace normalcrafter::convert
