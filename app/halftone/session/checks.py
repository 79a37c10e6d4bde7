"""Checks of models on the device in use: their reports, the badges that follow from them, and the cures in force."""

from collections.abc import Callable

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, ModelFacts
from halftone.contract.messages import Examine, Repair
from halftone.contract.plan import Cure
from halftone.contract.request import ALONE, Extras, Numerics, inputs_with
from halftone.contract.vocabulary import DTYPE_NAMES, Depth, DType, Layout, Precision
from halftone.contract.wording import Words, both
from halftone.health.judge import Badge, badge, kept, tried
from halftone.health.precision import model_precision
from halftone.library import learned, records
from halftone.library.layouts import check_layout
from halftone.session.events import CheckUnclear, Noted, Reported
from halftone.session.job_ids import new_job_id
from halftone.session.job_queue import JobQueue
from halftone.session.state import Ended, ReportKey, report_key
from halftone.session.store import Store
from halftone.session.writing import RecordWriter


def has_cure(report: CheckReport) -> bool:
    """Whether a check suggests a cure that passed it."""
    return report.verdict in ("fixable", "tight") and report.plan.verified and not report.plan.is_plain


def keep(report: CheckReport, *, apply: bool = False) -> tuple[CheckReport, bool]:
    """Store a check that ended. Returns it as it is kept, and whether it ends a cure that was in force. apply: use its cure from
    now on. Raises OSError.
    """
    if apply and has_cure(report):
        return records.set_applied(report, True), False
    after, dropped = kept(records.load_report(report.model, report.device, report.precision, report.extras), report)
    records.save_report(after)
    return after, dropped


def why_unused(model: ModelFacts, device: DeviceFacts, precision: DType, numerics: Numerics) -> Words | None:
    """What changed since a cure was applied to the model, so that pictures go without it; None where nothing did."""
    report = records.load_report(model, device, precision)
    return records.staleness(report, model, device, numerics) if report is not None and report.applied else None


def stop_curing(model: ModelFacts, device: DeviceFacts, extras: Extras) -> bool:
    """Use no cure of this model on this device any more; whether one was in use. Checks stay. Raises OSError."""
    applied = records.drop_applied(model, device, extras)
    return learned.forget(model, device) or applied


