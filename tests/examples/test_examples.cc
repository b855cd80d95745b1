// The example programs as their users run them.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "pipeline.h"

namespace normalcrafter {
namespace {

class Examples : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    g_setenv("NORMALCRAFTER_MODEL", model().c_str(), TRUE);
    g_unsetenv("DISPLAY");
    g_unsetenv("WAYLAND_DISPLAY");
  }
  Program live_capture(const std::string& options) {
    return {g_getenv("LIVE_CAPTURE") + (" --test-source --size=64 " + options), file("log")};
  }
  Program embed(const std::string& options) {
    return {g_getenv("EMBED") + (" " + options), file("log")};
  }
  Program python(const std::string& script, const std::string& arguments) {
    return {std::string("/usr/bin/python3 ") + g_getenv("PYTHON_EXAMPLES") + "/" + script + " " +
                arguments,
            file("log")};
  }
  /// What a launch line, which ends in an element named end, gives there.
  std::vector<Passed> played(const std::string& line) {
    Pipeline reader(line);
    const Tap end(reader.element("end"), "sink");
    EXPECT_TRUE(reader.finishes());
    return end.passed();
  }
};

TEST_F(Examples, AnInterruptedCaptureIsAFileThatPlaysWithEveryFrame) {
  for (const std::string name : {"out.mkv", "out.mp4"}) {
    Program program = live_capture("--output=" + file(name));
    ASSERT_TRUE(eventually([&] { return program.says(" dropped"); })) << program.output();
    program.interrupt();
    ASSERT_EQ(program.wait(), 0) << program.output();
    ASSERT_TRUE(program.says("written: ")) << program.output();
    const std::string text = program.output();
    const std::size_t last = text.rfind('\n', text.find(" dropped", text.rfind(" frames, ")));
    const std::size_t frames = std::strtoul(text.c_str() + last + 1, nullptr, 10);
    EXPECT_GT(frames, 0) << text;
    EXPECT_EQ(played("filesrc location=" + file(name) + " ! decodebin ! fakesink name=end").size(),
              frames)
        << text;
  }
}

TEST_F(Examples, TheSecondInterruptStopsACaptureAtOnce) {
  // At a size at which the frames at hand take seconds.
  Program program = live_capture("--size=512 --output=" + file("out.mkv"));
  ASSERT_TRUE(eventually([&] { return program.says(" dropped"); })) << program.output();
  program.interrupt();
  ASSERT_TRUE(eventually([&] { return program.says("finishing"); })) << program.output();
  program.interrupt();
  const int status = program.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status << program.output();
}

TEST_F(Examples, ACaptureEndsAfterItsSeconds) {
  Program program = live_capture("--seconds=1 --output=" + file("out.mkv"));
  ASSERT_EQ(program.wait(), 0) << program.output();
  EXPECT_TRUE(program.says("written: ")) << program.output();
}

TEST_F(Examples, ADisplayThatIsNotThereOnlyCostsThePreview) {
  g_setenv("DISPLAY", ":77", TRUE);
  Program program = live_capture("--seconds=1 --output=" + file("out.mkv"));
  ASSERT_EQ(program.wait(), 0) << program.output();
  EXPECT_TRUE(program.says("no preview")) << program.output();
}

TEST_F(Examples, ACaptureOverwritesNothing) {
  std::ofstream(file("out.mkv")) << "precious";
  Program program = live_capture("--output=" + file("out.mkv"));
  EXPECT_EQ(WEXITSTATUS(program.wait()), 2);
  EXPECT_EQ(std::filesystem::file_size(file("out.mkv")), 8);
}

TEST_F(Examples, AnEmbeddedPipelineGivesEachFrameItsNormals) {
  for (const char* mode : {"", "--float"}) {
    Program program = embed(std::string("--frames=17 ") + mode);
    ASSERT_EQ(program.wait(), 0) << program.output();
    const std::string text = program.output();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 17) << text;
    EXPECT_TRUE(program.says("0.00 s: 2976 vectors")) << text;
    EXPECT_TRUE(program.says("0.64 s: 2976 vectors")) << text;
  }
}

TEST_F(Examples, AnEmbeddedPipelineWithoutAModelSaysSoAndEnds) {
  Program program = embed("--model=" + file("none"));
  EXPECT_EQ(WEXITSTATUS(program.wait()), 1);
  EXPECT_TRUE(program.says("none")) << program.output();
}

TEST_F(Examples, ACaptureTellsTheVersionsThatItRunsWith) {
  Program program = live_capture("--version");
  EXPECT_EQ(program.wait(), 0) << program.output();
  EXPECT_TRUE(program.says("element normalcrafter 0.")) << program.output();
}

