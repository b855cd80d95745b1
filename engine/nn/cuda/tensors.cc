#include "nn/cuda/tensors.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "nn/cuda/kernels.h"
#include "nn/cuda/resize_taps.h"

namespace normalcrafter::cuda {
namespace {

Element element(at::ScalarType type) {
  if (type == at::kHalf) return Element::F16;
  return type == at::kBFloat16 ? Element::BF16 : Element::F32;
}

Sample sample(SampleFormat format) {
  if (format == SampleFormat::U8) return Sample::U8;
  return format == SampleFormat::U16 ? Sample::U16 : Sample::F32;
}

at::ScalarType sample_type(SampleFormat format) {
  if (format == SampleFormat::U8) return at::kByte;
  return format == SampleFormat::U16 ? at::kUInt16 : at::kFloat;
}

// By way of c10's device-independent interface: no CUDA headers are needed.
Stream current_stream(const at::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<Stream>(guard.getStream(device).native_handle());
}

}  // namespace

bool has_kernels(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return x.is_cuda() && x.is_contiguous() &&
         (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

void group_norm(const at::Tensor& x, at::Tensor& y, const at::Tensor& weight,
                const at::Tensor& bias, double eps, bool silu) {
  const c10::DeviceGuard device(x.device());
  const std::int64_t channels = x.size(-1);
  const GroupNormShape shape{x.size(0), x.numel() / (x.size(0) * channels), channels};
  const at::Tensor scratch = at::empty({static_cast<std::int64_t>(group_norm_scratch(shape))},
                                       x.options().dtype(at::kByte));
  group_norm(x.const_data_ptr(), y.mutable_data_ptr(), element(x.scalar_type()), shape,
             weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), static_cast<float>(eps),
             silu, scratch.mutable_data_ptr(), current_stream(x.device()));
}

at::Tensor geglu(const at::Tensor& x) {
  const c10::DeviceGuard device(x.device());
  auto shape = x.sizes().vec();
  shape.back() /= 2;
  at::Tensor y = at::empty(shape, x.options());
  geglu(x.const_data_ptr(), y.mutable_data_ptr(), element(x.scalar_type()), x.numel() / x.size(-1),
        shape.back(), current_stream(x.device()));
  return y;
}

FrameIngest::Tables FrameIngest::tables(int from, int to, const at::Device& device) {
  const ResizeTaps taps = resize_taps(from, to);
  const auto options = at::TensorOptions(at::kCPU);
  at::Tensor first = at::empty({to}, options.dtype(at::kInt));
  at::Tensor weights = at::empty({to, taps.count}, options.dtype(at::kFloat));
  std::copy(taps.first.begin(), taps.first.end(), first.mutable_data_ptr<std::int32_t>());
  std::copy(taps.weights.begin(), taps.weights.end(), weights.mutable_data_ptr<float>());
  return {taps.count, first.to(device), weights.to(device)};
}

FrameIngest::FrameIngest(const FrameGeometry& geometry, const at::Device& device)
    : geometry_(geometry) {
  if (!geometry.resized()) return;
  rows_ = tables(geometry.input.height, geometry.processed.height, device);
  columns_ = tables(geometry.input.width, geometry.processed.width, device);
}

at::Tensor FrameIngest::operator()(const at::Tensor& frames, at::ScalarType type,
                                   Normalisation normalisation, bool channels_last) const {
  const c10::DeviceGuard device(frames.device());
  at::Tensor result =
      at::empty({frames.size(0), 3, geometry_.padded.height, geometry_.padded.width},
                frames.options().dtype(type),
                channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  Ingest request;
  request.frames = frames.const_data_ptr();
  request.sample = frames.scalar_type() == at::kByte ? Sample::U8 : Sample::U16;
  request.n = static_cast<int>(frames.size(0));
  request.source = geometry_.input;
  request.picture = geometry_.processed;
  request.padded = geometry_.padded;
  request.top = geometry_.top;
  request.left = geometry_.left;
  request.scale = static_cast<float>(normalisation.scale);
  request.shift = static_cast<float>(normalisation.shift);
  request.channels_last = channels_last;
  if (geometry_.resized()) {
    const auto taps = [](const Tables& tables) -> Taps {
      return {tables.first.const_data_ptr<std::int32_t>(), tables.weights.const_data_ptr<float>(),
              tables.count};
    };
    request.vertical = taps(rows_);
    request.horizontal = taps(columns_);
  }
  ingest(request, result.mutable_data_ptr(), element(type), current_stream(frames.device()));
  return result;
}

at::Tensor finish_normals(const at::Tensor& vectors, const FrameGeometry& geometry,
                          const SessionOptions& options) {
  const c10::DeviceGuard device(vectors.device());
  at::Tensor result = at::empty({vectors.size(0), geometry.output.height, geometry.output.width, 3},
                                vectors.options().dtype(sample_type(options.output_format)),
                                at::MemoryFormat::Contiguous);
  Output request;
  request.vectors = vectors.const_data_ptr();
  request.type = element(vectors.scalar_type());
  std::copy_n(vectors.strides().begin(), 4, request.strides);
  request.n = static_cast<int>(vectors.size(0));
  request.picture = geometry.processed;
  request.top = geometry.top;
  request.left = geometry.left;
  request.output = geometry.output;
  request.renormalize = options.renormalize;
  request.flip[0] = options.flip_x;
  request.flip[1] = options.flip_y;
  request.flip[2] = options.flip_z;
  output(request, result.mutable_data_ptr(), sample(options.output_format),
         current_stream(vectors.device()));
  return result;
}

}  // namespace normalcrafter::cuda
