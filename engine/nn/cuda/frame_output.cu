#include "nn/cuda/device_types.cuh"

namespace normalcrafter::cuda {
namespace {

struct Vector3 {
  float axis[3];
};

template <typename T>
__device__ Vector3 vector_at(const Output& in, int y, int x) {
  const T* from = static_cast<const T*>(in.vectors) + blockIdx.z * in.strides[0] +
                  (y + in.top) * in.strides[2] + (x + in.left) * in.strides[3];
  return {to_float(from[0]), to_float(from[in.strides[1]]), to_float(from[2 * in.strides[1]])};
}

// Where a result's sample lies between two of the picture's, as PyTorch's bilinear resize has it.
struct Between {
  int low;
  int high;
  float share;  // of the higher
};

__device__ Between between(int i, int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float at = fmaxf(scale * (static_cast<float>(i) + 0.5F) - 0.5F, 0.0F);
  const int low = min(static_cast<int>(at), from - 1);
  return {low, min(low + 1, from - 1), fminf(at - static_cast<float>(low), 1.0F)};
}

template <typename T>
__device__ Vector3 resized(const Output& in, int y, int x) {
  const Between row = between(y, in.picture.height, in.output.height);
  const Between column = between(x, in.picture.width, in.output.width);
  const Vector3 a = vector_at<T>(in, row.low, column.low);
  const Vector3 b = vector_at<T>(in, row.low, column.high);
  const Vector3 c = vector_at<T>(in, row.high, column.low);
  const Vector3 d = vector_at<T>(in, row.high, column.high);
  Vector3 result;
  for (int i = 0; i < 3; ++i) {
    const float upper = a.axis[i] * (1 - column.share) + b.axis[i] * column.share;
    const float lower = c.axis[i] * (1 - column.share) + d.axis[i] * column.share;
    result.axis[i] = upper * (1 - row.share) + lower * row.share;
  }
  return result;
}

template <typename S>
__device__ S sample(float value) {
  if constexpr (std::is_same_v<S, float>) {
    return value;
  } else {
    constexpr float kMost = sizeof(S) == 1 ? 255.0F : 65535.0F;
    return static_cast<S>(floorf((value * 0.5F + 0.5F) * kMost + 0.5F));
  }
}

// A thread a pixel of the result. Grid (columns, rows, frames).
template <typename T, typename S, bool kResize>
__global__ void output_kernel(Output in, S* result) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= in.output.width || y >= in.output.height) return;
  Vector3 v = kResize ? resized<T>(in, y, x) : vector_at<T>(in, y, x);
  for (float& axis : v.axis) axis = fminf(fmaxf(axis, -1.0F), 1.0F);
  if (in.renormalize) {
    const float length =
        sqrtf(v.axis[0] * v.axis[0] + v.axis[1] * v.axis[1] + v.axis[2] * v.axis[2]);
    for (float& axis : v.axis) axis /= fmaxf(length, 1e-6F);
  }
  const std::int64_t frame = static_cast<std::int64_t>(in.output.width) * in.output.height;
  S* to = result + (blockIdx.z * frame + static_cast<std::int64_t>(y) * in.output.width + x) * 3;
  for (int c = 0; c < 3; ++c) to[c] = sample<S>(in.flip[c] ? -v.axis[c] : v.axis[c]);
}

template <typename S>
void launch(const Output& in, S* result, Stream stream) {
  const dim3 block(32, 8);
  const dim3 grid(static_cast<unsigned>(divide_up(in.output.width, block.x)),
                  static_cast<unsigned>(divide_up(in.output.height, block.y)), in.n);
  with_element(in.type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto kernel =
        in.output == in.picture ? output_kernel<T, S, false> : output_kernel<T, S, true>;
    kernel<<<grid, block, 0, stream>>>(in, result);
    check_launch("output");
  });
}

}  // namespace

void output(const Output& vectors, void* result, Sample type, Stream stream) {
  switch (type) {
    case Sample::U8:
      return launch(vectors, static_cast<std::uint8_t*>(result), stream);
    case Sample::U16:
      return launch(vectors, static_cast<std::uint16_t*>(result), stream);
    case Sample::F32:
      return launch(vectors, static_cast<float*>(result), stream);
  }
}

}  // namespace normalcrafter::cuda
