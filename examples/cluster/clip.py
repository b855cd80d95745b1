"""A clip on its way: where its pieces lie, what each of them is asked for, and what came of it."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil

import assembly
import plan
from conversion import PieceJob

# A seek finds a frame if the one before it is so much earlier.
SEEKABLE = 0.002
# What the converter reads of a folder: is_picture() in ../convert/sequence.cc.
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".exr", ".bmp", ".tif", ".tiff", ".jp2", ".j2k", ".ppm", ".pgm", ".pnm",
            ".tga", ".gif")


class ClipError(Exception):
    """Why a clip cannot be converted, in words for the user."""


@dataclasses.dataclass
class Clip:
    source: str
    output: pathlib.Path
    work: pathlib.Path
    counted: dict | None = None
    pieces: list = dataclasses.field(default_factory=list)
    jobs: list = dataclasses.field(default_factory=list)
    left: int = 0  # pieces that are not finished
    reused: int = 0  # those of an earlier call
    attempts: dict = dataclasses.field(default_factory=dict)  # by number of a piece
    status: str = "waiting"  # then converting; done, kept or failed
    failures: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)

    @property
    def frames(self):
        return self.counted["frames"] if self.counted else 0

    @property
    def is_over(self):
        return self.status in ("done", "kept", "failed")

    def fail(self, message, **where):
        self.status = "failed"
        self.failures.append({**where, "message": message})

    def report(self):
        return {"input": self.source, "output": str(self.output), "status": self.status, "frames": self.frames,
                "pieces": len(self.jobs), "pieces_reused": self.reused,
                "retries": sum(self.attempts.values()) - len(self.attempts), "notes": self.notes,
                "failures": self.failures}


def work_folder(output, parent=None):
    """Beside the output unless `parent` is given; "%" would be read as a number's place."""
    return (parent or output.parent) / (output.name.replace("%", "") + ".pieces")


def check_output(clip, overwrite):
    """Before anything is done. A clip whose output is there is kept; one whose pieces are there too goes on, unless they
    were kept when the output was made of them."""
    if overwrite:
        return
    if (clip.work / "job.json").exists():
        made = identity(clip.output)
        is_whole = made is not None and made == _read(clip.work / "output.json")
    else:
        is_whole = assembly.ending(clip.output) not in assembly.SEQUENCES and clip.output.exists()
    if is_whole:
        clip.status = "kept"


def settle_pictures(clip, overwrite):
    """Pictures that are there are the clip's or in the way; its length says which."""
    if overwrite or (clip.work / "job.json").exists() or assembly.ending(clip.output) not in assembly.SEQUENCES:
        return
    there = len(assembly.pictures_there(clip.output))
    if there == clip.frames:
        clip.status = "kept"
    elif there:
        raise ClipError(f"{clip.output}: {there} such pictures are there already, which are not the clip's "
                        f"{clip.frames}; --overwrite replaces them")


def identity(source):
    """What changes when a file does, or one picture of a folder or a numbered sequence; nothing of URIs."""
    file = pathlib.Path(source)
    if "://" in str(source):
        return None
    if not file.exists():
        return _identity_of(assembly.pictures_there(file))
    if file.is_dir():
        return _identity_of(picture for picture in file.iterdir() if picture.suffix.lower() in PICTURES)
    return _state(file)


def _state(file):
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _identity_of(files):
    """Short, whatever their number."""
    states = sorted((file.name, *_state(file)) for file in files if file.is_file())
    return hashlib.sha256(json.dumps(states).encode()).hexdigest() if states else None


def _read(file):
    """A JSON file's content, or None where it is not there or not whole."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def _write(file, content):
    partial = file.with_suffix(".partial-json")
    partial.write_text(json.dumps(content))
    os.replace(partial, file)


def open_work(clip, converter, overwrite):
    """The folder for the pieces. Those of an earlier call go on if that call was for the same."""
    job = {"input": clip.source, "identity": identity(clip.source), **converter.settings(),
           "pieces": [dataclasses.asdict(piece) for piece in clip.pieces]}
    file = clip.work / "job.json"
    if overwrite and clip.work.exists():
        shutil.rmtree(clip.work)
    if file.exists() and (difference := _difference(_read(file) or {}, json.loads(json.dumps(job)))):
        raise ClipError(f"{clip.work} holds pieces of an earlier call, but {difference}; remove it, or let --overwrite do "
                        "so")
    clip.work.mkdir(parents=True, exist_ok=True)
    for left in clip.work.glob("*.partial"):
        shutil.rmtree(left, ignore_errors=True)
    _write(file, job)


def _difference(earlier, job):
    """The first part of a job that is another one than earlier, in words; None if all are the same."""
    for name, now in job.items():
        if name in earlier and earlier[name] == now:
            continue
        if name == "identity":
            return "the input has changed since"
        if name in ("options", "pieces"):
            return f"with other {name}"
        return f"with another {name}: now {now or 'none'}, then {earlier.get(name) or 'none'}"
    return None


def plan_pieces(clip, piece_frames, warm_up):
    """Cuts the clip. Where the element begins anew within it, windows do not lie as the plan has them."""
    windows = plan.Windows(clip.counted["window-size"], clip.counted["step-size"],
                           clip.counted["vae-decode-chunk-size"])
    if piece_frames and clip.counted["breaks"]:
        clip.notes.append(f"not cut: the size or the time jumps at frame {clip.counted['breaks'][0]}, where windows "
                          "begin anew")
        piece_frames = 0
    clip.pieces = plan.cut(clip.frames, windows, piece_frames, warm_up)
    clip.jobs = [_job(clip, number, piece) for number, piece in enumerate(clip.pieces)]


def _job(clip, number, piece):
    name = clip.output.name
    folder = str(clip.work / f"piece-{number:05d}")
    is_sequence = assembly.ending(clip.output) in assembly.SEQUENCES and "%" in name
    first_number = clip.counted["first_number"] + piece.begin if is_sequence else None
    if len(clip.pieces) == 1:
        return PieceJob(clip.source, folder, name, piece.frames, 0, None, None, number=first_number)
    times = clip.counted["times"]
    seek = _seek_time(times, piece.first) if not clip.counted["pictures"] else None
    return PieceJob(clip.source, folder, name, piece.frames, piece.first, None if piece.is_last else piece.reads,
                    (piece.before, piece.after), seek, times[piece.begin], first_number)


def _seek_time(times, frame):
    """None where only counting finds the frame."""
    if frame == 0 or times[frame] is None or times[frame - 1] is None:
        return None
    return times[frame] if times[frame] - times[frame - 1] >= SEEKABLE else None


def assemble(clip, keep_pieces):
    """The output out of finished pieces."""
    times = clip.counted["times"]
    ends = [times[piece.begin] for piece in clip.pieces[1:]] + [None]
    parts = []
    for job, piece, end in zip(clip.jobs, clip.pieces, ends):
        begin = times[piece.begin]
        seconds = end - begin if end is not None and begin is not None else None
        parts.append(assembly.Part(pathlib.Path(job.folder), job.file, seconds))
    has_sound = len(parts) > 1 and not clip.counted["pictures"]
    assembly.assemble(parts, clip.output, clip.source if has_sound else None, times[0] or 0.0, keep_pieces)
    clip.status = "done"
    if keep_pieces:
        _write(clip.work / "output.json", identity(clip.output))
    else:
        shutil.rmtree(clip.work)
