"""A sweep spread over machines by Dask distributed, for grids that outgrow one machine.

    python3 -m stepcast.distributed TRACE --workers 16 --network 25GbE --over bandwidth=1Gb/s..100Gb/s:1000 \
        --over workers=2..1024 --scheduler tcp://host:8786 -o sweep.csv

The grid is cut into ranges of points, each range is one task, and the texts of the ranges are put out in order: the
bytes are those of `stepcast sweep` on one machine, whatever the number of workers and whichever of them die. A worker
needs this package and nothing else; profile and cluster travel with the first task. The client holds a window of
ranges, not the sweep: its memory does not grow with the grid.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import io
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Literal

import stepcast
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.comm.core import connect

RETRIES = 3  # of a range whose worker raised; ranges of dead workers are run again by the scheduler (allowed-failures)
RANGES_PER_THREAD = 16  # so that threads of unequal speed end together
MOST_ROWS = 10_000  # of one range: a megabyte or two of text
WINDOW_PER_THREAD = 4  # ranges under way or waiting for their turn
LOOK_S = 10.0  # between two looks at the workers, while the next range takes its time


class Unfinished(RuntimeError):
    """The workers could not finish a sweep, and why."""


def distributed_sweep(profile: stepcast.Traced, cluster: stepcast.Cluster, plans: Iterable[str] | None = None, *,
                      over: Mapping[str, str | Sequence[stepcast.Quantity]], client: Client, tune: bool = False,
                      chunk: int = 0, form: Literal["csv", "json"] = "csv",
                      progress: Callable[[int, int, int], None] | None = None) -> Iterator[str]:
    """The text of `sweep(profile, cluster, plans, over=over, tune=tune)` in consecutive parts, the first one with the
    header: `"".join(parts)` equals `to_csv()`, or `to_json_lines()` where `form` is "json".

    Input errors are raised by the call itself, before anything is sent. `chunk` is the number of points of a range (0:
    chosen by the grid and the workers). `progress` is told the points that are done, those of the grid, and the number
    of workers. Raises `Unfinished` when workers cannot do a range however often it is tried.
    """
    if not isinstance(profile, stepcast.Profile):
        profile = stepcast.read(profile)
    question: dict[str, Any] = {
        "plans": [plans] if isinstance(plans, str) else plans and list(plans), "tune": tune,
        "over": {name: values if isinstance(values, str) else list(values) for name, values in over.items()}}
    grid = stepcast.sweep(profile, cluster, first=0, last=0, **question)  # no point: checks the question
    if chunk <= 0:
        rows_of_a_point = max(1, len(grid.plans))
        fair = grid.points // (RANGES_PER_THREAD * max(1, _threads(client)))
        chunk = max(1, min(fair, MOST_ROWS // rows_of_a_point))
    return _parts(client, profile, cluster, question, grid.points, chunk, form, progress or (lambda *_: None))


def _parts(client: Client, profile: stepcast.Profile, cluster: stepcast.Cluster, question: dict[str, Any], points: int,
           chunk: int, form: str, progress: Callable[[int, int, int], None]) -> Iterator[str]:
    # A task, not `scatter` as Dask advises for large data: that is lost with its workers, a task's result made again.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Large object")
        inputs = client.submit(_inputs, profile, cluster, pure=False, retries=RETRIES)
    starts = iter(range(0, points, chunk))
    window: deque[tuple[int, Future]] = deque()
    try:
        while True:
            wanted = WINDOW_PER_THREAD * max(1, _threads(client))
            while len(window) < wanted and (start := next(starts, None)) is not None:
                window.append((start, client.submit(_rows, inputs, question, start, min(start + chunk, points), form,
                                                    stepcast.__version__, pure=False, retries=RETRIES)))
            if not window:
                return
            first, future = window[0]
            last = min(first + chunk, points)
            text = _result(client, future, lambda: progress(first, points, len(client.nthreads())),
                           f"points {first} to {last - 1}")
            window.popleft()
            yield text
            progress(last, points, len(client.nthreads()))
    finally:  # also when the caller stops early: nothing is left to run
        with contextlib.suppress(Exception):
            client.cancel([inputs, *(future for _, future in window)])


def _result(client: Client, future: Future, waiting: Callable[[], None], what: str) -> str:
    while True:
        try:
            return str(future.result(timeout=LOOK_S))
        except stepcast.InputError:
            raise
        except TimeoutError:  # no worker may be left: the scheduler waits for new ones, and so do we
            waiting()
        except KilledWorker as death:
            raise Unfinished(f"{what} ended several workers, the last one {death.last_worker.address}; "
                             "out of memory?") from None
        except (CancelledError, asyncio.CancelledError):
            raise Unfinished(f"the scheduler is gone, or dropped {what}") from None
        except ImportError as missing:
            raise Unfinished(f"a worker cannot load this package: {missing}") from None
        except Exception as failure:
            raise Unfinished(f"{what}: {failure}") from failure


def _threads(client: Client) -> int:
    return sum(client.nthreads().values())


def _inputs(profile: stepcast.Profile, cluster: stepcast.Cluster) -> tuple[stepcast.Profile, stepcast.Cluster]:
    return profile, cluster


def _rows(inputs: tuple[stepcast.Profile, stepcast.Cluster], question: dict[str, Any], first: int, last: int,
          form: str, version: str) -> str:
    """On a worker: the rows of a range, on one thread, as a Dask worker has a task for each of its own."""
    if stepcast.__version__ != version:
        raise RuntimeError(f"a worker has stepcast {stepcast.__version__}, the client {version}")
    rows = stepcast.sweep(*inputs, first=first, last=last, threads=1, **question)
    return rows.to_csv(header=first == 0) if form == "csv" else rows.to_json_lines()


# The program

CLUSTER_FLAGS = {  # as on the command line of `stepcast`
    "workers": "devices in all", "per-node": "devices of a machine", "network": "link between machines: 25GbE",
    "inside": "link between devices of a machine: 250GB/s", "servers": "machines for parameter servers",
    "device-memory": "memory of a device: 80GB", "collective": "all-reduce algorithm",
    "slow-worker": "one worker computes this many times as long", "late-worker": "one worker starts later: '5 ms'",
    "degraded-link": "one worker has this share of its link", "jitter": "random slowness, relative to compute",
    "switch": "a switch that adds up: switchml, atp or sa_atp:0.3",
    "loss": "share of the packets that the network loses", "stalls": "time-outs per packet sent",
    "rto": "the first time-out: '200 ms'",
    "background": "what other jobs take of the network: 30%, spine=30%",
    "connection": "what one connection reaches: 10Gb/s, '4 x 10Gb/s'",
    "nccl-algo": "what NCCL_ALGO forces", "nccl-proto": "what NCCL_PROTO forces",
    "level": "levels of the network: 'rail:32; spine:16, oversubscribed=2'"}


def _flags(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m stepcast.distributed", description=(
        "Step times of plans over a grid, computed by the workers of a Dask scheduler: the bytes of `stepcast sweep`."))
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="traces of a run's ranks, or a profile")
    parser.add_argument("--model", default="", help="shipped list of parameters, for traces without shapes")
    parser.add_argument("--batch", type=float, default=0, help="samples per worker and step")
    parser.add_argument("--cluster", default="", help="shipped cluster or a JSON file")
    for flag, text in CLUSTER_FLAGS.items():
        whole = flag in ("workers", "per-node", "servers")
        parser.add_argument(f"--{flag}", type=int if whole else str, default=0 if whole else "", help=text)
    parser.add_argument("--same-device", action="store_true", help="the cluster's device is as fast as the traced one")
    parser.add_argument("--faster-compute", type=float, default=0, help="its device is this many times as fast")
    parser.add_argument("--over", action="append", required=True, metavar="AXIS=VALUES",
                        help="bandwidth=1Gb/s..100Gb/s, workers=2..1024, bucket=1MiB,5MiB; again: another axis")
    parser.add_argument("--plan", action="append", help="plan, such as 'dear(bucket=25 MiB)'; again: another one")
    parser.add_argument("--tune", action="store_true", help="tune the options of each plan at each point")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="of a running Dask scheduler: tcp://host:8786")
    parser.add_argument("--timeout", type=float, default=10, metavar="SECONDS",
                        help="how long to wait for the scheduler and its first worker (10)")
    where.add_argument("--local", type=int, metavar="N", help="start N processes here (default: one a core)")
    parser.add_argument("--chunk", type=int, default=0, metavar="POINTS", help="points of a task")
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead of CSV")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="standard output if absent")
    return parser.parse_args(arguments)


class _Progress:
    """On a terminal a line that changes; in a log a line every ten seconds."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.shown_at = time.monotonic()

    def __call__(self, done: int, points: int, workers: int) -> None:
        now = time.monotonic()
        if now - self.shown_at < (0.1 if self.terminal else 0.9 * LOOK_S) and done < points:
            return
        self.shown_at = now
        start, end = ("\r\033[K", "") if self.terminal and done < points else ("\r\033[K" * self.terminal, "\n")
        print(f"{start}stepcast: {done} of {points} points, {workers} workers", end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _client(flags: argparse.Namespace) -> Iterator[Client]:
    if flags.scheduler:
        try:
            asyncio.run(_reached(flags.scheduler, flags.timeout))  # a Client that reached nothing takes long to close
            client = Client(flags.scheduler, timeout=flags.timeout)
        except (OSError, ValueError) as error:
            raise Unfinished(f"--scheduler {flags.scheduler}: {error}") from None
        with client:
            try:
                client.wait_for_workers(1, timeout=flags.timeout)
            except TimeoutError:
                raise Unfinished(f"--scheduler {flags.scheduler} has no workers: start some with dask-worker") from None
            yield client
    else:
        with tempfile.TemporaryDirectory(prefix="stepcast-") as scratch, \
             LocalCluster(n_workers=flags.local or os.cpu_count() or 1, threads_per_worker=1, processes=True,
                          dashboard_address=None, local_directory=scratch, silence_logs=logging.CRITICAL) as machines, \
             Client(machines) as client:
            yield client


async def _reached(address: str, timeout: float) -> None:
    comm = await connect(address, timeout=timeout)
    await comm.close()


@contextlib.contextmanager
def _output(path: str, inputs: Iterable[str]) -> Iterator[Any]:
    """A stream to `path`; a file appears under its name when it is complete, or not at all."""
    if path == "-":
        yield sys.stdout
        return
    if os.path.exists(path) and any(os.path.exists(name) and os.path.samefile(path, name) for name in inputs):
        raise Unfinished(f"{path}: is an input and would be overwritten")
    try:
        part = tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".",
                                           newline="", encoding="utf-8", delete=False)
    except OSError as error:
        raise Unfinished(f"{path}: {error.strerror}") from None
    try:
        with part:
            yield part
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(part.name, 0o666 & ~umask)
        os.replace(part.name, path)
    except BaseException:
        os.unlink(part.name)
        raise


