#!/usr/bin/env python3
"""Bad inputs: whatever is wrong, stepcast says so in exactly one line on standard error and ends with exit code 2.

Every case is a damaged file or a wrong flag; nothing may crash, hang, answer, or leave a half-written file behind.
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
OTHER = ROOT / "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz"
CLUSTER = ["--workers", "16", "--per-node", "4", "--network", "10GbE"]
DEVICE = ROOT / "tests/data/example-device.json"
GPT = ["--model", "gpt:hidden=1024,layers=8,heads=16,seq=512", "--device", str(DEVICE)]


def event(**changes) -> dict:
    fields = {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "pid": 0, "tid": 1, "ts": 10, "dur": 5, "args": {}}
    return {**fields, **changes}


def trace_text(*events, **fields) -> bytes:
    return json.dumps({"schemaVersion": 1, **fields, "traceEvents": list(events)}).encode()


def rank_text(rank: int, step: int, world_size: int = 2) -> bytes:
    """One rank of a run whose trace holds a single step."""
    mark = event(cat="user_annotation", name=f"ProfilerStep#{step}", dur=20)
    return trace_text(mark, event(), distributedInfo={"backend": "nccl", "rank": rank, "world_size": world_size})


def bad_traces() -> dict[str, bytes]:
    packed = EXAMPLE.read_bytes()
    plain = gzip.decompress(packed)
    flipped = bytearray(packed)
    flipped[len(flipped) // 2] ^= 0xFF
    return {
        "empty": b"",
        "blank": b" \n\t\n",
        "a zero byte": b"\0",
        "binary": bytes(range(256)) * 40,
        "gzip of nothing": gzip.compress(b"", mtime=0),
        "gzip header only": packed[:10],
        "gzip of text": gzip.compress(b"hello\n" * 100, mtime=0),
        "text": b"hello, this is no trace\n",
        "a number": b"42",
        "a string": b'"traceEvents"',
        "an empty object": b"{}",
        "an empty array": b"[]",
        "null": b"null",
        "an unclosed object": b'{"traceEvents": ',
        "no events": b'{"traceEvents": []}',
        "events of the wrong type": b'{"traceEvents": "many"}',
        "events that are numbers": b'{"traceEvents": [1, 2, 3]}',
        "events that are null": b'{"traceEvents": null}',
        "one event": trace_text(event()),
        "time as text": trace_text(event(ts="soon"), event(ts="later")),
        "absurd time": trace_text(event(ts=1e300), event(ts=-1e300)),
        "negative duration": trace_text(event(dur=-5)),
        "not a number": b'{"traceEvents": [{"ph": "X", "name": "a", "ts": NaN, "dur": 1}]}',
        "a name that is an object": trace_text(event(name={"a": 1})),
        "arguments that are a list": trace_text(event(args=[1, 2])),
        "deep nesting": b'{"traceEvents": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "only metadata": trace_text({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}),
        "another format": b"<?xml version='1.0'?><trace/>",
        "invalid UTF-8": b'{"traceEvents": [{"ph": "X", "name": "\xff\xfe", "ts": 1, "dur": 1}]}',
        "a profile without layers": b'{"schema": "stepcast.profile/1"}',
        "a profile of the future": b'{"schema": "stepcast.profile/99", "layers": []}',
        "a cluster": b'{"schema": "stepcast.cluster/1"}',
        "a profile that says a thing twice": b'{"schema": "stepcast.profile/1", "input_s": 0, "input_s": 5, "layers": []}',
        "a profile with a typo": b'{"schema": "stepcast.profile/1", "layesr": []}',
        "a profile with numbers as text": b'{"schema": "stepcast.profile/1", "layers": "three"}',
        "truncated, strict": packed[: len(packed) // 2],
        "truncated plain, strict": plain[: len(plain) // 2],
        "a flipped byte, strict": bytes(flipped),
    }


def bad_clusters() -> dict[str, bytes]:
    return {
        "empty": b"",
        "not JSON": b"nodes = 4",
        "an empty object": b"{}",
        "a list": b"[]",
        "zero nodes": b'{"schema": "stepcast.cluster/1", "name": "x", "nodes": 0, "devices_per_node": 1}',
        "a bare number": b'{"schema": "stepcast.cluster/1", "name": "x", "nodes": 2, "network": {"bandwidth": 10}}',
        "an unknown key": b'{"schema": "stepcast.cluster/1", "name": "x", "nodse": 2}',
    }


def bad_devices() -> dict[str, bytes]:
    """Files that are no device, and devices whose numbers make times infinite or nothing."""
    device = json.loads(DEVICE.read_bytes())
    changes = {
        "a crawling memory": {"memory_bandwidth": "1e-300 B/s"}, "a memory too fast": {"memory_bandwidth": "1e300 B/s"},
        "a crawling product": {"matrix_rate": {"f16": 1e-300}}, "a product too fast": {"matrix_rate": {"f16": 1e300}},
        "no efficiency": {"matrix_efficiency": 1e-320}, "products never wide enough": {"half_n": 1e300},
        "kernels that do not end": {"kernel_floor": "1e300 s"}, "a host that never issues": {"issue": "1e300 s"},
        "an error beyond all": {"relative_error": 1e300}, "a memory beyond all": {"memory": "1e300 B"},
    }
    return {"empty": b"", "a list": b"[]", "cut": DEVICE.read_bytes()[:-20],
            **{name: json.dumps({**device, **change}).encode() for name, change in changes.items()}}


def bad_flags() -> list[list[str]]:
    example = str(EXAMPLE)
    predict = ["predict", example, *CLUSTER]
    recommend = ["recommend", example]
    return [
        [*recommend, *CLUSTER, "--collective", ""], [*recommend, *CLUSTER, "-o", ""], [*recommend, *CLUSTER, "--what", ""],
        ["predict", "", *CLUSTER, "--plan", "ddp"], ["list", ""],
        [], ["frobnicate"], ["recomend", example], ["--nonsense"], ["recommend"], ["predict", example, *CLUSTER],
        ["recommend", "/nonexistent/trace.json", *CLUSTER], ["recommend", str(ROOT), *CLUSTER],
        recommend,
        [*recommend, "--workers"], [*recommend, "--workers", "0", "--network", "10GbE"],
        [*recommend, "--workers", "-4", "--network", "10GbE"], [*recommend, "--workers", "many", "--network", "10GbE"],
        [*recommend, "--workers", "1e400", "--network", "10GbE"],
        [*recommend, "--workers", "99999999999999999999", "--network", "10GbE"],
        [*recommend, "--workers", "16", "--per-node", "0", "--network", "10GbE"],
        [*recommend, "--workers", "10", "--per-node", "4", "--network", "10GbE"],
        [*recommend, "--workers", "16"], [*recommend, "--workers", "16", "--network", "10"],
        [*recommend, "--workers", "16", "--network", "0 Gb/s"], [*recommend, "--workers", "16", "--network", "nan Gb/s"],
        [*recommend, "--workers", "16", "--network", "-1 Gb/s"], [*recommend, "--workers", "16", "--network", "fast"],
        [*recommend, "--workers", "16", "--network", ""],
        [*recommend, "--cluster", "no-such-cluster"], [*recommend, "--cluster", "/nonexistent.json"],
        [*recommend, "--cluster", "lab-1000mbit", "--network", "10GbE"],
        [*recommend, *CLUSTER, "--servers", "-1"], [*recommend, *CLUSTER, "--allow", "everything"],
        [*recommend, *CLUSTER, "--collective", "rign"], [*recommend, *CLUSTER, "--collective", "table"],
        [*recommend, *CLUSTER, "--model", "resnet19"], [*recommend, *CLUSTER, "--batch", "0"],
        [*recommend, *CLUSTER, "--parameters", "lots"], [*recommend, *CLUSTER, "--parameters", "350 MB"],
        [*recommend, *CLUSTER, "--parameters", "0"], [*recommend, *CLUSTER, "--parameters", "11M"],
        [*recommend, *CLUSTER, "--batch", "lots"], [*recommend, *CLUSTER, "--batch", "1e300"],
        [*recommend, *CLUSTER, "--faster-compute", "0"],
        [*recommend, *CLUSTER, "--faster-compute", "-2"], [*recommend, *CLUSTER, "--faster-compute", "inf"],
        [*recommend, *CLUSTER, "--same-device", "--faster-compute", "2"], [*recommend, *CLUSTER, "--jsno"],
        ["recommend", example, example, *CLUSTER], ["recommend", example, str(OTHER), *CLUSTER], [*recommend, *CLUSTER, "-o", "/nonexistent/folder/out.txt"],
        [*predict, "--plan", ""], [*predict, "--plan", "daer"], [*predict, "--plan", "ddp(bucket=25)"],
        [*predict, "--plan", "ddp(bucket=25 MiB"], [*predict, "--plan", "ddp(buckte=25 MiB)"],
        [*predict, "--plan", "ddp(bucket=-1 B)"], [*predict, "--plan", "ddp(bucket=1e99 GiB)"],
        [*predict, "--plan", "ddp@nothing"], [*predict, "--plan", "ddp)("], [*predict, "--plan", "ddp" * 10_000],
        [*predict, "--plan", "ddp", "--timeline", "-"], [*predict, "--plan", "ddp", "--timeline", "/nonexistent/t.json"],
        ["list"], ["list", "strategy"], ["list", "formats", "models"], ["replay"], ["explain"], ["why"], ["why", str(EXAMPLE)], ["diff"], ["diff", str(EXAMPLE)],
        ["diff", str(EXAMPLE), "missing.json"], ["diff", str(EXAMPLE), str(EXAMPLE), str(OTHER)],
        ["diff", str(EXAMPLE), str(OTHER), "-o", str(OTHER)], ["missing.json.gz"], ["./recommend"], ["profile"], ["calibrate"],
        ["calibrate", example], ["calibrate", "/nonexistent.log"], ["profile", example, "-o", "/nonexistent/p.json"],
    ]


def bad_layouts() -> list[list[str]]:
    """Wrong flags of layouts, of described models and of unequal devices."""
    search = ["recommend", *GPT, *CLUSTER, "--global-batch", "64"]
    predict = ["predict", *GPT, *CLUSTER, "--global-batch", "64", "--plan"]
    devices = ["recommend", *GPT, "--global-batch", "64", "--devices", str(DEVICE.with_name("two-sites.devices.json"))]
    model, device = GPT[:2], GPT[2:]
    values = {
        "--objective": ["speed"], "--target-step": ["20", "fast", "0 s"], "--price": ["0", "-1", "cheap"],
        "--memory": ["80", "0 GB", "lots"], "--time-budget": ["2", "-1 s", "0s"], "--device-memory": ["80", "0 GB"],
        "--tensor": ["0", "-1", "1,,2", "2,2", "two", ",", "1e9"], "--pipeline": ["0", "1.5"], "--context": ["0"],
        "--expert": ["x"], "--micro-batch": ["0"], "--chunks": ["0"], "--schedule": ["gpip", "1f1b,1f1b"],
        "--scheme": ["4d"], "--recompute": ["some"], "--zero": ["4", "-1"], "--sequence-parallel": ["yes"], "--overlap-tp": ["yes"], "--overlap-ep": ["products"],
        "--global-batch": ["0", "1.5", "-8", "many", "1e300"], "--allow": ["lossy"], "--adatopk": ["10"],
        "--faster-compute": ["2"], "--input": [str(DEVICE)], "--device": ["no-such-device", "/nonexistent.json"],
    }
    plans = ["layout", "layout()", "layout(tp=2)", "layout(tp=2/ddp", "layout(tp=0)/ddp", "layout(tp=two)/ddp",
             "layout(tpp=2)/ddp", "layout(tp=2, tp=2)/ddp", "layout(order=tp-tp)/ddp", "layout(zero=4)/ddp", "layout(zero=3, shard=0)/ddp", "layout(zero=3, shard=node)/ddp",
             "layout(schedule=gpip)/ddp", "layout(scheme=4d)/ddp", "layout(recompute=some)/ddp", "layout(tp=2)/",
             "layout(tp=2)/daer", "layout(stages=0+4)/ddp", "layout(tp=99999999999999999999)/ddp", "layout(" * 10_000]
    descriptions = ["gpt:", "gpt:hidden=1024", "gpt:hidden=0,layers=8,heads=16,seq=512",
                    "gpt:hidden=1000,layers=8,heads=16,seq=512", "gpt:hiden=1024,layers=8,heads=16,seq=512",
                    "gpt:hidden=1e99,layers=8,heads=16,seq=512", "gtp:hidden=1024,layers=8,heads=16,seq=512"]
    return [
        *([*search, flag, value] for flag, texts in values.items() for value in texts if flag != "--device"),
        *(["recommend", *model, *CLUSTER, "--global-batch", "64", "--device", value] for value in values["--device"]),
        *([*predict, plan] for plan in plans),
        *([*predict, "ddp", "--measured", text] for text in (
            "layout(tp=2)/ddp", "layout(tpp=2)/ddp=1 s", "ddp=0 s", "ddp=1 ns", "ddp=fast", "ddp=", "=1 s", "layout(tp=3)/ddp=1 s",
            "/nonexistent.csv", str(DEVICE))),
        ["predict", str(EXAMPLE), *CLUSTER, "--plan", "ddp", "--measured", "ddp=1 s"],
        ["predict", *GPT, *CLUSTER, "--plan", "fsdp", "--measured", "fsdp=1 s"], [*devices, "--measured", "ddp=1 s"],
        *(["profile", "--model", text, *device] for text in descriptions),
        ["recommend", *model, *CLUSTER, "--global-batch", "64"],
        ["recommend", *GPT, "--global-batch", "64"], ["recommend", str(EXAMPLE), *GPT, *CLUSTER, "--global-batch", "64"],
        ["profile", str(EXAMPLE), *device], [*search, "--objective", "cost"], [*search, "--objective", "devices"],
        ["recommend", *GPT, *CLUSTER, "--global-batch", "64", "-o", str(DEVICE)],
        [*predict, "ddp", "--timeline", "-"], [*predict, "ddp", "--timeline", str(DEVICE)],
        [*devices, *CLUSTER], [*devices, "--adatopk", "0"], [*devices, "--adatopk", "many"],
        [*devices, "--schedule", "gpipe,1f1b"], [*devices, "-o", devices[-1]],
        ["recommend", *GPT, "--global-batch", "64", "--devices", str(DEVICE)],
        ["recommend", *GPT, "--global-batch", "64", "--devices", "/nonexistent.json"],
    ]


def bad_sweeps() -> list[list[str]]:
    """Wrong axes and ranges of points."""
    plans = ["--plan", "ddp", "--plan", "bytescheduler", "--plan", "ddp+powersgd(rank=4)"]
    sweep = ["sweep", str(EXAMPLE), *plans, "--network", "10GbE"]
    axes = ["", "=", "bandwidth", "bandwidth=", "=1Gb/s", "bandwidth=1", "bandwidth=1Gb/s..", "bandwidth=..1Gb/s",
            "bandwidth=2Gb/s..1Gb/s", "bandwidth=0Gb/s..1Gb/s", "bandwidth=1Gb/s..2Gb/s:1", "bandwidth=1Gb/s..2Gb/s:two",
            "bandwidth=1Gb/s..2Gb/s:99999999999999999999", "bandwidth=1Gb/s..2Gb/s:10000000", "bandwidth=nan Gb/s",
            "bandwidth=1e400 Gb/s", "bandwidth=-1 Gb/s", "bandwidth=1Gb/s,,2Gb/s", "bandwidth=1Gb/s....2Gb/s",
            "latency=0 s..1 ms", "latency=-1 us", "latency=1", "batch=0", "batch=-8", "batch=inf", "batch=1e300",
            "batch=1e-300..1e300", "compute=0", "compute=1e99", "compute=two", "bucket=1", "bucket=1e99 GiB",
            "rank=0..8", "ddp.rank=4", "rank.powersgd=4", "ddp.=1", ".bucket=1MiB", "x" * 10_000, "workers=4"]
    one = [*sweep, "--workers", "4", "--over", "bandwidth=1Gb/s..8Gb/s"]
    return [
        ["sweep"], [*sweep, "--workers", "4"], *([*sweep, "--workers", "4", "--over", axis] for axis in axes),
        *([*sweep, "--over", axis] for axis in ("workers=0", "workers=2.5", "workers=-4..4", "workers=1e9", "workers=2,")),
        [*sweep, "--over", "bandwidth=1Gb/s"], [*one, "--over", "bandwidth=1Gb/s"],
        [*one, "--over", "bucket=1MiB", "--over", "ddp.bucket=1MiB"], [*one, "--csv", "--json"],
        *([*one, "--points", points] for points in ("1", "..", "2..1", "-1..2", "0..5", "0..99999999999999999999")),
        *([*one, "--keep", kept] for kept in ("", "0", "0%", "101%", "-1", "nine", "90 Gb/s", "0 ms", "1e400 s")),
        [*one, "--keep", "90%", "--points", "0..1"],
        *([*one, "--threads", threads] for threads in ("0", "-1", "many", "1e9")),
        [*one, "--plot", "-"], [*one, "--plot", str(EXAMPLE)], [*one, "--plot", "same", "-o", "same"], [*one, "--plot", "/tmp/x.svg", "--points", "0..1"],
        [*one, "-o", "/nonexistent/folder/out.csv"], [*one, "-o", str(EXAMPLE)],
        [*one, "--plot", "./same", "-o", "same"], [*one, "--plot", "/nonexistent/x.svg"], [*one, "--plot", "/tmp"],
    ]


def is_interrupted_cleanly(program: pathlib.Path, folder: pathlib.Path, by: signal.Signals) -> bool:
    """A program that is told to stop while it writes leaves nothing of the file."""
    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(by, signal.SIG_DFL)  # whoever started this in the background may ignore it

    running = subprocess.Popen([program, "sweep", str(EXAMPLE), "--plan", "ddp", "--workers", "4", "--network", "10GbE",
                                "--over", "bandwidth=1Gb/s..8Gb/s:9000000", "-o", str(folder / "rows.csv")],
                               stderr=subprocess.DEVNULL, preexec_fn=prepare)
    end = time.monotonic() + 60
    while running.poll() is None and not list(folder.glob("rows.csv*")) and time.monotonic() < end:
        time.sleep(0.02)
    begun = bool(list(folder.glob("rows.csv.part*")))
    running.send_signal(by)
    return running.wait() == -by and begun and not list(folder.glob("rows.csv*"))


def faults_of_outputs(program: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """What is wrong with outputs under odd names, and with what reaches the terminal."""
    faults = []

    def run(*arguments, **more):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, timeout=60, **more)

    target, link, dangling = folder / "target.json", folder / "link.json", folder / "dangling.json"
    for name in (link, dangling):
        name.symlink_to(target.name)
        run("profile", EXAMPLE, "-o", name)
        if not name.is_symlink() or not json.loads(target.read_bytes())["layers"]:
            faults.append("a symbolic link was replaced, or leads nowhere")
        target.unlink(missing_ok=True)
    link.unlink(), dangling.unlink()
    # Nobody's own file that he may not write to, in a folder where he may: root may do everything.
    target.write_text("kept"), target.chmod(0o444)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    os.chmod(folder, 0o777)
    if nobody:
        os.chown(target, 65534, 65534)
    try:
        done = run("list", "strategies", "--json", "-o", target, **nobody)
        if (done.returncode, target.read_text(), len(done.stderr.splitlines())) != (2, "kept", 1):
            faults.append(f"a read-only file was replaced: {done}")
    except PermissionError:
        print("not tried: nobody may run the program here")
    target.unlink()
    for flag in ("--help", "--version"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program, flag], stdout=full, stderr=subprocess.PIPE, timeout=60)
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            faults.append(f"{flag} to a full device: exit code {done.returncode}")
    # Names that set the title of a terminal, ring its bell, or are no text.
    table, cluster = folder / "names.csv", folder / "names.json"
    evil = b"e\x1b]0;evil\x07\xc2\x9b31m\x9b\xff"
    table.write_bytes(b"# model: " + evil + b"\nname,forward_ms,backward_ms,bytes\n" + evil + b",1,1,4000000\ny,1,1,9\n")
    cluster.write_text(json.dumps(json.loads((EXAMPLE.parent.parent / "clusters" / "8x4-pcie-10gbe.json").read_text())
                                  | {"name": evil[:-2].decode()}), encoding="utf-8")
    on = ["--cluster", cluster, "--same-device"]
    for arguments in (["profile", table], ["recommend", table, *on], ["compare", table, *on], ["inspect", table],
                      ["predict", table, *on, "--plan", "ddp"], ["whatif", table, "--what", "amp", *on],
                      ["recommend", table, *on, "--plan", evil.decode("utf-8", "surrogateescape")],
                      ["sweep", table, *on, "--over", "bandwidth=1Gb/s..2Gb/s", "--plan", "ddp"],
                      ["predict", table, *on, "--plan", "layout()/ddp"], ["replay", table]):
        done = run(*arguments)
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode not in (0, 1, 2) or "\ufffd" in text or not text.replace("\n", "").isprintable():
            faults.append(f"{arguments[0]}: exit code {done.returncode}, or bytes that steer a terminal: {text[:200]!r}")
    table.unlink(), cluster.unlink()
    # Without memory for the stacks of threads, the answer is the same.
    def no_threads():
        resource.setrlimit(resource.RLIMIT_STACK, (3 * 10**9, 3 * 10**9))
        resource.setrlimit(resource.RLIMIT_AS, (5 * 10**9, 5 * 10**9))

    largest = max(EXAMPLE.parent.glob("*.trace.json.gz"), key=lambda trace: trace.stat().st_size)
    for arguments in (["profile", largest, "--json"], ["recommend", *GPT, *CLUSTER, "--layouts", "--global-batch", "64"]):
        answers = [run(*arguments), run(*arguments, preexec_fn=no_threads)]
        if b"AddressSanitizer failed to allocate" in answers[1].stderr:  # its shadow takes terabytes of addresses
            continue
        if answers[0].returncode != 0 or answers[0].stdout != answers[1].stdout:
            faults.append(f"{arguments[0]} without threads: {answers[1].stderr[:200]!r}")
    # A trace that becomes shorter while it is mapped.
    growing = folder / "growing.json"
    whole = gzip.decompress(EXAMPLE.read_bytes())
    for tries in range(40):
        growing.write_bytes(whole)
        reading = subprocess.Popen([program, "profile", growing], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.001 * (tries % 20))
        os.truncate(growing, 100)
        lines = reading.communicate()[1].splitlines()
        if reading.returncode not in (0, 2) or len(lines) > 1 and reading.returncode == 2:
            faults.append(f"a trace that was cut: exit code {reading.returncode}, {lines[:3]}")
    growing.unlink()
    return faults


class Checker:
    def __init__(self, program: pathlib.Path):
        self.program, self.passed, self.failed = program, 0, 0

    def check(self, what: str, arguments: list[str], stdin: bytes = b"") -> None:
        # A sanitizer's report must not be taken for a message of the program.
        environment = dict(os.environ, ASAN_OPTIONS="exitcode=99", UBSAN_OPTIONS="exitcode=99")
        try:
            done = subprocess.run([self.program, *arguments], input=stdin, capture_output=True, timeout=60,
                                  env=environment)
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            fault = ("" if done.returncode == 2 else f"exit code {done.returncode}") or \
                    ("" if len(lines) == 1 and lines[0].startswith("stepcast: ") else f"{len(lines)} lines of message") or \
                    ("" if not done.stdout else "something on standard output")
        except subprocess.TimeoutExpired:
            lines, fault = [], "no end within a minute"
        if fault:
            self.failed += 1
            print(f"{what}: {fault}: {' '.join(lines)[:300]}")
        else:
            self.passed += 1


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", type=pathlib.Path, required=True, help="the stepcast to test")
    checker = Checker(arguments.parse_args().program.resolve())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "input"
        out = pathlib.Path(folder) / "out.json"
        for name, content in bad_traces().items():
            path.write_bytes(content)
            strict = ["--strict"] if name.endswith("strict") else []
            checker.check(f"trace: {name}", ["recommend", str(path), *CLUSTER, *strict])
            checker.check(f"trace: {name} (profile)", ["profile", str(path), "-o", str(out), *strict])
            checker.check(f"trace: {name} (standard input)", ["recommend", "-", *CLUSTER, *strict],
                          stdin=content)
        # Files that do not belong together, rules that are none, prefixes that are no place for files.
        rules, twin = pathlib.Path(folder) / "rules.json", pathlib.Path(folder) / "twin"
        for name, content in {"empty": b"", "cut": b"{", "a list": b"[]", "no schema": b'{"rules": []}',
                              "an unknown key": b'{"schema": "stepcast.kernels/1", "rules": [{"match": "x"}]}'}.items():
            rules.write_bytes(content)
            for verb in ("inspect", "profile", "replay", "explain"):
                checker.check(f"kernel rules: {name} ({verb})", [verb, str(EXAMPLE), "--kernels", str(rules)])
        twin.write_bytes(EXAMPLE.read_bytes())
        for verb in ("profile", "replay"):
            checker.check(f"one recording under two names: {verb}", [verb, str(EXAMPLE), str(twin)])
            checker.check(f"one file twice: {verb}", [verb, str(EXAMPLE), str(EXAMPLE)])
        # A step that only the first rank has: no file of that rank alone is left.
        path.write_bytes(rank_text(0, 1)), twin.write_bytes(rank_text(1, 2))
        checker.check("export: a step of one rank", ["export", str(path), str(twin), "-o", str(out), "--step", "1"])
        twin.unlink(), rules.unlink()
        for flags in [["--step", "99"], ["--step", "-1"], ["--step", "one"], ["--format", "none"]]:
            checker.check("export: " + " ".join(flags), ["export", str(EXAMPLE), "-o", str(out), *flags])
        planned = ["export", "--model", "llama3-8b", "--cluster", "2xdgx-h100", "-o", str(out)]
        for plan, *flags in [["layout(tp=2)/ddp", "--global-batch", "x"], ["layout(tp=0)/ddp", "--global-batch", "16"],
                             ["layout(tp=4)/ddp", "--global-batch", "0"], ["ddp", "--global-batch", "16"],
                             ["layout(tp=4)/ddp", "--step", "1"], ["layout(tp=4)/ddp", "--workers", "-8"],
                             ["placement(devices=0+1, units=4+3)"], ["layout(tp=8)/ddp", "--cluster", "4096xdgx-h100"]]:
            checker.check(f"export: {plan} " + " ".join(flags), [*planned, "--plan", plan, *flags])
        checker.check("export: --global-batch of a trace", ["export", str(EXAMPLE), "-o", str(out), "--global-batch", "16"])
        for prefix in ("", "-", folder + "/", "/nonexistent/run", "/proc/run"):
            checker.check(f"export to '{prefix}'", ["export", str(EXAMPLE), "-o", prefix])
        # An output that is an input: the input stays as it is.
        path.write_bytes(EXAMPLE.read_bytes())
        for flags in [["profile", str(path), "-o", str(path)], ["replay", str(path), "-o", str(path.parent / "./input")],
                      ["recommend", str(path), *CLUSTER, "-o", str(path)],
                      ["predict", str(path), *CLUSTER, "--plan", "ddp", "--timeline", str(path)],
                      ["predict", str(path), *CLUSTER, "--plan", "ddp", "--timeline", str(out), "-o", str(out)]]:
            checker.check("output over input: " + flags[0], flags)
        if path.read_bytes() != EXAMPLE.read_bytes():
            checker.failed += 1
            print("an input was overwritten")
        pipeline = EXAMPLE.parent / "imagenet-ssd.input.json"
        cluster = EXAMPLE.parent.parent / "clusters" / "8x4-pcie-10gbe.json"
        for source, flag in ((pipeline, "--input"), (cluster, "--cluster")):
            copy = pathlib.Path(folder) / source.name
            copy.write_bytes(source.read_bytes())
            place = CLUSTER if flag == "--input" else ["--same-device"]
            for verb in (["recommend"], ["predict", "--plan", "ddp"], ["whatif", "--what", "amp"]):
                checker.check(f"output over {flag}: {verb[0]}",
                              [verb[0], str(EXAMPLE), *verb[1:], *place, flag, str(copy), "-o", str(copy)])
            if copy.read_bytes() != source.read_bytes():
                checker.failed += 1
                print("an input was overwritten")
            copy.unlink()
        path = pathlib.Path(folder) / "cluster.json"
        for name, content in bad_clusters().items():
            path.write_bytes(content)
            checker.check(f"cluster: {name}", ["recommend", str(EXAMPLE), "--cluster", str(path)])
        path = pathlib.Path(folder) / "device.json"
        for name, content in bad_devices().items():
            path.write_bytes(content)
            checker.check(f"device: {name}", ["predict", *GPT[:2], "--device", str(path), *CLUSTER, "--global-batch", "64",
                                              "--plan", "layout(pp=2)/ddp"])
        path.unlink()
        device = DEVICE.read_bytes()
        for flags in bad_flags() + bad_layouts() + bad_sweeps():
            checker.check("flags: " + " ".join(flags)[:120], flags)
        if DEVICE.read_bytes() != device:
            checker.failed += 1
            print("an input was overwritten")
        for by in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXCPU):
            if is_interrupted_cleanly(checker.program, pathlib.Path(folder), by):
                checker.passed += 1
            else:
                checker.failed += 1
                print(f"{by.name}: the unfinished file stayed, or was never begun")
        with tempfile.TemporaryDirectory() as other:
            faults = faults_of_outputs(checker.program, pathlib.Path(other))
        print("\n".join(faults), end="\n" if faults else "")
        checker.failed += len(faults)
        checker.passed += not faults
        path = pathlib.Path(folder) / "measured"
        for name, content in {"empty": b"", "text": b"hello\n", "a header only": b"size,time_s\n",
                              "words": b"size,time_s\nbig,long\n", "negative": b"size,time_s\n1024,-1\n2048,1\n",
                              "one size": b"size,time_s\n1024,1\n"}.items():
            path.write_bytes(content)
            checker.check(f"measured: {name}", ["calibrate", str(path), "--workers", "4"])
        path.write_bytes(b"workers,bytes,time_us\n4,1024,99\n4,1048576,999\n")
        for plot in (["-"], [str(path)], ["/nonexistent/x.svg"], ["/tmp"], ["same", "-o", "same"], ["x.svg", "-o", "/nonexistent/c.json"]):
            checker.check(f"plot: {plot}", ["calibrate", str(path), "--plot", *plot])
        for other in (["--steps", str(path), "--workers", "4"], ["--trace", str(EXAMPLE), "--start", str(DEVICE)], []):
            checker.check(f"plot of {other[:1]}", ["calibrate", *other, "--plot", "x.svg"])
        header = b"profile,workers,step_s\n"
        for name, content in {"nothing": b"", "a header only": header, "no time": b"profile,workers\na.json,2\n",
                              "no file": header + b"none.json,2,1\n", "no workers": header + b"none.json,0,1\n",
                              "no profile": header + b"measured,2,1\n", "cut off": header + b"none.json,2\n",
                              "no plan": b"profile,workers,step_s,plan\nnone.json,2,1,none\n"}.items():
            path.write_bytes(content)
            checker.check(f"steps: {name}", ["calibrate", "--steps", str(path), "--workers", "4"])
        left = [p.name for p in pathlib.Path(folder).iterdir() if p.name not in ("input", "cluster.json", "measured")]
        if left:
            checker.failed += 1
            print(f"left behind: {left}")
        else:
            checker.passed += 1
    print(f"bad inputs: {checker.passed} passed, {checker.failed} failed")
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
