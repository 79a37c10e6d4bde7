"""Reads what InvokeAI, SwarmUI, Fooocus, RuinedFooocus, NovelAI, Easy Diffusion, Draw Things, sd-scripts and Civitai write into
pictures, in A1111's names.

Each keeps its settings as JSON in a text of its own. What has no name in A1111 keeps the one it has, so that nothing is dropped
without a word. It is untrusted. Sources: the programs' own code, which writes these texts.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from halftone.metadata.comfy_graph import EMPTY, kind_of
from halftone.metadata.reading import SYNTAX, Parameters, lora_tag, value_text, whole_signs

Values = Mapping[str, Any]

XMP: Final = ("XML:com.adobe.xmp", "xmp")
_MOST: Final = 2**22
"""Letters of a text that is read."""
INVOKE: Final = "InvokeAI"
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


class _Program(NamedTuple):
    """names: its keys -> A1111's fields; quiet: keys that do not change the picture, or say again what others say; samplers: its
    names -> ours, where those differ; syntax: what shows that its prompt has weights of its own.
    """

    title: str
    names: Mapping[str, str]
    quiet: frozenset[str]
    samplers: Mapping[str, str] = {}
    prompt: tuple[str, str] = ("prompt", "negative_prompt")
    syntax: re.Pattern[str] | None = None


_SIZE: Final = frozenset({"width", "height"})
_USUAL: Final = {"steps": "Steps", "sampler": "Sampler", "seed": "Seed"}
_SWARM: Final = _Program(
    "SwarmUI",
    {
        **_USUAL, "scheduler": "Schedule type", "cfgscale": "CFG scale", "model": "Model", "vae": "VAE",
        "comfyuisampler": "Sampler", "comfyuischeduler": "Schedule type", "initimagecreativity": "Denoising strength",
        "clipstopatlayer": "Clip skip", "fluxguidancescale": "Distilled CFG Scale", "sigmashift": "Shift",
        "variationseed": "Variation seed", "variationseedstrength": "Variation seed strength", "refinerupscale": "Hires upscale",
        "refinerupscalemethod": "Hires upscaler", "refinermodel": "Refiner",
        "swarm_version": "Version",
    },
    _SIZE | {
        "images", "aspectratio", "automaticvae", "loras", "loraweights", "date", "generation_time", "original_prompt",
        "prep_time", "original_negativeprompt", "donotsave", "batchsize", "presets", "sidelength",
    },
    prompt=("prompt", "negativeprompt"),
)  # fmt: skip
_FOOOCUS: Final = _Program(
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
_NOVEL: Final = _Program(
    "NovelAI",
    {
        **_USUAL, "noise_schedule": "Schedule type", "scale": "CFG scale", "strength": "Denoising strength", "Source": "Model",
        "cfg_rescale": "CFG rescale",
    },
    _SIZE | {
        "Title", "Description", "Software", "Generation time", "request_type", "signed_hash", "version", "n_samples", "uc",
        "Comment", "add_original_image", "legacy", "legacy_v3_extend", "hide_debug_overlay", "deliberate_euler_ancestral_bug",
        "prefer_brownian", "params_version", "noise", "controlnet_strength", "v4_negative_prompt", "extra_noise_seed",
    },
    {"ddim_v3": "DDIM"},
    ("prompt", "uc"),
    _BRACES,
)  # fmt: skip
_INVOKE: Final = _Program(
    INVOKE,
    {
        "steps": "Steps", "scheduler": "Sampler", "seed": "Seed", "cfg_scale": "CFG scale", "model": "Model", "vae": "VAE",
        "strength": "Denoising strength", "clip_skip": "Clip skip", "rand_device": "RNG", "app_version": "Version",
        "model_weights": "Model", "sampler": "Sampler", "cfg_rescale_multiplier": "CFG rescale",
        "guidance": "Distilled CFG Scale", "refiner_model": "Refiner", "refiner_start": "Refiner switch at",
        "qwen_image_shift": "Shift", "z_image_shift": "Shift", "qwen_image_vae": "VAE",
    },
    _SIZE | {
        "generation_mode", "loras", "canvas_v2_metadata", "model_hash", "app_id", "type", "postprocessing", "hrf_enabled",
        "ref_images", "_canvas_objects",
    },
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
_EASY: Final = _Program(
    "Easy Diffusion",
    {
        "num_inference_steps": "Steps", "sampler_name": "Sampler", "scheduler_name": "Schedule type", "seed": "Seed",
        "guidance_scale": "CFG scale", "use_stable_diffusion_model": "Model", "use_vae_model": "VAE",
        "prompt_strength": "Denoising strength", "distilled_guidance_scale": "Distilled CFG Scale", "clip_skip": "Clip skip",
    },
    _SIZE | {"use_lora_model", "lora_alpha", "use_embeddings_model"},
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
_DRAW: Final = _Program(
    "Draw Things",
    {**_USUAL, "scale": "CFG scale", "model": "Model", "strength": "Denoising strength", "shift": "Shift"},
    _SIZE | {"c", "uc", "size", "profile", "v2", "lora"},
    {"Euler Ancestral": "Euler a", "Euler A": "Euler a", "DPM++ 2M Karras": "DPM++ 2M Karras", "PLMS": "PNDM"},
    ("c", "uc"),
)
_KOHYA: Final = _Program(
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
_RUINED: Final = _Program(
    "RuinedFooocus",
    {
        **_USUAL, "sampler_name": "Sampler", "scheduler": "Schedule type", "cfg": "CFG scale", "base_model_name": "Model",
        "refiner_model_name": "Refiner", "denoise": "Denoising strength", "clip_skip": "Clip skip",
    },
    _SIZE | {"base_model_hash", "loras", "software", "start_step", "switch"},
    prompt=("Prompt", "Negative"),
)  # fmt: skip
_PAIR: Final = re.compile(r"<([^<>:]+):([^<>:]+)>")
_CIVITAI: Final = _Program(
    "Civitai",
    {**_USUAL, "cfgScale": "CFG scale", "clipSkip": "Clip skip", "denoise": "Denoising strength"},
    _SIZE
    | {"resources", "workflow", "workflowId", "quantity", "baseModel", "priority", "outputFormat", "ecosystem", "remixOfId"},
    prompt=("prompt", "negativePrompt"),
)
_NOTHING: Final = ("None", "none", "Default (model)", "Automatic")
"""Values that stand for no file."""


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
    if (values := _json(text)) is not None:
        return _of_json(values)
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return _easy_diffusion(lines) if {"Prompt", "Seed", "Steps"} <= lines.keys() else None


# --- where each writes -----------------------------------------------------------------------------------------------------


def _anywhere(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = _json(text)
    return None if values is None else _of_json(values)


def _of_json(values: Values) -> Parameters | None:
    """Tell the program from the keys that only it has."""
    if isinstance(inner := values.get("sui_image_params"), dict):
        return _swarm(cast("Values", inner))
    if values.get("software") == _RUINED.title:
        return _ruined(values)
    if isinstance(more := values.get("extraMetadata"), str) and (said := _json(more)) is not None and "prompt" in said:
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
    weights = _list(values.get("loraweights"))
    loras = [(name, weights[at] if at < len(weights) else 1) for at, name in enumerate(_list(values.get("loras")))]
    layer = values.get("clipstopatlayer")
    changed = {} if layer is None else {"clipstopatlayer": str(layer).lstrip("-")}
    if _number(values.get("refinerupscale")) > 1 and "refinercontrolpercentage" in values:
        changed["initimagecreativity"] = str(values["refinercontrolpercentage"])
    found = _read(_SWARM, {**values, **changed}, _size(values.get("width"), values.get("height")), loras)
    words = (re.sub(r"<embed:([^<>:]+)>", r"\1", text) for text in (found.prompt, found.negative))
    return Parameters(prompt=next(words), negative=next(words), fields=found.fields)


def _fooocus(values: Values) -> Parameters:
    resolution = re.findall(r"\d+", str(values.get("resolution", "")))
    width, height = resolution if len(resolution) == 2 else (values.get("width"), values.get("height"))
    loras = [(one[0], one[1]) for one in map(_list, _list(values.get("loras"))) if len(one) >= 2]
    kept = {
        name: value for name, value in values.items() if name != "refiner_switch" or values.get("refiner_model") not in _NOTHING
    }
    return _read(_FOOOCUS, kept, _size(width, height), loras)


def _ruined(values: Values) -> Parameters:
    """Its LoRAs are pairs of a hash and "weight - name"; in early files "<name:weight>"."""
    usual = {"denoise": (None, 1), "clip_skip": (None, 1)}
    kept = {name: value for name, value in values.items() if value not in usual.get(name, ())}
    said = values.get("loras")
    texts = [str(one[1]).partition(" - ") for one in map(_list, _list(said)) if len(one) > 1]
    loras = [(name, weight) for weight, _, name in texts] or _PAIR.findall(said if isinstance(said, str) else "")
    return _read(_RUINED, kept, _size(values.get("width"), values.get("height")), loras)


def _civitai(graph: Values, said: Values) -> Parameters:
    """Its first pictures have what the user asked for beside a graph of ComfyUI's; models are numbers there."""
    nodes = [one for one in map(_dict, graph.values()) if EMPTY.fullmatch(kind_of(one))]
    latent = _dict(nodes[0].get("inputs")) if nodes else {}
    begun = str(said.get("workflowId") or said.get("workflow")).startswith("img2img")
    kept = {name: value for name, value in said.items() if name != "denoise" or begun}
    return _read(_CIVITAI, kept, _size(said.get("width", latent.get("width")), said.get("height", latent.get("height"))))


