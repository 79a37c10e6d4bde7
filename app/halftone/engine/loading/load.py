"""Brings a model into memory: offline, in the stored dtype, weights straight from the file."""

import gc
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from halftone.contract.wording import Words
from halftone.library.files.header import UsedFile
from halftone.settings.disk import system_words

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the libraries read it: nothing is fetched unless a user clicked for it

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Control, Extras, IpAdapter, Lora
from halftone.engine.basics.tensors import NAMES
from halftone.engine.loading.compiling import Backend
from halftone.engine.loading.folder_parts import load_folder, load_network
from halftone.engine.loading.reading_lengths import settle_lengths
from halftone.engine.loading.single_file import component_from_file, load_single
from halftone.engine.loading.stand_ins import put_guidance
from halftone.engine.patches.embeddings import PromptCache
from halftone.engine.patches.image_prompts import attach, read_halves, scale_adapters
from halftone.engine.patches.inversions import Learned, add_words, told_components
from halftone.engine.patches.lights import attach_lights
from halftone.engine.patches.lora import Adapter, changed_components, patches_of
from halftone.engine.weights.borders import put_input_casts
from halftone.engine.weights.fp8 import storable
from halftone.engine.weights.mapped import UnfitFile
from halftone.engine.weights.offload import Places, stand
from halftone.engine.weights.parts import components, parameter_count, role
from halftone.engine.weights.precision import ComponentState, exact_weights, own_weights
from halftone.engine.weights.recipe import Exact, keep_base, known_of
from halftone.engine.weights.wide_kernels import put_wide_kernels
from halftone.health.faults import first_line, is_out_of_memory
from halftone.library.add_ons.extras import extras_key
from halftone.library.add_ons.vaes import VAE
from halftone.library.families.networks import Network, known_networks
from halftone.library.families.single_files import configs, kinds_by_component, own_schedule, places
from halftone.library.families.split_files import model_header
from halftone.library.files.copies import exponents_in
from halftone.library.files.folder import read_json
from halftone.library.files.header import read_header
from halftone.library.models import weight_files
from halftone.settings.disk import no_right

log = logging.getLogger(__name__)

UNET: Final = "unet"
_STORED = {"F16": torch.float16, "BF16": torch.bfloat16}


