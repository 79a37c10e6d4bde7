"""Videos: every frame is computed, looked at, cured where it is black, and saved with its receipt."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.engine_runs import generate
from tests.helpers.read_back import parse_parameters, read_picture, read_video
from tests.helpers.tiny_video import save_video_model, start_picture
from tests.torch.engine.test_going_on import hooked, once

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GenerateReport, PictureFacts
from halftone.contract.messages import PhaseChanged, PictureReady
from halftone.contract.request import OptionValue, PictureRequest
from halftone.engine.inputs.resolve import pipeline_arguments
from halftone.engine.inputs.wanted import of_request
from halftone.engine.sampling.frames import to_pixels
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import is_flat, psnr
from halftone.metadata.video import read_frames

ASKED: dict[str, dict[str, Any]] = {
    "svd": {"prompt": "", "num_frames": 4, "options": {}},
    "animatediff": {"num_frames": 4, "options": {}},
    "wan": {"num_frames": 5, "options": {"max_sequence_length": 32}},
    "ltx": {"num_frames": 9, "options": {"max_sequence_length": 32}},
    "cogvideox": {"num_frames": 9, "options": {"max_sequence_length": 16}},
}
RATES = {"svd": 7, "animatediff": 8, "wan": 16, "ltx": 25, "cogvideox": 8}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("films")
    start_picture(folder / "start.png")
    return {name: save_video_model(folder / name, name) for name in ASKED}


def film(engine: DiffusersEngine, model: Path, name: str, **changes: Any) -> tuple[GenerateReport, Any]:
    given: dict[str, Any] = {**ASKED[name], **({"image": str(model.parent / "start.png")} if name == "svd" else {}), **changes}
    options: dict[str, OptionValue] = {**ASKED[name]["options"], **changes.get("options", {})}
    given["options"] = options
    return generate(engine, model, given.pop("precision", "float32"), **given)


def shown(picture: PictureFacts) -> list[NDArray[np.uint8]]:
    return [frame for frame, _ in read_frames(Path(picture.path))]


@pytest.mark.parametrize("name", ASKED)
def test_all_frames_are_saved_as_a_video_with_its_receipt(engine: DiffusersEngine, films: dict[str, Path], name: str) -> None:
    report, events = film(engine, films[name], name)
    picture = report.images[0]
    count = ASKED[name]["num_frames"]
    assert (picture.state, picture.black, picture.finite, picture.flat_frames, picture.broken_frames) == (
        "clean",
        False,
        True,
        (),
        (),
    )
    assert (picture.frames, picture.fps, Path(picture.path).suffix) == (count, RATES[name], ".mp4")
    frames = shown(picture)
    assert len(frames) == count
    assert {frame.shape for frame in frames} == {(picture.height, picture.width, 3)}
    found = read_video(Path(picture.path))
    assert parse_parameters(found.parameters or "").fields["Frames"] == str(count)
    receipt = json.loads(found.receipt or "")["receipt"]
    assert (receipt["frames"], receipt["fps"], receipt["state"]) == (count, RATES[name], "clean")
    assert events.of(PictureReady)[0].facts == picture
    assert [event.done for event in events.of(PhaseChanged) if event.phase == "save"][-1] == count
    assert not [reason for reason in report.plan.reasons if "frames" in str(reason)]


def test_the_frames_are_those_that_diffusers_itself_makes(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    from tests.helpers.tiny import load_tiny

    from halftone.engine.basics.quiet import quiet_libraries

    report, _ = film(engine, films["wan"], "wan")
    with quiet_libraries():
        made = load_tiny(films["wan"])(
            "a red sun",
            width=32,
            height=32,
            num_frames=5,
            num_inference_steps=3,
            max_sequence_length=32,
            generator=torch.Generator().manual_seed(5),
            output_type="pt",
        ).frames[0]
    theirs = [to_pixels(frame) for frame in made]
    ours = shown(report.images[0])
    own = [psnr(frame, mine) for frame, mine in zip(theirs, ours, strict=True)]
    crossed = [psnr(frame, mine) for frame, mine in zip(theirs, ours[1:] + ours[:1], strict=True)]
    assert min(own) > 24  # noise is what a compressed video keeps worst
    assert min(own) > max(crossed)


def test_the_name_says_what_is_written(engine: DiffusersEngine, films: dict[str, Path], tmp_path: Path) -> None:
    webp = film(engine, films["wan"], "wan", output=str(tmp_path / "a.webp"), fps=5)[0].images[0]
    with Image.open(webp.path) as image:
        assert (getattr(image, "n_frames", 1), image.format, webp.fps) == (5, "WEBP", 5)
    assert "FPS" in (read_picture(Path(webp.path)).parameters or "")
    folder = film(engine, films["wan"], "wan", output=str(tmp_path), video="webp")[0].images[0]
    assert Path(folder.path).name == "00001-5.webp"
    still, _ = film(engine, films["wan"], "wan", output=str(tmp_path / "a.png"))
    assert (still.images[0].frames, still.images[0].fps) == (1, None)
    assert "5 frames were computed; the first one is saved." in map(str, still.plan.reasons)
    one = film(engine, films["wan"], "wan", output=str(tmp_path), num_frames=1)[0].images[0]
    assert (Path(one.path).name, one.frames, one.fps) == ("00002-5.png", 1, None)
    assert sorted(os.listdir(tmp_path)) == ["00001-5.webp", "00002-5.png", "a.png", "a.webp"]


@pytest.mark.parametrize(
    ("changes", "moving", "shown_at"),
    [({}, None, 7), ({"fps": 24}, 24, 24), ({"fps": 7, "options": {"fps": 24}}, 24, 7), ({"options": {"fps": 12}}, 12, 12)],
)
def test_frames_per_second_reach_the_pipeline_that_takes_the_movement_from_them(
    engine: DiffusersEngine, films: dict[str, Path], changes: dict[str, Any], moving: int | None, shown_at: int
) -> None:
    assert film(engine, films["svd"], "svd", **changes)[0].images[0].fps == shown_at
    assert engine.loaded is not None
    request = PictureRequest(prompt="", image=str(films["svd"].parent / "start.png"), **changes)
    given = pipeline_arguments(engine.loaded.pipe, of_request(request, engine.loaded.facts), None)
    assert given.get("fps") == moving


# --- black frames ----------------------------------------------------------------------------------


def black_in_half(*frames: int) -> Any:
    """Blackens frames of a decoder that runs in FP16; what is not black then is as it was."""

    def strike(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        if output.dtype != torch.float16:
            return None
        spoiled = output.clone()
        spoiled[:, :, list(frames)] = -1
        return spoiled

    return strike


@pytest.mark.parametrize("name", ["wan", "svd"])
def test_a_black_frame_in_the_middle_is_decoded_again(engine: DiffusersEngine, films: dict[str, Path], name: str) -> None:
    last = {"wan": "decoder.conv_out", "svd": "decoder.time_conv_out"}[name]
    whole = shown(film(engine, films[name], name)[0].images[0])
    film(engine, films[name], name, precision="float16")
    frame = {"wan": 0, "svd": 2}[name]  # Wan's decoder makes a latent frame's frames at a time: the first of each is struck
    with hooked(engine, "vae", last, black_in_half(frame)):
        picture = film(engine, films[name], name, precision="float16")[0].images[0]
    assert picture.state == "recovered"
    assert (picture.black, picture.flat_frames) == (False, ())
    event = picture.events[-1]
    assert (event.kind, event.action, event.component) == ("flat", "decoded-again", "vae")
    assert 1 < max(event.frames) <= picture.frames
    assert all(psnr(one, two) > 24 for one, two in zip(shown(picture), whole, strict=True))


def test_a_video_that_begins_black_also_in_float32_is_kept_and_told(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    def strike(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor:
        spoiled = output.clone()
        spoiled[:, :, 0] = -1
        return spoiled

    film(engine, films["svd"], "svd", precision="float16")
    with hooked(engine, "vae", "decoder.time_conv_out", strike):
        picture = film(engine, films["svd"], "svd", precision="float16")[0].images[0]
    assert (picture.state, picture.black, picture.flat_frames) == ("not-recovered", True, (1,))
    assert [(event.action, event.frames) for event in picture.events] == [("kept", (1,))]
    assert [is_flat(frame) for frame in shown(picture)] == [True, False, False, False]


def test_of_two_black_frames_the_one_that_float32_has_is_mended(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    def strike(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor:
        spoiled = output.clone()
        spoiled[:, :, [0, 2] if output.dtype == torch.float16 else [0]] = -1
        return spoiled

    film(engine, films["svd"], "svd", precision="float16")
    with hooked(engine, "vae", "decoder.time_conv_out", strike):
        picture = film(engine, films["svd"], "svd", precision="float16")[0].images[0]
    assert (picture.state, picture.flat_frames) == ("not-recovered", (1,))
    assert [(event.action, event.frames) for event in picture.events] == [("decoded-again", (3,)), ("kept", (1,))]


def test_a_bad_number_in_one_frame_names_that_frame(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    def nan_in_the_third(output: torch.Tensor) -> torch.Tensor:
        spoiled = output.clone()
        spoiled[:, :, 2] = torch.nan
        return spoiled

    film(engine, films["svd"], "svd", precision="float16")
    with hooked(engine, "vae", "decoder.time_conv_out", once(nan_in_the_third)):
        picture = film(engine, films["svd"], "svd", precision="float16")[0].images[0]
    assert (picture.state, picture.events[0].frames, picture.broken_frames) == ("recovered", (3,), ())


def test_unwatched_the_receipt_still_names_the_bad_frames(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    def strike(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor:
        spoiled = output.clone()
        spoiled[:, :, 1] = torch.nan
        return spoiled

    film(engine, films["svd"], "svd", precision="float16")
    with hooked(engine, "vae", "decoder.time_conv_out", strike):
        picture = film(engine, films["svd"], "svd", precision="float16", nan_check="off")[0].images[0]
    assert (picture.state, picture.black, picture.finite, picture.broken_frames, picture.flat_frames) == (
        "unwatched",
        True,
        False,
        (2,),
        (2,),
    )


# --- in parts --------------------------------------------------------------------------------------


def test_frames_that_are_decoded_in_parts_are_found_in_theirs(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    chunks: dict[str, Any] = {"options": {"decode_chunk_size": 2}}
    film(engine, films["svd"], "svd", precision="float16", **chunks)
    with hooked(engine, "vae", "decoder.time_conv_out", black_in_half(1)):
        picture = film(engine, films["svd"], "svd", precision="float16", **chunks)[0].images[0]
    assert (picture.state, picture.flat_frames) == ("recovered", ())
    assert picture.events[0].frames == (2,), "the fourth frame is mended by the cure of the second"
    assert len(picture.events) == 1


def test_what_fails_in_a_part_is_finished_from_its_steps(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    """The latents of one part would be a shorter video."""
    chunks: dict[str, Any] = {"options": {"decode_chunk_size": 2}}
    whole = film(engine, films["svd"], "svd", video="webp", **chunks)[0].images[0]
    with hooked(engine, "vae", "decoder.time_conv_out", once(lambda output: output * torch.nan, 2)):
        stopped = film(engine, films["svd"], "svd", on_black="stop", video="webp", **chunks)[0].images[0]
    assert (stopped.state, stopped.kept_step, stopped.fps) == ("not-recovered", 3, 7)
    assert stopped.latents is not None
    finished, _ = generate(
        engine,
        films["svd"],
        prompt="",
        resume_latents=stopped.latents,
        video="webp",
        width=None,
        height=None,
        steps=None,
        seed=None,
    )
    assert finished.images[0].state == "clean"
    assert all((one == two).all() for one, two in zip(shown(whole), shown(finished.images[0]), strict=True))


@pytest.mark.parametrize("name", ["svd", "wan"])
def test_kept_latents_of_a_video_become_the_whole_video(engine: DiffusersEngine, films: dict[str, Path], name: str) -> None:
    last = {"wan": "decoder.conv_out", "svd": "decoder.time_conv_out"}[name]
    whole = film(engine, films[name], name, fps=12, video="webp")[0].images[0]
    with hooked(engine, "vae", last, once(lambda output: output * torch.nan)):
        stopped = film(engine, films[name], name, fps=12, on_black="stop")[0].images[0]
    assert stopped.latents is not None
    finished, _ = generate(
        engine, films[name], resume_latents=stopped.latents, video="webp", width=None, height=None, steps=None, seed=None
    )
    picture = finished.images[0]
    assert (picture.state, picture.frames, picture.fps) == ("clean", whole.frames, 12)
    assert all((one == two).all() for one, two in zip(shown(whole), shown(picture), strict=True))


# --- a video of a picture --------------------------------------------------------------------------


def test_a_video_of_a_picture_needs_one(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError) as caught:
        film(engine, films["svd"], "svd", image=None)
    assert caught.value.code == "picture-needed"


def test_what_moves_how_much_can_be_asked_for(engine: DiffusersEngine, films: dict[str, Path]) -> None:
    calm, _ = film(engine, films["svd"], "svd")
    wild, _ = film(engine, films["svd"], "svd", options={"motion_bucket_id": 250, "noise_aug_strength": 0.5})
    assert any((one != two).any() for one, two in zip(shown(calm.images[0]), shown(wild.images[0]), strict=True))
    strict, _ = film(engine, films["svd"], "svd", guidance=1.5)
    assert any((one != two).any() for one, two in zip(shown(calm.images[0]), shown(strict.images[0]), strict=True))
    reasons = json.loads(read_video(Path(calm.images[0].path)).receipt or "")["request"]["reasons"]
    assert "Prompt: this model does not use one." not in reasons, "none was given"


ATTENTION = "down_blocks.0.attentions.0.transformer_blocks.0.attn1"


def large_scores(pipe: Any) -> None:
    """Queries and keys fit into FP16 while their products do not."""
    attention = pipe.unet.get_submodule(ATTENTION)
    for name in ("to_q", "to_k"):
        weight = attention.get_submodule(name).weight
        weight *= 2048 / weight.abs().max()


def test_scores_that_leave_half_precision_are_found_named_and_cured(engine: DiffusersEngine, tmp_path: Path) -> None:
    """On a processor only the math backend with half-precision sums keeps scores in FP16; elsewhere more do."""
    start_picture(tmp_path / "start.png")
    model = save_video_model(tmp_path / "svd", "svd", large_scores)
    half: dict[str, Any] = {"precision": "float16", "attention_backend": "math", "math_attention_reduction": True}
    wide = film(engine, model, "svd")[0].images[0]
    silent = film(engine, model, "svd", nan_check="off", **half)[0].images[0]
    assert (silent.black, silent.flat_frames) == (True, (1, 2, 3, 4)), "the fault is there"
    report, _ = film(engine, model, "svd", **half)
    picture = report.images[0]
    assert picture.state == "recovered"
    assert (picture.events[0].component, picture.events[0].module) == ("unet", ATTENTION)
    assert picture.flat_frames == ()
    assert all(psnr(one, two) > 24 for one, two in zip(shown(picture), shown(wide), strict=True))
