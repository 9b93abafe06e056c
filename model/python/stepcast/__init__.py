"""Forecasts the step time of distributed deep-learning training from profiler traces.

Quantities are plain SI floats with the unit in the name (`iteration_s`, `memory_bytes`, `bandwidth_bytes_per_s`). Where
an argument takes a quantity, a text with its unit ("25 Gb/s", "64 MiB", "5 us") is as good. Bad input raises
`InputError`; a plan that cannot run on a cluster raises `Inapplicable` where one plan was asked for, and is listed with
its reason where several were. Work that takes long releases the GIL and is interrupted by Ctrl-C. Objects may be shared
by threads, pickled and copied; all are immutable but `CommPlan`, which grows: a call sees it as it was when it began.
"""

from __future__ import annotations

import collections.abc as _abc
import os as _os
import typing as _typing

from . import _stepcast
from ._stepcast import (
    AsTraced, Cluster, CommPlan, InputDiagnosis, Layer, Listed, Model, Option, Prediction, Profile, RankedPlan, Ranking, RankReplay,
    SelfCheck, StragglerEffect, Sweep, Tensor, TrainingRun, WhatIf, __version__, clusters, collectives, devices, models, modifiers, strategies)
from .errors import Inapplicable, InputError
from . import files as _files, results as _results

__all__ = [
    "AsTraced", "Cluster", "CommPlan", "File", "Inapplicable", "InputDiagnosis", "InputError", "Layer", "Listed", "Model", "Option", "Prediction", "Profile",
    "Quantity", "RankReplay", "RankedPlan", "Ranking", "SelfCheck", "StragglerEffect", "Sweep", "Tensor", "Traced", "TrainingRun", "WhatIf",
    "calibrate", "clusters", "collectives", "compare", "describe", "devices", "diff", "explain", "export", "layouts", "models", "modifiers", "place", "predict", "read",
    "recommend", "replay", "report", "strategies", "sweep", "timeline", "unit_frontier", "validate", "whatif", "why",
]

_abc.Sequence.register(Ranking)

File = _typing.Union[str, _os.PathLike, bytes, bytearray, memoryview]
Quantity = _typing.Union[float, str]
Traced = _typing.Union[Profile, File]


def read(*files, model="", batch=0, parameters=0, step="", kernels=None, strict=False, check=True, recorded=False):
    """The profile of the traces of a run's ranks (files, or their bytes), or the one that a file holds.

    With `recorded` all that is asked of it is answered by the recorded step, as `--recorded` does on the command line:

        profile = stepcast.read("rank0.json.gz", "rank1.json.gz", recorded=True)
        stepcast.compare(profile, cluster, ["ddp(bucket=1 MiB)", "wfbp"])
    """
    return _files.read(files, model, batch, parameters, step, kernels, strict, check, recorded)


def describe(model, device, *, batch=None):
    """The profile of a model that nobody traced: "gpt:hidden=4096,layers=32,heads=32,seq=2048" on a shipped device.

    Without `batch` it is of one sample, and layouts share out the batch that is usual for a model of its size.
    """
    return _stepcast.describe(_files.text_of(model, "model"), _files.text_of(device, "device"),
                              None if batch is None else _files.number_of(batch, "batch", "a number of samples"))


def predict(profile, cluster, plan, *, whatif="", global_batch=0, iterations=0, framework="", measured=()):
    """The step time of one plan. Raises Inapplicable where it cannot run on the cluster."""
    if isinstance(plan, CommPlan):
        _results.refuse_beside_own_plan(whatif, global_batch, iterations, measured, framework)
        return _stepcast.predict(_files.profile_of(profile), cluster, plan)
    return _stepcast.predict(_files.profile_of(profile), cluster, _files.text_of(plan, "plan"),
                             _files.text_of(whatif, "whatif"), _files.number_of(global_batch, "global_batch"),
                             _files.number_of(iterations, "iterations"), _files.measured_of(measured),
                             _files.text_of(framework, "framework"))


