"""Writes the profiler's events in the layout of Kineto, also where PyTorch was built without it (as Debian's is).

Without Kineto `export_chrome_trace` drops shapes, sequence numbers and threads; the profiler's event list has them.
"""
import gzip
import json

import torch

ANNOTATIONS = ("ProfilerStep", "Optimizer.", "DistributedDataParallel", "torch.distributed", "gloo:")


def kineto_event(event, number, threads, origin_us, rank):
    """One complete event."""
    name = event.name()
    thread = threads.setdefault(event.start_thread_id(), len(threads) + 1)
    arguments = {"External id": event.correlation_id(), "Input Dims": event.shapes(), "Input type": event.dtypes(),
                 "Ev Idx": number}
    if event.sequence_nr() >= 0:
        arguments |= {"Sequence number": event.sequence_nr(), "Fwd thread id": event.fwd_thread_id()}
    return {"ph": "X", "cat": "user_annotation" if name.startswith(ANNOTATIONS) else "cpu_op", "name": name,
            "pid": rank, "tid": thread, "ts": event.start_us() - origin_us, "dur": event.duration_us(),
            "args": arguments} | ({"async": True} if event.is_async() else {})


def write(profiler, path, rank, world):
    """The trace of one rank, gzip-compressed."""
    if torch.autograd.kineto_available():
        profiler.export_chrome_trace(path)
        return
    results = profiler.profiler.kineto_results
    threads = {}
    events = [kineto_event(e, n, threads, results.trace_start_us(), rank) for n, e in enumerate(results.events())]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    document = {"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1, "with_stack": 0, "profile_memory": 0,
                "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world},
                "labWriter": "kineto-layout export of torch.autograd profiler events (torch built without libkineto)",
                "traceEvents": events}
    with gzip.open(path, "wb", 9) as file:
        file.write(json.dumps(document, separators=(",", ":")).encode())


def traced(step, steps, path, rank, world):
    """Profiles `steps` calls of `step` after two that are not kept."""
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=steps, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule,
                                record_shapes=True, on_trace_ready=lambda p: write(p, path, rank, world)) as profiler:
        for _ in range(steps + 2):
            step()
            profiler.step()
