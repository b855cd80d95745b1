// What a session promises beside its arithmetic, and the arithmetic of frames in odd sizes.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <thread>

#include "normalcrafter/error.h"
#include "offline.h"
#include "stand_in_stages.h"
#include "stream/frame_tensors.h"
#include "stream/physical_cores.h"
#include "stream/stream_session.h"

// Read by AddressSanitizer: a test asks for more memory than there is and expects to be refused.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace normalcrafter::test {
namespace {

using Clip = std::vector<at::Tensor>;

constexpr Stage kNetworks[] = {Stage::Clip, Stage::Encode, Stage::Unet, Stage::Decode};

Clip random_clip(int frames, int height, int width, unsigned seed, bool wide = false) {
  std::mt19937 random(seed);
  Clip clip;
  for (int i = 0; i < frames; ++i) {
    at::Tensor frame = at::empty({height, width, 3}, wide ? at::kUInt16 : at::kByte);
    auto* bytes = static_cast<std::uint8_t*>(frame.mutable_data_ptr());
    for (std::size_t k = 0; k < frame.nbytes(); ++k) bytes[k] = static_cast<std::uint8_t>(random());
    clip.push_back(frame);
  }
  return clip;
}

FrameView view_of(const at::Tensor& frame) {
  const bool wide = frame.scalar_type() == at::kUInt16;
  const auto width = static_cast<int>(frame.size(1));
  return {{width, static_cast<int>(frame.size(0))},
          frame.const_data_ptr(),
          3 * width * (wide ? 2 : 1),
          wide ? SampleFormat::U16 : SampleFormat::U8};
}

// A session over stand-ins that keeps what it delivers.
struct Fixture {
  explicit Fixture(const SessionOptions& options = {}, int multiple = 1)
      : stages(std::make_shared<StandInStages>(multiple)), options(options) {
    SessionCallbacks callbacks;
    callbacks.frame = [this](const NormalView& view) {
      if (on_frame) on_frame(view);
      EXPECT_EQ(stages->open_scopes(), 0) << "a frame delivered while a network was held";
      EXPECT_EQ(view.index, delivered.size());
      const auto* data = static_cast<const char*>(view.data);
      delivered.emplace_back(data, data + view.row_stride * view.size.height);
      size = view.size;
    };
    callbacks.progress = [this](const Progress& progress) { progresses.push_back(progress); };
    session = make_stream_session(stages, options, callbacks);
  }
  void push(const Clip& clip) {
    for (const at::Tensor& frame : clip) session->push(view_of(frame));
  }
  /// The clip's frames, as bytes.
  std::vector<std::string> run(const Clip& clip) {
    delivered.clear();
    push(clip);
    session->finish();
    return delivered;
  }

  std::shared_ptr<StandInStages> stages;
  SessionOptions options;
  std::vector<std::string> delivered;
  Size size;
  std::vector<Progress> progresses;
  std::function<void(const NormalView&)> on_frame;
  std::unique_ptr<Session> session;
};

std::vector<std::string> offline_bytes(const Clip& clip, const SessionOptions& options,
                                       int multiple = 1) {
  StandInStages stages(multiple);
  std::vector<std::string> all;
  for (const at::Tensor& normal : offline_normals(stages, clip, options)) {
    const at::Tensor packed = normal.contiguous();
    all.emplace_back(static_cast<const char*>(packed.const_data_ptr()), packed.nbytes());
  }
  return all;
}

// The Error that `call` throws.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
  }
  return {ErrorCode::NotFound, "no error"};
}

void expect_error(const Error& error, ErrorCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(error.code(), code) << error.what();
  for (const std::string& word : words)
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
        << "'" << error.what() << "' lacks '" << word << "'";
}

SessionOptions small_options() {
  SessionOptions options;
  options.window_size = 4;
  options.step_size = 3;
  options.vae_decode_chunk_size = 2;
  options.output_format = SampleFormat::F32;
  return options;
}

