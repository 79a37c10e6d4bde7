"""Write a rescaling as files: a copy of the model in which only the rescaled tensors differ, compared with the original before it
gets its name. No file holds the epsilons of norms; what that costs is measured and reported.
"""

import logging
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
import torch

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, ModelFacts, RepairReport, SelfTestReport
from halftone.contract.messages import Examine, PhaseChanged, Repair
from halftone.contract.plan import stored_rescale
from halftone.contract.request import CheckInputs
from halftone.contract.vocabulary import Layout
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import relative_error
from halftone.engine.checks.examine import Examination
from halftone.engine.checks.layouts import stop_upcasting, write_as_file, write_as_folder
from halftone.engine.checks.rewrite import rewrite
from halftone.engine.finding.capture import Range
from halftone.engine.loading.load import Loaded, component_from, exact_source
from halftone.engine.loading.plans import HALF_DONE, apply_state, streaming
from halftone.engine.loading.single_file import exponents_in_file, merged_in_file
from halftone.engine.patches.lora import changed_components
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import CLOSE, run_call
from halftone.engine.weights.packed import packed_layers
from halftone.engine.weights.parts import role
from halftone.engine.weights.precision import ComponentState, exact_weights, split_rows
from halftone.health.judge import why_broken
from halftone.library.add_ons.vaes import VAE
from halftone.library.files.copies import REPAIRED, check_copy, layout_of
from halftone.library.layouts import check_layout
from halftone.metadata.picture import output_error
from halftone.settings.folders import new_file, new_folder

log = logging.getLogger(__name__)


def repair(
    loaded: Loaded, device: DeviceFacts, tested: SelfTestReport | None, command: Repair, emit: Emit, control: Control
) -> RepairReport:
    """Check in float16, then write the rescaled copy.

    Raises no-one-file, repair-eight-bits, repair-several-files, model-broken, nothing-to-repair, no-rescale (no rescaling was
    verified that a copy can hold), output-*, disk-full.
    """
    started = time.perf_counter()
    layout = command.layout or layout_of(loaded.facts)
    target = check_copy(loaded.facts, command.output, layout)
    check_layout(loaded.facts, layout)
    if any(packed_layers(module) for module in loaded.modules.values()):
        raise HalftoneError("repair-eight-bits", model=loaded.facts.name)
    examination = Examination(loaded, device, tested, _in_float16(command), emit, control)
    rescale = rescaling_of(examination.run())
    wide = examination.wide
    assert wide is not None, "only a damaged model has no range pass, and that is refused"
    merged = _merged(loaded)
    try:
        with new_file(target) if layout == "file" else new_folder(target) as part:
            changed = _write(loaded, part, layout, command, rescale, merged, emit, control)
            emit(PhaseChanged(phase="verify"))
            in_blocks = {name: exact_source(loaded, name) for name in examination.in_blocks}
            with streaming(loaded, in_blocks):
                error, finite = _compare(loaded, part, {*rescale, *merged}, wide, control)
            if error > CLOSE:  # a copy cannot hold the epsilons of norms
                raise HalftoneError("no-rescale", model=loaded.facts.name)
    except OSError as problem:
        raise output_error(problem, target, loaded.facts.size_bytes) from problem
    return RepairReport(
        path=str(target),
        changed_tensors=changed,
        float32_error=error,
        float16_finite=finite,
        seconds=time.perf_counter() - started,
        loras=tuple(lora.name for lora in loaded.loras),
        without_add_ons=tuple(name for name in rescale if role(name, loaded.modules[name]) != "decode"),
    )


def _in_float16(command: Repair) -> Examine:
    """The check that shows what is to be rescaled."""
    return Examine(
        job=command.job,
        model=command.model,
        device=command.device,
        depth=command.depth,
        numerics=msgspec.structs.replace(command.numerics, precision="float16", fp8_storage=False),
        inputs=CheckInputs(loras=command.loras),
    )


def rescaling_of(report: CheckReport) -> dict[str, dict[str, int]]:
    """The verified rescaling of a check, as files hold it. Raises model-broken, nothing-to-repair, no-rescale."""
    model = report.model.name
    if report.verdict == "broken" and why_broken(report) not in ("no-cure", "no-cure-known"):
        raise HalftoneError("model-broken", model=model, detail=_damage(report))
    if report.verdict in ("healthy", "tight"):
        raise HalftoneError("nothing-to-repair", model=model)
    cure = next((cure for cure in report.cures if cure.kind == "rescale" and cure.refusal is None), None)
    if cure is None or not cure.plan.rescale:
        raise HalftoneError("no-rescale", model=model)
    return stored_rescale(cure.plan.rescale)


