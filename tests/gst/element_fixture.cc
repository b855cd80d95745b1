#include "element_fixture.h"

#include <dlfcn.h>
#include <gst/base/gstbasetransform.h>

#include <fstream>

namespace normalcrafter {
namespace {

class GStreamer : public testing::Environment {
 public:
  void SetUp() override { gst_init(nullptr, nullptr); }
  void TearDown() override {
    // The leaks tracer reports then; without it the tests can be repeated in one process.
    if (g_getenv("GST_TRACERS") != nullptr) gst_deinit();
  }
};

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new GStreamer);

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Messages::Messages(GstElement* element) : bus_(gst_bus_new()) {
  gst_element_set_bus(element, bus_);
}

Messages::~Messages() {
  for (GstMessage* message : messages_) gst_message_unref(message);
  gst_object_unref(bus_);
}

void Messages::collect() {
  while (GstMessage* message = gst_bus_pop(bus_)) messages_.push_back(message);
}

int Messages::count(GstMessageType type) {
  collect();
  return static_cast<int>(std::count_if(messages_.begin(), messages_.end(), [&](GstMessage* m) {
    return GST_MESSAGE_TYPE(m) == type;
  }));
}

bool Messages::wait(GstMessageType type) {
  return eventually([&] { return count(type) > 0; });
}

std::vector<std::string> Messages::errors() {
  collect();
  std::vector<std::string> texts;
  for (GstMessage* message : messages_) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR) continue;
    GError* error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    texts.push_back(std::string(g_quark_to_string(error->domain)) + ":" +
                    std::to_string(error->code) + " " + error->message);
    g_error_free(error);
  }
  return texts;
}

testing::AssertionResult Messages::one_error(GQuark domain, int code, const std::string& text) {
  wait(GST_MESSAGE_ERROR);
  const std::vector<std::string> all = errors();
  if (all.size() != 1) {
    auto result = testing::AssertionFailure() << all.size() << " errors";
    for (const std::string& error : all) result << "; " << error;
    return result;
  }
  const std::string expected =
      std::string(g_quark_to_string(domain)) + ":" + std::to_string(code) + " ";
  if (all[0].find(expected) != 0 || all[0].find(text) == std::string::npos) {
    return testing::AssertionFailure() << all[0] << " instead of " << expected << text;
  }
  return testing::AssertionSuccess();
}

std::vector<int> Messages::progress() {
  collect();
  std::vector<int> types;
  for (GstMessage* message : messages_) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_PROGRESS) continue;
    GstProgressType type;
    gchar* text = nullptr;
    gst_message_parse_progress(message, &type, nullptr, &text);
    EXPECT_NE(text, nullptr) << "gst-launch-1.0 crashes without it";
    g_free(text);
    types.push_back(type);
  }
  return types;
}

std::vector<const GstStructure*> Messages::structures(const char* name) {
  collect();
  std::vector<const GstStructure*> found;
  for (GstMessage* message : messages_) {
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ELEMENT && gst_message_has_name(message, name)) {
      found.push_back(gst_message_get_structure(message));
    }
  }
  return found;
}

FakeControls& ElementTest::controls() {
  static FakeControls* const found = [] {
    void* library = dlopen(g_getenv("NORMALCRAFTER_ENGINE"), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return reinterpret_cast<decltype(&fake_engine_controls)>(
        dlsym(library, "fake_engine_controls"))();
  }();
  return *found;
}

void ElementTest::SetUp() {
  FakeControls& fake = controls();
  fake.window_ms = fake.jitter_ms = fake.load_ms = 0;
  fake.block_windows = fake.block_loading = fake.block_creation = false;
  fake.block_ms = 1;
  fake.load_fault = fake.fault_frame = fake.create_fault = -1;
  fake.windows = fake.loads = fake.offloads = fake.cancels = fake.clips = 0;
  const StringPtr made(g_dir_make_tmp("normalcrafter-XXXXXX", nullptr));
  directory_ = made.get();
  make_element();
}

void ElementTest::TearDown() {
  controls().block_windows = controls().block_loading = controls().block_creation = false;
  stop();
  gst_element_set_state(element_, GST_STATE_NULL);
  gst_element_set_bus(element_, nullptr);
  messages_.reset();
  EXPECT_EQ(GST_OBJECT_REFCOUNT_VALUE(element_), 1) << "someone still holds the element";
  gst_object_unref(element_);
  EXPECT_EQ(controls().sessions, 0);
  EXPECT_EQ(controls().models, 0);
  std::filesystem::remove_all(directory_);
}

std::string ElementTest::model(const std::string& name, const std::string& content) {
  const std::filesystem::path path = directory_ / name;
  std::filesystem::create_directories(path);
  std::ofstream(path / "weights") << content;
  return path.string();
}

void ElementTest::make_element() {
  element_ = gst_element_factory_make("normalcrafter", nullptr);
  ASSERT_NE(element_, nullptr) << "the plugin is not in GST_PLUGIN_PATH";
  gst_object_ref_sink(element_);
  messages_ = std::make_unique<Messages>(element_);
  g_object_set(element_, "model", model("good", "good").c_str(), nullptr);
}

void ElementTest::fail_at(int frame, ErrorCode code) {
  controls().fault_code = static_cast<int>(code);
  controls().fault_frame = frame;
}

void ElementTest::play(const char* caps) {
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  gst_harness_set_src_caps_str(harness_, caps);
}

void ElementTest::stop() {
  if (harness_ == nullptr) return;
  // The harness does not unlink, and its pads may live on for a while.
  gst_pad_unlink(harness_->srcpad, GST_BASE_TRANSFORM_SINK_PAD(element_));
  gst_pad_unlink(GST_BASE_TRANSFORM_SRC_PAD(element_), harness_->sinkpad);
  gst_harness_teardown(harness_);
  harness_ = nullptr;
}

BufferPtr ElementTest::frame(int number, const char* caps_text) {
  GstVideoInfo info;
  const CapsPtr caps(gst_caps_from_string(caps_text));
  EXPECT_TRUE(gst_video_info_from_caps(&info, caps.get()));
  BufferPtr buffer(gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&info), nullptr));
  const Colour colour = test_colour(number);
  GstVideoFrame mapped;
  EXPECT_TRUE(gst_video_frame_map(&mapped, &info, buffer.get(), GST_MAP_WRITE));
  for (int y = 0; y < info.height; ++y) {
    auto* row = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&mapped, 0)) +
                y * GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, 0);
    for (int x = 0; x < info.width; ++x) {
      row[3 * x] = colour.r;
      row[3 * x + 1] = colour.g;
      row[3 * x + 2] = colour.b;
    }
  }
  gst_video_frame_unmap(&mapped);
  GST_BUFFER_PTS(buffer.get()) = number * kFrame;
  GST_BUFFER_DURATION(buffer.get()) = kFrame;
  return buffer;
}

