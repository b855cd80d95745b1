"""The offline reference: a whole clip through diffusers' and transformers' networks, stage by stage.

Follows the numerical contract of the engine in float64 (float32 and bfloat16 too, to measure their own error and to
compare speed). Everything that the libraries offer is theirs; what differs from stock Stable Video Diffusion is here:
one CLIP embedding per frame, normal latents that start at zero, seeded and crossfaded windows, one Euler step, the
chunks. Tensors stay contiguous NCHW: PyTorch's CPU group norm loses accuracy on channels-last data.

Sinusoidal embeddings (time step, added ids, frame positions) are computed in float32 and then cast, in every dtype:
diffusers' get_timestep_embedding does so.

    python pipeline.py --model DIRECTORY --input clip.npy --output normals.npy
"""

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler, UNetSpatioTemporalConditionModel
from diffusers.pipelines.stable_video_diffusion.pipeline_stable_video_diffusion import _resize_with_antialiasing
from safetensors.torch import load_file
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

PADDING_MULTIPLE = 64
ADDED_TIME_IDS = (7.0, 127.0, 0.0)  # fps, motion bucket, noise augmentation
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Options:
    window_size: int = 14
    step_size: int = 10
    clip_chunk_size: int = 16
    vae_encode_chunk_size: int = 7
    vae_decode_chunk_size: int = 4
    max_resolution: int = 1024
    output_size: str = "original"  # or "processed"
    tail_mode: str = "anchored"  # or "repeat"
    clip_resize: str = "seed"  # or "original"


# Windows and batches: pure arithmetic.


def padded_length(frames, window, step, tail_mode):
    """Frames that go through the encoders and the UNet: the last real one repeated up to this number."""
    if tail_mode == "anchored" or frames <= window:
        return max(frames, window)
    return window + -(-(frames - window) // step) * step


def window_starts(length, window, step):
    """Starts of the windows over `length` frames; the last one ends at the last frame."""
    starts = list(range(0, length - window + 1, step))
    if starts[-1] != length - window:
        starts.append(length - window)
    return starts


def encode_batches(starts, window, chunk):
    """[first, last) of each batch of an encoder: at most `chunk` frames, counted anew after each window's end."""
    batches, begin = [], 0
    for start in starts:
        end = start + window
        batches += [(a, min(a + chunk, end)) for a in range(begin, end, chunk)]
        begin = end
    return batches


# Pictures.


def processed_size(height, width, max_resolution):
    scale = min(1.0, max_resolution / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def padding(height, width):
    """(top, bottom, left, right)"""
    down, right = -height % PADDING_MULTIPLE, -width % PADDING_MULTIPLE
    return down // 2, down - down // 2, right // 2, right - right // 2


def resize_antialiased(x, size):
    """Bicubic, antialiased. PyTorch 2.13 on the CPU fills a column that is one pixel wide with its first value: such
    an image is turned on its side, which is the same computation."""
    turn = size[1] == 1
    x = x.transpose(2, 3).contiguous() if turn else x
    x = F.interpolate(x, size[::-1] if turn else size, mode="bicubic", align_corners=False, antialias=True)
    return x.transpose(2, 3).contiguous() if turn else x


def prepare_frames(clip, max_resolution, dtype):
    """uint8 or uint16 [F,H,W,3] -> padded [F,3,h,w] of `dtype` in [0,1]."""
    x = torch.from_numpy(clip.astype(np.float64) / np.iinfo(clip.dtype).max).to(dtype)
    x = x.permute(0, 3, 1, 2).contiguous()
    size = processed_size(x.shape[2], x.shape[3], max_resolution)
    if size != tuple(x.shape[2:]):
        x = resize_antialiased(x, size).clamp(0, 1)
    top, bottom, left, right = padding(*size)
    return F.pad(x, (left, right, top, bottom), value=1.0)


def finish_vectors(vectors, processed, output):
    """Decoded [F,3,h,w], padded -> [F,H,W,3] in [-1,1], not renormalised."""
    top, _, left, _ = padding(*processed)
    vectors = vectors[:, :, top:top + processed[0], left:left + processed[1]].contiguous()
    if output != processed:
        vectors = F.interpolate(vectors, output, mode="bilinear", align_corners=False, antialias=False)
    return vectors.clamp(-1, 1).permute(0, 2, 3, 1).contiguous()


def renormalize(vectors):
    """NumPy array [...,3]: unit vectors, tiny ones left short."""
    length = np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True))
    return vectors / np.maximum(length, 1e-6)


def to_codes(vectors, bits):
    """NumPy array in [-1,1] -> unsigned integers, to the nearest."""
    top = 2**bits - 1
    return np.floor((vectors * 0.5 + 0.5) * top + 0.5).clip(0, top).astype(np.uint8 if bits == 8 else np.uint16)


# The model.


