// The command line.
#pragma once

#include <gst/gst.h>

#include <optional>
#include <string>
#include <vector>

#include "amount.h"
#include "element_options.h"
#include "output_kind.h"
#include "picture_files.h"

namespace normalcrafter::convert {

/// Frames at a range's ends that the network sees and that are not written.
struct Trim {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

enum class ProgressMode { Bar, Json, Quiet };

struct Options {
  std::string input;  ///< a file, a numbered name, a folder, or a URI
  std::string output;
  OutputKind kind = OutputKind::Mp4;
  bool is_numbered = false;  ///< `output` is a Pattern; else it is a file's name as it is
  int bits = 8;              ///< PNG: 8 or 16
  ExrType exr_type = ExrType::Half;
  bool lossless = false;
  std::optional<int> quality;  ///< 0 to 100
  std::string preview;         ///< a file, or "" for none
  std::string light = "-0.4,0.5,0.75";
  int fps_numerator = 0;  ///< of pictures; 0: not given
  int fps_denominator = 1;
  Amount start;
  std::optional<Amount> frames;
  std::optional<Trim> trim;
  std::optional<std::int64_t> first_number;
  bool resume = false;
  int warm_up = 3;
  bool overwrite = false;
  ProgressMode progress = ProgressMode::Bar;
  bool check_axes = false;
  bool count = false;
  bool version = false;
  ElementSettings element;
};

/// The options in `arguments`, of which the first is the program's name; `element` says which
/// properties there are. Prints and ends the program for --help. A Failure (Usage) for what is
/// unknown, malformed or contradictory.
Options parse_options(const std::vector<std::string>& arguments, GstElement* element);

}  // namespace normalcrafter::convert
