"""ControlNets and IP-Adapters that a request asks for."""

from typing import Any

import msgspec
import pytest

from halftone.contract.errors import HalftoneError
from halftone.contract.preprocessors import PREPROCESSORS
from halftone.contract.request import Control, IpAdapter
from halftone.serve.control_units import MODULES, UNITS, Steered, module_detail, steered, units_in

NETS = {"control_v11p_sd15_canny.safetensors": "/n/control_v11p_sd15_canny.safetensors", "depth": "/n/depth"}
ADAPTERS = {"ip-adapter_sd15.safetensors": "/n/ip-adapter_sd15.safetensors"}
_START = "/tmp/start.png"


def found(*units: dict[str, Any], start: str | None = None, script: str = "controlnet") -> Steered:
    written = lambda field, text: f"{field}={text}"  # noqa: E731
    return steered(units_in({script: {"args": list(units)}}), NETS, ADAPTERS, written, start)


def test_a_unit_finds_its_file_and_its_picture() -> None:
    unit = {
        "enabled": True,
        "module": "canny",
        "model": "control_v11p_sd15_canny [d14c016b]",
        "image": "abc",
        "pixel_perfect": True,
    }
    wanted = Control(
        path="/n/control_v11p_sd15_canny.safetensors",
        image="alwayson_scripts.ControlNet.args[0].image=abc",
        resize="crop",
        preprocessor="canny",
    )
    assert found(unit, script="ControlNet") == Steered(controls=(wanted,))


def test_those_that_are_off_are_passed_over_and_the_others_keep_their_numbers() -> None:
    several = found(
        {"enabled": False, "model": "there is none"},
        {"model": "DEPTH", "input_image": "a", "weight": 0.4, "control_mode": 2, "resize_mode": 0},
        {"model": "control_v11p_sd15_canny", "resize_mode": "Just Resize", "guidance_end": 0.5},
        start=_START,
    )
    assert several == Steered(
        controls=(
            Control(path="/n/depth", image="alwayson_scripts.controlnet.args[1].image=a", scale=0.4, mode="control"),
            Control(path=NETS["control_v11p_sd15_canny.safetensors"], image=_START, end=0.5),
        ),
    )


def test_an_ip_adapter_is_used_as_one_and_has_no_part_of_the_steps() -> None:
    unit = {"module": "ip-adapter-auto", "model": "ip-adapter_sd15", "image": "a", "weight": 0.6, "guidance_end": 0.5}
    name = "alwayson_scripts.controlnet.args[0]."
    adapter = IpAdapter(path=ADAPTERS["ip-adapter_sd15.safetensors"], images=(f"{name}image=a",), scale=0.6)
    assert found(unit) == Steered(ip_adapters=(adapter,), left=(f"{name}guidance_end",))


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (
            {"model": "other", "image": "a"},
            "model cannot be other. Use control_v11p_sd15_canny.safetensors, depth or ip-adapter_sd15.safetensors.",
        ),
        ({"image": "a"}, "model cannot be None. Use "),
        ({"model": "depth"}, "image cannot be none. Use a picture in base64."),
        ({"model": "depth", "image": "a", "module": "depth_midas"}, "module cannot be depth_midas. Use none, canny, "),
        ({"model": "ip-adapter_sd15", "image": "a", "module": "canny"}, "module cannot be canny. Use ip-adapter-auto"),
    ],
)
def test_a_refusal_names_the_field(unit: dict[str, Any], said: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        found(unit)
    assert str(caught.value).startswith(f"alwayson_scripts.controlnet.args[0].{said}")


@pytest.mark.parametrize("args", [3, [3], {"a": 1}, ["x"]])
def test_what_is_no_list_of_units_is_refused(args: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        units_in({"controlnet": {"args": args}})


def test_other_scripts_and_none_are_no_units() -> None:
    assert units_in({"ADetailer": {"args": [True]}, "controlnet": {}}) == ()


def test_every_preprocessor_without_a_model_is_listed_with_its_numbers() -> None:
    assert set(MODULES) == PREPROCESSORS.keys() - {"depth", "normal", "pose"}
    assert [slider["name"] for slider in module_detail("canny")["sliders"]] == ["Resolution", "Low threshold", "High threshold"]
    assert module_detail("invert")["sliders"] == []


def test_as_many_units_as_the_settings_name_are_taken_and_no_more() -> None:
    unit = {"model": "depth", "image": "a"}
    assert len(found(*[unit] * UNITS, {"enabled": False}).controls) == UNITS
    with pytest.raises(HalftoneError, match=r"controlnet cannot be 11\. Use at most 10 ControlNets and IP-Adapters"):
        found(*[unit] * (UNITS + 1))
