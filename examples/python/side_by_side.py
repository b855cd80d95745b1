"""Shows a video beside its normals, in a window or as a file. docs/applications.md."""

import argparse
import os
import pathlib
import re
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

# Of what a branch holds back the other one needs as much: the element looks ahead.
QUEUE = "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
# 4:4:4, since subsampled colours would bend the vectors.
ENCODERS = {".mp4": "videoconvert dither=none ! video/x-raw,format=Y444 ! x264enc pass=quant quantizer=14 ! mp4mux",
            ".mkv": "avenc_ffv1 ! matroskamux"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     epilog="Any element property may follow, e.g. model=DIR max-resolution=512.")
    parser.add_argument("video")
    parser.add_argument("properties", nargs="*", metavar="property=value")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="FILE.mp4, or lossless FILE.mkv, instead of a window")
    parser.add_argument("--sink", help="another sink than autovideosink, e.g. fakesink")
    parser.add_argument("--version", action="version", version=versions())
    options = parser.parse_intermixed_args()
    for argument in options.properties:
        if "=" not in argument:
            parser.error(f"{argument!r} is not property=value")
    if options.output and options.output.suffix not in ENCODERS:
        parser.error(f"--output ends in {' or '.join(ENCODERS)}")
    if options.output and options.output.exists():
        parser.error(f"{options.output} is there already")
    if not options.output and not options.sink and not any(os.environ.get(name) for name in DISPLAYS):
        # Some sinks that autovideosink tries then end the whole program.
        parser.error("there is no display to show a window on; --output=FILE.mp4 writes a file, --sink=SINK takes another "
                     "sink, such as kmssink")
    options.sink = options.sink or "autovideosink"
    return options


def versions():
    Gst.init(None)
    plugin = Gst.Registry.get().find_plugin("normalcrafter")
    return f"element normalcrafter {plugin.get_version() if plugin else 'not found'}, {Gst.version_string()}"


def quoted(assignment):
    """property=value as a launch line takes it, whatever the value has in it, such as spaces."""
    name, value = assignment.split("=", 1)
    return name + '="' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def make_pipeline(options):
    sink = f"{ENCODERS[options.output.suffix]} ! filesink name=out" if options.output else options.sink
    if not options.output:
        sink = "videoconvert ! " + sink
    pipeline = Gst.parse_launch(
        "filesrc name=in ! decodebin ! videoconvert ! deinterlace fields=top ! videoflip video-direction=auto ! "
        f"videoconvert ! tee name=t  t. ! {QUEUE} ! both.sink_0  t. ! {QUEUE} ! "
        f"normalcrafter name=normals {' '.join(map(quoted, options.properties))} ! both.sink_1 "
        f"compositor name=both ! video/x-raw,format=BGRx ! {QUEUE} ! {sink}")
    # As URIs, which take any name. The property "location" takes UTF-8.
    pipeline.get_by_name("in").set_uri(pathlib.Path(options.video).absolute().as_uri())
    if options.output:
        pipeline.get_by_name("out").set_uri(options.output.absolute().as_uri())
    right = pipeline.get_by_name("both").get_static_pad("sink_1")

    def place(pad, info):
        """The normals begin where the picture, which is as wide, ends."""
        event = info.get_event()
        if event.type == Gst.EventType.CAPS:
            pad.set_property("xpos", event.parse_caps().get_structure(0).get_value("width"))
        return Gst.PadProbeReturn.OK

    right.add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, place)
    return pipeline


def main():
    options = parse_arguments()
    Gst.init(None)
    try:
        pipeline = make_pipeline(options)
    except GLib.Error as error:
        sys.exit(f"side_by_side.py: {error.message}")
    bus = pipeline.get_bus()
    pipeline.set_state(Gst.State.PLAYING)
    try:
        while True:
            message = bus.timed_pop_filtered(Gst.SECOND // 5, Gst.MessageType.EOS | Gst.MessageType.ERROR)
            if message and message.type == Gst.MessageType.ERROR:
                error, details = message.parse_error()
                sys.exit(f"{message.src.get_name()}: {error.message}\n{details or ''}")
            if message:
                return
    except KeyboardInterrupt:
        pipeline.send_event(Gst.Event.new_eos())
        bus.timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    finally:
        pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