class PythonExamples : public Examples {
 protected:
  void SetUp() override {
    Examples::SetUp();
    if (std::system(
            "/usr/bin/python3 -c 'import gi, numpy; gi.require_version(\"GstApp\", \"1.0\")' "
            "2>/dev/null") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no PyGObject, GStreamer bindings or NumPy";
  }

  /// Runs a program that calls normals().
  Program caller(const std::string& body) {
    std::ofstream(file("caller.py")) << "import sys, numpy as np\n"
                                        "sys.path.insert(0, sys.argv[1])\n"
                                        "from normals import normals\n"
                                     << body;
    return {"/usr/bin/python3 " + file("caller.py") + " " + g_getenv("PYTHON_EXAMPLES"),
            file("log")};
  }
};

TEST_F(PythonExamples, NumPyFramesBecomeUnitVectors) {
  std::ofstream(file("check.py"))
      << "import sys, numpy as np\n"
         "frames = np.random.default_rng(1).integers(0, 256, (16, 31, 33, 3), np.uint8)\n"
         "if sys.argv[1] == 'make': np.save(sys.argv[2], frames)\n"
         "else:\n"
         "    normals = np.load(sys.argv[2])\n"
         "    assert normals.shape == frames.shape and normals.dtype == np.float32\n"
         "    assert abs(np.linalg.norm(normals, axis=-1) - 1).max() < 1e-3\n";
  const std::string check = "/usr/bin/python3 " + file("check.py");
  ASSERT_EQ(Program(check + " make " + file("in.npy"), file("log")).wait(), 0);
  Program program = python("normals.py", file("in.npy") + " " + file("out.npy"));
  ASSERT_EQ(program.wait(), 0) << program.output();
  if (!has_real_engine()) return;  // the fake one's vectors are none of unit length
  Program reader(check + " read " + file("out.npy"), file("log"));
  EXPECT_EQ(reader.wait(), 0) << reader.output();
}

TEST_F(PythonExamples, AModelThatIsNotThereIsAnExceptionAndNoWait) {
  ASSERT_EQ(Program("/usr/bin/python3 -c 'import numpy as np; np.save(\"" + file("in.npy") +
                        "\", np.zeros((3, 8, 8, 3), np.uint8))'",
                    file("log"))
                .wait(),
            0);
  Program program = python("normals.py", file("in.npy") + " out.npy model=" + file("none"));
  EXPECT_EQ(WEXITSTATUS(program.wait()), 1);
  EXPECT_TRUE(program.says("RuntimeError")) << program.output();
}

TEST_F(PythonExamples, AnExceptionOfTheCallersFramesComesAfterTheNormalsOfThoseBeforeIt) {
  Program program = caller(
      "def frames():\n"
      "    yield from np.zeros((5, 24, 32, 3), np.uint8)\n"
      "    raise KeyError('the caller\\'s')\n"
      "count = 0\n"
      "try:\n"
      "    for _ in normals(frames()): count += 1\n"
      "except KeyError as error: print(count, 'normals, then', error)\n");
  EXPECT_EQ(program.wait(), 0) << program.output();
  EXPECT_TRUE(program.says("5 normals, then \"the caller's\"")) << program.output();
}

TEST_F(PythonExamples, NoFramesGiveNoNormals) {
  Program program = caller("print(list(normals([])))\n");
  EXPECT_EQ(program.wait(), 0) << program.output();
  EXPECT_TRUE(program.says("[]")) << program.output();
}

TEST_F(PythonExamples, SideBySideHasTheInputOnTheLeft) {
  write_clip(file("in.mkv"), 15);
  Program program = python("side_by_side.py", file("in.mkv") + " --output=" + file("out.mkv"));
  ASSERT_EQ(program.wait(), 0) << program.output();
  const std::string end = " ! videoconvert ! video/x-raw,format=RGB ! fakesink name=end";
  const auto in = played("filesrc location=" + file("in.mkv") + " ! decodebin" + end);
  const auto left =
      played("filesrc location=" + file("out.mkv") + " ! decodebin ! videocrop right=64" + end);
  ASSERT_EQ(left.size(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(left[i].hash, in[i].hash) << i;
}

TEST_F(PythonExamples, SideBySideWithoutADisplaySaysWhatElseThereIs) {
  write_clip(file("in.mkv"), 15);
  Program program = python("side_by_side.py", file("in.mkv"));
  EXPECT_EQ(WEXITSTATUS(program.wait()), 2);
  EXPECT_TRUE(program.says("no display")) << program.output();
  EXPECT_TRUE(program.says("--output")) << program.output();
  Program other = python("side_by_side.py", file("in.mkv") + " --sink=fakesink");
  EXPECT_EQ(other.wait(), 0) << other.output();
}

TEST_F(PythonExamples, TellTheVersionsThatTheyRunWith) {
  for (const char* script : {"normals.py", "side_by_side.py"}) {
    Program program = python(script, "--version");
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_TRUE(program.says("element normalcrafter 0.")) << program.output();
  }
}

}  // namespace
}  // namespace normalcrafter
