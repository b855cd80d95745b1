"""Pieces become the output: pictures get their places, arrays and videos are joined without computing anything anew."""

import ast
import contextlib
import dataclasses
import errno
import os
import pathlib
import re
import shutil
import subprocess
import zipfile
import zlib

SEQUENCES = (".png", ".exr")
ARRAYS = (".npy", ".npz")
# Container: the audio codec for sound that it does not take as it is, as the converter does it.
VIDEOS = {".mp4": "aac", ".m4v": "aac", ".mov": "aac", ".mkv": "flac", ".webm": "libopus"}


# What reading an array that is damaged ends with.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, SyntaxError, TypeError, ValueError)


class AssemblyError(Exception):
    """What could not be put together, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece's file or folder, and how long it lasts in the clip, where that is known."""

    folder: pathlib.Path
    file: str
    seconds: float | None = None

    @property
    def path(self):
        return self.folder / self.file


def ending(output):
    return pathlib.Path(output).suffix.lower()


def partial_name(output):
    """What a file is called until it is whole, as with the converter."""
    return output.with_name(f"{output.stem}.partial{output.suffix}")


def pictures_there(output):
    """The files of a numbered name that are there already."""
    parts = re.fullmatch(r"((?:[^%]|%%)*)(%0?\d*d)?((?:[^%]|%%)*)", output.name)
    if parts is None or parts[2] is None:
        return [output] if output.exists() else []
    before, _, after = (re.escape(part.replace("%%", "%")) for part in parts.groups())
    name = re.compile(rf"{before} *\d+{after}")
    return [file for file in output.parent.glob("*") if name.fullmatch(file.name)]


def place(source, target, keep=False):
    """Moves a file, or copies it, so that it appears whole."""
    if not keep:
        try:
            os.replace(source, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    shutil.copyfile(source, partial_name(target))
    os.replace(partial_name(target), target)
    if not keep:
        os.unlink(source)


def assemble(parts, output, source=None, sound_from=0.0, keep=False):
    """`source`: the clip whose sound a video gets, from `sound_from` seconds on; None: none is missing. `keep`: the parts
    stay where they are."""
    kind = ending(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    if kind in SEQUENCES:
        _place_pictures(parts, output.parent, kind, keep)
        return
    if len(parts) == 1:
        # An interrupted call may have moved it.
        if parts[0].path.exists() or not output.exists():
            place(parts[0].path, output, keep)
        return
    partial = partial_name(output)
    if kind == ".npy":
        _join_npy(parts, partial)
    elif kind == ".npz":
        _join_npz(parts, partial)
    else:
        _join_video(parts, partial, VIDEOS[kind], source, sound_from)
    os.replace(partial, output)


def _place_pictures(parts, folder, kind, keep):
    """What an interrupted call has moved is in its place."""
    for part in parts:
        for picture in sorted(part.folder.iterdir()):
            if picture.suffix.lower() == kind:
                place(picture, folder / picture.name, keep)


# --- arrays ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reading(file):
    """The damage of a piece's file in words; a piece counts as finished until its folder is gone."""
    try:
        yield
    except DAMAGE as error:
        raise AssemblyError(f"{file} is damaged ({type(error).__name__}: {error}); remove {file.parent}, and the same "
                            "command makes this piece again") from error


def _read_header(file):
    """(descr, shape, bytes of the header) of a .npy stream, which is then at its data."""
    head = file.read(10)
    if head[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError("no array of the converter's")
    size = int.from_bytes(head[8:10], "little")
    fields = ast.literal_eval(file.read(size).decode("latin1"))
    return fields["descr"], fields["shape"], 10 + size


def _header(descr, shape, size):
    sides = ", ".join(str(side) for side in shape) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}"
    return b"\x93NUMPY\x01\x00" + (size - 10).to_bytes(2, "little") + text.ljust(size - 11).encode("latin1") + b"\n"


def _join_streams(opened, target):
    """`opened`: for each file, a function that opens its .npy stream; they are read twice, so that one is open at a
    time."""
    headers = []
    for file, open_one in opened.items():
        with _reading(file), open_one() as stream:
            headers.append(_read_header(stream))
    if len({(descr, shape[1:]) for descr, shape, _ in headers}) > 1:
        raise AssemblyError("the pieces' arrays differ in size or type")
    descr, shape, size = headers[0]
    target.write(_header(descr, (sum(shape[0] for _, shape, _ in headers), *shape[1:]), size))
    for file, open_one in opened.items():
        with _reading(file), open_one() as stream:
            _read_header(stream)
            shutil.copyfileobj(stream, target, 1 << 20)


def _join_npy(parts, target):
    with open(target, "wb") as file:
        _join_streams({part.path: lambda path=part.path: open(path, "rb") for part in parts}, file)


def _join_npz(parts, target):
    with contextlib.ExitStack() as stack:
        archives = {part.path: stack.enter_context(_open_archive(part.path)) for part in parts}
        joined = stack.enter_context(zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=True))
        for name in archives[parts[0].path].namelist():
            with joined.open(zipfile.ZipInfo(name), "w", force_zip64=True) as file:
                _join_streams({path: lambda archive=archive: archive.open(name) for path, archive in archives.items()},
                              file)


def _open_archive(path):
    with _reading(path):
        return zipfile.ZipFile(path)


# --- video ----------------------------------------------------------------------------------------


def _join_video(parts, target, audio_codec, source, sound_from):
    """Copied packet by packet. Sound is copied too where the container takes it."""
    listing = target.with_suffix(".txt")  # no longer than other names, which may be as long as the system takes
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "concat", "-safe", "0", "-i", str(listing)]
    if source is not None:
        seek = ["-ss", f"{sound_from:.6f}"] if sound_from > 0 else []
        # Sound that begins a little early, as AAC does to warm up, must not move the pictures.
        command += [*seek, "-i", source, "-map", "0:v:0", "-map", "1:a?", "-avoid_negative_ts", "disabled"]
    try:
        listing.write_bytes(os.fsencode(concat_script(parts)))  # the names' own bytes, be they UTF-8 or not
        failure = _failure_of([*command, "-c", "copy", str(target)])
        if failure and source is not None:
            failure = _failure_of([*command, "-c:v", "copy", "-c:a", audio_codec, str(target)])
    finally:
        listing.unlink(missing_ok=True)
    if failure:
        raise AssemblyError(f"ffmpeg could not join the pieces: {failure}")


def concat_script(parts):
    """For ffmpeg's concat demuxer. The durations keep roundings of one piece's times from adding up."""
    lines = ["ffconcat version 1.0"]
    for part in parts:
        quoted = str(part.path.resolve()).replace("'", r"'\''")
        lines.append(f"file '{quoted}'")
        if part.seconds is not None:
            lines.append(f"duration {part.seconds:.9f}")
    return "\n".join(lines) + "\n"


def _failure_of(command):
    done = subprocess.run(command, capture_output=True, text=True, errors="backslashreplace")
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else None
