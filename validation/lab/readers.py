"""Whether stepcast reads every trace that was made: inspect, profile, replay and export, all ranks together."""
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import tempfile

import plans

UNCLASSIFIED_LIMIT = 0.02
ACROSS_THE_EDGE = 2  # operations that begin in a step and end behind the last one that was traced, or before the first
COLUMNS = ["job", "workers", "link_mbit", "strategy", "inspect", "profile", "replay", "export", "unclassified",
           "ranks_joined", "groups", "operations_issued", "operations_traced", "fine"]


def across_the_edges(strategy, workers):
    """How many of a strategy's operations may: a ring's all-gather is a message to and from a neighbour for each other
    worker."""
    return max(ACROSS_THE_EDGE, 2 * (workers - 1)) if plans.runs_on_ring(strategy) else ACROSS_THE_EDGE


def said(program, verb, files, *options):
    """The answer, or its refusal in one line; a code above 2 is a crash."""
    done = subprocess.run([program, verb, *map(str, files), *options], capture_output=True, text=True)
    if done.returncode == 0:
        return "read", done.stdout
    if done.returncode in (1, 2):
        return "refused: " + " ".join(done.stderr.split()), ""
    return f"crashed ({done.returncode})", ""


def checked(program, folder, key, names, issued):
    """One row: what each command said, and what joins the ranks. `issued`: operations a step by the process groups'
    own count, rank by rank."""
    files = [folder / name for name in names]
    row = dict(zip(COLUMNS, (key[0], key[1], key[2], key[3])))
    row["inspect"], text = said(program, "inspect", files, "--json")
    traces = [t for file in json.loads(text)["files"] for t in file["traces"]] if text else []
    row["profile"], _ = said(program, "profile", files, "--json")
    row["replay"], text = said(program, "replay", files, "--json")
    with tempfile.TemporaryDirectory() as out:
        row["export"], _ = said(program, "export", files, "-o", str(pathlib.Path(out) / "run"))
    row["unclassified"] = max((t["unclassified_share"] for t in traces), default=None)
    ranks = sorted(t["rank"] for t in traces if t["rank"] is not None)
    row["ranks_joined"] = ranks == list(range(len(names))) or len(names) == 1  # alone one has no rank
    row["groups"] = max((t["process_groups"] for t in traces), default=None)
    row["operations_traced"] = [t["collectives"]["count"] / max(1, t["steps"]) for t in traces]
    row["operations_issued"] = issued[:len(names)]
    equal = len(traces) == len(row["operations_issued"]) and all(
        abs(traced - own) * t["steps"] <= across_the_edges(key[3], key[1])
        for traced, own, t in zip(row["operations_traced"], row["operations_issued"], traces))
    row["fine"] = (not any(str(row[v]).startswith("crashed") for v in ("inspect", "profile", "replay", "export"))
                   and row["inspect"] == row["replay"] == row["export"] == "read" and row["ranks_joined"]
                   and row["unclassified"] < UNCLASSIFIED_LIMIT and equal)
    return row


def check(program, folder, results):
    """All traces of a run, as many at once as there are processors; readers.csv has the rows."""
    issued = {tuple(e["key"]): e["blocks"][0]["operations"] for e in results["blocks"]}

    def row_of(entry):
        key = tuple(entry["key"])
        return checked(program, folder / "traces", key, entry["files"], issued.get(key, [0]))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(row_of, results["traces"]))
    with open(folder / "readers.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def summary(rows):
    """How many traces were read without a fault, and the others one by one."""
    lines = [f"readers: {sum(r['fine'] for r in rows)} of {len(rows)} sets of traces read without a fault"]
    for r in rows:
        if r["fine"]:
            continue
        why = [f"{verb} {r[verb]}" for verb in ("inspect", "profile", "replay", "export") if r[verb] != "read"]
        if r["unclassified"] is not None and r["unclassified"] >= UNCLASSIFIED_LIMIT:
            why.append(f"{100 * r['unclassified']:.1f} % unclassified")
        if not r["ranks_joined"]:
            why.append("ranks not joined")
        if r["operations_traced"] != r["operations_issued"]:
            why.append(f"operations a step {r['operations_traced']}, issued {r['operations_issued']}")
        lines.append(f"  {r['job']} {r['workers']} x {r['link_mbit']} {r['strategy']}: " + "; ".join(why))
    return "\n".join(lines)