TEST(StandIns, AreSensitiveToEveryInputOfEachNetwork) {
  const c10::InferenceMode inference;
  const std::atomic<bool> never = false;
  const Checkpoint checkpoint(never);
  StandInStages stages;
  const auto changed_by = [](const at::Tensor& input, const auto& network) {
    const at::Tensor original = network(input);
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      const at::Tensor moved = input.clone();
      moved.view(-1)[i] += 0.25;
      EXPECT_FALSE(network(moved).equal(original)) << "element " << i;
    }
  };
  const at::Tensor frames = at::rand({3, 3, 1, 2}), embeddings = at::rand({3, 1, 2});
  const at::Tensor latents = at::rand({3, 2, 1, 2}), normals = at::rand({3, 2, 1, 2});
  auto scope = stages.enter(Stage::Clip, checkpoint);
  changed_by(frames,
             [&](const at::Tensor& x) { return stages.embed(x, ClipResize::Seed, checkpoint); });
  scope.reset();
  scope = stages.enter(Stage::Encode, checkpoint);
  changed_by(frames, [&](const at::Tensor& x) { return stages.encode(x, checkpoint); });
  scope.reset();
  scope = stages.enter(Stage::Unet, checkpoint);
  const auto unet = [&](const at::Tensor& z, const at::Tensor& l, const at::Tensor& e) {
    return stages.predict(z, l, e, checkpoint);
  };
  changed_by(normals, [&](const at::Tensor& x) { return unet(x, latents, embeddings); });
  changed_by(latents, [&](const at::Tensor& x) { return unet(normals, x, embeddings); });
  changed_by(embeddings, [&](const at::Tensor& x) { return unet(normals, latents, x); });
  scope.reset();
  scope = stages.enter(Stage::Decode, checkpoint);
  changed_by(latents, [&](const at::Tensor& x) { return stages.decode(x, checkpoint); });
}

TEST(Session, EqualsOfflineForOddSizesFormatsAndOptions) {
  const Size sizes[] = {{1, 1}, {7, 5}, {33, 17}, {9, 40}, {1, 23}, {24, 1}, {16, 16}};
  int variant = 0;
  for (const Size size : sizes) {
    for (const int limit : {1000, 20, 7}) {
      for (const SampleFormat format : {SampleFormat::U8, SampleFormat::U16, SampleFormat::F32}) {
        SessionOptions options = small_options();
        ++variant;
        options.output_format = format;
        options.max_resolution = limit;
        options.output_size = variant % 2 == 0 ? OutputSize::Processed : OutputSize::Original;
        options.renormalize = variant % 5 != 0;
        options.flip_x = variant % 3 == 0;
        options.flip_y = variant % 4 == 0;
        options.flip_z = variant % 7 == 0;
        options.clip_resize = variant % 2 == 0 ? ClipResize::Original : ClipResize::Seed;
        const Clip clip = random_clip(6, size.height, size.width, variant, variant % 4 == 1);
        Fixture fixture(options, 8);
        EXPECT_EQ(fixture.run(clip), offline_bytes(clip, options, 8))
            << size.width << "x" << size.height << " limit " << limit << " variant " << variant;
        const Size expected =
            options.output_size == OutputSize::Original ? size : processed_size(size, limit);
        EXPECT_EQ(fixture.size, expected);
      }
    }
  }
}

TEST(Session, ReadsRowsWithPaddingBetweenThem) {
  const SessionOptions options = small_options();
  const Clip clip = random_clip(5, 3, 5, 1);
  Fixture fixture(options);
  for (const at::Tensor& frame : clip) {
    std::vector<std::uint8_t> strided(3 * 31, 0xAB);
    for (int y = 0; y < 3; ++y) std::memcpy(&strided[y * 31], frame[y].const_data_ptr(), 15);
    fixture.session->push({{5, 3}, strided.data(), 31, SampleFormat::U8});
  }
  fixture.session->finish();
  EXPECT_EQ(fixture.delivered, offline_bytes(clip, options));
}

// PyTorch's antialiased cubic in double: coefficient -0.5, support widened, weights renormalised.
std::vector<double> cubic_weights(int target, int targets, int sources) {
  const double scale = double(sources) / targets, widen = std::max(scale, 1.0);
  std::vector<double> weights(sources, 0.0);
  double total = 0;
  for (int i = 0; i < sources; ++i) {
    const double x = std::fabs((i + 0.5 - scale * (target + 0.5)) / widen), a = -0.5;
    if (x < 1)
      weights[i] = ((a + 2) * x - (a + 3)) * x * x + 1;
    else if (x < 2)
      weights[i] = a * (((x - 5) * x + 8) * x - 4);
    total += weights[i];
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

TEST(FrameTensors, ResizeByThePlainFormula) {
  const Size sizes[] = {{13, 9}, {8, 31}, {1, 40}, {2, 40}, {17, 1}};
  for (const Size size : sizes) {
    const at::Tensor frame = random_clip(1, size.height, size.width, 3)[0];
    const FrameGeometry g = frame_geometry(size, 7, 1, OutputSize::Original);
    const at::Tensor resized = read_picture(view_of(frame), g);
    ASSERT_EQ(resized.sizes(), (at::IntArrayRef{3, g.processed.height, g.processed.width}));
    const auto* source = frame.const_data_ptr<std::uint8_t>();
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < g.processed.height; ++y)
        for (int x = 0; x < g.processed.width; ++x) {
          const auto down = cubic_weights(y, g.processed.height, size.height);
          const auto across = cubic_weights(x, g.processed.width, size.width);
          double sum = 0;
          for (int v = 0; v < size.height; ++v)
            for (int u = 0; u < size.width; ++u)
              sum += down[v] * across[u] * source[(v * size.width + u) * 3 + c] / 255.0;
          EXPECT_NEAR(resized[c][y][x].item<float>(), std::clamp(sum, 0.0, 1.0), 2e-6);
        }
  }
}

TEST(FrameTensors, PadWithWhiteAroundTheMiddle) {
  const at::Tensor frame = at::zeros({3, 2, 3}, at::kByte);
  const FrameGeometry g = frame_geometry({2, 3}, 100, 8, OutputSize::Original);
  const at::Tensor batch = padded_batch({read_picture(view_of(frame), g)}, g);
  ASSERT_EQ(batch.sizes(), (at::IntArrayRef{1, 3, 8, 8}));
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) {
      const bool inside = y >= 2 && y < 5 && x >= 3 && x < 5;
      EXPECT_EQ(batch[0][1][y][x].item<float>(), inside ? 0.0F : 1.0F) << y << "," << x;
    }
}

