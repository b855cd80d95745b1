// Arithmetic in place of the networks: microseconds a call, and sensitive to all that a session
// could get wrong: order, batches, neighbours, positions, seeds, contexts and chunks.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>

#include "stream/stages.h"

namespace normalcrafter::test {

class StandInStages final : public Stages {
 public:
  explicit StandInStages(int padding_multiple = 1) : multiple_(padding_multiple) {}

  /// Called in each network with its stage and the number of calls of that stage before.
  std::function<void(Stage, int, const Checkpoint&)> on_call;
  /// May change a network's result.
  std::function<void(Stage, int, at::Tensor&)> on_result;

  // What happened.
  std::array<int, kStageCount> entered = {};
  std::array<int, kStageCount> left = {};
  std::array<int, kStageCount> calls = {};
  int loads = 0;
  int offloads = 0;             ///< calls of offload() without a resident user
  std::atomic<int> staged = 0;  ///< users
  std::atomic<int> resident = 0;
  int open_scopes() const {
    int open = 0;
    for (int i = 0; i < kStageCount; ++i) open += entered[i] - left[i];
    return open;
  }

  int padding_multiple() const override { return multiple_; }

  void load(const Checkpoint& checkpoint,
            const std::function<void(std::uint64_t, std::uint64_t)>& progress) override {
    before(Stage::Load, checkpoint);
    ++loads;
    if (progress) progress(10, 10);
  }

  std::shared_ptr<void> join(OffloadMode mode) override {
    std::atomic<int>& users = mode == OffloadMode::Staged ? staged : resident;
    ++users;
    return {&users, [](std::atomic<int>* count) { --*count; }};
  }

  std::shared_ptr<void> enter(Stage stage, const Checkpoint& checkpoint) override {
    checkpoint.check();
    if (open_scopes() != 0) throw std::logic_error("two scopes open");
    ++entered[static_cast<int>(stage)];
    return {&left[static_cast<int>(stage)], [](int* count) { ++*count; }};
  }

  void offload() noexcept override {
    if (resident == 0) ++offloads;
  }

  at::Tensor embed(const at::Tensor& frames, ClipResize resize,
                   const Checkpoint& checkpoint) override {
    const int call = before(Stage::Clip, checkpoint);
    const std::int64_t n = frames.size(0), size = frames.numel() / n;
    const float* x = frames.const_data_ptr<float>();
    const auto sum = [&](std::int64_t i) {
      float total = 0;
      if (i < 0 || i >= n) return total;
      for (std::int64_t k = 0; k < size; ++k) total += x[i * size + k] * float(k % 7 + 1);
      return total / float(size);
    };
    at::Tensor result = at::empty({n, 1, 2}, at::kFloat);
    float* y = result.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i) {
      y[2 * i] = squash(sum(i) + 0.3F * sum(i - 1) + 0.1F * float(i) + 0.01F * float(n));
      y[2 * i + 1] =
          squash(sum(i) - 0.7F * sum(i + 1) + (resize == ClipResize::Original ? 0.5F : 0.0F));
    }
    return after(Stage::Clip, call, result);
  }

  at::Tensor encode(const at::Tensor& frames, const Checkpoint& checkpoint) override {
    const int call = before(Stage::Encode, checkpoint);
    const std::int64_t n = frames.size(0), area = frames.size(2) * frames.size(3);
    const float* x = frames.const_data_ptr<float>();
    at::Tensor result = at::empty({n, 2, frames.size(2), frames.size(3)}, at::kFloat);
    float* y = result.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t p = 0; p < area; ++p) {
        const float* rgb = x + 3 * i * area + p;
        const float ahead = i > 0 ? rgb[-3 * area] : 0.0F;
        const float behind = i + 1 < n ? rgb[4 * area] : 0.0F;
        y[2 * i * area + p] =
            squash(rgb[0] + 2 * rgb[area] - rgb[2 * area] + 0.4F * ahead + 0.2F * float(i));
        y[(2 * i + 1) * area + p] =
            squash(rgb[2 * area] - rgb[0] + 0.3F * behind + 0.05F * float(n));
      }
    }
    return after(Stage::Encode, call, result);
  }

  at::Tensor predict(const at::Tensor& normals, const at::Tensor& latents,
                     const at::Tensor& embeddings, const Checkpoint& checkpoint) override {
    const int call = before(Stage::Unet, checkpoint);
    const std::int64_t t = latents.size(0), size = latents.numel() / t, area = size / 2;
    const float* z = normals.const_data_ptr<float>();
    const float* l = latents.const_data_ptr<float>();
    const float* e = embeddings.const_data_ptr<float>();
    float mean = 0;
    for (std::int64_t k = 0; k < t * size; ++k) mean += l[k] / float(t * size);
    at::Tensor result = at::empty_like(latents);
    float* y = result.mutable_data_ptr<float>();
    for (std::int64_t k = 0; k < t * size; ++k) {
      const std::int64_t i = k / size, c = k % size / area;
      float v = 0.5F * z[k] + l[k] + e[2 * i + c] + 0.5F * e[1 - c] + mean + 0.1F * float(i);
      if (i > 0) v += 0.2F * z[k - size] + 0.25F * l[k - size];
      if (i + 1 < t) v -= 0.3F * z[k + size] + 0.35F * l[k + size];
      y[k] = squash(v);
    }
    return after(Stage::Unet, call, result);
  }

  at::Tensor decode(const at::Tensor& latents, const Checkpoint& checkpoint) override {
    const int call = before(Stage::Decode, checkpoint);
    const std::int64_t n = latents.size(0), area = latents.size(2) * latents.size(3);
    const float* l = latents.const_data_ptr<float>();
    float mean = 0;
    for (std::int64_t k = 0; k < 2 * n * area; ++k) mean += l[k] / float(2 * n * area);
    at::Tensor result = at::empty({n, 3, latents.size(2), latents.size(3)}, at::kFloat);
    float* y = result.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t p = 0; p < area; ++p) {
        const float* at = l + 2 * i * area + p;
        const float a = at[0] + (i > 0 ? 0.3F * at[-2 * area] : 0.0F) + 0.05F * float(i);
        const float b = at[area] - (i + 1 < n ? 0.2F * at[3 * area] : 0.0F) + 0.01F * float(n);
        float* xyz = y + 3 * i * area + p;
        xyz[0] = a + 0.1F * mean;
        xyz[area] = b - 0.3F * a;
        xyz[2 * area] = 0.5F - a * b + 0.2F * mean;
      }
    }
    return after(Stage::Decode, call, result);
  }

 private:
  static float squash(float x) { return x / (1 + std::fabs(x)); }

  int before(Stage stage, const Checkpoint& checkpoint) {
    const int index = static_cast<int>(stage);
    if (stage != Stage::Load && entered[index] == left[index])
      throw std::logic_error("a network called outside its scope");
    if (!c10::InferenceMode::is_enabled()) throw std::logic_error("not in inference mode");
    const int call = calls[index]++;
    if (on_call) on_call(stage, call, checkpoint);
    checkpoint.check();
    return call;
  }
  at::Tensor after(Stage stage, int call, at::Tensor& result) {
    if (on_result) on_result(stage, call, result);
    return result;
  }

  int multiple_;
};

}  // namespace normalcrafter::test
