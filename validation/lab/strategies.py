"""How the workers of a step exchange gradients, by the names of the table in `plans.py`; each class trains one model.

`step()` is one iteration; a strategy with a `period` above 1 communicates once in that many iterations, and its times
are those of one of them. `communicates` is False where nothing is sent.
"""
import queue
import threading

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
    """DistributedDataParallel with buckets of SIZE MiB, and a hook that compresses them."""
    communicates = True

    def __init__(self, job, size=25, hook=None, state=None):
        super().__init__(job)
        self.parallel = DistributedDataParallel(self.model, bucket_cap_mb=size)
        if hook:
            self.parallel.register_comm_hook(state, hook)

    def output(self):
        return self.parallel(self.job.inputs)


def fp16(job):
    return Ddp(job, hook=default_hooks.fp16_compress_hook)


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


class Ring:
    """Reduce-scatter and all-gather of a flat buffer over neighbours, for backends that lack them."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def move(self, chunks, out, into):
        received = torch.empty_like(chunks[into])
        pull = dist.irecv(received, (self.rank - 1) % self.world)
        push = dist.isend(chunks[out], (self.rank + 1) % self.world)
        pull.wait()
        push.wait()
        return received

    def reduce_scatter(self, buffer):
        chunks = buffer.chunk(self.world)
        for s in range(self.world - 1):
            into = (self.rank - s - 1) % self.world
            chunks[into].add_(self.move(chunks, (self.rank - s) % self.world, into))

    def all_gather(self, buffer):
        chunks = buffer.chunk(self.world)
        for s in range(self.world - 1):
            into = (self.rank - s) % self.world
            chunks[into].copy_(self.move(chunks, (self.rank + 1 - s) % self.world, into))


class Dear(Local):
    """Groups of whole layers below SIZE MiB, reduce-scattered in backward, all-gathered for the next forward pass.

    One thread carries out what is queued, first in, first out. The step ends when every reduce-scatter is through; then
    all all-gathers are queued in forward order, and a group is updated when its first layer is entered.
    """
    communicates = True

    def __init__(self, job, size):
        super().__init__(job)
        self.ring, self.queue = Ring(job.rank, job.world), queue.Queue()
        self.groups = [LayerGroup(self, g) for g in grouped_layers(self.model, size * MIB)]
        self.thread = threading.Thread(target=self.carry_out, daemon=True)
        self.thread.start()

    def carry_out(self):
        self.job.schedule_thread()
        while (item := self.queue.get()) is not None:
            operation, buffer, done = item
            operation(buffer)
            done.set()

    def queued(self, operation, buffer):
        done = threading.Event()
        self.queue.put((operation, buffer, done))
        return done

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
        self.queue.put(None)
        self.thread.join()
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


STRATEGIES = {"local": Local, "noov": NoOverlap, "ddp": Ddp, "fp16": fp16, "powersgd": power_sgd, "wfbp": PerTensor,
              "dear": Dear, "accumulate": Accumulate, "localsgd": LocalSgd, "ps": ParameterServers}


def strategy(name, job):
    """`ddp:25` and the like."""
    kind, _, value = name.partition(":")
    if kind in ("tp", "pp"):
        import model_parallel
        return model_parallel.TensorParallel(job) if kind == "tp" else model_parallel.Pipeline(job, int(value))
    return STRATEGIES[kind](job, float(value)) if value else STRATEGIES[kind](job)
