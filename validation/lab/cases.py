"""The quiet rows as a suite of `stepcast validate`, complete in one file: profiles, clusters, plans, measured times."""
import json
import os
import shutil
import subprocess

import matrix
import plans

# Emulated accelerator, real compute: 9 of 10 medians move by less between two runs on one machine.
TOLERANCE = {True: 0.14, False: 0.23}
LAYOUT_TOLERANCE = 0.5  # what FSDP, tensor parallelism and pipelines cost on a host beyond their layout is not modelled
SERVER_TOLERANCE = 0.6  # nor is what servers cost that add up, and calls, on a host
NOISE_LIMIT = 5  # per cent
FASTEST_MBIT = 5000  # beyond, the processors that carry the messages are the limit, and not the link


class Unreadable(Exception):
    """A trace that stepcast refuses, with its words."""


def profile_of_trace(program, path):
    """What stepcast reads from a trace, which its provenance names without folders."""
    done = subprocess.run([os.path.abspath(shutil.which(program)), "profile", path.name, "--json"], cwd=path.parent,
                          capture_output=True, text=True)
    if done.returncode:
        raise Unreadable(" ".join(done.stderr.split()))
    return json.loads(done.stdout)


def case_of(row, cluster, single_worker_s):
    """One case: nothing of the row entered its prediction."""
    job = matrix.job_of(row["job"])
    inputs = {"profile": row["job"], "cluster": cluster, "workers": row["workers"], "plan": row["plan"]}
    if row["plan"].startswith("layout"):
        inputs["global_batch"] = plans.samples_of(row["strategy"], row["workers"], job.batch)
    if not job.emulated:
        inputs["single_worker_s"] = round(single_worker_s, 6)
    case = {"id": f"{row['job']}/{row['link_mbit']} Mb/s/{row['workers']}/{row['strategy']}",
            "method": row["strategy"], "inputs": inputs, "measured_s": round(row["measured_ms"] / 1e3, 6),
            "spread_s": round(row["noise_percent"] / 100 * row["measured_ms"] / 1e3, 6), "split": job.split,
            "tolerance": LAYOUT_TOLERANCE if row["plan"].startswith("layout") else
            SERVER_TOLERANCE if plans.has_servers(row["strategy"]) else TOLERANCE[job.emulated]}
    if row["link_mbit"] > FASTEST_MBIT:
        case["excluded"] = "the processors that carry the messages are the limit, and not the link"
    elif row["noise_percent"] > NOISE_LIMIT:
        case["excluded"] = f"noise of {row['noise_percent']:.1f} %: the repetitions do not agree"
    return case


def suite_of(name, source, rows, predictions):
    """The quiet rows that stepcast predicts."""
    cases = [case_of(r, cluster_name(r), predictions.steps.get(r["job"])) for r in rows
             if r["quiet"] and r["predicted_ms"] is not None and r["link_mbit"]]
    used = {c["inputs"]["cluster"] for c in cases}
    return {"schema": "stepcast.cases/1", "suite": name,
            "summary": "Real communication over shaped links, of real compute and of an emulated accelerator",
            "defaults": {"source": source, "grade": "measured"},
            "profiles": {k: p for k, p in predictions.profiles.items() if k in {c["inputs"]["profile"] for c in cases}},
            "clusters": {k: c for k, c in predictions.clusters.items() if k in used}, "cases": cases}


def cluster_name(row):
    """Collectives of the ring have tables of their own; real compute shares its processors with communication: its
    cluster has contention factors."""
    job, ring = matrix.job_of(row["job"]), "-ring" if plans.runs_on_ring(row["strategy"]) else ""
    return f"lab-{row['link_mbit']}mbit{ring}" + ("" if job.emulated else f"-{job.model}")


def text_of(suite):
    """One line for each profile, cluster and case."""
    lines = []
    for key, value in suite.items():
        if key == "cases":
            body = ",\n".join("    " + json.dumps(c, ensure_ascii=False) for c in value)
            lines.append(f'  "cases": [\n{body}\n  ]')
        elif key in ("profiles", "clusters"):
            body = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
            lines.append(f'  "{key}": {{\n{body}\n  }}')
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
