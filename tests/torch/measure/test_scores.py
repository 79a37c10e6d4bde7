import pytest
import torch
from diffusers import SanaTransformer2DModel
from torch import nn

from halftone.measure.scores import LONGEST, find_score_watches, score_peak


def full(q: torch.Tensor, k: torch.Tensor) -> float:
    return float((q @ k.transpose(-1, -2)).abs().max())


def heads(batch: int, count: int, tokens: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, count, tokens, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", ["flat", "heads first", "tokens first"])
def test_short_sequences_are_exact_in_every_layout(form: str) -> None:
    q, k = heads(2, 4, 20, 8), heads(2, 4, 33, 8, seed=1)
    forms = {
        "flat": lambda t: t.transpose(1, 2).flatten(2),
        "heads first": lambda t: t,
        "tokens first": lambda t: t.transpose(1, 2),
    }
    found = score_peak(forms[form](q), forms[form](k), 4, 0.5)
    assert found is not None
    assert found[1]
    assert float(found[0]) == pytest.approx(full(q, k) * 0.5, rel=1e-5)


def test_long_sequences_find_the_product_of_the_longest() -> None:
    q, k = heads(1, 2, 4 * LONGEST, 16), heads(1, 2, 3 * LONGEST, 16, seed=1)
    q[0, 1, 77] *= 50
    k[0, 1, 200] *= 50
    found = score_peak(q, k, 2, 1.0)
    assert found is not None
    assert not found[1]
    assert float(found[0]) == pytest.approx(full(q, k), rel=1e-5)


def test_half_precision_inputs_do_not_overflow_the_estimate() -> None:
    q = torch.full((1, 1, 4, 8), 300.0, dtype=torch.float16)
    found = score_peak(q, q, 1, 1.0)
    assert found is not None
    assert float(found[0]) == 8 * 300.0**2


def test_fewer_key_heads_serve_several_query_heads() -> None:
    q, k = heads(1, 4, 10, 8), heads(1, 2, 10, 8, seed=1)
    found = score_peak(q.transpose(1, 2).flatten(2), k.transpose(1, 2).flatten(2), 4, 1.0)
    assert found is not None
    assert float(found[0]) == pytest.approx(full(q, k.repeat_interleave(2, dim=1)), rel=1e-5)


def test_shapes_that_do_not_fit_are_left_alone() -> None:
    assert score_peak(torch.zeros(2, 5, 9), torch.zeros(2, 5, 9), 4, 1.0) is None
    assert score_peak(torch.zeros(2, 4, 5, 8), torch.zeros(3, 4, 5, 8), 4, 1.0) is None


class Attention(nn.Module):
    def __init__(self, names: tuple[str, str], heads_name: str, **attributes: object) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Linear(8, 8))
        setattr(self, heads_name, 2)
        for name, value in attributes.items():
            setattr(self, name, value)


def test_modules_are_found_by_structure() -> None:
    root = nn.ModuleDict(
        {
            "diffusers": Attention(("to_q", "to_k"), "heads", scale=0.25, norm_q=nn.Identity(), norm_k=nn.Identity()),
            "clip": Attention(("q_proj", "k_proj"), "num_heads", scaling=0.5),
            "t5": Attention(("q", "k"), "n_heads"),
            "other": nn.Linear(2, 2),
        }
    )
    watches, roles = find_score_watches(root)
    assert {name: (w.heads, w.scale) for name, w in watches.items()} == {
        "diffusers": (2, 0.25), "clip": (2, 0.5), "t5": (2, 1.0),
    }  # fmt: skip
    assert roles["clip.q_proj"] == (watches["clip"], "query")
    assert roles["diffusers.norm_k"] == (watches["diffusers"], "key")


def test_linear_attention_which_forms_no_scores_is_not_watched() -> None:
    transformer = SanaTransformer2DModel(
        in_channels=4, out_channels=4, num_layers=1, num_attention_heads=2, attention_head_dim=8, num_cross_attention_heads=2,
        cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=16, sample_size=16, patch_size=1,
    )  # fmt: skip
    watches, roles = find_score_watches(transformer)
    assert list(watches) == ["transformer_blocks.0.attn2"]
    assert {name.rpartition(".")[0] for name in roles} == set(watches)
