"""Decides in which type a LoRA is trained, and says why that is not the wanted one. Pure."""

from halftone.contract.facts import CheckReport, Finding
from halftone.contract.plan import Plan, rescaled_modules
from halftone.contract.training import WiderType
from halftone.contract.vocabulary import DType, DTypeState


def trained_type(plan: Plan, component: str, asked: DType, bfloat16: DTypeState | None) -> DType:
    """The plan's type. Where the plan keeps float16 finite by changing weights or regions, a type that needs no such cure: a LoRA
    has to be trained on the weights that it will be added to.
    """
    planned = plan.dtypes.get(component, asked)
    if planned != "float16" or not (plan.rescale.get(component) or plan.upcast.get(component)):
        return planned
    return "bfloat16" if bfloat16 == "works" else "float32"


def wider_type(plan: Plan, component: str, asked: DType, used: DType, report: CheckReport | None) -> WiderType | None:
    """Why a component is not trained in the wanted type; None where it is. report: of this model's check in that type."""
    if used == asked:
        return None
    finding = None if report is None else _finding(report, component)
    if finding is not None:
        name = f"{component}.{finding.module}" if finding.module else component
        return WiderType(asked=asked, used=used, name=name, source="check", peak=finding.peak, limit=finding.limit)
    changed = (*plan.upcast_modules(component), *rescaled_modules(plan.rescale.get(component, {})))
    name = f"{component}.{changed[0]}" if changed else component
    return WiderType(asked=asked, used=used, name=name, source="picture")


def _finding(report: CheckReport, component: str) -> Finding | None:
    """The first finding of a component; tight ones come last."""
    found = [finding for finding in report.findings if finding.component == component]
    return next((finding for finding in found if finding.code != "tight"), next(iter(found), None))
