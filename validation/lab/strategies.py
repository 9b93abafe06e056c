"""How the workers of a step exchange gradients, by the names of the table in `plans.py`; each class trains one model.

`step()` is one iteration; a strategy with a `period` above 1 communicates once in that many iterations, and its times
are those of one of them. `communicates` is False where nothing is sent.
"""
import importlib

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

MIB = 1 << 20


def on_gradient(parameter, call, keep):
    """Calls `call(parameter)` whenever its gradient has been accumulated; `keep` holds what must live on."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        keep.append(parameter.register_post_accumulate_grad_hook(call))
        return
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    keep += [node, node.register_hook(lambda *_: call(parameter))]


def closed_at(parameters, size):
    """Buckets in the order of `parameters`, each closed by the tensor that fills it."""
    buckets, current, filled = [], [], 0
    for p in parameters:
        current.append(p)
        filled += p.numel() * p.element_size()
        if filled >= size:
            buckets.append(current)
            current, filled = [], 0
    return buckets + [current] if current else buckets


def flat(parameters):
    return torch.cat([p.grad.reshape(-1) for p in parameters])


def unflatten(buffer, parameters):
    at = 0
    for p in parameters:
        p.grad.copy_(buffer[at:at + p.numel()].view_as(p))
        at += p.numel()


class Local:
    """Computes and sends nothing."""
    period, communicates = 1, False

    def __init__(self, job):
        self.job, self.model, self.optimizer, self.keep = job, job.model, job.optimizer(), []
        self.parameters = list(self.model.parameters())

    def output(self):
        return self.model(self.job.inputs)

    def pass_through(self):
        self.job.loss(self.output(), self.job.labels).backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.pass_through()
        self.exchange()
        self.update()

    def exchange(self):
        pass

    def close(self):
        for hook in self.keep:
            if hasattr(hook, "remove"):
                hook.remove()


class NoOverlap(Local):
    """All-reduce of buckets of SIZE MiB after the backward pass."""
    communicates = True

    def __init__(self, job, size):
        super().__init__(job)
        self.buckets = closed_at(reversed(self.parameters), size * MIB)

    def exchange(self):
        for bucket in self.buckets:
            buffer = flat(bucket)
            dist.all_reduce(buffer)
            unflatten(buffer.div_(self.job.world), bucket)


class Ddp(Local):
    """DistributedDataParallel with buckets of SIZE MiB, and a hook that compresses them.

    `view`: gradients are views of buckets; `static`: the graph is the same in every step.
    """
    communicates = True

    def __init__(self, job, size=25, *words, hook=None, state=None):
        super().__init__(job)
        self.parallel = DistributedDataParallel(self.model, bucket_cap_mb=size, gradient_as_bucket_view="view" in words,
                                                static_graph="static" in words)
        if hook:
            self.parallel.register_comm_hook(state, hook)

    def output(self):
        return self.parallel(self.job.inputs)

    def update(self):
        self.optimizer.step()
        # Gradients that are views of buckets stay where they are.
        self.optimizer.zero_grad(set_to_none=not self.parallel.gradient_as_bucket_view)


def fp16(job):
    return Ddp(job, hook=default_hooks.fp16_compress_hook)


def bf16(job):
    return Ddp(job, hook=default_hooks.bf16_compress_hook)


def power_sgd(job, rank):
    state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=int(rank),
                                        start_powerSGD_iter=2, min_compression_rate=0.5)
    return Ddp(job, hook=powerSGD_hook.powerSGD_hook, state=state)


class Accumulate(Ddp):
    """Every PERIOD-th backward pass synchronises."""

    def __init__(self, job, period):
        super().__init__(job)
        self.period, self.count = int(period), 0

    def step(self):
        self.count += 1
        if self.count % self.period:
            with self.parallel.no_sync():
                self.pass_through()
        else:
            self.pass_through()
            self.update()


class LocalSgd(Local):
    """Every worker updates its own parameters; their average is taken every PERIOD steps."""
    communicates = True

    def __init__(self, job, period):
        super().__init__(job)
        self.period, self.count = int(period), 0

    def step(self):
        super().step()
        self.count += 1
        if self.count % self.period == 0:
            with torch.no_grad():
                buffer = torch.cat([p.reshape(-1) for p in self.parameters])
                dist.all_reduce(buffer)
                buffer.div_(self.job.world)
                at = 0
                for p in self.parameters:
                    p.copy_(buffer[at:at + p.numel()].view_as(p))
                    at += p.numel()


class PerTensor(Local):
    """Wait-free backpropagation: one all-reduce per tensor, as soon as its gradient is there."""
    communicates = True

    def __init__(self, job):
        super().__init__(job)
        self.running = []
        for p in self.parameters:
            on_gradient(p, self.send, self.keep)

    def send(self, parameter):
        self.running.append((dist.all_reduce(parameter.grad, async_op=True), parameter))

    def exchange(self):
        for work, parameter in self.running:
            work.wait()
            parameter.grad.div_(self.job.world)
        self.running.clear()


# Strategies of modules that need this one, or that take long to import.
ELSEWHERE = {"dear": ("point_to_point", "Dear"), "ps": ("point_to_point", "ParameterServers"),
             "rpc": ("remote_servers", "RemoteServers"),
             "fsdp": ("sharded", "FullySharded"), "hsdp": ("sharded", "HybridSharded"), "zero1": ("sharded", "ZeroOne"),
             "tp": ("tensor_parallel", "TensorParallel"), "sp": ("tensor_parallel", "SequenceParallel"),
             "pp": ("pipeline", "Pipeline"), "embeddings": ("embeddings", "DividedTables")}
STRATEGIES = {"local": Local, "noov": NoOverlap, "ddp": Ddp, "fp16": fp16, "bf16": bf16, "powersgd": power_sgd,
              "wfbp": PerTensor, "accumulate": Accumulate, "localsgd": LocalSgd}


def strategy(name, job):
    """`ddp:25:view` and the like: a kind, then values and words."""
    kind, *values = name.split(":")
    if kind in ELSEWHERE:
        module, of = ELSEWHERE[kind]
        made = getattr(importlib.import_module(module), of)
    else:
        made = STRATEGIES[kind]
    return made(job, *[int(v) if v.isdecimal() else v for v in values])
