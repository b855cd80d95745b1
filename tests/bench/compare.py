"""The Python reference and the engine in turn, in one run, on the same model and clip.

    python compare.py --model DIRECTORY --frames 34 --height 256 --width 256 --dtype bfloat16 float32 --auto --bars

Prints seconds for each stage, their ratio (reference / engine: above 1 the engine is faster) and peak resident memory
of each process, and writes the same as JSON. Both sides run as whole processes with the same number of threads and the
same OpenMP wait policy (passive: what the GStreamer plugin sets), the engine with the session's default options. With
--auto the engine's dtype=auto is compared with the reference in float32, which is what the seed project computes on a
CPU. The reference runs once in each type. Nothing else should run meanwhile.
"""

import dataclasses
import pathlib
import re
import sys
import tempfile

import numpy as np

import measuring
from measuring import Bar, REFERENCE

sys.path.insert(0, str(REFERENCE))
import clips  # noqa: E402, of the reference

STAGES = ("load", "clip", "encode", "unet", "decode", "total")
LEAST_SECONDS = 0.02  # below, two decimals make no ratio


@dataclasses.dataclass
class Side:
    """What the reference or the engine did."""

    seconds: dict  # by stage
    peak_bytes: int
    result: pathlib.Path

    @staticmethod
    def measured(command, result, environment):
        done = measuring.run([*command, "--output", result], environment)
        found = re.findall(r"^(\w+)\s+([\d.]+) s", done.output, re.MULTILINE)
        return Side({name: float(value) for name, value in found if name in STAGES}, done.peak_bytes, result)


def reference(options, dtype, clip, environment):
    return Side.measured(
        [sys.executable, REFERENCE / "pipeline.py", "--model", options.model, "--input", clip, "--dtype", dtype,
         "--threads", options.threads, "--profile"], clip.with_name(f"reference-{dtype}.npy"), environment)


def engine(options, dtype, clip, environment):
    return Side.measured(
        [options.build / "tests" / "engine" / "nc_probe", "clip", "--model", options.model, "--input", clip, "--dtype",
         dtype, "--threads", options.threads, "--stats", *options.engine], clip.with_name("engine.npy"), environment)


def angles(one, other):
    """(mean, largest) degrees between two results. Frame by frame: see measuring.py on a large process."""
    mean, largest = [], []
    for pair in zip(np.load(one, mmap_mode="r"), np.load(other, mmap_mode="r")):
        a, b = (v.astype(np.float64) for v in pair)
        a, b = (v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-6) for v in (a, b))
        degrees = np.degrees(np.arccos(np.clip((a * b).sum(-1), -1, 1)))
        mean.append(degrees.mean())
        largest.append(degrees.max())
    return float(np.mean(mean)), float(np.max(largest))


def compare(dtypes, theirs, ours):
    mean, largest = angles(theirs.result, ours.result)
    common = [s for s in STAGES if s in theirs.seconds and s in ours.seconds]
    ratios = {s: theirs.seconds[s] / ours.seconds[s] for s in common
              if min(theirs.seconds[s], ours.seconds[s]) >= LEAST_SECONDS}
    return {"reference_dtype": dtypes[0], "engine_dtype": dtypes[1], "reference_seconds": theirs.seconds,
            "engine_seconds": ours.seconds, "ratios": ratios, "ratio": theirs.seconds["total"] / ours.seconds["total"],
            "reference_peak_bytes": theirs.peak_bytes, "engine_peak_bytes": ours.peak_bytes,
            "peak_ratio": ours.peak_bytes / theirs.peak_bytes, "mean_angle_degrees": mean,
            "largest_angle_degrees": largest}


def show(result):
    print(f"\nreference in {result['reference_dtype']}, engine in {result['engine_dtype']}")
    print(f"{'stage':8s}{'reference':>12s}{'engine':>12s}{'ratio':>8s}")
    for stage in STAGES:
        theirs, ours = result["reference_seconds"].get(stage), result["engine_seconds"].get(stage)
        if theirs is not None and ours is not None:
            ratio = f"{result['ratios'][stage]:8.2f}" if stage in result["ratios"] else f"{'-':>8s}"
            print(f"{stage:8s}{theirs:10.2f} s{ours:10.2f} s{ratio}")
    print(f"{'peak':8s}{result['reference_peak_bytes'] / 1e9:9.2f} GB{result['engine_peak_bytes'] / 1e9:9.2f} GB"
          f"{result['peak_ratio']:8.2f} (engine / reference)")
    print(f"angle between the results: mean {result['mean_angle_degrees']:.3f}, largest "
          f"{result['largest_angle_degrees']:.3f} degrees", flush=True)


def bars(results):
    """docs/performance.md says where the limits come from."""
    flags = measuring.processor_flags()
    found = {(r["reference_dtype"], r["engine_dtype"]): r for r in results}

    def value(theirs, ours, field):
        return found[theirs, ours][field] if (theirs, ours) in found else None

    result = [Bar("float32, times as fast", value("float32", "float32", "ratio"), 2.0, at_least=True),
              Bar("bfloat16, times as fast", value("bfloat16", "bfloat16", "ratio"),
                  1.8 if "amx_bf16" in flags else 1.4, at_least=True)]
    if flags & {"avx512_bf16", "amx_bf16", "bf16"}:
        result.append(Bar("auto against float32, times as fast", value("float32", "auto", "ratio"), 3.2, at_least=True))
    return result + [Bar(f"{dtype}, share of the reference's peak memory", value(dtype, dtype, "peak_ratio"), 0.6)
                     for dtype in ("float32", "bfloat16")]


def main():
    parser = measuring.parser(__doc__, 256, 256)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--frames", type=measuring.positive, default=34)
    parser.add_argument("--dtype", nargs="*", default=["bfloat16", "float32"], choices=["bfloat16", "float32"])
    parser.add_argument("--auto", action="store_true", help="also dtype=auto against float32")
    parser.add_argument("--engine", nargs="*", default=[], help="further arguments of nc_probe, after --")
    options = measuring.parse(parser)

    environment = measuring.environment(options.build)
    pairs = [(d, d) for d in options.dtype] + ([("float32", "auto")] if options.auto else [])
    measuring.print_machine(options)
    print(f"{options.frames} frames of {options.width}x{options.height}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        clip = pathlib.Path(name) / "clip.npy"
        np.save(clip, clips.make_clip(options.frames, options.height, options.width, seed=1))
        results, references = [], {}
        for pair in pairs:
            if pair[0] not in references:
                references[pair[0]] = reference(options, pair[0], clip, environment)
            results.append(compare(pair, references[pair[0]], engine(options, pair[1], clip, environment)))
            show(results[-1])
            measuring.write_json(options, frames=options.frames, results=results,
                                 bars=measuring.as_json(bars(results)))
    return measuring.judge(bars(results)) if options.bars else 0


if __name__ == "__main__":
    sys.exit(main())
