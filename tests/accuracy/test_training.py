"""The trainer's steps, and its optimiser."""

import argparse
import collections

import numpy as np
import pytest
import torch

import muon
import train
from train import Job, Kept


@pytest.mark.parametrize("shape", [(3, 16, 144), (2, 96, 16), (1, 24, 48)])
def test_muon_keeps_the_directions_and_makes_the_singular_values_alike(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    in_its_axes = u.mT @ muon.orthogonalised(matrices) @ vh.mT
    values = in_its_axes.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.4 and values.max() < 1.3
    assert (in_its_axes - torch.diag_embed(values)).abs().max() < 0.01


def test_muon_bears_directions_without_a_gradient():
    matrices = torch.zeros(1, 8, 32)
    matrices[0, 0, 0], matrices[0, 1, 1] = 1.0, 1e-6
    result = muon.orthogonalised(matrices)
    assert result.isfinite().all() and 0.4 < result[0, 0, 0] < 1.3 and result[0, 2:].abs().max() < 1e-3


@pytest.mark.parametrize("uses", [1, 2.5, 4])
def test_batches_are_used_as_often_as_told(uses):
    kept, counts = Kept(uses), collections.Counter()
    for step in range(20_000):
        again = kept.draw(np.random.default_rng(step))
        if again is None:
            again = step
            kept.steps.append(step)
        counts[again] += 1
    settled = [count for first, count in counts.items() if 4_000 < first < 16_000]
    assert np.mean(settled) == pytest.approx(uses, rel=0.05)


@pytest.fixture
def trainer(tmp_path, monkeypatch, fast_forms):
    """Both forms' steps with one still of 64x64. It puts the fast forms in place itself."""
    for name, is_coarse in (("COARSE", True), ("WINDOWS", False)):
        monkeypatch.setattr(train, name, ((1.0, Job(64, 64, 1, 1, 1, is_coarse)),))
    monkeypatch.setattr(train, "HEAD_STEPS", 0)
    return train.Trainer(argparse.Namespace(
        work=tmp_path, weights=None, photos=None, steps=None, anneal=None, rate=2e-3, adamw_factor=0.5, phases=(0, 0),
        coarse=1.0, uses=2, workers=2, seed=0))


def test_a_kept_batch_is_out_of_date_once_the_frozen_layers_have_changed(trainer):
    is_current = lambda p: torch.allclose(p.quarter, trainer.model.encode_frozen(p.batch.frames), atol=1e-4)
    for _ in range(3):
        trainer.train_step()
    prepared = trainer.kept.steps[0][0]
    assert is_current(prepared), "coarse steps leave these layers alone"
    trainer.options.coarse = 0.0
    trainer.train_step()
    assert not is_current(prepared)
    assert not trainer.kept.steps


def test_a_batch_that_comes_again_is_trained_on_as_when_it_was_new(trainer, monkeypatch):
    trainer.train_step()
    first = trainer.kept.steps[0]
    monkeypatch.setattr(trainer.kept, "draw", lambda r: first)
    losses = [trainer.train_step()["chord"] for _ in range(12)]
    assert len(trainer.kept.steps) == 1 and losses[-1] < losses[0], "one picture is learnt by heart"
