import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.helpers.model_files import Tensor, safetensors, write_folder

from halftone.contract.errors import JobCancelled
from halftone.library.files import scan as module
from halftone.library.files.scan import TensorScan, scan_weights
from halftone.library.models import describe


def scan(folder: Path, **tensors: Tensor | tuple[str, Tensor]) -> dict[str, TensorScan]:
    path = folder / "m.safetensors"
    path.write_bytes(safetensors(tensors))
    return {found.tensor: found for found in scan_weights(describe(str(path)))}


def test_bad_numbers_are_counted_and_do_not_hide_the_peak(tmp_path: Path) -> None:
    values = np.array([1.0, -70000.0, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-6], np.float32)
    found = scan(tmp_path, a=values)["a"]
    assert (found.nonfinite, found.peak) == (3, 70000.0)
    assert (found.component, found.dtype, found.shape) == ("model", "F32", (8,))


def test_types_that_numpy_has_not(tmp_path: Path) -> None:
    found = scan(
        tmp_path,
        bf=("BF16", np.array([0x3F80, 0xC000, 0x7FC0, 0x0001], np.uint16)),
        e4=("F8_E4M3", np.array([0x7E, 0xFE, 0x7F, 0xFF, 0x00, 0x80], np.uint8)),
        e5=("F8_E5M2", np.array([0x7B, 0x7C, 0x7D, 0x01], np.uint8)),
        wide=np.array([1e-300, -3.0, 0.0, np.nan]),
    )
    assert (found["bf"].nonfinite, found["bf"].peak) == (1, 2.0)
    assert (found["e4"].nonfinite, found["e4"].peak) == (2, 448.0)
    assert (found["e5"].nonfinite, found["e5"].peak) == (2, 57344.0)
    assert (found["wide"].nonfinite, found["wide"].peak) == (1, 3.0)


def test_numbers_cut_off_at_the_limit_of_float16_are_counted(tmp_path: Path) -> None:
    found = scan(
        tmp_path,
        half=np.array([65504.0, -65504.0, 3.0, np.inf], np.float16),
        wide=np.array([65504.0, 1.0], np.float32),
        larger=np.array([65504.0, 70000.0], np.float32),
        near=np.array([65472.0], np.float16),
        long=np.concatenate(
            [np.full(1, 65504.0, np.float16), np.zeros(module.CHUNK, np.float16), np.full(2, -65504.0, np.float16)]
        ),
    )
    assert {name: one.clipped for name, one in found.items()} == {"half": 2, "wide": 1, "larger": 0, "near": 0, "long": 3}


def test_tensors_of_nothing_else_and_of_nothing_and_integers(tmp_path: Path) -> None:
    found = scan(
        tmp_path,
        bad=np.full(3, np.nan, np.float32),
        empty=np.zeros((0, 4), np.float16),
        single=np.zeros((), np.float32),
        ids=np.arange(3),
    )
    assert (found["bad"].nonfinite, found["bad"].peak) == (3, 0.0)
    assert (found["empty"].nonfinite, found["empty"].peak) == (0, 0.0)
    assert (found["single"].nonfinite, found["single"].peak) == (0, 0.0)
    assert "ids" not in found


def test_tensors_longer_than_a_chunk_add_up(tmp_path: Path) -> None:
    count = module.CHUNK + 7
    values = np.full(count, 0.5, np.float16)
    values[-1] = np.inf
    values[module.CHUNK // 2] = -9
    found = scan(tmp_path, pad=np.zeros(1, np.uint8), a=values)["a"]
    assert (found.nonfinite, found.peak) == (1, 9.0)


def test_a_tensor_beyond_a_window_is_put_together_from_its_parts(tmp_path: Path) -> None:
    values = np.full(module.WINDOW + 9, 0x38, np.uint8)
    front = np.zeros(3, np.uint8)
    found = scan(tmp_path, front=front, a=("F8_E4M3", values), after=np.ones(5, np.float16))
    assert (found["a"].nonfinite, found["a"].peak) == (0, 1.0)
    values[-1], values[5] = 0x7F, 0xC0
    changed = scan(tmp_path, front=front, a=("F8_E4M3", values), after=np.ones(5, np.float16))
    assert (changed["a"].nonfinite, changed["a"].peak) == (1, 2.0)
    assert changed["after"] == found["after"]


def test_a_folder_is_scanned_part_by_part(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "m")))
    done: list[tuple[int, int]] = []
    found = scan_weights(facts, progress=lambda now, total: done.append((now, total)))
    assert [scan.component for scan in found] == ["text_encoder", "unet", "vae"]
    assert done[-1] == (96, 96)


def test_a_cancelled_scan_stops(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "m")))
    with pytest.raises(JobCancelled):
        scan_weights(facts, lambda: True)


@settings(max_examples=80)
@given(
    hnp.arrays(st.sampled_from([np.float16, np.float32, np.float64]), st.integers(1, 40)),
    st.integers(0, 3),
)
def test_it_agrees_with_plain_arithmetic(values: Tensor, shift: int) -> None:
    """shift: bytes in front, so that the numbers lie at any address."""
    with tempfile.TemporaryDirectory() as folder:
        found = scan(Path(folder), front=np.zeros(shift, np.uint8), a=values)["a"]
    numbers: list[float] = values.astype(np.float64).tolist()
    finite = [abs(number) for number in numbers if math.isfinite(number)]
    assert found.nonfinite == len(numbers) - len(finite)
    assert found.peak == max(finite, default=0.0)