def _novel(values: Values) -> Parameters:
    """Its newer files have all in JSON within JSON."""
    inner = _json(str(values.get("Comment", ""))) or {}
    whole = {"prompt": values.get("Description"), **values, **inner}
    captions = whole.pop("v4_prompt", None)
    people = captions.get("caption", {}) if isinstance(captions, dict) else {}
    if isinstance(people, dict) and people.get("char_captions"):
        whole["char_captions"] = people["char_captions"]
    if isinstance(sampler := whole.get("sampler"), str):
        whole["sampler"] = sampler.removeprefix("k_")
    if whole.get("noise_schedule") == "native":
        del whole["noise_schedule"]
    if whole.get("request_type", "PromptGenerateRequest") == "PromptGenerateRequest":
        whole.pop("strength", None)
    if not _number(whole.get("cfg_rescale")):
        whole.pop("cfg_rescale", None)
    return _read(_NOVEL, {**whole, "Version": None}, _size(whole.get("width"), whole.get("height")))


def _novel_chunks(comment: str, texts: Mapping[str, str]) -> Parameters | None:
    values = _json(comment)
    if values is None:
        return None
    if texts.get("Software") == "NovelAI":
        return _novel({**values, "Description": texts.get("Description"), "Source": texts.get("Source")})
    return _of_json(values)