def _axes(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise stepcast.InputError("--over", "AXIS=VALUES", f"'{text}'")
    over = dict(text.split("=", 1) for text in texts)
    if len(over) < len(texts):
        raise stepcast.InputError("--over", "each axis once", "one of them twice")
    return over


def _cluster(flags: argparse.Namespace, over: Mapping[str, str]) -> stepcast.Cluster:
    """As `stepcast sweep` has it: an axis of workers stands for --workers."""
    words = {name.replace("-", "_"): getattr(flags, name.replace("-", "_")) for name in CLUSTER_FLAGS}
    if "workers" in over:
        if flags.workers:
            raise stepcast.InputError("--workers", "either the flag or an axis of workers", "both")
        if not flags.cluster:
            words["workers"] = (2 if flags.network or flags.level else 1) * (flags.per_node or 1)
    return stepcast.Cluster(flags.cluster, **words)


def _profile(flags: argparse.Namespace, cluster: stepcast.Cluster, over: Mapping[str, str]) -> stepcast.Profile:
    profile = stepcast.read(*flags.traces, model=flags.model, batch=flags.batch)
    if profile.check.caution:
        print(f"stepcast: note: {profile.check.caution}: these predictions are doubtful", file=sys.stderr)
    same = flags.same_device or ("compute" in over and not flags.faster_compute)
    return profile.on(cluster, same_device=same, faster_compute=flags.faster_compute) \
        if same or flags.faster_compute else profile


def _any_runs(part: str, is_json: bool) -> bool:
    """Whether a plan of these rows has a step time; a header has none."""
    if is_json:
        return any(json.loads(line).get("iteration_s") is not None for line in part.splitlines())
    return any(row[-1] == "" for row in csv.reader(io.StringIO(part)))  # `inapplicable`: why not


def main(arguments: Sequence[str] | None = None) -> int:
    flags = _flags(arguments)
    logging.disable(logging.ERROR)  # of Dask: a dead worker is no news, its ranges are done by others
    try:
        over = _axes(flags.over)
        cluster = _cluster(flags, over)
        profile = _profile(flags, cluster, over)
        question: dict[str, Any] = {"plans": flags.plan, "over": over, "tune": flags.tune}
        stepcast.sweep(profile, cluster, first=0, last=0, **question)  # input errors before anything is started
        any_runs = False
        with _output(flags.output, flags.traces) as stream, _client(flags) as client:
            for part in distributed_sweep(profile, cluster, client=client, chunk=flags.chunk,
                                          form="json" if flags.json else "csv", progress=_Progress(), **question):
                stream.write(part)
                stream.flush()
                any_runs = any_runs or _any_runs(part, flags.json)
    except (stepcast.InputError, Unfinished) as error:
        print(f"stepcast: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    else:
        return 0 if any_runs else 1  # as `stepcast sweep`: 1 where no plan can run anywhere
    return 0


if __name__ == "__main__":
    from stepcast.distributed import main as importable_main  # so that workers find the functions by their module

    sys.exit(importable_main())
