"""What each picture of a request is made with: seeds, noises, styles and draws."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.engine_runs import generate
from tests.helpers.read_back import parse_parameters, read_picture

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Style
from halftone.engine.inputs.variation import laid_in, slerp
from halftone.engine.service import DiffusersEngine

RUN: Any = {"steps": 2, "seed": 5, "width": 64, "height": 64}


def pixels(path: str) -> np.ndarray[Any, Any]:
    with Image.open(path) as image:
        return np.asarray(image).astype(int)


def a1111s(share: float, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """`slerp` of A1111's modules/rng.py, for (channels, height, width)."""
    low_norm, high_norm = low / torch.norm(low, dim=1, keepdim=True), high / torch.norm(high, dim=1, keepdim=True)
    omega = torch.acos((low_norm * high_norm).sum(1))
    so = torch.sin(omega)
    first = (torch.sin((1.0 - share) * omega) / so).unsqueeze(1) * low
    return first + (torch.sin(share * omega) / so).unsqueeze(1) * high


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_two_noises_are_joined_as_a1111_joins_them(share: float) -> None:
    low, high = torch.randn(2, 1, 4, 8, 12, generator=torch.Generator().manual_seed(1)).unbind()
    torch.testing.assert_close(slerp(share, low, high)[0], a1111s(share, low[0], high[0]))


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (1, 16, 1, 8, 8), (1, 64, 16), (1, 4, 1, 1)])
def test_what_comes_of_two_noises_is_noise(shape: tuple[int, ...]) -> None:
    low, high = torch.randn(2, *shape, generator=torch.Generator().manual_seed(2)).unbind()
    for share in (0.0, 0.3, 1.0):
        found = slerp(share, low, high)
        assert found.shape == low.shape
        assert found.isfinite().all()
    torch.testing.assert_close(slerp(0.0, low, high), low)
    torch.testing.assert_close(slerp(1.0, low, high), high)
    torch.testing.assert_close(slerp(0.4, low, low), low)
    assert slerp(0.5, low.half(), high.half()).dtype is torch.float16


@pytest.mark.parametrize(("whole", "part"), [((6, 4), (2, 8)), ((4, 4), (4, 4)), ((2, 2), (6, 6)), ((5, 3), (2, 2))])
def test_a_noise_lies_in_the_middle_of_another(whole: tuple[int, int], part: tuple[int, int]) -> None:
    found = laid_in(torch.zeros(1, 1, *whole), torch.ones(1, 1, *part))
    assert found.shape == (1, 1, *whole)
    assert found.sum() == min(whole[0], part[0]) * min(whole[1], part[1])


@pytest.mark.parametrize("family", ["sd15", "sd3"])
def test_a_variation_goes_from_one_picture_to_another(family: str, engine: DiffusersEngine, models: dict[str, Path]) -> None:
    def made(**changes: Any) -> np.ndarray[Any, Any]:
        report, _ = generate(engine, models[family], **(RUN | changes))
        return pixels(report.images[0].path)

    first, last = made(), made(seed=9)
    assert (made(variation_seed=9, variation_strength=0.0) == first).all()
    assert abs(made(variation_seed=9, variation_strength=1.0) - last).max() <= 1, "the sampler of these draws nothing more"
    between = made(variation_seed=9, variation_strength=0.3)
    assert (between == made(variation_seed=9, variation_strength=0.3)).all()
    assert (between != first).any()
    assert (between != last).any()
    assert (made(variation_seed=8, variation_strength=0.3) != between).any()


