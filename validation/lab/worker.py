"""One worker process: carries out orders that arrive as lines of JSON and answers each with one line.

Every order but those to a single worker is given to all of them, in the same sequence; they meet in the collectives.
"""
import ctypes
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
from strategies import on_gradient, strategy

PR_SET_PDEATHSIG = 1


class Job:
    """What a strategy trains."""

    def __init__(self, worker, order):
        self.rank, self.world, self.schedule_thread = worker.rank, worker.world, worker.schedule_thread
        self.stages = order.get("stages")
        self.inputs, self.labels, self.loss = None, None, models.loss
        if self.stages:
            self.model = models.Emulated(self.stages)
            self.loss = models.EmulatedLoss(self.model.device)
            self.optimizer_s = order["optimizer_s"]
            self.elements = sum(p.numel() for p in self.model.parameters())
        else:
            self.model = models.MODELS[order["model"]]().train()
            self.inputs, self.labels = models.inputs(order["model"], self.rank)

    def optimizer(self, parameters=None):
        if self.stages:
            share = sum(p.numel() for p in parameters) / self.elements if parameters else 1
            return models.EmulatedUpdate(self.model, self.optimizer_s * share, synchronises=parameters is None)
        return torch.optim.SGD(parameters or self.model.parameters(), lr=0.01, momentum=0.9)

    def synchronise(self):
        """An accelerator that waited has nothing queued."""
        if self.stages:
            self.model.device.sync()


class Worker:
    def __init__(self, rank, world, address):
        self.rank, self.world = rank, world
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
        """A model and a strategy, warmed up: DDP makes its final buckets after the first step."""
        self.training = strategy(order["strategy"], Job(self, order))
        for _ in range(order["warm"] * self.training.period):
            self.training.step()
        return {"period": self.training.period}

    def do_close(self, _):
        self.training.close()
        self.training = None
        return {}

    def do_steps(self, order):
        """Times of `count` periods after `warm` more, per iteration, with who used the processors meanwhile."""
        period = self.training.period
        if order.get("together", True):
            dist.barrier()
        for _ in range(order["warm"] * period):
            self.training.step()
        start = self.usage()
        moments = [time.perf_counter()]
        for _ in range(order["count"]):
            for _ in range(period):
                self.training.step()
            moments.append(time.perf_counter())
        used = self.used_since(start)
        return {"times_s": [(b - a) / period for a, b in zip(moments, moments[1:])], "period": period, **used}

    def usage(self):
        main, waited = accounting.thread_times([self.main])
        other, _ = accounting.thread_times(accounting.threads() - {self.main})
        busy, stolen = accounting.processor_ticks()
        times = os.times()
        return {"wall_s": time.perf_counter(), "busy_s": busy / 100, "stolen_s": stolen / 100,
                "own_s": times.user + times.system, "main_s": main, "other_s": other, "waited_s": waited}

    def used_since(self, start):
        return {k: v - start[k] for k, v in self.usage().items()} | {"processor": self.processor}

    def do_all_reduce(self, order):
        """Times of single all-reduces of that many bytes; ordinary values, as subnormal halves are slow to add."""
        dtype = torch.half if order.get("dtype") == "f16" else torch.float32
        buffer = torch.empty(max(1, order["bytes"] // (2 if dtype == torch.half else 4)), dtype=dtype)
        times = []
        start = self.usage()
        for n in range(order["count"] + 2):
            if n % 16 == 0:
                buffer.fill_(0.01)  # sums grow
            if n < 2:
                dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(buffer)
            times.append(time.perf_counter() - begin)
        return {"times_s": times[2:], **self.used_since(start)}

    def do_record(self, order):
        """Medians of the times at which gradients are ready, of forward, backward and update; one worker alone."""
        job = Job(self, order)
        optimizer, keep, ready, passes = job.optimizer(), [], {}, []
        parameters = dict(job.model.named_parameters())
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
        gradients = [{"name": name, "shape": list(p.shape), "ready_s": statistics.median(p[3][name] for p in passes)}
                     for name, p in parameters.items()]
        return {"gradients": sorted(gradients, key=lambda g: g["ready_s"]),
                **{k: statistics.median(p[i] for p in passes)
                   for i, k in enumerate(("forward_s", "backward_s", "optimizer_s"))}}

    def do_trace(self, order):
        """The steps of what was built, in `path`."""
        world = self.world if self.training.communicates else 1
        path = order["path"].replace("RANK", str(self.rank))
        if self.rank < order["tracers"]:
            trace.traced(self.training.step, order["count"], path, self.rank, world)
        else:
            for _ in range(order["count"] + 2):
                self.training.step()
        return {}


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
