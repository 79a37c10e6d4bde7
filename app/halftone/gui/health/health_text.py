"""Words of the Health page, made from facts: where a finding sits, what a cure is called and what it costs."""

from collections.abc import Sequence

from halftone.contract.facts import DeviceFacts, Finding
from halftone.contract.plan import Cure, Plan, rescaled_modules
from halftone.contract.vocabulary import DTYPE_NAMES, DType, FindingCode
from halftone.gui.charts.headroom_chart_text import part_name
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.i18n import listed as commas
from halftone.gui.kit import figures
from halftone.health.explain import finding_words, further_words
from halftone.health.forecasts.timing import is_measurable
from halftone.health.judge import came_once, disk_price
from halftone.health.part_names import module_words, share_of_change
from halftone.health.reports.report_sentences import exactness_words, finding_state


def here(device: DeviceFacts | None) -> str:
    """on this GPU, or on this processor"""
    return tr("on this processor") if device is not None and device.backend == "cpu" else tr("on this GPU")


def place(component: str, module: str, code: FindingCode | None = None) -> str:
    """VAE decoder, third up block, second residual layer"""
    where = module_words(component, module).text(catalogue())
    return tr("Attention scores: {0}", where) if code == "attention-overflow" else where


def finding_badge(finding: Finding) -> tuple[str, str, str]:
    """Word, tone and icon of a finding."""
    word, tone = finding_state(finding)
    damaged = finding.code in ("weights-nonfinite", "device-fault")
    return tr(word), tone, "triangle-alert" if tone == "warn" else "octagon-x" if damaged else "octagon-alert"


def finding_title(finding: Finding) -> str:
    """One line: where, and for rarer findings what."""
    where = place(finding.component, finding.module, finding.code)
    extra = {
        "weights-nonfinite": tr("{0}: NaN in the file", str(finding.facts.get("lora") or where)),
        "weights-clipped": tr("{0}: weights at the FP16 limit", where),
        "weights-overflow": tr("{0}: weight too large", where),
        "accumulation-overflow": tr("{0}: sum too large", where),
        "underflow": tr("{0}: small values lost", where),
        "flat-output": tr("{0}: only one colour", where),
        "saturated-output": tr("{0}: values clamped", where),
        "inexact-output": tr("{0}: rounded too much", where),
        "nonfinite-output": tr("{0}: NaN between layers", where),
        "memory-damage": tr("{0}: one wrong result", where)
        if came_once(finding)
        else tr("{0}: weights damaged in memory", where),
        "device-fault": tr("{0} is faulty on this device", DTYPE_NAMES[finding.dtype]),
    }
    return extra.get(finding.code, where)


def cured_details(finding: Finding) -> list[str]:
    """Details of a finding that the cure in use fixed."""
    what = finding_words(finding)[0].text(catalogue())
    return [tr("Before the cure: {0}", what), *_more_details(finding), tr("Fixed by the cure in use.")]


def finding_details(finding: Finding) -> list[str]:
    """What happened, in which type, what it would be in others: shown when a row is open."""
    lines: list[str] = []
    what, remedy = finding_words(finding)
    if finding.peak is not None and finding.limit and finding.dtype == "float16" and "shows" not in finding.facts:
        lines.append(
            tr("Infinite in FP16; BF16 and FP32 can hold it.")
            if finding.peak > finding.limit
            else tr("Fits in FP16; BF16 and FP32 leave more headroom.")
        )
    return [what.text(catalogue()), *lines, *_more_details(finding), remedy.text(catalogue())]


def _more_details(finding: Finding) -> list[str]:
    """When, and how many more layers."""
    lines = [] if finding.step is None else [tr("Appeared at step {0}.", finding.step)]
    further = further_words(finding)
    return lines if further is None else [*lines, further.text(catalogue())]


def price_time(cure: Cure) -> str:
    """Return how much longer a picture takes; a difference within the spread of the runs counts as none."""
    if cure.time_ratio is None:
        return tr("Not measured")
    shown = cure.time_ratio if is_measurable(cure.time_ratio, cure.time_spread) else 1.0
    return f"≈{figures.HARD}{figures.change(shown)}"


def price_bytes(count: int | None) -> str:
    return tr("Not measured") if count is None else figures.size_change(count)


def price_picture(cure: Cure) -> str:
    if cure.psnr is None:
        return tr("Not measured")
    return tr("{0} dB", figures.decimal(cure.psnr, 0)).replace(" ", figures.HARD)


def seen(psnr: float) -> str:
    """What a closeness in dB means to the eye. Below 48 dB the pixels are off by more than one of 255 levels, in the mean."""
    if psnr >= 60:
        return tr("no visible difference")
    if psnr >= 48:
        return tr("barely visible difference")
    return tr("possibly visible difference")


def decibels() -> str:
    """What the column says."""
    return tr("dB: similarity to the FP32 picture. From 60 dB, no difference is visible.")


