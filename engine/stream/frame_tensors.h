// Between pixels in memory and the tensors that the networks take and give.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "nn/cuda/tensors.h"
#include "normalcrafter/frame.h"
#include "normalcrafter/options.h"
#include "stream/geometry.h"

namespace normalcrafter {

/// How a frame waits for the encoders: a packed copy [H,W,3] uint8 or uint16 in host memory when it
/// keeps its size; else resized, [3,h,w] float32 in [0,1], since the reference does not round to
/// integers after resizing. The frame's format is U8 or U16.
at::Tensor read_picture(const FrameView& frame, const FrameGeometry& geometry);

/// Waiting pictures as the networks take them: [n,3,H,W] float32 in [0,1], contiguous in host
/// memory, surrounded by white.
at::Tensor padded_batch(const std::vector<at::Tensor>& pictures, const FrameGeometry& geometry);

/// A clip's frames on their way to the networks. On the CPU by read_picture() and padded_batch().
/// On a GPU whose kernels are compiled, frames wait as they came, in pinned memory, and are resized
/// and padded on the device; the transfers are not waited for.
class FrameReader {
 public:
  FrameReader(const FrameGeometry& geometry, const at::Device& device);
  /// How a frame waits for the encoders.
  at::Tensor picture(const FrameView& frame) const;
  /// Waiting pictures as the networks take them, [n,3,H,W] float32 in [0,1].
  at::Tensor batch(const std::vector<at::Tensor>& pictures) const;

 private:
  FrameGeometry geometry_;
  at::Device device_;
  std::optional<cuda::FrameIngest> ingest_;
};

/// Decoded vectors [n,3,H,W], padded, of any float type and on any device -> [n,height,width,3] in
/// the output's size and format, contiguous in host memory. From a GPU the pixels are complete when
/// its queue of work is.
at::Tensor finish_normals(const at::Tensor& vectors, const FrameGeometry& geometry,
                          const SessionOptions& options);

/// Two predictions of the same frames [n,c,h,w]: weights go linearly from the earlier to the later
/// one without reaching either end. Computed in the tensors' type.
at::Tensor crossfade(const at::Tensor& earlier, const at::Tensor& later);

/// Bytes of one sample.
std::size_t sample_size(SampleFormat format);

}  // namespace normalcrafter
