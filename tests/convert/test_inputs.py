"""What goes in, and which part of it."""

import shutil
import subprocess

import numpy as np
import pytest
from conftest import HEIGHT, WIDTH, decoded, ffmpeg, probed


def count(file):
    return int(probed(file, "stream=nb_read_frames", "v:0", "-count_frames")[0][0])


def packets(file, stream):
    """The md5 sums of a stream's packets."""
    done = subprocess.run(["ffmpeg", "-loglevel", "error", "-i", str(file), "-map", stream, "-c", "copy", "-f",
                           "framemd5", "-"], capture_output=True, text=True, check=True)
    return [line.split(",")[-1].strip() for line in done.stdout.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.mkv"])
def test_audio_is_copied_where_the_container_takes_it(convert, clip, name):
    convert(clip, name)
    sound, whole = packets(name, "0:a"), packets(clip, "0:a")
    begin = whole.index(sound[0])
    # What lies outside the source's edit list, the encoder's delay and padding, is not played.
    assert begin <= 1 and len(whole) - len(sound) <= 2
    assert sound == whole[begin:begin + len(sound)]
    times = [[float(row[0]) for row in probed(file, "packet=pts_time", "a:0")] for file in (clip, name)]
    np.testing.assert_allclose(times[1], times[0][begin:begin + len(sound)], atol=2e-3)


def test_audio_is_encoded_anew_where_the_container_does_not_take_it(convert, clip):
    convert(clip, "out.webm")
    assert probed("out.webm", "stream=codec_name", "a:0") == [["opus"]]
    assert abs(float(probed("out.webm", "format=duration")[0][0]) - 1.2) < 0.1


# What demuxers say of sound differs: those of transport and program streams leave nearly all to a parser.
@pytest.mark.parametrize("codec, container", [
    ("libopus", "webm"), ("libvorbis", "mkv"), ("libmp3lame", "mp4"), ("libmp3lame", "avi"), ("flac", "mkv"),
    ("pcm_s16le", "mov"), ("ac3", "ts"), ("mp2", "mpg"), ("aac", "ts")])
def test_sound_of_every_kind_comes_along(convert, clip, codec, container):
    picture = {"webm": "libvpx", "mpg": "mpeg2video"}.get(container, "libx264")
    source = f"in.{container}"
    ffmpeg("-i", clip, "-pix_fmt", "yuv420p", "-c:v", picture, "-c:a", codec, source)
    kind, whole = probed(source, "stream=codec_name", "a:0")[0], packets(source, "0:a")
    for name in ("out.mp4", "out.mkv"):
        convert(source, name)
        assert count(name) == count(source), name
        times = [float(row[0]) for row in probed(name, "packet=pts_time", "a:0")]
        assert abs(times[-1] - times[0] - 1.2) < 0.15, name
        # Elsewhere copies are framed anew: AAC's headers go, PCM's packets are cut as they come.
        if probed(name, "stream=codec_name", "a:0")[0] == kind and container != "ts" and codec != "pcm_s16le":
            sound = packets(name, "0:a")
            assert sum(packet in whole for packet in sound) >= len(sound) - 2, name
    # This one can hold all of these.
    assert probed("out.mkv", "stream=codec_name", "a:0")[0] == kind


@pytest.mark.parametrize("codec, name", [("flac", "out.mp4"), ("flac", "out.mov"), ("aac", "out.webm"),
                                         ("libopus", "out.mkv"), ("aac", "out.mp4")])
def test_a_range_without_sound_is_converted(convert, clip, codec, name):
    ffmpeg("-i", clip, "-itsoffset", "0.8", "-i", clip, "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", codec,
           "late.mkv")
    convert("late.mkv", name, "--frames=10")
    assert count(name) == 10


def test_a_video_without_sound_gives_one_without(convert, clip):
    ffmpeg("-i", clip, "-an", "-c", "copy", "silent.mp4")
    convert("silent.mp4", "out.mp4")
    assert probed("out.mp4", "stream=codec_type", "a") == []


def test_every_frame_keeps_its_time(convert, clip):
    ffmpeg("-i", clip, "-an", "-vf", "select='not(mod(n,3))+lt(n,10)',settb=1/1000", "-fps_mode", "vfr", "uneven.mkv")
    convert("uneven.mkv", "out.mkv")
    times = [[row[0] for row in probed(file, "frame=pts_time")] for file in ("uneven.mkv", "out.mkv")]
    assert len(set(np.diff(np.array(times[0], float)).round(3))) > 1
    assert times[1] == times[0]


def test_film_rate_stays_film_rate(convert, clip):
    ffmpeg("-i", clip, "-an", "-r", "24000/1001", "film.mp4")
    convert("film.mp4", "out.mp4")
    assert probed("out.mp4", "stream=r_frame_rate") == [["24000/1001"]]
    assert count("out.mp4") == count("film.mp4")


@pytest.mark.parametrize("codec", ["libx264", "v210"])
def test_a_video_that_a_player_turns_is_turned_before_the_network(convert, clip, codec):
    """v210: 10 bits, in a format that GStreamer's videoflip does not take."""
    ffmpeg("-i", clip, "-c:v", codec, "in.mov")
    ffmpeg("-i", "in.mov", "-c", "copy", "-metadata:s:v", "rotate=90", "turned.mov")
    convert("turned.mov", "out.npy")
    turned = np.load("out.npy")
    assert turned.shape == (30, WIDTH, HEIGHT, 3)
    convert("turned.mov", "out.mp4")
    assert probed("out.mp4", "stream=width,height") == [[str(HEIGHT), str(WIDTH)]]
    # The file must not say that it is to be turned again.
    assert decoded("out.mp4", size=(WIDTH, HEIGHT)).shape == (30, WIDTH, HEIGHT, 3)


def test_interlaced_video_gives_one_frame_for_two_fields(convert, clip):
    ffmpeg("-i", clip, "-an", "-c:v", "mpeg2video", "-flags", "+ildct+ilme", "-top", 1, "-q:v", 2, "fields.mpg")
    convert("fields.mpg", "out.npy")
    assert len(np.load("out.npy")) == 30


def test_a_numbered_sequence_keeps_its_numbers(convert, pictures, tmp_path):
    convert(pictures, "n-%05d.png", "--fps=24")
    assert sorted(p.name for p in tmp_path.glob("n-*")) == [f"n-{i:05d}.png" for i in range(1001, 1013)]


def test_a_numbered_sequence_is_the_same_as_its_video(convert, clip, pictures):
    convert(pictures, "pictures.npz", "--fps=25")
    ffmpeg("-framerate", 25, "-start_number", 1001, "-i", pictures, "-c:v", "png", "video.mov")
    convert("video.mov", "video.npz")
    with np.load("pictures.npz") as a, np.load("video.npz") as b:
        np.testing.assert_array_equal(a["normals"], b["normals"])
        np.testing.assert_allclose(a["times"], b["times"], atol=1e-6)


def test_a_folder_is_read_in_natural_order(convert, pictures, tmp_path):
    convert(pictures, "numbers.npy", "--fps=25")
    (tmp_path / "folder").mkdir()
    for i in range(12):
        shutil.copy(tmp_path / f"in-{1001 + i}.png", tmp_path / "folder" / f"shot {i + 1}.png")
    (tmp_path / "folder" / "notes.txt").write_text("not a picture")
    convert("folder", "folder.npy", "--fps=25")
    np.testing.assert_array_equal(np.load("folder.npy"), np.load("numbers.npy"))


def test_16_bit_pictures_reach_the_network_whole(convert, tmp_path):
    """A ramp that 8 bits cannot hold: with its low bytes cut off the vectors are others."""
    ramp = np.linspace(30000, 31000, HEIGHT * WIDTH).astype("<u2").reshape(HEIGHT, WIDTH, 1).repeat(3, -1)
    for name, picture in (("deep", ramp), ("flat", ramp // 256 * 257)):
        (tmp_path / "raw").write_bytes(picture.tobytes())
        ffmpeg("-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", f"{WIDTH}x{HEIGHT}", "-i", "raw", f"{name}1.png")
        convert(f"{name}%d.png", f"{name}.npy", "--fps=25")
    assert not np.array_equal(np.load("deep.npy"), np.load("flat.npy"))


def test_one_picture_gives_one_picture(convert, pictures):
    convert("in-1001.png", "out.png")
    assert probed("out.png", "stream=width,height") == [[str(WIDTH), str(HEIGHT)]]


@pytest.mark.parametrize("start, frames", [("7", "9"), ("0.28s", "0.36s"), ("7", "0.36s"), ("0:00.28", "9")])
def test_a_range_by_number_and_by_time_is_the_clip_cut_there(convert, clip, start, frames):
    convert(clip, "out.npz", f"--start={start}", f"--frames={frames}")
    ffmpeg("-i", clip, "-an", "-vf", "select='between(n,7,15)'", "-fps_mode", "passthrough", "-c:v", "ffv1", "-pix_fmt",
           "yuv420p", "cut.mkv")
    convert("cut.mkv", "cut.npy")
    with np.load("out.npz") as archive:
        np.testing.assert_allclose(archive["times"], np.arange(7, 16) / 25, atol=1e-6)
        np.testing.assert_array_equal(archive["normals"], np.load("cut.npy"))


@pytest.mark.parametrize("start", ["7", "0.28s"])
@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_range_takes_its_sound_along(convert, clip, name, start):
    convert(clip, name, f"--start={start}", "--frames=9")
    assert count(name) == 9
    assert float(probed(name, "frame=pts_time")[0][0]) == 0
    sound = packets(name, "0:a")
    whole = packets(clip, "0:a")
    begin = whole.index(sound[1]) - 1
    assert sound[1:] == whole[begin + 1:begin + len(sound)]
    assert abs(len(sound) * 1024 / 48000 - 0.36) < 0.07
    assert abs(float(probed(name, "packet=pts_time", "a:0")[0][0])) < 0.03


def test_cuts_begin_new_clips_on_request(convert, clip):
    """Frames of two scenes do not see each other; what sees no cut in its own scene is as if alone."""
    for name, source in (("a", "testsrc2"), ("b", "mandelbrot")):
        ffmpeg("-f", "lavfi", "-i", f"{source}=size={WIDTH}x{HEIGHT}:rate=25", "-frames:v", 12, "-pix_fmt", "yuv420p",
               "-c:v", "ffv1", f"{name}.mkv")
        convert(f"{name}.mkv", f"{name}.npy")
    ffmpeg("-i", "a.mkv", "-i", "b.mkv", "-filter_complex", "concat", "-c:v", "ffv1", "-pix_fmt", "yuv420p", "both.mkv")
    convert("both.mkv", "both.npy")
    convert("both.mkv", "cut.npy", "--restart-on-key-unit")
    alone = np.concatenate([np.load("a.npy"), np.load("b.npy")])
    np.testing.assert_allclose(np.load("cut.npy"), alone, atol=1e-4)
    assert np.abs(np.load("both.npy") - alone).max() > 1e-2


def test_cuts_that_cannot_be_found_are_told(convert, pictures):
    assert "YCbCr" in convert(pictures, "out.npy", "--fps=25", "--restart-on-key-unit", status=2)
    assert "--resume" in convert(pictures, "%d.png", "--fps=25", "--restart-on-key-unit", "--resume", status=2)


def test_a_percent_sign_in_a_pictures_name_is_written_twice(convert, pictures, tmp_path):
    convert("in-1001.png", "100%%.png")
    assert (tmp_path / "100%.png").exists()


def test_a_range_of_pictures_is_numbered_from_its_first(convert, pictures, tmp_path):
    convert(pictures, "n-%04d.png", "--fps=25", "--start=3", "--frames=2")
    assert sorted(p.name for p in tmp_path.glob("n-*")) == ["n-1004.png", "n-1005.png"]
