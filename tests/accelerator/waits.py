"""Within a step nobody waits for the card but the sentinel, which reads what the step before gave.

`test_card.py` runs this in a process of its own.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from tests.accelerator import card
from tests.bench.families.run import save
from tests.bench.families.table import CASES, Case
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import Steady, faulty_copy, generate
from tests.helpers.loras import make_lora
from tests.helpers.tiny import save_tiny
from torch.nn.modules.module import register_module_forward_hook

from halftone.contract.messages import PreviewReady, StepDone
from halftone.contract.request import Control, Lora, split_sampler
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.sampling import preview
from halftone.engine.sampling.samplers import FLOW_SAMPLERS, SAMPLERS
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.packed import Packed, PackedLinear
from halftone.library.samplers import OWN as SOLVED_HERE
from halftone.library.samplers import scheduler_of
from halftone.measure.probe import Probe
from halftone.measure.sentinel import Sentinel

STEPS: Final = 4
OWN: Final = "measure/late.py"
STAGING: Final = "weights/staging.py"
LIBRARIES: Final[dict[str, dict[str, int]]] = {
    "HunyuanDiT": {"hunyuandit/pipeline_hunyuandit.py": 1, OWN: 1},
    "HunyuanImage": {"transformers/transformer_hunyuanimage.py": 16},
    "AuraFlow": {"aura_flow/pipeline_aura_flow.py": 2},
    "Stable Cascade": {"schedulers/scheduling_ddpm_wuerstchen.py": 1},
}
"""How often files of diffusers wait within a step: a pipeline's loop, a network or a scheduler, which Halftone runs as they are.
Where they wait for all that is queued, the sentinel has nothing left to wait for.
"""
CHOSEN: Final = [case for case in CASES if "text" in case.tasks and not case.refused]


class Watching(Steady):
    """Notes who waits for the card, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[str]] = []
        self.left: list[int] = []
        """What the device had still to compute after each wait for a buffer within the loop."""

    def keep(self) -> bool:
        self.steps.append([])
        return False

    def note(self, _device: int, _reason: str) -> None:
        if self.steps:
            self.steps[-1].append(_waiter())
            if self.steps[-1][-1] == STAGING:
                self.left.append(card.install().left_to_do())

    @property
    def waiters(self) -> set[str]:
        """Who waited between the first step and the last."""
        return {waiter for step in self.steps[:-1] for waiter in step}

    @property
    def own(self) -> list[int]:
        """How often Halftone waited in each step, once the preview's colours were found in the first."""
        return [step.count(OWN) for step in self.steps[1:-1]]


def _waiter() -> str:
    """The file of Halftone or of a library that waits; torch's own files are passed over."""
    passed_over = {"torch", "host_schedule.py"}
    files = (Path(frame.f_code.co_filename) for frame, _ in traceback.walk_stack(sys._getframe(2)))
    return next(f"{file.parent.name}/{file.name}" for file in files if not passed_over & set(file.parts))


@contextmanager
def _layers_on_the_host() -> Generator[set[str]]:
    """The kinds of layers with weights, of whichever component, that give a tensor of the host. (Those without give tables of
    positions and times too, which some networks of diffusers make there.)
    """
    found: set[str] = set()

    def look(layer: torch.nn.Module, _args: object, output: object) -> None:
        weighs = next(layer.parameters(recurse=False), None) is not None
        if weighs and any(tensor.device.type == "cpu" for tensor in tensors_in(output)):
            found.add(type(layer).__name__)

    handle = register_module_forward_hook(look)
    try:
        yield found
    finally:
        handle.remove()


@pytest.fixture
def watching() -> Iterator[Watching]:
    watching = Watching()
    card.install().set_lag(1 << 40)  # it does nothing until somebody waits
    card.install().set_on_wait(watching.note)
    yield watching
    card.install().set_on_wait(None)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "text" in case.tasks and not case.refused], ids=lambda case: case.name
)
@pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
def test_no_step_of_any_family_waits_and_no_layer_runs_on_the_host(case: Case, tmp_path: Path, watching: Watching) -> None:
    model = save(case, tmp_path / (case.folder or case.name))
    more: dict[str, Any] = {"width": case.size, "height": case.size, "num_frames": case.frames, "options": case.options}
    with _layers_on_the_host() as astray:
        _, events = generate(DiffusersEngine(), model, "float16", steps=STEPS, control=watching, **more)
    assert astray == set()
    expected = LIBRARIES.get(case.name, {OWN: 1})
    assert watching.waiters <= {*expected, OWN}
    within = watching.steps[1:-1]
    assert within
    assert [Counter(step) for step in within] == [expected] * len(within)
    told = [told.step for told in events.of(StepDone)]
    assert told[-STEPS:] == list(range(1, STEPS + 1))


def once(names: Sequence[str], *, flow: bool) -> list[str]:
    """Each of Halftone's solvers with one schedule, which none of them computes on the device; each of diffusers' samplers alone
    and with one schedule, which all of them make a table of before the first step and never look at again.
    """
    here = {name: scheduler_of(name, flow=flow)[0] == SOLVED_HERE for name in names}
    kinds = {(own, split_sampler(name)[0], not own and not split_sampler(name)[1]): name for name, own in here.items()}
    return list(kinds.values())


@pytest.fixture(scope="module")
def sd15(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("sound") / "sd15", "sd15")


@pytest.fixture(scope="module")
def sd3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("sound") / "sd3", "sd3")


