#include "pipeline.h"

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace normalcrafter {
namespace {

constexpr GstClockTime kPatience = 20 * GST_SECOND;

/// The program's directory, with the tiny model in it.
class Programme : public testing::Environment {
 public:
  void SetUp() override {
    gst_init(nullptr, nullptr);
    const StringPtr made(g_dir_make_tmp("normalcrafter-XXXXXX", nullptr));
    directory = made.get();
  }
  void TearDown() override {
    std::filesystem::remove_all(directory);
    // The leaks tracer reports then.
    if (g_getenv("GST_TRACERS") != nullptr) gst_deinit();
  }
  static inline std::filesystem::path directory;
};

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new Programme);

const char* model_writer() {
  return g_getenv("NORMALCRAFTER_WRITE_MODEL");
}

std::string error_text(GstMessage* message) {
  GError* error = nullptr;
  gchar* details = nullptr;
  gst_message_parse_error(message, &error, &details);
  const std::string text = std::string(GST_OBJECT_NAME(GST_MESSAGE_SRC(message))) + ": " +
                           error->message + " (" + (details ? details : "") + ")";
  g_error_free(error);
  g_free(details);
  return text;
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatience);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Tap::Tap(GstElement* element, const char* pad) : pad_(gst_element_get_static_pad(element, pad)) {
  probe_ = gst_pad_add_probe(pad_, GST_PAD_PROBE_TYPE_BUFFER, record, this, nullptr);
}

Tap::~Tap() {
  gst_pad_remove_probe(pad_, probe_);
  gst_object_unref(pad_);
}

GstPadProbeReturn Tap::record(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
  auto* self = static_cast<Tap*>(data);
  GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  const CapsPtr caps(gst_pad_get_current_caps(pad));
  const StringPtr text(caps ? gst_caps_to_string(caps.get()) : nullptr);
  guint hash = 5381;
  GstMapInfo mapped;
  if (gst_buffer_map(buffer, &mapped, GST_MAP_READ)) {
    for (gsize i = 0; i < mapped.size; ++i) hash = hash * 33 + mapped.data[i];
    gst_buffer_unmap(buffer, &mapped);
  }
  const std::lock_guard lock(self->mutex_);
  self->passed_.push_back({GST_BUFFER_PTS(buffer), GST_BUFFER_DTS(buffer),
                           GST_BUFFER_DURATION(buffer), gst_buffer_get_size(buffer), hash,
                           text ? text.get() : ""});
  return GST_PAD_PROBE_OK;
}

std::vector<Passed> Tap::passed() const {
  const std::lock_guard lock(mutex_);
  return passed_;
}

Pipeline::Pipeline(const std::string& description) {
  GError* error = nullptr;
  pipeline_ = gst_parse_launch(description.c_str(), &error);
  if (error != nullptr) {
    ADD_FAILURE() << error->message << " in: " << description;
    g_clear_error(&error);
  }
}

Pipeline::~Pipeline() {
  gst_element_set_state(pipeline_, GST_STATE_NULL);
  gst_object_unref(pipeline_);
}

GstElement* Pipeline::element(const char* name) const {
  GstElement* found = gst_bin_get_by_name(GST_BIN(pipeline_), name);
  EXPECT_NE(found, nullptr) << name;
  gst_object_unref(found);
  return found;
}

testing::AssertionResult Pipeline::reaches(GstState state) {
  gst_element_set_state(pipeline_, state);
  GstState now = GST_STATE_VOID_PENDING;
  const GstStateChangeReturn result = gst_element_get_state(pipeline_, &now, nullptr, kPatience);
  if (result != GST_STATE_CHANGE_FAILURE && now == state) return testing::AssertionSuccess();
  GstBus* bus = gst_element_get_bus(pipeline_);
  const MessagePtr error(gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR));
  gst_object_unref(bus);
  return testing::AssertionFailure()
         << gst_element_state_get_name(now) << " instead of " << gst_element_state_get_name(state)
         << (error ? ", " + error_text(error.get()) : "");
}

