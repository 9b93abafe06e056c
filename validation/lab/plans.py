"""What stepcast is asked: the plans that match the laboratory's strategies, clusters from calibrations, predictions."""
import json
import subprocess

from network import GOODPUT

# {} is the number after the colon. A plan of None: stepcast has no word for it.
PLANS = {
    "noov": "bsp(bucket={} MiB)",
    "ddp": "ddp(bucket={0} MiB, first={0} MiB)",  # where its size is given, PyTorch's first bucket is as large
    "wfbp": "wfbp",
    "dear": "dear(bucket={} MiB, prefetch=1000)",  # all all-gathers are queued at once
    "ps": "wfbp_ps(partition={} MiB)",
    "rpc": "bsp_ps",
    "fp16": "ddp(first=25 MiB)+fp16",
    "bf16": "ddp(first=25 MiB)+fp16",  # two bytes an element
    "powersgd": "ddp(first=25 MiB)+powersgd(rank={})",
    "accumulate": "ddp(first=25 MiB)+accumulate(steps={})",
    "localsgd": "bsp+local(period={})",
    "zero1": "layout(zero=1)/ddp(bucket={0} MiB, first={0} MiB)",
    "fsdp": "layout(zero=3)/ddp",
    "hsdp": None,
    "tp": "layout(tp={workers}, mb={batch})/ddp",
    "sp": "layout(tp={workers}, sp=on, mb={batch})/ddp",
    "embeddings": None,
    "local": None,
}
PIPELINES = {"gpipe": "schedule=gpipe", "1f1b": "schedule=1f1b", "interleaved": "schedule=interleaved, chunks=2",
             "zb": None, "zbv": None}
WORDS = {"ddp": ("view", "static"), "fsdp": ("keep", "prefetch", "ring", "2"), "hsdp": ("ring",)}
# Kinds whose workers train on one batch together; of the others each has a batch of its own.
TOGETHER = ("tp", "sp", "pp")


def takes_number(kind):
    """Whether a number follows the colon."""
    return any(slot in (PLANS[kind] or "") for slot in ("{}", "{0}"))


def is_strategy(name):
    kind, *values = name.split(":")
    if kind == "pp":
        return len(values) == 2 and values[0] in PIPELINES and values[1].isdecimal() and int(values[1]) > 0
    if kind not in PLANS:
        return False
    if kind in ("fsdp", "hsdp"):
        return values[:1] in (["block"], ["model"]) and all(v in WORDS[kind] for v in values[1:])
    if takes_number(kind):
        if not (values and values[0].isdecimal() and int(values[0]) > 0):
            return False
        values = values[1:]
    return all(v in WORDS.get(kind, ()) for v in values)


def forms():
    """How strategies are written."""
    words = {"fsdp": "fsdp:block|model[:keep|2][:prefetch][:ring]", "hsdp": "hsdp:block|model[:ring]",
             "ddp": "ddp:N[:view][:static]"}
    return ", ".join([words.get(k, k + (":N" if takes_number(k) else "")) for k, p in PLANS.items()]
                     + [f"pp:{'|'.join(PIPELINES)}:N"])


def plan_of(strategy, workers=2, batch=1):
    """The plan in stepcast's syntax, or None where it has no word for the strategy."""
    kind, *values = strategy.split(":")
    if kind == "pp":
        order = PIPELINES[values[0]]
        return order and f"layout(pp={workers}, {order}, mb={batch // int(values[1])})/ddp"
    if kind == "fsdp" and (values[0] != "block" or "keep" in values or "2" in values):
        return None  # ZeRO-3 of stepcast travels by blocks, and is gathered for either pass by all workers
    plan = PLANS[kind]
    return plan and plan.format(*values[:1], workers=workers, batch=batch)


def runs_on_ring(strategy):
    """Whether its reduce-scatters and all-gathers are those of the laboratory's ring, not gloo's."""
    return strategy.startswith("dear") or "ring" in strategy.split(":")


def samples_of(strategy, workers, batch):
    """Samples of a step of all workers."""
    return batch if strategy.partition(":")[0] in TOGETHER else batch * workers


def has_servers(strategy):
    """Whether half of the processes are parameter servers."""
    return strategy.partition(":")[0] in ("ps", "rpc")


def workers_of(strategy, world):
    """How many of the processes train, and how many are parameter servers."""
    servers = world - world // 2 if has_servers(strategy) else 0
    return world - servers, servers