def upcast_blocks(plan: Plan) -> int:
    return sum(len(modules) for modules in plan.upcast.values())


def rescaled_layers(plan: Plan) -> int:
    return sum(len(rescaled_modules(tensors)) for tensors in plan.rescale.values())


def listed(names: Sequence[str]) -> str:
    """One, two with an and, more with commas."""
    return tr("{0} and {1}", commas(*names[:-1]), names[-1]) if len(names) > 1 else "".join(names)


def same_plan(one: Plan | None, other: Plan | None) -> bool:
    """Whether two plans do the same; reasons and measurements may differ."""
    if one is None or other is None:
        return one is other
    return (one.dtypes, one.rescale, one.upcast, one.settings) == (other.dtypes, other.rescale, other.upcast, other.settings)


def _parts_in(plan: Plan, wanted: DType) -> list[str]:
    return [part_name(name) if name != "vae" else "VAE" for name, dtype in plan.dtypes.items() if dtype == wanted]


def cure_title(cure: Cure) -> str:
    match cure.kind:
        case "rescale":
            return tr("Rescale in memory")
        case "upcast-region":
            count = upcast_blocks(cure.plan)
            return tr("Upcast {0} parts", count, one="Upcast 1 part")
        case "bfloat16":
            return tr("{0} in BF16", listed(_parts_in(cure.plan, "bfloat16")))
        case "float32-component":
            parts = _parts_in(cure.plan, "float32")
            return tr("Whole {0} in FP32", parts[0]) if len(parts) == 1 else tr("{0} in FP32", listed(parts))
        case "float32-all":
            return tr("Everything in FP32")
        case "setting":
            return tr("Change a setting")
        case "none":
            return tr("No cure")


def stays(plan: Plan) -> str:
    """97.8 %, rounded down so that it never says all when something is upcast."""
    share = 1 - plan.upcast_parameters / plan.total_parameters if plan.total_parameters else 1.0
    return f"{figures.decimal(int(share * 1000) / 10)}{figures.HARD}%"


def cure_line(cure: Cure, name: str) -> str:
    """The second line of a cure. name: the type the model runs in."""
    if cure.refusal:
        return cure.refusal.text(catalogue())
    plan = cure.plan
    match cure.kind:
        case "rescale":
            return _rescale_line(plan)
        case "upcast-region":
            return tr("{0} stays in {1}", stays(plan), name)
        case "bfloat16":
            return tr("Keeps 8 bits of detail instead of 11")
        case "float32-component":
            only_vae = _parts_in(plan, "float32") == ["VAE"]
            return tr("Same as --no-half-vae") if only_vae else tr("The rest stays in {0}", name)
        case "float32-all":
            return tr("Same as --no-half")
        case "setting":
            return ", ".join(f"{key} = {value}" for key, value in plan.settings.items())
        case "none":
            return ""


def _rescale_line(plan: Plan) -> str:
    count, change = rescaled_layers(plan), plan.change
    if change is None:
        return tr("{0} layers", count, one="1 layer")
    if change:
        return tr("Not exact (up to {0})", share_of_change(change))
    return tr("Exact but for rounding")


def cure_tooltip(cure: Cure) -> str:
    """What the row of a cure leaves out: exactness, and how its prices were found."""
    parts: list[str] = []
    if cure.kind == "rescale":
        exactness = exactness_words(cure.plan)
        parts.append(tr("Moves powers of two between layers."))
        parts.append("" if exactness is None else exactness.text(catalogue()))
    if cure.time_ratio is not None and not is_measurable(cure.time_ratio, cure.time_spread):
        parts.append(tr("No measurable difference in time."))
    if cure.memory_bytes is not None:
        parts.append(tr("Memory is calculated, not measured."))
    if cure.psnr is not None:
        parts.append(tr("{0} dB against FP32: {1}.", figures.decimal(cure.psnr, 0), seen(cure.psnr)))
    if cure.plan.error is not None:
        parts.append(tr("Relative error against FP32: {0}.", figures.decimal(cure.plan.error, 4)))
    if cure.refusal:
        parts.append(cure.refusal.text(catalogue()))
    return sentences(*parts)


def cure_spoken(cure: Cure, name: str) -> str:
    """The whole row, for a screen reader."""
    return tr(
        "{0}. {1}. Time {2}, memory {3}, disk {4}, picture {5}",
        cure_title(cure),
        cure_line(cure, name).rstrip(".。"),
        price_time(cure),
        price_bytes(cure.memory_bytes),
        price_bytes(disk_price(cure)),
        price_picture(cure) if cure.psnr is None else f"{price_picture(cure)}, {seen(cure.psnr)}",
    )


def error_words(error: float) -> str:
    """A relative error: 0 stays 0, small ones as a power of ten."""
    return "0" if error == 0 else figures.peak(error) if error < 1e-3 else figures.decimal(error, 4)
