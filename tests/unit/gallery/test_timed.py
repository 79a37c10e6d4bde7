import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.pictures import picture_facts

from halftone.contract.plan import Plan
from halftone.contract.request import Numerics, PictureRequest
from halftone.gallery.timed import Conditions, names_of, tells_time

NOW = Conditions("pocket", frozenset({"cpu", "auto"}), "auto", "float16")
ASKED = PictureRequest(prompt="a sun", model="pocket", device="cpu")
MADE = picture_facts(seconds=2.0)
IN_FLOAT32 = picture_facts(seconds=2.0, dtypes={"unet": "float32", "vae": "float32"})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"device": "auto"}, True),
        ({"device": "cuda:0"}, False),
        ({"model": "another"}, False),
        ({"resume_latents": "kept.npz"}, False),
        ({"numerics": Numerics(precision="float16")}, True),
        ({"numerics": Numerics(compile=True)}, False),
    ],
)
def test_only_whole_pictures_of_this_model_on_this_device_tell_the_time(changes: dict[str, str], told: bool) -> None:
    assert tells_time(MADE, msgspec.structs.replace(ASKED, **changes), NOW) is told


def test_another_precision_tells_nothing() -> None:
    asked = msgspec.structs.replace(ASKED, numerics=Numerics(precision="float32"))
    assert not tells_time(IN_FLOAT32, asked, NOW)
    assert tells_time(IN_FLOAT32, asked, msgspec.structs.replace(NOW, dtype="float32"))


def test_auto_that_meant_another_precision_tells_nothing() -> None:
    assert not tells_time(IN_FLOAT32, ASKED, NOW), "Auto took FP32 then"
    cured = picture_facts(seconds=2.0, dtypes={"unet": "float32", "vae": "float16"})
    assert tells_time(cured, ASKED, NOW), "it was made in FP16, with a cure that the next one begins with"


def test_a_picture_that_a_cure_moved_to_float32_tells_nothing_of_float32() -> None:
    asked = msgspec.structs.replace(ASKED, numerics=Numerics(precision="float16"))
    moved = picture_facts(seconds=9.0, dtypes={"unet": "float32", "vae": "float16"})
    chosen = msgspec.structs.replace(NOW, precision="float32", dtype="float32")
    assert not tells_time(moved, asked, chosen)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (Plan(dtypes={"unet": "float16"}), True),
        (Plan(dtypes={"unet": "float16"}, rescale={"unet": {"conv_in.weight": -2}}), True),
        (Plan(dtypes={"unet": "float32"}), False),
        (Plan(dtypes={"unet": "float16"}, upcast={"unet": ("conv_in",)}), False),
        (Plan(dtypes={"unet": "float16", "vae": "float32"}, upcast={"vae": ("decoder",)}), True),
    ],
)
def test_pictures_without_the_plan_that_was_applied_since_tell_nothing(plan: Plan, told: bool) -> None:
    assert tells_time(MADE, ASKED, msgspec.structs.replace(NOW, plan=plan)) is told


def test_compiled_pictures_tell_the_time_of_compiled_ones() -> None:
    asked, compiled = msgspec.structs.replace(ASKED, numerics=Numerics(compile=True)), msgspec.structs.replace(NOW, compiled=True)
    assert tells_time(MADE, asked, compiled)
    assert not tells_time(MADE, ASKED, compiled)


def test_what_a_request_calls_a_device() -> None:
    first, second = (msgspec.structs.replace(samples.CPU, id=f"cuda:{index}") for index in range(2))
    listed = (first, second, samples.CPU)
    assert names_of(first, listed) == {"cuda:0", "cuda", "auto"}
    assert names_of(second, listed) == {"cuda:1"}
    assert names_of(samples.CPU, listed) == {"cpu"}