def compare(profile, cluster, plans=None, *, all=False, whatif="", iterations=0, measured=()):
    """Plans side by side, at default options: those named, among them plans of one's own, or every exact one."""
    named = _files.plans_of(plans, CommPlan)
    own = [plan for plan in named or () if isinstance(plan, CommPlan)]
    texts = None if named is None else [plan for plan in named if not isinstance(plan, CommPlan)]
    return _stepcast.compare(_files.profile_of(profile), cluster, texts, own, _files.flag_of(all, "all"),
                             _files.text_of(whatif, "whatif"), _files.number_of(iterations, "iterations"),
                             _files.measured_of(measured))


def recommend(profile, cluster, *, allow=(), plans=None, tune=True, search="grid", sensitivity=True,
              by_step=False, whatif="", iterations=0, measured=()):
    """Every plan that the cluster can run, tuned, best first: what PyTorch runs as it is before what needs more."""
    return _stepcast.recommend(_files.profile_of(profile), cluster, _files.texts_of(allow, "allow"),
                               _files.plans_of(plans), _files.flag_of(tune, "tune"), _files.text_of(search, "search"),
                               _files.flag_of(sensitivity, "sensitivity"), _files.flag_of(by_step, "by_step"),
                               _files.text_of(whatif, "whatif"), _files.number_of(iterations, "iterations"),
                               _files.measured_of(measured))


def sweep(profile, cluster, plans=None, *, over, tune=False, threads=0, first=0, last=None, whatif="", global_batch=0,
          measured=()):
    """Plans over a grid: over={"bandwidth": "1Gb/s..100Gb/s", "workers": [2, 4, 8]}; rows of points [first, last)."""
    last = None if last is None else _files.count_of(last, "last")
    return _stepcast.sweep(_files.profile_of(profile), cluster, _files.plans_of(plans), _files.axes_of(over),
                           _files.flag_of(tune, "tune"), min(_files.count_of(threads, "threads"), 2**31),
                           _files.count_of(first, "first"), last, _files.text_of(whatif, "whatif"),
                           _files.number_of(global_batch, "global_batch"), _files.measured_of(measured))


def layouts(profile, cluster, *, objective="step", target_step=0, price=0, memory=0, frontier=False, global_batch=0,
            framework="", measured=()):
    """The best ways to divide a model and its batch over the devices, as `stepcast recommend --layouts --json` says."""
    return _results.document(_stepcast.layouts(
        _files.profile_of(profile), cluster, _files.size_of(memory, "memory"), _files.text_of(objective, "objective"),
        _files.number_of(target_step, "target_step"), _files.number_of(price, "price"), _files.flag_of(frontier, "frontier"),
        _files.number_of(global_batch, "global_batch"), _files.text_of(framework, "framework"),
        _files.measured_of(measured)))


def unit_frontier(profile, cluster, *, workers=(), objective="step", target_step=0, memory=0, global_batch=0):
    """What a device can trade between memory and time where each unit of the model chooses for itself (TensorOpt)."""
    counts = [workers] if isinstance(workers, int) else workers
    if isinstance(counts, (str, bytes)) or not isinstance(counts, _abc.Iterable):
        raise InputError("workers", "a number of workers, or several", _files.shown(workers))
    return _results.document(_stepcast.unit_frontier(
        _files.profile_of(profile), cluster, [min(_files.count_of(n, "workers", 1), 2**31) for n in counts],
        _files.size_of(memory, "memory"), _files.text_of(objective, "objective"),
        _files.number_of(target_step, "target_step"), _files.number_of(global_batch, "global_batch")))


def place(profile, devices, plan="", *, adatopk=1, global_batch=0):
    """A pipeline over unequal devices (a JSON file): the one of a plan, or the best (FusionLLM)."""
    return _results.document(_stepcast.place(
        _files.profile_of(profile), _files.text_of_file(devices)[1], _files.text_of(plan, "plan"),
        _files.number_of(adatopk, "adatopk"), _files.number_of(global_batch, "global_batch")))


