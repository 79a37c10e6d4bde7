"""Live pictures while denoising: a linear map from latents to colours, fitted once per VAE to what that VAE really decodes."""

import hashlib
import io
import logging
import math
import time
import zipfile
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch

from halftone.contract.engine import Emit
from halftone.contract.messages import PreviewReady
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import any_component
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call, run_call
from halftone.health.faults import is_out_of_memory
from halftone.measure.late import Courier, Parcel
from halftone.settings.atomic import write_atomically
from halftone.settings.places import cache_dir

log = logging.getLogger(__name__)

EVERY: Final = 0.25
"""Shortest time between two previews in seconds."""
SHARE: Final = 0.02
"""Largest share of the time that previews may cost."""
_EDGE: Final = 8
"""Latents along each edge of the pictures the map is fitted to."""


class Pace:
    """When the next preview is due. Of two costs in a row the smaller one counts: the first includes warming up, and a machine
    that is busy for a moment would stop the previews for the rest of the picture.
    """

    def __init__(self) -> None:
        self._due = 0.0
        self._before = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._due

    def spent(self, now: float, cost: float) -> None:
        """A preview that is finished at `now` took `cost` seconds."""
        self._due = now + max(EVERY, min(self._before, cost) / SHARE)
        self._before = cost

    def stop(self) -> None:
        self._due = math.inf


class Previewer:
    """Gets the latents after each step and sends a small picture when one is due and cheap enough."""

    def __init__(self, loaded: Loaded, emit: Emit) -> None:
        self._loaded = loaded
        self._emit = emit
        self._map: torch.Tensor | None = None
        self._tried = False
        self._pace = Pace()
        self._courier = Courier()
        self._sent: tuple[int, Parcel] | None = None

    def show(self, step: int, latents: torch.Tensor, _seconds: float) -> None:
        """latents: (1, channels, height, width) after `step` (0-based). Only `emit` may raise. On a device with a queue a step's
        picture is shown after the next one: waiting for it would cost a step's time.
        """
        self._deliver()
        if latents.dim() != 4 or self._sent is not None or not self._pace.is_due(time.perf_counter()):
            return
        try:
            colours = self._colours(latents.shape[1])
            if colours is None:
                return
            started = time.perf_counter()
            self._sent = step, self._courier.send(to_colours(latents[0].float(), colours))
        except Exception as error:  # whatever is wrong with a preview, the picture goes on without
            level = logging.INFO if is_out_of_memory(error) else logging.WARNING  # the memory may end without anybody's fault
            log.log(level, "no more previews of this picture", exc_info=True)
            self._pace.stop()
            return
        self._deliver()
        now = time.perf_counter()
        self._pace.spent(now, now - started)

    def _deliver(self) -> None:
        """Send the picture on its way, if it has arrived."""
        if self._sent is None or not self._sent[1].arrived:
            return
        (step, parcel), self._sent = self._sent, None
        picture = parcel.read()
        self._emit(PreviewReady(step=step + 1, width=picture.shape[1], height=picture.shape[0]), picture.cpu().numpy().tobytes())

    def _colours(self, channels: int) -> torch.Tensor | None:
        if not self._tried:
            self._tried = True
            found = preview_map(self._loaded, channels)
            self._map = None if found is None else found.to(self._loaded.device)
        return self._map


def to_colours(latents: torch.Tensor, colours: torch.Tensor) -> torch.Tensor:
    """(channels, height, width) latents as the sampler holds them -> (height, width, 3) bytes. colours: (channels + 1, 3)."""
    picture = torch.einsum("chw,cr->hwr", latents, colours[:-1]) + colours[-1]
    return (picture.clamp(0, 1) * 255).round().to(torch.uint8)


def preview_map(loaded: Loaded, channels: int) -> torch.Tensor | None:
    """(channels + 1, 3): the map of this VAE, from the cache or fitted now; None where the VAE does not take such latents."""
    found = any_component(loaded, "decode")
    if found is None or int(getattr(found[1].config, "latent_channels", channels)) != channels:
        return None
    name, module = found
    key = _key(loaded, name)
    stored = _read(key, channels)
    if stored is not None:
        return stored
    colours = _fit(module, name, loaded, channels)
    if colours is not None:
        _write(key, colours)
    return colours


def _file(key: str) -> Path:
    folder = cache_dir() / "previews"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.npy"


def _read(key: str, channels: int) -> torch.Tensor | None:
    """The map in the cache; None if there is none that can be used."""
    try:
        stored = np.load(io.BytesIO(_file(key).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        log.info("a damaged preview map is fitted again: %s", error)
        return None
    usable = isinstance(stored, np.ndarray) and stored.shape == (channels + 1, 3) and stored.dtype == np.float32
    return torch.from_numpy(stored) if usable and np.isfinite(stored).all() else None


def _write(key: str, colours: torch.Tensor) -> None:
    """A map that cannot be kept is fitted again next time."""
    content = io.BytesIO()
    np.save(content, colours.numpy())
    try:
        write_atomically(_file(key), content.getvalue())
    except OSError as error:
        log.info("the preview map could not be kept: %s", error)


def _key(loaded: Loaded, name: str) -> str:
    other = "" if loaded.vae is None else f" {loaded.vae.path} {loaded.vae.version}"
    key = f"{loaded.facts.path} {loaded.facts.fingerprint} {name}{other}"
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:24]


def _fit(module: Any, name: str, loaded: Loaded, channels: int) -> torch.Tensor | None:
    """Least squares from smooth random latents to the colours the VAE makes of them, averaged over each latent's own square."""
    generator = torch.Generator("cpu").manual_seed(0)
    coarse = torch.randn((4, channels, 2, 2), generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(_EDGE, _EDGE), mode="bilinear")
    latents = (smooth + 0.3 * torch.randn((4, channels, _EDGE, _EDGE), generator=generator)).to(loaded.device)
    scaled = to_decoder(latents, module.config)
    result = run_call(Call(name, "decode", (scaled,), {"return_dict": False}), module, loaded.states[name].dtype)
    picture = next(tensors_in(result))
    if not is_finite(picture) or picture.dim() != 4 or picture.shape[1] != 3:
        return None
    small = torch.nn.functional.adaptive_avg_pool2d(picture.float() / 2 + 0.5, (_EDGE, _EDGE))
    inputs = latents.float().permute(0, 2, 3, 1).reshape(-1, channels).cpu()
    inputs = torch.cat([inputs, torch.ones(len(inputs), 1)], dim=1)
    targets = small.permute(0, 2, 3, 1).reshape(-1, 3).cpu()
    return torch.linalg.lstsq(inputs, targets).solution


def to_decoder(latents: torch.Tensor, config: Any) -> torch.Tensor:
    """Turn the sampler's latents into the decoder's: undo scaling, shift, or mean and deviation of the VAE's config."""
    factor = float(getattr(config, "scaling_factor", None) or 1.0)
    mean, deviation = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    if mean is not None and deviation is not None:
        shape = (1, -1, 1, 1)
        centre = torch.tensor(cast("list[float]", mean), device=latents.device).view(shape)
        width = torch.tensor(cast("list[float]", deviation), device=latents.device).view(shape)
        return latents * width / factor + centre
    return latents / factor + float(getattr(config, "shift_factor", None) or 0.0)
