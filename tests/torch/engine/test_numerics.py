"""Every numerics setting acts: the switch stands inside the run and is put back, the module sees the dtype."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import torch
from tests.helpers.engine_runs import generate
from tests.helpers.reports import with_faulty_flash
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode

from halftone.contract.facts import SelfTestReport
from halftone.contract.request import Numerics
from halftone.engine.basics.torch_settings import attention_backends, heed, torch_settings, without_effect
from halftone.engine.service import DiffusersEngine
from halftone.measure.devices import find_device

CPU = torch.device("cpu")
SWITCHES = ("fp16_reduction", "bf16_reduction", "fp16_accumulation", "math_attention_reduction", "tf32")
MATMUL = torch.backends.cuda.matmul


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("fp16_reduction", lambda: MATMUL.allow_fp16_reduced_precision_reduction),
        ("bf16_reduction", lambda: MATMUL.allow_bf16_reduced_precision_reduction),
        ("fp16_accumulation", lambda: MATMUL.allow_fp16_accumulation),
        ("math_attention_reduction", torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed),
        ("tf32", lambda: MATMUL.fp32_precision == "tf32"),
        ("tf32", lambda: cast("Any", torch.backends.cudnn).conv.fp32_precision == "tf32"),
        ("tf32", lambda: MATMUL.allow_tf32),  # the older names, which raise if only the newer ones were written
        ("tf32", lambda: torch.backends.cudnn.allow_tf32),
        ("tf32", lambda: torch.get_float32_matmul_precision() == "high"),
        ("tf32", lambda: cast("Any", torch.backends).mkldnn.matmul.fp32_precision == "tf32"),
        ("tf32", lambda: cast("Any", torch.backends).mkldnn.conv.fp32_precision == "tf32"),
    ],
)
@pytest.mark.parametrize("value", [True, False])
def test_torch_switches_stand_inside_and_are_put_back(field: str, read: Callable[[], bool], value: bool) -> None:
    before = read()
    with torch_settings(msgspec.structs.replace(Numerics(), **{field: value}), CPU):
        assert bool(read()) is value
        assert not torch.is_grad_enabled()
    assert read() == before


def test_switches_are_put_back_after_a_failure() -> None:
    before = MATMUL.allow_fp16_reduced_precision_reduction
    with pytest.raises(RuntimeError, match="within"), torch_settings(Numerics(fp16_reduction=not before), CPU):
        raise RuntimeError("within")
    assert before == MATMUL.allow_fp16_reduced_precision_reduction


@pytest.fixture
def faulty_flash() -> Iterator[SelfTestReport]:
    """A processor whose flash attention the self-test found wrong."""
    yield with_faulty_flash(find_device("cpu"))
    heed("cpu", None)


def test_a_faulty_backend_is_gone_around_where_the_chosen_one_does_not_exist(faulty_flash: SelfTestReport) -> None:
    heed("cpu", faulty_flash)
    assert attention_backends("auto", CPU) == attention_backends("efficient", CPU) == [SDPBackend.MATH]
    assert without_effect(Numerics(attention_backend="efficient"), CPU)
    assert attention_backends("flash", CPU) == [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], "as set"


def test_shapes_that_no_fused_backend_takes_are_computed_where_one_is_faulty(faulty_flash: SelfTestReport) -> None:
    """Math stands behind the fused ones, though it is wrong itself."""
    swapped = {"flash": "right", "math": "wrong"}
    tests = [msgspec.structs.replace(one, outcome=swapped[one.backend or ""]) for one in faulty_flash.tests]
    heed("cpu", msgspec.structs.replace(faulty_flash, tests=tuple(tests)))
    query, value = torch.ones(1, 4, 8), torch.ones(1, 4, 6)
    with torch_settings(Numerics(), CPU):
        assert torch.nn.functional.scaled_dot_product_attention(query, query, value).shape == (1, 4, 6)


def test_attention_backend_is_taken_where_it_exists_and_named_where_not() -> None:
    assert attention_backends("math", CPU) == [SDPBackend.MATH]
    assert attention_backends("flash", CPU)[0] == SDPBackend.FLASH_ATTENTION
    assert attention_backends("cudnn", CPU) == []
    assert attention_backends("cudnn", torch.device("cuda"))[0] == SDPBackend.CUDNN_ATTENTION
    notes = without_effect(Numerics(attention_backend="cudnn", fp16_accumulation=True), CPU)
    assert len(notes) == 2
    assert without_effect(Numerics(), CPU) == ()
    assert without_effect(Numerics(tf32=True), CPU) == (), "a processor has such a switch, and the self-test says what it does"
    assert len(without_effect(Numerics(tf32=True), torch.device("mps"))) == 1
    with torch_settings(Numerics(attention_backend="math"), CPU):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def _in_force() -> dict[str, object]:
    """What torch itself says of every switch now."""
    cudnn = cast("Any", torch.backends.cudnn)
    return {
        "fp16_reduction": bool(MATMUL.allow_fp16_reduced_precision_reduction),
        "bf16_reduction": bool(MATMUL.allow_bf16_reduced_precision_reduction),
        "fp16_accumulation": bool(MATMUL.allow_fp16_accumulation),
        "math_attention_reduction": torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed(),
        "tf32": (MATMUL.fp32_precision, cudnn.conv.fp32_precision) == ("tf32", "tf32"),
        "attention_backend": tuple(
            name
            for name, enabled in (
                ("flash", torch.backends.cuda.flash_sdp_enabled()),
                ("efficient", torch.backends.cuda.mem_efficient_sdp_enabled()),
                ("math", torch.backends.cuda.math_sdp_enabled()),
            )
            if enabled
        ),
    }


@pytest.mark.parametrize(
    ("field", "value", "seen"),
    [
        *((field, value, value) for field in SWITCHES for value in (True, False)),
        ("attention_backend", "math", ("math",)),
        ("attention_backend", "flash", ("flash", "math")),
        ("attention_backend", "auto", ("flash", "efficient", "math")),
    ],
)
def test_a_setting_stands_in_every_network_of_a_run_and_not_after_it(
    engine: DiffusersEngine, models: dict[str, Path], field: str, value: Any, seen: object
) -> None:
    generate(engine, models["sd15"])
    before = _in_force()
    assert engine.loaded is not None
    found: dict[str, object] = {}
    handles = [
        engine.loaded.modules[name]
        .get_submodule(part)
        .register_forward_hook(lambda *_, name=name: found.update({name: _in_force()[field]}))
        for name, part in (("text_encoder", "final_layer_norm"), ("unet", "conv_in"), ("vae", "decoder.conv_in"))
    ]
    report, _ = generate(engine, models["sd15"], prompt=f"words not read before: {field} {value}", **{field: value})
    for handle in handles:
        handle.remove()
    assert found == {"text_encoder": seen, "unet": seen, "vae": seen}
    assert _in_force() == before
    assert report.images[0].state == "clean"


class _Kernels(TorchDispatchMode):
    """Which kernels of attention ran."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "attention" in str(func):
            self.ran.add(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("backend", "fused"), [("auto", True), ("flash", True), ("math", False)])
