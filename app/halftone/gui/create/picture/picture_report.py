"""What Copy details yields: plain text for a bug report."""

from halftone import __version__
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import DeviceFacts, GuardEvent, ModelFacts, PictureFacts
from halftone.contract.request import ALONE, Extras
from halftone.health.pictures.passes import step_words
from halftone.library.add_ons.vaes import vae_name


def copy_details(
    picture: PictureFacts | None,
    model: ModelFacts | None,
    device: DeviceFacts | None,
    error: ErrorFacts | None = None,
    extras: Extras = ALONE,
) -> str:
    """Plain text for a bug report, in English so that anybody can help: no prompt, no paths."""
    lines = [f"Halftone {__version__}"]
    if device is not None:
        lines.append(f"Device: {device.name} ({device.backend}), driver {device.driver or 'none'}, torch {device.torch_version}")
    if model is not None:
        lines.append(f"Model: {model.name}, {model.family}, {model.stored_dtype}, fingerprint {model.fingerprint}")
    if used := ", ".join(f"{lora.name} {lora.shown_weight}" for lora in extras.loras):
        lines.append(f"LoRAs: {used}")
    if extras.transformer is not None:
        lines.append(f"Transformer: {vae_name(extras.transformer)}")
    if extras.vae is not None:
        lines.append(f"VAE: {vae_name(extras.vae)}")
    if nets := ", ".join(f"{control.name} {control.scale:g}" for control in extras.controls):
        lines.append(f"ControlNets: {nets}")
    if shown := ", ".join(f"{one.name} {one.scale:g}" for one in extras.ip_adapters):
        lines.append(f"IP-Adapters: {shown}")
    if picture is not None:
        types = ", ".join(f"{name} {dtype}" for name, dtype in picture.dtypes.items())
        lines.append(f"Picture: {picture.width} x {picture.height}, {picture.steps} steps, seed {picture.seed}, {picture.state}")
        lines += [f"Pass {number}: {one.width} x {one.height}, {one.steps} steps" for number, one in enumerate(picture.passes, 1)]
        lines.append(f"Computed in: {types}")
        lines += [_event_line(event) for event in picture.events]
    if error is not None:
        facts = ", ".join(f"{key}={value}" for key, value in error.facts.items() if key not in ("path", "folder", "log"))
        lines.append(f"Error: {error.code} ({facts})")
        if error.details:
            lines.append(error.details)
    return "\n".join(lines)


def _event_line(event: GuardEvent) -> str:
    where = f"step {step_words(event).text()}" if event.step is not None else "outside the steps"
    line = (
        f"{event.kind} at {where}: {event.component}.{event.module}, peak {event.peak}, limit {event.limit}, "
        f"{event.action}, {event.cure}, {event.seconds:.2f} s"
    )
    return line if event.lora is None else f"{line}, because of the LoRAs {', '.join(event.lora.names)}"
