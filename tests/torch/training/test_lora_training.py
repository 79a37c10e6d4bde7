"""The LoRA trainer: the same weights as a plain loop of diffusers, files that all read alike, and going on exactly."""

import math
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from diffusers import DDPMScheduler, DiffusionPipeline, FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift
from diffusers.training_utils import compute_snr
from peft import LoraConfig
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from tests.helpers import tiny
from tests.helpers.device import DEVICE
from tests.helpers.trainings import Directed, Killed, draw_pictures, flux, train
from torch.nn import functional

from halftone.contract.messages import AnyEvent, TestPicture, TrainBegins, TrainSaved, TrainStep
from halftone.contract.request import Lora
from halftone.contract.training import TrainConfig, TrainReport
from halftone.contract.vocabulary import DType
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.patches.lora import read_adapters
from halftone.library.families.known_families import SD2
from halftone.library.models import describe
from halftone.training.lora.bases import base_of
from halftone.training.lora.batches import patches_of
from halftone.training.lora.files import metadata_of
from halftone.training.lora.state import read_state

FAMILIES = ("sd15", "sdxl", "sd3", "flux", "sana")
RANK, ALPHA, STEPS, RATE = 2, 4.0, 3, 1e-2


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, Path] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family, make in {**tiny.FAMILIES, "flux": flux}.items():
            torch.manual_seed(0)
            pipe = make()
            for part in pipe.components.values():
                if isinstance(part, torch.nn.Module):
                    tiny.liven(part)
            pipe.save_pretrained(folder / family)
            made[family] = folder / family
    return made


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_pictures(tmp_path_factory.mktemp("pictures"), 2)


@pytest.fixture(scope="module")
def trained(models: dict[str, Path], pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainReport]:
    """Of each family a LoRA of three steps, with nothing random but times and noise."""
    output = tmp_path_factory.mktemp("loras")
    return {family: train(config(models[family], pictures, output, name=family)) for family in FAMILIES}


def config(model: Path, pictures: Path, output: Path, **changes: Any) -> TrainConfig:
    fields: dict[str, Any] = {
        "steps": STEPS,
        "batch": 2,
        "rank": RANK,
        "alpha": ALPHA,
        "learning_rate": RATE,
        "schedule": "constant",
        "caption_dropout": 0.0,
        "save_every": 0,
        "test_every": 0,
        "precision": "float32",
        "seed": 11,
        "size": 32,
        **changes,
    }
    return TrainConfig(model=str(model), pictures=str(pictures), output=str(output), **fields)


# --- the same as a plain loop --------------------------------------------------------------------------------------------


def plain_loop(folder: Path, family: str, pictures: Path) -> dict[str, torch.Tensor]:
    """What a script over diffusers makes of the same pictures: layer -> what its LoRA adds."""
    with quiet_libraries():
        pipe: Any = DiffusionPipeline.from_pretrained(folder, local_files_only=True).to(DEVICE)
    network = pipe.unet if family in ("sd15", "sdxl") else pipe.transformer
    for part in (pipe.vae, network):
        part.requires_grad_(False)
    targets = list(base_of(describe(str(folder))).targets)
    network.add_adapter(LoraConfig(r=RANK, lora_alpha=int(ALPHA), target_modules=targets))
    trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
    start = torch.Generator().manual_seed(11)
    for name, parameter in trained.items():
        if ".lora_A." in name:
            drawn = torch.nn.init.kaiming_uniform_(torch.empty(parameter.shape, device="cpu"), a=math.sqrt(5), generator=start)
            parameter.data.copy_(drawn)
    optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=0.01)
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        clean = {index: latents(pipe, pictures / f"{index}.png", family) for index in range(2)}
        told = {index: words(pipe, f"a hill {index}", family) for index in range(2)}
    for _ in range(STEPS):
        order = torch.randperm(2, generator=generator).tolist()
        torch.randperm(1, generator=generator)
        batch = torch.cat([clean[index] for index in order])
        given = [torch.cat(both) for both in zip(*(told[index] for index in order), strict=True)]
        loss = LOSSES[family](pipe, network, batch, given, generator)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return added({name: parameter.detach().cpu() for name, parameter in trained.items()})