// Bilinear without aligned corners, in double.
double bilinear(const at::Tensor& plane, int y, int x, Size from, Size to) {
  const auto place = [](int target, int sources, int targets) {
    return std::max(0.0, (target + 0.5) * sources / targets - 0.5);
  };
  const double v = place(y, from.height, to.height), u = place(x, from.width, to.width);
  const int top = int(v), left = int(u);
  const int bottom = std::min(top + 1, from.height - 1), right = std::min(left + 1, from.width - 1);
  const auto at = [&](int row, int column) { return plane[row][column].item<double>(); };
  const double above = at(top, left) * (1 - (u - left)) + at(top, right) * (u - left);
  const double below = at(bottom, left) * (1 - (u - left)) + at(bottom, right) * (u - left);
  return above * (1 - (v - top)) + below * (v - top);
}

TEST(FrameTensors, FinishNormalsByThePlainFormula) {
  SessionOptions options;
  options.output_format = SampleFormat::U8;
  options.flip_y = true;
  const FrameGeometry g = frame_geometry({13, 9}, 7, 8, OutputSize::Original);
  const at::Tensor vectors = at::randn({2, 3, g.padded.height, g.padded.width}) * 0.8;
  const at::Tensor finished = finish_normals(vectors, g, options);
  ASSERT_EQ(finished.sizes(), (at::IntArrayRef{2, 9, 13, 3}));
  for (int y = 0; y < 9; ++y)
    for (int x = 0; x < 13; ++x) {
      double n[3], squares = 0;
      for (int c = 0; c < 3; ++c) {
        const at::Tensor plane =
            vectors[1][c].narrow(0, g.top, g.processed.height).narrow(1, g.left, g.processed.width);
        n[c] = std::clamp(bilinear(plane, y, x, g.processed, g.output), -1.0, 1.0);
        squares += n[c] * n[c];
      }
      n[1] = -n[1];
      for (int c = 0; c < 3; ++c) {
        const double value = n[c] / std::max(std::sqrt(squares), 1e-6) * 0.5 + 0.5;
        // Rounded to nearest; a tie may fall either way in float.
        EXPECT_NEAR(finished[1][y][x][c].item<int>(), 255 * value, 0.5 + 1e-3);
      }
    }
}

TEST(FrameTensors, QuantiseTheEndsExactlyAndNeverDivideByZero) {
  SessionOptions options;
  const FrameGeometry g = frame_geometry({4, 1}, 100, 1, OutputSize::Original);
  const at::Tensor vectors =
      at::tensor({1.0F, -1.0F, 0.0F, 3.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F})
          .view({1, 3, 1, 4});
  for (const bool renormalize : {false, true}) {
    options.renormalize = renormalize;
    options.output_format = SampleFormat::U8;
    const at::Tensor bytes = finish_normals(vectors, g, options).select(3, 0).flatten();
    EXPECT_TRUE(bytes.equal(at::tensor({255, 0, 128, 255}, at::kByte))) << bytes;
    options.output_format = SampleFormat::U16;
    const at::Tensor words = finish_normals(vectors, g, options).select(3, 0).flatten();
    EXPECT_TRUE(words.to(at::kInt).equal(at::tensor({65535, 0, 32768, 65535}, at::kInt)));
  }
}

TEST(Crossfade, GoesLinearlyFromTheEarlierToTheLater) {
  const at::Tensor earlier = at::ones({3, 1, 1, 1}), later = at::zeros({3, 1, 1, 1});
  EXPECT_TRUE(crossfade(earlier, later).flatten().equal(at::tensor({0.75F, 0.5F, 0.25F})));
  EXPECT_EQ(crossfade(earlier.to(at::kBFloat16), later.to(at::kBFloat16)).scalar_type(),
            at::kBFloat16);
}

