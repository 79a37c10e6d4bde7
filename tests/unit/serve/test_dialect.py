"""What A1111's clients send, and what of it is followed."""

import base64
from typing import Any

import msgspec
import pytest
from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.serve.dialect import (
    Asked,
    AskedFromPicture,
    Chosen,
    decoded,
    ignored,
    mask_in,
    parameters_of,
    picture_bytes,
    settled,
    start_of,
)


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({}, {}),
        ({"seed": -1, "subseed": 5, "subseed_strength": 0}, {}),
        ({"steps": 20, "cfg_scale": 6.5, "width": 512, "height": 768}, {"Steps": "20", "CFG scale": "6.5", "Size": "512x768"}),
        ({"width": 512}, {}),
        ({"seed": 7}, {"Seed": "7"}),
        ({"seed": 2**64 - 1}, {"Seed": "18446744073709551615"}),
        (
            {"subseed": 9, "subseed_strength": 0.25},
            {"Variation seed strength": "0.25", "Variation seed": "9"},
        ),
        ({"seed_resize_from_w": 512, "seed_resize_from_h": 256}, {"Seed resize from": "512x256"}),
        ({"override_settings": {"sd_model_checkpoint": "dream.safetensors [0123abcd]"}}, {"Model": "dream.safetensors"}),
        ({"override_settings": {"CLIP_stop_at_last_layers": 2, "sd_vae": "Automatic"}}, {"Clip skip": "2"}),
        ({"override_settings": {"sd_vae": "fine.safetensors"}}, {"VAE": "fine.safetensors"}),
        ({"refiner_checkpoint": "r", "refiner_switch_at": 0.8}, {"Refiner": "r", "Refiner switch at": "0.8"}),
        (
            {
                "steps": 20,
                "refiner_checkpoint": "r",
                "refiner_switch_at": 0.81,
                "override_settings": {"refiner_switch_by_sample_steps": True},
            },
            {
                "Steps": "20",
                "Refiner": "r",
                "Refiner switch at": "0.85",  # at the 17th of 20 steps, as A1111 counts
                "Refiner switch by sampling steps": "True",
            },
        ),
        (
            {"enable_hr": True, "denoising_strength": 0.5, "hr_second_pass_steps": 6, "hr_scale": 1.5},
            {"Hires upscale": "1.5", "Hires upscaler": "Latent", "Hires steps": "6", "Denoising strength": "0.5"},
        ),
        ({"enable_hr": True, "hr_upscaler": "None"}, {"Hires upscale": "2", "Hires upscaler": "Lanczos"}),
        ({"clip_skip": 2}, {"Clip skip": "2"}),
        ({"clip_skip": 2, "override_settings": {"CLIP_stop_at_last_layers": 1}}, {"Clip skip": "1"}),
        (
            {"enable_hr": True, "hr_resize_x": 1024, "hr_resize_y": 512, "hr_upscaler": "Lanczos"},
            {"Hires resize": "1024x512", "Hires upscaler": "Lanczos"},
        ),
        ({"hr_scale": 3.0, "denoising_strength": 0.4}, {}),
    ],
)
def test_a_request_reads_as_the_text_of_a_picture(sent: dict[str, object], fields: dict[str, str]) -> None:
    assert parameters_of(settled(msgspec.convert(sent, Asked), Chosen())).fields == fields


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"eta": 0.8, "sampler_name": "Euler"}, {"Eta": "0.8"}),
        ({"eta": 0, "sampler_name": "Euler a"}, {"Eta": "0"}),
        ({"eta": 0, "sampler_name": "DPM++ 2M SDE"}, {"Eta": "0"}),
        ({"eta": 1, "sampler_name": "Euler a"}, {"Eta": "1"}),
        ({"eta": 0, "sampler_name": "DDIM"}, {}),
        ({"eta": 0, "sampler_name": "DPM fast"}, {"Eta": "0"}),
        ({"eta": 0, "sampler_name": "seeds_2"}, {"Eta": "0"}),
        ({"eta": 0}, {"Eta": "0"}),
        ({"eta": 1, "sampler_index": "DDIM"}, {"Eta": "1"}),
        ({"s_noise": 1.003, "eta": None}, {"Sigma noise": "1.003"}),
        ({"s_churn": 5, "s_tmax": None}, {"Sigma churn": "5"}),
        ({"override_settings": {"eta_ancestral": 0.5, "eta_noise_seed_delta": 31337}}, {"ENSD": "31337", "Eta": "0.5"}),
        ({"override_settings": {"emphasis": "No norm"}}, {"Emphasis": "No norm"}),
        ({"prompt": "a (red"}, {"Prompt syntax": "A1111"}),
        ({"negative_prompt": "a (red:12)"}, {"Prompt syntax": "A1111"}),
        ({"override_settings": {"randn_source": "NV", "s_noise": 1.01}}, {"Sigma noise": "1.01", "RNG": "NV"}),
        (
            {"override_settings": {"sigma_min": 0.1, "sigma_max": 10, "rho": 5, "always_discard_next_to_last_sigma": True}},
            {
                "Schedule min sigma": "0.1",
                "Schedule max sigma": "10",
                "Schedule rho": "5",
                "Discard penultimate sigma": "True",
            },
        ),
    ],
)
def test_noise_and_schedule_are_named_as_in_pictures(sent: dict[str, object], fields: dict[str, str]) -> None:
    assert parameters_of(settled(msgspec.convert(sent, Asked), Chosen())).fields == fields


