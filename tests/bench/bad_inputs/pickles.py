"""Pickles, programs and links to them wherever a model could name them: none is opened, none runs."""

import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file
from tests.bench.bad_inputs.case import Case, Use
from tests.bench.bad_inputs.configurations import with_value
from tests.bench.bad_inputs.folders import read_tensors
from tests.bench.bad_inputs.models import MODEL, Base, base, generate, uses
from tests.helpers.controls import make_net, picture
from tests.helpers.hostile_pickles import MARK, hostile
from tests.helpers.ip_adapters import save_adapter, save_encoder

from halftone.contract.request import Control, IpAdapter
from halftone.library.files.header import refuse_misnamed

KIND: Final = "pickles"
_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".msgpack", ".h5")
_NAMES: Final = (
    "pytorch_model.bin", "diffusion_pytorch_model.bin", "model.bin", "pytorch_model.fp16.bin", "adapter_model.bin", "model.pt",
    "tokenizer.pkl", "vocab.pkl", "scheduler.pt", "optimizer.pt", "training_args.bin", "learned_embeds.bin", "model.ckpt",
)  # fmt: skip
_FAMILIES: Final = ("SD 1.x", "SDXL", "SD 3", "FLUX.1 dev", "Kandinsky 2.2", "Stable Cascade", "Kolors")


def program(path: Path, mark: Path) -> None:
    """A module that writes a file when it is imported."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"open({str(mark)!r}, 'w')\nclass Own: pass\nclass OwnPipeline: pass\n")


_heard: list[str] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note every pickle and program that is opened, and every class that a pickle names. Not those whose first bytes alone are
    looked at, to call a web page or an empty file what it is.
    """
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        path = str(os.fspath(arguments[0]))
        if path.endswith((*_PICKLES, ".py")) and not _looks_at_first_bytes():
            _heard.append(path)
    elif event == "pickle.find_class":
        _heard.append(f"class {arguments[0]}.{arguments[1]}")


def _looks_at_first_bytes() -> bool:
    frames = (frame.f_code for frame, _ in traceback.walk_stack(None))
    return any(code is refuse_misnamed.__code__ for code in frames)


@cache
def _listen() -> None:
    sys.addaudithook(_hear)  # it stays as long as the process


def unopened(use: Use) -> Use:
    """The use, with a look at every file that is opened meanwhile: no pickle may be among them, and no code may have run."""

    def watched(folder: Path) -> None:
        _listen()
        _heard.clear()
        try:
            use(folder)
        finally:
            assert not list(folder.rglob(MARK)), "code from the model ran"
            opened = [what for what in _heard if what.startswith((str(folder), "class "))]
            assert not opened, f"opened: {opened[0]}"

    return watched


def cases(rng: random.Random) -> Iterator[Case]:
    """In every part of several families, then in every other way that a folder or a file is loaded."""
    for name in _FAMILIES:
        own = base(name)
        parts = sorted(path.name for path in own.folder.iterdir() if path.is_dir())
        for part in parts:
            yield _case(own, f"{part}: pickles beside its files", lambda model, part=part: _beside(model / part), "works")
            if (own.folder / part / "config.json").is_file():
                for what, spoil in _WAYS:
                    yield _case(own, f"{part}: {what}", lambda model, part=part, spoil=spoil: spoil(model / part), "refused")
            yield _case(own, f"{part}: a program", lambda model, part=part: _program(model, part), rng.choice(["either"]))
        for what, spoil in _INDICES:
            yield _case(own, what, spoil)
    yield from _extras()


def _case(own: Base, name: str, spoil: Callable[[Path], object], wanted: Any = "either") -> Case:
    ways = tuple(unopened(use) for use in uses(own.family)[0 if wanted != "refused" else 1 :])
    return Case(KIND, f"{own.family.name}: {name}", own.copied(spoil), ways, wanted)


def _mark(part: Path) -> Path:
    """Beside the model that the part belongs to."""
    return part.parent.parent / MARK


def _beside(part: Path) -> None:
    for name in _NAMES:
        hostile(part / name, _mark(part), "pickle" if name.endswith(".pkl") else "torch")


