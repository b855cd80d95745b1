#include "element_options.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>

#include "failure.h"
#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

constexpr const char* kElement = "normalcrafter";

/// A GValue of a type, cleared at the end.
class Value {
 public:
  explicit Value(GType type) { g_value_init(&value_, type); }
  ~Value() { g_value_unset(&value_); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  GValue* get() { return &value_; }

  std::string text() const {
    if (G_VALUE_HOLDS_STRING(&value_)) {
      const char* held = g_value_get_string(&value_);
      return held != nullptr ? held : "";
    }
    if (G_VALUE_HOLDS_ENUM(&value_)) {
      auto* type = static_cast<GEnumClass*>(g_type_class_ref(G_VALUE_TYPE(&value_)));
      const GEnumValue* known = g_enum_get_value(type, g_value_get_enum(&value_));
      std::string nick = known != nullptr ? known->value_nick : "";
      g_type_class_unref(type);
      return nick;
    }
    const Handle<char> written(gst_value_serialize(&value_));
    return written ? written.get() : "";
  }

 private:
  GValue value_ = G_VALUE_INIT;
};

std::string choices(GParamSpec* spec) {
  std::string text;
  if (G_IS_PARAM_SPEC_ENUM(spec)) {
    const GEnumClass* type = G_PARAM_SPEC_ENUM(spec)->enum_class;
    for (guint i = 0; i < type->n_values; ++i)
      text += (i > 0 ? ", " : "") + std::string(type->values[i].value_nick);
  } else if (G_IS_PARAM_SPEC_INT(spec)) {
    const auto* range = G_PARAM_SPEC_INT(spec);
    text = std::to_string(range->minimum) + " to " + std::to_string(range->maximum);
  } else if (G_IS_PARAM_SPEC_UINT(spec)) {
    const auto* range = G_PARAM_SPEC_UINT(spec);
    text = std::to_string(range->minimum) + " to " + std::to_string(range->maximum);
  } else if (G_IS_PARAM_SPEC_UINT64(spec)) {
    const auto* range = G_PARAM_SPEC_UINT64(spec);
    text = std::to_string(range->minimum) + " to " + std::to_string(range->maximum);
  } else if (G_IS_PARAM_SPEC_BOOLEAN(spec)) {
    text = "true, false";
  }
  return text;
}

std::string default_text(GParamSpec* spec) {
  Value value(G_PARAM_SPEC_VALUE_TYPE(spec));
  g_param_value_set_default(spec, value.get());
  return value.text();
}

/// GLib keeps pointers to an entry's texts.
struct Texts {
  std::deque<std::string> kept;
  ElementSettings* settings;
  const char* keep(std::string text) { return kept.emplace_back(std::move(text)).c_str(); }
};

gboolean take_setting(const gchar* option, const gchar* value, gpointer data, GError**) {
  static_cast<Texts*>(data)->settings->emplace_back(option + 2, value != nullptr ? value : "true");
  return TRUE;
}

GOptionEntry entry_of(GParamSpec* spec, Texts& texts) {
  std::string description = g_param_spec_get_blurb(spec);
  const std::string allowed = choices(spec);
  if (!allowed.empty()) description += "; " + allowed;
  const std::string preset = default_text(spec);
  if (!preset.empty()) description += " (default: " + preset + ")";
  const bool is_flag = G_IS_PARAM_SPEC_BOOLEAN(spec);
  // A text may be a file's name, in whatever encoding.
  const int text = G_IS_PARAM_SPEC_STRING(spec) ? G_OPTION_FLAG_FILENAME : G_OPTION_FLAG_NONE;
  return {g_param_spec_get_name(spec),
          0,
          is_flag ? G_OPTION_FLAG_OPTIONAL_ARG : text,
          G_OPTION_ARG_CALLBACK,
          reinterpret_cast<gpointer>(take_setting),
          texts.keep(std::move(description)),
          is_flag ? "true|false" : "VALUE"};
}

/// A text is taken as it is: gst_value_deserialize() would read quotation marks in a file's name.
bool parse(const std::string& text, GParamSpec* spec, GValue* value) {
  if (G_IS_PARAM_SPEC_STRING(spec)) {
    g_value_set_string(value, text.c_str());
    return true;
  }
  return gst_value_deserialize(value, text.c_str()) && !g_param_value_validate(spec, value);
}

/// The model that the element opens, by the name that it was given.
std::string model_in_use(GstElement* element) {
  const std::string property = property_text(element, "model");
  if (!property.empty()) return property;
  const char* variable = g_getenv("NORMALCRAFTER_MODEL");
  return variable != nullptr && *variable != '\0' ? variable : "(the demo model)";
}

/// Where the plugin is, relative to this program as the installation has them: that may have been
/// moved as a whole, or unpacked somewhere else.
std::string installed_plugin_directory(const std::string& installed_in) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return NORMALCRAFTER_PLUGIN_DIR;
  const std::filesystem::path way =
      std::filesystem::path(NORMALCRAFTER_PLUGIN_DIR).lexically_relative(installed_in);
  return (self.parent_path() / way).lexically_normal().string();
}

}  // namespace

