"""The engine and the element against the float64 reference."""

import numpy as np
import pytest
import torch

import make_golden
import pipeline
from cases import CASES, Case
from harness import Errors

ABSOLUTE = 2e-4  # of a component, at padded sides of at least 128
RELATIVE = 4  # times the float32 reference's own error
FEW = 100  # samples of a clip, of which the largest own error is chance: the absolute tolerance holds there too
MEAN = 2e-5

CLIPS = [pytest.param(c, id=c.name, marks=pytest.mark.live if c.live else pytest.mark.slow) for c in CASES]
ELEMENT_CLIPS = [p for p in CLIPS if p.values[0].bits == 8]


@pytest.mark.parametrize("case", CLIPS)
def test_vectors_before_renormalising_match(case, workshop, record, tmp_path):
    expected = workshop.expected(case)
    made = workshop.probe_clip(case, tmp_path, "--no-renormalize")
    assert made.shape == expected.vectors.shape
    errors = Errors.between(made, expected.vectors)
    record(case.name, "large", case.large)
    record(case.name, "raw", errors.largest)
    record(case.name, "raw-f32", expected.own.largest)
    assert errors.largest <= (ABSOLUTE if case.large or made.size < FEW else RELATIVE * expected.own.largest)


@pytest.mark.parametrize("case", CLIPS)
def test_unit_vectors_match(case, workshop, record, tmp_path):
    expected = workshop.expected(case)
    made = workshop.probe_clip(case, tmp_path)
    errors = Errors.between(made, pipeline.renormalize(expected.vectors))
    own = RELATIVE * expected.own_renormalized.largest
    record(case.name, "unit", errors.largest)
    record(case.name, "unit-f32", expected.own_renormalized.largest)
    record(case.name, "unit-mean", errors.mean)
    assert errors.largest <= (max(ABSOLUTE, own) if case.large or made.size < FEW else own)
    assert errors.mean < MEAN or not case.large


@pytest.mark.parametrize("case", ELEMENT_CLIPS)
def test_element_codes_match(case, workshop, record, tmp_path):
    expected = pipeline.to_codes(pipeline.renormalize(workshop.expected(case).vectors), 8)
    made = workshop.element(case, tmp_path)
    assert made.shape == expected.shape
    difference = np.abs(made.astype(int) - expected)
    record(case.name, "codes", int(difference.max()))
    record(case.name, "codes-differing", float((difference > 0).mean()))
    if case.large:
        assert difference.max() <= 1
        assert (difference > 0).mean() < 0.01


@pytest.mark.live
@pytest.mark.parametrize("golden", make_golden.CASES, ids=lambda g: g.name)
def test_committed_golden_data_match(golden, workshop, tmp_path):
    stored, limits = make_golden.load(golden), make_golden.metadata(golden)
    case = Case(golden.name, golden.model, golden.frames, golden.height, golden.width, golden.options)
    s = golden.stride
    for name, more in (("raw", ["--no-renormalize"]), ("unit", [])):
        made = workshop.probe_clip(case, tmp_path, *more, clip=stored["clip"])
        largest = Errors.between(made[:, ::s, ::s], stored[name]).largest
        assert largest <= max(ABSOLUTE if case.large else 0, RELATIVE * float(limits[f"{name}_error"])), name


@pytest.mark.live
@pytest.mark.parametrize("bits", [8, 16])
def test_integer_formats_are_the_float_output_rounded(bits, workshop, tmp_path):
    case = next(c for c in CASES if c.name == "defaults-1")
    codes = workshop.probe_clip(case, tmp_path, "--format", f"u{bits}")
    vectors = workshop.probe_clip(case, tmp_path)
    difference = np.abs(codes.astype(int) - pipeline.to_codes(vectors.astype(np.float64), bits))
    # 65535 * float32 rounds differently on half a code.
    assert difference.max() <= (0 if bits == 8 else 1)


# Single layers: random input of small size, every kind of block.

FRAMES, SIDE = 5, 12


def _random(*shape):
    return torch.from_numpy(np.random.default_rng(shape).standard_normal(shape))


def _unet_layer(reference, name, channels):
    """(inputs, function from inputs to outputs) of a UNet layer."""
    module = reference.unet.get_submodule(name)
    width = reference.unet.mid_block.attentions[0].transformer_blocks[0].attn2.to_k.in_features
    inputs = {"hidden": _random(FRAMES, channels, SIDE, SIDE)}
    kind = type(module).__name__
    if "Attn" in kind or "Transformer" in kind or "Mid" in kind:
        inputs["context"] = _random(FRAMES, 1, width)
    if "UpBlock" in kind:
        for i, resnet in enumerate(reversed(module.resnets)):  # the last one is taken first
            previous = channels if i == len(module.resnets) - 1 else resnet.spatial_res_block.out_channels
            inputs[f"skip.{i}"] = _random(FRAMES, resnet.spatial_res_block.in_channels - previous, SIDE, SIDE)

    def apply(model, given):
        module, hidden = model.unet.get_submodule(name), given["hidden"]
        time, frames = model.time_embedding(FRAMES), hidden.new_zeros(1, FRAMES)
        context = {"encoder_hidden_states": given["context"]} if "context" in given else {}
        if kind in ("Conv2d", "Downsample2D"):
            return {"hidden": module(hidden)}
        if kind == "SpatioTemporalResBlock":
            return {"hidden": module(hidden, time, frames)}
        if kind == "TransformerSpatioTemporalModel":
            return {"hidden": module(hidden, image_only_indicator=frames, return_dict=False, **context)[0]}
        if "UpBlock" in kind:
            context["res_hidden_states_tuple"] = tuple(given[f"skip.{i}"] for i in range(len(module.resnets)))
        made = module(hidden_states=hidden, temb=time, image_only_indicator=frames, **context)
        if "DownBlock" not in kind:
            return {"hidden": made}
        return {"hidden": made[0], **{f"skip.{i}": skip for i, skip in enumerate(made[1])}}

    return inputs, apply


