"""What the measuring scripts share: whole processes in turn, their time and memory, bars, and how they report.

Imports nothing large: a process that is started by a large one counts that one's memory as its own peak.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
WAIT_POLICY = "passive"  # of OpenMP's threads: what the GStreamer plugin sets
DEMO_MODEL = ROOT / "models" / "demo"
SMALL_MODEL = "four-level"  # of models.py: the released depth with every width at its least


@dataclasses.dataclass
class Run:
    """One process from start to end."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


@dataclasses.dataclass
class Bar:
    """What a figure has to reach, or to stay below."""

    name: str
    value: float | None  # None: not measured in this run
    limit: float
    at_least: bool = False

    @property
    def passed(self):
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self):
        wanted = f"{'at least' if self.at_least else 'at most'} {self.limit:g}"
        if self.value is None:
            return f"{'not run':8s}{self.name}: {wanted}"
        return f"{'pass' if self.passed else 'FAIL':8s}{self.name}: {self.value:.3f}, {wanted}"


def run(command, environment):
    command = [str(c) for c in command]
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}\nfailed with status {process.returncode}:\n{output}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output)


def environment(build):
    """For the engine, the reference and GStreamer with the built element."""
    return {**os.environ, "OMP_WAIT_POLICY": WAIT_POLICY, "GST_PLUGIN_PATH": str(build / "gst"),
            "GST_REGISTRY": str(build / "gst-registry.bin")}


def launch(*pipeline):
    """A command that plays the pipeline, given in pieces with "!" between elements."""
    return ["gst-launch-1.0", "-q", *pipeline]


def element(model, options):
    return ["normalcrafter", f"model={model}", f"dtype={options.dtype}", "device=cpu", f"threads={options.threads}"]


def require_element(environment):
    """Scans the plugins, so that no measured process does, and ends with GStreamer's message if the element fails."""
    run(["gst-inspect-1.0", "normalcrafter"], environment)


def model_directory(model, folder):
    """`model` if it is a directory, else the model of that name from models.py, made in `folder`."""
    if pathlib.Path(model).is_dir():
        return pathlib.Path(model).resolve()
    made = folder / "model"
    done = subprocess.run([sys.executable, REFERENCE / "models.py", model, made], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"--model {model} is no directory, and models.py does not make it:\n{done.stderr}")
    return made


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def parser(description, width, height, has_bars=True):
    """With the options that all scripts have."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build directory (build/)")
    result.add_argument("--width", type=positive, default=width, help=f"of the pictures ({width})")
    result.add_argument("--height", type=positive, default=height, help=f"of the pictures ({height})")
    result.add_argument("--threads", type=positive, default=2, help="threads of the networks (2)")
    if has_bars:
        result.add_argument("--bars", action="store_true", help="judge the result; the exit status tells too")
    result.add_argument("--json", type=pathlib.Path, help="file for the results")
    return result


def add_model(parser, default=SMALL_MODEL):
    parser.add_argument("--model", default=default, help=f"a directory, or a name of models.py ({default})")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")


def parse(parser):
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.json:
        try:
            options.json.touch()
        except OSError as error:
            parser.error(f"--json: cannot write {options.json}: {error.strerror}")
    return options


def processor():
    try:
        return re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1]
    except (OSError, TypeError):
        return platform.processor()


def processor_flags():
    """x86's flags or Arm's features."""
    try:
        found = re.search(r"^(?:flags|Features)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(found[1].split()) if found else set()


def print_machine(options):
    print(f"{processor()}, {options.threads} threads, OpenMP wait policy {WAIT_POLICY}")


def write_json(options, **values):
    """Called after each result, so that a run that is stopped leaves what it has."""
    if options.json:
        head = {"processor": processor(), "threads": options.threads, "wait_policy": WAIT_POLICY,
                "width": options.width, "height": options.height}
        options.json.write_text(json.dumps({**head, **values}, indent=1) + "\n")


def judge(bars):
    """Prints the bars; the exit status."""
    print()
    for bar in bars:
        print(bar)
    return 1 if any(bar.passed is False for bar in bars) else 0


def as_json(bars):
    return [{**dataclasses.asdict(bar), "passed": bar.passed} for bar in bars]
