"""The built converter on a tiny random model, in a folder of its own for each test.

Run by Meson (`meson test convert`), which says where the program is.
"""

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

# The tiny model sees 64 pixels; all tests run in seconds.
SETTINGS = ("--device=cpu", "--dtype=float32", "--threads=1", "--max-resolution=64", "--offload-mode=resident")
WIDTH, HEIGHT, RATE = 64, 48, 25


def pytest_addoption(parser):
    parser.addoption("--converter", required=True, help="normalcrafter-convert")


@dataclasses.dataclass
class Converter:
    program: str
    model: str

    def command(self, *arguments):
        return [self.program, *map(str, arguments), f"--model={self.model}", *SETTINGS]

    def __call__(self, *arguments, status=0, **options):
        """Runs to the end; the standard error."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=120, **options)
        assert done.returncode == status, done.stderr
        return done.stderr

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), stderr=subprocess.PIPE, text=True)

    def element(self):
        """The element as a launch line has it, with the same settings."""
        return " ".join(["normalcrafter", f"model={self.model}", *(s.removeprefix("--") for s in SETTINGS)])


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    subprocess.run([os.environ["NORMALCRAFTER_WRITE_MODEL"], directory, "32"], check=True)
    return directory


@pytest.fixture
def convert(request, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Meson names it from the build folder; the tests run in folders of their own.
    program = request.config.invocation_params.dir / request.config.getoption("--converter")
    return Converter(str(program), str(model))


def ffmpeg(*arguments):
    subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *map(str, arguments)], check=True)


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """A folder with clip.mp4: 30 frames of H.264 and 1.2 s of AAC."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed")
    folder = tmp_path_factory.mktemp("clips")
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}:duration=1.2", "-f", "lavfi", "-i",
           "sine=frequency=440:sample_rate=48000:duration=1.2", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "10",
           "-c:a", "aac", "-movflags", "+faststart", folder / "clip.mp4")
    return folder


@pytest.fixture
def clip(clips):
    return clips / "clip.mp4"


@pytest.fixture
def pictures(clip, tmp_path):
    """in-1001.png ... in-1012.png."""
    ffmpeg("-i", clip, "-frames:v", 12, "-start_number", 1001, tmp_path / "in-%04d.png")
    return tmp_path / "in-%04d.png"


def raw_output(convert, clip, caps, shape, dtype):
    """What the element itself gives for a clip, by a launch line."""
    file = pathlib.Path("raw")
    subprocess.run(["gst-launch-1.0", "-q", *(f"filesrc location={clip} ! decodebin ! videoconvert ! "
                    f"video/x-raw,format=RGB ! {convert.element()} ! {caps} ! filesink location={file}").split()],
                   check=True, timeout=120)
    return np.fromfile(file, dtype).reshape(-1, HEIGHT, WIDTH, *shape)


def decoded(file, pixels="rgb24", dtype=np.uint8, channels=3, size=(HEIGHT, WIDTH)):
    """A file's pictures by ffmpeg: [frames, height, width, channels]."""
    done = subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-i", str(file), "-fps_mode", "passthrough",
                           "-f", "rawvideo", "-pix_fmt", pixels, "-"], capture_output=True, check=True)
    return np.frombuffer(done.stdout, dtype).reshape(-1, *size, channels)


def probed(file, entries, stream="v:0", *options):
    """ffprobe's values, one list a line."""
    done = subprocess.run(["ffprobe", "-v", "error", "-select_streams", stream, *options, "-show_entries", entries,
                           "-of", "csv=p=0", str(file)], capture_output=True, text=True, check=True)
    return [line.strip(",").split(",") for line in done.stdout.split()]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def interrupt(process, signals=(signal.SIGINT,)):
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors
