"""What the element adds to the engine: gst-launch-1.0 with the element against nc_probe, on the same clip and model.

    python overhead.py [--model DIRECTORY] [--repeats 5] [--video] [--bars]

Whole processes in turn, forwards and backwards, after one of each that does not count; ratios are of medians. Both
sides deliver 8-bit pictures to a file, which must be the same. --video adds the element between a decoder and x264enc
("video"), and these without it ("codecs"): its share is what "video" takes beyond "engine" and "codecs" together.
Without --model it is a small one with random weights, for which whatever is not the network weighs most.
"""

import pathlib
import statistics
import sys
import tempfile

import numpy as np

import measuring
from measuring import Bar, REFERENCE

sys.path.insert(0, str(REFERENCE))
import clips  # noqa: E402, of the reference

ENCODER = ["videoconvert", "!", "video/x-raw,format=Y444", "!", "x264enc", "pass=quant", "quantizer=14",
           "speed-preset=faster", "!", "mp4mux"]


def raw_source(options, folder):
    return ["filesrc", f"location={folder / 'clip.rgb'}", "!", "rawvideoparse", "format=rgb", f"width={options.width}",
            f"height={options.height}", "framerate=25/1"]


def make_clips(options, folder, environment):
    """The same clip as clip.npy, clip.rgb and, for --video, clip.mp4."""
    clip = clips.make_clip(options.frames, options.height, options.width, seed=1)
    np.save(folder / "clip.npy", clip)
    clip.tofile(folder / "clip.rgb")
    if options.video:
        measuring.run(measuring.launch(*raw_source(options, folder), "!", *ENCODER, "!", "filesink",
                                       f"location={folder / 'clip.mp4'}"), environment)


def commands(options, model, folder):
    """{variant: command}"""
    element = measuring.element(model, options)
    result = {
        "engine": [options.build / "tests" / "engine" / "nc_probe", "clip", "--model", model, "--input",
                   folder / "clip.npy", "--output", folder / "engine.npy", "--format", "u8", "--dtype", options.dtype,
                   "--threads", options.threads],
        "element": measuring.launch(*raw_source(options, folder), "!", *element, "!", "video/x-raw,format=RGB", "!",
                                    "filesink", f"location={folder / 'element.rgb'}")}
    if options.video:
        decoder = ["filesrc", f"location={folder / 'clip.mp4'}", "!", "decodebin", "!", "videoconvert", "!"]
        end = ["!", *ENCODER, "!", "filesink", f"location={folder / 'out.mp4'}"]
        result["codecs"] = measuring.launch(*decoder, "video/x-raw,format=RGB", *end)
        result["video"] = measuring.launch(*decoder, *element, *end)
    return result


def measure(options, variants, environment):
    """{variant: [Run]}"""
    runs = {name: [] for name in variants}
    for repeat in range(options.repeats + 1):
        for name in sorted(variants, reverse=repeat % 2 == 1):
            done = measuring.run(variants[name], environment)
            if repeat > 0:  # the first warms the file cache
                runs[name].append(done)
    return runs


def require_same(options, folder):
    engine = np.load(folder / "engine.npy")
    element = np.fromfile(folder / "element.rgb", np.uint8)
    if engine.size != element.size or (engine.reshape(-1) != element).any():
        sys.exit("the element and the engine alone gave different pictures: they did not do the same work")


def summary(runs):
    def row(name):
        seconds = [r.seconds for r in runs[name]]
        return {"variant": name, "seconds": seconds, "median_seconds": statistics.median(seconds),
                "median_cpu_seconds": statistics.median(r.cpu_seconds for r in runs[name])}
    return [row(name) for name in runs]


def ratios(rows):
    median = {row["variant"]: row["median_seconds"] for row in rows}
    result = {"element / engine": median["element"] / median["engine"]}
    if "video" in median:
        result["video / (engine + codecs)"] = median["video"] / (median["engine"] + median["codecs"])
    return result


def show(rows, ratios):
    print(f"{'':10s}{'median s':>10s}{'least s':>10s}{'most s':>10s}{'CPU s':>10s}")
    for row in rows:
        print(f"{row['variant']:10s}{row['median_seconds']:10.3f}{min(row['seconds']):10.3f}{max(row['seconds']):10.3f}"
              f"{row['median_cpu_seconds']:10.3f}")
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.3f}")


def main():
    parser = measuring.parser(__doc__, 256, 256)
    measuring.add_model(parser)
    parser.add_argument("--frames", type=measuring.positive, default=64)
    parser.add_argument("--repeats", type=measuring.positive, default=5)
    parser.add_argument("--video", action="store_true", help="also between a decoder and x264enc")
    options = measuring.parse(parser)
    if options.width % 4:
        parser.error("--width must be a multiple of 4: GStreamer pads other rows")

    environment = measuring.environment(options.build)
    measuring.require_element(environment)
    measuring.print_machine(options)
    print(f"model {options.model}, dtype {options.dtype}; {options.frames} frames of {options.width}x{options.height}, "
          f"{options.repeats} times", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = measuring.model_directory(options.model, folder)
        make_clips(options, folder, environment)
        rows = summary(measure(options, commands(options, model, folder), environment))
        require_same(options, folder)
    found = ratios(rows)
    show(rows, found)
    bars = [Bar("the element's time over the engine's", found["element / engine"], 1.02)]
    measuring.write_json(options, model=str(options.model), dtype=options.dtype, frames=options.frames, results=rows,
                         ratios=found, bars=measuring.as_json(bars))
    return measuring.judge(bars) if options.bars else 0


if __name__ == "__main__":
    sys.exit(main())
