"""A training file of kohya's sd-scripts, given in the place of Halftone's: what its settings are called here.

Source: the options of sd-scripts' library/train_util.py, library/custom_train_functions.py and train_network.py. Its sections
have no meaning; only files of datasets have `datasets`.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from halftone.contract.wording import Words

_NAMES: Final = {
    "pretrained_model_name_or_path": "model",
    "train_data_dir": "pictures",
    "output_dir": "output",
    "output_name": "name",
    "resolution": "size",
    "flip_aug": "flip",
    "max_train_steps": "steps",
    "train_batch_size": "batch",
    "gradient_accumulation_steps": "accumulate",
    "network_dim": "rank",
    "network_alpha": "alpha",
    "optimizer_type": "optimizer",
    "unet_lr": "learning_rate",
    "lr_scheduler": "schedule",
    "lr_warmup_steps": "warm_up",
    "max_grad_norm": "clip",
    "min_snr_gamma": "snr_gamma",
    "caption_dropout_rate": "caption_dropout",
    "mixed_precision": "precision",
    "gradient_checkpointing": "checkpointing",
    "save_every_n_steps": "save_every",
    "sample_every_n_steps": "test_every",
}
"""Name there -> name here."""
_SURE: Final = frozenset(("pretrained_model_name_or_path", "train_data_dir", "network_dim", "network_module", "max_train_steps"))
"""Names that only files of sd-scripts have."""


def of_sd_scripts(content: Mapping[str, Any]) -> Words | None:
    """Why Halftone does not take a file, where it is one of sd-scripts: the end of a sentence; None for others."""
    if isinstance(content.get("datasets"), list):
        return Words("it lists datasets for kohya's sd-scripts; Halftone takes one folder, as in pictures = {0}", ('"FOLDER"',))
    names = [*content, *(name for value in content.values() if isinstance(value, dict) for name in cast("dict[str, Any]", value))]
    if _SURE.isdisjoint(names):
        return None
    same = tuple(f"{name} = {_NAMES[name]}" for name in dict.fromkeys(names) if name in _NAMES)
    if not same:
        return Words("it is a file of kohya's sd-scripts, whose settings have other names here")
    return Words("it is a file of kohya's sd-scripts, whose settings have other names here: {0}", (same,))
