"""One worker process: carries out orders that arrive as lines of JSON and answers each with one line.

Every order but those to a single worker is given to all of them, in the same sequence; they meet in the collectives.
"""
import ctypes
import gc
import json
import os
import signal
import statistics
import sys
import threading
import time

import torch
import torch.distributed as dist

import accounting
import models
import trace
from ring import Ring
from strategies import on_gradient, strategy

PR_SET_PDEATHSIG = 1


class Job:
    """What a strategy trains."""

    def __init__(self, worker, order):
        self.rank, self.world, self.schedule_thread = worker.rank, worker.world, worker.schedule_thread
        self.first_address = worker.first_address
        self.stages, self.name, self.batch = order.get("stages"), order["model"], order["batch"]
        self.inputs, self.labels, self.loss, self.device = None, torch.zeros(self.batch), models.loss, None
        if self.stages:
            self.model = models.Emulated(self.stages, self.batch, models.MODELS[self.name].activation)
            self.device = self.model.device
            self.loss = models.EmulatedLoss(self.device)
            self.optimizer_s = order["optimizer_s"]
            self.elements = sum(p.numel() for p in self.model.parameters())
        else:
            self.model = models.made(self.name)
            self.batch_of_rank(self.rank)
            if order.get("compiled"):
                self.model.compile()

    def batch_of_rank(self, rank):
        """What one worker trains on; where several hold one model they train on one batch."""
        if not self.stages:
            self.inputs, self.labels = models.inputs(self.name, self.batch, rank)

    def entered(self):
        """What the first block takes."""
        return self.model.start.detach() if self.stages else self.inputs

    def optimizer(self, parameters=None):
        if self.stages:
            own = list(parameters or self.model.parameters())
            share = sum((p.to_local() if hasattr(p, "to_local") else p).numel() for p in own) / self.elements
            return models.EmulatedUpdate(self.model, self.device, self.optimizer_s * share,
                                         synchronises=parameters is None)
        return torch.optim.SGD(parameters or self.model.parameters(), lr=0.01, momentum=0.9)

    def waits_within(self):
        """Says that passes wait for messages, and not only at their ends."""
        if self.stages:
            self.device.waits = True

    def synchronise(self):
        """An accelerator that waited has nothing queued."""
        if self.stages:
            self.device.sync()


