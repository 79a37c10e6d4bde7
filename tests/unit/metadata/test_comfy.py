"""ComfyUI's graphs: chains are walked back from the saved picture, what is not understood is named, broken ones are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from halftone.contract.errors import HalftoneError
from halftone.metadata.comfy import STRANGE, parameters_of
from halftone.metadata.comfy_graph import NotPlainError
from halftone.metadata.parameters import EMPTY_NEGATIVE
from halftone.metadata.picture import exif_of
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import SYNTAX, Parameters

Graph = dict[str, Any]


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def plain() -> Graph:
    """ComfyUI's own first example."""
    noise = {"seed": 2**60, "steps": 20, "cfg": 8.0, "sampler_name": "dpmpp_2m", "scheduler": "karras", "denoise": 1.0}
    links = {"model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}
    return {
        "3": node("KSampler", **noise, **links),
        "4": node("CheckpointLoaderSimple", ckpt_name="sd15\\tiny, v2.safetensors"),
        "5": node("EmptyLatentImage", width=512, height=768, batch_size=1),
        "6": node("CLIPTextEncode", text="a sun\nNegative prompt: (red:1.2)", clip=["4", 1]),
        "7": node("CLIPTextEncode", text="ink, embedding:bad", clip=["4", 1]),
        "8": node("VAEDecode", samples=["3", 0], vae=["4", 2]),
        "9": node("SaveImage", filename_prefix="ComfyUI", images=["8", 0]),
    }


FIELDS = {
    "Steps": "20",
    "Sampler": "dpmpp_2m",
    "Schedule type": "karras",
    "CFG scale": "8",
    "Seed": str(2**60),
    "Size": "512x768",
    "Model": "sd15\\tiny, v2.safetensors",
    "Version": "ComfyUI",
    SYNTAX: "ComfyUI",
}


def lora(name: str, weight: float, behind: str) -> dict[str, Any]:
    return node("LoraLoader", lora_name=name, strength_model=weight, strength_clip=weight, model=[behind, 0], clip=[behind, 1])


def as_it_is(graph: Graph) -> None:
    assert graph


def with_loras(graph: Graph) -> None:
    graph |= {"10": lora("a/ink.safetensors", 0.5, "4"), "11": lora("glow", 1, "10")}
    graph["3"]["inputs"]["model"] = ["11", 0]
    graph["6"]["inputs"]["clip"] = graph["7"]["inputs"]["clip"] = ["11", 1]


def with_second(graph: Graph) -> None:
    graph |= {
        "20": node("KSampler", **graph["3"]["inputs"]),
        "21": node("VAEDecode", samples=["20", 0]),
        "22": node("SaveImage", images=["21", 0]),
    }


def with_parts(graph: Graph) -> None:
    graph["10"] = node("CLIPSetLastLayer", stop_at_clip_layer=-2, clip=["4", 1])
    graph["11"] = node("VAELoader", vae_name="mse.safetensors")
    graph["6"]["inputs"]["clip"] = graph["7"]["inputs"]["clip"] = ["10", 0]
    graph["8"]["inputs"]["vae"] = ["11", 0]
    graph["12"] = node("PreviewImage", images=["8", 0])


def with_several(graph: Graph) -> None:
    """The noise of each but the first is not its seed's."""
    graph["5"]["inputs"]["batch_size"] = 4


@pytest.mark.parametrize(
    ("change", "more", "loras"),
    [
        (as_it_is, {}, ""),
        (with_loras, {}, " <lora:ink:0.5> <lora:glow:1>"),
        (with_parts, {"VAE": "mse.safetensors", "Clip skip": "2"}, ""),
        (with_several, {"Batch size": "4"}, ""),
    ],
)
def test_a_plain_graph_says_how_its_picture_was_made(change: Callable[[Graph], None], more: dict[str, str], loras: str) -> None:
    graph = plain()
    change(graph)
    prompt = "a sun\nNegative prompt: (red:1.2)" + loras
    assert parameters_of(json.dumps(graph)) == Parameters(prompt=prompt, negative="ink, embedding:bad", fields=FIELDS | more)


def put(graph: Graph, place: str, **inputs: Any) -> None:
    graph[place]["inputs"] |= inputs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda graph: graph["6"].update(class_type="CLIPTextEncodeSDXL"), "the node CLIPTextEncodeSDXL has no text"),
        (lambda graph: put(graph, "6", text=["12", 0]), "text of the node CLIPTextEncode comes from another node"),
        (lambda graph: put(graph, "3", seed=["12", 0]), "seed of the node KSampler comes from another node"),
        (lambda graph: put(graph, "3", steps=10**400), "steps of the node KSampler is out of range"),
        (lambda graph: put(graph, "3", cfg=float("nan")), "cfg of the node KSampler is out of range"),
        (lambda graph: put(graph, "3", model=["99", 0]), "the node KSampler has no model"),
        (lambda graph: graph.pop("9"), "it saves no picture"),
        (
            lambda graph: graph.update({"20": node("LoadImage", image="x"), "21": node("SaveImage", images=["20", 0])}),
            "LoadImage",
        ),
        (with_second, "several"),
        (lambda graph: (with_loras(graph), put(graph, "10", model=["11", 0])), "it has the node LoraLoader"),
        (lambda graph: put(advanced(graph), "22", sigmas=["5", 0]), "it has the node EmptyLatentImage"),
        (lambda graph: put(advanced(graph), "22", sampler=["5", 0]), "it has the node EmptyLatentImage"),
        (lambda graph: advanced(graph).pop("20"), "the node SamplerCustomAdvanced has no noise"),
    ],
)
def test_what_cannot_be_read_is_named(change: Callable[[Graph], object], why: str) -> None:
    graph = plain()
    change(graph)
    with pytest.raises(NotPlainError, match=why):
        parameters_of(json.dumps(graph))


