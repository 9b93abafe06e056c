"""Rows from blocks of measured iterations, and the table of predicted against measured."""
import csv
import json
import statistics

COLUMNS = ["model", "workers", "link_mbit", "strategy", "plan", "measured_ms", "noise_percent", "iterations", "blocks",
           "quiet", "foreign_share", "excess_wait", "predicted_ms", "error_percent"]


def quantile(values, q):
    """By linear interpolation."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)


def row_of(key, blocks):
    """One row of the blocks of a configuration: quiet ones only, or all of them where there is none.

    Noise is half the interquartile range, or half the range of the blocks' medians where that is more.
    """
    quiet = [b for b in blocks if b["quiet"]]
    used = quiet or blocks
    times = [t for b in used for t in b["times_s"]]
    median = statistics.median(times)
    medians = [statistics.median(b["times_s"]) for b in used]
    noise = max(quantile(times, 0.75) - quantile(times, 0.25), max(medians) - min(medians)) / 2
    model, workers, rate, strategy = key
    return {"model": model, "workers": workers, "link_mbit": rate, "strategy": strategy, "measured_ms": median * 1e3,
            "noise_percent": 100 * noise / median, "iterations": len(times), "blocks": len(used), "quiet": bool(quiet),
            "foreign_share": max(b["foreign"] for b in used), "excess_wait": max(b["wait"] for b in used),
            "plan": None, "predicted_ms": None, "error_percent": None}


def with_prediction(row, plan, seconds):
    """The row with what stepcast says."""
    error = None if seconds is None else 100 * (seconds * 1e3 / row["measured_ms"] - 1)
    return row | {"plan": plan, "predicted_ms": seconds and seconds * 1e3, "error_percent": error}


def table(rows):
    """At most 80 columns."""
    lines = [f"{'model':<12} {'w':>1} {'Mb/s':>5}  {'strategy':<13}{'measured':>10} {'noise':>6} {'quiet':>5} "
             f"{'predicted':>10} {'error':>8}"]
    for r in sorted(rows, key=lambda r: (r["model"], r["workers"], r["link_mbit"], r["strategy"])):
        said = ("  no prediction" if r["predicted_ms"] is None else
                f"{r['predicted_ms']:>7.1f} ms {r['error_percent']:>+6.1f} %")
        lines.append(f"{r['model']:<12} {r['workers']:>1} {r['link_mbit'] or 'none':>5}  {r['strategy']:<13}"
                     f"{r['measured_ms']:>7.1f} ms {r['noise_percent']:>4.1f} % "
                     f"{'yes' if r['quiet'] else 'no':>5} {said}")
    return "\n".join(lines)


def summary(rows):
    """Mean and worst error of the quiet rows, emulated and real apart."""
    lines = []
    for name, emulated in (("emulated accelerator", True), ("real compute", False)):
        errors = [abs(r["error_percent"]) for r in rows
                  if r["quiet"] and r["error_percent"] is not None and r["model"].startswith("emu-") == emulated]
        if errors:
            lines.append(f"{name}: {len(errors)} quiet rows, |error| mean {statistics.mean(errors):.1f} %, "
                         f"worst {max(errors):.1f} %")
    disturbed = sum(not r["quiet"] for r in rows)
    if disturbed:
        lines.append(f"{disturbed} rows were disturbed by other processes: judge nothing by them, measure again")
    return "\n".join(lines)


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
