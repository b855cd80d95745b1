// The preview as a video of its own.
#pragma once

#include <gst/app/gstappsrc.h>

#include <optional>
#include <string>

#include "normal_frame.h"
#include "pipeline_parts.h"
#include "relight.h"
#include "video_writer.h"

namespace normalcrafter::convert {

/// Lit normals, encoded in a pipeline of their own into a file under its partial name.
class RelitVideo final : public FrameSink {
 public:
  RelitVideo(const std::string& path, const Light& light);
  void write(const NormalFrame& frame) override;
  void finish() override;

 private:
  void start(const NormalFrame& frame);
  void check(GstMessage* message) const;

  std::string path_;
  Light light_;
  RunningPipeline pipeline_;
  GstAppSrc* source_;
  VideoWriter writer_;
  std::optional<std::int64_t> begin_;  ///< the first frame's time
};

}  // namespace normalcrafter::convert
