// One picture a frame.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "normal_frame.h"
#include "output_file.h"
#include "picture_files.h"
#include "sequence.h"

namespace normalcrafter::convert {

/// What decides how a picture is written.
struct PictureFormat {
  bool exr = false;    ///< else PNG
  bool alpha = false;  ///< PNG: kept
  ExrType exr_type = ExrType::Half;
  PictureNote note;
};

/// Writes frame n of the clip to the file of number `first` + n. Each file appears whole or not at
/// all, and one that is there is replaced.
class SequenceWriter final : public FrameSink {
 public:
  SequenceWriter(Pattern pattern, std::int64_t first, PictureFormat format)
      : pattern_(std::move(pattern)), first_(first), format_(std::move(format)) {}
  void write(const NormalFrame& frame) override;

 private:
  Pattern pattern_;
  std::int64_t first_;
  PictureFormat format_;
};

/// One frame in one file of that very name, which it has when no other came: at a second frame a
/// Failure (Usage), and no file.
class PictureWriter final : public FrameSink {
 public:
  PictureWriter(std::string path, PictureFormat format)
      : path_(std::move(path)), format_(std::move(format)) {}
  void write(const NormalFrame& frame) override;
  void finish() override;

 private:
  std::string path_;
  PictureFormat format_;
  std::optional<OutputFile> file_;
};

/// Where a sequence is taken up: how many of its files follow each other from `first` on. A Failure
/// (Output) if the last of them was made with other settings than `note`, or carries none.
std::int64_t count_written(const Pattern& pattern, std::int64_t first, const PictureFormat& format);

}  // namespace normalcrafter::convert
