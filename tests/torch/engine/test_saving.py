"""A finished picture is never lost, and one that has a single colour is told as such."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.helpers.engine_runs import Meddler, Recorder, Steady, generate
from tests.helpers.read_back import read_picture
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Generate, Load, PictureReady
from halftone.contract.request import Numerics, PictureRequest
from halftone.engine.making.delivery import Delivery
from halftone.engine.making.generate import Generation
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished
from halftone.engine.making.prepared import prepare
from halftone.engine.sampling.film import Film
from halftone.engine.sampling.frames import Pixels
from halftone.engine.service import DiffusersEngine
from halftone.measure.devices import find_device


def test_a_name_that_was_taken_meanwhile_gets_a_number(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    wanted = tmp_path / "a.png"
    control = Meddler(lambda: wanted.write_text("somebody else's"))
    report, _ = generate(engine, models["sd15"], output=str(wanted), batch=2, control=control)
    assert [picture.path for picture in report.images] == [str(tmp_path / "a-2.png"), str(tmp_path / "a-3.png")]
    assert wanted.read_text() == "somebody else's"
    receipt = read_picture(tmp_path / "a-2.png").receipt
    assert receipt is not None
    assert "a-2.png" not in receipt, "the same request gives the same file, whatever its name"


@pytest.mark.logs("was not saved")
def test_a_picture_that_cannot_be_written_keeps_its_latents_and_the_batch_goes_on(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    emit = Recorder()
    request = PictureRequest(
        prompt="a red sun",
        model=str(models["sd15"]),
        width=32,
        height=32,
        steps=3,
        seed=5,
        batch=2,
        output=str(folder / "a.png"),
        numerics=Numerics(precision="float32"),
    )
    with pytest.raises(HalftoneError) as caught:
        engine.generate(Generate(job="g", request=request), emit, Meddler(lambda: shutil.rmtree(folder)))
    assert caught.value.code == "output-folder-missing"
    ready = [event.facts for event in emit.of(PictureReady)]
    assert [facts.index for facts in ready] == [0, 1]
    assert all(facts.path == "" and facts.finite and facts.latents is not None for facts in ready)
    assert caught.value.facts["latents"] == ready[0].latents
    again, _ = generate(engine, models["sd15"], resume_latents=ready[0].latents)
    assert (again.images[0].state, again.images[0].steps) == ("clean", 3)
    assert "Steps: 3" in (read_picture(Path(again.images[0].path)).parameters or "")


@pytest.mark.parametrize("precision", ["float16", "float32"])
def test_one_colour_that_float32_gives_too_is_saved_and_told(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, precision: str
) -> None:
    pipe = load_tiny(models["sd15"])
    with torch.no_grad():
        pipe.vae.decoder.conv_out.weight.zero_()
    pipe.save_pretrained(tmp_path / "flat")
    report, _ = generate(engine, tmp_path / "flat", precision)  # pyright: ignore[reportArgumentType]
    picture = report.images[0]
    assert (picture.state, picture.black, picture.finite) == ("not-recovered", True, True)
    assert Path(picture.path).is_file()
    assert [(event.kind, event.action, event.component, event.module) for event in picture.events] == [
        ("flat", "kept", "vae", "")
    ]


class ShortFilm(Film):
    """A film whose frames need memory that is not there, one time only. fails: at which reading of a frame, from 1."""

    def __init__(self, film: Film, fails: int) -> None:
        super().__init__(film._frames)
        self.fails = fails

    def __getitem__(self, index: int) -> Pixels:
        self.fails -= 1
        if self.fails == 0:
            raise MemoryError
        return super().__getitem__(index)


class ShortDelivery(Delivery):
    """A delivery of pictures whose film is short of memory once."""

    film: ShortFilm | None = None
    fails = 1

    def save(self, made: Finished) -> None:
        self.film = self.film or ShortFilm(made.film, self.fails)
        super().save(replace(made, film=self.film))


@pytest.mark.parametrize("named", [True, False], ids=["a name that was asked for", "an automatic name"])
@pytest.mark.parametrize("fails", [1, 2])
def test_memory_that_ends_while_a_picture_is_saved_gives_one_file_all_the_same(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, fails: int, named: bool
) -> None:
    numerics = Numerics(precision="float32")
    output = tmp_path / "a.png" if named else tmp_path
    request = PictureRequest(
        prompt="a red sun", model=str(models["sd15"]), width=32, height=32, steps=1, output=str(output), numerics=numerics
    )
    engine.load(Load(model=request.model, numerics=numerics), Recorder())
    assert engine.loaded is not None
    emit = Recorder()
    delivery = ShortDelivery(request, engine.loaded.facts, emit, None, {})
    delivery.fails = fails
    job = Job(request, find_device("cpu"), None, emit, Steady(), (), lambda: False)
    Generation(prepare(engine.loaded, job), job, delivery=delivery).run()
    (facts,) = [event.facts for event in emit.of(PictureReady)]
    assert delivery.unsaved is None
    assert [str(path) for path in tmp_path.glob("*.png")] == [facts.path]
