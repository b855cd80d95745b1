// One run: from the input to the files.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fault.h"
#include "gate.h"
#include "gst_handles.h"
#include "options.h"
#include "output_plan.h"
#include "outputs.h"
#include "pipeline_parts.h"
#include "progress.h"
#include "source.h"
#include "tracker.h"

namespace normalcrafter::convert {

/// The element's, as they are set.
Windows windows_of(GstElement* element);

/// Builds the pipeline and runs it on the main loop.
class Conversion {
 public:
  /// `element`: with its properties set; it goes into the pipeline. A Failure for what can be known
  /// before anything runs.
  Conversion(const Options& options, GstElement* element, Reporter& reporter);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// Runs to the end, or to the first failure.
  Outcome run();

 private:
  void build();
  void build_source();
  void begin(std::int64_t running_time);
  void remove_old_files();
  void removal_failed();
  void streams_known();
  void seek();
  void interrupt();
  /// Remembers the first failure and ends the run, after the frames that were read if they can
  /// still be converted.
  void fail(const Failure& failure, Role role);
  void quit();

  /// From a thread of the pipeline.
  template <void (Conversion::*call)()>
  void on_main_loop() {
    g_idle_add(
        [](gpointer self) -> gboolean {
          (static_cast<Conversion*>(self)->*call)();
          return G_SOURCE_REMOVE;
        },
        this);
  }

  static gboolean on_message(GstBus* bus, GstMessage* message, gpointer self);
  void take_error(GstMessage* message);
  void take_progress(GstMessage* message);
  void take_warning(GstMessage* message);
  void take_element_message(GstMessage* message);
  Role role_of(GstMessage* message) const;

  void check_input_was_whole();
  std::int64_t input_end() const;
  Outcome outcome();
  std::string farewell() const;

  Options options_;
  Reporter& reporter_;
  GstElement* element_;
  InputPlan input_;
  OutputPlan output_;
  RangeRequest range_;
  Tracker tracker_;
  Handle<GMainLoop> loop_;
  std::unique_ptr<Outputs> outputs_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<VideoGate> gate_;
  std::unique_ptr<RunningPipeline> pipeline_;
  std::optional<Failure> failure_;
  FirstFailure removal_failure_;
  std::atomic<bool> loading_{false};
  SourceLength length_;  ///< written by begin()
  std::string missing_plugin_;
  std::set<std::string> warnings_;
};

}  // namespace normalcrafter::convert
