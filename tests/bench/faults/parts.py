"""Tokenizers, text encoders, schedulers and an autoencoder that several tiny pipelines share."""

from typing import Any

import diffusers
import transformers
from diffusers import DDIMScheduler, FlowMatchEulerDiscreteScheduler
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

D: Any = diffusers
T: Any = transformers


def t5(*, multilingual: bool = False) -> Any:
    """Gated, as the text encoders of picture models are."""
    kinds = (T.UMT5Config, T.UMT5EncoderModel) if multilingual else (T.T5Config, T.T5EncoderModel)
    config = kinds[0](vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")
    return kinds[1](config)


def letters(*special: str) -> Any:
    """A byte-level tokenizer of single bytes, with special words."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *special]
    raw = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(list(special))
    raw.post_processor = processors.TemplateProcessing(
        single=f"{special[0]} $A", special_tokens=[(special[0], len(words) - len(special))]
    )
    return raw


def qwen_tokenizer() -> Any:
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    made = T.PreTrainedTokenizerFast(
        tokenizer_object=letters(*special), pad_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="<|endoftext|>"
    )
    made.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return made


def bert_tokenizer() -> Any:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(code) for code in range(ord("a"), ord("z") + 1))]
    words += [f"##{word}" for word in words[5:]]
    return T.BertTokenizer(vocab={word: index for index, word in enumerate(words)}, model_max_length=77)


def flow(**extra: Any) -> Any:
    return FlowMatchEulerDiscreteScheduler(**extra)


def ddim(**extra: Any) -> Any:
    return DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, **extra)


def deep_vae() -> Any:
    """Eight pixels to a latent cell, for a pipeline that takes that for granted."""
    return D.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
        force_upcast=True,
    )


def gemma() -> Any:
    config = T.Gemma2Config(
        vocab_size=128,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
    )
    return T.Gemma2Model(config)
