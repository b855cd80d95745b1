// Names: amounts, numbered files, folders, endings.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "amount.h"
#include "failure.h"
#include "output_kind.h"
#include "sequence.h"

namespace normalcrafter::convert {
namespace {

namespace fs = std::filesystem;

constexpr auto kFrames = Amount::Unit::Frames;
constexpr auto kTime = Amount::Unit::Nanoseconds;

TEST(Amounts, WithoutAUnitAreFramesAndWithOneTime) {
  EXPECT_EQ(parse_amount("start", "250"), (Amount{kFrames, 250}));
  EXPECT_EQ(parse_amount("start", "0"), (Amount{kFrames, 0}));
  EXPECT_EQ(parse_amount("start", "2.5s"), (Amount{kTime, 2'500'000'000}));
  EXPECT_EQ(parse_amount("start", ".5s"), (Amount{kTime, 500'000'000}));
  EXPECT_EQ(parse_amount("start", "40ms"), (Amount{kTime, 40'000'000}));
  EXPECT_EQ(parse_amount("start", "2m"), (Amount{kTime, 120'000'000'000}));
  EXPECT_EQ(parse_amount("start", "1h"), (Amount{kTime, 3600'000'000'000}));
  EXPECT_EQ(parse_amount("start", "1:02.5"), (Amount{kTime, 62'500'000'000}));
  EXPECT_EQ(parse_amount("start", "1:00:02"), (Amount{kTime, 3602'000'000'000}));
  EXPECT_EQ(parse_amount("start", "90:00"), (Amount{kTime, 5400'000'000'000}));
}

TEST(Amounts, ThatAreNeitherAreUsageErrorsThatNameTheOption) {
  for (const char* text :
       {"", "-1", "1.5", "s", "5x", "1:60", "1:2:3:4", "1e3", "12345678901234567890", "9e9h"}) {
    try {
      parse_amount("frames", text);
      ADD_FAILURE() << text;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::Usage) << text;
      EXPECT_NE(std::string(failure.what()).find("--frames"), std::string::npos);
    }
  }
}

TEST(Amounts, WrittenOutAreReadAsTheSame) {
  for (const char* text : {"7", "2.5s", "0.04s", "3602s"}) {
    EXPECT_EQ(to_string(parse_amount("start", text)), text);
  }
}

TEST(Patterns, WriteNumbersAsPrintfDoes) {
  EXPECT_EQ(Pattern::parse("a/n-%05d.png")->file(7), fs::path("a/n-00007.png"));
  EXPECT_EQ(Pattern::parse("%d.exr")->file(1234), fs::path("1234.exr"));
  EXPECT_EQ(Pattern::parse("n%3d.png")->file(7), fs::path("n  7.png"));
  EXPECT_EQ(Pattern::parse("n%03d.png")->file(12345), fs::path("n12345.png"));
  EXPECT_EQ(Pattern::parse("100%%-%02d.png")->file(5), fs::path("100%-05.png"));
}

TEST(Patterns, AreOnlyLookedForInTheLastPartOfAPath) {
  EXPECT_FALSE(Pattern::parse("a-%d/normals.png"));
  EXPECT_FALSE(Pattern::parse("normals.png"));
  EXPECT_FALSE(Pattern::parse("100%%.png"));
}

TEST(Patterns, WithTwoNumbersOrAnotherConversionAreRefused) {
  for (const char* text : {"%d-%d.png", "%s.png", "%05x.png", "50%.png"})
    EXPECT_THROW(Pattern::parse(text), Failure) << text;
}

TEST(Patterns, FindTheNumberInANameThatTheyWouldWrite) {
  const Pattern pattern = *Pattern::parse("n-%03d.png");
  EXPECT_EQ(pattern.number("n-007.png"), 7);
  EXPECT_EQ(pattern.number("n-1234.png"), 1234);
  for (const char* other : {"n-7.png", "n-0007.png", "n-.png", "n-00a.png", "m-007.png",
                            "n-007.exr", "n-007.partial.png"})
    EXPECT_FALSE(pattern.number(other)) << other;
}

TEST(Runs, EndAtTheFirstGap) {
  const std::vector<std::int64_t> numbers = {3, 4, 5, 8, 9};
  EXPECT_EQ(run_from(numbers, 3), 3);
  EXPECT_EQ(run_from(numbers, 5), 1);
  EXPECT_EQ(run_from(numbers, 6), 0);
  EXPECT_EQ(run_from(numbers, 8), 2);
  EXPECT_EQ(run_from({}, 0), 0);
}

TEST(NaturalOrder, PutsNineBeforeTen) {
  std::vector<std::string> names = {"f10.png", "f9.png", "f1.png", "f09.png",
                                    "f.png",   "e2f3",   "e2f10"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"e2f3", "e2f10", "f.png", "f1.png", "f09.png",
                                             "f9.png", "f10.png"}));
}

TEST(NaturalOrder, IsStrictForNumbersLongerThanAMachineWord) {
  EXPECT_TRUE(natural_less("a99999999999999999999998", "a99999999999999999999999"));
  EXPECT_FALSE(natural_less("a5", "a5"));
}

class Pictures : public testing::Test {
 protected:
  Pictures() : folder(fs::temp_directory_path() / ("convert-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
  }
  ~Pictures() override { fs::remove_all(folder); }
  void touch(const std::string& name) const { std::ofstream(folder / name) << name; }
  fs::path folder;
};

TEST_F(Pictures, OfAPatternBeginAtTheLowestNumber) {
  for (const char* name : {"a-012.png", "a-011.png", "b-001.png", "a-5.png"}) touch(name);
  const PictureList list = list_pictures(*Pattern::parse((folder / "a-%03d.png").string()));
  EXPECT_EQ(list.first_number, 11);
  EXPECT_EQ(list.files, (std::vector<fs::path>{folder / "a-011.png", folder / "a-012.png"}));
}

TEST_F(Pictures, OfAPatternWithAGapAreRefusedWithTheMissingName) {
  for (const char* name : {"a1.png", "a2.png", "a4.png"}) touch(name);
  try {
    list_pictures(*Pattern::parse((folder / "a%d.png").string()));
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::InputMissing);
    EXPECT_NE(std::string(failure.what()).find("a3.png is missing"), std::string::npos);
  }
}

TEST_F(Pictures, OfAFolderComeInNaturalOrderWithoutOtherFiles) {
  for (const char* name : {"s10.png", "s9.PNG", "s8.jpg", "notes.txt", ".hidden.png"}) touch(name);
  EXPECT_EQ(list_pictures(folder).files,
            (std::vector<fs::path>{folder / "s8.jpg", folder / "s9.PNG", folder / "s10.png"}));
}

TEST_F(Pictures, AreMissedWhereThereAreNone) {
  EXPECT_THROW(list_pictures(folder), Failure);
  EXPECT_THROW(list_pictures(*Pattern::parse((folder / "%d.png").string())), Failure);
}

TEST(Endings, SayWhatIsWritten) {
  EXPECT_EQ(output_kind("a/B.MP4"), OutputKind::Mp4);
  EXPECT_EQ(output_kind("n-%05d.exr"), OutputKind::Exr);
  EXPECT_EQ(output_kind("x.npz"), OutputKind::Npz);
  EXPECT_THROW(output_kind("x.gif"), Failure);
  EXPECT_THROW(output_kind("mp4"), Failure);
}

TEST(Endings, AreKeptByTheNameOfAPartialFile) {
  EXPECT_EQ(partial_name("a/out.mp4"), fs::path("a/out.partial.mp4"));
  EXPECT_EQ(partial_name("n-007.png"), fs::path("n-007.partial.png"));
}

}  // namespace
}  // namespace normalcrafter::convert
