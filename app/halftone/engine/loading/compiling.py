"""The blocks that a denoiser repeats, compiled once per shape, as diffusers' compile_repeated_blocks does.

Only what runs unchanged is compiled: with layers in float32, weights that come block by block or in eight bits, or watched
numbers it runs uncompiled, because compiled code ignores hooks added later. A missing or failing compiler costs no more than a
sentence.
"""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import nn

from halftone.contract.wording import Words
from halftone.engine.weights.packed import packed_layers
from halftone.engine.weights.parts import role
from halftone.health.faults import ends_the_job, first_line
from halftone.measure.compiler import missing_compiler
from halftone.settings.places import cache_dir

if TYPE_CHECKING:
    from halftone.engine.loading.load import Loaded

log = logging.getLogger(__name__)

_CALL: Final = "_compiled_call_impl"
"""Where torch keeps what nn.Module.compile made; a module without it runs uncompiled."""
_SHAPES: Final = 64
"""Shapes and types of a block that are kept compiled; torch gives up after 8, which one UNet in two sizes passes."""


class Backend:
    """torch's compiler, or the plain graph after its first failure. error: its message, "" if none; name: torch's name for it;
    used: whether blocks were compiled with it.
    """

    def __init__(self, name: str = "inductor") -> None:
        self.name = name
        self.error = ""
        self.used = False

    def __call__(self, graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        plain: Callable[..., Any] = graph.forward
        compiled = self._tried(lambda: self.compile(graph, inputs))
        if compiled is None:
            return plain

        def run(*args: Any) -> Any:
            found = self._tried(lambda: compiled(*args))  # some of it is compiled when it first runs
            return plain(*args) if found is None else found

        return run

    def compile(self, graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        dynamo = cast("Any", torch)._dynamo  # noqa: SLF001 - its documented way to the backends by name
        return dynamo.lookup_backend(self.name)(graph, inputs)

    def _tried(self, work: Callable[[], Any]) -> Any:
        """None where the compiler fails, or did before."""
        if self.error:
            return None
        try:
            return work()
        except Exception as error:
            if ends_the_job(error):
                raise
            log.info("torch.compile failed", exc_info=True)
            self.error = first_line(error)
            return None


def repeated_blocks(module: nn.Module) -> list[nn.Module]:
    """The blocks that diffusers lists as repeated."""
    names = cast("Sequence[str]", getattr(module, "_repeated_blocks", None) or ())
    return [child for child in module.modules() if type(child).__name__ in names]


def is_compiled(module: nn.Module) -> bool:
    return any(getattr(child, _CALL, None) is not None for child in repeated_blocks(module))


class Compiling:
    """What one job compiles of a model."""

    def __init__(self, loaded: "Loaded", *, wanted: bool) -> None:
        self._loaded = loaded
        self._wanted = wanted
        self._put = False

    def put(self) -> tuple[Words, ...]:
        """Compile the denoisers at their first call, or uncompile them; return a note for each that cannot be compiled. Call it
        for each plan, and where the weights move.
        """
        take_all_compiled(self._loaded)
        missing = missing_compiler(self._loaded.device) if self._wanted else None
        if missing or not self._wanted:
            return (Words("Compile is left out: {0}", (missing,), about="run"),) if missing else ()
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_dir() / "compiled"))
        import torch._dynamo as dynamo
        from torch._inductor import config as inductor

        config = cast("Any", dynamo.config)
        config.suppress_errors = True  # what cannot be traced runs as it is
        config.skip_nnmodule_hook_guards = False  # casts are hung onto layers
        config.recompile_limit = max(config.recompile_limit, _SHAPES)
        inductor.compile_threads = 1  # no processes beside the worker, each with a torch of its own
        notes: list[Words] = []
        for name, module in self._loaded.modules.items():
            if role(name, module) != "denoise" or name.startswith("controlnet"):
                continue
            if reason := _hindrance(self._loaded, name, module):
                notes.append(reason)
                continue
            for block in repeated_blocks(module):
                block.compile(backend=self._loaded.compiler)
            self._put = self._loaded.compiler.used = True
        return tuple(notes)

    def told(self, seconds: Sequence[float]) -> tuple[Words, ...]:
        """What came of it. seconds: of every step in turn; the first one compiles, if its shape was not there yet."""
        if not self._put or not seconds:
            return ()
        if error := self._loaded.compiler.error:
            return (Words("Compile is left out, because torch's compiler failed here: {0}.", (error,), about="run"),)
        if not any(map(is_compiled, self._loaded.modules.values())):
            return (Words("Compile: after a fault the model ran uncompiled, so that its cause could be found.", about="run"),)
        later = sorted(seconds[1:])
        if not later:
            return (Words("Compile: the first step, which compiles, took {0} s.", (f"{seconds[0]:.1f}",), about="first-step"),)
        return (
            Words(
                "Compile: the first step took {0} s, the others {1} s each.",
                (f"{seconds[0]:.1f}", f"{later[len(later) // 2]:.2f}"),
                about="first-step",
            ),
        )


_PACKED: Final = "Compile is left out: the weights of {0} are kept in fewer bits and widened layer by layer."


def _hindrance(loaded: "Loaded", name: str, module: nn.Module) -> Words | None:
    """The reason not to compile; None where nothing prevents it."""
    if not repeated_blocks(module):
        return Words("Compile has no effect: {0} names no blocks that repeat.", (name,), about="run")
    if loaded.states[name].upcast:
        return Words("Compile is left out: a cure computes some layers of {0} in FP32.", (name,), about="run")
    if loaded.lights and name == loaded.reader:
        return Words("Compile is left out: a ControlNet-LLLite changes what layers of {0} read.", (name,), about="run")
    if loaded.places.mode in ("group", "sequential"):
        return Words("Compile is left out: the weights of {0} move to the GPU part by part.", (name,), about="run")
    if loaded.places.packed or packed_layers(module):
        return Words(_PACKED, (name,), about="run")
    return None


def take_compiled(module: nn.Module) -> None:
    """Run a network uncompiled again; torch keeps what was compiled and finds it again."""
    for block in repeated_blocks(module):
        setattr(block, _CALL, None)


@contextmanager
def uncompiled(module: nn.Module) -> Generator[None]:
    """A network that runs as it is for a while."""
    blocks = repeated_blocks(module)
    calls = [getattr(block, _CALL, None) for block in blocks]
    take_compiled(module)
    try:
        yield
    finally:
        for block, call in zip(blocks, calls, strict=True):
            setattr(block, _CALL, call)


def take_all_compiled(loaded: "Loaded") -> None:
    """Before numbers inside any of them are looked at."""
    for module in loaded.modules.values():
        take_compiled(module)
