"""What stepcast is asked: the plans that match the laboratory's strategies, clusters from calibrations, predictions."""
import json
import subprocess

from network import GOODPUT

# {} is the number after the colon. Strategies without a plan, or whose plan stepcast does not know, stay unpredicted.
PLANS = {
    "noov": "bsp(bucket={} MiB)",
    "ddp": "ddp(bucket={} MiB)",
    "wfbp": "wfbp",
    "dear": "dear(bucket={} MiB, prefetch=1000)",  # all all-gathers are queued at once
    "ps": "wfbp_ps(partition={} MiB)",
    "fp16": "ddp+fp16",
    "powersgd": "ddp+powersgd(rank={})",
    "accumulate": "ddp+accumulate(steps={})",
    "localsgd": "bsp+local(period={})",
    "local": None,
    "tp": None,
    "pp": None,
}


def form_of(kind):
    """How a strategy of that kind is written."""
    return kind + (":N" if kind == "pp" or "{}" in (PLANS[kind] or "") else "")


def is_strategy(name):
    kind, colon, value = name.partition(":")
    if kind not in PLANS or bool(colon) != (":" in form_of(kind)):
        return False
    return not colon or (value.isdecimal() and int(value) > 0)


def plan_of(strategy):
    """The plan in stepcast's syntax, or None."""
    kind, _, value = strategy.partition(":")
    plan = PLANS[kind]
    return plan and plan.format(value)


def workers_of(strategy, world):
    """How many of the processes train, and how many are parameter servers."""
    servers = world - world // 2 if strategy.startswith("ps") else 0
    return world - servers, servers


def ring_factor(workers):
    """Bytes that a worker sends in an all-reduce, per byte of its buffer."""
    return 2 * (workers - 1) / workers


def line_s(rate, workers, size):
    """What the line needs for an all-reduce of `size` bytes."""
    return ring_factor(workers) * size / (GOODPUT * rate * 1e6 / 8)


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


def cluster_of(rate, calibration, contention=None):
    """A `stepcast.cluster/1` of links of `rate` Mb/s; `calibration` has (bytes, seconds) for each number of workers."""
    fewest = min(calibration)
    points = increasing(calibration[fewest])
    latency = points[0][1] / (2 * (fewest - 1))
    said = "laboratory: gloo all-reduce between idle workers"
    return {
        "schema": "stepcast.cluster/1", "name": f"lab-{rate}mbit", "nodes": max(calibration), "devices_per_node": 1,
        "inside": {"latency": f"{latency:.7f} s", "bandwidth": "1250000000 B/s"},
        "network": {"latency": f"{latency:.7f} s", "bandwidth": f"{GOODPUT * rate * 125000:.0f} B/s"},
        "servers": max(calibration), "all_reduce": "table",
        "tables": [{"operation": "all_reduce", "workers": workers, "sizes_bytes": [s for s, _ in increasing(p)],
                    "times_s": [round(t, 7) for _, t in increasing(p)], "provenance": f"{said}, {rate} Mb/s, medians"}
                   for workers, p in sorted(calibration.items())],
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


def predicted_s(program, profile, cluster, plan, workers, servers=0, faster=1.0):
    """Seconds an iteration, or None where stepcast has no prediction for the plan."""
    command = [program, "predict", profile, "--cluster", cluster, "--workers", str(workers), "--plan", plan, "--json"]
    if servers:
        command += ["--servers", str(servers)]
    command += ["--same-device"] if faster == 1.0 else ["--faster-compute", f"{faster:.6f}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode in (1, 2):
        return None
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["iteration_s"]
