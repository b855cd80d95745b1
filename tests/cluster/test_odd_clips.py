"""One clip's odd name or damaged file ends neither the others nor the report. Ray and the converter are stand-ins."""

import errno
import os
import pathlib
import shutil
import sys
import types

import cluster
import numpy as np
import pytest
from conftest import ffmpeg, probed, read_report

DONE, FAILED, INTERRUPTED = 0, 1, 130
NOT_UTF8 = os.fsdecode(b"caf\xe9")
# Says that each clip has 40 frames, fails for what is called bad, and writes the input itself as every piece.
CONVERTER = f"""#!{sys.executable} -IS
import json, os, shutil, sys
source, output = sys.argv[1:3]
if os.path.basename(source).startswith("bad"):
    sys.stderr.buffer.write(os.fsencode(source) + b": is bad")
    sys.exit(4)
if "--count" in sys.argv:
    print(json.dumps({{"event": "count", "frames": 40, "pictures": False, "breaks": [], "first_number": 0,
                       "times": [None] * 40, "window-size": 14, "step-size": 10, "vae-decode-chunk-size": 4}}))
else:
    shutil.copyfile(source, output)
    print(json.dumps({{"event": "done", "frames": 20, "seconds": 1}}))
"""


class Remote:
    """A task, an actor's method, or, of a class, the actor."""

    def __init__(self, called):
        self._called = called

    def options(self, name):
        name.encode()  # as Ray does
        return self

    def remote(self, *arguments):
        done = self._called(*arguments)
        return Actor(done) if isinstance(self._called, type) else Task(done)


class Task:
    def __init__(self, result):
        self.result = result


class Actor:
    def __init__(self, instance):
        self._instance = instance

    def __getattr__(self, name):
        return Remote(getattr(self._instance, name))


class Ray(types.ModuleType):
    """As far as the driver needs it: what is called runs at once, and here."""

    cloudpickle = types.SimpleNamespace(register_pickle_by_value=lambda module: None)
    exceptions = types.SimpleNamespace(RayError=RuntimeError)
    is_shut_down = False

    def init(self, **options):
        pass

    def shutdown(self):
        self.is_shut_down = True

    def remote(self, **options):
        return Remote

    def get(self, task):
        return task.result

    def wait(self, tasks, timeout):
        return tasks, []

    def cancel(self, task, force):
        pass


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Ray("ray"))
    return sys.modules["ray"]


@pytest.fixture
def drive(ray, tmp_path, monkeypatch):
    """Runs to the end; its exit status."""
    monkeypatch.chdir(tmp_path)
    converter = tmp_path / "converter"
    converter.write_text(CONVERTER)
    converter.chmod(0o755)
    np.savez("good.npz", normals=np.arange(20.0))
    return lambda *arguments: cluster.main([*arguments, "--converter=./converter", "--report=report.json", "--local=1",
                                            "--piece-frames=20", "--warm-up=0"])


def clips():
    """The report's, by the inputs' names."""
    return {pathlib.Path(clip["input"]).name: clip for clip in read_report()["clips"]}


def fails_alone(drive, name, output):
    """What it failed with, where the clip behind it is converted all the same."""
    assert drive(name, "good.npz", output) == FAILED
    odd, good = clips()[name], clips()["good.npz"]
    assert (odd["status"], good["status"], good["pieces"]) == ("failed", "done", 2)
    failure, = odd["failures"]
    return failure["message"]


def test_a_name_that_leaves_no_room_for_its_pieces_folder_fails_alone(drive):
    name = "n" * 245
    shutil.copy("good.npz", f"{name}.npz")
    pathlib.Path("out").mkdir()
    assert "File name too long" in fails_alone(drive, f"{name}.npz", "out/{name}.npz")
    with np.load("out/good.npz") as joined:
        np.testing.assert_array_equal(joined["normals"], [*range(20), *range(20)])