class Worker:
    def __init__(self, rank, world, address):
        self.rank, self.world, self.first_address = rank, world, address.partition(":")[0]
        self.processor = rank % os.cpu_count()
        os.sched_setaffinity(0, {self.processor})
        self.main = threading.get_native_id()
        dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=world)
        # gloo's threads are the last ones made: its loop, then the workers that carry out collectives.
        loop, *others = sorted(accounting.threads())[-3:]
        self.scheduled = accounting.short_slices(loop, batch=True)
        for thread in others:
            accounting.short_slices(thread)
        self.training = None

    def schedule_thread(self):
        accounting.short_slices(threading.get_native_id())

    def answer(self, order):
        return getattr(self, "do_" + order.pop("do"))(order)

    def do_hello(self, _):
        return {"torch": torch.__version__, "kineto": torch.autograd.kineto_available(), "slices": self.scheduled}

    def do_build(self, order):
        """A model and a strategy, warmed up: DDP makes its final buckets after the first step. The peak is the most
        memory that the process held since that step, beyond what it held before the model was built."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what was freed is not held
        self.before_bytes = memory("VmRSS")
        self.training = strategy(order["strategy"], Job(self, order))
        for step in range(order["warm"] * self.training.period):
            if step == self.training.period:  # the first step allocates what stays
                forget_peak()
            self.training.step()
        return {"period": self.training.period, "peak_bytes": memory("VmHWM") - self.before_bytes}

    def do_close(self, _):
        self.training.close()
        self.training = None
        gc.collect()
        return {}

    def do_steps(self, order):
        """Times of `count` periods after `warm` more, per iteration, with who used the processors meanwhile."""
        period = self.training.period
        if order.get("together", True):
            dist.barrier()
        for _ in range(order["warm"] * period):
            self.training.step()
        start, issued = self.usage(), issued_operations()
        moments = [time.perf_counter()]
        for _ in range(order["count"]):
            for _ in range(period):
                self.training.step()
            moments.append(time.perf_counter())
        used = self.used_since(start)
        return {"times_s": [(b - a) / period for a, b in zip(moments, moments[1:])], "period": period,
                "operations": (issued_operations() - issued) / (order["count"] * period), **used}

    def usage(self):
        main, waited = accounting.thread_times([self.main])
        other, _ = accounting.thread_times(accounting.threads() - {self.main})
        busy, stolen = accounting.processor_ticks()
        times = os.times()
        return {"wall_s": time.perf_counter(), "busy_s": busy / 100, "stolen_s": stolen / 100,
                "own_s": times.user + times.system, "main_s": main, "other_s": other, "waited_s": waited}

    def used_since(self, start):
        return {k: v - start[k] for k, v in self.usage().items()} | {"processor": self.processor}

    def do_collective(self, order):
        """Times of single collectives of that many bytes, of the whole buffer; ordinary values, as subnormal halves are
        slow to add."""
        dtype = torch.half if order.get("dtype") == "f16" else torch.float32
        elements = max(1, order["bytes"] // (2 if dtype == torch.half else 4))
        buffer = torch.empty((elements + self.world - 1) // self.world * self.world, dtype=dtype)
        run, times = self.collective(order["operation"], buffer), []
        start = self.usage()
        for n in range(order["count"] + 2):
            if n % 16 == 0:
                buffer.fill_(0.01)  # sums grow
            if n < 2:
                dist.barrier()
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        return {"times_s": times[2:], **self.used_since(start)}

    def collective(self, operation, buffer):
        """A call that carries one out."""
        part, ring = buffer.chunk(self.world)[self.rank].clone(), Ring(self.rank, self.world)
        other = torch.empty_like(buffer)
        if operation == "send":  # there and back, over the first link; the caller halves it
            def there_and_back():
                for sender in (0, 1):
                    if self.rank == sender:
                        dist.send(buffer, 1 - sender)
                    elif self.rank == 1 - sender:
                        dist.recv(buffer, sender)
            return there_and_back
        return {"all_reduce": lambda: dist.all_reduce(buffer),
                "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, buffer),
                "all_gather": lambda: dist.all_gather_into_tensor(buffer, part),
                "all_to_all": lambda: dist.all_to_all_single(other, buffer),
                "ring_reduce_scatter": lambda: ring.reduce_scatter(buffer),
                "ring_all_gather": lambda: ring.all_gather(buffer)}[operation]

    def do_record(self, order):
        """Medians of the times at which gradients are ready, of forward, backward and update; one worker alone."""
        job = Job(self, order)
        optimizer, keep, ready, passes = job.optimizer(), [], {}, []
        parameters = dict(job.model.named_parameters())
        block_of = {id(p): name for name, m in models.blocks_of(job.model) for p in m.parameters()}
        for name, parameter in parameters.items():
            on_gradient(parameter, lambda _, name=name: ready.__setitem__(name, time.perf_counter()), keep)
        for _ in range(order["count"] + 2):
            begin = time.perf_counter()
            loss = job.loss(job.model(job.inputs), job.labels)
            forward = time.perf_counter()
            loss.backward()
            backward = time.perf_counter()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            passes.append((forward - begin, backward - forward, time.perf_counter() - backward,
                           {name: at - forward for name, at in ready.items()}))
        del passes[:2]
        gradients = [{"name": name, "block": block_of[id(p)], "shape": list(p.shape),
                      "ready_s": statistics.median(one[3][name] for one in passes)}
                     for name, p in parameters.items()]
        return {"gradients": sorted(gradients, key=lambda g: g["ready_s"]),
                "activation": list(models.MODELS[job.name].activation),
                **{k: statistics.median(p[i] for p in passes)
                   for i, k in enumerate(("forward_s", "backward_s", "optimizer_s"))}}

    def do_trace(self, order):
        """The steps of what was built, in `path`, their execution trace beside it, and what the steps allocate."""
        world = self.world if self.training.communicates else 1
        path = order["path"].replace("RANK", str(self.rank))
        period = self.training.period
        if self.rank < order["tracers"]:
            return trace.traced(self.training.step, order["count"] * period, path, self.rank, world)
        for _ in range(order["count"] * period + trace.AHEAD):
            self.training.step()
        return {}


def issued_operations():
    """Collectives and messages that this process has handed to its process groups so far, by their own count."""
    groups = dist.distributed_c10d._world.pg_map
    return sum(g._get_backend(torch.device("cpu"))._get_sequence_number_for_group() for g in groups)


def forget_peak():
    """VmHWM begins anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def memory(kind):
    """VmRSS or VmHWM of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(kind + ":"))


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that a library prints is a reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    worker = Worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    for line in sys.stdin:
        reply = worker.answer(json.loads(line))
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    os._exit(0)  # without the leave-taking of gloo, which waits for the others


main()
