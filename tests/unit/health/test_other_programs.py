"""What other programs need to be set to for a finding, as a table; the names are those of their own parsers."""

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.helpers.reports import MODEL, check_report

from halftone.contract.facts import CheckReport, ComponentFacts, Finding, LayerPeak
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Control, Numerics
from halftone.contract.vocabulary import FindingCode, OtherProgram
from halftone.health.other_programs import Export, export

PROGRAMS: Final = json.loads((Path(__file__).parents[2] / "references" / "options.json").read_text())["programs"]
SCALED: Final = Plan(rescale={"vae": {"decoder.conv_in.weight": -4}}, verified=True)


def finding(component: str, code: FindingCode = "activation-overflow", module: str = "decoder.conv_in") -> Finding:
    return Finding(code=code, component=component, module=module, dtype="float16", peak=1e6, limit=65504.0)


def report(*findings: Finding, bfloat16: bool = False, rescale: bool = False, **changes: Any) -> CheckReport:
    cures = [Cure(kind="bfloat16", plan=Plan(dtypes={"vae": "bfloat16"}))] if bfloat16 else []
    cures += [Cure(kind="rescale", plan=SCALED)] if rescale else []
    plan = Plan(verified=True)
    return check_report(**{"verdict": "fixable", "findings": findings, "cures": tuple(cures), "plan": plan} | changes)


def values(found: Export) -> list[tuple[str, str, str]]:
    return [(one.app, one.value, one.instead) for one in found.settings]


VAE: Final = finding("vae")
ENCODER: Final = finding("vae", module="encoder.conv_in")
UNET: Final = finding("unet", module="mid_block")
TEXT: Final = finding("text_encoder", module="encoder.layers.1")
LARGE: Final = finding("text_encoder_2", "weights-overflow", "encoder.layers.1")
SCORES: Final = finding("unet", "attention-overflow", "mid_block.attentions.0")
SUM: Final = finding("unet", "accumulation-overflow", "mid_block.attentions.0")
FORGE: Final = "Forge, reForge"


@pytest.mark.parametrize(
    ("program", "checked", "expected"),
    [
        ("comfyui", report(VAE), [("ComfyUI", "--fp32-vae", "")]),
        ("comfyui", report(VAE, bfloat16=True), [("ComfyUI", "--fp32-vae", "--bf16-vae")]),
        ("comfyui", report(UNET), [("ComfyUI", "--fp32-unet", "")]),
        ("comfyui", report(UNET, bfloat16=True), [("ComfyUI", "--bf16-unet", "--fp32-unet")]),
        ("comfyui", report(VAE, UNET), [("ComfyUI", "--fp32-vae", ""), ("ComfyUI", "--fp32-unet", "")]),
        ("comfyui", report(SCORES), [("ComfyUI", "--force-upcast-attention --use-split-cross-attention", "")]),
        ("comfyui", report(SCORES, UNET), [("ComfyUI", "--fp32-unet", "")]),
        ("comfyui", report(TEXT), []),
        ("comfyui", report(LARGE), [("ComfyUI", "--fp32-text-enc", "")]),
        ("comfyui", report(SUM, numerics=Numerics(fp16_accumulation=True)), []),
        ("comfyui", report(SUM), [("ComfyUI", "--fp32-unet", "")]),
        (
            "comfyui",
            report(finding("transformer"), transformer="/m/flux.safetensors"),
            [("ComfyUI", "--fp32-unet", ""), ("ComfyUI", "weight_dtype: default", "")],
        ),
        ("a1111", report(VAE), [("A1111", "--no-half-vae", ""), (FORGE, "--vae-in-fp32", "")]),
        ("a1111", report(ENCODER, bfloat16=True), [("A1111", "--no-half-vae", ""), (FORGE, "--vae-in-fp32", "--vae-in-bf16")]),
        ("a1111", report(UNET), [("A1111", "--no-half", ""), (FORGE, "--all-in-fp32", "")]),
        ("a1111", report(UNET, bfloat16=True), [("A1111", "--no-half", ""), (FORGE, "--unet-in-bf16", "--all-in-fp32")]),
        (
            "a1111",
            report(VAE, TEXT),
            [("A1111", "--no-half", ""), (FORGE, "--vae-in-fp32", ""), (FORGE, "--clip-in-fp32", "")],
        ),
        (
            "a1111",
            report(SCORES),
            [
                ("A1111", "Upcast cross attention layer to float32", ""),
                (FORGE, "--force-upcast-attention --attention-split", ""),
            ],
        ),
        (
            "a1111",
            report(finding("unet", "underflow"), plan=Plan(settings={"upcast_sampling": True}, verified=True)),
            [("A1111", "--upcast-sampling", ""), (FORGE, "--all-in-fp32", "")],
        ),
    ],
)
def test_each_finding_has_its_settings(program: OtherProgram, checked: CheckReport, expected: list[tuple[str, str, str]]) -> None:
    assert values(export(checked, program)) == expected