def _write(
    loaded: Loaded,
    part: Path,
    layout: Layout,
    command: Repair,
    rescale: Mapping[str, Mapping[str, int]],
    merged: Mapping[str, Mapping[str, torch.Tensor]],
    emit: Emit,
    control: Control,
) -> int:
    """Write the copy in a layout into the new file or folder `part`. Returns how many tensors differ."""
    named = [f"{lora.name} {lora.shown_weight}" for lora in loaded.loras]
    source = Path(loaded.facts.path)
    if layout != layout_of(loaded.facts):
        source = part
        if layout == "file":
            write_as_file(loaded.facts, part, emit, control)
        else:
            write_as_folder(loaded.facts, part, emit)
    if layout == "file":
        return _write_file(loaded.facts, source, part, rescale, emit, merged, named)
    changed = write_copy(source, part, rescale, emit, control, merged, named)
    if command.layout is not None and VAE in rescale:
        stop_upcasting(part)
    return changed


def _damage(report: CheckReport) -> Words:
    """Name the place of the damage, for a sentence."""
    found = next((finding for finding in report.findings if "tensor" in finding.facts), None)
    return (
        Words("no layer shows where they begin")
        if found is None
        else Words("tensor {0} of {1}", (str(found.facts["tensor"]), found.component))
    )


def _merged(loaded: Loaded) -> dict[str, dict[str, torch.Tensor]]:
    """Component -> parameter -> its value with the LoRAs added."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name in sorted(changed_components(loaded.adapters)):
        layers = {layer for adapter in loaded.adapters for layer in adapter.layers.get(name, {})}
        exact = exact_source(loaded, name)
        parameters = loaded.modules[name].named_parameters()
        found[name] = {key: exact[key] for key, _ in parameters if key.rpartition(".")[0] in layers}
    return found


def write_copy(
    source: Path,
    target: Path,
    rescale: Mapping[str, Mapping[str, int]],
    emit: Emit,
    control: Control,
    merged: Mapping[str, Mapping[str, torch.Tensor]] | None = None,
    loras: Sequence[str] = (),
) -> int:
    """Copy the folder into the empty `target`, or change it in place where it is the target: with the named tensors rescaled and
    the merged ones (component -> parameter -> value) replaced. Returns how many differ. loras: what was merged, for the metadata
    of the files.
    """
    merged = merged or {}
    files = [path for path in source.rglob("*") if path.is_file() and path.relative_to(source).parts[0] != "training"]
    found: dict[str, dict[str, bool]] = {component: {} for component in (*rescale, *merged)}
    total = sum(path.stat().st_size for path in files)
    done = 0
    for path in files:
        control.check()
        relative = path.relative_to(source)
        copy = target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        component = relative.parts[0]
        scaled: dict[str, bool] = {}
        if component in found and path.suffix == ".safetensors":
            scaled = rewrite(path, copy, rescale.get(component, {}), REPAIRED, merged.get(component), loras)
        if not scaled and copy != path:
            shutil.copyfile(path, copy)
        found.setdefault(component, {}).update(scaled)
        done += path.stat().st_size
        emit(PhaseChanged(phase="write", done=done, total=total))
    for component, own in found.items():
        if missing := {*rescale.get(component, ()), *merged.get(component, ())} - own.keys():
            raise HalftoneError(
                "internal",
                detail=Words("{0} tensors of {1} are missing from its files, first {2}", (len(missing), component, min(missing))),
            )
    return len({(component, split_rows(name)[0]) for component, own in found.items() for name, differs in own.items() if differs})


def _write_file(
    facts: ModelFacts,
    source: Path,
    target: Path,
    rescale: Mapping[str, Mapping[str, int]],
    emit: Emit,
    merged: Mapping[str, Mapping[str, torch.Tensor]],
    loras: Sequence[str],
) -> int:
    """Write the same for a model in one file, `source`, which may be the target."""
    emit(PhaseChanged(phase="write", done=0, total=facts.size_bytes))
    exponents = exponents_in_file(source, facts.family, rescale)
    differs = rewrite(source, target, exponents, REPAIRED, merged_in_file(source, facts.family, merged), loras)
    emit(PhaseChanged(phase="write", done=facts.size_bytes, total=facts.size_bytes))
    return len({split_rows(name)[0] for name, differ in differs.items() if differ})


def _compare(loaded: Loaded, copy: Path, changed: Collection[str], wide: Range, control: Control) -> tuple[float, bool]:
    """(largest relative error of the copy in float32 against the range pass, whether the copy is finite in float16)."""
    error, finite = 0.0, True
    for name in sorted(changed):
        module, before = loaded.modules[name], loaded.states[name]
        masters = exact_weights(component_from(loaded, name, copy))
        try:
            for dtype in ("float32", "float16"):
                apply_state(loaded, name, ComponentState(dtype=dtype), masters, force=True)
                for call, reference in wide.of(name):
                    control.check()
                    result = run_call(call, module, dtype)
                    if dtype == "float32":
                        error = max(error, relative_error(result, reference))
                    else:
                        finite = finite and is_finite(result)
            apply_state(loaded, name, before, exact_source(loaded, name), force=True)
        except BaseException:
            loaded.states[name] = HALF_DONE  # it holds the weights of the copy
            raise
    return error, finite
