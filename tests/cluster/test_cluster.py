"""What a cluster makes of a clip is what one machine makes of it."""

import os
import pathlib
import re
import shutil
import signal

import numpy as np
import pytest
from conftest import APART, FRAMES, RATE, decoded, ffmpeg, probed, read_report, wait_for


def converter_of_piece(number):
    """The process that converts it, and its worker: (process, parent); None while there is none."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if f"piece-{number:05d}.".encode() not in command or b"setpriv" in command:
                continue
            parent = re.search(r"^PPid:\s*(\d+)", (folder / "status").read_text(), re.MULTILINE)[1]
            return int(folder.name), int(parent)
        except OSError:  # it has just ended
            continue
    return None


def is_gone(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_worker_that_is_killed_changes_nothing(drive, clip):
    """Three at a time of three pieces; the worker of one is killed while its converter runs."""
    drive.whole(clip, "whole.npy", settings=APART)
    driver = drive.start(clip, "normals.npy", "--piece-frames=28", settings=APART)
    converter, worker = wait_for(lambda: converter_of_piece(1))
    os.kill(converter, signal.SIGSTOP)  # so that it is not done before
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: is_gone(converter))
    _, errors = driver.communicate(timeout=100)
    assert driver.returncode == 0, errors
    assert pathlib.Path("normals.npy").read_bytes() == pathlib.Path("whole.npy").read_bytes()
    report = read_report()["clips"][0]
    assert (report["status"], report["pieces"], report["failures"]) == ("done", 3, [])
    assert report["retries"] == 1
    assert not list(pathlib.Path().glob("*.pieces"))


def test_overlapping_windows_differ_by_rounding_alone_and_video_keeps_times_and_sound(drive, clip):
    drive.whole(clip, "whole.mkv")
    drive(clip, "normals.mkv", "--piece-frames=20")
    difference = np.abs(decoded("normals.mkv").astype(int) - decoded("whole.mkv"))
    assert len(difference) == FRAMES
    # At 64 pixels this model makes much of float32's rounding (the deepest level has one pixel).
    assert difference.mean() < 0.05 and difference.max() < 16
    assert probed("normals.mkv", "frame=pts_time") == probed("whole.mkv", "frame=pts_time")
    ours, whole = sound_of("normals.mkv"), sound_of("whole.mkv")
    assert len(whole) > 100
    assert all(abs(ours[packet] - time) < 0.002 for packet, time in whole.items())


def sound_of(file):
    """Times of the sound's packets by their data. GStreamer leaves out what an edit list cuts off at the ends."""
    packets = probed(file, "packet=pts_time,data_hash", "a:0", "-show_data_hash", "md5")
    return {packet[-1]: float(packet[0]) for packet in packets}


def test_lossy_video_is_joined_frame_by_frame(drive, clip):
    drive.whole(clip, "whole.mp4", settings=APART)
    drive(clip, "normals.mp4", "--piece-frames=42", settings=APART)
    ours, whole = decoded("normals.mp4"), decoded("whole.mp4")
    assert len(ours) == FRAMES
    # Each piece begins with a key frame, so that the lossy codecs choose otherwise. Other frames differ by 40 and more.
    assert np.abs(ours.astype(int) - whole).mean((1, 2, 3)).max() < 15
    times = [float(time) for time, in probed("normals.mp4", "frame=pts_time")]
    np.testing.assert_allclose(times, np.arange(FRAMES) / RATE, atol=0.002)
    assert probed("normals.mp4", "stream=codec_name", "a") == probed("whole.mp4", "stream=codec_name", "a") != []


def test_pictures_become_the_same_files(drive, clip, tmp_path):
    ffmpeg("-i", clip, "-start_number", 1001, tmp_path / "in-%04d.png")
    settings = (*APART, "--fps=25")
    (tmp_path / "whole").mkdir()
    drive.whole("in-%04d.png", "whole/n-%04d.png", settings=settings)
    drive("in-%04d.png", "ours/n-%04d.png", "--piece-frames=28", settings=settings)
    files = {file.name: file.read_bytes() for file in (tmp_path / "whole").iterdir()}
    assert len(files) == FRAMES and "n-1001.png" in files
    assert {file.name: file.read_bytes() for file in (tmp_path / "ours").iterdir() if file.is_file()} == files


