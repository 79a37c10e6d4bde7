"""ControlNets in the words of A1111's extension."""

from typing import Any

import msgspec
import pytest

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.metadata.control_units import Unit, control_of, kind_of, not_followed, picture_in, unit_in, unit_of, without_hash


def made(**sent: Any) -> Control:
    return control_of(unit_of(sent), "/n/net", "/p/a.png")


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({}, {"resize": "crop"}),
        ({"weight": 10}, {"scale": 10.0, "resize": "crop"}),
        ({"weight": 0.6, "guidance_start": 0.1, "guidance_end": 0.8}, {"scale": 0.6, "start": 0.1, "end": 0.8, "resize": "crop"}),
        ({"guidance": 0.5, "resize_mode": 0}, {"end": 0.5}),
        ({"resize_mode": "Just Resize"}, {}),
        ({"resize_mode": "Envelope (Outer Fit)"}, {"resize": "fill"}),
        ({"resize_mode": 2}, {"resize": "fill"}),
        (
            {"module": "canny", "resize_mode": 0},
            {"preprocessor": "canny", "resolution": 512},
        ),
        (
            {"module": "canny", "resize_mode": 0, "processor_res": 768, "threshold_a": 50, "threshold_b": 120},
            {"preprocessor": "canny", "resolution": 768, "threshold_a": 50.0, "threshold_b": 120.0},
        ),
        (
            {
                "module": "canny",
                "resize_mode": 0,
                "processor_res": -1,
                "threshold_a": -1,
                "threshold_b": 999,
                "pixel_perfect": True,
            },
            {"preprocessor": "canny"},
        ),
        ({"module": "invert (from white bg & black line)", "resize_mode": 0, "threshold_a": 64}, {"preprocessor": "invert"}),
        (
            {"module": "tile_resample", "resize_mode": 0, "processor_res": 512, "threshold_a": 2.5, "threshold_b": 64},
            {"preprocessor": "tile_resample", "threshold_a": 2.5},
        ),
        (
            {"module": "lineart_standard (from white bg & black line)", "pixel_perfect": "True", "resize_mode": 0},
            {"preprocessor": "lineart_standard"},
        ),
    ],
)
def test_a_unit_is_the_control_that_it_asks_for(sent: dict[str, Any], fields: dict[str, Any]) -> None:
    assert made(**sent) == Control(path="/n/net", image="/p/a.png", **fields)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"module": "openpose_full"}, "u.module cannot be openpose_full. Use none, canny, "),
        ({"module": "depth"}, "u.module cannot be depth. Use none, canny, "),
        ({"module": "pose"}, "u.module cannot be pose. Use none, canny, "),
        ({"weight": 11}, "u.weight"),
        ({"resize_mode": 9}, "u.resize_mode cannot be 9. Use Just Resize, Crop and Resize or Resize and Fill."),
    ],
)
def test_what_is_not_here_is_refused_by_its_name(sent: dict[str, Any], said: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        control_of(unit_of(sent), "/n/net", "", "u.")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("module", ["depth", "depth_midas", "normal_midas", "pose", "openpose_full", "dw_openpose_full"])
def test_a_module_that_needs_a_folder_is_refused_for_that(module: str) -> None:
    with pytest.raises(HalftoneError, match=r"poses need a model's folder, .* send a finished one with none"):
        made(module=module)
    with pytest.raises(HalftoneError, match=r"or recolor_intensity\.$"):
        made(module="softedge_hed")


@pytest.mark.parametrize("sent", [{"weight": "much"}, {"module": 3}, {"pixel_perfect": []}])
def test_a_value_of_another_type_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        unit_of(sent)


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ({"control_mode": 0, "low_vram": True, "hr_option": "Both", "save_detected_map": True, "input_mode": "simple"}, []),
        ({"control_mode": "Balanced", "mask": None, "advanced_weighting": None, "threshold_a": 3}, []),
        ({"control_mode": "ControlNet is more important"}, []),
        ({"control_mode": 1, "hr_option": "Low res only"}, ["hr_option"]),
        ({"advanced_weighting": [1, 0.5], "effective_region_mask": "x"}, ["advanced_weighting", "effective_region_mask"]),
        ({"mask_image": "x"}, ["mask"]),
        ({"image": ["a", "b"]}, ["mask"]),
        ({"image": {"image": "a", "mask": "b"}}, ["mask"]),
        ({"image": [{"image": "a", "mask": None}]}, []),
    ],
)
def test_what_would_change_the_picture_is_named(sent: dict[str, Any], names: list[str]) -> None:
    assert list(not_followed(sent)) == names


@pytest.mark.parametrize("image", ["a", ["a", "b"], {"image": "a"}, [{"image": "a", "mask": "b"}]])
def test_a_picture_is_found_in_each_of_its_forms(image: Any) -> None:
    assert picture_in(image) == "a"


@pytest.mark.parametrize("image", [None, [], {}, 3, [None]])
def test_what_is_no_picture_is_none(image: Any) -> None:
    assert picture_in(image) == ""


@pytest.mark.parametrize(
    ("given", "kind"), [("OpenPose", "openpose"), (3, "canny"), ("Inpaint", "repaint"), ("Unknown", ""), (9, ""), (-1, "")]
)
def test_the_kind_of_a_unions_picture(given: str | int, kind: str) -> None:
    assert kind_of(Unit(union_control_type=given)) == kind


def test_a_line_of_a_picture_is_read_as_the_extension_wrote_it() -> None:
    line = (
        "Module: canny, Model: control_v11p_sd15_canny [d14c016b], Weight: 0.7, Resize Mode: Resize and Fill, "
        "Processor Res: 640, Threshold A: 80, Threshold B: 160.0, Guidance Start: 0.1, Guidance End: 0.9, "
        "Pixel Perfect: False, Control Mode: Balanced"
    )
    unit = unit_in(line)
    assert unit is not None
    assert unit.net == "control_v11p_sd15_canny"
    fields: dict[str, Any] = {"scale": 0.7, "resize": "fill", "resolution": 640, "start": 0.1, "end": 0.9}
    wanted = Control(path="n", image="i", preprocessor="canny", threshold_a=80.0, threshold_b=160.0, **fields)
    assert control_of(unit, "n", "i") == wanted
    assert unit_in("preprocessor: canny, weight: much") is None
    assert unit_in("something") is None


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("net  [d14c016b]", "net"), ("net[0A]", "net"), ("net [x]", "net [x]"), ("a [b] c [1]", "a [b] c"), (" [1]", ""),
        ("x" + " " * 1_000_000 + "[", "x" + " " * 1_000_000 + "["),  # would take half an hour if spaces were read again and again
    ],
)  # fmt: skip
def test_a_hash_is_taken_off_a_name_in_linear_time(name: str, alone: str) -> None:
    assert without_hash(name) == alone


def test_a_name_that_no_file_can_have_is_refused() -> None:
    for name in ("model", "module"):
        assert unit_of({name: "x" * 400})
        with pytest.raises(msgspec.ValidationError):
            unit_of({name: "x" * 401})


def test_a_module_loses_its_label() -> None:
    assert control_of(unit_of({"module": "canny (edges (hard))"}), "n", "i").preprocessor == "canny"
