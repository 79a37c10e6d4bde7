"""ComfyUI's graphs: the plain one is read whole, any other is told with what is not plain, and broken ones end in a sentence."""

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
from halftone.metadata.comfy import NotPlainError, parameters_of
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters

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
    "CFG scale": "8.0",
    "Seed": str(2**60),
    "Size": "512x768",
    "Model": "sd15\\tiny, v2.safetensors",
    "Version": "ComfyUI",
}


def lora(name: str, weight: float, behind: str) -> dict[str, Any]:
    return node("LoraLoader", lora_name=name, strength_model=weight, strength_clip=weight, model=[behind, 0], clip=[behind, 1])


def as_it_is(graph: Graph) -> None:
    assert graph


def with_loras(graph: Graph) -> None:
    graph |= {"10": lora("a/ink.safetensors", 0.5, "4"), "11": lora("glow", 1, "10")}
    graph["3"]["inputs"]["model"] = ["11", 0]
    graph["6"]["inputs"]["clip"] = ["11", 1]


def with_two_pictures(graph: Graph) -> None:
    graph |= {"20": node("VAEDecode", samples=["3", 0]), "21": node("SaveImage", images=["20", 0])}


def with_parts(graph: Graph) -> None:
    graph["10"] = node("CLIPSetLastLayer", stop_at_clip_layer=-2, clip=["4", 1])
    graph["11"] = node("VAELoader", vae_name="mse.safetensors")
    graph["6"]["inputs"]["clip"] = ["10", 0]
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
    assert parameters_of(json.dumps(graph)) == Parameters(prompt=prompt, negative="ink, bad", fields=FIELDS | more)


def put(graph: Graph, place: str, **inputs: Any) -> None:
    graph[place]["inputs"] |= inputs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda graph: put(graph, "3", denoise=0.5), "it uses image to image"),
        (lambda graph: graph["3"].update(class_type="KSamplerAdvanced"), "it has the node KSamplerAdvanced"),
        (lambda graph: graph["6"].update(class_type="CLIPTextEncodeSDXL"), "it has the node CLIPTextEncodeSDXL"),
        (lambda graph: graph["5"].update(class_type="VAEEncode"), "it has the node VAEEncode"),
        (lambda graph: graph["4"].update(class_type="ModelMergeSimple"), "it has the node ModelMergeSimple"),
        (lambda graph: graph["8"].update(class_type="ImageUpscaleWithModel"), "it has the node ImageUpscaleWithModel"),
        (lambda graph: put(graph, "6", text=["12", 0]), "text of the node CLIPTextEncode comes from another node"),
        (lambda graph: put(graph, "3", seed=["12", 0]), "seed of the node KSampler comes from another node"),
        (lambda graph: put(graph, "3", steps=10**400), "steps of the node KSampler is out of range"),
        (lambda graph: put(graph, "3", cfg=float("nan")), "cfg of the node KSampler is out of range"),
        (lambda graph: put(graph, "3", model=["99", 0]), "the node KSampler has no model"),
        (lambda graph: graph.pop("9"), "it saves no picture"),
        (
            lambda graph: graph.update({"20": node("VAEDecode", samples=["3", 0]), "21": node("SaveImage", images=["20", 0])}),
            "several",
        ),
        (lambda graph: (with_loras(graph), put(graph, "10", strength_clip=1.0)), "it has a LoRA with two strengths"),
        (lambda graph: (with_loras(graph), put(graph, "10", model=["11", 0])), "it has the node LoraLoader"),
    ],
)
def test_what_is_not_plain_is_told(change: Callable[[Graph], object], why: str) -> None:
    graph = plain()
    change(graph)
    with pytest.raises(NotPlainError, match=why):
        parameters_of(json.dumps(graph))


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
