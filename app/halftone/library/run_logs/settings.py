"""What a run was started with, wherever it is written: TOML, JSON, YAML, arguments in the text, a checkpoint's header."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from halftone.library.run_logs.series import Collector, Setting

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "precision": ("mixed_precision", "ss_mixed_precision", "precision", "mixed precision type"),
    "half-weights": ("full_fp16", "ss_full_fp16", "use_fp16"),
    "masters": ("fp16_mode",),
    "fp16": ("fp16",),
    "bf16": ("bf16", "full_bf16"),
    "weights": ("weight_dtype", "train_dtype"),
    "rate": ("learning_rate", "ss_learning_rate", "lr", "base_lr", "unet_lr", "ss_unet_lr"),
    "optimizer": ("optimizer_type", "ss_optimizer", "optimizer", "optim", "optimizer_name"),
    "optimizer-arguments": ("optimizer_args",),
    "epsilon": ("adam_epsilon", "epsilon", "eps", "adam_eps"),
    "clip": ("max_grad_norm", "ss_max_grad_norm", "gradient_clip_val", "gradient_clip", "clip_grad_norm", "grad_clip"),
    "batch": ("train_batch_size", "per_device_train_batch_size", "ss_batch_size_per_device", "batch_size", "batch_size_per_gpu"),
    "schedule": ("lr_scheduler", "lr_scheduler_type", "ss_lr_scheduler", "lr_schedule"),
    "warm-up": ("lr_warmup_steps", "ss_lr_warmup_steps", "warmup_steps", "num_warmup_steps"),
    "model": ("pretrained_model_name_or_path", "ss_sd_model_name", "ss_base_model_version", "model_name_or_path"),
    "vae-float32": ("no_half_vae",),
    "vae": ("vae", "ss_vae_name", "pretrained_vae_model_name_or_path"),
    "resumed": ("resume_from_checkpoint", "resume"),
}
"""What is known here -> what programs call it."""

_BY_NAME: Final = {other: name for name, others in NAMES.items() for other in others}
_ANY: Final = "|".join(sorted(map(re.escape, _BY_NAME), key=len, reverse=True))
_SAID: Final = re.compile(rf"(?<![\w-])(?:--)?({_ANY})['\"]?\s{{0,3}}[:=]\s{{0,3}}['\"]?([\w.+/\\:-]{{1,200}})", re.IGNORECASE)
_ARGUMENT: Final = re.compile(rf"--({_ANY})[= ]['\"]?([\w.+/\\:-]{{1,200}})", re.IGNORECASE)
_FLAG: Final = re.compile(r"--(full_fp16|full_bf16|no_half_vae|fp16|bf16)(?![\w=])", re.IGNORECASE)
_SPOKEN: Final = re.compile(r"enable full (fp16|bf16) training", re.IGNORECASE)
_YAML: Final = re.compile(
    rf"^[\s-]{{0,40}}['\"]?({_ANY})['\"]?:\s{{0,9}}['\"]?([\w.+/\\:-]{{1,200}})['\"]?\s*(?:#.*)?$", re.IGNORECASE
)
_NO_RUN: Final = frozenset(
    ("config.json", "model_index.json", "scheduler_config.json", "generation_config.json", "preprocessor_config.json")
)
_MOST: Final = 2**23
"""Bytes of a file of settings."""


STEMS: Final = (
    "precision",
    "fp16",
    "bf16",
    "lr",
    "learning",
    "optim",
    "eps",
    "norm",
    "clip",
    "batch",
    "warmup",
    "model",
    "vae",
    "resume",
    "dtype",
)
"""Each name has one of these in it."""


def settings_in(text: str, lower: str, file: str, line: int) -> Iterator[Setting]:
    """Those that a line of a log names. lower: the line in small letters."""
    if not any(stem in lower for stem in STEMS):
        return iter(())
    found = [(pair.group(1), pair.group(2)) for pattern in (_SAID, _ARGUMENT) for pair in pattern.finditer(text)]
    found += [(flag.group(1), "true") for flag in _FLAG.finditer(text)]
    found += [(f"full_{spoken.group(1)}", "true") for spoken in _SPOKEN.finditer(text)]
    return _known(((name, value) for name, value in found), file, line)


def _known(pairs: Iterable[tuple[str, Any]], file: str, line: int) -> Iterator[Setting]:
    for name, value in pairs:
        known = _BY_NAME.get(name.rpartition("/")[2].lower())
        if known is not None and not isinstance(value, dict) and value not in (None, "", "None", "null"):
            yield Setting(known, _spelled(value), file, line)


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)[:200].rstrip(",")


def metadata_settings(metadata: Mapping[str, str], file: str) -> list[Setting]:
    """Of a checkpoint's header, as kohya's scripts write it."""
    return list(_known(metadata.items(), file, 0))


def is_settings(path: Path) -> bool:
    return path.suffix in {".toml", ".yaml", ".yml", ".json"} and path.name not in _NO_RUN and "tokenizer" not in path.name


def read_settings(path: Path, into: Collector) -> None:
    """Settings of a TOML, JSON or YAML file; a file that is none of a run gives none. OSError if it cannot be read."""
    if path.stat().st_size > _MOST:
        return
    text = path.read_text("utf-8-sig", errors="replace")
    if path.suffix in {".yaml", ".yml"}:
        for number, line in enumerate(text.splitlines(), 1):
            if found := _YAML.match(line):
                into.settings += _known([(found.group(1), found.group(2))], into.file, number)
        return
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError):
        into.note("damaged", "it is not whole")
        return
    pairs = [(name, value) for name, value in _named(content) if not isinstance(value, dict)]
    into.settings += [msg._replace(line=_line_of(msg, text)) for msg in _known(pairs, into.file, 0)]


def _named(content: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict) and depth < 8:
        for key, value in content.items():
            yield str(key), value
            yield from _named(value, depth + 1)


def _line_of(setting: Setting, text: str) -> int:
    """Where its name stands first, 0 if that is not known."""
    for name in NAMES[setting.name]:
        found = re.search(rf"(?m)^[^\n]{{0,80}}?\b{re.escape(name)}\b", text)
        if found:
            return text.count("\n", 0, found.end()) + 1
    return 0
