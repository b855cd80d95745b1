#!/usr/bin/env python3
"""Converts many clips, or one long one in pieces, on a Ray cluster: docs/cluster.md."""

import argparse
import contextlib
import functools
import os
import pathlib
import shutil
import sys
import time

import assembly
import conversion
import plan
from clip import (Clip, ClipError, assemble, check_output, open_work, plan_pieces, settle_pictures,
                  work_folder)
from progress import Progress, partial_report, print_failures, write_report

VERSION = "0.1.0"
# The converter's options that this program sets itself, or that no piece can have.
OURS = {"--start", "--frames", "--trim", "--resume", "--warm-up", "--preview", "--progress", "--quiet", "-q",
        "--overwrite", "-y", "--count", "--check-axes", "--version", "--help", "-h", "--help-element", "--help-all"}
# Of the element's: windows would begin anew, or frames be missing, where the plan does not know of it.
UNPLANNED = {"--leaky", "--restart-on-key-unit"}
# What a machine that runs pieces gets to know of this one's environment.
INHERITED = ("GST_PLUGIN_", "NORMALCRAFTER_", "OMP_")

DONE, FAILED, USAGE, NO_RAY, INTERRUPTED = 0, 1, 2, 3, 130


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="cluster.py", description=__doc__,
        usage="%(prog)s INPUT... OUTPUT [options] [-- options of normalcrafter-convert]",
        epilog="Exit status: 0 done, 1 some clip failed or there is no report, 2 the command line, 3 Ray is missing, "
               "130 interrupted.")
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="as of normalcrafter-convert")
    parser.add_argument("output", metavar="OUTPUT", help="likewise; {name} stands for an input's name without ending")
    parser.add_argument("--piece-frames", type=int, default=400, metavar="N",
                        help="cut clips into pieces of at least N frames; 0: do not cut (%(default)s)")
    parser.add_argument("--warm-up", type=int, metavar="N",
                        help="windows computed before a piece's first frame (default: by the windows' overlap, 3 for "
                             "the element's own)")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of a piece that failed (%(default)s)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one piece (default: none)")
    parser.add_argument("--address", help="of the Ray cluster (default: RAY_ADDRESS, one running on this machine, or a "
                                          "new one here)")
    parser.add_argument("--local", type=int, metavar="N", help="start Ray on this machine alone, for N pieces at a time")
    parser.add_argument("--cpus", type=int, default=1, metavar="N", help="processors, and threads, for each piece "
                                                                         "(%(default)s)")
    parser.add_argument("--gpus", type=float, default=0, metavar="N", help="GPUs for each piece; 0.5: two share one "
                                                                           "(%(default)g)")
    parser.add_argument("--converter", default="normalcrafter-convert", metavar="PROGRAM", help="(%(default)s)")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        help="where pieces wait, seen by all machines (default: beside OUTPUT)")
    parser.add_argument("--keep-pieces", action="store_true", help="also when the output is whole")
    parser.add_argument("--overwrite", "-y", action="store_true", help="replace output and pieces that are there")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="write a report as JSON")
    parser.add_argument("--dry-run", action="store_true", help="print the pieces and convert nothing")
    parser.add_argument("--quiet", "-q", action="store_true", help="show failures only")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    ours, passed = split_arguments(arguments)
    options = parser.parse_intermixed_args(ours)
    options.converter_options = passed
    check(parser, options)
    if options.report:
        check_report(parser, options.report)
    return options


def split_arguments(arguments):
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def check(parser, options):
    kind = assembly.ending(options.output)
    known = (*assembly.SEQUENCES, *assembly.ARRAYS, *assembly.VIDEOS)
    if kind not in known:
        parser.error(f"{options.output}: its ending has to be one of {' '.join(known)}")
    if len(options.inputs) > 1 and "{name}" not in options.output:
        parser.error("several inputs need {name} in OUTPUT, as in 'normals/{name}.mkv'")
    for option in options.converter_options:
        name = option.split("=")[0]
        if name in OURS:
            parser.error(f"{name} cannot be passed to the converter: pieces are cut and called by this program")
        if name in UNPLANNED:
            parser.error(f"{name}: windows would not lie where pieces are cut; use the converter alone")
    if options.piece_frames < 0 or options.retries < 0 or options.cpus < 1 or options.gpus < 0:
        parser.error("--piece-frames, --retries and --gpus take 0 and more, --cpus 1 and more")
    if options.warm_up is not None and options.warm_up < 0:
        parser.error("--warm-up takes 0 and more")
    if options.timeout is not None and options.timeout <= 0:
        parser.error("--timeout takes seconds, more than 0")
    if options.local is not None and (options.local < 1 or options.address):
        parser.error("--local takes 1 and more, and excludes --address")
    if kind in assembly.VIDEOS and options.piece_frames and not shutil.which("ffmpeg"):
        parser.error("ffmpeg, which joins pieces of video, is not installed here; install it, or give --piece-frames=0")


