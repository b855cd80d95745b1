// What properties promise: their flags, when they count, and their documentation.
#include <fstream>
#include <map>

#include "element_fixture.h"

namespace normalcrafter {
namespace {

class PropertyTest : public ElementTest {
 protected:
  /// The element's own, not those of GstBaseTransform and above.
  std::vector<GParamSpec*> own_properties() {
    guint count = 0;
    GParamSpec** all = g_object_class_list_properties(G_OBJECT_GET_CLASS(element_), &count);
    std::vector<GParamSpec*> own;
    for (guint i = 0; i < count; ++i) {
      if (all[i]->owner_type == G_OBJECT_TYPE(element_)) own.push_back(all[i]);
    }
    g_free(all);
    return own;
  }

  /// Not the default.
  static GValue another_value(GParamSpec* spec) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, spec->value_type);
    if (G_VALUE_HOLDS_BOOLEAN(&value)) {
      g_value_set_boolean(&value, !g_value_get_boolean(g_param_spec_get_default_value(spec)));
    } else if (G_VALUE_HOLDS_INT(&value)) {
      g_value_set_int(&value, 7);
    } else if (G_VALUE_HOLDS_UINT(&value)) {
      g_value_set_uint(&value, 7);
    } else if (G_VALUE_HOLDS_UINT64(&value)) {
      g_value_set_uint64(&value, 7);
    } else if (G_VALUE_HOLDS_ENUM(&value)) {
      g_value_set_enum(&value, 1);
    } else {
      EXPECT_TRUE(G_VALUE_HOLDS_STRING(&value));
      g_value_set_string(&value, "text");
    }
    return value;
  }
};

TEST_F(PropertyTest, EachSaysWhatItIsAndWhenItMayChange) {
  const std::vector<GParamSpec*> properties = own_properties();
  EXPECT_GT(properties.size(), 25u);
  for (GParamSpec* spec : properties) {
    SCOPED_TRACE(spec->name);
    EXPECT_GT(std::string(g_param_spec_get_blurb(spec)).size(), 10u);
    if ((spec->flags & G_PARAM_WRITABLE) == 0) continue;
    const bool ready = (spec->flags & GST_PARAM_MUTABLE_READY) != 0;
    const bool playing = (spec->flags & GST_PARAM_MUTABLE_PLAYING) != 0;
    EXPECT_NE(ready, playing);
  }
}

TEST_F(PropertyTest, EachIsInTheReferenceWithItsState) {
  std::ifstream file(g_getenv("NORMALCRAFTER_DOCS"));
  ASSERT_TRUE(file.is_open());
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    // A row may be about several: | `flip-x`, `flip-y` | ...
    const std::string names = line.substr(0, line.find('|', 1));
    for (std::size_t at = names.find('`'); at != std::string::npos;) {
      const std::size_t end = names.find('`', at + 1);
      rows[names.substr(at + 1, end - at - 1)] += line;
      at = names.find('`', end + 1);
    }
  }
  for (GParamSpec* spec : own_properties()) {
    SCOPED_TRACE(spec->name);
    const std::string& row = rows[spec->name];
    const bool writable = (spec->flags & G_PARAM_WRITABLE) != 0;
    const bool playing = (spec->flags & GST_PARAM_MUTABLE_PLAYING) != 0;
    EXPECT_NE(row.find(!writable ? "read only"
                       : playing ? "PLAYING"
                                 : "READY"),
              std::string::npos)
        << row;
  }
}

TEST_F(PropertyTest, EachStatisticIsInTheReference) {
  play();
  GstStructure* stats = nullptr;
  g_object_get(element_, "stats", &stats, nullptr);
  std::ifstream file(g_getenv("NORMALCRAFTER_DOCS"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (int i = 0; i < gst_structure_n_fields(stats); ++i) {
    const std::string field = gst_structure_nth_field_name(stats, i);
    EXPECT_NE(text.find("`" + field + "`"), std::string::npos) << field;
  }
  gst_structure_free(stats);
}

TEST_F(PropertyTest, EachKeepsWhatItIsGiven) {
  for (GParamSpec* spec : own_properties()) {
    if ((spec->flags & G_PARAM_WRITABLE) == 0) continue;
    SCOPED_TRACE(spec->name);
    GValue value = another_value(spec);
    g_object_set_property(G_OBJECT(element_), spec->name, &value);
    GValue kept = G_VALUE_INIT;
    g_value_init(&kept, spec->value_type);
    g_object_get_property(G_OBJECT(element_), spec->name, &kept);
    EXPECT_EQ(g_param_values_cmp(spec, &value, &kept), 0);
    g_value_unset(&kept);
    g_value_unset(&value);
  }
}

TEST_F(PropertyTest, EachCanBeWrittenWhileItPlaysAndNoFrameIsLost) {
  play();
  int number = 0;
  for (GParamSpec* spec : own_properties()) {
    if ((spec->flags & G_PARAM_WRITABLE) == 0) continue;
    push_frames(number, 3);
    number += 3;
    GValue value = another_value(spec);
    g_object_set_property(G_OBJECT(element_), spec->name, &value);
    g_value_unset(&value);
    if (std::string(spec->name) == "leaky") g_object_set(element_, "leaky", 0, nullptr);
  }
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < number; ++i) {
    const BufferPtr out = pull();
    ASSERT_TRUE(out) << "frame " << i;
    EXPECT_EQ(GST_BUFFER_PTS(out.get()), i * kFrame);
  }
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(PropertyTest, ThoseOfReadyCountFromTheNextRunOn) {
  play();
  g_object_set(element_, "window-size", 5, "step-size", 5, "vae-decode-chunk-size", 1, nullptr);
  push_frames(0, 24);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(24), offline_clip(0, 24)) << "windows of 14 as at the start";
  stop();
  play();
  push_frames(0, 24);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(24), offline_clip(0, 24, 5, 5));
}

TEST_F(PropertyTest, TheOutputsSizeIsOneOfThem) {
  play();
  g_object_set(element_, "max-resolution", 4, nullptr);
  gst_util_set_object_arg(G_OBJECT(element_), "output-size", "processed");
  push_frames(0, 3);
  send(gst_event_new_caps(
      CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=9,height=6,framerate=25/1"))
          .get()));
  GstPad* source = gst_element_get_static_pad(element_, "src");
  const CapsPtr caps(gst_pad_get_current_caps(source));
  gst_object_unref(source);
  int width = 0;
  gst_structure_get_int(gst_caps_get_structure(caps.get(), 0), "width", &width);
  EXPECT_EQ(width, 9);
}

TEST_F(PropertyTest, ThoseOfPlayingCountAtOnce) {
  g_object_set(element_, "max-size-buffers", 1, nullptr);
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  push_frames(14, 1);
  std::thread upstream([&] { push_frames(15, 3); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  g_object_set(element_, "max-size-buffers", 4, nullptr);
  upstream.join();  // there is room now, though the network stands still
  gst_util_set_object_arg(G_OBJECT(element_), "leaky", "upstream");
  push_frames(18, 2);
  EXPECT_EQ(stat("frames-dropped"), 2u);
}

}  // namespace
}  // namespace normalcrafter
