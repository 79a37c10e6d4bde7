"""`halftone farm status`: what is done, what waits and why, and the nodes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from halftone.cli.options import flags
from halftone.cli.reports.remedies import say_here
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.contract.errors import ErrorFacts, sentence
from halftone.farm.states import OPEN, Job, State

if TYPE_CHECKING:
    from halftone.farm.ledger import Ledger
    from halftone.farm.talk import NodeFacts

_STATES: Final[dict[State, str]] = {"leased": "with a node", "placing": "being saved", "aside": "set aside"}
"""What the other states are called is their name."""
_DIGITS: Final = 8
"""Shown of the name of a node."""


def keys_hint() -> str:
    return f"To list jobs with their keys: {command_line('farm', 'status', '--jobs')}"


def say_counts(ledger: "Ledger") -> None:
    for user, states in sorted(ledger.counts().items()):
        say(f"{user}: " + ", ".join(f"{count} {_STATES.get(state, state)}" for state, count in states.items()))


def status(
    jobs: Annotated[bool, typer.Option("--jobs", help="Also list each job that is not done, with its key.")] = False,
    json: flags.Json = False,
) -> None:
    """Show what is done, what waits and why, and the nodes."""
    from halftone.farm.ledger import Ledger
    from halftone.farm.window_jobs import head_runs

    runs = head_runs()
    with Ledger() as ledger:
        if json:
            _put(ledger, runs=runs)
            return
        counts = ledger.counts()
        say_counts(ledger)
        nodes = ledger.nodes() if runs else {}
        if jobs:
            _say_jobs(ledger.in_state(*OPEN), nodes)
        _say_nodes(nodes, ledger.gone() if runs else {})
        _say_refusals(ledger.in_state("waiting"), ledger.refusals() if runs else ())
        for job in ledger.in_state("failed", "aside"):
            say(f"{job.key} {'was set aside' if job.state == 'aside' else 'failed'}: {_why(job.error)}")
        for job in ledger.moved():
            say(f"{job.key} lies at {job.place}: its own name was taken.")
    if not counts:
        say("No job was submitted yet.")
    if not runs:
        say(f"No head runs. To start one: {command_line('farm', 'head')}")


def _put(ledger: "Ledger", *, runs: bool) -> None:
    from halftone.cli.reports.json_objects import SCHEMA, put

    nodes, refused = (ledger.nodes(), ledger.refusals()) if runs else ({}, ())
    put(
        {
            "schema": SCHEMA,
            "head": runs,
            "users": ledger.counts(),
            "nodes": sorted(nodes),
            "machines": [_machine(node, facts) for node, facts in sorted(nodes.items())],
            "gone": [
                {"node": node, "host": facts.host, "version": facts.version, "why": why}
                for node, (facts, why) in (ledger.gone() if runs else {}).items()
            ],
            "moved": [{"key": job.key, "output": job.output, "place": job.place} for job in ledger.moved()],
            "jobs": [
                {"key": job.key, "user": job.user, "state": job.state, "output": job.output, "node": job.owner}
                for job in ledger.in_state(*OPEN)
            ],
            "ended": [{"key": job.key, "state": job.state, "why": _why(job.error)} for job in ledger.in_state("failed", "aside")],
            "refused": [{"node": node, "kind": kind, "why": _why(error)} for node, kind, error in refused],
        }
    )


def _machine(node: str, facts: "NodeFacts") -> dict[str, object]:
    cards = [{"id": card.device.id, "name": card.device.name} for card in facts.cards]
    return {"node": node, "host": facts.host, "version": facts.version, "cards": cards}


def _say_jobs(jobs: Iterable[Job], nodes: "Mapping[str, NodeFacts]") -> None:
    for job in jobs:
        state = _STATES.get(job.state, job.state)
        if job.owner is not None and job.owner in nodes:
            state = f"with node {nodes[job.owner].host} ({job.owner[:_DIGITS]})"
        say(f"{job.key}  {state}  {job.output}")


def _say_nodes(nodes: "Mapping[str, NodeFacts]", gone: "Mapping[str, tuple[NodeFacts, str]]") -> None:
    for name, facts in nodes.items():
        cards = ", ".join(f"{card.device.name} ({card.device.id})" for card in facts.cards)
        say(f"Node {facts.host} ({name[:_DIGITS]}, Halftone {facts.version}): {cards}")
    for name, (facts, why) in gone.items():
        known = f"{facts.host} ({name[:_DIGITS]}, Halftone {facts.version})" if facts.host else name[:_DIGITS]
        say(f"Node {known} gets no jobs: {why}")


def _say_refusals(waiting: tuple[Job, ...], refused: Iterable[tuple[str, str, ErrorFacts]]) -> None:
    for node, kind, error in refused:
        alike = [Path(job.output).name for job in waiting if job.kind == kind]
        rest = f" and {len(alike) - 1} like it" if len(alike) > 1 else ""
        say(f"{next(iter(alike), kind)}{rest} cannot run on node {node[:_DIGITS]}: {say_here(error)}")


def _why(error: ErrorFacts | None) -> str:
    return "" if error is None else sentence(error)
