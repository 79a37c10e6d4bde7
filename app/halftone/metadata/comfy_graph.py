"""ComfyUI's graph of nodes: what stands behind an input, and the values there. It is untrusted.

Form (https://docs.comfy.org): node -> {"class_type": its kind, "inputs": name -> value, or [node, output] of another one}.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from halftone.contract.wording import Words
from halftone.metadata.reading import whole_signs

Node = Mapping[str, Any]

_PASSES: Final = ("Reroute", "Reroute (rgthree)")
_SWITCHES: Final = {"ComfySwitchNode": "switch"}
_LITERALS: Final[dict[str, str]] = {
    "PreviewAny": "source",
    "PrimitiveInt": "value", "PrimitiveFloat": "value", "PrimitiveString": "value", "PrimitiveStringMultiline": "value",
    "PrimitiveBoolean": "value", "INTConstant": "value", "FloatConstant": "value", "StringConstant": "string",
    "StringConstantMultiline": "string", "Seed (rgthree)": "seed", "Seed Everywhere": "seed", "CR Seed": "seed",
    "easy seed": "seed", "Text Multiline": "text", "String Literal": "string", "JWInteger": "value", "JWFloat": "value",
    "ImpactWildcardProcessor": "populated_text", "ImpactInt": "value", "ImpactFloat": "value", "CR Text": "text",
    "CR Prompt Text": "prompt", "Textbox": "text", "easy positive": "positive", "easy negative": "negative",
    "easy int": "value", "easy float": "value", "easy string": "value", "ttN text": "text", "ttN int": "int",
    "ttN float": "float", "Int Literal": "int", "Float Literal": "float",
}  # fmt: skip
"""Kinds whose output is one of their inputs."""
_JOINS: Final = "StringConcatenate"
EMPTY: Final = re.compile(r"\w*Empty\w*Latent\w*")
"""Kinds of empty latents, which have a width and a height."""
MOST: Final = 64
"""Nodes in a chain."""
LARGEST: Final = 2**64
"""The end of ComfyUI's seeds."""
LONGEST_KIND: Final = 48
"""Letters of a kind that is shown or compared."""
_LONGEST: Final = 2**17
"""Letters of a text that is joined of others."""


class NotPlainError(Exception):
    """Names why a graph cannot be read, in a part of a sentence."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


class Place(NamedTuple):
    """An output of a node."""

    node: Node
    slot: int


class Graph:
    """The nodes by their names; strange: the kinds of those that were not understood, in order."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self.nodes = nodes
        self.strange: dict[str, None] = {}
        self._places: dict[tuple[int, str], Place | None] = {}
        self._values: dict[tuple[int, str], Any] = {}

    def note(self, node: Node) -> None:
        """Remember a node that is not understood."""
        self.strange[kind_of(node)] = None

    def place(self, node: Node, name: str, left: int = MOST) -> Place | None:
        """What an input comes from, over nodes that only pass it on; None too for one that depends on itself, or on more than
        `left` others.
        """
        key = (id(node), name)
        if key not in self._places:
            self._places[key] = None  # for who asks on the way
            self._places[key] = self._place(node, name, left)
        return self._places[key]

    def _place(self, node: Node, name: str, left: int) -> Place | None:
        found: Any = node
        for _ in range(MOST):
            link = inputs_of(found).get(name)
            parts = cast("list[Any]", link) if isinstance(link, list) else []
            found = self.nodes.get(str(parts[0])) if parts else None
            if found is None:
                return None
            if kind_of(found) in _SWITCHES:
                on = self.value(found, _SWITCHES[kind_of(found)], left - 1)
                name = "on_true" if on is True else "on_false"
            elif kind_of(found) in _PASSES:
                name = next(iter(inputs_of(found)), "")
            else:
                return Place(found, parts[1] if len(parts) > 1 and isinstance(parts[1], int) else 0)
        return None

    def behind(self, node: Node, *names: str) -> Node | None:
        """The node of the first of these inputs that has one."""
        return next((found.node for name in names if (found := self.place(node, name)) is not None), None)

    def needed(self, node: Node, name: str) -> Node:
        """The node of an input. Raises NotPlainError."""
        return self.needed_place(node, name).node

    def needed_place(self, node: Node, name: str) -> Place:
        """The output that an input comes from. Raises NotPlainError."""
        found = self.place(node, name)
        if found is None:
            raise NotPlainError(Words("the node {0} has no {1}", (kind_of(node), name)))
        return found

    def value(self, node: Node, name: str, left: int = MOST) -> Any:
        """An input, or what another node that only holds a value gives to it; None for none. Raises NotPlainError."""
        value = inputs_of(node).get(name)
        if not isinstance(value, list):
            return value
        key = (id(node), name)
        if key not in self._values:
            self._values[key] = None  # for who asks on the way
            self._values[key] = self._value(node, name, left) if left > 0 else None
        return self._values[key]

    def _value(self, node: Node, name: str, left: int) -> Any:
        """The value that comes from another node."""
        found = self.place(node, name, left)
        if found is None:
            return None
        kind = kind_of(found.node)
        if kind == _JOINS:
            parts = [self.value(found.node, one, left - 1) for one in ("string_a", "string_b", "delimiter")]
            if not all(isinstance(one, str) for one in parts):
                return None
            if sum(map(len, parts)) > _LONGEST:
                raise NotPlainError(Words("the text of the node {0} is too long", (kind,)))
            return f"{parts[0]}{parts[2]}{parts[1]}"
        return self.value(found.node, _LITERALS[kind], left - 1) if kind in _LITERALS else None

    def text(self, node: Node, name: str) -> str:
        """Text of an input. Raises NotPlainError."""
        found = self.value(node, name)
        if not isinstance(found, str):
            raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, kind_of(node))))
        return whole_signs(found).strip()

    def known(self, node: Node, name: str, usual: float | None = None) -> int | float | None:
        """A number of an input; None where it comes from a node that is not understood, which is noted. Raises NotPlainError."""
        if self.value(node, name) is None and (source := self.behind(node, name)) is not None:
            self.note(source)
            return None
        return self.number(node, name, usual)

    def number(self, node: Node, name: str, usual: float | None = None) -> int | float:
        """A number of an input; usual: where the node has none. Raises NotPlainError."""
        found = self.value(node, name)
        if found is None and name not in inputs_of(node):
            if usual is None:
                raise NotPlainError(Words("the node {0} has no {1}", (kind_of(node), name)))
            return usual
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, kind_of(node))))
        if not abs(found) <= LARGEST:
            raise NotPlainError(Words("{0} of the node {1} is out of range", (name, kind_of(node))))
        return round(found, 6) if isinstance(found, float) else found


def kind_of(node: object) -> str:
    """A node's kind, safe in a sentence."""
    kind = cast("dict[str, Any]", node).get("class_type") if isinstance(node, dict) else None
    return kind[:LONGEST_KIND] if isinstance(kind, str) and kind.isprintable() else "?"


def inputs_of(node: Any) -> Node:
    """The inputs of a node; empty for what is none."""
    found = cast("dict[str, Any]", node).get("inputs") if isinstance(node, dict) else None
    return cast("Node", found) if isinstance(found, dict) else {}
