"""What the farm is to do, does and did, in SQLite on the head. Each change of a job is one pure transition in one transaction."""

import contextlib
import hashlib
import sqlite3
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.farm.prints import ModelPrint
from halftone.farm.states import OPEN, Again, Failed, Gone, Happening, Job, Leased, Lost, Placed, State, after
from halftone.farm.talk import FarmCommand, NodeFacts
from halftone.farm.turns import next_user, start_of
from halftone.settings.databases import open_database
from halftone.settings.places import data_dir
from halftone.settings.private import private_folder

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    kind TEXT NOT NULL,
    command BLOB NOT NULL,
    output TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    lease TEXT,
    owner TEXT,
    place TEXT,
    digest TEXT,
    error BLOB
);
CREATE INDEX IF NOT EXISTS job_state ON job (state, user, kind, number);
CREATE INDEX IF NOT EXISTS job_owner ON job (owner, state);
CREATE INDEX IF NOT EXISTS job_lease ON job (lease) WHERE lease IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS job_output ON job (output) WHERE state IN ('waiting', 'leased', 'placing');
CREATE TABLE IF NOT EXISTS kind (kind TEXT PRIMARY KEY, command BLOB NOT NULL, prints BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS lease (lease TEXT PRIMARY KEY, owner TEXT NOT NULL, card TEXT NOT NULL, ends REAL NOT NULL);
CREATE INDEX IF NOT EXISTS lease_ends ON lease (ends);
CREATE TABLE IF NOT EXISTS attempt (
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    card TEXT NOT NULL,
    lease TEXT NOT NULL,
    began REAL NOT NULL,
    ended REAL,
    outcome TEXT,
    PRIMARY KEY (key, attempt)
);
CREATE TABLE IF NOT EXISTS node (owner TEXT PRIMARY KEY, facts BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS gone (owner TEXT PRIMARY KEY, facts BLOB NOT NULL, why TEXT NOT NULL, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS refusal (
    owner TEXT NOT NULL,
    card TEXT NOT NULL,
    kind TEXT NOT NULL,
    error BLOB NOT NULL,
    PRIMARY KEY (owner, card, kind)
);
CREATE TABLE IF NOT EXISTS may_copy (model BLOB PRIMARY KEY);
CREATE TABLE IF NOT EXISTS had (user TEXT PRIMARY KEY, pictures INTEGER NOT NULL);
"""
_GONE_SECONDS: Final = 86_400.0
_FIELDS: Final = tuple(Job.__struct_fields__)
_OPEN_STATES: Final = ", ".join(f"'{state}'" for state in OPEN)
_COLUMNS: Final = ", ".join(_FIELDS)
_command = msgspec.msgpack.Decoder(FarmCommand)
_prints = msgspec.msgpack.Decoder(tuple[ModelPrint, ...])
_error = msgspec.msgpack.Decoder(ErrorFacts)
_node = msgspec.msgpack.Decoder(NodeFacts)


class Wanted(NamedTuple):
    """A job as it is submitted. kind: of which one is `like` all the others, with the models that it needs."""

    job: Job
    command: FarmCommand
    prints: tuple[ModelPrint, ...]


class Kind(NamedTuple):
    kind: str
    command: FarmCommand
    prints: tuple[ModelPrint, ...]


class Lease(NamedTuple):
    """Jobs given to a card at once. ends: seconds of the clock, unless the node is heard before."""

    lease: str
    jobs: tuple[Job, ...]


class Attempt(NamedTuple):
    key: str
    attempt: int
    owner: str
    outcome: str | None


def ledger_file() -> Path:
    """The ledger of this user."""
    return private_folder(data_dir() / "farm") / "ledger.sqlite"


def has_farm() -> bool:
    """Whether this user has handed in jobs, or run a head."""
    return (data_dir() / "farm").is_dir()


def head_mark() -> Path:
    """A file that is claimed while a head of this user runs."""
    return ledger_file().with_name("head.open")


class Ledger:
    """One connection; use it from one thread. now: seconds since 1970, which outlive a restart of the machine."""

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._database = open_database(path or ledger_file(), _VERSION, _SCHEMA)
        self._database.execute("PRAGMA synchronous = FULL")  # what is said of a file must be on the disk before the file
        self._database.isolation_level = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    # -- what comes in -----------------------------------------------------------------------------------------------------

    def submit(self, wanted: Iterable[Wanted]) -> tuple[str, ...]:
        """File jobs, all or none; returns the keys of those that the ledger knows already, which stay as they are.

        Raises HalftoneError farm-refused where an open job has one of the outputs.
        """
        known = list[str]()
        with self._change() as change:
            users = set[str]()
            for one in wanted:
                if change.execute("SELECT 1 FROM job WHERE key = ?", (one.job.key,)).fetchone():
                    known.append(one.job.key)
                    continue
                if _is_taken(change, one.job.output):
                    why = Words("a job that is not done has this output")
                    raise HalftoneError("farm-refused", name=one.job.output, why=why)
                self._greet(change, one.job.user, users)
                change.execute(
                    "INSERT OR IGNORE INTO kind VALUES (?, ?, ?)",
                    (one.job.kind, msgspec.msgpack.encode(one.command), msgspec.msgpack.encode(one.prints)),
                )
                places = ", ".join("?" * (len(_FIELDS) + 1))
                row = (*_row(one.job), msgspec.msgpack.encode(one.command))
                change.execute(f"INSERT INTO job ({_COLUMNS}, command) VALUES ({places})", row)
        return tuple(known)

    def _greet(self, change: sqlite3.Connection, user: str, users: set[str]) -> None:
        """Count the turns of a user who had nothing to do from those of the others on."""
        if user in users:
            return
        users.add(user)
        waiting = _waiting(change)
        if not waiting.get(user):
            had = _had(change)
            begin = max(had.get(user, 0), start_of(had, waiting))
            change.execute("INSERT OR REPLACE INTO had VALUES (?, ?)", (user, begin))

    # -- leases ------------------------------------------------------------------------------------------------------------

    def lease(self, owner: str, card: str, kinds: Iterable[str], most: int, seconds: float) -> Lease | None:
        """Give a card jobs of the user whose turn it is, all of the first of `kinds` that waits; else None."""
        kinds = tuple(kinds)
        with self._change() as change:
            waiting = _waiting(change, kinds)
            user = next_user(waiting, _had(change))
            if user is None:
                return None
            kind = self._kind_of(change, user, kinds)
            rows = change.execute(
                f"SELECT {_COLUMNS} FROM job WHERE state = 'waiting' AND user = ? AND kind = ? ORDER BY number LIMIT ?",
                (user, kind, most),
            ).fetchall()
            name, now = uuid.uuid4().hex, self._now()
            jobs = tuple(self._changed(change, _job(row), Leased(name, owner)) for row in rows)
            leased = tuple(job for job in jobs if job is not None)
            change.execute("INSERT INTO lease VALUES (?, ?, ?, ?)", (name, owner, card, now + seconds))
            begun = [(job.key, job.attempt, owner, card, name, now) for job in leased]
            change.executemany("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", begun)
            change.execute("UPDATE had SET pictures = pictures + ? WHERE user = ?", (len(leased), user))
            return Lease(name, leased)

    def _kind_of(self, change: sqlite3.Connection, user: str, kinds: tuple[str, ...]) -> str:
        """The first of the preferred kinds of which this user has a job."""
        for kind in kinds:
            if change.execute("SELECT 1 FROM job WHERE state = 'waiting' AND user = ? AND kind = ?", (user, kind)).fetchone():
                return kind
        raise AssertionError("the user has no job of these kinds")

    def renew(self, owner: str, seconds: float) -> None:
        """The node was heard: its leases begin anew."""
        with self._change() as change:
            change.execute("UPDATE lease SET ends = ? WHERE owner = ?", (self._now() + seconds, owner))

    def expire(self) -> tuple[Job, ...]:
        """Take back what nodes have that were not heard in time; the jobs as they were."""
        with self._change() as change:
            over = [row[0] for row in change.execute("SELECT lease FROM lease WHERE ends < ?", (self._now(),))]
            return tuple(job for lease in over for job in self._take_back(change, lease, "expired"))

    def lost(self, owner: str, running: Iterable[str] = (), error: ErrorFacts | None = None) -> tuple[Job, ...]:
        """Take back what a node had that is gone. running: jobs that its workers ran when it went."""
        running = frozenset(running)
        with self._change() as change:
            leases = [row[0] for row in change.execute("SELECT lease FROM lease WHERE owner = ?", (owner,))]
            return tuple(job for lease in leases for job in self._take_back(change, lease, "lost", running, error))

    def forget_leases(self) -> int:
        """Take all leases back: the head that gave them is gone, and nobody brings results to this one. How many jobs."""
        with self._change() as change:
            leases = [row[0] for row in change.execute("SELECT lease FROM lease")]
            return sum(len(self._take_back(change, lease, "lost")) for lease in leases)

    def _take_back(
        self,
        change: sqlite3.Connection,
        lease: str,
        outcome: str,
        running: frozenset[str] = frozenset(),
        error: ErrorFacts | None = None,
    ) -> list[Job]:
        rows = change.execute(f"SELECT {_COLUMNS} FROM job WHERE lease = ? AND state = 'leased'", (lease,)).fetchall()
        jobs = [_job(row) for row in rows]
        for job in jobs:
            self._changed(change, job, Lost(job.attempt, died=job.key in running, error=error), outcome)
        change.execute("DELETE FROM lease WHERE lease = ?", (lease,))
        return jobs

    # -- one job -----------------------------------------------------------------------------------------------------------

    def tell(self, key: str, happening: Happening) -> Job | None:
        """Apply what happened to a job; the job after it. None where it does not concern the job as it is: nothing changed."""
        with self._change() as change:
            job = self.job(key)
            return None if job is None else self._changed(change, job, happening)

    def try_again(self, keys: Iterable[str], happening: Again | Gone) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Let jobs wait again; their keys, and those of jobs whose output an open job has by now."""
        tried, taken = list[str](), list[str]()
        with self._change() as change:
            for job in filter(None, map(self.job, keys)):
                if _is_taken(change, job.output):
                    taken.append(job.key)
                elif self._changed(change, job, happening) is not None:
                    tried.append(job.key)
        return tuple(tried), tuple(taken)

    def forget(self, key: str) -> bool:
        """Drop a job that failed or was set aside, with its attempts; whether there was one. One that was cancelled stays: a head
        may be about to send it.
        """
        with self._change() as change:
            ended = "DELETE FROM job WHERE key = ? AND state IN ('failed', 'aside')"
            gone = change.execute(ended, (key,)).rowcount > 0
            if gone:
                change.execute("DELETE FROM attempt WHERE key = ?", (key,))
            return gone

    def retry(self, key: str) -> bool:
        """Let a job wait again that did not end well; False where it cannot, as another open job has its output."""
        with self._change() as change:
            job = self.job(key)
            return job is not None and not _is_taken(change, job.output) and self._changed(change, job, Again()) is not None

    def move(self, key: str, place: str) -> None:
        """Note another name under which a file is about to appear."""
        with self._change() as change:
            change.execute("UPDATE job SET place = ? WHERE key = ? AND state = 'placing'", (place, key))

    def _changed(self, change: sqlite3.Connection, job: Job, happening: Happening, outcome: str | None = None) -> Job | None:
        new = after(job, happening)
        if new is None:
            return None
        names = ", ".join(f"{name} = ?" for name in _FIELDS)
        change.execute(f"UPDATE job SET {names} WHERE key = ?", (*_row(new), job.key))
        over = outcome or _outcome(new, happening)
        if over is not None:
            change.execute(
                "UPDATE attempt SET ended = ?, outcome = ? WHERE key = ? AND attempt = ?",
                (self._now(), over, job.key, new.attempt),
            )
        if job.lease is not None and new.lease is None:
            self._end_lease(change, job.lease)
        return new

    def _end_lease(self, change: sqlite3.Connection, lease: str) -> None:
        """Forget a lease of which nothing is left."""
        change.execute(
            "DELETE FROM lease WHERE lease = ? AND NOT EXISTS (SELECT 1 FROM job WHERE job.lease = ? AND state = 'leased')",
            (lease, lease),
        )

    # -- nodes -------------------------------------------------------------------------------------------------------------

    def note_node(self, owner: str, facts: NodeFacts) -> None:
        """Note a node as it is now, for `status`."""
        with self._change() as change:
            change.execute("INSERT OR REPLACE INTO node VALUES (?, ?)", (owner, msgspec.msgpack.encode(facts)))
            change.execute("DELETE FROM gone WHERE owner = ?", (owner,))

    def note_refusal(self, owner: str, card: str, kind: str, error: ErrorFacts | None) -> None:
        """Note why a card cannot run a kind of jobs; None: it can."""
        with self._change() as change:
            change.execute("DELETE FROM refusal WHERE owner = ? AND card = ? AND kind = ?", (owner, card, kind))
            if error is not None:
                change.execute("INSERT INTO refusal VALUES (?, ?, ?, ?)", (owner, card, kind, msgspec.msgpack.encode(error)))

    def note_gone(self, owner: str, facts: NodeFacts, why: str) -> None:
        """Note a node that gets no more jobs, and why, for `status`; for a day."""
        now = self._now()
        with self._change() as change:
            change.execute("DELETE FROM node WHERE owner = ?", (owner,))
            change.execute("DELETE FROM refusal WHERE owner = ?", (owner,))
            change.execute("DELETE FROM gone WHERE since < ?", (now - _GONE_SECONDS,))
            change.execute("INSERT OR REPLACE INTO gone VALUES (?, ?, ?, ?)", (owner, msgspec.msgpack.encode(facts), why, now))

    def forget_node(self, owner: str) -> None:
        """A node left the farm."""
        with self._change() as change:
            for table in ("node", "gone", "refusal"):
                change.execute(f"DELETE FROM {table} WHERE owner = ?", (owner,))

    def forget_gone(self, host: str) -> None:
        """A node of this machine came: those that it had before need no more words."""
        with self._change() as change:
            old = [owner for owner, (facts, _) in self.gone().items() if facts.host == host]
            change.executemany("DELETE FROM gone WHERE owner = ?", [(owner,) for owner in old])

    def forget_nodes(self) -> None:
        """The head begins anew: so do all nodes."""
        with self._change() as change:
            change.execute("DELETE FROM node")
            change.execute("DELETE FROM gone")
            change.execute("DELETE FROM refusal")

    def nodes(self) -> dict[str, NodeFacts]:
        return {owner: _node.decode(facts) for owner, facts in self._database.execute("SELECT owner, facts FROM node")}

    def gone(self) -> dict[str, tuple[NodeFacts, str]]:
        """Nodes that get no jobs, with what was known of them, and why."""
        rows = self._database.execute("SELECT owner, facts, why FROM gone ORDER BY since")
        return {owner: (_node.decode(facts), why) for owner, facts, why in rows}

    def refusals(self) -> tuple[tuple[str, str, ErrorFacts], ...]:
        """(node, kind, why) of every card that cannot run a kind of which jobs wait."""
        query = """
            SELECT owner, kind, error FROM refusal
            WHERE kind IN (SELECT kind FROM job WHERE state = 'waiting') ORDER BY owner, card, kind
        """
        return tuple((owner, kind, _error.decode(error)) for owner, kind, error in self._database.execute(query))

    # -- models that may be copied ------------------------------------------------------------------------------------------

    def allow_copies(self, models: Iterable[ModelPrint]) -> None:
        """Let the head copy these to nodes that lack them."""
        with self._change() as change:
            change.executemany("INSERT OR IGNORE INTO may_copy VALUES (?)", [(_contents(one),) for one in models])

    def may_copy(self, model: ModelPrint) -> bool:
        """Whether the user asked for copies of this model."""
        return self._database.execute("SELECT 1 FROM may_copy WHERE model = ?", (_contents(model),)).fetchone() is not None

    # -- what stands in it -------------------------------------------------------------------------------------------------

    def job(self, key: str) -> Job | None:
        row = self._database.execute(f"SELECT {_COLUMNS} FROM job WHERE key = ?", (key,)).fetchone()
        return None if row is None else _job(row)

    def command(self, key: str) -> FarmCommand:
        """What a job is to do, as the head's own paths name it."""
        command = self.known(key)
        assert command is not None, key
        return command

    def known(self, key: str) -> FarmCommand | None:
        """The same; None where there is no such job."""
        row = self._database.execute("SELECT command FROM job WHERE key = ?", (key,)).fetchone()
        return None if row is None else _command.decode(row[0])

    def is_taken(self, output: str) -> bool:
        """Whether a job that is not over has this output."""
        return _is_taken(self._database, output)

    def beginning(self, prefix: str, *states: State) -> tuple[Job, ...]:
        """Jobs in these states whose keys begin so, in the order in which they were submitted."""
        places = ", ".join("?" * len(states))
        query = f"SELECT {_COLUMNS} FROM job WHERE state IN ({places}) AND substr(key, 1, ?) = ? ORDER BY number"
        return tuple(map(_job, self._database.execute(query, (*states, len(prefix), prefix))))

    def in_state(self, *states: State) -> tuple[Job, ...]:
        """Jobs in these states, in the order in which they were submitted."""
        places = ", ".join("?" * len(states))
        rows = self._database.execute(f"SELECT {_COLUMNS} FROM job WHERE state IN ({places}) ORDER BY number", states)
        return tuple(map(_job, rows))

    def moved(self) -> tuple[Job, ...]:
        """Finished jobs whose file has another name, as something else had theirs."""
        return tuple(map(_job, self._database.execute(f"SELECT {_COLUMNS} FROM job WHERE state = 'done' AND place <> output")))

    def open_kinds(self) -> tuple[Kind, ...]:
        """The kinds of which jobs wait, those of the user whose turn it is first, then the longest waiting."""
        rows = self._database.execute(
            "SELECT kind, command, prints FROM kind JOIN"
            " (SELECT kind, MIN(pictures) AS turn, MIN(number) AS first FROM job JOIN had USING (user) WHERE state = 'waiting'"
            " GROUP BY kind) USING (kind) ORDER BY turn, first"
        )
        return tuple(Kind(kind, _command.decode(command), _prints.decode(prints)) for kind, command, prints in rows)

    def waiting_of(self, kinds: Iterable[str]) -> int:
        """How many jobs of these kinds wait."""
        return sum(_waiting(self._database, tuple(kinds)).values())

    def held(self, owner: str) -> frozenset[tuple[str, int]]:
        """(key, attempt) of what a node has."""
        query = "SELECT key, attempt FROM job WHERE owner = ? AND state = 'leased'"
        return frozenset(self._database.execute(query, (owner,)).fetchall())

    def counts(self) -> dict[str, dict[State, int]]:
        """User -> state -> jobs."""
        found: dict[str, dict[State, int]] = {}
        for user, state, count in self._database.execute("SELECT user, state, COUNT(*) FROM job GROUP BY user, state"):
            found.setdefault(user, {})[state] = count
        return found

    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not self._database.execute(f"SELECT EXISTS (SELECT 1 FROM job WHERE state IN ({_OPEN_STATES}))").fetchone()[0]

    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(Attempt(*row) for row in self._database.execute("SELECT key, attempt, owner, outcome FROM attempt"))

    @contextlib.contextmanager
    def _change(self) -> Generator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def _contents(model: ModelPrint) -> bytes:
    """Names a model by what is in it."""
    return hashlib.sha256(msgspec.msgpack.encode(model.files)).digest()


def _waiting(change: sqlite3.Connection, kinds: tuple[str, ...] | None = None) -> Mapping[str, int]:
    if kinds is None:
        return dict(change.execute("SELECT user, COUNT(*) FROM job WHERE state = 'waiting' GROUP BY user").fetchall())
    places = ", ".join("?" * len(kinds))
    where = f"state = 'waiting' AND kind IN ({places})"
    return dict(change.execute(f"SELECT user, COUNT(*) FROM job WHERE {where} GROUP BY user", kinds).fetchall())


def _is_taken(change: sqlite3.Connection, output: str) -> bool:
    """Whether an open job has this output."""
    return change.execute(f"SELECT 1 FROM job WHERE output = ? AND state IN ({_OPEN_STATES})", (output,)).fetchone() is not None


def _had(change: sqlite3.Connection) -> Mapping[str, int]:
    return dict(change.execute("SELECT user, pictures FROM had").fetchall())


def _outcome(new: Job, happening: Happening) -> str | None:
    """How an attempt ended; None where it did not."""
    match happening:
        case Placed():
            return "done"
        case Lost():
            return "died" if happening.died else "lost"
        case Failed():
            return "failed"
        case Leased() | Again() | Gone():
            return None
        case _:
            return "cancelled" if new.state == "cancelled" else None


def _row(job: Job) -> tuple[object, ...]:
    values = (getattr(job, name) for name in _FIELDS)
    return tuple(msgspec.msgpack.encode(value) if isinstance(value, ErrorFacts) else value for value in values)


def _job(row: tuple[object, ...]) -> Job:
    values = dict(zip(_FIELDS, row, strict=True))
    error = values["error"]
    values["error"] = _error.decode(error) if isinstance(error, bytes) else None
    return msgspec.convert(values, Job)
