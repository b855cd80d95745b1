"""An interrupted sequence goes on as if it had not been."""

import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest
from conftest import SETTINGS, decoded, ffmpeg, interrupt, wait_for

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


def resume_with(convert, model, status):
    """With the model of the environment; none: the demo model."""
    environment = {k: v for k, v in os.environ.items() if k != "NORMALCRAFTER_MODEL"}
    if model is not None:
        environment["NORMALCRAFTER_MODEL"] = str(model)
    done = subprocess.run([convert.program, "in-%04d.png", "out/%d.png", "--fps=25", "--frames=8", "--resume", *SETTINGS],
                          capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == status, done.stderr
    return done.stderr


def test_nothing_is_taken_up_with_another_model_wherever_its_name_comes_from(convert, model, pictures, tmp_path):
    (tmp_path / "other").symlink_to(model)
    resume_with(convert, model, 0)
    errors = resume_with(convert, tmp_path / "other", OUTPUT)
    assert f"model={model}" in errors and f"model={tmp_path}/other" in errors
    assert "demo model" in resume_with(convert, None, OUTPUT)
    convert(pictures, "out/%d.png", "--fps=25", "--resume")


def test_what_was_to_be_replaced_is_not_taken_up(convert, long_clip, clip):
    convert(clip, "parts/%03d.png")
    first = pathlib.Path("parts/000.png")
    old = first.read_bytes()
    process = convert.start(long_clip, "parts/%03d.png", "--overwrite", "--flip-y")
    wait_for(lambda: first.exists() and first.read_bytes() != old)
    interrupt(process, (signal.SIGKILL,))
    assert not pathlib.Path("parts/029.png").exists()


def test_nothing_is_left_behind_the_end_of_a_sequence_that_is_replaced(convert, pictures, tmp_path):
    for name in ("n-1000.png", "n-1013.png", "n-1020.png", "n-1013.txt"):
        (tmp_path / name).write_text("old")
    convert(pictures, "n-%04d.png", "--fps=25", "--overwrite")
    kept = {"n-1000.png", "n-1013.txt"}
    assert {p.name for p in tmp_path.glob("n-*")} == kept | {f"n-{i}.png" for i in range(1001, 1013)}


def test_only_the_range_of_a_sequence_is_replaced(convert, pictures, tmp_path):
    for number in range(1001, 1013):
        (tmp_path / f"n-{number}.png").write_text("old")
    convert(pictures, "n-%04d.png", "--fps=25", "--overwrite", "--start=2", "--frames=5")
    convert(pictures, "n-%04d.png", "--fps=25", "--overwrite", "--start=8", "--frames=0.08s")
    new = {number for number in range(1001, 1013) if (tmp_path / f"n-{number}.png").read_bytes() != b"old"}
    assert new == {1003, 1004, 1005, 1006, 1007, 1009, 1010}


def test_pictures_that_are_replaced_by_their_own_normals_are_read_first(convert, pictures, tmp_path):
    convert(pictures, "n-%04d.png", "--fps=25")
    convert(pictures, f"../{tmp_path.name}/in-%04d.png", "--fps=25", "--overwrite")
    assert (tmp_path / "in-1012.png").read_bytes() == (tmp_path / "n-1012.png").read_bytes()


@pytest.mark.parametrize("source, option, status", [
    ("text.mp4", "--flip-y", 4), ("{clip}", "--model=nowhere", 8), ("{clip}", "--device=cuda:9", 8),
    ("{clip}", "--start=99", 2)])
def test_a_sequence_is_not_removed_for_a_run_that_fails_to_begin(convert, clip, tmp_path, source, option, status):
    (tmp_path / "000.png").write_text("precious")
    (tmp_path / "text.mp4").write_text("no video")
    command = [*convert.command(source.format(clip=clip), "%03d.png", "--overwrite"), option]
    assert subprocess.run(command, timeout=60).returncode == status
    assert (tmp_path / "000.png").read_text() == "precious"


def test_a_resumed_sequence_that_is_whole_stays(convert, pictures):
    convert(pictures, "n-%04d.png", "--fps=25", "--frames=3")
    convert(pictures, "n-%04d.png", "--fps=25", "--resume", "--frames=3")


def test_a_sequence_is_not_removed_for_a_run_that_cannot_begin(convert, clip, tmp_path):
    (tmp_path / "000.png").write_text("precious")
    empty = tmp_path / "plugins"
    empty.mkdir()
    convert(clip, "%03d.png", "--overwrite", status=8,
            env=os.environ | {"GST_PLUGIN_SYSTEM_PATH": str(empty), "GST_REGISTRY": str(tmp_path / "registry")})
    assert (tmp_path / "000.png").read_text() == "precious"