TEST(Session, DeliversWhatARoundSettlesAtOnce) {
  SessionOptions options;
  const Clip clip = random_clip(34, 1, 1, 2);
  for (const TailMode tail : {TailMode::Anchored, TailMode::Repeat}) {
    options.tail_mode = tail;
    Fixture fixture(options);
    const bool anchored = tail == TailMode::Anchored;
    for (int n = 1; n <= 34; ++n) {
      fixture.session->push(view_of(clip[n - 1]));
      // Settled 1, 11, 21 or 10, 20, 30 frames, in decode chunks of 4.
      const std::size_t expected = n < 14   ? 0
                                   : n < 24 ? (anchored ? 0 : 8)
                                   : n < 34 ? (anchored ? 8 : 20)
                                            : (anchored ? 20 : 28);
      EXPECT_EQ(fixture.delivered.size(), expected) << n;
    }
    fixture.session->finish();
    EXPECT_EQ(fixture.delivered.size(), 34U);
  }
}

TEST(Session, TakesSeveralWindowsThroughEachNetworkInOneVisit) {
  SessionOptions options = small_options();
  options.windows_per_pass = 3;
  Fixture fixture(options);
  fixture.push(random_clip(10, 1, 1, 1));  // windows 0-3, 3-6, 6-9
  const std::array<int, kStageCount> once = {0, 1, 1, 1, 1};
  EXPECT_EQ(fixture.stages->entered, once);
  EXPECT_EQ(fixture.stages->calls[int(Stage::Unet)], 3);
  EXPECT_EQ(fixture.session->stats().windows, 3U);
}

TEST(Session, ShowsTheLastFrameToTheEncodersOnceHoweverOftenItIsRepeated) {
  for (const TailMode tail : {TailMode::Anchored, TailMode::Repeat}) {
    SessionOptions options = small_options();  // windows of 4
    options.tail_mode = tail;
    Fixture fixture(options);
    std::array<std::int64_t, kStageCount> frames = {};
    fixture.stages->on_result = [&](Stage stage, int, at::Tensor& result) {
      frames[int(stage)] += result.size(0);
    };
    fixture.run(random_clip(1, 1, 1, 1));
    const std::array<std::int64_t, kStageCount> expected = {0, 1, 1, 4, 1};
    EXPECT_EQ(frames, expected);
  }
}

TEST(Session, TreatsEachOfTwoClipsAsIfAlone) {
  const SessionOptions options = small_options();
  const Clip first = random_clip(9, 2, 3, 1), second = random_clip(6, 4, 1, 2);
  Fixture fixture(options);
  EXPECT_EQ(fixture.run(first), offline_bytes(first, options));
  EXPECT_EQ(fixture.run(second), offline_bytes(second, options));
}

TEST(Session, IsUnaffectedByAClipForgottenByReset) {
  const SessionOptions options = small_options();
  const Clip clip = random_clip(9, 2, 3, 1);
  Fixture fixture(options);
  fixture.push(random_clip(8, 5, 5, 7));
  fixture.session->reset();
  const LiveCounts live = fixture.session->stats().live;
  EXPECT_EQ(live.frames + live.embeddings + live.latents + live.normals, 0);
  EXPECT_EQ(fixture.run(clip), offline_bytes(clip, options));
}

TEST(Session, FinishesWithoutFramesByDoingNothing) {
  Fixture fixture;
  fixture.session->finish();
  EXPECT_EQ(fixture.stages->loads, 0);
  EXPECT_EQ(fixture.stages->offloads, 0);
  fixture.run(random_clip(3, 1, 1, 1));
  fixture.session->finish();
  EXPECT_EQ(fixture.delivered.size(), 3U);
}

TEST(Session, HoldsNoMoreForALongClipThanForAShortOne) {
  const SessionOptions options = small_options();
  const auto peak_of = [&](int frames) {
    Fixture fixture(options);
    fixture.run(random_clip(frames, 1, 1, 1));
    const SessionStats stats = fixture.session->stats();
    EXPECT_EQ(stats.frames_in, static_cast<std::uint64_t>(frames));
    EXPECT_EQ(stats.frames_out, static_cast<std::uint64_t>(frames));
    return std::array{stats.peak.frames, stats.peak.embeddings, stats.peak.latents,
                      stats.peak.normals};
  };
  EXPECT_EQ(peak_of(40), peak_of(1000));
}

