"""Prompts composed with AND: the denoiser's answers to each, combined before the pipeline guides with them.

A1111 (modules/sd_samplers_cfg_denoiser.py, combine_denoised) computes uncond + cfg * sum of weight * (cond - uncond). Pipelines
compute uncond + cfg * (cond - uncond), so `cond` becomes uncond + sum of weight * (cond - uncond). The pipeline's call holds the
first prompt; each further one is a call of its own, so that no batch grows. A ControlNet answers for all prompts at once, one
after the other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import PAG
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import map_tensors, tensors_in

Function = Callable[..., Any]
_RESIDUALS: Final = ("down_block_additional_residuals", "mid_block_additional_residual", "block_controlnet_hidden_states")
"""Arguments that a ControlNet gives."""
_UNGUIDED: Final = ("LatentConsistency",)
_OWN_GUIDANCE: Final = ("PAG", "Panorama")
"""Pipelines that guide with more than a prompt and a negative one."""
_LEAST_SUM: Final = 1e-3
"""Smallest sum of weights that a weighted mean is formed with."""
_SKIPPED_LAYERS: Final = "skip_guidance_layers"


class Prompt(NamedTuple):
    """states: (pictures, tokens, width); pooled: None where the model takes none."""

    states: torch.Tensor
    pooled: torch.Tensor | None
    weight: float = 1.0


class Composition(NamedTuple):
    """The prompts of a step; with them the negative one. guided: the pipeline's calls hold it too, before the other."""

    prompts: tuple[Prompt, ...]
    negative: Prompt
    guided: bool

    def is_pair(self, count: int) -> bool:
        """Whether a call for so many pictures holds the negative prompt as well."""
        return count == 2 * len(self.prompts[0].states)

    @property
    def further(self) -> tuple[Prompt, ...]:
        """Those that the pipeline's own call does not hold."""
        return (*self.prompts[1:], *(() if self.guided else (self.negative,)))


def check_composable(pipe: Any, options: Mapping[str, OptionValue], weights: Iterable[float] = (1.0,)) -> None:
    """Raise prompt-uncomposed where the parts of a prompt cannot guide together. weights: of the parts."""
    name = type(pipe).__name__
    detail = None
    if any(word in name for word in _UNGUIDED):
        detail = Words("its pipeline has no classifier-free guidance")
    elif any(word in name for word in _OWN_GUIDANCE) or not hasattr(type(pipe), "do_classifier_free_guidance"):
        detail = Words("its pipeline ({0}) does not guide with one prompt and one negative prompt alone", (name,))
    elif options.get(_SKIPPED_LAYERS):
        # the pipeline makes that call itself, and takes its answer from the composed one: no program defines that difference
        detail = Words("skip-layer guidance would guide with the first of them alone")
    elif options.get(PAG) and abs(sum(weights, 0.0)) < _LEAST_SUM:
        detail = Words("perturbed-attention guidance divides by the sum of their weights, which is 0")
    if detail is not None:
        raise HalftoneError("prompt-uncomposed", detail=detail)


def composition(encoded: Sequence[tuple[tuple[Any, ...], float]], *, guided: bool) -> Composition:
    """Compose what encode_prompt gave for each prompt: its states, those of the negative one, then the pooled vectors."""
    prompts = tuple(Prompt(result[0], result[2] if len(result) > 2 else None, weight) for result, weight in encoded)
    first = encoded[0][0]
    return Composition(prompts, Prompt(first[1], first[3] if len(first) > 3 else None), guided)


def denoised(now: Composition, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The denoiser's result for the pipeline's call, with its prompt's part composed of all."""
    rows, own = _rows(kwargs), len(now.prompts[0].states)
    count = rows + own * len(now.further)

    def asked(start: int, end: int, prompt: Prompt | None) -> Any:
        here = _sliced({name: value for name, value in kwargs.items() if name not in _RESIDUALS}, rows, rows - (end - start))
        shown = {name: map_tensors(kwargs[name], lambda all_: all_[-count:][start:end]) for name in _RESIDUALS if name in kwargs}
        return call(*_sliced(args, rows, rows - (end - start)), **_about({**here, **shown}, prompt))

    first = asked(0, rows, None)
    places = range(rows, count, own)
    others = [asked(place, place + own, prompt) for place, prompt in zip(places, now.further, strict=True)]
    answers = [list(tensors_in(answer)) for answer in (first, *others)]
    made = iter([_combined(now, together) for together in zip(*answers, strict=True)])
    return map_tensors(first, lambda _: next(made))


def together(now: Composition, added: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """What perturbed calls add for all prompts: the mean of what they add for each, with its weight, as in Forge
    (backend/sampling/sampling_function.py, calc_cond_uncond_batch). added: of each call of `denoised`.
    """
    each = [(prompt.weight, one) for prompt, one in zip(now.prompts, added, strict=False) if one is not None]
    total = sum(weight for weight, _ in each)
    return sum((one * (weight / total) for weight, one in each), torch.zeros(())) if each else None


def controlled(now: Composition, call: Function, net: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ControlNet's result for the pipeline's call, then for each further prompt."""
    rows, own = _rows(kwargs), len(now.prompts[0].states)
    here, named = _sliced(args, rows, rows - own), _sliced(kwargs, rows, rows - own)
    answers = [call(*args, **kwargs), *(call(*here, **_about(named, prompt, net)) for prompt in now.further)]
    tensors = [list(tensors_in(answer)) for answer in answers]
    made = iter([torch.cat(together) for together in zip(*tensors, strict=True)])
    return map_tensors(answers[0], lambda _: next(made))


def _rows(kwargs: Mapping[str, Any]) -> int:
    """Pictures of the pipeline's call, those with the negative prompt among them."""
    known = (kwargs.get("encoder_hidden_states"), kwargs.get("hidden_states"), kwargs.get("pooled_projections"))
    return len(next(value for value in known if value is not None))


def _sliced(given: Any, rows: int, start: int) -> Any:
    """The arguments for the last pictures of a call alone."""
    return map_tensors(given, lambda value: value[start:] if start and value.dim() and len(value) == rows else value)


def _about(kwargs: dict[str, Any], prompt: Prompt | None, net: Any = None) -> dict[str, Any]:
    """The arguments with another prompt. net: a ControlNet, which may be meant to see none."""
    if prompt is None:
        return kwargs
    changed = dict(kwargs)
    if (states := kwargs.get("encoder_hidden_states")) is not None:
        changed["encoder_hidden_states"] = prompt.states.to(states)
    if prompt.pooled is not None:
        if kwargs.get("pooled_projections") is not None and not _sees_no_words(net):
            changed["pooled_projections"] = prompt.pooled.to(kwargs["pooled_projections"])
        added = kwargs.get("added_cond_kwargs")
        if added and "text_embeds" in added:
            changed["added_cond_kwargs"] = {**added, "text_embeds": prompt.pooled.to(added["text_embeds"])}
    return changed


def _sees_no_words(net: Any) -> bool:
    first = getattr(net, "nets", [net])[0]
    return bool(getattr(getattr(first, "config", None), "force_zeros_for_pooled_projection", False))


def _combined(now: Composition, answers: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The pipeline's answer, its prompt's part composed, in float32. answers: to the pipeline's call, then to further ones."""
    first, *others = (answer.float() for answer in answers)
    negative, own = first.chunk(2) if now.guided else (others.pop(), first)
    total = torch.zeros_like(own)
    for prompt, answer in zip(now.prompts, (own, *others), strict=True):
        total += prompt.weight * (answer - negative)
    made = negative + total
    return (torch.cat([negative, made]) if now.guided else made).to(answers[0].dtype)
