"""Prompts with weights, of any length, and that change over the steps, against what the pipelines make of their parts."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.device import DEVICE, FACTS
from tests.helpers.engine_runs import Recorder, Steady, generate, pixels
from tests.helpers.tiny import load_tiny
from transformers import CLIPTokenizer

from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Hires, Numerics
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import load_pipeline
from halftone.engine.patches.embeddings import encode, split_text, takes_weights
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.library.prompts.composed_prompts import is_read_otherwise
from halftone.library.prompts.prompt_syntax import OWN, Emphasis, Rules, Syntax
from halftone.library.prompts.tokens import END, START, merges, vocabulary

CLIP = ("sd15", "sdxl", "sd3")
LONG = "a photograph of a red sun over green hills, " * 3
"""Letter by letter 132 tokens without the spaces."""


def encoded(
    pipe: Any, prompt: str, negative: str | None = None, steps: int = 4, rules: Rules = OWN, **more: Any
) -> list[tuple[int, Any]]:
    texts: dict[str, Any] = {"prompt": prompt, "negative_prompt": negative}
    if type(pipe).__name__ != "StableDiffusionPipeline":
        texts["prompt_2"] = more.pop("prompt_2", None)
    if type(pipe).__name__ == "StableDiffusion3Pipeline":
        texts |= {"prompt_3": None, "max_sequence_length": 64}
    else:
        texts |= {"do_classifier_free_guidance": True}
    given = {**texts, "device": pipe.device, "num_images_per_prompt": 1, **more}
    with torch.no_grad():
        return list(encode(pipe, pipe.encode_prompt, steps, (), given, rules=rules))


def one(pipe: Any, prompt: str, negative: str | None = None, **more: Any) -> Any:
    ((_, result),) = encoded(pipe, prompt, negative, **more)
    return result


def same(first: Any, second: Any) -> bool:
    pairs = zip(first, second, strict=True)
    return all(a is b if a is None or b is None else torch.equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module", params=CLIP)
def pipe(request: pytest.FixtureRequest, models: dict[str, Path]) -> Any:
    return load_tiny(models[request.param])


def rows(pipe: Any) -> int:
    """Of the sequence that CLIP gives for a chunk."""
    return pipe.tokenizer.model_max_length


def clip_width(pipe: Any) -> int:
    encoders = (pipe.text_encoder, getattr(pipe, "text_encoder_2", None))
    return sum(encoder.config.hidden_size for encoder in encoders if encoder is not None)


def test_a_short_plain_prompt_takes_the_pipelines_own_way(pipe: Any) -> None:
    called: list[tuple[Any, ...]] = []
    answer = (torch.ones(1), None)

    def own(prompt: str, negative_prompt: str | None = None, **_rest: Any) -> Any:
        called.append((prompt, negative_prompt, type(pipe.tokenizer).__name__))
        return answer

    assert encode(pipe, own, 4, ("a red sun",), {"negative_prompt": "bad"}) == ((4, answer),)
    assert called == [("a red sun", "bad", "CLIPTokenizer")]


def test_a_weight_of_one_changes_no_bit(pipe: Any) -> None:
    assert same(one(pipe, "(a red sun:1)", "(bad:1.0)"), one(pipe, "a red sun", "bad"))


@pytest.mark.parametrize("brackets", ["()", "[]", "(())", "(:1.2)", "( )"])
def test_brackets_around_nothing_are_an_empty_prompt(pipe: Any, brackets: str) -> None:
    assert same(one(pipe, brackets, "bad"), one(pipe, "", "bad"))
    assert same(one(pipe, "a red sun", brackets), one(pipe, "a red sun", ""))


def test_brackets_that_are_letters_are_read(pipe: Any) -> None:
    own = pipe.tokenizer("(red)", padding="max_length", max_length=rows(pipe), return_tensors="pt")
    chunks = split_text(pipe.tokenizer, r"\(red\)")
    assert list(chunks[0].ids) == own.input_ids[0, 1:6].tolist()
    assert not same(one(pipe, r"\(red\)"), one(pipe, "red"))


def test_a_long_prompt_is_the_parts_one_after_the_other(pipe: Any) -> None:
    first, second = "a" * 75, "b" * 10
    joined = one(pipe, f"{first} {second}", "bad")
    parts = [one(pipe, part, negative) for part, negative in ((first, "bad"), (second, ""))]
    for side in (0, 1):
        assert torch.equal(joined[side][:, : 2 * rows(pipe)], torch.cat([part[side][:, : rows(pipe)] for part in parts], 1))
        assert joined[side].shape[1] == parts[0][side].shape[1] + rows(pipe)
    assert all(torch.equal(joined[place], parts[0][place]) for place in range(2, len(joined))), "the pooled vector is the first's"


def test_a_break_is_where_the_prompt_is_cut(pipe: Any) -> None:
    result = one(pipe, "red BREAK blue", "bad")
    assert torch.equal(result[0][:, : rows(pipe)], one(pipe, "red")[0][:, : rows(pipe)])
    assert torch.equal(result[0][:, rows(pipe) : 2 * rows(pipe)], one(pipe, "blue")[0][:, : rows(pipe)])
    assert torch.equal(result[1][:, rows(pipe) : 2 * rows(pipe)], one(pipe, "x", "")[1][:, : rows(pipe)]), "padded with nothing"


def test_a_weight_scales_its_words_and_the_mean_stays(pipe: Any) -> None:
    plain, weighted = one(pipe, "a red sun", "bad"), one(pipe, "a (red:1.5) sun", "bad")
    ratio = weighted[0][0, : rows(pipe)] / plain[0][0, : rows(pipe)]
    start = 0
    for encoder in [e for e in (pipe.text_encoder, getattr(pipe, "text_encoder_2", None)) if e is not None]:
        part = ratio[:, start : start + encoder.config.hidden_size]
        before, after = (
            states[0][:, : rows(pipe), start : start + encoder.config.hidden_size].float().mean() for states in (plain, weighted)
        )
        start += encoder.config.hidden_size
        assert torch.allclose(part[2:5] / part[0, 0], torch.full_like(part[2:5], 1.5), rtol=1e-4)
        assert torch.allclose(part[5:], part[0, 0].expand_as(part[5:]), rtol=1e-4), "no other word, nor the padding"
        kept = torch.allclose(before, after, rtol=1e-3)
        assert kept or torch.allclose(part[0, 0], torch.tensor(1.0)), "a mean next to nothing is left alone"
    assert start == clip_width(pipe)
    assert torch.equal(weighted[1], plain[1]), "the negative one has no weights"
    assert same(weighted[2:], plain[2:]), "nor has the pooled vector"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_weight_scales_alike_in_every_precision(models: dict[str, Path], dtype: torch.dtype) -> None:
    """The last norm of the tiny encoder has no bias, so the mean is zero but for rounding, which no ratio may be formed of."""
    pipe = load_tiny(models["sd15"])
    prompts = [f"a ({letter}:1.3) sun BREAK {letter}" for letter in "abcdefgh"]
    wide = [one(pipe, prompt)[0] for prompt in prompts]
    pipe.text_encoder.to(dtype)
    for prompt, expected in zip(prompts, wide, strict=True):
        found = one(pipe, prompt)[0].float()
        error = float((found - expected).norm() / expected.norm())
        assert error < 0.02, f"{prompt}: {error:.3f} off"


def test_another_encoder_beside_clip_reads_the_words_alone(models: dict[str, Path]) -> None:
    pipe = load_tiny(models["sd3"])
    assert torch.equal(one(pipe, "a (red:1.5) sun")[0][:, 77:], one(pipe, "a red sun")[0][:, 77:])
    assert not torch.equal(one(pipe, r"a \(red\) sun")[0][:, 77:], one(pipe, "a red sun")[0][:, 77:])


@pytest.mark.parametrize("pad", ["<|endoftext|>", "!"], ids=["first encoder", "second encoder of SDXL"])
def test_a_chunk_of_real_words_is_what_the_tokenizer_itself_gives(models: dict[str, Path], pad: str) -> None:
    pipe = load_tiny(models["sd15"])
    marks: dict[str, Any] = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": pad, "model_max_length": 77}
    pipe.tokenizer = CLIPTokenizer(vocab=vocabulary(), merges=cast("Any", merges()), **marks)
    asked: list[Any] = []

    def own(prompt: str, negative_prompt: str) -> Any:
        given = [pipe.tokenizer(text, padding="max_length", max_length=77) for text in (prompt, negative_prompt)]
        asked.append([(one.input_ids[0].tolist(), one.attention_mask[0].tolist()) for one in given])
        return torch.zeros(1, 77, 16), torch.zeros(1, 77, 16)

    text = "a photograph of a red sun, over (green) hills: it's 12:30!"
    wanted = [pipe.tokenizer(one, padding="max_length", max_length=77) for one in (text, "bad hands")]
    encode(pipe, own, 4, (), {"prompt": text.replace("(", r"\(").replace(")", r"\)"), "negative_prompt": "[bad] hands"})
    assert asked == [[(one.input_ids, one.attention_mask) for one in wanted]]


def test_a_second_prompt_is_read_by_its_own_encoder(models: dict[str, Path]) -> None:
    pipe = load_tiny(models["sdxl"])
    result = one(pipe, "red", "bad", prompt_2="a BREAK b BREAK c")
    assert result[0].shape[1] == 3 * 77
    wide = pipe.text_encoder.config.hidden_size
    assert torch.equal(result[0][:, :77, :wide], one(pipe, "red")[0][:, :, :wide])
    assert torch.equal(result[0][:, 154:, wide:], one(pipe, "c")[0][:, :, wide:])


def test_clip_skip_holds_for_every_chunk(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    generate(engine, models["sd15"])
    assert engine.loaded is not None
    pipe = engine.loaded.pipe
    skipped = one(pipe, "red BREAK blue", clip_skip=1)
    assert torch.equal(skipped[0][:, 77:], one(pipe, "blue", clip_skip=1)[0])
    assert not torch.equal(skipped[0][:, 77:], one(pipe, "blue")[0])


def test_the_tokenizers_are_put_back(pipe: Any) -> None:
    before = {name: id(part) for name, part in pipe.components.items()}
    one(pipe, "(red:1.5) BREAK blue")

    def failing(**_rest: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        encode(pipe, lambda prompt: failing(prompt=prompt), 4, ("(red)",), {})
    assert {name: id(part) for name, part in pipe.components.items()} == before


def test_a_prompt_that_changes_is_encoded_for_each_of_its_steps(pipe: Any) -> None:
    found = encoded(pipe, "a [red:blue:0.5] sun", "bad", steps=4)
    assert [last for last, _ in found] == [2, 4]
    assert same(found[0][1], one(pipe, "a red sun", "bad"))
    assert same(found[1][1], one(pipe, "a blue sun", "bad"))
    assert [last for last, _ in encoded(pipe, "[red|blue]", steps=4)] == [1, 2, 3, 4]
    long = encoded(pipe, "a [red: BREAK b:0.5]", "bad", steps=4)
    assert {result[side].shape for _, result in long for side in (0, 1)} == {long[0][1][0].shape}


def test_only_families_of_clip_take_weights(models: dict[str, Path]) -> None:
    assert {family: takes_weights(load_tiny(models[family])) for family in ("sd15", "sdxl", "sd3", "sana")} == {
        "sd15": True,
        "sdxl": True,
        "sd3": True,
        "sana": False,
    }


# --- whole pictures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CLIP)
def test_pictures_follow_weights_length_and_changes(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    def picture(prompt: str, steps: int = 4) -> Any:
        return pixels(generate(engine, models[family], family=family, prompt=prompt, guidance=5.0, steps=steps)[0])

    plain = picture("a red sun")
    assert np.array_equal(picture("(a red sun:1)"), plain)
    assert not np.array_equal(picture("a (red:1.8) sun"), plain)
    assert not np.array_equal(picture(LONG + "x" * 60), picture(LONG + "y" * 60)), "the end is read"
    assert np.array_equal(picture("[a red sun:blue:9]"), plain)
    assert np.array_equal(picture("[blue:a red sun:0]"), plain)
    changed = picture("[blue:a red sun:0.5]")
    assert not np.array_equal(changed, plain)
    assert not np.array_equal(changed, picture("blue"))
    assert np.array_equal(picture("[a red sun|a red sun]"), plain)


def test_a_model_without_weights_reads_the_words_and_says_so(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    plain, _ = generate(engine, models["sana"], family="sana", prompt="a red sun")
    weighted, _ = generate(engine, models["sana"], family="sana", prompt="a (red:1.5) [sun]")
    assert np.array_equal(pixels(plain), pixels(weighted))
    with Image.open(weighted.images[0].path) as image:
        told = str(image.info)
    assert "has no prompt weights" in told
    assert "a (red:1.5) [sun]" in told, "the prompt stays as it was typed"


def test_half_precision_with_weights_is_clean(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sdxl"], "float16", family="sdxl", prompt=LONG + "(red:1.8) BREAK [sun:moon:0.5]")
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)


def test_the_check_reads_a_prompt_the_same_way(models: dict[str, Path]) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), DEVICE)
    inputs = CheckInputs(width=32, height=32, guidance=7.0, prompt="(red:1.5) BREAK blue")
    command = Examine(job="c", model=loaded.facts.id, numerics=Numerics(precision="float16"), inputs=inputs)
    examination = Examination(loaded, FACTS, None, command, Recorder(), Steady())
    examination.run()
    assert examination.wide is not None
    read = [call.args[0][0].tolist() for call, _ in examination.wide.of("text_encoder")]
    full = {"padding": "max_length", "max_length": 77}
    assert read[:3] == [loaded.pipe.tokenizer(text, **full).input_ids for text in ("red", "", "blue")]
    contexts = [call.kwargs["encoder_hidden_states"] for call, _ in examination.wide.of("unet")]
    assert {context.shape[1] for context in contexts} == {2 * 77}


def conditioned(models: dict[str, Path], program: str, rules: Rules) -> list[str]:
    """The prompts whose states differ from those that another program's code computed with the same encoder."""
    pipe = load_tiny(models["sd15"])
    bias = dict(pipe.text_encoder.named_parameters())
    with torch.no_grad():  # else the mean that is kept is zero
        next(each for name, each in bias.items() if name.endswith("final_layer_norm.bias")).fill_(0.3)
    known = json.loads((Path(__file__).parents[2] / "references" / "prompts.json").read_text("utf-8"))[program]
    rows = known.get("conditioning") or known["rows"]
    line = torch.cos(torch.arange(pipe.text_encoder.config.hidden_size, dtype=torch.float32, device=pipe.device))
    different: list[str] = []
    for row in rows:
        expected = torch.tensor(row["states"])
        (_, states), *_ = encoded(pipe, row["prompt"], row["prompt"], rules=rules)
        own = (states[0][0].float() @ line).cpu()
        if own.shape != expected.shape or not float((own - expected).norm() / expected.norm()) <= 1e-4:
            different.append(row["prompt"])
    print(f"{len(rows)} prompts, {len(rows) - len(different)} conditioned as in {program}")
    return different


