"""Reads what InvokeAI, SwarmUI, Fooocus, RuinedFooocus, NovelAI, Easy Diffusion, Draw Things, sd-scripts and Civitai write into
pictures, in A1111's names.

Each keeps its settings as JSON in a text of its own. What has no name in A1111 keeps the one it has, so that nothing is dropped
without a word. It is untrusted. Sources: the programs' own code, which writes these texts.
"""

import html
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from halftone.metadata.comfy_graph import EMPTY, kind_of
from halftone.metadata.draw_things import only_in_v2
from halftone.metadata.parameters import EMBEDDINGS
from halftone.metadata.program_values import (
    NOTHING,
    Program,
    Values,
    dict_in,
    dicts_in,
    json_in,
    list_in,
    listed,
    model_name,
    number_in,
    read_values,
    size_text,
)
from halftone.metadata.reading import Parameters, value_text

XMP: Final = ("XML:com.adobe.xmp", "xmp")
_MOST: Final = 2**22
"""Letters of a text that is read."""
INVOKE: Final = "InvokeAI"
SWARM: Final = "SwarmUI"
_COMPEL: Final = re.compile(
    r"[\w)][+]{1,9}(?=\W|$)|\)-{1,9}(?=\W|$)|\)(?:\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})(?=\W|$)|\)\.(?:and|blend|swap)\("
)
"""Weights as InvokeAI writes them: word++, (two words)1.3, ("a", "b").and()."""
_BRACES: Final = re.compile(r"[{}]|(?<![\d.])-?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})::")
"""Weights as NovelAI writes them: {word}, 1.3::word::. A number is looked for where it begins only."""
_NEGATIVE: Final = re.compile(r"\[([^\[\]]*)\]")
"""A negative prompt within the prompt, as early InvokeAI has it."""
_FLAG: Final = re.compile(r"-(\w+)\s+([\w.]+)")
_COMMENT: Final = re.compile(r"<exif:UserComment>.{0,200}?<rdf:li[^>]{0,99}>([^<]*)<", re.DOTALL)


