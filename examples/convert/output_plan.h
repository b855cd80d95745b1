// What is written where, decided before anything runs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frame_tap.h"
#include "normal_frame.h"
#include "options.h"
#include "relight.h"
#include "resume_plan.h"
#include "sequence.h"
#include "sequence_writer.h"
#include "source.h"

namespace normalcrafter::convert {

struct OutputPlan {
  std::optional<Pattern> pattern;  ///< of a sequence; else one file
  std::int64_t first = 0;          ///< number of the sequence's first file
  ResumePlan resume;
  std::vector<std::filesystem::path> replaced;  ///< of a sequence: what remove_replaced() removes
  Written written;
  PictureFormat format;
  Samples samples = Samples::Rgb8;
};

/// The number of a sequence's first file. Numbers of pictures go on in the output, so that frame
/// 1001 stays 1001.
std::int64_t first_number(const Options& options, const InputPlan& input);

/// A Failure (Output) if there is output already that the options do not allow to replace or to go
/// on with, or if the folder cannot be written to; the folder is made if its parent is there.
/// `settings`: settings_that_count().
OutputPlan plan_output(const Options& options, const InputPlan& input, const Windows& windows,
                       const std::string& settings);

/// Removes the files of the sequence that the run replaces, before it begins: one that is left
/// would pass for the run's own, behind its end, or for --resume once it was killed. A Failure
/// (Output).
void remove_replaced(const OutputPlan& plan);

/// Who writes; nothing for video, which GStreamer writes.
std::unique_ptr<FrameSink> make_writer(const Options& options, const OutputPlan& plan);

}  // namespace normalcrafter::convert
