"""Reduce-scatter and all-gather as a ring of sends: gloo reduces-and-scatters by an all-reduce, and gathers late.

With them FSDP2's collectives cost on gloo what its users know from NCCL: (n - 1) / n of the buffer on every link.
"""
import queue
import threading

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter


class Ring:
    """Reduce-scatter and all-gather of a flat buffer over neighbours."""

    def __init__(self, rank, world, group=None):
        self.rank, self.world, self.group = rank, world, group

    def move(self, out, into):
        pull = dist.irecv(into, group=self.group, group_src=(self.rank - 1) % self.world)
        push = dist.isend(out, group=self.group, group_dst=(self.rank + 1) % self.world)
        pull.wait()
        push.wait()

    def reduce_scatter(self, buffer, own=1):
        """Afterwards every worker's chunk of its number + `own` holds the sum; the others are spoiled."""
        chunks = buffer.chunk(self.world)
        received = torch.empty_like(chunks[0])
        for s in range(self.world - 1):
            into = chunks[(self.rank + own - s - 2) % self.world]
            self.move(chunks[(self.rank + own - s - 1) % self.world], received[:len(into)])
            into.add_(received[:len(into)])

    def all_gather(self, buffer, own=1):
        """Every worker begins with the chunk of its number + `own`."""
        chunks = buffer.chunk(self.world)
        for s in range(self.world - 1):
            self.move(chunks[(self.rank + own - s) % self.world], chunks[(self.rank + own - 1 - s) % self.world])


class Queue:
    """One thread that carries out what is queued, first in, first out."""

    def __init__(self, began=lambda: None):
        self.items = queue.Queue()
        self.thread = threading.Thread(target=self.carry_out, args=(began,), daemon=True)
        self.thread.start()

    def carry_out(self, began):
        began()
        while (item := self.items.get()) is not None:
            call, done = item
            call()
            done.set()

    def put(self, call):
        """An event that is set when the call has been made."""
        done = threading.Event()
        self.items.put((call, done))
        return done

    def end(self):
        self.items.put(None)
        self.thread.join()


class Pending:
    """What an asynchronous collective returns."""

    def __init__(self, done):
        self.done = done

    def wait(self, timeout=None):
        self.done.wait()


def queued(queue, call, asynchronous):
    done = queue.put(call)
    if asynchronous:
        return Pending(done)
    done.wait()
    return None


class RingAllGather(AllGather):
    """FSDP2's all-gather of one module's parameters."""

    def __init__(self, ring, queue):
        self.ring, self.queue = ring, queue

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        def call():
            own = output_tensor.chunk(self.ring.world)[self.ring.rank]
            if own.data_ptr() != input_tensor.data_ptr():
                own.copy_(input_tensor)
            self.ring.all_gather(output_tensor, own=0)
        return queued(self.queue, call, async_op)


class RingReduceScatter(ReduceScatter):
    """FSDP2's reduce-scatter of one module's gradients."""

    def __init__(self, ring, queue):
        self.ring, self.queue = ring, queue

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        def call():
            self.ring.reduce_scatter(input_tensor, own=0)
            output_tensor.copy_(input_tensor.chunk(self.ring.world)[self.ring.rank])
        return queued(self.queue, call, async_op)