testing::AssertionResult Pipeline::posts(GstMessageType type, int seconds) {
  GstBus* bus = gst_element_get_bus(pipeline_);
  const MessagePtr message(gst_bus_timed_pop_filtered(
      bus, seconds * GST_SECOND, static_cast<GstMessageType>(type | GST_MESSAGE_ERROR)));
  gst_object_unref(bus);
  if (!message) {
    return testing::AssertionFailure() << "no message " << gst_message_type_get_name(type);
  }
  if (GST_MESSAGE_TYPE(message.get()) == type) return testing::AssertionSuccess();
  return testing::AssertionFailure() << error_text(message.get());
}

void Pipeline::forget_messages() {
  GstBus* bus = gst_element_get_bus(pipeline_);
  while (const MessagePtr message{gst_bus_pop(bus)}) {
  }
  gst_object_unref(bus);
}

testing::AssertionResult Pipeline::finishes(int seconds) {
  gst_element_set_state(pipeline_, GST_STATE_PLAYING);
  return posts(GST_MESSAGE_EOS, seconds);
}

testing::AssertionResult Pipeline::seek(double rate, GstSeekFlags flags, GstClockTime start,
                                        GstClockTime stop) {
  if (gst_element_seek(pipeline_, rate, GST_FORMAT_TIME, flags, GST_SEEK_TYPE_SET,
                       static_cast<gint64>(start), GST_SEEK_TYPE_SET, static_cast<gint64>(stop))) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "the seek was refused";
}

void PipelineTest::SetUp() {
  const StringPtr made(g_dir_make_tmp("normalcrafter-XXXXXX", nullptr));
  directory_ = made.get();
}

void PipelineTest::TearDown() {
  std::filesystem::remove_all(directory_);
}

bool PipelineTest::has_real_engine() {
  return model_writer() != nullptr;
}

void PipelineTest::write_model(const std::string& directory, int channels) {
  std::filesystem::create_directories(directory);
  if (!has_real_engine()) {
    std::ofstream(directory + "/weights") << "good";
    return;
  }
  const std::string count = std::to_string(channels);
  const char* arguments[] = {model_writer(), directory.c_str(), count.c_str(), nullptr};
  GError* error = nullptr;
  gint status = 0;
  g_spawn_sync(nullptr, const_cast<gchar**>(arguments), nullptr, G_SPAWN_DEFAULT, nullptr, nullptr,
               nullptr, nullptr, &status, &error);
  ASSERT_EQ(error, nullptr) << error->message;
  ASSERT_EQ(status, 0) << model_writer();
}

Program::Program(const std::string& line, std::string output) : output_(std::move(output)) {
  std::filesystem::remove(output_);
  std::string shell = "exec " + line + " >" + output_ + " 2>&1";
  char name[] = "/bin/sh";
  char option[] = "-c";
  char* arguments[] = {name, option, shell.data(), nullptr};
  GError* error = nullptr;
  g_spawn_async(nullptr, arguments, nullptr, G_SPAWN_DO_NOT_REAP_CHILD, nullptr, nullptr, &process_,
                &error);
  EXPECT_EQ(error, nullptr) << error->message;
}

Program::~Program() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Program::interrupt() const {
  kill(process_, SIGINT);
}

int Program::wait() {
  int status = -1;
  if (!eventually([&] { return waitpid(process_, &status, WNOHANG) == process_; })) return -1;
  process_ = 0;
  return status;
}

std::string Program::output() const {
  std::ostringstream text;
  text << std::ifstream(output_).rdbuf();
  return text.str();
}

std::string PipelineTest::model() {
  static const std::string directory = [] {
    const std::string made = (Programme::directory / "model").string();
    write_model(made, 32);
    return made;
  }();
  return directory;
}

std::string PipelineTest::normals(const std::string& name, const std::string& settings) {
  return " normalcrafter name=" + name + " model=" + model() +
         " device=cpu dtype=float32 window-size=4 step-size=3 threads=1 offload-mode=resident " +
         settings + " ";
}

void PipelineTest::write_clip(const std::string& file, int frames) {
  Pipeline writer("videotestsrc pattern=ball num-buffers=" + std::to_string(frames) +
                  " ! video/x-raw,width=64,height=48,framerate=25/1 ! videoconvert ! avenc_ffv1 "
                  "! matroskamux ! filesink location=" +
                  file);
  ASSERT_TRUE(writer.finishes());
}

}  // namespace normalcrafter
