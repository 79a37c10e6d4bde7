"""Small files are fetched only when asked, from a server that speaks as the hub does; every way it fails is one sentence."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from huggingface_hub import constants
from tests.helpers.model_files import safetensors
from typer.testing import CliRunner

from halftone.cli.app import application
from halftone.contract.errors import HalftoneError
from halftone.library.fetching import fetch
from halftone.library.small_files import T5

WHOLE = json.dumps({"model": {"type": "Unigram", "vocab": [["<pad>", 0.0]]}}).encode()


class Hub(ThreadingHTTPServer):
    status = 200
    data = WHOLE
    asked: list[str]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked = []


class Answer(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name for it
        return

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        hub = cast("Hub", self.server)
        hub.asked.append(self.path)
        self.send_response(hub.status)
        if hub.status == 404:
            self.send_header("X-Error-Code", "EntryNotFound")
        if hub.status == 403:
            self.send_header("X-Error-Code", "GatedRepo")
        data = hub.data if hub.status == 200 else b""
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"0123456789abcdef"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_comes_whole_and_leaves_nothing_beside_it(hub: Hub) -> None:
    assert fetch(T5) == T5.place
    assert T5.place.read_bytes() == WHOLE
    assert [file.name for file in T5.place.parent.iterdir()] == ["tokenizer.json"]
    assert hub.asked[0] == "/google-t5/t5-base/resolve/main/tokenizer.json"


@pytest.mark.parametrize(
    ("status", "data", "code"), [(403, WHOLE, "fetch-refused"), (404, WHOLE, "fetch-missing"), (200, WHOLE[:20], "fetch-failed")]
)
def test_what_fails_is_one_sentence_and_nothing_is_kept(hub: Hub, status: int, data: bytes, code: str) -> None:
    hub.status, hub.data = status, data
    with pytest.raises(HalftoneError) as caught:
        fetch(T5)
    assert caught.value.code == code
    assert not T5.place.exists()


def test_the_command_shows_what_it_fetches_and_asks(hub: Hub, tmp_path: Path) -> None:
    shapes = {
        **dict.fromkeys(("img_in.weight", "final_layer.linear.weight", "txt_in.weight", "vector_in.in_layer.weight"), (64, 64)),
        "double_blocks.0.img_attn.norm.query_norm.scale": (32,),
    }
    named = {f"model.diffusion_model.{name}": shape for name, shape in shapes.items()}
    named |= {f"vae.{name}": (32, 16, 3, 3) for name in ("decoder.conv_in.weight", "encoder.down.0.block.0.conv1.weight")}
    clip, t5 = "text_encoders.clip_l.transformer.text_model.", "text_encoders.t5xxl.transformer.encoder.block.0.layer."
    named |= {
        f"{clip}embeddings.token_embedding.weight": (99, 64),
        f"{clip}embeddings.position_embedding.weight": (77, 64),
        f"{clip}encoder.layers.0.mlp.fc1.weight": (64, 64),
        "text_encoders.t5xxl.transformer.shared.weight": (99, 64),
        f"{t5}0.SelfAttention.relative_attention_bias.weight": (32, 2),
        f"{t5}0.SelfAttention.q.weight": (64, 64),
        f"{t5}1.DenseReluDense.wi_0.weight": (64, 64),
    }
    path = tmp_path / "flux.safetensors"
    path.write_bytes(safetensors({name: ("BF16", np.zeros(shape, np.uint16)) for name, shape in named.items()}))
    no = CliRunner().invoke(application(), ["fetch", str(path)], input="n\n")
    assert "google-t5/t5-base  tokenizer.json  1.4" in no.output
    assert (hub.asked, T5.place.exists()) == ([], False)
    yes = CliRunner().invoke(application(), ["fetch", str(path), "--yes"])
    assert (yes.exit_code, T5.place.read_bytes()) == (0, WHOLE)
    again = CliRunner().invoke(application(), ["fetch", str(path), "--yes"])
    assert "Nothing is missing" in again.output


def test_without_a_server_it_says_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)  # between five tries
    with pytest.raises(HalftoneError, match="the server does not answer"):
        fetch(T5)
