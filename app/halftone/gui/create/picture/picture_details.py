"""What happened to a picture, row by row: where, how large, what followed, when and what was done."""

from halftone.contract.facts import GuardEvent, PictureFacts
from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.gui.i18n import catalogue, listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.text import TYPE_NAMES
from halftone.health.explain import too_large
from halftone.health.part_names import CURE_NAMES, capital
from halftone.health.pictures.passes import step_words


def details(event: GuardEvent, steps: int = 0) -> tuple[tuple[str, str], ...]:
    """Rows of a banner: name, words. steps: of a picture whose decode failed, 0 where they are not known."""
    rows = [(tr("Where"), _where(event))]
    if event.peak is not None and event.limit is not None:
        rows.append((tr("Peak"), _peak_words(event.peak, event.limit)))
    rows.append((tr("Effect"), _followed(event)))
    if event.step is not None:
        rows.append((tr("When"), tr("Step {0}. The previous step was finite.", step_words(event).text(catalogue()))))
    elif event.action == "enlarged-again":
        rows.append((tr("When"), tr("{0}.", tr("Upscaling"))))
    elif event.in_pass and event.action != "encoded-again":
        rows.append((tr("When"), tr("Decoding, in pass {0}.", event.in_pass)))
    elif event.action == "encoded-again":
        rows.append((tr("When"), tr("{0}.", tr("Encoding the prompt"))))
    elif steps:
        rows.append((tr("When"), tr("Decoding. All {0} steps were finite.", steps)))
    else:
        rows.append((tr("When"), tr("Decoding.")))
    rows.append((tr("Done"), _done(event)))
    return tuple(rows)


def earlier(picture: PictureFacts) -> tuple[tuple[str, str], ...]:
    """What happened before the main event: one row each."""
    return tuple(
        (tr("Before"), sentences(capital(tr("{0}.", listed(_place(event), _where(event)))), tr("{0}.", _done(event))))
        for event in picture.events[:-1]
    )


def _where(event: GuardEvent) -> str:
    return f"{event.component} · {event.module}" if event.module else event.component


def _place(event: GuardEvent) -> str:
    return tr("step {0}", step_words(event).text(catalogue())) if event.step is not None else ""


def pass_rows(picture: PictureFacts) -> list[tuple[str, str]]:
    """What each pass of a picture made in several was."""
    return [
        (
            tr("Pass {0}", number),
            listed(f"{one.width} × {one.height}", tr("{0} steps", one.steps), elapsed(one.seconds)),
        )
        for number, one in enumerate(picture.passes, 1)
    ]


def _peak_words(peak: float, limit: float) -> str:
    name = next((TYPE_NAMES[dtype] for dtype, top in FLOAT_LIMITS.items() if top == limit), "")
    if peak > limit:
        return tr("{0}, {1} the {2} limit of {3}", figures.peak(peak), figures.times(peak / limit), name, _limit_words(limit))
    return tr("{0}, below the {1} limit of {2}", figures.peak(peak), name, _limit_words(limit))


def _limit_words(limit: float) -> str:
    return figures.group(int(limit)) if limit < 1e9 else figures.power(128)


def elapsed(seconds: float) -> str:
    """A time that was measured: 2.1 s, 1 min 51 s."""
    if seconds >= 60:
        return figures.duration(seconds)
    return tr("{0} s", figures.decimal(max(0.1, seconds))).replace(" ", figures.HARD)


def _followed(event: GuardEvent) -> str:
    if event.action == "kept":
        return tr("One flat colour")
    return {
        "flat": tr("One flat colour. The latents were not."),
        "flat-tiles": tr("Flat areas where the latents were not."),
    }.get(event.kind, _bad_numbers(event))


def _bad_numbers(event: GuardEvent) -> str:
    if event.module and too_large(event):
        return tr("Overflow in this layer, then NaN")
    return tr("NaN or infinity in the result")


def _done(event: GuardEvent) -> str:
    action = {
        "decoded-again": tr("Decoded again"),
        "encoded-again": tr("Encoded the prompt again"),
        "enlarged-again": tr("Upscaled the tile again"),
        "went-back-one-step": tr("Repeated the step"),
        "stopped": tr("Stopped"),
        "kept": tr("Kept as is"),
        "asked": tr("Kept the latents and asked"),
    }.get(event.action, event.action)
    cure = cure_name(event.cure)
    parts = [action, cure] if cure else [action]
    if event.seconds > 0:
        parts.append(elapsed(event.seconds))
    return listed(*parts)


def cure_name(kind: str) -> str:
    """The name of a cure in a line of details."""
    return tr(CURE_NAMES[kind]) if kind in CURE_NAMES else ""
