"""One configuration, trained: its step, timed without the profiler, then traced."""
import contextlib
import importlib.util
import pathlib
import statistics
import time

import torch

import models


class Unavailable(Exception):
    """This machine or this torch cannot run the configuration."""


def check(configuration, device):
    if device == "cpu" and (configuration.graph or configuration.fused or configuration.precision == "tf32"):
        raise Unavailable("needs a GPU")
    if configuration.compiled and not hasattr(torch, "compile"):
        raise Unavailable(f"torch {torch.__version__} has no torch.compile")
    if configuration.precision == "tf32" and torch.cuda.get_device_capability()[0] < 8:
        raise Unavailable("the device has no TF32")


class Training:
    """`step()` runs one training step of a configuration."""

    def __init__(self, configuration, device, tiny):
        check(configuration, device)
        c = self.configuration = configuration
        self.device, self.tiny = torch.device(device), tiny
        allow = c.precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
        torch.backends.cudnn.benchmark = True
        self.model = models.model_of(c.model, tiny).to(self.device).train()
        try:
            self.optimizer = models.optimizer_of(c.model, self.model.parameters(), c.fused, c.graph)
        except (TypeError, RuntimeError) as error:
            raise Unavailable(f"this torch has no such optimizer: {error}") from error
        self.forward = torch.compile(self.model) if c.compiled else self.model
        self.resident = self.on_device(models.batch_of(c.model, c.batch, tiny))
        self.step = self.captured() if c.graph else self.trained

    def on_device(self, batch):
        return tuple(t.to(self.device, non_blocking=True) for t in batch)

    def batch(self):
        """A batch made by the training process, as by a loader without workers, or the one on the device."""
        if not self.configuration.loader:
            return self.resident
        with torch.profiler.record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            batch = models.batch_of(self.configuration.model, self.configuration.batch, self.tiny)
        return self.on_device(batch)

    def compute(self, inputs, labels):
        half = self.configuration.precision == "bf16"
        scope = torch.autocast(self.device.type, dtype=torch.bfloat16) if half else contextlib.nullcontext()
        with scope:
            output = self.forward(inputs)
        models.loss_of(output, labels).backward()
        self.optimizer.step()

    def trained(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.compute(*self.batch())

    def captured(self):
        """The step as one CUDA graph, after three steps on a side stream as PyTorch's notes ask."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.trained()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.compute(*self.resident)
        return graph.replay

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def measured(training, warm_up, blocks, steps):
    """Seconds a step of each block of `steps` steps, without the profiler; a synchronisation ends each block."""
    for _ in range(warm_up):
        training.step()
    times = []
    for _ in range(blocks):
        training.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            training.step()
        training.synchronize()
        times.append((time.perf_counter() - start) / steps)
    return times


def traced(training, steps, path):
    """Writes a Kineto trace of `steps` steps; why not, if it cannot."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if training.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    write = kineto_writer(training.device)
    if write is None:
        return "torch was built without Kineto, and validation/lab/trace.py is missing"
    schedule = torch.profiler.schedule(wait=1, warmup=2, active=steps, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True,
                                on_trace_ready=lambda p: write(p, str(path))) as profiler:
        for _ in range(steps + 3):
            training.step()
            profiler.step()
    return ""


def kineto_writer(device):
    """Writes a finished profiler's trace to a path; none where this torch cannot."""
    if torch.autograd.kineto_available():
        return lambda profiler, path: profiler.export_chrome_trace(path)
    path = pathlib.Path(__file__).resolve().parents[1] / "lab" / "trace.py"
    if device.type == "cuda" or not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("kineto_layout", path)
    layout = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layout)
    return lambda profiler, file: layout.write(profiler, file, 0, 1)


def result_of(configuration, device, tiny, folder, repeats):
    """One row of results.json."""
    training = Training(configuration, device, tiny)
    times = measured(training, *repeats)
    path = folder / f"{configuration.name}.pt.trace.json.gz"
    why = traced(training, 4, path)
    return {**configuration.record(), "name": configuration.name, "step_s": statistics.median(times),
            "spread_s": statistics.pstdev(times), "blocks": len(times), "steps": repeats[2],
            "trace": None if why else path.name, "note": why}
