"""Drafts of the Create page with values in every field."""

import random
from typing import Any

from msgspec.structs import replace

from halftone.contract.request import Control, Hires, IpAdapter, Lora, Start, Style
from halftone.library.samplers import SAMPLERS
from halftone.session.pictures.draft import SCALARS, Draft, Seed, with_strength, with_value


def random_draft(chance: random.Random, **fixed: Any) -> Draft:
    """A draft that the form could hold. fixed: fields with these values."""

    def seed() -> Seed:
        return chance.choice((Seed(), Seed(chance.randrange(2**64)), Seed(chance.randrange(99), locked=True)))

    def path(ending: str) -> str:
        return f"/files/{chance.randrange(99)}.{ending}"

    def some(make: Any) -> tuple[Any, ...]:
        return tuple(make() for _ in range(chance.randrange(3)))

    def share() -> float:
        return round(chance.random(), 2)

    image = chance.choice((None, path("png")))
    draft = Draft(
        prompt=chance.choice(("", " a  sun\n\n", "{a|b} __c__", "紅い\ttab")),
        negative=chance.choice(("", "blurry \n")),
        empty_negative=chance.random() < 0.5,
        size=(chance.randrange(1, 2048), chance.randrange(8, 2048, 8)),
        sampler=chance.choice((None, "Nonesuch", *SAMPLERS)),
        seed=seed(),
        image=image,
        mask=None if image is None else chance.choice((None, path("png"))),
        start=Start(
            resize=chance.choice(("stretch", "crop", "fill")),
            masked_content=chance.choice(("original", "fill", "noise")),
            outpaint=chance.choice(((0, 0, 0, 0), (8, 0, 64, 3))),
        ),
        only_masked=chance.random() < 0.5,
        video=chance.choice(("mp4", "webp")),
        options=chance.choice(({}, {"eta": 0.5}, {"text": "a"})),
        loras=some(lambda: Lora(path=path("safetensors"), weight=share())),
        vae=chance.choice((None, path("safetensors"))),
        transformer=chance.choice((None, path("gguf"))),
        inversions=some(lambda: path("pt")),
        controls=some(
            lambda: Control(path=path("c"), image=chance.choice(("", path("png"))), scale=share(), canny=chance.random() < 0.5)
        ),
        hires_on=chance.random() < 0.5,
        hires=Hires(upscaler=chance.choice(("latent", "lanczos", path("safetensors")))),
        refiner=chance.choice((None, path("safetensors"))),
        ip_adapters=some(lambda: IpAdapter(path=path("i"), images=some(lambda: path("png")), scale=share())),
        variation_seed=seed(),
        seed_size=chance.choice((None, (64, 72), (0, 8))),
        styles=some(lambda: Style(name=path("s"), prompt="ink, {prompt}")),
        draws=chance.random() < 0.5,
        model=chance.choice(("", "/m")),
        own=chance.choice(((), ("guidance",))),
    )
    for name, scalar in SCALARS.items():
        draft = with_value(draft, name, scalar.held(chance.uniform(*scalar.allowed)))
    strength, steps = draft.hires.strength, draft.hires.steps
    hires = replace(with_strength(draft.hires, strength or 0.5), steps=steps or None)
    return replace(draft, hires=hires, num_frames=draft.num_frames or None, fps=draft.fps or None, **fixed)