def _vae_layer(reference, name, channels):
    def apply(model, given):
        module, hidden = model.vae.get_submodule(name), given["hidden"]
        if name.startswith("encoder"):
            return {"hidden": module(hidden)}
        extra = {"num_frames": FRAMES} if name == "decoder" else {}
        return {"hidden": module(hidden, image_only_indicator=hidden.new_zeros(1, FRAMES), **extra)}

    return {"hidden": _random(FRAMES, channels, 2 * SIDE, SIDE)}, apply


def _clip_layer(reference, name, channels):
    encoder = reference.image_encoder
    if name == "vision_model":
        size = reference.image_size
        return ({"hidden": _random(FRAMES, 3, size, size)},
                lambda model, given: {"hidden": model.image_encoder(pixel_values=given["hidden"]).image_embeds})
    return ({"hidden": _random(FRAMES, 1 + (reference.image_size // encoder.config.patch_size) ** 2, channels)},
            lambda model, given: {"hidden": _first(model.image_encoder.get_submodule(name)(given["hidden"], None, None))})


def _first(made):
    return made[0] if isinstance(made, tuple) else made


LAYERS = [  # model, network, published module path, channels in
    ("published-shape", "unet", "conv_in", 8),
    ("published-shape", "unet", "down_blocks.0.resnets.0", 64),  # no shortcut
    ("published-shape", "unet", "down_blocks.2.resnets.0", 64),  # 64 to 96 channels: with shortcut
    ("published-shape", "unet", "down_blocks.3.resnets.1", 128),  # plain block, other epsilon
    ("published-shape", "unet", "mid_block.resnets.0", 128),
    ("published-shape", "unet", "up_blocks.1.resnets.0", 224),
    ("published-shape", "unet", "down_blocks.0.attentions.0", 64),
    ("all-cross", "unet", "down_blocks.1.attentions.0", 64),  # two blocks a transformer
    ("all-cross", "unet", "up_blocks.0.attentions.1", 96),
    ("published-shape", "unet", "down_blocks.0.downsamplers.0", 64),
    ("published-shape", "unet", "down_blocks.1", 64),
    ("published-shape", "unet", "down_blocks.3", 96),  # plain and last: does not shrink
    ("no-cross", "unet", "down_blocks.0", 64),  # plain, shrinks
    ("all-cross", "unet", "down_blocks.2", 64),  # attention in the last
    ("published-shape", "unet", "mid_block", 128),
    ("published-shape", "unet", "up_blocks.0", 128),
    ("published-shape", "unet", "up_blocks.1", 128),
    ("published-shape", "unet", "up_blocks.3", 64),
    ("asymmetric", "unet", "up_blocks.2", 32),
    ("per-level", "unet", "up_blocks.1", 64),
    ("published-shape", "vae", "encoder.down_blocks.0", 32),
    ("published-shape", "vae", "encoder.down_blocks.2", 32),
    ("published-shape", "vae", "encoder.down_blocks.3", 64),
    ("published-shape", "vae", "encoder.mid_block", 96),
    ("published-shape", "vae", "encoder", 3),
    ("published-shape", "vae", "decoder.mid_block", 96),
    ("two-level", "vae", "decoder.mid_block", 64),  # one layer: no attention
    ("published-shape", "vae", "decoder.up_blocks.0", 96),
    ("published-shape", "vae", "decoder.up_blocks.1", 96),
    ("published-shape", "vae", "decoder.up_blocks.3", 32),
    ("published-shape", "vae", "decoder", 4),
    ("published-shape", "clip", "vision_model.encoder.layers.0", 64),
    ("all-cross", "clip", "vision_model.encoder.layers.0", 64),  # quick_gelu
    ("published-shape", "clip", "vision_model", 3),
    ("per-level", "clip", "vision_model", 3),
    ("asymmetric", "clip", "vision_model", 3),  # other epsilon
]


@pytest.mark.parametrize("model, network, layer, channels", LAYERS, ids=[f"{m}-{n}-{k}" for m, n, k, _ in LAYERS])
@torch.inference_mode()
def test_layer_matches(model, network, layer, channels, workshop, tmp_path):
    prepare = {"unet": _unet_layer, "vae": _vae_layer, "clip": _clip_layer}[network]
    reference, narrow = (workshop.reference(model, dtype) for dtype in ("float64", "float32"))
    inputs, apply = prepare(reference, layer, channels)
    inputs = {k: v.float() for k, v in inputs.items()}  # what the file holds
    expected = apply(reference, {k: v.double() for k, v in inputs.items()})
    own = apply(narrow, inputs)
    made = workshop.probe_layer(model, network, layer, inputs, tmp_path)
    assert made.keys() == expected.keys()
    for name, value in expected.items():
        scale = value.abs().max()
        error = (made[name].reshape(value.shape) - value).abs().max() / scale
        # Rounding alone; 1e-5 allows for summation in another order where float32 was lucky.
        assert error <= max(1e-5, RELATIVE * (own[name] - value).abs().max() / scale), name
