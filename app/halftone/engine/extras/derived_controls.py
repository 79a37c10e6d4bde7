"""ControlNets whose files hold only what changes a model's own UNet: Control-LoRAs, and ControlNets as differences."""

from collections.abc import Mapping
from typing import Final

import torch

from halftone.engine.extras.vae import held
from halftone.engine.loading.load import Loaded, exact_source
from halftone.library.add_ons.controlnets import DOWN, UP, Form

_ENCODER: Final = ("conv_in.", "time_embedding.", "add_embedding.", "class_embedding.", "down_blocks.", "mid_block.")
"""Parts of a UNet that a ControlNet has, too."""


def with_own_weights(loaded: Loaded, form: Form, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All weights of the ControlNet, in a type that holds the model's and the file's. tensors: of the file, by the names in
    diffusers.

    A Control-LoRA stands on the UNet with its LoRAs, as in ComfyUI; a difference on the weights of the model's own file.
    """
    exact = exact_source(loaded, "unet", None if form == "Control-LoRA" else ())
    own = {name for name in exact if name.startswith(_ENCODER)}
    dtype = torch.promote_types(next(iter(tensors.values())).dtype, loaded.stored["unet"])
    if form == "difference":
        made = {name: exact[name].float() + tensor.float() if name in own else tensor for name, tensor in tensors.items()}
        return {name: held(tensor, dtype) for name, tensor in made.items()}
    stems = {name.removesuffix(UP) for name in tensors if name.endswith(UP)}
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith((UP, DOWN))}
    kept = {name: exact[name] for name in own if name not in plain}
    for stem in stems:
        name = f"{stem}.weight"
        base, up, down = kept[name], tensors[stem + UP], tensors[stem + DOWN]
        kept[name] = base.float() + (up.float().flatten(1) @ down.float().flatten(1)).reshape(base.shape).to(base.device)
    return {name: held(tensor, dtype) for name, tensor in {**kept, **plain}.items()}
