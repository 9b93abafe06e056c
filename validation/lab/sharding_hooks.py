#!/usr/bin/env python3
"""Measures what PyTorch's fully_shard takes of the host around a unit's passes, beyond the unit itself.

Units of linear layers so small that nothing is computed, in a process group of eight that sends nothing (PyTorch's
fake one), one thread: what is left is hooks, views of tensors and calls. Prints milliseconds a unit by its number of
tensors, and the line through them. stepcast's constants for hosts that set the pace are of this script
(model/stepcast/parallelism/priced_split.cpp).
"""
import argparse
import statistics
import time

import torch
import torch.distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

UNITS = 24
WIDTH = 64


class Unit(torch.nn.Module):
    def __init__(self, linears):
        super().__init__()
        self.linears = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(linears)])

    def forward(self, x):
        for linear in self.linears:
            x = linear(x)
        return x


def medians(model, steps):
    """Seconds of the forward and of the backward pass."""
    x = torch.randn(8, WIDTH)
    forward, backward = [], []
    for _ in range(steps):
        start = time.perf_counter()
        y = model(x).sum()
        between = time.perf_counter()
        y.backward()
        forward.append(between - start)
        backward.append(time.perf_counter() - between)
        model.zero_grad()
    return statistics.median(forward), statistics.median(backward)


def passes(linears, policy, steps):
    """Of a unit, without any sharding where there is no policy."""
    model = torch.nn.Sequential(*[Unit(linears) for _ in range(UNITS)])
    if policy is not None:
        for unit in model:
            fully_shard(unit, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    medians(model, 5)
    return [seconds / UNITS for seconds in medians(model, steps)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="measured steps of each model (40)")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    torch.distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    policies = {"f32": MixedPrecisionPolicy(),
                "bf16": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    tensors, extra = [], {"forward": [], "backward": []}
    print("tensors  weights  forward ms  backward ms")
    for linears in (1, 3, 6, 12):
        plain = passes(linears, None, steps)
        for name, policy in policies.items():
            sharded = passes(linears, policy, steps)
            tensors.append(2 * linears)
            for which, (with_hooks, without) in zip(extra, zip(sharded, plain)):
                extra[which].append(1e3 * (with_hooks - without))
            print(f"{2 * linears:7}  {name:7}  {extra['forward'][-1]:10.3f}  {extra['backward'][-1]:11.3f}")
    for which, times in extra.items():
        slope, constant = statistics.linear_regression(tensors, times)
        print(f"{which}: {constant:.2f} ms and {1e3 * slope:.0f} us a tensor")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