def test_a_folder_that_may_not_be_read_fails_alone(drive):
    for name in ("shut", "good"):
        pathlib.Path(name).mkdir()
    shutil.copy("good.npz", "shut.npz")
    pathlib.Path("shut").chmod(0)
    if os.access("shut", os.X_OK):
        pytest.skip("root may read everything")
    assert "shut/" in (said := fails_alone(drive, "shut.npz", "{name}/n.npz")) and "Permission denied" in said


def test_a_damaged_archive_fails_alone(drive):
    pathlib.Path("odd.npz").write_text("no archive")
    said = fails_alone(drive, "odd.npz", "out/{name}.npz")
    assert "out/odd.npz.pieces/piece-00000/odd.npz is damaged" in said and "remove " in said


@pytest.mark.parametrize("header", [b"{'descr': ", b"{'descr': f(), 'shape': (2,)}", b"{}", b""])
def test_an_array_with_a_damaged_header_fails_alone(drive, header):
    pathlib.Path("odd.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    np.save("good.npy", np.arange(20.0))
    os.replace("good.npy", "good.npz")  # the pieces' own ending says what they are
    assert "piece-00000/odd.npy is damaged" in fails_alone(drive, "odd.npy", "out/{name}.npy")


def test_what_nobody_foresaw_fails_alone(drive, monkeypatch):
    def plan_pieces(clip, *arguments, whole=cluster.plan_pieces):
        if "odd" in clip.source:
            raise ZeroDivisionError("by zero")
        whole(clip, *arguments)

    monkeypatch.setattr(cluster, "plan_pieces", plan_pieces)
    assert fails_alone(drive, "odd.npz", "out/{name}.npz") == "ZeroDivisionError: by zero"


def test_an_interrupt_within_a_step_is_no_clips_failure(drive, ray, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "check_output", interrupted)
    assert drive("good.npz", "out.npz") == INTERRUPTED
    assert clips()["good.npz"]["failures"] == [] and ray.is_shut_down


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_videos_whose_names_are_not_utf8_are_joined(drive):
    ffmpeg("-f", "lavfi", "-i", "color=size=16x16:rate=25:duration=0.8", "-c:v", "ffv1", f"{NOT_UTF8}.mkv")
    assert drive(f"{NOT_UTF8}.mkv", "out/{name}.mkv") == DONE, clips()
    assert len(probed(f"out/{NOT_UTF8}.mkv", "frame=pts_time")) == 40
    assert [file.name for file in pathlib.Path("out").iterdir()] == [f"{NOT_UTF8}.mkv"]


def test_a_video_that_cannot_be_joined_is_told_whatever_its_name(drive):
    pathlib.Path(f"{NOT_UTF8}.mkv").write_text("no video")
    assert drive(f"{NOT_UTF8}.mkv", "out/{name}.mkv") == FAILED
    assert "could not join" in clips()[f"{NOT_UTF8}.mkv"]["failures"][0]["message"]


def test_a_dry_run_prints_names_that_are_not_utf8(drive, capsys):
    assert drive(f"{NOT_UTF8}.npz", "out/{name}.npz", "--dry-run") == DONE
    assert "caf\\udce9.npz: 40 frames, 2 pieces" in capsys.readouterr().out


def test_a_converters_words_about_a_name_that_is_not_utf8_are_told(drive, capsys):
    assert drive(f"bad-{NOT_UTF8}.npz", "out/{name}.npz") == FAILED
    assert "bad-caf\\xe9.npz: is bad" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_told_and_ends_ray_all_the_same(drive, ray, monkeypatch, capsys):
    def write_report(file, *arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    monkeypatch.setattr(cluster, "write_report", write_report)
    assert drive("good.npz", "out.npz") == FAILED
    assert "cluster: no report: report.json: No space left on device" in capsys.readouterr().err
    assert ray.is_shut_down and pathlib.Path("out.npz").exists()
