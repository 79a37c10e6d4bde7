"""Control modes: how residuals count, as in A1111's extension, and for which prompt."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tests.helpers.adapters import eightfold, make_adapter, save_adapter
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import generate, pixels

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.contract.vocabulary import ControlMode
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.control_nets import Weighed, prompted, set_modes
from halftone.engine.extras.controls import read_controls
from halftone.engine.service import DiffusersEngine

SIZE: dict[str, Any] = {"width": 64, "height": 64}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modes")
    with quiet_libraries():
        model = eightfold(folder / "model", "sd15")
    save_net(make_net(model, hint=(4, 8, 8, 8)), folder / "net")
    save_adapter(make_adapter(model, "full_adapter"), folder / "adapter")
    picture(folder / "square.png", 64, 64)
    return folder


def control(folder: Path, name: str = "net", mode: ControlMode = "balanced", **given: Any) -> Control:
    return Control(path=str(folder / name), image=str(folder / "square.png"), mode=mode, **given)


def test_residuals_count_less_the_further_they_stand_and_only_for_the_prompt(engine: DiffusersEngine, folder: Path) -> None:
    """Mikubill/sd-webui-controlnet, scripts/hook.py: weight × 0.825 ** (12 − index), and × 0 for the negative prompt."""
    generate(engine, folder / "model", controls=(control(folder),), **SIZE)
    assert engine.loaded is not None
    for name, scales in (("net", [0.825 ** (12 - index) for index in range(13)]), ("adapter", [0.25, 0.62, 0.825, 1.0])):
        net: Any = read_controls(engine.loaded, [str(folder / name)])
        torch.manual_seed(4)
        given = torch.randn(2, 4, 8, 8), 500, torch.randn(2, 7, 16), torch.rand(2, 3, 64, 64), 0.7

        def made(mode: ControlMode, net: Any = net, given: Any = given, name: str = name) -> list[torch.Tensor]:
            set_modes(net, [control(folder, name, mode)])
            with torch.no_grad(), prompted(net, 1)(net):
                down, middle = net(*given)
            return [*down, middle]

        balanced, soft, own = made("balanced"), made("prompt"), made("control")
        assert net.unprompted == 0
        for plain, one, other, scale in zip(balanced, soft, own, scales, strict=False):
            assert torch.allclose(one, plain * scale, rtol=1e-5, atol=0)
            assert torch.equal(other, torch.cat([torch.zeros_like(one[:1]), one[1:]]))


@pytest.mark.parametrize("name", ["net", "adapter"])
def test_each_mode_makes_a_picture_of_its_own(engine: DiffusersEngine, folder: Path, name: str) -> None:
    several = [(control(folder, name, mode),) for mode in get_args(ControlMode)]
    made = [generate(engine, folder / "model", controls=one, guidance=5.0, **SIZE)[0] for one in several]
    assert {one.images[0].state for one in made} == {"clean"}
    assert len({pixels(one).tobytes() for one in made}) == 3
    assert engine.loaded is not None
    assert isinstance(engine.loaded.controlnet, Weighed)
    both = [(control(folder, mode=mode), control(folder, "adapter")) for mode in get_args(ControlMode)]
    together = [generate(engine, folder / "model", controls=one, prompt="a AND b", guidance=5.0, **SIZE)[0] for one in both]
    assert len({pixels(one).tobytes() for one in together}) == 3


def test_without_guidance_all_of_a_call_is_for_the_prompt(engine: DiffusersEngine, folder: Path) -> None:
    modes: tuple[ControlMode, ...] = ("prompt", "control")
    one, other = (generate(engine, folder / "model", controls=(control(folder, mode=m),), guidance=1.0, **SIZE)[0] for m in modes)
    assert (pixels(one) == pixels(other)).all()


def test_a_transformers_controlnet_has_no_other_mode(
    engine: DiffusersEngine, models: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    net = save_net(make_net(models["sd3"]), tmp_path / "net")
    wanted = Control(path=str(net), image=str(folder / "square.png"), mode="control")
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd3"], family="sd3", controls=(wanted,))
    assert caught.value.code == "setting-bad-value"
    assert "The control mode of net cannot be control" in str(caught.value)