@dataclass
class Loaded:
    """A pipeline in memory. states: what is applied to each component now; stored: the dtype each has in its files."""

    facts: ModelFacts
    device: torch.device
    pipe: Any
    stored: dict[str, torch.dtype]
    places: Places
    """Where each component lies."""
    states: dict[str, ComponentState] = field(default_factory=dict[str, ComponentState])
    native_scheduler: Any = None
    adapters: tuple[Adapter, ...] = ()
    """LoRAs that are part of the exact weights now."""
    inversions: tuple[Learned, ...] = ()
    """Words that the text encoders know beside their own."""
    prompts: PromptCache = field(default_factory=PromptCache)
    compiler: Backend = field(default_factory=Backend)
    """What compiles the denoiser's blocks, where the setting asks for it."""
    vae: UsedFile | None = None
    """What took the place of the model's own VAE."""
    transformer: UsedFile | None = None
    """What took the place of the model's own transformer or UNet."""
    controls: tuple[UsedFile, ...] = ()
    """ControlNets in memory now, and the component that they are."""
    below_controls: str = ""
    """Changes with the model's weights, where these ControlNets hold only changes of them."""
    controlnet: Any = None
    streams: set[str] = field(default_factory=set[str])
    """Components that compute, in whatever state they are, with weights that are made block by block."""
    fp8: bool = False
    """Whether the denoiser's exact weights are those that eight bits hold."""
    ip_adapters: tuple[UsedFile, ...] = ()
    """IP-Adapters that are part of the UNet now."""
    faces: tuple[Adapter, ...] = ()
    """The LoRAs in them, as FaceID has them."""
    lights: tuple[UsedFile, ...] = ()
    """Files of ControlNet-LLLite whose layers are part of it."""
    sources: dict[str, Callable[[], nn.Module]] = field(default_factory=dict[str, Callable[[], nn.Module]])
    """Components that are not from the model's files, and their readers: on the CPU, in the stored dtype."""

    file_names: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """For such components whose files have other names: tensor of the file -> parameter."""
    exponents: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Exponents by which the weights of the model's own components were enlarged, as far as asked for."""
    _networks: dict[str, tuple[Network, ...]] = field(default_factory=dict[str, tuple[Network, ...]])

    @property
    def extras(self) -> Extras:
        """What is used with the model now; of ControlNets and IP-Adapters the files."""
        controls = tuple(Control(path=file.path, image="") for file in self.controls)
        inversions = tuple(one.inversion.path for one in self.inversions if not one.inversion.bundled)
        return Extras(
            loras=self.loras,
            vae=self.vae and self.vae.path,
            transformer=self.transformer and self.transformer.path,
            controls=controls,
            inversions=inversions,
            ip_adapters=tuple(IpAdapter(path=file.path, images=()) for file in self.ip_adapters),
        )

    @property
    def loras(self) -> tuple[Lora, ...]:
        return tuple(adapter.lora for adapter in self.adapters)

    @property
    def patched(self) -> tuple[Adapter, ...]:
        """All that is added to the exact weights: the LoRAs, then those of FaceID."""
        return (*self.adapters, *self.faces)

    def exact_dtype(self, name: str) -> torch.dtype:
        """The narrowest type that holds the exact weights of a component: those of its file, or with what is added in float32."""
        return torch.float32 if name in self.changed else self.stored[name]

    @property
    def changed(self) -> set[str]:
        """Components whose exact weights are not those of their files alone."""
        pictures = {self.reader} if self.ip_adapters or self.lights else set[str]()
        return changed_components(self.adapters) | told_components(self.inversions) | pictures

    @property
    def reader(self) -> str:
        """The denoiser, which also reads pictures through IP-Adapters."""
        return UNET if getattr(self.pipe, UNET, None) is not None else "transformer"

    @property
    def modules(self) -> dict[str, nn.Module]:
        return components(self.pipe)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Parameters of each component; no state changes their number."""
        return {name: parameter_count(module) for name, module in self.modules.items()}

    @property
    def networks(self) -> tuple[Network, ...]:
        """What the headers tell of the model as it is used now; () where they cannot be read. They are read once."""
        key = extras_key(self.extras)
        if key not in self._networks:
            self._networks.clear()
            self._networks[key] = known_networks(self.facts, self.extras)
        return self._networks[key]

    def forget_sizes(self) -> None:
        """Components came or went, or grew."""
        self.__dict__.pop("sizes", None)


def load_pipeline(facts: ModelFacts, device: torch.device) -> Loaded:
    """Load every component in its stored dtype, mapped, on the CPU; the first plan places and converts it. Raises
    model-load-failed, model-cannot-run, model-too-large.
    """
    started = time.perf_counter()
    stored = stored_types(facts)
    with _no_collection():
        pipe = _pipeline(facts, stored)
    pipe.set_progress_bar_config(disable=True)
    places = Places(device, apart=device.type != "cpu")
    scheduler = getattr(pipe, "scheduler", None)
    loaded = Loaded(facts=facts, device=device, pipe=pipe, stored=stored, places=places, native_scheduler=scheduler)
    settle_lengths(pipe, facts.prompt_tokens)
    _let_clip_skip(pipe)
    put_guidance(pipe)
    for name, module in loaded.modules.items():
        settle(loaded, name, module)
    log.info("loaded %s in %.1f s for %s", facts.name, time.perf_counter() - started, device)
    return loaded


def native_scheduler(facts: ModelFacts) -> Any:
    """Load the scheduler of the model's pipeline, and nothing else. Raises model-load-failed."""
    import diffusers

    path = Path(facts.path)
    with told_loading(facts, path):
        if path.is_file():
            found = configs(facts.family, model_header(facts), facts.path)
            index, config = found["model_index"], found["scheduler"] | own_schedule(facts.base)
        else:
            index, config = (read_json(path / name) for name in ("model_index.json", "scheduler/scheduler_config.json"))
        return getattr(diffusers, cast("Any", index)["scheduler"][1]).from_config(config)


