"""Models are matched by contents, jobs by memory; what does not fit is refused by name."""

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers import samples

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, MemoryFacts
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import Lora, Numerics, PictureRequest
from halftone.contract.vocabulary import POCKET
from halftone.farm.fitting import free_bytes, misfit
from halftone.farm.jobs import checks, read_jobs
from halftone.farm.ledger import Ledger, Wanted
from halftone.farm.prints import ModelPrint, OwnModels, models_of, print_of, with_paths
from halftone.library.files.model_hash import model_hash
from halftone.settings.store import Settings

CARD = DeviceFacts(id="cuda:0", backend="cuda", name="A card", memory_total=8 * 10**9)


def file(path: Path, contents: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return path


def test_a_file_is_found_under_another_name(tmp_path: Path) -> None:
    wanted = print_of(str(file(tmp_path / "head" / "style.safetensors", b"weights")))
    here = file(tmp_path / "node" / "deep" / "renamed.safetensors", b"weights")
    file(tmp_path / "node" / "other.safetensors", b"weightS")
    assert OwnModels(lambda: [str(tmp_path / "node")]).find(wanted) == str(here)


@pytest.mark.parametrize(("contents", "why"), [(b"weightS", "its contents differ"), (None, "no model folder of this node")])
def test_a_missing_or_different_model_is_refused_by_name(tmp_path: Path, contents: bytes | None, why: str) -> None:
    wanted = print_of(str(file(tmp_path / "head" / "style.safetensors", b"weights")))
    (tmp_path / "node").mkdir()
    if contents is not None:
        file(tmp_path / "node" / "style.safetensors", contents)
    with pytest.raises(HalftoneError, match=why) as caught:
        OwnModels(lambda: [str(tmp_path / "node")]).find(wanted)
    assert caught.value.code == "farm-model"
    assert "style.safetensors" in str(caught.value)


def test_a_model_that_changes_on_the_node_is_no_longer_the_one(tmp_path: Path) -> None:
    wanted = print_of(str(file(tmp_path / "head" / "a.safetensors", b"weights")))
    here = file(tmp_path / "node" / "a.safetensors", b"weights")
    models = OwnModels(lambda: [str(tmp_path / "node")])
    assert models.find(wanted) == str(here)
    here.write_bytes(b"others!!")
    with pytest.raises(HalftoneError):
        models.find(wanted)


def test_a_folder_is_matched_by_all_its_files(tmp_path: Path) -> None:
    for place in ("head", "node"):
        file(tmp_path / place / "m" / "model_index.json", json.dumps({"unet": ["diffusers", "X"]}).encode())
        file(tmp_path / place / "m" / "unet" / "w.safetensors", b"weights")
        file(tmp_path / place / "m" / "notes.txt", place.encode())
    wanted = print_of(str(tmp_path / "head" / "m"))
    assert [one.name for one in wanted.files] == ["model_index.json", "unet/w.safetensors"]
    models = OwnModels(lambda: [str(tmp_path / "node")])
    assert models.find(wanted) == str(tmp_path / "node" / "m")
    file(tmp_path / "node" / "m" / "unet" / "w.safetensors", b"weightS")
    with pytest.raises(HalftoneError, match="differ"):
        models.find(wanted)


def test_several_searches_walk_the_folders_once_and_hash_no_more_than_they_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, hashed = list[ModelPrint](), list[str]()
    for number in range(20):  # files of one size, and folders whose largest files are
        for place in ("head", "node"):
            contents = f"weights {number:02}".encode()
            file(tmp_path / place / f"{number}.safetensors", contents)
            file(tmp_path / place / f"m{number}" / "model_index.json", json.dumps({"unet": ["diffusers", "X"]}).encode())
            file(tmp_path / place / f"m{number}" / "unet" / "w.safetensors", b"of a folder, which is larger, " + contents)
        wanted += [print_of(str(tmp_path / "head" / name)) for name in (f"{number}.safetensors", f"m{number}")]

    def counted(path: str, signs: int, stop: Callable[[], bool]) -> str:
        hashed.append(path)
        return model_hash(path, signs, stop)

    monkeypatch.setattr("halftone.farm.prints.model_hash", counted)
    models = OwnModels(lambda: [str(tmp_path / "node")])
    listing = models.listing()
    assert [Path(models.find(one, listing)).name for one in wanted] == [one.name for one in wanted]
    assert len(hashed) == 20 + 20 + 20 + 2 * 20  # each file once to look for it; each model whole, to be sure of it
    twin = tmp_path / "node" / "twin"  # its largest file is that of a model that was found
    file(twin / "model_index.json", json.dumps({"unet": ["diffusers", "Y"]}).encode())
    file(twin / "unet" / "w.safetensors", b"of a folder, which is larger, weights 03")
    assert models.find(print_of(str(twin))) == str(twin)
    late = print_of(str(file(tmp_path / "head" / "late.safetensors", b"late weights")))
    file(tmp_path / "node" / "late.safetensors", b"late weights")
    with pytest.raises(HalftoneError, match="no model folder"):
        models.find(late, listing)
    assert models.find(late)


@pytest.mark.timeout(20)
def test_links_that_lead_back_end_no_search(tmp_path: Path) -> None:
    wanted = print_of(str(file(tmp_path / "head" / "a.safetensors", b"weights")))
    file(tmp_path / "node" / "deep" / "b.safetensors", b"weights")
    for name in ("x", "y", "z"):
        (tmp_path / "node" / "deep" / name).symlink_to(tmp_path / "node", target_is_directory=True)
    models = OwnModels(lambda: [str(tmp_path / "node")])
    assert models.find(wanted) == str(tmp_path / "node" / "deep" / "b.safetensors")


def test_pocket_is_here() -> None:
    assert OwnModels(tuple).find(print_of(POCKET)) == POCKET


def test_paths_of_the_head_become_those_of_the_node() -> None:
    request = PictureRequest(prompt="x", model="/h/m", vae="/h/v", loras=(Lora(path="/h/l", weight=0.5),))
    assert models_of(request) == ("/h/m", "/h/v", "/h/l")
    there = with_paths(request, {"/h/m": "/n/m", "/h/l": "/n/l"})
    assert models_of(there) == ("/n/m", "/h/v", "/n/l")
    assert there.loras[0].weight == 0.5


def test_a_job_above_the_memory_is_refused_with_the_numbers() -> None:
    request = PictureRequest(prompt="x", width=4096, height=4096, numerics=samples_numerics())
    misfit(Generate(job="a", request=replace(request, width=64, height=64)), CARD, MemoryFacts(total=10**9, own=0, others=0))
    with pytest.raises(HalftoneError, match=r"needs about \d.*GB.*A card \(cuda:0\) has 0\.0.GB free") as caught:
        misfit(Generate(job="a", request=request), CARD, MemoryFacts(total=8 * 10**9, own=0, others=8 * 10**9 - 10**7))
    assert caught.value.code == "farm-memory"
    misfit(Examine(job="a", model=POCKET), CARD, MemoryFacts(total=10, own=0, others=10))


def samples_numerics() -> Numerics:
    return replace(PictureRequest(prompt="x").numerics, precision="float32", offload="none", vae_tiling="never")


def test_free_memory_is_what_others_leave() -> None:
    assert free_bytes(CARD, None) == CARD.memory_total
    assert free_bytes(CARD, MemoryFacts(total=100, own=30, others=60)) == 40
    assert (free_bytes(samples.CPU, None) or 0) > 0


def read(tmp_path: Path, *rows: object, user: str = "ann", known: Sequence[Wanted] = ()) -> list[Wanted]:
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.submit(known)
        return read_jobs(path, user, Settings(), ledger)


def test_lines_become_jobs_with_a_seed_and_a_key_of_their_own(tmp_path: Path) -> None:
    rows = [{"prompt": "a sun", "output": str(tmp_path / f"{n}.png")} for n in range(3)]
    wanted = read(tmp_path, *rows, "")
    assert len({one.job.key for one in wanted}) == 3
    assert len({one.job.kind for one in wanted}) == 1, "they need the same"
    assert all(isinstance(one.command, Generate) and one.command.request.seed is not None for one in wanted)
    assert [one.job.key for one in read(tmp_path, *rows)] == [one.job.key for one in wanted], "handed in again"
    assert read(tmp_path, *rows, user="bob")[0].job.key != wanted[0].job.key
    larger = read(tmp_path, {**rows[0], "width": 256, "height": 256})
    assert larger[0].job.kind != wanted[0].job.kind


def test_a_line_ends_where_json_says(tmp_path: Path) -> None:
    prompt = "a\u2028red\u0085sun"
    row = json.dumps({"prompt": prompt, "output": str(tmp_path / "a.png")}, ensure_ascii=False)
    (wanted,) = read(tmp_path, f"{row}\r")
    assert isinstance(wanted.command, Generate)
    assert wanted.command.request.prompt == prompt


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"output": None}, "file of its own"),
        ({"batch": 2}, "one picture"),
        ({"device": "cuda:0"}, "chooses the card"),
        ({"overwrite": True}, "never replaces"),
        ({"image": "sun.png"}, "are not sent"),
        ({"wildcards": ["w"]}, "not sent"),
        ({"prompt": "a <lora:x:1>"}, "loras"),
        ({"model": "/nowhere/model.safetensors"}, "no model"),
        ({"width": 65}, "65"),
        ({"sampler": "nothing"}, "nothing"),
        ({"unknown": 1}, "There is no field unknown."),
        ({"outptu": "a.png"}, "There is no field outptu; the nearest is output."),
        ({"key": 5}, "key"),
    ],
)
def test_a_line_that_cannot_work_is_refused_with_its_number(tmp_path: Path, change: dict[str, object], why: str) -> None:
    good = {"prompt": "a sun", "output": str(tmp_path / "good.png")}
    bad = {"prompt": "a sun", "output": str(tmp_path / "bad.png"), **change}
    with pytest.raises(HalftoneError, match=r"Line 2 of ") as caught:
        read(tmp_path, good, bad)
    assert caught.value.code == "farm-bad-jobs"
    assert why in str(caught.value)


