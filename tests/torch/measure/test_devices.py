import pytest
import torch

from halftone.contract.errors import HalftoneError
from halftone.measure.devices import find_device, list_devices, memory


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
