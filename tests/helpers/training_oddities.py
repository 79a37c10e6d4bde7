"""Trainings that are sound and look odd: NaN or infinity that nothing uses, huge numbers, schedules, several optimizers."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from tests.helpers.device import DEVICE
from tests.helpers.training_models import COMPLETE, WIDTH, Attending, Deep, Normed, Perceptron, Recurrent, muon_and_adamw
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import lr_scheduler as schedules

from halftone.training.guard import TrainingGuard

TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)


@dataclass
class Odd:
    """loss: of a step's number; changed: what the script does after a step, and declares where `declares` says so."""

    name: str
    network: nn.Module
    optimizers: list[torch.optim.Optimizer]
    loss: Callable[[int], Tensor]
    scheduler: list[Any] = field(default_factory=list[Any])
    accumulate: int = 1
    clip: float | None = None
    scaler: torch.amp.GradScaler | None = None
    changed: Callable[[int, TrainingGuard | None], object] = lambda _step, _guard: None
    other: bool = False
    """Whether it may differ from a plain training in its last bits (a loss scale that finds its place in another way)."""


def rows(step: int, seed: int = 0, count: int = 8, width: int = WIDTH) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(100 * seed + step))


def adamw(network: nn.Module) -> list[torch.optim.Optimizer]:
    return [torch.optim.AdamW(network.parameters(), lr=1e-3, eps=1e-4)]


def sgd(network: nn.Module, rate: float = 1e-2) -> list[torch.optim.Optimizer]:
    return [torch.optim.SGD(network.parameters(), lr=rate, momentum=0.5)]


def square(made: Tensor) -> Tensor:
    return made.float().square().mean()


# --- masks and numbers that something takes away -------------------------------------------------------------------------------


