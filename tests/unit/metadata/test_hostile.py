"""Pictures that are made to stop who reads them: circles, doublings and long runs end in a sentence, and soon."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from halftone.contract.errors import HalftoneError
from halftone.gallery.catalogue import Catalogue
from halftone.gallery.watched import list_watched
from halftone.metadata.comfy import parameters_of
from halftone.metadata.comfy_graph import NotPlainError
from halftone.metadata.other_programs import parameters_in
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import SYNTAX

Graph = dict[str, Any]
SECONDS = 2.0
"""Processor time for one text."""


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SECONDS


def node(kind: str, **inputs: Any) -> Graph:
    return {"class_type": kind, "inputs": inputs}


def plain() -> Graph:
    sampling = {"seed": 1, "steps": 4, "cfg": 7, "sampler_name": "euler", "scheduler": "normal", "denoise": 1}
    return {
        "1": node("CheckpointLoaderSimple", ckpt_name="a.safetensors"),
        "2": node("CLIPTextEncode", text="cat", clip=["1", 1]),
        "3": node("EmptyLatentImage", width=64, height=64, batch_size=1),
        "4": node("KSampler", model=["1", 0], positive=["2", 0], negative=["2", 0], latent_image=["3", 0], **sampling),
        "5": node("VAEDecode", samples=["4", 0], vae=["1", 2]),
        "6": node("SaveImage", images=["5", 0]),
    }


def sampled_by_itself(graph: Graph) -> None:
    graph["4"]["inputs"]["latent_image"] = ["4", 0]


def many_samplers(graph: Graph) -> None:
    for number in range(100, 2100):
        graph[str(number)] = node("KSampler", **{**graph["4"]["inputs"], "latent_image": [str(number + 1), 0]})
    graph["4"]["inputs"]["latent_image"] = ["100", 0]


def switched_by_itself(graph: Graph) -> None:
    graph["7"] = node("ComfySwitchNode", switch=["7", 0], on_true=["3", 0], on_false=["7", 0])
    graph["4"]["inputs"]["latent_image"] = ["7", 0]


def switched_by_each_other(graph: Graph) -> None:
    for number in range(200):
        ahead = [f"s{(number + 1) % 200}", 0]
        graph[f"s{number}"] = node("ComfySwitchNode", switch=ahead, on_true=ahead, on_false=ahead)
    graph["4"]["inputs"]["latent_image"] = ["s0", 0]


def joined_of_itself(graph: Graph) -> None:
    graph["7"] = node("StringConcatenate", string_a=["7", 0], string_b=["7", 0], delimiter=["7", 0])
    graph["2"]["inputs"]["text"] = ["7", 0]


def doubled(graph: Graph) -> None:
    graph["c0"] = node("StringConstant", string="x" * 10)
    for number in range(1, 60):
        before = [f"c{number - 1}", 0]
        graph[f"c{number}"] = node("StringConcatenate", string_a=before, string_b=before, delimiter="")
    graph["2"]["inputs"]["text"] = ["c59", 0]


def joined_of_nothing(graph: Graph) -> None:
    """No text comes of it, though each asks for three."""
    doubled(graph)
    graph["c0"] = node("Unknown")


def many_saved(graph: Graph) -> None:
    for number in range(1000):
        graph[f"k{number}"] = graph["4"]
        graph[f"d{number}"] = node("VAEDecode", samples=[f"k{number}", 0])
        graph[f"v{number}"] = node("SaveImage", images=[f"d{number}", 0])


def in_a_circle(graph: Graph) -> None:
    graph["5"]["inputs"]["samples"] = ["5", 0]


_HOSTILE = (
    (sampled_by_itself, "it has more than 64 samplers in a row"),
    (many_samplers, "it has more than 64 samplers in a row"),
    (switched_by_itself, None),
    (switched_by_each_other, None),
    (joined_of_itself, "text of the node CLIPTextEncode comes from another node"),
    (doubled, "the text of the node StringConcatenate is too long"),
    (joined_of_nothing, "text of the node CLIPTextEncode comes from another node"),
    (many_saved, "it saves several pictures"),
    (in_a_circle, "it has the node VAEDecode"),
)


@pytest.mark.parametrize(("change", "why"), _HOSTILE)
def test_a_graph_that_goes_in_circles_ends_in_a_sentence(change: Callable[[Graph], None], why: str | None) -> None:
    graph = plain()
    change(graph)
    if why is None:
        assert parameters_of(json.dumps(graph)).prompt == "cat"
        return
    with pytest.raises(NotPlainError) as caught:
        parameters_of(json.dumps(graph))
    assert str(caught.value.words) == why


MANY = range(4000)


def wires() -> Graph:
    """Each node asks for a wire that no node has set."""
    setters = [{"id": f"s{one}", "type": "SetNode", "widgets_values": [f"n{one}"], "inputs": [{"link": None}]} for one in MANY]
    getters = [{"id": f"g{one}", "type": "GetNode", "widgets_values": ["?"], "inputs": []} for one in MANY]
    return {"nodes": [*setters, *getters, *askers()], "links": [[one, f"g{one}", 0, f"x{one}", 0, "A"] for one in MANY]}


def askers() -> list[Graph]:
    return [{"id": f"x{one}", "type": "X", "inputs": [{"name": "a", "link": one}]} for one in MANY]


def given_from_outside() -> Graph:
    links = [
        {"id": one, "origin_id": -10, "origin_slot": one, "target_id": f"x{one}", "target_slot": 0, "type": "A"} for one in MANY
    ]
    inner = {"id": "S", "nodes": askers(), "links": links, "inputs": [{"name": f"i{one}"} for one in MANY]}
    shown = [{"name": f"i{one}", "widget": {}, "link": None} for one in MANY]
    outer = {"id": 1, "type": "S", "inputs": shown, "widgets_values": list(MANY)}
    return {"nodes": [outer], "links": [], "definitions": {"subgraphs": [inner]}}


def taken_from_within() -> Graph:
    links = [{"id": one, "origin_id": 1, "origin_slot": 0, "target_id": -20, "target_slot": one, "type": "A"} for one in MANY]
    outer = {"id": 1, "type": "S", "inputs": []}
    inner = {"id": "S", "nodes": [], "links": links, "inputs": []}
    after = [[one, 1, MANY[-1], f"x{one}", 0, "A"] for one in MANY]
    return {"nodes": [outer, *askers()], "links": after, "definitions": {"subgraphs": [inner]}}


def bypassed() -> Graph:
    inputs = [{"name": f"i{one}", "type": "A", "link": None} for one in MANY]
    middle = {"id": 1, "type": "B", "mode": 4, "inputs": inputs}
    return {"nodes": [middle, *askers()], "links": [[one, 1, 0, f"x{one}", 0, "B"] for one in MANY]}


@pytest.mark.parametrize("workflow", [wires, given_from_outside, taken_from_within, bypassed])
def test_thousands_of_nodes_are_looked_up_once(workflow: Callable[[], Graph]) -> None:
    with pytest.raises(NotPlainError, match="saves no picture"):
        parameters_of(json.dumps(workflow()))


def test_a_long_hidden_text_is_put_together_soon(tmp_path: Path) -> None:
    said = b"stealth_pnginfo" + (8 * 2**20).to_bytes(4) + b"x" * 2**20
    alpha = (np.unpackbits(np.frombuffer(said, np.uint8)) + 254).tobytes()
    size = (3000, 2800)
    image = Image.new("RGBA", size)
    image.putalpha(
        Image.frombytes("L", (2800, 3000), alpha.ljust(size[0] * size[1], b"\xff")).transpose(Image.Transpose.TRANSPOSE)
    )
    image.save(tmp_path / "a.png", compress_level=1)
    begun = time.process_time()
    with pytest.raises(HalftoneError, match="contains no settings"):
        said_by(tmp_path / "a.png")
    assert time.process_time() - begun < SECONDS / 2


@pytest.mark.parametrize(
    "texts",
    [
        {"Comment": json.dumps({"prompt": "1" * 100_000, "uc": ""}), "Software": "NovelAI"},
        {"Comment": json.dumps({"prompt": "-.1" * 30_000, "uc": ""}), "Software": "NovelAI"},
        {"invokeai_metadata": json.dumps({"positive_prompt": ")" + "1" * 100_000 + "a"})},
        {"invokeai_metadata": json.dumps({"positive_prompt": ")1." * 30_000})},
        {"invokeai_metadata": json.dumps({"positive_prompt": "<lora:" * 15_000, "loras": [{"lora": "ink"}] * 40_000})},
        {"parameters": json.dumps({"extraMetadata": '{"prompt": ""}', "1": {"class_type": "Empty" * 20_000}})},
    ],
)
def test_a_long_run_is_scanned_once(texts: dict[str, str]) -> None:
    assert parameters_in(texts) is not None


@pytest.mark.parametrize(
    ("prompt", "title"),
    [("1.3::red::", "NovelAI"), ("-1::red::", "NovelAI"), (".5::red::", "NovelAI"), ("a::b 1.3", None), ("{red}", "NovelAI")],
)
def test_weights_of_novelai_are_still_seen(prompt: str, title: str | None) -> None:
    said = parameters_in({"Comment": json.dumps({"prompt": prompt, "uc": ""}), "Software": "NovelAI"})
    assert said is not None
    assert said.fields.get(SYNTAX) == title


@pytest.mark.parametrize(
    ("prompt", "title"), [("(a b)1.3", "InvokeAI"), ("(a)2, b", "InvokeAI"), ("(a).5 b", "InvokeAI"), ("(a)b", None)]
)
def test_weights_of_invokeai_are_still_seen(prompt: str, title: str | None) -> None:
    said = parameters_in({"invokeai_metadata": json.dumps({"positive_prompt": prompt})})
    assert said is not None
    assert said.fields.get(SYNTAX) == title


def save(path: Path, **chunks: str) -> Path:
    info = PngInfo()
    for name, text in chunks.items():
        info.add_itxt(name, text)
    Image.new("RGB", (64, 64)).save(path, pnginfo=info)
    return path


def test_a_hostile_picture_does_not_hide_the_others(tmp_path: Path) -> None:
    save(tmp_path / "good.png", prompt=json.dumps(plain()))
    for change, _ in _HOSTILE[:3]:
        graph = plain()
        change(graph)
        save(tmp_path / f"{change.__name__}.png", prompt=json.dumps(graph))
    with pytest.raises(HalftoneError, match="more than 64 samplers"):
        said_by(tmp_path / "sampled_by_itself.png")
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        assert list_watched(catalogue, [str(tmp_path)], lambda: False).read == 4


@pytest.mark.logs("cannot be read")
def test_a_picture_on_which_a_library_fails_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise ZeroDivisionError

    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    monkeypatch.setattr("PIL.Image.Image.getexif", fail)
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        assert list_watched(catalogue, [str(tmp_path)], lambda: False).read == 2
