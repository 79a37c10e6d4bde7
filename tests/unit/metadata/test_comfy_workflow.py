"""The editor's form of ComfyUI's graphs says the same as the form that ran; references are pictures that ComfyUI wrote."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from halftone.metadata.comfy import STRANGE, parameters_of
from halftone.metadata.comfy_graph import NotPlainError
from halftone.metadata.comfy_workflow import prompt_form
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import SYNTAX

REFERENCES = Path(__file__).parents[2] / "references" / "comfy_workflows.json"
SAMPLES: dict[str, Any] = json.loads(REFERENCES.read_text())["samples"]


def said(graph: Any) -> object:
    try:
        return parameters_of(json.dumps(graph))
    except NotPlainError as error:
        return str(error)


@pytest.mark.parametrize("name", SAMPLES)
def test_both_forms_say_the_same(name: str) -> None:
    assert said(SAMPLES[name]["workflow"]) == said(SAMPLES[name]["prompt"])


def node(number: int, kind: str, *values: Any, mode: int = 0, **links: int | None) -> dict[str, Any]:
    inputs = [{"name": name, "type": TYPES.get(name, name), "link": link} for name, link in links.items()]
    return {"id": number, "type": kind, "mode": mode, "inputs": inputs, "widgets_values": list(values)}


TYPES = {"model": "MODEL", "clip": "CLIP", "samples": "LATENT", "latent_image": "LATENT", "images": "IMAGE"}


def workflow() -> dict[str, Any]:
    return {
        "nodes": [
            node(3, "KSampler", 7, "randomize", 20, 8, "euler", "normal", 1, model=1, positive=2, negative=3, latent_image=4),
            node(4, "CheckpointLoaderSimple", "tiny.safetensors"),
            node(5, "EmptyLatentImage", 512, 768, 1),
            node(6, "CLIPTextEncode", "a sun", clip=5),
            node(7, "CLIPTextEncode", "ink", clip=6),
            node(8, "VAEDecode", samples=7, vae=8),
            node(9, "SaveImage", "Halftone", images=9),
        ],
        "links": [
            [1, 4, 0, 3, 0, "MODEL"], [2, 6, 0, 3, 1, "CONDITIONING"], [3, 7, 0, 3, 2, "CONDITIONING"],
            [4, 5, 0, 3, 3, "LATENT"], [5, 4, 1, 6, 0, "CLIP"], [6, 4, 1, 7, 0, "CLIP"], [7, 3, 0, 8, 0, "LATENT"],
            [8, 4, 2, 8, 1, "VAE"], [9, 8, 0, 9, 0, "IMAGE"],
        ],
    }  # fmt: skip


FIELDS = {
    "Steps": "20", "Sampler": "euler", "Schedule type": "normal", "CFG scale": "8", "Seed": "7", "Size": "512x768",
    "Model": "tiny.safetensors", "Version": "ComfyUI", SYNTAX: "ComfyUI",
}  # fmt: skip


def between(whole: dict[str, Any], link: int, new: dict[str, Any]) -> None:
    """Put a node into a link; its own input has link 100."""
    old = next(one for one in whole["links"] if one[0] == link)
    whole["links"].append([100, *old[1:3], new["id"], 0, old[5]])
    old[1:3] = [new["id"], 0]
    whole["nodes"].append(new)


def with_lora(whole: dict[str, Any], mode: int = 0) -> None:
    between(whole, 1, node(10, "LoraLoaderModelOnly", "ink.safetensors", 0.5, mode=mode, model=100))


def by_many_reroutes(whole: dict[str, Any]) -> None:
    whole["links"] += [[100 + number, 4 if number == 0 else 99 + number, 0, 100 + number, 0, "MODEL"] for number in range(30)]
    whole["nodes"] += [node(100 + number, "Reroute", **{"": 100 + number}) for number in range(30)]
    whole["links"][0][1:3] = [129, 0]


def by_wire(whole: dict[str, Any]) -> None:
    whole["links"] += [[100, 4, 0, 10, 0, "MODEL"], [101, 11, 0, 3, 0, "MODEL"]]
    whole["nodes"] += [node(10, "SetNode", "wire", MODEL=100), node(11, "GetNode", "wire")]
    whole["nodes"][0]["inputs"][0]["link"] = 101


def by_primitive(whole: dict[str, Any]) -> None:
    whole["links"].append([100, 10, 0, 3, 4, "INT"])
    whole["nodes"][0]["inputs"].append({"name": "steps", "type": "INT", "link": 100, "widget": {"name": "steps"}})
    whole["nodes"][0]["widgets_values"][2] = 99
    whole["nodes"].append(node(10, "PrimitiveNode", 20, "fixed"))


def muted_second(whole: dict[str, Any]) -> None:
    whole["links"].append([100, 8, 0, 10, 0, "IMAGE"])
    whole["nodes"].append(node(10, "SaveImage", "again", mode=2, images=100))


def power_loras(whole: dict[str, Any]) -> None:
    row = {"on": True, "lora": "ink.safetensors", "strength": 0.5}
    between(whole, 1, node(10, "Power Lora Loader (rgthree)", {}, {"type": "header"}, row, row | {"on": False}, "", model=100))


def first_control(whole: dict[str, Any]) -> None:
    """The first versions kept a flag beside the seed."""
    whole["nodes"][0]["widgets_values"][1] = True


@pytest.mark.parametrize(
    ("change", "prompt"),
    [
        (lambda whole: whole, "a sun"),
        (with_lora, "a sun <lora:ink:0:0.5>"),
        (lambda whole: with_lora(whole, mode=4), "a sun"),
        (lambda whole: between(whole, 1, node(10, "Reroute", **{"": 100})), "a sun"),
        (by_many_reroutes, "a sun"),
        (by_wire, "a sun"),
        (by_primitive, "a sun"),
        (muted_second, "a sun"),
        (power_loras, "a sun <lora:ink:0:0.5>"),
        (first_control, "a sun"),
    ],
)
def test_what_the_editor_alone_knows_is_solved(change: Callable[[dict[str, Any]], object], prompt: str) -> None:
    whole = workflow()
    change(whole)
    found = parameters_of(json.dumps(whole))
    assert found.fields == FIELDS
    assert (found.prompt, found.negative) == (prompt, "ink")


def test_a_muted_model_is_missing() -> None:
    whole = workflow()
    whole["nodes"][1]["mode"] = 2
    assert said(whole) == "the node KSampler has no model"


def subgraph(outer: dict[str, Any]) -> dict[str, Any]:
    """All but the saving in a subgraph, whose prompt and seed its node shows."""
    inner = workflow()
    inner["nodes"] = inner["nodes"][:-1]
    names = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    links = [dict(zip(names, one, strict=True)) for one in inner["links"][:-1]]
    links += [
        dict(zip(names, one, strict=True))
        for one in ([20, -10, 0, 6, 1, "STRING"], [21, -10, 1, 3, 0, "MODEL"], [22, 8, 0, -20, 0, "IMAGE"])
    ]
    inner["nodes"][3]["inputs"].append({"name": "text", "type": "STRING", "link": 20, "widget": {"name": "text"}})
    inner["nodes"][0]["inputs"][0]["link"] = 21
    definition = {**inner, "id": "a-b", "links": links, "inputs": [{"name": "words"}, {"name": "net"}]}
    return {
        "nodes": [node(1, "CheckpointLoaderSimple", "outer.safetensors"), outer, node(9, "SaveImage", "x", images=9)],
        "links": [[8, 1, 0, 2, 1, "MODEL"], [9, 2, 0, 9, 0, "IMAGE"]],
        "definitions": {"subgraphs": [definition]},
    }


@pytest.mark.parametrize(
    ("shown", "values", "prompt", "seed"),
    [
        (None, ["a moon"], "a moon", "7"),
        ([["-1", "words"], ["3", "seed"], ["3", "control_after_generate"]], ["a moon", 5, "fixed"], "a moon", "5"),
        ([["3", "seed"], ["-1", "words"]], [None, "a moon"], "a moon", "7"),
        ([["3", "seed"]], [], "a sun", "7"),
    ],
)
def test_a_subgraph_is_read_through(shown: Any, values: list[Any], prompt: str, seed: str) -> None:
    outer = node(2, "a-b", *values, words=None, net=8)
    outer["inputs"][0]["widget"] = {"name": "words"}
    outer["properties"] = {} if shown is None else {"proxyWidgets": shown}
    found = parameters_of(json.dumps(subgraph(outer)))
    assert found.fields == FIELDS | {"Seed": seed, "Model": "outer.safetensors"}
    assert found.prompt == prompt


def test_a_subgraph_in_itself_ends() -> None:
    whole = subgraph(node(2, "a-b"))
    inner = whole["definitions"]["subgraphs"][0]
    inner["nodes"] += [node(30 + number, "a-b") for number in range(20)]
    assert len(prompt_form(whole)) < 20_000
    inner["nodes"] = inner["nodes"][-20:]
    assert len(prompt_form(whole)) < 10


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_a_picture_with_the_editors_form_alone_is_read(tmp_path: Path, ending: str) -> None:
    image, chunks, exif = Image.new("RGB", (8, 8)), PngInfo(), Image.Exif()
    chunks.add_text("workflow", json.dumps(workflow()))
    exif[0x010F] = "Workflow:" + json.dumps(workflow())
    path = tmp_path / f"a.{ending}"
    image.save(path, pnginfo=chunks) if ending == "png" else image.save(path, exif=exif)
    assert said_by(path).fields == FIELDS


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["KSampler", "Reroute", "a-b"])
PLACES = st.sampled_from(["id", "type", "nodes", "links", "inputs", "definitions", "extra", "groupNodes", "subgraphs", "link"])
JSON = st.recursive(LEAVES, lambda one: st.lists(one, max_size=4) | st.dictionaries(PLACES, one, max_size=4), max_leaves=12)


@given(PLACES, JSON, st.integers(0, 6))
def test_a_broken_workflow_ends_in_a_sentence(name: str, value: Any, at: int) -> None:
    whole = workflow()
    whole["nodes"][at][name] = value
    for one in (whole, workflow() | {name: value}, {"nodes": [value], "links": [value]}):
        assert said(one) != ""


@pytest.mark.parametrize("prompt", ["a sun", "a (sun)", "a sun BREAK the sea", "a long prompt, " * 40])
def test_every_prompt_follows_the_rules_of_comfyui(prompt: str) -> None:
    """Without brackets too: BREAK is a word there, and long prompts are cut elsewhere."""
    whole = workflow()
    whole["nodes"][3]["widgets_values"] = [prompt]
    said = parameters_of(json.dumps(whole))
    assert (said.prompt, said.fields) == (prompt.strip(), FIELDS)


def test_what_is_strange_is_named_in_both_forms() -> None:
    whole = workflow()
    between(whole, 1, node(10, "Strange", 1, 2, model=100))
    found = parameters_of(json.dumps(whole))
    assert found.fields == FIELDS | {STRANGE: "Strange"}
