"""From a run's results to stepcast's predictions: clusters, profiles, rows, and cases for `stepcast validate`."""
import json
import statistics

import cases
import matrix
import plans
import report


def points_of(by_world):
    """Points (bytes, median seconds) by number of workers and operation."""
    return {int(world): {operation: [(int(size), statistics.median(times)) for size, times in by_size.items()]
                         for operation, by_size in operations.items()} for world, operations in by_world.items()}


def clusters_of(results):
    """Calibrated clusters by name; those for real compute have contention factors."""
    clusters = {}
    for rate, by_world in results["calibration"].items():
        points = points_of(by_world)
        for ring in (False, True):
            made = plans.cluster_of(int(rate), points, ring=ring)
            clusters[made["name"]] = made
            for model, found in results["contention"].get(rate, {}).items():
                name = f"{made['name']}-{model}"
                clusters[name] = plans.cluster_of(int(rate), points, found["factors"], ring) | {"name": name}
    return clusters


def keyed(entries, name):
    return {tuple(entry["key"]): entry[name] for entry in entries}


def local_step_s(blocks):
    """Steps of one worker while the others compute, too, by job."""
    return {job: statistics.median(t for b in found for t in b["times_s"])
            for (job, _, _, strategy), found in blocks.items() if strategy == "local"}


class Predictions:
    """What stepcast says of rows; profiles are read once a job."""

    def __init__(self, folder, program, results):
        self.folder, self.program = folder, program
        self.steps = local_step_s(keyed(results["blocks"], "blocks"))
        self.clusters, self.profiles, self.faster = clusters_of(results), {}, {}
        for name, cluster in self.clusters.items():
            (folder / f"{name}.json").write_text(json.dumps(cluster, indent=1) + "\n")

    def trace_of(self, job):
        return self.folder / "traces" / f"{job.name}-local-rank0.pt.trace.json.gz"

    def profile_of(self, job):
        """The path of what stepcast reads from the trace of one worker, whose step the profiler slowed down."""
        path = self.folder / f"{job.name}.profile.json"
        if job.name not in self.profiles:
            if job.emulated:
                self.profiles[job.name] = json.loads(path.read_text())
            else:
                read = cases.profile_of_trace(self.program, self.trace_of(job))
                self.profiles[job.name] = read
                path.write_text(json.dumps(read) + "\n")
                lone = plans.predicted(self.program, [str(path)], str(self.folder / f"{next(iter(self.clusters))}.json"),
                                       "bsp", 1)
                self.faster[job.name] = lone["iteration_s"] / self.steps[job.name]
        return str(path)

    def of(self, row):
        """The plan, and stepcast's answer or why there is none."""
        job = matrix.job_of(row["job"])
        plan = plans.plan_of(row["strategy"], row["workers"], job.batch)
        if plan is None:
            return None, {"refused": "stepcast has no plan for it"}
        servers = row["workers"] if plans.has_servers(row["strategy"]) else 0
        try:
            profile = self.profile_of(job)
        except (OSError, cases.Unreadable) as error:
            return plan, {"refused": str(error)}
        cluster = str(self.folder / f"{cases.cluster_name(row)}.json")
        samples = plans.samples_of(row["strategy"], row["workers"], job.batch)
        return plan, plans.predicted(self.program, [profile], cluster, plan, row["workers"], servers, samples,
                                     self.faster.get(job.name, 1.0))


def predicted_rows(folder, program, results):
    """A row for everything measured or tried; clusters, profiles and cases are left in `folder`, and what stepcast
    reads."""
    predictions, rows = Predictions(folder, program, results), []
    memory = keyed(results["memory"], "bytes")
    for key, found in keyed(results["blocks"], "blocks").items():
        row = report.row_of(key, found, memory.get(key))
        if row["strategy"] != "local":
            plan, answer = predictions.of(row)
            row = report.with_prediction(row, plan, answer)
        rows.append(row)
    measured = {tuple(e["key"]) for e in results["blocks"]}
    rows += [report.failed_row(key, why) for key, why in keyed(results["failed"], "reason").items() if key not in measured]
    suite = cases.suite_of("lab_own", "stepcast's laboratory: PyTorch, gloo, shaped links between network namespaces",
                           rows, predictions)
    (folder / "cases.json").write_text(cases.text_of(suite))
    return rows