def test_prompts_condition_as_in_a1111_and_comfyui(models: dict[str, Path]) -> None:
    otherwise = [prompt for prompt in conditioned(models, "a1111", OWN) if not is_read_otherwise(prompt, Rules(Syntax.A1111))]
    assert otherwise == [], "only those that Halftone's syntax reads otherwise"
    assert conditioned(models, "a1111", Rules(Syntax.A1111)) == ["(a:[b:c:3]:2)"], "the exception that the guide names"
    assert conditioned(models, "comfyui", Rules(Syntax.COMFYUI)) == []


def test_emphasis_is_that_of_a1111(pipe: Any) -> None:
    """modules/sd_emphasis.py: the states times the weights; nothing; brackets as they are written."""

    def states(prompt: str, emphasis: Emphasis = Emphasis.ORIGINAL) -> torch.Tensor:
        return one(pipe, prompt, rules=Rules(emphasis=emphasis))[0][:, : rows(pipe), : clip_width(pipe)].float()

    plain = states("a red sun")
    weights = torch.ones(rows(pipe), 1)
    weights[2:5] = 1.5  # letter by letter, after the mark of the start
    expected = plain.cpu() * weights
    torch.testing.assert_close(states("a (red:1.5) sun", Emphasis.NO_NORM).cpu(), expected[:, : rows(pipe)])
    assert torch.equal(states("a (red:1.5) sun", Emphasis.IGNORE), plain)
    literal = states("a \\(red:1.5\\) sun")
    assert torch.equal(states("a (red:1.5) sun", Emphasis.NONE), literal)


