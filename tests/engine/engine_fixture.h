// What tests of the whole engine share: a tiny model on disk, frames, and a session's run over
// them.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cstring>
#include <memory>
#include <vector>

#include "model/loaded_model.h"
#include "model_files.h"
#include "random_model.h"
#include "stream/frame_tensors.h"
#include "stream/stream_session.h"

namespace normalcrafter::test {

/// A tiny random model in a directory that goes with it.
class TinyModel {
 public:
  explicit TinyModel(const ModelConfig& config = tiny_config()) {
    write_model(directory_.path(), config);
  }
  std::string directory() const { return directory_.path(); }
  ModelOptions options(Dtype dtype = Dtype::Float32) const {
    return {directory(), "", "cpu", dtype};
  }
  std::shared_ptr<LoadedModel> open(Dtype dtype = Dtype::Float32,
                                    const LogFunction& log = {}) const {
    return open_shared_model(options(dtype), log);
  }

 private:
  testing::TemporaryDirectory directory_;
};

/// Smooth shapes with noise, [H,W,3] uint8 each.
inline std::vector<at::Tensor> random_frames(int count, Size size, std::uint64_t seed) {
  at::manual_seed(seed);
  std::vector<at::Tensor> frames;
  const at::Tensor base = at::rand({size.height, size.width, 3}) * 160;
  for (int i = 0; i < count; ++i)
    frames.push_back((base.roll(i, 1) + at::rand({size.height, size.width, 3}) * 90).to(at::kByte));
  return frames;
}

inline FrameView view_of(const at::Tensor& frame) {
  FrameView view;
  view.size = {static_cast<int>(frame.size(1)), static_cast<int>(frame.size(0))};
  view.data = frame.const_data_ptr();
  view.row_stride = frame.size(1) * 3 * static_cast<std::ptrdiff_t>(frame.element_size());
  view.format = frame.scalar_type() == at::kByte ? SampleFormat::U8 : SampleFormat::U16;
  return view;
}

inline at::Tensor copy_of(const NormalView& view) {
  const at::ScalarType type = view.format == SampleFormat::U8    ? at::kByte
                              : view.format == SampleFormat::U16 ? at::kUInt16
                                                                 : at::kFloat;
  at::Tensor frame = at::empty({view.size.height, view.size.width, 3}, type);
  const std::size_t row = frame.nbytes() / view.size.height;
  for (int y = 0; y < view.size.height; ++y) {
    std::memcpy(static_cast<char*>(frame.mutable_data_ptr()) + y * row,
                static_cast<const char*>(view.data) + y * view.row_stride, row);
  }
  return frame;
}

/// Several windows in a few frames.
inline SessionOptions small_windows(OffloadMode mode) {
  SessionOptions options;
  options.window_size = 4;
  options.step_size = 3;
  options.offload_mode = mode;
  return options;
}

/// What a session gives for the frames, in order.
inline std::vector<at::Tensor> stream(const std::shared_ptr<Stages>& stages,
                                      const std::vector<at::Tensor>& frames,
                                      const SessionOptions& options) {
  std::vector<at::Tensor> outputs;
  SessionCallbacks callbacks;
  callbacks.frame = [&](const NormalView& view) { outputs.push_back(copy_of(view)); };
  const auto session = make_stream_session(stages, options, callbacks);
  for (const auto& frame : frames) session->push(view_of(frame));
  session->finish();
  return outputs;
}

}  // namespace normalcrafter::test
