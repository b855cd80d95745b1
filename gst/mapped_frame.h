// A buffer's picture, readable or writable, and checked.
#pragma once

#include <gst/video/video.h>

#include <optional>

#include "gst_ptr.h"

namespace normalcrafter {

/// Maps a buffer as a picture of the size and format of a GstVideoInfo, and unmaps it. What a video
/// meta says about strides and offsets is followed, but never out of the buffer's memory, which
/// gst_video_frame_map() leaves unchecked.
class MappedFrame {
 public:
  /// The buffer must outlive it. Test it: a buffer that does not hold such a picture gives false.
  MappedFrame(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags);
  ~MappedFrame();
  MappedFrame(const MappedFrame&) = delete;
  MappedFrame& operator=(const MappedFrame&) = delete;

  explicit operator bool() const { return mapped_; }
  GstVideoFrame& operator*() { return frame_; }
  const GstVideoFrame& operator*() const { return frame_; }

 private:
  bool map(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags);
  void unmap();

  BufferPtr merged_;  ///< a copy, where a plane lies in several memories
  GstVideoFrame frame_;
  bool mapped_ = false;
};

}  // namespace normalcrafter
