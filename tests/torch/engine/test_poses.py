"""Poses: the numbers of lllyasviel's annotator for the drawing, and transformers' own models for what is found."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from PIL import Image
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.drawn_pictures import shapes
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.read_back import parse_parameters, read_picture
from transformers import (
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrImageProcessor,
    RTDetrResNetConfig,
    VitPoseBackboneConfig,
    VitPoseConfig,
    VitPoseForPoseEstimation,
    VitPoseImageProcessor,
)

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.control_pictures import pose_notes, prepared
from halftone.engine.inputs.pose_drawing import drawn_poses, openpose_joints
from halftone.engine.service import DiffusersEngine
from halftone.library.add_ons.preprocessors import check_preprocessors

REFERENCES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "references" / "poses.json").read_text())


@pytest.mark.parametrize("case", REFERENCES)
def test_bodies_are_drawn_as_controlnets_were_trained_with(case: str) -> None:
    wanted = REFERENCES[case]
    size = cast("tuple[int, int]", tuple(wanted["size"]))
    people: list[Any] = []
    for points, unseen in zip(wanted["people"], wanted["unseen"], strict=True):
        scores = np.full(17, 0.31)
        scores[unseen] = 0.3
        people.append(openpose_joints(np.array(points), scores, 0.3, size))
    found = drawn_poses(people, size)
    assert hashlib.sha256(found.tobytes()).hexdigest() == wanted["sha256"], float(found.mean()) - wanted["mean"]


def test_joints_outside_the_picture_and_those_that_are_nowhere_are_not_drawn() -> None:
    points = np.full((17, 2), 5.0)
    points[0], points[5], points[9] = (-1, 5), (np.nan, 5), (5, 8)
    joints = openpose_joints(points, np.ones(17), 0.3, (8, 8))
    assert [index for index, joint in enumerate(joints) if joint is None] == [0, 1, 5, 7]


# --- models -----------------------------------------------------------------------------------------------------------


def _pose_model(folder: Path, experts: int = 1, spread: float = 0.3) -> Path:
    torch.manual_seed(5)
    backbone = cast("Any", VitPoseBackboneConfig)(
        image_size=[64, 48], patch_size=[16, 16], hidden_size=16, num_hidden_layers=2, num_attention_heads=2, out_indices=[2],
        num_experts=experts, part_features=4,
    )  # fmt: skip
    with quiet_libraries():
        net = VitPoseForPoseEstimation(cast("Any", VitPoseConfig)(backbone_config=backbone, num_labels=17))
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=spread)
        net.save_pretrained(folder)
        cast("Any", VitPoseImageProcessor)(size={"height": 64, "width": 48}).save_pretrained(folder)
    return folder


def _detector(folder: Path, label: str = "Person", sure: float = 3.0) -> None:
    torch.manual_seed(6)
    backbone = cast("Any", RTDetrResNetConfig)(
        embedding_size=8,
        hidden_sizes=[8, 8, 8, 8],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = cast("Any", RTDetrConfig)(
        backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[8, 8, 8], encoder_layers=1, encoder_ffn_dim=16,
        encoder_attention_heads=2, d_model=16, num_queries=3, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=16,
        decoder_layers=1, decoder_attention_heads=2, decoder_n_points=2, num_denoising=0, id2label={0: "cat", 1: label},
        label2id={"cat": 0, label: 1},
    )  # fmt: skip
    with quiet_libraries():
        net = RTDetrForObjectDetection(config)
        for name, parameter in net.named_parameters():
            if "class_embed" in name and name.endswith("bias"):
                parameter.data = torch.tensor([-9.0, sure])
        net.save_pretrained(folder)
        RTDetrImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)


def _control(folder: Path, threshold: float | None = 0.05) -> Control:
    return Control(path="/n/net", image="i", preprocessor="pose", threshold_a=threshold, preprocessor_model=str(folder))


def _drawn(control: Control) -> Any:
    check_preprocessors((control,))
    return np.asarray(prepared(Image.fromarray(shapes(96, 64)), control, (96, 64)))


@pytest.mark.parametrize("experts", [1, 2])
def test_without_a_detector_the_picture_is_one_person(tmp_path: Path, experts: int) -> None:
    folder = _pose_model(tmp_path / "pose", experts)
    made = _drawn(_control(folder))
    box = [[[0.0, 0.0, 96.0, 64.0]]]
    with quiet_libraries(), torch.inference_mode():
        net = cast("Any", VitPoseForPoseEstimation.from_pretrained(folder)).eval()
        reader = cast("Any", VitPoseImageProcessor.from_pretrained(folder))
        which = {"dataset_index": torch.tensor([0])} if experts > 1 else {}
        outputs = net(**reader(images=Image.fromarray(shapes(96, 64)), boxes=box, return_tensors="pt"), **which)
        [[one]] = reader.post_process_pose_estimation(outputs, boxes=box)
    joints = openpose_joints(one["keypoints"].numpy(), one["scores"].numpy(), 0.05, (96, 64))
    assert sum(joint is not None for joint in joints) > 2
    assert np.array_equal(made, drawn_poses([joints], (96, 64)))
    assert pose_notes((_control(folder), Control(path="/n/other", image="i")))[0].template.startswith("No detector lies")


def test_a_detector_beside_the_model_finds_the_people(tmp_path: Path) -> None:
    folder = _pose_model(tmp_path / "pose")
    alone = _drawn(_control(folder))
    _detector(folder / "detector")
    made = _drawn(_control(folder))
    assert made.max() > 0
    assert not np.array_equal(made, alone)
    assert pose_notes((_control(folder),))[0].template.startswith("The detector beside the pose model found")


def test_a_picture_of_nobody_is_refused(tmp_path: Path) -> None:
    folder = _pose_model(tmp_path / "pose", spread=0.0)
    with pytest.raises(HalftoneError, match=r"no joint scores above 0\.3"):
        _drawn(_control(folder, None))
    _detector(folder / "detector", sure=-9.0)
    with pytest.raises(HalftoneError, match="the detector found no person") as caught:
        _drawn(_control(folder))
    assert caught.value.code == "preprocessor-failed"


def test_folders_of_other_models_are_refused(tmp_path: Path) -> None:
    def refused(said: str) -> None:
        with pytest.raises(HalftoneError, match=said):
            _drawn(_control(tmp_path))

    with pytest.raises(HalftoneError, match="Use a folder with a pose model, for instance pose,model=FOLDER:PICTURE"):
        check_preprocessors((Control(path="n", image="i", preprocessor="pose"),))
    refused(r"config\.json is not there")
    for name in ("preprocessor_config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "config.json").write_text('{"architectures": ["DPTForDepthEstimation"]}')
    refused(r"config\.json names no ViTPose model")
    (tmp_path / "config.json").write_text('{"architectures": ["VitPoseForPoseEstimation"], "id2label": {"0": "nose"}}')
    refused("it finds 1 keypoints, and Halftone draws the 17 of a body in COCO")
    _pose_model(tmp_path)
    (tmp_path / "model.safetensors").write_text("{}")
    refused("cannot be loaded as a ViTPose model")


def test_a_detector_of_other_things_is_refused(tmp_path: Path) -> None:
    control = _control(_pose_model(tmp_path / "pose"))
    place = tmp_path / "pose" / "detector"
    place.mkdir()
    with pytest.raises(HalftoneError, match=r"pose/detector: config\.json is not there"):
        check_preprocessors((control,))
    _detector(place, "dog")
    with pytest.raises(HalftoneError, match="none of its labels is person"):
        check_preprocessors((control,))
    (place / "config.json").write_text('{"architectures": ["VitPoseForPoseEstimation"]}')
    with pytest.raises(HalftoneError, match="names no detector of objects"):
        check_preprocessors((control,))


def test_a_picture_and_a_check_are_made_with_a_pose(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    folder, shown = _pose_model(tmp_path / "vitpose"), picture(tmp_path / "a.png", 64, 64)
    net = str(save_net(make_net(models["sd15"]), tmp_path / "net"))
    control = Control(path=net, image=str(shown), preprocessor="pose", threshold_a=0.05, preprocessor_model=str(folder))
    plain, _ = generate(engine, models["sd15"], controls=(Control(path=net, image=str(shown)),))
    posed, _ = generate(engine, models["sd15"], controls=(control,))
    assert not np.array_equal(pixels(plain), pixels(posed))
    found = read_picture(Path(posed.images[0].path))
    said = parse_parameters(found.parameters or "").fields["ControlNet 0"]
    assert said.startswith("Module: pose, Model: net, ")
    assert "Threshold A: 0.05" in said
    assert "Preprocessor Model: vitpose" in said
    assert "so the control picture of net counts as one person." in (found.receipt or "")
    assert str(tmp_path) not in (found.receipt or "")
    made_up = replace(control, image="", preprocessor_model=str(_pose_model(tmp_path / "blind", spread=0.0)))
    report, _ = check(engine, models["sd15"], controls=(made_up,))
    assert report.controls == (made_up,)
