"""One run of normalcrafter-convert on the machine where this is called. Knows nothing of Ray."""

import dataclasses
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid

# Exit statuses of the converter that would be the same anywhere, any time: the command line, an input without pictures,
# a damaged input. docs/convert.md lists all.
FINAL_STATUSES = (2, 4, 5)
# Containers round times, Matroska to a millisecond; the converter's --start forgives as much.
ROUNDING = 0.0005
# Variables that name libraries, whose sums may round otherwise. The model's is looked at apart.
DECISIVE = ("NORMALCRAFTER_ENGINE", "NORMALCRAFTER_LIBTORCH")


def printable(text):
    """A file's name need not be UTF-8. Python then has surrogates in it, which neither Ray nor a terminal takes."""
    return text.encode(errors="backslashreplace").decode()


class ConversionError(Exception):
    """Why a run of the converter failed; `status` is its exit status, or None where it was killed or never ran."""

    def __init__(self, message, status=None, host=""):
        self.message, self.status, self.host = printable(message), status, host
        super().__init__(self.message, status, host)

    @property
    def is_final(self):
        return self.status in FINAL_STATUSES


@dataclasses.dataclass(frozen=True)
class Converter:
    """How the program is called."""

    program: str
    options: tuple  # the user's
    directory: str  # what relative names in them start from
    environment: dict  # added to the machine's own
    timeout: float | None = None  # seconds

    def settings(self):
        """What the normals depend on besides the input, as far as it has a name. The variables are this machine's,
        which all others get."""
        models = {"model": self._model("model", self.environment.get("NORMALCRAFTER_MODEL")) or "the demo model",
                  "base model": self._model("base-model")}
        return {**models, **{name: self.environment.get(name) for name in DECISIVE}, "options": list(self.options)}

    def _model(self, option, default=None):
        """The folder that is named last; the element takes an empty name for none."""
        name, options = default, iter(self.options)
        for given in options:
            if given.startswith(f"--{option}="):
                name = given.split("=", 1)[1]
            elif given == f"--{option}":
                name = next(options, None)
        return os.path.realpath(os.path.join(self.directory, name)) if name else None


@dataclasses.dataclass(frozen=True)
class PieceJob:
    """A piece to be converted into a folder of its own, which gets its name when it is whole."""

    source: str
    folder: str
    file: str  # the name within it
    frames: int
    start: int  # the first frame that is read
    reads: int | None  # frames from there; None: to the clip's end
    trim: tuple | None  # of these, dropped at either end; None: an ordinary conversion
    start_time: float | None = None  # of the frame `start`, where seeking there is exact
    written_time: float | None = None  # of the first frame that is written
    number: int | None = None  # of a sequence's first file


def run_converter(converter, arguments, on_frames=lambda frames: None):
    """Runs to the end; the last event that it printed. A ConversionError if it failed."""
    program = shutil.which(converter.program)
    if program is None:
        raise ConversionError(f"{converter.program}: no such program on this machine; --converter names "
                              "normalcrafter-convert", host=socket.gethostname())
    command = [*_end_with_parent(), program, *arguments, *converter.options]
    directory = converter.directory if os.path.isdir(converter.directory) else None
    with tempfile.TemporaryFile("w+", errors="backslashreplace") as errors:
        process = subprocess.Popen(command, cwd=directory, env={**os.environ, **converter.environment}, text=True,
                                   errors="backslashreplace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors)
        return _follow(process, errors, converter.timeout, on_frames)


def _end_with_parent():
    """A worker that is killed cannot end its child; the kernel can."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def _follow(process, errors, timeout, on_frames):
    timed_out = threading.Event()

    def stop():
        timed_out.set()
        process.kill()

    timer = threading.Timer(timeout, stop) if timeout else None
    if timer:
        timer.start()
    last = {}
    try:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            last = json.loads(line)
            if last.get("event") == "progress":
                on_frames(last["frames"])
        status = process.wait()
    finally:
        if timer:
            timer.cancel()
        process.kill()  # where this was interrupted
        process.wait()
    if status == 0:
        return last
    host = socket.gethostname()
    if timed_out.is_set():
        raise ConversionError(f"took longer than {timeout:g} s", host=host)
    if status < 0:
        raise ConversionError(f"the converter was ended by signal {-status}", host=host)
    raise ConversionError(last.get("message") or _last_line(errors) or "no message", status, host)


def _last_line(errors):
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return lines[-1].removeprefix("normalcrafter-convert: ") if lines else ""


def count(converter, source, output):
    """What `--count` prints of a clip; `output` decides which options are allowed. The time limit is for pieces."""
    counted = run_converter(dataclasses.replace(converter, timeout=None), [source, output, "--count"])
    if counted.get("event") != "count":
        raise ConversionError(f"{converter.program} printed no count of {source}; is it of the same version as this?",
                              status=2, host=socket.gethostname())
    return counted


def convert_piece(converter, job, on_frames=lambda frames: None):
    """What the piece's done.json says. A piece that is there already, or that another run brings to its end first, is
    left as it is."""
    final = pathlib.Path(job.folder)
    if done := finished(final):
        return done
    staging = final.with_name(f"{final.name}.{uuid.uuid4().hex[:8]}.partial")
    staging.mkdir(parents=True)
    try:
        done = _convert_exactly(converter, job, staging, on_frames)
        (staging / "done.json").write_text(json.dumps(done))
        try:
            staging.rename(final)
        except OSError:
            if not finished(final):
                raise
        return done
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def finished(folder):
    """A finished piece's done.json, or None."""
    try:
        return json.loads((pathlib.Path(folder) / "done.json").read_text())
    except (OSError, ValueError):
        return None


def _convert_exactly(converter, job, staging, on_frames):
    """By seeking, and by counting from the clip's first frame if that came to another frame."""
    if job.start_time is not None:
        done = _convert(converter, job, staging, f"{job.start_time:.9f}s", on_frames)
        beginning = done.get("beginning")
        if done["frames"] == job.frames and beginning is not None and abs(beginning - job.written_time) <= ROUNDING:
            return done
        for file in staging.iterdir():
            file.unlink()
    done = _convert(converter, job, staging, str(job.start), on_frames)
    if done["frames"] != job.frames:
        raise ConversionError(f"has {done['frames']} frames instead of the {job.frames} that were counted; did the "
                              "input change?", status=5, host=socket.gethostname())
    return done


def _convert(converter, job, staging, start, on_frames):
    arguments = [job.source, str(staging / job.file)]
    options = ["--progress=json"]
    if job.trim is not None:
        options += [f"--start={start}", f"--trim={job.trim[0]},{job.trim[1]}"]
    if job.reads is not None:
        options.append(f"--frames={job.reads}")
    if job.number is not None:
        options.append(f"--number={job.number}")
    # Of an option that is given twice the last one counts: these are not the user's to change.
    whole = dataclasses.replace(converter, options=(*converter.options, *options))
    done = run_converter(whole, arguments, on_frames)
    if done.get("event") != "done":
        raise ConversionError("the converter ended without saying that it was done", host=socket.gethostname())
    return {"frames": done["frames"], "seconds": done["seconds"], "beginning": done.get("beginning"),
            "host": socket.gethostname()}
