"""The command that trains a LoRA: settings from a TOML file, what the guard stopped a line each, Ctrl+C stops and keeps."""

import tomllib
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

import halftone.cli.flags as given
from halftone.cli.tools import JOB, Tools
from halftone.contract.messages import AnyEvent, Keep, Train, TrainBegins, TrainCaught, TrainSaved, TrainUnsaved
from halftone.contract.training import TrainConfig, TrainReport

EXAMPLE: Final = """\
# A LoRA training. Run it with:  halftone train my-training.toml
model = "pocket"                 # a model's name or its path
pictures = "pictures"            # a folder; a text file of the same name beside a picture is its caption
output = "loras"                 # where the LoRA and its run are saved
name = "my-style"                # the LoRA's file is called so

# size = 0                       # pixels of a square picture's edge; 0: the model's own
# shapes = 3                     # how many shapes of the same area pictures are cut to
# repeats = 1                    # how often each picture counts
# flip = false                   # mirrored pictures count too
# word = ""                      # put before every caption: in a prompt it calls the style
# left_out = []                  # names of pictures that are not used

# steps = 1600
# batch = 2                      # pictures per step
# accumulate = 1                 # batches per step
# rank = 16                      # how much the LoRA can hold
# alpha = 16.0                   # it counts alpha / rank
# optimizer = "adamw"            # adamw, adamw8bit, prodigy
# learning_rate = 0.0001         # of prodigy: 1.0
# schedule = "cosine"            # constant, linear, cosine
# warm_up = 0                    # steps over which the learning rate rises
# weight_decay = 0.01
# clip = 1.0                     # larger gradients are cut to this; 0: none is
# snr_gamma = 5.0                # Min-SNR; 0: off
# caption_dropout = 0.05         # share of steps without a caption
# seed = 0

# device = "auto"
# precision = "auto"             # auto, float16, bfloat16, float32; the LoRA's weights are always float32
# loss_scale = "auto"            # auto, off
# guard = "every-step"           # every-step, off
# checkpointing = false          # less memory, slower

# save_every = 200               # steps; what is saved can be gone on from
# test_every = 200               # steps between test pictures; 0: none
# test_prompt = ""
# test_seed = 7
"""


def train(
    context: typer.Context,
    config: Annotated[str | None, typer.Argument(metavar="CONFIG.toml", help="The settings; --example shows them all.")] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FOLDER", help="Go on with a run that was broken off.", show_default=False)
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a file of settings with comments, and leave.")] = False,
    json: given.Json = False,
) -> None:
    """Train a LoRA on your own pictures, and stop a bad number before it does harm.

    Ctrl+C stops after the step and keeps what was learnt.
    """
    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    wanted = _wanted(config, resume)
    report = _run(context.obj, wanted, None if resume is None else given.absolute(resume), as_json=json)
    if json:
        from halftone.cli.objects import SCHEMA, put

        put({"schema": SCHEMA, "training": msgspec.to_builtins(report)})
    else:
        from halftone.health.training_words import report_words

        typer.echo(f"{report_words(report).text()}\n{report.path}")
        if report.not_kept:
            typer.echo(f"The last state could not be saved: {report.not_kept}", err=True)


def _wanted(config: str | None, resume: str | None) -> TrainConfig:
    """The settings of the file, or of the run that is gone on with."""
    if resume is None and config is None:
        raise typer.BadParameter("name a file of settings, or a run with --resume", param_hint="CONFIG.toml")
    return read_config(config) if config is not None else config_of(resume or "")


def read_config(place: str) -> TrainConfig:
    """Raises typer.BadParameter in one sentence where the file holds no training."""
    try:
        content = tomllib.loads(Path(place).read_bytes().decode())
        config = msgspec.convert(content, TrainConfig)
    except OSError as error:
        raise typer.BadParameter(f"{place} cannot be read: {error.strerror}", param_hint="CONFIG.toml") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise typer.BadParameter(f"{place}: {str(error).partition(chr(10))[0]}", param_hint="CONFIG.toml") from error
    return msgspec.structs.replace(config, pictures=given.absolute(config.pictures), output=given.absolute(config.output))


def config_of(folder: str) -> TrainConfig:
    """The settings that a run was begun with. Raises HalftoneError train-no-run."""
    from halftone.library.training_runs import config_in

    return config_in(folder)


def _run(tools: Tools, config: TrainConfig, resume: str | None, *, as_json: bool) -> TrainReport:
    from halftone.cli.jobs import run_job
    from halftone.cli.progress import Progress

    with Progress(wanted=not as_json) as progress:

        def hear(event: AnyEvent, blob: bytes) -> None:
            progress(event, blob)
            if not as_json and (line := event_line(event)):
                progress.note(line)

        return run_job(tools, Train(job=JOB, config=config, resume=resume), TrainReport, hear, stop=Keep)


def event_line(event: AnyEvent) -> str:
    """What is told of a training on a line of its own; "" of its steps."""
    from halftone.contract.errors import say
    from halftone.health import training_words as words

    match event:
        case TrainBegins():
            lines = [f"Foreseen: {words.omen_words(omen).text()}" for omen in event.omens]
            return "\n".join(lines)
        case TrainCaught():
            caught = event.caught
            said = (words.caught_title(caught), *words.why_words(caught)[:1], words.did_words(caught))
            return " ".join([*(one.text() for one in said), f"Cost: {words.cost_words(caught).text()}"])
        case TrainSaved():
            return f"Saved at step {event.step}: {event.path}"
        case TrainUnsaved():
            return (
                f"Step {event.step} could not be saved: {say(event.error)} The training goes on and tries again every 10 steps."
            )
        case _:
            return ""
