#!/usr/bin/env python3
"""What a timeline of the recorded step with other messages shows: each process with its end, its messages and waits."""
import json
import pathlib
import sys

events = json.loads(pathlib.Path(sys.argv[1]).read_text())["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
for pid, name in sorted(names.items()):
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == pid]
    end = max(e["ts"] + e["dur"] for e in slices) / 1e3
    print(f"{name}: {end:.1f} ms")
    for e in slices:
        if e["name"].startswith("all-reduce ") or e["name"] == "waits for other ranks":
            print(f"  {e['name']}: {e['ts'] / 1e3:.1f} + {e['dur'] / 1e3:.1f} ms")
