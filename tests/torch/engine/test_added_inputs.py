"""Rescaled models with ControlNets, adapters and LoRAs: what these add is scaled too, or the rescaling is not used."""

import inspect
import logging
import math
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import torch
from tests.bench.families.flows import flux_dev
from tests.bench.faults import add_ons, loras
from tests.helpers.controls import loud_net, make_net, picture, save_net
from tests.helpers.engine_runs import Recorder, Steady, check, faulty_copy, generate, pixels
from tests.helpers.ip_adapters import save_flux_adapter, save_sd3_adapter
from tests.helpers.loras import make_lora
from tests.helpers.tiny import liven, load_tiny
from torch import nn
from torch.overrides import TorchFunctionMode

from halftone.cli.reports.json_objects import repair_object
from halftone.contract.messages import Repair
from halftone.contract.plan import Plan, input_of, inputs_in, is_input, rescaled_modules
from halftone.contract.request import Control, Lora, Numerics
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.tensors import map_tensors, relative_error
from halftone.engine.curing.exactness import Exactness
from halftone.engine.patches.image_prompts import adapter_exponents, attach, read_halves
from halftone.engine.rescaling.added_inputs import added_inputs, prove
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.sampling.unfinished import plan_fits
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState, exact_weights, realise
from halftone.health.explain import copy_limits
from halftone.library.records import set_applied
from halftone.measure.devices import find_device

BITS = 12
"""By which the stream of the faulty UNet is too large."""


_READS: Final = ("__bool__", "item", "tolist", "__float__", "__int__", "cpu", "numpy")


class Waits(TorchFunctionMode):
    """How often numbers are read out of tensors: on a device, each is a wait."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in _READS
        return func(*args, **(kwargs or {}))


@contextmanager
def entered(*functions: Callable[..., Any]) -> Generator[list[str]]:
    """Names of those of these functions that are called, in order."""
    codes = {function.__code__ for function in functions}
    names: list[str] = []

    def note(frame: Any, event: str, _value: object) -> None:
        if event == "call" and frame.f_code in codes:
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)


def psnr(ours: Any, theirs: Any) -> float:
    error = float(((pixels(ours).astype(float) - pixels(theirs)) ** 2).mean())
    return 120.0 if error == 0 else 10 * math.log10(255**2 / error)


@pytest.fixture(scope="module")
def faulty(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose UNet overflows in float16, and a ControlNet that gives as large numbers."""
    folder = tmp_path_factory.mktemp("faulty")
    faulty_copy(models["sd15"], folder / "model", "unet", "residual stream", BITS)
    save_net(loud_net(make_net(models["sd15"]), BITS - 2), folder / "net")
    picture(folder / "square.png")
    return folder


def control(folder: Path) -> tuple[Control, ...]:
    return (Control(path=str(folder / "net"), image=str(folder / "square.png"), scale=2.0),)


# --- whole pictures ---------------------------------------------------------------------------------------------------


