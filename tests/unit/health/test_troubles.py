"""Known troubles: the data are sound, and a combination gets what is known of it, most specific first."""

from typing import Any, Final

import msgspec
import pytest
import tomlkit
from tests.helpers.reports import MODEL

from halftone.contract.facts import DeviceFacts, ModelFacts
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.health.troubles import (
    Situation,
    _of_model,
    all_troubles,
    known_on,
    known_on_device,
    library_versions,
    matching,
    read_troubles,
)
from halftone.library.families.known_families import FAMILIES, KIND_NAMES, of_pipeline

SDXL_PARTS: Final = ("text_encoder", "text_encoder_2", "unet", "vae")
RTX: Final = ("cuda", "NVIDIA GeForce RTX 4090", "8.9")
V100: Final = ("cuda", "Tesla V100-SXM2-16GB", "7.0")

ROWS: Final[dict[str, str | tuple[str, ...]]] = {
    "1": ("sdxl-vae",),
    "2": "of ggml, which is not run",
    "3": ("sdxl-vae-fp16-accumulation",),
    "4": ("sdxl-vae-encode",),
    "5": ("sd1-anime-vae",),
    "6": ("vae-input-pictures",),
    "7": ("flux-vae",),
    "8": ("sana-vae",),
    "9": ("aura-flow-vae",),
    "10": ("kolors-vae",),
    "11": ("wan-vae",),
    "12": "nothing is decoded in tiles",
    "13": ("sdxl-vae",),
    "14": ("animatediff-frames",),
    "15": ("sd2-attention",),
    "16": "nothing is run inside autocast",
    "17": ("flux-transformer",),
    "18": ("z-image-fp16",),
    "19": ("z-image-fp16",),
    "20": ("z-image-rx7900",),
    "21": ("cosmos-predict2-fp16",),
    "22": ("qwen-image-half",),
    "23": "of quantised files in ggml, which are not run",
    "24": "of ggml on Vulkan, which is not run",
    "25": ("stable-cascade-prior",),
    "26": ("cogview-fp16",),
    "27": ("cogvideox-fp16",),
    "28": ("hunyuan-video-fp16",),
    "29": ("hunyuan-dit-attention",),
    "30": ("svd-attention", "vega-attention"),
    "31": "it makes sound, not pictures",
    "32": "no IP-Adapter is loaded",
    "33": "diffusers has it only in modular pipelines, which are not run",
    "33a": "no picture is inverted to noise",
    "34": ("t5-feed-forward",),
    "35": ("t5-feed-forward",),
    "36": ("pixart-t5-cast",),
    "37": ("gemma-text-encoder",),
    "38": "diffusers has no such decoder",
    "39": "of FP8 files, which are not run",
    "40": "a folder brings its own text encoders",
    "41": "SageAttention is not used",
    "42": "SageAttention is not used",
    "43": "SageAttention is not used",
    "44": "xformers is not used",
    "45": "nothing is compiled",
    "46": "TensorRT is not used",
    "47": "MIGraphX is not used",
    "47a": "nothing is multiplied in FP8",
    "48": "of FP8 files, which are not run",
    "49": ("gtx16-fp16",),
    "50": ("gtx16-fp16",),
    "51": ("pascal-slow-fp16", "amd-slow-fp16"),
    "52": ("rx5700-grey",),
    "53": ("rx6700-vae",),
    "54": ("rx6800-any",),
    "55": ("rx7600-crash",),
    "56": ("rx9070-sd3-vae",),
    "57": "of INT8 files, which are not run",
    "58": ("amd-attention-not-upcast",),
    "59": ("arc-b580-linear",),
    "60": ("arc-b70-large-products",),
    "61": ("arc-math-attention",),
    "62": ("arc-torch-2-9",),
    "63": "DirectML is not used",
    "64": ("mps-attention-fp16",),
    "65": ("mps-ltx-bf16",),
    "66": ("mps-large-softmax",),
    "67": ("safety-checker",),
    "68": "the weights themselves are looked at, whatever the combination",
    "69": "no fact of a combination tells how strong a LoRA is; the sentinel watches",
    "70": "no fact of a combination tells it; the sentinel watches",
    "71": "the file scan finds it, whatever the combination",
    "72": "no fact tells where a file lies",
    "73": "nothing is moved out of the device's memory while it is used; damaged weights are a finding",
    "74": "of another program's scheduler",
    "75": "a model that lacks a part is refused",
    "76": "of another program's option",
    "76a": "of another program's memory management",
    "76b": "of another program, and mended there",
    "77": "no fact tells how a machine is clocked",
}
"""Rows of the collected troubles: the entries that hold them, or why they can match nothing that is run here."""


