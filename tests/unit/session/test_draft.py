"""The draft of the next pictures: from requests and to them, following the model, what keeps a picture from being made."""

import random
from operator import attrgetter

import pytest
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.drafts import random_draft

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.request import ALONE, Control, Hires, IpAdapter, Lora, Numerics, PictureRequest, Refiner, Start, Style
from halftone.library.add_ons.inversions import Inversion
from halftone.library.families.known_families import SDXL, WAN
from halftone.session.events import Drafted
from halftone.session.pictures import draft as drafts
from halftone.session.pictures.draft import (
    Draft,
    Seed,
    from_request,
    in_use,
    to_request,
    unused,
    usable,
    with_defaults_of,
    with_value,
)
from halftone.session.pictures.draft_parts import PARTS
from halftone.session.pictures.draft_problems import problems, size_problem
from halftone.session.reducer import apply
from halftone.session.state import AppState
from halftone.settings.store import Settings

SETTINGS = Settings(last_model="pocket")
MODEL = replace(samples.POCKET, pipeline="StableDiffusionPipeline")
OTHER = replace(MODEL, id="/other", name="Other", native_width=512, native_height=512, default_steps=28, default_guidance=6.0)
FULL = PictureRequest(
    prompt="two trees",
    negative="text",
    empty_negative=True,
    width=160,
    height=104,
    steps=12,
    guidance=3.5,
    sampler="Euler",
    seed=7,
    batch=2,
    image="/p/a.png",
    mask="/p/m.png",
    start=Start(strength=0.3, resize="fill", mask_blur=9, masked_content="noise", only_masked=40),
    output=SETTINGS.pictures_folder,
    options={"clip_skip": 1},
    loras=(Lora(path="/l/sepia.safetensors", weight=0.5),),
    vae="/v.safetensors",
    transformer="/t.gguf",
    controls=(Control(path="/c", image="/p/pose.png"),),
    ip_adapters=(IpAdapter(path="/i", images=("/p/a.png",)),),
    variation_seed=9,
    variation_strength=0.25,
    seed_size=(64, 128),
    styles=(Style(name="ink", prompt="ink"),),
    draws=False,
)


def sent(draft: Draft, model: ModelFacts | None = None) -> PictureRequest:
    return to_request(draft, SETTINGS, Numerics(), model)


@pytest.mark.parametrize(
    "request_",
    [
        PictureRequest(prompt="a", width=8, height=16, steps=1, guidance=0.0, output=SETTINGS.pictures_folder),
        FULL,
        replace(FULL, hires=Hires(scale=1.5, upscaler="lanczos", steps=3, strength=0.2)),
        replace(FULL, hires=Hires(strength=0.7), refiner=Refiner(path="/r", at=0.65, by_steps=True)),
    ],
)
def test_a_request_comes_back_from_the_draft_that_it_filled(request_: PictureRequest) -> None:
    assert sent(from_request(Draft(), request_)) == request_


def test_what_a_request_leaves_to_the_model_stays() -> None:
    draft = replace(Draft(), size=(64, 72), steps=9, guidance=2.5, seed=Seed(3, locked=True))
    filled = from_request(draft, PictureRequest(prompt="a"))
    assert (filled.size, filled.steps, filled.guidance, filled.seed) == (draft.size, 9, 2.5, draft.seed)


@pytest.mark.parametrize(
    ("request_", "field", "value"),
    [
        (PictureRequest(prompt="a", steps=5000), "steps", 1000),
        (PictureRequest(prompt="a", guidance=7.26), "guidance", 7.3),
        (PictureRequest(prompt="a", batch=0), "batch", 1),
        (PictureRequest(prompt="a", start=Start(strength=7.0)), "start.strength", 1.0),
        (PictureRequest(prompt="a", hires=Hires(scale=99.0)), "hires.scale", 8.0),
        (PictureRequest(prompt="a", hires=Hires(strength=0.7)), "hires.strength", None),
        (PictureRequest(prompt="a", options={"clip_skip": 99}), "options", {"clip_skip": 11}),
        (PictureRequest(prompt="a", options={"clip_skip": "two"}), "options", {}),
        (PictureRequest(prompt="a", mask="/m.png"), "mask", None),
    ],
)
def test_a_filled_draft_holds_what_the_form_can_show(request_: PictureRequest, field: str, value: object) -> None:
    assert attrgetter(field)(from_request(Draft(), request_)) == value


