// NumPy's archives of arrays, written while the frames come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "normal_frame.h"
#include "npy.h"

namespace normalcrafter::convert {

/// A .npz file, of frames of Samples::Float and of one size, with `normals`, float32 [frames,
/// height, width, 3], and `times`, float64 [frames]: each frame's time in seconds, not a number
/// where it has none. Stored without compression: the lowest bits of floats are noise to a
/// compressor. Readable after finish().
class NpzFile final : public FrameSink {
 public:
  explicit NpzFile(const std::string& path);
  ~NpzFile() override;
  void write(const NormalFrame& frame) override;
  void finish() override;

 private:
  void check(int result) const;
  void open_member(const char* name);
  void append(const void* data, std::size_t bytes);
  void close_normals();
  void write_times();
  void write_normals_header(const std::string& header) const;

  std::string partial_;
  void* zip_ = nullptr;
  std::optional<FrameShape> shape_;
  std::vector<double> times_;
  unsigned long data_crc_ = 0;  ///< of the vectors, without the array's header
};

}  // namespace normalcrafter::convert
