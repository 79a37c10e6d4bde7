"""What a person in a terminal can do: it names options and commands where the window names buttons and pages."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from halftone.cli.terminal.command_lines import command_line
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import ErrorFacts, filled, remedy, sentence
from halftone.contract.facts import Finding
from halftone.contract.limits import RANDOM_SEED
from halftone.contract.vocabulary import FindingCode
from halftone.health.explain import finding_words
from halftone.health.pictures.requests import SEEDS
from halftone.settings.places import resources

_LORA: Final = "ive its file, --lora FILE, or add its folder:  {loras}"
_APPLY: Final = "Use another cure, if the check offers one:  {check}"
_HERE: Final[dict[ErrorCode, str]] = {
    "model-pickle": "Convert it:  {convert}  or use its .safetensors version.",
    "model-needs-parts": "Name a diffusers folder of {family} with --model, and this file with --transformer.",
    "model-needs-files": "Fetch it with:  {fetch}  or put it into {folder}.",
    "model-sampler-unfit": "Name another sampler, --sampler NAME, or another model: --model MODEL.",
    "style-unknown": "Choose {known}; a file of styles is named with --styles FILE.",
    "wildcard-missing": "Use {near}, or let nothing be drawn: --no-draw.",
    "wildcard-none": "Name the folder with its .txt file: --wildcards FOLDER.",
    "picture-needed": "Give one: --image FILE.",
    "mask-needed": "Give one, white where the picture is to change: --mask FILE.",
    "start-no-picture": "Leave --image out, or choose another model: --model MODEL.",
    "start-no-mask": "Leave --mask and --outpaint out, or choose another model: --model MODEL.",
    "start-no-strength": "Leave --strength out, or choose another model: --model MODEL.",
    "picture-silent": "To start from it, give it with --image FILE.",
    "picture-graph": "Give what you know of it with options of its own, or start from it: --image FILE.",
    "picture-start-missing": "Give it with --image FILE, or leave out --from and write the prompt yourself.",
    "picture-model-unknown": "Give its file or folder, or another model: --model PATH.",
    "latents-strange-file": "If you trust them, put them into {folder}, or add the folder of that file:  {models}",
    "hires-unsupported": "Leave --hires out, or make the finished picture larger:  {upscale}",
    "second-pass-black": "Check the model, or use a smaller scale (--hires) or strength (--hires-strength).",
    "second-pass-flat": "Use a smaller scale (--hires) or strength (--hires-strength), or check the model.",
    "upscaler-not-one": "Choose a .safetensors upscale model, or convert the .pth file:  {convert}",
    "upscaler-missing": "Check the path, or add its folder:  {upscalers}",
    "lora-unknown": f"There are: {{found}}. G{_LORA}",
    "lora-none-found": f"G{_LORA}",
    "lora-no-folder": f"G{_LORA}",
    "inversion-unknown": "Remove embedding:{name} from the prompt, or name its file: --embedding FILE.",
    "farm-model": "Add its folder to the model folders of that node, or submit the job again with --copy-models.",
    "farm-no-ray": "Install it:  {ray}",
    "farm-token": "Copy the head's token file to this machine and name it: --token-file FILE.",
    "out-of-memory": "Choose a smaller size. If this ran in FP32, --precision float16 or bfloat16 needs less.",
    "model-too-large": "Close other programs that use it, leave --offload at auto, or use another device: --device NAME. "
    "If this ran in FP32, --precision float16 or bfloat16 needs less.",
    "check-no-memory": "Close other programs that use it, leave --offload at auto, or use another device: --device NAME.",
    "no-rescale": _APPLY,
    "nothing-to-repair": "Nothing to repair, no copy written. With --thorough it looks at more prompts and sizes.",
    "train-no-memory": 'Set checkpointing = true, batch = 1, a smaller size or precision = "bfloat16", and begin again.',
    "train-config": "A file with every setting is printed by:  {example}",
    "repair-eight-bits": _APPLY,
    "repair-several-files": _APPLY,
}
"""Remedies that differ from the window's. Names that are no facts of the error are commands."""
_OF_FINDINGS: Final[dict[FindingCode, str]] = {
    "attention-overflow": "Apply the cure, or use --upcast-cross-attention always.",
    "accumulation-overflow": "Apply the cure, or use --no-fp16-accumulation.",
}
_REPLACING: Final = ("generate", "check")
"""Commands that may replace a file."""


def remedy_here(error: ErrorFacts, words: Sequence[str] = ()) -> str:
    """words: of the command line, if it was refused."""
    if error.code == "output-exists" and words[:1] and words[0] in _REPLACING:
        return "Choose another name, or replace it with --overwrite."
    if error.code == "value-out-of-range" and error.facts.get("name") in SEEDS:
        return f"{remedy(error).removesuffix('.')}, or {RANDOM_SEED} for a random one."
    if error.code == "output-bad-type" and not Path(str(error.facts.get("path", ""))).suffix:
        return f"{remedy(error)} If it is to be a folder, create it first."
    if error.code not in _HERE:
        return remedy(error)
    commands = {
        "models": command_line("folders", "add", "FOLDER"),
        "loras": command_line("folders", "add", "FOLDER", "--kind", "loras"),
        "upscalers": command_line("folders", "add", "FOLDER", "--kind", "upscalers"),
        "fetch": command_line("fetch", str(error.facts.get("path", "FILE"))),
        "check": command_line("check", "MODEL", "--apply"),
        "convert": command_line("convert", str(error.facts.get("path", "FILE"))),
        "ray": _ray_installation(),
        "example": command_line("train", "--example"),
        "upscale": command_line("upscale", "PICTURE", "--with", "MODEL"),
    }
    return filled(_HERE[error.code], error.facts | commands)


def _ray_installation() -> str:
    """The command that installs the farm's packages into this environment: uv lies beside it, or in the package."""
    root = resources().parent
    found = [one for one in (*Path(sys.prefix).parent.glob("uv-*/bin/uv"), root / "uv" / "uv") if one.is_file()]
    words = [str(found[0]) if found else "uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*words, "--require-hashes", "-r", str(root / "installer" / "requirements-farm.lock")])


def say_here(error: ErrorFacts) -> str:
    return f"{sentence(error)} {remedy_here(error)}"


def finding_remedy(finding: Finding) -> str:
    """The remedy of a finding in the terminal's words; a finding that a LoRA causes has its own."""
    own = finding_words(finding)[1].text()
    return own if "lora" in finding.facts else _OF_FINDINGS.get(finding.code, own)