class Reference:
    """The three networks, the scheduler and the constants of one model directory, in one dtype."""

    def __init__(self, directory, dtype=torch.float64, base_directory=None):
        self.dtype = dtype
        # Pictures keep float32 where the networks are narrower, as the engine does.
        self.picture_dtype = torch.float64 if dtype == torch.float64 else torch.float32
        where = lambda part: _component(part, directory, base_directory)
        self.unet = _load(UNetSpatioTemporalConditionModel.from_config, where("unet"), dtype)
        self.vae = _load(AutoencoderKLTemporalDecoder.from_config, where("vae"), dtype)
        self.image_encoder = _load(_clip_from_config, where("image_encoder"), dtype)
        self.scheduler = EulerDiscreteScheduler.from_config(_read_json(where("scheduler") / "scheduler_config.json"))
        preprocessor = _read_json(where("feature_extractor") / "preprocessor_config.json")
        self.mean, self.std = (torch.tensor(preprocessor[k], dtype=self.picture_dtype).view(1, 3, 1, 1)
                               for k in ("image_mean", "image_std"))
        self.image_size = self.image_encoder.config.image_size

    def embed(self, frames, clip_resize="seed"):
        """[n,3,H,W] in [0,1] -> [n,1,D]"""
        size = (self.image_size, self.image_size)
        if clip_resize == "original":
            x = (_resize_with_antialiasing(frames * 2 - 1, size) + 1) / 2
        else:
            x = F.interpolate(frames, size, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
        x = ((x - self.mean) / self.std).to(self.dtype)
        return self.image_encoder(pixel_values=x).image_embeds[:, None]

    def encode(self, frames):
        """[n,3,H,W] in [0,1] -> latents [n,c,h,w], not multiplied by the scaling factor"""
        return self.vae.encode((frames * 2 - 1).to(self.dtype)).latent_dist.mode()

    def decode(self, latents):
        """One chunk of normal latents [n,c,h,w] -> vectors [n,3,H,W]"""
        scaled = latents / self.vae.config.scaling_factor
        return self.vae.decode(scaled, num_frames=len(latents)).sample.to(self.picture_dtype)

    def time_embedding(self, frames):
        """The UNet's embedding of time step and added ids, [frames, E]: the same for every frame."""
        unet = self.unet
        self.scheduler.set_timesteps(1)
        embedding = unet.time_embedding(unet.time_proj(self.scheduler.timesteps[:1]).to(self.dtype))
        added = unet.add_time_proj(torch.tensor(ADDED_TIME_IDS)).reshape(1, -1).to(self.dtype)
        return (embedding + unet.add_embedding(added)).expand(frames, -1)

    def denoise(self, sample, context):
        """The UNet's forward pass over one window. sample [T,C,h,w], context [T,1,D] -> [T,c,h,w].

        diffusers' own forward takes one context for the whole clip, its blocks take one a frame. From these the
        temporal cross attention picks the first frame's (TransformerSpatioTemporalModel.forward)."""
        unet, frames = self.unet, len(sample)
        common = dict(temb=self.time_embedding(frames), image_only_indicator=sample.new_zeros(1, frames))
        hidden = unet.conv_in(sample)
        skips = [hidden]
        for block in unet.down_blocks:
            hidden, produced = block(hidden_states=hidden, **common, **_context_for(block, context))
            skips += produced
        hidden = unet.mid_block(hidden_states=hidden, **common, **_context_for(unet.mid_block, context))
        for block in unet.up_blocks:
            taken = tuple(skips[-len(block.resnets):])
            del skips[-len(block.resnets):]
            hidden = block(hidden_states=hidden, res_hidden_states_tuple=taken, **common,
                           **_context_for(block, context))
        return unet.conv_out(unet.conv_act(unet.conv_norm_out(hidden)))

    def predict(self, normals, latents, context):
        """One Euler step over one window; normals [T,c,h,w] is the seed."""
        self.scheduler.set_timesteps(1)
        timestep = self.scheduler.timesteps[0]
        sample = torch.cat([self.scheduler.scale_model_input(normals, timestep), latents], dim=1)
        velocity = self.denoise(sample, context)
        if self.dtype == torch.float64:
            return euler_step(velocity, normals, float(self.scheduler.sigmas[0]))
        return self.scheduler.step(velocity, timestep, normals).prev_sample


def euler_step(velocity, sample, sigma):
    """EulerDiscreteScheduler.step for v prediction and one step to sigma 0, without its cut to float32."""
    return velocity * (-sigma / (sigma**2 + 1) ** 0.5) + sample / (sigma**2 + 1)


def _context_for(block, context):
    return dict(encoder_hidden_states=context) if getattr(block, "has_cross_attention", False) else {}


def _component(part, directory, base_directory):
    for root in filter(None, (directory, base_directory)):
        if (pathlib.Path(root) / part).is_dir():
            return pathlib.Path(root) / part
    raise FileNotFoundError(f"{part}/ is neither in {directory} nor in {base_directory}")


def _read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def _clip_from_config(values):
    return CLIPVisionModelWithProjection._from_config(CLIPVisionConfig(**values), attn_implementation="sdpa")


def _load(build, folder, dtype):
    """The network of a component's folder. The files stay mapped where they have `dtype` already."""
    with torch.device("meta"):
        network = build(_read_json(folder / "config.json"))
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    tensors.pop("vision_model.embeddings.position_ids", None)  # in older CLIP files
    network.load_state_dict({k: v.to(dtype) for k, v in tensors.items()}, assign=True)
    for module in network.modules():  # the one buffer that no file has
        if hasattr(module, "position_ids"):
            module.position_ids = torch.arange(module.num_positions)[None]
    return network.eval().requires_grad_(False)


# The clip.


class Profile:
    """Seconds a stage."""

    def __init__(self):
        self.seconds = {}

    def measure(self, stage, function, *arguments):
        begin = time.perf_counter()
        result = function(*arguments)
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begin
        return result


@torch.inference_mode()
def run(model, clip, options=Options(), profile=None):
    """uint8 or uint16 [F,H,W,3] -> vectors [F,H',W',3] in [-1,1], not renormalised (float64, else float32)."""
    o, profile = options, profile or Profile()
    count, height, width = clip.shape[:3]
    length = padded_length(count, o.window_size, o.step_size, o.tail_mode)
    starts = window_starts(length, o.window_size, o.step_size)
    frames = profile.measure("prepare", prepare_frames, clip, o.max_resolution, model.picture_dtype)
    frames = torch.cat([frames, frames[-1:].expand(length - count, -1, -1, -1)])

    contexts = torch.cat([profile.measure("clip", model.embed, frames[a:b], o.clip_resize)
                          for a, b in encode_batches(starts, o.window_size, o.clip_chunk_size)])
    latents = torch.cat([profile.measure("encode", model.encode, frames[a:b])
                         for a, b in encode_batches(starts, o.window_size, o.vae_encode_chunk_size)])
    del frames
    normals = profile.measure("unet", _predict_clip, model, starts, o.window_size, latents, contexts)[:count]
    vectors = torch.cat([profile.measure("decode", model.decode, normals[a:a + o.vae_decode_chunk_size])
                         for a in range(0, count, o.vae_decode_chunk_size)])
    processed = processed_size(height, width, o.max_resolution)
    output = (height, width) if o.output_size == "original" else processed
    return profile.measure("finish", finish_vectors, vectors, processed, output).numpy()


def _predict_clip(model, starts, window, latents, contexts):
    """All windows in order: seed, step, crossfade."""
    normals = torch.zeros_like(latents)
    end = 0  # of what the windows before have predicted
    for start in starts:
        overlap, inside = end - start if end else 0, slice(start, start + window)
        predicted = model.predict(normals[inside].clone(), latents[inside], contexts[inside])
        if overlap > 0:
            weight = torch.linspace(1, 0, overlap + 2, dtype=model.dtype)[1:-1].view(-1, 1, 1, 1)
            predicted[:overlap] = normals[start:end] * weight + predicted[:overlap] * (1 - weight)
        normals[inside] = predicted
        end = start + window
    return normals


# Command line.


def add_options(parser):
    parser.add_argument("--window", dest="window_size", type=int, default=14)
    parser.add_argument("--step", dest="step_size", type=int, default=10)
    parser.add_argument("--clip-chunk", dest="clip_chunk_size", type=int, default=16)
    parser.add_argument("--encode-chunk", dest="vae_encode_chunk_size", type=int, default=7)
    parser.add_argument("--decode-chunk", dest="vae_decode_chunk_size", type=int, default=4)
    parser.add_argument("--max-resolution", type=int, default=1024)
    parser.add_argument("--output-size", choices=("original", "processed"), default="original")
    parser.add_argument("--tail-mode", choices=("anchored", "repeat"), default="anchored")
    parser.add_argument("--clip-resize", choices=("seed", "original"), default="seed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-model", help="where a component missing from --model is taken from")
    parser.add_argument("--input", required=True, help=".npy, uint8 or uint16 [F,H,W,3]")
    parser.add_argument("--output", required=True, help=".npy, [F,H,W,3]")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--format", choices=("float", "f32", "u8", "u16"), default="float",
                        help="float: vectors in [-1,1] as computed; f32: these in float32; u8, u16: mapped to codes")
    parser.add_argument("--no-renormalize", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--profile", action="store_true", help="print seconds per stage and peak memory")
    add_options(parser)
    o = parser.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    options = Options(**{f.name: getattr(o, f.name) for f in dataclasses.fields(Options)})
    profile = Profile()
    model = profile.measure("load", Reference, o.model, DTYPES[o.dtype], o.base_model)
    vectors = run(model, np.load(o.input), options, profile)
    if not o.no_renormalize:
        vectors = renormalize(vectors)
    formats = {"float": lambda v: v, "f32": lambda v: v.astype(np.float32),
               "u8": lambda v: to_codes(v, 8), "u16": lambda v: to_codes(v, 16)}
    np.save(o.output, formats[o.format](vectors))
    if o.profile:
        for stage, seconds in profile.seconds.items():
            print(f"{stage:8s} {seconds:8.2f} s", file=sys.stderr)
        print(f"{'total':8s} {sum(profile.seconds.values()):8.2f} s, peak resident memory "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB", file=sys.stderr)


if __name__ == "__main__":
    main()
