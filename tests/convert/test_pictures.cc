// Pictures and their notes, and where a sequence is taken up. Pixels are read back by others'
// programs in test_formats.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "failure.h"
#include "output_kind.h"
#include "picture_files.h"
#include "sequence_writer.h"

namespace normalcrafter::convert {
namespace {

namespace fs = std::filesystem;

class PictureFiles : public testing::TestWithParam<bool> {
 protected:
  PictureFiles() : folder(fs::temp_directory_path() / ("pictures-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
    format.exr = GetParam();
    format.note = {"half max-resolution=64"};
    pattern = Pattern::parse((folder / (format.exr ? "%03d.exr" : "%03d.png")).string());
  }
  ~PictureFiles() override { fs::remove_all(folder); }

  NormalFrame frame(std::int64_t number) const {
    NormalFrame frame;
    frame.width = 5;
    frame.height = 3;
    frame.samples = format.exr ? Samples::Float : Samples::Rgb8;
    frame.stride = static_cast<std::ptrdiff_t>(5 * bytes_per_pixel(frame.samples));
    frame.data = pixels.data();
    frame.number = number;
    return frame;
  }
  void write(std::int64_t first, std::int64_t count) const {
    SequenceWriter writer(*pattern, first, format);
    for (std::int64_t i = 0; i < count; ++i) writer.write(frame(i));
  }

  fs::path folder;
  PictureFormat format;
  std::optional<Pattern> pattern;
  std::vector<std::byte> pixels = std::vector<std::byte>(5 * 3 * 12);
};

TEST_P(PictureFiles, CarryTheirSettings) {
  write(0, 1);
  const std::string file = pattern->file(0).string();
  const auto note = format.exr ? read_exr_note(file) : read_png_note(file);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->settings, "half max-resolution=64");
}

TEST_P(PictureFiles, OfASequenceAreNumberedFromItsFirst) {
  write(1001, 2);
  EXPECT_EQ(pattern->present(), (std::vector<std::int64_t>{1001, 1002}));
  EXPECT_EQ(count_written(*pattern, 1001, format), 2);
  EXPECT_EQ(count_written(*pattern, 1000, format), 0);
}

TEST_P(PictureFiles, LeaveNoPartialFilesBehind) {
  write(0, 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3);
}

TEST_P(PictureFiles, AreTakenUpAtTheFirstGap) {
  write(0, 5);
  fs::remove(pattern->file(2));
  EXPECT_EQ(count_written(*pattern, 0, format), 2);
}

TEST_P(PictureFiles, OfOtherSettingsAreNotTakenUp) {
  write(0, 2);
  format.note = {"half max-resolution=128"};
  try {
    count_written(*pattern, 0, format);
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::Output);
    const std::string text = failure.what();
    EXPECT_NE(text.find("max-resolution=64"), std::string::npos) << text;
    EXPECT_NE(text.find("max-resolution=128"), std::string::npos) << text;
  }
}

TEST_P(PictureFiles, OfOthersAreNotTakenUp) {
  std::ofstream(pattern->file(0)) << "no picture";
  EXPECT_THROW(count_written(*pattern, 0, format), Failure);
}

TEST_P(PictureFiles, ThatCannotBeWrittenAreFailures) {
  fs::remove_all(folder);
  EXPECT_THROW(write(0, 1), Failure);
}

INSTANTIATE_TEST_SUITE_P(Formats, PictureFiles, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Exr" : "Png"; });

TEST(APicture, WithoutANumberTakesOneFrame) {
  const fs::path file = fs::temp_directory_path() / ("one-" + std::to_string(getpid()) + ".png");
  PictureWriter writer(file.string(), {});
  const std::byte pixel[3] = {};
  NormalFrame frame;
  frame.width = frame.height = 1;
  frame.data = pixel;
  frame.stride = 3;
  writer.write(frame);
  EXPECT_FALSE(fs::exists(file));  // there may be more
  writer.finish();
  EXPECT_TRUE(fs::remove(file));

  writer.write(frame);
  frame.number = 1;
  EXPECT_THROW(writer.write(frame), Failure);
  writer.finish();
  EXPECT_FALSE(fs::exists(file));
  EXPECT_FALSE(fs::exists(partial_name(file)));
}

}  // namespace
}  // namespace normalcrafter::convert
