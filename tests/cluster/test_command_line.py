"""What is refused before Ray is asked for, and how pieces are put together."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import assembly
import cluster
import conversion
import numpy as np
import plan
import pytest
from clip import Clip, ClipError, assemble, check_output, open_work
from conftest import DRIVER, ROOT

USAGE, NO_RAY = 2, 3


def run(*arguments, **options):
    return subprocess.run([sys.executable, str(DRIVER), *arguments], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("arguments, said", [
    (["in.mp4"], "OUTPUT"),
    (["in.mp4", "out.gif"], "out.gif: its ending"),
    (["a.mp4", "b.mp4", "out.mkv"], "{name}"),
    (["a/x.mp4", "b/x.mp4", "{name}.npy"], "would both become"),
    (["in.mp4", "out.npy", "--piece-frames=-1"], "--piece-frames"),
    (["in.mp4", "out.npy", "--warm-up=-1"], "--warm-up"),
    (["in.mp4", "out.npy", "--timeout=0"], "--timeout"),
    (["in.mp4", "out.npy", "--local=0"], "--local"),
    (["in.mp4", "out.npy", "--local=2", "--address=1.2.3.4:5"], "excludes --address"),
    (["in.mp4", "out.npy", "--report=none/r.json"], "--report=none/r.json could not be written: No such file"),
    (["in.mp4", "out.npy", f"--report={'r' * 250}"], "could not be written: File name too long"),
    (["in.mp4", "out.npy", "--report=."], "--report=. names a folder"),
    (["in.mp4", "out.npy", "--", "--frames=20"], "--frames cannot be passed"),
    (["in.mp4", "out.npy", "--", "--preview=p.png"], "--preview cannot be passed"),
    (["in.mp4", "out.npy", "--", "--leaky=upstream"], "--leaky: windows"),
])
def test_a_wrong_command_line_is_told(arguments, said):
    done = run(*arguments)
    assert done.returncode == USAGE and said in done.stderr


def test_ray_that_is_missing_is_told(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError(\"No module named 'ray'\")\n")
    done = run("in.mp4", "out.npy", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == NO_RAY and "pip install ray" in done.stderr


def test_ffmpeg_that_is_missing_is_told(tmp_path):
    done = run("in.mp4", "out.mkv", env={"PATH": str(tmp_path)})
    assert done.returncode == USAGE and "ffmpeg" in done.stderr and "--piece-frames=0" in done.stderr


def test_the_version_is_the_projects():
    project = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1]
    assert run("--version").stdout == f"cluster.py {project}\n"


def part(folder, file, array=None):
    folder.mkdir()
    if array is not None:
        np.save(folder / file, array)
    return assembly.Part(folder, file)


def test_arrays_are_joined_as_numpy_would(tmp_path):
    arrays = [np.random.default_rng(i).random((i + 1, 3, 5, 3), np.float32) for i in range(3)]
    parts = [part(tmp_path / str(i), "a.npy", array) for i, array in enumerate(arrays)]
    assembly.assemble(parts, tmp_path / "out" / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "a.npy"), np.concatenate(arrays))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.npy"]


def test_arrays_of_other_sizes_are_not_joined(tmp_path):
    parts = [part(tmp_path / str(i), "a.npy", np.zeros((2, 3, 4 + i, 3), np.float32)) for i in range(2)]
    with pytest.raises(assembly.AssemblyError, match="differ in size"):
        assembly.assemble(parts, tmp_path / "a.npy")
    assert not (tmp_path / "a.npy").exists()


def test_pictures_go_on_where_moving_them_was_interrupted(tmp_path):
    parts = [part(tmp_path / str(i), "n-%02d.png") for i in range(2)]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "n-00.png").write_text("0")
    for number in (1, 2):
        (tmp_path / str(number - 1) / f"n-{number:02d}.png").write_text(str(number))
    assembly.assemble(parts, tmp_path / "out" / "n-%02d.png")
    assert [file.read_text() for file in sorted((tmp_path / "out").iterdir())] == ["0", "1", "2"]


@pytest.mark.parametrize("name, there", [("n-%03d.png", 2), ("n-%d.png", 2), ("x-%03d.png", 0), ("100%%-%d.png", 1)])
def test_pictures_that_are_there_are_found(tmp_path, name, there):
    for file in ("n-001.png", "n-002.png", "n-001.exr", "n-a.png", "100%-7.png"):
        (tmp_path / file).touch()
    assert len(assembly.pictures_there(tmp_path / name)) == there


def test_names_with_quotes_reach_ffmpeg(tmp_path):
    script = assembly.concat_script([assembly.Part(tmp_path / "it's", "a.mkv", 0.8), assembly.Part(tmp_path, "b.mkv")])
    assert script == (f"ffconcat version 1.0\nfile '{tmp_path}/it'\\''s/a.mkv'\nduration 0.800000000\n"
                      f"file '{tmp_path}/b.mkv'\n")


def test_what_ffmpeg_cannot_join_is_told(tmp_path):
    parts = [part(tmp_path / str(i), "a.mkv") for i in range(2)]
    for one in parts:
        one.path.write_text("no video")
    with pytest.raises(assembly.AssemblyError, match="could not join"):
        assembly.assemble(parts, pathlib.Path(tmp_path / "out.mkv"))


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the work for in.npy, as each call of the program does, with these of the converter's options."""
    monkeypatch.chdir(tmp_path)
    for variable in ("NORMALCRAFTER_MODEL", "NORMALCRAFTER_ENGINE", "NORMALCRAFTER_LIBTORCH"):
        monkeypatch.delenv(variable, raising=False)

    def open_it(*options, source="in.mp4"):
        parsed = cluster.parse_arguments([source, "out.npy", "--", *options])
        clip, = cluster.make_clips(parsed)
        open_work(clip, cluster.make_converter(parsed), overwrite=False)
        return clip

    return open_it


