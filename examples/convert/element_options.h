// The element's properties as options. They are asked of the installed element, so that there is
// one for each, with its range and default.
#pragma once

#include <gst/gst.h>

#include <string>
#include <utility>
#include <vector>

namespace normalcrafter::convert {

/// Property names and values, as they were given.
using ElementSettings = std::vector<std::pair<std::string, std::string>>;

/// The element, which the caller owns. A Failure (Model) if GStreamer does not know it, neither by
/// itself nor where this program's installation has it; `installed_in` is the folder that the
/// program is installed in, before it is moved.
GstElement* make_normalcrafter(const std::string& installed_in);

/// The properties that can be written, in the order that the element lists them.
std::vector<GParamSpec*> writable_properties(GstElement* element);

/// Options of these names that put what they get into `settings`, which has to outlive the group.
/// With the group comes --help-element. The caller owns the result.
GOptionGroup* element_option_group(GstElement* element, ElementSettings* settings);

/// A Failure (Usage) for a value that does not suit; it says what does.
void apply(const ElementSettings& settings, GstElement* element);

/// The model that is used, wherever its name comes from, and the other properties that the pictures
/// depend on and that are not at their default, as "model=/models/a step-size=7".
std::string settings_that_count(GstElement* element);

/// A property of any type as text.
std::string property_text(GstElement* element, const char* name);
int integer_property(GstElement* element, const char* name);
bool flag_property(GstElement* element, const char* name);

}  // namespace normalcrafter::convert
