"""A check at published sizes: seconds over one bare pass, the groups and the plan that it ends with, and private memory.

`python -m tests.bench.sizes flux` writes a FLUX.1 of 12 billion made-up numbers in BF16 (24 GB below `--folder`, deleted after),
whose residual streams are 2**k times too large for FP16, and checks it. `--blocks 3 6` makes fewer blocks at the same width. Text
encoders and VAE are tiny: it is the transformer that is measured. `--precision` is what the check is asked for.
"""

import argparse
import json
import os
import re
import shutil
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from diffusers import FluxPipeline, FluxTransformer2DModel
from tests.bench.faults.parts import flow
from tests.helpers import tiny
from tests.helpers.engine_runs import Recorder, Steady
from transformers import T5Config, T5EncoderModel

from halftone.contract.facts import CheckReport
from halftone.contract.messages import Examine, PhaseChanged
from halftone.contract.plan import rescaled_modules
from halftone.contract.request import CheckInputs, Numerics
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.mapped import empty

_POOL: Final = 2**22
"""Numbers that are drawn; a larger tensor repeats them."""
_WRITERS: Final = re.compile(
    r"(x_embedder|context_embedder|.*\.(to_out\.0|to_add_out|ff\.net\.2|ff_context\.net\.2|proj_out))\.\w+"
)
"""What writes into the two residual streams of FLUX.1, which become one."""
_FLUX: Final[dict[str, Any]] = {
    "num_layers": 19,
    "num_single_layers": 38,
    "guidance_embeds": True,
    "pooled_projection_dim": tiny.WIDTH,
}


def write_flux(folder: Path, blocks: tuple[int, int], k: int) -> None:
    """In diffusers' folders; the transformer tensor by tensor, as it need not fit into memory."""
    config: dict[str, Any] = {**_FLUX, "num_layers": blocks[0], "num_single_layers": blocks[1]}
    network: Any = empty(FluxTransformer2DModel, config)
    width = network.config.joint_attention_dim
    torch.manual_seed(0)
    parts: dict[str, Any] = {
        "scheduler": flow(),
        "vae": tiny.vae(16, shift=0.1),
        "text_encoder": tiny.clip_text(),
        "tokenizer": tiny.clip_tokenizer(),
        "text_encoder_2": T5EncoderModel(
            T5Config(vocab_size=128, d_model=width, d_kv=64, d_ff=64, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu")
        ),
        "tokenizer_2": tiny.t5_tokenizer(),
        "transformer": FluxTransformer2DModel(num_layers=1, num_single_layers=1, num_attention_heads=1, attention_head_dim=128),
    }
    FluxPipeline(**parts).to(torch.bfloat16).save_pretrained(folder)
    shutil.rmtree(folder / "transformer")
    network.save_config(folder / "transformer")
    _write(folder / "transformer" / "diffusion_pytorch_model.safetensors", network, k)


def _write(path: Path, network: torch.nn.Module, k: int) -> None:
    pool = torch.randn(_POOL, generator=torch.Generator().manual_seed(0))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, blank in network.named_parameters():
        size = 2 * blank.numel()
        header[name] = {"dtype": "BF16", "shape": list(blank.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for index, (name, blank) in enumerate(network.named_parameters()):
            size = blank[0].numel() ** -0.5 if blank.dim() > 1 else 0.1
            value = pool.roll(index * 977) * size + float(blank.dim() == 1 and name.endswith("weight"))
            value = (value * 2.0 ** (k if _WRITERS.fullmatch(name) else 0)).to(torch.bfloat16)
            data = value.view(torch.int16).numpy()
            for start in range(0, blank.numel(), _POOL):
                file.write(data[: blank.numel() - start].tobytes())


def _private() -> int:
    """Bytes of this process that no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return 1024 * int(found[1]) if found else 0


@contextmanager
def watched() -> Generator[list[int]]:
    """The largest private memory meanwhile, in bytes."""
    most, done = [_private()], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], _private())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


class Told(Recorder):
    """Prints each phase as it begins, with the seconds so far (by the clock and the processor's) and the private memory."""

    def __init__(self) -> None:
        super().__init__()
        self._started, self._busy, self._phase = time.perf_counter(), time.process_time(), ("", "")

    def __call__(self, event: Any, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        if isinstance(event, PhaseChanged) and (event.phase, event.detail) != self._phase:
            self._phase = (event.phase, event.detail)
            print(
                f"  {time.perf_counter() - self._started:7.1f} s  {time.process_time() - self._busy:7.1f} s of the processor  "
                f"{_private() / 1e9:5.2f} GB  {event.phase} {event.detail}",
                flush=True,
            )


def bare_seconds(folder: Path, size: int, words: int) -> tuple[float, float]:
    """One step of diffusers itself, in the stored type, after the file was read once: by the clock, and the processor's."""
    pipe = FluxPipeline.from_pretrained(folder, torch_dtype=torch.bfloat16, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    seconds, busy = 0.0, 0.0
    for _ in range(2):
        started, begun = time.perf_counter(), time.process_time()
        pipe("a red sun", width=size, height=size, num_inference_steps=1, max_sequence_length=words, output_type="latent")
        seconds, busy = time.perf_counter() - started, time.process_time() - begun
    return seconds, busy


def check(folder: Path, size: int, words: int, precision: str) -> CheckReport:
    inputs = CheckInputs(width=size, height=size, options={"max_sequence_length": words})
    command = Examine(job="c", model=str(folder), numerics=Numerics(precision=precision), inputs=inputs)  # pyright: ignore[reportArgumentType]
    return DiffusersEngine().examine(command, Told(), Steady())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sizes")
    parser.add_argument("model", choices=["flux"])
    parser.add_argument("--blocks", type=int, nargs=2, default=(_FLUX["num_layers"], _FLUX["num_single_layers"]))
    parser.add_argument("--size", type=int, default=64, help="pixels; the tiny VAE makes 4 times fewer tokens of them")
    parser.add_argument("--words", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--k", type=int, default=14)
    parser.add_argument("--precision", default="float16")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/big-flux"))
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    os.environ.setdefault("HALFTONE_DATA", str(options.folder / "data"))
    try:
        write_flux(options.folder, tuple(options.blocks), options.k)
        print(f"{sum(f.stat().st_size for f in options.folder.rglob('*.safetensors')) / 1e9:.2f} GB of weights", flush=True)
        bare, busy_bare = bare_seconds(options.folder, options.size, options.words)
        with watched() as most:
            started, begun = time.perf_counter(), time.process_time()
            report = check(options.folder, options.size, options.words, options.precision)
            seconds, busy = time.perf_counter() - started, time.process_time() - begun
        for cure in report.cures:
            print(f"tried {cure.kind}: error {cure.plan.error}, {cure.refusal or ('holds' if cure.plan.verified else 'not run')}")
        cure = next((cure for cure in report.cures if cure.suggested), None)
        print(f"verdict {report.verdict}, {len(report.findings)} findings, first {[f.module for f in report.findings[:2]]}")
        print(f"cure {cure and cure.kind}, error {cure and cure.plan.error}, dtypes {report.plan.dtypes}")
        print({name: f"{len(rescaled_modules(own))} layers" for name, own in report.plan.rescale.items()}, *report.plan.reasons)
        print(f"{seconds:.0f} s, {seconds / bare:.1f} bare passes of {bare:.1f} s; at most {most[0] / 1e9:.2f} GB private")
        print(f"{busy:.0f} s of the processor, {busy / busy_bare:.1f} bare passes of {busy_bare:.1f} s")
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
