"""Whether what is to be used with a model fits it: all of it, before anything is loaded."""

from halftone.contract.facts import ModelFacts
from halftone.contract.request import Extras
from halftone.library.add_ons.controlnets import check_fit as check_controls_fit
from halftone.library.add_ons.denoisers import check_transformer_fit
from halftone.library.add_ons.inversions import check_inversion_fit
from halftone.library.add_ons.ipadapters import check_files_fit as check_ip_adapters_fit
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.vaes import check_fit as check_vae_fit


def check_extras_fit(extras: Extras, model: ModelFacts) -> None:
    """Raise HalftoneError for the first that does not fit: vae-*, transformer-*, lora-other-base, inversion-other-base,
    control-*, ip-adapter-*.
    """
    check_vae_fit(extras.vae, model)
    check_transformer_fit(extras.transformer, model)
    check_lora_fit(extras.loras, model)
    check_inversion_fit(extras.inversions, model)
    check_controls_fit(extras.controls, model)
    check_ip_adapters_fit(extras.ip_adapters, model)
