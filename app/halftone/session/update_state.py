"""What the window knows of updates, and why they are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from halftone.contract.wording import Words

Stage = Literal["idle", "checking", "up-to-date", "found", "installing", "done", "failed"]
Step = Literal["", "download", "unpack", "environment", "self-check", "switch"]

REASONS: Final = {
    "no-key": "This build has no update key, so no update can be trusted; nothing was changed: install the new package by hand.",
    "not-packaged": "These are Halftone's sources and not a package; nothing was changed: update them with git.",
    "no-home": "HALFTONE_HOME is not set, so there is no folder for updates; nothing was changed: start Halftone by its package.",
    "no-source": "No place for updates is given; nothing was changed: name a folder, a file or an HTTPS address.",
    "bad-address": "{0} is not a folder, a file or an HTTPS address; nothing was changed: check the address.",
    "password": "The address holds a user name or a password, which would be shown; nothing was changed: leave it out.",
    "unreachable": "{0} could not be read ({1}); nothing was changed: check the address and the network.",
    "bad-manifest": "{0} is not an update manifest that this version understands ({1}); nothing was changed: get it again.",
    "bad-signature": "The signature of {0} is not from Halftone's update key; nothing was changed: get it from another place.",
    "other-platform": "The update is for {0} and this package is for {1}; nothing was changed: get the one for {1}.",
    "older": "The update is version {0}, older than the installed {1}; nothing was changed: get a newer one.",
    "installed": "Version {0} is installed already; nothing was changed.",
    "old-python": "Version {0} needs Python {1} and this is {2}; nothing was changed: install a newer Python or package.",
    "wrong-size": "{0} is not as long as the manifest says ({1} bytes); nothing was changed: get it again.",
    "wrong-hash": "{0} does not have the hash that the manifest names; nothing was changed: get it again.",
    "bad-archive": "The update's archive is refused ({0}); nothing was changed: report it to whoever made it.",
    "no-space": "The update needs {0} MB free and {1} has {2} MB; nothing was changed: free some space and try again.",
    "disk-full": "The disk of {0} became full; the version in use is unchanged: free some space and try again.",
    "not-written": "{0} could not be written ({1}); the version in use is unchanged: check the folder's rights and try again.",
    "changed": "{0} offers another update than the one shown; nothing was changed: check for updates again.",
    "busy": "Another update is running; nothing was changed: wait until it has ended.",
    "in-use": "Version {0} is in use and cannot be replaced; nothing was changed: close Halftone's windows and try again.",
    "environment": "The environment of version {0} could not be built ({1}); the version in use is unchanged: try again later.",
    "self-check": "Version {0} did not pass its self-check ({1}), so it was removed; the version in use is unchanged: report it.",
    "stopped": "The update was stopped; the version in use is unchanged.",
}
"""The sentences of `installer.updates.reasons`, which stands outside of this package."""
_ENDED: Final = "The update ended early ({0}); the version in use is unchanged: try again."
_ENDED_LAST: Final = "The update ended early in its last step ({0}): check for updates to see whether it is installed."


def refusal(code: str, values: Sequence[str]) -> Words:
    return Words(REASONS[code], tuple(values))


def ended_early(detail: str, step: Step) -> Words:
    return Words(_ENDED_LAST if step == "switch" else _ENDED, (detail,))


@dataclass(frozen=True, kw_only=True)
class Offer:
    """An update as its manifest describes it. notes: language -> what is new; size, unpacked: bytes; environment: a new one must
    be built; damaged: a file of the current version that is not whole; agreed: names what the user sees.
    """

    version: str
    current: str
    date: str
    source: str
    size: int
    unpacked: int
    environment: bool
    agreed: str
    damaged: str = ""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Updating:
    """done, total: bytes of the step; line: the last one of the set-up of an environment."""

    stage: Stage = "idle"
    offer: Offer | None = None
    step: Step = ""
    done: int = 0
    total: int = 0
    line: str = ""
    error: Words | None = None
