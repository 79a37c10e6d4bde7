"""The command `upscale`: finished pictures, made larger by an upscale model."""

from typing import Annotated

import typer

from halftone.cli.generate.pass_options import upscaler_file
from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.options import flags
from halftone.cli.options.requests import known_device
from halftone.cli.terminal.control_characters import say
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Upscale
from halftone.contract.request import UpscaleRequest, model_stem
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.health.part_names import elapsed
from halftone.health.pictures.requests import check_upscale
from halftone.settings.store import load


def upscale(
    context: typer.Context,
    pictures: Annotated[list[str], typer.Argument(metavar="PICTURE", help="PNG, JPEG or WebP files.")],
    model: Annotated[
        str, typer.Option("--with", metavar="MODEL", help="An upscale model: a .safetensors file, or its name in your folders.")
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A file or a folder. Default: next to each picture.", show_default=False),
    ] = None,
    device: flags.Device = None,
    json: flags.Json = False,
) -> None:
    """Make finished pictures larger with an upscale model (ESRGAN, SwinIR, DAT ...).

    Each becomes a new file with the settings of the old one inside; nothing is overwritten.
    """
    from halftone.cli.reports.json_objects import SCHEMA, put

    tools: Tools = context.obj
    saved = load()
    request = UpscaleRequest(
        pictures=tuple(map(flags.absolute, pictures)),
        upscaler=upscaler_file(model, saved),
        device=known_device(device, saved),
        precision=saved.numerics.precision,
        output=None if output is None else flags.absolute(output),
        saving=saved.saving,
    )
    check_upscale(request)

    from halftone.cli.jobs.command_jobs import pictures_of

    report = pictures_of(tools, Upscale(job=JOB, request=request), as_json=json)
    if json:
        put({"schema": SCHEMA, "pictures": [_object(picture) for picture in report.images]})
        return
    for picture in report.images:
        say(f"{picture.path}\n  {_line(picture)}")


def _line(picture: PictureFacts) -> str:
    assert picture.upscaled is not None
    how, dtypes = picture.upscaled, " and ".join(DTYPE_NAMES[dtype] for dtype in picture.dtypes.values())
    again = " · a tile produced NaN in half precision, and Halftone ran it again in FP32" if picture.events else ""
    size = f"{picture.width} × {picture.height}, {how.scale} times larger"
    return f"{size} · {model_stem(how.upscaler)} in {dtypes} · {elapsed(picture.seconds)}{again}"


def _object(picture: PictureFacts) -> dict[str, object]:
    assert picture.upscaled is not None
    how = picture.upscaled
    return {
        "path": picture.path,
        "source": how.source,
        "upscaler": how.upscaler,
        "scale": how.scale,
        "width": picture.width,
        "height": picture.height,
        "dtypes": picture.dtypes,
        "state": picture.state,
        "seconds": picture.seconds,
    }
