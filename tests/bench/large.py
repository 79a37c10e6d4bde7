"""SD 1.5, SDXL and SD 3.5 medium at their published sizes: each job beside bare diffusers doing the same, and over a bare pass.

    PYTHONPATH=app:. python -m tests.bench.large sdxl sd35 [--only jobs check sick recover] [--size 64] [--folder PATH]

Made-up numbers in FP16, in diffusers' folders, SD 3.5 medium without its third text encoder. "jobs": load, one step, everything
into BF16, a LoRA of rank 16 on all attentions added, its weight changed; "bare": what diffusers does of it. "plans": blocks of
the denoiser into FP32, and its stream rescaled, with all in FP16 (where what is not changed is the mapped file) and in BF16, over
reading the changed tensors into the types that they get. "memory": told before a picture over measured. "check": a quick check
in FP16 of the sound model over one bare pass of every component on the same inputs; "sick": of one whose residual streams are
2**13 times as large. "recover": a picture of that one, two steps in FP16, beside the sound model's: the same function; and beside
diffusers with all in FP32. Each part runs in a fresh process on one thread; seconds are the processor's, memory what is resident
beyond what the process held before, that of files among it.
--folder: where the models are kept between runs; they are made where they are not there.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import save_file
from tests.bench.bench_weights import read, types
from tests.bench.common import Row, judged, machine, processor_seconds, table
from tests.bench.published import STREAM, write_folder
from tests.helpers.engine_runs import Recorder, Steady, faulty_copy, generate, pixels
from tests.helpers.tiny import save_tiny

from halftone.contract.messages import Examine, Load
from halftone.contract.plan import Plan
from halftone.contract.request import CheckInputs, Lora, Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import Loaded, load_pipeline, without_loras
from halftone.engine.loading.plans import any_component, apply_plan, base_plan, put_loras
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import run_call
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import Job, need
from halftone.library.families.networks import networks_of
from halftone.library.models import describe
from halftone.measure.devices import find_device
from halftone.measure.peak import resident
from halftone.measure.pictures import psnr
from halftone.worker.environment import NOTHING_LEAVES

CHECK: Final = 3.0
MEMORY: Final = 1.3
RANK: Final = 16
PLAN: Final = 1.2
NEAR: Final = 0.15
FAMILIES: Final = {"sd15": ("sd15", "unet"), "sdxl": ("sdxl", "unet"), "sd35": ("sd3", "transformer")}
"""The tiny model's family, and its denoiser."""
PARTS: Final = ("jobs", "bare", "plans", "memory", "check", "sick", "recover")
_READING: Final = "reading: "

_MAPPED: Final = Path("/proc/self/smaps_rollup")
_SELDOM: Final = 100
"""To count mapped pages takes long: looks at the private ones for each at those of files."""

Figures = dict[str, float]


class Resident:
    """The most that is resident while the context is open beyond what was before, in bytes: private, and with files, each page of
    which counts once however often it is mapped. spent: the processor's seconds that it took to look.
    """

    def __enter__(self) -> "Resident":
        self._before, self.private, self.all = (resident()["RssAnon"], _with_files()), 0, 0
        self.spent = 0.0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        for count in itertools.count():
            self._look(files=count % _SELDOM == 0)
            self.spent = time.thread_time()
            if self._over.wait(0.01):
                break

    def _look(self, *, files: bool = True) -> None:
        self.private = max(self.private, resident()["RssAnon"] - self._before[0])
        if files:
            self.all = max(self.all, _with_files() - self._before[1])

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._watcher.join()
        self._look()


def _with_files() -> int:
    """Resident bytes; pages that other processes hold too in part."""
    lines = (line.split() for line in _MAPPED.read_text().splitlines())
    return next(int(words[1]) for words in lines if words[0] == "Pss:") * 1024


