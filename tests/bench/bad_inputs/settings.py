"""Files that Halftone keeps, damaged: settings, settings of trainings, records of checks and of cures, the history."""

import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.bench.bad_inputs.case import Case
from tests.helpers.pictures import picture_facts
from tests.helpers.reports import DEVICE, MODEL, check_report, self_test_report

from halftone.cli.train.config_file import example, read_config
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics, PictureRequest
from halftone.gallery.history import History
from halftone.library.learned import recall, remember
from halftone.library.records import SelfTests, load_report, load_selftest, save_report, save_selftest
from halftone.library.training_data.training_runs import config_in, unfinished
from halftone.settings.glance import glance
from halftone.settings.places import checks_dir, data_dir, settings_file
from halftone.settings.store import load_with_problems, save
from halftone.settings.tidying import tidy_places

_SETTINGS: Final = """# mine
[general]
device = "cuda:0"
language = "en"
first_run_done = true
[numerics]
precision = "float16"
upcast_sampling = true
on_black = "stop"
[folders]
models = ["/models", "~/more"]
styles = "/styles.csv"
[appearance]
theme = "dark"
[window]
form = "{}"
geometry = { main = "AdnQ" }
splitters = { create = "336,896,208" }
"""
_ODD_TOML: Final = (
    "-1",
    "1e999",
    "nan",
    "9" * 5000,
    "true",
    '""',
    '"\\u0000"',
    '"\\u001b[2J"',
    '"' + "a" * 100_000 + '"',
    "[]",
    "[[[]]]",
    "{}",
    "{a = 1}",
    "1979-05-27",
    "07:32:00",
    "0x7fffffffffffffff",
    "'''\n'''",
    '["a", 1]',
    "[" * 400 + "]" * 400,
    '"\\U0010ffff"',
    '"\u202e"',
)
_ODD_JSON: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    1e308,
    10**400,
    "",
    "inf",
    "nan",
    "a" * 9000,
    [],
    {},
    [[]],
    {"a": 1},
    "\x1b[2J",
    0,
    2**63,
    -(2**63),
    "0",
)
_SPECIAL: Final[tuple[tuple[str, Callable[[Path], object]], ...]] = (
    ("a folder", lambda path: path.mkdir()),
    ("a named pipe", os.mkfifo),
    ("a device", lambda path: path.symlink_to("/dev/zero")),
    ("a link to itself", lambda path: path.symlink_to(path.name)),
    ("a link to nothing", lambda path: path.symlink_to("/nowhere/at/all")),
)


def cases(rng: random.Random) -> Iterator[Case]:
    """Settings, trainings, records, histories."""
    for name, content in (*_tomls(_SETTINGS, rng, 70), *_specials()):
        yield Case("settings", f"settings: {name}", _putting(settings_file, content), (_load, _load_and_save))
    training = example()
    for name, content in (*_tomls(training, rng, 70), *_specials()):
        yield Case(
            "settings",
            f"training: {name}",
            _writing("training.toml", content),
            (lambda folder: read_config(str(folder / "training.toml")),),
        )
    for name, change in (*_records(rng), *_specials()):
        yield Case("settings", f"record: {name}", lambda _folder, change=change: _spoil_records(change), (_read_records,))
    for name, content in (*_runs(rng), *_specials()):
        yield Case("settings", f"run: {name}", _run(content), (_read_run,))
    for name, spoil in (*_histories(rng), *_specials()):
        yield Case(
            "settings", f"history: {name}", lambda _folder, spoil=spoil: _spoil_history(spoil), (_use_history, _use_history)
        )


_Content = bytes | Callable[[Path], object]


def _specials() -> Iterator[tuple[str, _Content]]:
    yield from _SPECIAL


def _put(path: Path, content: _Content) -> None:
    content(path) if callable(content) else path.write_bytes(content)


def _writing(name: str, content: _Content) -> Callable[[Path], object]:
    return lambda folder: _put(folder / name, content)


def _putting(place: Callable[[], Path], content: _Content) -> Callable[[Path], object]:
    return lambda _folder: _put(place(), content)


# --- TOML --------------------------------------------------------------------------------------------------------------