TEST(Session, ReportsEveryStagesProgressToItsEnd) {
  Fixture fixture(small_options());
  fixture.push(random_clip(4, 1, 1, 1));
  const auto last_of = [&](Stage stage) {
    Progress last;
    for (const Progress& progress : fixture.progresses) {
      if (progress.stage != stage) continue;
      if (last.stage == stage) {
        EXPECT_GE(progress.done, last.done);
      }
      last = progress;
    }
    EXPECT_EQ(last.stage, stage);
    return last;
  };
  EXPECT_EQ(last_of(Stage::Load).done, 10U);
  for (const Stage stage : {Stage::Clip, Stage::Encode, Stage::Unet}) {
    EXPECT_EQ(last_of(stage).done, 4U) << stage_name(stage);
    EXPECT_EQ(last_of(stage).total, 4U) << stage_name(stage);
  }
  fixture.session->finish();
  EXPECT_EQ(last_of(Stage::Decode).done, 4U);
  EXPECT_EQ(last_of(Stage::Decode).total, 4U);
  for (int stage = 1; stage < kStageCount; ++stage)
    EXPECT_GT(fixture.session->stats().stage_seconds[stage], 0.0);
}

TEST(Session, LoadsOnceWhetherPreparedOrNot) {
  Fixture prepared, plain;
  prepared.session->prepare();
  EXPECT_EQ(prepared.stages->loads, 1);
  for (Fixture* fixture : {&prepared, &plain}) {
    fixture->run(random_clip(3, 1, 1, 1));
    fixture->run(random_clip(3, 1, 1, 1));
    EXPECT_EQ(fixture->stages->loads, 1);
  }
}

TEST(Session, NamesStageWindowAndFramesOfNonFiniteValues) {
  // Window 2 of 4 frames every 3 is frames 6-9; its fresh frames are 7-9, and it settles frame 6.
  const struct {
    Stage stage;
    int call;
    std::vector<std::string> words;
  } cases[] = {
      {Stage::Clip, 2, {"clip produced non-finite values", "window 2", "frames 7-9", "float32"}},
      {Stage::Encode, 2, {"encode produced", "window 2", "frames 7-9"}},
      {Stage::Unet, 2, {"unet produced", "window 2", "frames 6-9"}},
      {Stage::Decode, 2, {"decode produced", "frames 4-5"}},
  };
  for (const auto& c : cases) {
    for (const float poison :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      Fixture fixture(small_options());
      fixture.stages->on_result = [&](Stage stage, int call, at::Tensor& result) {
        if (stage == c.stage && call == c.call) result.view(-1)[result.numel() / 2] = poison;
      };
      const Error error = error_of([&] { fixture.run(random_clip(12, 1, 2, 1)); });
      expect_error(error, ErrorCode::NonFinite, c.words);
      EXPECT_EQ(fixture.stages->open_scopes(), 0);
    }
  }
}

TEST(Session, NamesOnlyFramesTheClipHasWhenAWindowIsPadded) {
  Fixture fixture(small_options());
  fixture.stages->on_result = [](Stage stage, int, at::Tensor& result) {
    if (stage == Stage::Unet) result.fill_(std::numeric_limits<float>::quiet_NaN());
  };
  const Error error = error_of([&] { fixture.run(random_clip(1, 1, 1, 1)); });
  expect_error(error, ErrorCode::NonFinite, {"window 0 (frame 0)"});
}

TEST(Session, TurnsEveryFaultOfAStageIntoAnErrorWithAllScopesClosed) {
  const struct {
    std::function<void()> fault;
    ErrorCode code;
    const char* word;
  } cases[] = {
      {[] { throw std::bad_alloc(); }, ErrorCode::OutOfMemory, "lower"},
      {[] { TORCH_CHECK_WITH(OutOfMemoryError, false, "cuda"); }, ErrorCode::OutOfMemory, "lower"},
      {[] { at::empty({std::int64_t(1) << 46}, at::kByte); }, ErrorCode::OutOfMemory, "lower"},
      {[] { TORCH_CHECK(false, "shapes differ"); }, ErrorCode::NetworkFailed, "shapes differ"},
      {[] { throw std::runtime_error("odd"); }, ErrorCode::NetworkFailed, "odd"},
      {[] { throw Error(ErrorCode::OpenRead, "shrunk"); }, ErrorCode::OpenRead, "shrunk"},
  };
  const Clip clip = random_clip(9, 1, 2, 1);
  const SessionOptions options = small_options();
  for (const Stage stage : kNetworks) {
    for (const auto& c : cases) {
      Fixture fixture(options);
      fixture.stages->on_call = [&](Stage at, int call, const Checkpoint&) {
        if (at == stage && call >= 1) c.fault();  // also the half of a chunk that is tried
      };
      expect_error(error_of([&] { fixture.run(clip); }), c.code, {c.word});
      EXPECT_EQ(fixture.stages->open_scopes(), 0);
      EXPECT_EQ(fixture.stages->offloads, 1);
      EXPECT_EQ(fixture.session->stats().live.latents, 0);
      expect_error(error_of([&] { fixture.push(clip); }), ErrorCode::Settings, {"reset()"});
      fixture.session->reset();
      fixture.stages->on_call = nullptr;
      EXPECT_EQ(fixture.run(clip), offline_bytes(clip, options));
    }
  }
}

