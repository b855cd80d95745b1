// The element's input as small pictures for the contact sheet.
#pragma once

#include <gst/gst.h>

#include <optional>

#include "contact_sheet.h"
#include "failure.h"

namespace normalcrafter::convert {

/// On the element's sink pad, which outlives it.
class InputTap {
 public:
  /// The first `discard` frames have no place on the sheet.
  InputTap(GstPad* pad, std::int64_t discard, ContactSheet& sheet);
  ~InputTap();
  InputTap(const InputTap&) = delete;
  InputTap& operator=(const InputTap&) = delete;

  /// What ended the stream here, if anything did.
  std::optional<Failure> failure() const { return failure_.get(); }

 private:
  static GstPadProbeReturn on_buffer(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  void take(GstBuffer* buffer);

  GstPad* pad_;
  std::int64_t discard_;
  ContactSheet& sheet_;
  std::int64_t next_ = 0;
  FirstFailure failure_;
  gulong probe_;
};

}  // namespace normalcrafter::convert
