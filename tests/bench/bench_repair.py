"""What a repaired copy is: the same model in float32, finite in float16, and as close there as the sound model.

    PYTHONPATH=app:. python tests/bench/bench_repair.py [--small]

Fragile Pocket, and tiny random models of other families with one overflow planted by the bench of faults. Each is repaired as
`halftone repair` does it. Everything after that is plain diffusers and torch: the broken model draws a picture in float32 while
every call of its networks is written down, and each call is repeated with the networks of the copy in float32, float16 and
bfloat16, and with those of the sound model in float16. Errors are relative root mean squares over all calls of each network
that was changed, and the worst of these networks counts. Every tensor of the copy is compared with the original's: equal, or
all of each row by one power of two.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors.torch import load_file
from tests.bench.common import Options, Row, alone, one_thread
from tests.bench.faults import truth
from tests.bench.faults.families import FAMILIES, arguments, load, make_sound
from tests.bench.faults.inject import make_case
from tests.helpers.silence import Going, silent
from torch import nn

from halftone.contract.messages import Repair
from halftone.contract.vocabulary import DType
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.tensors import DTYPES
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import invoke
from halftone.settings.places import resources

SAME: Final = 1e-4
AS_SOUND: Final = 1.1
CLOSER: Final = 4.0
PLANTED: Final = (("sd15", "stream"), ("sdxl", "gate"), ("sd3", "value"))
"""Family, and the kind of the overflow."""


class Broken(NamedTuple):
    """A model that overflows, the sound one it was made of, and what its pipeline is called with."""

    name: str
    folder: Path
    sound: Path
    arguments: Callable[[], dict[str, Any]]


def rows(options: Options) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="halftone-repair-") as place, quiet_libraries(), one_thread():
        folder = Path(place)
        for broken in _models(folder, options):
            copy = folder / "repaired"
            report = DiffusersEngine().repair(Repair(job="bench", model=str(broken.folder), output=str(copy)), silent, Going())
            found += _compared(broken, copy, report.changed_tensors)
            shutil.rmtree(copy)
    return found


def _models(folder: Path, options: Options) -> Iterator[Broken]:
    if not options.small:
        pocket = resources() / "pocket"
        yield Broken("Fragile Pocket", make_fragile(pocket, folder / "fragile"), pocket, _pocket_arguments)
    for name, kind in PLANTED[:1] if options.small else PLANTED:
        family = FAMILIES[name]
        sound = make_sound(family, folder, 0)
        case = next(
            found for seed in range(20) if (found := make_case(sound, kind, seed, folder / f"{name}-{kind}-{seed}")) is not None
        )
        yield Broken(f"tiny {name}, {kind}", case.folder, sound.folder, lambda family=family: arguments(family))


def _pocket_arguments() -> dict[str, Any]:
    generator = torch.Generator("cpu").manual_seed(5)
    return {"prompt": "a red sun over green hills", "num_inference_steps": 3, "generator": generator}


def _compared(broken: Broken, copy: Path, told: int) -> list[Row]:
    changed, foreign = _tensors(broken.folder, copy)
    pipe = load(broken.folder)
    calls = truth.with_encode(truth.run_float32(pipe, broken.arguments()), pipe).calls
    kinds = {name: type(module) for name, module in truth.networks(pipe).items()}
    parts = {name: kinds[name] for name, _ in changed}
    same = _errors(calls, parts, copy, "float32")
    half = _errors(calls, kinds, copy, "float16")
    finite = all(math.isfinite(error) for error in half.values())
    to_sound = _worst(half, _errors(calls, parts, broken.sound, "float16"))
    to_bfloat = 1 / _worst(half, _errors(calls, parts, copy, "bfloat16"))
    head = f"{broken.name}: "
    return [
        (
            f"{head}tensors changed, and not by powers of two",
            f"{len(changed)}, {foreign}",
            f"{told}, 0",
            len(changed) == told and not foreign,
        ),
        (f"{head}FP32, error against the original", f"{max(same.values()):.2g}", f"at most {SAME:g}", max(same.values()) <= SAME),
        (f"{head}finite in FP16, all calls of all networks", "yes" if finite else "no", "yes", finite),
        (f"{head}error in FP16 over the sound model's", f"{to_sound:.3f}", f"at most {AS_SOUND}", to_sound <= AS_SOUND),
        (f"{head}error in BF16 over that in FP16", f"{to_bfloat:.2f}", f"at least {CLOSER:g}", to_bfloat >= CLOSER),
    ]


def _tensors(before: Path, after: Path) -> tuple[set[tuple[str, str]], int]:
    """(component, tensor) of those that differ; how many of these differ by anything but one power of two for each row."""
    changed: set[tuple[str, str]] = set()
    foreign = 0
    for file in before.rglob("*.safetensors"):
        component = file.relative_to(before).parts[0]
        old, new = load_file(file), load_file(after / file.relative_to(before))
        assert old.keys() == new.keys()
        for name, tensor in old.items():
            if tensor.dtype != new[name].dtype or not torch.equal(tensor, new[name]):
                changed.add((component, name))
                foreign += not _by_powers(tensor.double(), new[name].double())
    return changed, foreign


def _by_powers(old: torch.Tensor, new: torch.Tensor) -> bool:
    rows = (old.reshape(len(old), -1), new.reshape(len(new), -1)) if old.dim() else (old.reshape(1, 1), new.reshape(1, 1))
    for first, second in zip(*rows, strict=True):
        there = first != 0
        mantissa, exponent = torch.frexp(second[there] / first[there])
        if bool((second[~there] != 0).any()) or bool((mantissa != 0.5).any()) or exponent.unique().numel() > 1:
            return False
    return True


def _errors(calls: list[truth.Called], kinds: Mapping[str, Any], folder: Path, dtype: DType) -> dict[str, float]:
    """Of every network that was called, as that folder holds it, run in dtype: over all its calls, each counting alike."""
    found: dict[str, float] = {}
    for name, kind in kinds.items():
        own = [call for call in calls if call.component == name]
        if own:
            module = kind.from_pretrained(folder / name, dtype=DTYPES[dtype], local_files_only=True).eval()
            found[name] = math.sqrt(sum(_error(call, module, dtype) ** 2 for call in own) / len(own))
    return found


def _error(call: truth.Called, module: nn.Module, dtype: DType) -> float:
    with torch.no_grad():
        result = invoke(module, getattr(module, call.method), dtype, call.args, call.kwargs)
    return truth.relative(result, call.result) if all(map(truth.finite, truth.tensors(result))) else math.inf


def _worst(errors: Mapping[str, float], others: Mapping[str, float]) -> float:
    """Largest ratio, over the networks that stand in both."""
    return max(errors[name] / other for name, other in others.items())


if __name__ == "__main__":
    alone(rows, __doc__)