TEST(Session, HalvesAnEncodersChunkOnceWhenMemoryRunsOutAndSaysSo) {
  const Clip clip = random_clip(12, 2, 3, 1);
  const std::pair<Stage, const char*> cases[] = {{Stage::Clip, "clip-chunk-size is 2"},
                                                 {Stage::Encode, "vae-encode-chunk-size is 2"}};
  for (const auto& [stage, word] : cases) {
    SessionOptions options = small_options();
    options.clip_chunk_size = options.vae_encode_chunk_size = 4;
    std::vector<std::string> warnings;
    const auto stages = std::make_shared<StandInStages>();
    stages->on_call = [stage = stage](Stage at, int call, const Checkpoint&) {
      TORCH_CHECK_WITH(OutOfMemoryError, at != stage || call != 0, "Tried to allocate 1 GiB. ");
    };
    std::vector<std::string> delivered;
    SessionCallbacks callbacks;
    callbacks.frame = [&](const NormalView& view) {
      const auto* data = static_cast<const char*>(view.data);
      delivered.emplace_back(data, data + view.row_stride * view.size.height);
    };
    callbacks.log = [&](LogLevel level, const std::string& text) {
      if (level == LogLevel::Warning) warnings.push_back(text);
    };
    const auto session = make_stream_session(stages, options, callbacks);
    for (const at::Tensor& frame : clip) session->push(view_of(frame));
    session->finish();
    (stage == Stage::Clip ? options.clip_chunk_size : options.vae_encode_chunk_size) = 2;
    EXPECT_EQ(delivered, offline_bytes(clip, options));
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find(word), std::string::npos) << warnings[0];
  }
}

TEST(Session, ASecondLackOfMemoryIsTheError) {
  Fixture fixture(small_options());
  int tries = 0;
  fixture.stages->on_call = [&](Stage at, int, const Checkpoint&) {
    if (at != Stage::Encode) return;
    ++tries;
    throw std::bad_alloc();
  };
  expect_error(error_of([&] { fixture.run(random_clip(9, 1, 2, 1)); }), ErrorCode::OutOfMemory,
               {"encode", "vae-encode-chunk-size"});
  EXPECT_EQ(tries, fixture.options.vae_encode_chunk_size > 1 ? 2 : 1);
}

TEST(Session, SaysWhichStageRanOutOfMemoryAndWhatToLower) {
  const std::pair<Stage, const char*> cases[] = {{Stage::Load, "offload-mode"},
                                                 {Stage::Clip, "clip-chunk-size"},
                                                 {Stage::Encode, "vae-encode-chunk-size"},
                                                 {Stage::Unet, "max-resolution"},
                                                 {Stage::Decode, "vae-decode-chunk-size"}};
  for (const auto& [stage, advice] : cases) {
    Fixture fixture(small_options());
    fixture.stages->on_call = [stage = stage](Stage at, int, const Checkpoint&) {
      if (at == stage) throw std::bad_alloc();
    };
    expect_error(error_of([&] { fixture.run(random_clip(5, 1, 1, 1)); }), ErrorCode::OutOfMemory,
                 {stage_name(stage), advice});
  }
}

TEST(Session, PassesTheUsersOwnExceptionOnAndNeedsAReset) {
  struct Own {};
  const Clip clip = random_clip(9, 1, 1, 1);
  Fixture fixture(small_options());
  fixture.on_frame = [](const NormalView& view) {
    if (view.index == 3) throw Own();
  };
  EXPECT_THROW(fixture.run(clip), Own);
  EXPECT_EQ(fixture.delivered.size(), 3U);
  EXPECT_EQ(fixture.stages->offloads, 1);
  expect_error(error_of([&] { fixture.session->finish(); }), ErrorCode::Settings, {"reset()"});
  fixture.session->reset();
  fixture.on_frame = nullptr;
  EXPECT_EQ(fixture.run(clip), offline_bytes(clip, fixture.options));
}

TEST(Session, CallsTheUserOutsideInferenceMode) {
  Fixture fixture(small_options());
  fixture.on_frame = [](const NormalView&) { EXPECT_FALSE(c10::InferenceMode::is_enabled()); };
  fixture.run(random_clip(5, 1, 1, 1));
}

