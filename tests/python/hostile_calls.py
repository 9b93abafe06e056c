#!/usr/bin/env python3
"""Calls every function of the package with values that do not belong there; a call ends in an answer or in a refusal.

    python3 tests/python/hostile_calls.py [--calls 6000] [--seed 1]

Refused is by InputError, Inapplicable, or what Python's users expect (TypeError for what is no such object, OSError for
files, MemoryError). Everything else, a text of many lines, a call that takes longer than some seconds, and of course a
crash, fails. The last line of the output says how many calls were answered and refused. The same seed makes the same
calls.
"""

import argparse
import decimal
import faulthandler
import fractions
import json
import pathlib
import random
import re
import sys
import time
import warnings

import numpy as np
import stepcast

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
SLOWEST_S = 20  # on a machine that does much else

ODD = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, -2**63, 2**64, 10**400, 0.0, -0.0, 1.5, -1.0, 1e-300, 1e300, float("inf"),
    float("-inf"), float("nan"), 1j, np.complex128(3 + 4j), np.float32(2.5), np.int64(7), np.bool_(True), np.array(5.0),
    np.array([1.0]), np.array([]), np.zeros((2, 3)), np.array(["x"]), np.array([1], dtype="M8[s]"), np.array([None]),
    decimal.Decimal("1.5"), decimal.Decimal("NaN"), fractions.Fraction(1, 3), "", " ", "x", "ddp", "é", "ä" * 400, "模型",
    "a\0b", "\ud800", "\x1b[31m", "\x9b", "-", "/", "..", "1", "-1", "1e999", "nan", "10GbE", "25 Gb/s", "5 us", "64 MiB",
    "ddp(bucket=1 MiB)", "ddp(", "ddp(bucket=nan)", "ddp+fp16", "ddp+fp16+fp16", "layout(tp=2)/ddp", "layout(/", "{}", "[]",
    "[" * 5000, '{"a": 1e999}', '{"schema": "stepcast.cluster/1"}', "amp", "batch(to=64)", b"", b"x", b"\xff\xfe", b"{}",
    bytearray(b"{}"), memoryview(b"[]"), b"\x1f\x8b\x08\0", [], [1], ["ddp"], [["ddp"]], [None], (), ("ddp", 1), {}, {"a": 1},
    {"bandwidth": [1e9]}, set(), {1}, range(0), range(3), range(3, 1, -1), range(10**30), object(), int, lambda: 1,
    Ellipsis, NotImplemented, slice(1), iter(["ddp", "x"]), (x for x in [1]), pathlib.Path("absent"), ROOT, sys,
    ("backward", 0), ("transfer", 0), ("update", 0), ("forward", -1), ("nowhere", 2**70),
]


def arguments(profile, cluster):
    """What belongs there."""
    return {
        "profile": profile, "cluster": cluster, "plan": "ddp", "plans": ["ddp", "dear"], "whatif": "batch(to=32)",
        "global_batch": 64, "all": True, "allow": ["lossy"], "tune": False, "search": "grid", "sensitivity": False,
        "over": {"bandwidth": "1Gb/s..10Gb/s"}, "threads": 1, "first": 0, "last": 1, "scenarios": ["amp"],
        "validation": False, "model": "gpt:hidden=64,layers=2,heads=2,seq=16", "device": "A100", "batch": 2, "strict": False,
        "check": False, "kernels": None, "workers": 8, "per_node": 2, "network": "10GbE", "inside": 20e9, "servers": 1,
        "device_memory": "80 GB", "collective": "ring", "slow_worker": 1.5, "late_worker": "5 ms", "degraded_link": 0.5,
        "jitter": 0.05, "background": 0.3, "connection": 1e9, "nccl_algo": "", "nccl_proto": "", "switch": "", "latency": "5 us", "batch_samples": 8, "same_device": True, "faster_compute": 2.0,
        "name": "x", "update": "after_backward", "period": 1, "discipline": "fifo", "credit": "1 MiB", "operation":
        "all_reduce", "tensors": range(2), "channel": 0, "priority": 1, "size": 10, "carries_gradient": True, "delay": 0,
        "overhead": 1e-6, "source": ("backward", 0), "target": ("transfer", 0), "lag": 0, "source_phase": 0,
        "target_phase": 0, "file": TRACE, "text": "{}", "axis": "bandwidth", "header": True, "index": 0, "bucket": [1e6],
        "collective_name": "", "root": str(ROOT), "suite": "exact", "other": 1, "parameters": 4e6,
    }


