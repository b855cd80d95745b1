"""Trains the demo model from nothing, or goes on with it.

    python train.py --work DIR                        # from nothing, or from DIR/checkpoint.pt where there is one
    python train.py --work DIR --weights ../demo      # from published float16 weights, at the step they had
    python train.py --work DIR --anneal 2000          # the last steps: the rate falls to zero over 2000 steps

The rate is constant after a warm-up, so that training may stop and go on at any time; what is saved is the running
mean (EMA) of the weights, in DIR/model. New batches follow from the seed and the step's number. DIR/log.jsonl has the
curve (plot_curve.py draws it). Ctrl-C or SIGTERM saves and ends; whatever else ends it costs the steps since the last
checkpoint. One GPU is used where PyTorch finds one, else the CPU, in bfloat16 where it multiplies that: there each
worker is one thread that renders, runs and differentiates its own clips, which keeps no thread waiting for another but
once a step.
"""

import argparse
import collections
import concurrent.futures
import copy
import dataclasses
import json
import os
import pathlib
import signal
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch.nn.functional as F

import muon
import network
import scenes
from training_clips import Batch, Clips, Job, load_photos

WARM_UP = 60
CLIP_GRADIENT = 1.0
MEAN_STEPS = 500
LOG_EVERY = 10
# Lies beside the weights: how far the training is.
PROGRESS = "training.json"
# Counted in the process' own CPU seconds: a stopped process or a busy machine changes nothing.
CHECKPOINT_EVERY = 400.0
VALIDATE_EVERY = 2500.0

# What each worker trains on in a step: (weight, job), in three phases. Small pictures show the most scenes for the
# work, stills teach shape, and windows teach the path as it is; a few small ones keep it in view from the start.
SMALL = (
    (0.50, Job(64, 64, 1, 1, 9)), (0.25, Job(128, 128, 1, 1, 3)), (0.10, Job(192, 128, 1, 1, 2)),
    (0.15, Job(64, 64, 14, 4, 2)))
STILLS = (
    (0.50, Job(128, 128, 1, 1, 3)), (0.15, Job(192, 128, 1, 1, 2)), (0.10, Job(128, 192, 1, 1, 2)),
    (0.15, Job(256, 192, 1, 1, 1)), (0.10, Job(64, 64, 14, 4, 2)))
WINDOWS = (
    (0.13, Job(128, 128, 1, 1, 3)), (0.12, Job(192, 128, 1, 1, 2)), (0.04, Job(128, 192, 1, 1, 2)),
    (0.14, Job(256, 192, 1, 1, 1)), (0.08, Job(320, 192, 1, 1, 1)), (0.13, Job(128, 128, 14, 4, 1)),
    (0.17, Job(192, 128, 14, 4, 1)), (0.05, Job(128, 192, 14, 4, 1)), (0.14, Job(256, 192, 14, 4, 1)))
# In the third phase a share of the steps takes the coarse form: many stills, since they show more scenes for
# the work; and windows, which teach to see in one frame what another one shows.
COARSE = (
    (0.22, Job(128, 128, 1, 1, 8, True)), (0.24, Job(192, 128, 1, 1, 5, True)), (0.06, Job(128, 192, 1, 1, 5, True)),
    (0.20, Job(256, 192, 1, 1, 3, True)), (0.07, Job(320, 192, 1, 1, 2, True)), (0.06, Job(128, 128, 14, 12, 1, True)),
    (0.08, Job(192, 128, 14, 12, 1, True)), (0.02, Job(128, 192, 14, 12, 1, True)),
    (0.05, Job(256, 192, 14, 12, 1, True)))
# In so many coarse steps at first nothing but their head is trained: what it reads has been trained already.
HEAD_STEPS = 80
PADDED_SHARE = 0.25
# Of so many coarse steps the batches are kept, to be used again.
KEPT_STEPS = 128


def choose_job(seed, step, phases, coarse_share):
    """The job of a step, its picture made smaller in some, so that white bars fill it up."""
    r = np.random.default_rng([1, seed, step])
    table = SMALL if step < phases[0] else STILLS if step < phases[1] else WINDOWS
    if table is WINDOWS and np.random.default_rng([2, seed, step]).random() < coarse_share:
        table = COARSE
    weights = np.array([weight for weight, _ in table])
    job = table[r.choice(len(table), p=weights / weights.sum())][1]
    if job.width == 64 or r.random() >= PADDED_SHARE:
        return job
    width, height = job.width, job.height
    if r.random() < 0.6:
        width -= int(r.integers(1, 60))
    if r.random() < 0.6:
        height -= int(r.integers(1, 60))
    return dataclasses.replace(job, width=width, height=height)


