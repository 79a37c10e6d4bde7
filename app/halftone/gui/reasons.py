"""What the core gives as finished English (reasons, refusals, details of errors), in the user's language.

A sentence is recognised by its template, and its parts are put into the translated template.
"""

import re
from functools import cache
from typing import Final

from halftone.gui.i18n import language, listed, tr

TEMPLATES: Final = (
    "Not checked on this device yet.",
    "Checked in {0}, not in {1} yet.",
    "The file holds numbers that are not numbers.",
    "The numbers go bad in FP32, and no cure reaches further.",
    "No cure passed the check.",
    "The check found no cure.",
    "Passed the check with its cure.",
    "A value passed the limit, or a bad number appeared. A cure is ready.",
    "No value passed the limit, but the smallest room is below 2 bits.",
    "Every layer has at least 2 bits of room.",
    "The model's files changed since the check.",
    "The check was made on another device, {0}.",
    "The driver changed since the check, from {0} to {1}.",
    "PyTorch changed since the check, from {0} to {1}.",
    "The setting “{0}” changed since the check.",
    "FP32: nothing else was measured.",
    "FP32: {0} has not been measured yet.",
    "{0} of {1} layers of the LoRA {2} found no place in this model and were left out.",
    "{0}, as set.",
    "{0}, as set, though the self-test found it {1} on {2}.",
    "{0}: every test passed, and it is {1} × as fast as FP32 ({2}); {3}.",
    "{0}: every test passed, and it is {1} × as fast as FP32 ({2}).",
    "{0}: every test passed, and it is {1} × as fast as FP32; {2}.",
    "{0}: every test passed, and it is {1} × as fast as FP32.",
    "FP32: {0}.",
    "FP32 gives bad numbers as well, so there is nothing to compare with.",
    "It gives bad numbers as well.",
    "The model cannot be run with it.",
    "Nothing that it changes was run.",
    "Its result differs from FP32 by {0}.",
    "Its picture differs from FP32 ({0}).",
    "Everything runs in FP32 here.",
    "This device cannot compute in it.",
    "Only on NVIDIA cards.",
    "This version of PyTorch has no such switch.",
    "Could not be measured on this device.",
    "Changes nothing on this device.",
    "Not available on a processor.",
    "Not available on this device.",
    "Gives wrong results on this device.",
    "Changes nothing while the numbers are sound.",
    "Depends on the model and the size.",
    "Costs and saves nothing until {0}.",
    "The whole model runs in {0}. It reaches as far as FP32 and keeps 8 bits of detail instead of 11.",
    "The whole model runs in {0}.",
    "{0} runs in FP32, until the numbers are back in range; {1}\u00a0% of the model stays in {2}.",
    "{0} run in FP32, until the numbers are back in range; {1}\u00a0% of the model stays in {2}.",
    "{0} runs in {1}. It reaches as far as FP32 and keeps 8 bits of detail instead of 11.",
    "{0} run in {1}. It reaches as far as FP32 and keeps 8 bits of detail instead of 11.",
    "{0} runs in {1}.",
    "The results of {0} stay in FP32.",
    "The inputs of {0} are scaled by powers of two, and their results stay in FP32.",
    "{0}: 1 layer is scaled by powers of two, up to 2^{1}; the result is the same in exact arithmetic.",
    "{0}: {1} layers are scaled by powers of two, up to 2^{2}; the result is the same in exact arithmetic.",
    "Attention sums run in FP32 again.",
    "Attention uses a backend that keeps its scores in FP32.",
    "Attention scores are computed in FP32.",
    "Sums of products are kept in FP32.",
    "Partial sums are kept in FP32.",
    "The steps between two model calls run in FP32.",
    "{0} run in {1}.",
    "{0} in FP32: Keep the VAE in FP32 is set to Always.",
    "Cross-attention of {0} in FP32: Upcast cross-attention is set to Always.",
    "Upcast cross-attention has no effect: {0} has no separate cross-attention.",
    "{0}: computed {1}, as that gave a sound picture before on this device.",
    "The VAE decodes in tiles: VAE tiling is set to Always.",
    "The VAE decodes in tiles: without them about {0} would be needed, more than is free.",
    "Offload ({0}): all at once would need about {1}, more than is free.",
    "Seed {0}: drawn at random.",
    "Steps: the pipeline's own default.",
    "Sampler: the model's own.",
    "Prompt: this model reads none.",
    "Negative prompt: this model reads none.",
    "Guidance: this model takes none.",
    "This model's text encoder takes no weights: it reads the prompt without the brackets.",
    "This model reads one prompt for all steps: of what changes with the step it reads what stands first.",
    "AND is read as a word: prompts are not weighed against each other.",
    "A bracket without its partner is read as a letter: “{0}”.",
    "Variables (${…}) are not followed: they are read as words.",
    "@ and ~ before choices and wildcards are not followed: each picture draws for itself.",
    "Jinja templates are not followed: they are read as words.",
    "A curly bracket without its partner is read as a letter.",
    "Variation seed {0}: drawn at random.",
    "{0} frames were computed; the first one is saved.",
    "The control picture of {0} is {1} × {2} and was stretched to {3} × {4}.",
    "The start picture is {0} × {1} and was stretched to {2} × {3}.",
    "The start picture is {0} × {1} and was cut to {2} × {3}.",
    "The start picture is {0} × {1} and was filled up to {2} × {3}.",
    "The mask is {0} × {1} and was scaled to the picture's {2} × {3}.",
    "Strength: the pipeline's own default.",
    "{0} has no effect on {1}: it is a switch of CUDA's matrix products.",
    "Attention backend {0} does not exist on {1}: torch's own choice is used.",
    "Half-precision math attention reduction acts only with the math backend.",
    "Offload has no effect on {0}: the weights are in its memory already.",
    "{0}: {1} of {2} layers are stored in FP8; the others would lose by it.",
    "{0}: {1} layers are stored in FP8.",
    "FP8 storage leaves a transformer of its own file as that file has it.",
    "PyTorch finds no C++ compiler, which it needs to compile for a processor.",
    "PyTorch finds no Triton, which it needs to compile for a GPU.",
    "Each picture tells its own times.",
    "Compile has no effect: {0} names no blocks that repeat.",
    "Compile is left out: PyTorch finds no C++ compiler, which it needs to compile for a processor.",
    "Compile is left out: PyTorch finds no Triton, which it needs to compile for a GPU.",
    "Compile is left out: a cure computes some layers of {0} in FP32.",
    "Compile is left out: the weights of {0} come to the GPU part by part.",
    "Compile is left out: the weights of {0} are kept in fewer bits and widened layer by layer.",
    "Compile is left out, because torch's compiler failed here: {0}.",
    "Compile: from a fault on the model ran as it is, so that its cause could be found.",
    "Compile: the first step, which compiles, took {0} s.",
    "Compile: the first step took {0} s, the others {1} s each.",
)
MISSING: Final = ("folder {0}", "weights of {0} (a .safetensors file)", "tensor {0} in {1}")
"""Parts that a folder lacks, alone or in a list with files."""
FRAGMENTS: Final = (
    "the model {0} is larger than the free memory of {1}",
    "{0} tensors of {1} are not in its files, first {2}",
    "it does not hold {0}",
    "the memory ended at {0} × {1}",
    "The size of {0}, {1} times larger,",
    "its plan names what the model lacks",
    "it is not clear what model it is",
    "its weights are quantised ({0}), which Halftone does not read; it holds only the denoiser of {1}",
    "its weights are quantised ({0}), which Halftone does not read; it holds {1}",
    "it holds only the denoiser of {0}; a run also needs these parts: {1}; and these small files: {2}",
    "it holds parts of a model, but no denoiser: {0}",
    "it holds {0}; a run also needs these parts: {1}; and these small files: {2}",
    "it holds {0}, which runs only as a diffusers folder, with these small files beside its weights: {1}",
    "it is file {0} of {1} of a divided model, which runs only whole, as a folder",
    "it is only the first of two stages, which makes no picture alone; choose a folder that holds both",
    "it is only the second of two stages, which needs what the first one made; choose a folder that holds both",
    "its VAE takes {0} channels, and its denoiser gives {1}",
    "it is only one part of a model ({0}); choose the folder above it, which holds model_index.json",
    "it is a {0} for {1}, not a whole model",
    "it is an {0} for {1}, not a whole model",
    "it is a {0}, not a whole model",
    "it is an {0}, not a whole model",
    "it does not begin as a GGUF file does",
    "it is written for big-endian machines",
    "its GGUF version {0} is not known",
    "it is larger than {0} bytes",
    "it claims to hold {0} tensors",
    "it claims to hold {0} pairs",
    "it claims to hold {0} texts",
    "it holds a text of {0} bytes",
    "it holds a text that is not UTF-8",
    "it holds a value of the unknown kind {0}",
    "its alignment cannot be {0}",
    "tensor {0} has {1} dimensions",
    "tensor {0} does not divide into blocks of {1}",
    "tensor {0} overlaps another",
    "it has no weight_map",
    "it has no {0}",
    "it is larger than any such file",
    "it is not valid JSON ({0})",
    "it is not valid JSON",
    "it is not UTF-8 text",
    "it is nested too deeply",
    "it is a web page, not a model",
    "it is a GGUF file under another name",
    "it is a text file under another name",
    "it claims to be {0} bytes long",
    "it cannot be read",
    "the server does not answer",
    "the server answered {0}",
    "what came is cut off, or no tokenizer",
    "what came is the tokenizer of another model",
    "it is a folder",
    "it is a pickle file, which can run code when it is opened, so Halftone does not open it",
    "its tensors have no LoRA's names",
    "its tensors have no VAE's names",
    "the model has no VAE that could be replaced",
    "its weights are divided into several files",
    "it is a folder; choose the file inside it",
    "it is neither a .gguf nor a .safetensors file",
    "it is file {0} of {1} of a divided model",
    "its weights are quantised ({0}), which Halftone does not read",
    "its weights are stored as {0}, which diffusers cannot unpack",
    "diffusers reads the transformer of {0} in its own names only",
    "the model has two of them",
    "the model has none that could be replaced",
    "it is {0}, and the model is {1}",
    "it is {0}, and the model's own is {1}",
    "it holds {0} numbers, and the model's own {1}",
    "it has no tensor {0}",
    "its tensor {0} is {1}, and the model's own is {2}",
    "it is a whole model; choose the folder of its VAE inside it",
    "it is a folder without a config.json",
    "its config.json is not that of a VAE",
    "this {0} can be read only as a diffusers folder",
    "it is of the class {0}, the model's own VAE of {1}",
    "it takes {0} channels, and the model gives {1}",
    "it makes {0} pixels wide of one latent, the model's own VAE {1}",
    "it divides by {0}, the model's own VAE by {1}, so it belongs to another family",
    "it shifts or scales in another way than the model's own VAE, so it belongs to another family",
    "its tensors have no embedding's names",
    "it holds no vectors, or more than {0}",
    "its text encoder takes no words from a file",
    "its vectors have {0} numbers, the model's words {1}",
    "it holds words for one text encoder, and the model has {0}",
    "its tensors have no ControlNet's names",
    "it is a whole model",
    "its config.json is not that of a ControlNet that runs here",
    "this kind of ControlNet does not run from a file yet",
    "no ControlNet runs with {0} models here",
    "diffusers has none that starts from a picture",
    "it is of the class {0}, and those for this model are of {1}",
    "its {0} is {1}, and the model's is {2}",
    "The strength of the ControlNet {0}",
    "a file that has styles",
    "given no picture",
    "none that gives {0} numbers is at {1}",
    "The part of the steps of the ControlNet {0}",
    "a part from 0 to 1, for instance 0 to 0.8",
    "it is a whole {0} model",
    "it is a {0}",
    "its tensors have other names or sizes than the model's",
    "none of its tensors has a place in the model",
    "diffusers cannot add LoRAs to {0} models",
    "{0} and {1} more",
    "a number, for instance 0.8",
    "one weight for the text encoder and everything else, for instance 0.8",
    "The weight of the LoRA {0}",
    "{0} bytes at its end belong to no tensor",
    "the name {0} stands in it twice",
    "the entry {0} is wrong ({1})",
    "tensor {0} has the unknown type {1}",
    "tensor {0} ends before it begins",
    "tensor {0} has {1} bytes, which is not what its shape needs",
    "{0} bytes before tensor {1} belong to no tensor",
    "tensors {0} and {1} overlap",
    "a value that the pipeline takes",
    "used without a picture",
    "used with a mask",
    "one of the two",
    "used with a video",
    "it for pictures",
    "its pipeline starts from no picture",
    "its pipeline does not draw over a picture",
    "its latents cannot be interpolated; another upscaler can be chosen",
    "no kind of upscale model that is known has such weights",
    "it makes no colour picture of a colour picture",
    "used without a mask",
    "given together with a size",
    "only --outpaint: the size comes from the start picture",
    "--image as well",
    "1 with kept latents",
    "it lies inside the model's own folder",
    "the system keeps no files there",
    "the model's own, {0}",
    "(no path)",
    "its messages could not be read: {0}",
    "the system ended it, often because memory ran out",
    "it crashed with {0}",
    "it was ended by {0}",
    "it ended without a word",
    "it ended with code {0}",
    "Permission denied",
    "Read-only file system",
    "No space left on device",
    "No such file or directory",
    "Is a directory",
    "Not a directory",
    "File exists",
    "File name too long",
    "Input/output error",
    *MISSING,
)
"""Facts of errors that are words; the last ones are the system's own."""
PARTS: Final = (
    "{0} is faulty here",
    "{0} is no faster than FP32 here",
    "{0} is slower than FP32 here",
    "{0} is missing here",
    "faulty",
    "slow",
    "missing",
    "none",
    "a picture decoder overflows",
    "attention scores overflow",
    "the denoiser (UNet)",
    "the VAE",
    "the denoiser (transformer)",
    "the text encoder {0}",
    "VAE ({0} channels)",
    "text encoder ({0})",
    "text encoder {0}",
    "image encoder ({0})",
    "upscaler ({0})",
    "upscaler",
    "textual inversion",
    "motion module",
    "style model",
    "text width",
    "layer width",
    "size input",
)
"""What may stand inside a template, alone or in a list."""
LISTS: Final = (
    "{0} to {1} ({2} blocks)",
    "{0} to {1} ({2} layers)",
    "{0} and {1}",
    "Text encoder {0}",
    "Denoiser (transformer) {0}",
    "with its layers rescaled exactly",
    "with a safer setting",
    "with the failing parts in full precision",
    "in BF16",
    "in full precision",
    "with the whole model in full precision",
)
"""What may stand inside a reason too: layers, components, cures; a file's name may read like one of these."""


