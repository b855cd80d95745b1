"""Random-weight models in the published directory layout, for tests and benchmarks.

Weights come from NumPy's generator, seeded by (model name, tensor name), uniform and scaled by the fan-in so that
activations stay near 1; torch's generator gives other numbers on other CPUs. Norm weights, biases, mix factors and
position embeddings are random too, so that no fault hides behind an initial zero or one.

    python models.py --list
    python models.py NAME DIRECTORY
    python models.py --full-size DIRECTORY --dtype bfloat16    # the released architecture, 4.5 GB
"""

import argparse
import copy
import hashlib
import json
import math
import os
import pathlib
import re

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

CROSS, PLAIN = "CrossAttn", ""
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def _unet(channels, heads, down, up=None, **other):
    """A UNet configuration; `down` and `up` list CROSS or PLAIN, `up` from the coarsest level on."""
    up = up or down[::-1]
    values = dict(
        sample_size=96, in_channels=8, out_channels=4, num_frames=25, block_out_channels=channels,
        num_attention_heads=heads, layers_per_block=1, transformer_layers_per_block=1, cross_attention_dim=32,
        addition_time_embed_dim=32, projection_class_embeddings_input_dim=96,
        down_block_types=[f"{kind}DownBlockSpatioTemporal" for kind in down],
        up_block_types=[f"{kind}UpBlockSpatioTemporal" for kind in up])
    return {**values, **other}


def _vae(channels, layers, **other):
    values = dict(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=768, scaling_factor=0.18215, force_upcast=True,
        block_out_channels=channels, layers_per_block=layers, down_block_types=["DownEncoderBlock2D"] * len(channels))
    return {**values, **other}


def _clip(hidden, layers, heads, image, patch, projection=32, **other):
    values = dict(
        hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers, num_attention_heads=heads,
        image_size=image, patch_size=patch, projection_dim=projection, hidden_act="gelu", layer_norm_eps=1e-5)
    return {**values, **other}


# Each model: configurations, and how its files are written (dtype, variant, shards, extra tensors).
# VAE factor x 2^(UNet levels - 1) divides 64; all channels are multiples of 32.
SPECS = {
    # Two levels: nothing degenerates at 64x64. One VAE layer: the decoder's mid attention never runs.
    "two-level": dict(
        unet=_unet([32, 64], [1, 2], [CROSS, PLAIN]), vae=_vae([32, 32, 64], 1), clip=_clip(32, 1, 1, 32, 8)),
    # The published depth with every count at its least.
    "four-level": dict(
        unet=_unet([32, 32, 64, 64], [1, 2, 2, 4], [CROSS, CROSS, CROSS, PLAIN]), vae=_vae([32, 32, 32, 64], 1),
        clip=_clip(32, 2, 2, 64, 16), source=dict(dtype="float16")),
    # The published depth and layer counts: two layers everywhere, the VAE's mid attention runs.
    "published-shape": dict(
        unet=_unet([64, 64, 96, 128], [2, 4, 3, 8], [CROSS, CROSS, CROSS, PLAIN], layers_per_block=2),
        vae=_vae([32, 32, 64, 96], 2), clip=_clip(64, 3, 4, 56, 14), source=dict(dtype="bfloat16")),
    # Per-level lists; two transformer layers; the scheduler whose seed and window overlap matter.
    "per-level": dict(
        unet=_unet([32, 64, 64], [1, 2, 4], [CROSS, CROSS, PLAIN], layers_per_block=[1, 2, 1],
                   transformer_layers_per_block=[1, 2, 1]),
        vae=_vae([32, 32, 64], 2), clip=_clip(48, 2, 3, 48, 16, hidden_act="quick_gelu"),
        scheduler=dict(sigma_max=2.0)),
    # Cross attention at every level, one head count for all, in shards.
    "all-cross": dict(
        unet=_unet([32, 64, 96], 2, [CROSS, CROSS, CROSS], transformer_layers_per_block=2, cross_attention_dim=48),
        vae=_vae([32, 32, 64], 2), clip=_clip(64, 1, 2, 40, 8, projection=48, hidden_act="quick_gelu"),
        source=dict(shards=3)),
    # Cross attention in the mid block alone, files of the .fp16 variant, an old CLIP file.
    "no-cross": dict(
        unet=_unet([64, 64, 64], [2, 2, 1], [PLAIN, PLAIN, PLAIN], layers_per_block=2), vae=_vae([32, 32, 96], 1),
        clip=_clip(32, 2, 2, 32, 16), scheduler=dict(sigma_max=2.0),
        source=dict(dtype="float16", variant="fp16", position_ids=True)),
    # Down and up blocks that differ, other latents and constants than the released ones.
    "asymmetric": dict(
        unet=_unet([32, 32, 64], [1, 1, 2], [PLAIN, CROSS, CROSS], [PLAIN, CROSS, PLAIN], layers_per_block=[2, 1, 2],
                   in_channels=12, out_channels=6, addition_time_embed_dim=64,
                   projection_class_embeddings_input_dim=192, cross_attention_dim=[64, 64, 64]),
        vae=_vae([32, 64, 32], 1, latent_channels=6, scaling_factor=0.3),
        clip=_clip(96, 2, 6, 64, 8, projection=64, layer_norm_eps=1e-6),
        scheduler=dict(sigma_max=20.0), preprocessor=dict(image_mean=[0.5, 0.4, 0.3], image_std=[0.25, 0.3, 0.2]),
        source=dict(dtype="bfloat16")),
    # Two levels and the scheduler with sigma 2, small enough for long clips.
    "two-level-sigma2": dict(
        unet=_unet([32, 64], [2, 4], [CROSS, CROSS], [CROSS, PLAIN], transformer_layers_per_block=[2, 1]),
        vae=_vae([32, 32, 64], 1), clip=_clip(32, 1, 1, 32, 16, hidden_act="quick_gelu"),
        scheduler=dict(sigma_max=2.0)),
}