def advanced(graph: Graph) -> Graph:
    """The nodes that FLUX.1's examples have."""
    graph |= {
        "20": node("RandomNoise", noise_seed=9),
        "21": node("KSamplerSelect", sampler_name="euler"),
        "23": node("BasicScheduler", scheduler="simple", steps=30, denoise=1.0, model=["4", 0]),
        "24": node("BasicGuider", model=["4", 0], conditioning=["25", 0]),
        "25": node("FluxGuidance", guidance=3.5, conditioning=["6", 0]),
    }
    links = {"noise": ["20", 0], "guider": ["24", 0], "sampler": ["21", 0], "sigmas": ["23", 0], "latent_image": ["5", 0]}
    graph["22"] = node("SamplerCustomAdvanced", **links)
    graph["8"]["inputs"]["samples"] = ["22", 0]
    return graph


def by_reroutes_and_primitives(graph: Graph) -> None:
    graph |= {
        "30": node("PrimitiveStringMultiline", value="a sun\nNegative prompt: (red:1.2)"),
        "31": node("Reroute", **{"": ["4", 1]}),
        "32": node("Reroute", **{"": ["31", 0]}),
        "33": node("Seed (rgthree)", seed=2**60),
    }
    put(graph, "6", text=["30", 0], clip=["32", 0])
    put(graph, "3", seed=["33", 0])


def with_hires(graph: Graph) -> None:
    graph["40"] = node("LatentUpscaleBy", scale_by=1.5, samples=["3", 0])
    graph["41"] = node("KSampler", **(graph["3"]["inputs"] | {"denoise": 0.5, "steps": 12, "latent_image": ["40", 0]}))
    put(graph, "8", samples=["41", 0])


def with_upscaled(graph: Graph) -> None:
    graph |= {
        "40": node("ImageUpscaleWithModel", upscale_model=["43", 0], image=["8", 0]),
        "42": node("VAEEncode", pixels=["44", 0], vae=["4", 2]),
        "43": node("UpscaleModelLoader", model_name="4x-ultra.pth"),
        "44": node("ImageScaleBy", image=["40", 0], scale_by=0.5),
        "45": node("VAEDecode", samples=["41", 0], vae=["4", 2]),
    }
    graph["41"] = node("KSampler", **(graph["3"]["inputs"] | {"denoise": 0.4, "latent_image": ["42", 0]}))
    put(graph, "9", images=["45", 0])


def with_unknown_scale(graph: Graph) -> None:
    with_upscaled(graph)
    put(graph, "43", model_name="ultra.pth")


def stopped_early(graph: Graph) -> None:
    graph["3"] = node("KSamplerAdvanced", noise_seed=2**60, end_at_step=10, **graph["3"]["inputs"])


def with_refiner(graph: Graph) -> None:
    shared = {name: one for name, one in graph["3"]["inputs"].items() if name not in ("seed", "denoise")}
    graph["3"] = node("KSamplerAdvanced", add_noise="enable", noise_seed=2**60, start_at_step=0, end_at_step=16, **shared)
    graph["50"] = node("CheckpointLoaderSimple", ckpt_name="refiner.safetensors")
    graph["51"] = node(
        "KSamplerAdvanced", **(shared | {"noise_seed": 1, "start_at_step": 16, "model": ["50", 0], "latent_image": ["3", 0]})
    )
    put(graph, "8", samples=["51", 0])


