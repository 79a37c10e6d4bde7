import pytest
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts
from halftone.measure.devices import find_device, list_devices, memory
from halftone.measure.hints import HINTS, hints_for


def test_the_processor_is_always_there_and_last() -> None:
    devices = list_devices()
    assert devices[-1].id == "cpu"
    assert devices[-1].name
    assert devices[-1].torch_version == torch.__version__
    assert (devices[-1].memory_total or 0) > 2**28
    assert all(value for value in devices[-1].details.values())


def test_devices_are_found_by_id_kind_name_and_preference() -> None:
    cpu = list_devices()[-1]
    assert find_device("auto") == list_devices()[0]
    assert find_device("CPU") == cpu
    assert find_device(cpu.name[:6]).id == "cpu"


def test_an_unknown_device_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(HalftoneError) as caught:
        find_device("cuda:77")
    assert caught.value.code == "device-unknown"
    assert "Use auto" in str(caught.value)
    assert str(caught.value).endswith(" or cpu.")


def test_memory_adds_up() -> None:
    found = memory("cpu")
    assert found.own > 0
    assert found.others >= 0
    assert found.own + found.others <= found.total


@pytest.mark.parametrize(
    ("backend", "name", "count"),
    [
        ("cuda", "NVIDIA GeForce GTX 1660 Ti", 1),
        ("cuda", "NVIDIA GeForce GTX 1080 Ti", 1),
        ("cuda", "NVIDIA GeForce RTX 4090", 0),
        ("rocm", "AMD Radeon RX 5700 XT", 1),
        ("rocm", "AMD Instinct MI250X", 1),
        ("xpu", "Intel Arc B580", 1),
        ("mps", "Apple M3", 1),
        ("cpu", "Intel Arc look-alike", 0),
    ],
)
def test_hints_are_given_with_their_source(backend: str, name: str, count: int) -> None:
    found = hints_for(DeviceFacts(id="x", backend=backend, name=name))
    assert len(found) == count
    assert all(text.endswith(")") and " (" in text for text in found)


def test_every_hint_has_a_source() -> None:
    assert all(hint.source and hint.text.endswith(".") for hint in HINTS)
