// A picture of a clip: frames of the input, their normals, and these lit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "normal_frame.h"
#include "relight.h"

namespace normalcrafter::convert {

/// Chooses frames evenly from a clip whose length shows only at its end.
class FrameChoice {
 public:
  /// At least `count` >= 1 and fewer than twice as many are kept, of clips that have as many.
  explicit FrameChoice(std::int64_t count) : count_(count) {}
  /// Whether frame `number` (0, 1, 2, ... in turn) is kept for now.
  bool takes(std::int64_t number);
  /// Frames whose number this does not divide are no longer kept.
  std::int64_t stride() const { return stride_; }

 private:
  std::int64_t count_;
  std::int64_t stride_ = 1;
};

/// `count` of the numbers, evenly, with the first and the last.
std::vector<std::int64_t> spread(const std::vector<std::int64_t>& numbers, std::size_t count);

/// Columns of pictures of one width, from top to bottom, on white.
Picture lay_out(const std::vector<std::vector<Picture>>& columns);

/// The sheet of a clip. write() is called with the normals of frame 0, 1, 2, ..., add_input()
/// before that with the input's frame of the same number; the two may be called from different
/// threads.
class ContactSheet final : public FrameSink {
 public:
  ContactSheet(std::string path, const Light& light);
  ~ContactSheet() override;
  /// Whether add_input() is to be called with this frame; asked once for each, in order.
  bool wants_input(std::int64_t number);
  void add_input(std::int64_t number, const Picture& picture);
  void write(const NormalFrame& frame) override;
  /// Writes the file; none if there was no frame.
  void finish() override;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::string path_;
  Light light_;
  std::int64_t next_ = 0;  ///< frames written
};

}  // namespace normalcrafter::convert
