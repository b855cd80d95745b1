"""Normals of NumPy frames: python3 normals.py frames.npy normals.npy [property=value ...]

frames.npy: uint8 [frames, height, width, 3]. normals.npy: float32 of the same shape, unit vectors. docs/applications.md.
"""

import re
import sys
import threading

import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import GLib, Gst, GstApp  # noqa: E402, F401 (GstApp gives appsrc and appsink their methods)


def normals(frames, rate=25, properties=""):
    """Yields float32 [height, width, 3] for each uint8 frame of that shape; the size is the first one's. What `frames`
    raises is raised behind the normals of the frames before it. `properties`: as in a launch line, see quoted()."""
    Gst.init(None)
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        return
    height, width, _ = np.shape(first)
    tensors = "other/tensors,format=static"  # 8-bit colours instead: "video/x-raw,format=RGB"
    pipeline = Gst.parse_launch(
        f"appsrc name=in format=time block=true max-buffers=4 max-bytes=0 caps=video/x-raw,format=RGBx,"
        f"width={width},height={height},framerate={rate}/1 ! normalcrafter {properties} ! {tensors} ! "
        "appsink name=out sync=false max-buffers=4")
    source, sink, bus = pipeline.get_by_name("in"), pipeline.get_by_name("out"), pipeline.get_bus()

    def push(frame, number):
        # RGBx: its rows need no padding, whatever the width.
        buffer = Gst.Buffer.new_wrapped(np.pad(frame, ((0, 0), (0, 0), (0, 1))).tobytes())
        buffer.pts = number * Gst.SECOND // rate
        return source.push_buffer(buffer) == Gst.FlowReturn.OK

    failures = []

    def feed():
        try:
            if push(first, 0):
                all(push(frame, number) for number, frame in enumerate(frames, 1))
        except BaseException as error:
            failures.append(error)
        finally:
            source.end_of_stream()

    feeder = threading.Thread(target=feed)  # The element looks ahead: frames go in while none comes out.
    try:
        if pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE:
            feeder.start()
        while not sink.is_eos():
            if sample := sink.try_pull_sample(Gst.SECOND // 10):
                data = sample.get_buffer().extract_dup(0, height * width * 12)
                yield np.frombuffer(data, np.float32).reshape(height, width, 3)
            elif message := bus.pop_filtered(Gst.MessageType.ERROR):
                raise RuntimeError(message.parse_error()[0].message)
        if failures:
            raise failures[0]
    finally:
        pipeline.set_state(Gst.State.NULL)
        if feeder.is_alive():
            feeder.join()


def quoted(assignment):
    """property=value as a launch line takes it, whatever the value has in it, such as spaces."""
    name, value = assignment.split("=", 1)
    return name + '="' + re.sub(r'(["\\])', r"\\\1", value) + '"'


if __name__ == "__main__":
    if "--version" in sys.argv[1:]:
        Gst.init(None)
        plugin = Gst.Registry.get().find_plugin("normalcrafter")
        print(f"element normalcrafter {plugin.get_version() if plugin else 'not found'}, {Gst.version_string()}")
        sys.exit()
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if odd := [argument for argument in sys.argv[3:] if "=" not in argument]:
        sys.exit(f"{odd[0]!r} is not property=value")
    try:
        vectors = list(normals(np.load(sys.argv[1]), properties=" ".join(map(quoted, sys.argv[3:]))))
    except GLib.Error as error:
        sys.exit(f"normals.py: {error.message}")
    np.save(sys.argv[2], np.stack(vectors))
