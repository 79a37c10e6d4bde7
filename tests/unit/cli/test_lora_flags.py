"""`--lora FILE:WEIGHT`, and with a weight of the text encoder before it."""

from pathlib import Path

import pytest

from halftone.cli.options.flags import loras_of
from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora


@pytest.mark.parametrize(
    ("text", "weight", "encoder"),
    [("", 1, None), (":0.6", 0.6, None), (":0.3:0.8", 0.8, 0.3), (":0.5:0.5", 0.5, None), (":-1:0", 0, -1)],
)
def test_a_file_may_have_one_weight_or_two(tmp_path: Path, text: str, weight: float, encoder: float | None) -> None:
    file = str(tmp_path / "a.safetensors")
    assert loras_of([file + text]) == (Lora(path=file, weight=weight, encoder_weight=encoder),)


def test_a_colon_may_be_of_the_name(tmp_path: Path) -> None:
    file = tmp_path / "a:0.5.safetensors"
    file.touch()
    assert loras_of([str(file), f"{file}:2"]) == (Lora(path=str(file)), Lora(path=str(file), weight=2))


def test_a_weight_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        loras_of([str(tmp_path / "a.safetensors:much")])
    assert caught.value.code == "setting-bad-value"