def test_pieces_of_another_model_are_refused_wherever_its_name_comes_from(opened, tmp_path, monkeypatch):
    opened()
    monkeypatch.setenv("NORMALCRAFTER_MODEL", "")  # is as unset to the element
    opened()
    monkeypatch.setenv("NORMALCRAFTER_MODEL", "one")
    with pytest.raises(ClipError, match=f"another model.*{tmp_path}/one.*demo model"):
        opened()
    shutil.rmtree("out.npy.pieces")
    opened()
    monkeypatch.setenv("NORMALCRAFTER_MODEL", str(tmp_path / "one"))
    opened()


@pytest.mark.parametrize("options", [["--model=one"], ["--model", "one"], ["--base-model=one"]])
def test_a_models_relative_name_means_another_one_in_another_folder(opened, tmp_path, monkeypatch, options):
    source = str(tmp_path / "in.mp4")
    folder = opened(*options, source=source).work
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    folder.rename(tmp_path / "other" / folder.name)
    with pytest.raises(ClipError, match=f"model.*{tmp_path}/other/one"):
        opened(*options, source=source)


def test_pieces_of_another_engine_are_refused(opened, monkeypatch):
    opened()
    monkeypatch.setenv("NORMALCRAFTER_ENGINE", "/other/engine.so")
    with pytest.raises(ClipError, match="NORMALCRAFTER_ENGINE"):
        opened()


@pytest.mark.parametrize("source", ["in-%02d.png", "."])
def test_pictures_that_changed_are_another_input(opened, tmp_path, source):
    for number in range(3):
        (tmp_path / f"in-{number:02d}.png").write_text("picture")
    os.utime(tmp_path, ns=(0, 0))
    opened(source=source)
    opened(source=source)
    os.utime(tmp_path / "in-01.png", ns=(0, 0))
    with pytest.raises(ClipError, match="input has changed"):
        opened(source=source)


def clip_of_one_piece(folder):
    """Converted, and not put together."""
    clip = Clip("in.mp4", folder / "out.npy", folder / "out.npy.pieces")
    clip.counted = {"times": [0.0], "pictures": False}
    clip.pieces = [plan.Piece(0, 1, is_last=True)]
    clip.jobs = [conversion.PieceJob("in.mp4", str(clip.work / "piece-00000"), "out.npy", 1, 0, None, None)]
    (clip.work / "piece-00000").mkdir(parents=True)
    (clip.work / "piece-00000" / "out.npy").write_text("normals")
    (clip.work / "job.json").write_text("{}")
    return clip


def test_a_kept_piece_stays_and_the_output_made_of_it_is_left_alone(tmp_path):
    clip = clip_of_one_piece(tmp_path)
    assemble(clip, keep_pieces=True)
    assert (clip.work / "piece-00000" / "out.npy").read_text() == clip.output.read_text() == "normals"
    check_output(clip, overwrite=False)
    assert clip.status == "kept"
    # Another file of that name is not what the pieces gave.
    clip.status = "waiting"
    clip.output.write_text("another")
    check_output(clip, overwrite=False)
    assert clip.status == "waiting"


def test_the_only_piece_that_has_become_the_output_is_not_missed(tmp_path):
    """As a call leaves it that is interrupted before it removes the work."""
    clip = clip_of_one_piece(tmp_path)
    (clip.work / "piece-00000" / "out.npy").rename(clip.output)
    assemble(clip, keep_pieces=False)
    assert clip.status == "done" and clip.output.read_text() == "normals" and not clip.work.exists()


def test_kept_pictures_are_copied(tmp_path):
    one = part(tmp_path / "piece", "n-%02d.png")
    (one.folder / "n-00.png").write_text("0")
    assembly.assemble([one], tmp_path / "out" / "n-%02d.png", keep=True)
    assert (one.folder / "n-00.png").read_text() == (tmp_path / "out" / "n-00.png").read_text() == "0"