def test_a_picture_follows_the_syntax_that_is_asked_for(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    made = [
        pixels(generate(engine, models["sd15"], prompt=prompt, steps=2, options=options)[0])
        for prompt, options in (
            ("a (red", {}),
            ("a (red", {"prompt_syntax": 1}),
            ("a (red:1.1)", {}),
            ("a [red:blue:1]", {"prompt_syntax": 2}),
            ("a \\[red:blue:1\\]", {}),
        )
    ]
    assert not np.array_equal(made[0], made[1])
    assert np.array_equal(made[1], made[2])
    assert np.array_equal(made[3], made[4])


def prompts_seen(engine: DiffusersEngine, model: Path, prompt: str, letters: str, **changes: Any) -> str:
    """The letter whose states each call of the denoiser saw."""
    made: dict[str, Any] = {"steps": 1, **changes}
    generate(engine, model, prompt=prompt, **made)
    assert engine.loaded is not None
    pipe, found = engine.loaded.pipe, list[str]()
    known = {letter: one(pipe, letter)[0] for letter in letters}

    def note(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        states = kwargs["encoder_hidden_states"][-1:]
        found.append(next(letter for letter, own in known.items() if torch.equal(own, states)))

    hook = pipe.unet.register_forward_pre_hook(note, with_kwargs=True)
    generate(engine, model, prompt=prompt, **changes)
    hook.remove()
    return "".join(found)


@pytest.mark.parametrize(
    ("prompt", "changes", "seen"),
    [
        ("[a:b:2]", {}, "aabbbb"),
        ("[a:b:2]", {"options": {"prompt_syntax": 1}}, "aaabbb"),
        ("[a:b:0.5]", {"options": {"prompt_syntax": 1}}, "aaaabb"),
        ("[a|b]", {"options": {"prompt_syntax": 1}}, "aababa"),
        ("[a:b:2]", {"options": {"prompt_syntax": 1}, "sampler": "Heun", "steps": 3}, "aaabb"),
        ("[a:b:2]", {"sampler": "Heun", "steps": 3}, "aaaab"),
    ],
)
def test_changes_count_as_the_syntax_says(
    engine: DiffusersEngine, models: dict[str, Path], prompt: str, changes: dict[str, Any], seen: str
) -> None:
    """A1111 (modules/sd_samplers_cfg_denoiser.py) looks for the first end that is not before a count of calls from 0."""
    assert prompts_seen(engine, models["sd15"], prompt, "ab", **{"steps": 6, "guidance": 5.0, **changes}) == seen


@pytest.mark.parametrize(
    ("prompt", "options", "second"),
    [("[a:b:6]", {"prompt_syntax": 1}, "aaab"), ("[a:b:1.25]", {"prompt_syntax": 1}, "aabb")],
)
def test_changes_count_on_in_the_second_pass(
    engine: DiffusersEngine, models: dict[str, Path], prompt: str, options: dict[str, Any], second: str
) -> None:
    hires = Hires(scale=2.0, strength=0.5, steps=4)
    seen = prompts_seen(engine, models["sd15"], prompt, "ab", steps=4, guidance=5.0, hires=hires, options=options)
    assert (seen[:4], seen[4:]) == ("aaaa", second)


def test_changes_begin_again_in_the_second_pass_in_halftones_syntax(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    hires = Hires(scale=2.0, strength=0.5, steps=4)
    assert prompts_seen(engine, models["sd15"], "[a:b:0.5]", "ab", steps=4, guidance=5.0, hires=hires) == "aabbaabb"
