"""What an answer says beside its pictures."""

from pathlib import Path

import msgspec
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.helpers import samples
from tests.helpers.pictures import picture_facts

from halftone.contract.facts import GenerateReport, PassFacts
from halftone.contract.request import LANCZOS, LATENT, Hires, PictureRequest
from halftone.contract.wording import Words
from halftone.library.index.facts import Hashes
from halftone.serve.answers import Source, guidance_notes, info_of, known_hash, model_item, short_hash, unused_notes

HIRES = PictureRequest(prompt="a", steps=4, hires=Hires(scale=2.0, upscaler=LANCZOS, steps=2))
PASSES = (
    PassFacts(kind="first", dtypes={}, width=64, height=64, steps=4, seconds=1.0, room_bits=None),
    PassFacts(kind="second", dtypes={}, width=128, height=128, steps=2, seconds=1.0, room_bits=None),
)


@pytest.mark.parametrize(
    ("text", "request_", "steps"),
    [
        ("a\nSteps: 4, Sampler: Euler, CFG scale: 5, Seed: 7, Hires upscale: 2, Hires steps: 2", HIRES, 4),
        ("a\nSteps: 20, Sampler: Restart, CFG scale: 5, Seed: 7", PictureRequest(prompt="a"), 20),
        ("", PictureRequest(prompt="a", steps=9), 9),
        ("", PictureRequest(prompt="a"), 4),
    ],
)
def test_steps_are_those_that_were_asked_for(tmp_path: Path, text: str, request_: PictureRequest, steps: int) -> None:
    chunks = PngInfo()
    if text:
        chunks.add_text("parameters", text)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png", pnginfo=chunks)
    facts = picture_facts(path=str(tmp_path / "a.png"), steps=39, passes=PASSES)
    assert info_of(request_, Source("pocket"), [facts], [], "")["steps"] == steps


def test_hashes_are_those_of_a1111(tmp_path: Path) -> None:
    """The first ten digits of the whole file's SHA-256; a folder has none."""
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"abc")
    short = "ba7816bf8f"  # of FIPS 180-4's example
    assert short_hash(str(file), {}) == short
    assert short_hash(str(file), {str(file): Hashes("f" * 64, "")}) == "f" * 10, "that of the index is not computed again"
    assert short_hash(None, {}) is short_hash(str(tmp_path), {}) is short_hash(str(tmp_path / "gone"), {}) is None
    said = info_of(PictureRequest(prompt="a"), Source("a", short, "f" * 10), [], [], "")
    assert (said["sd_model_name"], said["sd_model_hash"], said["sd_vae_hash"]) == ("a", short, "f" * 10)
    listed = model_item(samples.POCKET, known_hash("/m", {"/m": Hashes("f" * 64, "")}))
    assert (listed["hash"], listed["sha256"]) == ("f" * 10, "f" * 64)
    assert (model_item(samples.POCKET)["hash"], known_hash("/m", {})) == (None, None)


def test_a_guidance_that_acts_as_1_is_a_warning() -> None:
    report = GenerateReport(images=(), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    note = Words("Guidance: {0} acts as 1.", ("0.5",), about="guidance")
    plan = msgspec.structs.replace(report.plan, reasons=(note, Words("Offload.", about="run")))
    assert guidance_notes(msgspec.structs.replace(report, plan=plan)) == ["Guidance: 0.5 acts as 1."]
    assert guidance_notes(report) == guidance_notes(None) == []


@pytest.mark.parametrize(("way", "said"), [(LANCZOS, "Lanczos"), (LATENT, "Latent")])
def test_an_upscaler_that_is_not_here_names_the_one_that_ran(way: str, said: str) -> None:
    asked = PictureRequest(prompt="a", hires=Hires(scale=2.0, upscaler=way))
    assert unused_notes(["tiling"], ["Hires upscaler: 4x-gone", "Model: x"], asked) == [
        "Not used: tiling.",
        f"There is no upscaler 4x-gone here. {said} was used instead.",
        "Not used: Model: x.",
    ]
