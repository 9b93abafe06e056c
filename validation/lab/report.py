"""Rows from blocks of measured iterations, and the table of predicted against measured."""
import csv
import json
import statistics

import matrix
import plans

COLUMNS = ["job", "split", "workers", "link_mbit", "strategy", "plan", "measured_ms", "noise_percent", "iterations",
           "blocks", "quiet", "foreign_share", "excess_wait", "operations", "peak_mib", "predicted_ms", "error_percent",
           "cannot_say"]


def quantile(values, q):
    """By linear interpolation."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)


def empty_row(key):
    job, workers, rate, strategy = key
    return dict.fromkeys(COLUMNS) | {"job": job, "split": matrix.job_of(job).split, "workers": workers,
                                     "link_mbit": rate, "strategy": strategy, "quiet": False}


def failed_row(key, why):
    """A strategy that could not be measured."""
    return empty_row(key) | {"cannot_say": f"not measured: {why}"}


def row_of(key, blocks, memory=None):
    """One row of the blocks of a configuration: quiet ones only, or all of them where there is none.

    Noise is half the interquartile range, or half the range of the blocks' medians where that is more.
    """
    quiet = [b for b in blocks if b["quiet"]]
    used = quiet or blocks
    times = [t for b in used for t in b["times_s"]]
    median = statistics.median(times)
    medians = [statistics.median(b["times_s"]) for b in used]
    noise = max(quantile(times, 0.75) - quantile(times, 0.25), max(medians) - min(medians)) / 2
    return empty_row(key) | {
        "measured_ms": median * 1e3, "noise_percent": 100 * noise / median, "iterations": len(times),
        "blocks": len(used), "quiet": bool(quiet), "foreign_share": max(b["foreign"] for b in used),
        "excess_wait": max(b["wait"] for b in used), "operations": used[0]["operations"][0],
        "peak_mib": memory and max(memory["peak"]) / 2**20}


def with_prediction(row, plan, answer):
    """The row with what stepcast says."""
    seconds = answer.get("iteration_s")
    error = None if seconds is None else 100 * (seconds * 1e3 / row["measured_ms"] - 1)
    return row | {"plan": plan, "predicted_ms": seconds and seconds * 1e3, "error_percent": error,
                  "cannot_say": answer.get("refused")}


def table(rows):
    """At most 80 columns, but for what cannot be said."""
    lines = [f"{'job':<15} {'w':>1} {'Mb/s':>5}  {'strategy':<20}{'measured':>10} {'noise':>7} {'predicted':>10} "
             f"{'error':>8}"]
    for r in sorted(rows, key=lambda r: (r["job"], r["workers"], r["link_mbit"], r["strategy"])):
        said = (f"{r['predicted_ms']:>7.1f} ms {r['error_percent']:>+6.1f} %" if r["predicted_ms"] else
                "" if r["strategy"] == "local" else f"  {(r['cannot_say'] or '')[:60]}")
        measured = (f"{r['measured_ms']:>7.1f} ms {r['noise_percent']:>4.1f} %{' ' if r['quiet'] else '!'}"
                    if r["measured_ms"] else f"{'-':>18} ")
        lines.append(f"{r['job']:<15} {r['workers']:>1} {r['link_mbit'] or 'none':>5}  {r['strategy']:<20}"
                     f"{measured}{said}")
    return "\n".join(lines)


def mode_of(row):
    return "emulated accelerator" if matrix.job_of(row["job"]).emulated else "real compute"


def summary(rows):
    """Errors of the quiet rows by mode and kind of strategy; of the held-out rows also all together."""
    lines = [f"{'quiet rows':<38}{'n':>3}{'median':>9}{'mean |e|':>10}{'bias':>9}{'worst':>9}{'cannot say':>12}"]

    def line(name, some):
        errors = [r["error_percent"] for r in some if r["error_percent"] is not None]
        silent = sum(r["error_percent"] is None for r in some)
        if errors:
            sizes = [abs(e) for e in errors]
            lines.append(f"{name:<38}{len(errors):>3}{statistics.median(sizes):>7.1f} %{statistics.mean(sizes):>8.1f} %"
                         f"{statistics.mean(errors):>+7.1f} %{max(sizes):>7.1f} %{silent:>12}")
        elif some:
            lines.append(f"{name:<38}{'-':>3}{'':>37}{silent:>9}")

    judged = [r for r in rows if r["quiet"] and r["strategy"] != "local"]
    for mode in ("emulated accelerator", "real compute"):
        of_mode = [r for r in judged if mode_of(r) == mode]
        for kind in sorted({kind_of(r["strategy"]) for r in of_mode}):
            line(f"{mode.split()[0]}: {kind}", [r for r in of_mode if kind_of(r["strategy"]) == kind])
        line(f"{mode}, held out", [r for r in of_mode if r["split"] == "held_out"])
        line(f"{mode}, all", of_mode)
    disturbed = sum(not r["quiet"] and r["measured_ms"] is not None for r in rows)
    if disturbed:
        lines.append(f"{disturbed} rows (!) were disturbed by other processes: judge nothing by them, measure again")
    lines += [f"not measured: {r['job']}, {r['workers']} workers, {r['strategy']}: {r['cannot_say']}" for r in rows
              if r["measured_ms"] is None]
    return "\n".join(lines)


def moved(rows, earlier):
    """How far medians are from those of an earlier run, by mode: below that no error means anything."""
    lines = []
    for mode in ("emulated accelerator", "real compute"):
        shares = sorted(100 * abs(r["measured_ms"] / earlier[key] - 1) for r in rows if r["quiet"] and mode_of(r) == mode
                        if (key := (r["job"], r["workers"], r["link_mbit"], r["strategy"])) in earlier)
        if shares:
            lines.append(f"noise floor, {mode}: {len(shares)} rows measured in both runs moved by "
                         f"{statistics.median(shares):.1f} % in the median, 9 of 10 by at most "
                         f"{quantile(shares, 0.9):.1f} %, worst {shares[-1]:.1f} %")
    return "\n".join(lines)


def medians_of_suite(path):
    """The same of a suite of the laboratory, whose cases are called JOB/RATE Mb/s/WORKERS/STRATEGY."""
    found = {}
    for case in json.loads(path.read_text())["cases"]:
        job, rate, workers, strategy = case["id"].replace(" Mb/s", "").split("/", 3)
        found[job, int(workers), int(rate), strategy] = 1e3 * case["measured_s"]
    return found


def read_medians(path):
    """Medians of an earlier run's quiet rows, in milliseconds, by row: of its folder, or of a suite made from it."""
    if path.is_file():
        return medians_of_suite(path)
    with open(path / "results.csv", newline="") as file:
        return {(r["job"], int(r["workers"]), int(r["link_mbit"]), r["strategy"]): float(r["measured_ms"])
                for r in csv.DictReader(file) if r["quiet"] == "True" and r["measured_ms"]}


def kind_of(strategy):
    kind, *values = strategy.split(":")
    return f"{kind}:{values[0]}" if kind == "pp" else f"{kind}, ring" if plans.runs_on_ring(strategy) else kind


def write_rows(folder, rows):
    """results.csv."""
    with open(folder / "results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for r in rows:
            writer.writerow({k: round(v, 4) if isinstance(v, float) else v for k, v in r.items()})


def write_results(folder, results):
    """results.json: every iteration and calibration."""
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