def with_start(graph: Graph) -> None:
    graph["60"] = node("VAEEncode", pixels=["61", 0], vae=["4", 2])
    graph["61"] = node("LoadImage", image="sketch.png")
    put(graph, "3", latent_image=["60", 0], denoise=0.6)


def with_power_loras(graph: Graph) -> None:
    rows = {
        "lora_1": {"on": True, "lora": "a\\ink.safetensors", "strength": 0.7},
        "lora_2": {"on": False, "lora": "b", "strength": 1},
        "lora_3": {"on": True, "lora": "glow.safetensors", "strength": 1, "strengthTwo": 0.5},
        "lora_4": {"on": True, "lora": "dust.safetensors", "strength": 0.6, "strengthTwo": None},
    }
    graph["10"] = node("Power Lora Loader (rgthree)", model=["4", 0], clip=["4", 1], **rows)
    put(graph, "3", model=["10", 0])
    put(graph, "6", clip=["10", 1])
    put(graph, "7", clip=["10", 1])


def with_strange(graph: Graph) -> None:
    graph |= {
        "10": node("SelfAttentionGuidance", model=["4", 0], scale=0.5),
        "11": node("ControlNetApplyAdvanced", positive=["6", 0], negative=["7", 0], strength=1.0),
        "12": node("FaceDetailer", image=["8", 0]),
    }
    put(graph, "3", model=["10", 0], positive=["11", 0])
    put(graph, "9", images=["12", 0])


FREEU = {"FreeU version": "V2", "freeu_b1": "1.3", "freeu_b2": "1.4", "freeu_s1": "0.9", "freeu_s2": "0.2"}


SKIPPED = {
    "Skip layer guidance scale": "3",
    "Skip layer guidance start": "0.02",
    "Skip layer guidance stop": "0.15",
    "Options": '{"skip_guidance_layers": [7, 8]}',
}


def with_sampling(graph: Graph) -> None:
    graph["10"] = node("ModelSamplingSD3", shift=3.0, model=["11", 0])
    graph["11"] = node("RescaleCFG", multiplier=0.7, model=["12", 0])
    graph["12"] = node("FreeU_V2", b1=1.3, b2=1.4, s1=0.9, s2=0.2, model=["13", 0])
    graph["13"] = node("PerturbedAttentionGuidance", scale=2.5, model=["14", 0])
    skipped = {"layers": "7, 8", "scale": 3.0, "start_percent": 0.02, "end_percent": 0.15}
    graph["14"] = node("SkipLayerGuidanceSD3", **skipped, model=["4", 0])
    put(graph, "3", model=["10", 0])


@pytest.mark.parametrize(
    ("change", "more", "prompt"),
    [
        (by_reroutes_and_primitives, {}, ""),
        (
            advanced,
            {
                "Steps": "30", "Sampler": "euler", "Schedule type": "simple", "CFG scale": "1", "Seed": "9",
                "Distilled CFG Scale": "3.5",
            },
            "",
        ),
        (
            with_hires,
            {"Hires upscale": "1.5", "Hires steps": "12", "Hires upscaler": "Latent", "Denoising strength": "0.5"},
            "",
        ),
        (
            with_upscaled,
            {"Hires upscale": "2", "Hires steps": "20", "Hires upscaler": "4x-ultra", "Denoising strength": "0.4"},
            "",
        ),
        (with_unknown_scale, {"Hires steps": "20", "Hires upscaler": "ultra", "Denoising strength": "0.4"}, ""),
        (stopped_early, {STRANGE: "KSamplerAdvanced"}, ""),
        (with_refiner, {"Refiner": "refiner.safetensors", "Refiner switch at": "0.8"}, ""),
        (
            lambda graph: (with_refiner(graph), put(graph, "51", steps=40)),
            {"Refiner": "refiner.safetensors", "Refiner switch at": "0.8", STRANGE: "KSamplerAdvanced"},
            "",
        ),
        (
            lambda graph: (with_refiner(graph), put(graph, "3", return_with_leftover_noise="disable")),
            {"Refiner": "refiner.safetensors", "Refiner switch at": "0.8", STRANGE: "KSamplerAdvanced"},
            "",
        ),
        (
            lambda graph: (with_refiner(graph), put(graph, "51", add_noise="enable")),
            {"Refiner": "refiner.safetensors", "Refiner switch at": "0.8", STRANGE: "KSamplerAdvanced"},
            "",
        ),
        (with_start, {"Start picture": "sketch.png", "Denoising strength": "0.6", "Size": None}, ""),
        (with_power_loras, {}, " <lora:ink:0.7> <lora:glow:0.5:1> <lora:dust:0.6>"),
        (with_strange, {STRANGE: "FaceDetailer, ControlNetApplyAdvanced, SelfAttentionGuidance"}, ""),
        (with_sampling, {"Shift": "3", "CFG rescale": "0.7"} | FREEU | {"pagi_scale": "2.5"} | SKIPPED, ""),
        (
            lambda graph: (with_loras(graph), put(graph, "10", strength_clip=1.0)),
            {},
            " <lora:ink:1:0.5> <lora:glow:1>",
        ),
    ],
)  # fmt: skip
def test_any_chain_is_walked_back(change: Callable[[Graph], object], more: dict[str, str | None], prompt: str) -> None:
    graph = plain()
    change(graph)
    said = parameters_of(json.dumps(graph))
    assert said.fields == {name: value for name, value in (FIELDS | more).items() if value is not None}
    assert said.prompt == "a sun\nNegative prompt: (red:1.2)" + prompt


