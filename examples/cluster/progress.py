"""What the user sees while pieces are converted, and the report at the end."""

import json
import sys
import time

INTERVAL = 5.0  # seconds between lines where there is no terminal


def clock(seconds):
    hours, rest = divmod(round(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    """Frames that this call converts: those of pieces made earlier do not count."""

    def __init__(self, quiet):
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._begin = None  # of the first piece
        self._last = 0.0
        self._drawn = False

    def show(self, clips, left, done, total, last=False):
        """`clips`: (over, all); `left`: pieces and counts that are waited for; `done` and `total`: frames."""
        now = time.monotonic()
        if total and self._begin is None:
            self._begin = now
        if self._quiet or (not last and now - self._last < (0 if self._terminal else INTERVAL)):
            return
        self._last = now
        text = f"{clips[0]}/{clips[1]} clips, "
        text += f"{left} pieces to go, {done}/{total} frames" if total else "counting frames"
        if done and now > self._begin:
            rate = done / (now - self._begin)
            text += f", {rate:.2f} fps, {clock((total - done) / rate)} left"
        self._line(text, stays=last)

    def say(self, text):
        if not self._quiet:
            self._line(text, stays=True)

    def warn(self, text):
        self._line(f"cluster: {text}", stays=True)

    def _line(self, text, stays):
        if self._terminal:
            sys.stderr.write(f"{chr(13) if self._drawn else ''}{text}\x1b[K{chr(10) if stays else ''}")
            self._drawn = not stays
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


def partial_report(file):
    """What it is called until it is whole."""
    return file.with_name(file.name + ".partial")


def write_report(file, clips, seconds):
    """A JSON object; whole or not at all."""
    report = {"status": "done" if all(clip.status in ("done", "kept") for clip in clips) else "failed",
              "seconds": round(seconds, 3), "clips": [clip.report() for clip in clips]}
    partial = partial_report(file)
    partial.write_text(json.dumps(report, indent=1) + "\n")
    partial.replace(file)


def print_failures(progress, clips):
    for clip in clips:
        for failure in clip.failures:
            piece = f" piece {failure['piece']} (frames {failure['begin']}-{failure['end'] - 1})" if "piece" in failure else ""
            host = f" on {failure['host']}" if failure.get("host") else ""
            progress.warn(f"{clip.source}:{piece}{host}: {failure['message']}")
