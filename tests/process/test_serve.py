"""`halftone serve` as a real process with the demo model; the client knows only what A1111 publishes of its web API."""

import base64
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psutil
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.scripted import ROOT
from tests.helpers.writing import recorder

from halftone.contract.vocabulary import POCKET
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.inputs.preprocessors import drawn
from halftone.library.models import describe

_SMALL: Final = {"steps": 4, "cfg_scale": 5, "width": 64, "height": 64, "sampler_name": "Euler a"}


class Service(NamedTuple):
    """A running service: its port, its token, its process and its folder of models."""

    port: int
    token: str
    process: "subprocess.Popen[str]"
    models: Path

    def ask(self, name: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status and answer; a GET without a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        known = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        sent = {key.replace("_", "-"): value for key, value in known.items() if value}
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(
                "GET" if data is None else "POST", name if name.startswith("/") else f"/sdapi/v1/{name}", data, sent
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = dict(os.environ)
    home = tmp_path_factory.mktemp("serve")
    found["HALFTONE_DATA"] = str(home)
    make_fragile(Path(describe(POCKET).path), home / "fragile")
    (home / "more").mkdir()
    (home / "settings.toml").write_text(
        f"[folders]\nmodels = ['{home / 'fragile'}', '{home / 'gone'}', '{home / 'more'}']\n[numerics]\nprecision = 'float16'\n"
    )
    windows = home / "data" / "windows"
    windows.mkdir(parents=True)
    for name in ("1.queue", "1.drafts"):
        (windows / name).write_text("of a window")
    before = {path: path.read_bytes() for path in (home / "settings.toml", *windows.iterdir())}
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT / "app"), str(ROOT), recorder.FOLDER])
    arguments = [sys.executable, "-P", "-m", "halftone", "serve", "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=found)
    assert process.stdout is not None
    port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
    token = process.stdout.readline().split()[1]
    workers = lambda: psutil.Process(process.pid).children(recursive=True)  # noqa: E731
    yield Service(port, token, process, home / "more")
    left = workers()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    process.stdout.close()
    assert not psutil.wait_procs(left, 10)[1]
    assert {path: path.read_bytes() for path in (home / "settings.toml", *windows.iterdir())} == before, "a window's"


def opened(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


def test_makes_a_picture_of_words(service: Service) -> None:
    status, answer = service.ask("txt2img", {"prompt": "a red circle", "seed": 7, "batch_size": 2, **_SMALL})
    assert status == 200
    assert [opened(image).size for image in answer["images"]] == [(64, 64), (64, 64)]
    info = json.loads(answer["info"])
    assert info["all_seeds"] == [7, 8]
    assert info["sampler_name"] == "Euler a"
    assert "Euler a" not in info["scheduler"]
    assert abs(datetime.now() - datetime.strptime(info["job_timestamp"], "%Y%m%d%H%M%S")) < timedelta(minutes=10)
    assert info["infotexts"][0].startswith("a red circle\nSteps: 4, Sampler: Euler a")
    assert answer["warnings"] == []
    again = service.ask("txt2img", {"prompt": "a red circle", "seed": 8, **_SMALL})[1]
    assert opened(again["images"][0]).tobytes() == opened(answer["images"][1]).tobytes()


def test_makes_a_picture_of_another_and_inside_a_mask(service: Service) -> None:
    first = service.ask("txt2img", {"prompt": "a red circle", "seed": 7, **_SMALL})[1]["images"][0]
    mask = Image.new("L", (64, 64), 0)
    mask.paste(255, (32, 0, 64, 64))
    file = io.BytesIO()
    mask.save(file, "PNG")
    body = {"prompt": "a blue circle", "init_images": [first], "seed": 9, "denoising_strength": 0.9, **_SMALL}
    inside = {"mask": base64.b64encode(file.getvalue()).decode(), "mask_blur": 0, "inpainting_fill": 1, "inpaint_full_res": False}
    status, whole = service.ask("img2img", body)
    assert status == 200
    left = (0, 0, 24, 64)
    before = opened(first).convert("RGB").crop(left).tobytes()
    assert opened(whole["images"][0]).convert("RGB").crop(left).tobytes() != before
    status, part = service.ask("img2img", {**body, **inside})
    assert status == 200
    assert opened(part["images"][0]).convert("RGB").crop(left).tobytes() == before


def in_base64(picture: Image.Image, kind: str = "PNG", **options: Any) -> str:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def test_a_mask_is_turned_as_its_camera_noted(service: Service) -> None:
    first = service.ask("txt2img", {"prompt": "a red circle", "seed": 7, **_SMALL})[1]["images"][0]
    mask = Image.new("L", (64, 64), 0)
    mask.paste(255, (32, 0, 64, 64))
    orientation = Image.Exif()
    orientation[0x0112] = 6  # it is to be shown turned to the right, so that its left is at the top
    turned = in_base64(mask.transpose(Image.Transpose.ROTATE_90), exif=orientation)
    inside = {"mask_blur": 0, "inpainting_fill": 1, "inpaint_full_res": False, "denoising_strength": 0.9}
    body = {"prompt": "a blue circle", "init_images": [first], "seed": 9, **inside, **_SMALL}
    plain = service.ask("img2img", {**body, "mask": in_base64(mask)})[1]["images"][0]
    assert opened(service.ask("img2img", {**body, "mask": turned})[1]["images"][0]).tobytes() == opened(plain).tobytes()


def test_a_picture_that_cannot_be_used_is_named_by_its_field(service: Service) -> None:
    small, damaged = in_base64(Image.new("RGB", (64, 64))), in_base64(Image.new("RGB", (64, 64), "red"))[:100]
    large, body = in_base64(Image.new("1", (9000, 8000))), {"prompt": "a", **_SMALL}
    for mask, words in (
        (large, "The picture mask exceeds 64 million pixels."),
        (damaged, "The picture mask is damaged"),
        ("bm90IGEgcGljdHVyZQ==", "mask is not a readable picture."),
        ("?", "mask is not a readable picture."),
    ):
        status, answer = service.ask("img2img", {**body, "init_images": [small], "mask": mask})
        assert (status, words in answer["detail"]) == (422, True), answer
    status, answer = service.ask("img2img", {**body, "init_images": ["bm90IGEgcGljdHVyZQ=="]})
    assert (status, "init_images is not a readable picture." in answer["detail"]) == (422, True)
    status, answer = service.ask("png-info", {"image": "bm90IGEgcGljdHVyZQ=="})
    assert (status, "image is not a readable picture." in answer["detail"]) == (422, True)


@pytest.mark.parametrize("text", ["", "only a prompt"])
def test_a_picture_without_settings_says_what_it_has(service: Service, text: str) -> None:
    """As A1111, which refuses none."""
    chunks = PngInfo()
    if text:
        chunks.add_text("parameters", text)
    status, answer = service.ask("png-info", {"image": in_base64(Image.new("RGB", (8, 8)), pnginfo=chunks)})
    assert (status, answer["info"], answer["parameters"]) == (200, text, {"Prompt": text, "Negative prompt": ""})


def test_what_a_picture_says_of_itself(service: Service) -> None:
    made = service.ask("txt2img", {"prompt": "a green square", "seed": 3, **_SMALL})[1]["images"][0]
    status, answer = service.ask("png-info", {"image": f"data:image/png;base64,{made}"})
    assert status == 200
    assert answer["info"].startswith("a green square\nSteps: 4")
    assert answer["parameters"]["Seed"] == "3"


def test_follows_and_interrupts_a_picture(service: Service) -> None:
    answers: list[tuple[int, Any]] = []
    long = {"prompt": "a red circle", "steps": 150, "width": 256, "height": 256, "sampler_name": "Euler a"}
    client = threading.Thread(target=lambda: answers.append(service.ask("txt2img", long)))
    client.start()
    shares: list[float] = []
    seen: Any = None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen = service.ask("progress")[1]
        shares.append(seen["progress"])
        if seen["state"]["sampling_step"] >= 2 and seen["current_image"] is not None:
            break
        time.sleep(0.02)
    assert opened(seen["current_image"]).size[0] > 0
    assert len(seen["state"]["job_timestamp"]) == 14
    assert service.ask("progress?skip_current_image=true")[1]["current_image"] is None
    assert service.ask("interrupt", {})[0] == 200
    client.join(60)
    assert shares == sorted(shares)
    ((status, answer),) = answers
    assert status == 200
    assert len(answer["images"]) == 1
    assert json.loads(answer["info"])["steps"] < 150
    assert service.ask("progress")[1]["state"]["job_count"] == 0


def test_a_recovered_picture_says_so(service: Service) -> None:
    chosen = {"override_settings": {"sd_model_checkpoint": "fragile"}}
    status, answer = service.ask("txt2img", {"prompt": "a red circle", "seed": 7, **chosen, **_SMALL})
    assert status == 200
    assert answer["warnings"], answer["info"]
    assert "recovered" in " ".join(answer["warnings"])
    assert json.loads(answer["info"])["warnings"] == answer["warnings"]
    assert len(set(opened(answer["images"][0]).convert("L").tobytes())) > 20


def test_lists_what_there_is(service: Service) -> None:
    assert [model["model_name"] for model in service.ask("sd-models")[1]] == ["Pocket (demo)", "Fragile Pocket (demo)"]
    assert "Euler a" in [one["name"] for one in service.ask("samplers")[1]]
    assert "Karras" in [one["label"] for one in service.ask("schedulers")[1]]
    assert service.ask("loras")[1] == []
    assert service.ask("options")[1]["sd_model_checkpoint"] == "Pocket (demo)"
    assert [one["name"] for one in service.ask("upscalers")[1]] == ["None", "Lanczos"]
    assert service.ask("latent-upscale-modes")[1] == [{"name": "Latent"}]
    assert service.ask("sd-vae")[1] == []
    ram = service.ask("memory")[1]["ram"]
    assert 0 < ram["free"] < ram["total"]
    assert ram["free"] + ram["used"] == ram["total"]
    assert service.ask("memory")[1]["cuda"] == {"error": "unavailable"}
    assert service.ask("scripts")[1] == {"txt2img": [], "img2img": []}
    for name in ("hypernetworks", "face-restorers", "realesrgan-models", "script-info", "extensions"):
        assert service.ask(name) == (200, [])
    for name in ("refresh-checkpoints", "refresh-loras", "refresh-vae", "refresh-embeddings"):
        assert service.ask(name, {}) == (200, {})
    assert service.ask("interrogate", {"image": ""})[0] == 404


def test_a_model_can_be_chosen_for_all_later_requests(service: Service) -> None:
    """As Open WebUI and SillyTavern do it."""
    options = service.ask("options")[1]
    assert service.ask("options", {**options, "sd_model_checkpoint": "Fragile Pocket (demo)"}) == (200, {"warnings": []})
    try:
        assert service.ask("options")[1]["sd_model_checkpoint"] == "Fragile Pocket (demo)"
        info = json.loads(service.ask("txt2img", {"prompt": "a", "seed": 1, **_SMALL})[1]["info"])
        assert info["sd_model_name"] == "Fragile Pocket (demo)"
        other = {"override_settings": {"sd_model_checkpoint": "Pocket (demo)"}}
        assert (
            json.loads(service.ask("txt2img", {"prompt": "a", **other, **_SMALL})[1]["info"])["sd_model_name"] == "Pocket (demo)"
        )
    finally:
        assert service.ask("options", {"sd_model_checkpoint": None})[0] == 200
    assert service.ask("options")[1] == options
    assert service.ask("options", {"inpainting_mask_weight": 0.5})[1] == {"warnings": ["Not used: inpainting_mask_weight."]}
    status, answer = service.ask("options", {"sd_model_checkpoint": "gone"})
    assert (status, answer["error"]) == (404, "model-unknown")
    assert answer["detail"] == (
        "There is no model named gone. It may have been moved or deleted. "
        "Choose Pocket (demo) or Fragile Pocket (demo), or restore its file and refresh the list of models."
    )


def watching(service: Service) -> set[int]:
    """The processes that watch the folders, once the missing one was taken off the list, which starts another."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = psutil.Process(service.process.pid).children(recursive=True)
        watchers = {one.pid: one.cmdline() for one in children if "--watch" in one.cmdline()}
        if watchers and not any(argument.endswith("gone") for line in watchers.values() for argument in line):
            return set(watchers)
        time.sleep(0.05)
    raise AssertionError("nothing watches")


def test_a_refresh_answers_once_the_folders_were_read(service: Service) -> None:
    before, files = watching(service), lambda: [model["filename"] for model in service.ask("sd-models")[1]]
    assert len(before) == 1
    for number in range(2):
        name = f"Fresh {number}"
        folder = service.models / name
        shutil.copytree(describe(POCKET).path, folder)
        assert service.ask("refresh-checkpoints", {}) == (200, {})
        assert str(folder) in files()
        assert service.ask("options", {"sd_model_checkpoint": name})[0] == 200
        shutil.rmtree(folder)
        assert service.ask("refresh-checkpoints", {}) == (200, {})
        assert str(folder) not in files()
        assert service.ask("options")[1]["sd_model_checkpoint"] == name
        status, answer = service.ask("txt2img", {"prompt": "a", **_SMALL})
        assert (status, f"There is no model named {name}." in answer["detail"]) == (404, True)
        assert service.ask("options", {"sd_model_checkpoint": None})[0] == 200
    assert watching(service) == before


def test_answers_what_sillytavern_sends(service: Service) -> None:
    body = {
        "prompt": "a red circle", "negative_prompt": "", "sampler_name": "DPM++ 2M", "scheduler": "karras", "steps": 4,
        "cfg_scale": 5, "width": 64, "height": 64, "restore_faces": False, "enable_hr": True, "hr_upscaler": "Latent",
        "hr_scale": 2, "denoising_strength": 0.7, "hr_second_pass_steps": 2, "seed": 7,
        "override_settings": {"CLIP_stop_at_last_layers": 1}, "override_settings_restore_afterwards": True, "clip_skip": 1,
        "save_images": True, "send_images": True, "do_not_save_grid": False, "do_not_save_samples": False,
    }  # fmt: skip
    status, answer = service.ask("txt2img", body)
    assert (status, answer["warnings"]) == (200, [])
    assert opened(answer["images"][0]).size == (128, 128)
    info = json.loads(answer["info"])
    assert (info["sampler_name"], info["scheduler"], info["denoising_strength"]) == ("DPM++ 2M", "Karras", 0.7)
    assert info["extra_generation_params"]["Schedule type"] == "Karras"
    assert info["extra_generation_params"]["Hires upscale"] == "2"
    assert info["steps"] == 4, "of the first pass, as in A1111"


def test_a_controlnet_steers_as_a_unit_of_a1111_asks(service: Service) -> None:
    net = save_net(make_net(Path(describe(POCKET).path), hint=(4, 8, 8)), service.models / "control_edges", "diffusers")
    assert service.ask("refresh-checkpoints", {}) == (200, {})
    assert service.ask("/controlnet/model_list") == (200, {"model_list": ["control_edges"]})
    assert service.ask("/controlnet/version") == (200, {"version": 3})
    assert "canny" in service.ask("/controlnet/module_list")[1]["module_list"]
    body = {"prompt": "a red circle", "seed": 7, **_SMALL}
    plain = service.ask("txt2img", body)[1]["images"][0]
    shown = base64.b64encode(picture(service.models.parent / "square.png", 96, 64).read_bytes()).decode()
    unit = {"enabled": True, "module": "canny", "model": "control_edges [0123abcd]", "image": shown, "threshold_a": 60}
    off = {"alwayson_scripts": {"controlnet": {"args": [{**unit, "enabled": False}]}}}
    assert opened(service.ask("txt2img", {**body, **off})[1]["images"][0]).tobytes() == opened(plain).tobytes()
    sent = {"alwayson_scripts": {"controlnet": {"args": [{**unit, "control_mode": 2}]}}}
    status, answer = service.ask("txt2img", {**body, **sent})
    assert status == 200, answer["detail"]
    assert answer["warnings"] == []
    made = opened(answer["images"][0])
    assert made.tobytes() != opened(plain).tobytes()
    assert "Control Mode: ControlNet is more important" in made.info["parameters"]
    balanced = service.ask("txt2img", {**body, "alwayson_scripts": {"controlnet": {"args": [unit]}}})[1]
    assert made.tobytes() != opened(balanced["images"][0]).tobytes()
    assert (
        "Module: canny, Model: control_edges, Weight: 1, Resize Mode: Crop and Resize, Processor Res: 512"
        in made.info["parameters"]
    )
    net.unlink()
    assert service.ask("refresh-checkpoints", {}) == (200, {})
    status, answer = service.ask("txt2img", {**body, **sent})
    assert (status, "args[0].model cannot be control_edges [0123abcd]" in answer["detail"]) == (422, True)


def test_a_preprocessor_draws_as_a1111_is_asked_to_detect(service: Service) -> None:
    shown = picture(service.models.parent / "wide.png", 96, 64)
    text = base64.b64encode(shown.read_bytes()).decode()
    body = {"controlnet_module": "canny", "controlnet_input_images": [text, text], "controlnet_processor_res": 128}
    status, answer = service.ask("/controlnet/detect", {**body, "controlnet_threshold_a": 60, "controlnet_threshold_b": 120})
    assert (status, answer["info"], answer["warnings"]) == (200, "Success", []), answer
    with Image.open(shown) as picture_:
        wanted = drawn("canny", np.asarray(picture_.convert("RGB")), 128, (60, 120))
    assert [np.asarray(opened(one)).tolist() for one in answer["images"]] == [wanted.tolist()] * 2
    inverted = opened(service.ask("/controlnet/detect", {**body, "controlnet_module": "invert"})[1]["images"][0])
    assert inverted.size == (96, 64)
    status, answer = service.ask("/controlnet/detect", {"controlnet_module": "canny"})
    assert (status, answer["detail"].startswith("controlnet_input_images cannot be none")) == (422, True)
    status, answer = service.ask("/controlnet/detect", {**body, "controlnet_module": "openpose"})
    assert (status, answer["detail"].startswith("controlnet_module cannot be openpose")) == (422, True)


def test_the_start_picture_comes_back_only_when_it_is_asked_for(service: Service) -> None:
    (service.models / "old-word.pt").write_bytes(b"PK")
    first = service.ask("txt2img", {"prompt": "a old-word", "seed": 7, **_SMALL})[1]
    (service.models / "old-word.pt").unlink()
    assert "“old-word” is read as words: Halftone does not open " in first["warnings"][0]
    start = first["images"][0]
    body = {"prompt": "a", "init_images": [start], "resize_mode": 3, **_SMALL}
    plain = service.ask("img2img", body)[1]
    assert "init_images" not in plain["parameters"]
    assert plain["warnings"] == ["Not used: resize_mode."]
    assert service.ask("img2img", {**body, "include_init_images": True, "send_images": False})[1]["parameters"][
        "init_images"
    ] == [start]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": "a", "sampler_name": "Nobody's"}, 422, "Sampler cannot be Nobody's."),
        ({"prompt": "a", "override_settings": {"sd_model_checkpoint": "gone"}}, 404, "There is no model named gone."),
        ({"prompt": "a <lora:gone:1>"}, 422, "gone"),
        ({"prompt": "a", "batch_size": 101}, 422, "batch_size"),
        ({"prompt": 3}, 422, "prompt"),
        (b"{", 422, "truncated"),
    ],
)
def test_a_refusal_names_what_is_wrong(service: Service, body: object, status: int, words: str) -> None:
    found, answer = service.ask("txt2img", body)
    assert found == status
    assert words in answer["detail"]


def test_a_picture_of_one_is_asked_for(service: Service) -> None:
    status, answer = service.ask("img2img", {"prompt": "a", "init_images": []})
    assert (status, "init_images" in answer["detail"]) == (422, True)
    status, answer = service.ask("img2img", {"prompt": "a", "init_images": ["bm90IGEgcGljdHVyZQ=="]})
    assert (status, "not a readable picture" in answer["detail"]) == (422, True)


@pytest.mark.parametrize("name", ["sd-models", "progress", "options", "nothing"])
def test_nothing_answers_without_the_token(service: Service, name: str) -> None:
    basic = base64.b64encode(b"anybody:wrong").decode()
    for header in ("", "Bearer wrong", "Bearer ", f"Basic {basic}", "Basic ***"):
        status, answer = service.ask(name, Authorization=header)
        assert (status, answer) == (401, {"detail": "Not authenticated"})
    assert service.ask("txt2img", {"prompt": "a"}, Authorization="Bearer wrong")[0] == 401


def test_the_token_may_be_a_password(service: Service) -> None:
    basic = base64.b64encode(f"anybody:{service.token}".encode()).decode()
    assert service.ask("options", Authorization=f"Basic {basic}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://pages.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:7860"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "pages.example"},
        {"Host": "127.0.0.1.pages.example:7860"},
    ],
)
def test_pages_in_a_browser_cannot_use_it(service: Service, headers: dict[str, str]) -> None:
    assert service.ask("options", **headers)[0] == 403
    assert service.ask("txt2img", {"prompt": "a"}, **headers)[0] == 403


def test_from_another_address_nothing_answers(service: Service) -> None:
    listening = [one for one in psutil.Process(service.process.pid).net_connections() if one.status == psutil.CONN_LISTEN]
    assert {one.laddr.ip for one in listening} == {"127.0.0.1"}
    others = {
        address.address
        for several in psutil.net_if_addrs().values()
        for address in several
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    }
    for address in others:
        with pytest.raises((ConnectionError, TimeoutError)), socket.create_connection((address, service.port), timeout=2):
            pass


def test_a_large_or_endless_request_is_not_read(service: Service) -> None:
    for headers, status in (({"Content_Length": str(2**40)}, 413), ({"Transfer_Encoding": "chunked"}, 411)):
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        connection.putrequest("POST", "/sdapi/v1/txt2img", skip_accept_encoding=True)
        connection.putheader("Authorization", f"Bearer {service.token}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()