@pytest.mark.parametrize(
    ("kind", "method", "upscaler", "strange"),
    [
        ("LatentUpscaleBy", "bilinear", "Latent", None),
        ("LatentUpscaleBy", "nearest-exact", "Latent (nearest-exact)", None),
        ("LatentUpscaleBy", "bislerp", "Latent", "LatentUpscaleBy"),
        ("ImageScaleBy", "lanczos", "Lanczos", None),
        ("ImageScaleBy", "area", "Lanczos", "ImageScaleBy"),
    ],
)
def test_the_way_to_a_larger_picture_is_read(kind: str, method: str, upscaler: str, strange: str | None) -> None:
    graph = plain()
    with_hires(graph)
    if kind == "ImageScaleBy":
        graph["42"] = node("VAEDecode", samples=["3", 0], vae=["4", 2])
        graph["43"] = node(kind, upscale_method=method, scale_by=1.5, image=["42", 0])
        graph["40"] = node("VAEEncode", pixels=["43", 0], vae=["4", 2])
    else:
        put(graph, "40", upscale_method=method)
    said = parameters_of(json.dumps(graph))
    assert (said.fields["Hires upscaler"], said.fields["Hires upscale"], said.fields.get(STRANGE)) == (upscaler, "1.5", strange)


def test_what_differs_in_the_second_pass_is_named() -> None:
    graph = plain()
    with_hires(graph)
    put(graph, "41", seed=2, sampler_name="euler", cfg=3, positive=["44", 0], model=["45", 0])
    graph["44"] = node("CLIPTextEncode", text="a moon", clip=["4", 1])
    graph["45"] = lora("ink", 0.5, "4")
    said = parameters_of(json.dumps(graph)).fields
    assert {name: value for name, value in said.items() if name.startswith("Hires")} == {
        "Hires upscale": "1.5", "Hires steps": "12", "Hires upscaler": "Latent", "Hires sampler": "euler", "Hires CFG Scale": "3",
        "Hires seed": "2", "Hires prompt": "a moon", "Hires LoRAs": "<lora:ink:0:0.5>",
    }  # fmt: skip


def test_a_second_pass_of_a_part_of_a_row_computes_that_part() -> None:
    graph = plain()
    with_hires(graph)
    given = graph["41"]["inputs"] | {"steps": 20, "start_at_step": 10, "end_at_step": 10000, "noise_seed": 2**60}
    graph["41"] = node("KSamplerAdvanced", **given)
    said = parameters_of(json.dumps(graph)).fields
    assert (said["Hires steps"], said["Denoising strength"]) == ("10", "0.5")


def test_what_changes_the_text_encoder_is_named() -> None:
    graph = plain()
    graph["10"] = node("CLIPAttentionMultiply", clip=["4", 1], q=1.2)
    put(graph, "6", clip=["10", 0])
    put(graph, "7", clip=["10", 0])
    assert parameters_of(json.dumps(graph)).fields[STRANGE] == "CLIPAttentionMultiply"


@pytest.mark.parametrize("place", ["23", "24"])
def test_a_shift_of_the_schedule_alone_is_named(place: str) -> None:
    graph = plain()
    advanced(graph)
    graph["50"] = node("ModelSamplingSD3", shift=5.0, model=["4", 0])
    put(graph, place, model=["50", 0])
    said = parameters_of(json.dumps(graph)).fields
    assert (said.get(STRANGE), said.get("Shift")) == (("ModelSamplingSD3", None) if place == "23" else (None, "5"))


