"""From the trace of one configuration to the step of another: what a user of a trace asks, by kind of change.

The traces of all ranks of one row give the profile, its own unprofiled step says what the profiler cost (--step), and
the plan, workers and links of another row of the same job give the prediction that is compared with that row. Another
rate alone needs no plan: the recorded step is scheduled once more with all its collectives as much faster or slower
("rate, replayed"), of every strategy; and where no plan stands for the traced job, with what its collectives take by the
calibration at the other rate ("rate, recorded"). Other messages of the same gradients are predicted a second time in the
recorded step itself ("messages exchanged").
"""
import concurrent.futures
import csv
import itertools
import json
import os
import statistics
import subprocess

import matrix
import plans
import report
from cases import cluster_name

COLUMNS = ["job", "split", "trace_of", "trace_workers", "trace_mbit", "strategy", "workers", "link_mbit", "change",
           "measured_ms", "predicted_ms", "error_percent", "cannot_say"]
# Whose traces are a job that stepcast has a plan for: all gradients of all layers on every worker, or a share of them.
TRACED = ("ddp", "noov", "wfbp", "fp16", "bf16", "accumulate", "zero1", "fsdp")
# By the links of the trace itself, as a user asks who says no cluster: the plan that ran, other messages of whole
# gradients, another division of state. Of these the last two widen intervals on hosts (baseline/self_check.cpp).
OWN_LINKS = ("own links, as it ran", "own links, other messages", "own links, other division")
# Changes that ask no plan, or ask one in another way: not among those of which plans are judged.
WITHOUT_PLAN = (*OWN_LINKS, "rate, replayed", "rate, recorded", "messages exchanged")
# All-reduces of gradients in the order of readiness, which differ in how many there are.
MESSAGES_ONLY = ("ddp", "noov", "wfbp")


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


def key_of(row):
    return row["job"], row["workers"], row["link_mbit"], row["strategy"]


