"""From a PyTorch script to a profile: described without a device, or recorded while it runs.

    import stepcast.torch

    profile = stepcast.torch.describe(model, tokens, device="H100", loss=lambda out: F.cross_entropy(out, labels))
    profile = stepcast.torch.record(lambda: train_step(model, next(batches)))

Both return what `stepcast.read` returns: it is predicted, compared and swept like the profile of any trace, and
`profile.to_json()` is a file that the program `stepcast` takes. It works with the PyTorch that is installed (tried with
2.15); the rest of the package needs none.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

import torch

from . import files as _files
from .errors import InputError
from .operators import Operators, traced_operators

if TYPE_CHECKING:
    from . import Profile

__all__ = ["Operators", "describe", "operators", "record"]

_SUFFIXES = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json")


def operators(model: torch.nn.Module, *inputs: Any, loss: Optional[Callable[[Any], torch.Tensor]] = None,
              optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW, batch: float = 0,
              autocast: Optional[torch.dtype] = None, kwargs: Optional[Mapping[str, Any]] = None) -> Operators:
    """What a training step of `model` on `inputs` (and `kwargs`) computes, found without values: no accelerator and no
    memory for the model are needed, and nothing of it changes. A model on the "meta" device is as good.

        listed = stepcast.torch.operators(model, images, loss=lambda out: F.cross_entropy(out, labels))
        listed.parameters, listed.flops, listed.to_pandas()
        profiles = [listed.on(device) for device in ("A100", "H100", "B200")]

    `loss` takes the model's output and returns one number; without it, it is what the model returns as `loss` (Hugging
    Face), or the sum of its output. `optimizer` takes the parameters: torch.optim.SGD, or a lambda with its options.
    `batch` is the number of samples (default: the first extent of the first input). `autocast` is the type of
    torch.autocast around forward pass and loss, torch.bfloat16 say.
    """
    return traced_operators(model, inputs, loss, optimizer, batch, autocast, kwargs)


def describe(model: torch.nn.Module, *inputs: Any, device: Union[str, os.PathLike[str]],
             loss: Optional[Callable[[Any], torch.Tensor]] = None,
             optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW, batch: float = 0,
             autocast: Optional[torch.dtype] = None, kwargs: Optional[Mapping[str, Any]] = None) -> Profile:
    """The profile of a model that nobody traced, on a shipped device ("H100") or that of a JSON file.

        profile = stepcast.torch.describe(model, device="H100", autocast=torch.bfloat16,
                                          kwargs={"input_ids": tokens, "labels": tokens})
        stepcast.recommend(profile, stepcast.Cluster("p5"))

    Parameters, shapes, operators and the order of gradients are exact; times are those of the device's roofline, which
    `profile.assumed` says. Other arguments are those of `operators`, whose `on` gives the same for several devices.
    """
    return operators(model, *inputs, loss=loss, optimizer=optimizer, batch=batch, autocast=autocast,
                     kwargs=kwargs).on(device)


def record(step: Callable[[], Any], steps: int = 6, *, warmup: int = 3,
           file: Union[str, os.PathLike[str], None] = None, batch: float = 0) -> Profile:
    """Runs a training step under PyTorch's profiler and returns its profile.

        profile = stepcast.torch.record(lambda: train_step(model, next(batches)), file="run.pt.trace.json.gz")
        stepcast.recommend(profile, stepcast.Cluster(workers=16, per_node=8, network="400Gb/s"))

    `step()` is called `warmup` times, then `steps` times to measure how long a step takes without the profiler (the
    host's work is scaled to that), then once while the profiler starts, and `steps` times under it, with shapes, step
    marks, and the accelerator's kernels where there is one. A step is one that trains: forward, backward, update.

    `file` keeps the trace, for the program `stepcast` or for `stepcast.read`. Under torch.distributed every rank calls
    `record`, writes a file of its own ("run-rank0.pt.trace.json.gz"), and gets its own profile; reading all files
    together says who waits for whom.
    """
    if not callable(step):
        raise InputError("step", "a function that trains one step", _files.shown(step))
    if _recording or torch.autograd.profiler._is_profiler_enabled:  # PyTorch ends one of two, or itself
        raise InputError("record", "no other profiler around it", "one that is recording", "end it first")
    steps, warmup = _files.count_of(steps, "steps", 1), _files.count_of(warmup, "warmup")
    batch = _files.number_of(batch, "batch", "a number of samples")
    if not 0 <= batch < 1e15:
        raise InputError("batch", "a number of samples", _files.shown(batch))
    with _trace_file(file) as path, _one_at_a_time():
        for _ in range(warmup):
            step()
        plain_s = _timed(step, steps)
        _profiled(step, steps, path)
        return _read(path, plain_s, batch)


_recording = False


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    global _recording
    _recording = True
    try:
        yield
    finally:
        _recording = False


def _rank() -> Optional[int]:
    """Of this process in a job of several."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.get_rank() if torch.distributed.get_world_size() > 1 else None


@contextlib.contextmanager
def _trace_file(file: Union[str, os.PathLike[str], None]) -> Iterator[str]:
    """Where the trace goes: the named file, with the rank in its name where there are several, or one for a while."""
    if file is None:
        with tempfile.TemporaryDirectory(prefix="stepcast-") as folder:
            rank = _rank()
            yield os.path.join(folder, "recorded" + ("" if rank is None else f"-rank{rank}") + _SUFFIXES[0])
        return
    try:
        path = os.fsdecode(file)
    except TypeError:
        raise InputError("file", "a path", _files.shown(file)) from None
    suffix = next((ending for ending in _SUFFIXES if path.endswith(ending)), None)
    if suffix is None:
        raise InputError("file", "a name that ends in .json or .json.gz", f"'{path}'")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder or "."):  # before the steps, not after them
        raise InputError("file", "a path in a folder that exists", f"'{path}'")
    rank = _rank()
    path = path if rank is None else f"{path[:-len(suffix)]}-rank{rank}{suffix}"
    if os.path.isdir(path):
        raise InputError("file", "a file", f"'{path}', a folder")
    with tempfile.TemporaryDirectory(prefix=".stepcast-", dir=folder or ".") as beside:
        made = os.path.join(beside, os.path.basename(path))
        yield made
        os.replace(made, path)  # only what was read is kept


def _finish() -> None:
    """Waits for what was launched."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _timed(step: Callable[[], Any], steps: int) -> float:
    """Seconds of a step without the profiler, loop top to loop top."""
    _finish()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    _finish()
    return (time.perf_counter() - began) / steps


def _profiled(step: Callable[[], Any], steps: int, path: str) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True, profile_memory=False,
                                with_stack=False,
                                on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for _ in range(1 + steps):
            step()
            profiler.step()


def _read(path: str, plain_s: float, batch: float) -> Profile:
    """The profile, without the profiler's own time where that can be told."""
    def read(step: Union[float, str]) -> Any:
        return _files.read([path], "", batch, 0, step, None, False, True)
    try:
        return read(plain_s)
    except InputError as error:
        if error.where != "step":
            raise
        profile = read("")
        warnings.warn(f"the profiler's own time is left in: {error}", stacklevel=4)
        return profile