def test_the_size_is_found_behind_a_node_that_is_not_understood() -> None:
    graph = plain()
    graph["10"] = node("LatentBatchSeedBehavior", samples=["5", 0], seed_behavior="fixed")
    put(graph, "3", latent_image=["10", 0])
    said = parameters_of(json.dumps(graph))
    assert said.fields == FIELDS | {STRANGE: "LatentBatchSeedBehavior"}


@pytest.mark.parametrize("cfg", [8, 1])
def test_an_empty_negative_is_encoded(cfg: int) -> None:
    """SDXL's pipeline in diffusers takes zeros for none."""
    graph = plain()
    put(graph, "3", cfg=cfg)
    put(graph, "7", text=" ")
    said = parameters_of(json.dumps(graph))
    assert (said.negative, said.fields.get(EMPTY_NEGATIVE)) == ("", "True" if cfg != 1 else None)


@pytest.mark.parametrize("cfg", [8, 1])
def test_a_negative_of_zeros_is_no_empty_prompt(cfg: int) -> None:
    graph = plain()
    graph["10"] = node("ConditioningZeroOut", conditioning=["6", 0])
    put(graph, "3", negative=["10", 0], cfg=cfg)
    said = parameters_of(json.dumps(graph))
    assert said.negative == ""
    assert said.fields.get(STRANGE) == ("ConditioningZeroOut" if cfg != 1 else None), "without guidance it has no effect"


@pytest.mark.parametrize(("encoder", "layer"), [("6", "2"), ("7", None)])
def test_layers_that_one_prompt_alone_leaves_out_are_named(encoder: str, layer: str | None) -> None:
    graph = plain()
    graph["10"] = node("CLIPSetLastLayer", stop_at_clip_layer=-2, clip=["4", 1])
    put(graph, encoder, clip=["10", 0])
    said = parameters_of(json.dumps(graph))
    assert (said.fields.get("Clip skip"), said.fields.get(STRANGE)) == (layer, "CLIPSetLastLayer")


@pytest.mark.parametrize(
    ("model", "prompt", "negative", "loras", "strange"),
    [
        ("10", "10", "10", " <lora:ink:0.5>", None),
        ("10", "4", "4", " <lora:ink:0:0.5>", None),
        ("4", "10", "10", " <lora:ink:0.5:0>", None),
        ("10", "10", "4", " <lora:ink:0.5>", "LoraLoader"),
        ("10", "4", "10", " <lora:ink:0:0.5>", "LoraLoader"),
    ],
)
def test_a_lora_counts_where_its_outputs_lead(model: str, prompt: str, negative: str, loras: str, strange: str | None) -> None:
    graph = plain()
    graph["10"] = lora("ink", 0.5, "4")
    put(graph, "3", model=[model, 0])
    put(graph, "6", clip=[prompt, 1])
    put(graph, "7", clip=[negative, 1])
    said = parameters_of(json.dumps(graph))
    assert (said.prompt.removeprefix(plain()["6"]["inputs"]["text"]), said.fields.get(STRANGE)) == (loras, strange)


def by_switch(graph: Graph) -> None:
    graph |= {
        "30": node("StringConcatenate", string_a="a sun", string_b="Negative prompt: (red:1.2)", delimiter="\n"),
        "31": node("ComfySwitchNode", switch=["32", 0], on_true=["4", 0], on_false=["99", 0]),
        "32": node("PrimitiveBoolean", value=True),
    }
    put(graph, "6", text=["30", 0])
    put(graph, "3", model=["31", 0])


def through_two_outputs(graph: Graph) -> None:
    """The second output of a ControlNet is the negative prompt."""
    graph["11"] = node("ControlNetApplyAdvanced", positive=["6", 0], negative=["7", 0])
    put(graph, "3", positive=["11", 0], negative=["11", 1])


def with_custom_sigmas(graph: Graph) -> None:
    graph |= {
        "20": node("SamplerDPMPP_2M_SDE", solver_type="midpoint", eta=0.5, s_noise=1.0, noise_device="gpu"),
        "21": node("KarrasScheduler", steps=12, sigma_max=14.0, sigma_min=0.03, rho=7.0),
        "22": node("SamplerCustom", model=["4", 0], add_noise=True, noise_seed=5, cfg=6.5, positive=["6", 0], negative=["7", 0],
                   sampler=["20", 0], sigmas=["21", 0], latent_image=["5", 0]),
    }  # fmt: skip
    put(graph, "8", samples=["22", 0])


