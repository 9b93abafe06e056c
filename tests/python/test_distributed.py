"""The sweep that Dask spreads over processes has the bytes of the sweep of one process, whoever dies on the way.

`STEPCAST_PROGRAM` names the command line program; where it is set, its bytes are compared, too. All processes are of
this test and end with it.
"""

import contextlib
import io
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import stepcast

try:
    import distributed
    from stepcast.distributed import Unfinished, distributed_sweep, main
except ImportError as missing:
    raise unittest.SkipTest(f"python3-distributed: {missing}") from None

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz")
CLUSTER = {"workers": 4, "per_node": 2, "network": "10GbE"}
PLANS = ["ddp", "dear(bucket=4 MiB)", "wfbp@hierarchical", "ddp+powersgd", "switchml"]  # the last one cannot run
OVER = {"bandwidth": "100Mb/s..100Gb/s:40", "workers": [2, 4, 8, 16]}
OVER_FLAGS = ["--over", "bandwidth=100Mb/s..100Gb/s:40", "--over", "workers=2,4,8,16"]
CLUSTER_FLAGS = ["--per-node", "2", "--network", "10GbE"]
PLAN_FLAGS = [word for plan in PLANS for word in ("--plan", plan)]


@contextlib.contextmanager
def machines(workers=2):
    """A Dask cluster of processes on this machine, and a client of it."""
    with tempfile.TemporaryDirectory() as scratch, \
         distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                                  local_directory=scratch, silence_logs=logging.CRITICAL) as cluster, \
         distributed.Client(cluster) as client:
        yield client


@contextlib.contextmanager
def scheduler_and_workers(count):
    """A scheduler and its workers as they are started on machines: its address, and the workers' processes."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as processes:
        found = os.path.join(scratch, "scheduler.json")

        def started(module, *flags):
            process = subprocess.Popen([sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard",
                                        "--scheduler-file", found, *flags], cwd=scratch, stderr=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        started("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        workers = [started("dask_worker", "--nthreads", "1", "--no-nanny", "--local-directory", scratch)
                   for _ in range(count)]
        deadline = time.monotonic() + 60
        while not os.path.exists(found) or not os.path.getsize(found):
            if time.monotonic() > deadline:
                raise AssertionError("the scheduler did not start")
            time.sleep(0.1)
        address = json.loads(pathlib.Path(found).read_text())["address"]
        yield address, workers


def program(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "stepcast.distributed", *arguments], capture_output=True, text=True,
                          timeout=120, **options)


class Distributed(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.profile = stepcast.read(TRACE)
        cls.cluster = stepcast.Cluster(**CLUSTER)
        cls.whole = stepcast.sweep(cls.profile, cls.cluster, PLANS, over=OVER)
        cls.csv = cls.whole.to_csv()

    def parts(self, client, **options):
        return distributed_sweep(self.profile, self.cluster, PLANS, over=OVER, client=client, **options)

    def test_processes_of_this_machine(self):
        with machines() as client:
            for chunk in (0, 1, 7, 1000):
                with self.subTest(chunk=chunk):
                    self.assertEqual("".join(self.parts(client, chunk=chunk)), self.csv)
            self.assertEqual("".join(self.parts(client, form="json")), self.whole.to_json_lines())
            with self.subTest("killed"):
                self.killed_half_way(client)
            with self.subTest("another version"), mock.patch.object(stepcast, "__version__", "another"), \
                 self.assertRaisesRegex(Unfinished, "points 0 to 99: a worker has stepcast .*, the client another"):
                next(self.parts(client, chunk=100))
            with self.subTest("stopped early"):
                parts = self.parts(client, chunk=1)
                self.assertTrue(self.csv.startswith(next(parts)))
                parts.close()
                self.assertEqual("".join(self.parts(client)), self.csv)

    def killed_half_way(self, client):
        """One of two workers gets SIGKILL after some ranges are done and while it has others."""
        processes = client.run(os.getpid)
        held, killed = [], []

        def rows_of(worker):
            return [key for key in client.processing().get(worker, ()) if "_rows" in key]

        def kill():
            deadline = time.monotonic() + 30
            while not killed and time.monotonic() < deadline:
                for worker, process in processes.items():
                    if not rows_of(worker):
                        continue
                    os.kill(process, signal.SIGSTOP)  # stopped first, so that it cannot finish what it has
                    time.sleep(0.05)  # what it had finished is told
                    held.extend(rows_of(worker))
                    os.kill(process, signal.SIGKILL if held else signal.SIGCONT)
                    if held:
                        killed.append(process)
                        break

        done = []
        killer = threading.Thread(target=kill)
        for part in self.parts(client, chunk=1):
            done.append(part)
            if len(done) == 10:
                killer.start()
        killer.join()
        self.assertTrue(held, "the worker had nothing to lose")
        client.wait_for_workers(2, timeout=60)
        self.assertNotIn(killed[0], client.run(os.getpid).values())
        self.assertEqual("".join(done), self.csv)

    def test_input_errors_come_before_anything_is_sent(self):
        for wrong in ({"plans": ["nonsense"], "over": OVER}, {"plans": PLANS, "over": {"nonsense": "1..2"}}):
            with self.subTest(wrong), self.assertRaises(stepcast.InputError):
                distributed_sweep(self.profile, self.cluster, client=None, **wrong)

    def test_scheduler_by_address(self):
        with scheduler_and_workers(2) as (address, workers), tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "sweep.csv")
            flags = [TRACE, *CLUSTER_FLAGS, *OVER_FLAGS, *PLAN_FLAGS, "--scheduler", address, "--chunk", "5"]
            done = program(*flags, "-o", output)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertEqual(pathlib.Path(output).read_text(), self.csv)
            self.assertEqual(os.listdir(folder), ["sweep.csv"])
            if os.environ.get("STEPCAST_PROGRAM"):
                alone = subprocess.run([os.environ["STEPCAST_PROGRAM"], "sweep", TRACE, *CLUSTER_FLAGS, *OVER_FLAGS,
                                        *PLAN_FLAGS, "--csv"], capture_output=True, text=True, check=True)
                self.assertEqual(alone.stdout, self.csv)
            done = program(TRACE, "--network", "10GbE", "--over", "workers=4,8", "--plan", "switchml", "--scheduler",
                           address)
            self.assertEqual((done.returncode, done.stdout.count("\n")), (1, 3), done.stderr)
            workers[0].kill()
            done = program(*flags, "--json")
            self.assertEqual((done.returncode, done.stdout), (0, self.whole.to_json_lines()), done.stderr)

    def test_one_line_for_what_is_wrong(self):
        for flags, said in ((["--scheduler", "tcp://127.0.0.1:1", "--timeout", "1"], "tcp://127.0.0.1:1"),
                            (["--scheduler", "nonsense"], "nonsense"), (["--plan", "nonsense"], "nonsense"),
                            (["--over", "nonsense"], "AXIS=VALUES"),
                            (["-o", "/nonexistent/sweep.csv"], "/nonexistent")):
            with self.subTest(flags):
                with contextlib.redirect_stderr(io.StringIO()) as errors:
                    self.assertEqual(main([TRACE, *CLUSTER_FLAGS, *OVER_FLAGS, *flags]), 2)
                self.assertRegex(errors.getvalue(), f"^stepcast: .*{said}.*\n$")


if __name__ == "__main__":
    unittest.main()