XL: Final = replace(MODEL, pipeline="StableDiffusionXLPipeline")
ONE_FILE: Final = replace(MODEL, pipeline="StableDiffusionPipeline", format="single-file", path="/m/it's.safetensors")


@pytest.mark.parametrize(
    ("checked", "lines", "instead"),
    [
        (report(VAE, model=XL), ["pipe.vae.register_to_config(force_upcast=True)"], ""),
        (report(VAE), ['torch_dtype={"vae": torch.float32, "default": torch.float16}', "decode(latents.float()"], ""),
        (report(VAE, model=ONE_FILE), ["AutoencoderKL.from_single_file(\"/m/it's.safetensors\"", "vae=vae, torch_"], ""),
        (report(finding("vae", "weights-overflow"), model=XL), ['{"vae": torch.float32,'], ""),
        (report(ENCODER, model=XL), ["torch_dtype=torch.float32)"], ""),
        (report(UNET), ["torch_dtype=torch.float32)"], ""),
        (report(TEXT, VAE, bfloat16=True), ["torch_dtype=torch.bfloat16)"], "torch_dtype=torch.float32"),
        (report(SCORES), ["allow_fp16_bf16_reduction_math_sdp(False)", "layer.upcast_attention = True"], ""),
        (report(SUM), ["allow_fp16_accumulation = False", "allow_fp16_reduced_precision_reduction = False"], ""),
    ],
)  # fmt: skip
def test_diffusers_gets_code(checked: CheckReport, lines: list[str], instead: str) -> None:
    (one,) = export(checked, "diffusers").settings
    ast.parse(one.value)
    assert all(line in one.value for line in lines)
    assert one.instead == instead


def test_a_faulty_precision_moves_every_part() -> None:
    parts = dict.fromkeys(
        ("unet", "vae", "text_encoder"), ComponentFacts(parameters=1, peak=1.0, headroom_bits=9.0, seconds=None, modules=1)
    )
    faulty = report(finding("", "device-fault", ""), components=parts, bfloat16=True)
    assert [value for _, value, _ in values(export(faulty, "comfyui"))] == ["--fp32-vae", "--bf16-unet", "--fp32-text-enc"]


def test_a_check_in_a_wider_type_is_judged_by_the_limit_of_fp16() -> None:
    layers = (LayerPeak(component="vae", module="decoder", kind="Decoder", peak=1e5),)
    wide = report(verdict="healthy", precision="bfloat16", layers=layers)
    assert values(export(wide, "comfyui")) == [("ComfyUI", "--fp32-vae", "--bf16-vae")]
    assert values(export(replace(wide, layers=(replace(layers[0], peak=6e4),)), "comfyui")) == []


def test_a_sound_model_needs_nothing_and_a_broken_one_gets_nothing() -> None:
    tight = replace(VAE, code="tight", peak=5e4)
    sound = export(report(tight, verdict="tight"), "comfyui")
    assert (sound.settings, sound.notes[0].text()) == ((), "Nothing to set: the model stays in range in FP16.")
    damaged = export(report(finding("vae", "weights-nonfinite"), verdict="broken"), "diffusers")
    assert (damaged.settings, damaged.notes[0].text()) == ((), "No setting of diffusers helps this model.")


def test_a_repaired_file_is_offered_where_a_rescaling_cures_all() -> None:
    assert export(report(VAE, rescale=True), "comfyui").rescale
    assert not export(report(VAE), "comfyui").rescale
    assert not export(report(VAE, rescale=True, vae="/m/other.safetensors"), "comfyui").rescale
    assert not export(report(VAE, rescale=True, controls=(Control(path="/m/c", image=""),)), "comfyui").rescale
    several = replace(MODEL, parts={"vae": "/m/vae.safetensors"})
    assert not export(report(VAE, rescale=True, model=several), "comfyui").rescale


def test_every_name_exists_in_the_program() -> None:
    cases = [(VAE,), (UNET,), (TEXT,), (LARGE,), (SCORES,), (SUM,), (finding("unet", "underflow"),)]
    plan = Plan(settings={"upcast_sampling": True}, verified=True)
    everything = [report(*findings, bfloat16=wide, plan=plan, transformer="/m/t") for findings in cases for wide in (False, True)]
    programs: tuple[OtherProgram, ...] = ("comfyui", "a1111")
    for one in (one for checked in everything for program in programs for one in export(checked, program).settings):
        for app in one.app.split(", "):
            known = PROGRAMS[app]
            for value in filter(None, (one.value, one.instead)):
                if value.startswith("--"):
                    assert set(value.split()) <= set(known["options"]), (app, value)
                    assert "nan-check" not in value
                elif ": " in value:
                    name, choice = value.split(": ")
                    assert choice in known["nodes"][one.where.text().removesuffix(" node")][name]
                else:
                    assert one.where.text() == f"Settings > {known['settings'][value]}, switch on"


def test_the_nan_check_is_never_switched_off_alone() -> None:
    assert any("Never use --disable-nan-check alone" in note.text() for note in export(report(VAE), "a1111").notes)
