"""A run's settings, wherever they are written: TOML, JSON, YAML, arguments in the text, a checkpoint's header."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from halftone.contract.wording import Words
from halftone.library.run_logs.series import Collector, Setting
from halftone.library.run_logs.trainer import marks_in
from halftone.settings.regular_files import read_regular

_CALLED: Final = {
    "precision": "mixed_precision, ss_mixed_precision, precision, mixed precision type, train_dtype, train/dtype, model/dtype",
    "half-weights": "full_fp16, ss_full_fp16, use_fp16",
    "masters": "fp16_mode",
    "fp16": "fp16, fp16/enabled, fp16_enabled",
    "bf16": "bf16, full_bf16, bf16/enabled, bfloat16_enabled",
    "weights": "weight_dtype",
    "rate": "learning_rate, ss_learning_rate, lr, base_lr, unet_lr, ss_unet_lr",
    "optimizer": "optimizer_type, ss_optimizer, optimizer, optim, optimizer_name",
    "optimizer-arguments": "optimizer_args",
    "epsilon": "adam_epsilon, epsilon, eps, adam_eps",
    "clip": "max_grad_norm, ss_max_grad_norm, gradient_clip_val, gradient_clip, gradient_clipping, clip_grad_norm, grad_clip",
    "batch": "train_batch_size, per_device_train_batch_size, ss_batch_size_per_device, batch_size, batch_size_per_gpu",
    "schedule": "lr_scheduler, lr_scheduler_type, ss_lr_scheduler, lr_schedule",
    "warm-up": "lr_warmup_steps, ss_lr_warmup_steps, warmup_steps, num_warmup_steps, learning_rate_warmup_steps",
    "model": "pretrained_model_name_or_path, ss_sd_model_name, ss_base_model_version, model_name_or_path, base_model_name, "
    "model/name_or_path",
    "vae-float32": "no_half_vae",
    "vae": "vae, ss_vae_name, pretrained_vae_model_name_or_path",
    "resumed": "resume_from_checkpoint, resume",
}
NAMES: Final[dict[str, tuple[str, ...]]] = {name: tuple(called.split(", ")) for name, called in _CALLED.items()}
"""Setting -> its names in programs."""

_BY_NAME: Final = {other: name for name, others in NAMES.items() for other in others}
_ANY: Final = "|".join(sorted(map(re.escape, (name for name in _BY_NAME if "/" not in name)), key=len, reverse=True))
_SAID: Final = re.compile(
    rf"(?<![\w-])(?:--)?({_ANY})['\"]?\s{{0,3}}[:=]\s{{0,3}}(?!--)['\"]?([\w.+/\\:-]{{1,200}})", re.IGNORECASE
)
_ARGUMENT: Final = re.compile(rf"--({_ANY})[= ](?!--)['\"]?([\w.+/\\:-]{{1,200}})", re.IGNORECASE)
_FLAG: Final = re.compile(r"--(full_fp16|full_bf16|no_half_vae|fp16|bf16)(?![\w=])", re.IGNORECASE)
_SPOKEN: Final = re.compile(r"enable full (fp16|bf16) training", re.IGNORECASE)
_LIGHTNING: Final = re.compile(r"using (16bit|bfloat16) automatic mixed precision", re.IGNORECASE)
_DEEPSPEED: Final = re.compile(r"\b(fp16_enabled|bfloat16_enabled|gradient_clipping) \.{3,40} ([\w.]{1,20})")
_PRECISE: Final = re.compile("precision", re.IGNORECASE)
_YAML: Final = re.compile(
    r"^([\s-]{0,40})['\"]?([\w-]{1,60})['\"]?:(?:\s{1,9}['\"]?([\w.+/\\:-]{1,200})['\"]?|(\s*))\s*(?:#.*)?$"
)
_TRAINED: Final = re.compile(r'"(?:--)?(?:learning_rate|optimizer\w*|trainer)"')
_NO_RUN: Final = frozenset(("model_index.json", "scheduler_config.json", "generation_config.json", "preprocessor_config.json"))
_MOST: Final = 2**23
"""Bytes of a file of settings."""
STEMS: Final = (
    "precision", "fp16", "bf16", "bfloat", "lr", "learning", "optim", "eps", "norm", "clip", "batch", "warmup", "model",
    "vae", "resume", "dtype",
)  # fmt: skip
"""Each name contains one of these."""


def settings_in(text: str, lower: str, file: str, line: int) -> Iterator[Setting]:
    """The settings in a line of a log. lower: the line in small letters."""
    if not any(stem in lower for stem in STEMS):
        return iter(())
    found = [(pair.group(1), pair.group(2)) for pattern in (_SAID, _ARGUMENT) for pair in pattern.finditer(text)]
    found += [(flag.group(1), "true") for flag in _FLAG.finditer(text)]
    found += [(f"full_{spoken.group(1)}", "true") for spoken in _SPOKEN.finditer(text)]
    found += [("precision", spoken.group(1)) for spoken in _LIGHTNING.finditer(text)]
    found += [(spoken.group(1), spoken.group(2)) for spoken in _DEEPSPEED.finditer(text)]
    return _known(((name, value) for name, value in found), file, line)


def precision_in(text: str, file: str, line: int) -> Setting | None:
    """The precision in a line anywhere in a log, where other settings are not read any more."""
    if not _PRECISE.search(text):
        return None
    found = settings_in(text, text.lower(), file, line)
    return next((one for one in found if one.name == "precision" and names_type(one.value)), None)


def _known(pairs: Iterable[tuple[str, Any]], file: str, line: int) -> Iterator[Setting]:
    for name, value in pairs:
        parts = name.lower().lstrip("-").rsplit("/", 2)
        known = _BY_NAME.get("/".join(parts[-2:])) or _BY_NAME.get(parts[-1])
        if known is not None and not isinstance(value, dict) and value not in (None, "", "None", "null"):
            yield Setting(known, _spelled(value), file, line)


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)[:200].rstrip(",")


def known_settings(pairs: Iterable[tuple[str, Any]], file: str) -> list[Setting]:
    """The known ones among names and values: of a checkpoint's header from kohya's scripts, of a tracker."""
    return list(_known(pairs, file, 0))


def is_settings(path: Path) -> bool:
    return path.suffix in {".toml", ".yaml", ".yml", ".json"} and path.name not in _NO_RUN and "tokenizer" not in path.name


def read_settings(path: Path, into: Collector) -> None:
    """Settings of a TOML, JSON or YAML file, none where it is not of a run. OSError if it cannot be read."""
    if path.stat().st_size > _MOST:
        return
    text = read_regular(path).decode("utf-8-sig", errors="replace")
    if path.name == "config.json" and not _TRAINED.search(text):
        return  # mostly a model's own, whose names mean other things; that of a training speaks of its optimizer
    into.marks |= marks_in(text)
    if path.suffix in {".yaml", ".yml"}:
        for number, name, value in _yaml(text):
            into.settings += _known([(name, value)], into.file, number)
        return
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError):
        into.note("damaged", Words("it is incomplete"))
        return
    pairs = [(name, value) for name, value in _named(content) if not isinstance(value, dict)]
    into.settings += [msg._replace(line=_line_of(msg, text)) for msg in _known(pairs, into.file, 0)]


def _yaml(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, name with the one above it, value) of plain values; other YAML is skipped."""
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _YAML.match(line)
        if found is None:
            continue
        depth, name, value = len(found.group(1)), found.group(2), found.group(3)
        while above and above[-1][0] >= depth:
            above.pop()
        if value is None:
            above.append((depth, name))
        else:
            yield number, f"{above[-1][1]}/{name}" if above else name, value


