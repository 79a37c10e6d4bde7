"""Pictures of other programs, made as these write them: every value under A1111's name, and nothing dropped."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from halftone.contract.errors import HalftoneError
from halftone.metadata.other_programs import parameters_beside, parameters_in
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters

SWARM: dict[str, Any] = {
    "sui_image_params": {
        "prompt": "a sun, <embed:warm>", "negativeprompt": "ink", "model": "SDXL/base_1.0", "images": 1, "seed": 7, "steps": 20,
        "cfgscale": 7.0, "aspectratio": "1:1", "width": 512, "height": 768, "sampler": "dpmpp_2m", "scheduler": "karras",
        "automaticvae": True,
        "loras": ["style/ink"], "loraweights": ["0.8"], "clipstopatlayer": -2, "swarm_version": "0.9.6.0",
        "freeub1": 1.1,
    },
    "sui_extra_data": {"date": "2026-01-01"},
}  # fmt: skip
FOOOCUS = {
    "adm_guidance": "(1.5, 0.8, 0.3)", "base_model": "juggernautXL_v8", "base_model_hash": "aeb7e9e689", "clip_skip": 2,
    "full_negative_prompt": ["ink"], "full_prompt": ["a sun, cinematic"], "guidance_scale": 4, "loras": [["offset", 0.1, "ab"]],
    "metadata_scheme": "fooocus", "negative_prompt": "ink", "performance": "Speed", "prompt": "a sun", "refiner_model": "None",
    "refiner_switch": 0.5, "resolution": "(512, 768)", "sampler": "dpmpp_2m_sde_gpu", "scheduler": "karras", "seed": "7",
    "sharpness": 2, "steps": 30, "styles": "['Fooocus V2']", "vae": "Default (model)", "version": "Fooocus v2.5.5",
}  # fmt: skip
NOVEL = {
    "prompt": "a {sun}", "steps": 28, "height": 768, "width": 512, "scale": 5.0, "uncond_scale": 1.0, "cfg_rescale": 0.0,
    "seed": 7,
    "n_samples": 1, "noise_schedule": "karras", "sampler": "k_euler_ancestral", "sm": False, "uc": "ink", "strength": 0.7,
    "request_type": "PromptGenerateRequest",
}  # fmt: skip
INVOKE_3 = {
    "app_version": "3.7.0", "generation_mode": "txt2img", "positive_prompt": "a sun++", "negative_prompt": "ink", "width": 512,
    "height": 768, "seed": 7, "rand_device": "cpu", "cfg_scale": 7.5, "steps": 30, "scheduler": "dpmpp_2m_k", "clip_skip": 0,
    "model": {"model_name": "dreamshaper", "base_model": "sd-1"},
    "loras": [{"lora": {"model_name": "ink", "base_model": "sd-1"}, "weight": 0.75}], "vae": None, "init_image": None,
}  # fmt: skip
INVOKE_5 = {
    "app_version": "5.6.0", "generation_mode": "sdxl_txt2img", "positive_prompt": "a sun", "negative_prompt": "ink", "width": 512,
    "height": 768, "seed": 7, "rand_device": "cpu", "cfg_scale": 5.5, "cfg_rescale_multiplier": 0.3, "steps": 30,
    "scheduler": "euler_a", "model": {"key": "a-b", "hash": "blake3:1", "name": "Juggernaut XL", "base": "sdxl", "type": "main"},
    "loras": [{"model": {"key": "c", "name": "ink"}, "weight": 0.5}], "clip_skip": 1, "canvas_v2_metadata": {"layers": []},
}  # fmt: skip
INVOKE_2: dict[str, Any] = {
    "model": "stable diffusion", "model_weights": "stable-diffusion-1.5", "model_hash": "cc6c", "app_id": "invoke-ai/InvokeAI",
    "app_version": "2.2.4",
    "image": {
        "prompt": [{"prompt": "a sun [ink]", "weight": 1.0}], "steps": 50, "cfg_scale": 7.5, "threshold": 0, "perlin": 0,
        "height": 768, "width": 512, "seed": 7, "seamless": False, "hires_fix": False, "type": "txt2img", "postprocessing": None,
        "sampler": "k_euler_a", "variations": [],
    },
}  # fmt: skip
EASY = {
    "prompt": "a sun", "seed": 7, "negative_prompt": "ink", "num_inference_steps": 25, "guidance_scale": 7.5, "width": 512,
    "height": 768, "use_stable_diffusion_model": "sd-v1-5.safetensors", "use_vae_model": "None", "sampler_name": "euler_a",
    "use_lora_model": ["ink"], "lora_alpha": [0.5], "clip_skip": True, "use_upscale": None,
}  # fmt: skip
DRAW = {
    "c": "a sun", "uc": "ink", "model": "sd_v1.5_f16.ckpt", "sampler": "Euler Ancestral", "scale": 7.5, "seed": 7,
    "size": "512x768",
    "steps": 30, "strength": 1, "seed_mode": "Scale Alike", "lora": [{"model": "ink_f16.ckpt", "weight": 0.6}], "v2": {"id": 0},
}  # fmt: skip
XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description><exif:UserComment><rdf:Alt><rdf:li xml:lang="x-default">'
    "{0}</rdf:li></rdf:Alt></exif:UserComment></rdf:Description></rdf:RDF></x:xmpmeta>"
)
BASE = {"Seed": "7", "Size": "512x768"}
SWARM_SAID = Parameters(
    prompt="a sun, warm <lora:ink:0.8>", negative="ink",
    fields=BASE | {
        "Model": "base_1.0", "Steps": "20", "CFG scale": "7", "Sampler": "dpmpp_2m", "Schedule type": "karras", "Clip skip": "2",
        "freeub1": "1.1", "Version": "SwarmUI 0.9.6.0",
    },
)  # fmt: skip
FOOOCUS_SAID = Parameters(
    prompt="a sun <lora:offset:0.1>", negative="ink",
    fields=BASE | {
        "adm_guidance": "(1.5, 0.8, 0.3)", "Model": "juggernautXL_v8", "Clip skip": "2", "CFG scale": "4", "Steps": "30",
        "Sampler": "dpmpp_2m_sde_gpu", "Schedule type": "karras", "sharpness": "2",
        "styles": "['Fooocus V2']", "Version": "Fooocus v2.5.5",
    },
)  # fmt: skip
NOVEL_SAID = Parameters(
    prompt="a {sun}", negative="ink",
    fields=BASE | {
        "Steps": "28", "CFG scale": "5", "uncond_scale": "1", "Schedule type": "karras",
        "Sampler": "euler_ancestral", "Prompt syntax": "NovelAI", "Version": "NovelAI", "Model": "Stable Diffusion XL 4BE8C60C",
    },
)  # fmt: skip
EASY_SAID = Parameters(
    prompt="a sun <lora:ink:0.5>", negative="ink",
    fields=BASE | {
        "Steps": "25", "CFG scale": "7.5", "Model": "sd-v1-5.safetensors", "Sampler": "euler_a", "Clip skip": "2",
        "Version": "Easy Diffusion",
    },
)  # fmt: skip


def png(folder: Path, **texts: str) -> Path:
    said = PngInfo()
    for key, text in texts.items():
        said.add_itxt(key.replace("__", ":").replace("_dot_", "."), text)
    path = folder / "picture.png"
    Image.new("RGB", (8, 8)).save(path, pnginfo=said)
    return path


def jpeg(folder: Path, comment: str | bytes, *, outside: bool = False, tag: int = 0x9286) -> Path:
    exif = Image.Exif()
    if outside:
        exif[tag] = comment
    else:
        exif.get_ifd(0x8769)[tag] = comment
    path = folder / "picture.jpg"
    Image.new("RGB", (8, 8)).save(path, exif=exif)
    return path


def hidden(folder: Path, text: str, *, packed: bool) -> Path:
    """As NovelAI hides it: the lowest bits of the alpha channel, column by column."""
    data = gzip.compress(text.encode()) if packed else text.encode()
    whole = (b"stealth_pngcomp" if packed else b"stealth_pnginfo") + (len(data) * 8).to_bytes(4) + data
    bits = "".join(f"{byte:08b}" for byte in whole)
    image = Image.new("RGBA", (96, 128), (10, 20, 30, 254))
    for place, bit in enumerate(bits):
        image.putpixel((place // 128, place % 128), (10, 20, 30, 254 | int(bit)))
    path = folder / "picture.png"
    image.save(path)
    return path


def novel_chunks(folder: Path) -> Path:
    return png(
        folder, Title="AI generated image", Description="a {sun}", Software="NovelAI", Source="Stable Diffusion XL 4BE8C60C",
        Comment=json.dumps(NOVEL),
    )  # fmt: skip


def novel_hidden(folder: Path) -> Path:
    outer = {
        "Description": "a {sun}",
        "Software": "NovelAI",
        "Source": "Stable Diffusion XL 4BE8C60C",
        "Comment": json.dumps(NOVEL),
    }
    return hidden(folder, json.dumps(outer), packed=True)


def beside(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return png(folder)


UTF16 = b"UNICODE\0" + json.dumps(SWARM).encode("utf-16-le")
CASES: dict[str, tuple[Callable[[Path], Path], Parameters]] = {
    "SwarmUI png": (lambda folder: png(folder, parameters=json.dumps(SWARM, indent=4)), SWARM_SAID),
    "SwarmUI jpeg": (lambda folder: jpeg(folder, UTF16), SWARM_SAID),
    "SwarmUI early": (lambda folder: jpeg(folder, json.dumps(SWARM), outside=True, tag=0x0110), SWARM_SAID),
    "SwarmUI beside": (lambda folder: beside(folder, "picture.swarm.json", json.dumps(SWARM)), SWARM_SAID),
    "Fooocus png": (lambda folder: png(folder, parameters=json.dumps(FOOOCUS), fooocus_scheme="fooocus"), FOOOCUS_SAID),
    "Fooocus jpeg": (lambda folder: jpeg(folder, json.dumps(FOOOCUS), outside=True), FOOOCUS_SAID),
    "NovelAI": (novel_chunks, NOVEL_SAID),
    "NovelAI alpha": (novel_hidden, NOVEL_SAID),
    "InvokeAI 2": (
        lambda folder: png(folder, **{"sd-metadata": json.dumps(INVOKE_2), "Dream": '"a sun [ink]" -s 50'}),
        Parameters(
            prompt="a sun", negative="ink",
            fields=BASE | {
                "Model": "stable-diffusion-1.5", "Steps": "50", "CFG scale": "7.5", "Sampler": "Euler a",
                "Version": "InvokeAI 2.2.4", "threshold": "0", "perlin": "0",
            },
        ),
    ),
    "InvokeAI 1": (
        lambda folder: png(folder, Dream='"a sun [ink]" -s 50 -S 7 -W 512 -H 768 -C 7.5 -A k_lms'),
        Parameters(
            prompt="a sun", negative="ink",
            fields=BASE | {"Steps": "50", "CFG scale": "7.5", "Sampler": "LMS", "Version": "InvokeAI"},
        ),
    ),
    "InvokeAI 3": (
        lambda folder: png(folder, invokeai_metadata=json.dumps(INVOKE_3)),
        Parameters(
            prompt="a sun++ <lora:ink:0.75>", negative="ink",
            fields=BASE | {
                "Model": "dreamshaper", "Steps": "30", "CFG scale": "7.5", "Sampler": "DPM++ 2M Karras (diffusers)", "RNG": "CPU",
                "Prompt syntax": "InvokeAI", "Version": "InvokeAI 3.7.0",
            },
        ),
    ),
    "InvokeAI 5": (
        lambda folder: png(folder, invokeai_metadata=json.dumps(INVOKE_5), invokeai_graph='{"nodes": {}}'),
        Parameters(
            prompt="a sun <lora:ink:0.5>", negative="ink",
            fields=BASE | {
                "Model": "Juggernaut XL", "Steps": "30", "CFG scale": "5.5", "Sampler": "euler_a", "RNG": "CPU", "Clip skip": "2",
                "CFG rescale": "0.3", "Version": "InvokeAI 5.6.0",
            },
        ),
    ),
    "Easy Diffusion png": (lambda folder: png(folder, **{key: str(value) for key, value in EASY.items()}), EASY_SAID),
    "Easy Diffusion jpeg": (lambda folder: jpeg(folder, json.dumps(EASY)), EASY_SAID),
    "Easy Diffusion json": (lambda folder: beside(folder, "picture.json", json.dumps(EASY)), EASY_SAID),
    "Easy Diffusion txt": (
        lambda folder: beside(
            folder, "picture.txt",
            "Prompt: a sun\nSeed: 7\nNegative Prompt: ink\nStable Diffusion model: sd-v1-5.safetensors\nClip Skip: True\n"
            "VAE model: None\nSampler: euler_a\nWidth: 512\nHeight: 768\nSteps: 25\nGuidance Scale: 7.5\nLoRA model: ink\n"
            "LoRA Strength: 0.5",
        ),
        EASY_SAID,
    ),
    "Draw Things": (
        lambda folder: png(folder, XML__com_dot_adobe_dot_xmp=XMP.format(json.dumps(DRAW).replace('"', "&quot;"))),
        Parameters(
            prompt="a sun <lora:ink_f16:0.6>", negative="ink",
            fields=BASE | {
                "Model": "sd_v1.5_f16.ckpt", "Sampler": "Euler a", "CFG scale": "7.5", "Steps": "30", "seed_mode": "Scale Alike",
                "Version": "Draw Things",
            },
        ),
    ),
    "A1111 beside": (
        lambda folder: beside(
            folder, "picture.txt", "a sun\nNegative prompt: ink\nSteps: 20, Sampler: Euler a, Seed: 7, Size: 8x8",
        ),
        Parameters(
            prompt="a sun", negative="ink", fields={"Steps": "20", "Sampler": "Euler a", "Seed": "7", "Size": "8x8"},
        ),
    ),
    "A1111 in the alpha channel": (
        lambda folder: hidden(folder, "a sun\nSteps: 20, Sampler: Euler a, Seed: 7, Size: 8x8", packed=False),
        Parameters(prompt="a sun", fields={"Steps": "20", "Sampler": "Euler a", "Seed": "7", "Size": "8x8"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_picture_of_another_program_is_read_whole(name: str, tmp_path: Path) -> None:
    write, wanted = CASES[name]
    assert said_by(write(tmp_path)) == wanted


def test_what_easy_diffusion_has_no_place_for_in_a1111_keeps_its_name(tmp_path: Path) -> None:
    more = {"use_controlnet_model": "canny", "control_filter_to_apply": "canny", "tiling": "xy", "use_upscale": "4x"}
    found = said_by(png(tmp_path, **{key: str(value) for key, value in (EASY | more).items()}))
    assert found.fields == EASY_SAID.fields | more


@pytest.mark.parametrize(("guidance", "kept"), [(1, "Distilled CFG Scale"), (6.5, "Distilled Guidance")])
def test_easy_diffusion_writes_the_guidance_of_flux_for_every_model(tmp_path: Path, guidance: float, kept: str) -> None:
    changed = EASY | {"guidance_scale": guidance, "distilled_guidance_scale": 3.2}
    found = said_by(png(tmp_path, **{key: str(value) for key, value in changed.items()}))
    assert found.fields[kept] == "3.2"
    assert found.fields["CFG scale"] == str(guidance)


LAYERS = {
    "rasterLayers": [{"isEnabled": True}], "controlLayers": [{"isEnabled": True}, {"isEnabled": False}], "inpaintMasks": [],
    "regionalGuidance": {"entities": [{"isEnabled": True}]},
}  # fmt: skip
REFERENCES = [
    {"id": "a", "isEnabled": True, "config": {"type": "ip_adapter"}},
    {"isEnabled": False, "config": {"type": "flux_redux"}},
]
PEOPLE = {"caption": {"base_caption": "ink", "char_captions": [{"char_caption": "hat", "centers": []}, {"char_caption": ""}]}}
RUINED = {
    "Prompt": "a sun", "Negative": "ink", "steps": 20, "cfg": 7, "width": 512, "height": 768, "seed": 7, "sampler_name": "euler",
    "scheduler": "karras", "base_model_name": "tiny", "loras": [], "software": "RuinedFooocus",
}  # fmt: skip
CIVITAI = {"prompt": "a sun", "steps": 20, "seed": 7, "sampler": "Euler", "workflow": "txt2img"}
V2 = {
    "id": 3, "batchCount": 4, "batchSize": 1, "clipSkip": 1, "hiresFix": False, "hiresFixWidth": 512, "hiresFixStrength": 0.7,
    "refinerStart": 0.85, "guidanceEmbed": 3.5, "speedUpWithGuidanceEmbed": True, "teaCacheThreshold": 0.06, "maskBlur": 1.5e-8,
    "aestheticScore": 6, "seedMode": 2, "width": 512, "stochasticSamplingGamma": 0.30000001192092896, "numFrames": 14,
    "compressionArtifacts": "disabled", "compressionArtifactsQuality": 43.1, "preserveOriginalAfterInpaint": True,
}  # fmt: skip


def _of(program: str, more: dict[str, Any]) -> Parameters:
    texts = {
        "SwarmUI": lambda: {"parameters": json.dumps({"sui_image_params": SWARM["sui_image_params"] | more})},
        "Fooocus": lambda: {"parameters": json.dumps(FOOOCUS | more)},
        "NovelAI": lambda: {"Comment": json.dumps(NOVEL | more), "Software": "NovelAI"},
        "InvokeAI": lambda: {"invokeai_metadata": json.dumps(INVOKE_5 | more)},
        "InvokeAI 2": lambda: {"sd-metadata": json.dumps(INVOKE_2 | {"image": INVOKE_2["image"] | more})},
        "Easy Diffusion": lambda: {"parameters": json.dumps(EASY | more)},
        "Draw Things": lambda: {"xmp": XMP.format(json.dumps(DRAW | more).replace('"', "&quot;"))},
        "RuinedFooocus": lambda: {"parameters": json.dumps(RUINED | more)},
        "Civitai": lambda: {"parameters": json.dumps({"extraMetadata": json.dumps(CIVITAI | more)})},
    }[program]()
    found = parameters_in(texts)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("program", "more", "fields"),
    [
        ("SwarmUI", {"initimagecreativity": 0.6}, {"Denoising strength": "0.6"}),
        (
            "SwarmUI",
            {"refinerupscale": 1.5, "refinermethod": "PostApply", "refinercontrolpercentage": 0.4},
            {"Hires upscale": "1.5", "Denoising strength": "0.4"},
        ),
        (
            "SwarmUI",
            {"refinerupscale": 1.5, "refinercontrolpercentage": 0.4, "initimagecreativity": 0.6, "refinermodel": "XL/fine"},
            {
                "Hires upscale": "1.5", "Denoising strength": "0.6", "Hires denoising strength": "0.4",
                "Hires checkpoint": "XL/fine",
            },
        ),
        (
            "SwarmUI",
            {"refinermethod": "StepSwap", "refinercontrolpercentage": 0.2, "refinermodel": "XL/fine"},
            {"Refiner": "fine", "Refiner switch at": "0.8"},
        ),
        (
            "SwarmUI",
            {"refinermethod": "PostApply", "refinercontrolpercentage": 0.2, "refinermodel": "XL/fine"},
            {"refinermethod": "PostApply", "refinercontrolpercentage": "0.2", "refinermodel": "XL/fine"},
        ),
        ("SwarmUI", {"batchsize": 1}, {}),
        ("SwarmUI", {"batchsize": 4}, {"batchsize": "4"}),
        ("Fooocus", {"lora_combined_1": "offset : 0.1"}, {}),
        ("Fooocus", {"lora_combined_1": "a strange text"}, {"lora_combined_1": "a strange text"}),
        ("Fooocus", {"refiner_model": "fine"}, {"Refiner": "fine", "Refiner switch at": "0.5"}),
        ("Fooocus", {"refiner_model": "fine", "overwrite_switch": 12}, {"Refiner": "fine", "Refiner switch at": "0.4"}),
        ("Fooocus", {"overwrite_switch": 12}, {}),
        ("NovelAI", {"noise": 0.2, "extra_noise_seed": 9, "add_original_image": True, "n_samples": 1}, {}),
        (
            "NovelAI",
            {"noise": 0.2, "extra_noise_seed": 9, "add_original_image": True, "request_type": "NativeInfillingRequest"},
            {
                "noise": "0.2", "extra_noise_seed": "9", "Denoising strength": "0.7", "add_original_image": "True",
                "request_type": "NativeInfillingRequest",
            },
        ),
        ("NovelAI", {"n_samples": 3}, {"n_samples": "3"}),
        ("NovelAI", {"v4_negative_prompt": PEOPLE}, {"negative char_captions": '["hat"]'}),
        ("NovelAI", {"v4_negative_prompt": {"caption": {"base_caption": "ink", "char_captions": []}, "legacy_uc": False}}, {}),
        ("NovelAI", {"v4_negative_prompt": {"legacy_uc": True}}, {"legacy_uc": "True"}),
        ("NovelAI", {"controlnet_strength": 0.5}, {}),
        (
            "NovelAI",
            {"controlnet_strength": 0.5, "controlnet_model": "hed"},
            {"controlnet_strength": "0.5", "controlnet_model": "hed"},
        ),
        ("NovelAI", {"deliberate_euler_ancestral_bug": True}, {"deliberate_euler_ancestral_bug": "True"}),
        ("InvokeAI", {"ref_images": REFERENCES}, {"ref_images": "ip_adapter"}),
        ("InvokeAI", {"ref_images": "unknown"}, {"ref_images": "unknown"}),
        (
            "InvokeAI",
            {"canvas_v2_metadata": LAYERS},
            {"canvas_v2_metadata": "controlLayers: 1, regionalGuidance: 1"},
        ),
        (
            "InvokeAI",
            {"canvas_v2_metadata": LAYERS, "generation_mode": "sdxl_inpaint", "strength": 0.8},
            {
                "canvas_v2_metadata": "rasterLayers: 1, controlLayers: 1, regionalGuidance: 1", "generation_mode": "sdxl_inpaint",
                "Denoising strength": "0.8",
            },
        ),
        ("InvokeAI", {"generation_mode": "sdxl_img2img", "strength": 0.8}, {"Denoising strength": "0.8"}),
        ("InvokeAI", {"generation_mode": "sdxl_img2img"}, {"generation_mode": "sdxl_img2img"}),
        ("InvokeAI", {"hrf_enabled": True, "hrf_strength": 0.4}, {"hrf_enabled": "True", "hrf_strength": "0.4"}),
        ("InvokeAI 2", {"type": "img2img", "strength": 0.7}, {"type": "img2img", "Denoising strength": "0.7"}),
        ("InvokeAI 2", {"postprocessing": [{"type": "gfpgan"}]}, {"postprocessing": '[{"type": "gfpgan"}]'}),
        ("Easy Diffusion", {"use_embeddings_model": ["warm/glow.pt", "soft"]}, {"Embeddings": "glow, soft"}),
        ("Draw Things", {"v2": V2}, {}),
        (
            "Draw Things",
            {"v2": V2 | {"clipSkip": 2, "hiresFix": True, "refinerModel": "fine.ckpt", "batchSize": 2, "t5TextEncoder": False}},
            {
                "Clip skip": "2", "hiresFix": "True", "hiresFixWidth": "512", "hiresFixStrength": "0.7", "Refiner": "fine.ckpt",
                "Refiner switch at": "0.85", "batchSize": "2", "t5TextEncoder": "False",
            },
        ),
        (
            "Draw Things",
            {
                "clip_skip": 2, "hires_fix": True, "second_stage_strength": 0.7, "refiner": "fine.ckpt", "refiner_start": 0.85,
                "v2": V2 | {
                    "clipSkip": 2, "hiresFix": True, "refinerModel": "fine.ckpt",
                    "loras": [{"file": "ink.ckpt", "mode": "refiner"}],
                },
            },
            {
                "Clip skip": "2", "hires_fix": "True", "second_stage_strength": "0.7", "Refiner": "fine.ckpt",
                "Refiner switch at": "0.85", "lora mode": "ink.ckpt: refiner",
            },
        ),
        (
            "Draw Things",
            {"v2": V2 | {"speedUpWithGuidanceEmbed": False}},
            {"speedUpWithGuidanceEmbed": "False", "guidanceEmbed": "3.5"},
        ),
        ("Draw Things", {"v2": V2 | {"aNewOne": 3}}, {"aNewOne": "3"}),
        ("Draw Things", {"v2": V2 | {"clipSkip": 10**400}}, {"Clip skip": str(10**400)}),
        (
            "Draw Things",
            {"v2": V2 | {"compressionArtifacts": "jpeg"}},
            {"compressionArtifacts": "jpeg", "compressionArtifactsQuality": "43.1"},
        ),
        ("RuinedFooocus", {"start_step": 0, "switch": 16}, {}),
        ("RuinedFooocus", {"start_step": 4}, {"start_step": "4"}),
        (
            "RuinedFooocus",
            {"switch": 16, "refiner_model_name": "fine.safetensors"},
            {"Refiner": "fine.safetensors", "Refiner switch at": "0.8"},
        ),
        ("Civitai", {"resources": [{"modelVersionId": 1}]}, {"resources": '[{"modelVersionId": 1}]'}),
        ("Civitai", {"workflow": "img2img-upscale"}, {"workflow": "img2img-upscale"}),
    ],
)  # fmt: skip
def test_a_setting_that_acts_is_said_and_one_that_does_not_is_not(
    program: str, more: dict[str, Any], fields: dict[str, str]
) -> None:
    without = _of(program, {}).fields
    assert _of(program, more).fields == without | fields


def test_fooocus_names_its_loras_twice_and_both_are_read() -> None:
    found = _of("Fooocus", {"loras": [], "lora_combined_1": "ink : 0.8", "lora_combined_2": "glow : 0.1"})
    assert found.prompt == "a sun <lora:ink:0.8> <lora:glow:0.1>"
    assert "lora_combined_1" not in found.fields


def test_the_size_of_a_picture_of_sd_scripts_is_its_own(tmp_path: Path) -> None:
    texts = {"prompt": "a sun", "seed": "7", "sampler": "k_euler_a", "steps": "20", "scale": "7.5"}
    path = png(tmp_path, **texts, **{"original-height": "512"})
    with Image.open(path) as image:
        size = f"{image.width}x{image.height}"
    assert said_by(path).fields["Size"] == size


def test_a_caption_beside_a_picture_is_no_setting(tmp_path: Path) -> None:
    path = beside(tmp_path, "picture.txt", "a red lighthouse, steps: wet, sampler: none")
    with pytest.raises(HalftoneError, match="contains no settings"):
        said_by(path)


def test_json_of_another_kind_is_no_setting(tmp_path: Path) -> None:
    path = png(tmp_path, parameters='{"prompt": "a sun"}', Comment='{"made": 1}')
    with pytest.raises(HalftoneError, match="contains no settings"):
        said_by(path)


def test_a_hidden_text_that_unpacks_without_end_is_cut(tmp_path: Path) -> None:
    path = hidden(tmp_path, "a" * 10**6, packed=True)
    with pytest.raises(HalftoneError, match="contains no settings"):
        said_by(path)


@pytest.mark.parametrize("damage", ["stealth_pngcomp", "length"])
def test_damaged_hidden_texts_are_none(damage: str, tmp_path: Path) -> None:
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 255))
    data = b"stealth_pngcomp" + (b"\0\0\0\x40" if damage == "length" else b"\xff" * 4) + b"no gzip!"
    for place, bit in enumerate("".join(f"{byte:08b}" for byte in data)):
        image.putpixel((place // 64, place % 64), (0, 0, 0, 254 | int(bit)))
    image.save(tmp_path / "picture.png")
    with pytest.raises(HalftoneError, match="contains no settings"):
        said_by(tmp_path / "picture.png")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = sorted({key for one in (SWARM["sui_image_params"], FOOOCUS, NOVEL, INVOKE_3, INVOKE_2, EASY, DRAW) for key in one})
_TEXTS = ("parameters", "Comment", "UserComment", "invokeai_metadata", "sd-metadata", "Dream", "num_inference_steps")


@given(st.dictionaries(st.sampled_from([*_KEYS, "sui_image_params", "image", "v4_prompt"]), _VALUES), st.sampled_from(_TEXTS))
def test_any_values_end_in_texts_or_in_nothing(values: dict[str, Any], key: str) -> None:
    for text in (json.dumps(values), json.dumps({"sui_image_params": values})):
        for found in (parameters_in({key: text}), parameters_beside(text)):
            assert found is None or all(isinstance(value, str) for value in found.fields.values())


@given(st.text(), st.sampled_from([*(key for key in _TEXTS if key != "num_inference_steps"), "XML:com.adobe.xmp"]))
def test_a_text_of_no_program_is_no_setting(text: str, key: str) -> None:
    """A chunk of Easy Diffusion is known by its key, Dream by quotation marks; JSON has tests of its own."""
    assume(key != "Dream" or not text.startswith('"'))
    assume(not text.lstrip().startswith("{"))
    assert parameters_in({key: text}) is None
    assert parameters_beside(text) is None
