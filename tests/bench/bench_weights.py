"""What changing the weights of a model in memory costs at SDXL's size: a plan, one LoRA's weight, a diagnosis in float32.

    PYTHONPATH=app:. python tests/bench/bench_weights.py [--small] [--file PATH]

The file has SDXL's published shapes with made-up numbers, in float16, and runs in bfloat16, so that nothing that runs can be the
mapped file itself. The LoRA has rank 16 and changes the queries, keys, values and outputs of every attention of the UNet (955
million numbers). Each part runs in a fresh process and on one thread, whose seconds are the processor's, as the machine may be
busy; memory is the peak of what is no file's, above what the model held before. Load: the pipeline and the plan that brings each
weight into bfloat16. A plan change is compared with reading the tensors that it changes from the mapped file, each into the type
that it gets.
--file: where the model is kept between runs; it is made where it is not there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import save_file
from tests.bench.common import Row, judged, machine, processor_seconds, table
from tests.bench.published import write_published
from tests.helpers.originals import published, save_original, tiny_original

from halftone.contract.plan import Plan
from halftone.contract.request import Lora, Numerics
from halftone.engine.loading.load import Loaded, load_pipeline, without_loras
from halftone.engine.loading.plans import apply_plan, base_plan, put_loras
from halftone.library.models import describe
from halftone.measure.peak import resident
from halftone.worker.environment import NOTHING_LEAVES

LORA: Final = 0.2
PLAN: Final = 1.2
RANK: Final = 16
_ATTENTION: Final = (".to_q", ".to_k", ".to_v", ".to_out.0")

Figures = dict[str, float]


class Private:
    """The peak of memory that is no file's while the context is open, above what it was before, in bytes."""

    def __enter__(self) -> "Private":
        self._before = self._most = resident()["RssAnon"]
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self._most = max(self._most, resident()["RssAnon"])

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._watcher.join()
        self.grown = max(self._most, resident()["RssAnon"]) - self._before
        self.stays = resident()["RssAnon"] - self._before


def write_lora(unet: torch.nn.Module, file: Path) -> None:
    """kohya's form, over every attention of the UNet."""
    torch.manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    for name, layer in unet.named_modules():
        if name.endswith(_ATTENTION):
            rows, columns = cast("torch.Tensor", layer.weight).shape
            place = f"lora_unet_{name.replace('.', '_')}"
            tensors[f"{place}.lora_down.weight"] = (torch.randn(RANK, columns) * 0.02).half()
            tensors[f"{place}.lora_up.weight"] = (torch.randn(rows, RANK) * 0.02).half()
            tensors[f"{place}.alpha"] = torch.tensor(float(RANK))
    save_file(tensors, file)


def measured(work: Callable[[], object]) -> Figures:
    started, clock = processor_seconds(), time.perf_counter()
    with Private() as private:
        work()
    seconds = processor_seconds() - started
    return {"cpu": seconds, "clock": time.perf_counter() - clock, "private": private.grown, "stays": private.stays}


def ready(path: str) -> Loaded:
    loaded = load_pipeline(describe(path), torch.device("cpu"))
    apply_plan(loaded, base_plan(loaded, "bfloat16", Numerics()))
    return loaded


def load_and_lora(path: str, lora: str) -> dict[str, Figures]:
    """Also how long LoRAs take to come and to go."""
    held: list[Loaded] = []
    found = {"load": measured(lambda: held.append(ready(path)))}
    (loaded,) = held

    def change(*weights: float) -> None:
        put_loras(loaded, [Lora(path=lora, weight=weight) for weight in weights])
        apply_plan(loaded, base_plan(loaded, "bfloat16", Numerics()))

    found["LoRA added"] = measured(lambda: change(1.0))
    found["LoRA weight changed"] = measured(lambda: change(0.5))
    found["LoRA weight changed again"] = measured(lambda: change(0.75))
    found["LoRA taken away"] = measured(change)
    return found


def plans(path: str, _lora: str) -> dict[str, Figures]:
    """Blocks in float32, and back; a group rescaled, and back; another precision."""
    from halftone.engine.rescaling.rescale import rescale_groups
    from halftone.health.planning.rescaling import exponents

    loaded = ready(path)
    base = base_plan(loaded, "bfloat16", Numerics())
    unet: Any = loaded.modules["unet"]
    last = f"up_blocks.{len(unet.up_blocks) - 1}"
    regions = (f"{last}.resnets.0", f"{last}.resnets.1", "up_blocks.0.attentions.0")
    group = rescale_groups("unet", unet)[0]
    rescale = exponents([group], [2])["unet"]
    wanted: dict[str, Plan] = {
        "blocks into FP32": Plan(dtypes=base.dtypes, upcast={"unet": regions}),
        "blocks back": base,
        "stream rescaled": Plan(dtypes=base.dtypes, rescale={"unet": rescale}),
        "stream back": base,
        "everything into FP16": base_plan(loaded, "float16", Numerics()),
    }
    fresh = {name: dict(without_loras(loaded, name).named_parameters()) for name in loaded.modules}
    found: dict[str, Figures] = {}
    for what, plan in wanted.items():
        before = types(loaded)
        changes = frozenset(("unet", own) for own in (rescale if what.startswith("stream") else ()))
        found[what] = measured(partial(apply_plan, loaded, plan))
        found[f"reading: {what}"] = measured(partial(read, fresh, before, types(loaded), changes))
    return found


