#include "stream/frame_tensors.h"

#include <cstring>

namespace normalcrafter {
namespace {

at::Tensor packed_copy(const FrameView& frame, bool pinned = false) {
  const auto type = frame.format == SampleFormat::U8 ? at::kByte : at::kUInt16;
  at::Tensor copy = at::empty({frame.size.height, frame.size.width, 3},
                              at::TensorOptions(type).pinned_memory(pinned));
  const std::size_t row_bytes = 3 * sample_size(frame.format) * frame.size.width;
  const auto* source = static_cast<const std::byte*>(frame.data);
  auto* target = static_cast<std::byte*>(copy.data_ptr());
  for (int y = 0; y < frame.size.height; ++y)
    std::memcpy(target + y * row_bytes, source + y * frame.row_stride, row_bytes);
  return copy;
}

// [H,W,3] integers into [3,H,W] float32 in [0,1].
void write_scaled(const at::Tensor& packed, at::Tensor target) {
  target.copy_(packed.permute({2, 0, 1}));
  target.div_(packed.scalar_type() == at::kByte ? 255.0F : 65535.0F);
}

// image [1,3,H,W], contiguous NCHW. PyTorch's antialiased resize on the CPU fills a column that is
// one pixel wide with its first value (seen in 2.13): such an image is turned on its side.
at::Tensor resize(const at::Tensor& image, Size size) {
  if (size.width > 1)
    return at::_upsample_bicubic2d_aa(image, {size.height, size.width}, /*align_corners=*/false);
  const at::Tensor turned = image.transpose(2, 3).contiguous();
  return at::_upsample_bicubic2d_aa(turned, {size.width, size.height}, /*align_corners=*/false)
      .transpose(2, 3);
}

at::Tensor unit_length(const at::Tensor& vectors) {
  const at::Tensor squares = vectors * vectors;
  // Three plain additions: a reduction's order of summation is up to the kernel.
  const at::Tensor length =
      (squares.select(1, 0) + squares.select(1, 1) + squares.select(1, 2)).sqrt();
  return vectors / length.clamp_min(1e-6).unsqueeze(1);
}

at::Tensor quantised(const at::Tensor& vectors, SampleFormat format) {
  if (format == SampleFormat::F32) return vectors;
  const bool bytes = format == SampleFormat::U8;
  const at::Tensor codes =
      vectors.mul(0.5).add_(0.5).mul_(bytes ? 255.0 : 65535.0).add_(0.5).floor_();
  return codes.to(bytes ? at::kByte : at::kUInt16);
}

}  // namespace

std::size_t sample_size(SampleFormat format) {
  switch (format) {
    case SampleFormat::U8:
      return 1;
    case SampleFormat::U16:
      return 2;
    case SampleFormat::F32:
      return 4;
  }
  return 0;
}

at::Tensor read_picture(const FrameView& frame, const FrameGeometry& geometry) {
  const at::Tensor packed = packed_copy(frame);
  if (!geometry.resized()) return packed;
  at::Tensor image = at::empty({1, 3, geometry.input.height, geometry.input.width}, at::kFloat);
  write_scaled(packed, image[0]);
  const at::Tensor resized = resize(image, geometry.processed);
  return resized.clamp(0.0, 1.0)[0];
}

at::Tensor padded_batch(const std::vector<at::Tensor>& pictures, const FrameGeometry& geometry) {
  at::Tensor batch = at::ones({static_cast<std::int64_t>(pictures.size()), 3,
                               geometry.padded.height, geometry.padded.width},
                              at::kFloat);
  const at::Tensor inside = batch.narrow(2, geometry.top, geometry.processed.height)
                                .narrow(3, geometry.left, geometry.processed.width);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    if (geometry.resized())
      inside[i].copy_(pictures[i]);
    else
      write_scaled(pictures[i], inside[i]);
  }
  return batch;
}

FrameReader::FrameReader(const FrameGeometry& geometry, const at::Device& device)
    : geometry_(geometry), device_(device) {
  if constexpr (cuda::kCompiled) {
    if (device.is_cuda()) ingest_.emplace(geometry, device);
  }
}

at::Tensor FrameReader::picture(const FrameView& frame) const {
  return ingest_ ? packed_copy(frame, /*pinned=*/true) : read_picture(frame, geometry_);
}

at::Tensor FrameReader::batch(const std::vector<at::Tensor>& pictures) const {
  if constexpr (cuda::kCompiled) {
    if (ingest_) {
      const auto count = static_cast<std::int64_t>(pictures.size());
      const at::Tensor frames =
          at::empty({count, geometry_.input.height, geometry_.input.width, 3},
                    at::TensorOptions(device_).dtype(pictures.front().scalar_type()));
      for (std::int64_t i = 0; i < count; ++i)
        frames.select(0, i).copy_(pictures[static_cast<std::size_t>(i)], /*non_blocking=*/true);
      return (*ingest_)(frames, at::kFloat, {}, /*channels_last=*/false);
    }
  }
  return padded_batch(pictures, geometry_);
}

at::Tensor finish_normals(const at::Tensor& vectors, const FrameGeometry& geometry,
                          const SessionOptions& options) {
  if constexpr (cuda::kCompiled) {
    if (vectors.is_cuda()) {
      const at::Tensor pixels = cuda::finish_normals(vectors, geometry, options);
      const at::Tensor result =
          at::empty(pixels.sizes(), at::TensorOptions(pixels.scalar_type()).pinned_memory(true));
      return result.copy_(pixels, /*non_blocking=*/true);
    }
  }
  at::Tensor normals = vectors.to(at::kFloat)
                           .narrow(2, geometry.top, geometry.processed.height)
                           .narrow(3, geometry.left, geometry.processed.width);
  if (geometry.output != geometry.processed)
    normals = at::upsample_bilinear2d(normals.contiguous(),
                                      {geometry.output.height, geometry.output.width},
                                      /*align_corners=*/false);
  normals = normals.clamp(-1.0, 1.0);
  if (options.renormalize) normals = unit_length(normals);
  const bool flips[3] = {options.flip_x, options.flip_y, options.flip_z};
  for (int axis = 0; axis < 3; ++axis)
    if (flips[axis]) normals.select(1, axis).neg_();
  return quantised(normals, options.output_format).permute({0, 2, 3, 1}).contiguous().cpu();
}

at::Tensor crossfade(const at::Tensor& earlier, const at::Tensor& later) {
  const std::int64_t frames = later.size(0);
  const at::Tensor weight = at::linspace(1.0, 0.0, frames + 2, later.options())
                                .narrow(0, 1, frames)
                                .view({frames, 1, 1, 1});
  return earlier * weight + later * (1 - weight);
}

}  // namespace normalcrafter