_SIZE: Final = frozenset({"width", "height"})
_USUAL: Final = {"steps": "Steps", "sampler": "Sampler", "seed": "Seed"}
_SWARM: Final = Program(
    SWARM,
    {
        **_USUAL, "scheduler": "Schedule type", "cfgscale": "CFG scale", "model": "Model", "vae": "VAE",
        "comfyuisampler": "Sampler", "comfyuischeduler": "Schedule type", "initimagecreativity": "Denoising strength",
        "clipstopatlayer": "Clip skip", "fluxguidancescale": "Distilled CFG Scale", "sigmashift": "Shift",
        "variationseed": "Variation seed", "variationseedstrength": "Variation seed strength", "refinerupscale": "Hires upscale",
        "refinerupscalemethod": "Hires upscaler", "swarm_version": "Version",
    },
    _SIZE | {
        "images", "aspectratio", "automaticvae", "loras", "loraweights", "date", "generation_time", "original_prompt",
        "prep_time", "original_negativeprompt", "donotsave", "presets", "sidelength",
    },
    prompt=("prompt", "negativeprompt"),
)  # fmt: skip
_SWARM_AFTER: Final = "PostApply"
_FOOOCUS_LORA: Final = re.compile(r"lora_combined_\d{1,3}")
_FOOOCUS: Final = Program(
    "Fooocus",
    {
        **_USUAL, "scheduler": "Schedule type", "guidance_scale": "CFG scale", "cfg": "CFG scale", "base_model": "Model",
        "clip_skip": "Clip skip", "vae": "VAE", "version": "Version", "refiner_model": "Refiner",
        "refiner_switch": "Refiner switch at", "software": "Version",
    },
    _SIZE | {
        "resolution", "loras", "base_model_hash", "refiner_model_hash", "created_by", "metadata_scheme", "full_prompt",
        "full_negative_prompt", "performance",
    },
)  # fmt: skip
_NOVEL: Final = Program(
    "NovelAI",
    {
        **_USUAL, "noise_schedule": "Schedule type", "scale": "CFG scale", "strength": "Denoising strength", "Source": "Model",
        "cfg_rescale": "CFG rescale",
    },
    _SIZE | {
        "Title", "Description", "Software", "Generation time", "signed_hash", "version", "uc",
        "Comment", "hide_debug_overlay", "prefer_brownian", "params_version",
    },
    {"ddim_v3": "DDIM"},
    ("prompt", "uc"),
    _BRACES,
)  # fmt: skip
_NOVEL_USUAL: Final = {"request_type": "PromptGenerateRequest", "n_samples": 1, "noise": 0}
_NOVEL_START: Final = ("strength", "noise", "extra_noise_seed", "add_original_image")
"""What acts on a start picture only."""
_INVOKE: Final = Program(
    INVOKE,
    {
        "steps": "Steps", "scheduler": "Sampler", "seed": "Seed", "cfg_scale": "CFG scale", "model": "Model", "vae": "VAE",
        "strength": "Denoising strength", "clip_skip": "Clip skip", "rand_device": "RNG", "app_version": "Version",
        "model_weights": "Model", "sampler": "Sampler", "cfg_rescale_multiplier": "CFG rescale",
        "guidance": "Distilled CFG Scale", "refiner_model": "Refiner", "refiner_start": "Refiner switch at",
        "qwen_image_shift": "Shift", "z_image_shift": "Shift", "qwen_image_vae": "VAE",
    },
    _SIZE | {"loras", "model_hash", "app_id"},
    {
        "kdpm_2": "DPM2", "kdpm_2_a": "DPM2 a", "kdpm_2_k": "DPM2 Karras (diffusers)", "kdpm_2_a_k": "DPM2 a Karras (diffusers)",
        "k_lms": "LMS", "k_euler": "Euler", "k_euler_a": "Euler a", "k_heun": "Heun", "k_dpm_2": "DPM2", "k_dpm_2_a": "DPM2 a",
        "dpmpp_2m_sde": "DPM++ 2M SDE",
        **{
            f"{theirs}_k": f"{ours} Karras (diffusers)"
            for theirs, ours in {
                "euler": "Euler", "heun": "Heun", "lms": "LMS", "dpmpp_2m": "DPM++ 2M", "dpmpp_sde": "DPM++ SDE", "deis": "DEIS",
                "dpmpp_2m_sde": "DPM++ 2M SDE", "unipc": "UniPC",
            }.items()
        },
    },
    ("positive_prompt", "negative_prompt"),
    _COMPEL,
)  # fmt: skip
_INVOKE_MODELS: Final = ("model", "vae", "refiner_model", "qwen_image_vae")
_INVOKE_USUAL: Final = {"z_image_shift": "auto", "dype_preset": "off"}
"""What stands there unless somebody changed it."""
_EASY: Final = Program(
    "Easy Diffusion",
    {
        "num_inference_steps": "Steps", "sampler_name": "Sampler", "scheduler_name": "Schedule type", "seed": "Seed",
        "guidance_scale": "CFG scale", "use_stable_diffusion_model": "Model", "use_vae_model": "VAE",
        "prompt_strength": "Denoising strength", "distilled_guidance_scale": "Distilled CFG Scale", "clip_skip": "Clip skip",
        "use_embeddings_model": EMBEDDINGS,
    },
    _SIZE | {"use_lora_model", "lora_alpha"},
    {"plms": "PNDM", **dict.fromkeys(("unipc_snr", "unipc_snr_2", "unipc_tu", "unipc_tu_2", "unipc_tq"), "UniPC")},
)  # fmt: skip
_EASY_TITLES: Final = {
    "Prompt": "prompt", "Negative Prompt": "negative_prompt", "Steps": "num_inference_steps", "Sampler": "sampler_name",
    "Scheduler": "scheduler_name", "Seed": "seed", "Guidance Scale": "guidance_scale", "Width": "width", "Height": "height",
    "Stable Diffusion model": "use_stable_diffusion_model", "VAE model": "use_vae_model", "Prompt Strength": "prompt_strength",
    "LoRA model": "use_lora_model", "LoRA Strength": "lora_alpha", "Clip Skip": "clip_skip",
    "Embedding models": "use_embeddings_model", "Distilled Guidance": "distilled_guidance_scale",
}  # fmt: skip
"""The same keys as it writes them for people, one a line."""
_EASY_OTHERS: Final = frozenset({
    "use_controlnet_model", "control_filter_to_apply", "control_alpha", "tiling", "use_face_correction", "use_upscale",
    "upscale_amount", "latent_upscaler_steps", "use_hypernetwork_model", "hypernetwork_strength",
})  # fmt: skip
"""Keys of what has no name in A1111."""
_EASY_DISTILLED: Final = "3.5"
"""What stands there unless somebody changed it."""
_DRAW: Final = Program(
    "Draw Things",
    {
        **_USUAL, "scale": "CFG scale", "model": "Model", "strength": "Denoising strength", "shift": "Shift",
        "clip_skip": "Clip skip", "refiner": "Refiner", "refiner_start": "Refiner switch at",
    },
    _SIZE | {"c", "uc", "size", "profile", "v2", "lora"},
    {"Euler Ancestral": "Euler a", "Euler A": "Euler a", "DPM++ 2M Karras": "DPM++ 2M Karras", "PLMS": "PNDM"},
    ("c", "uc"),
)  # fmt: skip
_KOHYA: Final = Program(
    "sd-scripts",
    {**_USUAL, "scale": "CFG scale"},
    frozenset({"raw-prompt"}),
    {"dpmsolver++": "DPM++ 2M", "dpmsolver": "DPM++ 2M", "dpmsingle": "DPM++ 2S"},
    ("prompt", "negative-prompt"),
)
_KOHYA_KEYS: Final = (
    "clip-prompt", "negative-scale", "original-height", "original-width", "original-height-negative", "original-width-negative",
    "crop-top", "crop-left",
)  # fmt: skip
_RUINED: Final = Program(
    "RuinedFooocus",
    {
        **_USUAL, "sampler_name": "Sampler", "scheduler": "Schedule type", "cfg": "CFG scale", "base_model_name": "Model",
        "refiner_model_name": "Refiner", "denoise": "Denoising strength", "clip_skip": "Clip skip",
    },
    _SIZE | {"base_model_hash", "loras", "software"},
    prompt=("Prompt", "Negative"),
)  # fmt: skip
_PAIR: Final = re.compile(r"<([^<>:]+):([^<>:]+)>")
_CIVITAI: Final = Program(
    "Civitai",
    {**_USUAL, "cfgScale": "CFG scale", "clipSkip": "Clip skip", "denoise": "Denoising strength"},
    _SIZE | {"quantity", "baseModel", "priority", "outputFormat", "ecosystem", "remixOfId"},
    prompt=("prompt", "negativePrompt"),
)