def measured(work: Callable[[], object]) -> Figures:
    started = processor_seconds()
    with Resident() as memory:
        work()
    return {"cpu": processor_seconds() - started - memory.spent, "private": memory.private, "all": memory.all}


def write(folder: Path, kind: str, k: int, *, small: bool) -> None:
    family, denoiser = FAMILIES[kind]
    if not small:
        write_folder(folder, kind, k)
    elif not k:
        save_tiny(folder, family, torch.float16)
    else:
        faulty_copy(folder.with_name(kind), folder, denoiser, "stream", k)


def write_lora(name: str, module: torch.nn.Module, file: Path) -> None:
    torch.manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    for path, layer in module.named_modules():
        if path.endswith((".to_q", ".to_k", ".to_v", ".to_out.0")):
            rows, columns = cast("torch.Tensor", layer.weight).shape
            tensors[f"{name}.{path}.lora_A.weight"] = (torch.randn(RANK, columns) * 0.02).half()
            tensors[f"{name}.{path}.lora_B.weight"] = (torch.randn(rows, RANK) * 0.02).half()
    save_file(tensors, file)


def jobs(folder: Path, size: int) -> dict[str, Figures]:
    lora = folder.with_name(f"{folder.name}-lora.safetensors")
    denoiser = any_component(load_pipeline(describe(str(folder)), torch.device("cpu")), "denoise")
    assert denoiser is not None
    write_lora(*denoiser, lora)
    del denoiser
    return changes(folder, lora) | pictures_made(folder, lora, size)


def changes(folder: Path, lora: Path) -> dict[str, Figures]:
    """Of a model in memory."""
    held: list[Loaded] = []
    found = {"load": measured(lambda: held.append(prepared(folder)))}

    def plan(dtype: DType, *weights: float) -> None:
        put_loras(held[0], [Lora(path=str(lora), weight=weight) for weight in weights])
        apply_plan(held[0], base_plan(held[0], dtype, Numerics()))

    found["LoRA added"] = measured(lambda: plan("float16", 1.0))
    found["LoRA weight changed"] = measured(lambda: plan("float16", 0.5))
    found["LoRA taken away"] = measured(lambda: plan("float16"))
    found["into BF16"] = measured(lambda: plan("bfloat16"))
    return found


def pictures_made(folder: Path, lora: Path, size: int) -> dict[str, Figures]:
    """Of one step in FP16; the first also loads the model."""
    engine = DiffusersEngine()
    found: dict[str, Figures] = {}
    for what, loras in {
        "load and a first step": (),
        "a step": (),
        "a step, LoRA added": (Lora(path=str(lora)),),
        "a step with the LoRA": (Lora(path=str(lora)),),
    }.items():
        make = partial(generate, engine, folder, "float16", steps=1, width=size, height=size, options={}, loras=loras)
        found[what] = measured(make)
    return found


def prepared(folder: Path) -> Loaded:
    loaded = load_pipeline(describe(str(folder)), torch.device("cpu"))
    apply_plan(loaded, base_plan(loaded, "float16", Numerics()))
    return loaded


