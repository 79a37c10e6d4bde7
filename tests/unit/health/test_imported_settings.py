"""What A1111, Forge and Halftone wrote into pictures, as a request: each value in its place, and nothing lost without a word."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors
from tests.helpers.pictures import picture_facts, resolved

from halftone.contract.facts import PassFacts
from halftone.contract.request import Hires, Lora, PictureRequest, Refiner, Start, Style
from halftone.health.pictures.imported_settings import Imported, Known, import_settings, known_here
from halftone.health.pictures.passes import steps_from_picture
from halftone.metadata.a1111_relatives import parameters_of_text
from halftone.metadata.extensions import for_extensions, from_extensions
from halftone.metadata.parameters import a1111_text
from halftone.metadata.reading import SYNTAX, Parameters, holds_parameters
from halftone.settings.store import Settings

A1111 = (
    "a sun (red:1.2) <lora:sepia:0.6>, <lora:gone:1>\nNegative prompt: blurry, easynegative\n"
    "Steps: 30, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 5.5, Seed: 42, Size: 512x768, Model hash: 1a2b3c4d5e, "
    "Model: tiny, VAE hash: 735e, VAE: mse.safetensors, Denoising strength: 0.45, Clip skip: 2, Variation seed: 9, "
    "Variation seed strength: 0.15, Hires upscale: 1.5, Hires steps: 12, Hires upscaler: 4x-Sharp, "
    'Lora hashes: "sepia: 12, gone: 34", TI hashes: "easynegative: 5, other: 6", ENSD: 31337, Face restoration: CodeFormer, '
    "Version: v1.10.1"
)
TINY = msgspec.structs.replace(samples.POCKET, id="/models/tiny.safetensors", name="tiny", path="/models/tiny.safetensors")
KNOWN = Known(
    models=(samples.POCKET, TINY),
    loras={"sepia": "/l/sepia.safetensors"},
    vaes={"mse.safetensors": "/v/mse.safetensors"},
    upscalers={"4x-Sharp.safetensors": "/u/4x-Sharp.safetensors"},
    words=("EasyNegative",),
)
NOW = PictureRequest(prompt="before", model=samples.POCKET.id, styles=(Style(name="x", prompt="y"),), batch=3, steps=7)


def taken(text: str, now: PictureRequest = NOW, known: Known = KNOWN) -> Imported:
    return import_settings(parameters_of_text(text), now, known)


def test_all_of_a_text_of_a1111_has_its_place_or_is_told() -> None:
    found = taken(A1111)
    assert found.request == PictureRequest(
        prompt="a sun (red:1.2) ,",
        negative="blurry, easynegative",
        model=TINY.id,
        width=512,
        height=768,
        steps=30,
        guidance=5.5,
        sampler="DPM++ 2M Karras",
        seed=42,
        batch=3,
        loras=(Lora(path="/l/sepia.safetensors", weight=0.6),),
        vae="/v/mse.safetensors",
        options={"clip_skip": 1, "noise_source": 1},  # this sampler adds no noise, to which ENSD could belong
        hires=Hires(scale=1.5, upscaler="/u/4x-Sharp.safetensors", steps=12, strength=0.45),
        variation_seed=9,
        variation_strength=0.15,
    )
    assert found.left == ("<lora:gone:1>", "Embedding: other", "Face restoration: CodeFormer")


HEAD = "a\nSteps: 20, Seed: 1, CFG scale: 7, Sampler: "


@pytest.mark.parametrize(
    ("text", "changes", "left"),
    [
        ("Euler a", {"sampler": "Euler a Normal"}, ()),
        ("DPM++ 2M SDE Karras", {"sampler": "DPM++ 2M SDE Karras"}, ()),
        ("Euler, Schedule type: Automatic", {"sampler": "Euler Normal"}, ()),
        ("DPM++ 2M, Schedule type: Automatic", {"sampler": "DPM++ 2M Karras"}, ()),
        ("DDIM, Schedule type: Automatic", {"sampler": "DDIM"}, ()),
        ("Euler, Schedule type: KL Optimal", {"sampler": "Euler KL Optimal"}, ()),
        ("UniPC, Schedule type: KL Optimal", {"sampler": "UniPC KL Optimal"}, ()),
        ("DDIM", {"sampler": "DDIM"}, ()),
        ("DDIM CFG++", {"sampler": "DDIM CFG++ DDIM Uniform"}, ()),
        ("DDIM, Schedule type: KL Optimal", {"sampler": "DDIM KL Optimal"}, ()),
        ("PLMS, Schedule type: KL Optimal", {"sampler": "PNDM"}, ("Schedule type: KL Optimal",)),
        ("DPM fast", {"sampler": "DPM fast Normal", "options": {}}, ()),
        ("dpm_fast karras", {"sampler": "DPM fast Karras", "options": {"eta_ancestral": 0.0}}, ()),
        ("dpm_fast karras, Eta: 0.5", {"options": {"eta_ancestral": 0.5}}, ()),
        ("Euler, Version: Halftone 0.1.0", {"sampler": "Euler"}, ()),
        ("Euler, Schedule type: Karras, Version: Halftone 0.1.0", {"sampler": "Euler Karras (diffusers)"}, ()),
        ("Euler, Schedule type: Simple, Version: Halftone 0.1.0", {"sampler": "Euler Simple"}, ()),
        ("Euler, Schedule type: Karras, Solver: k-diffusion, Version: Halftone 0.1.0", {"sampler": "Euler Karras"}, ()),
        ("Restart", {"sampler": "Restart Karras"}, ()),
        ("DPM adaptive", {"sampler": "DPM adaptive Normal"}, ()),
        ("Nonesuch", {"sampler": None}, ("Sampler: Nonesuch",)),
        ("Euler, Model: other", {"model": NOW.model}, ("Model: other",)),
        ("Euler, VAE: gone.pt", {"vae": None}, ("VAE: gone.pt",)),
        ("Euler, VAE: Automatic", {"vae": None}, ()),
        ("Euler, Size: 517x512", {"width": 512, "height": 512}, ()),
        ("Euler, Size: 7x512", {"width": None}, ("Size: 7x512",)),
        ("Euler, Size: 0x999999", {"width": None}, ("Size: 0x999999",)),
        ("Euler, Clip skip: 99", {"options": {}}, ("Clip skip: 99",)),
        ("Euler, CFG rescale: 0.7", {"options": {"guidance_rescale": 0.7}}, ()),
        ("Euler a, Eta: 0.6", {"sampler": "Euler a Normal", "options": {"eta_ancestral": 0.6}}, ()),
        ("DPM++ SDE Karras, Eta: 0, Sigma noise: 1.003", {"options": {"eta_ancestral": 0.0, "s_noise": 1.003}}, ()),
        ("Euler a, Sigma noise: 1", {"options": {}}, ()),
        (
            "DPM++ 2M Karras, Schedule min sigma: 0.1, Schedule max sigma: 10, Schedule rho: 5, Discard penultimate sigma: True",
            {"options": {"sigma_min": 0.1, "sigma_max": 10.0, "rho": 5.0, "discard_penultimate": 1}},
            (),
        ),
        ("Euler Karras, Noise Schedule: Zero Terminal SNR", {"options": {"zero_snr": 1}}, ()),
        ("Euler Karras, Noise Schedule: Default", {"options": {}}, ()),
        (
            "Euler, freeu_enabled: True, freeu_b1: 1.01, freeu_b2: 1.02, freeu_s1: 0.99, freeu_s2: 0.95, freeu_start: 0.0, "
            "freeu_end: 0.5",
            {"options": {"freeu": 2, "freeu_b1": 1.01, "freeu_b2": 1.02, "freeu_s1": 0.99, "freeu_s2": 0.95, "freeu_end": 0.5}},
            (),
        ),
        ("Euler, FreeU version: V1, freeu_enabled: True, freeu_b1: 1.3", {"options": {"freeu": 1}}, ()),
        (
            "Euler, pagi_enabled: True, pagi_scale: 3.0, pagi_attenuation: 10, pagi_start_step: 0.0, pagi_end_step: 0.8",
            {"options": {"pag_scale": 3.0, "pag_attenuation": 10.0, "pag_end": 0.8}},
            (),
        ),
        (
            "Euler, Schedule type: Karras, dynthres_enabled: True, dynthres_mimic_scale: 7, dynthres_mimic_mode: Half Cosine Up, "
            "dynthres_separate_feature_channels: enable, dynthres_variability_measure: STD, dynthres_interpolate_phi: 0.9",
            {"options": {"threshold_scale": 7.0, "threshold_mode": 6, "threshold_variability": 1, "threshold_phi": 0.9}},
            (),
        ),
        ("Euler, freeu_b1: 1.5", {"options": {}}, ("freeu_b1: 1.5",)),
        (
            "Euler, Schedule type: Karras, Dynamic thresholding enabled: True, Mimic scale: 7, Separate Feature Channels: False, "
            "Scaling Startpoint: ZERO, Variability Measure: STD, Interpolate Phi: 0.9, Threshold percentile: 98.5",
            {
                "options": {
                    "threshold_scale": 7.0,
                    "threshold_together": 1,
                    "threshold_startpoint": 1,
                    "threshold_variability": 1,
                    "threshold_phi": 0.9,
                    "threshold_percentile": 0.985,
                }
            },
            (),
        ),
        (
            "Euler, Dynamic thresholding enabled: True, Mimic scale: 7, Mimic mode: Power Up",
            {"options": {}},
            ("Dynamic thresholding enabled: True", "Mimic scale: 7", "Mimic mode: Power Up"),
        ),
        (
            "Euler, pag_enabled: True, pag_scale: 2.5, pag_rescale: 0.0, pag_rescale_mode: full, pag_adaptive_scale: 0.0, "
            "pag_block: middle, pag_block_id: 0",
            {"options": {"pag_scale": 2.5}},
            (),
        ),
        (
            "Euler, pag_enabled: True, pag_scale: 3, pag_rescale: 0.2, pag_rescale_mode: full, pag_block: output",
            {"options": {"pag_scale": 3.0}},
            ("pag_rescale: 0.2", "pag_rescale_mode: full", "pag_block: output"),
        ),
        (
            r'Euler, FreeU Stages: "[{\"backbone_factor\": 1.2, \"skip_factor\": 0.8}, {\"backbone_factor\": 1.5}]", '
            'FreeU Schedule: "0.0, 0.5, 0.0", FreeU Version: 2',
            {"options": {"freeu": 2, "freeu_b1": 1.2, "freeu_s1": 0.8, "freeu_b2": 1.5, "freeu_s2": 1.0, "freeu_end": 0.5}},
            (),
        ),
        (
            r'Euler, FreeU Stages: "[{\"backbone_factor\": 1.2, \"backbone_width\": 0.7}]", FreeU Version: 2',
            {"options": {}},
            ('FreeU Stages: [{"backbone_factor": 1.2, "backbone_width": 0.7…', "FreeU Version: 2"),
        ),
        (
            "Heun, Sigma churn: 8, Sigma tmin: 0.5, Sigma tmax: 20",
            {"options": {"s_churn": 8.0, "s_tmin": 0.5, "s_tmax": 20.0}},
            (),
        ),
        ("DDIM, Eta DDIM: 0.5", {"sampler": "DDIM", "options": {"eta": 0.5}}, ()),
        ("Euler a, Eta: 2", {"options": {}}, ("Eta: 2",)),
        ("Euler, CFG rescale: 0", {"options": {}}, ()),
        ("Euler, CFG rescale: 7", {"options": {}}, ("CFG rescale: 7",)),
        ("Euler, Hires upscale: 2, Hires upscaler: Latent", {"hires": Hires()}, ()),
        (
            "Euler, Hires upscale: 2, Hires upscaler: Latent (nearest)",
            {"hires": Hires()},
            ("Hires upscaler: Latent (nearest)",),
        ),
        (
            "Euler, Size: 512x512, Hires resize: 768x768, Hires upscaler: ESRGAN_4x",
            {"hires": Hires(scale=1.5, upscaler="lanczos")},
            ("Hires upscaler: ESRGAN_4x",),
        ),
        (
            "Euler, Size: 512x512, Hires resize: 1024x768, Hires upscaler: Latent",
            {"hires": Hires(scale=2.0)},
            ("Hires resize: 1024x768",),
        ),
        (
            "Euler, Hires upscale: 2, Hires upscaler: Latent, Denoising strength: 0",
            {"hires": Hires(scale=2.0, strength=0.01)},
            ("Denoising strength: 0",),
        ),
        ("Euler, Denoising strength: 0.75", {"start": Start()}, ("Denoising strength: 0.75",)),
        ("Euler, Distilled CFG Scale: 3.5", {"guidance": 3.5}, ()),
        ("Euler, RNG: CPU", {"sampler": "Euler Normal"}, ()),
        ("Euler, RNG: NV", {"options": {"noise_source": 1}}, ()),
        ("Euler, RNG: GPU", {"options": {"noise_source": 1}}, ()),
        ("Euler, RNG: CPU, Version: v1.9.4", {"options": {}}, ()),
        ("Euler, Version: v1.9.4", {"options": {"noise_source": 1}}, ()),
        ("Euler, Version: f2.0.1v1.10.1-previous-659-gc055f2d4", {"options": {"noise_source": 1}}, ()),
        ("Euler, Model hash: 6ce0161689", {"options": {"noise_source": 1}}, ()),
        ("Euler, Model hash: 6ce0161689, Version: ComfyUI", {"options": {"noise_source": 2}}, ()),
        (
            "dpmpp_2m_sde_gpu, Schedule type: beta, Version: ComfyUI",
            {"sampler": "DPM++ 2M SDE Beta (ComfyUI)", "options": {"noise_source": 3}},
            (),
        ),
        (
            "heunpp2, Schedule type: kl_optimal, Version: SwarmUI 0.9.6",
            {"sampler": "Heun++ 2 KL Optimal (ComfyUI)", "options": {"noise_source": 2}},
            (),
        ),
        ("Euler, Schedule type: Beta, RNG: CPU, Version: f2.0.1v1.10.1", {"sampler": "Euler Beta", "options": {}}, ()),
        ("UniPC, Schedule type: Karras, RNG: CPU, Version: v1.10.1", {"sampler": "UniPC Time Uniform", "options": {}}, ()),
        ("uni_pc, Schedule type: karras, RNG: CPU, Version: ComfyUI", {"sampler": "UniPC Karras", "options": {}}, ()),
        (
            "Euler, Schedule type: Beta (ComfyUI), RNG: ComfyUI GPU, Version: Halftone 0.1",
            {"sampler": "Euler Beta (ComfyUI)", "options": {"noise_source": 3}},
            (),
        ),
        ("Euler, RNG: CPU, Emphasis: No norm", {"options": {"emphasis": 1}}, ()),
        ("Euler, RNG: CPU, Emphasis: Original", {"options": {}}, ()),
        ("Euler, RNG: CPU, Emphasis: Loud", {"options": {}}, ("Emphasis: Loud",)),
        ("Euler, RNG: MPS", {"options": {}}, ("RNG: MPS",)),
        ("Euler a, RNG: CPU, ENSD: 31337", {"options": {"eta_noise_seed_delta": 31337}}, ()),
        ("Euler, Script: " + "x" * 90, {}, ("Script: " + "x" * 47 + "…",)),
    ],
)
def test_single_values(text: str, changes: dict[str, Any], left: tuple[str, ...]) -> None:
    found = taken(HEAD + text)
    assert {name: getattr(found.request, name) for name in changes} == changes
    assert found.left == left


@pytest.mark.parametrize(
    ("prompt", "version", "options"),
    [
        ("a (red", "Version: v1.9.4, RNG: CPU", {"prompt_syntax": 1}),
        ("a (red:1.2), b", "Version: v1.9.4, RNG: CPU", {}),
        ("a (red", "Version: Halftone 0.1", {}),
        ("a [red]", "Version: ComfyUI, Prompt syntax: ComfyUI", {"prompt_syntax": 2, "noise_source": 2}),
        ("a (red:1.2)", "Version: Halftone 0.1, Prompt syntax: A1111", {"prompt_syntax": 1}),
    ],
)
def test_a_prompt_keeps_the_rules_of_its_program(prompt: str, version: str, options: dict[str, int]) -> None:
    found = taken(f"{prompt}\nSteps: 20, Seed: 1, CFG scale: 7, Sampler: Euler, {version}")
    assert (found.request.options, found.left) == (options, ())


@pytest.mark.parametrize("own", ["None", "Automatic"])
def test_where_the_text_names_the_own_vae_the_other_of_the_form_goes(own: str) -> None:
    now = msgspec.structs.replace(NOW, vae="/v/mse.safetensors")
    found = taken(f"{HEAD}Euler, VAE: {own}", now)
    assert (found.request.vae, found.left) == (None, ())
    assert taken(HEAD + "Euler", now).request.vae == now.vae


def test_a_schedule_without_its_sampler_is_told() -> None:
    now = msgspec.structs.replace(NOW, sampler="Euler a")
    found = taken("a\nSteps: 20, Seed: 1, CFG scale: 7, Schedule type: Karras", now)
    assert (found.request.sampler, found.left) == ("Euler a", ("Schedule type: Karras",))


def test_values_that_cannot_be_are_told_and_not_taken() -> None:
    found = taken("a\nSteps: many, Seed: 99999999999999999999, CFG scale: nan, Sampler: Euler, Variation seed strength: 7")
    assert (found.request.steps, found.request.seed, found.request.guidance) == (7, None, None)
    assert found.left == ("Steps: many", "Seed: 99999999999999999999", "CFG scale: nan", "Variation seed strength: 7")


def test_the_strength_goes_to_a_start_picture_that_is_there() -> None:
    now = msgspec.structs.replace(NOW, image="/p/hills.png")
    found = taken(HEAD + "Euler, Denoising strength: 0.75", now)
    assert (found.request.start.strength, found.request.image, found.left) == (0.75, "/p/hills.png", ())


@pytest.mark.parametrize(
    ("version", "strength", "steps", "counted"),
    [("ComfyUI", 0.5, 40, 0.49), ("ComfyUI", 0.6, 33, 0.6), ("ComfyUI", 1, 20, 1.0), ("v1.9", 0.6, 20, 0.6)],
)
def test_comfyui_computes_all_steps_from_a_start_picture(version: str, strength: float, steps: int, counted: float) -> None:
    now = msgspec.structs.replace(NOW, image="/p/hills.png")
    request = taken(f"a\nSteps: 20, Sampler: Euler, Denoising strength: {strength}, Version: {version}", now).request
    assert (request.steps, request.start.strength) == (steps, counted)
    assert request.steps is not None
    assert steps_from_picture(request.steps, counted) == (20 if version == "ComfyUI" else 13)


@pytest.mark.parametrize(
    ("version", "skip", "options", "left"),
    [
        ("v1.9", 2, {"noise_source": 1}, ()),
        ("v1.9", 3, {"noise_source": 1}, ("Clip skip: 3",)),
        ("Halftone 0.1.0", 2, {"clip_skip": 1}, ()),
    ],
)
def test_a1111_skips_no_layers_of_sdxl(version: str, skip: int, options: dict[str, Any], left: tuple[str, ...]) -> None:
    sdxl = msgspec.structs.replace(samples.POCKET, pipeline="StableDiffusionXLPipeline")
    found = taken(f"{HEAD}Euler, Clip skip: {skip}, Version: {version}", known=Known(models=(sdxl,)))
    assert (found.request.options, found.left) == (options, left)


LENGTH = 'Euler, Options: "{\\"max_sequence_length\\": 128, \\"guidance_rescale\\": 0.7}"'


@pytest.mark.parametrize(
    ("pipeline", "image", "options", "left"),
    [
        ("FluxPipeline", None, {"max_sequence_length": 128}, ("CFG rescale: 0.7",)),
        ("StableDiffusionPipeline", None, {"guidance_rescale": 0.7}, ("max_sequence_length: 128",)),
        ("StableDiffusionPipeline", "/p/hills.png", {}, ("max_sequence_length: 128", "CFG rescale: 0.7")),
        ("OtherPipeline", None, {"max_sequence_length": 128, "guidance_rescale": 0.7}, ()),
    ],
)
def test_options_of_another_pipeline_are_left_out_and_said(
    pipeline: str, image: str | None, options: dict[str, Any], left: tuple[str, ...]
) -> None:
    model = msgspec.structs.replace(samples.POCKET, pipeline=pipeline)
    found = taken(HEAD + LENGTH, msgspec.structs.replace(NOW, image=image), Known(models=(model,)))
    assert (found.request.options, found.left) == (options, left)


def test_an_eta_that_the_sampler_does_not_take_is_left_out() -> None:
    known = Known(models=(samples.POCKET,))
    assert taken(f"{HEAD}Euler, Eta: 0.5", known=known).left == ("Eta: 0.5",)
    assert taken(f"{HEAD}Euler a, Eta: 0.5", known=known).request.options == {"eta_ancestral": 0.5}


def test_a_clip_skip_that_the_pipeline_does_not_take_is_left_out() -> None:
    flux = msgspec.structs.replace(samples.POCKET, pipeline="FluxPipeline")
    found = taken(f"{HEAD}Euler, Clip skip: 2", known=Known(models=(flux,)))
    assert (found.request.options, found.left) == ({}, ("Clip skip: 2",))


def test_the_steps_of_a_text_stand_in_the_place_of_those_of_the_form() -> None:
    now = msgspec.structs.replace(NOW, options={"sigmas": [1.0, 0.5], "eta": 0.5})
    found = taken(HEAD + 'Euler, Options: "{\\"timesteps\\": [900, 100]}"', now)
    assert (found.request.options, found.left) == ({"eta": 0.5, "timesteps": [900, 100]}, ())


def test_a_refiner_is_one_that_is_here() -> None:
    """As A1111 names it, with a hash behind."""
    text = f"{HEAD}Euler, Refiner: sd_xl_refiner_1.0 [7440042bbd], Refiner switch at: 0.7"
    path = "/models/sd_xl_refiner_1.0.safetensors"
    refiner = msgspec.structs.replace(TINY, id=path, path=path, name="sd_xl_refiner_1.0", family="SDXL refiner")
    found = taken(text, known=Known(models=(TINY, refiner)))
    assert (found.request.refiner, found.left) == (Refiner(path=path, at=0.7), ())
    picture = picture_facts(passes=(PassFacts(kind="first", width=8, height=8, steps=2, seconds=1.0, dtypes={}),) * 2)
    again = taken(a1111_text(resolved(refiner=Refiner(path=path)), picture), known=Known(models=(refiner,)))
    assert again.request.refiner == Refiner(path=path)
    gone = taken(text)
    assert gone.request.refiner is None
    assert gone.left == ("Refiner: sd_xl_refiner_1.0 [7440042bbd]", "Refiner switch at: 0.7")


@pytest.mark.parametrize(
    ("said", "at", "by_steps"),
    [
        ("Version: v1.10.1", 0.7, False),
        ("Refiner switch by sampling steps: True, Version: v1.10.1", 0.7, True),
        ("Version: v1.7.0", 0.7, True),
        ("Version: v1.8.0", 0.7, False),
        ("Version: f2.0.1v1.10.1-previous-659-gc055f2d4", 0.7, True),
        ("Version: ComfyUI", 0.7, True),
        ("Version: SwarmUI 0.9.5", 0.7, True),
        ("Version: Fooocus v2.5.5", 0.7, True),
        ("Version: RuinedFooocus", 0.7, True),
        ("Version: SD.Next 1a2b", 0.7, False),
        ("Version: InvokeAI 5.1", 0.7, False),
    ],
)
def test_a_refiner_begins_as_its_program_counts(said: str, at: float, by_steps: bool) -> None:
    refiner = msgspec.structs.replace(TINY, id="/m/r", path="/m/r", name="r", family="SDXL refiner")
    found = taken(f"{HEAD}Euler, Refiner: r, Refiner switch at: {at}, {said}", known=Known(models=(TINY, refiner)))
    assert (found.request.refiner, found.left) == (Refiner(path="/m/r", at=at, by_steps=by_steps), ())


@pytest.mark.parametrize(
    ("version", "image", "at", "first"),
    [
        ("v1.7.0", False, 0.81, 17),  # A1111: the first step that is not before the share
        ("v1.7.0", False, 0.8, 16),
        ("ComfyUI", False, 0.81, 16),
        ("v1.7.0", True, 0.75, 18),  # of the 11 steps that it makes with a strength of 0.5, the last two
    ],
)
def test_a_refiner_by_steps_begins_at_the_step_of_its_program(version: str, image: bool, at: float, first: int) -> None:
    refiner = msgspec.structs.replace(TINY, id="/m/r", path="/m/r", name="r", family="SDXL refiner")
    now = msgspec.structs.replace(NOW, image="/p.png") if image else NOW
    text = f"a\nSteps: 20, Sampler: Euler, Denoising strength: 0.5, Refiner: r, Refiner switch at: {at}, Version: {version}"
    found = taken(text, now, Known(models=(TINY, refiner))).request
    assert found.refiner is not None
    assert found.refiner.first_step(20) == first


@pytest.mark.parametrize("at", [0.8, 0.75, 0.6667])
def test_a_switch_by_steps_is_written_so_that_a1111_begins_at_the_same_step(at: float) -> None:
    """It begins at the first step that is not before the share; Halftone at the nearest."""
    picture = picture_facts(passes=(PassFacts(kind="first", width=8, height=8, steps=2, seconds=1.0, dtypes={}),) * 2)
    wanted = Refiner(path="/m/r", at=at, by_steps=True)
    for steps in range(10, 40):
        fields = parameters_of_text(a1111_text(resolved(refiner=wanted, steps=steps), picture)).fields
        assert fields["Refiner switch by sampling steps"] == "True"
        assert math.ceil(float(fields["Refiner switch at"]) * steps) == wanted.first_step(steps)
        assert round(float(fields["Refiner switch at"]) * steps) == wanted.first_step(steps)
    refiner = msgspec.structs.replace(TINY, id="/m/r", path="/m/r", name="r", family="SDXL refiner")
    again = taken(a1111_text(resolved(refiner=wanted, steps=30), picture), known=Known(models=(refiner,))).request.refiner
    assert again is not None
    assert (again.by_steps, again.first_step(30)) == (True, wanted.first_step(30))


def test_our_own_text_makes_the_same_request() -> None:
    first = PassFacts(kind="first", width=128, height=96, steps=20, seconds=1.0, dtypes={})
    picture = picture_facts(passes=(first, first), variation_seed=3)
    made = resolved(
        loras=(Lora(path="/l/sepia.safetensors", weight=0.5),),
        vae="/v/mse.safetensors",
        negative="blurry",
        options={"clip_skip": 2},
        hires=Hires(scale=2.0, upscaler="lanczos", steps=8, strength=0.3),
        variation_seed=3,
        variation_strength=0.25,
        seed_size=(64, 64),
    )
    found = taken(a1111_text(made, picture))
    assert found.left == ()
    same = ("prompt", "negative", "width", "height", "steps", "guidance", "sampler", "seed", "loras", "vae", "options", "hires")
    noise = ("variation_seed", "variation_strength", "seed_size")
    for name in (*same, *noise):
        assert getattr(found.request, name) == getattr(made, name), name


@given(st.text(max_size=300), st.sampled_from(["", HEAD, A1111, "a\nSteps: 1, Size: 8x8, Hires upscale: "]))
def test_any_text_can_be_taken(text: str, before: str) -> None:
    request = taken(before + text).request
    assert msgspec.json.decode(msgspec.json.encode(request), type=PictureRequest) == request


def test_an_upscale_model_in_a_folder_of_its_own_is_known(tmp_path: Path) -> None:
    (tmp_path / "4x-Sharp.safetensors").write_bytes(safetensors({"model.0.weight": ramp(4, 3, 3, 3)}))
    known = known_here(Settings(upscaler_folders=(str(tmp_path),)), (), ())
    found = taken("a\nSteps: 4, Size: 64x64, Hires upscale: 2, Hires upscaler: 4x-Sharp, Denoising strength: 0.5", known=known)
    assert found.request.hires is not None
    assert found.request.hires.upscaler == str(tmp_path / "4x-Sharp.safetensors")
    assert found.left == ()


def test_the_folders_are_read_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is damaged is told each time that they are."""
    (tmp_path / "damaged.safetensors").write_bytes(b"no header")
    folder = (str(tmp_path),)
    with caplog.at_level("INFO"):
        known_here(Settings(model_folders=folder, lora_folders=folder), (), ())
    assert len([one for one in caplog.messages if "damaged.safetensors" in one]) == 1