def reason(sentence: str) -> str:
    """The sentence in the language in force; as it stands where its template is not known."""
    if language() == "en":
        return sentence
    return _filled(sentence, TEMPLATES, (*PARTS, *LISTS)) or tr(sentence)


def fragment(words: str) -> str:
    """A fact of an error in the language in force; names, paths and what a library says stay as they are."""
    if language() == "en":
        return words
    found = _filled(words, FRAGMENTS, PARTS)
    if found:
        return found
    listing = [_filled(entry, MISSING, ()) for entry in words.split(", ")]
    if any(listing):
        return listed(*(said or entry for said, entry in zip(listing, words.split(", "), strict=True)))
    first, between, last = words.rpartition(" or ")
    return (
        tr("{0} or {1}", first, last) if between and "." not in first and len(first.split()) == first.count(", ") + 1 else words
    )


def problem(error: Exception) -> str:
    """What the system says of a file that could not be read or written, in the language in force."""
    return fragment((error.strerror if isinstance(error, OSError) else None) or str(error))


def recognised(sentence: str) -> bool:
    """True when a template fits."""
    return any(_pattern(template).fullmatch(sentence) for template in (*TEMPLATES, *FRAGMENTS))


def _filled(sentence: str, templates: tuple[str, ...], parts: tuple[str, ...]) -> str:
    for template in templates:
        match = _pattern(template).fullmatch(sentence)
        if match is not None:
            return tr(template, *(_part(value, parts) for value in match.groups())) if match.groups() else tr(template)
    return ""


def _part(value: str, parts: tuple[str, ...]) -> str:
    return listed(*(_filled(entry, parts, parts) or tr(entry) for entry in value.split(", ")))


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(piece) for piece in re.split(r"\{\d\}", template)))
