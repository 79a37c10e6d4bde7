"""The commands of the farm. All but `head` and `join` only read and write the ledger of this user on the head's machine."""

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halftone.cli.farm.status_command import keys_hint, say_counts
from halftone.cli.jobs.engine_and_log import kept_log
from halftone.cli.jobs.stop_signal import StoppedBySignal
from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.settings.store import load

if TYPE_CHECKING:
    from halftone.farm.ledger import Ledger, Wanted
    from halftone.farm.serving import Settled

User = Annotated[str | None, typer.Option("--user", help="Whose jobs they are; users take turns.", show_default="you")]
CopyModels = Annotated[
    bool, typer.Option("--copy-models", help="Let the head copy models to nodes that lack them. Each is verified by its hash.")
]
_LOOPBACK = "127.0.0.1"


def head(
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Of this machine, in the network of the nodes.")
    ] = _LOOPBACK,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = 0,
    no_work: Annotated[bool, typer.Option("--no-work", help="Use no card of this machine.")] = False,
    until_done: Annotated[bool, typer.Option("--until-done", help="Leave when no job is left.")] = False,
) -> None:
    """Give out the jobs and write their pictures, until Ctrl+C.

    Without --address nothing but this machine reaches it. With one, every node needs the token. Exit code with --until-done: 1
    where a job failed or was set aside.
    """
    from halftone.farm.ledger import Ledger
    from halftone.farm.serving import run_head

    def ready(where: str, token: Path) -> None:
        say(f"The farm's head runs at {where}. Token: {token}")
        if address != _LOOPBACK:
            say("The token does not encrypt anything: use a private network or a VPN. See the guide.")

    with kept_log(), Ledger() as ledger:
        before = _failed(ledger)
        stopped = run_head(ready, address, port, works=not no_work, until_over=until_done)
        say_counts(ledger)
        if not until_done:
            return
        if stopped is not None and not ledger.is_over():
            raise StoppedBySignal("Stopped. Jobs are left.", stopped)
        raise typer.Exit(1 if _failed(ledger) - before else 0)


def _failed(ledger: "Ledger") -> frozenset[tuple[str, int]]:
    """Attempts that did not end well."""
    return frozenset((job.key, job.attempt) for job in ledger.in_state("failed", "aside"))


def join(
    address: Annotated[str, typer.Argument(metavar="ADDRESS:PORT", help="As the head shows it.")],
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="The head's token.", show_default="your own")
    ] = None,
) -> None:
    """Lend this machine's cards to a farm, until Ctrl+C. Models are looked for in your own folders."""
    from halftone.farm.serving import NodeSays, run_node

    says = NodeSays(
        joining=lambda: say(f"Joining {address}. Ctrl+C leaves the farm."),
        joined=lambda: say("Joined. Jobs of the farm run here now."),
        lost=lambda: say("The head does not answer any more. This node joins again when it does."),
    )
    with kept_log():
        run_node(address, token_file, says)


def submit(
    jobs: Annotated[str, typer.Argument(metavar="JOBS.jsonl", help="One picture request a line, as JSON.")],
    user: User = None,
    copy_models: CopyModels = False,
    json: flags.Json = False,
) -> None:
    """Hand in jobs. A line has the fields of a request, its output, and a key if you like.

    Handing the same file in again adds nothing.
    """
    from halftone.farm.jobs import read_jobs
    from halftone.farm.ledger import Ledger

    with Ledger() as ledger:
        wanted = read_jobs(Path(jobs).expanduser(), user or getpass.getuser(), load(), ledger)
        _file(ledger, wanted, copies=copy_models, as_json=json)


