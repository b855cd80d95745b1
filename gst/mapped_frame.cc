#include "mapped_frame.h"

#include <gst/video/gstvideometa.h>

#include <algorithm>
#include <cstddef>

namespace normalcrafter {
namespace {

/// What gst_video_frame_map() takes for a programming error. A meta may describe a larger picture,
/// of which the caps' is the upper left part.
bool agrees(const GstVideoMeta* meta, const GstVideoInfo& info) {
  return meta == nullptr || (meta->format == GST_VIDEO_INFO_FORMAT(&info) &&
                             meta->n_planes == GST_VIDEO_INFO_N_PLANES(&info) &&
                             meta->width >= static_cast<guint>(GST_VIDEO_INFO_WIDTH(&info)) &&
                             meta->height >= static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&info)));
}

/// True if every row lies in what is mapped. In this element's formats no plane is subsampled and
/// all of them have the same bytes per pixel.
bool lies_in_memory(const GstVideoFrame& frame) {
  const auto height = static_cast<std::ptrdiff_t>(GST_VIDEO_FRAME_HEIGHT(&frame));
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(GST_VIDEO_FRAME_WIDTH(&frame)) *
                                   GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, 0);
  for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    const GstMapInfo& map = frame.map[frame.meta != nullptr ? plane : 0];
    const std::ptrdiff_t first =
        static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane)) - map.data;
    const std::ptrdiff_t last = first + (height - 1) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane);
    if (std::min(first, last) < 0) return false;
    if (std::max(first, last) + row_bytes > static_cast<std::ptrdiff_t>(map.size)) return false;
  }
  return true;
}

}  // namespace

MappedFrame::MappedFrame(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags) {
  if (map(info, buffer, flags)) return;
  // GStreamer maps only the memory in which a plane begins.
  if (flags != GST_MAP_READ || gst_buffer_n_memory(buffer) < 2) return;
  merged_.reset(gst_buffer_copy_region(
      buffer,
      static_cast<GstBufferCopyFlags>(GST_BUFFER_COPY_MEMORY | GST_BUFFER_COPY_META |
                                      GST_BUFFER_COPY_MERGE),
      0, -1));
  if (merged_) map(info, merged_.get(), flags);
}

MappedFrame::~MappedFrame() {
  unmap();
}

bool MappedFrame::map(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags) {
  if (!agrees(gst_buffer_get_video_meta(buffer), info)) return false;
  mapped_ = gst_video_frame_map(&frame_, &info, buffer, flags) != FALSE;
  if (!mapped_) return false;
  frame_.info.width = GST_VIDEO_INFO_WIDTH(&info);
  frame_.info.height = GST_VIDEO_INFO_HEIGHT(&info);
  if (!lies_in_memory(frame_)) unmap();
  return mapped_;
}

void MappedFrame::unmap() {
  if (mapped_) gst_video_frame_unmap(&frame_);
  mapped_ = false;
}

}  // namespace normalcrafter
