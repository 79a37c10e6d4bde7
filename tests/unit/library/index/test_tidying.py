"""Files in a folder for another kind, and files that are there twice."""

import pytest

from halftone.library.families.recognise import Kind
from halftone.library.index.entries import Entry
from halftone.library.index.facts import Hashes
from halftone.library.index.tidying import duplicates, wrong_folder


@pytest.mark.parametrize(
    ("path", "kind", "meant"),
    [
        ("/ai/models/Stable-diffusion/style.safetensors", "LoRA", "Checkpoints"),
        ("/ai/models/Stable-diffusion/anime/style.safetensors", "LoRA", "Checkpoints"),
        ("/ai/models/Stable-diffusion/base.safetensors", "checkpoint", None),
        ("/ai/models/Stable-diffusion/base.vae.safetensors", "VAE", None),
        ("/ai/models/Stable-diffusion/base.safetensors", "VAE", "Checkpoints"),
        ("/ai/models/Lora/base.safetensors", "checkpoint", "LoRA"),
        ("/ai/models/Lora/style.safetensors", "LoRA", None),
        ("/ai/models/loras/embeddings/word.safetensors", "embedding", None),
        ("/ai/models/diffusion_models/flux.safetensors", "denoiser", None),
        ("/ai/models/upscale_models/word.safetensors", "embedding", "Upscalers"),
        ("/ai/models/text_encoders/t5.safetensors", "text encoder", None),
        ("/ai/models/VAE/strange.safetensors", "unknown", None),
        ("/ai/models/VAE/motion.safetensors", "motion module", None),
        ("/home/lora/a/b/c/base.safetensors", "checkpoint", None),
        ("/downloads/style.safetensors", "LoRA", None),
    ],
)
def test_a_file_lies_in_a_folder_for_another_kind(path: str, kind: Kind, meant: str | None) -> None:
    name = path.rpartition("/")[2].removesuffix(".safetensors")
    assert wrong_folder(Entry(path=path, name=name, size=1, kind=kind)) == meant


def test_a_folder_of_diffusers_is_nowhere_wrong() -> None:
    assert wrong_folder(Entry(path="/ai/models/Lora/whole", name="whole", size=1, kind="checkpoint", whole=True)) is None


def test_copies_are_found_by_their_hashes_and_before_these_by_name_size_and_time() -> None:
    def entry(path: str, size: int, fingerprint: str) -> Entry:
        return Entry(path=path, name=path, size=size, fingerprint=fingerprint)

    small, copy = entry("/a/s", 1, "s"), entry("/b/other name", 1, "t")
    large, again, changed = entry("/a/l", 9, "l"), entry("/b/l", 9, "l"), entry("/c/l", 9, "l")
    alone = entry("/a/alone", 5, "")
    everything = (small, copy, large, again, changed, alone)
    assert duplicates(everything, {}) == ((large, again, changed),)
    hashes = {"/a/s": Hashes("1"), "/b/other name": Hashes("1"), "/a/l": Hashes("2"), "/c/l": Hashes("2")}
    assert duplicates(everything, hashes) == ((large, again, changed), (small, copy))
    assert duplicates(everything, {**hashes, "/c/l": Hashes("3"), "/b/l": Hashes("2")}) == ((large, again), (small, copy))
