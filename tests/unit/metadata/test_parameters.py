import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.pictures import picture_facts, resolved
from tests.helpers.read_back import parse_parameters

from halftone.contract.facts import GuardEvent
from halftone.contract.plan import Plan
from halftone.contract.request import IpAdapter
from halftone.library.add_ons.loras import without_tags
from halftone.metadata.parameters import a1111_text, model_name, receipt_json, write_parameters


def test_the_text_reads_as_other_programs_write_it() -> None:
    text = a1111_text(resolved(negative="blurry, low quality"), picture_facts())
    assert text.split("\n") == [
        "a red sun over green hills",
        "Negative prompt: blurry, low quality",
        "Steps: 20, Sampler: DPM++ 2M, Schedule type: Karras, Solver: k-diffusion, CFG scale: 4.5, Seed: 7, Size: 128x96, "
        'Model: pocket, RNG: CPU, Precision: "unet float16, vae float16", Numerics: clean, Version: Halftone 0.1.0',
    ]


def test_a_schedule_of_diffusers_has_no_solver_beside_it() -> None:
    """As the first pictures had it."""
    text = a1111_text(resolved(sampler="DPM++ 2M Karras (diffusers)"), picture_facts())
    assert "Sampler: DPM++ 2M, Schedule type: Karras, CFG scale" in text


def test_a_prompt_stays_as_it_was_typed_and_clip_skip_is_counted_as_a1111_does() -> None:
    typed = "a (red:1.3) [sun:moon:0.5],\nBREAK by \\(someone\\)"
    found = parse_parameters(a1111_text(resolved(prompt=typed, options={"clip_skip": 1}), picture_facts()))
    assert found.prompt == typed
    assert found.fields["Clip skip"] == "2"
    rescaled = parse_parameters(a1111_text(resolved(options={"guidance_rescale": 0.75, "eta": 0.5}), picture_facts())).fields
    assert (rescaled["CFG rescale"], rescaled["Options"]) == ("0.75", '{"eta": 0.5}')
    noisy = resolved(sampler="Euler a Karras", options={"eta_ancestral": 0.0, "s_noise": 1.003, "discard_penultimate": 1})
    fields = parse_parameters(a1111_text(noisy, picture_facts())).fields
    assert (fields["Eta"], fields["Sigma noise"]) == ("0", "1.003")
    assert fields["Discard penultimate sigma"] == "True"
    for options in ({"clip_skip": 0}, {"clip_skip": True}, {}):
        assert "Clip skip" not in parse_parameters(a1111_text(resolved(options=options), picture_facts())).fields


def test_an_ip_adapter_is_told_with_the_names_of_its_pictures() -> None:
    shown = IpAdapter(path="/n/plus.safetensors", images=("/p/a.png", "C:\\p\\b.png"), scale=0.5)
    text = a1111_text(resolved(ip_adapters=(shown,)), picture_facts())
    assert parse_parameters(text).fields["IP-Adapter 0"] == "Model: plus, Weight: 0.5, Pictures: a.png + b.png"


def test_cures_are_told_once_and_folders_never() -> None:
    event = GuardEvent(step=None, component="vae", module="x", kind="nonfinite", action="decoded-again", cure="rescale")
    request, picture = (
        resolved(model="/home/someone/my, model.safetensors"),
        picture_facts(events=(event, event), state="recovered"),
    )
    fields = parse_parameters(a1111_text(request, picture)).fields
    assert (fields["Cure"], fields["Numerics"], fields["Model"]) == ("rescale", "recovered", "my, model")
    receipt = receipt_json(request, picture, Plan(verified=True))
    assert "someone" not in receipt
    assert "somewhere" not in receipt
    assert "00001-7.png" not in receipt, "a copy of the request makes a copy of the file, whatever its name"


def test_cures_in_use_are_told_of_a_picture_that_was_not_watched() -> None:
    picture = picture_facts(state="unwatched", cures={"vae": "upcast-region", "unet": "rescale"})
    fields = parse_parameters(a1111_text(resolved(), picture)).fields
    assert (fields["Numerics"], fields["Cure"]) == ("unwatched", "upcast-region, rescale")


