"""The code that a check gives for diffusers runs, and loads what the user's files hold.

It runs with Stable Diffusion 3: diffusers reads FLUX.1 only in its real width.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, StableDiffusion3Pipeline
from msgspec.structs import replace
from safetensors.torch import save_file
from tests.helpers.all_in_one import parts_of
from tests.helpers.comfy_split import save_folder, save_split
from tests.helpers.comfy_split_newer import NEWER
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import clip_tokenizer, t5_tokenizer
from tests.helpers.transformer_files import save_gguf, sd3_original

from halftone.contract.facts import ModelFacts
from halftone.health.diffusers_code import can_load, loading_code
from halftone.library.models import describe

REPOSITORY = "stabilityai/stable-diffusion-3-medium-diffusers"


def put(tensors: dict[str, torch.Tensor], path: Path) -> str:
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return str(path)


def run(facts: ModelFacts, repository: Path, called: str = REPOSITORY) -> Any:
    """Run the code with a folder in the place of the repository."""
    code = "\n".join(loading_code(facts, "torch.float32"))
    assert repr(called) in code
    named: dict[str, Any] = {}
    exec(code.replace(repr(called), repr(str(repository))), named)
    return named["pipe"]


@pytest.mark.filterwarnings("ignore:.*torch_dtype.*:FutureWarning")  # its newer name is unknown to older versions
def test_a_split_model_in_gguf_is_loaded_from_its_files(tmp_path: Path) -> None:
    parts, others = parts_of("sd3"), parts_of("sd3")
    for one in others.values():
        for value in one.parameters():
            value.data.zero_()
    repository = tmp_path / "repository"
    StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        tokenizer_3=t5_tokenizer(),
        **others,
    ).save_pretrained(repository)
    packed = tmp_path / "sd3-Q8_0.gguf"
    numbers = save_gguf(sd3_original(parts["transformer"]), packed, architecture="sd3")
    t5 = {name: value for name, value in parts["text_encoder_3"].state_dict().items() if name != "encoder.embed_tokens.weight"}
    files = {
        "vae": put(vae_tensors(parts["vae"]), tmp_path / "sd3_vae.safetensors"),
        "text_encoder": put(parts["text_encoder"].state_dict(), tmp_path / "clip_l.safetensors"),
        "text_encoder_2": put(parts["text_encoder_2"].state_dict(), tmp_path / "clip_g.safetensors"),
        "text_encoder_3": put(t5, tmp_path / "t5xxl.safetensors"),
    }
    facts = ModelFacts(
        id=str(packed), name="sd3", path=str(packed), family="SD 3", format="single-file", stored_dtype="q8_0", size_bytes=1,
        fingerprint="", pipeline="StableDiffusion3Pipeline", parts=files,
        stored={"transformer": "q8_0", **dict.fromkeys(files, "float32")},
    )  # fmt: skip
    pipe = run(facts, repository)
    for name in files:
        theirs = getattr(pipe, name).state_dict()
        assert all(torch.equal(theirs[key], value) for key, value in parts[name].state_dict().items() if key in theirs), name
        assert any(bool(value.any()) for value in theirs.values()), name
    made = pipe(
        "a sun", width=32, height=32, num_inference_steps=1, max_sequence_length=16, output_type="latent",
        generator=torch.Generator().manual_seed(0),
    ).images  # fmt: skip
    assert torch.isfinite(made).all()
    assert made.std() > 0
    layer = pipe.transformer.get_submodule("context_embedder")
    words = torch.randn(1, 3, 128)
    expected = words @ numbers["context_embedder.weight"].T + numbers["context_embedder.bias"]
    assert torch.allclose(layer(words), expected, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*torch_dtype.*:FutureWarning")
@pytest.mark.parametrize(
    ("name", "called", "own"),
    [
        ("Wan 2.2 14B", "Wan-AI/Wan2.2-T2V-A14B-Diffusers", {"transformer", "transformer_2"}),
        ("Wan 2.2 5B", "Wan-AI/Wan2.2-TI2V-5B-Diffusers", {"transformer"}),
        ("FLUX.2 klein 4B", "black-forest-labs/FLUX.2-klein-4B", {"transformer"}),
    ],
)
def test_each_base_is_completed_from_its_own_repository(name: str, called: str, own: set[str], tmp_path: Path) -> None:
    pipe, path = save_split(NEWER[name], tmp_path / "models")
    wanted = {part: {key: value.float() for key, value in getattr(pipe, part).state_dict().items()} for part in own}
    facts = describe(str(path))
    assert can_load(facts)
    kept = "transformer_2" if "14B" in name else "vae"  # a tiny VAE of Wan 2.1 is not as deep as diffusers takes it to be
    stored = {part: dtype for part, dtype in facts.stored.items() if part in ("transformer", kept)}
    facts = replace(facts, stored=stored, parts={part: file for part, file in facts.parts.items() if part == kept})
    for one in pipe.components.values():
        if isinstance(one, torch.nn.Module):
            for value in one.parameters():
                value.data.zero_()
    save_folder(NEWER[name], pipe, tmp_path / "repository")
    found = run(facts, tmp_path / "repository", called)
    for part, values in wanted.items():
        theirs = getattr(found, part).state_dict()
        assert theirs.keys() == values.keys()
        assert all(torch.equal(theirs[key].float(), value) for key, value in values.items()), part
