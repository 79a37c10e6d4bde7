"""Makes what pictures say of themselves hostile: A1111's text, ComfyUI's graphs, Halftone's receipts."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from PIL import Image, PngImagePlugin
from tests.bench.bad_inputs.case import Case
from tests.helpers.pictures import picture_facts

from halftone.cli.generate.settings_from_picture import from_picture
from halftone.contract.request import PictureRequest, Upscaled
from halftone.metadata.picture import exif_of
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import parse_parameters
from halftone.metadata.upscaled import upscaled_texts
from halftone.settings.store import Settings

_RANDOM: Final = 90
_PLAIN: Final = (
    "a red sun, <lora:ink:0.8>\nNegative prompt: rain\n"
    "Steps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 3, "
    "Size: 512x768, Model hash: 31e35c80fc, Model: tiny, VAE: odd.safetensors, Clip skip: 2, Hires upscale: 2, "
    'Hires upscaler: Latent, Denoising strength: 0.5, Lora hashes: "ink: 1234567890ab", Version: v1.10.1'
)
_NAMES: Final = (
    "Steps",
    "Sampler",
    "Schedule type",
    "CFG scale",
    "Seed",
    "Size",
    "Model",
    "Model hash",
    "VAE",
    "Clip skip",
    "Hires upscale",
    "Hires upscaler",
    "Hires resize",
    "Hires steps",
    "Denoising strength",
    "Refiner",
    "Refiner switch at",
    "Variation seed",
    "Variation seed strength",
    "Seed resize from",
    "Frames",
    "FPS",
    "Precision",
    "Version",
    "Transformer",
    "ControlNet 0",
    "IP-Adapter 0",
    "TI hashes",
    "Styles",
    "Template",
    "Mask blur",
    "Distilled CFG Scale",
)
_VALUES: Final = (
    "0",
    "-1",
    "1e999",
    "nan",
    "inf",
    "1" * 5000,
    "²",
    "٣",
    "0x10",
    "1_000",
    " ",
    '"',
    '"\\ud800"',
    '"a, b: c"',
    "[",
    "{}",
    "None",
    "512x",
    "x512",
    "1x1x1",
    "99999999x99999999",
    "-8x8",
    "\x1b[31mred",
    "\u202egnp",
    "\udcff",
    "a" * 30_000,
    "<lora:x:nan>",
    "../../../etc/passwd",
    "~root",
    "C:\\CON",
    "%s%n",
    "{0.__class__}",
    "\0",
    "🌞" * 900,
)


def cases(rng: random.Random) -> Iterator[Case]:
    """Texts of one value changed, texts that are large or odd, graphs, receipts."""
    for name, text in _texts(rng):
        yield _case(f"A1111: {name}", {"parameters": text})
    for name, graph in _graphs(rng):
        yield _case(f"ComfyUI: {name}", {"prompt": graph})
    for name, receipt in _receipts(rng):
        yield _case(f"receipt: {name}", {"parameters": _PLAIN, "halftone": receipt})
    for index in range(25):
        changed = _changed(_PLAIN, rng)
        yield _case(f"EXIF: changed by chance {index}", {"parameters": changed, "halftone": "{}"}, jpeg=True)


def _case(name: str, texts: dict[str, str], *, jpeg: bool = False) -> Case:
    file = "a.jpg" if jpeg else "a.png"

    def make(folder: Path) -> None:
        image = Image.new("RGB", (8, 8))
        if jpeg:
            image.save(folder / file, exif=exif_of(texts["parameters"][:20_000], texts["halftone"]))
            return
        info = PngImagePlugin.PngInfo()
        for key, text in texts.items():
            info.add_itxt(key, text.encode(errors="replace").decode())
        image.save(folder / file, pnginfo=info)

    def read(folder: Path) -> None:
        said_by(folder / file)

    def take(folder: Path) -> None:
        from_picture(str(folder / file), dict(_NOTHING), set(), None, Settings())

    def make_larger(folder: Path) -> None:
        upscaled = Upscaled(source=str(folder / file), upscaler="4x.safetensors", scale=4)
        upscaled_texts(folder / file, picture_facts(upscaled=upscaled), {})

    def parse(_folder: Path) -> None:
        parse_parameters(texts.get("parameters", ""))

    return Case("metadata", name, make, (read, take, make_larger, parse))


_NOTHING: Final[dict[str, Any]] = dict.fromkeys(("prompt", "negative", "width", "height", "steps", "seed", "sampler"))
assert set(_NOTHING) <= set(PictureRequest.__struct_fields__)


# --- A1111 -------------------------------------------------------------------------------------------------------------


def _texts(rng: random.Random) -> Iterator[tuple[str, str]]:
    for index in range(_RANDOM):
        name, value = rng.choice(_NAMES), rng.choice(_VALUES)
        yield f"{name} {index}", f"{_PLAIN}, {name}: {value}" if rng.random() < 0.5 else _with(name, value)
    for index in range(25):
        yield f"changed by chance {index}", _changed(_PLAIN, rng)
    yield "nothing", ""
    yield "no last line", "a sun"
    yield "pairs without end", "a\nSteps: 1, " + "a b: 1, " * 100_000
    yield "spaces without end", "a\nSteps: 1, " + " " * 900_000
    yield "a word without end", "a\nSteps: 1, Seed: 1, " + "a" * 900_000
    yield "quotes without end", 'a\nSteps: 1, Seed: 2, Size: "' + '\\"' * 400_000
    yield "colons without end", "a\nSteps: 1, Seed: 2, CFG scale: 3" + ":" * 900_000
    yield "lines without end", "\n" * 900_000 + "Steps: 1, Seed: 2, CFG scale: 3"
    yield "negative prompts without end", "Negative prompt: a\n" * 40_000
    yield "LoRAs without end", "<lora:a:1>" * 60_000 + "\nSteps: 1, Seed: 2, CFG scale: 3"
    yield "brackets without end", "<lora:" * 100_000 + "\nSteps: 1, Seed: 2, CFG scale: 3"
    yield "ControlNets without end", _PLAIN + "".join(f', ControlNet {index}: "Model: a, Weight: 1"' for index in range(3000))
    yield "escape signs", "\x1b]0;owned\x07\x9b31m\u202e\nSteps: 1, Seed: 2, Model: \x1b[2Jx"


def _with(name: str, value: str) -> str:
    """The plain text with another value for a name that it has."""
    before, found, after = _PLAIN.partition(f"{name}: ")
    return f"{before}{found}{value}{after[after.find(',') :]}" if found else f"{_PLAIN}, {name}: {value}"


def _changed(text: str, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(rng.choice((1, 5, 40))):
        letters[rng.randrange(len(letters))] = rng.choice(',:"\\\n<>()[]{}0\x1b\u2028\U0001f600 ')
    return "".join(letters)


# --- ComfyUI ------------------------------------------------------------------------------------------------------------


def _node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def _plain() -> dict[str, Any]:
    links = {"model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}
    noise = {"seed": 3, "steps": 20, "cfg": 8.0, "sampler_name": "dpmpp_2m", "scheduler": "karras", "denoise": 1.0}
    return {
        "3": _node("KSampler", **noise, **links),
        "4": _node("CheckpointLoaderSimple", ckpt_name="tiny.safetensors"),
        "5": _node("EmptyLatentImage", width=512, height=768, batch_size=1),
        "6": _node("CLIPTextEncode", text="a sun", clip=["4", 1]),
        "7": _node("CLIPTextEncode", text="ink, embedding:bad", clip=["4", 1]),
        "8": _node("VAEDecode", samples=["3", 0], vae=["4", 2]),
        "9": _node("SaveImage", images=["8", 0]),
    }


_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "a" * 9000,
    [],
    {},
    ["3", 0],
    ["9", 0],
    [["3"], 0],
    [{}, 0],
    ["none", 9],
    [None],
    {"a": 1},
    [[[[]]]],
    "\ud800",
    "\x1b[31m",
    1.5,
    "20",
)


def _one_input(graph: dict[str, Any], node: str, rng: random.Random) -> None:
    inputs = graph[node]["inputs"]
    inputs[rng.choice(sorted(inputs))] = rng.choice(_ODD)


_GRAPH_CHANGES: Final[tuple[Callable[[dict[str, Any], str, random.Random], object], ...]] = (
    _one_input,
    lambda graph, node, rng: graph.update({node: rng.choice(_ODD)}),
    lambda graph, node, rng: graph[node].update(class_type=rng.choice(_ODD)),
    lambda graph, node, rng: graph[node].update(inputs=rng.choice(_ODD)),
    lambda graph, node, _rng: graph.pop(node),
    lambda graph, node, _rng: graph[node]["inputs"].clear(),
)


def _graphs(rng: random.Random) -> Iterator[tuple[str, str]]:
    for index in range(60):
        graph = _plain()
        node = rng.choice(sorted(graph))
        rng.choice(_GRAPH_CHANGES)(graph, node, rng)
        yield f"a value changed {index}", json.dumps(graph)
    for index in range(20):
        yield f"changed by chance {index}", _changed(json.dumps(_plain()), rng)
    looped = _plain()
    looped["4"] = _node("LoraLoader", model=["4", 0], lora_name="a", strength_model=1, strength_clip=1)
    yield "a loader that contains itself", json.dumps(looped)
    yield "nested deeply", "[" * 200_000
    yield "nested deeply in a node", '{"3": ' * 50_000 + "1" + "}" * 50_000
    yield "a number of many digits", '{"3": {"class_type": "KSampler", "inputs": {"seed": ' + "9" * 100_000 + "}}}"
    yield "many nodes", json.dumps({str(index): _node("SaveImage", images=["8", 0]) for index in range(20_000)} | _plain())
    chain = {str(index): _node("LoraLoader", model=[str(index + 1), 0], lora_name="a") for index in range(100, 5000)}
    yield (
        "a long chain",
        json.dumps(_plain() | chain | {"3": _node("KSampler", **_plain()["3"]["inputs"] | {"model": ["100", 0]})}),
    )


# --- receipts -----------------------------------------------------------------------------------------------------------


def _receipts(rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "nothing", ""
    yield "no object", "[]"
    yield "nested deeply", '{"a":' * 100_000
    yield "half", '{"schema": 1, "upscaled": {'
    yield "numbers that are none", '{"schema": NaN, "a": Infinity}'
    yield "half a sign", '{"a": "\\ud800"}'
    yield "twice a name", '{"schema": 1, "schema": 2}'
    yield "a number of many digits", '{"schema": ' + "9" * 100_000 + "}"
    for index in range(15):
        yield f"odd {index}", json.dumps({"schema": rng.choice(_ODD), "upscaled": rng.choice(_ODD), "picture": rng.choice(_ODD)})
