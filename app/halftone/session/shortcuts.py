"""The keys that the user gave to actions: what is in force, what is kept, and who has a key already."""

from collections.abc import Mapping

Keys = Mapping[str, tuple[str, ...]]
"""Name of an action -> its keys."""


def in_force(usual: Keys, kept: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys of every action. kept: as the settings hold them; what has no action is left out."""
    return {name: tuple(filter(None, kept[name].split(", "))) if name in kept else keys for name, keys in usual.items()}


def chosen(usual: Keys, kept: Mapping[str, str], name: str, keys: str) -> dict[str, str]:
    """What is kept once an action has other keys; its usual ones are not."""
    others = {one: held for one, held in kept.items() if one != name}
    return others if keys == ", ".join(usual[name]) else {**others, name: keys}


def user_of(key: str, name: str, now: Keys) -> str | None:
    """Another action that has this key, None where it is free."""
    return next((other for other, keys in now.items() if other != name and key in keys), None) if key else None