def test_a_very_long_line_is_read_at_once() -> None:
    words = "a " * 100_000
    assert not holds_parameters(words)
    assert taken(words).request.prompt == words.strip()


@pytest.mark.parametrize(
    "options",
    [
        {"freeu": 1, "freeu_b1": 1.05, "freeu_s2": 0.123456789, "freeu_start": 0.3},
        {"freeu": 2},
        {"threshold_scale": 6.5, "threshold_percentile": 0.985, "threshold_variability": 1, "threshold_phi": 0.7},
        {"threshold_scale": 6.5, "threshold_together": 1, "threshold_value": 3.0},
        {"freeu": 3, "freeu_b2": 1.6, "pag_scale": 3.3, "pag_attenuation": 12.5, "pag_start": 0.1, "pag_end": 0.7},
        {
            "threshold_scale": 7.5, "threshold_percentile": 0.97, "threshold_mode": 7, "threshold_scale_min": 1.5,
            "threshold_cfg_mode": 3, "threshold_cfg_scale_min": 2.0, "threshold_value": 3.0, "threshold_together": 1,
            "threshold_startpoint": 1, "threshold_variability": 1, "threshold_phi": 0.6,
        },
    ],
)  # fmt: skip
def test_what_steers_the_network_comes_back_from_a_picture_exactly(options: dict[str, Any]) -> None:
    text = a1111_text(resolved(sampler="Euler Karras", options=options), picture_facts())
    assert taken(text).request.options == options
    assert not taken(text).left


