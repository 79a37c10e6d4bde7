"""A network once more, with another configuration."""

from typing import Any


def remade(network: Any, **changes: Any) -> Any:
    """Of the same class, its weights drawn anew."""
    return type(network)(**{**network.config, **changes})