def check(
    all_: Annotated[bool, typer.Option("--all", help="Check every model of your folders.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="A folder for the reports.")] = ".",
    thorough: Annotated[bool, typer.Option("--thorough", help="Full pictures, several prompts and sizes.")] = False,
    user: User = None,
    copy_models: CopyModels = False,
    json: flags.Json = False,
) -> None:
    """Hand in a check of each model of your library. Reports are JSON files, one a model."""
    from halftone.farm.jobs import checks
    from halftone.farm.ledger import Ledger
    from halftone.session.models.model_list import models_in

    if not all_:
        raise typer.BadParameter("Use --all to check every model of your folders.")
    saved = load()
    models = [facts.id for facts in models_in(saved.model_folders).listed if facts.pipeline or facts.format == "diffusers"]
    wanted, left = checks(models, Path(output), "thorough" if thorough else "quick", user or getpass.getuser(), saved)
    for why in left:
        say(f"Left out: {why}", err=True)
    with Ledger() as ledger:
        _file(ledger, wanted, copies=copy_models, as_json=json)


def _file(ledger: "Ledger", wanted: "Sequence[Wanted]", *, copies: bool, as_json: bool) -> None:
    """File jobs and say what became of them. Those that were cancelled wait again: the user wants them after all."""
    from halftone.farm.states import Again

    if copies:
        ledger.allow_copies(model for one in wanted for model in one.prints)
    there = frozenset(ledger.submit(wanted))
    known = there.difference(ledger.try_again([job.key for job in ledger.in_state("cancelled") if job.key in there], Again())[0])
    ended = [job.key for job in ledger.in_state("failed", "aside") if job.key in known]
    filed = len(wanted) - len(known)
    if as_json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        jobs = [{"key": one.job.key, "output": one.job.output, "known": one.job.key in known} for one in wanted]
        put({"schema": SCHEMA, "submitted": filed, "known": len(known), "ended": ended, "jobs": jobs})
        return
    told = _counted("{0} jobs were submitted.", filed, "1 job was submitted.")
    say(told + (f" {_counted('{0} were known already.', len(known), '1 was known already.')}" if known else ""))
    if copies:
        say("The head may copy their models to nodes that lack them.")
    if ended:
        failed = _counted("{0} of these failed or were set aside.", len(ended), "1 of these failed or was set aside.")
        say(f"{failed} To try all such jobs again: {command_line('farm', 'resume', '--again')}")
    if filed:
        say(keys_hint())


def _counted(words: str, count: int, one: str) -> str:
    return one if count == 1 else words.format(count)


def cancel(
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Jobs to cancel.", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Cancel every job that is not done.")] = False,
    user: Annotated[str | None, typer.Option("--user", help="Only with --all: of this user.", show_default=False)] = None,
) -> None:
    """Cancel jobs. Those that run stop after their step; pictures that are done stay."""
    from halftone.farm.ledger import Ledger
    from halftone.farm.states import Cancelled

    if keys and all_:
        raise typer.BadParameter("Name jobs or use --all, not both.")
    if user is not None and not all_:
        raise typer.BadParameter("--user only works with --all.")
    if not keys and not all_:
        raise typer.BadParameter("Name the jobs, or use --all.")
    with Ledger() as ledger:
        waiting = [job.key for job in ledger.in_state("waiting", "leased") if user in (None, job.user)]
        wanted = waiting if all_ else keys or []
        done = [key for key in wanted if ledger.tell(key, Cancelled()) is not None]
    for key in wanted:
        if key not in done:
            say(f"There is no waiting or running job {key}.", err=True)
    say(_counted("{0} jobs were cancelled.", len(done), "1 job was cancelled."))
    raise typer.Exit(0 if len(done) == len(wanted) else 2)


def resume(
    again: Annotated[bool, typer.Option("--again", help="Also try what failed, was set aside or was cancelled.")] = False,
    remake: Annotated[bool, typer.Option("--remake", help="Also make files again that are gone or were changed.")] = False,
    json: flags.Json = False,
) -> None:
    """Put the ledger in order after a head that ended, and check every finished file.

    A picture that is there is not made again. Exit code: 1 where a finished file is gone or changed.
    """
    from halftone.farm.serving import settled

    found = settled(again=again, remake=remake)
    if json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        put({"schema": SCHEMA, **found._asdict()})
    else:
        _say_settled(found)
    raise typer.Exit(1 if found.unsound else 0)


def _say_settled(found: "Settled") -> None:
    for count, many, one in (
        (found.there, "{0} unfinished files were there already.", "1 unfinished file was there already."),
        (found.lost, "{0} jobs wait again.", "1 job waits again."),
        (found.again, "{0} jobs are tried again.", "1 job is tried again."),
        (found.remade, "{0} files are made again.", "1 file is made again."),
    ):
        if count:
            say(_counted(many, count, one))
    for key in found.taken:
        say(f"{key} is not tried again: a job that is not done has its output.", err=True)
    for path in found.unsound:
        say(f"{path} is gone, or is not the file that the farm wrote.", err=True)
    if found.unsound:
        say(f"To make such files again: {command_line('farm', 'resume', '--remake')}", err=True)
    if not any(found):
        say("Nothing was to be put in order.")