def test_a_field_of_a_field_is_changed_alone() -> None:
    draft = with_value(Draft(), "hires.scale", 1.5)
    assert draft == replace(Draft(), hires=Hires(scale=1.5))


@pytest.mark.parametrize(
    ("changes", "model", "field", "value"),
    [
        ({"options": {"eta": 0.5, "clip_skip": 1}}, replace(MODEL, pipeline="FluxPipeline"), "options", {}),
        ({"options": {"s_noise": 0.5}, "sampler": "Euler a Karras"}, MODEL, "options", {"s_noise": 0.5}),
        ({"options": {"s_noise": 0.5}, "sampler": "DPM++ 2M Karras"}, MODEL, "options", {}),
        ({"num_frames": 33, "fps": 24, "video": "webp"}, MODEL, "num_frames", None),
        ({"num_frames": 33}, replace(MODEL, family=WAN.name, pipeline="WanPipeline"), "num_frames", 33),
        ({}, replace(MODEL, family=WAN.name, pipeline="WanPipeline"), "video", "mp4"),
        ({"sampler": "No such"}, MODEL, "sampler", None),
        ({"image": "/a.png", "start": Start(outpaint=(8, 0, 0, 0))}, MODEL, "width", None),
        ({"image": "/a.png", "start": Start(outpaint=(8, 0, 0, 0)), "only_masked": True}, MODEL, "width", 512),
        ({"image": "/a.png"}, replace(MODEL, pipeline="QwenImageEditPlusPipeline"), "start", Start()),
        ({"mask": "/m.png"}, MODEL, "mask", None),
        ({"prompt": " a \n"}, MODEL, "prompt", "a"),
        ({"prompt": "{a|b}"}, MODEL, "lora_folders", ("/l",)),
        ({"prompt": "{a|b}", "draws": False}, MODEL, "lora_folders", None),
    ],
)
def test_a_request_has_what_acts_with_its_model(changes: dict[str, object], model: ModelFacts, field: str, value: object) -> None:
    settings = replace(SETTINGS, lora_folders=("/l",))
    asked = to_request(replace(Draft(), **changes), settings, Numerics(), model)
    found = getattr(asked, field)
    assert (found[-1:] if field == "lora_folders" and found else found) == value


def test_embeddings_are_named_in_styles_too() -> None:
    known = [Inversion(path=f"/{name}.safetensors", tensors={}, widths={}, vectors=1) for name in ("bad", "other")]
    draft = replace(Draft(), prompt="a", styles=(Style(name="s", negative="bad"),))
    assert to_request(draft, SETTINGS, Numerics(), MODEL, known).inversions == ("/bad.safetensors",)


def test_a_seed_that_is_not_locked_is_used_up() -> None:
    draft = replace(Draft(), seed=Seed(3), variation_seed=Seed(4, locked=True))
    assert drafts.after_picture(draft) == replace(draft, seed=Seed())


def test_extras_are_those_that_can_run() -> None:
    lacking = replace(from_request(Draft(), FULL), controls=(Control(path="/c", image=""),), ip_adapters=())
    found = drafts.extras(lacking)
    assert (found.loras, found.vae, found.controls, found.inversions) == (FULL.loras, FULL.vae, (), ())
    assert drafts.extras(drafts.with_extras(lacking, ALONE)) == ALONE


# --- what follows the model ------------------------------------------------------------------------------------------