def test_the_seeds_of_a_batch_count_as_a1111_counts(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], **RUN, batch=2, variation_seed=20, variation_strength=0.25)
    assert [(one.seed, one.variation_seed) for one in report.images] == [(5, 20), (5, 21)]
    text = read_picture(Path(report.images[1].path)).parameters
    fields = parse_parameters(text or "").fields
    assert (fields["Seed"], fields["Variation seed"], fields["Variation seed strength"]) == ("5", "21", "0.25")
    report, _ = generate(engine, models["sd15"], **RUN, batch=2, variation_seed=20)
    assert [(one.seed, one.variation_seed) for one in report.images] == [(5, None), (6, None)]
    text = read_picture(Path(report.images[1].path)).parameters
    assert "Variation" not in (text or "")
    report, _ = generate(engine, models["sd15"], **(RUN | {"seed": 2**64 - 1}), batch=2)
    assert [one.seed for one in report.images] == [2**64 - 1, 0], "after the last seed comes the first one"


def test_a_variation_seed_that_is_not_given_is_drawn_and_told(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], **RUN, variation_strength=0.5)
    seed = report.images[0].variation_seed
    assert seed is not None
    receipt = msgspec.json.decode((read_picture(Path(report.images[0].path)).receipt or "").encode())
    assert receipt["request"]["variation_seed"] == seed
    assert f"Variation seed {seed}: drawn at random." in receipt["request"]["reasons"]


def test_the_noise_of_another_size_is_taken(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    def made(**changes: Any) -> np.ndarray[Any, Any]:
        report, _ = generate(engine, models["sd15"], **(RUN | changes))
        return pixels(report.images[0].path)

    wide = {"width": 96}
    assert (made(**wide) != made(**wide, seed_size=(64, 64))).any()
    assert (made(seed_size=(64, 64)) == made()).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"variation_strength": 1.5}, "Variation strength cannot be 1.5"),
        ({"variation_seed": -1}, "Variation seed cannot be -1"),
        ({"seed_size": (60, 64)}, "is 60, which is not a multiple of 8"),
        ({"prompt": "a __nothing__"}, "The wildcard nothing is unknown: no folder has wildcards"),
    ],
)
def test_what_cannot_be_is_refused(engine: DiffusersEngine, models: dict[str, Path], changes: Any, said: str) -> None:
    with pytest.raises(HalftoneError, match=said):
        generate(engine, models["sd15"], **(RUN | changes))


def test_each_picture_of_a_batch_draws_for_itself(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "colour.txt").write_text("\n".join(f"colour{number}" for number in range(50)))
    asked: Any = {
        **RUN,
        "prompt": "a __colour__ sun",
        "negative": "{ink|oil}",
        "wildcards": (str(tmp_path),),
        "styles": (Style(name="Film", prompt="{prompt}, film"),),
    }
    report, _ = generate(engine, models["sd15"], **asked, batch=3)
    prompts = [one.prompt for one in report.images]
    assert len(set(prompts)) == 3
    assert all(prompt.startswith("a colour") and prompt.endswith(" sun, film") for prompt in prompts)
    for one in report.images:
        found = read_picture(Path(one.path))
        assert parse_parameters(found.parameters or "").prompt == one.prompt
        assert parse_parameters(found.parameters or "").fields["Template"] == "a __colour__ sun"
        receipt = msgspec.json.decode((found.receipt or "").encode())["request"]
        assert (receipt["prompt"], receipt["written"], receipt["styles"]) == (one.prompt, "a __colour__ sun", ["Film"])
        assert (receipt["negative"], receipt["written_negative"]) == (one.negative, "{ink|oil}")
    again, _ = generate(engine, models["sd15"], **(asked | {"seed": report.images[1].seed}))
    assert again.images[0].prompt == prompts[1]
    assert (pixels(again.images[0].path) == pixels(report.images[1].path)).all()
    plain, _ = generate(
        engine, models["sd15"], **(RUN | {"prompt": prompts[1], "negative": report.images[1].negative, "seed": 6})
    )
    assert (pixels(plain.images[0].path) == pixels(report.images[1].path)).all(), "the model read what the receipt says"
    assert plain.images[0].prompt == ""


def test_what_is_not_to_be_drawn_stays_as_it_is(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], **(RUN | {"prompt": "{a|b} __c__"}), draws=False)
    assert parse_parameters(read_picture(Path(report.images[0].path)).parameters or "").prompt == "{a|b} __c__"