def _weights(part: Path) -> Path:
    return next(iter(sorted(part.glob("*.safetensors"))))


def _stem(part: Path) -> str:
    """Return the stem of the pickle that its library would read."""
    return "diffusion_pytorch_model" if "diffusion" in _weights(part).name else "pytorch_model"


def _in_its_place(part: Path) -> None:
    """The weights are a pickle, and another file beside it has the ending of safetensors."""
    own = _weights(part)
    hostile(part / f"{_stem(part)}.bin", _mark(part))
    own.rename(part / "other.safetensors")


def _real_in_its_place(part: Path) -> None:
    """The same with a pickle of the true weights, which runs nothing."""
    own = _weights(part)
    torch.save(load_file(own), part / f"{_stem(part)}.bin")
    own.rename(part / "other.safetensors")


def _named_so(part: Path) -> None:
    hostile(_weights(part), _mark(part))


def _linked(part: Path) -> None:
    own = _weights(part)
    own.unlink()
    hostile(part / "weights.bin", _mark(part))
    own.symlink_to("weights.bin")


def _index(ending: str) -> Callable[[Path], None]:
    """An index that names a pickle for half of the tensors."""

    def write(part: Path) -> None:
        own = _weights(part)
        names = [name for name in read_tensors(own)[0] if name != "__metadata__"]
        hostile(part / f"half{ending}", _mark(part))
        own.rename(part / "first.safetensors")
        where = {name: "first.safetensors" if at % 2 else f"half{ending}" for at, name in enumerate(names)}
        (part / f"{own.name}.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))

    return write


def _index_of_pickles(part: Path) -> None:
    own = _weights(part)
    names = [name for name in read_tensors(own)[0] if name != "__metadata__"]
    stem = _stem(part)
    hostile(part / f"{stem}-00001-of-00001.bin", _mark(part))
    where = dict.fromkeys(names, f"{stem}-00001-of-00001.bin")
    (part / f"{stem}.bin.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    own.rename(part / "other.safetensors")


def _adapter(part: Path) -> None:
    """An adapter of PEFT that names other weights."""
    (part / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": str(part), "r": 4}))
    hostile(part / "adapter_model.bin", _mark(part))


_WAYS: Final[tuple[tuple[str, Callable[[Path], object]], ...]] = (
    ("a pickle in the place of its weights", _in_its_place),
    ("a pickle of the true weights", _real_in_its_place),
    ("a pickle named .safetensors", _named_so),
    ("a link named .safetensors", _linked),
    ("an index with a .bin", _index(".bin")),
    ("an index with a pickle named .safetensors", _index(".safetensors")),
    ("an index of pickles", _index_of_pickles),
    ("an adapter of PEFT", _adapter),
    (
        "a variant that is a pickle",
        lambda part: (hostile(part / f"{_stem(part)}.fp16.bin", _mark(part)), _weights(part).unlink()),
    ),
)


def _program(model: Path, part: str) -> None:
    """A module beside the part's files, which its configuration names."""
    for name in ("modeling_own.py", "own.py", f"{part}.py", "__init__.py", "pipeline.py"):
        program(model / part / name, model.parent / MARK)
    names = {"AutoConfig": "own.Own", "AutoModel": "own.Own", "AutoTokenizer": ["own.Own", "own.Own"], "AutoProcessor": "own.Own"}
    for file in ("config.json", "tokenizer_config.json", "scheduler_config.json", "preprocessor_config.json"):
        if (model / part / file).is_file():
            with_value(model / part / file, "auto_map", names)
            with_value(model / part / file, "trust_remote_code", True)


def _entry(value: object, key: str = "") -> Callable[[Path], None]:
    """An index that names a module of the folder, with such modules everywhere."""

    def spoil(model: Path) -> None:
        index = json.loads((model / "model_index.json").read_text())
        own = key or next(name for name, entry in index.items() if isinstance(entry, list) and entry[0])
        for name in ("own.py", "pipeline.py", "pipeline_own.py", f"{own}/own.py", f"{own}/pipeline_own.py"):
            program(model / name, model.parent / MARK)
        with_value(model / "model_index.json", own, value)

    return spoil


_INDICES: Final[tuple[tuple[str, Callable[[Path], object]], ...]] = (
    ("a part of a module of its own", _entry(["own", "Own"])),
    ("a part of a module in the folder above", _entry(["..own", "Own"])),
    ("a part of a system module", _entry(["os", "system"])),
    ("a part of a module that is loaded", _entry(["subprocess", "Popen"])),
    ("a pipeline of a module of its own", _entry(["pipeline_own", "OwnPipeline"], "_class_name")),
    ("a pipeline beside the index", _entry("OwnPipeline", "_class_name")),
    ("a custom pipeline", _entry("pipeline_own.py", "custom_pipeline")),
    ("a readme that names another model", lambda model: (model / "README.md").write_text("---\nprior: [../../other]\n---\n")),
)


# --- what is used beside a model -------------------------------------------------------------------------------------


def _extras() -> Iterator[Case]:
    """VAEs, ControlNets, IP-Adapters, transformers, LoRAs, embeddings and refiners that are pickles or lie among them."""
    own = base("SD 1.x")
    for what, spoil in _WAYS:
        if "real" not in what:
            yield _beside_model(
                own, f"a VAE's folder: {what}", "vae", lambda place, spoil=spoil: (_vae(own, place), spoil(place))
            )
            yield _beside_model(
                own, f"a ControlNet's folder: {what}", "control", lambda place, spoil=spoil: (_net(own, place), spoil(place))
            )
            yield _beside_model(own, f"an image encoder: {what}", "ip", lambda place, spoil=spoil: _encoder(own, place, spoil))
    for field in ("vae", "transformer", "lora", "inversion", "control", "ip", "refiner", "model"):
        for ending in (".bin", ".pt", ".ckpt", ".safetensors", ".gguf"):
            make = lambda place, ending=ending: hostile(place.with_suffix(ending), place.parent / MARK)  # noqa: E731
            yield _beside_model(own, f"{field}: a pickle named {ending}", field, make, ending)


def _vae(own: Base, place: Path) -> None:
    shutil.copytree(own.folder / "vae", place)


def _net(own: Base, place: Path) -> None:
    make_net(own.folder).save_pretrained(place)


def _encoder(own: Base, place: Path, spoil: Callable[[Path], object]) -> None:
    """Beside the file of an IP-Adapter."""
    save_adapter(own.folder, place.with_suffix(".safetensors"))
    spoil(save_encoder(place.parent))


def _beside_model(own: Base, name: str, field: str, make: Callable[[Path], object], ending: str = "") -> Case:
    """make: writes what is used into the case's folder, as "extra"."""

    def write(folder: Path) -> None:
        own.copied(lambda _model: None)(folder)
        (folder / "extras").mkdir()
        make(folder / "extras" / "extra")
        for mark in (folder / "extras" / MARK,):
            assert not mark.exists()

    def use(folder: Path) -> None:
        place = folder / "extras" / f"extra{ending or ('.safetensors' if field == 'ip' else '')}"
        model = place if field == "model" else folder / MODEL
        generate(model, own.family, **_given(field, place, folder))

    # the files of VAEs and ControlNets are read here by name: an adapter beside them is passed over
    passed_over = field in ("vae", "control") and "adapter" in name
    return Case(KIND, name, write, (unopened(use),), "works" if passed_over else "refused")


def _given(field: str, place: Path, folder: Path) -> dict[str, Any]:
    from halftone.contract.request import Lora, Refiner

    pictures = (str(picture(folder / "given.png")),)
    return {
        "vae": {"vae": str(place)},
        "transformer": {"transformer": str(place)},
        "lora": {"loras": (Lora(path=str(place)),)},
        "inversion": {"inversions": (str(place),)},
        "control": {"controls": (Control(path=str(place), image=pictures[0]),)},
        "ip": {"ip_adapters": (IpAdapter(path=str(place), images=pictures),)},
        "refiner": {"refiner": Refiner(path=str(place))},
        "model": {},
    }[field]
