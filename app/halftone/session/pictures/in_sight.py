"""Decides what the canvas of Create shows: the picture at hand or the empty preview, never another picture."""

from typing import Literal, NamedTuple

Sight = Literal["examples", "dots", "preview", "picture", "editing"]
"""examples: the invitation before the first picture; dots: the empty preview; editing: the start picture, to be painted on."""
Selected = Literal["none", "unread", "read"]
"""The selected picture: unread while nothing of its file is in memory, or where the file is gone."""


class Hand(NamedTuple):
    """What is at hand. making: a picture is being made, or is the next job; following: the user watches that one; preview: there
    is a preview of it; own: the selected picture is one of that job; failed: the last job that was watched made no picture.
    """

    selected: Selected = "none"
    making: bool = False
    following: bool = True
    preview: bool = False
    own: bool = False
    failed: bool = False
    editing: bool = False


def watches(hand: Hand) -> bool:
    """Whether the user watches the picture in the making, not the selected one."""
    return hand.making and hand.following and not (hand.own and not hand.preview)


def in_sight(hand: Hand) -> Sight:
    """What the canvas shows."""
    if hand.editing:
        return "editing"
    if watches(hand):
        return "preview" if hand.preview else "dots"
    if hand.selected == "read":
        return "picture"
    return "dots" if hand.selected == "unread" or hand.making or hand.failed else "examples"
