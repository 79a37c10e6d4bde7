"""The diagnosis of a run. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final, Literal

import msgspec

from halftone.health.doctor import levels, looking
from halftone.health.doctor.causes import suspects
from halftone.health.doctor.found import HALF_LEAST, Bad, Diagnosis, First, Sign, SignCode, Trouble, Where
from halftone.health.doctor.setup import Setup, setup_of
from halftone.library.run_logs.checkpoints import Checkpoint
from halftone.library.run_logs.folder import Run
from halftone.library.run_logs.series import Happening, Track

_HIGH_RATE: Final = 1e-3
_LOW_RATE: Final = 2e-5
_CONSTANT: Final = 50
_DIVERGED: Final = 10.0
_ABOVE_START: Final = 3.0
_BEFORE: Final = 5
"""Numbers before an explosion that show the usual level."""
_SEVERAL: Final = 3
"""Least numbers of an explosion without NaN: a single leap may be one odd picture."""
_FAR: Final = 100.0
_LAST: Final = 400
"""Numbers at the end of a run that are searched for an explosion without NaN."""
_SKIPPED: Final = 5
_DEFAULT_EPSILON: Final = 1e-8
"""Default of Adam and AdamW in PyTorch."""


def diagnose(run: Run) -> Diagnosis:
    """What is wrong with a run."""
    if run.silent:
        return Diagnosis(verdict="silent")
    setup = setup_of(run.settings)
    bad = looking.first_bad(run.tracks)
    troubles = tuple(_troubles(run, bad))
    signs = tuple(_counted(run, _signs(run, bad, setup) if troubles else _sound_signs(run)))
    loss = max(_of(run, "loss"), key=len, default=None)
    first = None
    if bad is not None:
        track, point = bad.track, bad.point
        place, wall = looking.where(track, point), point.wall if math.isfinite(point.wall) else None
        first = First(quantity=track.quantity, tag=track.tag, value=point.value, where=place, wall=wall)
    return Diagnosis(
        verdict="trouble" if troubles else "sound" if _tells(run) else "silent",
        troubles=troubles,
        first=first,
        signs=signs,
        suspects=suspects(signs, setup) if any(one.code in _NUMERIC for one in troubles) else (),
        last_sound=_last_sound(run.checkpoints, bad),
        steps=_span(run.tracks),
        last_loss=None if loss is None or not math.isfinite(loss.values[-1]) else loss.values[-1],
    )


def _counted(run: Run, signs: Iterable[Sign]) -> Iterator[Sign]:
    """Mark the signs of logs without steps: messages there are at the count of an entry, too."""
    named = {track.file for track in run.tracks if not track.counted}
    files = {track.file for track in run.tracks} - named
    for sign in signs:
        counted = sign.where is not None and sign.where.file in files
        yield msgspec.structs.replace(sign, where=sign.where._replace(counted=True)) if sign.where and counted else sign


_NUMERIC: Final = frozenset(("nonfinite", "weights", "latents", "scale-floor", "scale-gone", "diverged", "jumped", "validation"))


def _tells(run: Run) -> bool:
    """Whether there is a number of the training itself, or of its weights."""
    return any(one.quantity in {"loss", "gradient", "validation"} for one in run.tracks) or any(
        not one.problem for one in run.checkpoints
    )


def _of(run: Run, quantity: str) -> list[Track]:
    return [track for track in run.tracks if track.quantity == quantity]


def _troubles(run: Run, bad: Bad | None) -> Iterator[Trouble]:
    """The gravest first."""
    if bad is not None:
        yield Trouble(code="nonfinite", where=looking.where(bad.track, bad.point), values=looking.back_to_good(bad))
    for one in run.checkpoints:
        if one.bad:
            yield Trouble(code="weights", where=Where(one.file, 0, one.step), values=(len(one.bad), one.bad[0].tensor))
            break
    latents = [one for one in run.happenings if one.kind == "nan-latents"]
    if latents:
        yield Trouble(code="latents", where=_place(latents[0]), values=(len(latents), latents[0].words))
    if bad is None:
        yield from _quiet_troubles(run)
    stopped = _stopped(run)
    if stopped is not None:
        yield Trouble(code="stopped", where=_place(stopped), values=(stopped.words,))


def _quiet_troubles(run: Run) -> Iterator[Trouble]:
    """Troubles with finite numbers."""
    if (lost := _lost_scale(run)) is not None:
        yield lost
    for track in _of(run, "validation"):
        trained = max((loss for loss in _of(run, "loss") if loss.file == track.file), key=len, default=None)
        wrong = looking.failed_validation(track, trained)
        if wrong is not None:
            yield Trouble(code="validation", where=looking.where(track, wrong), values=(track.tag,))
            break
    for track in _main_losses(run):
        if (trouble := _flat(track) or _diverged(track) or _exploded(track) or _jumped(run, track)) is not None:
            yield trouble
            return
    rates = _of(run, "rate")
    if rates and all(len(track) >= _CONSTANT and not any(track.values) for track in rates):
        yield Trouble(code="rate-zero", where=looking.where(rates[0], rates[0][0]))


def _lost_scale(run: Run) -> Trouble | None:
    """A loss scale that fell to its floor, by the trainer's message or by staying there; or to nothing without one."""
    floor = next((one for one in run.happenings if one.kind == "scale-floor"), None)
    if floor is not None:
        return Trouble(code="scale-floor", where=_place(floor), values=_overflows(run, floor.file))
    for sign in looking.scale_signs(_of(run, "scale"), None):
        if sign.where is not None and (sign.code == "scale-floor" or sign.code == "scale-gone"):
            counts = _overflows(run, sign.where.file)
            return Trouble(code=sign.code, where=sign.where, values=counts or (() if sign.code == "scale-floor" else sign.values))
    return None


