"""ControlNets for transformers in one file: configured from their shapes, they make the picture that their folder makes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import FluxControlNetModel, SD3ControlNetModel
from safetensors.torch import load_file, save_file
from tests.bench.families import flows
from tests.bench.families.more import used_with
from tests.bench.faults import videos
from tests.helpers.controls import picture
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import liven

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.library.add_ons.controlnets import config_of, kinds_in

pytestmark = pytest.mark.filterwarnings("ignore:`FluxPosEmbed` is deprecated:FutureWarning")
"""Of diffusers' own import."""
SIZES: dict[str, Any] = {"width": 64, "height": 64}
OPTIONS: dict[str, Any] = {"flux": {"max_sequence_length": 64}, "qwen": {"max_sequence_length": 256}}


@pytest.fixture(scope="module")
def folders(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("transformers")
    with quiet_libraries():
        torch.manual_seed(8)
        flows.flux_dev().save_pretrained(folder / "flux")
        videos.qwen_image().save_pretrained(folder / "qwen")
    return {"sd3": models["sd3"], "flux": folder / "flux", "qwen": folder / "qwen"}


def as_one_file(folder: Path) -> Path:
    tensors = {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}
    path = folder.with_suffix(".safetensors")
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("family", ["sd3", "flux", "qwen"])
def test_one_file_makes_the_picture_of_its_folder(
    engine: DiffusersEngine, folders: dict[str, Path], tmp_path: Path, family: str
) -> None:
    (tmp_path / "net").mkdir()
    shown = picture(tmp_path / "shown.png", 64, 64)
    with quiet_libraries():
        asked = used_with("ControlNet", folders[family], tmp_path / "net", shown)
    assert asked is not None
    whole: Control = asked["controls"][0]
    file = as_one_file(Path(whole.path))
    options = OPTIONS.get(family) or {"max_sequence_length": 64}
    given: dict[str, Any] = {"options": options, **SIZES}
    plain, _ = generate(engine, folders[family], **given)
    folder, _ = generate(engine, folders[family], controls=(whole,), **given)
    ours, _ = generate(engine, folders[family], controls=(Control(path=str(file), image=str(shown)),), **given)
    assert (pixels(ours) == pixels(folder)).all()
    assert not (pixels(ours) == pixels(plain)).all()
    other = folders["sd3" if family == "flux" else "flux"]
    with pytest.raises(HalftoneError) as caught:
        generate(engine, other, controls=(Control(path=str(file), image=str(shown)),), **given)
    assert caught.value.code == "control-other-base"


def test_what_the_shapes_tell(tmp_path: Path) -> None:
    """Configurations that published files have: unions, hints in pixels, and SD 3.5's without words or places."""
    shared: dict[str, Any] = {"attention_head_dim": 8, "num_attention_heads": 2, "num_layers": 2}
    own: dict[str, Any] = {"caption_projection_dim": 16, "pooled_projection_dim": 8, "joint_attention_dim": 24}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "union": (FluxControlNetModel, {"num_single_layers": 3, "num_mode": 7, "joint_attention_dim": 24}),
        "hints": (FluxControlNetModel, {"num_single_layers": 0, "conditioning_embedding_channels": 16, "guidance_embeds": True}),
        "sd3": (SD3ControlNetModel, {**own, "extra_conditioning_channels": 1, "pos_embed_max_size": 12}),
        "sd35": (SD3ControlNetModel, {**own, "dual_attention_layers": [0, 1], "qk_norm": "rms_norm"}),
        "sd35 without words": (
            SD3ControlNetModel,
            {**own, "joint_attention_dim": None, "pos_embed_type": None, "use_pos_embed": False},
        ),
    }
    for name, (kind, config) in cases.items():
        with quiet_libraries():
            net = kind(**{"axes_dims_rope": [2, 2, 4]} if kind is FluxControlNetModel else {}, **shared, **config)
        liven(net)
        net.save_pretrained(tmp_path / name)
        found = config_of(str(as_one_file(tmp_path / name)))
        assert {key: found.get(key, value) for key, value in config.items()} == config, name
        assert found["num_layers"] == 2
    assert kinds_in(str(tmp_path / "union.safetensors")) == (
        "canny", "tile", "depth", "blur", "openpose", "gray", "low quality",
    )  # fmt: skip