def test_the_backend_of_attention_is_the_one_that_computes(
    engine: DiffusersEngine, models: dict[str, Path], backend: str, fused: bool
) -> None:
    """In float16: flash attention of graphics cards takes no float32."""
    with _Kernels() as kernels:
        generate(engine, models["sd15"], "float16", attention_backend=backend)
    assert any("flash" in name or "efficient" in name for name in kernels.ran) == fused


def _watch(module: torch.nn.Module, seen: list[torch.dtype]) -> Any:
    def look(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_floating_point()]
        seen.append(tensors[0].dtype)

    return module.register_forward_pre_hook(look, with_kwargs=True)


def test_vae_float32_always_and_never(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    always, _ = generate(engine, models["sd15"], "float16", vae_float32="always")
    assert always.images[0].dtypes == {"text_encoder": "float16", "unet": "float16", "vae": "float32"}
    assert any("VAE" in str(reason) for reason in always.plan.reasons)
    for choice in ("never", "when-needed"):
        report, _ = generate(engine, models["sd15"], "float16", vae_float32=choice)
        assert report.images[0].dtypes["vae"] == "float16"


@pytest.mark.parametrize(
    ("choice", "dtype"), [("always", torch.float32), ("when-needed", torch.float16), ("never", torch.float16)]
)
def test_upcast_cross_attention(models: dict[str, Path], choice: str, dtype: torch.dtype) -> None:
    engine = DiffusersEngine()
    generate(engine, models["sd15"], "float16", upcast_cross_attention=choice)
    assert engine.loaded is not None
    block = engine.loaded.pipe.unet.mid_block.attentions[0].transformer_blocks[0]
    cross: list[torch.dtype] = []
    own: list[torch.dtype] = []
    handles = [_watch(block.attn2.to_q, cross), _watch(block.attn1.to_q, own)]
    report, _ = generate(engine, models["sd15"], "float16", upcast_cross_attention=choice)
    for handle in handles:
        handle.remove()
    assert set(cross) == {dtype}
    assert set(own) == {torch.float16}
    assert (report.plan.upcast_parameters > 0) == (choice == "always")


@pytest.mark.parametrize(("upcast", "dtype"), [(True, torch.float32), (False, torch.float16)])
def test_upcast_sampling_decides_what_the_scheduler_computes_in(
    models: dict[str, Path], upcast: bool, dtype: torch.dtype
) -> None:
    from halftone.engine.basics.quiet import quiet_libraries
    from halftone.engine.loading.load import load_pipeline
    from halftone.engine.loading.plans import apply_plan, base_plan
    from halftone.engine.sampling.flight import Flight
    from halftone.engine.sampling.hooks import Hooks
    from halftone.library.models import describe

    with quiet_libraries(), torch.no_grad():
        loaded = load_pipeline(describe(str(models["sd15"])), CPU)
        apply_plan(loaded, base_plan(loaded, "float16", Numerics()))
        latents: list[torch.dtype] = []
        hooks = Hooks(on_latents=lambda _step, tensor, _seconds: latents.append(tensor.dtype))
        flight = Flight(loaded, nan_check="every-step", upcast_sampling=upcast, hooks=hooks)
        flight.run({"prompt": "a", "width": 32, "height": 32, "num_inference_steps": 2, "output_type": "pt"}, torch.Generator())
    assert set(latents) == {dtype}


def test_sampler_names_a_scheduler_and_an_unknown_one_is_refused(models: dict[str, Path]) -> None:
    from tests.helpers.engine_runs import pixels

    from halftone.contract.errors import HalftoneError

    engine = DiffusersEngine()
    euler, _ = generate(engine, models["sd15"], sampler="Euler")
    other, _ = generate(engine, models["sd15"], sampler="dpm++ 2m karras")
    assert (pixels(euler) != pixels(other)).any()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], sampler="Oiler")
    assert caught.value.code == "setting-bad-value"
    assert "Euler" in str(caught.value)


def test_unknown_options_and_wrong_sizes_are_refused(models: dict[str, Path]) -> None:
    from halftone.contract.errors import HalftoneError

    engine = DiffusersEngine()
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"options": {"no_such_thing": 1}}, "option-unknown"),
        ({"width": 33}, "size-not-multiple"),
        ({"steps": 1001}, "value-out-of-range"),
        ({"batch": 0}, "value-out-of-range"),
        ({"image": "no-such.png"}, "image-missing"),
        ({"num_frames": 3}, "option-unknown"),
    ]
    for changes, code in refusals:
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sd15"], **changes)
        assert caught.value.code == code, changes
