"""Golden data for the engine's own tests: small clips and what the float64 reference makes of them.

    python make_golden.py            # writes ../data/golden/*.safetensors

Each file: "clip" uint8 [F,H,W,3]; "raw" and "unit" float32 [F,H/s,W/s,3], the vectors before and after renormalising,
every s-th pixel each way (s: "stride" in the metadata). The metadata, all text: "model", a name of models.py, which
makes the directory when the test runs; the session's options; "raw_error" and "unit_error", the largest error of
PyTorch's own float32 over all pixels, against which tolerances are set.
"""

import dataclasses
import pathlib
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import clips
import models
import pipeline
from pipeline import Options

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data" / "golden"


@dataclasses.dataclass(frozen=True)
class Golden:
    name: str
    model: str
    frames: int
    height: int
    width: int
    stride: int
    options: Options


CASES = [
    Golden("overlap", "two-level", 5, 40, 48, 2, Options(window_size=3, step_size=2, vae_decode_chunk_size=2)),
    Golden("repeat", "two-level-sigma2", 4, 64, 40, 2,
           Options(window_size=3, step_size=2, vae_decode_chunk_size=3, tail_mode="repeat", clip_resize="original")),
    Golden("shrunk", "published-shape", 1, 150, 100, 4,
           Options(window_size=2, step_size=1, max_resolution=120, output_size="processed")),
    Golden("lists", "asymmetric", 2, 70, 66, 4, Options(window_size=2, step_size=2)),
]


def compute(case, model):
    """The arrays of a golden file from the model directory."""
    clip = clips.make_clip(case.frames, case.height, case.width, seed=1)
    return {"clip": clip, **_vectors(case, model, clip, "float64")[0]}


def _vectors(case, model, clip, dtype):
    """(the file's arrays, all pixels)"""
    raw = pipeline.run(pipeline.Reference(model, pipeline.DTYPES[dtype]), clip, case.options)
    whole = {"raw": raw, "unit": pipeline.renormalize(raw)}
    s = case.stride
    return {k: np.ascontiguousarray(v[:, ::s, ::s], np.float32) for k, v in whole.items()}, whole


def path(case):
    return FOLDER / f"{case.name}.safetensors"


def load(case):
    return load_file(path(case))


def metadata(case):
    with safe_open(path(case), "np") as file:
        return file.metadata()


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        with tempfile.TemporaryDirectory() as model:
            models.make_model(case.model, model)
            arrays = compute(case, model)
            exact, narrow = (_vectors(case, model, arrays["clip"], d)[1] for d in ("float64", "float32"))
        metadata = {"model": case.model, "stride": case.stride, **dataclasses.asdict(case.options)}
        metadata.update({f"{k}_error": f"{np.abs(narrow[k] - exact[k]).max():.3g}" for k in exact})
        save_file(arrays, path(case), {k: str(v) for k, v in metadata.items()})
        print(path(case).name, path(case).stat().st_size, metadata)


if __name__ == "__main__":
    main()
