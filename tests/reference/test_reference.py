"""The reference itself: it computes what the libraries do, in the dtype it says, in the order the contract says."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler, UNetSpatioTemporalConditionModel
from PIL import Image
from transformers import CLIPVisionModelWithProjection

import clips
import make_golden
import models
import pipeline
from pipeline import Options

torch.set_grad_enabled(False)


def _random(*shape):
    return torch.from_numpy(np.random.default_rng(shape).standard_normal(shape))


# The UNet's walk.


@pytest.mark.parametrize("name", ["two-level", "published-shape", "asymmetric"])
def test_walk_equals_the_stock_forward_when_all_frames_share_a_context(name, workshop):
    model = workshop.reference(name, "float64")
    unet, frames = model.unet, 4
    width = unet.mid_block.attentions[0].transformer_blocks[0].attn2.to_k.in_features
    sample, context = _random(frames, unet.config.in_channels, 16, 8), _random(1, 1, width)
    model.scheduler.set_timesteps(1)
    stock = unet(sample[None], model.scheduler.timesteps[0], context,
                 added_time_ids=torch.tensor([pipeline.ADDED_TIME_IDS]))
    walked = model.denoise(sample, context.expand(frames, -1, -1))
    assert torch.allclose(walked, stock.sample[0], rtol=0, atol=1e-12)


def test_temporal_cross_attention_gets_the_first_frames_context_and_spatial_each_its_own(workshop):
    model = workshop.reference("two-level", "float64")
    seen, contexts = {}, _random(3, 1, 32)
    hooks = [m.register_forward_pre_hook(lambda m, a, k, n=n: seen.__setitem__(n, k["encoder_hidden_states"]),
                                         with_kwargs=True)
             for n, m in model.unet.named_modules() if n.endswith("attn2")]
    model.denoise(_random(3, 8, 8, 8), contexts)
    for hook in hooks:
        hook.remove()
    assert len(seen) == len(hooks) > 4
    for name, context in seen.items():
        wanted = contexts[:1].expand(len(context), -1, -1) if "temporal" in name else contexts
        assert torch.equal(context, wanted), name


def test_every_layer_computes_in_float64(workshop):
    model = workshop.reference("published-shape", "float64")
    wrong, count = [], 0

    def check(name):
        def hook(module, given, made):
            nonlocal count
            count += 1
            if torch.is_tensor(made) and made.is_floating_point() and made.dtype != torch.float64:
                wrong.append(name)
        return hook

    hooks = [m.register_forward_hook(check(n)) for network in (model.unet, model.vae, model.image_encoder)
             for n, m in network.named_modules() if not n.endswith("time_proj")]  # sinusoids: float32 in diffusers
    pipeline.run(model, clips.make_clip(2, 40, 50), Options(window_size=2, step_size=1))
    for hook in hooks:
        hook.remove()
    assert count > 300 and wrong == []


# The scheduler.


@pytest.mark.parametrize("sigma", [700.0, 2.0])
def test_step_formula_equals_the_scheduler(sigma):
    scheduler = EulerDiscreteScheduler.from_config({**models.SCHEDULER, "sigma_max": sigma})
    scheduler.set_timesteps(1)
    timestep = scheduler.timesteps[0]
    assert float(scheduler.sigmas[0]) == pytest.approx(sigma, rel=1e-7) and float(scheduler.sigmas[1]) == 0
    assert float(timestep) == pytest.approx(0.25 * math.log(sigma), rel=1e-6)
    velocity, sample = _random(2, 4, 8, 8).float(), _random(3, 4, 8, 8)[:2].float()
    scaled = scheduler.scale_model_input(sample, timestep)
    assert torch.allclose(scaled, sample / math.sqrt(sigma**2 + 1), rtol=1e-6, atol=0)
    stepped = scheduler.step(velocity, timestep, sample).prev_sample
    assert torch.allclose(pipeline.euler_step(velocity.double(), sample.double(), sigma).float(), stepped, atol=2e-6)


def test_steps_with_a_fresh_scheduler_do_not_depend_on_earlier_ones(workshop):
    model = workshop.reference("two-level", "float64")
    given = _random(2, 4, 8, 8), _random(3, 4, 8, 8)[:2], _random(2, 1, 32)
    assert torch.equal(model.predict(*given), model.predict(*given))


# Windows and batches.


@pytest.mark.parametrize("frames, window, step, tail, length, starts", [
    (1, 14, 10, "anchored", 14, [0]),
    (14, 14, 10, "anchored", 14, [0]),
    (15, 14, 10, "anchored", 15, [0, 1]),
    (24, 14, 10, "anchored", 24, [0, 10]),
    (33, 14, 10, "anchored", 33, [0, 10, 19]),
    (34, 14, 10, "anchored", 34, [0, 10, 20]),
    (1, 14, 10, "repeat", 14, [0]),
    (15, 14, 10, "repeat", 24, [0, 10]),
    (24, 14, 10, "repeat", 24, [0, 10]),
    (25, 14, 10, "repeat", 34, [0, 10, 20]),
    (5, 2, 2, "anchored", 5, [0, 2, 3]),
])
def test_windows(frames, window, step, tail, length, starts):
    assert pipeline.padded_length(frames, window, step, tail) == length
    assert pipeline.window_starts(length, window, step) == starts


def test_encode_batches_restart_at_window_ends():
    assert pipeline.encode_batches([0, 10, 12], 14, 7) == [(0, 7), (7, 14), (14, 21), (21, 24), (24, 26)]
    assert pipeline.encode_batches([0, 3], 5, 4) == [(0, 4), (4, 5), (5, 8)]


def test_overlap_is_seeded_and_crossfaded():
    class Stand:
        """A "network" that shows what it was given."""
        dtype = torch.float64

        def predict(self, normals, latents, contexts):
            return normals + latents

    latents = torch.arange(1.0, 8.0, dtype=torch.float64).view(7, 1, 1, 1)
    made = pipeline._predict_clip(Stand(), [0, 2, 3], 4, latents, latents).flatten()
    # Window 2..5 sees seeds 3, 4 and gives 6, 8, 5, 6; weights 2/3, 1/3 of the old: 4, 20/3.
    # Window 3..6 sees 20/3, 5, 6 and gives 32/3, 10, 12, 7; weights 3/4, 2/4, 1/4: 23/3, 7.5, 10.5.
    assert made.tolist() == pytest.approx([1, 2, 4, 20 / 3 * 3 / 4 + 32 / 3 / 4, 7.5, 10.5, 7])


def test_encoder_chunks_are_rounding_and_decoder_chunks_are_not(workshop):
    model, clip = workshop.reference("two-level", "float64"), clips.make_clip(4, 50, 60)
    run = lambda **o: pipeline.run(model, clip, Options(window_size=3, step_size=2, **o))
    base = run()
    assert np.abs(run(clip_chunk_size=1, vae_encode_chunk_size=2) - base).max() < 1e-10
    assert np.abs(run(vae_decode_chunk_size=3) - base).max() > 1e-3


def test_seeds_matter_at_low_sigma_and_every_frame_has_its_context(workshop):
    model = workshop.reference("two-level-sigma2", "float64")
    latents, contexts = _random(4, 4, 16, 16), _random(4, 1, 32)
    plain = model.predict(torch.zeros_like(latents), latents, contexts)
    assert (model.predict(torch.ones_like(latents), latents, contexts) - plain).abs().max() > 1e-2
    contexts[3] += 1
    assert (model.predict(torch.zeros_like(latents), latents, contexts) - plain).abs().max() > 1e-3


# Pictures.


@pytest.mark.parametrize("height, width, limit, size", [
    (100, 100, 1024, (100, 100)), (300, 220, 160, (160, 117)), (5, 2000, 1000, (2, 1000)), (1, 2000, 100, (1, 100)),
    (257, 129, 128, (128, 64)), (3, 6, 1, (1, 1)),
])
def test_processed_size_rounds_half_to_even_and_never_enlarges(height, width, limit, size):
    assert pipeline.processed_size(height, width, limit) == size


def test_padding_puts_the_odd_pixel_last_and_is_white():
    assert pipeline.padding(65, 128) == (31, 32, 0, 0)
    frames = pipeline.prepare_frames(np.zeros((1, 65, 127, 3), np.uint8), 1024, torch.float64)
    assert frames.shape == (1, 3, 128, 128)
    inside = frames[0, 0] == 0
    assert inside[31:96, :127].all() and inside.sum() == 65 * 127 and (frames[0, 0][~inside] == 1).all()


def test_resizing_equals_pillows_cubic_filter():
    clip = clips.make_clip(1, 90, 75)
    made = pipeline.prepare_frames(clip, 64, torch.float64)[0, :, :, 5:58]
    for c in range(3):
        plane = Image.fromarray(clip[0, :, :, c].astype(np.float32) / 255)
        wanted = np.asarray(plane.resize((53, 64), Image.Resampling.BICUBIC)).clip(0, 1)
        assert np.abs(made[c].numpy() - wanted).max() < 2e-6


def test_16_bit_and_8_bit_input_mean_the_same_picture():
    clip = clips.make_clip(1, 64, 64)
    wide = pipeline.prepare_frames(clip.astype(np.uint16) * 257, 1024, torch.float64)
    assert torch.allclose(wide, pipeline.prepare_frames(clip, 1024, torch.float64), atol=1e-15)


def test_clip_resize_modes_differ(workshop):
    model = workshop.reference("two-level", "float64")
    frames = pipeline.prepare_frames(clips.make_clip(1, 128, 128), 1024, torch.float64)
    assert (model.embed(frames) - model.embed(frames, "original")).abs().max() > 1e-3


def test_codes_round_to_nearest():
    assert pipeline.to_codes(np.array([-1.0, 0.0, 1.0, 1 / 255]), 8).tolist() == [0, 128, 255, 128]
    assert pipeline.to_codes(np.array([-1.0, 0.0, 1.0]), 16).tolist() == [0, 32768, 65535]


# Models.


def test_weights_are_a_function_of_the_names_alone():
    first = models.random_tensor("two-level", "unet.conv_in.weight", (32, 8, 3, 3))
    assert first.std() == pytest.approx(1 / math.sqrt(72), rel=0.1)
    # Pinned: golden data depend on it.
    assert first.flat[:3].tolist() == pytest.approx([0.11549079, 0.07290480, 0.16857091], abs=1e-7)
    assert (first != models.random_tensor("four-level", "unet.conv_in.weight", (32, 8, 3, 3))).any()


def test_bfloat16_encoding_rounds_as_torch_does():
    values = np.random.default_rng(0).standard_normal(10000).astype(np.float32)
    encoded = np.frombuffer(models._encode(values, "bfloat16"), np.int16)
    assert torch.equal(torch.from_numpy(encoded.copy()), torch.from_numpy(values).bfloat16().view(torch.int16))


@pytest.mark.parametrize("name", models.SPECS)
def test_the_libraries_own_loaders_accept_the_directory(name, workshop):
    folder, chosen = workshop.model(name), models.spec(name)
    options = dict(torch_dtype=torch.float32, variant=chosen["source"].get("variant"), local_files_only=True)
    unet = UNetSpatioTemporalConditionModel.from_pretrained(folder, subfolder="unet", **options)
    vae = AutoencoderKLTemporalDecoder.from_pretrained(folder, subfolder="vae", **options)
    options["dtype"] = options.pop("torch_dtype")
    encoder = CLIPVisionModelWithProjection.from_pretrained(folder / "image_encoder", **options)
    ours = workshop.reference(name, "float32")
    for theirs, own in ((unet, ours.unet), (vae, ours.vae), (encoder, ours.image_encoder)):
        state = own.state_dict()
        assert all(torch.equal(v, state[k]) for k, v in theirs.state_dict().items())


@pytest.mark.parametrize("name", [*models.SPECS, "full-size"])
def test_sizes_obey_the_layouts_limits(name):
    chosen = models.spec(name)
    factor = 2 ** (len(chosen["vae"]["block_out_channels"]) + len(chosen["unet"]["block_out_channels"]) - 2)
    assert pipeline.PADDING_MULTIPLE % factor == 0
    assert all(c % 32 == 0 for n in ("unet", "vae") for c in chosen[n]["block_out_channels"])


# Golden files.


@pytest.mark.parametrize("case", make_golden.CASES, ids=lambda c: c.name)
def test_golden_files_are_what_the_reference_computes(case, workshop):
    fresh = make_golden.compute(case, workshop.model(case.model))
    stored = make_golden.load(case)
    assert stored.keys() == fresh.keys()
    for name in ("clip", "raw", "unit"):
        assert np.abs(stored[name].astype(np.float64) - fresh[name]).max() < 1e-6
