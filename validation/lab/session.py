"""Teams of worker processes, one per namespace, and blocks of measured iterations."""
import json
import os
import pathlib
import select
import subprocess
import time

import accounting

WORKER = pathlib.Path(__file__).with_name("worker.py")
ANSWER_LIMIT_S = 120  # a schedule that hangs is given up; what compiles may take longer


class WorkerFailed(OSError):
    """A worker that ended, or that did not answer in time; the team is of no use any more."""


class Team:
    """`world` workers that carry out orders together; several teams may share the namespaces, each with a port."""

    def __init__(self, network, world, python, log_folder, port):
        self.world, self.processes, self.logs, self.limit_s = world, [], [], ANSWER_LIMIT_S
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "ve0", "MKL_NUM_THREADS": "1"}
        for rank in range(world):
            log = open(log_folder / f"worker-{port}-{rank}.log", "w")
            self.logs.append(log)
            command = network.inside(rank, python, "-u", "-W", "ignore", str(WORKER), str(rank), str(world),
                                     f"{network.address(0)}:{port}")
            self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                                   text=True, env=environment))

    def start(self, do, ranks=None, **order):
        """Gives an order to all workers, or to the first `ranks` of them."""
        self.asked = self.processes[:ranks]
        for process in self.asked:
            process.stdin.write(json.dumps({"do": do, **order}) + "\n")
            process.stdin.flush()

    def answers(self):
        """What they reply, by rank."""
        return [self.answer(process) for process in self.asked]

    def answer(self, process):
        ready, _, _ = select.select([process.stdout], [], [], self.limit_s)
        line = process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        log = pathlib.Path(self.logs[self.processes.index(process)].name)
        said = log.read_text().strip().splitlines()
        why = "no answer" if process.poll() is None and not ready else said[-1] if said else "it ended"
        raise WorkerFailed(f"a worker failed: {why} (see {log})")

    def do(self, order, ranks=None, **arguments):
        self.start(order, ranks, **arguments)
        return self.answers()

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for log in self.logs:
            log.close()


def wait_until_idle(limit_s, share=0.08):
    """Waits a little for other processes to leave the machine alone."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before, since = accounting.processor_ticks(), time.monotonic()
        time.sleep(0.15)
        after = accounting.processor_ticks()
        busy = (sum(after) - sum(before)) / 100 / (time.monotonic() - since) / os.cpu_count()
        if busy <= share:
            return


def judged(reports):
    """The disturbance of what the reports cover."""
    foreign, wait = accounting.disturbance(reports, os.cpu_count())
    own = sum(r["own_s"] for r in reports) / reports[0]["wall_s"] / os.cpu_count()
    return {"foreign": round(foreign, 4), "wait": round(wait, 4), "own": round(own, 4),
            "quiet": accounting.is_quiet(foreign, wait)}


def block(team, count, patience, training=None):
    """Iterations of what the team has built, each the mean of the workers; again while disturbed, `patience` times."""
    for attempt in range(patience + 1):
        wait_until_idle(0.6 if attempt == 0 else 1.5)
        reports = team.do("steps", count=count, warm=1)
        training = training or len(reports)
        times = [sum(t) / training for t in zip(*[r["times_s"] for r in reports[:training]])]
        result = {"times_s": [round(t, 6) for t in times], "operations": [r["operations"] for r in reports],
                  **judged(reports)}
        if result["quiet"]:
            break
    return result


def collective_s(team, operation, size, budget_s, expected_s, dtype="f32", tries=4):
    """Median time of a collective of that many bytes and whether it was quiet.

    Measured again while it is disturbed or, where the line sets the time, more than 5 % off it; the fastest quiet
    median counts, since whatever disturbs makes slower.
    """
    count = int(min(40, max(3, budget_s / (expected_s + 5e-4))))
    best, there_and_back = None, 2 if operation == "send" else 1
    for _ in range(tries):
        reports = team.do("collective", operation=operation, bytes=size, count=count, dtype=dtype)
        times = sorted(max(t) / there_and_back for t in zip(*[r["times_s"] for r in reports]))
        found = (times[len(times) // 2], judged(reports)["quiet"])
        if best is None or (found[1], -found[0]) > (best[1], -best[0]):
            best = found
        if best[1] and (operation != "all_reduce" or size < 4 << 20 or abs(best[0] / expected_s - 1) < 0.05):
            break
    return best
