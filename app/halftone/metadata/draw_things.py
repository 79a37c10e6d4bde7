"""Reads the second, whole list of settings that Draw Things writes into a picture.

The first list has what its makers found worth saying, the second ("v2") every setting, used or not. Source of names and defaults:
draw-things-community, ScriptModels.swift, ImageConverter.swift and config.fbs.
"""

from collections.abc import Mapping
from typing import Any, Final

Values = Mapping[str, Any]

_TOLD_FIRST: Final = {
    "width": "size", "height": "size", "seed": "seed", "steps": "steps", "guidanceScale": "scale", "strength": "strength",
    "model": "model", "sampler": "sampler", "seedMode": "seed_mode", "loras": "lora", "controls": "control",
    "upscaler": "upscaler", "shift": "shift", "clipSkip": "clip_skip", "sharpness": "sharpness", "maskBlur": "mask_blur",
    "maskBlurOutset": "mask_blur_outset", "hiresFix": "hires_fix", "refinerModel": "refiner", "refinerStart": "refiner_start",
    "tiledDecoding": "tiled_decoding", "tiledDiffusion": "tiled_diffusion", "teaCache": "tea_cache",
    "causalInference": "causal_inference", "stochasticSamplingGamma": "stochastic_sampling_gamma", "numFrames": "num_frames",
    "fps": "fps", "expandPromptToJson": "expand_prompt_to_json",
}  # fmt: skip
"""Names in the second list -> in the first."""
_OF_MODELS: Final = frozenset({
    "imageGuidanceScale", "clipWeight", "imagePriorSteps", "negativePromptForImagePrior", "stage2Steps", "stage2Guidance",
    "stage2Shift", "originalImageHeight", "originalImageWidth", "cropTop", "cropLeft", "targetImageHeight", "targetImageWidth",
    "aestheticScore", "negativeAestheticScore", "zeroNegativePrompt", "negativeOriginalImageHeight", "negativeOriginalImageWidth",
    "motionScale", "guidingFrameNoise", "startFrameGuidance",
})  # fmt: skip
"""Act on some families only, for which the first list has them."""
_INERT: Final = frozenset({"id", "name", "batchCount"})
"""The number in its database, and how many pictures followed each other, each with a seed of its own."""
_SWITCHES: Final = {
    "hiresFixWidth": "hiresFix", "hiresFixHeight": "hiresFix", "hiresFixStrength": "hiresFix",
    "decodingTileWidth": "tiledDecoding", "decodingTileHeight": "tiledDecoding", "decodingTileOverlap": "tiledDecoding",
    "diffusionTileWidth": "tiledDiffusion", "diffusionTileHeight": "tiledDiffusion", "diffusionTileOverlap": "tiledDiffusion",
    "teaCacheStart": "teaCache", "teaCacheEnd": "teaCache", "teaCacheThreshold": "teaCache", "teaCacheMaxSkipSteps": "teaCache",
    "refinerStart": "refinerModel", "clipLText": "separateClipL", "openClipGText": "separateOpenClipG", "t5Text": "separateT5",
    "causalInferencePad": "causalInference", "cfgZeroInitSteps": "cfgZeroStar", "upscalerScaleFactor": "upscaler",
}  # fmt: skip
"""Settings -> the one that switches them on."""
_WHOLE: Final = ("hiresFix", "tiledDecoding", "tiledDiffusion", "teaCache")
"""Switches that the first list has with all that hangs on them."""
_USUAL: Final[Values] = {
    "batchSize": 1, "strength": 1, "clipSkip": 1, "shift": 1, "maskBlur": 0, "maskBlurOutset": 0, "sharpness": 0,
    "numFrames": 14, "fps": 5, "stochasticSamplingGamma": 0.3, "preserveOriginalAfterInpaint": True,
    "upscalerScaleFactor": 0, "t5TextEncoder": True, "speedUpWithGuidanceEmbed": True,
    "resolutionDependentShift": True, "compressionArtifacts": "disabled", "colorCalibration": "none", "cfgZeroInitSteps": 0,
    "causalInference": 0, "causalInferencePad": 0,
}  # fmt: skip
"""What changes nothing, or stands there unless somebody changed it."""
_ROUNDING: Final = 1e-6
"""Of float32."""
_NAMES: Final = {"clipSkip": "clip_skip", "refinerModel": "refiner", "refinerStart": "refiner_start", "shift": "shift"}


def only_in_v2(v2: Values, first: Values) -> dict[str, Any]:
    """Return the settings that act and that the first list lacks, under its names where the reader knows these.

    A False beside a usual True is a setting too: it is returned as text, because False says nothing elsewhere.
    """
    found: dict[str, Any] = {}
    for name, value in v2.items():
        if name in _INERT | _OF_MODELS or _TOLD_FIRST.get(name) in first or _is_off(name, v2, first) or _is_usual(name, value):
            continue
        found[_NAMES.get(name, name)] = "False" if value is False else value
    return found | _partial_loras(v2)


def _is_off(name: str, v2: Values, first: Values) -> bool:
    """Whether its switch is off, or the first list has the switch, which it writes with all that hangs on it."""
    match name:
        case "guidanceEmbed":
            return v2.get("speedUpWithGuidanceEmbed") is not False
        case "compressionArtifactsQuality":
            return v2.get("compressionArtifacts") in (None, "disabled")
        case _:
            switch = _SWITCHES.get(name)
    if switch is None:
        return False
    return not v2.get(switch) or (switch in _WHOLE and _TOLD_FIRST[switch] in first)


def _is_usual(name: str, value: object) -> bool:
    usual = _USUAL.get(name, False)
    if isinstance(usual, int | float) and isinstance(value, int | float):
        return usual - _ROUNDING < value < usual + _ROUNDING  # no difference: that of a number of 400 digits overflows
    return value == usual or value is None or value in ("", [])


def _partial_loras(v2: Values) -> dict[str, str]:
    """LoRAs that act on one of two models only."""
    loras = v2.get("loras")
    if not v2.get("refinerModel") or not isinstance(loras, list):
        return {}
    pairs = [(one.get("file"), one.get("mode")) for one in loras if isinstance(one, dict)]
    modes = ", ".join(f"{name}: {mode}" for name, mode in pairs if name and mode in ("base", "refiner"))
    return {"lora mode": modes} if modes else {}
