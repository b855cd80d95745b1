"""The demo model: Stable Video Diffusion's architecture in small, built, run and saved in the published layout.

The path is the element's, so that the loss is that of inference: every frame is encoded by VAE and CLIP, the UNet
sees [zeros, latents] of one window, a single Euler step from sigma 700 makes normal latents of its output, and the
VAE decodes these in chunks. Frames of a batch come as [B*T, ...], clip after clip.

Some modules are run in a cheaper, equal way (see `use_fast_forms`): the weights are diffusers' and load there.
"""

import copy
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler, UNetSpatioTemporalConditionModel
from diffusers.models.attention_processor import Attention
from diffusers.models.resnet import ResnetBlock2D, SpatioTemporalResBlock
from diffusers.models.transformers.transformer_temporal import TransformerSpatioTemporalModel
from safetensors.torch import load_file
from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

LATENT_CHANNELS = 16
WINDOW = 14
DECODE_CHUNK = 4
PADDING_MULTIPLE = 64
ADDED_TIME_IDS = (7.0, 127.0, 0.0)  # fps, motion bucket, noise augmentation
COARSE_BLOCKS = 1  # of the decoder: what they make has a quarter of the picture's size
FROZEN_BLOCKS = 2  # of the encoder: those at full and at half size
SCALING_FACTOR = 0.18215

UNET = dict(
    sample_size=96, in_channels=2 * LATENT_CHANNELS, out_channels=LATENT_CHANNELS, num_frames=25,
    block_out_channels=(64, 96, 64), num_attention_heads=(2, 3, 2), layers_per_block=1,
    down_block_types=("CrossAttnDownBlockSpatioTemporal",) * 2 + ("DownBlockSpatioTemporal",),
    up_block_types=("UpBlockSpatioTemporal",) + ("CrossAttnUpBlockSpatioTemporal",) * 2,
    cross_attention_dim=32, addition_time_embed_dim=32, projection_class_embeddings_input_dim=96)
# 64 channels even at full size: the norms have 32 groups, and a group of one channel would lose its mean.
VAE = dict(
    in_channels=3, out_channels=3, latent_channels=LATENT_CHANNELS, sample_size=768, scaling_factor=SCALING_FACTOR,
    force_upcast=True, block_out_channels=(64, 64, 64, 96), layers_per_block=1,
    down_block_types=("DownEncoderBlock2D",) * 4)
IMAGE_ENCODER = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=1, image_size=224, patch_size=32,
    projection_dim=32, hidden_act="gelu", layer_norm_eps=1e-5)
SCHEDULER = dict(
    beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", interpolation_type="linear",
    num_train_timesteps=1000, prediction_type="v_prediction", sigma_min=0.002, sigma_max=700.0, steps_offset=1,
    timestep_spacing="leading", timestep_type="continuous", use_karras_sigmas=True)
IMAGE_MEAN, IMAGE_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
MODEL_INDEX = {
    "_class_name": "NormalCrafterPipeline", "feature_extractor": ["transformers", "CLIPImageProcessor"],
    "image_encoder": ["transformers", "CLIPVisionModelWithProjection"],
    "scheduler": ["diffusers", "EulerDiscreteScheduler"],
    "unet": ["diffusers", "UNetSpatioTemporalConditionModel"], "vae": ["diffusers", "AutoencoderKLTemporalDecoder"]}
# What the vectors that the model is trained on mean: x right, y up, z towards the viewer.
CONVENTION = {"axes": "opengl"}
PARTS = (("unet", "unet", "diffusion_pytorch_model"), ("vae", "vae", "diffusion_pytorch_model"),
         ("image_encoder", "image_encoder", "model"))


class DemoModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.unet = UNetSpatioTemporalConditionModel(**UNET)
        self.vae = AutoencoderKLTemporalDecoder(**VAE)
        self.image_encoder = CLIPVisionModelWithProjection(CLIPVisionConfig(**IMAGE_ENCODER))
        self.coarse_head = make_coarse_head()
        scheduler = EulerDiscreteScheduler(**SCHEDULER)
        scheduler.set_timesteps(1)
        sigma = float(scheduler.sigmas[0])
        self.step_factor = -sigma / math.sqrt(sigma**2 + 1)
        start_without_time(self)
        self.register_buffer("timestep", scheduler.timesteps[:1].float(), persistent=False)
        self.register_buffer("added_ids", torch.tensor(ADDED_TIME_IDS), persistent=False)
        self.register_buffer("mean", torch.tensor(IMAGE_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGE_STD).view(1, 3, 1, 1), persistent=False)

    def embed(self, frames):
        """[n,3,H,W] in [0,1] -> [n,1,D]"""
        size = (IMAGE_ENCODER["image_size"],) * 2
        x = F.interpolate(frames.float().contiguous(), size, mode="bicubic", align_corners=False, antialias=True)
        return self.image_encoder(pixel_values=(x.clamp(0, 1) - self.mean) / self.std).image_embeds[:, None]

    def encode(self, frames):
        """[n,3,H,W] in [0,1] -> latents [n,c,h,w], not multiplied by the scaling factor"""
        return self.vae.encode(frames * 2 - 1).latent_dist.mode()

    def denoise(self, latents, context, clips):
        """RGB latents [B*T,c,h,w] and embeddings [B*T,1,D] of `clips` windows -> normal latents [B*T,c,h,w].

        diffusers' own forward takes one embedding for the whole clip, its blocks take one a frame."""
        unet, count = self.unet, len(latents)
        embedding = unet.time_embedding(unet.time_proj(self.timestep))
        added = unet.add_time_proj(self.added_ids).reshape(1, -1)
        embedding = (embedding + unet.add_embedding(added)).expand(count, -1)
        common = dict(temb=embedding, image_only_indicator=latents.new_zeros(clips, count // clips))
        hidden = unet.conv_in(torch.cat([torch.zeros_like(latents), latents], 1))
        skips = [hidden]
        for block in unet.down_blocks:
            hidden, produced = block(hidden_states=hidden, **common, **context_for(block, context))
            skips += produced
        hidden = unet.mid_block(hidden_states=hidden, **common, **context_for(unet.mid_block, context))
        for block in unet.up_blocks:
            taken = tuple(skips[-len(block.resnets):])
            del skips[-len(block.resnets):]
            hidden = block(hidden_states=hidden, res_hidden_states_tuple=taken, **common,
                           **context_for(block, context))
        return self.step_factor * unet.conv_out(unet.conv_act(unet.conv_norm_out(hidden)))

    def decode(self, latents, frames):
        """Chunks [k*frames,c,h,w] of normal latents, `frames` each -> vectors [k*frames,3,H,W]"""
        return self.vae.decode(latents / SCALING_FACTOR, num_frames=frames).sample

    def forward(self, frames, clips, chunk=None):
        """Padded frames [B*T,3,H,W] in [0,1] of `clips` windows -> vectors, not of unit length.

        chunk: (first, last) frame of the one chunk of each window that is decoded, and that alone is trained on:
        the VAE's encoder takes no gradient from the other frames. None: all frames, in chunks from the first on."""
        length = len(frames) // clips
        context = self.embed(frames)
        if chunk is None:
            latents = self.denoise(self.encode(frames), context, clips).unflatten(0, (clips, length))
            bounds = [(a, min(a + DECODE_CHUNK, length)) for a in range(0, length, DECODE_CHUNK)]
            parts = [self.decode(latents[:, a:b].flatten(0, 1), b - a).unflatten(0, (clips, b - a)) for a, b in bounds]
            return torch.cat(parts, 1).flatten(0, 1)
        first, last = chunk
        latents = self.encode_around(frames.unflatten(0, (clips, length)), first, last)
        normals = self.denoise(latents.flatten(0, 1), context, clips).unflatten(0, (clips, length))
        return self.decode(normals[:, first:last].flatten(0, 1), last - first)

    def forward_coarse(self, frames, quarter, clips, chunk, head_only=False):
        """`forward` at a quarter of the work, for training alone: vectors are read by `coarse_head` after the decoder's
        first level and scaled up, and the encoder's layers at full and at half size take no gradient.

        quarter: encode_frozen(frames). `chunk` may be several of the decoder's. head_only: no gradient but to the head."""
        length, (first, last) = len(frames) // clips, chunk
        with torch.set_grad_enabled(torch.is_grad_enabled() and not head_only):
            latents = self.denoise(self.encode_rest(quarter), self.embed(frames), clips)
            latents = latents.unflatten(0, (clips, length))[:, first:last].flatten(0, 1)
            hidden = self.decode_coarse(latents, min(last - first, DECODE_CHUNK))
        return F.interpolate(self.coarse_head(hidden).float(), size=frames.shape[2:], mode="bilinear")

    @torch.no_grad()
    def encode_frozen(self, frames):
        """The encoder's layers at full and at half size: [n,3,H,W] in [0,1] -> [n,C,H/4,W/4]"""
        encoder = self.vae.encoder
        # Channels last is a quarter faster here; with gradients PyTorch 2.13 crashes in it.
        x = encoder.conv_in((frames * 2 - 1).contiguous(memory_format=torch.channels_last))
        for block in encoder.down_blocks[:FROZEN_BLOCKS]:
            x = block(x)
        return x.contiguous()

    def encode_rest(self, x):
        """What `encode` makes of encode_frozen's result."""
        encoder = self.vae.encoder
        for block in encoder.down_blocks[FROZEN_BLOCKS:]:
            x = block(x)
        x = encoder.conv_out(F.silu(encoder.conv_norm_out(encoder.mid_block(x))))
        return self.vae.quant_conv(x).chunk(2, dim=1)[0]

    def decode_coarse(self, latents, frames):
        """Chunks [k*frames,c,h,w] of normal latents -> hidden states [k*frames,C,2h,2w] within the decoder"""
        decoder, still = self.vae.decoder, latents.new_zeros(len(latents) // frames, frames)
        x = decoder.mid_block(decoder.conv_in(latents / SCALING_FACTOR), image_only_indicator=still)
        for block in decoder.up_blocks[:COARSE_BLOCKS]:
            x = block(x, image_only_indicator=still)
        return x

    def encode_around(self, frames, first, last):
        """Latents [B,T,c,h,w] of frames [B,T,3,H,W]; gradients flow to the frames [first, last) alone."""
        clips, length = frames.shape[:2]
        inner = self.encode(frames[:, first:last].flatten(0, 1)).unflatten(0, (clips, last - first))
        if last - first == length:
            return inner
        with torch.no_grad():
            outer = torch.cat([frames[:, :first], frames[:, last:]], 1)
            outer = self.encode(outer.flatten(0, 1)).unflatten(0, (clips, -1)).to(inner.dtype)
        return torch.cat([outer[:, :first], inner, outer[:, first:]], 1)


def make_coarse_head():
    channels = VAE["block_out_channels"][::-1][COARSE_BLOCKS - 1]
    return torch.nn.Sequential(torch.nn.GroupNorm(32, channels, eps=1e-6), torch.nn.SiLU(),
                               torch.nn.Conv2d(channels, 3, 3, padding=1))


def context_for(block, context):
    return dict(encoder_hidden_states=context) if getattr(block, "has_cross_attention", False) else {}


def start_without_time(model):
    """Makes each frame's result independent of its place and, but for norms and attention, of its neighbours: what
    stills teach holds in windows too. These weights grow once windows are trained on."""
    for module in model.modules():
        if isinstance(module, torch.nn.Conv3d):
            module.weight.data[:, :, ::2] = 0  # the taps beside the middle one
        if isinstance(module, TransformerSpatioTemporalModel):
            torch.nn.init.zeros_(module.time_pos_embed.linear_2.weight)
            torch.nn.init.zeros_(module.time_pos_embed.linear_2.bias)


# Cheaper forms of the temporal layers.


def use_fast_forms():
    """Replaces forward passes for training: of diffusers' residual blocks, of its attention to one token, of Conv3d.

    Temporal convolutions (3,1,1) run as (3,1) ones on [B,C,T,H*W]: as Conv3d their weight gradients are NaN in
    bfloat16 on the CPU (PyTorch 2.13)."""
    ResnetBlock2D.forward = residual_forward
    SpatioTemporalResBlock.forward = spatio_temporal_forward
    Attention.forward = attention_forward
    torch.nn.Conv3d.forward = lambda layer, x: temporal_convolution(layer, x.flatten(3)).unflatten(3, x.shape[3:])


def residual_forward(block, x, temb=None):
    hidden = block.conv1(F.silu(block.norm1(x)))
    if block.time_emb_proj is not None:
        hidden = hidden + block.time_emb_proj(F.silu(temb))[:, :, None, None]
    hidden = block.conv2(F.silu(block.norm2(hidden)))
    return (x if block.conv_shortcut is None else block.conv_shortcut(x)) + hidden


def spatio_temporal_forward(block, hidden, temb=None, image_only_indicator=None):
    """The blend of a spatial result s and of the temporal one s + f(s) is s + weight * f(s)."""
    hidden = block.spatial_res_block(hidden, temb)
    alpha = torch.sigmoid(block.time_mixer.mix_factor)
    weight = alpha if block.time_mixer.switch_spatial_to_temporal_mix else 1 - alpha
    count, channels, height, width = hidden.shape
    frames = image_only_indicator.shape[-1]
    layer = block.temporal_res_block
    x = hidden.reshape(count // frames, frames, channels, height * width).transpose(1, 2)
    x = temporal_convolution(layer.conv1, F.silu(layer.norm1(x)))
    if layer.time_emb_proj is not None:
        shift = layer.time_emb_proj(F.silu(temb)).reshape(count // frames, frames, channels)
        x = x + shift.permute(0, 2, 1)[..., None]
    x = temporal_convolution(layer.conv2, F.silu(layer.norm2(x)))
    x = x.transpose(1, 2).reshape(count, channels, height, width)
    return hidden + weight.to(x.dtype) * x


whole_attention = Attention.forward


def attention_forward(layer, hidden_states, encoder_hidden_states=None, **options):
    """One token takes all the weight, whatever query and key are: those take no gradient then, and Muon, which makes
    steps of one length of small gradients too, leaves them alone. hidden_states [n,tokens,C]; others as they were."""
    source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
    if hidden_states.ndim != 3 or source.shape[1] != 1:
        return whole_attention(layer, hidden_states, encoder_hidden_states, **options)
    return layer.to_out[0](layer.to_v(source)).expand_as(hidden_states)


def temporal_convolution(layer, x):
    """x [B,C,T,N]"""
    if x.shape[2] == 1:  # the taps beside the middle one see zeros
        return F.conv2d(x, layer.weight[:, :, 1], layer.bias)
    return F.conv2d(x, layer.weight.squeeze(-1), layer.bias, padding=(1, 0))


# Files.


def save(model, directory):
    """Writes the published layout in float16."""
    directory = pathlib.Path(directory)
    half = copy.deepcopy(model).half()
    for attribute, folder, _ in PARTS:
        getattr(half, attribute).save_pretrained(directory / folder)
    EulerDiscreteScheduler(**SCHEDULER).save_pretrained(directory / "scheduler")
    processor = CLIPImageProcessor(image_mean=list(IMAGE_MEAN), image_std=list(IMAGE_STD))
    processor.save_pretrained(directory / "feature_extractor")
    for name, content in (("model_index.json", MODEL_INDEX), ("normalcrafter.json", CONVENTION)):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")


def load_weights(model, directory):
    """Replaces the weights by those of a directory that `save` wrote."""
    for attribute, folder, stem in PARTS:
        tensors = load_file(pathlib.Path(directory) / folder / f"{stem}.safetensors")
        getattr(model, attribute).load_state_dict({name: t.float() for name, t in tensors.items()})


def padding(height, width):
    """(top, bottom, left, right) of the white bars to multiples of 64."""
    down, right = -height % PADDING_MULTIPLE, -width % PADDING_MULTIPLE
    return down // 2, down - down // 2, right // 2, right - right // 2


def pad(frames):
    """[n,3,H,W] -> [n,3,h,w]"""
    top, bottom, left, right = padding(*frames.shape[2:])
    return F.pad(frames, (left, right, top, bottom), value=1.0)


def crop(vectors, height, width):
    top, _, left, _ = padding(height, width)
    return vectors[:, :, top:top + height, left:left + width]
