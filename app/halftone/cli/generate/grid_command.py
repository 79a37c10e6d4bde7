"""`generate --grid`: one picture for each combination of values, and a sheet with labels."""

from msgspec.structs import replace

from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.options.requests import known_model, ready_request
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.session.pictures.grid import Axis, Cell, Grid, axis_of, fitted, parsed, planned, variable_named, variables
from halftone.settings.store import Settings


def axes_of(texts: list[str], request: PictureRequest, facts: ModelFacts, saved: Settings) -> tuple[Axis, ...]:
    """The axes as they are typed: "guidance=5,7,9". Models are read, so that a wrong name is refused at once."""
    known, found = variables(request, facts), list[Axis]()
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            allowed = Words("a parameter and its values, such as guidance=5,7,9")
            raise HalftoneError("setting-bad-value", name="--grid", value=text, allowed=allowed)
        variable = variable_named(known, name.strip())
        axis = axis_of(variable, parsed(values, variable))
        if axis.name == "model":
            axis = replace(axis, values=tuple(known_model(str(model), saved).id for model in axis.values))
        found.append(axis)
    return tuple(found)


def grid_of(texts: list[str], base: PictureRequest, facts: ModelFacts, saved: Settings) -> Grid:
    """All pictures of the grid, each checked before the first one is made. Raises HalftoneError."""
    if base.output is not None and not _is_folder(base.output):
        raise HalftoneError("setting-bad-value", name="--output", value=base.output, allowed=Words("a folder for a grid"))

    def ready(request: PictureRequest) -> PictureRequest:
        model = facts if request.model == base.model else known_model(request.model, saved)
        wanted = request if model is facts else fitted(request, model)
        return ready_request(wanted, model, saved)

    return planned(base, axes_of(texts, base, facts, saved), ready)


def _is_folder(output: str) -> bool:
    from halftone.metadata.picture import absolute

    return absolute(output).is_dir()


def make_grid(tools: Tools, grid: Grid, *, as_json: bool) -> tuple[Grid, PictureFacts]:
    """The grid with all its pictures, and the sheet. A picture that fails is noted and the others are made. Raises what the first
    one fails with where none can be made.
    """
    from halftone.cli.jobs import command_jobs
    from halftone.session.pictures.sheets import save_and_list

    while (request := grid.next) is not None:
        command_jobs.tell_notes(() if as_json else (f"Grid: picture {len(grid.cells) + 1} of {grid.count}",))
        try:
            images = command_jobs.pictures_of(tools, Generate(job=JOB, request=request), as_json=as_json).images
            grid = grid.with_cell(Cell(images[-1] if images else None))
        except HalftoneError as error:
            command_jobs.tell_notes((str(error),))
            grid = grid.with_cell(Cell(error=error.as_facts()))
    return grid, save_and_list(grid)[0]