def situation(
    family: str = "SDXL",
    card: tuple[str, str, str | None] = RTX,
    dtype: DType = "float16",
    parts: tuple[str, ...] = SDXL_PARTS,
    torch: str = "2.13.0+cu130",
    **numerics: Any,
) -> Situation:
    backend, name, capability = card
    return Situation(
        model=msgspec.structs.replace(MODEL, family=family, components=parts),
        device=DeviceFacts(id="x", backend=backend, name=name, capability=capability, torch_version=torch),
        dtype=dtype,
        numerics=Numerics(**numerics),
        versions={"torch": torch, "diffusers": "0.42.1"},
    )


def ids(found: Situation) -> list[str]:
    return [trouble.id for trouble in matching(all_troubles(), found)]


def test_every_known_row_is_an_entry_or_has_its_reason() -> None:
    assert len(ROWS) == 81
    kept = {name for row in ROWS.values() if isinstance(row, tuple) for name in row}
    assert {trouble.id for trouble in all_troubles()} == kept | {"mi200-denormals"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (situation(), ["sdxl-vae", "sdxl-vae-encode"]),
        (situation(fp16_accumulation=True), ["sdxl-vae-fp16-accumulation", "sdxl-vae", "sdxl-vae-encode"]),
        (situation(dtype="bfloat16"), []),
        (situation(vae_float32="always"), []),
        (situation(parts=("unet",)), []),
        (situation("FLUX", RTX, parts=("transformer", "text_encoder_2", "vae")), ["flux-vae", "t5-feed-forward"]),
        (situation("FLUX", V100, parts=("transformer", "vae")), ["flux-transformer", "flux-vae"]),
        (situation("FLUX", ("cuda", "a card", None), parts=("transformer",)), []),
        (situation("Stable Diffusion 2.x", ("cpu", "AMD EPYC", None), parts=("unet",)), ["sd2-attention"]),
        (situation("Stable Diffusion 2.x", ("cpu", "A", None), parts=("unet",), upcast_cross_attention="always"), []),
        (situation("ZImageImg2ImgPipeline", V100, parts=()), ["z-image-fp16"]),
        (situation("ZImagePipeline", ("rocm", "AMD Radeon RX 7900 XTX", "11.0"), parts=()), ["z-image-rx7900"]),
        (situation("Sana", RTX, parts=("text_encoder", "vae")), ["sana-vae", "gemma-text-encoder"]),
        (situation(card=("rocm", "AMD Radeon RX 5700 XT", None), parts=()), ["rx5700-grey"]),
        (situation(card=("rocm", "AMD Radeon RX 6700 XT", None), parts=(), upcast_cross_attention="never"),
         ["amd-attention-not-upcast", "rx6700-vae"]),
        (situation(card=("xpu", "Intel Arc B580", None), parts=(), torch="2.9.1+xpu"), ["arc-b580-linear", "arc-torch-2-9"]),
        (situation(card=("xpu", "Intel Arc B580", None), parts=(), attention_backend="math"),
         ["arc-b580-linear", "arc-math-attention"]),
        (situation(card=("mps", "Apple M3", None), parts=()), ["mps-attention-fp16", "mps-large-softmax"]),
        (situation(card=("mps", "Apple M3", None), parts=(), dtype="float32"), ["mps-large-softmax"]),
        (situation("Stable Diffusion 1.x", ("cpu", "A", None), "float32", ("unet", "safety_checker")), ["safety-checker"]),
    ],
)  # fmt: skip
def test_a_combination_gets_what_is_known_of_it_most_specific_first(found: Situation, expected: list[str]) -> None:
    assert ids(found) == expected