@pytest.mark.parametrize(
    ("sent", "clip_skip", "model"),
    [
        ({}, 3, "stored"),
        ({"clip_skip": 2}, 2, "stored"),
        ({"override_settings": {"CLIP_stop_at_last_layers": "1"}}, 1, "stored"),
        ({"clip_skip": 2, "override_settings": {"CLIP_stop_at_last_layers": 1}}, 1, "stored"),
        ({"override_settings": {"CLIP_stop_at_last_layers": None, "sd_model_checkpoint": None}}, 3, "stored"),
        ({"override_settings": {"sd_model_checkpoint": "own"}}, 3, "own"),
    ],
)
def test_a_request_wins_over_stored_settings(sent: dict[str, object], clip_skip: int, model: str) -> None:
    asked = settled(msgspec.convert(sent, Asked), Chosen(sd_model_checkpoint="stored", CLIP_stop_at_last_layers=3))
    assert parameters_of(asked).fields == {"Clip skip": str(clip_skip), "Model": model}


@pytest.mark.parametrize("settings", [{"CLIP_stop_at_last_layers": "many"}, {"sd_model_checkpoint": ["a"]}, {"sd_vae": {}}])
def test_a_setting_of_another_type_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        settled(Asked(override_settings=settings), Chosen())


@pytest.mark.parametrize(
    ("sent", "sampler"),
    [
        ({}, ""),
        ({"sampler_name": "Euler a"}, "Euler a"),
        ({"sampler_index": "Euler"}, "Euler"),
        ({"sampler_name": "DPM++ 2M", "scheduler": "Karras"}, "DPM++ 2M Karras"),
        ({"sampler_name": "DPM++ 2M", "scheduler": "Automatic"}, "DPM++ 2M"),
        ({"scheduler": "karras"}, ""),
    ],
)
def test_sampler_and_schedule_are_one_name(sent: dict[str, object], sampler: str) -> None:
    assert msgspec.convert(sent, Asked).sampler == sampler


def test_pictures_are_counted_as_batches_of_batches() -> None:
    assert Asked(batch_size=3, n_iter=4).count == 12


def test_a_start_picture_follows_the_numbers_of_a1111() -> None:
    asked = AskedFromPicture(
        init_images=["x"], mask="y", resize_mode=2, mask_blur=8, inpainting_fill=2, inpaint_full_res_padding=16
    )
    start = start_of(asked)
    assert (start.strength, start.resize, start.mask_blur) == (0.75, "fill", 8)
    assert (start.masked_content, start.only_masked) == ("noise", 16)
    assert start_of(AskedFromPicture(init_images=["x"], denoising_strength=0.3)).only_masked is None
    assert start_of(AskedFromPicture(init_images=["x"], denoising_strength=0)).strength == 0.01, "one step, as in A1111"


