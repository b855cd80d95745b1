"""Measures a model on the frozen evaluation set, through the whole element.

    python evaluate.py [--model DIR] [--dtype float32] [--group 128x128 ...] [--json FILE] [--markdown FILE]

Needs the built plugin (scripts/setup) and numba. All groups of 60 frames take many minutes on a CPU;
--clips and --frames shorten it.
"""

import argparse
import json
import pathlib

import numpy as np

import evaluation
from element import DEMO_MODEL, run_element


def evaluate_group(group, clips, frames, run):
    """The measures of one group's first `clips` clips. `run`: uint8 frames -> unit vectors."""
    errors, constants, truths, flickers, true_flickers = [], [], [], [], []
    for clip in evaluation.clips(group)[:clips]:
        rgb, normals = clip.render(frames)
        predicted = run(rgb)
        errors.append(evaluation.angles(predicted, normals))
        truths.append(normals)
        flickers.append(evaluation.flicker(predicted))
        true_flickers.append(evaluation.flicker(normals))
    best = evaluation.best_constant(np.concatenate([t.reshape(-1, 3) for t in truths]))
    constants = [evaluation.angles(truth, best).mean() for truth in truths]
    return {"clips": len(errors), "frames": frames, **evaluation.summary(np.concatenate([e.ravel() for e in errors])),
            "best constant": float(np.mean(constants)), "flicker": float(np.mean(flickers)),
            "flicker of the truth": float(np.mean(true_flickers)),
            "flicker beyond it": float(np.mean(flickers) - np.mean(true_flickers)),
            "clip means": [round(float(e.mean()), 2) for e in errors]}


def evaluate_short(group, run):
    """What the tests repeat: each of a few short clips' mean error, and their flicker beyond the truth."""
    means, flickers = [], []
    for clip in evaluation.clips(group)[:evaluation.SHORT_CLIPS]:
        rgb, normals = clip.render(evaluation.SHORT_FRAMES)
        predicted = run(rgb)
        means.append(float(evaluation.angles(predicted, normals).mean()))
        flickers.append(evaluation.flicker(predicted) - evaluation.flicker(normals))
    return {"clip means": [round(mean, 2) for mean in means], "flicker beyond it": float(np.mean(flickers))}


def evaluate_blank(frames, run):
    """Per colour: how much the vectors differ within a frame, and from frame to frame, in degrees."""
    result = {}
    for level in evaluation.BLANK_LEVELS:
        rgb = np.broadcast_to(np.array(level, np.uint8), (frames, 128, 192, 3))
        predicted = run(rgb)
        mean = predicted.mean((0, 1, 2))
        mean /= max(np.linalg.norm(mean), 1e-6)
        result[str(level)] = {"spread": float(evaluation.angles(predicted, mean).mean()),
                              "flicker": evaluation.flicker(predicted), "mean vector": [round(float(v), 3) for v in mean]}
    return result


COLUMNS = ("mean", "median", "below 11.25", "below 22.5", "below 30", "best constant", "flicker",
           "flicker of the truth", "flicker beyond it")


def markdown(report):
    lines = ["| size | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for group, values in report["groups"].items():
        lines.append(f"| {group} | " + " | ".join(f"{values[column]:.2f}" for column in COLUMNS) + " |")
    if report.get("blank"):
        lines += ["", "| blank frames of colour | spread within | flicker | mean vector |", "|---|---|---|---|"]
        for level, values in report["blank"].items():
            lines.append(f"| {level} | {values['spread']:.2f} | {values['flicker']:.2f} | {values['mean vector']} |")
    return "\n".join(lines) + "\n"


def main():
    groups = [group for group, *_ in evaluation.GROUPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEMO_MODEL, metavar="DIR")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--group", nargs="*", choices=[*groups, "blank"], default=[*groups, "blank"])
    parser.add_argument("--clips", type=int, default=1000, help="at most so many of each group")
    parser.add_argument("--frames", type=int, default=evaluation.FRAMES)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    run = lambda rgb: run_element(rgb, options.model, dtype=options.dtype, device=options.device)
    report = {"evaluation": evaluation.EVALUATION_VERSION, "dtype": options.dtype, "groups": {}}
    for group in groups:
        if group in options.group:
            report["groups"][group] = evaluate_group(group, options.clips, options.frames, run)
            report["groups"][group]["short clips"] = evaluate_short(group, run)
            print(group, json.dumps(report["groups"][group]), flush=True)
    if "blank" in options.group:
        report["blank"] = evaluate_blank(min(options.frames, 28), run)
    print(markdown(report))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(report))


if __name__ == "__main__":
    main()
