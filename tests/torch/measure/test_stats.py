import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halftone.measure.stats import _PIECE, PeakBuffer, bits_to_float, has_values, ordered_dtype, peak, peak_bits

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def by_bits(tensor: torch.Tensor) -> float:
    return float(bits_to_float(peak_bits(tensor), ordered_dtype(tensor)))


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(
    st.lists(st.floats(width=16, allow_nan=True, allow_infinity=True), min_size=0, max_size=70),
    st.sampled_from(FLOATS),
)
def test_both_forms_give_the_peak_and_show_what_is_not_finite(values: list[float], dtype: torch.dtype) -> None:
    tensor = torch.tensor(values, dtype=dtype)
    expected = max((abs(v) for v in tensor.tolist()), default=0.0)
    if any(math.isnan(v) for v in values):
        expected = math.nan
    assert same(peak(tensor), expected)
    assert same(by_bits(tensor), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 31, 64, 99])
def test_one_bad_number_anywhere_is_seen(dtype: torch.dtype, bad: float, place: int) -> None:
    tensor = torch.ones(100, dtype=dtype)
    tensor[place] = bad
    expected = math.nan if math.isnan(bad) else math.inf
    assert same(peak(tensor), expected)
    assert same(by_bits(tensor), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [-7.0, 9.0, math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("layout", ["plain", "channels last", "every other row"])
def test_a_tensor_that_is_read_in_pieces(dtype: torch.dtype, bad: float, layout: str) -> None:
    tensor = torch.ones(2, 64, 128, 130, dtype=dtype)
    if layout == "channels last":
        tensor = tensor.to(memory_format=torch.channels_last)
    elif layout == "every other row":
        tensor = tensor[:, :, ::2]
    assert tensor.numel() * tensor.itemsize > _PIECE
    for place in ((0, 0, 0, 0), (0, 63, 40, 129), (1, 63, -1, -1)):
        tensor[place] = bad
        assert same(peak(tensor), abs(bad))
        tensor[place] = 1.0
    assert peak(-3 * tensor) == 3.0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_tensor_whose_sign_is_still_to_be_turned(dtype: torch.dtype) -> None:
    values = torch.complex(torch.ones(600_000), torch.full((600_000,), -3.0)).to(dtype)
    turned = values.conj().imag
    assert turned.is_neg()
    assert turned.numel() * turned.itemsize > _PIECE
    assert peak(turned) == 3.0
    assert by_bits(turned) == 3.0
    assert peak(values.conj()) == 3.0


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(0), 0.0),
        (torch.zeros(3, 0, 2, dtype=torch.float16), 0.0),
        (torch.tensor(-3.5, dtype=torch.bfloat16), 3.5),
        (torch.tensor([-0.0]), 0.0),
        (torch.tensor([True, False]), 1.0),
        (torch.tensor([False]), 0.0),
        (torch.tensor([-(2**63), 5]), 2.0**63),
        (torch.tensor([3], dtype=torch.uint8), 3.0),
        (torch.tensor([3 - 4j, 1j]), 4.0),
        (torch.tensor([2.0, -7.0]).to_sparse(), 7.0),
        (torch.arange(12.0).view(3, 4).t()[::2], 10.0),
        (torch.arange(12.0).half().view(3, 4).expand(2, 3, 4), 11.0),
        (torch.tensor([-9.0], requires_grad=True), 9.0),
        (torch.full((2,), 2.0**-24, dtype=torch.float16), 2.0**-24),
    ],
    ids=str,
)
def test_all_kinds_of_tensors(tensor: torch.Tensor, expected: float) -> None:
    assert peak(tensor) == expected
    assert by_bits(tensor) == expected


@pytest.mark.parametrize("dtype", FP8)
def test_one_byte_floats(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.5, -3.0, 1.25]).to(dtype)
    assert peak(tensor) == by_bits(tensor) == 3.0
    broken = torch.tensor([0.5, math.nan]).to(dtype)
    assert math.isnan(peak(broken))
    assert math.isnan(by_bits(broken))


def test_tensors_without_data_have_no_peak() -> None:
    assert not has_values(torch.zeros(3, device="meta"))
    assert peak(torch.zeros(3, device="meta")) == 0.0


def test_the_buffer_keeps_order_and_grows() -> None:
    buffer = PeakBuffer(2)
    buffer.write(1, torch.tensor([5.0]))
    added = [buffer.add(torch.tensor([float(i)])) for i in range(5000)]
    buffer.write(0, torch.tensor([math.inf], dtype=torch.float16))
    buffer.write(2, torch.zeros(0))
    values = buffer.read()
    assert added == list(range(2, 5002))
    assert len(values) == len(buffer) == 5002
    assert values[:4] == [math.inf, 5.0, 0.0, 1.0]
    assert values[-1] == 4999.0


def test_the_form_for_accelerators_is_read_back_in_one_go() -> None:
    """Slots of several number types, past the first chunk, as an accelerator would fill them."""
    buffer = PeakBuffer()
    tensors = [torch.tensor([[-2.0, float(i)]], dtype=FLOATS[i % 4]) for i in range(4100)]
    tensors[7][0, 0] = math.inf
    tensors[8] = torch.tensor([math.nan])
    for index, tensor in enumerate(tensors):
        assert buffer.add(torch.zeros(0)) == index
        buffer._pending[index] = kind = tensor.device, tensor.dtype
        buffer._write_bits(index, tensor, kind)
    assert all(same(found, peak(tensor)) for found, tensor in zip(buffer.read(), tensors, strict=True))
