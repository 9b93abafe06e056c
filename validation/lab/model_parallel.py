"""The transformer cut over the workers: Megatron's tensor parallelism, and GPipe's pipeline of micro-batches."""
import torch
import torch.distributed as dist

import models
from strategies import Local


class Enter(torch.autograd.Function):
    """Identity forward, all-reduce of the gradient backward."""

    @staticmethod
    def forward(_, x):
        return x

    @staticmethod
    def backward(_, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Leave(torch.autograd.Function):
    """All-reduce forward, identity backward."""

    @staticmethod
    def forward(_, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient


class TensorParallel(Local):
    """Every worker holds a slice of each layer's heads and features; four all-reduces a layer."""
    communicates = True

    def __init__(self, job):
        def block(hidden):
            return models.Block(hidden, split=job.world, enter=Enter.apply, leave=Leave.apply)
        job.model = models.transformer(block=block)
        job.inputs, job.labels = models.inputs("transformer", 0)
        super().__init__(job)


class Pipeline(Local):
    """Stages of equal numbers of layers; all forward passes of the micro-batches, then all backward passes."""
    communicates = True

    def __init__(self, job, parts):
        layers = list(job.model)
        each, rank = (len(layers) - 3) // job.world, job.rank
        first = 0 if rank == 0 else 1 + rank * each
        last = len(layers) if rank == job.world - 1 else 1 + (rank + 1) * each
        job.model = torch.nn.Sequential(*layers[first:last])
        super().__init__(job)
        inputs, labels = models.inputs("transformer", 0)
        self.inputs, self.labels, self.parts = inputs.chunk(parts), labels.chunk(parts), parts
        self.before, self.after = rank - 1, (rank + 1 if rank + 1 < job.world else -1)

    def pass_through(self):
        sends, entered, left = [], [], []
        for i in range(self.parts):
            x = self.inputs[i]
            if self.before >= 0:
                x = torch.empty(len(x), models.SEQUENCE, 256)
                dist.recv(x, self.before, tag=i)
                x.requires_grad_(True)
            entered.append(x)
            y = self.model(x)
            if self.after >= 0:
                sends.append(dist.isend(y.detach(), self.after, tag=i))
            else:
                y = models.loss(y, self.labels[i]) / self.parts
            left.append(y)
        for i in range(self.parts):
            gradient = None
            if self.after >= 0:
                gradient = torch.empty_like(left[i])
                dist.recv(gradient, self.after, tag=self.parts + i)
            left[i].backward(gradient)
            if self.before >= 0:
                sends.append(dist.isend(entered[i].grad, self.before, tag=self.parts + i))
        for work in sends:
            work.wait()
