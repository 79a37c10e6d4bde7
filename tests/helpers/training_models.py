"""Small networks of many kinds, the optimizers and types they are trained with: what a seed picks from."""

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH: Final = 8


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, width)
        self.norm = nn.LayerNorm(width)
        self.middle = nn.Linear(width, width)
        self.leave = nn.Linear(width, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(functional.silu(self.middle(self.norm(self.enter(x)))))


class Normed(nn.Module):
    """Keeps running means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, width)
        self.norm = nn.BatchNorm1d(width)
        self.leave = nn.Linear(width, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(functional.gelu(self.norm(self.enter(x))))


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.leave = nn.Linear(width, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made, _ = self.memory(self.enter(x).unsqueeze(1))
        return self.leave(made.squeeze(1))


class Scores(nn.Module):
    """Adds a bias to attention scores: a module of its own, so that its -inf is seen."""

    def forward(self, scores: Tensor, bias: Tensor | None) -> Tensor:
        return scores if bias is None else scores + bias


class Attending(nn.Module):
    """Rows of the batch look at one another, where the bias lets them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.scores = Scores()
        self.leave = nn.Linear(width, WIDTH)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        h = self.enter(x)
        found = self.scores(self.query(h) @ self.key(h).T / h.shape[-1] ** 0.5, bias).softmax(-1)
        return self.leave(h + found @ self.value(h))


class Deep(nn.Module):
    """Residual blocks, computed again on the way back where `again` says so."""

    def __init__(self, width: int, again: bool = False) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(3))
        self.leave = nn.Linear(width, WIDTH)
        self._again = again

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self._again else block(x))
        return self.leave(x)


class Convolving(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)
        self.leave = nn.Conv1d(width, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(functional.silu(self.norm(self.enter(x.unsqueeze(1))))).squeeze(1)


@dataclass(frozen=True)
class Kind:
    """A network, and modules of it that faults are put into."""

    name: str
    make: Callable[[int], nn.Module]
    layers: tuple[str, ...]


COMPLETE: Final = DEVICE.type != "card"
"""Whether the device has sparse tensors, and the fused kernels that torch wants for recurrent layers on a private one."""
KINDS: Final = (
    Kind("perceptron", Perceptron, ("enter", "middle", "leave")),
    Kind("batch norm", Normed, ("enter", "norm", "leave")),
    *([Kind("recurrent", Recurrent, ("enter", "leave"))] if COMPLETE else []),
    Kind("attention", Attending, ("enter", "value", "leave")),
    Kind("residual", Deep, ("enter", "blocks.1.1", "leave")),
    Kind("checkpointed", lambda width: Deep(width, again=True), ("enter", "leave")),
    Kind("convolution", Convolving, ("enter", "leave")),
)


@dataclass(frozen=True)
class Form:
    """How numbers are held: type of the weights, type of autocast, whether the loss is scaled."""

    name: str
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    scaled: bool = False

    @property
    def narrow(self) -> torch.dtype | None:
        """The 16-bit type that layers compute in."""
        return self.autocast or (None if self.dtype is torch.float32 else self.dtype)


FORMS: Final = (
    Form("FP32"),
    Form("BF16", torch.bfloat16),
    Form("FP16", torch.float16),
    Form("BF16 autocast", autocast=torch.bfloat16),
    Form("FP16 autocast", autocast=torch.float16),
    Form("FP16 autocast, scaled", autocast=torch.float16, scaled=True),
)

Optimizers = Callable[[nn.Module], list[torch.optim.Optimizer]]


def _one(kind: Callable[..., torch.optim.Optimizer], **settings: Any) -> Optimizers:
    return lambda network: [kind([p for p in network.parameters() if p.requires_grad], **settings)]


def muon_and_adamw(network: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for matrices, where there are any, and AdamW for the rest."""
    matrices = [p for p in network.parameters() if p.dim() == 2]
    rest = torch.optim.AdamW([p for p in network.parameters() if p.dim() != 2], lr=1e-3, eps=1e-4)
    return [torch.optim.Muon(matrices, lr=1e-3), rest] if matrices else [rest]


OPTIMIZERS: Final[dict[str, Optimizers]] = {
    "AdamW": _one(torch.optim.AdamW, lr=2e-3, eps=1e-4),
    "Adam, AMSGrad": _one(torch.optim.Adam, lr=2e-3, eps=1e-4, amsgrad=True),
    "SGD": _one(torch.optim.SGD, lr=1e-2, momentum=0.9),
    "RMSprop": _one(torch.optim.RMSprop, lr=1e-3, eps=1e-4),
    "NAdam": _one(torch.optim.NAdam, lr=2e-3, eps=1e-4),
    "Adagrad": _one(torch.optim.Adagrad, lr=1e-2, eps=1e-4),
    "Muon with AdamW": muon_and_adamw,
}


@dataclass
class Trial:
    """One training. fed: further arguments of the network; between: done by the script after each step; changes: of a loss."""

    name: str
    network: nn.Module
    optimizers: list[torch.optim.Optimizer]
    form: Form
    layer: str
    rows: int = 6
    seed: int = 0
    scaler: torch.amp.GradScaler | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    data: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    fed: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    loss_of: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss
    number: int = 0

    def batch(self) -> None:
        """The next rows: they follow from the number of the step."""
        self.number += 1
        drawn = torch.Generator().manual_seed(1000 * self.seed + self.number)
        x = torch.randn(self.rows, WIDTH, generator=drawn)
        self.data = {"x": x.to(self.form.dtype), "target": torch.tanh(x)}

    def loss(self) -> Tensor:
        autocast = torch.autocast(DEVICE.type, self.form.autocast) if self.form.autocast is not None else nullcontext()
        with autocast:
            made = self.network(self.data["x"], **self.fed)
        return self.loss_of(made.float(), self.data["target"])

    def module(self) -> nn.Module:
        return self.network.get_submodule(self.layer)

    def weight(self) -> nn.Parameter:
        return next(p for p in self.module().parameters() if p.dim() > 1 or self.layer == "norm")

    def weight_name(self) -> str:
        found = self.weight()
        return next(name for name, p in self.network.named_parameters() if p is found)


def pick(seed: int, forms: Sequence[Form] = FORMS, kinds: Sequence[Kind] = KINDS, several: bool = True) -> Trial:
    """The training of a seed: network, layer, optimizer, type and settings of the guard."""
    drawn = random.Random(seed)
    torch.manual_seed(seed)
    kind, form = drawn.choice(list(kinds)), drawn.choice(list(forms))
    names = [name for name in OPTIMIZERS if several or "with" not in name]
    chosen = drawn.choice(names)
    network = kind.make(drawn.choice((8, 16, 24))).to(form.dtype)
    optimizers = OPTIMIZERS[chosen](network)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0 ** drawn.randint(6, 12)) if form.scaled else None
    settings = {"clip": drawn.choice((None, 1.0)), "scaler": scaler}
    layer = drawn.choice(kind.layers)
    return Trial(f"{kind.name}, {chosen}, {form.name}", network, optimizers, form, layer, 6, seed, scaler, settings)