def calls(profile, cluster):
    """Functions, and the names of their arguments: positional ones, then those by keyword."""
    model, sweep = stepcast.Model(profile, cluster), stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [1e9, 2e9]})
    ranking, step = stepcast.recommend(profile, cluster, tune=False), stepcast.predict(profile, cluster, "ddp")
    own = stepcast.CommPlan("own", profile)
    own.channel("wire")
    s = stepcast
    return [
        (s.predict, ["profile", "cluster", "plan"], ["whatif", "global_batch"]),
        (s.compare, ["profile", "cluster", "plans"], ["all"]),
        (s.recommend, ["profile", "cluster"], ["allow", "plans", "tune", "search", "sensitivity"]),
        (s.sweep, ["profile", "cluster", "plans"], ["over", "tune", "threads", "first", "last", "whatif", "global_batch"]),
        (s.whatif, ["profile", "scenarios"], ["cluster", "plan", "global_batch"]),
        (s.report, ["profile", "cluster"], ["validation", "plans", "global_batch"]),
        (s.timeline, ["profile", "cluster", "plan"], []), (s.export, ["profile", "cluster", "plan"], ["global_batch"]), (s.describe, ["model", "device"], ["batch"]),
        (s.read, ["file"], ["batch", "kernels", "strict", "check"]), (s.replay, ["file"], ["strict"]),
        (s.explain, ["file"], ["parameters", "strict"]),
        (s.Cluster, ["name"], []),
        (s.Cluster, [], ["workers", "per_node", "network", "inside", "servers", "device_memory", "collective",
                         "slow_worker", "late_worker", "degraded_link", "jitter", "switch", "background", "connection",
                         "nccl_algo", "nccl_proto"]),
        (s.Cluster.from_json, ["text"], []), (s.Profile.from_json, ["text"], []),
        (cluster.replace, [], ["network", "latency", "workers"]), (profile.replace, [], ["batch_samples", "model"]),
        (profile.on, ["cluster"], ["same_device", "faster_compute"]), (s.Model, ["profile", "cluster"], []),
        (model.iteration_s, ["plan"], []), (model.predict, ["plan"], ["whatif", "global_batch"]),
        (model.predict_many, ["plans"], ["threads"]), (model.predict_many, ["plan"], ["bucket", "threads"]),
        (model.recommend, [], ["allow", "plans", "tune", "search", "sensitivity"]), (model.on, ["cluster"], []),
        (s.CommPlan, ["name", "profile"], ["update", "period"]), (own.channel, ["name", "discipline", "credit"], []),
        (own.transfer, ["operation", "tensors"], ["channel", "priority", "size", "carries_gradient", "delay", "overhead"]),
        (own.edge, ["source", "target"], ["lag", "source_phase", "target_phase"]),
        (lambda why: setattr(own, "uncovered", why), ["name"], []), (sweep.values, ["axis"], []),
        (sweep.to_csv, [], ["header"]), (ranking.__getitem__, ["index"], []), (cluster.__eq__, ["other"], []),
        (profile.__eq__, ["other"], []), (step.__eq__, ["other"], []), (s.InputError, ["text", "text", "text"], []),
        (s.calibrate, ["file"], ["per_node", "name", "collective_name"]), (s.predict, ["file", "cluster", "plan"], []),
        (lambda state: s.Cluster.__new__(s.Cluster).__setstate__(state), ["other"], []),
        (lambda state: s.Sweep.__new__(s.Sweep).__setstate__(state), ["other"], []),
    ]


def refusal_is_fine(error):
    if isinstance(error, (stepcast.InputError, stepcast.Inapplicable)):
        return "\n" not in str(error) and bool(str(error)) and "pybind" not in str(error)
    if type(error) is ValueError:
        return "pickle" in str(error)
    return type(error) in (TypeError, OSError, FileNotFoundError, MemoryError, IndexError, OverflowError, AttributeError)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=50, help="no further calls after so long")
    flags = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    choose = random.Random(flags.seed)
    profile = stepcast.describe("gpt:hidden=64,layers=2,heads=2,seq=16", "A100")
    cluster = stepcast.Cluster(workers=4, per_node=2, network="10GbE")
    functions, right = calls(profile, cluster), arguments(profile, cluster)
    counts = {"calls": 0, "answered": 0, "refused": 0}
    end, failures = time.monotonic() + flags.seconds, []
    while counts["calls"] < flags.calls and time.monotonic() < end:
        function, positional, named = choose.choice(functions)
        given = [name for name in named if choose.random() < 0.4 or name in ("over", "workers", "network", "check")]
        wrong = set(choose.sample(positional + given, min(len(positional + given), choose.choice([1, 1, 1, 2]))))
        value = {name: choose.choice(ODD) if name in wrong else right[name] for name in positional + given}
        what = f"{getattr(function, '__qualname__', function)} {({name: value[name] for name in wrong})!r:.300}"
        began = time.monotonic()
        faulthandler.dump_traceback_later(SLOWEST_S * 3, exit=True)
        try:
            answer = function(*(value[name] for name in positional), **{name: value[name] for name in given})
            repr(answer)
            counts["answered"] += 1
        except Exception as error:  # noqa: BLE001: that is the question
            counts["refused"] += 1
            if not refusal_is_fine(error):
                failures.append(f"{what}: {type(error).__name__}: {str(error)!r:.300}")
            if isinstance(error, TypeError) and len(str(error)) > 2000 + 2 * len(repr(value)):
                failures.append(f"{what}: a TypeError of {len(str(error))} characters")
            if re.search(r"#define|json\.exception", str(error)):
                failures.append(f"{what}: {error!r:.300}")
        if time.monotonic() - began > SLOWEST_S:
            failures.append(f"{what}: {time.monotonic() - began:.1f} s")
        counts["calls"] += 1
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.reconfigure(errors="backslashreplace")
    for failure in failures[:50]:
        print(failure)
    print(json.dumps(counts))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
