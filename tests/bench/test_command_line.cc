#include <gtest/gtest.h>

#include <stdexcept>

#include "architecture.h"
#include "command_line.h"

namespace normalcrafter::bench {
namespace {

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    line_.add("--width", width_, "of the picture");
    line_.add("--channels", channels_, "level by level");
    line_.add("--dtype", dtype_, "type", {"both", "float32"});
  }
  std::string error(const std::vector<std::string>& arguments) const {
    try {
      line_.parse(arguments);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }

  int width_ = 256;
  std::vector<int> channels_ = {32, 64};
  std::string dtype_ = "both";
  CommandLine line_{"program"};
};

TEST_F(CommandLineTest, OptionsReplaceDefaults) {
  EXPECT_TRUE(line_.parse({"--width", "64", "--channels", "96", "--dtype", "float32"}));
  EXPECT_EQ(width_, 64);
  EXPECT_EQ(channels_, std::vector<int>{96});
  EXPECT_EQ(dtype_, "float32");
}

TEST_F(CommandLineTest, HelpNamesOptionsAndDefaults) {
  EXPECT_FALSE(line_.parse({"--help"}));
  EXPECT_EQ(line_.help(),
            "program\n"
            "  --width                 of the picture (256)\n"
            "  --channels              level by level (32,64)\n"
            "  --dtype                 type: both, float32 (both)\n");
}

TEST_F(CommandLineTest, AnUnknownOptionIsAnError) {
  EXPECT_EQ(error({"--witdh", "64"}), "unknown option \"--witdh\"; --help lists them");
  EXPECT_EQ(error({"64"}), "unknown option \"64\"; --help lists them");
}

TEST_F(CommandLineTest, AnOptionWithoutItsValueIsAnError) {
  EXPECT_EQ(error({"--width"}), "--width lacks its value");
}

TEST_F(CommandLineTest, WhatIsNoNumberIsAnError) {
  for (const char* text : {"", "x", "64x", "0", "-1", "1e3", "99999999999"})
    EXPECT_EQ(error({"--width", text}),
              std::string("--width takes numbers from 1 up, not \"") + text + "\"");
  EXPECT_EQ(error({"--channels", "32,,64"}), "--channels takes numbers from 1 up, not \"\"");
}

TEST_F(CommandLineTest, AnotherChoiceIsAnError) {
  EXPECT_EQ(error({"--dtype", "int8"}), "--dtype is one of both, float32, not \"int8\"");
}

TEST(ArchitectureTest, WidthsThatGroupNormsCannotDivideAreAnError) {
  Architecture architecture;
  architecture.vae = {128, 100};
  try {
    architecture.config();
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "--vae takes multiples of 32, not 100");
  }
}

}  // namespace
}  // namespace normalcrafter::bench
