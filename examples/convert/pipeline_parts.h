// Elements, or a Failure that says which plugin is missing.
#pragma once

#include <gst/gst.h>

#include <string>

namespace normalcrafter::convert {

/// A floating reference. A Failure (Model) if the plugin is not installed.
GstElement* make_element(const char* factory);
/// A bin of a launch line with ghost pads for what is open at its ends; likewise.
GstElement* parse_bin(const std::string& line);
/// Links through compatible pads. A Failure (Failed) if there are none.
void link(GstElement* from, GstElement* to);

/// A pipeline that is stopped at the end.
class RunningPipeline {
 public:
  RunningPipeline() : pipeline_(gst_pipeline_new(nullptr)) { gst_object_ref_sink(pipeline_); }
  ~RunningPipeline() {
    stop();
    gst_object_unref(pipeline_);
  }
  RunningPipeline(const RunningPipeline&) = delete;
  RunningPipeline& operator=(const RunningPipeline&) = delete;
  GstElement* get() const { return pipeline_; }
  GstBin* bin() const { return GST_BIN(pipeline_); }
  /// Its threads have ended when this returns.
  void stop() { gst_element_set_state(pipeline_, GST_STATE_NULL); }

 private:
  GstElement* pipeline_;
};

}  // namespace normalcrafter::convert