def additive_mask(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network = Attending(drawn.choice((8, 16))).to(dtype)
    named, seed = drawn.random() < 0.5, drawn.randrange(999)
    mask = torch.full((8, 8), drawn.choice((-torch.inf, -1e9, float(torch.finfo(torch.float32).min)))).triu(1).to(dtype)

    def loss(step: int) -> Tensor:
        x = rows(step, seed).to(dtype)
        return square(network(x, bias=mask) if named else network(x, mask))

    return Odd(f"additive mask, {dtype}", network, adamw(network), loss)


class Least(nn.Module):
    """Infinite where a place is closed; the least of each row counts."""

    def __init__(self, largest: bool) -> None:
        super().__init__()
        self.places = nn.Linear(WIDTH, 6)
        self.closed = Filled(-torch.inf if largest else torch.inf)
        self._largest = largest

    def forward(self, x: Tensor) -> Tensor:
        made = self.closed(self.places(x))
        return made.amax(-1) if self._largest else made.amin(-1)


class Filled(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(torch.arange(x.shape[-1]) >= x.shape[-1] // 2, self._value)


def least(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Least(drawn.random() < 0.5).to(dtype), drawn.randrange(999)
    return Odd(f"least of what is infinite, {dtype}", network, adamw(network), lambda s: square(network(rows(s, seed).to(dtype))))


class Pointing(nn.Module):
    """Logits of -inf where no answer may be, after a layer that makes them so."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, 16)
        self.leave = nn.Linear(16, 10)
        self.closed = Filled(-torch.inf)

    def forward(self, x: Tensor) -> Tensor:
        return self.closed(self.leave(functional.relu(self.enter(x))))


def pointing(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Pointing().to(dtype), drawn.randrange(999)
    answers = torch.randint(0, 5, (8,), generator=torch.Generator().manual_seed(seed))

    def loss(step: int) -> Tensor:
        return functional.cross_entropy(network(rows(step, seed).to(dtype)).float(), answers, label_smoothing=0.0)

    return Odd(f"logits that are closed, {dtype}", network, adamw(network), loss)


class Imputing(nn.Module):
    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.scale = Halved() if inside else nn.Identity()
        self.filling = nn.Parameter(torch.zeros(WIDTH))
        self.rest = Perceptron(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.scale(x)
        return self.rest(torch.where(x.isnan(), self.filling, x))


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0.5


def imputing(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Imputing(drawn.random() < 0.5).to(dtype), drawn.randrange(999)

    def loss(step: int) -> Tensor:
        x = rows(step, seed)
        x[torch.rand(x.shape, generator=torch.Generator().manual_seed(step)) < 0.2] = torch.nan
        return square(network(x.to(dtype)))

    return Odd(f"missing numbers, {dtype}", network, adamw(network), loss)


def missing_targets(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(16).to(dtype), drawn.randrange(999)

    def loss(step: int) -> Tensor:
        target = rows(step, seed)
        target[::3] = torch.nan
        known = ~target.isnan()
        return functional.mse_loss(network(rows(step, seed + 1).to(dtype)).float()[known], target[known])

    return Odd(f"missing targets, {dtype}", network, adamw(network), loss)


def encoder_layer(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True).to(dtype), drawn.randrange(999)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=dtype)

    def loss(step: int) -> Tensor:
        x = rows(step, seed, 10).reshape(2, 5, WIDTH).to(dtype)
        return square(network(x, src_mask=causal, is_causal=False))

    return Odd(f"encoder layer with a mask, {dtype}", network, adamw(network), loss)


# --- what nothing uses ---------------------------------------------------------------------------------------------------------


def unused(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(16).to(dtype), drawn.randrange(999)
    value = drawn.choice((torch.nan, torch.inf))
    network.register_parameter("never", nn.Parameter(torch.full((4,), value, dtype=dtype), requires_grad=drawn.random() < 0.3))
    if drawn.random() < 0.5:
        network.register_buffer("table", torch.full((6,), value))
    return Odd(
        f"a bad parameter that nothing uses, {dtype}", network, adamw(network), lambda s: square(network(rows(s, seed).to(dtype)))
    )


class Looking(nn.Module):
    """Frozen rows, of which one is NaN and never looked up; rows that have sparse gradients, where asked for."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.frozen = nn.Embedding(6, WIDTH)
        self.rows = nn.Embedding(6, WIDTH, sparse=sparse)
        self.rest = Perceptron(8)
        self.frozen.requires_grad_(False)
        self.frozen.weight.data[5] = torch.nan

    def forward(self, places: Tensor) -> Tensor:
        return self.rest(self.frozen(places) + self.rows(places))


def looking(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    sparse = drawn.random() < 0.7 and COMPLETE
    network = Looking(sparse)
    rest = list(network.rest.parameters())
    rare: torch.optim.Optimizer = (
        torch.optim.SparseAdam([network.rows.weight]) if sparse else torch.optim.Adam([network.rows.weight])
    )
    places = [torch.randint(0, 5, (8,), generator=torch.Generator().manual_seed(n)) for n in range(9)]
    return Odd("sparse rows, one frozen NaN", network, [rare, torch.optim.AdamW(rest)], lambda s: square(network(places[s])))


def untrained_head(drawn: random.Random, dtype: torch.dtype) -> Odd:
    """A branch that needs gradients and that no optimizer trains: its gradient is NaN."""
    network = nn.ModuleDict({"used": Perceptron(8), "beside": nn.Linear(WIDTH, WIDTH)}).to(dtype)
    seed = drawn.randrange(999)

    def loss(step: int) -> Tensor:
        x = rows(step, seed).to(dtype)
        return square(network["used"](x)) + (network["beside"].get_parameter("weight").float() * 0).sqrt().sum()

    return Odd(f"a bad gradient that nothing uses, {dtype}", network, adamw(network["used"]), loss)


# --- large and small -----------------------------------------------------------------------------------------------------------


def huge(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed, factor = Perceptron(16), drawn.randrange(999), 10.0 ** drawn.randint(12, 30)
    return Odd("huge finite loss", network, adamw(network), lambda s: square(network(rows(s, seed))) * factor, clip=1.0)


class Reaching(nn.Module):
    def __init__(self, far: float) -> None:
        super().__init__()
        self.enter, self.leave, self.far = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH), nn.Hardtanh(-3e38, 3e38)
        self._far = far

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.far(self.enter(x) * self._far) / self._far)


def reaching(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed = Reaching(10.0 ** drawn.randint(18, 36)), drawn.randrange(999)
    return Odd("huge finite activations", network, sgd(network), lambda s: square(network(rows(s, seed))))


def vanishing(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).to(dtype), drawn.randrange(999)
    return Odd(
        f"no loss at all in every second step, {dtype}",
        network,
        adamw(network),
        lambda s: square(network(rows(s, seed).to(dtype))) * (s % 2),
    )


def double(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).double(), drawn.randrange(999)
    return Odd("FP64", network, adamw(network), lambda s: square(network(rows(s, seed).double())))


def waves(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    """Complex numbers on the way."""
    network, seed = Perceptron(8), drawn.randrange(999)
    return Odd("spectra", network, adamw(network), lambda s: torch.fft.rfft(network(rows(s, seed))).abs().square().mean())


# --- ways to train -------------------------------------------------------------------------------------------------------------

_SCHEDULES: Final[tuple[tuple[str, Callable[[torch.optim.Optimizer], Any]], ...]] = (
    ("LambdaLR", lambda o: schedules.LambdaLR(o, lambda n: 1 / (n + 1))),
    ("MultiplicativeLR", lambda o: schedules.MultiplicativeLR(o, lambda _n: 0.9)),
    ("StepLR", lambda o: schedules.StepLR(o, 2)),
    ("MultiStepLR", lambda o: schedules.MultiStepLR(o, [1, 3])),
    ("ConstantLR", lambda o: schedules.ConstantLR(o, total_iters=2)),
    ("LinearLR", lambda o: schedules.LinearLR(o, total_iters=3)),
    ("ExponentialLR", lambda o: schedules.ExponentialLR(o, 0.8)),
    ("PolynomialLR", lambda o: schedules.PolynomialLR(o, total_iters=4)),
    ("CosineAnnealingLR", lambda o: schedules.CosineAnnealingLR(o, 4)),
    ("CosineAnnealingWarmRestarts", lambda o: schedules.CosineAnnealingWarmRestarts(o, 2)),
    ("CyclicLR", lambda o: schedules.CyclicLR(o, 1e-4, 1e-3, 2, cycle_momentum=False)),
    ("OneCycleLR", lambda o: schedules.OneCycleLR(o, 1e-3, total_steps=12, cycle_momentum=False)),
    ("ReduceLROnPlateau", lambda o: schedules.ReduceLROnPlateau(o, patience=1)),
    ("ChainedScheduler", lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)])),
    ("LambdaLR, from zero", lambda o: schedules.LambdaLR(o, lambda n: min(1.0, n / 3))),
)


def scheduled(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).to(dtype), drawn.randrange(999)
    name, make = drawn.choice(_SCHEDULES)
    optimizers = sgd(network)
    return Odd(f"{name}, {dtype}", network, optimizers, lambda s: square(network(rows(s, seed).to(dtype))), [make(optimizers[0])])


def gathered(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = drawn.choice((Normed, Recurrent if COMPLETE else Perceptron, Deep))(8).to(dtype), drawn.randrange(999)
    return Odd(
        f"gathered gradients, {dtype}",
        network,
        adamw(network),
        lambda s: square(network(rows(s, seed).to(dtype))),
        accumulate=drawn.choice((2, 3)),
    )


def together(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(16).to(dtype), drawn.randrange(999)
    optimizers = muon_and_adamw(network)
    held = [schedules.ExponentialLR(one, 0.9) for one in optimizers] if drawn.random() < 0.5 else []
    return Odd(
        f"Muon with AdamW, {dtype}", network, optimizers, lambda s: square(network(rows(s, seed).to(dtype))), held, clip=1.0
    )


def cleared(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).to(dtype), drawn.randrange(999)
    optimizers = adamw(network)

    def changed(step: int, guard: TrainingGuard | None) -> None:
        if step % 2 == 0:
            optimizers[0].state.clear()
            if guard is not None:
                guard.accept_changes()

    return Odd(
        f"moments cleared on purpose, {dtype}",
        network,
        optimizers,
        lambda s: square(network(rows(s, seed).to(dtype))),
        changed=changed,
    )


def clamped(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).to(dtype), drawn.randrange(999)

    def changed(_step: int, guard: TrainingGuard | None) -> None:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.clamp_(-0.2, 0.2)
        if guard is not None:
            guard.accept_changes()

    return Odd(
        f"weights clamped on purpose, {dtype}",
        network,
        sgd(network),
        lambda s: square(network(rows(s, seed).to(dtype))),
        changed=changed,
    )


def thawed(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8), drawn.randrange(999)
    network.enter.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=1e-3)

    def changed(step: int, guard: TrainingGuard | None) -> None:
        if step == 2:
            network.enter.requires_grad_(True)
            optimizer.add_param_group({"params": list(network.enter.parameters()), "lr": 1e-4})
            if guard is not None:
                guard.accept_changes()

    return Odd("a group added on the way", network, [optimizer], lambda s: square(network(rows(s, seed))), changed=changed)


def validated(drawn: random.Random, dtype: torch.dtype) -> Odd:
    """A validation that leaves everything as it was, an average of the weights beside, random numbers used in between."""
    network, seed = Normed(8).to(dtype), drawn.randrange(999)
    average = copy.deepcopy(network)

    def changed(step: int, _guard: TrainingGuard | None) -> None:
        with torch.no_grad():
            network.eval()
            network(rows(step).to(dtype))
            network.train()
            for kept, now in zip(average.parameters(), network.parameters(), strict=True):
                kept.lerp_(now, 0.1)

    return Odd(
        f"validation between steps, {dtype}",
        network,
        adamw(network),
        lambda s: square(network(rows(s, seed).to(dtype))),
        changed=changed,
    )


class Signed(torch.autograd.Function):
    """A sign on the way there, straight through on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        del ctx
        return x.sign()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        del ctx
        return gradients[0]


def straight_through(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8).to(dtype), drawn.randrange(999)
    made: Callable[[Tensor], Tensor] = Signed.apply
    return Odd(f"own way back, {dtype}", network, adamw(network), lambda s: square(made(network(rows(s, seed).to(dtype))) * 0.5))


def penalised(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    """A penalty on a gradient: the way back goes through one."""
    network, seed = Perceptron(8), drawn.randrange(999)

    def loss(step: int) -> Tensor:
        x = rows(step, seed).requires_grad_()
        made = network(x)
        (gradient,) = torch.autograd.grad(made.sum(), x, create_graph=True)
        return square(made) + (gradient.norm(dim=-1) - 1).square().mean()

    return Odd("gradient penalty", network, adamw(network), loss)


def bounded(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed = Perceptron(8), drawn.randrange(999)
    nn.utils.parametrizations.spectral_norm(network.middle)
    nn.utils.parametrizations.weight_norm(network.leave)
    return Odd("spectral and weight norm", network, adamw(network), lambda s: square(network(rows(s, seed))))


def scaled(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    network, seed = drawn.choice((Perceptron, Deep, Attending))(16), drawn.randrange(999)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0 ** drawn.choice((4, 10, 16, 24)), growth_interval=2)

    def loss(step: int) -> Tensor:
        with torch.autocast(DEVICE.type, torch.float16):
            return square(network(rows(step, seed)))

    return Odd("GradScaler", network, adamw(network), loss, scaler=scaler, other=True)


def sequences(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = nn.LSTM(WIDTH, 8, batch_first=True).to(dtype), drawn.randrange(999)

    def loss(step: int) -> Tensor:
        made, _ = network(rows(step, seed, 12).reshape(3, 4, WIDTH).to(dtype))
        return square(made)

    return Odd(f"LSTM, {dtype}", network, adamw(network), loss)


def aligned(drawn: random.Random, _dtype: torch.dtype) -> Odd:
    """CTC with a target that does not fit: an infinite loss that is set to zero."""
    network, seed = nn.Linear(WIDTH, 5), drawn.randrange(999)

    def loss(step: int) -> Tensor:
        said = network(rows(step, seed, 12).reshape(4, 3, WIDTH)).log_softmax(-1)
        targets, sizes = torch.ones(3, 6, dtype=torch.long), torch.tensor([1, 6, 2])
        return functional.ctc_loss(said, targets, torch.full((3,), 4), sizes, zero_infinity=True)

    return Odd("CTC", network, adamw(network), loss)


def again(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = Deep(8, again=True).to(dtype), drawn.randrange(999)
    return Odd(f"checkpointed, {dtype}", network, adamw(network), lambda s: square(network(rows(s, seed).to(dtype))))


def dropping(drawn: random.Random, dtype: torch.dtype) -> Odd:
    network, seed = nn.Sequential(nn.Linear(WIDTH, 16), nn.Dropout(0.5), nn.Linear(16, WIDTH)).to(dtype), drawn.randrange(999)
    return Odd(f"dropout, {dtype}", network, adamw(network), lambda s: square(network(rows(s, seed).to(dtype))))


ODDITIES: Final[tuple[Callable[[random.Random, torch.dtype], Odd], ...]] = (
    additive_mask, least, pointing, imputing, missing_targets, encoder_layer, unused, looking, untrained_head, huge, reaching,
    vanishing, double, waves, scheduled, scheduled, scheduled, gathered, together, cleared, clamped, thawed, validated,
    straight_through, penalised, bounded, scaled, *([sequences] if COMPLETE else []), aligned, again, dropping,
)  # fmt: skip


def oddity(seed: int, number: int) -> Odd:
    """The one of this number: each kind in turn, its type and settings drawn."""
    drawn = random.Random(7919 * seed + number)
    torch.manual_seed(7919 * seed + number)
    return ODDITIES[number % len(ODDITIES)](drawn, drawn.choice(TYPES))
