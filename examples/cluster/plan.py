"""Where a clip is cut so that its pieces can be converted apart. Arithmetic alone: nothing is read or started here.

The network sees windows of frames at 0, step, 2 * step, ...; each starts from what the one before it predicted for the
frames that both have. The decoder takes chunks counted from frame 0, and the last window is moved back so that it ends
with the clip. A piece that is to come out as in one run therefore

- begins to read at a multiple of both step and decode chunk, so that its windows and chunks lie as the clip's do,
- reads `warm-up` windows before the first frame that it writes,
- reads behind its last frame what the last window that has this frame needs, and no frame more: then its own last
  window is one of the clip's, and none is moved,
- leaves at least a window to the pieces after it, so that the clip's moved window touches the last piece alone.
"""

import dataclasses
import math


class PlanError(ValueError):
    """What was asked for cannot be planned, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Windows:
    """The element's properties window-size, step-size and vae-decode-chunk-size."""

    window: int = 14
    step: int = 10
    decode_chunk: int = 4

    def __post_init__(self):
        if not 1 <= self.step <= self.window:
            raise PlanError(f"step-size {self.step} has to be 1 to window-size {self.window}")
        if self.decode_chunk < 1:
            raise PlanError(f"vae-decode-chunk-size {self.decode_chunk} has to be at least 1")

    @property
    def unit(self):
        """Frames after which windows and decode chunks begin together again."""
        return math.lcm(self.step, self.decode_chunk)

    @property
    def overlap(self):
        return self.window - self.step

    @property
    def generation(self):
        """Windows that share frames with one, on either side: those that it starts from."""
        return -(-self.overlap // self.step)

    @property
    def default_warm_up(self):
        """The windows that a piece's first frame is blended from, those they start from, and these theirs."""
        return 3 * self.generation


@dataclasses.dataclass(frozen=True)
class Piece:
    """Writes the clip's frames [begin, end)."""

    begin: int
    end: int
    before: int = 0  # frames read before them
    after: int = 0  # and behind them
    is_last: bool = False  # reads to the clip's end

    @property
    def first(self):
        return self.begin - self.before

    @property
    def reads(self):
        return self.end + self.after - self.first

    @property
    def frames(self):
        return self.end - self.begin


def cut(frames, windows, piece_frames, warm_up=None):
    """The pieces of a clip of `frames` frames, in order: at least `piece_frames` long, and as little longer as `windows`
    allow. 0: one piece."""
    warm_up = windows.default_warm_up if warm_up is None else warm_up
    if frames < 1:
        raise PlanError("a clip without frames")
    if piece_frames < 0:
        raise PlanError(f"pieces of {piece_frames} frames: it has to be 0 (no cuts) or more")
    if warm_up < 0:
        raise PlanError(f"{warm_up} windows of warm-up: it has to be 0 or more")
    size = -(-piece_frames // windows.unit) * windows.unit if piece_frames else frames
    begins = [0, *range(size, frames - windows.window + 1, size)] if piece_frames else [0]
    return [_piece(begin, end, frames, windows, warm_up)
            for begin, end in zip(begins, [*begins[1:], frames])]


def _piece(begin, end, frames, windows, warm_up):
    first = max(begin - warm_up * windows.step, 0) // windows.unit * windows.unit
    is_last = end == frames
    return Piece(begin, end, begin - first, 0 if is_last else windows.overlap, is_last)


def overhead(pieces):
    """Frames that are read twice or more, as a share of the clip."""
    return sum(piece.before + piece.after for piece in pieces) / sum(piece.frames for piece in pieces)