def bare(folder: Path, size: int) -> dict[str, Figures]:
    """What diffusers does of the same."""
    lora = folder.with_name(f"{folder.name}-lora.safetensors")
    held: list[Any] = []

    def load() -> None:
        held.append(plain(folder, torch.float16))

    def step() -> None:
        pipe("a red sun", width=size, height=size, num_inference_steps=1, generator=torch.Generator().manual_seed(5))

    def change(weight: float) -> None:
        pipe.unfuse_lora()
        pipe.set_adapters(["a"], [weight])
        pipe.fuse_lora()

    def added() -> None:
        pipe.load_lora_weights(str(lora.parent), weight_name=lora.name, adapter_name="a", local_files_only=True)
        pipe.set_adapters(["a"], [1.0])

    found = {"load": measured(load)}
    (pipe,) = held
    pipe.set_progress_bar_config(disable=True)
    found["a first step"] = measured(step)
    found["a step"] = measured(step)
    found["LoRA added"] = measured(added)
    found["LoRA weight changed"] = measured(lambda: pipe.set_adapters(["a"], [0.5]))
    found["a step with the LoRA"] = measured(step)
    found["LoRA fused"] = measured(pipe.fuse_lora)
    found["LoRA fused anew with another weight"] = measured(lambda: change(0.75))
    found["LoRA taken away"] = measured(lambda: (pipe.unfuse_lora(), pipe.unload_lora_weights()))
    denoiser = pipe.components.get("unet") or pipe.transformer
    blocks = [denoiser.get_submodule(name) for name in regions(denoiser)]
    stream = [denoiser.get_parameter(name) for name in streamed(denoiser)]
    found["blocks into FP32"] = measured(lambda: [block.float() for block in blocks])
    found["blocks back"] = measured(lambda: [block.half() for block in blocks])
    found["stream rescaled"] = measured(lambda: [one.data.mul_(0.25) for one in stream])
    found["stream back"] = measured(lambda: [one.data.mul_(4) for one in stream])
    found["into BF16"] = measured(lambda: pipe.to(torch.bfloat16))
    return found


def regions(denoiser: torch.nn.Module) -> tuple[str, ...]:
    """Three of its blocks."""
    names = [
        name for name, _ in denoiser.named_modules() if re.fullmatch(r"(up_blocks\.\d+\.resnets|transformer_blocks)\.\d+", name)
    ]
    return names[0], names[-2], names[-1]


def streamed(denoiser: torch.nn.Module) -> tuple[str, ...]:
    """What writes into its residual streams."""
    return tuple(name for name, _ in denoiser.named_parameters() if any(one.fullmatch(name) for one in STREAM.values()))


def plans(folder: Path, _size: int) -> dict[str, Figures]:
    """A change of plan, and reading what it changed."""
    loaded = prepared(folder)
    denoiser = any_component(loaded, "denoise")
    assert denoiser is not None
    name, module = denoiser
    exponents = dict.fromkeys(streamed(module), -2)
    fresh = {own: dict(without_loras(loaded, own).named_parameters()) for own in loaded.modules}
    found: dict[str, Figures] = {}
    for dtype in ("float16", "bfloat16"):
        base = base_plan(loaded, dtype, Numerics())
        apply_plan(loaded, base)
        for what, plan, changes in (
            ("blocks into FP32", Plan(dtypes=base.dtypes, upcast={name: regions(module)}), ()),
            ("blocks back", base, ()),
            ("stream rescaled", Plan(dtypes=base.dtypes, rescale={name: exponents}), exponents),
            ("stream back", base, exponents),
        ):
            before = types(loaded)
            found[f"{dtype}, {what}"] = measured(partial(apply_plan, loaded, plan))
            reading = partial(read, fresh, before, types(loaded), frozenset((name, own) for own in changes))
            found[f"{_READING}{dtype}, {what}"] = measured(reading)
    return found


def memory(folder: Path, size: int) -> dict[str, Figures]:
    """Told before a picture, and measured."""
    engine, networks = DiffusersEngine(), networks_of(describe(str(folder)))
    engine.load(Load(model=str(folder), device="cpu", numerics=Numerics(precision="float16")), Recorder())
    told = need(networks, Job(Size(size, size)), lambda _: "float16", "cpu").peak
    made = partial(generate, engine, folder, "float16", steps=1, width=size, height=size, options={}, vae_tiling="never")
    found: dict[str, Figures] = {}
    for what in ("picture", "picture again"):
        picture = made()[0].images[0]
        assert picture.peak_memory is not None, "not measured on this system"
        found[what] = {"told": float(told), "measured": float(picture.peak_memory)}
    return found