def test_neither_a_name_nor_a_time_stands_in_the_receipt() -> None:
    event = GuardEvent(step=None, component="vae", module="x", kind="nonfinite", action="decoded-again", cure="rescale")
    first = picture_facts(events=(event,), seconds=1.0, path="/a/1.png", index=0)
    later = msgspec.structs.replace(first, seconds=9.0, path="/b/2.png", index=3)
    later = msgspec.structs.replace(later, events=(msgspec.structs.replace(event, seconds=4.0),))
    with_these = {"device": "a card", "torch": "2"}
    receipts = [receipt_json(resolved(), picture, Plan(verified=True), with_these) for picture in (first, later)]
    assert receipts[0] == receipts[1]
    assert json.loads(receipts[0])["made_with"] == with_these
    assert json.loads(receipts[0])["receipt"]["events"][0]["cure"] == "rescale"


def test_numbers_in_the_receipt_are_finite_or_null() -> None:
    receipt = receipt_json(resolved(), picture_facts(room_bits=float("-inf")), Plan(error=float("nan")))
    found = json.loads(receipt, parse_constant=pytest.fail)
    assert found["receipt"]["room_bits"] is None


def test_text_of_other_programs_is_understood() -> None:
    found = parse_parameters(
        "masterpiece, (sun:1.2) <lora:x:0.8>\nsecond line\nNegative prompt: bad\nworse\n"
        'Steps: 28, Sampler: Euler a, CFG scale: 7, Seed: 1, Size: 512x768, Lora hashes: "a: 12, b: 34", Empty: , Version: v1.9'
    )
    assert found.prompt == "masterpiece, (sun:1.2) <lora:x:0.8>\nsecond line"
    assert found.negative == "bad\nworse"
    assert found.fields["Lora hashes"] == "a: 12, b: 34"
    assert "Empty" not in found.fields


def test_text_without_parameters_is_all_prompt() -> None:
    assert parse_parameters("a cat: small, a dog: big").prompt == "a cat: small, a dog: big"
    assert parse_parameters("").prompt == ""
    assert parse_parameters('a\nSteps: 1, Seed: 2, Size: "broken \\x"').fields["Size"] == '"broken \\x"'


def test_model_names_are_short() -> None:
    assert [model_name(name) for name in ("pocket", "C:\\m\\a.safetensors", "/m/b/", "c.v1.safetensors")] == [
        "pocket",
        "a",
        "b",
        "c.v1",
    ]


lines = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30).map(str.strip)
prompts = st.lists(lines.filter(lambda line: not line.startswith("Negative prompt:")), max_size=4).map("\n".join).map(str.strip)
keys = st.from_regex(r"[A-Za-z][A-Za-z0-9 /_\-]{1,15}", fullmatch=True).filter(lambda key: key == key.strip())
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(prompts, prompts, st.dictionaries(keys, values, min_size=3, max_size=8))
def test_what_is_written_is_read_back(prompt: str, negative: str, fields: dict[str, str]) -> None:
    found = parse_parameters(write_parameters(prompt, negative, fields))
    assert (found.prompt, found.negative, found.fields) == (prompt, negative, fields)


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert msgspec.json.encode(parse_parameters(text).fields) is not None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("filler", [" ", "\t", "x", "x ", ": ", ":", "x:", '"', 'xx: "', '\\"', "<lora:", "<lora:x:"])
def test_a_long_run_of_anything_is_read_in_the_time_of_its_length(filler: str) -> None:
    """Where each start is tried to the end of the run, this takes hours."""
    run = filler * (400_000 // len(filler))
    for text in (f"x{run}x", run, f"Steps: 1, a b: {run}, Seed: 2"):
        found = parse_parameters(text)
        assert bool(found.prompt or found.fields) == bool(text.strip()), "nothing is dropped"
        assert len(without_tags(text)) <= len(text)


def test_the_numbers_of_an_option_that_is_on_are_all_written() -> None:
    """Forge reads them, and its own defaults are others."""
    text = a1111_text(resolved(options={"freeu": 2, "freeu_s1": 0.5}), picture_facts())
    written = "freeu_enabled: True, freeu_b1: 1.3, freeu_b2: 1.4, freeu_s1: 0.5, freeu_s2: 0.2, freeu_start: 0, freeu_end: 1"
    assert f"{written}, FreeU version: V2" in text
    assert "freeu" not in a1111_text(resolved(), picture_facts())
