"""The program of a run, by its files' texts and names."""

import re
from collections.abc import Iterable
from typing import Final, Literal, get_args

Trainer = Literal[
    "sana",
    "trellis",
    "hallo",
    "onetrainer",
    "ai-toolkit",
    "simpletuner",
    "sd-scripts",
    "lightning",
    "deepspeed",
    "diffusers",
    "transformers",
]
"""The most specific first: a program built on another comes before it."""
TRAINERS: Final[tuple[Trainer, ...]] = get_args(Trainer)
_MARKS: Final[dict[Trainer, re.Pattern[str]]] = {
    "sana": re.compile(r" - Sana - |\bSanaMS_"),
    "trellis": re.compile(r'^\d+: \{"time": \{|"fp16_mode"|SLatVae|SparseStructure', re.MULTILINE),
    "hallo": re.compile(r"face_locator|face_analysis_model_path"),
    "onetrainer": re.compile(r"smooth[ _]loss[=/]|GenericTrainer\.py|\"training_method\":"),
    "ai-toolkit": re.compile(
        r"type: ['\"]?(?:sd|diffusion|ui)_trainer|^job: extension|loss_log\.db|lr: \d\.\de-\d\d loss: ", re.MULTILINE
    ),
    "simpletuner": re.compile(r"Epoch \d+/\d+, Steps:|[Ss]imple[Tt]uner"),
    "sd-scripts": re.compile(r"avr_loss=|学習開始|ss_network_module|train_util\.py:\d|\bloss/average\b"),
    "lightning": re.compile(r"\bv_num=|lightning_logs|[Ll]ightningModule"),
    "deepspeed": re.compile(r"\[deepspeed\]|:log_dist\]|ds_config"),
    "diffusers": re.compile(r"step_loss=|Num batches each epoch =|(?:^|[\r\n])Steps: +\d+%\||diffusers"),
    "transformers": re.compile(r"'learning_rate': |trainer_state\.json|training_args\.bin"),
}


def marks_in(text: str) -> set[Trainer]:
    return {trainer for trainer, mark in _MARKS.items() if mark.search(text)}


def trainer_of(marks: Iterable[Trainer]) -> Trainer | None:
    """The most specific of them; None for none."""
    found = set(marks)
    return next((trainer for trainer in TRAINERS if trainer in found), None)