def types(loaded: Loaded) -> dict[tuple[str, str], torch.dtype]:
    return {(name, own): one.dtype for name, module in loaded.modules.items() for own, one in module.named_parameters()}


def read(
    fresh: Mapping[str, Mapping[str, torch.Tensor]],
    before: Mapping[tuple[str, str], torch.dtype],
    after: Mapping[tuple[str, str], torch.dtype],
    changes: frozenset[tuple[str, str]],
) -> None:
    """The tensors that a plan changes, from the file into the types that they get."""
    held = [
        fresh[name][own].detach().to(dtype, copy=True)
        for (name, own), dtype in after.items()
        if before[name, own] != dtype or (name, own) in changes
    ]
    del held


def diagnosis(path: str, _lora: str) -> dict[str, Figures]:
    """A call of the UNet that overflows in float16, diagnosed."""
    from halftone.engine.curing.recover import ASSUMED, Recovery
    from halftone.engine.inputs.memory import Reference
    from halftone.engine.weights.calls import Call
    from halftone.measure.devices import find_device

    loaded = load_pipeline(describe(path), torch.device("cpu"))
    plan = base_plan(loaded, "float16", Numerics())
    apply_plan(loaded, plan)
    unet: Any = loaded.modules["unet"]
    torch.manual_seed(0)
    words, encoder = unet.config.cross_attention_dim, cast("Any", loaded.modules["text_encoder_2"])
    added = {
        "text_embeds": torch.randn(1, encoder.config.projection_dim),
        "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]]),
    }
    sample = torch.full((1, 4, 8, 8), 6e4)
    given: dict[str, Any] = {"encoder_hidden_states": torch.randn(1, 77, words), "added_cond_kwargs": added}
    call = Call("unet", "forward", (sample, torch.tensor(999)), given)
    references = (Reference("float32", "none"),)
    recovery = Recovery(
        loaded, find_device("cpu"), plan, "float16", ASSUMED, Numerics(), None, lambda: None, lambda _: references
    )
    held: list[Any] = []
    found = {"diagnosis": measured(lambda: held.append(recovery.diagnose(call)))}
    found["whole in FP32"] = {"cpu": 0.0, "clock": 0.0, "private": 4.0 * loaded.sizes["unet"], "stays": 0.0}
    return found


PARTS: Final = {"lora": load_and_lora, "plans": plans, "diagnosis": diagnosis}


def child(part: str, path: str, lora: str) -> dict[str, Figures]:
    return PARTS[part](path, lora)


def asked(part: str, path: Path, lora: Path) -> dict[str, Figures]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", part, str(path), str(lora)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | NOTHING_LEAVES | {"OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def told(figures: Figures) -> str:
    return f"{figures['cpu']:.2f} s of processor, {figures['clock']:.2f} s, {figures['private'] / 1e9:.2f} GB private"


def rows(parts: list[str], path: Path, lora: Path, *, small: bool) -> list[Row]:
    found: list[Row] = []
    for part in parts:
        figures = asked(part, path, lora)
        for what, own in figures.items():
            if what.startswith("reading: "):
                continue
            goal, ratio, met = "–", None, False
            if f"reading: {what}" in figures:
                goal, ratio = f"at most {PLAN} × reading", own["cpu"] / figures[f"reading: {what}"]["cpu"]
                met = ratio <= PLAN
            elif what.startswith("LoRA weight"):
                goal, ratio = f"at most {LORA} × load", own["cpu"] / figures["load"]["cpu"]
                met = ratio <= LORA
            words = told(own) if ratio is None else f"{ratio:.2f} ({told(own)})"
            found.append((what, words, goal, None if ratio is None else judged(met, small)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tiny model, in seconds")
    parser.add_argument("--file", type=Path, help="where the model is kept")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS), help="parts of the bench")
    parser.add_argument("--child", nargs=3, default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.stdout.write(json.dumps(child(*options.child)) + "\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="halftone-weights-") as folder:
        lora = Path(folder) / "lora.safetensors"
        if options.small:
            pipe = tiny_original("sdxl")
            path = save_original(pipe, Path(folder) / "small.safetensors")
            write_lora(pipe.unet, lora)
        else:
            path = options.file or Path(folder) / "sdxl.safetensors"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_published(path.parent, "sdxl").rename(path)
            write_lora(published("sdxl")["unet"], lora)
        found = [("weights", row) for row in rows(options.only, path, lora, small=options.small)]
    sys.stdout.write(f"{table(found)}\n{machine()}\n")
    return int(any(met is False for _, (_, _, _, met) in found))


if __name__ == "__main__":
    sys.exit(main())