# Loss.


def loss_parts(vectors, normals, chunk):
    """Vectors [B*c,3,h,w] as decoded, unit normals alike -> {name: scalar}.

    The mean angle is the aim: the chord between unit vectors is nearly that, smoothed near zero. What changes between
    consecutive frames has a term of its own, against flicker."""
    vectors = vectors.float()
    predicted = F.normalize(vectors, dim=1, eps=1e-3)
    parts = {"cosine": (1 - (predicted * normals).sum(1)).mean(), "chord": smooth_length(predicted - normals).mean(),
             "length": (vectors - normals).abs().mean()}
    if chunk > 1:
        change = lambda v: v.unflatten(0, (-1, chunk)).diff(dim=1)
        parts["change"] = smooth_length(change(predicted) - change(normals), dim=2).mean()
    return parts


def smooth_length(v, dim=1, softness=0.05):
    return (v.square().sum(dim) + softness**2).sqrt() - softness


LOSS_WEIGHTS = {"cosine": 0.5, "chord": 0.5, "length": 0.2, "change": 0.8}


# Validation: few clips, for the curve; the evaluation set is evaluation.py's.

VALIDATION_SEED = 6_000_000
VALIDATION_SIZES = ((128, 128), (192, 128), (256, 192), (320, 192), (200, 150))
VALIDATION_CLIPS = 4


def angles(predicted, normals):
    return torch.rad2deg(2 * torch.asin((predicted - normals).norm(dim=1).div(2).clamp(0, 1)))


class Validation:
    def __init__(self):
        self.groups = {}
        for number, (width, height) in enumerate(VALIDATION_SIZES):
            seeds = range(VALIDATION_SEED + 100 * number, VALIDATION_SEED + 100 * number + VALIDATION_CLIPS)
            clips = [scenes.make_clip(seed, network.WINDOW, height, width) for seed in seeds]
            self.groups[f"{width}x{height}"] = [[torch.from_numpy(v).permute(0, 3, 1, 2).contiguous() for v in clip]
                                                for clip in clips]

    @torch.no_grad()
    def __call__(self, model, device, autocast):
        """{size: (mean error in degrees, flicker beyond the truth)}"""
        result = {}
        for size, clips in self.groups.items():
            errors, flickers = [], []
            for rgb, normals in clips:
                with autocast():
                    vectors = model(network.pad(rgb).to(device), 1, chunk=(0, 4)).float().cpu()
                predicted = F.normalize(network.crop(vectors, *rgb.shape[2:]).clamp(-1, 1), dim=1, eps=1e-6)
                errors.append(angles(predicted, normals[:4]).mean().item())
                flickers.append((angles(predicted[1:], predicted[:-1]).mean()
                                 - angles(normals[1:4], normals[:3]).mean()).item())
            result[size] = (round(float(np.mean(errors)), 2), round(float(np.mean(flickers)), 2))
        return result


def multiplies_bfloat16(device):
    """Elsewhere a CPU takes many times as long for bfloat16 as for float32."""
    flags = pathlib.Path("/proc/cpuinfo")
    return device.type == "cuda" or flags.exists() and bool(
        {"avx512_bf16", "amx_bf16", "bf16"} & set(flags.read_text().split()))


@dataclasses.dataclass
class Prepared:
    """One worker's batch, on the device. quarter: what the encoder's frozen layers make of it, in the coarse form."""
    batch: Batch
    quarter: torch.Tensor | None


class Kept:
    """Coarse steps' batches, to be used again: rendering them and the frozen layers are half of a step's work.

    Each is used `uses` times in the mean, many steps apart. Clear it when the frozen layers change."""

    def __init__(self, uses):
        self.uses, self.steps = uses, collections.deque(maxlen=KEPT_STEPS)

    def draw(self, r):
        """The batches of an earlier step, or None: it is time for new ones."""
        if r.random() >= (1 - 1 / self.uses) * len(self.steps) / KEPT_STEPS:
            return None
        return self.steps[r.integers(len(self.steps))]


