// Records a camera's normals, with a preview where there is a display: docs/live.md.
//   live-capture --model=DIR --output=normals.mkv        (Ctrl-C ends it)
#include <glib-unix.h>
#include <gst/gst.h>

#include <csignal>
#include <cstdio>
#include <string>

namespace {

constexpr const char* kDefaultDevice = "/dev/video0";

struct Options {
  gchar* device = nullptr;
  gchar* output = g_strdup("normals.mkv");
  gchar* model = nullptr;
  gint seconds = 0;
  gint size = 256;
  gboolean test_source = FALSE;
  gboolean version = FALSE;
};

/// What the callbacks share.
struct Capture {
  GstElement* pipeline = nullptr;
  GMainLoop* loop = nullptr;
  gint seconds = 0;
  bool stopping = false;
  bool failed = false;
};

/// Ends the stream at the source: what was captured still goes through the network, and the muxer
/// completes the file. From then on a signal ends the program at once, even where the main loop
/// waits for the network.
gboolean finish(gpointer data) {
  auto* capture = static_cast<Capture*>(data);
  if (!capture->stopping) {
    capture->stopping = true;
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
    std::printf("finishing the file (Ctrl-C: at once)\n");
    gst_element_send_event(capture->pipeline, gst_event_new_eos());
  }
  return G_SOURCE_REMOVE;
}

gboolean print_statistics(gpointer data) {
  auto* capture = static_cast<Capture*>(data);
  GstElement* normals = gst_bin_get_by_name(GST_BIN(capture->pipeline), "normals");
  GstStructure* stats = nullptr;
  g_object_get(normals, "stats", &stats, nullptr);
  guint64 frames = 0, dropped = 0, held = 0;
  gst_structure_get(stats, "frames-out", G_TYPE_UINT64, &frames, "frames-dropped", G_TYPE_UINT64,
                    &dropped, "latency", G_TYPE_UINT64, &held, nullptr);
  std::printf("%" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT " dropped, latency %.2f s", frames,
              dropped, static_cast<double>(held) / GST_SECOND);
  // What camera and encoder add. The pipeline itself would say 0, since a file waits for no clock.
  g_autoptr(GstElement) encoder = gst_bin_get_by_name(GST_BIN(capture->pipeline), "encoder");
  g_autoptr(GstPad) pad = gst_element_get_static_pad(encoder, "src");
  GstQuery* query = gst_query_new_latency();
  if (gst_pad_query(pad, query)) {
    GstClockTime all = 0;
    gst_query_parse_latency(query, nullptr, &all, nullptr);
    std::printf(", with camera and encoder %.2f s", static_cast<double>(all) / GST_SECOND);
  }
  std::printf("\n");
  gst_query_unref(query);
  gst_structure_free(stats);
  gst_object_unref(normals);
  return G_SOURCE_CONTINUE;
}

void on_error(Capture* capture, GstMessage* message) {
  g_autoptr(GError) error = nullptr;
  g_autofree gchar* details = nullptr;
  gst_message_parse_error(message, &error, &details);
  std::fprintf(stderr, "%s: %s\n%s\n", GST_OBJECT_NAME(GST_MESSAGE_SRC(message)), error->message,
               details ? details : "");
  g_autoptr(GstElement) preview = gst_bin_get_by_name(GST_BIN(capture->pipeline), "preview");
  if (preview && gst_object_has_as_ancestor(GST_MESSAGE_SRC(message), GST_OBJECT(preview))) {
    finish(capture);  // its window was closed
    return;
  }
  capture->failed = true;
  // A camera that is unplugged ends the stream itself, and the file is completed.
  g_autoptr(GstElement) source = gst_bin_get_by_name(GST_BIN(capture->pipeline), "source");
  if (GST_MESSAGE_SRC(message) != GST_OBJECT(source) ||
      GST_STATE(capture->pipeline) != GST_STATE_PLAYING)
    g_main_loop_quit(capture->loop);
}

/// The seconds begin when the weights are there.
void on_progress(Capture* capture, GstMessage* message) {
  GstProgressType type;
  gst_message_parse_progress(message, &type, nullptr, nullptr);
  if (type == GST_PROGRESS_TYPE_START) std::printf("loading the model\n");
  if (type != GST_PROGRESS_TYPE_COMPLETE || capture->seconds == 0) return;
  g_timeout_add_seconds(static_cast<guint>(capture->seconds), finish, capture);
  capture->seconds = 0;
}

gboolean on_message(GstBus*, GstMessage* message, gpointer data) {
  auto* capture = static_cast<Capture*>(data);
  switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_ERROR:
      on_error(capture, message);
      break;
    case GST_MESSAGE_WARNING: {
      g_autoptr(GError) warning = nullptr;
      gst_message_parse_warning(message, &warning, nullptr);
      std::fprintf(stderr, "%s\n", warning->message);
      break;
    }
    case GST_MESSAGE_PROGRESS:
      on_progress(capture, message);
      break;
    case GST_MESSAGE_LATENCY:
      gst_bin_recalculate_latency(GST_BIN(capture->pipeline));
      break;
    case GST_MESSAGE_EOS:
      g_main_loop_quit(capture->loop);
      break;
    default:
      break;
  }
  return G_SOURCE_CONTINUE;
}

