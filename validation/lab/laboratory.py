"""A laboratory run: records, and block by block, one a rate, calibrates, measures and traces."""
import json
import os
import random
import sys
import time

import emulation
import matrix
import plans
import report
from session import Team, block, collective_s

KIB, MIB = 1 << 10, 1 << 20
SIZES = [KIB, 16 * KIB, 128 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB, 48 * MIB]  # of all-reduces
OTHER_SIZES = [KIB, 64 * KIB, 512 * KIB, 4 * MIB, 16 * MIB]
OPERATIONS = ["reduce_scatter", "all_gather", "ring_reduce_scatter", "ring_all_gather", "all_to_all", "send"]
PORT = 29600
COMPILING_LIMIT_S = 600


class Laboratory:
    """`strategies_of` has lists of strategies by job."""

    def __init__(self, a, python, strategies_of):
        self.a, self.python, self.strategies_of = a, python, strategies_of
        self.began, self.random = time.monotonic(), random.Random(a.seed)
        self.about = {"rates": a.rates, "machine": " ".join(os.uname()[2:5:2]), "processors": os.cpu_count(),
                      "date": time.strftime("%Y-%m-%d %H:%M"), "seed": a.seed, "split": matrix.SPLIT}
        self.recorded, self.blocks, self.calibration, self.contention = {}, {}, {}, {}
        self.traces, self.memory, self.failed = {}, {}, {}
        self.halves, self.teams, self.network, self.ports, self.traffic = {}, {}, None, PORT, None

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def results(self):
        """Everything measured so far, as results.json keeps it."""
        def rows(values, name):
            return [{"key": list(k), name: v} for k, v in values.items()]
        return self.about | {"recorded": self.recorded, "calibration": self.calibration, "contention": self.contention,
                             "halves_4mib_s": self.halves, "blocks": rows(self.blocks, "blocks"),
                             "traces": rows(self.traces, "files"), "memory": rows(self.memory, "bytes"),
                             "failed": rows(self.failed, "reason"), "measured_in_s": time.monotonic() - self.began}

    def run(self, network):
        self.network = network
        (self.a.output / "traces").mkdir(exist_ok=True)
        for world in self.a.workers:
            self.teams[world] = self.team(world)
        hello = [team.do("hello") for team in self.teams.values()][0][0]
        self.about |= hello
        counts = ", ".join(map(str, self.a.workers))
        self.say(f"PyTorch {hello['torch']}, {counts} workers on {os.cpu_count()} processors")
        if not hello["slices"]:
            self.say("warning: this kernel has no short slices; small all-reduces may take 4 ms and more")
        self.record()
        self.measure()

    def team(self, world):
        """New workers; their connections keep the packet size of the slowest link."""
        self.network.shape(min(self.a.rates))
        self.ports += 1
        made = Team(self.network, world, self.python, self.a.output, self.ports)
        made.do("hello")
        self.network.shape(0)
        return made

    def jobs(self, emulated):
        """Jobs of that mode that can be measured here."""
        possible = {name for name, _, _ in matrix.configurations(self.strategies_of, self.a.workers)}
        return [job for job in map(matrix.job_of, self.strategies_of) if job.name in possible
                and job.emulated == emulated]

    def order(self, job, strategy, warm=3):
        order = {"model": job.model, "batch": job.batch, "compiled": job.compiled, "strategy": strategy, "warm": warm}
        if job.emulated:
            recorded = self.recorded[job.name]
            order |= {"stages": emulation.stages_of(recorded), "optimizer_s": recorded["optimizer_s"]}
        return order

    def record(self):
        """Traces of one worker while the others compute, too; durations for the emulated accelerator."""
        some = next(iter(self.teams.values()))
        for job in self.jobs(emulated=True):
            self.say(f"recording the durations of {job.name}")
            self.recorded[job.name] = some.do("record", ranks=1, model=job.model, batch=job.batch, strategy="local",
                                              count=10)[0]
            profile = emulation.profile_of(job.name, self.recorded[job.name], job.batch,
                                           "laboratory: recorded durations that the emulated accelerator sleeps")
            (self.a.output / f"{job.name}.profile.json").write_text(json.dumps(profile, indent=1))
        for job in self.jobs(emulated=False) if 2 in self.teams else []:
            self.say(f"tracing {job.name} on one worker" + (" (compiling it first)" if job.compiled else ""))
            self.built(self.teams[2], self.order(job, "local"))
            self.trace(self.teams[2], (job.name, 2, 0, "local"), tracers=1)
            self.teams[2].do("close")

    def built(self, team, order):
        team.limit_s = COMPILING_LIMIT_S if order.get("compiled") else team.limit_s
        built = team.do("build", **order)
        return built[0]["period"], [b["peak_bytes"] for b in built]

    def trace(self, team, key, tracers, period=1):
        """The traces of a row; returns what its steps allocate."""
        job, world, rate, strategy = key
        stem = f"{job}-{world}x{rate}mbit-{strategy.replace(':', '_')}" if rate else f"{job}-{strategy}"
        path = f"{stem}-rankRANK.pt.trace.json.gz"
        said = team.do("trace", path=str(self.a.output / "traces" / path), count=4 if period == 1 else 2,
                       tracers=tracers)
        self.traces[key] = [path.replace("RANK", str(rank)) for rank in range(tracers)]
        return [s["allocated_bytes"] for s in said[:tracers]]

    def calibrate(self, rate):
        """Collectives of idle workers over links of that rate."""
        for world, team in self.teams.items():
            by_operation = self.calibration.setdefault(str(rate), {}).setdefault(str(world), {})
            team.do("collective", operation="all_reduce", bytes=SIZES[-1], count=1)  # TCP adapts its buffers
            for operation in ["all_reduce", *OPERATIONS]:
                if operation == "send" and world != 2:
                    continue
                whole = operation == "all_reduce"
                for size in SIZES if whole else OTHER_SIZES:
                    expected = plans.line_s(rate, world, size, operation)
                    seconds, quiet = collective_s(team, operation, size, 0.3 if whole else 0.12, expected)
                    by_operation.setdefault(operation, {}).setdefault(str(size), []).append(seconds)
                    if not quiet:
                        self.say(f"warning: other processes disturbed {operation} of {size} bytes")
            points = [(int(s), t[-1]) for s, t in by_operation["all_reduce"].items()]
            shares = {o: by_operation[o][str(4 * MIB)][-1] / plans.line_s(rate, world, 4 * MIB, o)
                      for o in by_operation}
            self.say(f"{rate} Mb/s, {world} workers: all-reduce {points[0][1] * 1e3:.2f} ms for 1 KiB, "
                     f"{points[-1][1] * 1e3:.1f} ms for {SIZES[-1] // MIB} MiB; 4 MiB in times of the line: "
                     + ", ".join(f"{o} {s:.2f}" for o, s in shares.items()))
            if self.jobs(emulated=False) and world <= os.cpu_count():
                half, _ = collective_s(team, "all_reduce", 4 * MIB, 0.3, plans.line_s(rate, world, 4 * MIB), "f16", 1)
                self.halves.setdefault(str(rate), {})[str(world)] = half
            for size, share in plans.calibration_warnings(rate, world, points):
                self.say(f"warning: {size // MIB} MiB take {share:.2f} times what the line needs")

    def contend(self, rate):
        """How computing and communicating slow each other down on shared processors: all-reduces beside local steps."""
        models = [matrix.job_of(model) for model in dict.fromkeys(job.model for job in self.jobs(emulated=False))]
        if 2 not in self.teams or not models or str(rate) in self.contention:
            return
        if not self.traffic:
            self.traffic = self.team(2)
        self.network.shape(rate)
        team, small, large = self.teams[2], 16 * KIB, 4 * MIB
        for job in models:
            team.do("build", **self.order(job, "local", warm=2))
            alone = block(team, 6, 1)
            alone_s = report.quantile(alone["times_s"], 0.5)
            idle = {s: self.calibration[str(rate)]["2"]["all_reduce"][str(s)][-1] for s in (small, large)}
            busy, steps = [], {}
            for size in (small, large):
                count = max(3, int(6 * alone_s / (1.5 * idle[size] + (2e-3 if size == small else 0))))
                self.traffic.start("collective", operation="all_reduce", bytes=size, count=count)
                steps[size] = team.do("steps", count=4, warm=0, together=False)[0]["times_s"]
                reports = self.traffic.answers()
                times = [max(t) for t in zip(*[r["times_s"] for r in reports])]
                busy.append((size, report.quantile(times[:max(3, len(times) * 2 // 3)], 0.5)))
            factors = plans.contention_of(list(idle.items()), busy, alone_s, report.quantile(steps[large][1:], 0.5))
            self.contention.setdefault(str(rate), {})[job.name] = {
                "factors": factors, "busy": busy, "alone_s": alone_s, "steps_s": {str(s): t for s, t in steps.items()}}
            self.say(f"{job.name} beside all-reduces: " + ", ".join(f"{k} {v:.2f}" for k, v in factors.items()))
            team.do("close")

    def measure(self):
        """Repetitions of all blocks, rates and configurations in random order, as long as there is time."""
        longest = 0.0
        for repetition in range(self.a.repetitions):
            start = time.monotonic()
            if repetition and start - self.began + longest > 60 * self.a.minutes:
                self.say(f"no time for repetition {repetition + 1}: it would take {longest:.0f} s")
                break
            for rate in self.random.sample(self.a.rates, len(self.a.rates)):
                self.network.shape(rate)
                self.calibrate(rate)
                self.contend(rate)
                strategies_of = {job: s for job, all_of_it in self.strategies_of.items()
                                 if (s := matrix.at_rate(rate, job, all_of_it) if self.a.whole else all_of_it)}
                todo = matrix.configurations(strategies_of, self.a.workers)
                self.random.shuffle(todo)
                for number, (job, world, strategy) in enumerate(todo):
                    try:
                        said = self.one(job, world, strategy, rate, traced=not repetition)
                    except OSError as error:
                        said = self.gave_up((job, world, rate, strategy), error)
                    self.say(f"{repetition + 1}:{number + 1}/{len(todo)} {rate} Mb/s {job} {world} {strategy}: {said}")
                self.network.shape(0)
            longest = max(longest, time.monotonic() - start)

    def gave_up(self, key, error):
        """A strategy that cannot run says so in the table; its team is replaced."""
        self.failed[key] = str(error)
        self.teams[key[1]].end()
        self.teams[key[1]] = self.team(key[1])
        self.network.shape(key[2])
        return str(error)

    def one(self, name, world, strategy, rate, traced):
        job, team, rate = matrix.job_of(name), self.teams[world], 0 if strategy == "local" else rate
        self.network.shape(rate)
        period, peaks = self.built(team, self.order(job, strategy, warm=2))
        training, _ = plans.workers_of(strategy, world)
        key = (name, training, rate, strategy)
        measured = block(team, max(2, self.a.steps // period), 1, training)
        self.blocks.setdefault(key, []).append(measured)
        if traced and rate:
            self.memory[key] = {"peak": peaks[:training],
                                "allocated_in_steps": self.trace(team, key, training, period)}
        team.do("close")
        return (f"{report.quantile(measured['times_s'], 0.5) * 1e3:.1f} ms"
                + ("" if measured["quiet"] else " (disturbed)"))
