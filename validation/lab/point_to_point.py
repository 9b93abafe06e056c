"""Exchanges of sends and receives: DeAR over a ring of neighbours, and parameter servers."""
import torch
import torch.distributed as dist

from ring import Queue, Ring
from strategies import MIB, Local, on_gradient


class Dear(Local):
    """Groups of whole layers below SIZE MiB, reduce-scattered in backward, all-gathered for the next forward pass.

    One thread carries out what is queued, first in, first out. The step ends when every reduce-scatter is through; then
    all all-gathers are queued in forward order, and a group is updated when its first layer is entered.
    """
    communicates = True

    def __init__(self, job, size):
        super().__init__(job)
        self.ring, self.queue = Ring(job.rank, job.world), Queue(job.schedule_thread)
        self.groups = [LayerGroup(self, g) for g in grouped_layers(self.model, size * MIB)]

    def queued(self, operation, buffer):
        return self.queue.put(lambda: operation(buffer))

    def step(self):
        self.pass_through()
        for group in self.groups:
            group.done.wait()
        for group in self.groups:
            group.done = self.queued(self.ring.all_gather, group.buffer)
        for p in self.parameters:
            p.grad = None

    def close(self):
        for group in self.groups:
            group.enter()
        self.queue.end()
        super().close()


class LayerGroup:
    """Neighbouring layers of `Dear` that share a buffer."""

    def __init__(self, owner, layers):
        self.owner, self.done, self.buffer, self.ready = owner, None, None, 0
        self.parameters = [p for layer in layers for p in layer.parameters(recurse=False)]
        self.optimizer = owner.job.optimizer(self.parameters)
        for layer in layers:
            owner.keep.append(layer.register_forward_pre_hook(lambda *_: self.enter()))
        for p in self.parameters:
            on_gradient(p, self.count, owner.keep)

    def count(self, _):
        self.ready += 1
        if self.ready < len(self.parameters):
            return
        self.ready = 0
        world, size = self.owner.job.world, sum(p.numel() for p in self.parameters)
        buffer = torch.zeros((size + world - 1) // world * world)
        torch.cat([p.grad.reshape(-1) for p in self.parameters], out=buffer[:size])
        self.buffer, self.done = buffer, self.owner.queued(self.owner.ring.reduce_scatter, buffer)

    def enter(self):
        """The gathered gradients update the group's parameters, once."""
        if self.buffer is None:
            return
        if not self.done.is_set():
            self.done.wait()
            self.owner.job.synchronise()
        self.buffer.div_(self.owner.job.world)
        at = 0
        for p in self.parameters:
            p.grad = self.buffer[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.optimizer.step()
        self.buffer = None
        for p in self.parameters:
            p.grad = None


def grouped_layers(model, size):
    """Layers with parameters in forward order; one joins a group while their sum stays below `size`."""
    layers = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    groups, filled = [], 0
    for layer in layers:
        grown = sum(p.numel() * p.element_size() for p in layer.parameters(recurse=False))
        if groups and filled + grown < size:
            groups[-1].append(layer)
            filled += grown
        else:
            groups.append([layer])
            filled = grown
    return groups


class ParameterServers(Local):
    """The upper half of the ranks are servers: pieces of SIZE MiB are pushed when ready and pulled when summed."""
    communicates = True

    def __init__(self, job, size):
        super().__init__(job)
        self.workers = job.world // 2
        self.serves = job.rank >= self.workers
        self.elements, self.running, self.sizes = int(size * MIB / 4), [], []
        if not self.serves:
            for p in self.parameters:
                on_gradient(p, self.push, self.keep)

    def server_of(self, number):
        return self.workers + number % (self.job.world - self.workers)

    def push(self, parameter):
        for piece in parameter.grad.view(-1).split(self.elements):
            number, server = len(self.running), self.server_of(len(self.running))
            self.running.append((dist.isend(piece, server, tag=2 * number),
                                 dist.irecv(piece.view(-1), server, tag=2 * number + 1), piece.numel()))

    def step(self):
        if self.serves:
            self.learn_sizes()
            self.serve()
        else:
            super().step()

    def exchange(self):
        self.learn_sizes([numel for _, _, numel in self.running])
        for push, pull, _ in self.running:
            push.wait()
            pull.wait()
        self.running.clear()

    def learn_sizes(self, sizes=None):
        """In the first step servers are told what is pushed, in which order."""
        if not self.sizes:
            told = [sizes]
            dist.broadcast_object_list(told, 0)
            self.sizes = told[0]

    def serve(self):
        mine = [(n, numel) for n, numel in enumerate(self.sizes) if self.server_of(n) == self.job.rank]
        pushed = []
        for number, numel in mine:
            buffers = [torch.empty(numel) for _ in range(self.workers)]
            pushed.append([(b, dist.irecv(b, w, tag=2 * number)) for w, b in enumerate(buffers)])
        pulls = []
        for (number, _), received in zip(mine, pushed):
            for _, work in received:
                work.wait()
            total = received[0][0]
            for buffer, _ in received[1:]:
                total.add_(buffer)
            total.div_(self.workers)
            pulls += [(total, dist.isend(total, w, tag=2 * number + 1)) for w in range(self.workers)]
        for _, work in pulls:
            work.wait()