/// A sink that can open a window here, or null. Not autovideosink: without a display it goes on to
/// sinks for bare screens, of which DirectFB's ends the program.
const char* preview_sink() {
  if (g_getenv("DISPLAY") == nullptr && g_getenv("WAYLAND_DISPLAY") == nullptr) return nullptr;
  for (const char* name : {"waylandsink", "xvimagesink", "ximagesink"}) {
    GstElement* sink = gst_element_factory_make(name, nullptr);
    if (sink == nullptr) continue;
    const bool usable = gst_element_set_state(sink, GST_STATE_READY) != GST_STATE_CHANGE_FAILURE;
    gst_element_set_state(sink, GST_STATE_NULL);
    gst_object_unref(sink);
    if (usable) return name;
  }
  return nullptr;
}

/// The pipeline; what the user named is set as properties, where no character is special.
GstElement* make_pipeline(const Options& options, GError** error) {
  const bool test_source =
      options.test_source ||
      (options.device == nullptr && !g_file_test(kDefaultDevice, G_FILE_TEST_EXISTS));
  const char* preview = preview_sink();
  std::printf("%s, %s\n", test_source ? "test picture" : "camera",
              preview ? "with preview" : "no display, no preview");
  // Frames that come too fast are dropped before the network; the latency is the lowest possible.
  // 4:4:4, since subsampled colours would bend the vectors.
  std::string line = test_source ? "videotestsrc name=source is-live=true pattern=ball ! "
                                   "video/x-raw,width=640,height=480,framerate=25/1"
                                 : "v4l2src name=source";
  line +=
      " ! videoconvert ! normalcrafter name=normals leaky=downstream tail-mode=repeat "
      "vae-decode-chunk-size=1 ! tee name=out "
      "out. ! queue ! videoconvert dither=none ! video/x-raw,format=Y444 ! x264enc "
      "name=encoder tune=zerolatency speed-preset=faster pass=quant quantizer=14 ! ";
  line += g_str_has_suffix(options.output, ".mp4") ? "mp4mux" : "matroskamux";
  line += " ! filesink name=file ";
  // A window that is closed, or too slow, is no reason to lose the recording.
  if (preview != nullptr)
    line += std::string(
                "out. ! errorignore convert-to=not-linked ! queue leaky=downstream "
                "max-size-buffers=2 ! "
                "videoconvert ! ") +
            preview + " name=preview sync=false";

  GstElement* pipeline = gst_parse_launch(line.c_str(), error);
  if (*error != nullptr) {
    g_clear_object(&pipeline);
    return nullptr;
  }
  const auto set = [pipeline](const char* name, const char* property, auto value) {
    g_autoptr(GstElement) element = gst_bin_get_by_name(GST_BIN(pipeline), name);
    g_object_set(element, property, value, nullptr);
  };
  set("file", "location", options.output);
  set("normals", "max-resolution", options.size);
  if (options.model != nullptr) set("normals", "model", options.model);
  if (!test_source) set("source", "device", options.device ? options.device : kDefaultDevice);
  return pipeline;
}

