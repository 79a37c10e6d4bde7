"""Small trainings, and faults put into them: what must be found, and under which name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn
from torch.nn import functional

from halftone.contract.training import Cause
from halftone.training.guard.finite import waits


class Block(nn.Module):
    """Attention and a feed-forward part, each added to the stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + functional.scaled_dot_product_attention(self.query(h), self.key(h), self.value(h))
        return x + self.back(functional.gelu(self.feed(self.norm2(x))))


class Transformer(nn.Module):
    """Tokens in, tokens out."""

    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.leave = nn.Linear(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


class Convolutional(nn.Module):
    """A few convolutions with the norm that keeps running means."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = norm(8)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(functional.silu(self.middle(functional.silu(self.norm(self.down(x))))))


class Coder(nn.Module):
    """An autoencoder whose last layer stays in float32, as in a mixed form of training."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 4))
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 16))
        self.out = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.decode(self.encode(x.to(next(self.encode.parameters()).dtype)))
        return self.out(inner.to(self.out.weight.dtype))


@dataclass
class Training:
    """A network, what it is fed, and its optimizer. layer: a module to put faults into; autocast: type of the pass."""

    name: str
    network: nn.Module
    shape: tuple[int, ...]
    layer: str
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None = None
    autocast: torch.dtype | None = None
    seed: int = 0
    data: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    def batch(self) -> None:
        """The next pictures: what is drawn follows from the number of the step."""
        self.seed += 1
        drawn = torch.Generator().manual_seed(self.seed)
        x = torch.randn(self.shape, generator=drawn)
        self.data = {"x": x.to(self.dtype), "target": torch.tanh(x)}

    def loss(self) -> Tensor:
        if self.autocast is None:
            made = self.network(self.data["x"])
        else:
            with torch.autocast(DEVICE.type, dtype=self.autocast):
                made = self.network(self.data["x"])
        return functional.mse_loss(made.float(), self.data["target"])

    def module(self) -> nn.Module:
        return self.network.get_submodule(self.layer)

    def overflows(self) -> bool:
        """Whether the layer's result is not finite, looked at by torch alone."""
        seen: list[bool] = []
        with torch.no_grad():
            handle = self.module().register_forward_hook(lambda _m, _a, y: seen.append(bool(torch.isfinite(y).all())))
            state = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.loss()
            self.network.load_state_dict(state)
            handle.remove()
        return not all(seen)

    def weight(self) -> nn.Parameter:
        found = self.module().weight
        assert isinstance(found, nn.Parameter)
        return found


def _adamw(network: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-3, **settings)


def _transformer() -> Training:
    network = Transformer()
    return Training("transformer", network, (4, 6, 8), "blocks.1.feed", _adamw(network))


def _half_transformer() -> Training:
    network = Transformer().half()
    return Training("transformer in FP16", network, (4, 6, 8), "blocks.0.feed", _adamw(network, eps=1e-4))


def _autocast_transformer() -> Training:
    network = Transformer()
    return Training(
        "transformer under FP16 autocast", network, (4, 6, 8), "blocks.1.feed", _adamw(network), autocast=torch.float16
    )


def _brain_transformer() -> Training:
    network = Transformer().bfloat16()
    return Training("transformer in BF16", network, (4, 6, 8), "blocks.1.value", _adamw(network))


def _convolutional() -> Training:
    network = Convolutional()
    return Training("convolutions", network, (4, 3, 8, 8), "middle", _adamw(network))


def _half_convolutional() -> Training:
    network = Convolutional(lambda width: nn.GroupNorm(2, width)).half()
    return Training("convolutions in FP16", network, (4, 3, 8, 8), "middle", torch.optim.SGD(network.parameters(), lr=1e-2))


def _coder() -> Training:
    network = Coder().half()
    network.out.float()
    return Training("coder, trunk in FP16", network, (8, 8), "decode.0", _adamw(network, eps=1e-4))


def _momentum() -> Training:
    network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 8))
    return Training("layers with RMSprop", network, (8, 8), "2", torch.optim.RMSprop(network.parameters(), lr=1e-3))