def profile_of(program, folder, files, key):
    """The path of what stepcast reads from the traces of all ranks of a row, or why it reads nothing."""
    path = folder / "across" / ("-".join(map(str, key)).replace(":", "_") + ".profile.json")
    path.parent.mkdir(exist_ok=True)
    done = subprocess.run([program, "profile", *(str(folder / "traces" / f) for f in files), "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        return None, " ".join(done.stderr.split())
    path.write_text(done.stdout)
    return str(path), None


def predicted_from(program, folder, profile, a, b):
    """The step of row `b` by the profile of row `a`."""
    batch = matrix.job_of(b["job"]).batch
    plan = plans.plan_of(b["strategy"], b["workers"], batch)
    if plan is None:
        return {"refused": "stepcast has no plan for it"}
    servers = b["workers"] if plans.has_servers(b["strategy"]) else 0
    samples = plans.samples_of(b["strategy"], b["workers"], batch)
    return plans.predicted(program, [profile], str(folder / f"{cluster_name(b)}.json"), plan, b["workers"], servers,
                           samples, step_s=a["measured_ms"] / 1e3)


def on_own_links(program, folder, files, a, b):
    """The step of row `b` at the rate and on the workers of row `a`, by the links that the traces of `a` show."""
    plan = plans.plan_of(b["strategy"], b["workers"], matrix.job_of(b["job"]).batch)
    if plan is None:
        return {"refused": "stepcast has no plan for it"}
    done = subprocess.run([program, "predict", *(str(folder / "traces" / f) for f in files), "--plan", plan, "--step",
                           f"{a['measured_ms']}ms", "--json"], capture_output=True, text=True)
    if done.returncode:
        return {"refused": " ".join(done.stderr.split()) or "the plan does not run"}
    return json.loads(done.stdout)


def own_change_of(a, b):
    stage_of = {"FSDP2": 3, "ZeRO-1": 1}
    before, after = (stage_of.get(family_of(r["strategy"]), 0) for r in (a, b))
    return OWN_LINKS[0 if a["strategy"] == b["strategy"] else 1 if before == after else 2]


def replayed_on(program, folder, files, a, b):
    """The step of row `a` at the rate of row `b`: what the recorded steps of its ranks gain or lose."""
    by = b["link_mbit"] / a["link_mbit"]
    done = subprocess.run([program, "replay", *(str(folder / "traces" / f) for f in files), "--what",
                           f"network(by={by:.6g})", "--json"], capture_output=True, text=True)
    if done.returncode:
        return {"refused": " ".join(done.stderr.split())}
    ranks = json.loads(done.stdout)["traces"]
    # What the profiler costs is host work, which another network leaves as it is.
    return {"iteration_s": a["measured_ms"] / 1e3 + statistics.mean(r["edited_s"] - r["rebuilt_s"] for r in ranks)}


def recorded_on(program, folder, files, a, b):
    """The job of row `a`, for which no plan stands, with its collectives as the calibration of row `b` prices them."""
    done = subprocess.run([program, "recommend", *(str(folder / "traces" / f) for f in files), "--cluster",
                           str(folder / f"{cluster_name(b)}.json"), "--workers", str(b["workers"]), "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        return {"refused": " ".join(done.stderr.split())}
    answer = json.loads(done.stdout)
    recorded = [p for p in answer["predictions"] if p["plan"] == "recorded"]
    if not recorded:
        return {"refused": "a plan stands for it"}
    return changed_by(answer, recorded[0], a)


def changed_by(answer, prediction, a):
    """The step of row `a`, and what the prediction of another one changes of its recorded step."""
    return {"iteration_s": a["measured_ms"] / 1e3 + prediction["iteration_s"] - answer["replay"]["recorded"]["step_s"]}


def exchanged_on(program, folder, files, a, b):
    """The recorded step of row `a` with the messages of row `b`."""
    plan = plans.plan_of(b["strategy"], b["workers"], matrix.job_of(b["job"]).batch)
    done = subprocess.run([program, "compare", *(str(folder / "traces" / f) for f in files), "--recorded", "--plan", plan,
                           "--cluster", str(folder / f"{cluster_name(b)}.json"), "--workers", str(b["workers"]),
                           "--json"], capture_output=True, text=True)
    if done.returncode:
        return {"refused": " ".join(done.stderr.split()) or "the plan does not fit the recorded step"}
    answer = json.loads(done.stdout)
    return changed_by(answer, next(p for p in answer["predictions"] if p["plan"] != "recorded"), a)


def changes(a, b):
    """How many of strategy, workers and rate differ."""
    return sum(a[k] != b[k] for k in ("strategy", "workers", "link_mbit"))


def check(program, folder, results, rows):
    """A row for every pair of quiet rows of real compute that differ in one thing at most; across.csv has them."""
    files = {tuple(e["key"]): e["files"] for e in results["traces"]}
    real = [r for r in rows if r["quiet"] and r["link_mbit"] and not matrix.job_of(r["job"]).emulated]
    traced = [r for r in real if key_of(r) in files]

    def row_of(a, b, change, answer):
        seconds = answer.get("iteration_s")
        return {"job": a["job"], "split": a["split"], "trace_of": a["strategy"], "trace_workers": a["workers"],
                "trace_mbit": a["link_mbit"], "strategy": b["strategy"], "workers": b["workers"],
                "link_mbit": b["link_mbit"], "change": change, "measured_ms": b["measured_ms"],
                "predicted_ms": seconds and 1e3 * seconds,
                "error_percent": seconds and 100 * (1e3 * seconds / b["measured_ms"] - 1),
                "cannot_say": answer.get("refused")}

    def of_trace(a):
        found, own = [], files[key_of(a)]
        others = [b for b in real if b["job"] == a["job"] and changes(a, b) <= 1]
        if a["strategy"].partition(":")[0] in TRACED:
            profile, refusal = profile_of(program, folder, own, key_of(a))
            found += [row_of(a, b, change_of(a, b), predicted_from(program, folder, profile, a, b) if profile else
                             {"refused": refusal}) for b in others]
            found += [row_of(a, b, own_change_of(a, b), on_own_links(program, folder, own, a, b)) for b in others
                      if (a["workers"], a["link_mbit"]) == (b["workers"], b["link_mbit"])]
        kinds = [r["strategy"].partition(":")[0] for r in (a, *others)]
        if kinds[0] in MESSAGES_ONLY:
            found += [row_of(a, b, "messages exchanged", exchanged_on(program, folder, own, a, b))
                      for b, kind in zip(others, kinds[1:]) if kind in MESSAGES_ONLY]
        others = [b for b in others if a["link_mbit"] != b["link_mbit"]]
        if a["strategy"].partition(":")[0] not in TRACED:
            found += [row_of(a, b, "rate, recorded", recorded_on(program, folder, own, a, b)) for b in others]
        return found + [row_of(a, b, "rate, replayed", replayed_on(program, folder, own, a, b)) for b in others]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [row for rows in pool.map(of_trace, traced) for row in rows]
    with open(folder / "across.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({k: round(v, 3) if isinstance(v, float) else v for k, v in r.items()} for r in found)
    return found


def ordered_pairs(found, apart=0.05):
    """Of pairs of configurations that are further apart than that, by the same trace: how many are in the right order,
    and how many there are."""
    right = total = 0
    plans_only = [r for r in found if r.get("change") not in WITHOUT_PLAN]
    by_trace = itertools.groupby(plans_only, lambda r: (r["job"], r["trace_of"], r["trace_workers"], r["trace_mbit"]))
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
    held_out = [r for r in found if r["split"] == "held_out" and r["change"] not in ("none", *WITHOUT_PLAN)]
    if held_out:
        line("held out, all changes", held_out)
        right, total = ordered_pairs([r for r in found if r["split"] == "held_out"])
        if total:
            lines.append(f"held out, pairs more than 5 % apart: {right} of {total} in the right order")
    return "\n".join(lines)
