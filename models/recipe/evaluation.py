"""The frozen evaluation set, and the measures of a prediction's error.

EVALUATION_VERSION names the clips below: seeds, sizes, lengths, generator. They were fixed before the first training
run. Training draws from seeds of another form (`training_clips.py`), so none of these scenes was trained on.
"""

import dataclasses

import numpy as np

import scenes

EVALUATION_VERSION = "1"
GENERATOR_VERSION = 1
FRAMES = 60
FIRST_SEED = 7_000_000

# (group, width, height, clips, samples a pixel and side). Clips of a group have the seeds that follow each other.
GROUPS = (
    ("128x128", 128, 128, 8, 1),
    ("192x128", 192, 128, 8, 1),
    ("256x192", 256, 192, 8, 1),
    ("320x192", 320, 192, 8, 2),
    ("200x150", 200, 150, 8, 2),  # padded to 256x192
    ("192x120", 192, 120, 8, 1),  # padded to 192x128
    ("static", 192, 128, 4, 2),  # the first frame again and again
)
# What the tests repeat: so many clips of each size, shorter ones.
SHORT_CLIPS, SHORT_FRAMES = 3, 14
BLANK_LEVELS = ((0, 0, 0), (128, 128, 128), (255, 255, 255), (40, 90, 160))  # one clip of 192x128 each
THRESHOLDS = (11.25, 22.5, 30.0)


@dataclasses.dataclass(frozen=True)
class Clip:
    group: str
    seed: int
    width: int
    height: int
    samples: int

    def render(self, frames=FRAMES):
        """(uint8 [T,H,W,3], unit normals float32 [T,H,W,3])"""
        scene = scenes.sample_scene(np.random.default_rng(self.seed))
        if self.group == "static":
            rgb, normals = scenes.render_frame(scene, 0, self.height, self.width, self.samples)
            return (np.broadcast_to(to_bytes(rgb), (frames, *rgb.shape)),
                    np.broadcast_to(normals, (frames, *normals.shape)))
        rgb, normals = scenes.render_clip(scene, range(frames), self.height, self.width, self.samples)
        return to_bytes(rgb), normals


def clips(group=None):
    """All clips, or those of one group."""
    if scenes.GENERATOR_VERSION != GENERATOR_VERSION:
        raise RuntimeError(f"evaluation set {EVALUATION_VERSION} was frozen with generator {GENERATOR_VERSION}, "
                           f"this is {scenes.GENERATOR_VERSION}")
    return [Clip(name, FIRST_SEED + 1000 * number + i, width, height, samples)
            for number, (name, width, height, count, samples) in enumerate(GROUPS) if group in (None, name)
            for i in range(count)]


def to_bytes(rgb):
    return np.floor(rgb * 255 + 0.5).astype(np.uint8)


# Measures. Vectors are arrays [...,3] of unit length.


def angles(a, b):
    """Degrees between unit vectors. From the half chord: exact for small angles too."""
    chord = np.linalg.norm(np.asarray(a, np.float32) - np.asarray(b, np.float32), axis=-1)
    return np.degrees(2 * np.arcsin((chord / 2).clip(0, 1)))


def flicker(normals):
    """Mean angle between consecutive frames' vectors at the same pixel, in degrees a frame."""
    return float(angles(normals[1:], normals[:-1]).mean())


def best_constant(normals):
    """The unit vector whose mean angle to all of them is least, nearly: Weiszfeld's iteration on the sphere."""
    flat = normals.reshape(-1, 3)
    flat = flat[::max(1, len(flat) // 200_000)].astype(np.float64)
    best = scenes.unit(flat.mean(0))
    for _ in range(30):
        weights = 1 / np.maximum(np.linalg.norm(flat - best, axis=1), 1e-3)
        best = scenes.unit((flat * weights[:, None]).sum(0))
    return best.astype(np.float32)


def summary(errors):
    """Of an array of degrees."""
    result = {"mean": float(np.mean(errors, dtype=np.float64)), "median": float(np.median(errors))}
    for threshold in THRESHOLDS:
        result[f"below {threshold:g}"] = float(100 * np.mean(errors < threshold))
    return result