def test_a_prompt_of_comfyui_is_imported_with_its_rules() -> None:
    """The same request as with --prompt-syntax comfyui, whatever the prompt."""
    said = Parameters(prompt="cat BREAK dog", fields={"Steps": "4", "Version": "ComfyUI", SYNTAX: "ComfyUI"})
    assert import_settings(said, NOW, KNOWN).request.options["prompt_syntax"] == 2


def test_what_extensions_of_a1111_read_is_written() -> None:
    options: dict[str, Any] = {"freeu": 2, "freeu_s1": 0.5, "threshold_scale": 6.5, "threshold_percentile": 0.985}
    text = a1111_text(resolved(sampler="Euler Karras", options=options), picture_facts())
    for said in (
        "Dynamic thresholding enabled: True", "Mimic scale: 6.5", "Threshold percentile: 98.5", "Separate Feature Channels: True",
        "Scaling Startpoint: MEAN", "Variability Measure: AD", "Interpolate Phi: 1", 'FreeU Schedule: "0.0, 1.0, 0.0"',
        r'FreeU Stages: "[{\"backbone_factor\": 1.3, \"skip_factor\": 0.5}, {\"backbone_factor\": 1.4, \"skip_factor\": 0.2}]"',
        "FreeU Version: 2", "freeu_enabled: True",
    ):  # fmt: skip
        assert said in text
    assert "dynthres" not in text


def test_a_word_that_thresholding_does_not_have_stays_as_it_is() -> None:
    forge = {"dynthres_enabled": "True", "dynthres_separate_feature_channels": "perhaps"}
    written = for_extensions(forge)
    assert written["Separate Feature Channels"] == "perhaps"
    assert (
        from_extensions({name: value for name, value in written.items() if value is not None})[
            "dynthres_separate_feature_channels"
        ]
        == "perhaps"
    )