def test_what_the_user_set_stays_and_the_rest_follows_the_model() -> None:
    first = with_defaults_of(Draft(), MODEL)
    assert (first.size, first.steps, first.own) == ((MODEL.native_width, MODEL.native_height), MODEL.default_steps, ())
    other = with_defaults_of(replace(first, guidance=20.0), OTHER)
    assert (other.size, other.steps, other.guidance, other.own) == ((512, 512), 28, 20.0, ("guidance",))
    assert with_defaults_of(other, replace(OTHER, id="/twin")).own == ("guidance",)
    assert with_defaults_of(other, replace(OTHER, id="/fits", default_guidance=20.0)).own == ()
    assert with_defaults_of(replace(first, guidance=20.0), replace(MODEL, id="/alike")).own == ()
    taken = drafts.without_own(other)
    assert (taken.guidance, taken.own) == (6.0, ())


def test_a_request_of_the_model_in_use_keeps_its_numbers_when_the_model_is_read() -> None:
    draft = from_request(Draft(), PictureRequest(prompt="a", model="pocket", steps=5), "pocket")
    assert with_defaults_of(draft, MODEL).steps == 5


@pytest.mark.parametrize(
    ("upscaler", "strength", "then", "sent_then"),
    [("latent", 0.7, "lanczos", 0.4), ("latent", 0.55, "lanczos", 0.55), ("lanczos", 0.4, "latent", 0.7)],
)
def test_a_strength_follows_its_upscaler_until_it_is_set(upscaler: str, strength: float, then: str, sent_then: float) -> None:
    hires = replace(drafts.with_strength(Hires(upscaler=upscaler), strength), upscaler=then)
    asked = sent(replace(Draft(), hires_on=True, hires=hires))
    assert asked.hires is not None
    assert asked.hires.strength == sent_then


# --- problems --------------------------------------------------------------------------------------------------------

FILL, SANA = replace(MODEL, pipeline="FluxFillPipeline"), replace(MODEL, pipeline="SanaPipeline", name="Sana")
VIDEO, XL = replace(MODEL, family=WAN.name), replace(MODEL, family=SDXL.name)
ALL = replace(
    Draft(),
    styles=(Style(name="s", prompt="x"),),
    image="/a.png",
    mask="/m.png",
    loras=(Lora(path="/l"),),
    controls=(Control(path="/c", image="/e.png"),),
    ip_adapters=(IpAdapter(path="/i", images=("/e.png",)),),
    hires_on=True,
    refiner="/r",
    upscaler="/u",
    variation_strength=0.2,
    vae="/v",
    transformer="/t",
    num_frames=9,
    options={"clip_skip": 1},
)
"""A draft with something in every part."""


@pytest.mark.parametrize(
    ("model", "without"),
    [
        (None, ("video",)),
        (MODEL, ("refiner", "video")),
        (XL, ("video",)),
        (SANA, ("image", "hires", "refiner", "video")),
        (replace(SANA, family="Sana"), ("image", "ip_adapters", "hires", "refiner", "video")),
        (
            replace(MODEL, family="PixArt-Σ", pipeline="PixArtSigmaPipeline"),
            ("image", "controls", "ip_adapters", "hires", "refiner", "video"),
        ),
        (replace(MODEL, family="FLUX", pipeline="FluxFillPipeline"), ("ip_adapters", "refiner", "video")),
        (VIDEO, ("controls", "ip_adapters", "hires", "refiner", "upscaler")),
        (replace(MODEL, components=("text_encoder",)), ("refiner", "vae", "transformer", "video")),
        (replace(MODEL, pipeline=""), ("refiner", "video")),
    ],
)
def test_what_a_model_cannot_use_stays_in_the_draft_and_is_not_sent(model: ModelFacts | None, without: tuple[str, ...]) -> None:
    assert set(unused(ALL, model)) == set(without)
    kept_parts = usable(ALL, model)
    assert [in_use(kept_parts, part) for part in PARTS] == [part not in without for part in PARTS]
    assert usable(kept_parts, model) == kept_parts
    assert usable(Draft(), model) == Draft()
    if model is not None:
        asked = to_request(ALL, Settings(), Numerics(), model)
        assert (asked.image is None, asked.hires is None, asked.refiner is None) == tuple(
            part in without for part in ("image", "hires", "refiner")
        )


