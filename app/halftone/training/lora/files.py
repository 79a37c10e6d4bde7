"""The folder of a run: its request, the state to resume from, the LoRA after some steps."""

import json
import logging
from pathlib import Path
from typing import Final

import msgspec
from safetensors.torch import save

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig, WiderType
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.library.families.known_families import SD2
from halftone.metadata.picture import output_error
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import no_folder
from halftone.settings.places import data_dir
from halftone.settings.private import private_folder
from halftone.settings.regular_files import read_json_bytes
from halftone.training.lora.bases import Base
from halftone.training.lora.network import LoraNetwork, diffusers_names, kohya_names, weights_of

RUN: Final = "run.json"
STATE: Final = "state.safetensors"
CACHE: Final = "cache"
_FREE: Final = (
    "model", "pictures", "output", "name", "device",
    "steps", "save_every", "test_every", "test_prompt", "test_seed", "guard", "stop_after",
)  # fmt: skip
"""Settings that may change when a run is resumed: none changes a weight that was learnt (a moved model is known by its
fingerprint); steps never fall below those made.
"""
_VERSIONS: Final = {"stable-diffusion-v1": "sd_v1", "stable-diffusion-xl-v1-base": "sdxl_base_v1-0"}
_MIXED: Final[dict[DType, str]] = {"float16": "fp16", "bfloat16": "bf16", "float32": "no"}

log = logging.getLogger(__name__)


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Written before the first step. pictures: name -> hash of the file, and its caption; file: name of the finished LoRA's;
    wider: why it is not computed in the type asked for.
    """

    config: TrainConfig
    model: str
    pictures: dict[str, str]
    file: str
    wider: WiderType | None = None


def new_folder(config: TrainConfig) -> tuple[Path, Path]:
    """(folder of a new run, file of its LoRA): names that nothing has yet. Raises HalftoneError output-* and disk-full."""
    output = Path(config.output).expanduser().absolute()
    try:
        output.mkdir(parents=True, exist_ok=True)
        folder, file = _free(output, config.name)
        folder.mkdir()
    except FileExistsError as error:
        raise no_folder(output) from error
    except OSError as error:
        raise output_error(error, output, 1) from error
    return folder, file


def _free(output: Path, name: str) -> tuple[Path, Path]:
    index = 1
    while True:
        own = name if index == 1 else f"{name}-{index}"
        folder, file = output / own, output / f"{own}.safetensors"
        if not folder.exists() and not file.exists():
            return folder, file
        index += 1


def write_run(folder: Path, run: Run) -> None:
    """Raises HalftoneError output-* and disk-full."""
    write(folder / RUN, msgspec.json.format(msgspec.json.encode(run)), private=True)


def read_run(folder: Path) -> Run:
    """Raises HalftoneError train-no-run where it is no folder of a run, and train-state-unreadable of a damaged one."""
    try:
        return msgspec.json.decode(read_json_bytes(folder / RUN), type=Run)
    except OSError as error:
        raise HalftoneError("train-no-run", str(error), folder=str(folder)) from error
    except msgspec.MsgspecError as error:
        raise HalftoneError("train-state-unreadable", str(error), path=str(folder / RUN)) from error


def check_same(run: Run, config: TrainConfig, folder: Path) -> None:
    """Raise HalftoneError train-other-run where the settings are those of another run."""
    for name in TrainConfig.__struct_fields__:
        was, now = getattr(run.config, name), getattr(config, name)
        if name not in _FREE and was != now:
            detail = Words("its {0} was {1}, not {2}", (name.replace("_", " "), str(was), str(now)))
            raise HalftoneError("train-other-run", folder=str(folder), detail=detail)


def check_steps(made: int, config: TrainConfig, folder: Path) -> None:
    """Raise HalftoneError train-other-run where more steps were made than the settings ask for."""
    if config.steps < made:
        detail = Words("{0} of its steps are done already, and the settings ask for {1}", (str(made), str(config.steps)))
        raise HalftoneError("train-other-run", folder=str(folder), detail=detail)


def lora_bytes(lora: LoraNetwork, base: Base, model: ModelFacts, config: TrainConfig, step: int, dtype: DType) -> bytes:
    """The LoRA's file, as it is now. dtype: that the denoiser computes in."""
    weights = weights_of(lora)
    tensors = kohya_names(weights, lora.alpha) if base.kohya else diffusers_names(weights, lora.alpha / lora.rank)
    return save(tensors, metadata_of(base, model, config, step, dtype))


def metadata_of(base: Base, model: ModelFacts, config: TrainConfig, step: int, dtype: DType) -> dict[str, str]:
    """Metadata as in sd-scripts and Stability's modelspec. It holds no path: the file is for others, too."""
    architecture, version = _kind_of(base, model)
    found = {
        "ss_network_module": "networks.lora",
        "ss_network_dim": str(config.rank),
        "ss_network_alpha": f"{config.alpha:g}",
        "ss_base_model_version": version,
        "ss_sd_model_name": model.name,
        "ss_output_name": config.name,
        "ss_steps": str(step),
        "ss_max_train_steps": str(config.steps),
        "ss_learning_rate": f"{config.learning_rate:g}",
        "ss_optimizer": config.optimizer,
        "ss_lr_scheduler": config.schedule,
        "ss_seed": str(config.seed),
        "ss_batch_size_per_device": str(config.batch),
        "ss_gradient_accumulation_steps": str(config.accumulate),
        "ss_mixed_precision": _MIXED[dtype],
        "modelspec.sai_model_spec": "1.0.0",
        "modelspec.architecture": f"{architecture}/lora",
        "modelspec.title": config.name,
    }
    if base.kohya:
        velocity = model.prediction == "v_prediction"
        found |= {"ss_v2": str(model.family == SD2.name), "modelspec.prediction_type": "v" if velocity else "epsilon"}
    else:
        found["ss_network_args"] = json.dumps({"scale": "in lora_B"})
    return found


def _kind_of(base: Base, model: ModelFacts) -> tuple[str, str]:
    """(architecture, version) of what it was trained on: programs list a LoRA only beside models of its own kind."""
    if model.family != SD2.name:
        return base.architecture, _VERSIONS.get(base.architecture, base.architecture)
    if model.prediction == "v_prediction":
        return "stable-diffusion-v2-768-v", "sd_v2_v"
    return "stable-diffusion-v2-512", "sd_v2"


def write(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write whole or not at all. private: for its owner alone. Raises HalftoneError output-* and disk-full."""
    try:
        write_atomically(path, data, private=private)
    except OSError as error:
        raise output_error(error, path, len(data)) from error


def write_somewhere(path: Path, data: bytes) -> tuple[Path, ErrorFacts | None]:
    """Write a finished LoRA, elsewhere where its own folder fails: it is never lost while any folder works.

    Returns its place, and why not `path` (None where it is there). Raises HalftoneError where no folder works.
    """
    try:
        write(path, data)
    except HalftoneError as error:
        instead = data_dir() / "loras"
        try:
            private_folder(instead)
        except OSError:
            raise error from None
        other = _free(instead, path.stem)[1]
        write(other, data)
        log.warning("the LoRA lies in %s: %s", other, error)
        return other, error.as_facts()
    return path, None
