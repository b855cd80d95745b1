"""Engine and Python reference on one device: whether they agree, and how fast each is.

    python device_check.py --build DIRECTORY --device cuda --table table.md

First small models, against the reference in float64 on the CPU: with random weights in float32, the demo model in half
precision. Then clips of each size, staged and
resident, the reference (diffusers) and the engine in turn, whole processes, with the same windows and chunks. Writes a
table in Markdown after each result. --device cpu runs the same with small networks and pictures, which tests this
program and says nothing of speed. scripts/gpu-check builds what it needs.
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import measuring
from measuring import Bar, REFERENCE

sys.path.insert(0, str(REFERENCE))
HERE = pathlib.Path(__file__).resolve().parent
PARITY_MODELS = ("two-level", "published-shape")
PARITY_FRAMES, PARITY_SIDE = 6, 128
FLOAT32_LIMIT = 5e-4  # of a component
HALF_LIMIT = 1.0  # degrees, in the mean; of the demo model, since random weights magnify any rounding
RATIO_LIMIT = 2.0  # resident at 1024x576
BESIDE_NETWORK = 1.5e9  # bytes, staged at 512x320


@dataclasses.dataclass
class Row:
    """One run of one side."""

    size: str
    mode: str
    side: str
    frames_per_second: float
    peak: float | None  # GB of device memory
    utilisation: float | None  # percent

    def cells(self, ratio):
        shown = lambda value, digits: "-" if value is None else f"{value:.{digits}f}"
        return [self.size, self.mode, self.side, shown(self.frames_per_second, 3), shown(ratio, 2), shown(self.peak, 2),
                shown(self.utilisation, 0)]


class Utilisation:
    """Mean of what nvidia-smi tells while the GPU works; nothing on the CPU."""

    def __init__(self, device):
        self.samples, self.process = [], None
        if device.startswith("cuda"):
            index = device.partition(":")[2] or "0"
            self.process = subprocess.Popen(
                ["nvidia-smi", f"--id={index}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms",
                 "200"], stdout=subprocess.PIPE, text=True)
            self.reader = threading.Thread(target=self._read)
            self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.samples.append(int(line))

    def stop(self):
        if self.process is None:
            return None
        self.process.terminate()
        self.reader.join()
        busy = [s for s in self.samples if s > 0]
        return sum(busy) / len(busy) if busy else None


class Check:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.environment = measuring.environment(options.build)
        self.probe = options.build / "tests" / "engine" / "nc_probe"
        self.on_gpu = options.device.startswith("cuda")
        self.half = "float16" if self.on_gpu else "bfloat16"
        self.rows, self.bars = [], []

    def run_engine(self, model, clip, dtype, *more):
        """The finished run, and the file of its result."""
        made = self.folder / "engine.npy"
        return measuring.run([self.probe, "clip", "--model", model, "--input", clip, "--output", made, "--device",
                              self.options.device, "--dtype", dtype, "--threads", self.options.threads, *more],
                             self.environment), made

    def engine(self, model, clip, dtype, *more):
        import numpy as np
        return np.load(self.run_engine(model, clip, dtype, *more)[1])

    def parity(self):
        import models
        import numpy as np
        for name in PARITY_MODELS:
            model = self.folder / name
            models.make_model(name, model)
            given, expected = self.reference(model)
            for mode in ("staged", "resident", "streamed"):
                made = self.engine(model, given, "float32", "--offload-mode", mode)
                error = float(np.abs(made - expected).max())
                self.judge(Bar(f"{name}, {mode}, float32: largest difference to the reference", error, FLOAT32_LIMIT))
        given, expected = self.reference(measuring.DEMO_MODEL)
        cosine = (self.engine(measuring.DEMO_MODEL, given, self.half).astype(np.float64) * expected).sum(-1)
        self.judge(Bar(f"demo model, {self.half}: mean angle to the reference in degrees",
                       float(np.degrees(np.arccos(cosine.clip(-1, 1))).mean()), HALF_LIMIT))

    def reference(self, model):
        """A clip's file, and the unit vectors that the reference gives for it."""
        import clips
        import numpy as np
        import pipeline
        import torch
        torch.set_num_threads(self.options.threads)
        clip = clips.make_clip(PARITY_FRAMES, PARITY_SIDE, PARITY_SIDE, seed=1)
        np.save(self.folder / "clip.npy", clip)
        vectors = pipeline.run(pipeline.Reference(model, torch.float64), clip)
        return self.folder / "clip.npy", pipeline.renormalize(vectors)

    def bench(self, model):
        import clips
        import numpy as np
        largest = max(sum(f.stat().st_size for f in (model / part).glob("*.safetensors"))
                      for part in ("unet", "vae", "image_encoder"))
        for size in self.options.sizes:
            width, height = (int(side) for side in size.split("x"))
            clip = self.folder / "clip.npy"
            np.save(clip, clips.make_clip(self.options.frames, height, width, seed=1))
            for mode in ("staged", "resident"):
                theirs, ours = self.reference_run(model, clip, size, mode), self.engine_run(model, clip, size, mode)
                ratio = ours.frames_per_second / theirs.frames_per_second
                self.rows += [(theirs, None), (ours, ratio)]
                if self.on_gpu and (size, mode) == ("1024x576", "resident"):
                    self.bars.append(Bar("1024x576, resident: times as fast as the reference", ratio, RATIO_LIMIT,
                                         at_least=True))
                if self.on_gpu and (size, mode) == ("512x320", "staged"):
                    self.bars.append(Bar("512x320, staged: GB of device memory", ours.peak,
                                         (largest + BESIDE_NETWORK) / 1e9))
                self.write_table()

    def reference_run(self, model, clip, size, mode):
        command = [sys.executable, HERE / "device_reference.py", "--model", model, "--input", clip, "--output",
                   self.folder / "reference.npy", "--device", self.options.device, "--dtype", self.half,
                   "--offload-mode", mode, "--threads", self.options.threads, "--passes", self.options.passes]
        return self.timed(size, mode, "reference", lambda: measuring.run(command, self.environment))

    def engine_run(self, model, clip, size, mode):
        return self.timed(size, mode, "engine", lambda: self.run_engine(
            model, clip, self.half, "--offload-mode", mode, "--stats", "--passes", self.options.passes)[0])

    def timed(self, size, mode, side, run):
        utilisation = Utilisation(self.options.device)
        try:
            output = run().output
        finally:
            busy = utilisation.stop()
        lines = re.findall(r"^([\w-]+)\s+([\d.]+) (?:s|GB)$", output, re.MULTILINE)
        found = {name: float(value) for name, value in lines}
        row = Row(size, mode, side, self.options.frames / max(found["total"], 1e-3), found.get("device-peak"), busy)
        print(f"{size} {mode} {side}: {row.frames_per_second:.3f} frames/s", flush=True)
        return row

    def judge(self, bar):
        print(bar, flush=True)
        self.bars.append(bar)
        self.write_table()

    def write_table(self):
        heads = ["size", "mode", "side", "frames/s", "engine / reference", "peak GB", "utilisation %"]
        lines = [f"Device: {self.device_name()}. {self.half}, {self.options.frames} frames, the last of "
                 f"{self.options.passes} passes.", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(row.cells(ratio)) + " |" for row, ratio in self.rows]
        lines += ["", "| bar | value | limit | |", "|---|---|---|---|"]
        lines += [f"| {b.name} | {b.value:.3g} | {'≥' if b.at_least else '≤'} {b.limit:.3g} | "
                  f"{'pass' if b.passed else 'FAIL'} |" for b in self.bars]
        self.options.table.write_text("\n".join(lines) + "\n")

    def device_name(self):
        if not self.on_gpu:
            return f"{measuring.processor()} (no GPU: the figures tell nothing)"
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True)
        return done.stdout.strip().replace("\n", "; ") or self.options.device


