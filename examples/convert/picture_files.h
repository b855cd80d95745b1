// Single pictures: PNG and OpenEXR.
#pragma once

#include <optional>
#include <string>

#include "normal_frame.h"
#include "output_file.h"

namespace normalcrafter::convert {

/// Words that a picture carries: how it was made, so that an interrupted sequence goes on alike.
struct PictureNote {
  std::string settings;
};

/// Keeps alpha if `alpha` and the frame has it. 8 or 16 bits as the frame has. No colour space: the
/// samples are vectors. A Failure (Output, DiskFull, OutOfMemory).
void write_png(OutputFile& file, const NormalFrame& frame, bool alpha, const PictureNote& note);

enum class ExrType { Half, Float };

/// Channels R, G and B hold x, y and z; the frame is one of Samples::Float. A Failure (Output,
/// DiskFull).
void write_exr(OutputFile& file, const NormalFrame& frame, ExrType type, const PictureNote& note);

/// What a file of ours carries; nothing if it carries none or cannot be read.
std::optional<PictureNote> read_png_note(const std::string& path);
std::optional<PictureNote> read_exr_note(const std::string& path);

}  // namespace normalcrafter::convert
