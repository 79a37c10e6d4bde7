"""Which files of a denoiser alone run with the other parts of a folder, family by family and name by name."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.helpers.headers import header, write_sparse
from tests.helpers.wording import translated
from tests.unit.library.test_recognise import MODELS, PIXART, SVD

from halftone.contract.errors import HalftoneError
from halftone.library.add_ons.denoiser_files import unreadable
from halftone.library.add_ons.unusable_files import REPOSITORIES, home
from halftone.library.families.known_families import FAMILIES, parts_of
from halftone.library.families.recognise import LAYOUTS, recognise
from halftone.library.kinds.layouts import DIFFUSERS, ORIGINAL, Layout
from halftone.library.models import describe, runnable

PLACE, NAMES, WHOLE = "", "in its own names only", "runs only as a folder"
BOTH = (PLACE, PLACE)
OUTCOMES: dict[str, tuple[str | None, str | None]] = {
    "Stable Diffusion 1.x": BOTH,
    "Stable Diffusion 2.x": BOTH,
    "SDXL": BOTH,
    "SDXL refiner": BOTH,
    "SD 3": BOTH,
    "FLUX": BOTH,
    "FLUX.2": BOTH,
    "Chroma": BOTH,
    "Sana": BOTH,
    "PixArt-α": BOTH,
    "PixArt-Σ": BOTH,
    "Kolors": BOTH,
    "HunyuanDiT": BOTH,
    "HunyuanImage": (NAMES, PLACE),
    "Lumina 2": BOTH,
    "Lumina-Next": (None, PLACE),
    "AuraFlow": BOTH,
    "Qwen-Image": (None, PLACE),
    "Z-Image": BOTH,
    "CogView4": (None, PLACE),
    "CogView3+": (None, PLACE),
    "Stable Cascade": (WHOLE, WHOLE),
    "Kandinsky 2": (None, PLACE),
    "Kandinsky 3": (None, PLACE),
    "Kandinsky 5": (None, PLACE),
    "HiDream": (None, PLACE),
    "OmniGen": (NAMES, PLACE),
    "Krea 2": BOTH,
    "AnimateDiff": (None, PLACE),
    "Stable Video Diffusion": (NAMES, PLACE),
    "Wan": BOTH,
    "LTX-Video": BOTH,
    "LTX-2": BOTH,
    "HunyuanVideo": BOTH,
    "Mochi": BOTH,
    "CogVideoX": (None, PLACE),
    "Cosmos": (PLACE, PLACE),
}
"""What becomes of a file in its makers' names, and of one in those of diffusers; None where nobody names it so."""
VARIANTS = {
    "Chroma Radiance": ("distilled_guidance_layer.a double_blocks.0.a nerf_blocks.0.a", "diffusers has no Chroma Radiance"),
    "NewBie": ("cap_embedder.0.weight noise_refiner.0.attention.a layers.0.attention.a clip_text_pooled_proj.0.weight", "NewBie"),
    "PixArt-Σ": (f"{PIXART} blocks.14.attn.sr.weight", "diffusers has no PixArt-Σ with compressed keys"),
    "Cosmos 1.0": ("net.x_embedder.proj.1.weight net.blocks.block0.a", "Cosmos 1.0 in its own names only"),
}


def example(layout: Layout) -> str:
    """As few tensors as fit the layout."""
    return " ".join(_of_mark(mark) for mark in layout.marks)


def _of_mark(mark: str) -> str:
    name, _, shape = mark.rstrip("]").partition("[")
    name = re.sub(r"\{[^}]*,([^,}]*)\}", r"\1", name)
    name = name if not name.endswith("*") else name[:-1] + "a"
    edges = [edge.replace("*", "8") for edge in shape.split(",") if edge and edge != "..."]
    edges += ["8"] * (4 - len(edges)) if shape.endswith("...") else []
    return f"{name}[{','.join(edges)}]" if edges else name


def test_every_family_has_its_outcome() -> None:
    assert set(OUTCOMES) == {family.name for family in FAMILIES}
    named = {(layout.family, layout.naming) for layout in LAYOUTS}
    for family, outcomes in OUTCOMES.items():
        for naming, outcome in zip((ORIGINAL, DIFFUSERS), outcomes, strict=True):
            assert ((family, naming) in named) == (outcome is not None), (family, naming)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.family} {layout.naming}")
def test_a_denoiser_alone_runs_in_the_place_of_a_folders_own_or_says_why_not(layout: Layout) -> None:
    given = header(example(layout))
    found = recognise(given)
    if (found.family, found.naming) != (layout.family, layout.naming):
        pytest.fail(f"taken as {found.family} {found.naming}")
    why = unreadable(given, found)
    wanted = OUTCOMES[layout.family][layout.naming == DIFFUSERS]
    assert wanted is not None
    assert (why is None) == (wanted == PLACE)
    assert wanted in str(why or "")
    assert why is None or translated(why)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_that_diffusers_does_not_read_says_so(variant: str, tmp_path: Path) -> None:
    patterns, said = VARIANTS[variant]
    facts = describe(str(write_sparse(tmp_path / "m.safetensors", header(patterns))))
    assert not facts.takes_place
    assert said in str(facts.why)
    assert translated(facts.why)


@pytest.mark.parametrize("case", [case for case, (_, kind, *_) in MODELS.items() if kind == "denoiser"])
def test_the_one_that_has_a_place_names_its_parts_and_the_folder_that_holds_them(case: str, tmp_path: Path) -> None:
    facts = describe(str(write_sparse(tmp_path / "m.safetensors", header(MODELS[case][0]))))
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    assert caught.value.code == ("model-needs-parts" if facts.takes_place else "model-unsupported")
    if not facts.takes_place:
        return
    vae, encoders = parts_of(facts.family, facts.base)
    assert set(facts.lacks) <= {vae, *encoders}
    assert caught.value.facts["family"] == home(facts)
    if facts.base in REPOSITORIES:
        assert f"(huggingface.co/{REPOSITORIES[facts.base]})" in home(facts)


def test_what_has_no_place_says_only_why(tmp_path: Path) -> None:
    facts = describe(str(write_sparse(tmp_path / "m.safetensors", header(SVD))))
    assert str(facts.why) == "diffusers reads the transformer of Stable Video Diffusion in its own names only"


def test_every_repository_is_one_that_diffusers_itself_names() -> None:
    found = find_spec("diffusers")
    assert found is not None
    assert found.origin is not None
    root = Path(found.origin).parent
    texts = "".join(
        path.read_text(encoding="utf-8") for folder in ("pipelines", "loaders") for path in (root / folder).rglob("*.py")
    )
    assert [one for one in REPOSITORIES.values() if one not in texts] == []
