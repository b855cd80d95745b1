#include "offline.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace normalcrafter::test {
namespace {

const std::atomic<bool> kNeverCancelled = false;
const Checkpoint kCheckpoint(kNeverCancelled);

struct Plan {
  std::vector<std::int64_t> starts;
  std::int64_t length = 0;  // frames that the networks see: the clip and its last frame repeated
};

Plan plan_windows(std::int64_t frames, const SessionOptions& options) {
  const std::int64_t window = options.window_size;
  const std::int64_t step = options.step_size;
  Plan plan;
  plan.length = std::max(frames, window);
  if (options.tail_mode == TailMode::Repeat)
    while ((plan.length - window) % step != 0) ++plan.length;
  for (std::int64_t start = 0; start <= plan.length - window; start += step)
    plan.starts.push_back(start);
  if (plan.starts.back() != plan.length - window) plan.starts.push_back(plan.length - window);
  return plan;
}

std::int64_t round_half_to_even(double value) {
  const double down = std::floor(value);
  const double rest = value - down;
  const auto whole = static_cast<std::int64_t>(down);
  if (rest != 0.5) return rest < 0.5 ? whole : whole + 1;
  return whole % 2 == 0 ? whole : whole + 1;
}

struct Sides {
  std::int64_t height, width;          // processed
  std::int64_t below_top, right_left;  // all padding of a direction
  std::int64_t top, left;
};

Sides sides_of(std::int64_t height, std::int64_t width, const Stages& stages,
               const SessionOptions& options) {
  const double scale =
      std::min(1.0, double(options.max_resolution) / double(std::max(height, width)));
  const std::int64_t multiple = stages.padding_multiple();
  Sides sides;
  sides.height = std::max<std::int64_t>(1, round_half_to_even(height * scale));
  sides.width = std::max<std::int64_t>(1, round_half_to_even(width * scale));
  sides.below_top = (multiple - sides.height % multiple) % multiple;
  sides.right_left = (multiple - sides.width % multiple) % multiple;
  sides.top = sides.below_top / 2;
  sides.left = sides.right_left / 2;
  return sides;
}

at::Tensor scaled(const at::Tensor& frame) {
  const float full = frame.scalar_type() == at::kByte ? 255.0F : 65535.0F;
  return frame.to(at::kFloat).div(full).permute({2, 0, 1}).contiguous();
}

// PyTorch's antialiased resize is wrong for results one pixel wide, but right for flat ones.
at::Tensor resized(const at::Tensor& clip, const Sides& sides) {
  if (sides.width == 1)
    return at::_upsample_bicubic2d_aa(clip.mT().contiguous(), {1, sides.height}, false)
        .clamp(0, 1)
        .mT()
        .contiguous();
  return at::_upsample_bicubic2d_aa(clip, {sides.height, sides.width}, false).clamp(0, 1);
}

// [N,3,H,W]: the networks' input for every frame.
at::Tensor networks_input(const std::vector<at::Tensor>& frames, const Sides& sides) {
  std::vector<at::Tensor> images;
  for (const at::Tensor& frame : frames) images.push_back(scaled(frame));
  at::Tensor clip = at::stack(images);
  if (clip.size(2) != sides.height || clip.size(3) != sides.width) clip = resized(clip, sides);
  return at::constant_pad_nd(
      clip, {sides.left, sides.right_left - sides.left, sides.top, sides.below_top - sides.top},
      1.0);
}

// The last frame's result stands for those that repeat it. Batches end at every window's end and at
// every `chunk` frames from the last such end.
template <typename Network>
at::Tensor in_batches(const at::Tensor& clip, const Plan& plan, std::int64_t window, int chunk,
                      Network network) {
  const std::int64_t frames = clip.size(0);
  std::vector<at::Tensor> results;
  std::int64_t first = 0;
  for (const std::int64_t start : plan.starts) {
    const std::int64_t end = std::min(start + window, frames);
    while (first < end) {
      const std::int64_t last = std::min(first + chunk, end);
      results.push_back(network(clip.slice(0, first, last).clone()));
      first = last;
    }
  }
  for (std::int64_t i = frames; i < plan.length; ++i)
    results.push_back(results.back().slice(0, -1));
  return at::cat(results);
}

at::Tensor predicted(Stages& stages, const at::Tensor& latents, const at::Tensor& embeddings,
                     const Plan& plan, std::int64_t window) {
  at::Tensor normals = at::zeros_like(latents);
  std::int64_t done = 0;
  for (const std::int64_t start : plan.starts) {
    const std::int64_t end = start + window;
    const at::Tensor seed = normals.slice(0, start, end).clone();
    const at::Tensor result = stages.predict(seed, latents.slice(0, start, end).clone(),
                                             embeddings.slice(0, start, end).clone(), kCheckpoint);
    const std::int64_t overlap = done - start;
    if (overlap > 0) {
      const at::Tensor w = at::linspace(1, 0, overlap + 2, result.options())
                               .slice(0, 1, overlap + 1)
                               .reshape({overlap, 1, 1, 1});
      const at::Tensor fresh = result.slice(0, 0, overlap);
      normals.slice(0, start, done).copy_(seed.slice(0, 0, overlap) * w + fresh * (1 - w));
    }
    normals.slice(0, done, end).copy_(result.slice(0, done - start));
    done = end;
  }
  return normals;
}

// vectors [3,H,W], padded.
at::Tensor finished(const at::Tensor& vectors, const Sides& sides, std::int64_t height,
                    std::int64_t width, const SessionOptions& options) {
  at::Tensor image = vectors.to(at::kFloat)
                         .slice(1, sides.top, sides.top + sides.height)
                         .slice(2, sides.left, sides.left + sides.width)
                         .contiguous();
  const bool enlarge = options.output_size == OutputSize::Original &&
                       (height != sides.height || width != sides.width);
  if (enlarge) image = at::upsample_bilinear2d(image.unsqueeze(0), {height, width}, false)[0];
  image = image.clamp(-1, 1);
  at::Tensor x = image[0], y = image[1], z = image[2];
  if (options.renormalize) {
    const at::Tensor length = at::clamp_min(at::sqrt(x * x + y * y + z * z), 1e-6);
    x = x / length;
    y = y / length;
    z = z / length;
  }
  if (options.flip_x) x = -x;
  if (options.flip_y) y = -y;
  if (options.flip_z) z = -z;
  const at::Tensor packed = at::stack({x, y, z}, 2);
  if (options.output_format == SampleFormat::F32) return packed;
  if (options.output_format == SampleFormat::U8)
    return at::floor(255 * (packed * 0.5 + 0.5) + 0.5).to(at::kByte);
  return at::floor(65535 * (packed * 0.5 + 0.5) + 0.5).to(at::kUInt16);
}

}  // namespace

