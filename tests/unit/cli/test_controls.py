"""What `--control` takes: a ControlNet, its picture, and how much of it; paths with colons and equals signs too."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from halftone.cli.options.flags import _control
from halftone.cli.terminal.command_lines import control_word, extra_words
from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control, Extras, Lora, PictureRequest
from halftone.health.pictures.requests import check_request
from halftone.library.add_ons.preprocessors import check_preprocessors

CONTROL = Control(path="/n/net", image="/p/a.png")


@pytest.mark.parametrize(
    ("text", "image", "scale", "start", "end", "canny"),
    [
        ("/n/net=/p/a.png", "/p/a.png", 1.0, 0.0, 1.0, False),
        ("/n/net=/p/a.png:0.8", "/p/a.png", 0.8, 0.0, 1.0, False),
        ("/n/net=/p/a.png:.8:0.1-0.75", "/p/a.png", 0.8, 0.1, 0.75, False),
        ("/n/net=canny:/p/a.png:2", "/p/a.png", 2.0, 0.0, 1.0, True),
        ("/n/net=/p/a=b.png:1", "/p/a=b.png", 1.0, 0.0, 1.0, False),
        ("/n/net=/p/C:/a.png", "/p/C:/a.png", 1.0, 0.0, 1.0, False),
        ("/n/net=/p/C:/a.png:0.5", "/p/C:/a.png", 0.5, 0.0, 1.0, False),
        ("/n/net=/p/a.png:much", "/p/a.png:much", 1.0, 0.0, 1.0, False),
    ],
)
def test_what_is_typed(text: str, image: str, scale: float, start: float, end: float, canny: bool) -> None:
    preprocessor = "canny" if canny else "none"
    wanted = Control(path="/n/net", image=image, scale=scale, start=start, end=end, preprocessor=preprocessor)
    assert _control(text) == wanted


def test_what_exists_counts_before_what_it_looks_like(tmp_path: Path) -> None:
    net, picture = tmp_path / "a=b", tmp_path / "p.png:0.5"
    net.mkdir()
    picture.write_bytes(b"")
    found = _control(f"{net}={picture}")
    assert (found.path, found.image, found.scale) == (str(net), str(picture), 1.0)
    assert _control(f"{net}={picture}:0.25").scale == 0.25


def test_a_net_alone_has_no_picture() -> None:
    assert _control("/n/net") == Control(path="/n/net", image="")
    assert control_word(_control("/n/net")) == "/n/net"
    with pytest.raises(HalftoneError) as caught:
        check_request(PictureRequest(prompt="a", controls=(_control("/n/net"),)))
    assert str(caught.value).startswith("--control cannot be /n/net. Use CONTROLNET=PICTURE")


def test_an_unknown_control_mode_is_refused() -> None:
    with pytest.raises(HalftoneError) as caught:
        _control("/n/net=canny,mode=mine:/p/a.png")
    assert str(caught.value) == "--control cannot be mode=mine. Use balanced, prompt or control."


@pytest.mark.parametrize("text", ["=/p/a.png", "/n/net=", "/n/net=canny:"])
def test_without_one_of_both_the_form_is_told(text: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        _control(text)
    assert str(caught.value).startswith(f"--control cannot be {text}. Use CONTROLNET=[PREPROCESSOR:]PICTURE[:STRENGTH")


@pytest.mark.parametrize(
    "control",
    [
        CONTROL,
        Control(path="/n/net", image="/p/a.png", scale=0.8, preprocessor="canny"),
        Control(path="/n/net", image="/p/a.png", preprocessor="canny", threshold_a=50.0, threshold_b=100.5, resolution=512),
        Control(path="/n/net", image="/p/a.png", preprocessor="tile_resample", threshold_a=2.0),
        Control(path="/n/net", image="/p/a.png", preprocessor="depth", preprocessor_model="/m/depth, small", resolution=384),
        Control(path="/n/net", image="/p/a.png", scale=0.8, start=0.1, kind="low quality"),
        Control(path="/n/net", image="/p/a.png", resize="fill"),
        Control(path="/n/net", image="/p/a.png", mode="prompt"),
        Control(path="/n/net", image="/p/a.png", preprocessor="canny", resolution=512, resize="crop", mode="control"),
        Control(path="/n/net", image="/p/a.png", preprocessor="canny", threshold_a=50.0, threshold_b=100.5, resize="crop"),
        Control(path="/n/net", image="/p/a.png", preprocessor="depth", preprocessor_model="/m/depth", resize="crop"),
        Control(path="/n/net", image="/p/a.png", preprocessor="pose", threshold_a=0.5, preprocessor_model="/m/vitpose"),
        Control(path="/n/net", image="/p/a.png", scale=0.8, start=0.1, end=0.6),
    ],
)
def test_a_proposed_command_says_the_same(control: Control) -> None:
    assert _control(control_word(control)) == control


def test_all_that_is_used_is_named() -> None:
    extras = Extras(loras=(Lora(path="/l/ink", weight=0.5),), vae="/v/crisp", transformer="/t/a.gguf", controls=(CONTROL,))
    assert extra_words(extras) == [
        "--transformer",
        "/t/a.gguf",
        "--vae",
        "/v/crisp",
        "--lora",
        "/l/ink:0.5",
        "--control",
        "/n/net=/p/a.png:1",
    ]


def test_the_kind_of_a_picture_comes_last() -> None:
    assert _control("/n/net=/p/a.png:depth") == Control(path="/n/net", image="/p/a.png", kind="depth")
    assert _control("/n/net=/p/a.png:0.5:0-0.7:tile") == Control(path="/n/net", image="/p/a.png", scale=0.5, end=0.7, kind="tile")
    assert _control("/n/net=/p/a.png:house").image == "/p/a.png:house"


def test_numbers_of_a_preprocessor_follow_its_name() -> None:
    found = _control("/n/net=canny,50,100.5,res=512:/p/a.png:0.7")
    assert (found.preprocessor, found.thresholds, found.resolution, found.scale) == ("canny", (50.0, 100.5), 512, 0.7)
    assert _control("/n/net=canny:/p/a.png").thresholds == (100, 200)


def test_a_request_that_knew_canny_alone_is_read() -> None:
    old = msgspec.json.decode(b'{"path":"/n/net","image":"/p/a.png","canny":true}', type=Control)
    assert old == Control(path="/n/net", image="/p/a.png", preprocessor="canny")
    assert b'"canny":true' not in msgspec.json.encode(old)


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        ({"preprocessor": "hed"}, "--control cannot be hed"),
        ({"preprocessor": "canny", "threshold_a": 300.0}, "Low threshold of the preprocessor canny"),
        ({"preprocessor": "invert", "threshold_a": 3.0}, "at most 0 numbers for the preprocessor invert"),
        ({"preprocessor": "tile_resample", "resolution": 512}, "works at the picture's own"),
        ({"preprocessor": "canny", "resolution": 8}, "The resolution of the preprocessor canny"),
        ({"preprocessor": "canny", "preprocessor_model": "/m"}, "no model: the preprocessor canny needs none"),
        ({"preprocessor": "depth"}, "a folder with a depth model"),
        ({"preprocessor": "normal"}, "a folder with a depth model, for instance normal,model=FOLDER:PICTURE"),
        ({"preprocessor": "pose"}, "a folder with a pose model"),
        ({"preprocessor": "pose", "preprocessor_model": "/m/none"}, "find a pose with none: config.json is not there"),
        ({"preprocessor": "pose", "threshold_a": 1.5}, "Threshold of the preprocessor pose"),
        ({"preprocessor": "depth", "preprocessor_model": "/m/none"}, "use none as a depth model: config.json is not there"),
    ],
)
def test_what_cannot_be_drawn_is_refused(drawn: dict[str, Any], words: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        check_preprocessors((Control(path="/n/net", image="/p/a.png", **drawn),))
    assert words in str(caught.value)


def test_a_resize_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(HalftoneError) as caught:
        _control("/n/net=canny,resize=squeeze:/p/a.png")
    assert str(caught.value) == "--control cannot be resize=squeeze. Use stretch, crop or fill."
