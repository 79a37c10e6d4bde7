"""Builds Pocket's tokenizer: CLIP's rules with a vocabulary of its own.

Byte-level pair encoding over lower-cased words that end in "</w>", exactly as
CLIP does it, but learnt on Pocket's captions and therefore tiny.  All 256 bytes
are there, alone and at a word's end, so that any text can be tokenised.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from captions import CLOSERS, OPENERS, caption
from draw import training_scene

START, END = "<|startoftext|>", "<|endoftext|>"
LENGTH = 77
WORDS = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


def byte_letters() -> list[str]:
    """The printable letters that stand for the 256 bytes, in CLIP's order."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    other = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + index) for index in range(len(other))]


def sample_captions(count: int) -> list[str]:
    rng = np.random.default_rng(2)
    texts = [caption(training_scene(rng), rng).text for _ in range(count)]
    return [*texts, *(OPENERS * 50), *(CLOSERS * 50)]


def learn_merges(texts: list[str], limit: int) -> list[tuple[str, str]]:
    """The letter pairs worth joining, commonest first."""
    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.normalizer = normalizers.Lowercase()
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(WORDS, behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=limit, end_of_word_suffix="</w>", show_progress=False)
    learner.train_from_iterator(texts, trainer)
    merges = json.loads(learner.to_str())["model"]["merges"]
    return [(first, second) for first, second in merges]


def build_tokenizer(folder: Path) -> CLIPTokenizer:
    """Learn the vocabulary and leave a complete tokenizer folder."""
    merges = learn_merges(sample_captions(20000), 600)
    letters = byte_letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters), *(a + b for a, b in merges), START, END]
    vocab = {word: index for index, word in enumerate(dict.fromkeys(words))}
    tokenizer = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=LENGTH)
    tokenizer.save_pretrained(folder)
    write_plain_files(folder, tokenizer)
    return tokenizer


def write_plain_files(folder: Path, tokenizer: CLIPTokenizer) -> None:
    """The files that tools older or simpler than transformers read."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    special = {"bos_token": START, "eos_token": END, "pad_token": END, "unk_token": END}
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n", encoding="utf-8")