GstFlowReturn ElementTest::push(int number, const char* caps) {
  return push_buffer(frame(number, caps));
}

GstFlowReturn ElementTest::push_buffer(BufferPtr buffer) {
  return gst_harness_push(harness_, buffer.release());
}

void ElementTest::push_frames(int first, int count) {
  for (int i = 0; i < count; ++i) ASSERT_EQ(push(first + i), GST_FLOW_OK) << "frame " << first + i;
}

bool ElementTest::send(GstEvent* event) {
  return gst_harness_push_event(harness_, event);
}

void ElementTest::send_segment() {
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  ASSERT_TRUE(send(gst_event_new_segment(&segment)));
}

BufferPtr ElementTest::pull() {
  BufferPtr buffer;
  eventually([&] {
    buffer.reset(gst_harness_try_pull(harness_));
    return buffer != nullptr;
  });
  return buffer;
}

std::vector<Colour> ElementTest::pull_colours(int count) {
  std::vector<Colour> colours;
  for (int i = 0; i < count; ++i) {
    const BufferPtr buffer = pull();
    if (!buffer) {
      ADD_FAILURE() << "no frame number " << i;
      break;
    }
    colours.push_back(colour_of(buffer.get()));
  }
  return colours;
}

Colour ElementTest::colour_of(GstBuffer* buffer, const char* caps_text) {
  if (buffer == nullptr) {
    ADD_FAILURE() << "there is no frame";
    return {};
  }
  GstVideoInfo info;
  const CapsPtr caps(gst_caps_from_string(caps_text));
  EXPECT_TRUE(gst_video_info_from_caps(&info, caps.get()));
  GstVideoFrame mapped;
  if (!gst_video_frame_map(&mapped, &info, buffer, GST_MAP_READ)) {
    ADD_FAILURE() << "the frame does not fit its caps";
    return {};
  }
  const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&mapped, 0));
  const Colour colour{data[0], data[1], data[2]};
  for (int y = 0; y < info.height; ++y) {
    const guint8* row = data + y * GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, 0);
    for (int x = 0; x < info.width; ++x) {
      const Colour other{row[3 * x], row[3 * x + 1], row[3 * x + 2]};
      EXPECT_EQ(other, colour) << "sheared at " << x << ", " << y;
    }
  }
  gst_video_frame_unmap(&mapped);
  return colour;
}

guint64 ElementTest::stat(const char* field) {
  GstStructure* stats = nullptr;
  g_object_get(element_, "stats", &stats, nullptr);
  guint64 value = 0;
  EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
  gst_structure_free(stats);
  return value;
}

Recorder::Recorder(GstElement* element) : pad_(gst_element_get_static_pad(element, "src")) {
  probe_ = gst_pad_add_probe(
      pad_,
      static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                                   GST_PAD_PROBE_TYPE_EVENT_FLUSH),
      record, this, nullptr);
}

Recorder::~Recorder() {
  gst_pad_remove_probe(pad_, probe_);
  gst_object_unref(pad_);
}

GstPadProbeReturn Recorder::record(GstPad*, GstPadProbeInfo* info, gpointer data) {
  auto* self = static_cast<Recorder*>(data);
  const std::lock_guard lock(self->mutex_);
  if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
    self->log_.push_back("frame " + std::to_string(self->frames_++));
  } else {
    self->log_.push_back(GST_EVENT_TYPE_NAME(GST_PAD_PROBE_INFO_EVENT(info)));
  }
  return GST_PAD_PROBE_OK;
}

std::vector<std::string> Recorder::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

Blockage::Blockage(GstElement* element) : pad_(gst_element_get_static_pad(element, "src")) {
  probe_ = gst_pad_add_probe(
      pad_, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER),
      [](GstPad*, GstPadProbeInfo*, gpointer) { return GST_PAD_PROBE_OK; }, nullptr, nullptr);
}

Blockage::~Blockage() {
  gst_pad_remove_probe(pad_, probe_);
  gst_object_unref(pad_);
}

bool Blockage::wait() {
  return eventually([this] { return gst_pad_is_blocking(pad_) != FALSE; });
}

}  // namespace normalcrafter