@pytest.mark.parametrize("sent", [{"resize_mode": 4}, {"resize_mode": -1}, {"mask": "y", "inpainting_fill": 4}])
def test_numbers_that_a1111_does_not_have_are_refused_by_name(sent: dict[str, object]) -> None:
    with pytest.raises(HalftoneError) as refused:
        start_of(msgspec.convert({"init_images": ["x"], **sent}, AskedFromPicture))
    assert refused.value.facts["name"] in sent


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ({"prompt": "a", "restore_faces": False, "tiling": False, "script_name": None, "s_noise": 1.0}, ()),
        ({"eta": None, "s_churn": 0.0, "s_tmax": None, "mask_round": True, "mask_blur_x": 4, "script_args": []}, ()),
        ({"save_images": True, "do_not_save_samples": False, "override_settings_restore_afterwards": True}, ()),
        ({"send_images": False, "mask_blur": 4}, ()),
        ({"hr_prompt": "a moon", "hr_negative_prompt": ""}, ("hr_prompt",)),
        ({"hr_checkpoint_name": "Use same checkpoint", "hr_sampler_name": "Use same sampler", "hr_scheduler": None}, ()),
        ({"hr_sampler_name": "Euler"}, ("hr_sampler_name",)),
        ({"force_task_id": "task(abc)", "comments": {"a": 1}, "firstphase_width": 64, "infotext": "", "script_name": "None"}, ()),
        ({"scheduler": "karras"}, ("scheduler",)),
        ({"scheduler": "Automatic"}, ()),
        ({"clip_skip": 2, "seed_resize_from_w": -1}, ()),
        ({"infotext": "a sun"}, ("infotext",)),
        ({"do_not_save_samples": True, "script_args": [1]}, ("do_not_save_samples", "script_args")),
        ({"s_noise": 0.5, "mask_round": False, "unknown": 4}, ("mask_round", "unknown")),
        ({"restore_faces": True}, ("restore_faces",)),
        ({"script_name": "x/y/z plot"}, ("script_name",)),
        ({"alwayson_scripts": {}}, ()),
        ({"alwayson_scripts": {"ControlNet": {"args": []}, "ADetailer": {"args": [True]}}}, ("alwayson_scripts.ADetailer",)),
        ({"override_settings": {"sd_vae": "a", "eta_ddim": 0.5}}, ("override_settings.eta_ddim",)),
    ],
)
def test_what_would_change_the_picture_is_noted(sent: dict[str, object], names: tuple[str, ...]) -> None:
    assert ignored(sent, Asked) == names


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ({"resize_mode": 3, "inpainting_fill": 3}, ("resize_mode", "inpainting_fill")),
        ({"resize_mode": 2, "inpainting_fill": 2}, ()),
    ],
)
def test_ways_of_a_start_picture_that_are_not_here_are_noted(sent: dict[str, object], names: tuple[str, ...]) -> None:
    start = start_of(msgspec.convert({"init_images": ["x"], "mask": "y", **sent}, AskedFromPicture))
    assert (start.resize, start.masked_content) == (("stretch", "fill") if names else ("fill", "noise"))
    assert ignored(sent, AskedFromPicture) == names


def test_a_field_of_null_is_left_out() -> None:
    asked = decoded(b'{"prompt": "a", "styles": null, "seed": null, "batch_size": null, "override_settings": null}', Asked)
    assert asked == Asked(prompt="a")
    with pytest.raises(msgspec.ValidationError):
        decoded(b"[]", Asked)


@pytest.mark.parametrize(
    ("mode", "colour", "seen"),
    [
        ("RGBA", (0, 0, 0, 200), 255),
        ("RGBA", (255, 255, 255, 90), 0),
        ("RGBA", (255, 255, 255, 255), 255),
        ("RGB", (0, 0, 0), 0),
        ("L", 77, 77),
    ],
)
def test_a_mask_is_read_by_its_transparency_where_it_has_any(mode: str, colour: Any, seen: int) -> None:
    """As A1111's create_binary_mask."""
    assert mask_in(Image.new(mode, (2, 2), colour)).getpixel((0, 0)) == seen


def test_pictures_come_in_base64_with_or_without_their_kind() -> None:
    plain = base64.b64encode(b"picture").decode()
    assert picture_bytes(plain, "mask") == picture_bytes(f"data:image/png;base64,{plain}", "mask") == b"picture"
    with pytest.raises(HalftoneError, match="mask is not a readable picture"):
        picture_bytes("no base64!", "mask")