GstElement* make_normalcrafter(const std::string& installed_in) {
  GstElement* element = gst_element_factory_make(kElement, nullptr);
  const std::string installed = installed_plugin_directory(installed_in);
  if (element == nullptr) {
    gst_registry_scan_path(gst_registry_get(), installed.c_str());
    element = gst_element_factory_make(kElement, nullptr);
  }
  if (element == nullptr) {
    throw Failure(
        Status::Model,
        "GStreamer finds no element normalcrafter; GST_PLUGIN_PATH has to name the folder "
        "of libgstnormalcrafter.so (it is not in " +
            installed + " either)");
  }
  return GST_ELEMENT(gst_object_ref_sink(element));
}

std::vector<GParamSpec*> writable_properties(GstElement* element) {
  guint count = 0;
  const std::unique_ptr<GParamSpec*, decltype(&g_free)> all(
      g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &count), g_free);
  std::vector<GParamSpec*> own;
  for (guint i = 0; i < count; ++i) {
    GParamSpec* spec = all.get()[i];
    // Those of the base classes (name, parent, qos) are the pipeline's business.
    if (spec->owner_type == G_OBJECT_TYPE(element) && (spec->flags & G_PARAM_WRITABLE) != 0)
      own.push_back(spec);
  }
  return own;
}

GOptionGroup* element_option_group(GstElement* element, ElementSettings* settings) {
  auto* texts = new Texts{{}, settings};
  GOptionGroup* group =
      g_option_group_new("element", "Properties of the element normalcrafter:",
                         "Show the element's properties, which are options too", texts,
                         [](gpointer data) { delete static_cast<Texts*>(data); });
  std::vector<GOptionEntry> entries;
  for (GParamSpec* spec : writable_properties(element)) entries.push_back(entry_of(spec, *texts));
  entries.push_back({});
  g_option_group_add_entries(group, entries.data());
  return group;
}

void apply(const ElementSettings& settings, GstElement* element) {
  for (const auto& [name, text] : settings) {
    GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name.c_str());
    Value value(G_PARAM_SPEC_VALUE_TYPE(spec));
    if (!parse(text, spec, value.get())) {
      throw Failure(Status::Usage,
                    "--" + name + "=" + text + ": the value has to be one of " + choices(spec));
    }
    g_object_set_property(G_OBJECT(element), name.c_str(), value.get());
  }
}

std::string property_text(GstElement* element, const char* name) {
  GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
  Value value(G_PARAM_SPEC_VALUE_TYPE(spec));
  g_object_get_property(G_OBJECT(element), name, value.get());
  return value.text();
}

int integer_property(GstElement* element, const char* name) {
  gint value = 0;
  g_object_get(element, name, &value, nullptr);
  return value;
}

bool flag_property(GstElement* element, const char* name) {
  gboolean value = FALSE;
  g_object_get(element, name, &value, nullptr);
  return value != FALSE;
}

std::string settings_that_count(GstElement* element) {
  // How fast and where, not what.
  static const std::set<std::string> no_matter = {
      "device", "offload-mode",     "offload-after",   "threads",
      "leaky",  "max-size-buffers", "windows-per-pass"};
  std::string text;
  for (GParamSpec* spec : writable_properties(element)) {
    const std::string name = g_param_spec_get_name(spec);
    const std::string value =
        name == "model" ? model_in_use(element) : property_text(element, name.c_str());
    if (no_matter.count(name) > 0 || value == default_text(spec)) continue;
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

}  // namespace normalcrafter::convert
