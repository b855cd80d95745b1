#include <algorithm>

#include "nn/cuda/device_types.cuh"

namespace normalcrafter::cuda {
namespace {

constexpr int kGroups = 32;
constexpr int kLanes = 32;  // neighbouring channels: one row of threads reads them together
constexpr int kRows = 8;    // pixels that a block reads at a time

// No default values: shared memory cannot be initialised.
struct Moments {
  float count;
  float mean;
  float m2;
};

// Chan, Golub, LeVeque: the moments of two sets together.
__device__ Moments combine(const Moments& a, const Moments& b) {
  const float count = a.count + b.count;
  if (b.count == 0) return a;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

// At most 64 slices, of 64 pixels or more: enough blocks for any device, few to combine.
std::int64_t slice_pixels(std::int64_t pixels) {
  return std::max<std::int64_t>(64, divide_up(pixels, 64));
}

// Moments of one channel in one slice of an item. Grid (slices, channels / 32, items).
template <typename T>
__global__ void slice_moments(const T* x, float2* partial, std::int64_t pixels,
                              std::int64_t channels, std::int64_t slice) {
  const std::int64_t channel = blockIdx.y * kLanes + threadIdx.x;
  const std::int64_t begin = blockIdx.x * slice;
  const std::int64_t end = min(begin + slice, pixels);
  const T* from = x + blockIdx.z * pixels * channels + channel;
  Moments own{};
#pragma unroll 4
  for (std::int64_t p = begin + threadIdx.y; p < end; p += kRows) {
    const float value = to_float(from[p * channels]);
    own.count += 1;
    const float delta = value - own.mean;
    own.mean += delta * __frcp_rn(own.count);
    own.m2 += delta * (value - own.mean);
  }
  __shared__ Moments rows[kRows][kLanes];
  rows[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int r = 1; r < kRows; ++r) own = combine(own, rows[r][threadIdx.x]);
  partial[(blockIdx.z * gridDim.x + blockIdx.x) * channels + channel] = {own.mean, own.m2};
}

// Mean and reciprocal deviation of one group. Grid (groups, items), one warp.
__global__ void group_statistics(const float2* partial, float2* statistics, std::int64_t pixels,
                                 std::int64_t channels, std::int64_t slice, int slices, float eps) {
  const int width = static_cast<int>(channels / kGroups);
  const float2* from = partial + blockIdx.y * slices * channels + blockIdx.x * width;
  Moments own{};
  for (int i = threadIdx.x; i < slices * width; i += kLanes) {
    const int s = i / width;
    const float2 moments = from[s * channels + i % width];
    const auto count = static_cast<float>(min(slice, pixels - s * slice));
    own = combine(own, {count, moments.x, moments.y});
  }
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    Moments other{};
    other.count = __shfl_down_sync(0xffffffffU, own.count, offset);
    other.mean = __shfl_down_sync(0xffffffffU, own.mean, offset);
    other.m2 = __shfl_down_sync(0xffffffffU, own.m2, offset);
    own = combine(own, other);
  }
  if (threadIdx.x == 0)
    statistics[blockIdx.y * kGroups + blockIdx.x] = {own.mean, 1 / sqrtf(own.m2 / own.count + eps)};
}

// A thread keeps its channels' parameters and walks over pixels. Block (channels / Vector, rows),
// grid (pixels, items).
template <typename T, bool kSilu>
__global__ void normalize(const T* x, T* y, const float2* statistics, const float* weight,
                          const float* bias, std::int64_t pixels, std::int64_t channels) {
  using V = Vector<T>;
  const int width = static_cast<int>(channels / kGroups);
  const int first = threadIdx.x * V::kSize;
  float mean[V::kSize];
  float scale[V::kSize];
  float shift[V::kSize];
  for (int i = 0; i < V::kSize; ++i) {
    const float2 group = statistics[blockIdx.y * kGroups + (first + i) / width];
    mean[i] = group.x;
    scale[i] = group.y * weight[first + i];
    shift[i] = bias[first + i];
  }
  const std::int64_t item = blockIdx.y * pixels * channels;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t p = blockIdx.x * blockDim.y + threadIdx.y; p < pixels; p += step) {
    const std::int64_t at = item + p * channels + first;
    V values = *reinterpret_cast<const V*>(x + at);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      // Not value * scale + (bias - mean * scale), which loses digits where the mean is large.
      float v = (to_float(values.values[i]) - mean[i]) * scale[i] + shift[i];
      if (kSilu) v = v / (1 + __expf(-v));
      values.values[i] = from_float<T>(v);
    }
    *reinterpret_cast<V*>(y + at) = values;
  }
}

template <typename T>
void launch_normalize(const T* x, T* y, const GroupNormShape& shape, const float2* statistics,
                      const float* weight, const float* bias, bool silu, Stream stream) {
  const auto columns = static_cast<unsigned>(shape.channels / Vector<T>::kSize);
  const dim3 block(columns, std::max(1U, 256 / columns));
  constexpr int kPixelsPerThread = 8;
  const dim3 grid(
      static_cast<unsigned>(divide_up(shape.pixels, std::int64_t{block.y} * kPixelsPerThread)),
      static_cast<unsigned>(shape.items));
  const auto kernel = silu ? normalize<T, true> : normalize<T, false>;
  kernel<<<grid, block, 0, stream>>>(x, y, statistics, weight, bias, shape.pixels, shape.channels);
}

int slice_count(std::int64_t pixels) {
  return static_cast<int>(divide_up(pixels, slice_pixels(pixels)));
}

}  // namespace

std::size_t group_norm_scratch(const GroupNormShape& shape) {
  return sizeof(float2) * shape.items * (slice_count(shape.pixels) * shape.channels + kGroups);
}

void group_norm(const void* x, void* y, Element type, const GroupNormShape& shape,
                const float* weight, const float* bias, float eps, bool silu, void* scratch,
                Stream stream) {
  const std::int64_t slice = slice_pixels(shape.pixels);
  const int slices = slice_count(shape.pixels);
  auto* const statistics = static_cast<float2*>(scratch);
  float2* const partial = statistics + shape.items * kGroups;
  const auto items = static_cast<unsigned>(shape.items);
  with_element(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const dim3 grid(slices, static_cast<unsigned>(shape.channels / kLanes), items);
    slice_moments<T><<<grid, dim3(kLanes, kRows), 0, stream>>>(static_cast<const T*>(x), partial,
                                                               shape.pixels, shape.channels, slice);
    check_launch("slice_moments");
    group_statistics<<<dim3(kGroups, items), kLanes, 0, stream>>>(
        partial, statistics, shape.pixels, shape.channels, slice, slices, eps);
    check_launch("group_statistics");
    launch_normalize<T>(static_cast<const T*>(x), static_cast<T*>(y), shape, statistics, weight,
                        bias, silu, stream);
    check_launch("normalize");
  });
}

}  // namespace normalcrafter::cuda
