"""A check makes up the pictures, masks, control pictures and frames that a model needs and that were not given."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from tests.bench.families import kin, run
from tests.bench.families.table import CASES
from tests.bench.faults import videos
from tests.bench.faults.parts import ddim
from tests.helpers import tiny
from tests.helpers.controls import save_net
from tests.helpers.engine_runs import check
from tests.helpers.ip_adapters import save_adapter, save_encoder

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control, IpAdapter, Start
from halftone.engine.inputs import made_up
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
NONE: dict[str, Any] = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}


def saved(pipe: Any, folder: Path) -> Path:
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            tiny.liven(part)
    pipe.save_pretrained(folder)
    return folder


def of_sd(kind: str, **parts: Any) -> Any:
    made = tiny.sd15()
    own = {name: made.components[name] for name in ("vae", "text_encoder", "tokenizer", "unet", "scheduler")}
    return getattr(diffusers, kind)(**own, **parts, **NONE)


def net() -> Any:
    unet = tiny.unet(tiny.WIDTH)
    return diffusers.ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(4, 8), load_weights_from_unet=False)


def video_to_video() -> Any:
    parts = videos.cogvideox().components
    return diffusers.CogVideoXVideoToVideoPipeline(**{**parts, "scheduler": ddim(prediction_type="v_prediction")})


WHOLE: dict[str, tuple[Any, tuple[str, ...]]] = {
    "inpainting": (kin.sd15_inpaint, ("picture", "mask")),
    "image to image": (lambda: of_sd("StableDiffusionImg2ImgPipeline"), ("picture",)),
    "ControlNet": (lambda: of_sd("StableDiffusionControlNetPipeline", controlnet=net()), ("control picture",)),
    "ControlNet inpainting": (
        lambda: of_sd("StableDiffusionControlNetInpaintPipeline", controlnet=net()),
        ("picture", "mask", "control picture"),
    ),
    "T2I adapter": (
        lambda: of_sd(
            "StableDiffusionAdapterPipeline",
            adapter=diffusers.T2IAdapter(channels=[8, 16], num_res_blocks=1, downscale_factor=2),
        ),
        ("control picture",),
    ),
    "video to video": (video_to_video, ("video", "max_sequence_length")),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_model_is_checked_without_any_input(name: str, engine: DiffusersEngine, tmp_path: Path) -> None:
    build, wanted = WHOLE[name]
    torch.manual_seed(0)
    report, _ = check(engine, saved(build(), tmp_path / "m"), "float32")
    assert (report.verdict, report.made_up) == ("healthy", wanted)


def test_the_users_own_picture_wins(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = saved(kin.sd15_inpaint(), tmp_path / "m")
    given = str(run.picture(tmp_path / "given.png", 48))
    report, _ = check(engine, model, "float32", image=given)
    assert report.made_up == ("mask",)
    report, _ = check(engine, model, "float32", image=given, mask=str(run.mask(tmp_path / "mask.png", 48)))
    assert report.made_up == ()


def test_nothing_is_made_up_for_a_model_of_words(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    assert check(engine, models["sd15"], "float32")[0].made_up == ()


@pytest.mark.parametrize(("strength", "steps"), [(None, None), (0.2, None), (0.2, 30), (0.05, None)])
def test_a_strength_leaves_three_steps(
    strength: float | None, steps: int | None, engine: DiffusersEngine, tmp_path: Path, models: dict[str, Path]
) -> None:
    """SDXL's image to image has a strength of 0.3 of its own, of which three steps would leave none."""
    given = str(run.picture(tmp_path / "given.png", 32))
    start = Start() if strength is None else Start(strength=strength)
    report, _ = check(engine, models["sdxl"], "float32", image=given, start=start, steps=steps)
    assert report.verdict == "healthy"


def test_a_strength_of_nothing_is_refused_in_its_own_words(
    engine: DiffusersEngine, tmp_path: Path, models: dict[str, Path]
) -> None:
    given = str(run.picture(tmp_path / "given.png", 32))
    with pytest.raises(HalftoneError) as caught:
        check(engine, models["sdxl"], "float32", image=given, start=Start(strength=0.0))
    assert caught.value.code == "value-out-of-range"


def test_a_strength_alone_is_meant_for_the_made_up_picture(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = saved(of_sd("StableDiffusionImg2ImgPipeline"), tmp_path / "m")
    report, _ = check(engine, model, "float32", start=Start(strength=0.5))
    assert report.made_up == ("picture",)


@pytest.mark.parametrize("canny", [False, True])
def test_a_controlnet_without_a_picture_is_given_one(
    canny: bool, engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    control = Control(path=str(save_net(net(), tmp_path / "net")), image="", canny=canny)
    report, _ = check(engine, models["sd15"], "float32", controls=(control,))
    assert report.made_up == ("control picture",)
    assert report.components["controlnet"].modules


def test_an_ip_adapter_without_a_picture_is_given_one(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    save_adapter(models["sd15"], tmp_path / "adapter.safetensors")
    save_encoder(tmp_path)
    adapter = IpAdapter(path=str(tmp_path / "adapter.safetensors"), images=())
    report, _ = check(engine, models["sd15"], "float32", ip_adapters=(adapter,))
    assert report.made_up == ("reference picture",)


def test_a_thorough_check_makes_up_pictures_of_several_sizes(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "SD 1.x inpaint")
    report, _ = check(engine, run.save(case, tmp_path / "m"), "float32", depth="thorough", steps=1)
    assert (report.depth, report.made_up) == ("thorough", ("picture", "mask"))


# --- what is made ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8, 8), (64, 40), (512, 512)])
def test_a_made_up_picture_is_the_same_every_time(size: tuple[int, int]) -> None:
    first, second = made_up.picture(size), made_up.picture(size)
    assert (first.size, first.mode) == (size, "RGB")
    assert np.array_equal(np.asarray(first), np.asarray(second))


def test_a_made_up_picture_has_the_spectrum_of_a_photograph() -> None:
    """Power falls with about the second power of the frequency, as in photographs (Field 1987)."""
    grey = np.asarray(made_up.picture((256, 256)).convert("L")).astype(float)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256)))
    bands = [
        (2.0**-exponent, power[(frequency >= 2.0**-exponent) & (frequency < 2.0 ** (1 - exponent))].mean())
        for exponent in range(2, 7)
    ]
    slope = np.polyfit(np.log([low for low, _ in bands]), np.log([mean for _, mean in bands]), 1)[0]
    assert -3.5 < slope < -1.2
    assert 20 < grey.std() < 90


def test_a_made_up_mask_is_set_in_part_and_edges_are_drawn() -> None:
    mask = np.asarray(made_up.mask((64, 48)))
    assert 0.2 < (mask == 255).mean() < 0.5
    assert set(np.unique(mask)) == {0, 255}
    edges = np.asarray(made_up.edges((64, 48)))
    assert edges.shape == (48, 64, 3)
    assert 0.005 < (edges == 255).mean() < 0.5


def test_made_up_frames_move() -> None:
    frames = [np.asarray(frame) for frame in made_up.frames((64, 48), 5)]
    assert len(frames) == 5
    assert all((one != other).any() for one, other in pairwise(frames))
