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
from halftone.contract.vocabulary import POCKET, FindingCode, OtherProgram
from halftone.health.diffusers_code import FAMILIES
from halftone.health.other_programs import Export, export
from halftone.health.program_families import LOADS, is_of_another_size
from halftone.library.families.known_families import BY_NAME
from halftone.library.families.single_files import SINGLES
from halftone.library.models import describe

PROGRAMS: Final = json.loads((Path(__file__).parents[2] / "references" / "options.json").read_text())["programs"]
CONFIGS: Final = Path(__file__).parents[3] / "resources" / "configs"
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


@pytest.mark.parametrize(("program", "apps"), [("comfyui", 1), ("a1111", 2)])
def test_a_model_of_a_size_that_a_program_does_not_build_gets_no_advice(program: OtherProgram, apps: int) -> None:
    found = export(report(VAE, model=describe(POCKET), rescale=True), program)
    assert (found.settings, len(found.notes), found.rescale) == ((), apps, False)
    assert "its UNet is of another size than that of Stable Diffusion 1.x models." in str(found.notes[0])
    assert str(found.refusal).endswith(" cannot load it.")
    assert export(report(VAE, model=describe(POCKET), rescale=True), "diffusers").settings


@pytest.mark.parametrize(
    ("folder", "family"),
    [("sd1", "Stable Diffusion 1.x"), ("sd2", "Stable Diffusion 2.x"), ("sdxl", "SDXL"), ("sdxl-refiner", "SDXL refiner")],
)
def test_a_model_of_the_usual_size_is_of_no_other(folder: str, family: str) -> None:
    facts = replace(MODEL, family=family, path=str(CONFIGS / folder))
    assert not is_of_another_size(facts)
    other = "SDXL" if family != "SDXL" else "SDXL refiner"
    assert is_of_another_size(replace(facts, family=other))


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


FLUX_SPLIT: Final = replace(
    MODEL, family="FLUX", base="FLUX.1 schnell", pipeline="FluxPipeline", format="single-file", path="/m/flux-Q8_0.gguf",
    parts={"vae": "/m/ae.safetensors", "text_encoder": "/m/clip_l.safetensors", "text_encoder_2": "/m/t5-Q4.gguf"},
    stored={"transformer": "q8_0", "vae": "bfloat16", "text_encoder": "float16", "text_encoder_2": "q4_k"},
)  # fmt: skip


def test_code_for_a_model_in_several_files_loads_each_of_them() -> None:
    (one,) = export(report(finding("transformer"), model=FLUX_SPLIT, bfloat16=True), "diffusers").settings
    ast.parse(one.value)
    repository = "'black-forest-labs/FLUX.1-schnell'"
    assert one.value.splitlines() == [
        "import torch",
        "import diffusers",
        "import transformers",
        "from safetensors.torch import load_file",
        "",
        f"transformer = diffusers.FluxTransformer2DModel.from_single_file('/m/flux-Q8_0.gguf', config={repository}, "
        "subfolder='transformer', quantization_config=diffusers.GGUFQuantizationConfig(compute_dtype=torch.bfloat16), "
        "torch_dtype=torch.bfloat16)",
        f"vae = diffusers.AutoencoderKL.from_single_file('/m/ae.safetensors', config={repository}, subfolder='vae', "
        "torch_dtype=torch.bfloat16)",
        "text_encoder = transformers.CLIPTextModel.from_pretrained(None, config=transformers.CLIPTextModel.config_class."
        f"from_pretrained({repository}, subfolder='text_encoder'), state_dict=load_file('/m/clip_l.safetensors'), "
        "torch_dtype=torch.bfloat16)",
        "# black-forest-labs/FLUX.1-schnell has what is not loaded here.",
        f"pipe = diffusers.FluxPipeline.from_pretrained({repository}, transformer=transformer, vae=vae, "
        "text_encoder=text_encoder, torch_dtype=torch.bfloat16)",
    ]  # fmt: skip


def test_a_checkpoint_without_its_vae_is_read_with_the_one_beside_it() -> None:
    model = replace(
        ONE_FILE,
        family="SDXL",
        parts={"vae": "/m/vae.safetensors"},
        stored=dict.fromkeys(("unet", "vae", "text_encoder"), "float16"),
    )
    (one,) = export(report(UNET, model=model), "diffusers").settings
    assert "vae = diffusers.AutoencoderKL.from_single_file('/m/vae.safetensors', " in one.value
    assert one.value.endswith('.from_single_file("/m/it\'s.safetensors", vae=vae, torch_dtype=torch.float32)')


