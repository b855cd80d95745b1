"""Deterministic test clips: moving gradients, moving shapes, fine texture and noise, mixed.

Integers and exactly rounded operations of NumPy only, so that every machine makes the same clip.

    python clips.py --frames 5 --height 96 --width 128 --seed 3 --output clip.npy
"""

import argparse

import numpy as np


def make_clip(frames, height, width, seed=0, bits=8):
    """[frames, height, width, 3] uint8 or, for bits=16, uint16."""
    rng = np.random.default_rng([seed, frames, height, width])
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    y, x = y / max(height - 1, 1), x / max(width - 1, 1)
    slopes, offsets, speeds = (rng.uniform(-1, 1, (3, 2)), rng.random(3), rng.uniform(-0.06, 0.06, 3))
    boxes = [_Shape(rng) for _ in range(4)]
    noise_level = rng.uniform(0.02, 0.15)
    clip = np.empty((frames, height, width, 3))
    for t in range(frames):
        for c in range(3):
            phase = slopes[c, 0] * y + slopes[c, 1] * x + offsets[c] + speeds[c] * t
            clip[t, ..., c] = np.abs(2 * (phase - np.floor(phase)) - 1)  # a triangle wave, no seams
        for box in boxes:
            box.draw(clip[t], y, x, t)
        checker = (np.arange(height)[:, None] // 2 + np.arange(width)[None] // 3 + t) % 2
        clip[t, : height // 3] += 0.08 * (checker[: height // 3, :, None] - 0.5)
        clip[t] += noise_level * (rng.random((height, width, 3)) - 0.5)
    top = 2**bits - 1
    return np.floor(np.clip(clip, 0, 1) * top + 0.5).astype(np.uint8 if bits == 8 else np.uint16)


class _Shape:
    """A disc or a rectangle that crosses the picture at constant speed, shaded across."""

    def __init__(self, rng):
        self.disc = rng.random() < 0.5
        self.centre, self.speed = rng.random(2), rng.uniform(-0.05, 0.05, 2)
        self.size, self.colour = rng.uniform(0.08, 0.3, 2), rng.random(3)
        self.shade = rng.uniform(-0.8, 0.8)

    def draw(self, picture, y, x, t):
        v, u = (y - self.centre[0] - self.speed[0] * t), (x - self.centre[1] - self.speed[1] * t)
        v, u = v / self.size[0], u / self.size[1]
        inside = v * v + u * u < 1 if self.disc else np.maximum(np.abs(v), np.abs(u)) < 1
        picture[inside] = (self.colour + self.shade * (u + v)[..., None] / 2)[inside]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("frames", 14), ("height", 256), ("width", 256), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bits", type=int, choices=(8, 16), default=8)
    parser.add_argument("--output", required=True, help=".npy file, [frames, height, width, 3]")
    o = parser.parse_args()
    np.save(o.output, make_clip(o.frames, o.height, o.width, o.seed, o.bits))


if __name__ == "__main__":
    main()
