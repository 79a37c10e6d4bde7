"""Picks the reasons of a job that say how it ran (compiled, offloaded, in tiles, in eight bits), or what a setting did not do."""

from collections.abc import Sequence

from halftone.contract.wording import Words


def how_it_ran(reasons: Sequence[Words]) -> tuple[Words, ...]:
    """Those that are worth reading beside the picture."""
    return tuple(reason for reason in reasons if reason.about)


def first_times(before: Sequence[Words], now: Sequence[Words]) -> tuple[Words, ...]:
    """The reasons of now, with the times of the steps that were told before: what comes later is compiled already."""
    told = [reason for reason in before if reason.about == "first-step"]
    return (*(reason for reason in now if not (told and reason.about == "first-step")), *told)
