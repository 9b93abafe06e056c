"""Profiles steps as PyTorch's users do: shapes, memory and the execution trace beside the timeline."""
import gzip
import json
import os
import re

import torch

AHEAD = 2  # steps before the ones that are kept


def peak_of(events):
    """The most that the steps allocated beyond what was there when the profiler began; None without memory events."""
    totals = [e["args"]["Total Allocated"] for e in events
              if e.get("name") == "[memory]" and "Total Allocated" in e.get("args", {})]
    return max(totals) - totals[0] if totals else None


def without_names(text, world):
    """The same document without this machine's name and folders, and without the process group of others that a lone
    worker did not use."""
    if world == 1:
        text = re.sub(r'(?m)^ *"distributedInfo": .*\n', "", text)
    return re.sub(r'"(host_name|traceName)": "[^"]*"', r'"\1": ""', text)


def traced(step, steps, path, rank, world):
    """Profiles `steps` calls of `step` after two that are not kept; PATH.et.json.gz is the execution trace."""
    schedule = torch.profiler.schedule(wait=1, warmup=AHEAD - 1, active=steps, repeat=1)
    observer = torch.profiler.ExecutionTraceObserver()
    plain = path.removesuffix(".pt.trace.json.gz") + ".et.json"
    observer.register_callback(plain)

    def kept(profiler):
        profiler.export_chrome_trace(path.removesuffix(".gz"))

    # Collectives of the laboratory's ring run in a thread of their own.
    every_thread = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule,
                                record_shapes=True, profile_memory=True, on_trace_ready=kept,
                                execution_trace_observer=observer, experimental_config=every_thread) as profiler:
        profiler.add_metadata_json("laboratory", json.dumps({"rank": rank, "world_size": world}))
        for _ in range(steps + AHEAD):
            step()
            profiler.step()
    observer.unregister_callback()
    for name in (path.removesuffix(".gz"), plain):
        with open(name) as file:
            text = without_names(file.read(), world)
        with gzip.open(name + ".gz", "wb", 6) as file:  # the highest level takes five times as long for a tenth
            file.write(text.encode())
        os.unlink(name)
        if name != plain:
            allocated = peak_of(json.loads(text)["traceEvents"])
    return {"allocated_bytes": allocated}
