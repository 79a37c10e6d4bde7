"""One tiny model in the real engine, with faults that strike at a step, and an exact record of what was computed."""

import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.bench.faults.families import Family
from tests.helpers import tiny
from tests.helpers.engine_runs import Recorder, Steady, pixels

from halftone.contract.facts import GenerateReport
from halftone.contract.messages import AnyEvent, Generate, PhaseChanged
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics, OptionValue, PictureRequest, Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.finding.capture import effective
from halftone.engine.loading.plans import apply_plan
from halftone.engine.sampling.samplers import schedulers
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.parts import role
from halftone.settings.places import data_dir

SEED: Final = 5


@dataclass(frozen=True)
class Case:
    """One way to make a picture. task: "text", "image" or "mask"; numerics: beyond the defaults."""

    family: str
    sampler: str | None = None
    label: str = ""
    guidance: float | None = None
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    task: str = "text"
    steps: int = 5
    negative: str = ""
    numerics: dict[str, Any] = field(default_factory=dict[str, Any])
    strength: float | None = None

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.family, self.sampler, self.label) if part)


@dataclass
class Made:
    """A picture and how it came about. latents: what the decoder was given, exactly; steps: those that were really computed."""

    report: GenerateReport
    pixels: NDArray[np.uint8] | None
    latents: torch.Tensor | None
    steps: int
    forwards: int

    @property
    def plan(self) -> Plan:
        return self.report.plan

    def same(self, other: "Made", *, latents: bool = True) -> bool:
        """To the last bit: the pixels, and what the decoder was given."""
        if self.pixels is None or other.pixels is None or self.latents is None or other.latents is None:
            return False
        return bool((self.pixels == other.pixels).all()) and (not latents or torch.equal(self.latents, other.latents))


@dataclass
class Counts:
    """Of one picture. steps: calls of a scheduler's own step so far; forwards: calls of the struck module; decoded: the last
    input of the decoder.
    """

    steps: int = 0
    forwards: int = 0
    decoded: torch.Tensor | None = None