def size(text):
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text} is not of the form WIDTHxHEIGHT")
    return text


def bench_model(options, folder):
    if options.model != "full-size":
        return measuring.model_directory(options.model, folder)
    import models
    models.make_model("full-size", folder / "full-size", dtype="float16")
    return folder / "full-size"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=measuring.ROOT / "build", help="build directory (build/)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--model", help="of the bench: a directory, full-size (random weights, 5 GB, made anew), or a "
                        "name of models.py; on the CPU two-level, else full-size")
    parser.add_argument("--sizes", nargs="+", type=size, help="of the bench's pictures")
    parser.add_argument("--frames", type=measuring.positive, help="of the bench's clips")
    parser.add_argument("--passes", type=measuring.positive, default=2, help="over a clip; the last counts (2)")
    parser.add_argument("--threads", type=measuring.positive, default=2, help="of the host's computing (2)")
    parser.add_argument("--table", type=pathlib.Path, required=True, help="Markdown file for the results")
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    options.build = options.build.resolve()
    options.model = options.model or ("full-size" if on_gpu else "two-level")
    options.sizes = options.sizes or (["512x320", "1024x576"] if on_gpu else ["64x64", "128x64"])
    options.frames = options.frames or (54 if on_gpu else 6)
    with tempfile.TemporaryDirectory() as name:
        check = Check(options, pathlib.Path(name))
        check.parity()
        check.bench(bench_model(options, check.folder))
    return measuring.judge(check.bars)


if __name__ == "__main__":
    sys.exit(main())
