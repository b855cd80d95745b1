"""What is trained on: batches that follow from (seed, step), every clip fresh.

PLAIN_SHARE of the clips are as scenes.py makes them. The others have photographs on some surfaces, more lights, noisy
cells, a camera's noise and blur; a few are static or of one blank colour, whose normals are taken to face the viewer.
"""

import dataclasses
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import network
import raycast as rc
import scenes

# First part of every seed: no plain integer, as the evaluation's are, gives the same stream of numbers.
TRAINING_TAG = 0x7261696E
PLAIN_SHARE = 0.74
STATIC_SHARE = 0.25  # of windows
COVERED_SHARE = 0.4  # of windows
LONGEST_COVER = 6  # frames
BLANK_SHARE = 0.01
SUPERSAMPLED_SHARE = 0.25
LATEST_START = 60
PHOTO_SIZE = 256


@dataclasses.dataclass(frozen=True)
class Job:
    """The shape of a worker's batch: `clips` windows of `frames` frames, of which `chunk` are decoded and trained on;
    by all layers, or in the coarse form (network.DemoModel.forward_coarse)."""
    width: int
    height: int
    frames: int
    chunk: int
    clips: int
    is_coarse: bool = False


@dataclasses.dataclass
class Batch:
    frames: torch.Tensor  # [B*T,3,h,w] in [0,1], with white bars
    normals: torch.Tensor  # [B*c,3,H,W] unit vectors of the chunk, without the bars
    chunk: tuple  # (first, last) frame of the chunk
    job: Job


def load_photos(directories):
    """[n, 256, 256, 3] uint8: squares cut from the pictures below these directories."""
    from PIL import Image, ImageOps
    squares = []
    for path in sorted(path for directory in directories for path in pathlib.Path(directory).rglob("*")):
        if path.suffix.lower() in (".png", ".jpg", ".jpeg"):
            with Image.open(path) as picture:
                squares.append(np.asarray(ImageOps.fit(picture.convert("RGB"), (PHOTO_SIZE, PHOTO_SIZE))))
    if not squares:
        raise ValueError(f"no pictures below {' '.join(map(str, directories))}")
    return np.stack(squares)


def enrich(scene, r, photos):
    """Changes a scene so that it has what plain ones lack."""
    if photos is not None and r.random() < 0.6:
        scene.photos = photos
        for row in scene.textures:
            if r.random() < 0.5:
                row[rc.T_KIND], row[rc.IMAGE] = rc.PHOTO, r.integers(len(photos))
                row[rc.FREQUENCY] *= 0.25
    if r.random() < 0.3:
        for row in scene.textures:
            if row[rc.T_KIND] != rc.PHOTO and r.random() < 0.4:
                row[rc.T_KIND] = rc.CELLS
    if r.random() < 0.5:
        half = scene.room[rc.HALF:rc.HALF + 3]
        others = [[*(r.uniform(-.9, .9, 3) * half), 1.0, r.uniform(0.2, 0.8)] for _ in range(r.integers(1, 3))]
        scene.lights = np.concatenate([scene.lights, others])
        scene.lights[:, rc.STRENGTH] /= scene.lights[:, rc.STRENGTH].sum()**0.7


def through_camera(rgb, r):
    """Blur, noise, colour and contrast of a camera. rgb [T,H,W,3]"""
    if r.random() < 0.4:
        share = r.uniform(0.2, 1)
        x = torch.from_numpy(rgb).permute(0, 3, 1, 2)
        blurred = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1).permute(0, 2, 3, 1).numpy()
        rgb = (1 - share) * rgb + share * blurred
    rgb = (rgb * r.uniform(0.85, 1.15, 3) * r.uniform(0.7, 1.25)).clip(0, 1)**r.uniform(0.8, 1.25)
    if r.random() < 0.5:
        rgb = rgb + r.normal(size=rgb.shape) * r.uniform(0, 0.03)
    return rgb.clip(0, 1)


def blank_clip(job, r):
    colour = r.choice([0.0, 1.0]) if r.random() < 0.4 else r.random(3)
    shape = (job.frames, job.height, job.width, 3)
    normals = np.zeros(shape, np.float32)
    normals[..., 2] = 1
    return np.broadcast_to(colour, shape), normals


def cover_part(rgb, r):
    """One colour over a rectangle of some consecutive frames: what it hides, the other frames show. rgb [T,H,W,3]

    Many frames show little by themselves, as where the camera has come near a wall; this teaches to look at the
    others. Errors of windows were as large as those of single frames without it."""
    count, height, width = rgb.shape[:3]
    first = int(r.integers(count))
    frames = slice(first, first + 1 + int(r.integers(LONGEST_COVER)))
    rows, columns = (slice(max(0, a), a + n) for a, n in (place_cover(height, r), place_cover(width, r)))
    rgb = rgb.copy()
    hidden = rgb[frames, rows, columns]
    hidden[...] = hidden[0].mean((0, 1)) if r.random() < 0.5 else r.random(3)
    return rgb


def place_cover(side, r):
    """(start, length) of a part of a side; it may begin before the picture and end behind it."""
    length = int(side * r.uniform(0.4, 1.5))
    return int(r.integers(-length // 2, side - length // 2)), length


def make_training_clip(job, r, photos):
    """(rgb, normals), [T,H,W,3]"""
    if r.random() < BLANK_SHARE:
        return blank_clip(job, r)
    is_plain = r.random() < PLAIN_SHARE
    is_static = job.frames > 1 and r.random() < STATIC_SHARE
    samples = 2 if r.random() < SUPERSAMPLED_SHARE else 1
    start = r.integers(LATEST_START)
    scene = scenes.sample_scene(r)
    if not is_plain:
        enrich(scene, r, photos)
    times = [start] if is_static else start + np.arange(job.frames)
    rgb, normals = scenes.render_clip(scene, times, job.height, job.width, samples)
    if is_static:
        rgb, normals = (np.repeat(v, job.frames, 0) for v in (rgb, normals))
    if job.frames > 1 and r.random() < COVERED_SHARE:
        rgb = cover_part(rgb, r)
    return (rgb if is_plain else through_camera(rgb, r)), normals


def to_tensor(arrays):
    """[T,H,W,3] each -> [B*T,3,H,W]"""
    return torch.from_numpy(np.concatenate(arrays).astype(np.float32)).permute(0, 3, 1, 2).contiguous()


class Clips:
    def __init__(self, seed, photos=None):
        self.seed, self.photos = seed, photos

    def batch(self, step, worker, job):
        """One worker's batch of a step."""
        r = np.random.default_rng([TRAINING_TAG, self.seed, step, worker])
        first = int(r.integers(job.frames - job.chunk + 1))
        clips = [make_training_clip(job, r, self.photos) for _ in range(job.clips)]
        chunk = (first, first + job.chunk)
        return Batch(network.pad(to_tensor([c[0] for c in clips])),
                     to_tensor([c[1][chunk[0]:chunk[1]] for c in clips]), chunk, job)