@contextmanager
def _no_collection() -> Generator[None]:
    """Thousands of objects come and none goes: to look for garbage meanwhile takes a fifth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def settle(loaded: Loaded, name: str, module: nn.Module) -> None:
    """Make a component ready that was just read: as its files have it."""
    dtype = loaded.stored.setdefault(name, torch.float32)
    make_ready(loaded, name, module, dtype)
    loaded.states[name] = ComponentState(dtype=NAMES[dtype])
    keep_base(module, own_weights(module))


def make_ready(loaded: Loaded, name: str, module: nn.Module, dtype: torch.dtype) -> None:
    """The same without a word of it in `loaded`. dtype: of its files."""
    vae = cast("Any", module)
    if name == VAE and getattr(vae.config, "force_upcast", None):
        vae.register_to_config(force_upcast=False)  # some pipelines would cast it to float32; here the plan does that
    module.eval().requires_grad_(False)
    stand(name, module, loaded.places)
    put_wide_kernels(module, loaded.device, dtype)
    put_input_casts(module, settled=True)  # a plan that asks for what the files hold changes nothing, and puts none


def _pipeline(facts: ModelFacts, stored: dict[str, torch.dtype]) -> Any:
    import diffusers
    import transformers

    transformers.logging.disable_progress_bar()
    diffusers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    diffusers.utils.logging.set_verbosity_error()
    with told_loading(facts, Path(facts.path)):
        return load_single(facts, stored) if Path(facts.path).is_file() else load_folder(Path(facts.path), stored)


_OF_LIBRARIES: Final = (
    OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError, ArithmeticError, AssertionError,
    SafetensorError,
)  # fmt: skip
"""Odd files make the libraries raise these."""


@contextmanager
def told_loading(facts: ModelFacts, path: Path) -> Generator[None]:
    """What the libraries raise while they load becomes one sentence."""
    try:
        yield
    except PermissionError as error:
        raise no_right(error, path) from error
    except _OF_LIBRARIES as error:
        raise_if_too_large(error, facts, torch.device("cpu"))
        log.exception("loading %s failed", path)
        raise HalftoneError("model-load-failed", first_line(error), path=str(path), detail=_reason(error)) from error


def _reason(error: BaseException) -> Words:
    """The cause as the end of a sentence: what was found here, or the system's message. A library's message is for the log."""
    if isinstance(error, UnfitFile):
        return error.words
    if isinstance(error, OSError) and error.strerror:
        return system_words(error)
    return Words("the libraries cannot read its files")


def _let_clip_skip(pipe: Any) -> None:
    """diffusers looks for the last norm of a CLIP text encoder inside `text_model`, which newer transformers do without."""
    encoder = getattr(pipe, "text_encoder", None)
    if isinstance(encoder, nn.Module) and hasattr(encoder, "final_layer_norm") and not hasattr(encoder, "text_model"):
        vars(encoder)["text_model"] = encoder  # not registered: a network inside itself would have no end


def raise_if_too_large(error: BaseException, model: ModelFacts, device: torch.device) -> None:
    """Raise model-too-large if the error means that the device has no room for the weights."""
    if is_out_of_memory(error):
        raise HalftoneError("model-too-large", first_line(error), model=model.name, device=str(device)) from error


def stored_types(facts: ModelFacts) -> dict[str, torch.dtype]:
    """The narrowest dtype that holds every number of each component exactly."""
    path = Path(facts.path)
    if not path.is_file():
        return stored_dtypes(path)
    return {name: narrowest(kinds) for name, kinds in kinds_by_component(facts.family, model_header(facts)).items()}


def stored_dtypes(folder: Path) -> dict[str, torch.dtype]:
    """The narrowest dtype that holds every number of each component exactly, from the headers alone.

    One float32 tensor makes its component float32: rounded like the others, its large values would become infinite.
    """
    found: dict[str, torch.dtype] = {}
    for part in sorted(child for child in folder.iterdir() if (child / "config.json").is_file()):
        kinds = {kind for file in part.glob("*.safetensors") for kind in _header_dtypes(file)}
        if any(kind.startswith(("F", "BF")) for kind in kinds):
            found[part.name] = narrowest(kinds)
    return found


def narrowest(kinds: Iterable[str]) -> torch.dtype:
    """That holds every number of these types, as a file spells them."""
    found = {_STORED.get(kind, torch.float32) for kind in kinds if kind.startswith(("F", "BF"))}
    return found.pop() if len(found) == 1 else torch.float32


def _header_dtypes(file: Path) -> set[str]:
    """The types of a file's tensors, as the file spells them."""
    try:
        with safe_open(file, "pt") as opened:
            return {str(opened.get_slice(name).get_dtype()) for name in opened.keys()}  # noqa: SIM118 - a handle, no mapping
    except (OSError, SafetensorError) as error:
        raise HalftoneError("model-bad-header", path=str(file), detail=str(error).splitlines()[0]) from error


