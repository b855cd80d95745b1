// The CUDA kernels on LibTorch's tensors: results from its allocator, work on its current stream.
#pragma once

#include <ATen/ATen.h>

#include "normalcrafter/options.h"
#include "stream/geometry.h"

namespace normalcrafter::cuda {

/// Whether the build has the kernels. Where it has not, nothing else here may be called:
///   if constexpr (cuda::kCompiled) { ... }
#ifdef NORMALCRAFTER_CUDA_KERNELS
inline constexpr bool kCompiled = true;
#else
inline constexpr bool kCompiled = false;
#endif

/// Float32, float16 or bfloat16, contiguous and on a CUDA device.
bool has_kernels(const at::Tensor& x);

inline constexpr std::int64_t kMostGroupNormChannels = 4096;

/// x [n, ..., channels], has_kernels(), into y of the same shape and type, which may be x. 32
/// groups, at most kMostGroupNormChannels channels; weight and bias [channels] float32 on x's
/// device.
void group_norm(const at::Tensor& x, at::Tensor& y, const at::Tensor& weight,
                const at::Tensor& bias, double eps, bool silu);

/// x [..., 2 * n], has_kernels() -> [..., n].
at::Tensor geglu(const at::Tensor& x);

/// The values of the result are value * scale + shift.
struct Normalisation {
  double scale = 1;
  double shift = 0;
};

/// Frames of one geometry as the networks take them. Making one copies the resize's tables to the
/// device, which waits for it: once a stream, so that no frame does.
class FrameIngest {
 public:
  FrameIngest(const FrameGeometry& geometry, const at::Device& device);

  /// Packed frames [n, H, W, 3], uint8 or uint16, contiguous and on the device, of the geometry's
  /// input size -> [n, 3, padded height, padded width] of `type`: [0,1] with a white border, then
  /// normalised. Contiguous in NCHW, or in memory order NHWC when channels_last.
  at::Tensor operator()(const at::Tensor& frames, at::ScalarType type, Normalisation normalisation,
                        bool channels_last) const;

 private:
  struct Tables {
    int count = 0;
    at::Tensor first;    // [size] int32
    at::Tensor weights;  // [size, count] float32
  };
  static Tables tables(int from, int to, const at::Device& device);

  FrameGeometry geometry_;
  Tables rows_;  // undefined where nothing is resized
  Tables columns_;
};

/// Decoded vectors [n, 3, H, W], padded, float32, float16 or bfloat16 on a CUDA device, of any
/// strides -> [n, height, width, 3] in the output's size and format, contiguous, on the device.
at::Tensor finish_normals(const at::Tensor& vectors, const FrameGeometry& geometry,
                          const SessionOptions& options);

}  // namespace normalcrafter::cuda
