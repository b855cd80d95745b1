// NumPy's header and the frames' samples; the files themselves are read back by NumPy in
// test_formats.py.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "failure.h"
#include "normal_frame.h"
#include "npy.h"

namespace normalcrafter::convert {
namespace {

TEST(ArrayHeader, IsTheOneThatNumPyWrites) {
  const std::string header = npy_header("f4", {50, 72, 128, 3});
  ASSERT_EQ(header.size(), kNpyHeaderBytes);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(header.substr(10, header.find('}') - 9),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (50, 72, 128, 3), }");
  EXPECT_EQ(header.back(), '\n');
}

TEST(ArrayHeader, WritesOneDimensionWithAComma) {
  EXPECT_NE(npy_header("f8", {7}).find("'shape': (7, ), "), std::string::npos);
}

TEST(ArrayHeader, HoldsTheLargestShape) {
  const std::int64_t most = std::int64_t{1} << 40;
  const std::string header = npy_header("f4", {most, 16384, 16384, 3});
  EXPECT_EQ(header.size(), kNpyHeaderBytes);
  EXPECT_NE(header.find("(1099511627776, 16384, 16384, 3), }"), std::string::npos);
}

TEST(ArrayFile, IsWholeAfterEachFrame) {
  const auto path =
      std::filesystem::temp_directory_path() / ("whole-" + std::to_string(getpid()) + ".npy");
  const float vectors[6] = {0, 0.5F, -1, 1, 0.25F, -0.5F};
  NormalFrame frame;
  frame.width = 2;
  frame.height = 1;
  frame.samples = Samples::Float;
  frame.data = reinterpret_cast<const std::byte*>(vectors);
  frame.stride = sizeof vectors;
  NpyFile file(path.string());
  for (std::int64_t frames = 1; frames < 4; ++frames) {
    file.write(frame);
    std::stringstream content;
    content << std::ifstream(path.parent_path() / (path.stem().string() + ".partial.npy")).rdbuf();
    const std::string bytes = content.str();
    ASSERT_EQ(bytes.size(), kNpyHeaderBytes + frames * sizeof vectors);
    EXPECT_EQ(bytes.substr(0, kNpyHeaderBytes), npy_header("f4", {frames, 1, 2, 3}));
    EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - sizeof vectors, vectors, sizeof vectors),
              0);
  }
  file.finish();
  rename_whole(path);
  EXPECT_TRUE(std::filesystem::remove(path));
}

TEST(Samples, OfEachKindGiveTheSameVector) {
  const std::byte narrow[3] = {std::byte{255}, std::byte{0}, std::byte{51}};
  const std::byte wide[8] = {std::byte{0xff}, std::byte{0xff}, std::byte{0}, std::byte{0},
                             std::byte{0x33}, std::byte{0x33}, std::byte{1}, std::byte{2}};
  const float real[3] = {1, -1, -0.6F};
  NormalFrame frame;
  frame.width = frame.height = 1;
  for (const auto& [samples, data] :
       {std::pair{Samples::Rgb8, &narrow[0]}, std::pair{Samples::Rgba16Be, &wide[0]},
        std::pair{Samples::Float, reinterpret_cast<const std::byte*>(&real[0])}}) {
    frame.samples = samples;
    frame.data = data;
    const auto vector = frame.vector(0, 0);
    EXPECT_FLOAT_EQ(vector[0], 1);
    EXPECT_FLOAT_EQ(vector[1], -1);
    EXPECT_NEAR(vector[2], -0.6, 1e-6);
  }
}

TEST(OutputFailures, TellAFullDiskFromOthers) {
  EXPECT_EQ(output_failure("f", ENOSPC).status(), Status::DiskFull);
  EXPECT_EQ(output_failure("f", EDQUOT).status(), Status::DiskFull);
  EXPECT_EQ(output_failure("f", EACCES).status(), Status::Output);
  EXPECT_STREQ(output_failure("f", ENOSPC).what(), "f: No space left on device");
}

TEST(OutputFiles, ThatCannotBeMadeAreRefusedByName) {
  try {
    OutputFile file("/nowhere/x.npy");
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::Output);
    EXPECT_STREQ(failure.what(), "/nowhere/x.partial.npy: No such file or directory");
  }
}

}  // namespace
}  // namespace normalcrafter::convert
