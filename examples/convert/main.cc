// normalcrafter-convert INPUT OUTPUT: docs/convert.md.
#include <gst/gst.h>

#include <clocale>
#include <cstdio>
#include <exception>
#include <optional>

#include "check_axes.h"
#include "conversion.h"
#include "element_options.h"
#include "failure.h"
#include "frame_count.h"
#include "options.h"

namespace {

namespace nc = normalcrafter::convert;

/// Mentioned in --version, and what the program's own has to be.
std::string element_version(GstElement* element) {
  GstPlugin* plugin =
      gst_plugin_feature_get_plugin(GST_PLUGIN_FEATURE(gst_element_get_factory(element)));
  if (plugin == nullptr) return "of unknown version";
  std::string version = gst_plugin_get_version(plugin);
  gst_object_unref(plugin);
  return version;
}

void print_versions(GstElement* element) {
  const nc::Handle<char> gstreamer(gst_version_string());
  std::printf("normalcrafter-convert %s\n%s\nelement normalcrafter: %s\n", NORMALCRAFTER_VERSION,
              gstreamer.get(), element ? element_version(element).c_str() : "not found");
}

/// The element, or why there is none: --help and --version do without.
nc::Handle<GstElement> find_element(std::optional<nc::Failure>& why) {
  try {
    return nc::Handle<GstElement>(nc::make_normalcrafter(NORMALCRAFTER_BIN_DIR));
  } catch (const nc::Failure& failure) {
    why = failure;
    return nullptr;
  }
}

nc::Status convert(const nc::Options& options, GstElement* element) {
  nc::Reporter reporter(options.progress);
  nc::Outcome outcome;
  try {
    outcome = nc::Conversion(options, element, reporter).run();
  } catch (const std::exception& error) {
    const nc::Failure failure = nc::as_failure(error);
    outcome.status = failure.status();
    outcome.message = failure.what();
  }
  reporter.end(outcome);
  return outcome.status;
}

nc::Status run(const std::vector<std::string>& arguments) {
  std::optional<nc::Failure> no_element;
  const nc::Handle<GstElement> element = find_element(no_element);
  nc::Options options;
  try {
    options = nc::parse_options(arguments, element.get());
  } catch (const nc::Failure&) {
    // Options of an element that is not there are unknown.
    if (no_element) throw nc::Failure(*no_element);
    throw;
  }
  if (options.version) {
    print_versions(element.get());
    return nc::Status::Done;
  }
  if (no_element) throw nc::Failure(*no_element);
  nc::apply(options.element, element.get());
  if (options.check_axes) return nc::check_axes(element.get(), options.progress);
  if (options.count) {
    nc::count_frames(options, element.get());
    return nc::Status::Done;
  }
  return convert(options, element.get());
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  gst_init(&argc, &argv);
  nc::Status status = nc::Status::Failed;
  try {
    status = run({argv, argv + argc});
  } catch (const std::exception& error) {
    const nc::Failure failure = nc::as_failure(error);
    std::fprintf(stderr, "normalcrafter-convert: %s\n", failure.what());
    status = failure.status();
  }
  return static_cast<int>(status);
}