TEST(Session, StopsWithinANetworkWhenCancelledFromAnotherThread) {
  for (const Stage stage : {Stage::Load, Stage::Clip, Stage::Encode, Stage::Unet, Stage::Decode}) {
    Fixture fixture(small_options());
    std::atomic<bool> inside = false;
    fixture.stages->on_call = [&](Stage at, int, const Checkpoint& checkpoint) {
      if (at != stage) return;
      inside = true;
      while (true) checkpoint.check();  // a network that never ends by itself
    };
    std::thread other([&] {
      while (!inside) std::this_thread::yield();
      fixture.session->cancel();
    });
    const Clip clip = random_clip(5, 1, 1, 1);
    expect_error(error_of([&] { fixture.run(clip); }), ErrorCode::Cancelled, {});
    other.join();
    EXPECT_EQ(fixture.stages->open_scopes(), 0);
    expect_error(error_of([&] { fixture.session->prepare(); }), ErrorCode::Cancelled, {});
    fixture.session->reset();
    fixture.stages->on_call = nullptr;
    EXPECT_EQ(fixture.run(clip), offline_bytes(clip, fixture.options));
  }
}

TEST(Session, IsAsNewAfterACancelAtAnyMomentAndAReset) {
  const Clip clip = random_clip(30, 2, 2, 5);
  Fixture fixture(small_options());
  const std::vector<std::string> expected = offline_bytes(clip, fixture.options);
  std::mt19937 random(9);
  int cancelled = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> left = static_cast<int>(random() % 60);
    fixture.stages->on_call = [&](Stage, int, const Checkpoint&) {
      // Long enough for the other thread to wake up in the midst of the clip.
      if (--left <= 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    };
    std::atomic<bool> over = false;
    std::thread other([&] {
      while (left > 0 && !over) std::this_thread::yield();
      fixture.session->cancel();
    });
    try {
      fixture.run(clip);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Cancelled);
      ++cancelled;
    }
    over = true;
    other.join();
    EXPECT_EQ(fixture.stages->open_scopes(), 0);
    fixture.session->reset();
    if (round % 10 == 0) {
      EXPECT_EQ(fixture.run(clip), expected);
    }
  }
  EXPECT_GT(cancelled, 0);
}

TEST(Session, CanBeAskedForStatsWhileItRuns) {
  Fixture fixture(small_options());
  std::atomic<bool> over = false;
  std::thread other([&] {
    std::uint64_t last = 0;
    while (!over) {
      const SessionStats stats = fixture.session->stats();
      EXPECT_GE(stats.frames_out, last);
      EXPECT_LE(stats.frames_out, stats.frames_in);
      last = stats.frames_out;
    }
  });
  fixture.run(random_clip(300, 1, 1, 1));
  over = true;
  other.join();
}

TEST(Session, TakesPartInTheModelInItsOffloadModeWhileItLives) {
  const auto stages = std::make_shared<StandInStages>();
  SessionOptions options;
  SessionCallbacks callbacks;
  callbacks.frame = [](const NormalView&) {};
  auto staged = make_stream_session(stages, options, callbacks);
  options.offload_mode = OffloadMode::Resident;
  auto resident = make_stream_session(stages, options, callbacks);
  EXPECT_EQ(stages->staged, 1);
  EXPECT_EQ(stages->resident, 1);
  staged->offload();
  EXPECT_EQ(stages->offloads, 0) << "offloaded under a resident user";
  resident->offload();
  EXPECT_EQ(stages->offloads, 1) << "a resident user could not offload its own model";
  EXPECT_EQ(stages->resident, 1);
  resident.reset();
  staged.reset();
  EXPECT_EQ(stages->resident, 0);
  EXPECT_EQ(stages->staged, 0);
}

TEST(Session, OffloadsAfterAClipOnlyIfAsked) {
  for (const OffloadMode mode : {OffloadMode::Staged, OffloadMode::Resident}) {
    for (const bool after : {true, false}) {
      SessionOptions options = small_options();
      options.offload_mode = mode;
      options.offload_after = after;
      Fixture fixture(options);
      fixture.run(random_clip(5, 1, 1, 1));
      EXPECT_EQ(fixture.stages->offloads, after ? 1 : 0);
    }
  }
}

TEST(Session, KeepsAResidentModelThroughACancelIfAskedTo) {
  SessionOptions options = small_options();
  options.offload_mode = OffloadMode::Resident;
  options.offload_after = false;
  Fixture fixture(options);
  fixture.stages->on_call = [&](Stage stage, int, const Checkpoint&) {
    if (stage == Stage::Unet) fixture.session->cancel();
  };
  expect_error(error_of([&] { fixture.run(random_clip(5, 1, 1, 1)); }), ErrorCode::Cancelled, {});
  EXPECT_EQ(fixture.stages->offloads, 0);
}