@pytest.mark.parametrize(
    ("program", "family", "apps", "note"),
    [
        ("a1111", "FLUX", {FORGE}, "A1111: FLUX models cannot be loaded, at least not without extensions."),
        ("a1111", "Kandinsky 3", set(), "Forge, reForge: Kandinsky 3 models cannot be loaded, at least not without extensions."),
        ("a1111", "SD 3", {"A1111", FORGE}, ""),
        ("comfyui", "Kandinsky 3", set(), "ComfyUI: Kandinsky 3 models cannot be loaded, at least not without extensions."),
        ("comfyui", "FLUX", {"ComfyUI"}, ""),
        ("diffusers", "Kandinsky 3", {"diffusers"}, ""),
    ],
)
def test_only_programs_that_load_the_family_get_settings(program: OtherProgram, family: str, apps: set[str], note: str) -> None:
    found = export(report(VAE, model=replace(MODEL, family=family)), program)
    assert {one.app for one in found.settings} == apps
    assert [words.text() for words in found.notes if "cannot be loaded" in words.text()][-1:] == ([note] if note else [])


def test_a1111_gets_no_settings_for_what_it_does_not_read() -> None:
    found = export(report(VAE, model=replace(FLUX_SPLIT, family="SD 3")), "a1111")
    assert {one.app for one in found.settings} == {FORGE}
    assert found.notes[0].text() == "A1111 does not read GGUF files."


def test_no_code_is_given_where_diffusers_cannot_load_the_file() -> None:
    wan = replace(
        MODEL, family="Wan", pipeline="WanPipeline", format="single-file", stored={"transformer": "float16", "vae": "float16"}
    )
    found = export(report(VAE, model=wan), "diffusers")
    assert (found.settings, found.notes[0].text()) == ((), "diffusers does not load Wan models from one file.")


def test_a_vae_of_the_repository_gets_the_wider_type_too() -> None:
    flux2 = replace(
        FLUX_SPLIT, family="FLUX.2", base="", pipeline="Flux2Pipeline", parts={"vae": "/m/flux2-vae.safetensors"},
        stored={"transformer": "q8_0", "vae": "bfloat16"},
    )  # fmt: skip
    (one,) = export(report(VAE, model=flux2), "diffusers").settings
    assert 'black-forest-labs/FLUX.2-dev\', transformer=transformer, torch_dtype={"vae": torch.float32, ' in one.value


def test_every_family_of_the_tables_is_known() -> None:
    assert set().union(*LOADS.values()) <= BY_NAME.keys()
    for name, family in FAMILIES.items():
        index = json.loads((CONFIGS / SINGLES[name].key / "model_index.json").read_text())
        assert all(index[part][1] == kind for part, kind in family.classes.items()), name


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


@pytest.mark.parametrize(
    ("checked", "program", "why"),
    [
        (report(TEXT), "comfyui", "No rescaling cures what was found."),
        (
            report(finding("vae", "weights-nonfinite"), verdict="broken"), "comfyui",
            "The model is broken, and rescaling does not mend that.",
        ),
        (report(), "comfyui", "There is nothing to repair."),
        (
            report(VAE, rescale=True, vae="/m/v"), "comfyui",
            "The check ran with parts that are not the model's own, and a copy cannot hold these.",
        ),
        (
            report(VAE, rescale=True, model=replace(MODEL, family="HiDream")), "comfyui",
            "Halftone cannot write HiDream models as one file.",
        ),
        (
            report(VAE, rescale=True, model=replace(MODEL, family="Z-Image", format="single-file", pipeline="ZImagePipeline")),
            "diffusers", "Halftone cannot write Z-Image models as a folder.",
        ),
        (
            report(VAE, rescale=True, model=replace(MODEL, parts={"vae": "/m/v"})), "comfyui",
            "The model consists of several files.",
        ),
        (report(VAE, rescale=True, model=replace(MODEL, family="Kandinsky 3")), "comfyui", "ComfyUI cannot load it."),
    ],
)  # fmt: skip
def test_the_reason_without_a_repaired_file_is_the_true_one(checked: CheckReport, program: OtherProgram, why: str) -> None:
    found = export(checked, program)
    assert (found.rescale, str(found.refusal)) == (False, why)


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
