"""Models that a node lacks are copied to it on request alone, and used once they are right."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.helpers.farms import head, lines, nodes, submit, until, until_over
from tests.helpers.scripted import ENGINE, environment

from halftone.client.command import worker_environment
from halftone.contract.errors import HalftoneError
from halftone.farm.copying import PIECE_BYTES, Piece, Receiver, pieces
from halftone.farm.ledger import Ledger
from halftone.farm.prints import FilePrint, ModelPrint, OwnModels, print_of
from halftone.settings.places import resources

pytestmark = pytest.mark.timeout(300)
PARTS = ("scheduler", "text_encoder", "tokenizer", "unet", "vae")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that only the head has."""
    folder = tmp_path / "head" / "my model"
    folder.mkdir(parents=True)
    for part in PARTS:
        shutil.copytree(resources() / "pocket" / part, folder / part)
    shutil.copyfile(resources() / "pocket" / "model_index.json", folder / "model_index.json")
    return folder


def whole(folder: Path) -> list[Path]:
    """What lies in a node's folder, and is not being written."""
    return [path for path in folder.rglob("*") if path.is_file()]


async def all_pieces(of: ModelPrint) -> list[Piece]:
    return [piece async for piece in pieces(of)]


def play_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers make the script's own pictures."""
    for name, value in environment({}).items():
        monkeypatch.setenv(name, value)