def check(folder: Path, size: int) -> dict[str, Figures]:
    """The check's memory counts from before the model was loaded."""
    inputs = CheckInputs(width=size, height=size)
    command = Examine(job="c", model=str(folder), inputs=inputs, numerics=Numerics(precision="float16"))
    with Resident() as memory:
        loaded = prepared(folder)
        examination = Examination(loaded, find_device("cpu"), None, command, Recorder(), Steady())
        started = processor_seconds() - memory.spent
        report = examination.run()
        spent = processor_seconds() - memory.spent - started
    found: dict[str, Figures] = {"check": {"cpu": spent, "private": memory.private, "all": memory.all}}
    cure = next((cure for cure in report.cures if cure.suggested), None)
    sys.stderr.write(f"{report.verdict}, {[f'{one.code} in {one.component} {one.module}' for one in report.findings[:3]]}, ")
    sys.stderr.write(f"cure {cure and cure.kind}, error {cure and cure.plan.error}, psnr {cure and cure.psnr}\n")
    apply_plan(loaded, base_plan(loaded, "float16", Numerics()))
    assert examination.wide is not None
    calls = [call for call, _ in examination.wide.calls]

    @torch.no_grad()
    def bare_pass() -> None:
        for call in calls:
            run_call(call, loaded.modules[call.component], "float16")

    found["pass"] = measured(bare_pass)
    found["pass again"] = measured(bare_pass)
    found["model"] = {"cpu": 0.0, "private": 0.0, "all": float(sum(2 * one for one in loaded.sizes.values()))}
    return found


def recover(folder: Path, size: int) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    pictures: list[Any] = []
    for name, path in (("sound", folder), ("recovered", folder.with_name(f"{folder.name}-sick"))):
        engine = DiffusersEngine()
        reports: list[Any] = []

        def make(engine: DiffusersEngine = engine, path: Path = path, reports: list[Any] = reports) -> None:
            reports.append(generate(engine, path, "float16", steps=2, width=size, height=size, options={})[0])

        found[name] = measured(make)
        pictures.append(pixels(reports[0]))
        plan = reports[0].plan
        sys.stderr.write(f"{name}: {reports[0].images[0].state}, dtypes {plan.dtypes}, {plan.upcast_parameters} upcast, ")
        sys.stderr.write(f"{ {own: len(found) for own, found in plan.rescale.items()} } rescaled, {plan.reasons}\n")
        assert engine.loaded is not None
        whole = max(4 * one for one in engine.loaded.sizes.values())
        del engine
    found["bare FP32"] = measured(partial(in_float32, folder.with_name(f"{folder.name}-sick"), size))
    theirs, ours = (one / 255 for one in pictures)
    found["decibels"] = {"cpu": min(psnr(ours, theirs), 99.0), "private": 0.0, "all": 0.0}
    found["largest component in FP32"] = {"cpu": 0.0, "private": float(whole), "all": float(whole)}
    return found


def in_float32(folder: Path, size: int) -> None:
    """The same picture by diffusers alone, which has to have all of the model in FP32 for it."""
    pipe = plain(folder, torch.float32)
    pipe.set_progress_bar_config(disable=True)
    pipe("a red sun", width=size, height=size, num_inference_steps=2, generator=torch.Generator().manual_seed(5))


def plain(folder: Path, dtype: torch.dtype) -> Any:
    """The model as diffusers loads it, which has to be told which parts the index leaves out."""
    from diffusers import DiffusionPipeline

    index = json.loads((folder / "model_index.json").read_text())
    left_out = {name: None for name, value in index.items() if value == [None, None]}
    return DiffusionPipeline.from_pretrained(folder, dtype=dtype, local_files_only=True, **left_out)


def child(part: str, folder: str, size: int) -> dict[str, Figures]:
    with quiet_libraries():
        if part == "sick":
            return check(Path(f"{folder}-sick"), size)
        own = {"jobs": jobs, "bare": bare, "plans": plans, "memory": memory, "check": check, "recover": recover}
        return own[part](Path(folder), size)


