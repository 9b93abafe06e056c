"""From a run's results to stepcast's predictions: clusters, profiles, rows, and cases for `stepcast validate`."""
import json
import statistics

import cases
import plans
import report


def clusters_of(results):
    """Calibrated clusters by name; those for real compute have contention factors."""
    clusters = {}
    for rate, by_workers in results["calibration"].items():
        points = {int(workers): p for workers, p in by_workers.items()}
        clusters[f"lab-{rate}mbit"] = plans.cluster_of(int(rate), points)
        for model, found in results["contention"].get(rate, {}).items():
            cluster = plans.cluster_of(int(rate), points, found["factors"])
            clusters[f"lab-{rate}mbit-{model}"] = cluster | {"name": f"lab-{rate}mbit-{model}"}
    return clusters


def local_step_s(blocks):
    """Steps of one worker while the others compute, too, by model."""
    return {model: statistics.median(t for b in found for t in b["times_s"])
            for (model, _, _, strategy), found in blocks.items() if strategy == "local"}


def predicted_rows(folder, program, results):
    """A row for everything measured; clusters, profiles and cases are left in `folder`, and what stepcast reads."""
    blocks = {tuple(entry["key"]): entry["blocks"] for entry in results["blocks"]}
    clusters, steps, profiles, rows = clusters_of(results), local_step_s(blocks), {}, []
    for name, cluster in clusters.items():
        (folder / f"{name}.json").write_text(json.dumps(cluster, indent=1) + "\n")
    some_cluster = str(folder / (next(iter(clusters)) + ".json"))
    faster = {}
    for key, found in blocks.items():
        model, workers, _, strategy = key
        row = report.row_of(key, found)
        if strategy == "local":
            rows.append(row)
            continue
        if model not in profiles:
            path = folder / f"{model}.profile.json"
            if model in steps:  # the profiler slows the step down
                profiles[model] = cases.profile_of_trace(program, str(folder / f"{model}-local-rank0.pt.trace.json.gz"))
                path.write_text(json.dumps(profiles[model]) + "\n")
                lone = plans.predicted_s(program, str(path), some_cluster, "bsp", 1)
                faster[model] = lone / steps[model]
            else:
                profiles[model] = json.loads(path.read_text())
        plan, servers = plans.plan_of(strategy), workers if strategy.startswith("ps") else 0
        seconds = plan and plans.predicted_s(program, str(folder / f"{model}.profile.json"),
                                             str(folder / f"{cases.cluster_name(row)}.json"), plan, workers, servers,
                                             faster.get(model, 1.0))
        rows.append(report.with_prediction(row, plan, seconds))
    suite = cases.suite_of("lab_own", "stepcast's laboratory: PyTorch, gloo, shaped links between network namespaces",
                           rows, profiles, clusters, steps)
    (folder / "cases.json").write_text(cases.text_of(suite))
    return rows