def test_a_cure_found_without_a_controlnet_holds_with_it(faulty: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = DiffusersEngine()
    report, _ = check(engine, faulty / "model")
    assert report.plan.rescale.keys() == {"unet"}
    assert all("input" not in module for module in rescaled_modules(report.plan.rescale["unet"]))
    set_applied(report, True)
    with caplog.at_level(logging.INFO, logger="halftone.engine.curing.exactness"):
        narrow, _ = generate(engine, faulty / "model", "float16", controls=control(faulty))
        again, _ = generate(DiffusersEngine(), faulty / "model", "float16", controls=control(faulty))
    wide, _ = generate(engine, faulty / "model", controls=control(faulty))
    plain, _ = generate(engine, faulty / "model")
    assert psnr(wide, plain) < 35, "the ControlNet shows"
    assert psnr(narrow, wide) > 45
    assert (pixels(again) == pixels(narrow)).all()
    assert caplog.text.count("is exact for this call") == 1, "proven once, then remembered"
    k = -narrow.plan.rescale["unet"]["conv_in.weight"]
    assert inputs_in(narrow.plan.rescale["unet"])["mid_block_additional_residual"] == -k < 0


@pytest.mark.parametrize(
    ("family", "what", "way"),
    [
        ("sd3", "control", "checked alone"),
        ("flux", "control", "checked alone"),
        ("flux", "ip-adapter", "checked alone"),
        ("sdxl", "t2i", "checked with it"),
    ],
)
def test_cures_of_other_kinds_hold_with_other_add_ons(
    tmp_path: Path, family: str, what: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.environ["HALFTONE_DATA"]
    try:
        with caplog.at_level(logging.INFO, logger="halftone.engine.curing.exactness"):
            (row,) = add_ons.cases([family], ["stream"], [what], tmp_path, [way])
    finally:
        os.environ["HALFTONE_DATA"] = before
    proofs = caplog.text.count("is exact for this call")
    assert way == "checked with it" or proofs == 1, "proven once, then known: in the next step, and in the next picture"
    assert row["shows"] < add_ons.SHOWS
    assert add_ons.is_good(row), row


def test_a_lora_that_wakes_a_silent_layer_is_seen(tmp_path: Path) -> None:
    """A layer of zeros belongs to no group that was found by experiment; with a LoRA it writes into the scaled stream."""
    sound = add_ons.make_sound(add_ons.FAMILIES["sd3"], tmp_path / "sound", 0)
    silent = sound.pipe.transformer.transformer_blocks[0].ff.net[2]
    with torch.no_grad():
        silent.weight.zero_()
        silent.bias.zero_()
    sound = replace(sound, halves={})
    model = add_ons.faulty(_with_halves(sound, tmp_path), "stream", tmp_path / "faulty")
    assert model is not None
    delta = torch.randn(silent.weight.shape, generator=torch.Generator().manual_seed(2)) * 2.0 ** (model.bits - 2)
    file = loras.write("transformer", {"transformer_blocks.0.ff.net.2": delta}, tmp_path / "lora.safetensors")
    fields = {"loras": (Lora(path=str(file)),)}
    engine = DiffusersEngine()
    add_ons.checked(engine, model, {})
    wide, _ = add_ons.drawn(engine, model, fields, "float32")
    narrow, facts = add_ons.drawn(engine, model, fields, "float16")
    assert narrow is not None
    assert wide is not None
    assert add_ons.truth.psnr(narrow, wide) > add_ons.RIGHT, facts.state


def _with_halves(sound: Any, folder: Path) -> Any:
    sound.pipe.save_pretrained(folder / "silent")
    networks = add_ons.truth.networks(sound.pipe)
    halves = {name: add_ons.truth.in_float16(module, folder / "silent" / name) for name, module in networks.items()}
    run, peaks = add_ons.truth.peaks(sound.pipe, add_ons.families.arguments(sound.family))
    return replace(sound, folder=folder / "silent", halves=halves, run=run, peaks=peaks)


# --- what it costs before each call -----------------------------------------------------------------------------------


def test_a_lora_costs_no_search_of_the_network_at_each_step(faulty: Path, models: dict[str, Path], tmp_path: Path) -> None:
    engine = DiffusersEngine()
    set_applied(check(engine, faulty / "model")[0], True)
    used: dict[str, Any] = {"loras": (Lora(path=str(make_lora(models["sd15"], tmp_path / "add.safetensors"))),)}
    generate(engine, faulty / "model", "float16", **used)
    searches: list[int] = []
    for steps in (2, 5):
        with entered(rescale_groups) as found:
            made, _ = generate(engine, faulty / "model", "float16", steps=steps, **used)
        assert made.plan.rescale.keys() == {"unet"}
        searches.append(len(found))
    assert searches[0] == searches[1] > 0


def test_inputs_are_read_only_until_they_are_proven(faulty: Path) -> None:
    engine = DiffusersEngine()
    set_applied(check(engine, faulty / "model")[0], True)
    generate(engine, faulty / "model", "float16", steps=1)
    loaded = engine.loaded
    assert loaded is not None
    calls: list[dict[str, Any]] = []
    hook = loaded.modules["unet"].register_forward_pre_hook(lambda _m, _a, kwargs: calls.append(kwargs), with_kwargs=True)
    generate(engine, faulty / "model", "float16", controls=control(faulty))
    hook.remove()
    state = loaded.states["unet"]
    residuals = {name: value for name, value in calls[-1].items() if "residual" in name}
    zeros = {name: map_tensors(value, torch.zeros_like) for name, value in residuals.items()}
    assert residuals.keys() <= inputs_in(state.rescale).keys()
    bare = msgspec.structs.replace(state, rescale={name: k for name, k in state.rescale.items() if not is_input(name)})
    exactness = Exactness(loaded, find_device("auto"), "float16", lambda: None)

    def cost(kwargs: dict[str, Any], before: ComponentState) -> tuple[int, ComponentState | None]:
        with Waits() as waits, entered(prove) as done:
            found = exactness.settled(Call("unet", "forward", (torch.zeros(1), 1), kwargs), before)
        assert not done
        return waits.count, found

    assert cost(zeros, bare) == (1, bare), "zeros prove nothing, and are read at once"
    assert cost(residuals, bare) == (1, state), "what was remembered holds"
    assert cost(residuals, state) == (0, state)
    assert cost(zeros, state) == (0, state), "zeros stay zeros in any scale"


# --- a repaired copy --------------------------------------------------------------------------------------------------


def test_a_repaired_copy_takes_controlnets_here_and_says_what_it_is_no_use_for(faulty: Path, tmp_path: Path) -> None:
    engine = DiffusersEngine()
    command = Repair(job="r", model=str(faulty / "model"), numerics=Numerics(), output=str(tmp_path / "copy"))
    report = engine.repair(command, Recorder(), Steady())
    assert report.without_add_ons == ("unet",)
    note = copy_limits(report)
    assert note is not None
    assert note.text() == (
        "UNet: Halftone adapts LoRAs, ControlNets and IP-Adapters to this copy. In other programs, use them with the original."
    )
    assert repair_object(report)["without_add_ons"] == ("unet",)
    wide, _ = generate(engine, faulty / "model", controls=control(faulty), family="sd15")
    for precision in ("float32", "float16"):
        copy, _ = generate(DiffusersEngine(), tmp_path / "copy", precision, controls=control(faulty), family="sd15")
        assert psnr(copy, wide) > 45, precision
        assert copy.images[0].state == "clean"
    checked, _ = check(DiffusersEngine(), tmp_path / "copy", controls=control(faulty), family="sd15")
    assert [finding for finding in checked.findings if finding.code != "tight"] == []


# --- what is proven ---------------------------------------------------------------------------------------------------


class Stream(nn.Module):
    """A residual stream into which an argument is added, one that is not scaled, and one that is squared first."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm, self.leave = nn.Linear(4, 16), nn.LayerNorm(16, eps=1e-9), nn.Linear(16, 4)

    def forward(
        self, x: torch.Tensor, added: Any = None, beside: Any = None, squared: Any = None, more: Any = None
    ) -> torch.Tensor:
        x = self.enter(x)
        for value in added or ():
            x = x + value
        if squared is not None:
            x = x + squared * x.abs().mean()
        if more is not None:
            x = x + more["words"]
        x = self.norm(x)
        return self.leave(x if beside is None else x + beside)


DOWN = {"enter.weight": -5, "enter.bias": -5}


@pytest.fixture
def stream() -> tuple[Stream, Any]:
    torch.manual_seed(4)
    module = Stream().eval()
    masters = {name: value.clone() for name, value in exact_weights(module).items()}

    def run(rescale: Any, call: Call) -> Any:
        with torch.no_grad():
            realise(module, masters, ComponentState(dtype="float32", rescale=dict(rescale)))
            return run_call(call, module, "float32")

    return module, run


def made(scale: float = 1.0, seed: int = 1) -> torch.Tensor:
    return torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(seed)) * scale


def test_all_inputs_are_read_at_once(stream: tuple[Stream, Any]) -> None:
    module, _ = stream
    call = call_of(added=[torch.zeros(2), torch.zeros(3)], beside=torch.zeros(2), squared=made(), more={"words": made()})
    with Waits() as waits:
        assert added_inputs(call, module).keys() == {"squared", "more.words"}
    assert waits.count == 1
    with entered(inspect.signature) as looked_up:
        added_inputs(call, module)
    assert not looked_up, "the arguments of a class are known after its first call"


def call_of(**kwargs: Any) -> Call:
    return Call("unet", "forward", (torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)),), kwargs)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_each_input_gets_the_power_of_two_it_needs(stream: tuple[Stream, Any], scale: float) -> None:
    module, run = stream
    found = prove(call_of(added=[made(scale), made(scale, 2)], beside=made(scale, 3)), module, DOWN, run)
    assert found is not None
    assert found.rescale == {**DOWN, input_of("added"): -5}
    assert found.lasting


def test_an_input_that_no_power_of_two_fits_is_refused(stream: tuple[Stream, Any]) -> None:
    module, run = stream
    found = prove(call_of(more={"words": made()}), module, DOWN, run)
    assert found is not None
    assert found.rescale is None, "an input inside a dict is not scaled"
    sound = prove(call_of(squared=made()), module, DOWN, run)
    assert sound is not None
    assert sound.rescale == DOWN, "what is multiplied by the stream is scaled by it"


def test_an_input_without_effect_proves_nothing_for_later(stream: tuple[Stream, Any]) -> None:
    module, _ = stream
    call = call_of(added=[made()])
    result = prove(call, module, DOWN, lambda _rescale, _call: torch.ones(3))
    assert result is not None
    assert not result.lasting
    assert prove(call, module, DOWN, lambda _rescale, _call: torch.full((3,), math.inf)) is None


def test_what_counts_as_added(stream: tuple[Stream, Any]) -> None:
    module, _ = stream
    call = call_of(added=[torch.zeros(2)], beside=made(), more={"words": made(), "text_embeds": made(), "none": None})
    assert added_inputs(call, module).keys() == {"beside", "more.words"}
    assert added_inputs(Call("vae", "decode", (made(),), {}), module) == {}


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("made_on_the_device")
def test_a_call_can_be_repeated_though_the_network_empties_its_list(models: dict[str, Path]) -> None:
    unet = load_tiny(models["sd15"]).unet
    features = [torch.randn(1, 8, 16, 16), torch.randn(1, 16, 8, 8)]
    kwargs = {"encoder_hidden_states": torch.randn(1, 7, 16), "down_intrablock_additional_residuals": features}
    call = Call("unet", "forward", (torch.randn(1, 4, 16, 16), 500), {**kwargs, "return_dict": False})
    with torch.no_grad():
        first, second = run_call(call, unet, "float32"), run_call(call, unet, "float32")
        bare = run_call(replace(call, kwargs={**call.kwargs, "down_intrablock_additional_residuals": None}), unet, "float32")
    assert relative_error(second, first) == 0
    assert relative_error(bare, first) > 0.01


def test_every_input_of_a_unet_is_scaled_with_its_stream(models: dict[str, Path]) -> None:
    unet = load_tiny(models["sd15"]).unet
    (group,) = [group for group in rescale_groups("unet", unet) if group.name.startswith("residual stream")]
    assert {*inputs_in(dict.fromkeys(group.shrink, -3))} == {
        "down_block_additional_residuals",
        "mid_block_additional_residual",
        "down_intrablock_additional_residuals",
    }
    assert plan_fits(Plan(rescale={"unet": dict.fromkeys(group.shrink, -3)}), {"unet": unet})
    assert not plan_fits(Plan(rescale={"unet": {input_of("nothing"): -3}}), {"unet": unet})


def test_a_plan_that_scales_a_part_of_a_tensor_fits_its_model(models: dict[str, Path]) -> None:
    unet = load_tiny(models["sd15"]).unet
    for group in rescale_groups("unet", unet):
        names = dict.fromkeys(group.shrink, -1) | dict.fromkeys(group.grow, 1)
        assert plan_fits(Plan(rescale={"unet": names}), {"unet": unet}), group.name


def test_values_that_an_adapter_adds_to_the_stream_are_none_of_the_attention(tmp_path: Path) -> None:
    with quiet_libraries():
        transformer = flux_dev().transformer
    liven(transformer)
    attach(transformer, [read_halves(str(save_flux_adapter(transformer, tmp_path / "one.safetensors")))])
    values = [group for group in rescale_groups("transformer", transformer) if group.name.startswith("values of transformer_")]
    assert values
    assert not [name for group in values for name in group.shrink if "_ip" in name]
    at = "transformer_blocks.0.attn"
    own = {f"{at}.to_v.weight": -4, f"{at}.to_out.0.weight": 1, f"{at}.to_out.0.bias": -3, f"{at}.to_k.weight": -2}
    found = adapter_exponents(own, transformer)
    assert found == {f"{at}.processor.to_v_ip.0.{kind}": -3 for kind in ("weight", "bias")}


def test_the_one_layer_of_an_adapter_for_sd3_belongs_to_the_values(models: dict[str, Path], tmp_path: Path) -> None:
    transformer = load_tiny(models["sd3"]).transformer
    attach(transformer, [read_halves(str(save_sd3_adapter(transformer, tmp_path / "one.safetensors")))])
    groups = {group.name: group for group in rescale_groups("transformer", transformer)}
    name = "transformer_blocks.0.attn"
    assert f"{name}.processor.to_v_ip.weight" in groups[f"values of {name}"].shrink
