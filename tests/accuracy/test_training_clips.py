"""What the demo model is trained on."""

import numpy as np
import pytest

import training_clips
from training_clips import Job

WINDOW = Job(48, 32, 14, 12, 1)


def clip(monkeypatch, seed, covered_share):
    monkeypatch.setattr(training_clips, "PLAIN_SHARE", 1.0)
    monkeypatch.setattr(training_clips, "COVERED_SHARE", covered_share)
    return training_clips.make_training_clip(WINDOW, np.random.default_rng([9, seed]), None)


@pytest.mark.parametrize("seed", range(20))
def test_a_cover_hides_a_rectangle_of_a_few_consecutive_frames_and_no_normal(monkeypatch, seed):
    whole, normals = clip(monkeypatch, seed, 0.0)
    covered, same_normals = clip(monkeypatch, seed, 1.0)
    assert np.array_equal(normals, same_normals)
    changed = (whole != covered).any(-1)
    frames, rows, columns = (changed.any(axes).nonzero()[0] for axes in ((1, 2), (0, 2), (0, 1)))
    assert 1 <= len(frames) <= training_clips.LONGEST_COVER and np.ptp(frames) == len(frames) - 1
    hidden = covered[frames[0]:frames[-1] + 1, rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
    assert (hidden == hidden[0, 0, 0]).all()


def test_batches_follow_from_seed_step_and_worker():
    batches = [training_clips.Clips(seed).batch(step, worker, WINDOW)
               for seed, step, worker in ((1, 5, 0), (1, 5, 0), (2, 5, 0), (1, 6, 0), (1, 5, 1))]
    assert all(batch.frames.shape == (14, 3, 64, 64) and batch.normals.shape == (12, 3, 32, 48) for batch in batches)
    assert np.array_equal(batches[0].frames, batches[1].frames) and batches[0].chunk == batches[1].chunk
    assert not any(np.array_equal(batches[0].frames, other.frames) for other in batches[2:])