def check_report(parser, file):
    """By writing beside it, now and not after the hours that pieces take."""
    try:
        if file.is_dir():
            parser.error(f"--report={file} names a folder")
        partial_report(file).touch()
        partial_report(file).unlink()
    except OSError as error:
        parser.error(f"--report={file} could not be written: {error.strerror}")


def make_clips(options):
    """A clip for each input; a ClipError where two have one output."""
    clips = {}
    for source in options.inputs:
        is_uri = "://" in source
        name = pathlib.PurePosixPath(source).stem.replace("%", "")
        output = pathlib.Path(os.path.abspath(options.output.replace("{name}", name)))
        if output in clips:
            raise ClipError(f"{clips[output].source} and {source} would both become {output}")
        clips[output] = Clip(source if is_uri else os.path.abspath(source), output,
                             work_folder(output, options.work and options.work.absolute()))
    return list(clips.values())


def make_converter(options):
    passed = tuple(options.converter_options)
    if not any(option.split("=")[0] == "--threads" for option in passed):
        passed += (f"--threads={options.cpus}",)
    environment = {name: value for name, value in os.environ.items() if name.startswith(INHERITED)}
    program = os.path.abspath(options.converter) if "/" in options.converter else options.converter
    return conversion.Converter(program, passed, os.getcwd(), environment, options.timeout)


# --- Ray ------------------------------------------------------------------------------------------