def _overflows(run: Run, file: str) -> tuple[int | str, ...]:
    """(skipped steps, steps, the first skipped one, "every" from there on or "some"); () where a log does not tell them."""
    skipped = {one.step for one in run.happenings if one.kind == "skipped-step" and one.file == file and one.step is not None}
    steps = {step for track in _of(run, "loss") if track.file == file for step in track.steps}
    if not skipped or not skipped <= steps:
        return ()
    first = min(skipped)
    return len(skipped), len(steps), first, "every" if all(step in skipped for step in steps if step >= first) else "some"


_MAIN: Final = frozenset(("loss", "train_loss", "avr_loss", "step_loss", "total_loss", "average", "current"))


def _main_losses(run: Run) -> list[Track]:
    """The main loss of each file: parts of it may stay constant, or grow."""
    files: dict[str, Track] = {}
    for track in _of(run, "loss"):
        rank = (track.tag.lower().rpartition("/")[2] in _MAIN, len(track))
        known = files.get(track.file)
        if known is None or rank > (known.tag.lower().rpartition("/")[2] in _MAIN, len(known)):
            files[track.file] = track
    return list(files.values())


def _flat(track: Track) -> Trouble | None:
    """The same loss from the first step to the last; a loss of 0 can be reached."""
    if len(set(track.steps)) < _CONSTANT or track.values[0] == 0 or len(set(track.values)) > 1:
        return None
    return Trouble(code="nothing-learnt", where=looking.where(track, track[0]), values=(track.values[0], len(track)))