def test_many_clips_are_converted_and_a_bad_one_is_told(drive, clip, tmp_path):
    short = tmp_path / "short.mkv"
    ffmpeg("-i", clip, "-frames:v", 9, "-an", "-c:v", "ffv1", short)
    (tmp_path / "text.mp4").write_text("no video at all")
    errors, report = drive(clip, short, "text.mp4", "nothing.mp4", "out/{name}.npz", "--piece-frames=28", status=1,
                           settings=APART)
    status = {pathlib.Path(c["input"]).name: c["status"] for c in report["clips"]}
    assert status == {"clip.mp4": "done", "short.mkv": "done", "text.mp4": "failed", "nothing.mp4": "failed"}
    assert "text.mp4" in errors and "nothing.mp4: no such file" in errors
    drive.whole(clip, "whole.npz", settings=APART)
    with np.load("out/clip.npz") as ours, np.load("whole.npz") as whole:
        np.testing.assert_array_equal(ours["normals"], whole["normals"])
        np.testing.assert_array_equal(ours["times"], whole["times"])
    assert len(np.load("out/short.npz")["normals"]) == 9


def test_a_name_that_is_not_utf8_passes_through_ray(drive, clip, tmp_path):
    name = os.fsdecode(b"caf\xe9")
    shutil.copy(clip, tmp_path / f"{name}.mp4")
    _, report = drive(f"{name}.mp4", "{name}.mkv", "--piece-frames=42", settings=APART)
    assert report["clips"][0]["pieces"] == 2
    assert len(decoded(f"{name}.mkv")) == FRAMES


def test_finished_pieces_are_not_made_again(drive, clip, tmp_path):
    arguments = (clip, "normals.npy", "--piece-frames=28", "--keep-pieces")
    drive(*arguments, settings=APART)
    first = pathlib.Path("normals.npy").read_bytes()
    pieces = tmp_path / "normals.npy.pieces"
    # As an interrupted run leaves it: no output, one piece missing, another one's remains.
    pathlib.Path("normals.npy").unlink()
    (pieces / "piece-00001" / "done.json").unlink()
    (pieces / "piece-00001").rename(pieces / "piece-00001.0a1b2c3d.partial")
    before = (pieces / "piece-00000" / "done.json").stat().st_mtime_ns
    _, report = drive(*arguments, settings=APART)
    assert report["clips"][0]["pieces_reused"] == 2
    assert (pieces / "piece-00000" / "done.json").stat().st_mtime_ns == before
    assert pathlib.Path("normals.npy").read_bytes() == first
    pathlib.Path("normals.npy").unlink()
    errors, _ = drive(*arguments, settings=(*APART, "--flip-y"), status=1)
    assert "other options" in errors and not pathlib.Path("normals.npy").exists()


def test_the_same_command_again_leaves_a_clip_with_kept_pieces_alone(drive, clip):
    arguments = (clip, "normals.npy", "--piece-frames=0", "--keep-pieces")
    drive(*arguments, settings=APART)
    written = pathlib.Path("normals.npy").stat().st_mtime_ns
    _, report = drive(*arguments, settings=APART)
    assert report["clips"][0]["status"] == "kept"
    assert pathlib.Path("normals.npy").stat().st_mtime_ns == written


def test_output_that_is_there_is_kept(drive, clip):
    pathlib.Path("normals.npy").write_text("precious")
    _, report = drive(clip, "normals.npy", settings=APART)
    assert report["clips"][0]["status"] == "kept"
    assert pathlib.Path("normals.npy").read_text() == "precious"


def test_a_piece_that_takes_too_long_is_given_up_and_told(drive, clip):
    errors, report = drive(clip, "normals.npy", "--timeout=0.05", "--retries=1", status=1)
    assert "took longer than 0.05 s" in errors
    failure = report["clips"][0]["failures"][0]
    assert (failure["begin"], failure["end"], failure["attempts"]) == (0, FRAMES, 2)
    assert not pathlib.Path("normals.npy").exists()


def test_a_converter_that_is_not_there_is_told(drive, clip):
    drive.converter = "/no/converter"
    errors, _ = drive(clip, "normals.npy", status=1)
    assert "/no/converter: no such program" in errors and "--converter" in errors


def test_options_that_the_converter_refuses_are_told_before_anything_runs(drive, clip):
    errors, report = drive(clip, "normals.npy", status=1, settings=("--bits=16",))
    assert "--bits=16 is for png" in errors
    assert report["clips"][0]["pieces"] == 0


def test_a_clip_whose_time_jumps_is_not_cut(drive, clip, tmp_path):
    ffmpeg("-i", clip, "-an", "-vf", "setpts=PTS+if(gte(N\\,45)\\,3/TB\\,0)", "-fps_mode", "passthrough", "-c:v", "ffv1",
           tmp_path / "jump.mkv")
    errors, report = drive("jump.mkv", "normals.npy", "--piece-frames=28", settings=APART)
    assert "jumps at frame 45" in errors and report["clips"][0]["pieces"] == 1
    assert len(np.load("normals.npy")) == FRAMES
