"""What goes wrong is told in words and in the exit status, and nothing is lost."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import numpy as np
import pytest
from conftest import SETTINGS, decoded, ffmpeg, interrupt, probed, wait_for

USAGE, MISSING, NOT_VIDEO, DAMAGED, OUTPUT, DISK_FULL, MODEL = 2, 3, 4, 5, 6, 7, 8


@pytest.mark.parametrize("arguments, said", [
    (["{clip}"], "INPUT and OUTPUT"),
    (["{clip}", "out.mp4", "extra"], "INPUT and OUTPUT"),
    (["{clip}", "out.gif"], "ending"),
    (["{clip}", "out.npy", "--nonsense"], "nonsense"),
    (["{clip}", "out.npy", "--start=soon"], "--start=soon"),
    (["{clip}", "out.npy", "--bits=16"], "--bits=16"),
    (["{clip}", "out.npy", "--quality=50"], "--quality"),
    (["{clip}", "out.mp4", "--lossless"], "--lossless is for mkv and mov"),
    (["{clip}", "out.webm", "--lossless"], "--lossless is for mkv and mov"),
    (["{clip}", "out.npy", "--resume"], "--resume"),
    (["{clip}", "out.mp4", "--alpha=copy"], "--alpha=copy"),
    (["{clip}", "out.npy", "--window-size=0"], "1 to 1024"),
    (["{clip}", "out.npy", "--tail-mode=longer"], "anchored, repeat"),
    (["{clip}", "out.npy", "--step-size=20"], "step-size"),
    (["{clip}", "out.npy", "--start=99"], "no frame lies in the range"),
    (["{clip}", "out.npy", "--start=99", "--count"], "no frame lies in the range"),
    (["{clip}", "out.npy", "--count", "--bits=16"], "--bits=16"),
    (["{clip}", "out.npy", "--trim=3"], "--trim=3"),
    (["{clip}", "out.npy", "--trim=-1,0"], "--trim=-1,0"),
    (["{clip}", "out.npy", "--trim=0,3"], "--trim at the end needs --frames"),
    (["{clip}", "out.npy", "--trim=0,3", "--frames=1s"], "as a number of frames"),
    (["{clip}", "out.npy", "--trim=5,5", "--frames=10"], "leaves nothing of --frames=10"),
    (["{clip}", "%d.png", "--trim=5,0", "--resume"], "exclude each other"),
    (["{clip}", "out.npy", "--trim=5,0", "--preview=p.png"], "--preview shows whole clips"),
    (["{clip}", "out.png"], "normals-%05d.png"),
    (["{clip}", "out.npy", "--light=1,2", "--preview=p.png"], "--light=1,2"),
    (["{clip}", "out.npz", "--light=1,2", "--preview=lit.mp4"], "--light=1,2"),
])
def test_a_wrong_command_line_is_told_and_leaves_nothing(convert, clip, tmp_path, arguments, said):
    assert said in convert(*(a.format(clip=clip) for a in arguments), status=USAGE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.npy", "out.npz", "out.mp4"])
def test_a_plugin_that_is_missing_leaves_no_file(convert, clip, tmp_path, name):
    (tmp_path / "plugins").mkdir()
    environment = {"GST_PLUGIN_SYSTEM_PATH": str(tmp_path / "plugins"), "GST_REGISTRY": str(tmp_path / "registry")}
    for preview in ([], ["--preview=lit.mp4"]):
        assert "is missing" in convert(clip, name, *preview, status=MODEL, env=os.environ | environment)
        assert {path.name for path in tmp_path.iterdir()} == {"plugins", "registry"}


def test_sound_that_cannot_be_decoded_names_the_plugin(convert, clip, tmp_path):
    ffmpeg("-i", clip, "-c:v", "copy", "-c:a", "libvorbis", "in.mkv")
    environment = {"GST_PLUGIN_FEATURE_RANK": "vorbisdec:NONE,avdec_vorbis:NONE"}
    assert "lacks a plugin" in convert("in.mkv", "out.mp4", status=MODEL, env=os.environ | environment)
    assert {path.name for path in tmp_path.iterdir()} == {"in.mkv"}


def test_a_range_behind_the_pictures_is_told(convert, pictures, tmp_path):
    for start in ("12", "0.48s"):
        for name in ("out.npy", "n-%d.png"):
            errors = convert(pictures, name, "--fps=25", f"--start={start}", status=USAGE)
            assert "no frame lies in the range; the input ends at 0.5 s" in errors
    assert len(list(tmp_path.iterdir())) == 12


def test_a_models_name_may_be_of_any_encoding(convert, clip, model, tmp_path):
    folder = os.fsencode(tmp_path) + b"/mod\xe8le"
    shutil.copytree(os.fsencode(model), folder)
    command = [*map(os.fsencode, convert.command(clip, "out.npy")), b"--model=" + folder]
    for locale in ("C", "C.UTF-8"):
        subprocess.run([*command, b"--overwrite"], env=os.environ | {"LC_ALL": locale}, check=True)


def test_pictures_without_a_rate_are_refused(convert, pictures):
    assert "--fps" in convert(pictures, "out.mp4", status=USAGE)


def test_inputs_that_are_none_are_told_apart(convert, clip, tmp_path):
    assert "nothing.mp4: no such file" in convert("nothing.mp4", "out.npy", status=MISSING)
    assert "%03d.png" in convert("%03d.png", "out.npy", "--fps=25", status=MISSING)
    (tmp_path / "empty").mkdir()
    assert "without pictures" in convert("empty", "out.npy", "--fps=25", status=MISSING)
    (tmp_path / "text.mp4").write_text("no video at all")
    assert "text.mp4" in convert("text.mp4", "out.npy", status=NOT_VIDEO)
    (tmp_path / "void.mp4").touch()
    assert "void.mp4" in convert("void.mp4", "out.npy", status=NOT_VIDEO)
    ffmpeg("-i", clip, "-vn", "-c", "copy", "sound.mp4")
    assert "no video stream" in convert("sound.mp4", "out.npy", status=NOT_VIDEO)
    assert not list(tmp_path.glob("out*"))


def test_a_picture_that_cannot_be_looked_at_is_none(convert, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.png").symlink_to("x.png")
    assert "without pictures" in convert("folder", "out.npy", "--fps=25", status=MISSING)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_input_that_may_not_be_read_is_told(convert, clip, tmp_path):
    shutil.copy(clip, tmp_path / "secret.mp4")
    (tmp_path / "secret.mp4").chmod(0)
    assert "may not be read" in convert("secret.mp4", "out.npy", status=MISSING)


def test_a_gap_in_a_sequence_is_named(convert, pictures, tmp_path):
    (tmp_path / "in-1005.png").unlink()
    assert "in-1005.png is missing" in convert(pictures, "out.npy", "--fps=25", status=MISSING)


def test_a_damaged_picture_ends_the_sequence_and_what_was_before_is_kept(convert, pictures, tmp_path):
    convert(pictures, "whole.npy", "--fps=25", "--frames=8")
    (tmp_path / "in-1009.png").write_text("no picture")
    errors = convert(pictures, "out.npy", "--fps=25", status=DAMAGED)
    assert "in-1009.png" in errors and "out.partial.npy" in errors
    np.testing.assert_array_equal(np.load("out.partial.npy"), np.load("whole.npy"))


@pytest.mark.parametrize("ending, output", [("mp4", "out.mp4"), ("mkv", "out.mkv"), ("mp4", "out.npy")])
def test_a_video_that_breaks_off_is_told_and_what_was_read_is_kept(convert, clip, tmp_path, ending, output):
    ffmpeg("-i", clip, "-c:v", "libx264", "-crf", 1, "-g", 5, "-c:a", "copy", "-movflags", "+faststart", f"whole.{ending}")
    data = (tmp_path / f"whole.{ending}").read_bytes()
    (tmp_path / f"half.{ending}").write_bytes(data[:len(data) // 2])
    errors = convert(f"half.{ending}", output, status=DAMAGED)
    partial = output.replace(".", ".partial.")
    assert f"half.{ending}" in errors and partial in errors
    assert not (tmp_path / output).exists()
    frames = len(np.load(partial)) if output.endswith("npy") else len(decoded(partial))
    assert 5 <= frames < 25


@pytest.mark.parametrize("audio", ["0.7", "2.5"])
def test_sound_of_another_length_than_the_pictures_is_no_damage(convert, clip, audio):
    ffmpeg("-i", clip, "-f", "lavfi", "-i", f"sine=duration={audio}", "-map", "0:v", "-map", "1:a", "-c:v", "copy",
           "-c:a", "aac", "in.mp4")
    convert("in.mp4", "out.npy")
    convert("in.mp4", "out.mp4")
    assert len(np.load("out.npy")) == 30


def with_subtitle(clip, name, begin, end):
    """The clip with a subtitle between two whole seconds."""
    pathlib.Path("text.srt").write_text(f"1\n00:00:0{begin},000 --> 00:00:0{end},000\nwords\n")
    ffmpeg("-i", clip, "-i", "text.srt", "-map", "0", "-map", "1", "-c", "copy", "-c:s", "srt", name)


def test_subtitles_that_outlast_the_pictures_are_no_damage(convert, clip):
    with_subtitle(clip, "in.mkv", 1, 3)
    assert float(probed("in.mkv", "format=duration")[0][0]) > 2.5
    convert("in.mkv", "out.npy")
    convert("in.mkv", "out.mkv", "--start=0.4s", "--frames=5")
    assert len(np.load("out.npy")) == 30 and len(decoded("out.mkv")) == 5


def test_a_second_video_that_outlasts_the_first_is_no_damage(convert, clip):
    ffmpeg("-i", clip, "-stream_loop", 2, "-i", clip, "-map", "0:v", "-map", "1:v", "-c", "copy", "in.mkv")
    convert("in.mkv", "out.npy")
    assert len(np.load("out.npy")) == 30


def test_a_video_with_subtitles_that_breaks_off_is_told(convert, clip, tmp_path):
    ffmpeg("-stream_loop", 3, "-i", clip, "-c:v", "libx264", "-crf", 1, "-g", 5, "-c:a", "copy", "long.mkv")
    with_subtitle("long.mkv", "whole.mkv", 4, 6)
    data = (tmp_path / "whole.mkv").read_bytes()
    (tmp_path / "half.mkv").write_bytes(data[:len(data) // 2])
    assert "half.mkv" in convert("half.mkv", "out.npy", status=DAMAGED)


@pytest.mark.parametrize("name", ["out.mp4", "out.npy", "out-%03d.png"])
def test_output_that_is_there_is_kept(convert, clip, tmp_path, name):
    file = tmp_path / (name % 4 if "%" in name else name)
    file.write_text("precious")
    assert "--overwrite" in convert(clip, name, status=OUTPUT)
    assert file.read_text() == "precious"
    convert(clip, name, "--overwrite", "--frames=5")
    assert file.read_bytes() != b"precious"


def test_a_partial_file_of_an_earlier_run_is_kept(convert, clip, tmp_path):
    (tmp_path / "out.partial.npy").write_text("precious")
    assert "out.partial.npy" in convert(clip, "out.npy", status=OUTPUT)
    assert (tmp_path / "out.partial.npy").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_told(convert, clip):
    assert "no/such" in convert(clip, "no/such/out.npy", status=OUTPUT)


def test_a_model_that_is_not_there_is_told(convert, clip):
    done = subprocess.run([convert.program, clip, "out.npy", "--model=/no/model", *SETTINGS], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == MODEL and "/no/model" in done.stderr
    assert not list(pathlib.Path().glob("out*"))


def test_a_device_that_is_not_there_is_told(convert, clip):
    done = subprocess.run([*convert.command(clip, "out.npy"), "--device=cuda:77"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == MODEL and "cuda:77" in done.stderr


@pytest.mark.parametrize("name", ["out.mkv", "out.npy", "out.npz", "%03d.png", "%03d.exr"])
def test_a_full_disk_is_told(convert, clip, tmp_path, name):
    (tmp_path / "disk").mkdir()
    command = " ".join(f"'{part}'" for part in convert.command(clip, f"disk/{name}"))
    script = f"mount -t tmpfs -o size=96k tmpfs disk || exit 99; {command}; status=$?; echo == left >&2; ls disk >&2; exit $status"
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True,
                          timeout=120)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("no small disk can be made here")
    assert done.returncode == DISK_FULL, done.stderr
    assert "No space left" in done.stderr
    left = done.stderr.split("== left")[1].split()
    if "%" in name:
        assert left and not any("partial" in file for file in left)
    else:
        assert left == [name.replace(".", ".partial.")]
        assert left[0] in done.stderr.split("== left")[0]


def test_a_full_disk_is_told_of_a_preview_too(convert, clip, tmp_path):
    ffmpeg("-stream_loop", 2, "-i", clip, "-c", "copy", "long.mp4")
    (tmp_path / "lit.partial.mp4").symlink_to("/dev/full")
    errors = convert("long.mp4", "out.npy", "--preview=lit.mp4", "--overwrite", status=DISK_FULL)
    assert "lit.mp4" in errors and "out.partial.npy" in errors
    assert len(np.load("out.partial.npy")) > 0


def test_ctrl_c_finishes_the_file(convert, clip, tmp_path):
    ffmpeg("-stream_loop", 40, "-i", clip, "-c", "copy", "long.mp4")
    process = convert.start("long.mp4", "out.mp4")
    partial = tmp_path / "out.partial.mp4"
    wait_for(lambda: partial.exists() and partial.stat().st_size > 20000)
    status, errors = interrupt(process)
    assert status == 130, errors
    assert "out.mp4" in errors and not partial.exists()
    frames = len(decoded("out.mp4"))
    assert 10 < frames < 1200
    assert abs(float(probed("out.mp4", "stream=duration", "a:0")[0][0]) - frames / 25) < 0.1


def test_a_second_ctrl_c_stops_at_once_and_names_what_is_left(convert, clip):
    ffmpeg("-stream_loop", 40, "-i", clip, "-c", "copy", "long.mp4")
    process = convert.start("long.mp4", "out.npy")
    wait_for(lambda: pathlib.Path("out.partial.npy").exists() and pathlib.Path("out.partial.npy").stat().st_size > 128)
    status, errors = interrupt(process, (signal.SIGINT, signal.SIGINT))
    assert status == 130
    assert "out.partial.npy" in errors
    assert np.load("out.partial.npy").shape[1:] == (48, 64, 3)


def test_termination_before_the_first_frame_leaves_nothing(convert, clip, tmp_path):
    process = convert.start(clip, "out.npy")
    status, errors = interrupt(process, (signal.SIGTERM,))
    assert status in (143, -signal.SIGTERM), errors
    assert not list(tmp_path.glob("out*"))


def test_json_progress_is_one_object_a_line(convert, clip):
    done = subprocess.run(convert.command(clip, "out.npy", "--progress=json"), capture_output=True, text=True, timeout=60)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert events[-1] == {"event": "done", "status": 0, "output": "out.npy", "frames": 30, "beginning": 0.0,
                          "seconds": events[-1]["seconds"]}
    assert events[-2]["event"] == "progress" and events[-2]["frames"] == events[-2]["total"] == 30
    done = subprocess.run(convert.command("none.mp4", "x.npy", "--progress=json"), capture_output=True, text=True)
    assert json.loads(done.stdout)["event"] == "error" and json.loads(done.stdout)["status"] == MISSING


def test_quiet_says_nothing_but_errors(convert, clip):
    assert convert(clip, "out.npy", "--quiet") == ""
    assert "is there already" in convert(clip, "out.npy", "--quiet", status=OUTPUT)


def test_every_property_of_the_element_is_an_option(convert):
    shown = subprocess.run([convert.program, "--help-element"], capture_output=True, text=True, check=True).stdout
    inspected = subprocess.run(["gst-inspect-1.0", "normalcrafter"], capture_output=True, text=True, check=True).stdout
    properties = inspected.split("Element Properties:")[1].split("\n\nElement")[0]
    names = [line.split(":")[0].strip() for line in properties.splitlines() if line[2:3].isalpha()]
    own = set(names) - {"name", "parent", "qos", "stats"}
    assert len(own) > 20
    assert own == {line.split("--")[1].split("=")[0] for line in shown.splitlines() if line.startswith("  --") and
                   "--help" not in line}


def test_the_version_is_told(convert):
    done = subprocess.run([convert.program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("normalcrafter-convert ") and "GStreamer 1." in done.stdout


def test_axes_of_a_random_model_are_undetermined(convert):
    done = subprocess.run(convert.command("--check-axes"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 10, done.stderr
    assert done.stdout.startswith("x: ") and "is the model trained" in done.stdout
