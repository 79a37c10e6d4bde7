"""Parts of a model beside the denoiser: VAEs, text encoders, image encoders; alone in a file, or one part of a checkpoint."""

from typing import Final

import msgspec

from halftone.library.families import known_families as of


class PartKind(msgspec.Struct, frozen=True, kw_only=True):
    """A part's name and marks."""

    name: str
    marks: tuple[str, ...]
    without: tuple[str, ...] = ()


def _kind(name: str, *marks: str, without: tuple[str, ...] = ()) -> PartKind:
    return PartKind(name=name, marks=marks, without=without)


VAES: Final[tuple[PartKind, ...]] = (
    _kind("LTX VAE", "per_channel_statistics.mean-of-means"),
    _kind("LTX VAE", "decoder.conv_in.conv.weight[*,128,...]", "{latents_mean,decoder.up_blocks.0.resnets.0.conv1.conv.weight}"),
    _kind("FLUX.2 VAE", "bn.running_mean", "{encoder,decoder}.conv_in.weight"),
    _kind("SVD VAE", "decoder.mid.block_1.time_stack.*"),
    _kind("SVD VAE", "decoder.mid_block.resnets.0.temporal_res_block.*"),
    _kind(of.VAE_WAN_22, "decoder.upsamples.0.upsamples.0.residual.0.gamma"),
    _kind(of.VAE_WAN_22, "decoder.conv_in.weight[*,48,*,*,*]", "decoder.mid_block.resnets.0.norm1.gamma"),
    _kind(of.VAE_WAN, "decoder.middle.0.residual.0.gamma"),
    _kind(of.VAE_WAN, "decoder.mid_block.resnets.0.norm1.gamma", "decoder.conv_in.weight[*,*,*,*,*]"),
    _kind("DC-AE", "decoder.stages.0.op_list.*", "decoder.project_in.*"),
    _kind(
        "DC-AE",
        "{encoder.down_blocks.0.0,decoder.up_blocks.0.0,decoder.up_blocks.0.1}.*",
        "decoder.conv_in.weight[*,*,*,*]",
        without=("decoder.mid_block.*",),
    ),
    _kind("Stage A", "vquantizer.*", "{up_blocks,down_blocks}.*"),
    _kind("Stage C image encoder", "{encoder.,}backbone.1.0.block.0.0.weight", "{encoder.,}mapper.0.weight"),
    _kind("Stage C image encoder", "backbone.features.*", "mapper.0.weight"),
    _kind("MoVQ", "quantize.embedding.weight", "decoder.mid_block.resnets.0.norm1.*"),
    _kind("CogVideoX VAE", "decoder.mid_block.resnets.0.norm1.conv_y.conv.weight"),
    _kind("Mochi VAE", "{decoder.,}block_in.resnets.0.norm1.norm_layer.*"),
    _kind("HunyuanVideo VAE", "decoder.{mid.block_1,mid_block.resnets.0}.conv1.conv.weight[*,*,*,*,*]"),
    _kind("TAESD", "decoder.layers.0.weight", "decoder.layers.{2,3}.conv.0.weight"),
    _kind("TAESD", "{taesd_decoder.,decoder.,}1.weight[64,*,3,3]", "{taesd_decoder.,decoder.,}3.conv.0.weight"),
    _kind("TAESD", "{taesd_encoder.,encoder.,}0.weight[64,3,3,3]", "{taesd_encoder.,encoder.,}1.conv.0.weight"),
    _kind("VAE (64 channels)", "decoder.conv_in.weight[*,64,3,3]"),
    _kind("FLUX.2 VAE", "decoder.conv_in.weight[*,32,3,3]", "post_quant_conv.weight"),
    _kind(of.VAE_16, "decoder.conv_in.weight[*,16,3,3]"),
    _kind(of.VAE_4, "decoder.conv_in.weight[*,4,3,3]", without=("decoder.temp_conv_in.*",)),
    _kind("VAE", "decoder.{conv_in,up_blocks,up}.*"),
    _kind("VAE encoder", "encoder.conv_in.*", "encoder.conv_out.*", without=("decoder.*",)),
)

