"""The probe on real architectures: every kind of output and argument they use, and the origin of planted overflows."""

from typing import Any, cast

import pytest
import torch
from diffusers.models.attention_processor import AttnProcessor
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from halftone.measure.probe import Probe, origin


def unet() -> Any:
    torch.manual_seed(0)
    model = UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, attention_head_dim=8,
        norm_num_groups=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    return model.eval()


def denoise(model: Any) -> Probe:
    dtype = next(iter(model.parameters())).dtype
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(2, 4, 16, 16, generator=generator).to(dtype)
    prompt = torch.randn(2, 7, 32, generator=generator).to(dtype)
    with torch.no_grad(), Probe(model, "unet") as probe:
        model(latents, torch.tensor(500), encoder_hidden_states=prompt)
    return probe


def t5() -> Any:
    torch.manual_seed(0)
    config = T5Config(d_model=32, d_ff=64, num_layers=2, num_heads=4, d_kv=8, vocab_size=100, feed_forward_proj="gated-gelu")
    return T5EncoderModel(config).eval()


def encode(model: Any) -> Probe:
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    with torch.no_grad(), Probe(model, "text_encoder") as probe:
        model(torch.arange(14).view(2, 7), attention_mask=mask)
    return probe


def named(probe: Probe) -> str:
    found = origin(probe.readings())
    assert found is not None
    return found.module


def test_a_sound_unet_is_read_throughout() -> None:
    probe = denoise(unet())
    readings = probe.readings()
    assert len(readings) > 150
    assert all(r.finite and 0 < r.peak < 100 for r in readings)
    scores = {score.module: score.peak for score in probe.scores()}
    assert set(scores) == {r.module for r in readings if r.kind == "Attention"}
    assert all(0 < found < 100 for found in scores.values())


def test_a_convolution_that_overflows_is_named() -> None:
    model = unet().half()
    with torch.no_grad():
        model.up_blocks[0].resnets[0].conv2.weight.mul_(60000)
        model.up_blocks[0].resnets[0].conv2.bias.fill_(3e4)
    assert named(denoise(model)) == "up_blocks.0.resnets.0.conv2"


def test_scores_that_overflow_name_the_attention_and_show_their_peak() -> None:
    model = unet()
    model.set_attn_processor(AttnProcessor())
    model = model.half()
    attention = model.down_blocks[0].attentions[0].transformer_blocks[0].attn1
    with torch.no_grad():
        attention.to_q.weight.mul_(3000)
        attention.to_k.weight.mul_(300)
    probe = denoise(model)
    assert named(probe) == "down_blocks.0.attentions.0.transformer_blocks.0.attn1"
    assert probe.scores()[0].peak > 65504


def test_a_vae_is_read_in_both_directions() -> None:
    torch.manual_seed(0)
    build = cast(Any, AutoencoderKL)  # its annotations take one block only
    vae = build(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=8,
    ).eval()
    with torch.no_grad(), Probe(vae, "vae") as probe:
        latents = vae.encode(torch.randn(1, 3, 16, 16)).latent_dist.mode()
        vae.decode(latents, return_dict=False)
    modules = {reading.module for reading in probe.readings()}
    assert {"encoder", "quant_conv", "post_quant_conv", "decoder", "decoder.conv_out"} <= modules
    assert origin(probe.readings()) is None


def test_masks_and_position_biases_of_text_encoders_are_no_peaks() -> None:
    config = CLIPTextConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=100,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    for model in (CLIPTextModel(config).eval(), t5()):
        readings = encode(model).readings()
        assert all(r.finite and r.peak < 100 for r in readings)


def test_a_gate_that_overflows_names_the_feed_forward() -> None:
    model = t5().half()
    feed_forward = model.encoder.block[1].layer[1].DenseReluDense
    with torch.no_grad():
        feed_forward.wi_0.weight.mul_(300)
        feed_forward.wi_1.weight.mul_(300)
    assert named(encode(model)) == "encoder.block.1.layer.1.DenseReluDense"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_readings_in_half_precision_are_close_to_those_in_float32(dtype: torch.dtype) -> None:
    full = {r.module: r.peak for r in encode(t5()).readings()}
    half = {r.module: r.peak for r in encode(t5().to(dtype)).readings()}
    assert half == pytest.approx(full, rel=0.1)
