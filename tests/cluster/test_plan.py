"""Where clips are cut: against a plain account of what the windows and decode chunks of a whole clip depend on."""

import itertools
import math

import pytest
from plan import Piece, PlanError, Windows, cut, overhead


def windows_of(frames, windows):
    """The starts of a clip's windows, as engine/stream/window_schedule.h has them (anchored tail)."""
    starts = list(range(0, frames - windows.window + 1, windows.step))
    if not starts:
        return [0]
    if starts[-1] + windows.window < frames:
        starts.append(frames - windows.window)
    return starts


def sources(frames, windows, depth, offset=0):
    """For each frame of a clip that begins at frame `offset` of another: the windows that its normals come from, each
    with how many windows ago it counted, up to `depth` ago, and the frames that it is decoded with."""
    predicted = [frozenset()] * max(frames, windows.window)
    end = 0
    for start in windows_of(frames, windows):
        seeds = frozenset().union(*predicted[start:end]) if end > start else frozenset()
        own = frozenset({(start + offset, 0)}) | {(window, age + 1) for window, age in seeds if age < depth}
        for frame in range(start, start + windows.window):
            # Where windows overlap both predictions are blended, so that a frame comes from both.
            predicted[frame] = own | predicted[frame] if frame < end else own
        end = start + windows.window
    decoded = []
    for frame in range(frames):
        chunk = frame // windows.decode_chunk * windows.decode_chunk
        last = min(chunk + windows.decode_chunk, frames)
        decoded.append((predicted[frame], chunk + offset, last + offset))
    return decoded


SHAPES = [Windows(w, s, c) for w, s, c in itertools.product((1, 2, 3, 5), (1, 2, 3, 5), (1, 2, 3)) if s <= w]


@pytest.mark.parametrize("windows", [*SHAPES, Windows(14, 10, 4), Windows(14, 14, 4), Windows(14, 7, 4)], ids=str)
def test_pieces_come_from_the_same_windows_and_chunks_as_the_whole_clip(windows):
    most = 3 * windows.unit + 2 * windows.window + 3
    for frames in range(1, most, 1 if most < 80 else 7):
        for depth, piece_frames in itertools.product((0, 2), (1, windows.unit + 1)):
            whole = sources(frames, windows, depth)
            for piece in cut(frames, windows, piece_frames, (depth + 1) * windows.generation):
                part = sources(piece.reads, windows, depth, piece.first)
                assert part[piece.before:piece.before + piece.frames] == whole[piece.begin:piece.end], (frames, piece)


def test_one_window_of_warm_up_less_makes_a_difference():
    windows = Windows(14, 10, 4)
    whole = sources(90, windows, 2)
    pieces = cut(90, windows, 40, 1)
    assert any(sources(p.reads, windows, 2, p.first)[p.before] != whole[p.begin] for p in pieces[1:])


@pytest.mark.parametrize("windows", SHAPES, ids=str)
def test_every_frame_is_written_once_and_reading_stays_within_the_clip(windows):
    for frames, piece_frames, warm_up in itertools.product(range(1, 40), (0, 1, 4, 9, 100), (None, 0, 1, 3)):
        pieces = cut(frames, windows, piece_frames, warm_up)
        assert [f for p in pieces for f in range(p.begin, p.end)] == list(range(frames))
        for piece in pieces:
            assert 0 <= piece.first <= piece.begin and piece.first + piece.reads <= frames
            assert piece.first % windows.unit == 0 and piece.begin % windows.unit == 0
            assert piece.is_last == (piece is pieces[-1])
            # Shorter than a window it would be filled up with copies of its last frame.
            assert piece.reads >= windows.window or len(pieces) == 1
        assert all(p.frames >= piece_frames for p in pieces[:-1])


def test_a_piece_is_as_the_description_says():
    pieces = cut(130, Windows(14, 10, 4), 50, 3)
    assert pieces == [Piece(0, 60, 0, 4), Piece(60, 130, 40, 0, True)]
    assert pieces[0].reads == 64 and pieces[1].first == 20
    assert overhead(pieces) == pytest.approx(44 / 130)


def test_the_last_piece_keeps_a_window_of_its_own():
    assert len(cut(33, Windows(14, 10, 4), 20)) == 1
    assert len(cut(34, Windows(14, 10, 4), 20)) == 2


@pytest.mark.parametrize("windows, warm_up", [(Windows(14, 10, 4), 3), (Windows(14, 14, 4), 0), (Windows(14, 5, 4), 6),
                                              (Windows(14, 1, 4), 39)], ids=str)
def test_the_default_warm_up_covers_the_overlap(windows, warm_up):
    assert windows.default_warm_up == warm_up


def test_cuts_lie_where_windows_and_chunks_meet():
    assert Windows(14, 10, 4).unit == 20
    assert Windows(14, 9, 7).unit == math.lcm(9, 7)


@pytest.mark.parametrize("make, said", [
    (lambda: Windows(14, 15, 4), "step-size 15"),
    (lambda: Windows(14, 0, 4), "step-size 0"),
    (lambda: Windows(14, 10, 0), "vae-decode-chunk-size 0"),
    (lambda: cut(0, Windows(), 20), "without frames"),
    (lambda: cut(9, Windows(), -1), "pieces of -1"),
    (lambda: cut(9, Windows(), 20, -1), "-1 windows"),
])
def test_what_cannot_be_planned_is_told(make, said):
    with pytest.raises(PlanError, match=said):
        make()