@pytest.fixture(scope="module")
def engine() -> DiffusersEngine:
    """With the model of the test before in memory."""
    return DiffusersEngine()


@pytest.mark.parametrize("sampler", once(SAMPLERS, flow=False))
def test_no_step_of_any_sampler_waits(sd15: Path, engine: DiffusersEngine, watching: Watching, sampler: str) -> None:
    generate(engine, sd15, "float16", sampler=sampler, steps=6, control=watching)
    if split_sampler(sampler)[0] == "DPM adaptive":  # it reads how far off its last step was, and leaves the sentinel no wait
        assert watching.waiters <= {OWN, "sampling/dpm_solvers.py"}
        assert set(watching.own) <= {0, 1}
    else:
        assert watching.waiters == {OWN}
        assert set(watching.own) == {1}


@pytest.mark.parametrize("sampler", once(FLOW_SAMPLERS, flow=True))
def test_no_step_of_any_sampler_of_flows_waits(sd3: Path, engine: DiffusersEngine, watching: Watching, sampler: str) -> None:
    generate(engine, sd3, "float16", sampler=sampler, steps=6, control=watching)
    compared = (
        {"schedulers/scheduling_flow_match_heun_discrete.py"} if sampler == "Heun" else set[str]()
    )  # its sigma with numbers
    assert watching.waiters <= {OWN, *compared}


@pytest.mark.parametrize(("mode", "full"), [("model", 0), ("group", 7), ("sequential", 12)])
def test_a_step_with_offloaded_weights_waits_for_an_empty_buffer_alone(
    sd15: Path, watching: Watching, mode: str, full: int
) -> None:
    """Of a device that does nothing before it is waited for, which then has more to compute: it never stands still."""
    generate(DiffusersEngine(), sd15, "float16", steps=STEPS, offload=mode, control=watching)
    assert watching.waiters == {STAGING if full else OWN}
    assert {step.count(STAGING) for step in watching.steps[1:-1]} == {full}
    assert all(left > 0 for left in watching.left)


@pytest.mark.parametrize("mode", ["model", "group", "sequential"])
def test_no_step_waits_for_weights_that_are_offloaded(sd15: Path, watching: Watching, mode: str) -> None:
    """Of a device that is a few layers behind."""
    card.install().set_lag(3)
    generate(DiffusersEngine(), sd15, "float16", steps=STEPS, offload=mode, control=watching)
    assert watching.waiters == set()


def test_no_step_of_a_cured_model_waits(sd15: Path, tmp_path: Path, watching: Watching) -> None:
    faulty = faulty_copy(sd15, tmp_path / "cured", "unet", "stream of unet", 17)
    engine = DiffusersEngine()
    generate(engine, faulty, "float16", family="sd15")
    report, _ = generate(engine, faulty, "float16", family="sd15", steps=STEPS, control=watching)
    assert report.plan.rescale
    assert report.images[0].state == "clean"
    assert watching.waiters == {OWN}
    assert set(watching.own) == {1}


def test_no_step_with_a_lora_and_a_controlnet_waits(sd15: Path, tmp_path: Path, watching: Watching) -> None:
    net = Control(path=str(save_net(make_net(sd15), tmp_path / "net")), image=str(picture(tmp_path / "square.png")))
    lora = Lora(path=str(make_lora(sd15, tmp_path / "add.safetensors")))
    generate(DiffusersEngine(), sd15, "float16", steps=STEPS, controls=(net,), loras=(lora,), control=watching)
    assert watching.waiters == {OWN}
    assert set(watching.own) == {1}


@pytest.mark.parametrize("nan_check", ["at-end", "off"])
def test_the_time_of_a_step_is_the_devices(sd15: Path, watching: Watching, nan_check: str) -> None:
    generate(DiffusersEngine(), sd15, "float16", steps=STEPS, nan_check=nan_check, control=watching)
    assert set(watching.own) == {1}


def test_the_sentinel_reads_a_device_that_is_not_the_current_one() -> None:
    device = torch.device("card:1")
    sentinel = Sentinel(device)
    sentinel.note(0, torch.tensor([1.0, float("nan")]).to(device))
    found = sentinel.note(1, torch.ones(2, device=device))
    assert found is not None
    assert (found.step, found.finite) == (0, False)


def test_previews_go_on_though_the_device_is_always_behind(
    sd15: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "EVERY", 0.0)
    monkeypatch.setattr(preview, "SHARE", 1e9)
    _, events = generate(DiffusersEngine(), sd15, "float16", steps=8, control=watching)
    assert [shown.step for shown in events.of(PreviewReady)] == [1, 3, 5]
    assert set(watching.own) == {1}


def test_a_cured_packed_layer_does_not_wait() -> None:
    packed = Packed.of(torch.zeros(4, 34, dtype=torch.uint8), "Q8_0")
    layer = PackedLinear(packed, None, torch.float16)
    layer.changes = ((slice(0, 2), 3),)
    layer.to("card")
    inputs = torch.ones(1, 32, dtype=torch.float16).to("card")
    extension = card.install()
    extension.reset()
    layer(inputs)
    assert extension.waits(0) == {}


def test_the_probe_waits_for_nothing_though_the_weights_lay_elsewhere_when_it_was_made() -> None:
    layer = torch.nn.Linear(4, 4)
    extension = card.install()
    with Probe(layer, "unet") as probe:
        layer.to("card")
        inputs = torch.ones(1, 4).to("card")
        extension.reset()
        layer(inputs)
        assert extension.waits(0) == {}
    assert [reading.module for reading in probe.readings()] == [""]
