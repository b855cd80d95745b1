"""Clips through the whole element, with gst-launch-1.0."""

import os
import pathlib
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
DEMO_MODEL = ROOT / "models" / "demo"


def environment():
    """The user's, with the built plugin in it unless GST_PLUGIN_PATH is set already."""
    variables = dict(os.environ)
    if "GST_PLUGIN_PATH" not in variables:
        variables.update(GST_PLUGIN_PATH=str(BUILD / "gst"), GST_REGISTRY=str(BUILD / "gst-registry.bin"))
    return variables


def run_element(rgb, model=DEMO_MODEL, **properties):
    """uint8 [T,H,W,3] -> unit vectors float32 [T,H,W,3]. A property's dashes are underscores here."""
    frames, height, width, _ = rgb.shape
    settings = [f"{name.replace('_', '-')}={value}" for name, value in properties.items()]
    with tempfile.TemporaryDirectory() as scratch:
        source, target = pathlib.Path(scratch) / "clip.rgb", pathlib.Path(scratch) / "normals.f32"
        np.ascontiguousarray(rgb).tofile(source)
        command = ["gst-launch-1.0", "-q", "filesrc", f"location={source}", f"blocksize={height * width * 3}", "!",
                   "rawvideoparse", "format=rgb", f"width={width}", f"height={height}", "framerate=25/1",
                   "plane-strides=<" + str(3 * width) + ">", "!",
                   "normalcrafter", f"model={model}", *settings, "!",
                   "other/tensors,format=static", "!", "filesink", f"location={target}"]
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        vectors = np.fromfile(target, np.float32)
    if vectors.size != frames * height * width * 3:
        raise RuntimeError(f"{frames} frames of {width}x{height} went in, {vectors.size} numbers came out")
    return vectors.reshape(rgb.shape)