/// The exit status.
int record(const Options& options) {
  g_autoptr(GError) error = nullptr;
  Capture capture;
  capture.seconds = options.seconds;
  capture.pipeline = make_pipeline(options, &error);
  if (capture.pipeline == nullptr) {
    std::fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  capture.loop = g_main_loop_new(nullptr, FALSE);
  GstBus* bus = gst_element_get_bus(capture.pipeline);
  gst_bus_add_watch(bus, on_message, &capture);
  g_unix_signal_add(SIGINT, finish, &capture);
  g_unix_signal_add(SIGTERM, finish, &capture);
  g_timeout_add_seconds(1, print_statistics, &capture);

  // A failure is told on the bus.
  gst_element_set_state(capture.pipeline, GST_STATE_PLAYING);
  g_main_loop_run(capture.loop);
  print_statistics(&capture);
  gst_element_set_state(capture.pipeline, GST_STATE_NULL);
  gst_bus_remove_watch(bus);
  gst_object_unref(bus);
  gst_object_unref(capture.pipeline);
  g_main_loop_unref(capture.loop);
  if (!capture.failed) std::printf("written: %s\n", options.output);
  return capture.failed ? 1 : 0;
}

/// Of what it runs with: the program is an example, without a version of its own.
void print_versions() {
  g_autoptr(GstPlugin) plugin = gst_registry_find_plugin(gst_registry_get(), "normalcrafter");
  g_autofree gchar* gstreamer = gst_version_string();
  std::printf("element normalcrafter %s, %s\n",
              plugin ? gst_plugin_get_version(plugin) : "not found", gstreamer);
}

bool parse(int* argc, char*** argv, Options* options) {
  const GOptionEntry entries[] = {
      {"device", 'd', 0, G_OPTION_ARG_FILENAME, &options->device,
       "Camera (/dev/video0; if it is not there, a test picture)", "DEVICE"},
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output, "File to write (normals.mkv)",
       "FILE.mkv|FILE.mp4"},
      {"seconds", 's', 0, G_OPTION_ARG_INT, &options->seconds, "Stop after so long", "N"},
      {"model", 'm', 0, G_OPTION_ARG_FILENAME, &options->model,
       "Model directory (NORMALCRAFTER_MODEL)", "DIR"},
      {"size", 0, 0, G_OPTION_ARG_INT, &options->size,
       "The longer side that the network sees (256)", "PIXELS"},
      {"test-source", 't', 0, G_OPTION_ARG_NONE, &options->test_source,
       "A test picture instead of a camera", nullptr},
      {"version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Show the version", nullptr},
      {}};
  g_autoptr(GOptionContext) context = g_option_context_new("- a camera's normals into a file");
  g_option_context_add_main_entries(context, entries, nullptr);
  g_option_context_add_group(context, gst_init_get_option_group());
  g_autoptr(GError) error = nullptr;
  if (!g_option_context_parse(context, argc, argv, &error))
    std::fprintf(stderr, "%s\n", error->message);
  else if (*argc > 1)
    std::fprintf(stderr, "%s is no option; try --help\n", (*argv)[1]);
  else if (options->seconds < 0 || options->size < 1 || options->size > 16384)
    std::fprintf(stderr, "--seconds takes a number from 0, --size one from 1 to 16384\n");
  else
    return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a log file shows each line at once
  Options options;
  if (!parse(&argc, &argv, &options)) return 2;
  if (options.version) {
    print_versions();
    return 0;
  }
  if (g_file_test(options.output, G_FILE_TEST_EXISTS)) {
    std::fprintf(stderr, "%s is there already; --output gives another name\n", options.output);
    return 2;
  }
  return record(options);
}