def with_split_sigmas(graph: Graph) -> None:
    """The second model goes the last fifth of the way."""
    advanced(graph)
    graph |= {
        "26": node("SplitSigmas", sigmas=["23", 0], step=24),
        "27": node("CheckpointLoaderSimple", ckpt_name="refiner.safetensors"),
        "28": node("BasicGuider", model=["27", 0], conditioning=["6", 0]),
        "29": node("DisableNoise"),
    }
    put(graph, "22", sigmas=["26", 0])
    again = {"noise": ["29", 0], "guider": ["28", 0], "sampler": ["21", 0], "sigmas": ["26", 1], "latent_image": ["22", 0]}
    graph["33"] = node("SamplerCustomAdvanced", **again)
    put(graph, "8", samples=["33", 0])


def with_discrete(graph: Graph) -> None:
    graph["10"] = node("ModelSamplingDiscrete", sampling="v_prediction", zsnr=True, model=["11", 0])
    graph["11"] = node("ModelSamplingFlux", max_shift=1.15, base_shift=0.5, width=512, height=768, model=["4", 0])
    put(graph, "3", model=["10", 0])


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (by_switch, {}),
        (through_two_outputs, {STRANGE: "ControlNetApplyAdvanced"}),
        (
            with_custom_sigmas,
            {
                "Sampler": "dpmpp_2m_sde_gpu", "Eta": "0.5", "Steps": "12", "Schedule max sigma": "14",
                "Schedule min sigma": "0.03", "Schedule rho": "7", "CFG scale": "6.5", "Seed": "5",
            },
        ),
        (
            with_split_sigmas,
            {
                "Steps": "30", "Sampler": "euler", "Schedule type": "simple", "CFG scale": "1", "Seed": "9",
                "Distilled CFG Scale": "3.5", "Refiner": "refiner.safetensors", "Refiner switch at": "0.8",
                STRANGE: "DisableNoise",
            },
        ),
        (with_discrete, {"Prediction type": "v_prediction", "Noise Schedule": "Zero Terminal SNR"}),
    ],
)  # fmt: skip
def test_values_are_found_where_they_are(change: Callable[[Graph], object], more: dict[str, str]) -> None:
    graph = plain()
    change(graph)
    said = parameters_of(json.dumps(graph))
    assert said.fields == FIELDS | more
    assert said.prompt == "a sun\nNegative prompt: (red:1.2)"
    assert said.negative == ("" if more.get("Distilled CFG Scale") else "ink, embedding:bad")


def custom(graph: Graph, place: str, kind: str, **inputs: Any) -> None:
    with_custom_sigmas(graph)
    graph[place] = node(kind, **inputs)


def sdxl(graph: Graph, **sizes: int) -> None:
    edges = {"width": 512, "height": 768, "target_width": 512, "target_height": 768, "crop_w": 0, "crop_h": 0}
    graph["6"] = node("CLIPTextEncodeSDXL", text_g="a sun", text_l="a sun", **edges | sizes)


@pytest.mark.parametrize(
    ("change", "sampler", "strange"),
    [
        (lambda graph: custom(graph, "20", "SamplerDPMPP_2M_SDE", solver_type="heun"), "dpmpp_2m_sde_heun", None),
        (lambda graph: custom(graph, "20", "SamplerSASolver", use_pece=True), "sa_solver_pece", None),
        (lambda graph: custom(graph, "20", "SamplerSASolver", predictor_order=2), "sa_solver", "SamplerSASolver"),
        (lambda graph: custom(graph, "20", "SamplerDPMPP_SDE", r=0.5), "dpmpp_sde", None),
        (lambda graph: custom(graph, "20", "SamplerDPMPP_SDE", r=0.4), "dpmpp_sde", "SamplerDPMPP_SDE"),
        (lambda graph: custom(graph, "21", "BetaSamplingScheduler", steps=9, alpha=0.6, beta=0.6), "dpmpp_2m_sde_gpu", None),
        (
            lambda graph: custom(graph, "21", "BetaSamplingScheduler", steps=9, alpha=0.5, beta=0.6),
            "dpmpp_2m_sde_gpu",
            "BetaSamplingScheduler",
        ),
        (
            lambda graph: custom(graph, "21", "AlignYourStepsScheduler", steps=9, model_type="SVD"),
            "dpmpp_2m_sde_gpu",
            "AlignYourStepsScheduler",
        ),
        (lambda graph: (with_custom_sigmas(graph), put(graph, "22", add_noise=False)), "dpmpp_2m_sde_gpu", "SamplerCustom"),
        (lambda graph: graph.update({"4": node("UNETLoader", unet_name="a", weight_dtype="default")}), "dpmpp_2m", None),
        (
            lambda graph: graph.update({"4": node("UNETLoader", unet_name="a", weight_dtype="fp8_e4m3fn")}),
            "dpmpp_2m",
            "UNETLoader",
        ),
        (sdxl, "dpmpp_2m", None),
        (lambda graph: sdxl(graph, crop_w=8), "dpmpp_2m", "CLIPTextEncodeSDXL"),
        (lambda graph: sdxl(graph, width=4096), "dpmpp_2m", "CLIPTextEncodeSDXL"),
    ],
)
def test_a_value_without_a_field_is_not_dropped(change: Callable[[Graph], object], sampler: str, strange: str | None) -> None:
    graph = plain()
    change(graph)
    said = parameters_of(json.dumps(graph))
    assert (said.fields["Sampler"], said.fields.get(STRANGE)) == (sampler, strange)


