#include "nn/cuda/device_types.cuh"

namespace normalcrafter::cuda {
namespace {

struct Pixel {
  float channel[3];
};

template <typename S>
__device__ Pixel resized(const S* frame, const Ingest& in, int y, int x) {
  Pixel sum{};
  const int top = in.vertical.first[y];
  const int left = in.horizontal.first[x];
  // Taps past the edge have no weight.
  const int rows = min(in.vertical.count, in.source.height - top);
  const int columns = min(in.horizontal.count, in.source.width - left);
  for (int j = 0; j < rows; ++j) {
    const S* from = frame + (static_cast<std::int64_t>(top + j) * in.source.width + left) * 3;
    Pixel row{};
    for (int k = 0; k < columns; ++k) {
      const float weight = in.horizontal.weights[x * in.horizontal.count + k];
      for (int c = 0; c < 3; ++c) row.channel[c] += weight * static_cast<float>(from[3 * k + c]);
    }
    const float weight = in.vertical.weights[y * in.vertical.count + j];
    for (int c = 0; c < 3; ++c) sum.channel[c] += weight * row.channel[c];
  }
  return sum;
}

template <typename S>
__device__ Pixel plain(const S* frame, const Ingest& in, int y, int x) {
  const S* from = frame + (static_cast<std::int64_t>(y) * in.source.width + x) * 3;
  return {static_cast<float>(from[0]), static_cast<float>(from[1]), static_cast<float>(from[2])};
}

// A thread a padded pixel. Grid (columns, rows, frames).
template <typename S, typename T, bool kResize>
__global__ void ingest_kernel(Ingest in, T* result) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= in.padded.width || y >= in.padded.height) return;
  constexpr float kMost = sizeof(S) == 1 ? 255.0F : 65535.0F;
  const int inside_x = x - in.left;
  const int inside_y = y - in.top;
  Pixel pixel{1, 1, 1};
  if (inside_x >= 0 && inside_x < in.picture.width && inside_y >= 0 &&
      inside_y < in.picture.height) {
    const S* frame = static_cast<const S*>(in.frames) +
                     static_cast<std::int64_t>(blockIdx.z) * in.source.width * in.source.height * 3;
    pixel = kResize ? resized(frame, in, inside_y, inside_x) : plain(frame, in, inside_y, inside_x);
    for (float& value : pixel.channel) value = fminf(fmaxf(value / kMost, 0.0F), 1.0F);
  }
  const std::int64_t plane = static_cast<std::int64_t>(in.padded.width) * in.padded.height;
  const std::int64_t place = static_cast<std::int64_t>(y) * in.padded.width + x;
  T* to = result + blockIdx.z * plane * 3 + (in.channels_last ? place * 3 : place);
  for (int c = 0; c < 3; ++c)
    to[in.channels_last ? c : c * plane] = from_float<T>(pixel.channel[c] * in.scale + in.shift);
}

template <typename S>
void launch(const Ingest& frames, void* result, Element type, Stream stream) {
  const dim3 block(32, 8);
  const dim3 grid(static_cast<unsigned>(divide_up(frames.padded.width, block.x)),
                  static_cast<unsigned>(divide_up(frames.padded.height, block.y)), frames.n);
  with_element(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto kernel =
        frames.picture == frames.source ? ingest_kernel<S, T, false> : ingest_kernel<S, T, true>;
    kernel<<<grid, block, 0, stream>>>(frames, static_cast<T*>(result));
    check_launch("ingest");
  });
}

}  // namespace

void ingest(const Ingest& frames, void* result, Element type, Stream stream) {
  if (frames.sample == Sample::U8)
    launch<std::uint8_t>(frames, result, type, stream);
  else
    launch<std::uint16_t>(frames, result, type, stream);
}

}  // namespace normalcrafter::cuda
