"""Qwen-Image Edit's processor of words and pictures, without transformers' videos, which need another package."""

from typing import Any, Self

from transformers import AutoTokenizer, BatchFeature, ProcessorMixin, Qwen2VLImageProcessorPil

_PICTURE = "<|image_pad|>"


class QwenProcessor(ProcessorMixin):
    """`transformers.Qwen2VLProcessor` without videos: repeats each sign of a picture for each of its places."""

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor = image_processor
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, folder: Any, **_options: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Load the folder of such a processor, offline."""
        pictures: Any = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
        return cls(pictures, AutoTokenizer.from_pretrained(folder, local_files_only=True))

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride] - what the pipelines call it with
        self, text: list[str], images: Any = None, **options: Any
    ) -> BatchFeature:
        """Tokens with their mask, and of the pictures their patches and how many there are."""
        seen: dict[str, Any] = {} if images is None else dict(self.image_processor(images=images, return_tensors="pt"))
        places = iter([int(grid.prod()) // self.image_processor.merge_size**2 for grid in seen.get("image_grid_thw", ())])
        parts = [one.split(_PICTURE) for one in text]
        whole = [first + "".join(_PICTURE * next(places) + part for part in rest) for first, *rest in parts]
        return BatchFeature({**self.tokenizer(whole, **options), **seen})
