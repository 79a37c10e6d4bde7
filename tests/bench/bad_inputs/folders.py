"""Model folders: indices, schedulers, tokenizers, weights and files that are missing, of another model, or odd in themselves."""

import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from tests.bench.bad_inputs.case import Case
from tests.bench.bad_inputs.configurations import VALUES, shown, with_value
from tests.bench.bad_inputs.models import FAMILIES, Base, base

KIND: Final = "folders"
Spoil = Callable[[Path], object]


def cases(rng: random.Random) -> Iterator[Case]:
    """Every way of spoiling a folder, each in several families."""
    ways = (_indices, _schedulers, _tokenizers, _json_files, _weights, _parts)
    for way, number in zip(ways, (110, 170, 150, 110, 150, 110), strict=True):
        for index in range(number):
            own = base(FAMILIES[index % len(FAMILIES)])
            name, spoil = way(own, rng)
            yield own.case(KIND, name, spoil)


# --- the index -------------------------------------------------------------------------------------------------------

_ENTRIES: Final[tuple[Any, ...]] = (
    ["diffusers", "NoSuchClass"], ["diffusers", ""], ["", ""], ["os", "system"], ["builtins", "exec"],
    ["transformers", "pipeline"],
    ["transformers", "CLIPTextModel"], ["diffusers", "AutoencoderKL"], ["diffusers", "UNet2DConditionModel"],
    ["json", "JSONDecoder"],
    ["diffusers", "DDIMScheduler"], ["transformers", "CLIPTokenizer"], ["transformers", "AutoModel"], ["diffusers", "ModelMixin"],
    ["diffusers.models", "AutoencoderKL"], ["no_such_library", "Model"], ["diffusers", "StableDiffusionPipeline"],
    ["torch.nn", "Linear"],
    ["stable_diffusion", "StableDiffusionSafetyChecker"], ["transformers", "T5EncoderModel"], ["diffusers", "OnnxRuntimeModel"],
    [None, None], [None, "CLIPTextModel"], ["transformers", None], ["one"], ["a", "b", "c"], [1, 2], [[], []], {},
    "diffusers", 5, True,
    None, [], ["diffusers", "../x"], ["diffusers", "a" * 5000], ["diffusers", "__init__"], ["diffusers", "utils"],
)  # fmt: skip
_CLASSES: Final[tuple[Any, ...]] = (
    "NoSuchPipeline", "", None, 5, [], ["pipeline_own", "Own"], {}, "AutoencoderKL", "DiffusionPipeline",
    "StableDiffusionXLPipeline",
    "FluxPipeline", "StableDiffusion3Pipeline", "os.system", "FlaxStableDiffusionPipeline", "OnnxStableDiffusionPipeline",
    "StableDiffusionPipeline", "WanPipeline", "a" * 4000, "StableDiffusionInpaintPipeline", "__init__", "utils",
    "StableDiffusionUpscalePipeline", "AudioLDMPipeline", "DDPMPipeline", "StableDiffusionControlNetPipeline", "ShapEPipeline",
)  # fmt: skip


