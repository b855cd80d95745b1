"""Pieces of a clip, and what has to be known to cut it."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import RATE, decoded, ffmpeg, probed

NOT_VIDEO = 4


def count(convert, *arguments):
    done = subprocess.run([*convert.command(*arguments), "--count"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_trimmed_frames_are_converted_and_not_written(convert, clip):
    convert(clip, "all.npy", "--start=4", "--frames=22")
    convert(clip, "piece.npy", "--start=4", "--frames=22", "--trim=5,3")
    np.testing.assert_array_equal(np.load("piece.npy"), np.load("all.npy")[5:-3])
    convert(clip, "end.npy", "--start=4", "--trim=20,0")
    assert len(np.load("end.npy")) == 6


def test_a_piece_of_a_sequence_is_as_the_whole_clips_run_writes_it(convert, clip):
    apart = ("--step-size=14", "--vae-decode-chunk-size=7")
    convert(clip, "all/%03d.png", *apart)
    convert(clip, "piece/%03d.png", *apart, "--start=14", "--number=14", "--trim=0,0")
    for number in range(14, 30):
        assert pathlib.Path(f"piece/{number:03d}.png").read_bytes() == pathlib.Path(f"all/{number:03d}.png").read_bytes()
    assert not pathlib.Path("piece/013.png").exists()


def test_a_piece_of_a_video_has_its_frames_and_no_sound(convert, clip):
    convert(clip, "all.mkv", "--frames=20")
    convert(clip, "piece.mkv", "--frames=20", "--trim=6,2")
    np.testing.assert_array_equal(decoded("piece.mkv"), decoded("all.mkv")[6:-2])
    assert probed("all.mkv", "stream=codec_type", "a") and not probed("piece.mkv", "stream=codec_type", "a")


def test_the_end_of_a_run_tells_where_it_began(convert, clip):
    done = subprocess.run(convert.command(clip, "out.npy", "--start=4", "--frames=9", "--trim=2,2", "--progress=json"),
                          capture_output=True, text=True, check=True, timeout=60)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["frames"]) == ("done", 5)
    assert last["beginning"] == pytest.approx(6 / RATE, abs=1e-6)


def test_a_count_is_that_of_a_conversion_and_writes_nothing(convert, clip, tmp_path):
    counted = count(convert, clip, "out/normals.mkv", "--step-size=7")
    assert counted["frames"] == 30 and counted["breaks"] == [] and not counted["pictures"]
    np.testing.assert_allclose(counted["times"], np.arange(30) / RATE, atol=1e-6)
    assert (counted["window-size"], counted["step-size"], counted["vae-decode-chunk-size"]) == (14, 7, 4)
    assert count(convert, clip, "out.npy", "--start=20", "--frames=0.2s")["frames"] == 5
    assert list(tmp_path.iterdir()) == []


def test_a_count_of_pictures_goes_on_with_their_numbers(convert, pictures):
    counted = count(convert, pictures, "n-%04d.png", "--fps=10", "--start=2")
    assert counted["pictures"] and counted["first_number"] == 1003
    np.testing.assert_allclose(counted["times"], np.arange(2, 12) / 10, atol=1e-6)


def test_a_count_tells_where_windows_begin_anew(convert, clip):
    ffmpeg("-i", clip, "-an", "-vf", "setpts=PTS+if(gte(N\\,11)\\,3/TB\\,0)", "-fps_mode", "passthrough", "-c:v",
           "ffv1", "jump.mkv")
    assert count(convert, "jump.mkv", "out.npy")["breaks"] == [11]
    assert count(convert, "jump.mkv", "out.npy", "--discont-threshold=5000000000")["breaks"] == []


def test_a_count_of_no_video_is_refused(convert, clip, tmp_path):
    ffmpeg("-i", clip, "-vn", "-c", "copy", "sound.mp4")
    (tmp_path / "text.mp4").write_text("no video at all")
    assert "no video stream" in convert("sound.mp4", "out.npy", "--count", status=NOT_VIDEO)
    assert "text.mp4" in convert("text.mp4", "out.npy", "--count", status=NOT_VIDEO)
