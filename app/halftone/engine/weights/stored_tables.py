"""Tables of positions that a network's files hold. diffusers computes them in float64 whenever it builds the network, only to
replace them by the file's: for SD 3.5 medium 3.6 GB and half of the loading time.
"""

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn


@contextmanager
def tables_left_empty() -> Generator[None]:
    """Build networks here without these tables: they are on the meta device until a file gives them."""
    from diffusers.models.embeddings import PatchEmbed

    whole = PatchEmbed.__init__
    signature = inspect.signature(whole)

    def without(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        own = given.arguments
        edge = own["pos_embed_max_size"]
        if not edge or own["pos_embed_type"] != "sincos":  # made for the size of the pictures, and in no file
            whole(self, *args, **kwargs)
            return
        own["pos_embed_type"] = None
        whole(*given.args, **given.kwargs)
        del self.pos_embed
        self.register_buffer("pos_embed", torch.empty(1, edge * edge, own["embed_dim"], device="meta"))

    cast("Any", PatchEmbed).__init__ = without
    try:
        yield
    finally:
        cast("Any", PatchEmbed).__init__ = whole


def compute_missing_tables(network: nn.Module) -> None:
    """Compute the tables that are still on the meta device because no file gave them."""
    from diffusers.models.embeddings import PatchEmbed, get_2d_sincos_pos_embed

    for layer in network.modules():
        if not isinstance(layer, PatchEmbed) or layer.pos_embed is None or not layer.pos_embed.is_meta:
            continue
        edge, width = cast("int", layer.pos_embed_max_size), layer.pos_embed.shape[-1]
        kept: dict[str, Any] = {"base_size": layer.base_size, "interpolation_scale": layer.interpolation_scale}
        table = get_2d_sincos_pos_embed(width, edge, **kept, output_type="pt")
        layer.register_buffer("pos_embed", table.float().unsqueeze(0))
