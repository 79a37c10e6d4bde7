"""Commands as the person can type them here: the launcher passes on how it was called, because it puts nothing on PATH."""

import os
import shlex
import subprocess
import sys

from halftone.contract.preprocessors import NONE
from halftone.contract.request import Control, Extras


def extra_words(extras: Extras) -> list[str]:
    """The options that name what is used with a model."""
    files = (("--transformer", extras.transformer), ("--vae", extras.vae))
    parts = [word for flag, path in files if path is not None for word in (flag, path)]
    loras = [word for lora in extras.loras for word in ("--lora", f"{lora.path}:{lora.shown_weight}")]
    named = [word for path in extras.inversions for word in ("--embedding", path)]
    controls = [word for control in extras.controls for word in ("--control", control_word(control))]
    shown = [(one, image) for one in extras.ip_adapters for image in one.images]
    pictures = [word for one, image in shown for word in ("--ip-adapter", f"{one.path}={image}:{one.scale:g}")]
    pictures += [word for one in extras.ip_adapters if not one.images for word in ("--ip-adapter", one.path)]
    return [*parts, *named, *loras, *controls, *pictures]


def control_word(control: Control) -> str:
    """Write it as `--control` takes it; without a picture, which a check makes up, the ControlNet alone."""
    if not control.image:
        return control.path
    part = f":{control.start:g}-{control.end:g}" if (control.start, control.end) != (0, 1) else ""
    kind = f":{control.kind}" if control.kind else ""
    return f"{control.path}={_preprocessor(control)}{control.image}:{control.scale:g}{part}{kind}"


def _preprocessor(control: Control) -> str:
    resize = "" if control.resize == "stretch" else f",resize={control.resize}"
    mode = "" if control.mode == "balanced" else f",mode={control.mode}"
    if control.preprocessor == NONE and not resize and not mode:
        return ""
    resolution = "" if control.resolution is None else f",res={control.resolution}"
    model = "" if control.preprocessor_model is None else f",model={control.preprocessor_model}"
    changed = (control.threshold_a, control.threshold_b) != (None, None)
    numbers = "".join(f",{value!r}" for value in control.thresholds) if changed else ""
    return f"{control.preprocessor}{numbers}{resolution}{resize}{mode}{model}:"


def command_line(*words: str) -> str:
    """`halftone <words>`, quoted for the system's shell, or the same through the launcher when that is how it was started."""
    return f"{os.environ.get('HALFTONE_COMMAND', 'halftone')} {quoted(*words)}".strip()


def quoted(*words: str) -> str:
    """The words as the system's shell reads them."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
