#!/usr/bin/env python3
"""Nothing given on the command line is silently unused.

Every option in the help of every verb is added to several questions of that verb. What then is said or written has to
differ, or the option has to be refused (exit code 2, one line), or the list below has to say why it may change nothing
there. And each option changes the answer of at least one question. Options are read from the help, so that a new one
is covered as it appears; one whose value cannot be told from its placeholder is reported until VALUES has it.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
OTHER = ROOT / "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz"
STORAGE = ROOT / "profiles/examples/imagenet-ssd.input.json"
DEVICE = ROOT / "tests/data/example-device.json"
OVERLAY = ROOT / "tests/data/two-sites.overlay.json"
DEVICES = ROOT / "tests/data/two-sites.devices.json"
KERNELS = ROOT / "tests/data/acme-kernels.json"
KERNEL_TRACE = ROOT / "tests/data/two-steps-nccl.json"
SLOW = "slow.input.json"
RING = "ring.csv"
MODEL = ["--model", "gpt:hidden=256,layers=4,heads=4,seq=128,vocab=1024", "--device", DEVICE]
MACHINES = ["--workers", "8", "--per-node", "4", "--network", "10GbE"]
JOB = ["step.json", *MACHINES]
AGENTS = ["step.json", "--workers", "6", "--network", "10GbE"]
TRACED = [TRACE, "--workers", "4", "--network", "10GbE"]
DAMAGED = ["damaged.json", "--workers", "4", "--network", "10GbE"]
MIXTURE = ["--model", MODEL[1] + ",experts=4", *MODEL[2:]]
DESCRIBED = [*MODEL, *MACHINES, "--global-batch", "32"]
SHIPPED = ["step.json", "--cluster", "8x4-pcie-10gbe"]
GPU = ["gpu.json", "--cluster", "32x8-a100-800gbib"]
ALONE = ["step.json", "--workers", "1"]
RANKS = [*(ROOT / f"profiles/examples/gpt-cpu-ddp-rank{rank}.pt.trace.json.gz" for rank in (0, 1)),
         "--workers", "4", "--network", "10GbE"]
SWITCH = [*JOB, "--servers", "1", "--degraded-link", "0.4", "--switch", "sa_atp:0.3"]
GRID = ["--over", "bandwidth=1Gb/s,10Gb/s"]
NCCL = [*JOB, "--collective", "nccl"]
UNNAMED = "unnamed.log"

# Questions by verb: some in which an option matters, some in which it cannot.
QUESTIONS = {
    "predict": {
        "run": [*DESCRIBED, "--plan", "ddp", "--tokens", "1G"],
        "overlay": [*AGENTS, "--plan", "overlay"],
        "traced": [*TRACED, "--plan", "ddp"],
        "ranks": [*RANKS, "--plan", "ddp"],
        "recorded": [*RANKS, "--plan", "ddp", "--recorded"],
        "damaged": [*DAMAGED, "--plan", "ddp"],
        "data": [*JOB, "--plan", "ddp"],
        "gpu": [*GPU, "--plan", "ddp"],
        "servers": [*JOB, "--plan", "wfbp_ps", "--servers", "1"],
        "shipped": [*SHIPPED, "--plan", "ddp"],
        "alone": [*ALONE, "--plan", "ddp"],
        "layout": [*DESCRIBED, "--plan", "layout(tp=2)/ddp"],
        "switch": [*SWITCH, "--plan", "ddp@sa_atp"],
        "stalls": [*JOB, "--plan", "ddp", "--stalls", "1e-6"],
        "nccl": [*NCCL, "--plan", "ddp"],
        "beside": [*JOB, "--plan", "ddp", "--beside", "wfbp"],
        "placement": [*MODEL, "--devices", DEVICES, "--global-batch", "32", "--plan", "placement(devices=0+1, units=3+3)"],
    },
    "compare": {
        "overlay": [*AGENTS, "--plan", "overlay"],
        "stalls": [*JOB, "--plan", "ddp", "--stalls", "1e-6"],
        "traced": TRACED,
        "ranks": RANKS,
        "damaged": DAMAGED,
        "data": JOB,
        "gpu": GPU,
        "plans": [*JOB, "--plan", "ddp", "--plan", "wfbp"],
        "nccl": NCCL,
        "switch": [*SWITCH, "--plan", "ddp@sa_atp", "--plan", "wfbp@sa_atp"],
        "tuned": [*JOB, "--tune"],
        "shipped": SHIPPED,
        "alone": ALONE,
        "layouts": [*DESCRIBED, "--plan", "layout(tp=2)/ddp"],
        "beside": [*JOB, "--plan", "ddp", "--beside", "wfbp"],
    },
    "recommend": {
        "beside": [*JOB, "--beside", "wfbp"],
        "stalls": [*JOB, "--stalls", "2e-6"],
        "traced": TRACED,
        "ranks": RANKS,
        "damaged": DAMAGED,
        "data": JOB,
        "gpu": GPU,
        "nccl": NCCL,
        "shipped": SHIPPED,
        "alone": ALONE,
        "described": DESCRIBED,
        "experts": [*MIXTURE, *MACHINES, "--global-batch", "32"],
        "run": [*DESCRIBED, "--tokens", "1G"],
        "devices": [*MODEL, "--devices", DEVICES, "--global-batch", "32"],
        "units": [*MODEL, "--network", "10GbE", "--unit-frontier", "--global-batch", "32", "--over", "workers=2,4"],
    },
    "sweep": {
        "overlay": [*AGENTS, "--plan", "overlay", *GRID],
        "stalls": [*JOB, "--plan", "ddp", *GRID, "--stalls", "1e-6"],
        "kept": [*JOB, "--plan", "ddp", *GRID, "--keep", "90%"],
        "traced": [*TRACED, "--plan", "ddp", *GRID],
        "ranks": [*RANKS, "--plan", "ddp", *GRID],
        "damaged": [*DAMAGED, "--plan", "ddp", *GRID],
        "data": [*JOB, "--over", "latency=1us,1ms"],
        "gpu": [*GPU, "--plan", "ddp", *GRID],
        "one": [*JOB, "--plan", "wfbp", *GRID],
        "nccl": [*NCCL, "--plan", "ddp", *GRID],
        "switch": [*SWITCH, "--plan", "ddp@sa_atp", *GRID],
        "shipped": [*SHIPPED, "--plan", "ddp", *GRID],
        "layout": [*DESCRIBED, "--plan", "layout(tp=2)/ddp", *GRID],
    },
    "report": {
        "stalls": [*JOB, "--no-validation", "--stalls", "2e-6"],
        "traced": [*TRACED, "--no-validation"],  # which takes longer than all else that a page shows
        "ranks": [*RANKS, "--no-validation"],
        "damaged": [*DAMAGED, "--no-validation"],
        "gpu": [*GPU, "--no-validation"],
        "alone": ALONE,
        "nccl": [*NCCL, "--no-validation"],
        "layout": [*JOB, "--no-validation", "--plan", "layout(zero=1)/ddp"],
    },
    "explain": {"traced": [TRACE], "damaged": ["damaged.json"], "kernels": [KERNEL_TRACE], "shapeless": ["shapeless.json"],
                "ranks": RANKS[:2]},
    "why": {"ranks": RANKS[:2]},
    "diff": {"traced": [TRACE, OTHER], "damaged": ["damaged.json", TRACE], "kernels": [KERNEL_TRACE, TRACE]},
    "replay": {"traced": [TRACE], "damaged": ["damaged.json"], "kernels": [KERNEL_TRACE]},
    "inspect": {"traced": [TRACE], "damaged": ["damaged.json"], "kernels": [KERNEL_TRACE, "--long"], "profile": ["step.json"]},
    "profile": {"traced": [TRACE], "damaged": ["damaged.json"], "profile": ["step.json"], "described": MODEL},
    "whatif": {
        "overlay": [*AGENTS, "--plan", "overlay", "--what", "faster_device(by=2)"],
        "stalls": [*JOB, "--plan", "ddp", "--what", "faster_device(by=2)", "--stalls", "1e-6"],
        "traced": [TRACE, "--what", "batch(to=64)"],
        "recorded": [TRACE, "--recorded", "--what", "scale(kind=host, by=0.5)"],
        "damaged": ["damaged.json", "--what", "faster_device(by=2)"],
        "data": ["step.json", "--what", "faster_device(by=2)"],
        "cluster": [*JOB, "--what", "faster_device(by=2)"],
        "gpu": [*GPU, "--what", "faster_device(by=2)"],
        "nccl": [*NCCL, "--plan", "ddp", "--what", "faster_device(by=2)"],
        "input": ["step.json", "--what", "input(cache=0.5)", "--input", SLOW],
        "other": ["step.json", "--what", "batch(to=64)", "--other-batch", "batch.json", "--other-samples", "32",
                  "--other-step", "150 ms"],
        "servers": [*JOB, "--plan", "wfbp_ps", "--servers", "1", "--what", "faster_device(by=2)"],
        "switch": [*SWITCH, "--plan", "ddp@sa_atp", "--what", "faster_device(by=2)"],
        "described": [*MODEL, *MACHINES, "--plan", "ddp", "--what", "faster_device(by=2)"],
    },
    "export": {
        "traced": [TRACE, "--output", "out"],
        "damaged": ["damaged.json", "--output", "out"],
        "planned": [*JOB, "--plan", "ddp", "--output", "out"],
        "planned shipped": [*SHIPPED, "--plan", "ddp", "--output", "out"],
        "planned model": [*MODEL, *MACHINES, "--plan", "ddp", "--output", "out"],
        "planned damaged": [*DAMAGED, "--plan", "ddp", "--output", "out"],
        "planned layout": [*MODEL, *MACHINES, "--plan", "layout(tp=2, pp=2, mb=1)/ddp", "--global-batch", "16",
                           "--output", "out"],
    },
    "calibrate": {
        "links": [RING],
        "log": [UNNAMED],
        "steps": ["--steps", "steps.csv", "--start", "a100-sxm4-80gb", "--workers", "8", "--per-node", "4",
                  "--network", "100GbE"],
        "jobs": ["--steps", "jobs.csv", "--workers", "8", "--per-node", "4", "--network", "100GbE"],
    },
    "validate": {"suite": ["exact"], "cases": ["--cases", ROOT / "tests/data/validation_cases.json", "--root", ROOT],
                 "files": ["--cases", ROOT / "validation/cases/replay.json", "--root", ROOT]},
    "list": {"one": ["clusters"]},
    "completion": {"bash": ["bash"]},
    "manual": {"page": []},
}

# Refused until an option says what to assume.
UNDECIDED = ("gpu",)

# Values by option. Several are tried: what is given has to change something, or be refused.
VALUES = {
    "--model": ["gpt:hidden=512,layers=4,heads=4,seq=128,vocab=1024", "resnet50"],
    "--device": ["a100-sxm4-80gb"], "--batch": ["48"], "--parameters": ["350M"], "--kernels": [KERNELS],
    "--plan": ["dear", "layout(tp=4)/ddp"], "--what": ["amp", "faster_device(by=3)", "scale(name=*, by=0.5)"], "--global-batch": ["96"],
    "--measured": ["layout(tp=2)/ddp=400 ms", "ddp=400 ms"],
    "--cluster": ["16x4-a100-100gbe", "16x4-pcie-10gbe"], "--framework": ["megatron", "torchtitan"], "--workers": ["16"], "--per-node": ["2"], "--network": ["25GbE"],
    "--background": ["30%"], "--beside": ["ddp"], "--beside-model": [OTHER, MODEL[1]], "--beside-batch": ["96"],
    "--connection": ["1Gb/s"],
    "--level": ["leaf:1; spine:64, oversubscribed=8"], "--inside": ["2GB/s"], "--servers": ["2"], "--device-memory": ["300MB"], "--collective": ["binary_tree"],
    "--nccl-algo": ["Tree"], "--nccl-proto": ["LL"], "--operation": ["broadcast"],
    "--slow-worker": ["1.3"], "--late-worker": ["5 ms"], "--degraded-link": ["0.5"], "--jitter": ["0.05"],
    "--switch": ["sa_atp:0.6"], "--input": [SLOW, STORAGE], "--faster-compute": ["2"], "--timeline": ["written"],
    "--output": ["written"], "--plot": ["written"], "--html": ["written"], "--allow": ["lossy"],
    "--search": ["bayesian"], "--objective": ["memory"], "--target-step": ["20 s"], "--price": ["2.5"],
    "--tokens": ["2G"], "--within": ["30 days"], "--mtbf": ["9 h"], "--checkpoint": ["3 min"], "--restart": ["3 min"],
    "--power": ["900"],
    "--memory": ["300 MB"], "--time-budget": ["1 ms"], "--adatopk": ["100"], "--devices": ["devices.json"],
    "--loss": ["0.1"], "--stalls": ["1e-5"], "--rto": ["20 ms"], "--overlay": [OVERLAY], "--iterations": ["1000"],
    "--over": ["latency=1us,10ms", "workers=4,8"], "--points": ["0..1"], "--keep": ["95%"], "--threads": ["1"], "--other-batch": [OTHER, "step.json"],
    "--other-samples": ["16"], "--other-step": ["140 ms"], "--cache-policy": ["never-evict"], "--dataset": ["300GB"], "--samples": ["1000"],
    "--storage": ["100MB/s"], "--prep": ["10/s"], "--loader-workers": ["1"], "--loader": ["pipelined"],
    "--cache": ["0.25"], "--format": ["chakra"], "--step": ["2", "200 ms"], "--steps": ["fewer.csv"], "--trace": [TRACE],
    "--start": [DEVICE], "--rows": ["7"], "--name": ["another"],
    "--cases": [ROOT / "validation/cases/exact.json"], "--root": ["/nowhere"], "--schedule": ["gpipe", "1f1b"],
    "--scheme": ["2d"], "--recompute": ["full"], "--zero": ["2"], "--offload": ["optimizer", "optimizer+activations"], "--sequence-parallel": ["on"], "--overlap-tp": ["products"], "--tensor": ["2"],
    "--pipeline": ["2"], "--context": ["2"], "--expert": ["2"], "--micro-batch": ["2"], "--chunks": ["2"],
    "--cp-comm": ["p2p,allgather", "a2a"],
    "--expert-tensor": ["tp,1", "1"], "--ep-comm": ["alltoall,deepep", "deepep"], "--overlap-ep": ["off", "on"],
}

# (verb or *, option, question or *): why nothing may change there.
MAY_BE_UNUSED = {
    ("*", "--kernels", "*"): "the rules may name no kernel of the trace",
    ("*", "--strict", "*"): "a trace that is whole needs no repair, and a profile is never repaired",
    ("*", "--same-device", "*"): "the cluster may have the device of the trace, or say none",
    ("*", "--threads", "*"): "the rows are the same on any number of threads",
    ("*", "--format", "*"): "there is one format",
    ("sweep", "--batch", "kept"): "a share of the rate that is kept is the same of any number of samples",
    ("*", "--cluster", "alone"): "one device",
    ("*", "--per-node", "alone"): "one device is one machine's",
    ("*", "--collective", "alone"): "one device sends nothing",
    ("*", "--switch", "alone"): "one device sends nothing",
    ("export", "--batch", "*"): "times of a trace are those of its batch, however many samples that is",
    ("explain", "--parameters", "damaged"): "one worker sends nothing, however large its gradients",
    ("sweep", "--level", "switch"): "sums in a switch do not go from machine to machine",
    ("sweep", "--connection", "switch"): "sums in a switch go by no connection of the transport",
    ("compare", "--tune", "tuned"): "given already",
    ("compare", "--tune", "alone"): "one device sends nothing, whatever the option",
    ("report", "--search", "alone"): "one device sends nothing, whatever the option",
    ("report", "--no-validation", "layout"): "given already",
    ("report", "--no-validation", "nccl"): "given already",
    ("report", "--no-validation", "ranks"): "given already",
    ("report", "--no-validation", "traced"): "given already",
    ("report", "--no-validation", "damaged"): "given already",
    ("report", "--no-validation", "gpu"): "given already",
    ("predict", "--recorded", "recorded"): "given already",
    ("whatif", "--recorded", "*"): "edits of recorded tasks are written in another way than what-ifs, and each refused for the other",
    ("report", "--model", "*"): "a page is of a trace, whose tensors a list may name as the trace does",
    ("report", "--device", "*"): "the device of a trace matters where a layout divides its products",
    ("recommend", "--search", "alone"): "one device sends nothing, whatever the option",
    ("recommend", "--memory", "damaged"): "without shapes activations are not counted, and says so; the rest fits",
    ("recommend", "--layouts", "described"): "a described model is always searched for layouts",
    ("recommend", "--layouts", "experts"): "a described model is always searched for layouts",
    ("recommend", "--layouts", "run"): "a described model is always searched for layouts",
    ("sweep", "--network", "*"): "an axis of bandwidth takes its place, and a cluster begins with one",
    ("sweep", "--inside", "nccl"): "the network is slower at every point of the grid",
    ("sweep", "--tune", "one"): "WFBP has no option to tune",
    ("sweep", "--csv", "*"): "the default",
    ("sweep", "--input", "ranks"): "batches of four samples come in time",
    ("calibrate", "--trace", "*"): "no shipped trace shows a device",
    ("calibrate", "--workers", "steps"): "the rows say on how many devices they ran",
    ("sweep", "--servers", "switch"): "one server is enough where every packet finds an aggregator",
    ("validate", "--root", "suite"): "shipped cases name no file",
    ("validate", "--root", "cases"): "its cases name no file",
    ("inspect", "--long", "kernels"): "given already",
    ("*", "--collective", "overlay"): "models travel between neighbours, by no collective",
    ("*", "--tune", "overlay"): "the plan has no option to tune",
    ("*", "--per-node", "overlay"): "every agent has links of its own, whatever machine it is on",
    ("*", "--input", "overlay"): "models travel for longer than a batch takes to come",
    ("recommend", "--overlay", "*"): "overlays are ranked where somebody names the plan",
    ("report", "--overlay", "*"): "overlays are ranked where somebody names the plan",
    ("compare", "--overlay", "*"): "overlays are ranked where somebody names the plan",
    ("recommend", "--layouts", "units"): "a frontier of units is one of layouts",
    ("recommend", "--jitter", "units"): "layouts leave it out, and say so",
    ("report", "--no-validation", "stalls"): "given already",
    ("recommend", "--jitter", "described"): "layouts leave it out, and say so",
}


def options_of(help_text: str) -> list[tuple[str, bool]]:
    """Every option of a help and whether it takes a value."""
    found = []
    for line in help_text.splitlines():
        match = re.match(r"  (?:-\w,)?(--[a-z-]+)(?: ([^a-z\s]\S*|[a-z0-9]+[|][^\s]*|chakra))?(?:\s|$)", line)
        if match and match[1] not in ("--help", "--version"):
            found.append((match[1], bool(match[2])))
    return found


class Asked:
    """Answers, each in a folder of its own, with all files that were written."""

    def __init__(self, program: pathlib.Path, inputs: pathlib.Path):
        self.program, self.inputs, self.known = program, inputs, {}

    def answer(self, arguments: tuple[str, ...]) -> tuple[int, str, str, tuple]:
        if arguments not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                for file in self.inputs.iterdir():
                    os.symlink(file, pathlib.Path(folder) / file.name)
                done = subprocess.run([self.program, *arguments], capture_output=True, text=True, cwd=folder,
                                      timeout=120, errors="replace")
                new = [f for f in sorted(pathlib.Path(folder).rglob("*")) if not f.is_symlink() and f.is_file()]
                files = tuple((f.name, f.read_bytes()) for f in new)
            # A page says how it was made, which is no answer.
            text = re.sub(r"stepcast report [^<\n]*", "", done.stdout)
            self.known[arguments] = done.returncode, text, done.stderr, files
        return self.known[arguments]

    def verdict(self, verb: str, name: str, question: list, option: list[str]) -> str:
        """used, refused, or silently unused."""
        question = list(map(str, question))
        if option[0] in question:  # another value instead
            at = question.index(option[0])
            asked_with = [verb, *question[:at], *map(str, option), *question[at + 2:]]
        else:
            asked_with = [verb, *question, *map(str, option)]
        asked = (verb, *question)
        before = self.answer(asked)
        if before[0] not in (0, 1) and name not in UNDECIDED:
            raise SystemExit(f"the question itself is refused: {' '.join(asked)}: {before[2]}")
        with_option = self.answer(tuple(asked_with))
        if with_option[0] == 2:
            said = [line for line in with_option[2].splitlines() if not line.startswith("stepcast: note: ")]
            return "refused" if len(said) == 1 else "refused in several lines"
        if with_option[0] not in (0, 1):
            return "crashed"
        if (with_option[0], with_option[1], with_option[3]) != (before[0], before[1], before[3]):
            return "used"
        if verb == "report" or option[0] == "--json":
            return "unused"
        as_json = self.answer((*asked, "--json"))
        if as_json[0] in (0, 1) and as_json[1:2] != self.answer((*asked_with, "--json"))[1:2]:
            return "used"
        return "unused"


def inputs(program: pathlib.Path, folder: pathlib.Path) -> None:
    subprocess.run([program, "profile", TRACE, "-o", folder / "step.json"], check=True, capture_output=True)
    profile = json.loads((folder / "step.json").read_text())
    profile["device"] = "NVIDIA A100-SXM4-40GB"
    for cost in [profile["optimizer"], *(layer[p] for layer in profile["layers"] for p in ("forward", "backward"))]:
        cost["device_s"] = cost["host_s"]
    (folder / "gpu.json").write_text(json.dumps(profile))
    other = json.loads((folder / "step.json").read_text())
    del other["batch_samples"]
    for cost in [other["optimizer"], *(layer[p] for layer in other["layers"] for p in ("forward", "backward"))]:
        cost["host_s"] *= 1.8
    other["step_times_s"] = [1.8 * step for step in other["step_times_s"]]
    (folder / "batch.json").write_text(json.dumps(other))
    text = gzip.decompress(TRACE.read_bytes())
    text = text.replace(b"Input Dims", b"Dims")  # a damaged trace is one without shapes, too
    (folder / "damaged.json").write_bytes(text[:text.rindex(b"}", 0, len(text) - 200)])
    (folder / "shapeless.json").write_bytes(gzip.decompress(RANKS[0].read_bytes()).replace(b"Input Dims", b"Dims"))
    storage = json.loads(STORAGE.read_text())
    storage["storage"], storage["storage_per_worker"] = "4 MB/s", "1 MB/s"
    (folder / SLOW).write_text(json.dumps(storage))
    devices = json.loads(DEVICES.read_text())
    (folder / "devices.json").write_text(json.dumps(devices).replace("0.5", "0.25"))
    sizes = (1e3, 1e5, 1e6, 1e7, 1e8)
    (folder / RING).write_text("workers,bytes,time_us\n" + "\n".join(
        f"{p},{m},{2 * (p - 1) * 30 + 2 * (p - 1) / p * m / 1.25e3}" for p in (4, 8) for m in sizes))
    ranks = "".join(f"#  Rank {r:2} Group  0 Pid 1 on node-{r // 4} device {r % 4} [0x00] GPU\n" for r in range(8))
    rows_of_log = "".join(f"{m:12.0f} {m / 4:12.0f} float sum -1 {50 + m / 1e4:.2f} {m / (5e4 + m / 10):.2f} "
                          f"{1.75 * m / (5e4 + m / 10):.2f} 0\n" for m in (1024, 65536, 1 << 20, 1 << 26, 1 << 30))
    (folder / UNNAMED).write_text(f"# nThread 1 nGpus 1\n# Using devices\n{ranks}# size count type redop root time algbw "
                                  f"busbw #wrong\n{rows_of_log}")
    header = "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,"
    layouts = [(1, 1, 8), (2, 1, 4), (4, 1, 2), (8, 1, 1), (1, 2, 4), (2, 2, 2), (1, 4, 2), (4, 2, 1)]
    rows = ""
    for t, p, d in layouts:  # as fast as predicted, and a tenth slower
        asked = [program, "predict", "--model", "gpt:hidden=1024,layers=8,heads=16,seq=512", "--device", "a100-sxm4-80gb",
                 "--workers", "8", "--per-node", "8", "--network", "100GbE", "--global-batch", "32",
                 "--plan", f"layout(tp={t}, pp={p}, mb=1)/bsp", "--json"]
        step = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)["iteration_s"]
        rows += f"8,32,1,1024,16,8,512,{t},{d},{p},{1100 * step}\n"
    (folder / "steps.csv").write_text(header + "data parallelism,pipeline parallelism,iteration time (ms)\n" + rows)
    measured = "profile,workers,step_s\n"
    for workers in (4, 8):
        asked = [program, "predict", "step.json", "--workers", str(workers), "--per-node", "4", "--network", "10GbE",
                 "--plan", "ddp", "--json"]
        step = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True, cwd=folder).stdout)
        measured += f"step.json,{workers},{step['iteration_s']}\n"
    (folder / "jobs.csv").write_text(measured)
    (folder / "fewer.csv").write_text(header + "data parallelism,pipeline parallelism,iteration time (ms)\n" +
                                      "".join(rows.splitlines(True)[:-1]))


def reason_for(verb: str, option: str, question: str) -> str | None:
    for at in ((verb, option, question), (verb, option, "*"), ("*", option, question), ("*", option, "*")):
        if at in MAY_BE_UNUSED:
            return MAY_BE_UNUSED[at]
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--verb", help="only this verb")
    parser.add_argument("--option", help="only this option")
    parser.add_argument("--list", action="store_true", help="show every verdict")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    with tempfile.TemporaryDirectory() as folder:
        inputs(program, pathlib.Path(folder))
        asked = Asked(program, pathlib.Path(folder))
        help_of = lambda *verb: subprocess.run([program, *verb, "--help"], capture_output=True, text=True).stdout
        verbs = re.findall(r"^  ([a-z]+) {2,}", help_of().split("Subcommands:")[1], re.M)
        tries, failures = [], []
        for verb in verbs:
            if arguments.verb in (None, verb):
                if verb not in QUESTIONS:
                    failures.append(f"{verb}: QUESTIONS has none for it")
                for option, takes_value in options_of(help_of(verb)):
                    if arguments.option not in (None, option):
                        continue
                    if takes_value and option not in VALUES:
                        failures.append(f"{verb} {option}: VALUES has none for it")
                        continue
                    for name, question in QUESTIONS.get(verb, {}).items():
                        values = VALUES[option] if takes_value else [None]
                        tries.append((verb, option, name, question,
                                      [[option] if v is None else [option, v] for v in values]))
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            verdicts = list(pool.map(lambda t: [asked.verdict(t[0], t[2], t[3], o) for o in t[4]], tries))
    passed = 0
    matters: dict[tuple[str, str], bool] = {}
    for (verb, option, name, _, _), found in zip(tries, verdicts):
        used = "used" in found
        matters[verb, option] = matters.get((verb, option), False) or used
        if arguments.list:
            print(f"{verb:10} {option:20} {name:10} {', '.join(found)}")
        bad = [f for f in found if f not in ("used", "refused", "unused")]
        why = reason_for(verb, option, name)
        if bad:
            failures.append(f"{verb} {option} ({name}): {bad[0]}")
        elif "unused" in found and not used and why is None:
            failures.append(f"{verb} {option} ({name}): changes nothing, and is not refused")
        else:
            passed += 1
    for (verb, option), used in matters.items():
        if used or reason_for(verb, option, "*"):
            passed += 1
        else:
            failures.append(f"{verb} {option}: changes the answer of no question")
    print("\n".join(failures))
    print(f"unused options: {passed} passed, {len(failures)} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
