"""What is trained: a convolutional network, a transformer, and an emulated accelerator.

The emulated accelerator sleeps for recorded durations while parameters, DistributedDataParallel, its hooks, gloo and
the network stay real: it separates the schedule from the contest of computing and communicating for one processor, and
lets four workers fit on two processors. A stage is what lies between two moments at which gradients become ready.
"""
import ctypes
import time

import torch
from torch import nn

SEED = 1234
PR_SET_TIMERSLACK = 29
SEQUENCE, VOCABULARY = 64, 2000


class Block(nn.Module):
    """Pre-norm transformer layer; with `split` > 1 the slice of it that one tensor-parallel worker holds."""

    def __init__(self, hidden=256, heads=4, split=1, enter=lambda x: x, leave=lambda x: x):
        super().__init__()
        self.heads, self.size, self.enter, self.leave = heads // split, hidden // heads, enter, leave
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.project = nn.Linear(hidden, 3 * hidden // split), nn.Linear(hidden // split, hidden)
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden // split), nn.Linear(4 * hidden // split, hidden)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(self.enter(self.norm1(x))).view(batch, length, 3, self.heads, self.size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / self.size ** 0.5, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, self.heads * self.size)
        x = x + self.leave(self.project(mixed))
        return x + self.leave(self.narrow(nn.functional.gelu(self.widen(self.enter(self.norm2(x))))))


class Embedding(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, hidden)
        self.position = nn.Parameter(torch.randn(1, SEQUENCE, hidden) * 0.02)

    def forward(self, tokens):
        return self.words(tokens) + self.position


def transformer(layers=4, hidden=256, block=Block):
    """A small encoder as a sequence, so that a pipeline can cut it."""
    torch.manual_seed(SEED)
    return nn.Sequential(Embedding(hidden), *[block(hidden) for _ in range(layers)], nn.LayerNorm(hidden),
                         nn.Linear(hidden, VOCABULARY))


def resnet18():
    import torchvision
    torch.manual_seed(SEED)
    return torchvision.models.resnet18(weights=None)


def inputs(model, rank):
    """One batch and its labels."""
    random = torch.Generator().manual_seed(SEED + 1 + rank)
    if model == "transformer":
        return tuple(torch.randint(0, VOCABULARY, (2, SEQUENCE), generator=random) for _ in range(2))
    return torch.randn(16, 3, 96, 96, generator=random), torch.randint(0, 1000, (16,), generator=random)


def loss(output, labels):
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), labels.reshape(-1))


MODELS = {"resnet18": resnet18, "transformer": transformer}


class Device:
    """The emulated accelerator's clock: work follows on earlier work, host time under it does not show.

    As on an asynchronous accelerator the host may run late by less than what is queued; a `sync` empties the queue.
    """

    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self.free = 0.0

    def sync(self):
        self.free = time.perf_counter()

    def work(self, seconds):
        self.free += seconds
        left = self.free - time.perf_counter()
        if left > 2e-5:
            time.sleep(left)


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
        return gradient, None, None, None, *gradients


class StageModule(nn.Module):
    def __init__(self, device, stage):
        super().__init__()
        self.device, self.forward_s, self.backward_s = device, stage["forward_s"], stage["backward_s"]
        # DDP's first guess at the order of readiness is that of the parameters, reversed.
        for i, tensor in enumerate(reversed(stage["tensors"])):
            self.register_parameter(f"tensor{i}", nn.Parameter(torch.zeros(tensor["shape"])))

    def forward(self, x):
        return Stage.apply(x, self.device, self.forward_s, self.backward_s, *self.parameters())


class Emulated(nn.Module):
    """Stages in forward order, as `inputs.stages_of` makes them of recorded times."""

    def __init__(self, stages):
        super().__init__()
        self.device = Device()
        self.stages = nn.Sequential(*[StageModule(self.device, s) for s in stages])
        self.start = torch.zeros(1, requires_grad=True)

    def forward(self, _):
        self.device.sync()
        return self.stages(self.start)


class EmulatedLoss:
    """Backward begins when forward has ended."""

    def __init__(self, device):
        self.device = device

    def __call__(self, output, _):
        self.device.sync()
        return output.sum()


class EmulatedUpdate:
    """An optimizer that takes as long as the recorded one; one that is part of a pass follows on its stages."""

    def __init__(self, model, seconds, synchronises=True):
        self.model, self.seconds, self.synchronises = model, seconds, synchronises

    def step(self):
        if self.synchronises:
            self.model.device.sync()
        self.model.device.work(self.seconds)

    def zero_grad(self, set_to_none=True):
        for p in self.model.parameters():
            p.grad = None
