#include "model/weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "model_files.h"

namespace normalcrafter {
namespace {

using testing::expect_error;
using testing::safetensors;
using testing::TemporaryDirectory;

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {static_cast<const char*>(flat.data_ptr()), flat.nbytes()};
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kDouble:
      return "F64";
    default:
      return "I64";
  }
}

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A file of these tensors.
std::string file_of(const Tensors& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const auto side : tensor.sizes())
      shape += (shape.empty() ? "" : ",") + std::to_string(side);
    const std::string begin = std::to_string(data.size());
    data += bytes_of(tensor);
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" +
              dtype_name(tensor.scalar_type()) + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              begin + "," + std::to_string(data.size()) + "]}";
  }
  return safetensors(header + "}", data);
}

class WeightsTest : public ::testing::Test {
 protected:
  SafetensorsWeights open(const Tensors& tensors, LoadProgress progress = {}) {
    path_ = directory_.write("unet.safetensors", file_of(tensors));
    return {std::make_shared<ComponentTensors>(WeightFiles{path_, {path_}, {}}), at::kBFloat16,
            at::kCPU, Checkpoint(cancelled_), std::move(progress)};
  }

  TemporaryDirectory directory_;
  std::string path_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(WeightsTest, EverySourceTypeIsConvertedAsTorchConverts) {
  for (const auto source : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const at::Tensor stored = at::randn({3, 5, 7}, at::kDouble).to(source);
    auto weights = open({{"padding", at::zeros({1}, at::kHalf)}, {"w", stored}});
    for (const auto target : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const at::Tensor read = weights.get("w", {3, 5, 7}, target);
      EXPECT_EQ(read.scalar_type(), target);
      EXPECT_TRUE(read.is_contiguous());
      EXPECT_TRUE(read.device().is_cpu());
      EXPECT_TRUE(at::equal(read, stored.to(target))) << source << " to " << target;
    }
  }
}

TEST_F(WeightsTest, TensorsLargerThanTheConversionBufferAreConvertedWhole) {
  // 20 MB and a bit, so that the last piece is a part of one.
  const at::Tensor stored = at::arange(5'000'011, at::kFloat);
  auto weights = open({{"w", stored}});
  EXPECT_TRUE(at::equal(weights.get("w", {5'000'011}, at::kFloat), stored));
  EXPECT_TRUE(at::equal(weights.get("w", {5'000'011}, at::kBFloat16), stored.to(at::kBFloat16)));
}

TEST_F(WeightsTest, PanelsAreThoseThatPackingTheWholeTensorGives) {
  for (const auto source : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const at::Tensor stored = at::randn({96, 14, 3, 3}, at::kDouble).to(source);
    auto weights = open({{"padding", at::zeros({1}, at::kHalf)}, {"w", stored}});
    for (const auto target : {at::kFloat, at::kBFloat16}) {
      for (const Panels& panels : {Panels{8, 1}, Panels{32, 1}, Panels{32, 2}}) {
        if (target == at::kFloat && panels.together == 2) continue;
        const at::Tensor read = weights.get_in_panels("w", {96, 14, 3, 3}, target, panels);
        EXPECT_TRUE(at::equal(read, in_panels(stored.to(target).flatten(1), panels)))
            << source << " to " << target << ", panels of " << panels.panel;
      }
    }
  }
}

TEST_F(WeightsTest, PanelsOfALargeTensorReportProgressAndCanBeCancelled) {
  const at::Tensor stored = at::randn({2048, 4096}).to(at::kBFloat16);
  std::vector<std::uint64_t> steps;
  auto weights =
      open({{"w", stored}}, [&](std::uint64_t done, std::uint64_t) { steps.push_back(done); });
  const auto read = [&] { return weights.get_in_panels("w", {2048, 4096}, at::kFloat, {16}); };
  EXPECT_TRUE(at::equal(read(), in_panels(stored.to(at::kFloat), {16})));
  EXPECT_GT(steps.size(), 1U);
  EXPECT_EQ(steps.back(), 16U << 20);
  EXPECT_TRUE(weights.unused().empty());

  auto others = open({{"w", stored}}, [&](auto, auto) { cancelled_ = true; });
  expect_error(ErrorCode::Cancelled, [&] {
    others.get_in_panels("w", {2048, 4096}, at::kFloat, {16});
  });
}

TEST_F(WeightsTest, ScalarsAndEmptyTensorsAreRead) {
  auto weights = open(
      {{"scalar", at::scalar_tensor(2.5, at::kHalf)}, {"none", at::empty({0, 3}, at::kFloat)}});
  EXPECT_EQ(weights.get("scalar", {}, at::kFloat).item<float>(), 2.5F);
  EXPECT_EQ(weights.get("none", {0, 3}, at::kFloat).numel(), 0);
  EXPECT_EQ(weights.get("none", {0, 3}, at::kHalf).numel(), 0);
}

TEST_F(WeightsTest, NetworksAreToldDtypeAndDevice) {
  const auto weights = open({});
  EXPECT_EQ(weights.dtype(), at::kBFloat16);
  EXPECT_EQ(weights.device(), at::Device(at::kCPU));
}

TEST_F(WeightsTest, AMissingTensorIsNamedWithItsFile) {
  auto weights = open({{"w", at::zeros({2})}});
  EXPECT_TRUE(weights.has("w"));
  EXPECT_FALSE(weights.has("conv_in.weight"));
  for (const bool skip : {false, true}) {
    expect_error(
        ErrorCode::InvalidModel,
        [&] {
          if (skip) {
            weights.skip("conv_in.weight", {2});
          } else {
            weights.get("conv_in.weight", {2}, at::kFloat);
          }
        },
        path_, "\"conv_in.weight\" is missing");
  }
}

TEST_F(WeightsTest, AWrongShapeNamesTheExpectedAndTheFoundOne) {
  auto weights = open({{"w", at::zeros({2, 3})}, {"scalar", at::scalar_tensor(1.0F)}});
  expect_error(
      ErrorCode::InvalidModel,
      [&] {
        weights.get("w", {3, 2}, at::kFloat);
      },
      path_, "\"w\"", "[2, 3]", "[3, 2]");
  expect_error(
      ErrorCode::InvalidModel,
      [&] {
        weights.get("w", {2, 3, 1}, at::kFloat);
      },
      "[2, 3, 1]");
  expect_error(
      ErrorCode::InvalidModel, [&] { weights.skip("w", {6}); }, "[6]");
  expect_error(
      ErrorCode::InvalidModel, [&] { weights.get("scalar", {1}, at::kFloat); }, "[]", "[1]");
}

TEST_F(WeightsTest, IntegersAreRefusedWhereWeightsAreAskedFor) {
  auto weights = open({{"w", at::zeros({2}, at::kLong)}});
  expect_error(
      ErrorCode::InvalidModel, [&] { weights.get("w", {2}, at::kFloat); }, path_, "\"w\"", "I64");
}

TEST_F(WeightsTest, WhatNobodyAsksForIsListedAsUnused) {
  auto weights = open({{"position_ids", at::zeros({1, 4}, at::kLong)},
                       {"b", at::zeros({1})},
                       {"a", at::zeros({1})},
                       {"extra", at::zeros({1})}});
  weights.get("a", {1}, at::kFloat);
  weights.skip("b", {1});
  EXPECT_EQ(weights.unused(), (std::vector<std::string>{"extra", "position_ids"}));
}

TEST_F(WeightsTest, ProgressRunsToTheTotalOnceEveryTensorIsReadOrSkipped) {
  std::vector<std::uint64_t> steps;
  std::uint64_t total = 0;
  auto weights = open({{"a", at::zeros({4})}, {"b", at::zeros({3'000'000})}, {"c", at::zeros({2})}},
                      [&](std::uint64_t done, std::uint64_t all) {
                        steps.push_back(done);
                        total = all;
                      });
  weights.get("a", {4}, at::kFloat);
  weights.get("a", {4}, at::kHalf);  // counts once
  weights.get("b", {3'000'000}, at::kHalf);
  weights.skip("c", {2});
  EXPECT_EQ(total, 16U + 12'000'000U + 8U);
  EXPECT_EQ(steps.back(), total);
  EXPECT_EQ(steps.front(), 16U);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_GT(steps.size(), 3U) << "a large tensor reports more than once";
}

TEST_F(WeightsTest, CancellingTakesEffectWithinALargeTensor) {
  auto weights = open({{"w", at::zeros({8'000'000})}}, [&](auto, auto) { cancelled_ = true; });
  std::uint64_t read = 0;
  expect_error(ErrorCode::Cancelled, [&] {
    weights.get("w", {8'000'000}, at::kFloat);
    read = 1;
  });
  EXPECT_EQ(read, 0U);
  expect_error(ErrorCode::Cancelled, [&] { weights.skip("w", {8'000'000}); });
}

TEST_F(WeightsTest, AFileTruncatedBetweenOpenAndGetIsAnError) {
  auto weights = open({{"w", at::zeros({400, 250})}});
  ASSERT_EQ(::truncate(path_.c_str(), 4096), 0);
  expect_error(
      ErrorCode::OpenRead,
      [&] {
        weights.get("w", {400, 250}, at::kFloat);
      },
      path_, "shrunk");
  expect_error(
      ErrorCode::OpenRead,
      [&] {
        weights.get("w", {400, 250}, at::kHalf);
      },
      path_, "shrunk");
  expect_error(
      ErrorCode::OpenRead,
      [&] {
        weights.get_in_panels("w", {400, 250}, at::kFloat, {8});
      },
      path_, "shrunk");
}

/// Shards written to a directory, as directory.h hands them over.
WeightFiles shards(const TemporaryDirectory& directory, const Tensors& first,
                   const Tensors& second) {
  return {directory.path("index.json"),
          {directory.write("1", file_of(first)), directory.write("2", file_of(second))},
          {}};
}

TEST(ComponentTensors, ShardsActAsOneFile) {
  const TemporaryDirectory directory;
  auto files = shards(directory, {{"a", at::ones({2})}}, {{"b", at::full({3}, 5.0F)}});
  files.shard_of = {{"a", directory.path("1")}, {"b", directory.path("2")}};
  const auto component = std::make_shared<ComponentTensors>(files);
  EXPECT_EQ(component->bytes(), 20U);
  std::atomic<bool> cancelled{false};
  SafetensorsWeights weights(component, at::kFloat, at::kCPU, Checkpoint(cancelled));
  EXPECT_TRUE(at::equal(weights.get("a", {2}, at::kFloat), at::ones({2})));
  EXPECT_TRUE(at::equal(weights.get("b", {3}, at::kFloat), at::full({3}, 5.0F)));
  expect_error(
      ErrorCode::InvalidModel, [&] { weights.get("c", {3}, at::kFloat); }, "index.json", "\"c\"");
}

TEST(ComponentTensors, ATensorInTwoShardsNamesBoth) {
  const TemporaryDirectory directory;
  const auto files = shards(directory, {{"a", at::ones({2})}}, {{"a", at::ones({2})}});
  expect_error(
      ErrorCode::InvalidModel, [&] { ComponentTensors component(files); }, "\"a\"",
      directory.path("1"), directory.path("2"));
}

TEST(ComponentTensors, ATensorThatIsNotInItsShardIsNamed) {
  const TemporaryDirectory directory;
  auto files = shards(directory, {{"a", at::ones({2})}}, {{"b", at::ones({2})}});
  for (const auto* name : {"a", "nowhere"}) {
    files.shard_of = {{name, directory.path("2")}};
    expect_error(
        ErrorCode::InvalidModel, [&] { ComponentTensors component(files); }, "index.json", name,
        directory.path("2"));
  }
}

TEST(ComponentTensors, AMalformedFileIsRefusedWhenOpened) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("w", "nonsense that is no header");
  expect_error(
      ErrorCode::InvalidModel,
      [&] {
        ComponentTensors component({path, {path}, {}});
      },
      path);
}

}  // namespace
}  // namespace normalcrafter
