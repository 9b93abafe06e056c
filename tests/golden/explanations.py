#!/usr/bin/env python3
"""What stepcast says of public traces without being asked anything: at least 95 % of PyTorch's traces get an answer, the
parts of each step add up to the measured step, and the device's time over the whole recording is what the definition of
HolisticTraceAnalysis' temporal breakdown gives when it is followed here, from the file alone."""
import argparse
import concurrent.futures
import gzip
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = ROOT.parent / "shared/traces"
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
SPLIT_ERROR = 0.005
BREAKDOWN_ERROR = 0.01


def events_of(path: pathlib.Path):
    """The events of a trace that PyTorch's profiler wrote; None for other files."""
    with gzip.open(path) as file:
        try:
            trace = json.loads(file.read().decode("utf-8", "replace").replace("\\x", "x"), strict=False)
        except (ValueError, OSError):
            return None
    if not isinstance(trace, dict) or "traceEvents" not in trace or "schemaVersion" not in trace:
        return None
    return [e for e in trace["traceEvents"] if isinstance(e, dict) and e.get("ph") == "X"]


def length(intervals: list) -> float:
    """Of the moments that some interval holds."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def breakdown_of(events: list):
    """HolisticTraceAnalysis' definition: kernels are computation unless their names say that they communicate or move
    memory; idle is what no work of the device covers from its first to its last; non-compute is the rest. In seconds;
    None without work of a device, or with that of several."""
    work = [e for e in events if e.get("cat") in WORK]
    devices = {(e.get("args") or {}).get("device", e.get("pid")) for e in work}
    if len(devices) != 1:
        return None
    spans = [(float(e["ts"]), float(e["ts"]) + float(e.get("dur", 0))) for e in work]
    compute = [span for span, e in zip(spans, work)
               if not e["name"].startswith(("Memcpy", "Memset")) and "nccl" not in e["name"].lower()
               and e["cat"] in ("kernel", "Kernel")]
    total = max(stop for _, stop in spans) - min(start for start, _ in spans)
    busy, computing = length(spans), length(compute)
    return {"span_s": total * 1e-6, "compute_s": computing * 1e-6, "non_compute_s": (busy - computing) * 1e-6,
            "idle_s": (total - busy) * 1e-6}


def said(program: str, *words) -> tuple:
    done = subprocess.run([program, *map(str, words), "--json"], capture_output=True, text=True, check=False)
    return (json.loads(done.stdout) if done.returncode == 0 else None), done.stderr.strip().splitlines()[-1:]


def faults_of(program: str, path: pathlib.Path):
    """None for files that PyTorch's profiler did not write, or that hold no work; else whether there was an answer, and
    what is wrong with it."""
    events = events_of(path)
    if not events:
        return None
    answer, message = said(program, path)
    if answer is None:
        return False, [f"no answer: {message}"]
    faults = []
    for split in answer["ranks"]:
        error = abs(sum(split["parts"].values()) / split["step_s"] - 1)
        if error > SPLIT_ERROR:
            faults.append(f"the parts are {error:.1%} off the step")
        if split["of_steps"]:
            inspected, _ = said(program, "inspect", path)
            measured = inspected["files"][0]["traces"][0]["step_s"] if inspected else None
            if measured and abs(split["step_s"] / measured - 1) > SPLIT_ERROR and "each holds" not in split["recognised"]:
                faults.append(f"the step is {split['step_s']} s, measured {measured} s")
    expected = breakdown_of(events)
    if expected:
        found = answer["ranks"][0]["device_recording"]
        for key, value in expected.items():
            if found is None or abs(found[key] - value) > BREAKDOWN_ERROR * expected["span_s"]:
                faults.append(f"{key} is {found and found[key]}, by definition {value}")
    return True, faults, bool(expected)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    if not PUBLIC.is_dir():
        print("explanations: skipped: no public traces")
        return 0
    files = sorted(PUBLIC.rglob("*.json.gz"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda path: faults_of(program, path), files))
    asked = [(path, result) for path, result in zip(files, results) if result]
    answers = [result for _, result in asked if result[0]]
    compared = sum(result[2] for result in answers)
    failed = 0
    for path, result in asked:
        for fault in result[1]:
            print(f"{path.relative_to(PUBLIC)}: {fault}")
        failed += bool(result[0] and result[1])
    enough = len(answers) >= 0.95 * len(asked) and len(asked) >= 80 and compared >= 50
    print(f"{len(answers)} of {len(asked)} traces answered, {compared} of them compared with the definition")
    passed = len(answers) - failed + enough
    print(f"explanations: {passed} passed, {failed + (not enough)} failed")
    return failed > 0 or not enough


if __name__ == "__main__":
    sys.exit(main())
