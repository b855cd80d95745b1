"""The driver in examples/cluster on a Ray of this machine, with the built converter and a tiny random model.

Run by Meson (`meson test cluster`), which says where the programs are.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = ROOT / "examples" / "cluster" / "cluster.py"
sys.path.insert(0, str(DRIVER.parent))

WIDTH, HEIGHT, RATE, FRAMES = 64, 48, 25, 90
SETTINGS = ("--device=cpu", "--dtype=float32", "--threads=1", "--max-resolution=64", "--offload-mode=resident")
# Windows without an overlap start from nothing, so that pieces are equal bit for bit. The clip's last one is moved back.
APART = ("--step-size=14", "--vae-decode-chunk-size=7")


def pytest_addoption(parser):
    parser.addoption("--converter", help="normalcrafter-convert")


def ffmpeg(*arguments):
    subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *map(str, arguments)], check=True)


@pytest.fixture(scope="session")
def converter(request):
    program = request.config.getoption("--converter")
    if program is None or "NORMALCRAFTER_WRITE_MODEL" not in os.environ:
        pytest.skip("needs the built converter: meson test cluster")
    # Meson names it from the build folder; the tests run in folders of their own.
    return str(request.config.invocation_params.dir / program)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """With the released scheduler, whose windows start from each other as those of the released weights do."""
    directory = tmp_path_factory.mktemp("model")
    subprocess.run([os.environ["NORMALCRAFTER_WRITE_MODEL"], directory, "32"], check=True)
    file = directory / "scheduler" / "scheduler_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sigma_max": 700.0}))
    return directory


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """90 frames of H.264 and their sound."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed")
    file = tmp_path_factory.mktemp("clips") / "clip.mp4"
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}:duration={FRAMES / RATE}", "-f", "lavfi",
           "-i", f"sine=frequency=440:sample_rate=48000:duration={FRAMES / RATE}", "-pix_fmt", "yuv420p", "-c:v",
           "libx264", "-g", "10", "-c:a", "aac", file)
    return file


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The address of a Ray for three pieces at a time."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@dataclasses.dataclass
class Driver:
    converter: str
    model: str
    address: str

    def settings(self, *more):
        return [f"--model={self.model}", *SETTINGS, *more]

    def command(self, *arguments, settings=()):
        return [sys.executable, str(DRIVER), *map(str, arguments), "--address", self.address, "--converter",
                self.converter, "--report", "report.json", "--", *self.settings(*settings)]

    def __call__(self, *arguments, status=0, settings=()):
        """Runs to the end; (what it said, its report)."""
        done = subprocess.run(self.command(*arguments, settings=settings), capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stderr
        return done.stderr, read_report()

    def start(self, *arguments, settings=()):
        return subprocess.Popen(self.command(*arguments, settings=settings), stderr=subprocess.PIPE, text=True)

    def whole(self, *arguments, settings=()):
        """The converter alone, which is what the cluster's output has to be."""
        subprocess.run([self.converter, *map(str, arguments), "--quiet", *self.settings(*settings)], check=True,
                       timeout=120)


def read_report():
    return json.loads(pathlib.Path("report.json").read_text())


@pytest.fixture
def drive(converter, model, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Driver(converter, str(model), cluster)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return result


def decoded(file):
    """A file's pictures by ffmpeg: [frames, height, width, 3]."""
    done = subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-i", str(file), "-fps_mode", "passthrough", "-f",
                           "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, HEIGHT, WIDTH, 3)


def probed(file, entries, stream="v:0", *options):
    """ffprobe's values, one list a line."""
    done = subprocess.run(["ffprobe", "-v", "error", "-select_streams", stream, *options, "-show_entries", entries,
                           "-of", "csv=p=0", str(file)], capture_output=True, text=True, check=True)
    return [line.strip(",").split(",") for line in done.stdout.split()]