def latents(pipe: Any, path: Path, family: str) -> torch.Tensor:
    drawn = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 127.5 - 1
    pixels = torch.from_numpy(drawn).permute(2, 0, 1)[None].to(DEVICE)
    if family == "sana":
        return pipe.vae.encode(pixels).latent * pipe.vae.config.scaling_factor
    found = pipe.vae.encode(pixels).latent_dist.mode()
    if family in ("sd3", "flux"):
        found = found - pipe.vae.config.shift_factor
    return found * pipe.vae.config.scaling_factor


def words(pipe: Any, text: str, family: str) -> list[torch.Tensor]:
    match family:
        case "sd15":
            return [pipe.encode_prompt(text, DEVICE, 1, False)[0]]
        case "sdxl":
            return list(pipe.encode_prompt(text, do_classifier_free_guidance=False)[0:3:2])
        case "sd3":
            return list(pipe.encode_prompt(text, text, text, do_classifier_free_guidance=False)[0:3:2])
        case "flux":
            return list(pipe.encode_prompt(text, text, max_sequence_length=77)[:2])
        case _:
            human = pipe.__call__.__func__.__wrapped__.__defaults__[-1]
            return list(pipe.encode_prompt(text, do_classifier_free_guidance=False, complex_human_instruction=human)[:2])


def diffusion(pipe: Any, network: Any, clean: torch.Tensor, given: list[torch.Tensor], generator: torch.Generator) -> Any:
    """As train_text_to_image_lora(_sdxl).py with --snr_gamma 5."""
    config = pipe.scheduler.config
    scheduler = DDPMScheduler(beta_start=config.beta_start, beta_end=config.beta_end, beta_schedule=config.beta_schedule)
    steps: Any = torch.randint(1000, (2,), generator=generator).to(DEVICE)
    noise = torch.randn(clean.shape, generator=generator).to(DEVICE)
    noisy = scheduler.add_noise(clean, noise, steps)
    added = {}
    if len(given) == 2:
        added = {
            "added_cond_kwargs": {
                "text_embeds": given[1],
                "time_ids": torch.tensor([[32.0, 32, 0, 0, 32, 32]] * 2, device=DEVICE),
            }
        }
    said = network(noisy, steps, given[0], **added).sample
    snr = compute_snr(scheduler, steps)
    weights = torch.stack([snr, 5.0 * torch.ones_like(snr)], dim=1).min(dim=1)[0] / snr
    return (functional.mse_loss(said, noise, reduction="none").mean((1, 2, 3)) * weights).mean()


