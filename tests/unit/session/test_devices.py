"""Which device is meant, and what is known of it."""

import msgspec
import pytest
from tests.helpers import samples

from halftone.library import records
from halftone.session.devices import device_named, self_test_of

GPUS = tuple(msgspec.structs.replace(samples.CPU, id=f"cuda:{number}", backend="cuda") for number in (0, 1))


@pytest.mark.parametrize(
    ("wanted", "found"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu"), ("mps", None)]
)
def test_a_device_by_name(wanted: str, found: str | None) -> None:
    device = device_named((*GPUS, samples.CPU), wanted)
    assert (device and device.id) == found


def test_a_device_is_measured_while_nothing_holds_of_it_or_when_asked() -> None:
    stored, new = msgspec.structs.replace(samples.self_test_report(), device=samples.CPU), samples.self_test_report()
    assert self_test_of(samples.CPU, lambda: new) is new
    assert self_test_of(samples.CPU, lambda: None) is None
    records.save_selftest(stored)
    assert self_test_of(samples.CPU, lambda: new) == stored
    assert self_test_of(samples.CPU, lambda: new, again=True) is new