def _scaled() -> Training:
    network = Coder()
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10)
    return Training("coder, scaled loss", network, (8, 8), "decode.0", _adamw(network), scaler=scaler, autocast=torch.float16)


TRAININGS: Final[tuple[Callable[[], Training], ...]] = (
    _transformer,
    _half_transformer,
    _autocast_transformer,
    _brain_transformer,
    _convolutional,
    _half_convolutional,
    _coder,
    _momentum,
    _scaled,
)


def make(training: Callable[[], Training], seed: int = 0) -> Training:
    """One of them, always the same for a seed."""
    torch.manual_seed(seed)
    made = training()
    made.seed = 1000 * seed
    return made


@dataclass(frozen=True)
class Fault:
    """put: does the harm before a step, gives what ends it again (or None). causes: any of them is right. named: whether a name
    that the guard gives is right, for a training. fits: of which trainings it can be a fault.
    """

    name: str
    kind: str
    put: Callable[[Training], Callable[[], None] | None]
    causes: tuple[Cause, ...]
    named: Callable[[Training, str], bool]
    fits: Callable[[Training], bool] = lambda _training: True
    proves: bool = False
    """Whether it did its harm has to be looked at: numbers decide."""
    harmless: bool = False
    """It spoils no number at once: other code changed what it should not have."""


def _layer(training: Training, name: str) -> bool:
    return name == training.layer


def _inside(training: Training, name: str) -> bool:
    return name.startswith(training.layer)


def _anything(_training: Training, name: str) -> bool:
    return bool(name)


def _narrow(training: Training) -> bool:
    return torch.float16 in (training.weight().dtype, training.autocast)


def _hooked(training: Training, change: Callable[[Tensor], Tensor]) -> Callable[[], None]:
    changed: Any = lambda _m, _a, output: change(output)  # noqa: E731 - a hook may give what it likes
    return training.module().register_forward_hook(changed, prepend=True).remove


def _poke(tensor: Tensor, value: float) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[3] = value
    return changed


def _large_weights(training: Training) -> Callable[[], None]:
    """What grew over many steps: the layer's result passes float16's limit. Written through the counters of versions, as part of
    the training, so the guard takes it over.
    """
    weight = training.weight()
    before = weight.detach().clone()
    with torch.no_grad():
        weight.mul_(60000.0 / float(weight.abs().max()))

    def back() -> None:
        with torch.no_grad():
            weight.copy_(before)

    return back


def _data(key: str, value: float) -> Callable[[Training], None]:
    def put(training: Training) -> None:
        training.data[key] = _poke(training.data[key], value)

    return put


def _gradient(value: float) -> Callable[[Training], Callable[[], None]]:
    def put(training: Training) -> Callable[[], None]:
        return training.weight().register_hook(lambda gradient: _poke(gradient, value)).remove

    return put


def _moment(value: float, *names: str) -> Callable[[Training], None]:
    def put(training: Training) -> None:
        state = training.optimizer.state[training.weight()]
        name = next(name for name in names if name in state)
        state[name].view(-1)[3] = value

    return put


def _has_moments(training: Training) -> bool:
    return bool(training.optimizer.state) and any("sq" in name for of in training.optimizer.state.values() for name in of)


def _setting(name: str, value: float) -> Callable[[Training], Callable[[], None]]:
    def put(training: Training) -> Callable[[], None]:
        before = [group[name] for group in training.optimizer.param_groups]
        for group in training.optimizer.param_groups:
            group[name] = value

        def back() -> None:
            for group, old in zip(training.optimizer.param_groups, before, strict=True):
                group[name] = old

        return back

    return put


def _write(change: Callable[[Tensor], object]) -> Callable[[Training], None]:
    """Past the counters of versions. On an accelerator no number is read between steps: the next one finds it."""

    def put(training: Training) -> None:
        with torch.no_grad():
            change(training.weight().data)

    return put


def _cast(training: Training) -> None:
    training.module().to(torch.float64 if training.weight().dtype is torch.float32 else torch.float32)


def _fresh_moments(training: Training) -> None:
    training.optimizer.state.clear()


