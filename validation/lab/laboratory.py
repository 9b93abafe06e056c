"""A laboratory run: records, calibrates and measures."""
import json
import os
import random
import sys
import time

import emulation
import plans
import report
from session import Team, all_reduce_s, block

KIB, MIB = 1 << 10, 1 << 20
SIZES = [KIB, 16 * KIB, 128 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB, 48 * MIB]
REAL = ["local", "noov:25", "ddp:25", "ddp:5", "wfbp", "dear:5", "fp16", "powersgd:1", "accumulate:4", "localsgd:4",
        "tp", "pp:2"]
EMULATED = ["noov:25", "ddp:25", "ddp:5", "ddp:1", "wfbp", "dear:5", "ps:1"]
HOOKED_OR_PERIODIC = ("fp16", "powersgd", "localsgd", "accumulate")
PORT = 29600


def fits(model, world, strategy):
    """Whether a strategy can train a model on that many processes."""
    kind, emulated = strategy.partition(":")[0], model.startswith("emu-")
    if kind in ("tp", "pp"):
        return model == "transformer" and 4 % world == 0
    if kind == "ps":
        return world >= 4
    if kind == "local":
        return world == 2 and not emulated
    return not (emulated and kind in HOOKED_OR_PERIODIC)


class Laboratory:
    def __init__(self, a, python):
        self.a, self.python = a, python
        self.began, self.random = time.monotonic(), random.Random(a.seed)
        self.about = {"rates": a.rates, "machine": " ".join(os.uname()[2:5:2]), "processors": os.cpu_count()}
        self.recorded, self.blocks, self.calibration, self.contention = {}, {}, {}, {}
        self.halves, self.teams, self.network = {}, {}, None

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def results(self):
        """Everything measured so far, as results.json keeps it."""
        return self.about | {"recorded": self.recorded, "calibration": self.calibration, "contention": self.contention,
                             "halves_4mib_s": self.halves,
                             "blocks": [{"key": list(k), "blocks": b} for k, b in self.blocks.items()]}

    def run(self, network):
        self.network = network
        network.shape(min(self.a.rates))  # connections keep the packet size of the slowest link
        for number, world in enumerate(self.a.workers):
            self.teams[world] = self.team(world, number)
        hello = [team.do("hello") for team in self.teams.values()][0][0]
        self.about |= hello
        counts = ", ".join(map(str, self.a.workers))
        self.say(f"PyTorch {hello['torch']}, {counts} workers on {os.cpu_count()} processors")
        if not hello["slices"]:
            self.say("warning: this kernel has no short slices; small all-reduces may take 4 ms and more")
        network.shape(0)
        self.record()
        self.calibrate()
        self.contend()
        self.measure()

    def team(self, world, number):
        return Team(self.network, world, self.python, self.a.output, PORT + number)

    def real_models(self, world):
        return [m for m in self.a.models if not m.startswith("emu-") and world <= os.cpu_count()]

    def record(self):
        """Traces of one worker while the others compute, too; durations for the emulated accelerator."""
        some = next(iter(self.teams.values()))
        for model in sorted({m.removeprefix("emu-") for m in self.a.models if m.startswith("emu-")}):
            self.say(f"recording the durations of {model}")
            self.recorded[model] = some.do("record", ranks=1, model=model, count=10)[0]
            profile = emulation.profile_of(f"emu-{model}", self.recorded[model],
                                           "laboratory: recorded durations that the emulated accelerator sleeps")
            (self.a.output / f"emu-{model}.profile.json").write_text(json.dumps(profile, indent=1))
        for model in self.real_models(2) if 2 in self.teams else []:
            self.say(f"tracing {model} on one worker, and with DDP on two")
            team, path = self.teams[2], str(self.a.output / f"{model}-STRATEGY-rankRANK.pt.trace.json.gz")
            for strategy, rate, ranks in (("local", 0, 1), ("ddp:25", self.a.rates[0], 2)):
                team.do("build", model=model, strategy=strategy, warm=3)
                self.network.shape(rate)
                team.do("trace", path=path.replace("STRATEGY", strategy.replace(":", "")), count=4, tracers=ranks)
                self.network.shape(0)
                team.do("close")

    def calibrate(self):
        for rate in self.a.rates:
            self.network.shape(rate)
            for world, team in self.teams.items():
                points = []
                team.do("all_reduce", bytes=SIZES[-1], count=1)  # TCP adapts its buffers
                for size in SIZES:
                    seconds, quiet = all_reduce_s(team, size, 0.3, plans.line_s(rate, world, size))
                    points.append((size, seconds))
                    if not quiet:
                        self.say(f"warning: other processes disturbed the all-reduce of {size} bytes")
                self.calibration.setdefault(str(rate), {})[str(world)] = points
                self.say(f"all-reduce at {rate} Mb/s, {world} workers: {points[0][1] * 1e3:.2f} ms for 1 KiB, "
                         f"{points[-1][1] * 1e3:.1f} ms for {SIZES[-1] // MIB} MiB")
                if self.real_models(world):
                    half, _ = all_reduce_s(team, 4 * MIB, 0.3, plans.line_s(rate, world, 4 * MIB), "f16", tries=1)
                    self.halves.setdefault(str(rate), {})[str(world)] = half
                    self.say(f"halves take {half / dict(points)[4 * MIB]:.2f} times as long as floats of the same size")
                for size, share in plans.calibration_warnings(rate, world, points):
                    self.say(f"warning: {size // MIB} MiB take {share:.2f} times what the line needs")
        self.network.shape(0)

    def contend(self):
        """How computing and communicating slow each other down on shared processors: all-reduces beside local steps."""
        if 2 not in self.teams or not self.real_models(2):
            return
        self.network.shape(min(self.a.rates))
        traffic, team = self.team(2, len(self.teams)), self.teams[2]
        traffic.do("hello")
        small, large = 16 * KIB, 4 * MIB
        for model in self.real_models(2):
            team.do("build", model=model, strategy="local", warm=2)
            alone = block(team, 6, 1)
            self.blocks[model, 2, 0, "local"] = [alone]
            alone_s = report.quantile(alone["times_s"], 0.5)
            for rate in self.a.rates:
                self.network.shape(rate)
                idle = dict(self.calibration[str(rate)]["2"])
                busy, steps = [], {}
                for size in (small, large):
                    count = max(3, int(6 * alone_s / (1.5 * idle[size] + (2e-3 if size == small else 0))))
                    traffic.start("all_reduce", bytes=size, count=count)
                    steps[size] = team.do("steps", count=4, warm=0, together=False)[0]["times_s"]
                    reports = traffic.answers()
                    times = [max(t) for t in zip(*[r["times_s"] for r in reports])]
                    busy.append((size, report.quantile(times[:max(3, len(times) * 2 // 3)], 0.5)))
                factors = plans.contention_of([(s, idle[s]) for s in (small, large)], busy, alone_s,
                                              report.quantile(steps[large][1:], 0.5))
                self.contention.setdefault(str(rate), {})[model] = {
                    "factors": factors, "busy": busy, "alone_s": alone_s,
                    "steps_s": {str(s): t for s, t in steps.items()}}
                self.say(f"{model} at {rate} Mb/s: " + ", ".join(f"{k} {v:.2f}" for k, v in factors.items()))
            self.network.shape(0)
            team.do("close")
        traffic.end()

    def configurations(self):
        """What is measured: (model, world, strategy)."""
        found = []
        for world in self.a.workers:
            for model in self.a.models:
                emulated = model.startswith("emu-")
                if not emulated and model not in self.real_models(world):
                    continue
                wanted = self.a.strategies or (EMULATED if emulated else REAL)
                found += [(model, world, strategy) for strategy in ["local"] * ("local" not in wanted) + wanted
                          if fits(model, world, strategy)]
        return found

    def measure(self):
        """Repetitions of all configurations in random order, as long as there is time."""
        longest = 0.0
        for repetition in range(self.a.repetitions):
            start = time.monotonic()
            if repetition and start - self.began + longest > 60 * self.a.minutes:
                self.say(f"no time for repetition {repetition + 1}: it would take {longest:.0f} s")
                break
            todo = self.configurations()
            self.random.shuffle(todo)
            for number, (model, world, strategy) in enumerate(todo):
                done = self.one(model, world, strategy, patience=1)
                self.say(f"{repetition + 1}:{number + 1}/{len(todo)} {model} {world} {strategy}: {', '.join(done)}")
            longest = max(longest, time.monotonic() - start)

    def one(self, model, world, strategy, patience):
        team, order = self.teams[world], {"model": model, "strategy": strategy, "warm": 3}
        if model.startswith("emu-"):
            recorded = self.recorded[model.removeprefix("emu-")]
            order |= {"stages": emulation.stages_of(recorded), "optimizer_s": recorded["optimizer_s"]}
        period = team.do("build", **order)[0]["period"]
        training, _ = plans.workers_of(strategy, world)
        said = []
        for rate in [0] if strategy == "local" else self.random.sample(self.a.rates, len(self.a.rates)):
            self.network.shape(rate)
            measured = block(team, self.a.steps if period == 1 else 2, patience, training)
            self.blocks.setdefault((model, training, rate, strategy), []).append(measured)
            said.append(f"{report.quantile(measured['times_s'], 0.5) * 1e3:.1f} ms at {rate}"
                        + ("" if measured["quiet"] else " (disturbed)"))
        self.network.shape(0)
        team.do("close")
        return said
