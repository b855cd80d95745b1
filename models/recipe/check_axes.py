"""Which way the vectors of a model point: a shaded sphere goes through the element, and each axis' sign is reported.

    python check_axes.py --model DIR [property=value ...]

On a sphere the normal's x, y and z are known: to the right of its middle x is positive, above it y is, and all of it
faces the viewer. Each line tells how well the model's component follows that; the sign is that of the correlation.
"""

import argparse
import math
import sys

import numpy as np

import raycast as rc
import scenes
from element import DEMO_MODEL, run_element

FRAMES = 14
SIDE = 256
# Below, the model does not see the sphere well enough to tell.
CLEAR = 0.4
CONVENTIONS = {(1, 1, 1): "opengl", (1, -1, 1): "directx", (1, -1, -1): "opencv"}


def plain_texture(colour):
    row = np.zeros(rc.TEXTURE_COLUMNS)
    row[rc.T_KIND], row[rc.COLOUR_A:rc.COLOUR_A + 3] = rc.FLAT, colour
    return row


def sphere_scene():
    """A matt sphere in the middle of a room, lit from above and the left, as a camera sees it from the front."""
    row = np.zeros(rc.OBJECT_COLUMNS)
    row[rc.KIND], row[rc.SIZE:rc.SIZE + 3], row[rc.BOUND], row[rc.SHINE], row[rc.TEXTURE] = rc.SPHERE, 0.8, 0.8, 20, 6
    motion = scenes.Motion(np.eye(3), np.zeros(3), np.zeros(3), np.array([0.0, 1, 0]), 0.0)
    camera = scenes.Camera(np.array([0.0, 0, 3.2]), np.zeros(3), np.array([0.004, 0, 0]), np.zeros(3), 0.0, 1.8)
    shading = np.array([0.35, 0.1, 0.8, 1.0, 1.0, 1.0, 1.0])
    textures = np.array([plain_texture((0.55, 0.55, 0.5))] * 6 + [plain_texture((0.8, 0.45, 0.3))])
    return scenes.Scene(
        camera, row[None], [motion], textures, np.zeros((7, 16, 16, 16), np.float32), np.array([3.0, 2, 4, 0, 1]),
        np.array([[-1.5, 1.7, 2.5, 1.0, 1.0]]), shading, gamma=1 / 1.5, gain=1.0)


def sphere_mask(normals):
    """Pixels whose normal changes smoothly, none of a wall's: those of the sphere, without its rim."""
    steps = np.linalg.norm(np.diff(normals, axis=1, append=normals[:, -1:]), axis=-1)
    return (steps > 1e-4) & (normals[..., 2] > 0.25)


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / max(math.sqrt((a * a).sum() * (b * b).sum()), 1e-9))


def measure(model, settings):
    """(correlations of x, y and z with the truth, mean of the model's z on the sphere)"""
    scene = sphere_scene()
    rgb, normals = scenes.render_clip(scene, range(FRAMES), SIDE, SIDE, 2)
    predicted = run_element(np.floor(rgb * 255 + 0.5).astype(np.uint8), model, **settings)[FRAMES // 2]
    truth = normals[FRAMES // 2]
    mask = sphere_mask(truth)
    return [correlation(predicted[mask][:, i], truth[mask][:, i]) for i in range(3)], float(predicted[mask][:, 2].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEMO_MODEL, metavar="DIR")
    parser.add_argument("settings", nargs="*", metavar="PROPERTY=VALUE")
    options = parser.parse_args()
    correlations, mean_z = measure(options.model, dict(text.split("=", 1) for text in options.settings))
    signs = []
    for axis, value, known in zip("xyz", correlations, ("right", "up", "towards the viewer")):
        sign = (value > 0) - (value < 0)
        clear = abs(value) >= CLEAR
        # All of the sphere faces the viewer: the mean tells z's sign better than its course.
        if axis == "z":
            sign, clear = (mean_z > 0) - (mean_z < 0), abs(mean_z) >= CLEAR
        signs.append(sign if clear else 0)
        word = {1: f"positive: {known}", -1: f"negative: opposite to {known}", 0: "unclear"}[signs[-1]]
        print(f"{axis}: {word} (correlation with the truth {value:+.2f})")
    print(f"mean z on the sphere: {mean_z:+.2f}")
    if 0 in signs:
        print("convention: unclear; the model does not see the sphere well enough")
        return 1
    name = CONVENTIONS.get(tuple(signs))
    print(f"convention: {name}" if name else "convention: none of the known ones; flip-x, flip-y, flip-z can make one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