def asked(part: str, folder: Path, size: int) -> dict[str, Figures]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.large", "--child", part, str(folder), str(size)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | NOTHING_LEAVES | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
    )
    return json.loads(done.stdout.splitlines()[-1])


def told(figures: Figures) -> str:
    return f"{figures['cpu']:.2f} s, {figures['private'] / 1e9:.2f} GB private, {figures['all'] / 1e9:.2f} GB in all"


def rows(part: str, found: dict[str, Figures], *, small: bool) -> list[Row]:
    if part == "recover":
        decibels, most = found.pop("decibels")["cpu"], found.pop("largest component in FP32")["all"]
        met = decibels >= 30 and found["recovered"]["private"] < most
        beside = f"sound: {told(found['sound'])}; diffusers in FP32: {told(found['bare FP32'])}"
        words = f"{decibels:.1f} dB, {told(found['recovered'])}; {beside}"
        return [("recovered picture", words, f"30 dB, less than {most / 1e9:.1f} GB private", judged(met, small))]
    if part in ("check", "sick"):
        seconds = found["check"]["cpu"] / min(found["pass"]["cpu"], found["pass again"]["cpu"])
        memory = found["check"]["all"] / found["model"]["all"]
        goal = f"at most {CHECK:g} passes, {MEMORY:g} of the model"
        words = f"{seconds:.2f} passes, {memory:.2f} of the model ({told(found['check'])}; a pass {told(found['pass again'])})"
        return [(f"quick check, {part}", words, goal, judged(seconds <= CHECK and memory <= MEMORY, small))]
    if part == "memory":
        ratios = {what: one["told"] / one["measured"] for what, one in found.items()}
        gigabytes = {
            what: f"{one['told'] / 1e9:.2f} GB told, {one['measured'] / 1e9:.2f} measured" for what, one in found.items()
        }
        return [
            (
                f"memory, {what}",
                f"{ratio:.2f} ({gigabytes[what]})",
                f"{1 - NEAR} to {1 + NEAR}",
                judged(abs(ratio - 1) <= NEAR, small),
            )
            for what, ratio in ratios.items()
        ]
    if part == "plans":
        made: list[Row] = []
        for what, figures in found.items():
            if (reading := found.get(f"{_READING}{what}")) is not None:
                ratio = figures["cpu"] / max(reading["cpu"], 1e-9)
                words = f"{ratio:.2f} ({told(figures)}; reading {told(reading)})"
                made.append((f"plan: {what}", words, f"at most {PLAN} × reading", judged(ratio <= PLAN, small)))
        return made
    return [(f"{part}: {what}", told(figures), "–", None) for what, figures in found.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(FAMILIES)}; all where none is named")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--small", action="store_true", help="tiny models, in seconds; nothing is judged")
    parser.add_argument("--size", type=int, default=64, help="pixels of a picture's edge")
    parser.add_argument("--folder", type=Path, help="where the models are kept")
    parser.add_argument("--child", nargs=3, default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        part, folder, size = options.child
        sys.stdout.write(json.dumps(child(part, folder, int(size))) + "\n")
        return 0
    found: list[tuple[str, Row]] = []
    with tempfile.TemporaryDirectory(prefix="halftone-large-") as temporary:
        os.environ.setdefault("HALFTONE_DATA", temporary)
        home = options.folder or Path(temporary)
        for kind in options.kinds or FAMILIES:
            for name, k in ((kind, 0), (f"{kind}-sick", 13)):
                if not (home / name).exists():
                    write(home / name, kind, k, small=options.small)
            for part in options.only:
                found += [(kind, row) for row in rows(part, asked(part, home / kind, options.size), small=options.small)]
    sys.stdout.write(f"{table(found)}\n{machine()}\n")
    return int(any(met is False for _, (_, _, _, met) in found))


if __name__ == "__main__":
    sys.exit(main())