def _tomls(sound: str, rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    lines = [index for index, line in enumerate(sound.splitlines()) if "=" in line and not line.startswith("#")]
    for index in range(count):
        changed = sound.splitlines()
        place = rng.choice(lines)
        name = changed[place].partition("=")[0]
        changed[place] = f"{name}= {rng.choice(_ODD_TOML)}"
        yield f"another value {index}", "\n".join(changed).encode(errors="replace")
    for index in range(30):
        letters = list(sound)
        for _ in range(rng.choice((1, 5, 40))):
            letters[rng.randrange(len(letters))] = rng.choice("[]{}=\"'\n#.,\\\x00\x1b\u2028a1 ")
        yield f"changed by chance {index}", "".join(letters).encode(errors="replace")
    for coding in ("utf-8-sig", "utf-16", "utf-32", "latin-1"):
        yield f"in {coding}", sound.encode(coding)
    yield "nothing", b""
    yield "only a mark", b"\xef\xbb\xbf"
    yield "zeros", bytes(9000)
    yield "bytes by chance", rng.randbytes(2000)
    yield "nested deeply", b"a = " + b"[" * 100_000
    yield "tables deeply", b"[" + b"a." * 20_000 + b"a]\n"
    yield "many names", b"".join(b"name%d = 1\n" % index for index in range(20_000))
    yield "a name twice", sound.encode() * 2
    yield "a long name", b"a" * 1_000_000 + b" = 1\n"
    yield "a long comment", b"#" + b"a" * 5_000_000
    yield "cut", sound.encode()[: rng.randrange(len(sound))]


def _load(_folder: Path) -> None:
    for problem in map(str, load_with_problems().problems):
        assert len(problem) < 1500, problem[:99]
        assert problem.replace("\u202f", " ").isprintable(), repr(problem[:200])
    glance()


def _load_and_save(_folder: Path) -> None:
    found = load_with_problems().settings
    try:
        save(msgspec.structs.replace(found, theme="light" if found.theme == "dark" else "dark"))
    except OSError:
        return
    load_with_problems()
    tidy_places(None)


# --- records ------------------------------------------------------------------------------------------------------------


def _spoil_records(change: _Content) -> None:
    save_report(check_report())
    save_selftest(self_test_report())
    remember(MODEL, DEVICE, "float16", Plan(), Numerics())
    for path in [*checks_dir().iterdir(), *(data_dir() / "cures").iterdir()]:
        content = path.read_bytes()
        path.unlink()
        if callable(change):
            change(path)
        else:
            path.write_bytes(change or content[: len(content) // 2])


def _records(rng: random.Random) -> Iterator[tuple[str, _Content]]:
    yield "half", b""
    for index in range(40):
        yield f"another value {index}", _changed_json(msgspec.to_builtins(check_report()), rng)
    for index in range(25):
        record = {"version": 3, "report": msgspec.to_builtins(self_test_report())}
        yield f"another value of a self-test {index}", _changed_json(record, rng)
    yield from _odd_json(rng)


def _changed_json(content: Any, rng: random.Random) -> bytes:
    inside = content
    while isinstance(inside, dict | list) and inside:
        key = rng.choice(sorted(inside)) if isinstance(inside, dict) else rng.randrange(len(inside))
        if not isinstance(inside[key], dict | list) or not inside[key] or rng.random() < 0.3:
            inside[key] = rng.choice(_ODD_JSON)
            break
        inside = inside[key]
    return json.dumps(content, default=str).encode(errors="replace")


def _odd_json(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    yield "nested deeply", b"[" * 200_000
    yield "no object", b"[]"
    yield "numbers that are none", b'{"a": NaN}'
    yield "a mark before", b"\xef\xbb\xbf{}"
    yield "bytes by chance", rng.randbytes(3000)
    yield "zeros", bytes(3000)
    yield "a number of many digits", b'{"version": ' + b"9" * 100_000 + b"}"
    yield "half a sign", b'{"model": "\\ud800"}'


def _read_records(_folder: Path) -> None:
    load_report(MODEL, DEVICE, "float16")
    load_selftest(DEVICE)
    SelfTests().of(DEVICE)
    recall(MODEL, DEVICE, "float16", Numerics())


# --- runs of trainings ----------------------------------------------------------------------------------------------------


def _runs(rng: random.Random) -> Iterator[tuple[str, _Content]]:
    sound = {"config": {"model": "pocket", "pictures": "/p", "name": "a", "output": "/o"}, "file": "a.safetensors"}
    for index in range(30):
        yield f"another value {index}", _changed_json(json.loads(json.dumps(sound)), rng)
    yield from _odd_json(rng)


def _run(content: _Content) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / "run").mkdir()
        _put(folder / "run" / "run.json", content)
        _put(folder / "run" / "state.safetensors", b"{}")

    return make


def _read_run(folder: Path) -> None:
    unfinished(str(folder))
    config_in(str(folder / "run"))


# --- the history ------------------------------------------------------------------------------------------------------------

_REQUEST: Final = PictureRequest(prompt="a red sun", seed=3)


def _spoil_history(spoil: _Content) -> None:
    path = data_dir() / "history.sqlite"
    with History() as history:
        for index in range(40):
            history.add(picture_facts(path=f"/p/{index}.png", seed=index), _REQUEST, bytes(3000))
    if callable(spoil) and spoil in [own for _, own in _SPECIAL]:
        path.unlink()
    _put(path, spoil)


def _histories(rng: random.Random) -> Iterator[tuple[str, _Content]]:
    for index in range(40):
        seed = rng.random()
        yield f"a page of chance {index}", lambda path, seed=seed: _page(path, random.Random(seed))
    for index in range(20):
        seed = rng.random()
        yield f"bytes of chance {index}", lambda path, seed=seed: _bytes(path, random.Random(seed))
    for value in ("NULL", "1", "1.5", "''", "x'00'", "x'c1'", "zeroblob(3000000)", "'a'", "randomblob(900)"):
        for column in ("made_at", "facts", "request", "thumbnail"):
            statement = f"UPDATE picture SET {column} = {value} WHERE id % 2"
            yield f"{column} is {value}", lambda path, statement=statement: _sql(path, statement)
    for statement in (
        "DROP TABLE picture",
        "ALTER TABLE picture RENAME TO other",
        "ALTER TABLE picture ADD COLUMN more TEXT",
        "PRAGMA user_version = 99",
        "PRAGMA user_version = -1",
        "CREATE TRIGGER t BEFORE INSERT ON picture BEGIN SELECT RAISE(ABORT, 'no'); END",
        "DELETE FROM sqlite_sequence",
        "CREATE VIEW v AS SELECT * FROM picture",
        "UPDATE picture SET id = 9223372036854775807 WHERE id = 1",
        "DELETE FROM picture",
        "UPDATE picture SET path = char(27) || '[2J' WHERE id = 1",
        "UPDATE picture SET path = x'00ff' WHERE id = 1",
    ):
        yield statement[:60], lambda path, statement=statement: _sql(path, statement)
    yield "cut", lambda path: path.write_bytes(path.read_bytes()[:5000])
    yield "nothing", lambda path: path.write_bytes(b"")
    yield "a text", lambda path: path.write_bytes(b"no database at all " * 400)
    yield "another's log", lambda path: path.with_name(path.name + "-wal").write_bytes(rng.randbytes(9000))


def _page(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    page = rng.randrange(len(content) // 4096) * 4096
    content[page : page + 4096] = rng.choice((bytes(4096), b"\xff" * 4096, rng.randbytes(4096)))
    path.write_bytes(content)


def _bytes(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 30, 900))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content)


def _sql(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    try:
        with database:
            database.execute(statement)
    except sqlite3.Error:
        pass  # a rule of the table forbids it: then there is nothing to try
    finally:
        database.close()


def _use_history(_folder: Path) -> None:
    """Do as the command line does: where the list cannot be used, that is told, and the picture stays."""
    try:
        with History() as history:
            history.recent()
            history.requests()
            history.add(picture_facts(path="/p/new.png"), _REQUEST, b"")
            found = history.find("/p/new.png")
            history.forget_missing()
    except (OSError, sqlite3.OperationalError, sqlite3.IntegrityError):
        return
    assert found is not None, "what was put on the list is not there"