def merged(graph: Graph) -> None:
    graph["4"] = node("ModelMergeSimple", model1=["10", 0], model2=["11", 0], ratio=0.5)


def by_strange_loader(graph: Graph) -> None:
    graph["4"] = node("StrangeLoader", path="tiny.safetensors", precision="int4")


def by_strange_seed(graph: Graph) -> None:
    graph["12"] = node("StrangeSeed", start=1)
    put(graph, "3", seed=["12", 0])
    put(graph, "5", width=["12", 0])


def guided_by_pictures(graph: Graph) -> None:
    graph["6"] = node("StrangeVision", image=["12", 0])


def composed(graph: Graph) -> None:
    graph |= {"12": node("LoadImage", image="x.png"), "13": node("ImageCompositeMasked", destination=["12", 0], source=["8", 0])}
    put(graph, "9", images=["13", 0])


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (merged, {"Model": None, STRANGE: "ModelMergeSimple"}),
        (by_strange_loader, {"Model": "tiny.safetensors", STRANGE: "StrangeLoader"}),
        (by_strange_seed, {"Seed": None, "Size": None, STRANGE: "StrangeSeed"}),
        (guided_by_pictures, {STRANGE: "StrangeVision"}),
        (composed, {STRANGE: "ImageCompositeMasked"}),
    ],
)
def test_what_is_not_understood_is_named_and_left_out(change: Callable[[Graph], None], more: dict[str, str | None]) -> None:
    graph = plain()
    put(graph, "6", text="a sun")
    change(graph)
    wanted = {name: value for name, value in (FIELDS | more).items() if value is not None}
    assert parameters_of(json.dumps(graph)).fields == wanted


def efficient(graph: Graph) -> None:
    """A loader with everything, and a sampler that decodes."""
    words = {"positive": "a sun\nNegative prompt: (red:1.2)", "negative": "ink, embedding:bad"}
    graph["4"] = node(
        "Efficient Loader", ckpt_name="sd15\\tiny, v2.safetensors", vae_name="Baked VAE", clip_skip=-2,
        lora_name="a/ink.safetensors", lora_model_strength=0.5, lora_clip_strength=0.5,
        empty_latent_width=512, empty_latent_height=768, batch_size=1, **words,
    )  # fmt: skip
    links = {"model": ["4", 0], "positive": ["4", 1], "negative": ["4", 2], "latent_image": ["4", 3]}
    graph["3"] = {"class_type": "KSampler (Efficient)", "inputs": graph["3"]["inputs"] | links}
    graph["9"] = node("Image Saver", images=["3", 5], filename="a")
    for name in ("5", "6", "7", "8"):
        del graph[name]


def with_second_efficient(graph: Graph) -> None:
    efficient(graph)
    graph["40"] = node("LatentUpscaleBy", scale_by=1.5, samples=["3", 3])
    links = {"model": ["3", 0], "positive": ["3", 1], "negative": ["3", 2], "latent_image": ["40", 0], "denoise": 0.5}
    graph["41"] = {"class_type": "KSampler (Efficient)", "inputs": graph["3"]["inputs"] | links}
    put(graph, "9", images=["41", 5])


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (efficient, {}),
        (
            with_second_efficient,
            {"Hires upscale": "1.5", "Hires steps": "20", "Hires upscaler": "Latent", "Denoising strength": "0.5"},
        ),
    ],
)
def test_nodes_that_do_everything_are_read(change: Callable[[Graph], None], more: dict[str, str]) -> None:
    graph = plain()
    change(graph)
    said = parameters_of(json.dumps(graph))
    assert said.fields == FIELDS | {"Clip skip": "2"} | more
    assert (said.prompt, said.negative) == ("a sun\nNegative prompt: (red:1.2) <lora:ink:0.5>", "ink, embedding:bad")