def connect(ray, options):
    """To the cluster, or to one that is started here. Its logs stay in its own files."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    hide_odd_names()
    common = {"log_to_driver": False, "logging_level": "ERROR"}
    if options.local is not None:
        ray.init(address="local", num_cpus=options.local * options.cpus, include_dashboard=False, **common)
    else:
        ray.init(address=options.address, **common)
    # The other machines need not have these files.
    ray.cloudpickle.register_pickle_by_value(conversion)


def hide_odd_names():
    """Ray keeps this process's command line for its list of jobs, and does not start where that is not UTF-8. It has no
    setting for this."""
    if all(conversion.printable(argument) == argument for argument in sys.orig_argv):
        return
    with contextlib.suppress(ImportError):  # it is Ray's own, and may go
        from ray._private import utils

        utils.get_entrypoint_name = lambda: "cluster.py"


class Board:
    """What running pieces tell. An actor."""

    def __init__(self):
        self._frames = {}
        self._attempts = {}

    def begin(self, key):
        self._attempts[key] = self._attempts.get(key, 0) + 1
        self._frames[key] = 0

    def made(self, key, frames):
        self._frames[key] = frames

    def read(self):
        return self._frames, self._attempts


def count_task(converter, source, output):
    """(count, None) or (None, why not)."""
    try:
        return conversion.count(converter, source, output), None
    except conversion.ConversionError as error:
        return None, describe(error)


def piece_task(converter, job, key, board):
    """(done, None) or (None, why not). What another attempt may mend is raised, for Ray to retry."""
    import ray

    ray.get(board.begin.remote(key))  # before it may fail, so that the attempt is counted
    try:
        return conversion.convert_piece(converter, job, lambda frames: board.made.remote(key, frames)), None
    except conversion.ConversionError as error:
        if not error.is_final:
            raise
        return None, describe(error)


def describe(error):
    return {"message": error.message, "status": error.status, "host": error.host}


def in_words(error):
    """For the user. Of what nobody foresaw the text alone may say nothing, so that it gets its type."""
    if isinstance(error, (plan.PlanError, ClipError, assembly.AssemblyError)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


class Job:
    """All clips, from counting to the report."""

    def __init__(self, ray, options, clips, progress):
        self._ray, self._options, self._clips, self._progress = ray, options, clips, progress
        self._converter = make_converter(options)
        self._count = ray.remote(num_cpus=1, max_retries=options.retries)(count_task)
        self._piece = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=options.retries,
                                 retry_exceptions=True)(piece_task)
        self._board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Board).remote()
        self._running = {}  # task: what is called with its result
        self._done = {}  # frames by finished piece
        self._total = 0

    def run(self):
        for clip in self._clips:
            self._step(clip, self._begin)
        while self._running:
            ready, _ = self._ray.wait(list(self._running), timeout=0.5)
            for task in ready:
                self._take(task)
            self._show()
        if self._total:
            self._show(last=True)

    def stop(self):
        for task in self._running:
            self._ray.cancel(task, force=True)

    def _step(self, clip, step):
        """Whatever its files make a step raise fails this clip alone: one odd name or file must not end all others."""
        try:
            step(clip)
        except Exception as error:
            clip.fail(in_words(error))

    def _begin(self, clip):
        check_output(clip, self._options.overwrite)
        if clip.status == "kept":
            self._progress.say(f"{clip.output}: is there already and is kept")
            return
        task = self._count.remote(self._converter, clip.source, str(clip.output))
        self._running[task] = functools.partial(self._counted, clip)

    def _take(self, task):
        then = self._running.pop(task)
        try:
            result, failure = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            result, failure = None, self._failure_of(error)
        then(result, failure)

    def _failure_of(self, error):
        cause = getattr(error, "cause", None)
        if isinstance(cause, conversion.ConversionError):
            return describe(cause)
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        return {"message": first if cause is None else f"{type(cause).__name__}: {cause}", "status": None, "host": ""}

    def _counted(self, clip, counted, failure):
        if failure:
            clip.fail(**failure)
            return
        clip.counted, clip.status = counted, "converting"
        self._step(clip, self._plan)

    def _plan(self, clip):
        plan_pieces(clip, self._options.piece_frames, self._options.warm_up)
        settle_pictures(clip, self._options.overwrite)
        if clip.status != "kept" and not self._options.dry_run:
            open_work(clip, self._converter, self._options.overwrite)
        for note in clip.notes:
            self._progress.warn(f"{clip.source}: {note}")
        if self._options.dry_run:
            self._print_plan(clip)
        elif clip.status == "kept":
            self._progress.say(f"{clip.output}: is there already and is kept")
        else:
            self._start_pieces(clip)

    def _print_plan(self, clip):
        clip.status = "done"
        print(f"{clip.source}: {clip.frames} frames, {len(clip.pieces)} pieces, "
              f"{100 * plan.overhead(clip.pieces):.0f} % of the frames twice")
        for number, piece in enumerate(clip.pieces):
            print(f"  {number}: frames {piece.begin}-{piece.end - 1}, reads {piece.first}-{piece.first + piece.reads - 1}")

    def _start_pieces(self, clip):
        clip.left = len(clip.jobs)
        for number, (job, piece) in enumerate(zip(clip.jobs, clip.pieces)):
            if conversion.finished(job.folder):
                clip.left -= 1
                clip.reused += 1
                continue
            self._total += piece.frames
            key = (str(clip.output), number)
            name = conversion.printable(f"{clip.output.name} {piece.begin}-{piece.end - 1}")
            task = self._piece.options(name=name).remote(self._converter, job, key, self._board)
            self._running[task] = functools.partial(self._converted, clip, number, key)
        self._assemble_if_whole(clip)

    def _converted(self, clip, number, key, done, failure):
        clip.left -= 1
        piece = clip.pieces[number]
        _, attempts = self._ray.get(self._board.read.remote())
        clip.attempts[number] = attempts.get(key, 1)
        if failure:
            clip.fail(**failure, piece=number, begin=piece.begin, end=piece.end, attempts=clip.attempts[number])
            self._total -= piece.frames
            self._done[key] = 0
        else:
            self._done[key] = piece.frames
        self._assemble_if_whole(clip)

    def _assemble_if_whole(self, clip):
        if not clip.left and not clip.failures:
            self._step(clip, self._assemble)

    def _assemble(self, clip):
        assemble(clip, self._options.keep_pieces)
        reused = f", {clip.reused} made earlier" if clip.reused else ""
        self._progress.say(f"{clip.output}: {clip.frames} frames of {len(clip.jobs)} pieces{reused}")

    def _show(self, last=False):
        frames, _ = self._ray.get(self._board.read.remote())
        # A retry begins again, so a piece's frames may become fewer.
        done = sum({**frames, **self._done}.values())
        over = sum(clip.is_over for clip in self._clips)
        self._progress.show((over, len(self._clips)), len(self._running), done, self._total, last)


def main(arguments=None):
    begin = time.monotonic()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="backslashreplace")  # names need not be UTF-8
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    progress = Progress(options.quiet)
    try:
        clips = make_clips(options)
    except ClipError as error:
        progress.warn(str(error))
        return USAGE
    try:
        import ray
    except ImportError as error:
        progress.warn(f"Ray is missing ({error}); install it with: pip install ray")
        return NO_RAY
    try:
        connect(ray, options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        progress.warn(f"no connection to Ray: {error}")
        return FAILED
    try:
        return convert(Job(ray, options, clips, progress), options, clips, progress, begin)
    finally:
        ray.shutdown()


def convert(job, options, clips, progress, begin):
    """The exit status. Whatever happens, what failed is told and reported."""
    status = INTERRUPTED
    try:
        job.run()
        status = FAILED if any(clip.failures for clip in clips) else DONE
    except KeyboardInterrupt:
        progress.warn("interrupted; the same command goes on with the pieces that are finished")
        job.stop()
    finally:
        print_failures(progress, clips)
        is_reported = report(options.report, clips, progress, begin)
    return FAILED if status == DONE and not is_reported else status


def report(file, clips, progress, begin):
    """Whether it was written, or not asked for."""
    if not file:
        return True
    try:
        write_report(file, clips, time.monotonic() - begin)
    except OSError as error:
        progress.warn(f"no report: {in_words(error)}")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