FULL_SIZE = dict(
    unet=_unet([320, 640, 1280, 1280], [5, 10, 20, 20], [CROSS, CROSS, CROSS, PLAIN], layers_per_block=2,
               cross_attention_dim=1024, addition_time_embed_dim=256, projection_class_embeddings_input_dim=768),
    vae=_vae([128, 256, 512, 512], 2),
    clip=_clip(1280, 32, 16, 224, 14, projection=1024, intermediate_size=5120))

COMPONENTS = ("unet", "vae", "image_encoder", "scheduler", "feature_extractor")


def spec(name):
    """The specification `name`, its optional parts filled in; "full-size" is the released architecture."""
    chosen = copy.deepcopy(FULL_SIZE if name == "full-size" else SPECS[name])
    for part in ("scheduler", "preprocessor", "source"):
        chosen.setdefault(part, {})
    return chosen


def make_model(name, directory, components=COMPONENTS, dtype=None):
    """Writes the model `name` below `directory`, tensor by tensor; `dtype` replaces the specification's."""
    chosen, directory = spec(name), pathlib.Path(directory)
    source = {"dtype": "float32", **chosen["source"], **({"dtype": dtype} if dtype else {})}
    for component in components:
        (directory / component).mkdir(parents=True, exist_ok=True)
    if "unet" in components:
        _write_network(name, "unet", _diffusers_network("UNetSpatioTemporalConditionModel", chosen["unet"]),
                       directory, source)
    if "vae" in components:
        _write_network(name, "vae", _diffusers_network("AutoencoderKLTemporalDecoder", chosen["vae"]),
                       directory, source)
    if "image_encoder" in components:
        _write_network(name, "image_encoder", _clip_network(chosen["clip"]), directory, source)
    if "scheduler" in components:
        _write_json(directory / "scheduler" / "scheduler_config.json", {**SCHEDULER, **chosen["scheduler"]})
    if "feature_extractor" in components:
        _write_json(directory / "feature_extractor" / "preprocessor_config.json",
                    {**_preprocessor(chosen["clip"]["image_size"]), **chosen["preprocessor"]})
    _write_json(directory / "model_index.json", MODEL_INDEX)


MODEL_INDEX = {
    "_class_name": "NormalCrafterPipeline", "_diffusers_version": "0.39.0",
    "feature_extractor": ["transformers", "CLIPImageProcessor"],
    "image_encoder": ["transformers", "CLIPVisionModelWithProjection"],
    "scheduler": ["diffusers", "EulerDiscreteScheduler"],
    "unet": ["diffusers", "UNetSpatioTemporalConditionModel"],
    "vae": ["diffusers", "AutoencoderKLTemporalDecoder"],
}

# The released file's fields, the ones that EulerDiscreteScheduler ignores included.
SCHEDULER = {
    "_class_name": "EulerDiscreteScheduler", "_diffusers_version": "0.39.0", "beta_end": 0.012,
    "beta_schedule": "scaled_linear", "beta_start": 0.00085, "clip_sample": False, "interpolation_type": "linear",
    "num_train_timesteps": 1000, "prediction_type": "v_prediction", "set_alpha_to_one": False, "sigma_max": 700.0,
    "sigma_min": 0.002, "skip_prk_steps": True, "steps_offset": 1, "timestep_spacing": "leading",
    "timestep_type": "continuous", "trained_betas": None, "use_karras_sigmas": True,
}


def _preprocessor(size):
    return {
        "crop_size": {"height": size, "width": size}, "do_center_crop": True, "do_convert_rgb": True,
        "do_normalize": True, "do_rescale": True, "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor",
        "image_mean": list(MEAN), "image_processor_type": "CLIPImageProcessor", "image_std": list(STD), "resample": 3,
        "rescale_factor": 1 / 255, "size": {"shortest_edge": size},
    }


