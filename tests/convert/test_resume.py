"""An interrupted sequence goes on as if it had not been."""

import pathlib
import signal

import numpy as np
import pytest
from conftest import decoded, ffmpeg, interrupt, wait_for

OUTPUT = 6


@pytest.fixture
def long_clip(clip, tmp_path):
    """90 frames without sound."""
    ffmpeg("-stream_loop", 2, "-i", clip, "-an", "-vf", "hue=H=n/20", "-c:v", "ffv1", "-pix_fmt", "yuv420p", "long.mkv")
    return tmp_path / "long.mkv"


def read(file):
    channels = pytest.importorskip("OpenEXR").File(file, separate_channels=True).channels()
    return np.stack([channels[name].pixels for name in "RGB"], -1)


@pytest.mark.parametrize("done", [1, 33, 52, 71, 89, 90])
def test_the_rest_is_the_same_as_in_one_run_but_for_rounding(convert, long_clip, done):
    convert(long_clip, "whole/%03d.exr", "--exr-type=float")
    pathlib.Path("parts").mkdir()
    for i in range(done):
        pathlib.Path(f"parts/{i:03d}.exr").write_bytes(pathlib.Path(f"whole/{i:03d}.exr").read_bytes())
    convert(long_clip, "parts/%03d.exr", "--exr-type=float", "--resume")
    for i in range(90):
        difference = np.abs(read(f"parts/{i:03d}.exr") - read(f"whole/{i:03d}.exr"))
        # At 64 pixels this model makes 1e-3 of float32's rounding (the deepest level has one pixel).
        assert difference.mean() < 1e-3 and difference.max() < 0.1, i


def test_a_run_that_was_killed_is_taken_up(convert, long_clip):
    convert(long_clip, "whole/%03d.png")
    process = convert.start(long_clip, "parts/%03d.png")
    wait_for(lambda: pathlib.Path("parts/045.png").exists())
    interrupt(process, (signal.SIGKILL,))
    assert not pathlib.Path("parts/089.png").exists()
    convert(long_clip, "parts/%03d.png", "--resume")
    assert close(decoded("parts/%03d.png"), decoded("whole/%03d.png"))


def test_a_run_that_ctrl_c_finished_is_taken_up_before_its_anchored_end(convert, long_clip):
    convert(long_clip, "whole/%03d.png")
    convert(long_clip, "parts/%03d.png", "--frames=48")
    assert not close(decoded("parts/%03d.png"), decoded("whole/%03d.png")[:48])
    convert(long_clip, "parts/%03d.png", "--resume")
    assert close(decoded("parts/%03d.png"), decoded("whole/%03d.png"))


def close(a, b):
    """But for float32's rounding, as above."""
    difference = np.abs(a.astype(int) - b)
    return difference.mean() < 0.1 and difference.max() < 16


def test_a_resumed_range_of_a_sequence_keeps_numbers(convert, pictures, tmp_path):
    options = ("--fps=25", "--start=2", "--window-size=2", "--step-size=1", "--vae-decode-chunk-size=1")
    convert(pictures, "w-%04d.png", *options)
    convert(pictures, "p-%04d.png", *options, "--frames=7")
    convert(pictures, "p-%04d.png", *options, "--resume")
    assert sorted(p.name for p in tmp_path.glob("p-*")) == [f"p-{i}.png" for i in range(1003, 1013)]
    # Three windows of two frames are a short warm-up; frames that were mistaken differ by 40 and more.
    assert np.abs(decoded_from("p").astype(int) - decoded_from("w")).mean((1, 2, 3)).max() < 2


def decoded_from(prefix):
    return np.stack([decoded(f"{prefix}-{i}.png")[0] for i in range(1003, 1013)])


def test_nothing_is_taken_up_with_other_settings(convert, long_clip):
    convert(long_clip, "out/%03d.png", "--frames=20")
    before = pathlib.Path("out/019.png").read_bytes()
    errors = convert(long_clip, "out/%03d.png", "--resume", "--flip-y", status=OUTPUT)
    assert "flip-y" in errors
    assert pathlib.Path("out/019.png").read_bytes() == before
    assert not pathlib.Path("out/020.png").exists()
