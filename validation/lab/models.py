"""What is trained: a convolutional network, a GPT, a perceptron of one huge layer, a recommender; and their emulation.

The emulated accelerator sleeps for recorded durations while parameters, PyTorch's wrappers and hooks, gloo and the
network stay real: it separates the schedule from the contest of computing and communicating for one processor, and
lets four workers fit on two processors. A stage is what lies between two moments at which gradients become ready.
"""
import ctypes
import dataclasses
import itertools
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

SEED = 1234
PR_SET_TIMERSLACK = 29
SEQUENCE, VOCABULARY, HIDDEN = 128, 2000, 256
TABLES, ROWS, FACTORS, NUMBERS = 4, 20_000, 64, 64


class Attention(nn.Module):
    """Causal attention whose heads are divided like its projections, so that tensor parallelism may divide them."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.size = hidden // heads
        self.q, self.k, self.v, self.project = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return self.narrow(functional.gelu(self.widen(x)))


class Block(nn.Module):
    """Pre-norm layer of a GPT."""

    def __init__(self, hidden=HIDDEN, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.feed_forward = Attention(hidden, heads), FeedForward(hidden)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, hidden=HIDDEN):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, hidden)
        self.position = nn.Parameter(torch.randn(1, SEQUENCE, hidden) * 0.02)

    def forward(self, tokens):
        return self.words(tokens) + self.position


def gpt(layers=6):
    """A small GPT as a sequence, so that a pipeline can cut it."""
    return nn.Sequential(Embedding(), *[Block() for _ in range(layers)], nn.LayerNorm(HIDDEN),
                         nn.Linear(HIDDEN, VOCABULARY))


def resnet18():
    import torchvision
    return torchvision.models.resnet18(weights=None)


def mlp():
    """Nine tenths of the parameters lie in one layer."""
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 8192), nn.ReLU(), nn.Linear(8192, 64))


class Recommender(nn.Module):
    """Embeddings of categories beside a tower of numbers, and a tower over both. `pooled` may be replaced."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, FACTORS, mode="sum") for _ in range(TABLES))
        self.numbers = nn.Sequential(nn.Linear(NUMBERS, 256), nn.ReLU(), nn.Linear(256, FACTORS), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((TABLES + 1) * FACTORS, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                                 nn.Linear(256, 2))

    def pooled(self, categories):
        return torch.cat([table(categories[:, i]) for i, table in enumerate(self.tables)], 1)

    def forward(self, x):
        numbers, categories = x
        return self.top(torch.cat([self.pooled(categories), self.numbers(numbers)], 1))


def images(batch, random):
    return torch.randn(batch, 3, 96, 96, generator=random), torch.randint(0, 1000, (batch,), generator=random)


def tokens(batch, random):
    return tuple(torch.randint(0, VOCABULARY, (batch, SEQUENCE), generator=random) for _ in range(2))


def vectors(batch, random):
    return torch.randn(batch, 512, generator=random), torch.randint(0, 64, (batch,), generator=random)


def clicks(batch, random):
    return ((torch.randn(batch, NUMBERS, generator=random),
             torch.randint(0, ROWS, (batch, TABLES, 4), generator=random)),
            torch.randint(0, 2, (batch,), generator=random))


def loss(output, labels):
    return functional.cross_entropy(output.reshape(-1, output.shape[-1]), labels.reshape(-1))


def blocks_of(model):
    """(name, module) of the parts that FSDP wraps and a pipeline cuts between, in forward order: the smallest modules
    that are not mere containers of layers, and blocks of layers as a whole."""
    if hasattr(model, "blocks"):
        return model.blocks()
    found = []
    for name, child in model.named_children():
        containers = isinstance(child, (nn.Sequential, nn.ModuleList))
        found += [(f"{name}.{inner}", m) for inner, m in child.named_children()] if containers else [(name, child)]
    return [(name, m) for name, m in found if any(True for _ in m.parameters())]


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model, what makes a batch, and the shape that is handed on between blocks, per sample."""
    make: Callable
    inputs: Callable
    activation: tuple = ()


MODELS = {"resnet18": Trained(resnet18, images),
          "gpt": Trained(gpt, tokens, (SEQUENCE, HIDDEN)),
          "mlp": Trained(mlp, vectors),
          "recommender": Trained(Recommender, clicks)}


def made(name):
    """A freshly built model, the same on every worker."""
    torch.manual_seed(SEED)
    return MODELS[name].make().train()


def inputs(name, batch, rank):
    """One batch and its labels."""
    return MODELS[name].inputs(batch, torch.Generator().manual_seed(SEED + 1 + rank))


class Device:
    """The emulated accelerator's clock: work follows on earlier work, host time under it does not show.

    As on an asynchronous accelerator the host may run late by less than what is queued; a `sync` empties the queue.
    Where work waits for messages (`waits`), it begins when the host stopped waiting: its processor time since the last
    work is what an asynchronous host would have spent before.
    """

    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self.free, self.waits, self.used = 0.0, False, 0.0

    def sync(self):
        self.free, self.used = time.perf_counter(), time.thread_time()

    def work(self, seconds):
        if self.waits:
            self.free = max(self.free, time.perf_counter() - (time.thread_time() - self.used))
        self.free += seconds
        left = self.free - time.perf_counter()
        if left > 2e-5:
            time.sleep(left)
        self.used = time.thread_time()


class Stage(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device, forward_s, backward_s, *parameters):
        device.work(forward_s)
        ctx.device, ctx.seconds, ctx.parameters = device, backward_s, parameters
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradients = [torch.zeros_like(p) for p in ctx.parameters]  # within the stage's time, not after it
        ctx.device.work(ctx.seconds)
        return gradient.contiguous(), None, None, None, *gradients


class StageModule(nn.Module):
    """`samples` is the batch that the durations were recorded with; fewer take their share."""

    def __init__(self, device, stage, samples):
        super().__init__()
        self.device, self.samples = device, samples
        self.forward_s, self.backward_s = stage["forward_s"], stage["backward_s"]
        # DDP's first guess at the order of readiness is that of the parameters, reversed.
        for i, tensor in enumerate(reversed(stage["tensors"])):
            self.register_parameter(f"tensor{i}", nn.Parameter(torch.zeros(tensor["shape"])))

    def forward(self, x):
        share = len(x) / self.samples
        return Stage.apply(x, self.device, share * self.forward_s, share * self.backward_s, *self.parameters())


class Emulated(nn.Module):
    """Stages in forward order, as `emulation.stages_of` makes them of recorded times, in blocks by their names."""

    def __init__(self, stages, samples, activation=()):
        super().__init__()
        self.device = Device()
        parts = [(name, nn.Sequential(*[StageModule(self.device, s, samples) for s in of_block]))
                 for name, of_block in itertools.groupby(stages, lambda s: s["block"])]
        self.names, self.parts = [name for name, _ in parts], nn.Sequential(*[part for _, part in parts])
        self.start = torch.zeros((samples, *(activation or (1,))), requires_grad=True)

    def blocks(self):
        return list(zip(self.names, self.parts))

    def forward(self, _):
        self.device.sync()
        return self.parts(self.start)


class EmulatedLoss:
    """Backward begins when forward has ended."""

    def __init__(self, device):
        self.device = device

    def __call__(self, output, _):
        self.device.sync()
        return output.sum()


class EmulatedUpdate:
    """An optimizer that takes as long as the recorded one; one that is part of a pass follows on its stages."""

    def __init__(self, model, device, seconds, synchronises=True):
        self.model, self.device, self.seconds, self.synchronises = model, device, seconds, synchronises

    def step(self):
        if self.synchronises:
            self.device.sync()
        self.device.work(self.seconds)

    def zero_grad(self, set_to_none=True):
        for p in self.model.parameters():
            p.grad = None
