"""The encoded prompts of a flight: each call of encode_prompt is made once for all its passes, and kept for the next picture."""

import inspect
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
import torch

from halftone.engine.basics.tensors import DTYPES, as_dtype, map_tensors
from halftone.engine.loading.load import Loaded
from halftone.engine.patches.embeddings import (
    Encoded,
    Learned,
    by_tokenizer,
    encode,
    follows_steps,
    most_chunks,
    prompt_texts,
    takes_weights,
)
from halftone.engine.patches.inversions import learned_tokens, words_key
from halftone.engine.sampling.composition import Composition, composition
from halftone.engine.weights.parts import role
from halftone.library.add_ons.loras import lora_key
from halftone.library.prompts.composed_prompts import composed, is_composed
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax, changes

Function = Callable[..., Any]
_PLAIN = (str, int, float, bool, type(None), torch.device)
_POOLED = {"add_text_embeds", "pooled_prompt_embeds"}


class _Read(NamedTuple):
    """A prompt that was encoded, and its weight among others."""

    encoded: Encoded
    weight: float = 1.0

    def at(self, step: int) -> Any:
        """What encode_prompt gives for a step, counted from 1."""
        return next((value for last, value in self.encoded if step <= last), self.encoded[-1][1])


class Reading:
    """Reads the prompts of one pipeline. upcast: sampling works in float32; settings: what changes the numbers beside the
    encoders' states (`reads`); None keeps nothing beyond the flight. rules: how prompts are read.
    """

    def __init__(self, loaded: Loaded, *, upcast: bool, settings: Hashable | None, rules: Rules = OWN) -> None:
        self._loaded = loaded
        self._rules = self._asked_rules = rules
        self._upcast = upcast
        self._settings = settings
        self._steps = 1
        self._asked = 0
        self._now = 1
        self._encoded: list[tuple[_Read, ...]] = []

    def forget(self) -> None:
        """What follows has other prompts."""
        self._encoded.clear()

    def begin(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """A pass begins; its inputs, with a callback where the prompt may change with the step."""
        pipe = self._loaded.pipe
        own = inspect.signature(pipe.__call__).parameters
        default = own["num_inference_steps"].default if "num_inference_steps" in own else None
        steps = inputs.get("num_inference_steps") or default
        self._asked, self._now = 0, 1
        self._steps = steps if isinstance(steps, int) else 1
        if self._rules.syntax is Syntax.A1111:
            self._count_calls()
        if not follows_steps(pipe, inputs, self._rules):
            return inputs
        known = cast("list[str]", pipe._callback_tensor_inputs)  # noqa: SLF001 - a pipeline names there what it takes back
        wanted = [name for name in ("prompt_embeds", *_POOLED) if name in known]
        return {**inputs, "callback_on_step_end": self._change, "callback_on_step_end_tensor_inputs": wanted}

    def _count_calls(self) -> None:
        """Let changes count calls of the denoiser, as in A1111: a sampler of second order has two for each step."""
        calls = 2 if getattr(self._loaded.pipe.scheduler, "order", 1) > 1 else 1
        self._steps *= calls
        if self._asked_rules.passes is not None:
            done, self._steps = (calls * steps for steps in self._asked_rules.passes)
            self._rules = self._asked_rules._replace(passes=(done, self._steps))

    def remembered(self, original: Function) -> Function:
        """encode_prompt runs once for all passes; its result leaves in the dtype the sampling works in."""

        def encode_prompt(*args: Any, **kwargs: Any) -> Any:
            index, self._asked = self._asked, self._asked + 1
            if index == len(self._encoded):
                self._encoded.append(self._read_parts(original, args, kwargs))
            return self._encoded[index][0].at(1)

        return encode_prompt

    @property
    def composition(self) -> Composition | None:
        """The prompts of the present step, None for a single one of weight 1."""
        read = next((read for read in self._encoded if any(one.weight != 1 for one in read) or len(read) > 1), None)
        if read is None:
            return None
        encoded = [(one.at(self._now), one.weight) for one in read]
        return composition(encoded, guided=bool(self._loaded.pipe.do_classifier_free_guidance))

    def _read_parts(self, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "tuple[_Read, ...]":
        """Encode each prompt that is composed with AND, together with the negative one, even where only the composition needs
        that.
        """
        if not takes_weights(self._loaded.pipe):
            return (_Read(self._read(original, args, kwargs)),)
        bound = inspect.signature(original).bind(*args, **kwargs)
        prompt = bound.arguments.get("prompt")
        parts = composed(prompt if isinstance(prompt, str) else "", self._rules)
        if not isinstance(prompt, str) or parts == ((prompt, 1.0),):
            return (_Read(self._read(original, args, kwargs)),)
        if is_composed(prompt, self._rules):
            bound.arguments["do_classifier_free_guidance"] = True
        texts = (*(part.text for part in parts), *prompt_texts({**bound.arguments, "prompt": None}).values())
        least = most_chunks(self._loaded.pipe, texts, self._steps, self._words(), self._rules)
        found: list[_Read] = []
        for part in parts:
            bound.arguments["prompt"] = part.text
            found.append(_Read(self._read(original, bound.args, bound.kwargs, least), part.weight))
        return tuple(found)

    def _words(self) -> Learned:
        return by_tokenizer(partial(learned_tokens, self._loaded.inversions))

    def _read(self, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any], least: int = 1) -> Encoded:
        key, cache = self._key(args, kwargs, least), self._loaded.prompts
        known = None if key is None else cache.get(key)
        if known is not None:
            return known
        wide = as_dtype(self._sampling_dtype())
        result = encode(self._loaded.pipe, original, self._steps, args, kwargs, self._words(), self._rules, least)
        encoded = tuple((last, map_tensors(value, wide)) for last, value in result)
        if key is not None and key == self._key(args, kwargs, least):  # else an encoder was cured on the way
            cache.put(key, encoded)
        return encoded

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], least: int) -> Hashable | None:
        """All that decides about the numbers; None where something in it cannot be compared."""
        values = (*args, *(item for name in sorted(kwargs) for item in (name, kwargs[name])))
        if self._settings is None or not all(isinstance(item, _PLAIN) for item in values):
            return None
        loaded = self._loaded
        states = tuple(
            msgspec.json.encode(loaded.states[name], order="deterministic")
            for name, module in loaded.modules.items()
            if role(name, module) == "encode"
        )
        given = tuple((type(item).__name__, item) for item in values)  # 1 is not True here
        changing = any(isinstance(item, str) and changes(item, self._rules) for item in values)
        read = (self._steps, self._rules) if changing else (None, self._rules._replace(passes=None))
        made = (type(loaded.pipe).__name__, *read, self._sampling_dtype(), least)
        return given, made, states, self._settings

    def _sampling_dtype(self) -> torch.dtype:
        if self._upcast:
            return torch.float32
        for name, module in self._loaded.modules.items():
            if role(name, module) == "denoise":
                return DTYPES[self._loaded.states[name].dtype]
        return torch.float32

    def _change(self, pipe: Any, index: int, _time: Any, present: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What replaces the pipeline's tensors after a step. index: of the step that is done, from 0."""
        done = int(getattr(pipe, "_num_timesteps", 0) or len(pipe.scheduler.timesteps))
        if self._rules.syntax is Syntax.A1111:
            # there a step counts from 0 and changes from 1, so that each lasts a call longer; past the last it is the first again
            self._now = index + 1 if index < self._steps else 1
        else:
            self._now = 1 + (index + 1) * self._steps // max(done, 1)  # a sampler may take two evaluations for a step
        read = next((read[0] for read in self._encoded if len(read[0].encoded) > 1), None)
        return {} if read is None else {name: _both(read.at(self._now), name, now) for name, now in present.items()}


def reads(loaded: Loaded) -> Hashable:
    """What is used beside the model's own parts and changes what its encoders give."""
    return lora_key(loaded.loras), words_key(loaded.inversions)


def _both(result: tuple[Any, ...], name: str, now: torch.Tensor) -> torch.Tensor:
    """The tensor as the pipeline holds it: with guidance the negative one stands before the other."""
    first = 2 if name in _POOLED else 0
    own, negative = result[first], result[first + 1]
    found = own if len(own) == len(now) or negative is None else torch.cat([negative, own])
    return found.to(now)