def _named(content: Any, depth: int = 0, above: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, list) and depth < 8:
        for value in content[:50]:
            yield from _named(value, depth + 1, above)
    if isinstance(content, dict) and depth < 8:
        for key, value in content.items():
            yield f"{above}/{key}" if above else str(key), value
            yield from _named(value, depth + 1, str(key))


def _line_of(setting: Setting, text: str) -> int:
    """The line of its first name, 0 if that is not known."""
    for name in NAMES[setting.name]:
        found = re.search(rf"(?m)^[^\n]{{0,80}}?\b{re.escape(name)}\b", text)
        if found:
            return text.count("\n", 0, found.end()) + 1
    return 0


HALF: Final = re.compile(r"^(?:fp16|16|16-mixed|16-true|16bit|float_?16|half|torch\.float16|pure_fp16)$")
BRAIN: Final = re.compile(r"^(?:bf16|bf16-mixed|bf16-true|bfloat_?16|torch\.bfloat16)$")
WIDE: Final = re.compile(r"^(?:no|fp32|32|32-true|t?float_?32|torch\.float32)$")
_AMBIGUOUS: Final = frozenset(("16", "32", "no"))


def names_type(value: str) -> bool:
    """Whether a value can only mean a type, even where precision is also a measure, as in 0.93 or 16."""
    name = value.lower()
    return name not in _AMBIGUOUS and any(pattern.match(name) for pattern in (HALF, BRAIN, WIDE))