class Checks:
    def __init__(self, store: Store, queue: JobQueue, writer: RecordWriter) -> None:
        self._store = store
        self._queue = queue
        self._writer = writer
        self._stored: dict[ReportKey, CheckReport | None] = {}
        """Reports as they were on the disk when they were asked for."""

    # --- what is known ----------------------------------------------------------------------------------------------

    def precision_of(self, model: ModelFacts | None, wanted: Precision | None = None) -> tuple[DType, Words]:
        """The dtype that a model with what was chosen for it runs in, and why. wanted: None for the precision that is set."""
        state, numerics = self._store.state, self._store.state.numerics
        if model is None or state.device is None:
            return state.device_precision
        if wanted is not None:
            numerics = msgspec.structs.replace(numerics, precision=wanted)
        return model_precision(numerics, state.self_test, state.device, model, state.extras_of(model), self._report)

    def report(self, model: ModelFacts | None, precision: DType | None = None) -> CheckReport | None:
        """The stored check of a model, with what was chosen for it, on this device. precision: None for the one in use."""
        device = self._store.state.device
        if model is None or device is None:
            return None
        return self._report(model, device, precision or self.precision_of(model)[0], self._store.state.extras_of(model))

    def _report(self, model: ModelFacts, device: DeviceFacts, precision: DType, extras: Extras) -> CheckReport | None:
        key = report_key(model, device, precision, extras)
        if (known := self._store.state.reports.get(key)) is not None:
            return known
        if key not in self._stored:
            self._stored[key] = records.load_report(model, device, precision, extras)
        return self._stored[key]

    def badge(self, model: ModelFacts | None, precision: DType | None = None) -> Badge:
        """How the model's numbers behave on this device. precision: None for the one in use."""
        device = self._store.state.device
        if model is None or device is None:
            return Badge(state="unchecked", room_bits=None, reason=None)
        report, numerics = self.report(model, precision), self._store.state.numerics
        if report is None and (others := self.checked_in(model)):
            named, now = [DTYPE_NAMES[dtype] for dtype in others], DTYPE_NAMES[precision or self.precision_of(model)[0]]
            return Badge("unchecked", None, Words("Checked in {0}, not in {1} yet.", (both(*named), now)), elsewhere=True)
        if report is None and self._checked_alone(model, device, precision):
            return Badge("unchecked", None, Words("Not checked with these extras yet."))
        return badge(report, model, device, numerics)

    def _checked_alone(self, model: ModelFacts, device: DeviceFacts, precision: DType | None) -> bool:
        """Return whether there is a check of the model without the extras that are chosen for it."""
        return self._report(model, device, precision or self.precision_of(model)[0], ALONE) is not None

    def checked_in(self, model: ModelFacts) -> list[DType]:
        """The precisions in which there is a check of the model that still holds."""
        device, extras, numerics = self._store.state.device, self._store.state.extras_of(model), self._store.state.numerics
        if device is None:
            return []
        found = (self._report(model, device, dtype, extras) for dtype in DTYPE_NAMES)
        return [one.precision for one in found if one and records.staleness(one, model, device, numerics) is None]

    def _numerics(self, model: ModelFacts, precision: DType | None) -> Numerics:
        """The numerics for a check, in this precision where it is not the one in use."""
        numerics = self._store.state.numerics
        if precision is None or precision == self.precision_of(model)[0]:
            return numerics
        return msgspec.structs.replace(numerics, precision=precision)

    def _remember(self, report: CheckReport) -> None:
        """Known here at once, on disk before the next job is sent."""
        self._store.take(Reported(report=report))
        self._writer.write(lambda: records.save_report(report))

    # --- checks -----------------------------------------------------------------------------------------------------

    def check(
        self,
        model: ModelFacts,
        depth: Depth = "quick",
        then: Callable[[Ended], None] | None = None,
        precision: DType | None = None,
    ) -> str:
        """Queue a check of a model. precision: None for the one in use."""
        command = Examine(
            job=new_job_id(),
            model=model.id,
            device=self._store.state.device_id,
            depth=depth,
            numerics=self._numerics(model, precision),
            inputs=inputs_with(self._store.state.extras_of(model)),
        )
        return self._queue.submit(command, model.name, first=True, then=then)

    def checked(self, ended: Ended, *, awaited: bool) -> None:
        """Keep the report of a check, and the cure in force if it confirms it; the check after a cure has its own way.

        awaited: whoever asked for the check hears of its end, so a dropped cure needs no message.
        """
        report, command = ended.report, ended.job.command
        if not isinstance(report, CheckReport) or not isinstance(command, Examine) or command.plan is not None:
            return
        before = self._report(report.model, report.device, report.precision, report.extras)
        after, dropped = kept(before, report)
        self._remember(after)
        if dropped and not awaited:
            self._store.take(Noted(kind="cure-dropped", facts=(report.model.name, report.model.id)))

    def repair(
        self, model: ModelFacts, output: str, then: Callable[[Ended], None] | None = None, *, layout: Layout | None = None
    ) -> str:
        """Queue writing a rescaled copy of the model, with its LoRAs merged in, after a check as thorough as the kept one.
        layout: None for its own.
        """
        known = self.report(model)
        command = Repair(
            job=new_job_id(),
            model=model.id,
            output=output,
            device=self._store.state.device_id,
            numerics=self._store.state.numerics,
            loras=self._store.state.extras_of(model).loras,
            layout=layout,
            depth="quick" if known is None else known.depth,
        )
        return self._queue.submit(command, model.name, first=True, then=then)

    def can_be_laid(self, model: ModelFacts, layout: Layout) -> bool:
        """Whether the model's headers allow a copy in a layout."""
        try:
            check_layout(model, layout)
        except (HalftoneError, OSError):
            return False
        return True

    # --- cures ------------------------------------------------------------------------------------------------------

    def fix(self, model: ModelFacts) -> str:
        """Cure a model: apply the plan of its check, or check it first. Returns the job's id."""
        report = self.report(model)
        if report is not None and has_cure(report):
            return self.apply(report)
        return self.check(model, then=self._fix_found)

    def _fix_found(self, ended: Ended) -> None:
        found = ended.report
        if not isinstance(found, CheckReport) or ended.outcome != "done":
            return
        if found.verdict == "broken" or found.plan.is_plain:
            self._store.take(CheckUnclear())
        else:
            self.apply(found)

    def apply(self, report: CheckReport, cure: Cure | None = None) -> str:
        """Store the plan for this model on this device, and repeat the check with it. Returns the check's id."""
        chosen = report if cure is None else msgspec.structs.replace(report, plan=cure.plan)
        self.use(chosen)
        return self.try_plan(chosen, lambda ended: self._cured(ended, chosen))

    def use(self, report: CheckReport) -> None:
        """Use the plan of a check for its model on this device from now on."""
        self._remember(msgspec.structs.replace(report, applied=True))

    def try_plan(self, report: CheckReport, then: Callable[[Ended], None]) -> str:
        """Queue a check of the plan of an earlier check alone. Returns its id."""
        command = Examine(
            job=new_job_id(),
            model=report.model.id,
            device=self._store.state.device_id,
            depth=report.depth,
            numerics=self._numerics(report.model, report.precision),
            inputs=inputs_with(report.extras),
            plan=report.plan,
        )
        return self._queue.submit(command, report.model.name, first=True, then=then)

    def _cured(self, ended: Ended, report: CheckReport) -> None:
        """The check after a cure: say so, or take the cure back when it did not hold.

        The first report stays, with what this check measured of its plan.
        """
        found = ended.report
        facts = (report.model.name, report.model.id)
        if ended.outcome != "done" or not isinstance(found, CheckReport):
            self.undo(report, quiet=True)
            self._store.take(Noted(kind="cure-unchecked", facts=facts))
        elif found.plan.verified and not any(cure.refusal for cure in found.cures):
            self.use(tried(report, found))
            self._store.take(Noted(kind="cure-applied", facts=facts))
        else:
            self.undo(tried(report, found), quiet=True)
            self._store.take(Noted(kind="cure-failed", facts=facts))

    def undo(self, report: CheckReport, *, quiet: bool = False) -> None:
        """Stop using the stored plan; the check's findings stay. quiet: it did not hold; else nothing that cured pictures of this
        model before is used either, so that the user sees it as it is.
        """
        self._remember(msgspec.structs.replace(report, applied=False))
        if not quiet:
            self._writer.write(lambda: learned.forget(report.model, report.device))
            self._store.take(Noted(kind="cure-undone", facts=(report.model.name, report.model.id)))