class Trainer:
    def __init__(self, options):
        self.options, self.work = options, pathlib.Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(options.seed)
        network.use_fast_forms()
        self.model = network.DemoModel()
        self.has_bfloat16 = multiplies_bfloat16(self.device)
        self.step, self.frames, self.cpu_before, self.anneal_from, self.head_steps = 0, 0, 0.0, None, 0
        if options.weights:
            network.load_weights(self.model, options.weights)
            self.set_progress(json.loads((pathlib.Path(options.weights) / PROGRESS).read_text()))
        self.model.to(self.device)
        self.ema = copy.deepcopy(self.model).requires_grad_(False)
        self.workers = concurrent.futures.ThreadPoolExecutor(
            options.workers, initializer=lambda: torch.set_num_threads(1))
        self.optimizers = muon.Optimizers(self.model, options.rate, options.adamw_factor, self.workers.map)
        self.first_step = self.step
        self.resume()
        if not options.anneal:
            self.anneal_from = None
        elif self.anneal_from is None:
            self.anneal_from = self.step
        self.clips = Clips(options.seed, load_photos(options.photos) if options.photos else None)
        self.kept = Kept(options.uses)
        self.stop = False

    # State.

    def resume(self):
        path = self.work / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])
        self.optimizers.load_state_dict(state["optimizers"])
        self.anneal_from, self.head_steps = state["anneal_from"], state["head_steps"]
        self.set_progress(state["progress"])

    def save(self):
        state = dict(model=self.model.state_dict(), ema=self.ema.state_dict(), optimizers=self.optimizers.state_dict(),
                     anneal_from=self.anneal_from, head_steps=self.head_steps, progress=self.progress())
        torch.save(state, self.work / "checkpoint.part")
        (self.work / "checkpoint.part").replace(self.work / "checkpoint.pt")
        network.save(self.ema, self.work / "model")
        (self.work / "model" / PROGRESS).write_text(json.dumps(self.progress(), indent=2) + "\n")

    def progress(self):
        """How far the training is; goes with the weights, so that it can go on from them alone."""
        return {"steps": self.step, "frames": self.frames, "cpu_seconds": round(self.cpu_seconds())}

    def set_progress(self, progress):
        self.step, self.frames, self.cpu_before = progress["steps"], progress["frames"], float(progress["cpu_seconds"])

    def cpu_seconds(self):
        return self.cpu_before + time.process_time()

    def log(self, **entry):
        line = json.dumps({"step": self.step, "cpu": round(self.cpu_seconds()), **entry})
        print(line, flush=True)
        with open(self.work / "log.jsonl", "a") as file:
            file.write(line + "\n")

    # Steps.

    def autocast(self):
        # No cache: it is shared by the threads, and each weight is used once.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.has_bfloat16, cache_enabled=False)

    def still_to_anneal(self):
        """1 before, 0 at the end"""
        if self.anneal_from is None:
            return 1.0
        return max(0.0, 1 - (self.step - self.anneal_from) / self.options.anneal)

    def rate(self):
        return self.options.rate * min(1.0, (self.step - self.first_step + 1) / WARM_UP) * self.still_to_anneal()

    def coarse_share(self):
        """Falls with the last quarter of the rate: at the end all layers are trained together."""
        return self.options.coarse * min(1.0, 4 * self.still_to_anneal())

    def prepare(self, job, worker):
        batch = self.clips.batch(self.step, worker, job)
        batch.frames, batch.normals = batch.frames.to(self.device), batch.normals.to(self.device)
        with self.autocast():
            return Prepared(batch, self.model.encode_frozen(batch.frames) if job.is_coarse else None)

    def gradients(self, prepared):
        """(parts of the loss, gradients of all parameters) of one worker's clips."""
        batch, job = prepared.batch, prepared.batch.job
        with self.autocast():
            if job.is_coarse:
                vectors = self.model.forward_coarse(batch.frames, prepared.quarter, job.clips, batch.chunk,
                                                    self.head_steps < HEAD_STEPS)
            else:
                vectors = self.model(batch.frames, job.clips, batch.chunk)
        parts = loss_parts(network.crop(vectors, job.height, job.width), batch.normals, job.chunk)
        loss = sum(LOSS_WEIGHTS[name] * part for name, part in parts.items())
        gradients = torch.autograd.grad(loss, list(self.model.parameters()), allow_unused=True)
        return {name: part.item() for name, part in parts.items()}, gradients

    def batches(self):
        """What each worker trains on in this step."""
        job = choose_job(self.options.seed, self.step, self.options.phases, self.coarse_share())
        again = self.kept.draw(np.random.default_rng([3, self.options.seed, self.step])) if job.is_coarse else None
        if again:
            return again
        new = list(self.workers.map(lambda worker: self.prepare(job, worker), range(self.options.workers)))
        if job.is_coarse:
            self.kept.steps.append(new)
        else:
            self.kept.steps.clear()
        return new

    def train_step(self):
        """One update. Returns the parts of the loss, and the gradient's norm."""
        batches = self.batches()
        job = batches[0].batch.job
        results = list(self.workers.map(self.gradients, batches))
        for parameter, *gradients in zip(self.model.parameters(), *(gradients for _, gradients in results)):
            parameter.grad = None if gradients[0] is None else sum(gradients) / len(gradients)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_GRADIENT)
        if torch.isfinite(norm):
            self.optimizers.set_rate(self.rate())
            self.optimizers.step()
            self.update_ema()
        self.step += 1
        self.head_steps += job.is_coarse
        self.frames += self.options.workers * job.clips * job.chunk
        means = {name: float(np.mean([parts[name] for parts, _ in results])) for name in results[0][0]}
        return {**means, "gradient": norm.item()}

    @torch.no_grad()
    def update_ema(self):
        # The falling rate is a mean too: at its end the weights of hundreds of steps before are worse than the last.
        horizon = max(MEAN_STEPS * self.still_to_anneal(), 1)
        decay = min(1 - 1 / horizon, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(list(self.ema.parameters()), list(self.model.parameters()), 1 - decay)

    def is_finished(self):
        options = self.options
        if self.anneal_from is not None:
            return self.step >= self.anneal_from + options.anneal
        return options.steps is not None and self.step >= options.steps

    def run(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.on_signal)
        validation = Validation()
        recent, checkpoint_at, validate_at = [], self.cpu_seconds(), self.cpu_seconds()
        while not self.stop and not self.is_finished():
            recent.append(self.train_step())
            if self.step % LOG_EVERY == 0:
                names = {name for entry in recent for name in entry}
                means = {n: round(float(np.nanmean([e.get(n, np.nan) for e in recent])), 4) for n in sorted(names)}
                self.log(rate=self.rate(), frames=self.frames, **means)
                recent = []
            if self.cpu_seconds() - checkpoint_at > CHECKPOINT_EVERY:
                self.save()
                checkpoint_at = self.cpu_seconds()
            if self.cpu_seconds() - validate_at > VALIDATE_EVERY:
                self.log(validation=validation(self.ema, self.device, self.autocast))
                validate_at = self.cpu_seconds()
        self.save()
        if not self.stop:
            self.log(validation=validation(self.ema, self.device, self.autocast))

    def on_signal(self, *_):
        self.stop = True


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, metavar="DIR", help="checkpoint, log and model go here")
    parser.add_argument("--weights", metavar="DIR", help="model directory to start from when there is no checkpoint")
    parser.add_argument("--photos", nargs="+", metavar="DIR", help="pictures (png, jpg) for some surfaces' textures")
    parser.add_argument("--steps", type=int, help="stop after so many steps in all (default: only when told)")
    parser.add_argument("--anneal", type=int, metavar="STEPS", help="let the rate fall to zero, then stop")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate (%(default)s)")
    parser.add_argument("--adamw-factor", type=float, default=0.5, help="AdamW's part of it (%(default)s)")
    parser.add_argument("--phases", type=int, nargs=2, default=(600, 1100), metavar="STEP",
                        help="first step with stills of full size, and with windows (%(default)s)")
    parser.add_argument("--coarse", type=float, default=1, metavar="SHARE",
                        help="share of the third phase's steps in the coarse form (%(default)s)")
    parser.add_argument("--uses", type=float, default=4, metavar="COUNT",
                        help="how often a coarse step's batch is used; full steps between end that (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="threads; each has its clips in a step (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    Trainer(options).run()


if __name__ == "__main__":
    main()
