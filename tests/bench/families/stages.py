"""Tiny random pipelines of two stages, and each stage alone: Stable Cascade, Kandinsky 2.2."""

from typing import Any

from diffusers.pipelines.deprecated.wuerstchen import PaellaVQModel
from tests.bench.families.remade import remade
from tests.bench.faults import videos
from tests.bench.faults.parts import D
from tests.helpers import tiny


def _prior() -> Any:
    return D.StableCascadeUNet(
        conditioning_dim=16,
        block_out_channels=(16, 16),
        num_attention_heads=(2, 2),
        down_num_layers_per_block=(1, 1),
        up_num_layers_per_block=(1, 1),
        clip_image_in_channels=16,
        switch_level=(False,),
        clip_text_in_channels=tiny.WIDTH,
        clip_text_pooled_in_channels=tiny.WIDTH,
    )


def _decoder() -> Any:
    plain = ("SDCascadeResBlock", "SDCascadeTimestepBlock")
    return D.StableCascadeUNet(
        in_channels=4,
        out_channels=4,
        conditioning_dim=16,
        block_out_channels=(8, 8, 16, 16),
        num_attention_heads=(-1, -1, 1, 2),
        down_num_layers_per_block=(1, 1, 1, 1),
        up_num_layers_per_block=(1, 1, 1, 1),
        down_blocks_repeat_mappers=(1, 1, 1, 1),
        up_blocks_repeat_mappers=(1, 1, 1, 1),
        block_types_per_layer=(plain, plain, (*plain, "SDCascadeAttnBlock"), (*plain, "SDCascadeAttnBlock")),
        switch_level=None,
        clip_text_pooled_in_channels=tiny.WIDTH,
        dropout=(0.1, 0.1, 0.1, 0.1),
    )


def cascade() -> Any:
    return D.StableCascadeCombinedPipeline(
        tokenizer=tiny.clip_tokenizer(),
        text_encoder=tiny.clip_text(tiny.WIDTH),
        decoder=_decoder(),
        scheduler=D.DDPMWuerstchenScheduler(),
        vqgan=PaellaVQModel(bottleneck_blocks=1, num_vq_embeddings=8, embed_dim=16),
        prior_text_encoder=tiny.clip_text(tiny.WIDTH),
        prior_tokenizer=tiny.clip_tokenizer(),
        prior_prior=_prior(),
        prior_scheduler=D.DDPMWuerstchenScheduler(),
    )


def cascade_prior() -> Any:
    whole = cascade()
    return D.StableCascadePriorPipeline(
        tokenizer=whole.prior_tokenizer,
        text_encoder=whole.prior_text_encoder,
        prior=whole.prior_prior,
        scheduler=whole.prior_scheduler,
    )


def cascade_decoder() -> Any:
    whole = cascade()
    return D.StableCascadeDecoderPipeline(
        tokenizer=whole.tokenizer,
        text_encoder=whole.text_encoder,
        decoder=whole.decoder,
        scheduler=whole.scheduler,
        vqgan=whole.vqgan,
    )


def kandinsky22_inpaint() -> Any:
    """Its decoder takes the mask and what is outside of it beside the latents."""
    parts = videos.kandinsky22().components
    return D.KandinskyV22InpaintCombinedPipeline(**{**parts, "unet": remade(parts["unet"], in_channels=9)})


def kandinsky22_prior() -> Any:
    whole = videos.kandinsky22()
    return D.KandinskyV22PriorPipeline(
        prior=whole.prior_prior,
        image_encoder=whole.prior_image_encoder,
        text_encoder=whole.prior_text_encoder,
        tokenizer=whole.prior_tokenizer,
        scheduler=whole.prior_scheduler,
        image_processor=whole.prior_image_processor,
    )


def kandinsky22_decoder() -> Any:
    whole = videos.kandinsky22()
    return D.KandinskyV22Pipeline(unet=whole.unet, scheduler=whole.scheduler, movq=whole.movq)
