"""The Python reference and the engine in turn, in one run, on the same model and clip.

    python compare.py --model DIRECTORY --frames 34 --height 256 --width 256 --dtype bfloat16 float32

Prints seconds for each stage, their ratio (reference / engine: above 1 the engine is faster) and peak resident memory
of each process, and writes the same as JSON. Both sides run as whole processes with the same number of threads and the
same OpenMP wait policy (passive: what the GStreamer plugin sets), the engine with the session's default options. With
--auto the engine's dtype=auto is compared with the reference in float32, which is what the seed project computes on a
CPU. Nothing else should run meanwhile.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
STAGES = ("load", "clip", "encode", "unet", "decode", "total")


def run(command, environment):
    """(seconds by stage, peak bytes) of a program that prints "stage seconds s" lines."""
    process = subprocess.Popen([str(c) for c in command], env=environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed:\n{output}")
    found = re.findall(r"^(\w+)\s+([\d.]+) s", output, re.MULTILINE)
    return {name: float(value) for name, value in found if name in STAGES}, usage.ru_maxrss * 1024


def reference(options, dtype, clip, folder, environment):
    return run([sys.executable, REFERENCE / "pipeline.py", "--model", options.model, "--input", clip, "--output",
                folder / "reference.npy", "--dtype", dtype, "--threads", options.threads, "--profile"], environment)


def engine(options, dtype, clip, folder, environment):
    return run([options.build / "tests" / "engine" / "nc_probe", "clip", "--model", options.model, "--input", clip,
                "--output", folder / "engine.npy", "--dtype", dtype, "--threads", options.threads, "--stats",
                *options.engine], environment)


def angles(folder):
    """(mean, largest) degrees between the two results."""
    a, b = (np.load(folder / f"{name}.npy").astype(np.float64) for name in ("reference", "engine"))
    a, b = (v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-6) for v in (a, b))
    degrees = np.degrees(np.arccos(np.clip((a * b).sum(-1), -1, 1)))
    return float(degrees.mean()), float(degrees.max())


def compare(options, pair, clip, folder, environment):
    theirs, their_peak = reference(options, pair[0], clip, folder, environment)
    ours, our_peak = engine(options, pair[1], clip, folder, environment)
    mean, largest = angles(folder)
    return {"reference_dtype": pair[0], "engine_dtype": pair[1], "reference_seconds": theirs, "engine_seconds": ours,
            "ratio": theirs["total"] / ours["total"], "reference_peak_bytes": their_peak, "engine_peak_bytes": our_peak,
            "peak_ratio": our_peak / their_peak, "mean_angle_degrees": mean, "largest_angle_degrees": largest}


def show(result):
    print(f"\nreference in {result['reference_dtype']}, engine in {result['engine_dtype']}")
    print(f"{'stage':8s}{'reference':>12s}{'engine':>12s}{'ratio':>8s}")
    for stage in STAGES:
        theirs, ours = result["reference_seconds"].get(stage), result["engine_seconds"].get(stage)
        if theirs is not None and ours is not None:
            ratio = f"{theirs / ours:8.2f}" if min(theirs, ours) >= 0.02 else f"{'-':>8s}"
            print(f"{stage:8s}{theirs:10.2f} s{ours:10.2f} s{ratio}")
    print(f"{'peak':8s}{result['reference_peak_bytes'] / 1e9:9.2f} GB{result['engine_peak_bytes'] / 1e9:9.2f} GB"
          f"{result['peak_ratio']:8.2f} (engine / reference)")
    print(f"angle between the results: mean {result['mean_angle_degrees']:.3f}, largest "
          f"{result['largest_angle_degrees']:.3f} degrees")


def processor():
    try:
        return re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1]
    except (OSError, TypeError):
        return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--frames", type=int, default=34)
    parser.add_argument("--height", type=int, default=256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", nargs="*", default=["bfloat16", "float32"], choices=["bfloat16", "float32"])
    parser.add_argument("--auto", action="store_true", help="also dtype=auto against float32")
    parser.add_argument("--engine", nargs="*", default=[], help="further arguments of nc_probe, after --")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    sys.path.insert(0, str(REFERENCE))
    import clips  # of the reference
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    pairs = [(d, d) for d in options.dtype] + ([("float32", "auto")] if options.auto else [])
    print(f"{processor()}, {options.threads} threads; {options.frames} frames of {options.width}x{options.height}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clip = folder / "clip.npy"
        np.save(clip, clips.make_clip(options.frames, options.height, options.width, seed=1))
        results = []
        for pair in pairs:
            results.append(compare(options, pair, clip, folder, environment))
            show(results[-1])
    if options.json:
        options.json.write_text(json.dumps({"processor": processor(), "threads": options.threads, "frames":
                                            options.frames, "width": options.width, "height": options.height,
                                            "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