def _zero_epsilon(training: Training) -> None:
    """And a parameter that has no gradient in one place, as where a unit never fires."""
    for group in training.optimizer.param_groups:
        group["eps"] = 0.0
    for of in training.optimizer.state.values():
        for name, value in of.items():
            if isinstance(value, Tensor) and "sq" in name:
                value.zero_()
    training.data["x"] = torch.zeros_like(training.data["x"])


def _with_epsilon(training: Training) -> bool:
    return "eps" in training.optimizer.param_groups[0]


FAULTS: Final[tuple[Fault, ...]] = (
    Fault("layer passes the limit", "activation", _large_weights, ("activation-overflow",), _layer, _narrow, proves=True),
    Fault(
        "layer makes NaN", "activation", lambda t: _hooked(t, lambda y: _poke(y, torch.nan)), ("activation-nonfinite",), _layer
    ),
    Fault(
        "layer takes a logarithm of nothing",
        "activation",
        lambda t: _hooked(t, lambda y: y + (y - y).abs().log().clamp(max=0.0)),
        ("activation-nonfinite",),
        _layer,
    ),
    Fault(
        "layer divides nothing by nothing",
        "activation",
        lambda t: _hooked(t, lambda y: (y - y) / (y - y)),
        ("activation-nonfinite",),
        _layer,
    ),
    Fault(
        "NaN in a gradient", "gradient", _gradient(torch.nan), ("gradient-nonfinite", "gradient-overflow", "loss-scale"), _inside
    ),
    Fault("infinity in a gradient", "gradient", _gradient(torch.inf), ("gradient-overflow", "loss-scale"), _inside),
    Fault(
        "NaN in the first moment",
        "optimizer",
        _moment(torch.nan, "exp_avg", "square_avg"),
        ("state-outside",),
        _inside,
        _has_moments,
    ),
    Fault(
        "infinite second moment",
        "optimizer",
        _moment(torch.inf, "exp_avg_sq", "square_avg"),
        ("state-outside",),
        _inside,
        _has_moments,
    ),
    Fault("infinite rate", "optimizer", _setting("lr", torch.inf), ("learning-rate",), _anything),
    Fault("rate of NaN", "optimizer", _setting("lr", torch.nan), ("learning-rate",), _anything),
    Fault("rate of a million", "optimizer", _setting("lr", 1e6), ("learning-rate",), _anything),
    Fault("epsilon of zero", "optimizer", _zero_epsilon, ("optimizer-epsilon",), _anything, _with_epsilon),
    Fault("NaN in a picture", "data", _data("x", torch.nan), ("data-nonfinite",), lambda _t, name: "input" in name),
    Fault("infinity in a picture", "data", _data("x", torch.inf), ("data-nonfinite",), lambda _t, name: "input" in name),
    Fault("NaN in the target", "data", _data("target", torch.nan), ("data-nonfinite",), lambda _t, name: name == "target"),
    Fault("infinity in the target", "data", _data("target", torch.inf), ("data-nonfinite",), lambda _t, name: name == "target"),
    Fault("a layer is cast", "cast", _cast, ("cast-outside",), _inside, harmless=True),
    Fault(
        "a validation leaves the network in eval mode",
        "interference",
        lambda t: (t.network.eval(), None)[1],
        ("mode-outside",),
        lambda _t, _name: True,
        harmless=True,
    ),
    Fault(
        "a layer is frozen",
        "interference",
        lambda t: (t.weight().requires_grad_(False), None)[1],
        ("frozen-outside",),
        _inside,
        harmless=True,
    ),
    Fault(
        "other code writes NaN",
        "interference",
        _write(lambda w: w.view(-1)[:1].fill_(torch.nan)),
        ("activation-nonfinite",) if waits(DEVICE) else ("weights-changed",),
        _inside,
    ),
    Fault(
        "other code writes zeros",
        "interference",
        _write(lambda w: w.zero_()),
        ("weights-changed",),
        _inside,
        harmless=True,
    ),
    Fault(
        "the moments are lost",
        "interference",
        _fresh_moments,
        ("state-outside",),
        _anything,
        lambda t: bool(t.optimizer.state),
        harmless=True,
    ),
)