def _diverged(track: Track) -> Trouble | None:
    """A loss that ends far above its lowest level and above its beginning, by medians, so that single steps do not count."""
    if len(track) < levels.ENOUGH or track.by_epoch:
        return None
    size = max(5, len(track) // 10)
    medians = [median(track.values[at : at + size]) for at in range(0, len(track) - size + 1, size)]
    last = median(track.values[-size:])
    lowest = min(medians)
    if lowest <= 0 or last < _DIVERGED * lowest or last < _ABOVE_START * medians[0]:
        return None
    since = medians.index(lowest) * size
    begun = next(index for index in range(since, len(track)) if track.values[index] >= last / 2)
    return Trouble(code="diverged", where=looking.where(track, track[begun]), values=(lowest, last))


def _exploded(track: Track) -> Trouble | None:
    """A loss that ends in an explosion: several numbers, each far above the one before, the last far above the whole run."""
    found = None if track.by_epoch or len(track) < _BEFORE else looking.explosion(track.finite(-_LAST))
    if found is None:
        return None
    usual, begun, peak = found
    known = track.seats.index(begun.seat)
    last, before = track.values[-1], max(track.values[:known])
    several = track.seats.index(peak.seat) - known >= _SEVERAL - 1
    if known < _BEFORE or not several or last < _DIVERGED * before or last < _FAR * usual:
        return None
    return Trouble(code="diverged", where=looking.where(track, begun), values=(usual, last))


def _jumped(run: Run, track: Track) -> Trouble | None:
    """A lasting jump of the loss at which the gradient norm leapt: a step that was too large threw the training off."""
    jump = None if track.by_epoch or len(track) < levels.ENOUGH else levels.jump_of(track)
    leap = None if jump is None else levels.leap_of(looking.mates(run, track, "gradient"), jump)
    if jump is None or leap is None:
        return None
    values = (jump.before, jump.after, jump.point.step, leap.value, leap.step)
    return Trouble(code="jumped", where=looking.where(track, jump.point), values=values)


def _stopped(run: Run) -> Happening | None:
    """The error at the end of a log: one with a traceback, and no finite number after it."""
    ends: dict[str, int] = {}
    for track in run.tracks:
        last_finite = next((at for at in range(len(track) - 1, -1, -1) if math.isfinite(track.values[at])), 0)
        ends[track.file] = max(ends.get(track.file, 0), track.seats[last_finite])
    last = [one for one in run.happenings if one.kind in {"error", "out-of-memory"} and one.seat > ends.get(one.file, 0)]
    traced = {one.file for one in last if "traceback" in one.words.lower()}
    last = [one for one in last if one.file in traced]
    named = [one for one in last if "traceback" not in one.words.lower()]
    interrupted = {one.file for one in run.happenings if one.kind == "interrupted"}
    return next((one for one in reversed(named or last) if one.file not in interrupted), None)


def _place(one: Happening) -> Where:
    return Where(one.file, one.line, one.step)


def _sound_signs(run: Run) -> Iterator[Sign]:
    """What is worth a word in a sound run."""
    for track in _main_losses(run):
        yield from levels.level_signs(track)
    yield from looking.skipped_norms(_of(run, "gradient"))
    yield from looking.scale_signs(_of(run, "scale"), None)


def _signs(run: Run, bad: Bad | None, setup: Setup) -> Iterator[Sign]:
    if bad is None:
        yield from (
            Sign(code="loss-jump", where=one.where, values=one.values[:2]) for one in _quiet_troubles(run) if one.code == "jumped"
        )
    else:
        loss = _loss_of(run, bad)
        yield from looking.loss_signs(loss, bad)
        hidden = tuple(_hidden(run, bad))
        norms = looking.gradient_signs(looking.mates(run, bad.track, "gradient"), bad)
        yield from hidden
        yield from (sign for sign in norms if not (hidden and sign.code == "gradient-first"))
        rates = looking.mates(run, bad.track, "rate")
        yield from looking.rate_signs(rates, bad)
        yield from looking.happening_signs(run.happenings, bad)
        if (again := looking.recovers(bad)) is not None:
            yield again
        if bad.track.averaged and bad.track.quantity == "loss" and again is None:
            yield Sign(code="averaged", where=looking.where(bad.track, bad.point), values=(bad.track.tag,))
    scales = _of(run, "scale") if bad is None else looking.mates(run, bad.track, "scale")
    yield from looking.scale_signs(scales, bad)
    yield from _told_signs(run, bad)
    yield from _setup_signs(run, bad, setup)
    resumed = any(one.kind == "resume" for one in run.happenings) or "resumed" in setup.places
    yield from weight_signs(run.checkpoints, bad, resumed=resumed)


def _loss_of(run: Run, bad: Bad) -> Track:
    """The loss before the trouble: the track that went bad, or beside a norm the loss with the most numbers."""
    if bad.track.quantity == "loss":
        return bad.track
    return max(looking.mates(run, bad.track, "loss"), key=len, default=bad.track)


def _hidden(run: Run, bad: Bad) -> Iterator[Sign]:
    """A loss of exactly 0 beside bad norms: transformers' Trainer writes it for a bad loss."""
    if bad.track.quantity != "gradient":
        return
    for track in looking.mates(run, bad.track, "loss"):
        later = [track[index] for index in range(len(track)) if track.steps[index] >= bad.point.step]
        if later and not any(point.value for point in later):
            yield Sign(code="loss-hidden", where=looking.where(track, later[0]), values=(len(later),))
            return


def _told_signs(run: Run, bad: Bad | None) -> Iterator[Sign]:
    """The program's own messages."""
    until = math.inf if bad is None else bad.point.step
    early = [one for one in run.happenings if one.step is None or one.step <= until]
    skipped = [one for one in early if one.kind == "skipped-step"]
    if len(skipped) >= _SKIPPED:
        first = skipped[0]
        known = () if first.step is None else (first.step,)
        yield Sign(code="steps-skipped", where=_place(first), values=(len(skipped), *known))
    told: tuple[Literal["nan-latents", "scale-floor"], ...] = ("nan-latents", "scale-floor")
    for kind in told:
        said = [one for one in run.happenings if one.kind == kind]
        if said:
            yield Sign(code=kind, where=_place(said[0]), values=(said[0].words,))
    stopped = _stopped(run)
    if stopped is not None:
        yield Sign(code="error", where=_place(stopped), values=(stopped.words,))


def _setup_signs(run: Run, bad: Bad | None, setup: Setup) -> Iterator[Sign]:
    codes: dict[str, SignCode] = {"half": "half", "bfloat16": "bfloat16", "float32": "float32"}
    place, said = setup.place("precision")
    if setup.precision in codes:
        yield Sign(code=codes[setup.precision], where=place, values=(said,))
    elif bad is not None:
        yield Sign(code="precision-untold")
    if setup.half_weights:
        place, said = setup.place("half-weights")
        yield Sign(code="half-weights", where=place, values=(said,))
        epsilon = _DEFAULT_EPSILON if setup.epsilon is None else setup.epsilon
        if epsilon <= HALF_LEAST / 2 and not setup.adaptive:
            yield Sign(code="epsilon-zero", where=setup.place("epsilon")[0], values=(epsilon, int(setup.epsilon is None)))
    if setup.clip == 0:
        yield Sign(code="no-clip", where=setup.place("clip")[0])
    if setup.xl and setup.precision == "half" and not setup.other_vae:
        yield Sign(code="sdxl-half-vae", where=setup.place("model")[0])
    yield from _rate_sign(run, bad, setup)


def _rate_sign(run: Run, bad: Bad | None, setup: Setup) -> Iterator[Sign]:
    """Whether the rate is high or low for Adam."""
    if setup.adaptive:
        return
    place, _ = setup.place("rate")
    rate = setup.rate
    tracks = _of(run, "rate") if bad is None else looking.mates(run, bad.track, "rate")
    seen = [point for track in tracks[:1] for point in (looking.before(track, bad) if bad else track.finite())]
    if seen:
        peak = max(seen, key=lambda point: point.value)
        rate, place = peak.value, looking.where(tracks[0], peak)
    if rate is not None and rate >= _HIGH_RATE:
        yield Sign(code="rate-high", where=place, values=(rate,))
    elif rate is not None and 0 < rate <= _LOW_RATE:
        yield Sign(code="rate-low", where=place, values=(rate,))


def weight_signs(checkpoints: Sequence[Checkpoint], bad: Bad | None, *, resumed: bool) -> Iterator[Sign]:
    """The first checkpoint with bad numbers, or a sound last one though the loss is bad. resumed: the run began from one."""
    read = [one for one in checkpoints if not one.problem]
    first = next((one for one in read if one.bad), None)
    if first is None:
        last = read[-1] if read else None
        if last is not None and bad is not None and last.step is not None and last.step > bad.point.step:
            yield Sign(code="weights-sound", where=Where(last.file, 0, last.step))
        return
    place = Where(first.file, 0, first.step)
    total = sum(kind.tensors for kind in first.kinds.values())
    half, wide = first.kinds.get("F16"), first.kinds.get("F32")
    values = (len(first.bad), total, first.bad[0].tensor)
    if half and wide and half.bad == half.tensors and not wide.bad:
        yield Sign(code="weights-half-bad", where=place, values=(half.tensors, wide.tensors, first.bad[0].tensor))
    else:
        yield Sign(code="weights-all-bad" if len(first.bad) == total else "weights-some-bad", where=place, values=values)
    if resumed and bad is not None and bad.place == bad.since and first.step is not None and first.step < bad.point.step:
        yield Sign(code="weights-bad-before", where=place, values=values)


def _last_sound(checkpoints: Sequence[Checkpoint], bad: Bad | None) -> str:
    """The last checkpoint before the trouble without a bad number."""
    found = ""
    for one in checkpoints:
        if one.bad:
            break
        if not one.problem and (bad is None or one.step is None or one.step < bad.point.step):
            found = one.file
    return found


def _span(tracks: Sequence[Track]) -> tuple[int, int] | None:
    told = [track for track in tracks if track.quantity in {"loss", "gradient"} and not track.counted]
    steps = [track.steps for track in told if not track.by_epoch]
    return (min(map(min, steps)), max(map(max, steps))) if steps else None
