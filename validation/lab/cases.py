"""The quiet rows as a suite of `stepcast validate`, complete in one file: profiles, clusters, plans, measured times."""
import json
import subprocess

TOLERANCE = {True: 0.08, False: 0.15}  # emulated accelerator, real compute
NOISE_LIMIT = 5  # per cent


def profile_of_trace(program, path):
    """What stepcast reads from a trace."""
    return json.loads(subprocess.run([program, "profile", path, "--json"], check=True, capture_output=True).stdout)


def case_of(row, cluster, single_worker_s):
    """One held-out case: nothing of the row entered its prediction."""
    emulated = row["model"].startswith("emu-")
    inputs = {"profile": row["model"], "cluster": cluster, "workers": row["workers"], "plan": row["plan"]}
    if not emulated:
        inputs["single_worker_s"] = single_worker_s
    case = {"id": f"{row['model']}/{row['link_mbit']} Mb/s/{row['workers']}/{row['strategy']}",
            "method": row["strategy"], "inputs": inputs, "measured_s": round(row["measured_ms"] / 1e3, 6),
            "spread_s": round(row["noise_percent"] / 100 * row["measured_ms"] / 1e3, 6), "split": "held_out",
            "tolerance": TOLERANCE[emulated]}
    if row["noise_percent"] > NOISE_LIMIT:
        case["excluded"] = f"noise of {row['noise_percent']:.1f} %: the repetitions do not agree"
    return case


def suite_of(name, source, rows, profiles, clusters, single_worker_s):
    """`clusters` by name; each row's is `cluster_name` of it."""
    cases = [case_of(r, cluster_name(r), single_worker_s.get(r["model"])) for r in rows
             if r["quiet"] and r["predicted_ms"] is not None and r["link_mbit"]]
    used = {c["inputs"]["cluster"] for c in cases}
    return {"schema": "stepcast.cases/1", "suite": name,
            "summary": "Real communication over shaped links, of real compute and of an emulated accelerator",
            "defaults": {"source": source, "grade": "measured"},
            "profiles": {k: p for k, p in profiles.items() if k in {c["inputs"]["profile"] for c in cases}},
            "clusters": {k: c for k, c in clusters.items() if k in used}, "cases": cases}


def cluster_name(row):
    """Real compute shares its processors with communication: its cluster has contention factors."""
    return f"lab-{row['link_mbit']}mbit" + ("" if row["model"].startswith("emu-") else f"-{row['model']}")


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