def test_nothing_is_copied_that_nobody_asked_for(
    ledger: Ledger, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes whose folders differ: the one that has the model makes all, the other refuses it by name."""
    play_nothing(monkeypatch)
    copies = tmp_path / "copies"
    shutil.copytree(model, copies / "node 0" / "another name")
    submit(ledger, lines(tmp_path, 4, model=str(model)))

    async def run() -> None:
        async with nodes(2, "--engine", ENGINE, copies=copies) as both:
            there = {"node 1": both["node 1"]}  # alone at first, so that it is asked
            made = asyncio.create_task(until_over(head(ledger, there, most=1, again_seconds=0.3)))
            await until(ledger.refusals, made)
            there["node 0"] = both["node 0"]
            await made

    asyncio.run(run())
    assert {(one.owner, one.outcome) for one in ledger.attempts()} == {("node 0", "done")}
    assert not whole(copies / "node 1")


def test_a_model_that_was_copied_makes_pictures(ledger: Ledger, model: Path, tmp_path: Path) -> None:
    """With the real engine."""
    copies = tmp_path / "copies"
    submit(ledger, lines(tmp_path, 1, model=str(model)))

    async def run() -> None:
        async with nodes(1, copies=copies) as there:
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.5)))
            await until(lambda: any(error.code == "farm-model" for _, _, error in ledger.refusals()), made)
            ledger.allow_copies([print_of(str(model))])
            await made

    asyncio.run(run())
    assert (tmp_path / "j00.png").exists()
    assert OwnModels(lambda: [str(copies / "node 0")]).find(print_of(str(model)))


def test_a_copy_with_other_contents_is_thrown_away_and_sent_again_later(
    ledger: Ledger, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_nothing(monkeypatch)
    copies = tmp_path / "copies"
    submit(ledger, lines(tmp_path, 1, model=str(model)))
    ledger.allow_copies([print_of(str(model))])
    said = list[str]()

    def spoilt(piece: Piece) -> Piece:
        last = piece.model.files[piece.file].name.startswith("vae")
        return replace(piece, data=bytes(len(piece.data))) if last else piece

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE, copies=copies) as there:
            there["node 0"].spoils = spoilt
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.2, copy_again_seconds=3.0)))
            why = "other contents"
            await until(lambda: [one for _, _, one in ledger.refusals() if why in str(one.facts.get("why"))], made)
            said.extend(str(error.facts["name"]) for _, _, error in ledger.refusals())
            assert not whole(copies), "nothing of it is left"
            there["node 0"].spoils = lambda piece: piece
            await made

    asyncio.run(run())
    assert said == ["my model"]
    assert (tmp_path / "j00.png").exists()
    assert OwnModels(lambda: [str(copies)]).find(print_of(str(model)))


def test_a_node_that_goes_in_the_middle_of_a_copy_gets_all_of_it_when_it_comes_back(
    ledger: Ledger, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_nothing(monkeypatch)
    copies = tmp_path / "copies"
    submit(ledger, lines(tmp_path, 1, model=str(model)))
    ledger.allow_copies([print_of(str(model))])

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE, copies=copies) as there:
            node, came = there["node 0"], list[Piece]()

            def goes(piece: Piece) -> Piece:
                came.append(piece)
                node.cut = len(came) > 3
                return piece

            node.spoils = goes
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.3)))
            await until(ledger.gone, made)
            with pytest.raises(HalftoneError):
                OwnModels(lambda: [str(copies)]).find(print_of(str(model)))
            node.spoils, node.cut = lambda piece: piece, False
            await made

    asyncio.run(run())
    assert (tmp_path / "j00.png").exists()
    assert len(list(copies.rglob("model_index.json"))) == 1


_HALF = """
import os, signal, sys, msgspec
from pathlib import Path
from halftone.farm.copying import Piece, Receiver
pieces = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=list[Piece])
receiver = Receiver(Path(sys.argv[2]))
for piece in pieces:
    receiver.take(piece)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_in_the_middle_leaves_nothing_that_is_used_and_the_next_copy_clears_it(model: Path, tmp_path: Path) -> None:
    wanted, folder = print_of(str(model)), tmp_path / "copies"
    all_of_it = asyncio.run(all_pieces(wanted))
    (tmp_path / "half").write_bytes(msgspec.msgpack.encode(all_of_it[:-1]))
    command = [sys.executable, "-c", _HALF, str(tmp_path / "half"), str(folder)]
    done = subprocess.run(command, env=worker_environment(), timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert whole(folder), "what it had written is there"
    with pytest.raises(HalftoneError, match="no model folder"):
        OwnModels(lambda: [str(folder)]).find(wanted)
    receiver = Receiver(folder)
    for piece in all_of_it:
        receiver.take(piece)
    found = Path(OwnModels(lambda: [str(folder)]).find(wanted))
    assert {path.relative_to(found) for path in whole(folder)} == {Path(one.name) for one in wanted.files}


def test_a_large_file_comes_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(bytes(range(256)) * (PIECE_BYTES // 256) + b"the end")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    receiver = Receiver(tmp_path / "copies")
    for path, count in ((file, 2), (tmp_path / "empty.safetensors", 1)):
        all_of_it = asyncio.run(all_pieces(print_of(str(path))))
        assert len(all_of_it) == count
        for piece in all_of_it:
            receiver.take(piece)
        found = Path(OwnModels(lambda: [str(tmp_path / "copies")]).find(print_of(str(path))))
        assert found.read_bytes() == path.read_bytes()


def refused(model: ModelPrint, folder: Path, *some: Piece) -> HalftoneError:
    """Why a model cannot be copied; nothing of it is left."""
    receiver = Receiver(folder)
    *before, last = some or [Piece(model=model, file=0, offset=0, data=b"")]
    for piece in before:
        receiver.take(piece)
    with pytest.raises(HalftoneError) as caught:
        receiver.take(last)
    assert not folder.exists() or not list(folder.iterdir())
    return caught.value


def test_a_disk_that_is_too_small_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    huge = ModelPrint(path="/m", name="m", files=(FilePrint(name="", size=10**18, digest="0" * 64),))
    error = refused(huge, tmp_path / "copies")
    assert error.code == "disk-full"
    assert str(tmp_path / "copies") in str(error)


def test_an_earlier_copy_that_was_changed_stays_beside_the_new_one(tmp_path: Path, model: Path) -> None:
    copies, wanted = tmp_path / "copies", print_of(str(model))
    all_of_it = asyncio.run(all_pieces(wanted))
    receiver = Receiver(copies)
    assert [receiver.take(piece) for piece in all_of_it] == [False] * (len(all_of_it) - 1) + [True]
    (first,) = copies.iterdir()
    (first / "my model" / "model_index.json").write_text("{}", encoding="utf-8")
    models = OwnModels(lambda: [str(copies)])
    with pytest.raises(HalftoneError, match="contents differ"):
        models.find(wanted)
    for piece in all_of_it:
        receiver.take(piece)
    assert Path(models.find(wanted)).parent != first
    assert (first / "my model" / "model_index.json").read_text(encoding="utf-8") == "{}"


def test_a_late_piece_of_a_cancelled_copy_does_not_disturb_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "new"):
        (tmp_path / f"{name}.safetensors").write_bytes(name.encode())
    (old,), (new,) = (asyncio.run(all_pieces(print_of(str(tmp_path / f"{name}.safetensors")))) for name in ("old", "new"))
    slow, go = threading.Event(), threading.Event()
    fsync = os.fsync

    def waits(descriptor: int) -> None:
        if not slow.is_set():
            slow.set()
            go.wait(30)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", waits)
    receiver = Receiver(tmp_path / "copies")
    with ThreadPoolExecutor() as threads:
        first = threads.submit(receiver.take, old)
        assert slow.wait(30)
        second = threads.submit(receiver.take, new)
        wait([second], 0.5)
        go.set()
        assert [first.result(), second.result()] == [True, True]
    assert {path.name for path in whole(tmp_path / "copies")} == {"old.safetensors", "new.safetensors"}


def test_a_disk_that_was_full_gets_the_model_later(
    ledger: Ledger, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_nothing(monkeypatch)
    usage, full = shutil.disk_usage, [True]

    def left(path: Path) -> object:
        free = usage(path)
        return free._replace(free=0) if full[0] and Path(path).parent.name == "copies" else free

    monkeypatch.setattr(shutil, "disk_usage", left)
    submit(ledger, lines(tmp_path, 1, model=str(model)))
    ledger.allow_copies([print_of(str(model))])

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE, copies=tmp_path / "copies") as there:
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.1, copy_again_seconds=2.0), 60.0))
            await until(lambda: any(error.code == "disk-full" for _, _, error in ledger.refusals()), made)
            asked = there["node 0"].questions
            await until(lambda: there["node 0"].questions > asked + 2, made)
            assert {error.code for _, _, error in ledger.refusals()} == {"disk-full"}, "the reason is still shown"
            full[0] = False
            await made

    asyncio.run(run())
    assert (tmp_path / "j00.png").exists()


@pytest.mark.parametrize("name", ["../out.safetensors", "/etc/out.safetensors", "unet/../../out"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    odd = ModelPrint(path="/m", name="m", files=(FilePrint(name=name, size=1, digest="0" * 64),))
    assert "outside" in str(refused(odd, tmp_path / "copies"))


def test_pieces_that_do_not_follow_each_other_are_refused(tmp_path: Path) -> None:
    one = ModelPrint(path="/m", name="m", files=(FilePrint(name="", size=9, digest="0" * 64),))
    first, other = Piece(model=one, file=0, offset=0, data=b"abc"), Piece(model=one, file=0, offset=6, data=b"ghi")
    assert "interrupted" in str(refused(one, tmp_path / "copies", first, other))
    assert "interrupted" in str(refused(one, tmp_path / "copies", other))


def test_a_model_that_changed_on_the_head_is_not_sent(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"weights")
    wanted = print_of(str(file))
    file.write_bytes(b"more weights")
    with pytest.raises(HalftoneError, match="changed on the head"):
        asyncio.run(all_pieces(wanted))
    file.unlink()
    with pytest.raises(HalftoneError, match="cannot read"):
        asyncio.run(all_pieces(wanted))
