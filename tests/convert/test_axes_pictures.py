"""The pictures of docs/element.md show what the element's axes are."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import decoded

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "images"
NAMES = ("input", "opengl", "directx", "opencv", "flip-x", "flip-z", "lit", "lit-wrong")
SIZE = 112


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axes")
    subprocess.run([os.environ["DRAW_AXES"], folder], check=True)
    return folder


def picture(folder, name):
    return decoded(folder / f"axes-{name}.png", size=(SIZE, SIZE))[0].astype(int)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_as_the_program_draws_it(name, drawn):
    # Within rounding: sines and roots are not the same everywhere.
    assert np.abs(picture(drawn, name) - picture(IMAGES, name)).max() <= 1


@pytest.mark.parametrize("name, top, right, wall", [
    ("opengl", (128, 230, 201), (230, 128, 201), (128, 128, 255)),
    ("directx", (128, 25, 201), (230, 128, 201), (128, 128, 255)),
    ("opencv", (128, 25, 54), (230, 128, 54), (128, 128, 0)),
    ("flip-x", (128, 230, 201), (25, 128, 201), (128, 128, 255)),
    ("flip-z", (128, 230, 54), (230, 128, 54), (128, 128, 0)),
])
def test_a_convention_has_its_colours(name, top, right, wall):
    """`top` and `right`: where the sphere turns four fifths up or to the right, x, y, z = 0, 0.8, 0.6."""
    shown = picture(IMAGES, name)
    middle, off = SIZE // 2, round(0.8 * 0.7 * SIZE / 2)
    for (row, column), colour in (((middle - off, middle), top), ((middle, middle + off), right), ((2, 2), wall)):
        assert np.abs(shown[row, column] - colour).max() <= 10, (row, column)


def test_a_wrong_y_is_lit_from_below():
    right, wrong = (picture(IMAGES, name)[..., 0] for name in ("lit", "lit-wrong"))
    upper, lower = np.s_[SIZE // 4, SIZE // 2], np.s_[3 * SIZE // 4, SIZE // 2]
    assert right[upper] > right[lower] + 50
    assert wrong[upper] + 50 < wrong[lower]
