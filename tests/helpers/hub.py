"""A server on this machine that speaks as the hub does, and a file of FLUX.1 that lacks what it gives."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import numpy as np
from tests.helpers.model_files import safetensors

PIECES = 32_000
"""Of T5."""


def unigram(first: tuple[str, ...] = ("<pad>", "</s>", "<unk>"), pieces: int = PIECES) -> bytes:
    """A tokenizer of so many pieces, none of which is a word."""
    vocab = [[piece, 0.0] for piece in (*first, *(f"\ue000{number}" for number in range(pieces - len(first))))]
    return json.dumps({"model": {"type": "Unigram", "vocab": vocab, "unk_id": first.index("<unk>")}}).encode()


WHOLE = unigram()


class Hub(ThreadingHTTPServer):
    status = 200
    data = WHOLE
    asked: list[str]
    headers: dict[str, str]
    """Of the last request; their names in small letters."""
    gated = True
    """What it does not give, it gives to those who agreed to its terms."""
    length: int | None = None
    """What it says of the length of a file, where that is not true."""
    broken = False
    """It ends every connection in the middle of the file."""
    held: threading.Event
    """It answers while this is set."""
    halved: threading.Event
    """It gives the second half of a file while this is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked = []
        self.headers = {}
        self.held, self.halved = threading.Event(), threading.Event()
        self.held.set()
        self.halved.set()


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
        hub.headers = {name.lower(): value for name, value in self.headers.items()}
        hub.held.wait()
        self.send_response(hub.status)
        if hub.status == 404:
            self.send_header("X-Error-Code", "EntryNotFound")
        if hub.status in (401, 403) and hub.gated:
            self.send_header("X-Error-Code", "GatedRepo")
        data = hub.data if hub.status == 200 else b""
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"0123456789abcdef"')
        self.send_header("Content-Length", str(len(data) if hub.length is None else hub.length))
        self.end_headers()
        if body:
            half = len(data) // 2
            self.wfile.write(data[:half])
            hub.halved.wait()
            self.wfile.write(b"" if hub.broken else data[half:])


@contextmanager
def serving() -> Generator[Hub]:
    """A hub that answers until the end of the block."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.held.set()
    server.halved.set()
    server.shutdown()
    server.server_close()
    thread.join()


def save_flux(path: Path) -> Path:
    """As ComfyUI writes it: names and shapes only."""
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
    path.write_bytes(safetensors({name: ("BF16", np.zeros(shape, np.uint16)) for name, shape in named.items()}))
    return path