TEST(Session, KeepsAResidentModelWhenTheUsersOwnCallbackFails) {
  SessionOptions options = small_options();
  options.offload_mode = OffloadMode::Resident;
  options.offload_after = false;
  Fixture fixture(options);
  fixture.on_frame = [](const NormalView&) { throw std::runtime_error("downstream flushes"); };
  EXPECT_THROW(fixture.run(random_clip(5, 1, 1, 1)), std::runtime_error);
  EXPECT_EQ(fixture.stages->offloads, 0);
}

TEST(Session, RefusesOptionsThatCannotWorkNamingOptionAndValue) {
  using Change = std::function<void(SessionOptions&)>;
  const std::pair<Change, std::vector<std::string>> cases[] = {
      {[](auto& o) { o.window_size = 0; }, {"window-size is 0"}},
      {[](auto& o) { o.step_size = 0; }, {"step-size is 0", "1 to 14"}},
      {[](auto& o) { o.step_size = 15; }, {"step-size is 15", "1 to 14"}},
      {[](auto& o) { o.clip_chunk_size = 0; }, {"clip-chunk-size is 0"}},
      {[](auto& o) { o.vae_encode_chunk_size = -1; }, {"vae-encode-chunk-size is -1"}},
      {[](auto& o) { o.vae_decode_chunk_size = 0; }, {"vae-decode-chunk-size is 0"}},
      {[](auto& o) { o.max_resolution = 0; }, {"max-resolution is 0"}},
      {[](auto& o) { o.windows_per_pass = 0; }, {"windows-per-pass is 0"}},
      {[](auto& o) { o.threads = -2; }, {"threads is -2"}},
  };
  for (const auto& [change, words] : cases) {
    SessionOptions options;
    change(options);
    expect_error(error_of([&] { Fixture fixture(options); }), ErrorCode::Settings, words);
  }
  expect_error(error_of([] { make_stream_session(std::make_shared<StandInStages>(), {}, {}); }),
               ErrorCode::Settings, {"frame callback"});
}

TEST(Session, RefusesFramesThatCannotBeRead) {
  const std::vector<std::uint8_t> data(300);
  const std::pair<FrameView, std::vector<std::string>> cases[] = {
      {{{0, 4}, data.data(), 12, SampleFormat::U8}, {"0x4"}},
      {{{4, -1}, data.data(), 12, SampleFormat::U8}, {"4x-1"}},
      {{{4, 4}, nullptr, 12, SampleFormat::U8}, {"without data"}},
      {{{4, 4}, data.data(), 11, SampleFormat::U8}, {"row_stride is 11", "12 bytes"}},
      {{{4, 4}, data.data(), 23, SampleFormat::U16}, {"row_stride is 23", "24 bytes"}},
      {{{4, 4}, data.data(), 48, SampleFormat::F32}, {"8-bit or 16-bit"}},
  };
  for (const auto& [view, words] : cases) {
    Fixture fixture;
    const FrameView& frame = view;
    expect_error(error_of([&] { fixture.session->push(frame); }), ErrorCode::Settings, words);
  }
}

TEST(Session, RefusesAnotherSizeWithinAClipNamingBoth) {
  Fixture fixture;
  fixture.push(random_clip(2, 4, 3, 1));
  expect_error(error_of([&] { fixture.push(random_clip(1, 5, 3, 1)); }), ErrorCode::Settings,
               {"3x5", "3x4"});
}

TEST(Session, RefusesSamplesOfAnotherWidthWithinAClip) {
  Fixture fixture;
  const std::vector<std::uint8_t> data(96);
  fixture.session->push({{4, 4}, data.data(), 12, SampleFormat::U8});
  const FrameView wide{{4, 4}, data.data(), 24, SampleFormat::U16};
  expect_error(error_of([&] { fixture.session->push(wide); }), ErrorCode::Settings,
               {"8-bit", "16-bit", "finish()"});
  fixture.session->reset();
  fixture.session->push(wide);
}

TEST(Session, ComputesWithItsThreadsOnWhicheverThreadCallsIt) {
  SessionOptions options = small_options();
  options.threads = 3;
  Fixture fixture(options);
  fixture.stages->on_call = [](Stage, int, const Checkpoint&) {
    EXPECT_EQ(at::get_num_threads(), 3);
  };
  at::set_num_threads(1);
  fixture.push(random_clip(4, 1, 1, 1));
  std::thread([&] { fixture.push(random_clip(4, 1, 1, 2)); }).join();
  fixture.session->finish();
  EXPECT_EQ(fixture.session->stats().threads, 3);
}

TEST(Session, SaysHowManyThreadsItTookForZero) {
  SessionOptions options = small_options();
  options.threads = 0;
  EXPECT_EQ(Fixture(options).session->stats().threads, physical_cores());
}

}  // namespace
}  // namespace normalcrafter::test