@pytest.mark.parametrize(
    ("backend", "name", "expected"),
    [
        ("cuda", "NVIDIA GeForce GTX 1660 Ti", ["gtx16-fp16"]),
        ("cuda", "NVIDIA T1000 8GB", ["gtx16-fp16"]),
        ("cuda", "NVIDIA GeForce GTX 1080 Ti", ["pascal-slow-fp16"]),
        ("cuda", "NVIDIA GeForce RTX 4090", []),
        ("cuda", "NVIDIA H200", []),
        ("rocm", "AMD Radeon RX 5700 XT", ["rx5700-grey"]),
        ("rocm", "AMD Instinct MI250X", ["mi200-denormals"]),
        ("rocm", "Radeon RX Vega 56", ["vega-attention"]),
        ("xpu", "Intel Arc B580 Graphics", ["arc-b580-linear"]),
        ("xpu", "Intel Arc Pro B70", ["arc-b70-large-products"]),
        ("mps", "Apple M3", ["mps-attention-fp16", "mps-large-softmax"]),
        ("cpu", "GTX 1660 look-alike", []),
    ],
)
def test_a_device_gets_what_is_known_of_it_whatever_runs(backend: str, name: str, expected: list[str]) -> None:
    device = DeviceFacts(id="x", backend=backend, name=name, torch_version="2.13.0")
    assert [one.id for one in known_on_device(device)] == expected


def entry(**changes: Any) -> bytes:
    known = {"id": "a", "what": "Something fails.", "sources": ["a #1"], "sure": "seen", "backends": ["cuda"]}
    return tomlkit.dumps({"trouble": [known | changes]}).encode()


def test_a_sound_entry_is_read() -> None:
    assert [one.id for one in read_troubles(entry())] == ["a"]


@pytest.mark.parametrize(
    "changes",
    [
        {"families": ["SDXXL"]},
        {"backends": ["cude"]},
        {"dtypes": ["fp16"]},
        {"sure": "perhaps"},
        {"cards": "RX ("},
        {"capability": "below 8"},
        {"versions": {"torch": "2.9"}},
        {"versions": {"numpy": "==2.0"}},
        {"settings": {"attention": ["math"]}},
        {"settings": {"attention_backend": ["sage"]}},
        {"sources": []},
        {"what": "no sentence"},
        {"backends": []},
        {"card": "RX 5700"},
    ],
    ids=str,
)
def test_an_entry_that_could_never_match_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_troubles(entry(**changes))


def test_two_entries_of_one_name_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_troubles(entry() + entry().replace(b"[[trouble]]", b"\n[[trouble]]"))


def test_the_libraries_that_compute_are_known_by_version() -> None:
    assert {"torch", "diffusers", "transformers"} <= set(library_versions())


def test_known_on_goes_by_the_versions_that_are_installed() -> None:
    device = DeviceFacts(id="cpu", backend="cpu", name="AMD EPYC", torch_version="2.13.0+cpu")
    model: ModelFacts = msgspec.structs.replace(MODEL, components=SDXL_PARTS)
    wanted = read_troubles(entry(backends=["cpu"], versions={"torch": ">=2.0"}))
    assert known_on(model, device, "float16", Numerics(), wanted) == wanted
    other = read_troubles(entry(backends=["cpu"], versions={"torch": "<2.0"}))
    assert known_on(model, device, "float16", Numerics(), other) == ()
    old = msgspec.structs.replace(device, torch_version="1.13.1")
    assert known_on(model, old, "float16", Numerics(), other) == other, "the one that the device was read with"


@pytest.mark.parametrize(
    "pipeline", sorted({start for trouble in all_troubles() for start in trouble.pipelines if not start.endswith("Pipeline")})
)
def test_a_trouble_of_a_pipeline_is_found_whatever_its_family_is_called(pipeline: str) -> None:
    name = f"{pipeline}Pipeline"
    model = msgspec.structs.replace(
        MODEL, family=of_pipeline(name).name, pipeline=name, components=("transformer", "unet", "vae")
    )
    named = [trouble for trouble in all_troubles() if pipeline in trouble.pipelines]
    assert all(_of_model(msgspec.structs.replace(trouble, components=()), model) for trouble in named)
    assert not _of_model(named[0], msgspec.structs.replace(model, family="SD 9", pipeline="OtherPipeline"))


def test_all_families_that_run_have_a_name() -> None:
    assert not {family.name for family in FAMILIES} & set(KIND_NAMES.values())
