#!/usr/bin/env python3
"""Checks a timeline that stepcast wrote: a valid Chrome trace whose slices nest, whose tracks have names, whose arrows
lead forward in time from slice to slice, and whose iterations are one predicted step apart; a replay's, in which the
rebuilt step has the rows and the work of the measured one; and a layout's, whose stages run every pass of every
micro-batch once, in an order that the model allows."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
EXAMPLES = [EXAMPLE, ROOT / "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz"]
PUBLIC = ROOT.parent / "shared/traces"
if PUBLIC.is_dir():  # traces of devices and of several threads
    EXAMPLES += [PUBLIC / "KellerJordan__modded-nanogpt/2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00"
                          "-chrome-trace.json.gz",
                 PUBLIC / "facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
                 PUBLIC / "pytorch__kineto/resnet50_num_workers_0__worker0.pt.trace.json.gz"]
DEVICE = ROOT / "tests/data/example-device.json"
LAYOUTS = {"layout(pp=4)/ddp": 1, "layout(pp=4, chunks=2)/ddp": 2, "layout(tp=2, pp=4, schedule=gpipe)/ddp": 1,
           "layout(pp=4, schedule=zb_h1)/ddp": 1, "layout(pp=4, overlap_pp=off)/ddp": 1}
PLANS = ["ddp", "wfbp", "dear", "mg_wfbp", "bytescheduler", "horovod", "byteps"]


def basic_faults_of(trace: dict) -> list[str]:
    faults = []
    events = [e for e in trace["traceEvents"] if e["ph"] != "M"]
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    processes = {e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    if any(a["ts"] > b["ts"] for a, b in zip(events, events[1:])):
        faults.append("events are not sorted")
    for e in events:
        if (e["pid"], e["tid"]) not in named or e["pid"] not in processes:
            faults.append(f"track {e['pid']}/{e['tid']} has no name")
    return faults


def replay_faults_of(trace: dict, replayed_s: float) -> list[str]:
    faults = basic_faults_of(trace)
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    if sorted(names.values()) != ["measured", "rebuilt"]:
        return faults + [f"processes {names}"]
    rows, slices = collections.defaultdict(dict), collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["name"] == "thread_name":
            rows[names[e["pid"]]][e["tid"]] = e["args"]["name"]
        elif e["ph"] == "X":
            slices[names[e["pid"]], e["tid"]].append(e)
    if rows["measured"] != rows["rebuilt"]:
        faults.append("the rows differ")
    for place, row in slices.items():
        open_until = []
        for e in row:
            while open_until and open_until[-1] <= e["ts"] + 1e-5:
                open_until.pop()
            if open_until and (e["ts"] + e["dur"] > open_until[-1] + 1e-5 or place[0] == "rebuilt"):
                faults.append(f"slices overlap on {place}")
            open_until.append(e["ts"] + e["dur"])
    # What ran on a device, or on a thread of a communication library, ran as long and in the same order.
    for tid in rows["measured"]:
        work = [[(e["name"], round(e["dur"], 5)) for e in slices[process, tid] if e["cat"] in ("kernel", "transfer")]
                for process in ("measured", "rebuilt")]
        if work[0] != work[1]:
            faults.append(f"row {tid} does other work")
    # What was busy on the host at the top level was busy in the rebuilt step: waits are left out, never added.
    for tid in rows["measured"]:
        top = {e["name"] for e in slices["measured", tid]}
        unknown = {e["name"] for e in slices["rebuilt", tid]} - top - {"gap"}
        if unknown:
            faults.append(f"row {tid} runs {sorted(unknown)[:3]} in the rebuilt step only")
    rebuilt = [e for (process, tid), row in slices.items() if process == "rebuilt" for e in row]
    if not rebuilt or max(e["ts"] + e["dur"] for e in rebuilt) * 1e-6 < 0.95 * replayed_s:
        faults.append("the rebuilt step is shorter than the replay says")
    return faults


def faults_of(trace: dict, iteration_s: float) -> list[str]:
    faults = basic_faults_of(trace)
    events = [e for e in trace["traceEvents"] if e["ph"] != "M"]
    recorded = [e["pid"] for e in trace["traceEvents"]
                if e["name"] == "process_name" and e["args"]["name"].startswith("recorded, step ")]
    if len(recorded) != 1 or not any(e["ph"] == "X" and e["pid"] in recorded for e in events):
        faults.append("the traced step is not there")
    tracks = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and e["pid"] not in recorded:  # whose operators contain one another
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for track, slices in tracks.items():
        if any(a[1] > b[0] + 1e-5 for a, b in zip(slices, slices[1:])):
            faults.append(f"slices overlap on track {track}")
    arrows = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            arrows[e["id"]][e["ph"]] = e
            if not any(a - 1e-5 <= e["ts"] <= b + 1e-5 for a, b in tracks[e["pid"], e["tid"]]):
                faults.append(f"arrow {e['id']} hangs in the air")
    for number, ends in arrows.items():
        if set(ends) != {"s", "f"} or ends["s"]["ts"] > ends["f"]["ts"]:
            faults.append(f"arrow {number} does not lead forward")
    if not arrows:
        faults.append("no arrows")
    # The last layer's backward pass marks the iterations; the first ones may still be settling.
    backward = [e for e in events if e["ph"] == "X" and e["cat"] == "backward" and e["pid"] not in recorded]
    marks = [e["ts"] for e in backward if e["name"] == backward[0]["name"]]
    if abs((marks[-1] - marks[-2]) * 1e-6 - iteration_s) > 0.01 * iteration_s:
        faults.append(f"iterations are {(marks[-1] - marks[-2]) * 1e-6} s apart, predicted {iteration_s} s")
    return faults


def layout_faults_of(trace: dict, answer: dict, chunks: int) -> list[str]:
    faults = basic_faults_of(trace)
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    ends = collections.defaultdict(dict)  # of each pass, by virtual stage and micro-batch
    busy = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] != "X":
            continue
        row = rows[e["pid"], e["tid"]]
        busy[row].append((e["ts"], e["ts"] + e["dur"]))
        if e["cat"] in ("forward", "backward"):
            key = (e["cat"], e["name"][0])
            passes = ends[key]
            place = (e["args"]["virtual_stage"], e["args"]["micro_batch"])
            if place in passes:
                faults.append(f"{e['name']} runs twice")
            passes[place] = (e["ts"], e["ts"] + e["dur"], row)
    stages = answer["layout"]["pipeline"]
    if {name for name in rows.values() if "->" not in name} != {f"stage {s}" for s in range(stages)}:
        faults.append(f"rows {sorted(rows.values())}")
    if not any("->" in name for name in rows.values()):
        faults.append("no transfers")
    for row, slices in busy.items():
        slices.sort()
        if any(a[1] > b[0] + 1e-5 for a, b in zip(slices, slices[1:])):
            faults.append(f"slices overlap on {row}")
    forward = next(passes for (kind, _), passes in ends.items() if kind == "forward")
    for (kind, letter), passes in ends.items():
        if len(passes) != stages * chunks * answer["micro_batches"]:
            faults.append(f"{len(passes)} passes {letter}")
        for (stage, batch), (start, _, _) in passes.items():
            if kind == "forward" and stage > 0 and start < forward[stage - 1, batch][1] - 1e-5:
                faults.append(f"forward of {batch} on {stage} starts before its input is there")
            if kind == "backward" and start < forward[stage, batch][1] - 1e-5:
                faults.append(f"backward of {batch} on {stage} starts before its forward pass ends")
    last = max(end for slices in busy.values() for _, end in slices)
    if last * 1e-6 > answer["iteration_s"] * (1 + 1e-6) or last * 1e-6 < 0.5 * answer["iteration_s"]:
        faults.append(f"the passes end at {last * 1e-6} s, the step takes {answer['iteration_s']} s")
    return faults


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--program", type=pathlib.Path, required=True, help="the stepcast to test")
    program = arguments.parse_args().program.resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "timeline.json"
        for plan in PLANS:
            done = subprocess.run([program, "predict", EXAMPLE, "--workers", "8", "--network", "5GbE", "--plan", plan,
                                   "--timeline", out, "--json"], capture_output=True, check=True, timeout=60)
            faults = faults_of(json.loads(out.read_text()), json.loads(done.stdout)["iteration_s"])
            passed, failed = passed + (not faults), failed + bool(faults)
            for fault in faults[:5]:
                print(f"{plan}: {fault}")
        for plan, chunks in LAYOUTS.items():
            done = subprocess.run([program, "predict", "--model", "gpt:hidden=1024,layers=8,heads=16,seq=512", "--device",
                                   DEVICE, "--workers", "16", "--per-node", "4", "--network", "100GbE", "--plan", plan,
                                   "--global-batch", "64", "--timeline", out, "--json"], capture_output=True,
                                  check=True, timeout=60)
            faults = layout_faults_of(json.loads(out.read_text()), json.loads(done.stdout), chunks)
            passed, failed = passed + (not faults), failed + bool(faults)
            for fault in faults[:5]:
                print(f"{plan}: {fault}")
        for example in EXAMPLES:
            done = subprocess.run([program, "replay", example, "--timeline", out, "--json"], capture_output=True,
                                  check=True, timeout=60)
            faults = replay_faults_of(json.loads(out.read_text()), json.loads(done.stdout)["replayed_s"])
            passed, failed = passed + (not faults), failed + bool(faults)
            for fault in faults[:5]:
                print(f"replay of {example.name}: {fault}")
    print(f"timelines: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
