"""From the trace of one configuration to the step of another: what a user of a trace asks, by kind of change.

The traces of all ranks of one row give the profile, its own unprofiled step says what the profiler cost (--step), and
the plan, workers and links of another row of the same job give the prediction that is compared with that row.
"""
import csv
import itertools
import json
import statistics

import matrix
import plans
import report
from cases import cluster_name

COLUMNS = ["job", "split", "trace_of", "trace_workers", "trace_mbit", "strategy", "workers", "link_mbit", "change",
           "measured_ms", "predicted_ms", "error_percent", "cannot_say"]
# Whose traces are a job that stepcast has a plan for: all gradients of all layers on every worker, or a share of them.
TRACED = ("ddp", "noov", "wfbp", "fp16", "bf16", "accumulate", "zero1", "fsdp")


def family_of(strategy):
    kind = strategy.partition(":")[0]
    return {"fsdp": "FSDP2", "noov": "no overlap", "zero1": "ZeRO-1"}.get(kind, "DDP" if kind == "ddp" else kind)


def change_of(a, b):
    """What is different, in words: "DDP -> FSDP2", "workers, rate"."""
    parts = []
    before, after = family_of(a["strategy"]), family_of(b["strategy"])
    if before != after:
        parts.append(f"{before} -> {after}")
    elif a["strategy"] != b["strategy"]:
        parts.append(f"{before} otherwise")
    parts += ["workers"] * (a["workers"] != b["workers"]) + ["rate"] * (a["link_mbit"] != b["link_mbit"])
    return ", ".join(parts) or "none"


def predicted_from(program, folder, files, a, b):
    """The step of row `b` by the traces of row `a`."""
    batch = matrix.job_of(b["job"]).batch
    plan = plans.plan_of(b["strategy"], b["workers"], batch)
    if plan is None:
        return {"refused": "stepcast has no plan for it"}
    servers = b["workers"] if plans.has_servers(b["strategy"]) else 0
    samples = plans.samples_of(b["strategy"], b["workers"], batch)
    return plans.predicted(program, [str(folder / "traces" / f) for f in files], str(folder / f"{cluster_name(b)}.json"),
                           plan, b["workers"], servers, samples, step_s=a["measured_ms"] / 1e3)


def check(program, folder, results, rows):
    """A row for every pair of quiet rows of real compute; across.csv has them."""
    files = {tuple(e["key"]): e["files"] for e in results["traces"]}
    real = [r for r in rows if r["quiet"] and r["link_mbit"] and not matrix.job_of(r["job"]).emulated]
    found = []
    for a, b in itertools.product(real, real):
        key = (a["job"], a["workers"], a["link_mbit"], a["strategy"])
        if a["job"] != b["job"] or a["strategy"].partition(":")[0] not in TRACED or key not in files:
            continue
        answer = predicted_from(program, folder, files[key], a, b)
        seconds = answer.get("iteration_s")
        found.append({"job": a["job"], "split": a["split"], "trace_of": a["strategy"], "trace_workers": a["workers"],
                      "trace_mbit": a["link_mbit"], "strategy": b["strategy"], "workers": b["workers"],
                      "link_mbit": b["link_mbit"], "change": change_of(a, b), "measured_ms": b["measured_ms"],
                      "predicted_ms": seconds and 1e3 * seconds,
                      "error_percent": seconds and 100 * (1e3 * seconds / b["measured_ms"] - 1),
                      "cannot_say": answer.get("refused")})
    with open(folder / "across.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({k: round(v, 3) if isinstance(v, float) else v for k, v in r.items()} for r in found)
    return found


def ordered_pairs(found, apart=0.05):
    """Of pairs of configurations that are further apart than that, by the same trace: how many are in the right order,
    and how many there are."""
    right = total = 0
    by_trace = itertools.groupby(found, lambda r: (r["job"], r["trace_of"], r["trace_workers"], r["trace_mbit"]))
    for _, rows in by_trace:
        known = [r for r in rows if r["predicted_ms"]]
        for x, y in itertools.combinations(known, 2):
            if abs(x["measured_ms"] - y["measured_ms"]) > apart * min(x["measured_ms"], y["measured_ms"]):
                total += 1
                right += (x["measured_ms"] < y["measured_ms"]) == (x["predicted_ms"] < y["predicted_ms"])
    return right, total


def summary(found):
    """Errors by kind of change, of held-out jobs and of all."""
    lines = [f"{'from a trace to another configuration':<40}{'n':>4}{'median':>9}{'9 of 10':>9}{'bias':>9}"
             f"{'cannot say':>12}"]

    def line(name, some):
        errors = [r["error_percent"] for r in some if r["error_percent"] is not None]
        silent = len(some) - len(errors)
        sizes = sorted(abs(e) for e in errors)
        lines.append(f"{name:<40}{len(errors):>4}" + (
            f"{statistics.median(sizes):>7.1f} %{report.quantile(sizes, 0.9):>7.1f} %{statistics.mean(errors):>+7.1f} %"
            if errors else f"{'':>27}") + f"{silent:>12}")

    for change in sorted({r["change"] for r in found}):
        line(change, [r for r in found if r["change"] == change])
    held_out = [r for r in found if r["split"] == "held_out" and r["change"] != "none"]
    if held_out:
        line("held out, all changes", held_out)
        right, total = ordered_pairs([r for r in found if r["split"] == "held_out"])
        if total:
            lines.append(f"held out, pairs more than 5 % apart: {right} of {total} in the right order")
    return "\n".join(lines)
