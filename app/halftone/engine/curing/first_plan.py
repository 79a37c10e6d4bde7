"""Which plan a job starts from, and what is remembered of a cure that worked."""

import msgspec

from halftone.contract.facts import DeviceFacts
from halftone.contract.plan import Plan, handed_on
from halftone.contract.request import Extras, Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import mentions
from halftone.engine.curing.recover import kind_of
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import base_plan, fitting, merged, permitted
from halftone.engine.patches.inversions import told_components
from halftone.health.explain import remembered
from halftone.health.part_names import plain_component
from halftone.library.add_ons.denoisers import denoiser_name
from halftone.library.add_ons.extras import parts_of
from halftone.library.add_ons.vaes import VAE
from halftone.library.learned import recall, remember
from halftone.library.records import load_report, staleness


def first_plan(loaded: Loaded, device: DeviceFacts, dtype: DType, numerics: Numerics) -> tuple[Plan, Plan | None]:
    """Combine the settings, the plan the user applied and what was learned since; return it with a verified plan that waits as a
    cure.

    What the settings order outright (the VAE in float32, say) is not undone by either.
    """
    base = base_plan(loaded, dtype, numerics)
    stored: Plan | None = None
    plan = base
    for extras in parts_of(loaded.extras):  # what the model alone needs, it needs with extras, too
        report = load_report(loaded.facts, device, dtype, extras)
        if report is not None and report.plan.verified and report.model.fingerprint == loaded.facts.fingerprint:
            stored = fitting(loaded, _of_those_in_use(loaded, extras, report.plan))
            if report.applied and staleness(report, loaded.facts, device, numerics) is None:
                plan = merged(plan, _allowed(loaded, base, stored, dtype, numerics))
        learned = recall(loaded.facts, device, dtype, numerics, extras)
        if learned is not None:
            learned = _of_those_in_use(loaded, extras, learned)
            plan = merged(plan, _allowed(loaded, base, learned, dtype, numerics))
    return plan, stored


def _of_those_in_use(loaded: Loaded, extras: Extras, plan: Plan) -> Plan:
    """What a plan says of the components that are in use: one that was found without the VAE or the transformer is of another."""
    replaced = (
        (loaded.vae is not None and extras.vae is None, VAE),
        (loaded.transformer is not None and extras.transformer is None, denoiser_name(loaded.facts)),
    )
    for other, name in replaced:
        plan = _without(plan, name) if other and name is not None else plan
    return plan


def _without(plan: Plan, component: str) -> Plan:
    # as the planner and `remembered` name it, the settings, and the blocks by their own names
    told = {component, plain_component(component), *(handed_on(name)[0] for name in plan.upcast.get(component, ()))}
    return msgspec.structs.replace(
        plan,
        dtypes={name: own for name, own in plan.dtypes.items() if name != component},
        rescale={name: own for name, own in plan.rescale.items() if name != component},
        upcast={name: own for name, own in plan.upcast.items() if name != component},
        reasons=tuple(reason for reason in plan.reasons if not mentions(reason, told)),
    )


def _allowed(loaded: Loaded, base: Plan, cure: Plan, dtype: DType, numerics: Numerics) -> Plan:
    """A cure without the components that the settings already moved to another precision, and without what they rule out."""
    cure = fitting(loaded, cure)
    cure = permitted(loaded, cure, numerics) if dtype != "float32" else cure
    free = {name for name, own in base.dtypes.items() if own == dtype and not base.upcast.get(name)}
    return msgspec.structs.replace(
        cure,
        dtypes={name: own for name, own in cure.dtypes.items() if name in free},
        rescale={name: own for name, own in cure.rescale.items() if name in free},
        upcast={name: own for name, own in cure.upcast.items() if name in free},
    )


def remember_cure(loaded: Loaded, device: DeviceFacts, dtype: DType, numerics: Numerics, plan: Plan, component: str) -> bool:
    """Remember the cured component for the next pictures, beside what was learned before. False where it cannot be saved."""
    part = Plan(
        dtypes={component: plan.dtypes[component]} if component in plan.dtypes else {},
        rescale={component: plan.rescale.get(component, {})},
        deviation=plan.deviation_of(component),
        upcast={component: plan.upcast.get(component, ())},
        settings=plan.settings,
        verified=True,
        reasons=(remembered(component, kind_of(plan, component, dtype)),),
    )
    extras = loaded.extras
    # words change with the prompt; what does not read them needs its cure with all
    if component not in told_components(loaded.inversions):
        extras = msgspec.structs.replace(extras, inversions=())
    before = recall(loaded.facts, device, dtype, numerics, extras)
    return remember(loaded.facts, device, dtype, part if before is None else merged(before, part), numerics, extras)
