"""The demo model through the whole element, against the truth of rendered scenes and against itself.

The scenes are those of the frozen evaluation set (models/recipe/evaluation.py), fewer of them and shorter than in the
model card's table. What the card states of the same clips (models/demo/errors.json) is what they are held to.
"""

import functools
import json

import numpy as np
import pytest

import check_axes
import evaluate
import evaluation
from element import DEMO_MODEL, run_element

FRAMES = evaluation.SHORT_FRAMES
# Degrees. The card's figures are of the same clips; another processor's rounding may change them a little.
ERROR_MARGIN, FLICKER_MARGIN = 0.5, 0.2
GROUPS = ("128x128", "192x128", "256x192", "320x192", "200x150", "192x120")


@pytest.fixture(scope="module")
def stated():
    """What the model card says of each group."""
    report = json.loads((DEMO_MODEL / "errors.json").read_text())
    assert report["evaluation"] == evaluation.EVALUATION_VERSION
    return report["groups"]


@functools.lru_cache(maxsize=None)
def short_clips(group):
    """Errors and flicker of a group's first clips, in degrees."""
    return evaluate.evaluate_short(group, lambda rgb: run_element(rgb, dtype="float32"))


@pytest.mark.parametrize("group", GROUPS)
def test_mean_error_is_as_stated(group, stated):
    assert np.mean(short_clips(group)["clip means"]) < np.mean(stated[group]["short clips"]["clip means"]) + ERROR_MARGIN


@pytest.mark.parametrize("group", GROUPS)
def test_the_model_sees_more_than_a_constant(group, stated):
    assert np.mean(short_clips(group)["clip means"]) < 0.75 * stated[group]["best constant"]


def test_moving_scenes_flicker_as_stated(stated):
    expected = np.mean([stated[group]["short clips"]["flicker beyond it"] for group in GROUPS])
    assert np.mean([short_clips(group)["flicker beyond it"] for group in GROUPS]) < expected + FLICKER_MARGIN


def test_a_static_clip_is_as_still_as_stated(stated):
    rgb, _ = evaluation.clips("static")[0].render(28)
    assert evaluation.flicker(run_element(rgb, dtype="float32")) < stated["static"]["flicker"] + 0.3


def largest_jump(rgb, **properties):
    """How much more than usual the vectors of a static clip change from one frame to the next, in degrees. Usual: the
    place in the decoder's chunks of four, which shows most."""
    predicted = run_element(rgb, dtype="float32", **properties)
    changes = evaluation.angles(predicted[1:], predicted[:-1]).mean((1, 2))[8:36].reshape(-1, 4)
    return (changes - np.median(changes, axis=0)).max()


def test_windows_join_without_a_jump():
    rgb, _ = evaluation.clips("static")[0].render(44)
    jump = largest_jump(rgb)
    assert jump < 0.5
    assert jump < 0.7 * largest_jump(rgb, step_size=14)  # where nothing overlaps, joins show


@pytest.mark.parametrize("level", evaluation.BLANK_LEVELS, ids=str)
def test_blank_frames_give_calm_output(level):
    predicted = run_element(np.broadcast_to(np.array(level, np.uint8), (FRAMES, 128, 192, 3)), dtype="float32")
    mean = predicted.mean((0, 1, 2))
    assert evaluation.angles(predicted, mean / np.linalg.norm(mean)).mean() < 12
    assert evaluation.flicker(predicted) < 0.8


@pytest.mark.parametrize("group", ["128x128", "320x192", "200x150"])
def test_bfloat16_agrees_with_float32(group):
    rgb, _ = evaluation.clips(group)[0].render(28)
    angles = evaluation.angles(run_element(rgb, dtype="bfloat16"), run_element(rgb, dtype="float32"))
    assert angles.mean() < 1.0
    assert angles.mean((1, 2)).max() < 2.0


def test_a_rendered_sphere_shows_the_axes_that_the_model_states():
    correlations, mean_z = check_axes.measure(DEMO_MODEL, {})
    assert min(correlations[:2]) > 0.8
    assert mean_z > 0.5
