// The preview as a video of its own.
#pragma once

#include <gst/app/gstappsrc.h>

#include <optional>
#include <string>

#include "failure.h"
#include "normal_frame.h"
#include "pipeline_parts.h"
#include "relight.h"
#include "video_writer.h"

namespace normalcrafter::convert {

/// Lit normals, encoded in a pipeline of their own into a file under its partial name. Where that
/// fails, write() or finish() ends in a Failure (Output, DiskFull, Failed).
class RelitVideo final : public FrameSink {
 public:
  RelitVideo(const std::string& path, const Light& light);
  void write(const NormalFrame& frame) override;
  void finish() override;

 private:
  void start(const NormalFrame& frame);
  void wait_for_room();
  void check(GstMessage* message);

  std::string path_;
  Light light_;
  RunningPipeline pipeline_;
  GstAppSrc* source_;
  VideoWriter writer_;
  std::optional<std::int64_t> begin_;  ///< the first frame's time
  std::optional<Failure> failure_;
};

}  // namespace normalcrafter::convert