def _diffusers_network(class_name, values):
    """(configuration as saved, {tensor name: shape}, file stem); no weights are allocated."""
    import diffusers
    import torch
    with torch.device("meta"):
        network = getattr(diffusers, class_name)(**values)
    return (json.loads(network.to_json_string()), {k: tuple(v.shape) for k, v in network.state_dict().items()},
            "diffusion_pytorch_model")


def _clip_network(values):
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
    configuration = CLIPVisionConfig(**values, architectures=["CLIPVisionModelWithProjection"])
    with torch.device("meta"):
        network = CLIPVisionModelWithProjection(configuration)
    return (json.loads(configuration.to_json_string(use_diff=False)),
            {k: tuple(v.shape) for k, v in network.state_dict().items()}, "model")


def _write_network(model_name, component, network, directory, source):
    configuration, shapes, stem = network
    folder = directory / component
    _write_json(folder / "config.json", configuration)
    produce = {n: (lambda n=n, s=s: random_tensor(model_name, f"{component}.{n}", s)) for n, s in shapes.items()}
    tensors = {n: (source["dtype"], s, produce[n]) for n, s in shapes.items()}
    if component == "image_encoder" and source.get("position_ids"):
        positions = shapes["vision_model.embeddings.position_embedding.weight"][0]
        tensors["vision_model.embeddings.position_ids"] = (
            "int64", (1, positions), lambda: np.arange(positions, dtype=np.int64)[None])
    if source.get("variant"):
        stem = f"{stem}.{source['variant']}"
    shards = source.get("shards", 1)
    if shards == 1:
        write_safetensors(folder / f"{stem}.safetensors", tensors)
    else:
        _write_shards(folder, stem, tensors, shards)


def _write_shards(folder, stem, tensors, shards):
    names, weight_map, total = list(tensors), {}, 0
    for i in range(shards):
        part = {n: tensors[n] for n in names[i * len(names) // shards:(i + 1) * len(names) // shards]}
        file = f"{stem}-{i + 1:05d}-of-{shards:05d}.safetensors"
        total += write_safetensors(folder / file, part)
        weight_map.update({n: file for n in part})
    _write_json(folder / f"{stem}.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


NORM = re.compile(r"(norm\w*|layrnorm|layernorm)\.weight$")
EMBEDDING = re.compile(r"(class_embedding|position_embedding\.weight)$")
# Not 1: queries and keys sharp enough that attention is no average; the decoder's output mostly inside [-1, 1].
GAINS = ((re.compile(r"(to_q|to_k|q_proj|k_proj)\.weight$"), 1.5), (re.compile(r"^vae\.decoder\.conv_out\.weight$"), 0.7))


def random_tensor(model_name, tensor_name, shape):
    """float32 [shape], a function of the names alone. `tensor_name` starts with the component's name."""
    digest = hashlib.sha256(f"{model_name}/{tensor_name}".encode()).digest()
    unit = np.random.default_rng(int.from_bytes(digest[:8], "little")).random(shape, dtype=np.float32)
    low, high = _range(tensor_name, shape)
    unit *= np.float32(high - low)
    unit += np.float32(low)
    return unit


def _range(name, shape):
    if name.endswith("mix_factor"):
        return -1.5, 1.5
    if NORM.search(name):
        return 0.6, 1.4
    if EMBEDDING.search(name):
        return -0.6, 0.6
    if name.endswith(".bias"):
        return -0.2, 0.2
    gain = next((g for pattern, g in GAINS if pattern.search(name)), 1.0)
    bound = gain * math.sqrt(3 / math.prod(shape[1:]))
    return -bound, bound


def write_safetensors(path, tensors):
    """Writes {name: (dtype, shape, function that makes the array)}, one tensor in memory at a time. Bytes of data."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, _) in tensors.items():
        size = math.prod(shape) * ITEM_SIZES[dtype]
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for dtype, _, produce in tensors.values():
            file.write(_encode(produce(), dtype))
    return offset


CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}
ITEM_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}


def _encode(array, dtype):
    if dtype != "bfloat16":
        return np.ascontiguousarray(array, dtype=dtype).data
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    # Round half to even on the upper 16 bits; the values are finite.
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).data


def _write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="one of --list")
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--full-size", metavar="DIRECTORY", help="write the released architecture")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="replaces the specification's")
    o = parser.parse_args()
    if o.list:
        print("\n".join(SPECS))
    elif o.full_size:
        make_model("full-size", o.full_size, dtype=o.dtype)
    elif o.name in SPECS and o.directory:
        make_model(o.name, o.directory, dtype=o.dtype)
    else:
        parser.error("give NAME (one of --list) and DIRECTORY, or --full-size DIRECTORY")


if __name__ == "__main__":
    main()
