"""What the banner of a picture offers for its model: that one may be cured by now, and another may be in use."""

from dataclasses import replace
from pathlib import PurePath
from typing import Final, Literal

from msgspec import structs

from halftone.contract.facts import PictureFacts
from halftone.gui.controller import Controller
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.message_bars import Act, Message

ModelNow = Literal["in-use", "cured", "another", "unknown"]
"""cured: in use, with a cure in force; another: it is known, but not in use; unknown: it is not on the list any more."""

_ABOUT_THE_MODEL: Final = ("fix", "health", "check", "recover-fix")
FIXES: Final = ("fix", "recover-fix")
_LONGEST: Final = 28
"""Letters of a model's name on a button."""


def model_now(controller: Controller, model: str) -> ModelNow:
    """How the model of a picture, by its id, stands."""
    if model == controller.settings.last_model:
        return "cured" if controller.session.checks.badge(controller.model).state == "cured" else "in-use"
    return "another" if any(one.id == model for one in controller.models) else "unknown"


def model_name(controller: Controller, model: str) -> str:
    return next((one.name for one in controller.models if one.id == model), PurePath(model).name)


def without_memory(picture: PictureFacts) -> PictureFacts:
    """The cure that was found while the picture was made is no news where the model is cured."""
    return structs.replace(picture, events=tuple(structs.replace(event, remembered=False) for event in picture.events))


def about_model(message: Message, name: str, now: ModelNow) -> Message:
    """The message with the actions that its picture's model, called `name`, can still have."""
    if now == "in-use":
        return replace(message, actions=tuple(_named(act, name) for act in message.actions))
    if not any(act.key in _ABOUT_THE_MODEL for act in message.actions):
        return message
    if now == "cured":
        kept = tuple(act for act in message.actions if act.key not in FIXES)
        return replace(message, actions=kept, strong=sentences(message.strong, tr("{0} is cured now.", name)), price="")
    kept = tuple(act for act in message.actions if act.key not in _ABOUT_THE_MODEL)
    use = (Act("use-model", tr("Use {0} again", _short(name)), "", ""),) if now == "another" else ()
    return replace(message, actions=(*use, *kept), strong=sentences(message.strong, tr("Made with {0}.", name)), price="")


def _named(act: Act, name: str) -> Act:
    """Name the model in the tooltip: on the button it would leave no space for the evidence."""
    return replace(act, tip=tr("Fix {0}", name)) if act.key == "fix" else act


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
