"""What worked is remembered, and left aside once the file, the device, the driver, PyTorch or a setting is another one."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.reports import DEVICE, MODEL

from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.library.learned import forget, recall, remember
from halftone.settings.places import data_dir

PLAN = Plan(dtypes={"vae": "float32"}, verified=True)
NUMERICS = Numerics(attention_backend="math")


def test_what_worked_comes_back_until_it_is_forgotten() -> None:
    assert recall(MODEL, DEVICE, "float16", NUMERICS) is None
    remember(MODEL, DEVICE, "float16", PLAN, NUMERICS)
    assert recall(MODEL, DEVICE, "float16", NUMERICS) == PLAN
    assert recall(MODEL, DEVICE, "bfloat16", NUMERICS) is None
    forget(MODEL, DEVICE)
    assert recall(MODEL, DEVICE, "float16", NUMERICS) is None


@pytest.mark.parametrize("model", [{"path": "/m/other"}, {"fingerprint": "abd"}], ids=lambda changes: next(iter(changes)))
def test_another_file_is_another_matter(model: dict[str, Any]) -> None:
    remember(MODEL, DEVICE, "float16", PLAN, NUMERICS)
    assert recall(replace(MODEL, **model), DEVICE, "float16", NUMERICS) is None


@pytest.mark.parametrize(
    ("device", "holds"),
    [
        ({"name": "RTX 10"}, False),
        ({"backend": "rocm"}, False),
        ({"torch_version": "2.14.0"}, False),
        ({"driver": "590.01"}, False),
        ({"driver": None}, False),
        ({"driver": "580.99"}, True),
        ({"memory_total": 1}, True),
    ],
)
def test_another_device_driver_or_pytorch_is_another_matter(device: dict[str, Any], holds: bool) -> None:
    remember(MODEL, DEVICE, "float16", PLAN, NUMERICS)
    assert (recall(MODEL, replace(DEVICE, **device), "float16", NUMERICS) == PLAN) is holds


@pytest.mark.parametrize(
    ("settings", "holds"),
    [
        ({"attention_backend": "auto"}, False),
        ({"fp16_accumulation": True}, False),
        ({"tf32": True}, False),
        ({"vae_float32": "never"}, False),
        ({"upcast_sampling": False}, False),
        ({"nan_check": "at-end"}, True),
        ({"on_black": "ask"}, True),
    ],
)
def test_other_settings_are_another_matter_unless_they_change_no_number(settings: dict[str, Any], holds: bool) -> None:
    remember(MODEL, DEVICE, "float16", PLAN, NUMERICS)
    assert (recall(MODEL, DEVICE, "float16", replace(NUMERICS, **settings)) == PLAN) is holds


@pytest.mark.parametrize("content", [b"", b"{", b'{"dtypes":{"vae":"float32"}}'])
def test_a_damaged_or_older_record_is_left_aside(content: bytes) -> None:
    remember(MODEL, DEVICE, "float16", PLAN, NUMERICS)
    (file,) = (data_dir() / "cures").iterdir()
    file.write_bytes(content)
    assert recall(MODEL, DEVICE, "float16", NUMERICS) is None
