#!/usr/bin/env python3
"""Plans a second from Python, beside the C++ loop over the same plans in the same order, on one thread.

    PYTHONPATH=build/model/python tests/benchmark/predict_many.py build/tests/predict_many_loop [--runs 7]

The rows, of 20,000 distinct plans of the 161-tensor ResNet-50 each, are the program's (predict_many_loop.cpp): buckets
of DDP, those of DeAR, both in turns with all their options, and all strategies that need nothing but collectives.
Python is asked with a list of texts and, where plans differ in one option, with an array. C++ and Python take turns, so
that a busy machine disturbs both alike; shown are medians of CPU time as plans a second and in relation to the C++ loop.
Exit status 1 if any step time differs in any bit.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import stepcast


class Loop:
    """The C++ program, waiting for the name of a row."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows = [line.split() for line in iter(self.process.stdout.readline, "\n") if line.strip()]

    def cpu_seconds(self, row):
        print(row, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def measured(call):
    begin = time.thread_time()
    result = call()
    return time.thread_time() - begin, result


def row_of(loop, model, folder, name, strategy, option, runs):
    """Medians of CPU seconds by way of asking, the number of plans, and whether all step times were equal."""
    texts = (folder / f"{name}.plans").read_text().splitlines()
    ways = {"texts": lambda: model.predict_many(texts)}
    if strategy != "-":
        values = numpy.fromfile(folder / f"{name}.values")
        ways = {"array": lambda: model.predict_many(strategy, **{option: values})} | ways
    taken = {way: [] for way in ("C++", *ways)}
    equal = True
    for run in range(runs + 1):  # the first one warms up
        seconds = {"C++": loop.cpu_seconds(name)}
        expected = (folder / f"{name}.seconds").read_bytes()
        for way, call in ways.items():
            seconds[way], result = measured(call)
            equal = equal and result.tobytes() == expected
        if run:
            for way, value in seconds.items():
                taken[way].append(value)
    return {way: statistics.median(values) for way, values in taken.items()}, len(texts), equal


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("loop", help="the program predict_many_loop")
    parser.add_argument("--runs", type=int, default=7)
    flags = parser.parse_args()
    same = True
    with tempfile.TemporaryDirectory(prefix="stepcast-") as name:
        folder = pathlib.Path(name)
        loop = Loop(flags.loop, name)
        model = stepcast.Model(stepcast.read(folder / "profile.json"),
                               stepcast.Cluster(workers=64, per_node=8, network="25GbE"))
        print(f"{'plans':8}{'asked by':10}{'plans/s':>10}{'time of the C++ loop':>22}")
        for row, strategy, option in loop.rows:
            medians, plans, equal = row_of(loop, model, folder, row, strategy, option, flags.runs)
            same = same and equal
            for way, seconds in medians.items():
                ratio = "" if way == "C++" else f"{seconds / medians['C++']:.3f} x"
                print(f"{row:8}{way:10}{plans / seconds:10,.0f}{ratio:>22}", flush=True)
        loop.process.stdin.close()
        loop.process.wait()
    print("step times equal to the last bit" if same else "DIFFERENT STEP TIMES")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
