// Whole pipelines with the plugin as applications use it. The model is a tiny random one in the
// real engine, or the fake engine's where there is no LibTorch. Every wait has an end.
#pragma once

#include <gst/gst.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "gst_ptr.h"

namespace normalcrafter {

/// What passes a pad.
struct Passed {
  GstClockTime pts;
  GstClockTime dts;
  GstClockTime duration;
  std::size_t bytes;
  guint hash;        ///< of the pixels
  std::string caps;  ///< at that moment
};

/// Records the buffers that pass a pad, until destroyed.
class Tap {
 public:
  Tap(GstElement* element, const char* pad);
  ~Tap();
  Tap(const Tap&) = delete;
  std::vector<Passed> passed() const;
  std::size_t count() const { return passed().size(); }

 private:
  static GstPadProbeReturn record(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  GstPad* pad_;
  gulong probe_;
  mutable std::mutex mutex_;
  std::vector<Passed> passed_;
};

/// A launch line, and NULL at the end.
class Pipeline {
 public:
  explicit Pipeline(const std::string& description);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;

  GstElement* get() const { return pipeline_; }
  /// The element of that name. The pipeline keeps it.
  GstElement* element(const char* name) const;
  /// Reached within 20 s.
  testing::AssertionResult reaches(GstState state);
  /// A message of this type comes in time, and no error.
  testing::AssertionResult posts(GstMessageType type, int seconds = 20);
  /// Drops what has been posted so far.
  void forget_messages();
  /// Plays to the end.
  testing::AssertionResult finishes(int seconds = 20);
  testing::AssertionResult seek(double rate, GstSeekFlags flags, GstClockTime start,
                                GstClockTime stop);

 private:
  GstElement* pipeline_;
};

/// True as soon as `condition` holds; false after 20 s.
bool eventually(const std::function<bool()>& condition);

/// A program with its output in a file; killed if it outlives the test.
class Program {
 public:
  /// `line` as a shell reads it: one command.
  Program(const std::string& line, std::string output);
  ~Program();
  Program(const Program&) = delete;
  void interrupt() const;
  /// waitpid's status; -1 if the program does not end.
  int wait();
  std::string output() const;
  bool says(const std::string& text) const { return output().find(text) != std::string::npos; }

 private:
  std::string output_;
  GPid process_ = 0;
};

class PipelineTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// A file's path in a directory that goes with the test.
  std::string file(const std::string& name) const { return (directory_ / name).string(); }
  static std::string uri(const std::string& file) { return "file://" + file; }
  /// "normalcrafter name=NAME model=... SETTINGS": small windows, float32.
  static std::string normals(const std::string& name = "normals", const std::string& settings = "");
  /// The program's tiny model.
  static std::string model();
  static bool has_real_engine();
  /// A model of that many channels in `directory`; the real engine's.
  static void write_model(const std::string& directory, int channels);

  /// Matroska, FFV1, 64x48 at 25 frames/s: every frame is a key frame.
  void write_clip(const std::string& file, int frames);

 private:
  std::filesystem::path directory_;
};

}  // namespace normalcrafter
