"""The models in the user's folders: each runs, runs with small files, or only replaces another's transformer."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.denoisers import host_of
from halftone.library.models import list_models, runnable

State = Literal["ready", "needs-files", "needs-parts"]
_STATES: dict[str, State] = {"model-needs-files": "needs-files", "model-needs-parts": "needs-parts"}


class Listed(NamedTuple):
    """error: why it does not run alone. host: the first of the models whose other parts a transformer's file can use."""

    facts: ModelFacts
    state: State
    error: HalftoneError | None = None
    host: ModelFacts | None = None


def listed(folders: Iterable[str]) -> tuple[Listed, ...]:
    """Pocket, then what is in the folders, transformers of one file last. LoRAs, VAEs and so on are no models."""
    found = [one for facts in list_models(folders) if (one := _of(facts)) is not None]
    whole = [one.facts for one in found if one.state == "ready"]
    parts = [one._replace(host=host_of(one.facts.path, whole)) for one in found if one.state == "needs-parts"]
    return (*(one for one in found if one.state != "needs-parts"), *parts)


def _of(facts: ModelFacts) -> Listed | None:
    try:
        runnable(facts)
    except HalftoneError as error:
        state = _STATES.get(error.code)
        return None if state is None else Listed(facts, state, error)
    return Listed(facts, "ready")
