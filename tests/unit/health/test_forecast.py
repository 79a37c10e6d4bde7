"""The memory of the next picture, from the model's own files and the pictures that were made."""

from typing import Any

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.facts import MemoryFacts, PictureFacts, Shortage
from halftone.contract.request import Control, IpAdapter, Numerics, PictureRequest
from halftone.health.forecasts.memory_forecast import Way
from halftone.health.forecasts.picture_memory import Forecast, Next, forecast
from halftone.health.pictures.shortage_sentences import shortage_note
from halftone.library.families.networks import known_networks
from halftone.library.models import describe

POCKET = describe("pocket")
NETWORKS = known_networks(POCKET)
ASKED = PictureRequest(prompt="a", width=1024, height=1024, guidance=6.0, seed=1)
G = 10**9


def told(request: PictureRequest = ASKED, total: int = 100 * G, **made: int) -> Forecast:
    before = [(msgspec.structs.replace(samples.picture_facts("a.png"), **{"frames": 1, **made}), request)] if made else []
    memory = MemoryFacts(total=total, own=0, others=0)
    found = forecast(NETWORKS, Next(request, POCKET, "float32", "cuda"), memory, before)
    assert found is not None
    return found


def test_more_memory_is_told_for_a_larger_picture_in_a_wider_type() -> None:
    large = told(msgspec.structs.replace(ASKED, width=2048))
    assert 1.9 * told().peak < large.peak < 2.1 * told().peak
    half = forecast(NETWORKS, Next(ASKED, POCKET, "float16", "cuda"), None)
    assert half is not None
    assert half.peak * 2 == pytest.approx(told().peak, rel=0.05), "all but the latents"
    assert (half.free, half.fit) == (None, None)


def test_loras_that_are_still_to_be_drawn_are_counted_with() -> None:
    """What they are added to is not stored in eight bits."""
    eight = msgspec.structs.replace(ASKED, numerics=Numerics(fp8_storage=True))
    drawn = msgspec.structs.replace(eight, prompt="a sun{ <lora:ink:1>|}", lora_folders=("/loras",))
    assert told(drawn).peak == told(ASKED).peak > told(eight).peak
    assert told(msgspec.structs.replace(drawn, lora_folders=None)).peak == told(eight).peak, "they are left out"


def test_what_does_not_fit_is_told_with_the_largest_that_does() -> None:
    peak = told().peak
    assert told().fit == "fits"
    assert told(total=round(peak / 0.95), request=never(ASKED)).fit == "tight"
    short = told(total=round(peak * 0.5), request=never(ASKED))
    assert (short.fit, short.way) == ("no", Way())
    assert short.largest is not None
    smaller = never(msgspec.structs.replace(ASKED, width=short.largest[0], height=short.largest[1]))
    assert told(smaller, total=round(peak * 0.5)).fit == "fits"


def never(request: PictureRequest) -> PictureRequest:
    return msgspec.structs.replace(request, numerics=Numerics(vae_tiling="never", offload="none"))


def test_a_decode_that_does_not_fit_is_told_in_tiles() -> None:
    whole, tiled = told(), told(msgspec.structs.replace(ASKED, numerics=Numerics(vae_tiling="always")))
    assert tiled.way == Way(tiled=True)
    assert tiled.peak <= whole.peak


def test_what_was_measured_is_told() -> None:
    made: dict[str, Any] = {"width": 1024, "height": 1024, "peak_memory": 7 * G}
    assert (told(**made).peak, told(**made).pictures) == (7 * G, 1)
    other = msgspec.structs.replace(ASKED, vae="/other.safetensors")
    memory = MemoryFacts(total=100 * G, own=0, others=0)
    picture: PictureFacts = msgspec.structs.replace(samples.picture_facts("a.png"), frames=1, **made)
    found = forecast(NETWORKS, Next(ASKED, POCKET, "float32", "cuda"), memory, [(picture, other)])
    assert found is not None
    assert found.pictures == 0, "another VAE ran"


@pytest.mark.parametrize(
    "used",
    [
        {"transformer": "/other.gguf"},
        {"ip_adapters": (IpAdapter(path="/adapter.safetensors", images=("/a.png",)),)},
        {"controls": (Control(path="/net", image="/a.png"),)},
    ],
    ids=["transformer", "IP-Adapter", "ControlNet"],
)
def test_what_was_measured_with_other_networks_tells_nothing(used: dict[str, Any]) -> None:
    picture = msgspec.structs.replace(samples.picture_facts("a.png"), frames=1, width=1024, height=1024, peak_memory=7 * G)
    request = msgspec.structs.replace(ASKED, **used)
    for wanted, made, known in ((ASKED, request, 0), (request, ASKED, 0), (request, request, 1)):
        found = forecast(NETWORKS, Next(wanted, POCKET, "float32", "cuda"), None, [(picture, made)])
        assert found is not None
        assert found.pictures == known


def test_what_was_measured_of_an_offloaded_model_tells_of_one_alone() -> None:
    offloaded = msgspec.structs.replace(ASKED, numerics=Numerics(offload="model"))
    picture = msgspec.structs.replace(
        samples.picture_facts("a.png"), frames=1, width=1024, height=1024, peak_memory=G // 10, offload="model"
    )
    found = [forecast(NETWORKS, Next(one, POCKET, "float32", "cuda"), None, [(picture, one)]) for one in (ASKED, offloaded)]
    assert [one.pictures for one in found if one is not None] == [0, 1]


def test_of_a_model_that_is_not_known_nothing_is_told() -> None:
    assert forecast((), Next(ASKED, POCKET, "float32", "cpu"), None) is None


def test_where_nothing_fits_it_is_said_how_much_is_needed_and_how_much_was_free() -> None:
    short = Shortage(phase="denoise", step=2, then="stopped", width=64, height=32, needed=3 * G // 2, free=G // 2)
    assert shortage_note(short).text.text() == (
        "64 × 32 ran out of memory at step 2. It needs at least about 1.5\u00a0GB; 500.0\u00a0MB were free. "
        "Use a smaller size, FP16 or BF16. Prompt and seed are kept."
    )


@pytest.mark.parametrize(
    ("then", "fits", "title", "text"),
    [
        ("tiles", None, "Out of memory at 64 × 32. Halftone decodes in tiles.", "Nothing else changes."),
        (
            "stopped",
            (48, 24),
            "This size does not fit in memory.",
            "64 × 32 ran out of memory during decoding. Largest that fits: 48 × 24. Prompt and seed are kept.",
        ),
        (
            "stopped",
            None,
            "This size does not fit in memory.",
            "64 × 32 ran out of memory during decoding. Use a smaller size, FP16 or BF16. Prompt and seed are kept.",
        ),
    ],
)
def test_what_is_said_where_the_memory_ended(then: str, fits: tuple[int, int] | None, title: str, text: str) -> None:
    note = shortage_note(Shortage(phase="decode", step=None, then=then, width=64, height=32, fits=fits))
    assert (note.title.text(), note.text.text()) == (title, text)