def explain(*files, parameters=0, strict=False):
    """Where the time of a traced step goes, and what to do about it: what `stepcast TRACE --json` says."""
    return _results.document(_stepcast.explain(
        [_files.named(file, i) for i, file in enumerate(files)], _files.number_of(parameters, "parameters"),
        _files.flag_of(strict, "strict")))


def why(*files, strict=False):
    """For which rank the others wait, in which steps, and what held it up: what `stepcast why --json` says."""
    return _results.document(_stepcast.why(
        [_files.named(file, i) for i, file in enumerate(files)], _files.flag_of(strict, "strict")))


def diff(before, after, *, strict=False):
    """What takes longer in the second of two recordings, and is it noise: what `stepcast diff --json` says."""
    return _results.document(_stepcast.diff(
        [_files.named(before, 0)], [_files.named(after, 1)], _files.flag_of(strict, "strict")))


def replay(*files, strict=False):
    """How well the model reproduces the traces themselves."""
    return _stepcast.replay([_files.named(file, i) for i, file in enumerate(files)], _files.flag_of(strict, "strict"))


def whatif(profile, scenarios, *, cluster=None, plan="", global_batch=0):
    """The step after changes that somebody considers making: "amp", "batch(to=128)+amp". Without a plan: what was
    traced, else DDP."""
    return _stepcast.whatif(_files.profile_of(profile), _files.texts_of(scenarios, "scenarios"), cluster,
                            _files.text_of(plan, "plan"), _files.number_of(global_batch, "global_batch"))


def report(profile, cluster, *, validation=True, plans=(), global_batch=0, whatif="", iterations=0):
    """The page of `stepcast report`: one self-contained HTML document."""
    return _stepcast.report(_files.profile_of(profile), cluster, _files.flag_of(validation, "validation"),
                            _files.plans_of(plans) or [], _files.number_of(global_batch, "global_batch"),
                            _files.text_of(whatif, "whatif"), _files.number_of(iterations, "iterations"))


def timeline(profile, cluster, plan):
    """The timeline of a plan as Chrome trace events (JSON, for ui.perfetto.dev)."""
    return _stepcast.timeline(_files.profile_of(profile), cluster,
                              plan if isinstance(plan, CommPlan) else _files.text_of(plan, "plan"))


def export(profile, cluster, plan, *, global_batch=0):
    """A planned job for ASTRA-sim, as `stepcast export --plan` writes it: `execution_trace` (Chakra, of every rank; with a
    layout `execution_traces`, one a rank, and their communicator `groups`, JSON), `network` (YAML), `system` and `memory`
    (JSON), and `remarks` on what ASTRA-sim runs otherwise."""
    return _stepcast.export_job(_files.profile_of(profile), cluster, _files.text_of(plan, "plan"),
                                _files.number_of(global_batch, "global_batch"))


def validate(*suites, root="."):
    """Predictions beside measurements: one row a case."""
    return _results._frame(
        _stepcast.validation_rows(_files.texts_of(suites, "suites"), _os.fsdecode(root)),
        ["suite", "case", "source", "split", "plan", "outcome", "predicted", "measured", "relative_error", "low",
         "high", "reason"])


def calibrate(*files, per_node=0, name="", collective=""):
    """The cluster behind measured collectives (nccl-tests logs, CSV), and the residuals of its fit.

    `collective`: the form whose links are fitted ("" for ring), or "table" for a cluster that uses what was measured.
    """
    cluster, rows, _ = _stepcast.calibrate([_files.text_of_file(file) for file in files],
                                           _files.count_of(per_node, "per_node"), _files.text_of(name, "name"),
                                           _files.text_of(collective, "collective"))
    return cluster, _results._frame(rows, [
        "operation", "workers", "size_bytes", "measured_s", "fitted_s", "relative_residual", "model_s",
        "model_relative_error", "source"])


for _function in (read, describe, explain, why, diff, predict, compare, recommend, sweep, replay, whatif, report, timeline, export, validate,
                  calibrate, clusters, collectives, devices, models, modifiers, strategies):
    _function.__module__ = "stepcast"
del _function
