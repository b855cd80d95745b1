"""Where models, clips and reference results of a build live, and how the programs under test are run."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

import clips
import models
import pipeline

SOURCES = ("models.py", "clips.py", "pipeline.py")
PACKAGES = ("torch", "diffusers", "transformers", "numpy")
COMPONENTS_OF_BASE = ("image_encoder", "feature_extractor")


@dataclasses.dataclass
class Errors:
    """Largest and mean absolute difference to the float64 reference."""

    largest: float
    mean: float

    @staticmethod
    def between(values, reference):
        difference = np.abs(values.astype(np.float64) - reference)
        return Errors(float(difference.max()), float(difference.mean()))


@dataclasses.dataclass
class Expected:
    """A case's float64 result, before renormalising, and how far float32 is off."""

    vectors: np.ndarray
    own: Errors  # of the float32 reference
    own_renormalized: Errors


class Workshop:
    """Makes models and reference results once per build directory. What they depend on is part of their names, so a
    changed source or package never meets an old result."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.root = self.build / "reference"
        here = pathlib.Path(__file__).parent
        state = [(here / name).read_text() for name in SOURCES]
        state += [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
        self.state = _digest(state)

    def model(self, name, components=models.COMPONENTS):
        """The directory of a model with these components."""
        folder = self.root / "models" / self.state[:16] / "-".join([name, *(components if len(components) < 5 else ())])
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            fresh = tempfile.mkdtemp(dir=folder.parent)
            models.make_model(name, fresh, components)
            try:
                os.rename(fresh, folder)
            except OSError:  # another process was first
                shutil.rmtree(fresh)
        return folder

    def model_arguments(self, case):
        """[model, base model or None]"""
        if not case.split:
            return self.model(case.model), None
        own = tuple(c for c in models.COMPONENTS if c not in COMPONENTS_OF_BASE)
        return self.model(case.model, own), self.model(case.model, COMPONENTS_OF_BASE)

    @functools.lru_cache(maxsize=2)
    def reference(self, name, dtype):
        return pipeline.Reference(self.model(name), pipeline.DTYPES[dtype])

    def clip(self, case):
        return clips.make_clip(case.frames, case.height, case.width, seed=len(case.name), bits=case.bits)

    def expected(self, case):
        parameters = json.dumps([case.model, case.frames, case.height, case.width, case.bits, len(case.name),
                                 dataclasses.asdict(case.options)])
        file = self.root / "results" / f"{_digest([self.state, parameters])}.npz"
        try:
            with np.load(file) as stored:
                return Expected(stored["vectors"], Errors(*stored["own"]), Errors(*stored["own_renormalized"]))
        except (OSError, ValueError, KeyError, EOFError):
            result = self._compute(case)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
            np.savez(part, vectors=result.vectors, own=dataclasses.astuple(result.own),
                     own_renormalized=dataclasses.astuple(result.own_renormalized))
        os.replace(part.name, file)
        return result

    def _compute(self, case):
        clip = self.clip(case)
        vectors, narrow = (pipeline.run(self.reference(case.model, dtype), clip, case.options)
                           for dtype in ("float64", "float32"))
        return Expected(vectors, Errors.between(narrow, vectors),
                        Errors.between(pipeline.renormalize(narrow), pipeline.renormalize(vectors)))

    # Programs under test.

    def probe_clip(self, case, folder, *more, clip=None):
        """What nc_probe makes of the case (of `clip`, if given, in place of the case's own), as an array."""
        model, base = self.model_arguments(case)
        given, made = folder / "clip.npy", folder / "out.npy"
        np.save(given, self.clip(case) if clip is None else clip)
        o = case.options
        self._probe("clip", "--model", model, *(("--base-model", base) if base else ()), "--input", given,
                    "--output", made, "--dtype", "float32", "--window", o.window_size, "--step", o.step_size,
                    "--clip-chunk", o.clip_chunk_size, "--encode-chunk", o.vae_encode_chunk_size, "--decode-chunk",
                    o.vae_decode_chunk_size, "--max-resolution", o.max_resolution, "--output-size", o.output_size,
                    "--tail-mode", o.tail_mode, "--clip-resize", o.clip_resize, "--threads", 2, *case.engine, *more)
        return np.load(made)

    def probe_layer(self, model, network, layer, inputs, folder):
        """What nc_probe makes of one layer: {name: tensor}."""
        from safetensors.torch import load_file, save_file
        given, made = folder / "in.safetensors", folder / "out.safetensors"
        save_file({k: v.float().contiguous() for k, v in inputs.items()}, given)
        self._probe("layer", "--model", self.model(model), "--network", network, "--layer", layer, "--input", given,
                    "--output", made, "--dtype", "float32")
        return load_file(made)

    def _probe(self, *arguments):
        _run([self.build / "tests" / "engine" / "nc_probe", *arguments], os.environ)

    def element(self, case, folder):
        """What the element makes of the case in 8-bit RGB, as an array."""
        model, base = self.model_arguments(case)
        o, clip = case.options, self.clip(case)
        given, made = folder / "in.rgb", folder / "out.rgb"
        given.write_bytes(_padded_rows(clip))
        environment = {**os.environ, "GST_PLUGIN_PATH": str(self.build / "gst"),
                       "GST_REGISTRY": str(self.root / "gst-registry.bin")}
        properties = {
            "model": model, "dtype": "float32", "device": "cpu", "window-size": o.window_size,
            "step-size": o.step_size, "clip-chunk-size": o.clip_chunk_size,
            "vae-encode-chunk-size": o.vae_encode_chunk_size, "vae-decode-chunk-size": o.vae_decode_chunk_size,
            "max-resolution": o.max_resolution, "output-size": o.output_size, "tail-mode": o.tail_mode,
            "clip-resize": o.clip_resize, "threads": 2, **({"base-model": base} if base else {})}
        _run(["gst-launch-1.0", "-q", "filesrc", f"location={given}", "!", "rawvideoparse", "format=rgb",
              f"width={case.width}", f"height={case.height}", "framerate=25/1", "!", "normalcrafter",
              *(f"{k}={v}" for k, v in properties.items()), "!", "video/x-raw,format=RGB", "!", "filesink",
              f"location={made}"], environment)
        size = (case.height, case.width)
        if o.output_size == "processed":
            size = pipeline.processed_size(*size, o.max_resolution)
        return _without_padding(made.read_bytes(), *size)


def _run(arguments, environment):
    done = subprocess.run([str(a) for a in arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"


def _stride(width):
    """GStreamer's rows of packed RGB are padded to 4 bytes."""
    return -(-3 * width // 4) * 4


def _padded_rows(clip):
    frames, height, width, _ = clip.shape
    rows = np.zeros((frames, height, _stride(width)), np.uint8)
    rows[..., :3 * width] = clip.reshape(frames, height, 3 * width)
    return rows.tobytes()


def _without_padding(data, height, width):
    rows = np.frombuffer(data, np.uint8).reshape(-1, height, _stride(width))
    return rows[..., :3 * width].reshape(-1, height, width, 3)


def _digest(texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
