"""Clips of growing length through the element: time should be linear and memory flat.

    python scaling.py [--model DIRECTORY] [--frames 30 100 300 1000 2000] [--bars]

Each length is a process of its own: gst-launch-1.0 with a test picture, the element and a sink that keeps nothing.
"s/more" is what each frame beyond the length before took: without what a process takes to start. Processor time tells
whether other programs were in the way. Without --model it is the demo model.
"""

import pathlib
import sys
import tempfile

import measuring
from measuring import Bar

LENGTHS = (30, 100, 300, 1000, 2000)


def measure(options, model, frames, environment):
    caps = f"video/x-raw,format=RGB,width={options.width},height={options.height},framerate=25/1"
    done = measuring.run(
        measuring.launch("videotestsrc", "pattern=ball", f"num-buffers={frames}", "!", caps, "!",
                         *measuring.element(model, options), "!", "fakesink"), environment)
    return {"frames": frames, "seconds": done.seconds, "seconds_per_frame": done.seconds / frames,
            "cpu_seconds_per_frame": done.cpu_seconds / frames, "peak_bytes": done.peak_bytes}


def with_differences(row, first, before):
    """What `row` says beside the shortest clip and the one before."""
    row["peak_ratio"] = row["peak_bytes"] / first["peak_bytes"]
    row["seconds_per_further_frame"] = None
    if before:
        more = row["frames"] - before["frames"]
        row["seconds_per_further_frame"] = (row["seconds"] - before["seconds"]) / more
    return row


def show(row):
    further = row["seconds_per_further_frame"]
    print(f"{row['frames']:7d}{row['seconds']:10.2f}{row['seconds_per_frame']:10.4f}"
          + (f"{'-':>10s}" if further is None else f"{further:10.4f}")
          + f"{row['cpu_seconds_per_frame']:12.4f}{row['peak_bytes'] / 1e6:10.1f}{row['peak_ratio']:9.3f}", flush=True)


def bars(rows):
    peak = {row["frames"]: row["peak_bytes"] for row in rows}
    value = peak[2000] / peak[100] if 100 in peak and 2000 in peak else None
    return [Bar("peak memory of 2000 frames over that of 100", value, 1.05)]


def main():
    parser = measuring.parser(__doc__, 128, 128)
    measuring.add_model(parser, measuring.DEMO_MODEL)
    parser.add_argument("--frames", nargs="+", type=measuring.positive, default=LENGTHS, help="lengths of the clips")
    options = measuring.parse(parser)

    environment = measuring.environment(options.build)
    measuring.require_element(environment)
    measuring.print_machine(options)
    print(f"model {options.model}, dtype {options.dtype}; frames of {options.width}x{options.height}")
    print(f"{'frames':>7s}{'s':>10s}{'s/frame':>10s}{'s/more':>10s}{'CPU s/frame':>12s}{'peak MB':>10s}{'ratio':>9s}",
          flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        model = measuring.model_directory(options.model, pathlib.Path(name))
        for frames in sorted(set(options.frames)):
            row = measure(options, model, frames, environment)
            rows.append(with_differences(row, rows[0] if rows else row, rows[-1] if rows else None))
            show(row)
            measuring.write_json(options, model=str(options.model), dtype=options.dtype, results=rows,
                                 bars=measuring.as_json(bars(rows)))
    return measuring.judge(bars(rows)) if options.bars else 0


if __name__ == "__main__":
    sys.exit(main())