at::Tensor offline_predictions(Stages& stages, const std::vector<at::Tensor>& frames,
                               const SessionOptions& options) {
  const c10::InferenceMode inference;
  const auto count = static_cast<std::int64_t>(frames.size());
  const Plan plan = plan_windows(count, options);
  const Sides sides = sides_of(frames[0].size(0), frames[0].size(1), stages, options);
  const at::Tensor clip = networks_input(frames, sides);
  stages.load(kCheckpoint, {});
  at::Tensor embeddings, latents;
  {
    const auto scope = stages.enter(Stage::Clip, kCheckpoint);
    embeddings = in_batches(clip, plan, options.window_size, options.clip_chunk_size,
                            [&](const at::Tensor& batch) {
                              return stages.embed(batch, options.clip_resize, kCheckpoint);
                            });
  }
  {
    const auto scope = stages.enter(Stage::Encode, kCheckpoint);
    latents =
        in_batches(clip, plan, options.window_size, options.vae_encode_chunk_size,
                   [&](const at::Tensor& batch) { return stages.encode(batch, kCheckpoint); });
  }
  const auto scope = stages.enter(Stage::Unet, kCheckpoint);
  return predicted(stages, latents, embeddings, plan, options.window_size).slice(0, 0, count);
}

std::vector<at::Tensor> offline_decoded(Stages& stages, const at::Tensor& predictions,
                                        std::int64_t height, std::int64_t width,
                                        const SessionOptions& options) {
  const c10::InferenceMode inference;
  const Sides sides = sides_of(height, width, stages, options);
  const auto scope = stages.enter(Stage::Decode, kCheckpoint);
  std::vector<at::Tensor> normals;
  for (std::int64_t first = 0; first < predictions.size(0);
       first += options.vae_decode_chunk_size) {
    const at::Tensor vectors = stages.decode(
        predictions.slice(0, first, first + options.vae_decode_chunk_size).clone(), kCheckpoint);
    for (std::int64_t i = 0; i < vectors.size(0); ++i)
      normals.push_back(finished(vectors[i].cpu(), sides, height, width, options));
  }
  return normals;
}

std::vector<at::Tensor> offline_normals(Stages& stages, const std::vector<at::Tensor>& frames,
                                        const SessionOptions& options) {
  return offline_decoded(stages, offline_predictions(stages, frames, options), frames[0].size(0),
                         frames[0].size(1), options);
}

}  // namespace normalcrafter::test
