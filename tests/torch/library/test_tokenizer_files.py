"""Tokenizers in the form in which published models have them."""

import json
from pathlib import Path

import sentencepiece
from transformers import T5Tokenizer

WORDS = "a red sun over the sea\nthe quick brown fox jumps over the lazy dog\nhalftone prints pictures in dots\n"


def test_a_sentencepiece_model_alone_is_read(tmp_path: Path) -> None:
    """PixArt, CogVideoX and HunyuanDiT come with no tokenizer.json; what reads theirs is in another library."""
    (tmp_path / "words.txt").write_text(WORDS * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "words.txt"),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=36,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (tmp_path / "spiece.vocab").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 100}))
    read = T5Tokenizer.from_pretrained(tmp_path)
    tokens = read("a red sun")["input_ids"]
    assert len(tokens) > 3
    assert read.decode(tokens, skip_special_tokens=True) == "a red sun"