def test_the_size_tells_which_of_two_saved_pictures_it_is() -> None:
    graph = plain()
    with_hires(graph)
    graph |= {"50": node("VAEDecode", samples=["3", 0]), "51": node("SaveImage", images=["50", 0])}
    assert parameters_of(json.dumps(graph), (512, 768)).fields == FIELDS
    assert parameters_of(json.dumps(graph), (768, 1152)).fields["Hires upscale"] == "1.5"
    for size in ((100, 100), None):
        with pytest.raises(NotPlainError, match="several"):
            parameters_of(json.dumps(graph), size)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["KSampler", "3"])
NAMES = st.sampled_from(["3", "class_type", "inputs", "x"])
JSON = st.recursive(LEAVES, lambda one: st.lists(one, max_size=4) | st.dictionaries(NAMES, one, max_size=4), max_leaves=12)
PLACES = st.sampled_from(["class_type", "inputs", "images", "samples", "model", "text", "clip", "width"])


def said(text: str) -> str:
    try:
        return parameters_of(text).fields["Steps"]
    except NotPlainError as error:
        return str(error)


@given(st.sampled_from(sorted(plain())), PLACES, JSON, st.integers(0, 900))
def test_a_broken_graph_ends_in_a_sentence(place: str, name: str, value: Any, cut: int) -> None:
    graph = plain()
    (graph[place] if name in graph[place] else graph[place]["inputs"])[name] = value
    for text in (json.dumps(graph), json.dumps(plain() | {place: value}), json.dumps(value), json.dumps(graph)[:cut]):
        assert said(text).isprintable()
        assert said(text)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"3": null}', "9" * 5000, '{"3": {"class_type": [1]}}'])
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(NotPlainError):
        parameters_of(text)


def save(path: Path, graph: str) -> Path:
    image, chunks, exif = Image.new("RGB", (8, 8)), PngInfo(), Image.Exif()
    chunks.add_text("prompt", graph)
    exif[0x0110] = "prompt:" + graph
    if path.suffix == ".png":
        image.save(path, pnginfo=chunks)
    else:
        image.save(path, exif=exif)
    return path


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_a_picture_of_comfyui_is_read(tmp_path: Path, ending: str) -> None:
    assert said_by(save(tmp_path / f"a.{ending}", json.dumps(plain()))).fields == FIELDS


def test_a_graph_in_a_comment_is_read(tmp_path: Path) -> None:
    """Civitai's first pictures have it there, with what is no node beside it."""
    path = tmp_path / "a.jpg"
    text = json.dumps(plain() | {"extra": {"airs": ["urn:air:sd1:checkpoint:civitai:1@2"]}, "extraMetadata": "{}"})
    Image.new("RGB", (8, 8)).save(path, exif=exif_of(text, ""))
    assert said_by(path).fields == FIELDS


def test_half_a_sign_is_no_text(tmp_path: Path) -> None:
    graph = plain()
    graph["6"]["inputs"]["text"] = "a \ud83c sun"
    assert said_by(save(tmp_path / "a.png", json.dumps(graph))).prompt == "a ? sun"


def test_a_name_that_no_file_can_have_is_that_of_none(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        said_by(tmp_path / ("a" * 300))
    assert caught.value.code == "image-missing"


@pytest.mark.parametrize(
    ("graph", "code"), [("a camera", "picture-silent"), ("{}", "picture-graph"), (json.dumps({"1": node("X")}), "picture-graph")]
)
def test_a_picture_that_does_not_say_enough_is_refused(tmp_path: Path, graph: str, code: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        said_by(save(tmp_path / "a.png", graph))
    assert caught.value.code == code


@pytest.mark.parametrize(("sampler", "noted"), [("dpmpp_2m_sde", "1"), ("euler_ancestral", "1"), ("dpmpp_2m", None)])
def test_the_refiners_own_seed_is_noted_where_it_draws_noise(sampler: str, noted: str | None) -> None:
    graph = plain()
    with_refiner(graph)
    put(graph, "3", sampler_name=sampler)
    put(graph, "51", sampler_name=sampler)
    assert parameters_of(json.dumps(graph)).fields.get("Refiner seed") == noted