class Rig:
    """A family's tiny model, loaded once; every picture of it starts without what was learned before."""

    def __init__(self, family: Family, folder: Path) -> None:
        self.family = family
        self.folder = folder / family.name
        torch.manual_seed(0)
        with quiet_libraries():
            pipe = family.build()
            for part in pipe.components.values():
                if isinstance(part, torch.nn.Module):
                    tiny.liven(part)
            pipe.save_pretrained(self.folder)
        self.image = folder / "image.png"
        self.mask = folder / "mask.png"
        _draw(self.image, self.mask, family.size)
        self.engine = DiffusersEngine()
        self.counts = Counts()
        self._struck: dict[str, torch.nn.Module] = {}

    def component(self, kind: str) -> torch.nn.Module:
        """The last component with a role; a model is in memory once a picture was made."""
        assert self.engine.loaded is not None
        return [module for name, module in self.engine.loaded.modules.items() if role(name, module) == kind][-1]

    def prepare(self, case: Case) -> None:
        """Load the model, and choose the layers that faults sit in: those in the middle of all that run."""
        self._struck.clear()
        self.make(case)
        for kind in ("denoise", "decode"):
            ran: list[torch.nn.Module] = []
            with ExitStack() as stack:
                for layer in _layers(self.component(kind)):
                    stack.enter_context(removed(layer.register_forward_hook(partial(_note, ran))))
                self.make(case)
            self._struck[kind] = ran[len(ran) // 2]

    def struck(self, kind: str) -> Any:
        """The layer of a component that a fault sits in."""
        return self._struck[kind]

    def make(
        self,
        case: Case,
        precision: str = "float16",
        fault: "Fault | None" = None,
        on_event: Callable[[AnyEvent], None] = lambda _event: None,
        after_step: Callable[[int], None] = lambda _steps: None,
    ) -> Made:
        """One picture. fault: in force meanwhile; after_step: told how many steps are done."""
        shutil.rmtree(data_dir() / "cures", ignore_errors=True)
        given: dict[str, Any] = {
            name: str(path) for name, path in (("image", self.image), ("mask", self.mask)) if _wants(case.task, name)
        }
        request = PictureRequest(
            prompt="a red sun",
            negative=case.negative,
            model=str(self.folder),
            width=self.family.size,
            height=self.family.size,
            steps=case.steps,
            seed=SEED,
            sampler=case.sampler,
            guidance=case.guidance,
            num_frames=self.family.frames,
            options={**self.family.options, **case.options},
            start=Start(strength=case.strength),
            output=str(self.image.with_name("made.png")) if self.family.frames else None,  # of a video the first frame
            overwrite=self.family.frames is not None,
            numerics=Numerics(precision=precision, **case.numerics),  # pyright: ignore[reportArgumentType]
            **given,
        )
        self.counts = Counts()
        emit = Told(on_event)
        with ExitStack() as stack:
            if fault is not None:
                stack.enter_context(fault(self))
            stack.enter_context(self._counted())
            report = self.engine.generate(Generate(job="b", request=request), emit, After(after_step))
        picture = report.images[0]
        return Made(
            report,
            pixels(report) if picture.path else None,
            self.counts.decoded,
            self.counts.steps,
            self.counts.forwards,
        )

    @contextmanager
    def _counted(self) -> Generator[None]:
        """Count what is computed while the block runs; before the first picture nothing is loaded, so nothing is counted."""
        loaded = self.engine.loaded
        if loaded is None or "denoise" not in self._struck:
            yield
            return
        decoder: Any = self.component("decode")
        decode = type(decoder).decode

        def recorded(latents: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.counts.decoded = latents.detach().clone()
            return decode(decoder, latents, *args, **kwargs)

        handle = self.struck("denoise").register_forward_hook(self._count_forward)
        with ExitStack() as stack:
            stack.callback(handle.remove)
            decoder.__dict__["decode"] = recorded
            stack.callback(decoder.__dict__.pop, "decode")
            for kind in _scheduler_kinds(loaded.pipe):
                stack.enter_context(self._counted_steps(kind))
            yield

    def _count_forward(self, *_: Any) -> None:
        self.counts.forwards += 1

    @contextmanager
    def _counted_steps(self, kind: Any) -> Generator[None]:
        step = kind.step

        def counted(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            result = step(scheduler, *args, **kwargs)
            self.counts.steps += "step" in vars(scheduler)  # it is watched; where a failed step is rehearsed it is not
            return result

        counted.__wrapped__ = step  # pyright: ignore[reportFunctionMemberAccess] - pipelines read its signature
        kind.step = counted
        try:
            yield
        finally:
            kind.step = step

    def cured_from(
        self,
        case: Case,
        step: int,
        plan: Plan,
        precision: str = "float16",
        fault: "Fault | None" = None,
    ) -> Made:
        """The picture as it is when this plan is in force from `step` (0-based; the last one: from the decode) on. fault: what
        the network does there besides; under the plan it fails no more.
        """
        assert self.engine.loaded is not None
        loaded = self.engine.loaded
        with ExitStack() as stack:
            # what is entered in the midst of a job is left after it, out of order
            stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())

            def put() -> None:
                apply_plan(loaded, plan)
                numerics = effective(Numerics(precision=precision, **case.numerics), plan.settings)  # pyright: ignore[reportArgumentType]
                stack.enter_context(torch_settings(numerics, loaded.device))

            def on_event(event: AnyEvent) -> None:
                if step == 0 and isinstance(event, PhaseChanged) and event.phase == "denoise":
                    put()

            def after_step(done: int) -> None:
                if done == step and step > 0:
                    put()

            return self.make(case, precision, fault, on_event, after_step)


def _wants(task: str, given: str) -> bool:
    return task == "mask" or (task == "image" and given == "image")


def _scheduler_kinds(pipe: Any) -> list[Any]:
    """Classes whose step is counted: those of the pipeline and all that a sampler may put there."""
    import diffusers

    from halftone.engine.sampling.solver_scheduler import SolverScheduler
    from halftone.library.samplers import FLOW_METHODS, METHODS

    named = [SolverScheduler, *(getattr(diffusers, method.scheduler) for method in (*METHODS.values(), *FLOW_METHODS.values()))]
    return list(dict.fromkeys([*named, *(type(scheduler) for scheduler in schedulers(pipe))]))


class Told(Recorder):
    """Passes every event on."""

    def __init__(self, on_event: Callable[[AnyEvent], None]) -> None:
        super().__init__()
        self._on_event = on_event

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        self._on_event(event)


class After(Steady):
    """Tells how many steps are done after each."""

    def __init__(self, after_step: Callable[[int], None]) -> None:
        super().__init__()
        self._after_step = after_step

    def keep(self) -> bool:
        super().keep()
        self._after_step(self.steps)
        return False


def _draw(image: Path, mask: Path, size: int) -> None:
    """A picture with something in it, and a mask of its right half."""
    rows, columns = np.mgrid[0:size, 0:size]
    colours = np.stack([rows * 255 // size, columns * 255 // size, (rows + columns) * 127 // size], axis=-1)
    Image.fromarray(colours.astype(np.uint8)).save(image)
    Image.fromarray(np.where(columns >= size // 2, 255, 0).astype(np.uint8)).save(mask)


# --- faults ----------------------------------------------------------------------------------------

Fault = Callable[[Rig], AbstractContextManager[None]]
"""In force while the block runs."""


def _note(ran: list[torch.nn.Module], module: torch.nn.Module, *_: Any) -> None:
    if module not in ran:
        ran.append(module)


def _layers(network: torch.nn.Module) -> list[torch.nn.Module]:
    """Linear layers and convolutions with more than a few weights."""
    layers = [child for child in network.modules() if isinstance(child, (torch.nn.Linear, torch.nn.Conv2d, torch.nn.Conv3d))]
    return [child for child in layers if child.weight.numel() > 64]


def _bad(output: Any) -> Any:
    return torch.full_like(output, float("nan"))  # some networks clip infinities away


def passing(step: int) -> Fault:
    """Strikes one call of that step (0-based), once."""

    @contextmanager
    def fault(rig: Rig) -> Generator[None]:
        done: list[bool] = []

        def strike(_module: Any, _args: Any, output: Any) -> Any:
            if done or rig.counts.steps < step:
                return None
            done.append(True)
            return _bad(output)

        with removed(rig.struck("denoise").register_forward_hook(strike)):
            yield

    return fault


def standing(step: int, healed: Callable[[torch.Tensor], bool], *, everywhere: bool = False) -> Fault:
    """Strikes every call from that step on until its layer's weights are healed. everywhere: the network's first weights too."""

    @contextmanager
    def fault(rig: Rig) -> Generator[None]:
        layer: Any = rig.struck("denoise")
        weights = [layer.weight, *([next(rig.component("denoise").parameters())] if everywhere else [])]

        def strike(_module: Any, _args: Any, output: Any) -> Any:
            return None if rig.counts.steps < step or all(healed(weight) for weight in weights) else _bad(output)

        with removed(layer.register_forward_hook(strike)):
            yield

    return fault


def decoding(*, once: bool) -> Fault:
    """Strikes the decoder: once, or as long as its layer is in float16."""

    @contextmanager
    def fault(rig: Rig) -> Generator[None]:
        layer: Any = rig.struck("decode")
        done: list[bool] = []

        def strike(_module: Any, _args: Any, output: Any) -> Any:
            if (once and done) or layer.weight.dtype != torch.float16:
                return None
            done.append(True)
            return _bad(output)

        with removed(layer.register_forward_hook(strike)):
            yield

    return fault


@contextmanager
def removed(handle: Any) -> Generator[None]:
    try:
        yield
    finally:
        handle.remove()


def swelling(step: int) -> Fault:
    """From that step on one convolution before a norm gives numbers 2**20 times as large: a true overflow, that a rescaling
    cures.
    """

    @contextmanager
    def fault(rig: Rig) -> Generator[None]:
        layer: Any = rig.component("denoise").get_submodule("mid_block.resnets.0.conv1")

        def swell(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
            return None if rig.counts.steps < step else output * 2.0**20

        with removed(layer.register_forward_hook(swell)):
            yield

    return fault


def not_float16(now: torch.Tensor) -> bool:
    return now.dtype != torch.float16


def wide(now: torch.Tensor) -> bool:
    return now.dtype == torch.float32
