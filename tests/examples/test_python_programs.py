"""Any name and any value of a property reaches the Python examples' and the demo's pipeline, or is told in a line.

Run by Meson (`meson test examples-python`), which says where the plugin is.
"""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"
SYSTEM_PYTHON = "/usr/bin/python3"  # GStreamer's bindings belong to it
SETTINGS = ("device=cpu", "dtype=float32", "threads=1", "max-resolution=64")
NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with a model, a clip and an array of frames."""
    if "GST_PLUGIN_PATH" not in os.environ:
        pytest.skip("needs the built plugin: meson test examples-python")
    if subprocess.run([SYSTEM_PYTHON, "-c", "import gi, numpy, PIL"], capture_output=True).returncode:
        pytest.skip(f"{SYSTEM_PYTHON} has no PyGObject, NumPy or Pillow")
    folder = tmp_path_factory.mktemp("made")
    make_model(folder / "model")
    subprocess.run("gst-launch-1.0 -q videotestsrc num-buffers=6 ! video/x-raw,width=64,height=48 ! avenc_ffv1 ! "
                   "matroskamux ! filesink location=in.mkv".split(), check=True, timeout=60, cwd=folder)
    np.save(folder / "in.npy", np.zeros((3, 48, 64, 3), np.uint8))
    return folder


@pytest.fixture(autouse=True)
def folder(made, tmp_path, monkeypatch):
    """The test's own, with the clip and the frames."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORMALCRAFTER_MODEL", str(made / "model"))
    for name in ("in.mkv", "in.npy"):
        shutil.copy(made / name, tmp_path)
    return tmp_path


def make_model(directory):
    """Tiny and random, or what the fake engine takes for one."""
    directory.mkdir()
    if writer := os.environ.get("NORMALCRAFTER_WRITE_MODEL"):
        subprocess.run([writer, directory, "32"], check=True)
    else:
        (directory / "weights").write_text("good")


def run(program, *arguments):
    return subprocess.run([SYSTEM_PYTHON, program, *map(str, arguments)], capture_output=True, text=True,
                          errors="backslashreplace", timeout=120)


def run_example(name, *properties):
    arguments = ("in.npy", "out.npy") if name == "normals.py" else ("in.mkv", "--sink=fakesink")
    return run(EXAMPLES / name, *arguments, *properties)


@pytest.fixture
def demo(folder):
    """It looks for the plugin beside itself."""
    (folder / "project" / "scripts").mkdir(parents=True)
    (folder / "project" / "build").mkdir()
    shutil.copy(ROOT / "scripts" / "demo.py", folder / "project" / "scripts")
    (folder / "project" / "build" / "gst").symlink_to(os.environ["GST_PLUGIN_PATH"])
    return lambda *arguments: run(folder / "project" / "scripts" / "demo.py", *arguments, *SETTINGS)


@pytest.mark.parametrize("name", ["normals.py", "side_by_side.py"])
def test_a_models_name_may_have_spaces_and_quotes(folder, name):
    model = folder / 'my "new" \\ model'
    make_model(model)
    done = run_example(name, *SETTINGS, f"model={model}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["normals.py", "side_by_side.py"])
@pytest.mark.parametrize("argument, said", [
    ("no-such=1", 'no property "no-such"'), ("max-resolution=a b", '"max-resolution"'),
    ("nonsense", "'nonsense' is not property=value")])
def test_what_is_no_property_is_told_in_a_line(name, argument, said):
    done = run_example(name, argument)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    assert said in done.stderr.splitlines()[-1]


def test_a_name_that_is_not_utf8_is_shown_beside_its_normals(folder):
    (folder / "in.mkv").rename(folder / f"{NOT_UTF8}.mkv")
    done = run(EXAMPLES / "side_by_side.py", f"{NOT_UTF8}.mkv", f"--output={NOT_UTF8}-both.mkv", *SETTINGS)
    assert done.returncode == 0, done.stderr
    assert (folder / f"{NOT_UTF8}-both.mkv").stat().st_size > 0


def test_the_demo_takes_a_name_that_is_not_utf8(folder, demo):
    (folder / "in.mkv").rename(folder / f"{NOT_UTF8}.mkv")
    done = demo(f"{NOT_UTF8}.mkv", "--output=out")
    assert done.returncode == 0, done.stderr
    assert "Input: caf\\udce9.mkv, 64x48" in done.stdout
    names = {f"{NOT_UTF8}-normals.mp4", f"{NOT_UTF8}-contact-sheet.png"}
    assert {file.name for file in (folder / "out").iterdir()} == names


def test_the_demo_tells_in_a_line_that_a_property_is_not_utf8(demo):
    done = demo("in.mkv", f"model={NOT_UTF8}")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("demo: model=caf\\udce9: is not UTF-8")
