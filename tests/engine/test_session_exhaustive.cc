// Every clip length, window, step and decode chunk against the offline result, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "offline.h"
#include "stand_in_stages.h"
#include "stream/stream_session.h"

namespace normalcrafter::test {
namespace {

constexpr int kMostFrames = 60;

std::vector<at::Tensor> pixels() {
  std::vector<at::Tensor> frames;
  unsigned state = 12345;
  for (int i = 0; i < kMostFrames; ++i) {
    at::Tensor frame = at::empty({1, 1, 3}, at::kByte);
    for (int c = 0; c < 3; ++c) {
      state = state * 1664525U + 1013904223U;
      frame.mutable_data_ptr<std::uint8_t>()[c] = static_cast<std::uint8_t>(state >> 24);
    }
    frames.push_back(frame);
  }
  return frames;
}

FrameView view_of(const at::Tensor& frame) {
  return {{1, 1}, frame.const_data_ptr(), 3, SampleFormat::U8};
}

std::string describe(int frames, const SessionOptions& o) {
  return std::to_string(frames) + " frames, window " + std::to_string(o.window_size) + ", step " +
         std::to_string(o.step_size) + ", decode chunk " + std::to_string(o.vae_decode_chunk_size) +
         ", " + std::to_string(o.windows_per_pass) + " windows a pass";
}

// "" or which bound is broken.
std::string over_bound(const LiveCounts& live, const SessionOptions& o) {
  const int bound = o.window_size + o.windows_per_pass * o.step_size;
  if (live.frames > bound) return "frames";
  if (live.embeddings > bound) return "embeddings";
  if (live.latents > bound) return "latents";
  if (live.normals > bound + o.vae_decode_chunk_size) return "normals";
  return "";
}

// Streams the clip and gives all samples in the order of delivery.
std::vector<float> streamed(StandInStages& stages, const std::vector<at::Tensor>& clip,
                            const SessionOptions& options) {
  std::vector<float> samples;
  std::uint64_t next = 0;
  SessionCallbacks callbacks;
  callbacks.frame = [&](const NormalView& view) {
    EXPECT_EQ(view.index, next++);
    EXPECT_EQ(stages.open_scopes(), 0);
    const auto* data = static_cast<const float*>(view.data);
    samples.insert(samples.end(), data, data + 3);
  };
  const auto session = make_stream_session({std::shared_ptr<void>(), &stages}, options, callbacks);
  for (const at::Tensor& frame : clip) {
    session->push(view_of(frame));
    EXPECT_EQ(over_bound(session->stats().live, options), "");
  }
  session->finish();
  EXPECT_EQ(over_bound(session->stats().peak, options), "");
  return samples;
}

std::vector<float> concatenated(const std::vector<at::Tensor>& normals) {
  std::vector<float> samples;
  for (const at::Tensor& normal : normals) {
    const auto* data = normal.const_data_ptr<float>();
    samples.insert(samples.end(), data, data + 3);
  }
  return samples;
}

bool bit_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class EveryClip : public testing::TestWithParam<std::tuple<TailMode, int>> {};

TEST_P(EveryClip, StreamsBitEqualToOfflineWithinBounds) {
  const std::vector<at::Tensor> all = pixels();
  SessionOptions options;
  std::tie(options.tail_mode, options.window_size) = GetParam();
  options.output_format = SampleFormat::F32;
  options.renormalize = false;
  options.threads = 1;
  StandInStages stages;
  for (options.step_size = 1; options.step_size <= options.window_size; ++options.step_size) {
    options.clip_chunk_size = 1 + (3 * options.step_size + options.window_size) % 16;
    options.vae_encode_chunk_size = 1 + (5 * options.step_size + options.window_size) % 7;
    for (int frames = 1; frames <= kMostFrames; ++frames) {
      const std::vector<at::Tensor> clip(all.begin(), all.begin() + frames);
      const at::Tensor predictions = offline_predictions(stages, clip, options);
      for (int chunk = 1; chunk <= 5; ++chunk) {
        options.vae_decode_chunk_size = chunk;
        // One of 1, 2, 3 and 7, in turn, so that each meets each of the other choices' values.
        options.windows_per_pass = std::array{1, 2, 3, 7}[(frames + chunk) % 4];
        const auto expected = concatenated(offline_decoded(stages, predictions, 1, 1, options));
        ASSERT_TRUE(bit_equal(streamed(stages, clip, options), expected))
            << describe(frames, options);
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<TailMode, int>>& info) {
  const auto [tail, window] = info.param;
  return (tail == TailMode::Anchored ? "AnchoredWindow" : "RepeatWindow") + std::to_string(window);
}

INSTANTIATE_TEST_SUITE_P(Sessions, EveryClip,
                         testing::Combine(testing::Values(TailMode::Anchored, TailMode::Repeat),
                                          testing::Range(2, 15)),
                         name_of);

}  // namespace
}  // namespace normalcrafter::test