def parameters_in(texts: Mapping[str, str]) -> Parameters | None:
    """Read the texts of a picture by their keys: those of PNG chunks,
    "UserComment" of EXIF. None for what none of these wrote."""
    for key, read in _PLACES.items():
        text = texts.get(key, "")[:_MOST]
        if text and (found := read(text, texts)) is not None:
            return found
    return next((found for key in XMP if (found := _draw_things(texts.get(key, "")[:_MOST])) is not None), None)


def parameters_beside(text: str) -> Parameters | None:
    """Read a file of its own beside a picture: JSON, or a line for each value."""
    if (values := json_in(text)) is not None:
        return _of_json(values)
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return _easy_diffusion(lines) if {"Prompt", "Seed", "Steps"} <= lines.keys() else None


# --- where each writes -----------------------------------------------------------------------------------------------------


def _anywhere(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = json_in(text)
    return None if values is None else _of_json(values)


def _of_json(values: Values) -> Parameters | None:
    """Tell the program from the keys that only it has."""
    if isinstance(inner := values.get("sui_image_params"), dict):
        return _swarm(cast("Values", inner))
    if values.get("software") == _RUINED.title:
        return _ruined(values)
    if isinstance(more := values.get("extraMetadata"), str) and (said := json_in(more)) is not None and "prompt" in said:
        return _civitai(values, said)
    if "base_model" in values and "prompt" in values:
        return _fooocus(values)
    if "positive_prompt" in values:
        return _invoke(values)
    if ("uc" in values and "prompt" in values) or isinstance(values.get("Comment"), str):
        return _novel(values)
    if ("prompt" in values and "num_inference_steps" in values) or ("Prompt" in values and "Steps" in values):
        return _easy_diffusion(values)
    return None


def _swarm(values: Values) -> Parameters:
    weights = list_in(values.get("loraweights"))
    loras = [(name, weights[at] if at < len(weights) else 1) for at, name in enumerate(list_in(values.get("loras")))]
    layer = values.get("clipstopatlayer")
    changed = {} if layer is None else {"clipstopatlayer": str(layer).lstrip("-")}
    found = read_values(
        _SWARM, {**values, **changed, **_swarm_refined(values)}, size_text(values.get("width"), values.get("height")), loras
    )
    words = (re.sub(r"<embed:([^<>:]+)>", r"\1", text) for text in (found.prompt, found.negative))
    return Parameters(prompt=next(words), negative=next(words), fields=found.fields)


def _swarm_refined(values: Values) -> dict[str, Any]:
    """Read its second stage: Hires. fix where it is larger, A1111's refiner where a model replaces the first one on the way. Any
    other second stage keeps its names.
    """
    method, share = values.get("refinermethod", _SWARM_AFTER), number_in(values.get("refinercontrolpercentage"))
    larger, model = number_in(values.get("refinerupscale")) > 1, values.get("refinermodel")
    once = {"batchsize": None} if values.get("batchsize") == 1 else {}
    used = once | {"refinermethod": None, "refinercontrolpercentage": None, "refinermodel": None}
    if share and method == _SWARM_AFTER and larger:
        name = "Denoising strength" if "initimagecreativity" not in values else "Hires denoising strength"
        return used | {name: share, "Hires checkpoint": model}
    if share and method == "StepSwap" and model is not None and not larger:
        return used | {"Refiner": model, "Refiner switch at": round(1 - share, 6)}
    return once


def _fooocus(values: Values) -> Parameters:
    resolution = re.findall(r"\d+", str(values.get("resolution", "")))
    width, height = resolution if len(resolution) == 2 else (values.get("width"), values.get("height"))
    loras = [(one[0], one[1]) for one in map(list_in, list_in(values.get("loras"))) if len(one) >= 2]
    again = {name: str(value).split(" : ") for name, value in values.items() if _FOOOCUS_LORA.fullmatch(name)}
    loras = loras or [(one[0], one[1]) for one in again.values() if len(one) == 2]
    kept = {name: value for name, value in values.items() if name not in again or len(again[name]) != 2}
    switch, steps = (number_in(values.get(name)) for name in ("overwrite_switch", "steps"))
    if switch:
        del kept["overwrite_switch"]
    if values.get("refiner_model") in (None, *NOTHING):
        kept.pop("refiner_switch", None)
    elif switch > 0 and steps > 0:  # a step, in the place of the share
        kept["refiner_switch"] = round(switch / steps, 6)
    return read_values(_FOOOCUS, kept, size_text(width, height), loras)


def _ruined(values: Values) -> Parameters:
    """Its LoRAs are pairs of a hash and "weight - name"; in early files "<name:weight>"."""
    usual = {"denoise": (None, 1), "clip_skip": (None, 1), "start_step": (None, 0)}
    kept = {name: value for name, value in values.items() if value not in usual.get(name, ())}
    switch, steps = number_in(kept.pop("switch", None)), number_in(values.get("steps"))
    if switch and steps and values.get("refiner_model_name") not in (None, *NOTHING):
        kept["Refiner switch at"] = round(switch / steps, 6)
    said = values.get("loras")
    texts = [str(one[1]).partition(" - ") for one in map(list_in, list_in(said)) if len(one) > 1]
    loras = [(name, weight) for weight, _, name in texts] or _PAIR.findall(said if isinstance(said, str) else "")
    return read_values(_RUINED, kept, size_text(values.get("width"), values.get("height")), loras)


def _civitai(graph: Values, said: Values) -> Parameters:
    """Its first pictures have what the user asked for beside a graph of ComfyUI's; models are numbers there."""
    nodes = [one for one in map(dict_in, graph.values()) if EMPTY.fullmatch(kind_of(one))]
    latent = dict_in(nodes[0].get("inputs")) if nodes else {}
    begun = str(said.get("workflowId") or said.get("workflow")).startswith("img2img")
    kept = {name: value for name, value in said.items() if name != "denoise" or begun}
    kept = {name: value for name, value in kept.items() if not name.startswith("workflow") or value not in ("txt2img", "img2img")}
    return read_values(
        _CIVITAI, kept, size_text(said.get("width", latent.get("width")), said.get("height", latent.get("height")))
    )


def _novel(values: Values) -> Parameters:
    """Its newer files have all in JSON within JSON."""
    inner = json_in(str(values.get("Comment", ""))) or {}
    whole = {"prompt": values.get("Description"), **values, **inner}
    captions = whole.pop("v4_prompt", None)
    people = captions.get("caption", {}) if isinstance(captions, dict) else {}
    if isinstance(people, dict) and people.get("char_captions"):
        whole["char_captions"] = people["char_captions"]
    unwanted = whole.pop("v4_negative_prompt", None)
    whole |= {"negative char_captions": _unwanted_of_people(unwanted), "legacy_uc": dict_in(unwanted).get("legacy_uc")}
    if isinstance(sampler := whole.get("sampler"), str):
        whole["sampler"] = sampler.removeprefix("k_")
    if whole.get("noise_schedule") == "native":
        del whole["noise_schedule"]
    whole |= {name: None for name, usual in _NOVEL_USUAL.items() if whole.get(name) == usual}
    if whole.get("request_type") is None:  # it began with noise
        whole |= dict.fromkeys(_NOVEL_START)
    if not (whole.get("controlnet_model") or whole.get("controlnet_condition")):
        whole["controlnet_strength"] = None
    if not number_in(whole.get("cfg_rescale")):
        whole.pop("cfg_rescale", None)
    return read_values(_NOVEL, {**whole, "Version": None}, size_text(whole.get("width"), whole.get("height")))


def _unwanted_of_people(captions: object) -> list[str]:
    """The negative prompts of single people; that of the whole picture stands elsewhere, too."""
    people = dicts_in(dict_in(dict_in(captions).get("caption")).get("char_captions"))
    texts = (str(one.get("char_caption") or "").strip() for one in people)
    return [text for text in texts if text]


def _novel_chunks(comment: str, texts: Mapping[str, str]) -> Parameters | None:
    values = json_in(comment)
    if values is None:
        return None
    if texts.get("Software") == "NovelAI":
        return _novel({**values, "Description": texts.get("Description"), "Source": texts.get("Source")})
    return _of_json(values)


def _invoke(values: Values) -> Parameters:
    """Versions 3 to 6."""
    loras = [(model_name(one.get("model") or one.get("lora")), one.get("weight", 1)) for one in dicts_in(values.get("loras"))]
    named: dict[str, Any] = {key: model_name(values.get(key)) for key in _INVOKE_MODELS if values.get(key)}
    named |= {key: None for key, usual in _INVOKE_USUAL.items() if values.get(key) == usual}
    if "refiner_model" not in named:
        named |= dict.fromkeys(("refiner_start", "refiner_steps", "refiner_scheduler", "refiner_cfg_scale"))
    named["cfg_rescale_multiplier"] = values.get("cfg_rescale_multiplier") or None
    skipped = values.get("clip_skip")
    named["clip_skip"] = skipped + 1 if isinstance(skipped, int) and skipped > 0 else None
    named |= _invoke_pictures(values)
    device = values.get("rand_device")
    named["rand_device"] = {"cuda": "GPU"}.get(device, device.upper()) if isinstance(device, str) else None
    return read_values(_INVOKE, {**values, **named}, size_text(values.get("width"), values.get("height")), loras)


def _invoke_pictures(values: Values) -> dict[str, str | None]:
    """What a picture was made of: the mode, reference pictures by their kinds, and how many layers of the canvas were on.

    From text alone, neither raster layers nor masks are used.
    """
    mode = str(values.get("generation_mode") or "")
    by_text = mode.endswith("txt2img")
    said = by_text or (mode.endswith("img2img") and values.get("strength") is not None)
    layers = {name: _layers_on(group) for name, group in dict_in(values.get("canvas_v2_metadata")).items()}
    counts = [f"{name}: {on}" for name, on in layers.items() if on and not (by_text and name in ("rasterLayers", "inpaintMasks"))]
    found = {"generation_mode": None if said else mode, "canvas_v2_metadata": ", ".join(counts)}
    pictures = dicts_in(values.get("ref_images"))
    kinds = [value_text(dict_in(one.get("config")).get("type")) or "?" for one in pictures if one.get("isEnabled") is not False]
    return found | ({"ref_images": ", ".join(kinds)} if isinstance(values.get("ref_images"), list) else {})


def _layers_on(group: object) -> int:
    """Before version 6, a group is a list within an object."""
    inner = dict_in(group).get("entities", group)
    return sum(one.get("isEnabled") is not False for one in dicts_in(inner))


def _invoke_chunk(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = json_in(text)
    return None if values is None else _invoke(values)


def _invoke_2(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = json_in(text)
    image = values.get("image") if values is not None else None
    if values is None or not isinstance(image, dict):
        return None
    image = cast("Values", image)
    said = image.get("prompt")
    prompt = " ".join(str(one.get("prompt", "")) for one in dicts_in(said)) if isinstance(said, list) else str(said or "")
    whole = {**{name: one for name, one in values.items() if name != "image"}, **image, **_without_brackets(prompt)}
    whole.pop("prompt", None)
    if whole.get("type") == "txt2img":
        whole |= {"strength": None, "type": None}
    return read_values(_INVOKE, whole, size_text(whole.get("width"), whole.get("height")))


def _dream(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    """A line of its first versions: "prompt" -s 50 -S 7 -W 512 -H 512 -C 7.5 -A k_lms."""
    match = re.match(r'"(.*)"(.*)', text, re.DOTALL)
    if match is None:
        return None
    flags = dict(_FLAG.findall(match[2]))
    names = {"s": "steps", "S": "seed", "C": "cfg_scale", "A": "sampler", "f": "strength"}
    values = {names.get(flag, f"-{flag}"): value for flag, value in flags.items() if flag not in ("W", "H")}
    return read_values(_INVOKE, {**values, **_without_brackets(match[1])}, size_text(flags.get("W"), flags.get("H")))


def _without_brackets(prompt: str) -> dict[str, str]:
    return {"positive_prompt": _NEGATIVE.sub("", prompt), "negative_prompt": ", ".join(_NEGATIVE.findall(prompt))}


def _easy_diffusion(values: Values) -> Parameters:
    whole = {_EASY_TITLES.get(name, name): value for name, value in values.items()}
    skipped = {"True": 2, "False": None}.get(str(whole.get("clip_skip")), whole.get("clip_skip"))
    whole["clip_skip"] = skipped  # which is one layer, or none
    embeddings = (str(one).replace("\\", "/").rpartition("/")[2] for one in listed(whole.get("use_embeddings_model")) if one)
    whole["use_embeddings_model"] = ", ".join(name.rpartition(".")[0] or name for name in embeddings if name not in NOTHING)
    if value_text(whole.get("guidance_scale")) not in ("1", "1.0"):  # it is written for every model
        distilled = whole.pop("distilled_guidance_scale", None)
        whole |= {"Distilled Guidance": distilled} if value_text(distilled) != _EASY_DISTILLED else {}
    names, weights = (listed(whole.get(key)) for key in ("use_lora_model", "lora_alpha"))
    pairs = zip(names, [*weights, *[1] * len(names)], strict=False)
    loras = [(name, 1 if weight is None else weight) for name, weight in pairs if name and name not in NOTHING]
    return read_values(_EASY, whole, size_text(whole.get("width"), whole.get("height")), loras)


def _easy_chunk(_text: str, texts: Mapping[str, str]) -> Parameters | None:
    """Each value in a chunk of its own."""
    known = {*_EASY.names, *_EASY.quiet, *_EASY_TITLES, *_EASY.prompt, *_EASY_OTHERS}
    return _easy_diffusion({name: value for name, value in texts.items() if name in known})


def _draw_things(xmp: str) -> Parameters | None:
    match = _COMMENT.search(xmp)
    values = None if match is None else json_in(html.unescape(match[1]))
    if values is None or "c" not in values:
        return None
    width, _, height = str(values.get("size", "")).partition("x")
    loras = [(one.get("model"), one.get("weight", 1)) for one in dicts_in(values.get("lora"))]
    usual = {"strength": 1, "shift": 1}
    whole = {**values, **only_in_v2(dict_in(values.get("v2")), values)}
    kept = {name: value for name, value in whole.items() if value != usual.get(name, "")}
    for ending, schedule in (" Trailing", "SGM Uniform"), (" AYS", "Align Your Steps"):
        if isinstance(name := kept.get("sampler"), str) and name.endswith(ending):
            kept |= {"sampler": name.removesuffix(ending), "Schedule type": schedule}
    return read_values(_DRAW, kept, size_text(width, height), loras)


def is_of_sd_scripts(texts: Mapping[str, str]) -> bool:
    """Whether sd-scripts wrote the texts of a picture. Its size stands nowhere in them: it is the picture's own."""
    return {"prompt", "seed", "sampler", "steps", "scale"} <= texts.keys()


def _kohya(_text: str, texts: Mapping[str, str]) -> Parameters | None:
    """Each value in a chunk of its own; it names neither the model nor the size."""
    if not is_of_sd_scripts(texts):
        return None
    known = {*_KOHYA.names, *_KOHYA.quiet, *_KOHYA.prompt, *_KOHYA_KEYS}
    values = {name: value.removeprefix("k_") if name == "sampler" else value for name, value in texts.items() if name in known}
    return read_values(_KOHYA, values)


_PLACES: Final[Mapping[str, Callable[[str, Mapping[str, str]], Parameters | None]]] = {
    "invokeai_metadata": _invoke_chunk,
    "sd-metadata": _invoke_2,
    "Dream": _dream,
    "parameters": _anywhere,
    "Comment": _novel_chunks,
    "comment": _anywhere,
    "UserComment": _anywhere,
    "num_inference_steps": _easy_chunk,
    "Guidance Scale": _easy_chunk,
    "scale": _kohya,
}
"""Keys of texts, the surest first."""