_HF: Final = "{text_model.,}encoder.layers.0.self_attn.q_proj.weight"
_HF_TABLE: Final = "{text_model.,}embeddings.token_embedding.weight"
_OPEN: Final = "{transformer.,}resblocks.0.attn.in_proj_weight"
_T5: Final = "{encoder.,}block.0.layer.0.SelfAttention.q.weight"
_T5_TABLE: Final = "{shared,encoder.embed_tokens,embed_tokens}.weight"
_ROOTS: Final = "{model.,language_model.,model.language_model.,language_model.model.,}"
_LLM: Final = _ROOTS + "layers.0.self_attn.q_proj.weight"
_LLM_TABLE: Final = _ROOTS + "embed_tokens.weight"
_LLM_NORM: Final = _ROOTS + "layers.0.self_attn.q_norm.weight"
_GEMMA: Final = _ROOTS + "layers.0.pre_feedforward_layernorm.weight"
_GGUF: Final = "blk.0.attn_q.weight"

TEXT_ENCODERS: Final[tuple[PartKind, ...]] = (
    _kind(of.CLIP_L, _HF, _HF_TABLE + "[*,768]"),
    _kind(of.CLIP_H, _HF, _HF_TABLE + "[*,1024]"),
    _kind(of.CLIP_G, _HF, _HF_TABLE + "[*,1280]"),
    _kind("CLIP", "text_model.encoder.layers.0.*", without=("vision_model.*",)),
    _kind("CLIP", _HF, _HF_TABLE, without=("vision_model.*",)),
    _kind(of.CLIP_G, _OPEN + "[3840,*]", "token_embedding.weight"),
    _kind(of.CLIP_H, _OPEN + "[3072,*]", "token_embedding.weight"),
    _kind(of.CLIP_L, _OPEN + "[2304,*]", "token_embedding.weight"),
    _kind("OpenCLIP", "{transformer.,}resblocks.0.*", "token_embedding.weight"),
    _kind(of.UMT5, _T5, _T5_TABLE + "[256384,4096]"),
    _kind(of.UMT5, _T5, "{encoder.,}block.1.layer.0.SelfAttention.relative_attention_bias.weight", _T5_TABLE + "[*,4096]"),
    _kind(of.MT5, _T5, _T5_TABLE + "[250112,2048]"),
    _kind(of.PILE_T5, _T5, _T5_TABLE + "[32128,2048]"),
    _kind(of.T5_XXL, _T5, _T5_TABLE + "[32128,4096]"),
    _kind("ByT5", _T5, _T5_TABLE + "[*,1472]"),
    _kind("T5-base", _T5, _T5_TABLE + "[*,768]"),
    _kind("T5-11B", _T5, _T5_TABLE + "[*,1024]", "{encoder.,}block.0.layer.0.SelfAttention.q.weight[16384,*]"),
    _kind("T5", "{encoder.,}block.0.layer.0.SelfAttention.*"),
    _kind(of.UMT5, "enc.blk.0.attn_q.weight", "token_embd.weight[256384,4096]"),
    _kind(of.UMT5, "enc.blk.1.attn_rel_b.weight", "token_embd.weight[*,4096]"),
    _kind(of.T5_XXL, "enc.blk.0.attn_q.weight", "token_embd.weight[32128,4096]"),
    _kind("T5", "enc.blk.0.attn_q.weight"),
    _kind(of.BERT, "{bert.,}encoder.layer.0.attention.self.query.weight", "{bert.,}embeddings.word_embeddings.weight"),
    _kind(of.CHATGLM, "{transformer.,}encoder.layers.0.self_attention.query_key_value.weight"),
    _kind(of.GLM4, _LLM, _ROOTS + "layers.0.mlp.gate_up_proj.weight", _LLM_TABLE + "[151552,4096]"),
    _kind("Phi-3", _ROOTS + "layers.0.self_attn.qkv_proj.weight", _ROOTS + "layers.0.mlp.gate_up_proj.weight"),
    _kind("Gemma 3 4B", _GEMMA, _LLM_NORM, _LLM_TABLE + "[*,2560]"),
    _kind("Gemma 3 12B", _GEMMA, _LLM_NORM, _LLM_TABLE + "[*,3840]"),
    _kind("Gemma 3", _GEMMA, _LLM_NORM),
    _kind(of.GEMMA2, _GEMMA, _LLM_TABLE + "[*,2304]"),
    _kind("Gemma 2", _GEMMA),
    _kind("Gemma 2B", _LLM, _LLM_TABLE + "[256000,2048]"),
    _kind(of.QWEN3_VL, _LLM_NORM, _LLM_TABLE + "[*,2560]", "{visual,model.visual}.*"),
    _kind(of.QWEN3_4B, _LLM_NORM, _LLM_TABLE + "[*,2560]"),
    _kind(of.QWEN3_8B, _LLM_NORM, _LLM_TABLE + "[*,4096]"),
    _kind("Qwen3", _LLM, _LLM_NORM),
    _kind(of.QWEN25_VL, _LLM, _ROOTS + "layers.0.self_attn.q_proj.bias", _LLM_TABLE + "[*,3584]"),
    _kind("Qwen2.5-VL 3B", _LLM, _ROOTS + "layers.0.self_attn.q_proj.bias", _LLM_TABLE + "[*,2048]"),
    _kind("Qwen2", _LLM, _ROOTS + "layers.0.self_attn.q_proj.bias"),
    _kind(of.MISTRAL, _LLM, _LLM_TABLE + "[131072,5120]"),
    _kind(of.LLAVA, _LLM, _LLM_TABLE + "[128320,4096]"),
    _kind(of.LLAMA, _LLM, _LLM_TABLE + "[128256,4096]"),
    _kind("language model", _LLM),
    _kind(of.QWEN25_VL, _GGUF, "blk.0.attn_q.bias", "token_embd.weight[*,3584]"),
    _kind(of.QWEN3_4B, _GGUF, "blk.0.attn_q_norm.weight", "token_embd.weight[*,2560]"),
    _kind(of.QWEN3_8B, _GGUF, "blk.0.attn_q_norm.weight", "token_embd.weight[*,4096]"),
    _kind(of.GEMMA2, _GGUF, "token_embd.weight[256000,2304]"),
    _kind(of.LLAVA, _GGUF, "token_embd.weight[128320,4096]"),
    _kind(of.LLAMA, _GGUF, "token_embd.weight[128256,4096]"),
    _kind(of.MISTRAL, _GGUF, "token_embd.weight[131072,5120]"),
    _kind("language model", _GGUF),
)

_VISION: Final = "vision_model.encoder.layers.0.self_attn.q_proj.weight"

IMAGE_ENCODERS: Final[tuple[PartKind, ...]] = (
    _kind("SigLIP", _VISION + "[1152,*]"),
    _kind("CLIP-L vision", _VISION + "[1024,*]", without=("text_model.*",)),
    _kind("OpenCLIP-H vision", _VISION + "[1280,*]"),
    _kind("OpenCLIP-G vision", _VISION + "[1664,*]"),
    _kind("CLIP-L with vision", _VISION, "text_model.encoder.layers.0.*"),
    _kind("CLIP vision", "vision_model.encoder.layers.0.*"),
    _kind("OpenCLIP vision", "visual.transformer.resblocks.0.*"),
    _kind("DINOv2", "encoder.layer.0.layer_scale1.lambda1", "embeddings.patch_embeddings.projection.weight"),
)