@pytest.mark.parametrize(
    ("changes", "model", "field", "said"),
    [
        ({}, MODEL, "", ""),
        ({"size": (1001, 8)}, MODEL, "size", "Use a multiple of 8, for example 1000."),
        ({"size": (8, 20000)}, None, "size", "Use a size from 8 to 16\u202f384."),
        ({}, FILL, "image", "This model needs a picture under Image to image."),
        ({"image": "/a.png"}, FILL, "image", "This model needs a mask under Image to image."),
        ({"image": "/a.png"}, SANA, "", ""),
        ({"image": "/a.png"}, None, "", ""),
        ({"controls": (Control(path="/c/edges", image=""),)}, MODEL, "controls", "Choose a picture for edges."),
        ({"ip_adapters": (IpAdapter(path="/i/plus", images=()),)}, MODEL, "ip_adapters", "Choose a picture for plus."),
        ({"seed_size": (8, 4)}, MODEL, "seed_size", "Noise width and height must be multiples of 8."),
        ({"hires_on": True}, MODEL, "", ""),
        ({"hires_on": True}, VIDEO, "", ""),
        (
            {"hires_on": True, "image": "/a.png", "mask": "/m.png"},
            MODEL,
            "hires",
            "Hires. fix does not work with inpainting or outpainting.",
        ),
        ({"refiner": "/r"}, MODEL, "", ""),
        ({"refiner": "/r", "hires_on": True}, MODEL, "", ""),
        ({"refiner": "/r", "hires_on": True}, XL, "refiner", "The refiner does not work with Hires. fix."),
        (
            {"refiner": "/r", "image": "/a.png", "mask": "/m.png"},
            XL,
            "refiner",
            "The refiner does not work with inpainting or outpainting.",
        ),
    ],
)
def test_what_keeps_a_picture_from_being_made(
    changes: dict[str, object], model: ModelFacts | None, field: str, said: str
) -> None:
    found = problems(replace(Draft(), **changes), model)
    assert list(found) == [field] * bool(field)
    for problem in found.values():
        assert said in (problem.code if isinstance(problem, ErrorFacts) else str(problem))


@pytest.mark.parametrize(
    ("edge", "said"),
    [
        (512, ""),
        (1001, "Use a multiple of 8, for example 1000."),
        (1004, "Use a multiple of 8, for example 1008."),
        (8, ""),
        (16384, ""),
        (4, "Use a size from 8 to 16\u202f384."),
        (20000, "Use a size from 8 to 16\u202f384."),
    ],
)
def test_a_size_that_cannot_be_used_comes_with_one_that_can(edge: int, said: str) -> None:
    assert str(size_problem(edge) or "") == said


# --- kept ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(20))
def test_a_draft_is_the_same_after_the_next_start(number: int) -> None:
    draft = random_draft(random.Random(number))
    assert drafts.restored(drafts.kept(draft)) == draft


@pytest.mark.parametrize("text", ["", '{"prompt": 3', "[]", '{"draft": 1}'])
def test_a_text_that_is_no_draft_is_an_empty_one(text: str) -> None:
    assert drafts.restored(text) == Draft()


def test_the_request_that_earlier_versions_kept_is_restored() -> None:
    text = '{"prompt":"two trees","width":160,"height":104,"steps":12,"hires":{"strength":0.2}}'
    draft = drafts.restored(text, "pocket")
    assert (draft.prompt, draft.size, draft.steps, draft.hires_on, draft.model) == ("two trees", (160, 104), 12, True, "pocket")


def test_an_event_changes_the_draft_and_nothing_else() -> None:
    state, draft = AppState(), replace(Draft(), prompt="a")
    assert apply(state, Drafted(draft=draft)).draft == draft
    assert apply(state, Drafted(draft=Draft())) is state
