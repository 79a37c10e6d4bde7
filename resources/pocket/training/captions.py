"""Describes a scene the way people type prompts.

A caption names some of what is in the picture, in any order, and leaves the
rest out; what it names is returned with it, so that a picture can be checked.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from draw import Scene

COUNTS: dict[int, tuple[str, ...]] = {
    1: ("a tree", "one tree", "a single tree"),
    2: ("two trees", "two trees", "2 trees"),
    3: ("three trees", "three trees", "3 trees"),
}
HOURS: dict[str, tuple[str, ...]] = {
    "day": ("by day", "in daylight", "at noon", "in the morning", "day"),
    "dusk": ("at dusk", "at sunset", "in the evening", "at dusk", "dusk"),
    "night": ("at night", "at midnight", "by night", "under the stars", "night"),
}
NOUNS: dict[str, tuple[str, ...]] = {
    "sun": ("sun",),
    "moon": ("moon", "moon", "moon", "crescent moon"),
    "hills": ("hills", "hills", "hills", "mountains", "rolling hills"),
    "sea": ("sea", "sea", "sea", "ocean", "water"),
}
OPENERS = (
    "a paper-cut landscape,",
    "paper cut of",
    "a picture of",
    "layered paper,",
    "a landscape with",
)
CLOSERS = (", paper cut", ", layered paper", ", soft shadows", ", beautiful", ", minimal")


@dataclass(frozen=True)
class Caption:
    text: str
    named: frozenset[str]


class Writer:
    """Words one caption and notes what it named."""

    def __init__(self, scene: Scene, rng: np.random.Generator) -> None:
        self.scene = scene
        self.rng = rng
        self.named: set[str] = set()

    def chance(self, odds: float) -> bool:
        return bool(self.rng.random() < odds)

    def pick(self, words: tuple[str, ...]) -> str:
        return words[int(self.rng.integers(len(words)))]

    def article(self, words: str) -> str:
        choice = self.rng.random()
        if choice < 0.2:
            return words
        if choice < 0.28:
            return f"the {words}"
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"

    def light(self) -> str:
        words = self.pick(NOUNS[self.scene.light])
        self.named.add("light")
        if self.chance(0.92):
            self.named.add("light_colour")
            words = f"{self.scene.light_colour} {words}"
        return self.article(words)

    def ground(self) -> str:
        words = self.pick(NOUNS[self.scene.ground])
        self.named.add("ground")
        if self.chance(0.93):
            self.named.add("ground_colour")
            words = f"{self.scene.ground_colour} {words}"
        if self.scene.ground == "hills":
            return words if self.chance(0.85) else f"the {words}"
        return self.article(words)

    def time(self) -> str:
        self.named.add("time")
        return self.pick(HOURS[self.scene.time])

    def trees(self) -> str:
        self.named.add("trees")
        return self.pick(COUNTS[self.scene.trees])

    def house(self) -> str:
        self.named.add("house")
        words = self.pick(("house", "house", "house", "cottage"))
        if self.chance(0.65):
            self.named.add("house_colour")
            words = f"{self.scene.house} {words}"
        return f"a small {words}" if self.chance(0.4) else self.article(words)

    def boat(self) -> str:
        self.named.add("boat")
        words = self.pick(("boat", "boat", "sailing boat", "ship"))
        if not self.chance(0.65):
            return self.article(words)
        self.named.add("boat_colour")
        if self.chance(0.3):
            return f"a boat with {self.scene.boat} sails"
        return self.article(f"{self.scene.boat} {words}")

    def objects(self) -> list[str]:
        """The trees, the house and the boat, now and then forgotten."""
        parts: list[str] = []
        if self.scene.trees and self.chance(0.9):
            parts.append(self.trees())
        if self.scene.house and self.chance(0.9):
            parts.append(self.house())
        if self.scene.boat and self.chance(0.9):
            parts.append(self.boat())
        return [parts[i] for i in self.rng.permutation(len(parts))]

    def listing(self) -> str:
        """Everything with commas between, in any order."""
        parts = self.objects()
        if self.chance(0.9):
            parts.append(self.light())
        if self.chance(0.92) or not parts:
            parts.append(self.ground())
        if self.chance(0.65):
            parts.append(self.time())
        return ", ".join(parts[i] for i in self.rng.permutation(len(parts)))

    def sky_sentence(self) -> str:
        """ "A red sun over green hills at dusk with two trees"."""
        if self.chance(0.82):
            text = f"{self.light()} {self.pick(('over', 'over', 'above'))} {self.ground()}"
        else:
            text = f"{self.ground()} {self.pick(('under', 'and', 'with'))} {self.light()}"
        if self.chance(0.6):
            comma = ", " if self.chance(0.15) else " "
            text = f"{text}{comma}{self.time()}"
        return self.add(text, self.objects())

    def object_sentence(self) -> str:
        """ "A small house on orange hills at dusk, red sun"."""
        parts = self.objects()
        if not parts:
            return self.sky_sentence()
        text = f"{parts[0]} {'by' if self.chance(0.1) else 'on'} {self.ground()}"
        if self.chance(0.6):
            text = f"{text} {self.time()}"
        if self.chance(0.75):
            parts.append(self.light())
        return self.add(text, parts[1:])

    def add(self, text: str, parts: list[str]) -> str:
        """Append what is left: "with a and b", or ", a, b"."""
        if not parts:
            return text
        if self.chance(0.5):
            return ", ".join((text, *parts))
        if len(parts) == 1:
            return f"{text}{self.pick((' with ', ' and ', ', '))}{parts[0]}"
        return f"{text} with {', '.join(parts[:-1])} and {parts[-1]}"

    def write(self) -> Caption:
        style = self.rng.random()
        if style < 0.3:
            text = self.listing()
        elif style < 0.72:
            text = self.sky_sentence()
        else:
            text = self.object_sentence()
        return Caption(text, frozenset(self.named))


def caption(scene: Scene, rng: np.random.Generator) -> Caption:
    return Writer(scene, rng).write()


def stray_word(rng: np.random.Generator) -> str:
    """Letters that mean nothing, so that unknown words learn to do no harm."""
    letters = string.ascii_lowercase
    return "".join(letters[i] for i in rng.integers(26, size=int(rng.integers(2, 9))))


def training_text(scene: Scene, rng: np.random.Generator) -> str:
    """A caption with the odd flourish; one in ten is empty, for guidance."""
    if rng.random() < 0.1:
        return ""
    text = caption(scene, rng).text
    choice = rng.random()
    if choice < 0.05:
        text = f"{OPENERS[int(rng.integers(len(OPENERS)))]} {text}"
    elif choice < 0.1:
        text += CLOSERS[int(rng.integers(len(CLOSERS)))]
    elif choice < 0.12:
        text = f"{text}, {stray_word(rng)}"
    return text