def exact_source(loaded: Loaded, name: str, adapters: Iterable[Adapter] | None = None, *, anew: bool = False) -> Exact:
    """The exact weights of a component, to derive others from: its files' with inversions and IP-Adapters, and in float32 what
    LoRAs change. Each is made when it is asked for.

    adapters: LoRAs in place of those in use and of FaceID's; anew: read the files again, for what is mapped may be damaged.
    """
    module = loaded.modules[name]
    known = known_of(module)
    base = None if anew else known.base
    if base is None:
        base = exact_weights(without_loras(loaded, name), known.origin)
        keep_base(module, base)
    patches = patches_of(loaded.patched if adapters is None else adapters, name, file_exponents(loaded, name))
    return base.but(patches, _in_eight_bits(loaded, name))


def _in_eight_bits(loaded: Loaded, name: str) -> list[str]:
    """Weights that count as rounded, of a denoiser that is not from a file of its own."""
    module = loaded.modules[name]
    if not loaded.fp8 or name in loaded.sources or role(name, module) != "denoise":
        return []
    names = {id(parameter): own for own, parameter in module.named_parameters()}
    return [names[id(cast("Any", layer).weight)] for layer in storable(module)]


def without_loras(loaded: Loaded, name: str) -> nn.Module:
    """Read the component again: on the CPU, stored dtype, with inversions and IP-Adapters but no LoRA."""
    source = loaded.sources.get(name)
    found = component_from(loaded, name, Path(loaded.facts.path)) if source is None else source()
    if loaded.ip_adapters and name == loaded.reader:
        attach(found, [read_halves(file.path) for file in loaded.ip_adapters])
        scale_adapters(file_exponents(loaded, name), found)
    if loaded.lights and name == loaded.reader:
        attach_lights(found, [Path(file.path) for file in loaded.lights])
    if name in told_components(loaded.inversions):
        add_words(loaded.inversions, name, found, file_exponents(loaded, name))
    return found


def file_exponents(loaded: Loaded, name: str) -> dict[str, int]:
    """Exponents of a rescaled copy's component: how much larger its weights are than they were made; else empty."""
    if name in loaded.sources:
        return {}
    if name not in loaded.exponents:
        loaded.exponents[name] = _exponents(loaded.facts, name)
    return loaded.exponents[name]


def _exponents(facts: ModelFacts, name: str) -> dict[str, int]:
    """Read the exponents of a component of a rescaled copy from its files: parameter -> k."""
    path = Path(facts.path)
    if not path.is_file():
        headers = [read_header(file) for component, file in weight_files(facts) if component == name]
        return {key: k for header in headers for key, k in exponents_in(header).items()}
    header = model_header(facts)
    told = exponents_in(header)
    found: dict[str, int] = {}
    for (component, parameter), place in places(facts.family, header).items() if told else ():
        rows = place.rows and f"{place.tensor}[{place.rows[0]}:{place.rows[1]}]"
        if component == name and (k := told.get(place.tensor, 0) + told.get(rows or "", 0)):
            found[parameter] = k
    return found


def component_from(loaded: Loaded, name: str, path: Path) -> nn.Module:
    """The same component as another folder or file holds it, in the dtype it is stored in there. Raises model-load-failed."""
    kind = cast("Any", type(loaded.modules[name]))
    if path.is_file():
        with told_loading(loaded.facts, path):
            is_own = str(path) == loaded.facts.path
            header = model_header(loaded.facts) if is_own else read_header(path)
            dtype = narrowest(kinds_by_component(loaded.facts.family, header)[name])
            part = loaded.facts.parts.get(name, path) if is_own else path
            return component_from_file(loaded.facts, Path(part), header, name, kind, dtype)
    with told_loading(loaded.facts, path / name):
        return load_network(path, name, kind, stored_dtypes(path).get(name, torch.float32))
