// What the element tells the application: errors, warnings and progress.
#pragma once

#include <gst/gst.h>

#include "normalcrafter/error.h"
#include "normalcrafter/options.h"
#include "worker.h"

namespace normalcrafter {

/// Posts the one GST_ELEMENT_ERROR of a fault, in the domain that fits its code.
void post_error(GstElement* element, const Error& error);

void post_warning(GstElement* element, const std::string& text);

/// Posts a PROGRESS message of code "load". `percent` counts for Loading::Continues only.
void post_loading(GstElement* element, Loading state, const std::string& model, int percent,
                  const char* reason);

/// Posts the element message "normalcrafter-stage": how far a network is in the present pass.
void post_stage(GstElement* element, const Progress& now);

/// Posts the element message "normalcrafter-window": what ran since the statistics were `before`.
void post_windows(GstElement* element, const SessionStats& before, const WorkerStats& now,
                  GstClockTime latency);

/// Sends the engine's log to the debug category, and its warnings to the bus as well. Holds no
/// reference: a shared model may outlive the element that opened it.
LogFunction log_to(GstElement* element);

}  // namespace normalcrafter