def test_a_foreign_file_at_the_output_refuses_a_new_job_and_not_a_known_one(tmp_path: Path) -> None:
    row = {"prompt": "a sun", "output": str(tmp_path / "sun.png")}
    known = read(tmp_path, row)
    file(tmp_path / "sun.png", b"foreign")
    with pytest.raises(HalftoneError, match=r"sun\.png"):
        read(tmp_path, row)
    assert len(read(tmp_path, row, known=known)) == 1
    with pytest.raises(HalftoneError, match="earlier line"):
        read(tmp_path, row, row, known=known)


def test_checks_of_a_library_name_what_they_leave_out(tmp_path: Path) -> None:
    wanted, left = checks([POCKET, "/nowhere"], tmp_path, "quick", "ann", Settings())
    assert [type(one.command) for one in wanted] == [Examine]
    assert Path(wanted[0].job.output).parent == tmp_path
    assert len(left) == 1


def test_a_check_with_another_folder_is_another_job(tmp_path: Path) -> None:
    here, there = (checks([POCKET], folder, "quick", "ann", Settings())[0][0].job for folder in (tmp_path, tmp_path.parent))
    again = checks([POCKET], tmp_path, "quick", "bob", Settings())[0][0].job
    assert (here.key == again.key, here.key == there.key) == (True, False)


def test_nothing_of_the_farm_but_its_cluster_imports_ray() -> None:
    """The contract of import-linter draws the border; this shows that the command line runs without Ray."""
    for name in ("cli.farm.group", "farm.head", "farm.node", "farm.serving"):
        importlib.import_module(f"halftone.{name}")
    assert "ray" not in sys.modules
