"""How a picture says that it was made, by whichever program."""

from pathlib import Path

from halftone.contract.errors import HalftoneError
from halftone.metadata.comfy import NotPlainError, parameters_of
from halftone.metadata.reading import Parameters, holds_parameters, parse_parameters, read_picture


def said_by(path: Path) -> Parameters:
    """Read what a picture says. Raises HalftoneError as `opened_picture`; picture-silent, picture-graph."""
    found = read_picture(path)
    if found.parameters and holds_parameters(found.parameters):
        return parse_parameters(found.parameters)
    if found.graph is None or not found.graph.lstrip().startswith("{"):
        raise HalftoneError("picture-silent", path=path.name)
    try:
        return parameters_of(found.graph)
    except NotPlainError as error:
        raise HalftoneError("picture-graph", path=path.name, detail=error.words) from error