# Bytes that a worker sends, per byte of the whole buffer, in the best way that is known.
SENT = {"all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
        "all_gather": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n, "send": lambda n: 1}


def line_s(rate, workers, size, operation="all_reduce"):
    """What the line needs for a collective of `size` bytes."""
    return SENT[operation.removeprefix("ring_")](workers) * size / (GOODPUT * rate * 1e6 / 8)


def calibration_warnings(rate, workers, points, limit=0.05):
    """Large all-reduces that are not as fast as the line, as (bytes, share of the line's time)."""
    shares = [(size, seconds / line_s(rate, workers, size)) for size, seconds in points if size >= 4 << 20]
    return [(size, share) for size, share in shares if abs(share - 1) > limit]


def increasing(points):
    """Points by size whose times never fall; the noise of small messages sometimes makes a larger one faster."""
    out = []
    for size, seconds in sorted(points):
        out.append((size, max(seconds, out[-1][1]) if out else seconds))
    return out


def tables_of(calibration, rate, ring):
    """Measured tables of every operation and number of workers; `ring`: of the laboratory's collectives, not gloo's."""
    tables = []
    for workers, by_operation in sorted(calibration.items()):
        for operation, points in by_operation.items():
            made = operation.removeprefix("ring_")
            if made == operation and ring and f"ring_{operation}" in by_operation or made != operation and not ring:
                continue
            points = increasing(points)
            tables.append({"operation": made, "workers": workers, "sizes_bytes": [s for s, _ in points],
                           "times_s": [round(t, 7) for _, t in points],
                           "provenance": f"laboratory: {operation} between idle workers, {rate} Mb/s, medians"})
    return tables


def cluster_of(rate, calibration, contention=None, ring=False):
    """A `stepcast.cluster/1` of links of `rate` Mb/s; `calibration` has points (bytes, seconds) by number of workers and
    operation."""
    fewest = min(calibration)
    latency = increasing(calibration[fewest]["all_reduce"])[0][1] / (2 * (fewest - 1))
    return {
        "schema": "stepcast.cluster/1", "name": f"lab-{rate}mbit{'-ring' if ring else ''}", "nodes": max(calibration),
        "devices_per_node": 1, "inside": {"latency": f"{latency:.7f} s", "bandwidth": "1250000000 B/s"},
        "network": {"latency": f"{latency:.7f} s", "bandwidth": f"{GOODPUT * rate * 125000:.0f} B/s"},
        "servers": max(calibration), "all_reduce": "table", "tables": tables_of(calibration, rate, ring),
        "contention": contention or {},
        "provenance": [f"laboratory: links shaped to {rate} Mb/s", "inside: not used, one worker a machine",
                       "network: goodput of TCP on the shaped link; latency: of the smallest all-reduce"],
    }


def contention_of(alone, busy, compute_alone_s, compute_busy_s):
    """Contention factors from all-reduces of two sizes (bytes, seconds) and a step, each alone and beside the other."""
    def line(points):
        (small, t_small), (large, t_large) = sorted(points)
        per_byte = (t_large - t_small) / (large - small)
        return max(1e-6, t_small - per_byte * small), per_byte
    (start, per_byte), (busy_start, busy_per_byte) = line(alone), line(busy)
    return {"network_under_compute": round(max(1.0, busy_per_byte / per_byte), 4),
            "latency_under_compute": round(max(1.0, busy_start / start), 4),
            "compute_under_communication": round(max(1.0, compute_busy_s / compute_alone_s), 4)}


def predicted(program, files, cluster, plan, workers, servers=0, samples=None, faster=1.0, step_s=None):
    """What stepcast answers of a profile or of traces, as JSON's value, or {"refused": why} where it has no prediction
    for the plan."""
    command = [program, "predict", *files, "--cluster", cluster, "--workers", str(workers), "--plan", plan, "--json"]
    if servers:
        command += ["--servers", str(servers)]
    if samples and plan.startswith("layout"):
        command += ["--global-batch", str(samples)]
    if step_s:
        command += ["--step", f"{step_s:.6f} s"]
    command += ["--same-device"] if faster == 1.0 else ["--faster-compute", f"{faster:.6f}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2 or not done.stdout.startswith("{"):
        return {"refused": " ".join((done.stderr or done.stdout).split())}
    if done.returncode not in (0, 1):  # 1: no plan, and why
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    return answer if answer.get("iteration_s") else {"refused": answer.get("reason", "no step time")}
