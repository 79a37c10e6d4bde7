"""Every group that is offered leaves the network's function alone; structures that are not understood are not offered."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.resnet import ResnetBlockCondNorm2D
from tests.helpers.device import DEVICE
from tests.helpers.tiny import load_tiny
from torch import nn

from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.tensors import relative_error
from halftone.engine.checks.fragile import exponents_up, scale_parameters
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.weights.epsilons import has_epsilon, scale_epsilons
from halftone.engine.weights.precision import ComponentState, exact_weights, realise

pytestmark = pytest.mark.usefixtures("made_on_the_device")


def _inputs(component: str, pipe: Any) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(1)
    if component == "vae":
        return (torch.randn((1, 3, 32, 32), generator=generator),)
    context = pipe.unet.config.cross_attention_dim
    return torch.randn((2, 4, 16, 16), generator=generator), 500, torch.randn((2, 7, context), generator=generator)


@pytest.fixture(scope="module")
def pipe(models: dict[str, Path]) -> Any:
    with quiet_libraries():
        return load_tiny(models["sd15"])


@pytest.mark.parametrize("component", ["vae", "unet"])
@pytest.mark.parametrize("k", [7, -3])
def test_groups_do_not_change_the_function(pipe: Any, component: str, k: int) -> None:
    module = getattr(pipe, component)
    groups = rescale_groups(component, module)
    assert len(groups) > 8
    kinds = {group.name.split()[0] for group in groups}
    assert kinds == ({"residual", "first", "values"} if component == "vae" else {"residual", "first", "values", "gate"})
    inputs = _inputs(component, pipe)
    with torch.no_grad():
        expected = module(*inputs, return_dict=False)
        for group in groups:
            exponents = exponents_up(group, k)
            scale_parameters(module, exponents)
            without = relative_error(module(*inputs, return_dict=False), expected)
            scale_epsilons(module, dict.fromkeys(group.epsilons, 2 * k))
            error = relative_error(module(*inputs, return_dict=False), expected)
            scale_epsilons(module, {})
            scale_parameters(module, {name: -value for name, value in exponents.items()})
            assert error == 0, group.name
            assert bool(group.epsilons) == group.wide == (without > 0), f"{group.name}: the epsilon of a norm sees other numbers"
        assert relative_error(module(*inputs, return_dict=False), expected) == 0, "undone exactly"


def test_epsilons_follow_the_state_and_come_back(pipe: Any) -> None:
    """In both ways in which a state is realised: as a whole, and as what differs from the one before."""
    module, name = pipe.vae, "decoder.conv_norm_out.eps"
    own = module.decoder.conv_norm_out.eps
    masters = {key: tensor.clone() for key, tensor in exact_weights(module).items()}
    plain, shrunk, more = (
        ComponentState(dtype="float32", rescale=rescale) for rescale in ({}, {name: -8}, {name: -20, "decoder.conv_in.bias": -10})
    )
    realise(module, masters, shrunk)
    assert module.decoder.conv_norm_out.eps == own * 2.0**-8
    realise(module, masters, more, shrunk)
    assert module.decoder.conv_norm_out.eps == own * 2.0**-20
    assert module.decoder.mid_block.resnets[0].norm1.eps == own, "others keep theirs"
    realise(module, masters, plain, more)
    assert module.decoder.conv_norm_out.eps == own
    assert has_epsilon(module, name)
    assert not has_epsilon(module, "decoder.conv_in.eps")
    assert not has_epsilon(module, "decoder.conv_norm_out.weight")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("norm", [nn.GroupNorm(4, 16), nn.LayerNorm(16), nn.RMSNorm(16, eps=1e-6)])
def test_norms_take_an_epsilon_that_their_type_could_not_hold(norm: Any, dtype: torch.dtype) -> None:
    """It is added in float32: zeros stay zeros, and numbers 2^-12 times as large give what they gave."""
    own, values = norm.eps, torch.randn(2, 16, generator=torch.Generator().manual_seed(2)) * 64
    module = norm.to(DEVICE, dtype)
    with torch.no_grad():
        expected = module(values.to(dtype)).float()
        norm.eps = own * 2.0**-24
        found = module((values * 2.0**-12).to(dtype)).float()
        zeros = module(torch.zeros(2, 16, dtype=dtype))
    norm.eps = own
    assert relative_error(found, expected) < 1e-3 if dtype != torch.bfloat16 else 1e-2
    assert bool((zeros == 0).all())


def test_every_residual_block_of_an_autoencoder_has_its_first_half(pipe: Any) -> None:
    found = {group.name.removeprefix("first half of ") for group in rescale_groups("vae", pipe.vae)}
    blocks = {name for name, module in pipe.vae.named_modules() if hasattr(module, "conv1")}
    assert blocks <= found
    assert any(".up_blocks." in name for name in blocks)


def test_a_norm_that_the_latents_scale_undoes_the_first_half_too() -> None:
    torch.manual_seed(4)
    block = ResnetBlockCondNorm2D(in_channels=32, out_channels=32, temb_channels=4, groups=4, time_embedding_norm="spatial")
    block.to(DEVICE)
    (group,) = rescale_groups("movq", nn.ModuleDict({"block": block}))
    hidden, latents = torch.randn(1, 32, 8, 8), torch.randn(1, 4, 4, 4)
    with torch.no_grad():
        expected = block(hidden, latents)
        scale_parameters(nn.ModuleDict({"block": block}), exponents_up(group, 5))
        assert relative_error(block(hidden, latents), expected) < 1e-4


def test_a_stream_with_an_unknown_block_is_not_offered(pipe: Any) -> None:
    names = {group.name for group in rescale_groups("unet", pipe.unet)}
    assert "residual stream of unet" in names
    pipe.unet.mid_block.extra = torch.nn.Linear(2, 2)
    try:
        assert "residual stream of unet" not in {group.name for group in rescale_groups("unet", pipe.unet)}
    finally:
        del pipe.unet.mid_block.extra


def test_states_are_realised_from_exact_weights_and_back(pipe: Any) -> None:
    module = pipe.vae
    exact = {name: tensor.clone() for name, tensor in exact_weights(module).items()}
    group = rescale_groups("vae", module)[0]
    down = {name: -value for name, value in exponents_up(group, 5).items()}
    realise(module, exact, ComponentState(dtype="float16", rescale=down, upcast=("decoder.mid_block.resnets.0",)))
    name = group.shrink[0]
    parameters = dict(module.named_parameters())
    assert torch.equal(parameters[name].float(), (exact[name] * 2.0**-5).half().float())
    assert parameters["decoder.mid_block.resnets.0.conv1.weight"].dtype == torch.float32
    assert parameters["decoder.conv_out.weight"].dtype == torch.float16
    with torch.no_grad():
        assert module.decode(torch.randn(1, 4, 16, 16).half()).sample.isfinite().all()
    realise(module, exact, ComponentState(dtype="float32"))
    assert all(torch.equal(tensor, exact[name]) for name, tensor in exact_weights(module).items())


def test_a_region_keeps_the_stream_in_float32_until_it_ends(pipe: Any) -> None:
    module = pipe.vae
    exact = {name: tensor.clone() for name, tensor in exact_weights(module).items()}
    seen: dict[str, torch.dtype] = {}
    watched = ("decoder.conv_in", "decoder.mid_block.resnets.0.conv1", "decoder.mid_block.resnets.1.norm1")
    realise(module, exact, ComponentState(dtype="float16", upcast=("decoder.conv_in", "decoder.mid_block.resnets.0")))
    handles = [
        module.get_submodule(name).register_forward_hook(lambda _m, args, _o, name=name: seen.update({name: args[0].dtype}))
        for name in watched
    ]
    with torch.no_grad():
        module.decode(torch.randn(1, 4, 16, 16).half())
    for handle in handles:
        handle.remove()
    realise(module, exact, ComponentState(dtype="float32"))
    assert [seen[name] for name in watched] == [torch.float32, torch.float32, torch.float16]


class FeedForward(nn.Module):
    """Named as one that is known, and of another shape."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


@pytest.mark.parametrize(
    "module",
    [
        FeedForward(w1=nn.Linear(2, 2), w2=nn.Linear(2, 2)),
        FeedForward(net=nn.ModuleList()),
        FeedForward(net=nn.Linear(2, 2)),
        FeedForward(net=nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])),
        FeedForward(to_v=nn.Linear(2, 2), to_out=nn.ModuleList()),
        FeedForward(to_v=nn.Linear(2, 2), to_out=nn.Linear(2, 2)),
        FeedForward(
            conv_in=nn.Conv2d(2, 2, 1),
            conv_norm_out=nn.GroupNorm(1, 2),
            mid_block=FeedForward(attentions=nn.ModuleList([FeedForward(to_out=nn.Linear(2, 2), group_norm=nn.GroupNorm(1, 2))])),
        ),
        FeedForward(
            conv_in=nn.Conv2d(2, 2, 1),
            conv_norm_out=nn.GroupNorm(1, 2),
            mid_block=FeedForward(resnets=nn.Sequential(nn.Conv2d(2, 2, 1))),
        ),
    ],
)
def test_an_unknown_shape_is_no_group(module: nn.Module) -> None:
    assert rescale_groups("transformer", module) == ()
