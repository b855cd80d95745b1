// NumPy's array files, written while the frames come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "normal_frame.h"
#include "output_file.h"

namespace normalcrafter::convert {

/// Bytes of npy_header(). Fixed, so that the header can be replaced when the length is known.
constexpr std::size_t kNpyHeaderBytes = 128;

/// Version 1.0 of the format (numpy/lib/format.py) for a C-ordered array. `type` is NumPy's code
/// without the byte order, "f4" or "f8".
std::string npy_header(const std::string& type, const std::vector<std::int64_t>& shape);

/// The shape of an array of frames, and the bytes of one of them.
struct FrameShape {
  int width = 0;
  int height = 0;

  explicit FrameShape(const NormalFrame& frame) : width(frame.width), height(frame.height) {}
  std::vector<std::int64_t> of(std::int64_t frames) const { return {frames, height, width, 3}; }
  std::size_t bytes() const { return std::size_t{3} * width * height * sizeof(float); }
};

/// float32 [frames, height, width, 3] in a .npy file; frames of Samples::Float and of one size. At
/// any moment the file is a whole array of the frames so far.
class NpyFile final : public FrameSink {
 public:
  explicit NpyFile(const std::string& path) : file_(path) {}
  void write(const NormalFrame& frame) override;
  void finish() override { file_.close(); }

 private:
  OutputFile file_;
  std::int64_t frames_ = 0;
};

}  // namespace normalcrafter::convert