def _invoke(values: Values) -> Parameters:
    """Versions 3 to 6."""
    loras = [(_model_name(one.get("model") or one.get("lora")), one.get("weight", 1)) for one in _dicts(values.get("loras"))]
    named: dict[str, Any] = {key: _model_name(values.get(key)) for key in _INVOKE_MODELS if values.get(key)}
    named |= {key: None for key, usual in _INVOKE_USUAL.items() if values.get(key) == usual}
    if "refiner_model" not in named:
        named |= dict.fromkeys(("refiner_start", "refiner_steps", "refiner_scheduler", "refiner_cfg_scale"))
    named["cfg_rescale_multiplier"] = values.get("cfg_rescale_multiplier") or None
    skipped = values.get("clip_skip")
    named["clip_skip"] = skipped + 1 if isinstance(skipped, int) and skipped > 0 else None
    device = values.get("rand_device")
    named["rand_device"] = {"cuda": "GPU"}.get(device, device.upper()) if isinstance(device, str) else None
    return _read(_INVOKE, {**values, **named}, _size(values.get("width"), values.get("height")), loras)


def _invoke_chunk(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = _json(text)
    return None if values is None else _invoke(values)


def _invoke_2(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    values = _json(text)
    image = values.get("image") if values is not None else None
    if values is None or not isinstance(image, dict):
        return None
    image = cast("Values", image)
    said = image.get("prompt")
    prompt = " ".join(str(one.get("prompt", "")) for one in _dicts(said)) if isinstance(said, list) else str(said or "")
    whole = {**{name: one for name, one in values.items() if name != "image"}, **image, **_without_brackets(prompt)}
    whole.pop("prompt", None)
    if whole.get("type") == "txt2img":
        whole.pop("strength", None)
    return _read(_INVOKE, whole, _size(whole.get("width"), whole.get("height")))


def _dream(text: str, _texts: Mapping[str, str]) -> Parameters | None:
    """A line of its first versions: "prompt" -s 50 -S 7 -W 512 -H 512 -C 7.5 -A k_lms."""
    match = re.match(r'"(.*)"(.*)', text, re.DOTALL)
    if match is None:
        return None
    flags = dict(_FLAG.findall(match[2]))
    names = {"s": "steps", "S": "seed", "C": "cfg_scale", "A": "sampler", "f": "strength"}
    values = {names.get(flag, f"-{flag}"): value for flag, value in flags.items() if flag not in ("W", "H")}
    return _read(_INVOKE, {**values, **_without_brackets(match[1])}, _size(flags.get("W"), flags.get("H")))


def _without_brackets(prompt: str) -> dict[str, str]:
    return {"positive_prompt": _NEGATIVE.sub("", prompt), "negative_prompt": ", ".join(_NEGATIVE.findall(prompt))}


def _easy_diffusion(values: Values) -> Parameters:
    whole = {_EASY_TITLES.get(name, name): value for name, value in values.items()}
    skipped = {"True": 2, "False": None}.get(str(whole.get("clip_skip")), whole.get("clip_skip"))
    whole["clip_skip"] = skipped  # which is one layer, or none
    if value_text(whole.get("guidance_scale")) not in ("1", "1.0"):  # it is written for every model
        distilled = whole.pop("distilled_guidance_scale", None)
        whole |= {"Distilled Guidance": distilled} if value_text(distilled) != _EASY_DISTILLED else {}
    names, weights = (_listed(whole.get(key)) for key in ("use_lora_model", "lora_alpha"))
    pairs = zip(names, [*weights, *[1] * len(names)], strict=False)
    loras = [(name, 1 if weight is None else weight) for name, weight in pairs if name and name not in _NOTHING]
    return _read(_EASY, whole, _size(whole.get("width"), whole.get("height")), loras)


def _easy_chunk(_text: str, texts: Mapping[str, str]) -> Parameters | None:
    """Each value in a chunk of its own."""
    known = {*_EASY.names, *_EASY.quiet, *_EASY_TITLES, *_EASY.prompt, *_EASY_OTHERS}
    return _easy_diffusion({name: value for name, value in texts.items() if name in known})


def _draw_things(xmp: str) -> Parameters | None:
    match = _COMMENT.search(xmp)
    values = None if match is None else _json(html.unescape(match[1]))
    if values is None or "c" not in values:
        return None
    width, _, height = str(values.get("size", "")).partition("x")
    loras = [(one.get("model"), one.get("weight", 1)) for one in _dicts(values.get("lora"))]
    kept = {name: value for name, value in values.items() if name not in ("strength", "shift") or value != 1}
    for ending, schedule in (" Trailing", "SGM Uniform"), (" AYS", "Align Your Steps"):
        if isinstance(name := kept.get("sampler"), str) and name.endswith(ending):
            kept |= {"sampler": name.removesuffix(ending), "Schedule type": schedule}
    return _read(_DRAW, kept, _size(width, height), loras)


def _kohya(_text: str, texts: Mapping[str, str]) -> Parameters | None:
    """Each value in a chunk of its own; it names neither the model nor the size."""
    if not {"prompt", "seed", "sampler", "steps"} <= texts.keys():
        return None
    known = {*_KOHYA.names, *_KOHYA.quiet, *_KOHYA.prompt, *_KOHYA_KEYS}
    values = {name: value.removeprefix("k_") if name == "sampler" else value for name, value in texts.items() if name in known}
    return _read(_KOHYA, values)


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


# --- values ----------------------------------------------------------------------------------------------------------------


def _read(program: _Program, values: Values, size: str = "", loras: Iterable[tuple[Any, Any]] = ()) -> Parameters:
    prompt, negative = (whole_signs(str(values.get(key) or "")).strip() for key in program.prompt)
    fields: dict[str, str] = {}
    for key, value in values.items():
        if key in program.quiet or key in program.prompt:
            continue
        text = value_text(value)
        if text and text not in _NOTHING:
            fields[program.names.get(key, key)] = text
    if (sampler := fields.get("Sampler", "")) in program.samplers:
        fields["Sampler"] = program.samplers[sampler]
    for name in ("Model", "VAE", "Refiner"):
        if name in fields:
            fields[name] = fields[name].replace("\\", "/").rpartition("/")[2]
    if size:
        fields["Size"] = size
    if program.syntax is not None and any(map(program.syntax.search, (prompt, negative))):
        fields[SYNTAX] = program.title
    version = fields.pop("Version", "")
    fields["Version"] = version if version.startswith(program.title) else f"{program.title} {version}".strip()
    tags = (lora_tag(name, weight) for name, weight in loras if isinstance(name, str) and name not in _NOTHING)
    return Parameters(prompt=" ".join((prompt, *(tag for tag in tags if tag not in prompt))), negative=negative, fields=fields)


def _size(width: object, height: object) -> str:
    wide, high = value_text(width), value_text(height)
    return f"{wide}x{high}" if wide.isdecimal() and high.isdecimal() else ""


def _model_name(model: object) -> str:
    """The name of a model, which every version keeps under another key."""
    if not isinstance(model, dict):
        return value_text(model)
    values = cast("Values", model)
    return next((value_text(values[key]) for key in ("name", "model_name", "key") if values.get(key)), "")


def _number(value: object) -> float:
    """0 for what is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _listed(value: object) -> list[Any]:
    """One or several, also as Python shows a list."""
    if isinstance(value, str) and value.startswith("["):
        return [one.strip(" '\"") for one in value.strip("[] ").split(",")]
    return _list(value) if isinstance(value, list) else [] if value is None else [value]


def _dict(value: object) -> Values:
    return cast("Values", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Values]:
    return [cast("Values", one) for one in _list(value) if isinstance(one, dict)]


def _json(text: str) -> Values | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Values", found) if isinstance(found, dict) else None