def _indices(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    file = "model_index.json"
    index = json.loads((own.folder / file).read_text())
    key = rng.choice(["_class_name", *(key for key in index if key != "_diffusers_version"), "new_part", "../outside", "_own"])
    if key == "_class_name":
        value = rng.choice(_CLASSES)
    elif isinstance(index.get(key), list) or key in ("new_part", "../outside"):
        value = rng.choice((*_ENTRIES, *_ENTRIES, VALUES[0]))
    else:
        value = rng.choice(VALUES)
    return f"index: {key}: {shown(value)}", lambda model: with_value(model / file, key, value)


# --- schedulers ------------------------------------------------------------------------------------------------------

_SCHEDULERS: Final = (
    "DDIMScheduler", "DDPMScheduler", "PNDMScheduler", "LMSDiscreteScheduler", "EulerDiscreteScheduler", "HeunDiscreteScheduler",
    "DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "FlowMatchEulerDiscreteScheduler", "LCMScheduler",
    "DEISMultistepScheduler",
    "EDMEulerScheduler", "FlowMatchHeunDiscreteScheduler", "KarrasVeScheduler", "ScoreSdeVeScheduler", "RePaintScheduler",
    "VQDiffusionScheduler", "UnCLIPScheduler", "DDPMWuerstchenScheduler", "CosineDPMSolverMultistepScheduler", "AmusedScheduler",
    "CMStochasticIterativeScheduler", "NoSuchScheduler", "AutoencoderKL", "", None, 5, ["a"], "DPMSolverSDEScheduler", "utils",
)  # fmt: skip
_MORE: Final = (
    "num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "prediction_type", "timestep_spacing",
    "steps_offset",
    "use_karras_sigmas", "use_beta_sigmas", "use_exponential_sigmas", "shift", "base_shift", "max_shift", "base_image_seq_len",
    "max_image_seq_len", "use_dynamic_shifting", "time_shift_type", "shift_terminal", "rescale_betas_zero_snr", "solver_order",
    "algorithm_type", "solver_type", "clip_sample", "thresholding", "sigma_min", "sigma_max", "rho", "final_sigmas_type",
    "set_alpha_to_one",
    "interpolation_type", "timestep_type", "flow_shift", "use_flow_sigmas", "original_inference_steps", "timestep_scaling",
    "variance_type",
)  # fmt: skip


def _schedulers(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    file = Path("scheduler") / "scheduler_config.json"
    there = json.loads((own.folder / file).read_text())
    key = rng.choice(["_class_name"] * 4 + [key for key in there if not key.startswith("_")] + list(_MORE))
    value = rng.choice(_SCHEDULERS if key == "_class_name" else VALUES)
    return f"scheduler: {key}: {shown(value)}", lambda model: with_value(model / file, key, value)


# --- tokenizers ------------------------------------------------------------------------------------------------------

_LENGTHS: Final[tuple[Any, ...]] = (0, 1, 2, 3, -1, 10**9, 10**30, 1e30, "77", None, 1.5, 8, 77, 10**7, True, [], 512, 10**400)


def _tokenizers(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    folder = Path(rng.choice(sorted(part.name for part in own.folder.glob("*tokenizer*"))))
    configs = [name for name in ("tokenizer_config.json", "special_tokens_map.json") if (own.folder / folder / name).is_file()]
    drawn = rng.random()
    if drawn < 0.35:
        value = rng.choice(_LENGTHS)
        return _in_json(folder / configs[0], "model_max_length", value)
    if drawn < 0.65:
        file = folder / rng.choice(configs)
        keys = list(json.loads((own.folder / file).read_text())) or ["eos_token"]
        keys += [
            "bos_token",
            "pad_token",
            "tokenizer_class",
            "auto_map",
            "added_tokens_decoder",
            "extra_special_tokens",
            "vocab_file",
        ]
        return _in_json(
            file, rng.choice(keys), rng.choice((*VALUES, "T5Tokenizer", "NoSuchTokenizer", {"0": {"content": "<|a|>"}}))
        )
    file = folder / rng.choice([path.name for path in sorted((own.folder / folder).iterdir())])
    if drawn < 0.85 and file.name in ("tokenizer.json", "vocab.json"):
        return _in_tokenizer(file, rng)
    return _in_bytes(file, rng)


def _in_json(file: Path, key: str, value: Any) -> tuple[str, Spoil]:
    return f"{file}: {key}: {shown(value)}", lambda model: with_value(model / file, key, value)


def _in_tokenizer(file: Path, rng: random.Random) -> tuple[str, Spoil]:
    """One value anywhere in the tokenizer's own file."""
    value, seed = rng.choice(VALUES[1:]), rng.random()

    def spoil(model: Path) -> None:
        content = json.loads((model / file).read_text())
        inner: Any = content
        chance = random.Random(seed)
        while isinstance(inner, (dict, list)) and inner:
            key = chance.choice(list(inner)) if isinstance(inner, dict) else chance.randrange(len(inner))
            if chance.random() < 0.4 or not isinstance(inner[key], (dict, list)) or not inner[key]:
                inner[key] = value
                break
            inner = inner[key]
        (model / file).write_text(json.dumps(content))

    return f"{file}: somewhere inside ({seed:.3f}): {shown(value)}", spoil


# --- files -----------------------------------------------------------------------------------------------------------

_CONTENTS: Final[tuple[tuple[str, Callable[[bytes], bytes]], ...]] = (
    ("empty", lambda _: b""),
    ("one half", lambda there: there[: len(there) // 2]),
    ("a byte order mark", lambda there: b"\xef\xbb\xbf" + there),
    ("UTF-16", lambda there: there.decode(errors="replace").encode("utf-16")),
    ("a comment", lambda there: b"// a comment\n" + there),
    ("a last comma", lambda there: there.rstrip()[:-1] + b",}"),
    ("nested 100 000 deep", lambda _: b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ("lists 100 000 deep", lambda _: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("a list", lambda _: b"[1, 2, 3]"),
    ("a number", lambda _: b"5"),
    ("null", lambda _: b"null"),
    ("an empty object", lambda _: b"{}"),
    ("zeros", lambda there: bytes(len(there))),
    ("bytes by chance", lambda there: random.Random(len(there)).randbytes(len(there))),
    ("a web page", lambda _: b"<!DOCTYPE html><html><body>404</body></html>"),
    ("a pointer of Git LFS", lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n"),
    ("a long string", lambda there: there.rstrip()[:-1] + b',"more":"' + b"a" * 1_000_000 + b'"}'),
    ("20 MB of spaces", lambda there: there + b" " * 20_000_000),
    ("every key twice", lambda there: there.rstrip()[:-1] + b"," + there.lstrip()[1:]),
    ("half a letter of UTF-8", lambda there: there + b"\xc3"),
    ("a number of 10 000 digits", lambda there: there.rstrip()[:-1] + b',"more":' + b"9" * 10_000 + b"}"),
)


def _in_bytes(file: Path, rng: random.Random) -> tuple[str, Spoil]:
    name, change = rng.choice(_CONTENTS)
    return f"{file}: {name}", lambda model: (model / file).write_bytes(change((model / file).read_bytes()))


def _json_files(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    files = [path for path in sorted(own.folder.rglob("*.json")) if "tokenizer" not in path.parent.name]
    return _in_bytes(rng.choice(files).relative_to(own.folder), rng)


# --- weights ---------------------------------------------------------------------------------------------------------


def read_tensors(file: Path) -> tuple[dict[str, Any], bytes]:
    """(header, bytes of the tensors)."""
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_tensors(file: Path, header: dict[str, Any], body: bytes) -> None:
    """The tensors that the header names, packed anew without gaps; each of the bytes that its shape needs."""
    packed, parts, at = {}, [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            packed[name] = entry
            continue
        start, end = entry["data_offsets"]
        bits = {"F32": 32, "I64": 64, "F16": 16, "BF16": 16, "F8_E4M3": 8, "BOOL": 8, "F64": 64, "U8": 8, "C64": 64, "F4": 4}
        size = bits[entry["dtype"]]
        for edge in entry["shape"]:
            size *= edge
        size = -(-size // 8)
        data = body[start:end][:size]
        parts.append(data + bytes(size - len(data)))
        packed[name] = {**entry, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(packed).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


Change = Callable[[dict[str, Any], random.Random], object]


def _tensor(header: dict[str, Any], rng: random.Random) -> str:
    return rng.choice([name for name in header if name != "__metadata__"])


def _reshaped(change: Callable[[list[int]], list[int]]) -> Change:
    def make(header: dict[str, Any], rng: random.Random) -> None:
        entry = header[_tensor(header, rng)]
        entry["shape"] = change(entry["shape"])

    return make


def _retyped(dtype: str) -> Change:
    return lambda header, rng: header[_tensor(header, rng)].update(dtype=dtype)


def _all_retyped(dtype: str) -> Change:
    return lambda header, _rng: [entry.update(dtype=dtype) for name, entry in header.items() if name != "__metadata__"]


def _renamed(header: dict[str, Any], rng: random.Random) -> None:
    name = _tensor(header, rng)
    header[rng.choice(["new", name + ".1", "x." + name, name.upper(), "ü" * 50, "../" + name])] = header.pop(name)


def _one_level_fewer(header: dict[str, Any], rng: random.Random) -> None:
    """All tensors of one block are missing."""
    name = _tensor(header, rng)
    parts = name.split(".")
    block = next((".".join(parts[: at + 1]) + "." for at, part in enumerate(parts) if part.isdecimal()), name)
    for own in [own for own in header if own.startswith(block)]:
        del header[own]


CHANGES: Final[tuple[tuple[str, Change], ...]] = (
    ("a tensor is missing", lambda header, rng: header.pop(_tensor(header, rng))),
    ("a block is missing", _one_level_fewer),
    ("a tensor too many", lambda header, rng: header.update(more=dict(header[_tensor(header, rng)]))),
    ("a tensor of another name", _renamed),
    ("an edge one longer", _reshaped(lambda shape: [*shape[:-1], shape[-1] + 1] if shape else [1])),
    ("an edge one shorter", _reshaped(lambda shape: [shape[0] - 1, *shape[1:]] if shape else [2])),
    ("an edge of none", _reshaped(lambda shape: [0, *shape[1:]])),
    ("a dimension more", _reshaped(lambda shape: [1, *shape])),
    ("one number", _reshaped(lambda _shape: [])),
    ("edges in another order", _reshaped(lambda shape: shape[::-1])),
    ("whole numbers", _retyped("I64")),
    ("eight bits", _retyped("F8_E4M3")),
    ("bytes", _retyped("U8")),
    ("truth values", _retyped("BOOL")),
    ("64 bits", _retyped("F64")),
    ("complex numbers", _retyped("C64")),
    ("all in eight bits", _all_retyped("F8_E4M3")),
    ("all in 64 bits", _all_retyped("F64")),
    ("all whole numbers", _all_retyped("I64")),
    ("all truth values", _all_retyped("BOOL")),
    ("no tensors", lambda header, _rng: header.clear()),
    ("odd metadata", lambda header, _rng: header.update(__metadata__={"format": "tf", "a\x1b[31m": "\x07" * 50})),
    ("no metadata", lambda header, _rng: header.pop("__metadata__", None)),
)


def _weights(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    files = [path.relative_to(own.folder) for path in sorted(own.folder.rglob("*.safetensors"))]
    file = rng.choice(files)
    drawn, seed = rng.random(), rng.random()
    if drawn < 0.65:
        what, change = rng.choice(CHANGES)

        def spoil(model: Path) -> None:
            header, body = read_tensors(model / file)
            change(header, random.Random(seed))
            write_tensors(model / file, header, body)

        return f"{file}: {what} ({seed:.3f})", spoil
    if drawn < 0.75:
        other = rng.choice([path for path in files if path != file])
        return f"{file}: that of {other}", lambda model: shutil.copyfile(model / other, model / file)
    if drawn < 0.85:
        there = base(rng.choice([name for name in FAMILIES if name != own.family.name]))
        source = rng.choice(sorted(there.folder.rglob("*.safetensors")))
        return f"{file}: of {there.family.name} {source.parent.name}", lambda model: shutil.copyfile(source, model / file)
    what, cut = rng.choice(_SHARDS)
    return f"{file}: {what} ({seed:.3f})", lambda model: cut(model / file, random.Random(seed))


def _shards(change: Callable[[dict[str, str], Path, random.Random], object]) -> Callable[[Path, random.Random], None]:
    """The file as two shards with an index that `change` spoils: tensor -> file."""

    def cut(file: Path, rng: random.Random) -> None:
        header, body = read_tensors(file)
        names = [name for name in header if name != "__metadata__"]
        where: dict[str, str] = {}
        for index, own in enumerate((names[::2], names[1::2]), 1):
            shard = f"{file.stem}-0000{index}-of-00002.safetensors"
            write_tensors(file.with_name(shard), {name: header[name] for name in own}, body)
            where |= dict.fromkeys(own, shard)
        file.unlink()
        change(where, file.parent, rng)
        file.with_name(f"{file.name}.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))

    return cut


def _any(where: dict[str, str], rng: random.Random) -> str:
    return rng.choice(sorted(where))


_SHARDS: Final = (
    ("sound shards", _shards(lambda _where, _folder, _rng: None)),
    ("a shard is missing", _shards(lambda where, folder, rng: (folder / where[_any(where, rng)]).unlink())),
    (
        "a tensor in the other shard",
        _shards(lambda where, _folder, rng: where.update({_any(where, rng): where[_any(where, rng)]})),
    ),
    ("a tensor in no shard", _shards(lambda where, _folder, rng: where.pop(_any(where, rng)))),
    ("a tensor that is nowhere", _shards(lambda where, _folder, rng: where.update(more=where[_any(where, rng)]))),
    ("a shard named .bin", _shards(lambda where, _folder, rng: where.update({_any(where, rng): "pytorch_model.bin"}))),
    ("a shard outside", _shards(lambda where, _folder, rng: where.update({_any(where, rng): "../vae/x.safetensors"}))),
    ("a shard of no text", _shards(lambda where, _folder, rng: cast("dict[str, object]", where).update({_any(where, rng): 5}))),
    ("no shard at all", _shards(lambda where, _folder, _rng: where.clear())),
)


# --- parts -----------------------------------------------------------------------------------------------------------


def _removed(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _swapped(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def _from(source: Path, target: Path) -> None:
    shutil.rmtree(target)
    shutil.copytree(source, target)


def _nested(model: Path) -> None:
    aside = model.with_name("aside")
    model.rename(aside)
    model.mkdir()
    aside.rename(model / "snapshot")


def _parts(own: Base, rng: random.Random) -> tuple[str, Spoil]:
    parts = sorted(path.name for path in own.folder.iterdir() if path.is_dir())
    part, other = rng.sample(parts, 2)
    files = [path.relative_to(own.folder) for path in sorted(own.folder.rglob("*")) if path.is_file()]
    file = rng.choice(files)
    there = base(rng.choice([name for name in FAMILIES if name != own.family.name]))
    theirs = [path for path in there.folder.iterdir() if path.is_dir() and path.name.rstrip("_2345") == part.rstrip("_2345")]
    ways: list[tuple[str, Spoil]] = [
        (f"{part} is missing", lambda model: _removed(model / part)),
        (f"{file} is missing", lambda model: _removed(model / file)),
        (f"{part} and {other} exchanged", lambda model: _swapped(model / part, model / other)),
        (f"{part} is a file", lambda model: (_removed(model / part), (model / part).write_text("a"))),
        (f"{file} is a folder", lambda model: (_removed(model / file), (model / file).mkdir())),
        (f"{file} in capitals", lambda model: (model / file).rename((model / file).with_name(file.name.upper()))),
        (f"{part} in capitals", lambda model: (model / part).rename(model / part.upper())),
        (f"{part} is a link to itself", lambda model: (_removed(model / part), (model / part).symlink_to(part))),
        (f"{file} is a link to nothing", lambda model: (_removed(model / file), (model / file).symlink_to("/nowhere/x"))),
        (f"{part} is a link to {other}", lambda model: (_removed(model / part), (model / part).symlink_to(other))),
        (f"{file} cannot be written", lambda model: (model / file).chmod(0o400)),
        (f"{file} twice as long", lambda model: (model / file).write_bytes((model / file).read_bytes() * 2)),
        ("one folder deeper", _nested),
        ("beside it a folder of odd names", lambda model: (model / "\u202eb\u0301\U0001f600 \udcff").mkdir()),
    ]
    if theirs:
        ways += [(f"{part} of {there.family.name}", lambda model: _from(theirs[0], model / part))] * 4
    return rng.choice(ways)