def flow(pipe: Any, network: Any, clean: torch.Tensor, given: list[torch.Tensor], generator: torch.Generator) -> Any:
    """As train_dreambooth_lora_(sd3, flux, sana).py with logit-normal times."""
    scheduler: FlowMatchEulerDiscreteScheduler = pipe.scheduler
    share = torch.sigmoid(torch.randn((2,), generator=generator)).to(DEVICE)
    packed = network.config._class_name.startswith("Flux")
    height, width = clean.shape[-2:]
    if packed:
        clean = pipe._pack_latents(clean, *clean.shape)
        share = scheduler.time_shift(calculate_shift(clean.shape[1]), 1.0, share)
    noise = torch.randn(clean.shape, generator=generator).to(DEVICE)
    sigma = share.view(-1, *[1] * (clean.dim() - 1))
    noisy = (1 - sigma) * clean + sigma * noise
    if packed:
        places = pipe._prepare_latent_image_ids(2, height // 2, width // 2, DEVICE, torch.float32)
        texts = torch.zeros(given[0].shape[1], 3, device=DEVICE)
        said = network(noisy, given[0], given[1], share, places, texts, torch.ones(2, device=DEVICE)).sample
    elif network.config._class_name.startswith("SD3"):
        said = network(noisy, given[0], given[1], share * 1000).sample
    else:
        said = network(noisy, given[0], share * 1000 * network.config.timestep_scale, encoder_attention_mask=given[1]).sample
    return functional.mse_loss(said, noise - clean)


LOSSES = {"sd15": diffusion, "sdxl": diffusion, "sd3": flow, "flux": flow, "sana": flow}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_are_those_of_a_plain_loop(
    models: dict[str, Path], trained: dict[str, TrainReport], pictures: Path, family: str
) -> None:
    state = read_state(Path(trained[family].folder) / "state.safetensors")
    expected = plain_loop(models[family], family, pictures)
    found = added(state.weights)
    assert found.keys() == expected.keys()
    largest = max(float(value.abs().max()) for value in expected.values())
    for layer, value in expected.items():
        torch.testing.assert_close(found[layer], value, rtol=1e-3, atol=1e-4 * largest)


def added(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Layer -> what the LoRA adds."""
    downs = {name: down for name, down in weights.items() if ".lora_A." in name}
    return {
        name.partition(".lora_A")[0]: product(weights[name.replace(".lora_A.", ".lora_B.")], down) for name, down in downs.items()
    }


def product(up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """(out, in), of a convolution of 1 x 1, too."""
    return up.detach().flatten(1) @ down.detach().flatten(1) * ALPHA / RANK


@pytest.mark.parametrize(
    ("shape", "config", "patches"),
    [((2, 96, 64), {"patch_size": 1}, 96), ((2, 16, 8, 12), {"patch_size": 2}, 24), ((2, 4, 8, 8), {}, 64)],
)
def test_times_are_shifted_by_the_tokens_that_the_transformer_makes(
    shape: tuple[int, ...], config: dict[str, int], patches: int
) -> None:
    assert patches_of(torch.zeros(shape), config) == patches


# --- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_diffusers_and_halftone_read_the_file_as_it_was_trained(
    models: dict[str, Path], trained: dict[str, TrainReport], family: str
) -> None:
    path = Path(trained[family].path)
    expected = added(read_state(Path(trained[family].folder) / "state.safetensors").weights)
    with quiet_libraries():
        pipe: Any = DiffusionPipeline.from_pretrained(models[family], local_files_only=True)
        facts = describe(str(models[family]))
        layers = read_adapters(pipe, facts, (Lora(path=str(path)),))[0].layers
        pipe.load_lora_weights(str(path.parent), weight_name=path.name)
    name = "unet" if family in ("sd15", "sdxl") else "transformer"
    network = getattr(pipe, name)
    for layer, value in expected.items():
        module = network.get_submodule(layer)
        theirs = module.get_delta_weight(module.active_adapters[0])
        change, weight = layers[name][layer], torch.zeros_like(module.get_base_layer().weight)
        torch.testing.assert_close(theirs.flatten(1), value, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(change.merged({"weight": weight}, 1.0)["weight"].flatten(1), value, rtol=1e-5, atol=1e-7)
        if (pair := change.pair(1.0)) is not None:  # of a matrix
            torch.testing.assert_close(pair[0] @ pair[1], value, rtol=1e-5, atol=1e-7)
    assert layers[name].keys() == expected.keys()
    assert float(max(value.abs().max() for value in expected.values())) > 1e-4


def test_the_file_tells_what_it_is(trained: dict[str, TrainReport]) -> None:
    with safe_open(trained["sd15"].path, "pt") as file:
        told, names = file.metadata(), list(file.keys())
    assert (told["ss_network_dim"], told["ss_network_alpha"], told["ss_steps"]) == (str(RANK), "4", str(STEPS))
    assert told["ss_base_model_version"] == "sd_v1"
    assert not any("/" in value for key, value in told.items() if key != "modelspec.architecture"), "no path of this machine"
    layer = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"
    assert {f"{layer}.{end}" for end in ("alpha", "lora_down.weight", "lora_up.weight")} <= set(names)


def test_the_file_tells_the_kind_that_other_programs_sort_it_by(models: dict[str, Path], pictures: Path, tmp_path: Path) -> None:
    """A1111 lists a LoRA beside Stable Diffusion 2 only where `ss_v2` is True."""
    model = describe(str(models["sd15"]))
    asked = config(models["sd15"], pictures, tmp_path)

    def told(dtype: DType, **changes: Any) -> dict[str, str]:
        return metadata_of(base_of(model), msgspec.structs.replace(model, **changes), asked, 1, dtype)

    first = told("float32")
    assert (first["ss_v2"], first["ss_mixed_precision"], first["modelspec.prediction_type"]) == ("False", "no", "epsilon")
    second = told("bfloat16", family=SD2.name, prediction="v_prediction")
    assert (second["ss_v2"], second["ss_base_model_version"], second["ss_mixed_precision"]) == ("True", "sd_v2_v", "bf16")
    assert second["modelspec.architecture"] == "stable-diffusion-v2-768-v/lora"
    assert second["modelspec.prediction_type"] == "v"
    plain = told("float16", family=SD2.name, prediction="epsilon")
    assert (plain["modelspec.architecture"], plain["ss_base_model_version"]) == ("stable-diffusion-v2-512/lora", "sd_v2")


# --- going on ------------------------------------------------------------------------------------------------------------


def everything_random(models: dict[str, Path], folder: Path, output: Path) -> TrainConfig:
    """Batches of two shapes and uneven size, flips, dropped captions, gathered gradients, a rate that changes."""
    changes = {"caption_dropout": 0.3, "flip": True, "accumulate": 2, "schedule": "cosine", "warm_up": 2}
    return config(models["sd15"], folder, output, steps=6, save_every=2, test_every=3, repeats=2, **changes)


@pytest.fixture(scope="module")
def unbroken(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainConfig, TrainReport, Directed]:
    folder = draw_pictures(tmp_path_factory.mktemp("five"), 5, wide=2)
    wanted = everything_random(models, folder, tmp_path_factory.mktemp("unbroken"))
    emit = Directed()
    return wanted, train(wanted, emit), emit


@pytest.mark.parametrize("kill", ["TrainBegins 1", "TrainStep 3", "TrainSaved 4", "TestPicture 3"])
def test_a_killed_training_goes_on_to_the_very_same_weights(
    unbroken: tuple[TrainConfig, TrainReport, Directed], tmp_path: Path, kill: str
) -> None:
    wanted, whole, _ = unbroken
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path), test_every=wanted.test_every if "Test" in kill else 0)

    def die(event: AnyEvent) -> None:
        at = getattr(event, "step", getattr(event, "first", 0))
        if f"{type(event).__name__} {at}" == kill and getattr(event, "path", "made"):
            raise Killed

    with pytest.raises(Killed):
        train(wanted, Directed(die))
    emit = Directed()
    report = train(wanted, emit, resume=tmp_path / "lora")
    expected, found = load_file(whole.path), load_file(report.path)
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert (found.keys(), report.steps) == (expected.keys(), 6)
    first = {"TrainBegins 1": 1, "TrainStep 3": 3, "TrainSaved 4": 5, "TestPicture 3": 3}[kill]
    assert emit.of(TrainBegins)[0].first == first
    assert [step.step for step in emit.of(TrainStep)] == list(range(first, 7))


def test_what_is_told_of_a_training(unbroken: tuple[TrainConfig, TrainReport, Directed]) -> None:
    _, report, emit = unbroken
    assert [saved.step for saved in emit.of(TrainSaved)] == [2, 4, 6]
    shown = emit.of(TestPicture)
    assert [(one.step, bool(one.path)) for one in shown] == [(3, False), (3, True), (6, False), (6, True)]
    assert [(one.black, Path(one.path).exists()) for one in shown if one.path] == [(False, True), (False, True)]
    assert {picture.shape for picture in emit.of(TrainBegins)[0].pictures} == {(40, 24), (32, 32)}
    assert report.caught == ()
    assert report.loss == pytest.approx(emit.of(TrainStep)[-1].loss)
