"""The trainer runs the network in forms that cost less. They must compute what the network computes."""

import pytest
import torch

import network

CLIPS, LENGTH, SIZE = 2, 5, 64


@pytest.fixture
def model():
    """With random weights where training starts from zeros: temporal layers would not show."""
    torch.manual_seed(1)
    result = network.DemoModel().eval()
    for parameter in result.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    return result


@pytest.fixture
def frames():
    return torch.rand(CLIPS * LENGTH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(2))


def with_gradient(model, loss):
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return {name for (name, _), g in zip(model.named_parameters(), gradients) if g is not None}


@pytest.mark.parametrize("clips", [CLIPS, CLIPS * LENGTH], ids=["windows", "stills"])
def test_fast_forms_equal_those_of_diffusers(model, frames, fast_forms, clips):
    with torch.no_grad():
        expected = model(frames, clips)
        fast_forms()
        assert torch.allclose(model(frames, clips), expected, atol=1e-4 * expected.abs().max())


def test_what_cannot_matter_takes_no_gradient(model, frames, fast_forms):
    """One token is attended to whatever the query: in cross-attention always, between a still's frames too."""
    fast_forms()
    queries = lambda names, part: {n for n in names if part in n and (".to_q." in n or ".to_k." in n)}
    every = [name for name, _ in model.named_parameters()]
    stills = with_gradient(model, model(frames, len(frames)).square().mean())
    window = with_gradient(model, model(frames, CLIPS).square().mean())
    assert not queries(stills, ".temporal_transformer_blocks.") and not queries(window, ".attn2.")
    for part in (".transformer_blocks.0.attn1.", ".temporal_transformer_blocks.0.attn1."):
        assert queries(window, part) == queries(every, part) != set()


def test_the_coarse_form_encodes_as_the_full_one(model, frames):
    with torch.no_grad():
        assert torch.allclose(model.encode_rest(model.encode_frozen(frames)), model.encode(frames), atol=1e-5)


def test_the_coarse_form_decodes_in_the_chunks_of_the_full_one(model, frames):
    """Its hidden states are the ones that the decoder itself passes on."""
    latents, passed = torch.randn(8, network.LATENT_CHANNELS, 8, 8), []
    model.vae.decoder.up_blocks[network.COARSE_BLOCKS].register_forward_pre_hook(lambda _, inputs: passed.append(inputs[0]))
    with torch.no_grad():
        model.decode(latents, 4)
        assert torch.allclose(model.decode_coarse(latents, 4), passed[0], atol=1e-5)


def test_the_coarse_form_trains_all_but_the_layers_at_full_and_half_size(model, frames):
    vectors = model.forward_coarse(frames, model.encode_frozen(frames), CLIPS, (1, 5))
    assert vectors.shape == (CLIPS * 4, 3, SIZE, SIZE)
    trained = with_gradient(model, vectors.square().mean())
    ours = with_gradient(model, model(frames, CLIPS, chunk=(1, 5)).square().mean())
    spared = ("vae.encoder.conv_in.", "vae.encoder.down_blocks.0.", "vae.encoder.down_blocks.1.",
              "vae.decoder.up_blocks.1.", "vae.decoder.up_blocks.2.", "vae.decoder.up_blocks.3.",
              "vae.decoder.conv_norm_out.", "vae.decoder.conv_out.", "vae.decoder.time_conv_out.")
    assert trained == {n for n in ours if not n.startswith(spared)} | {
        n for n, _ in model.named_parameters() if n.startswith("coarse_head.")}


def test_while_the_head_is_new_it_alone_is_trained(model, frames):
    vectors = model.forward_coarse(frames, model.encode_frozen(frames), CLIPS, (0, 4), head_only=True)
    trained = with_gradient(model, vectors.square().mean())
    assert trained and all(name.startswith("coarse_head.") for name in trained)
