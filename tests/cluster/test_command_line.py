"""What is refused before Ray is asked for, and how pieces are put together."""

import pathlib
import re
import subprocess
import sys

import assembly
import numpy as np
import pytest
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
