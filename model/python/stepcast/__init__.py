"""Forecasts the step time of distributed deep-learning training from profiler traces.

Quantities are plain SI floats with the unit in the name (`iteration_s`, `memory_bytes`, `bandwidth_bytes_per_s`). Where
an argument takes a quantity, a text with its unit ("25 Gb/s", "64 MiB", "5 us") is as good. Bad input raises
`InputError`; a plan that cannot run on a cluster raises `Inapplicable` where one plan was asked for, and is listed with
its reason where several were. Work that takes long releases the GIL. Objects are immutable, may be shared by threads,
pickled, and copied.
"""

from __future__ import annotations

import collections.abc as _abc
import os as _os
import typing as _typing

from . import _stepcast
from ._stepcast import (
    Cluster, CommPlan, Layer, Listed, Model, Option, Prediction, Profile, RankedPlan, Ranking, RankReplay, SelfCheck,
    StragglerEffect, Sweep, Tensor, WhatIf, __version__, clusters, collectives, devices, models, modifiers, strategies)
from .errors import Inapplicable, InputError
from . import files as _files, results as _results

__all__ = [
    "Cluster", "CommPlan", "File", "Inapplicable", "InputError", "Layer", "Listed", "Model", "Option", "Prediction", "Profile",
    "Quantity", "RankReplay", "RankedPlan", "Ranking", "SelfCheck", "StragglerEffect", "Sweep", "Tensor", "Traced", "WhatIf",
    "calibrate", "clusters", "collectives", "compare", "describe", "devices", "models", "modifiers", "predict", "read", "recommend", "replay",
    "report", "strategies", "sweep", "timeline", "validate", "whatif",
]

_abc.Sequence.register(Ranking)

File = _typing.Union[str, _os.PathLike, bytes, bytearray, memoryview]
Quantity = _typing.Union[float, str]
Traced = _typing.Union[Profile, File]


def read(*files, model="", batch=0, kernels=None, strict=False, check=True):
    """The profile of the traces of a run's ranks (files, or their bytes), or the one that a file holds."""
    return _files.read(files, model, batch, kernels, strict, check)


def describe(model, device, *, batch=1):
    """The profile of a model that nobody traced: "gpt:hidden=4096,layers=32,heads=32,seq=2048" on a shipped device."""
    return _stepcast.describe(model, device, batch)


def predict(profile, cluster, plan, *, whatif="", global_batch=0):
    """The step time of one plan. Raises Inapplicable where it cannot run on the cluster."""
    if isinstance(plan, CommPlan):
        return _stepcast.predict(_files.profile_of(profile), cluster, plan)
    return _stepcast.predict(_files.profile_of(profile), cluster, plan, whatif, global_batch)


def _listed(plans):
    """A list of plans; one text alone would be read as many of one letter each."""
    if plans is None:
        return None
    return [plans] if isinstance(plans, (str, CommPlan)) else list(plans)


def compare(profile, cluster, plans=None, *, all=False):
    """Plans side by side, at default options: those named, among them plans of one's own, or every exact one."""
    named = _listed(plans)
    own = [plan for plan in named or () if isinstance(plan, CommPlan)]
    texts = None if named is None else [plan for plan in named if not isinstance(plan, CommPlan)]
    return _stepcast.compare(_files.profile_of(profile), cluster, texts, own, all)


def recommend(profile, cluster, *, allow=(), plans=None, tune=True, search="grid", sensitivity=True):
    """Every plan that the cluster can run, tuned, best first."""
    return _stepcast.recommend(_files.profile_of(profile), cluster, [allow] if isinstance(allow, str) else list(allow),
                               _listed(plans), tune, search, sensitivity)


def sweep(profile, cluster, plans=None, *, over, tune=False, threads=0, first=0, last=None, whatif="", global_batch=0):
    """Plans over a grid: over={"bandwidth": "1Gb/s..100Gb/s", "workers": [2, 4, 8]}; rows of points [first, last)."""
    axes = []
    for name, values in dict(over).items():
        if not isinstance(values, str):
            values = list(values) if isinstance(values, _abc.Iterable) else [values]
            if any(isinstance(value, str) for value in values):
                exact = {"bandwidth": _stepcast.exact_rate, "latency": _stepcast.exact_time}.get(name, str)
                values = ",".join(value if isinstance(value, str) else exact(value) for value in values)
        axes.append((name, values))
    return _stepcast.sweep(_files.profile_of(profile), cluster, _listed(plans), axes, tune, threads, first, last, whatif,
                           global_batch)


def replay(*files, strict=False):
    """How well the model reproduces the traces themselves."""
    return _stepcast.replay([_files.named(file, i) for i, file in enumerate(files)], strict)


def whatif(profile, scenarios, *, cluster=None, plan="ddp", global_batch=0):
    """The step after changes that somebody considers making: "amp", "batch(to=128)+amp"."""
    texts = [scenarios] if isinstance(scenarios, str) else list(scenarios)
    return _stepcast.whatif(_files.profile_of(profile), texts, cluster, plan, global_batch)


def report(profile, cluster, *, validation=True, plans=(), global_batch=0):
    """The page of `stepcast report`: one self-contained HTML document."""
    return _stepcast.report(_files.profile_of(profile), cluster, validation, _listed(plans) or [], global_batch)


def timeline(profile, cluster, plan):
    """The timeline of a plan as Chrome trace events (JSON, for ui.perfetto.dev)."""
    return _stepcast.timeline(_files.profile_of(profile), cluster, plan)


def validate(*suites, root="."):
    """Predictions beside measurements: one row a case."""
    return _results._frame(
        _stepcast.validation_rows(list(suites), _os.fspath(root)),
        ["suite", "case", "source", "split", "plan", "outcome", "predicted", "measured", "relative_error", "low",
         "high", "reason"])


def calibrate(*files, per_node=0, name="", collective=""):
    """The cluster behind measured collectives (nccl-tests logs, CSV), and the residuals of its fit.

    `collective`: the form whose links are fitted ("" for ring), or "table" for a cluster that uses what was measured.
    """
    cluster, rows, _ = _stepcast.calibrate([_files.text_of_file(file) for file in files], per_node, name, collective)
    return cluster, _results._frame(rows, [
        "operation", "workers", "size_bytes", "measured_s", "fitted_s", "relative_residual", "model_s",
        "model_relative_error", "source"])


for _function in (read, describe, predict, compare, recommend, sweep, replay, whatif, report, timeline, validate,
                  calibrate, clusters, collectives, devices, models, modifiers, strategies):
    _function.__module__ = "stepcast"
del _function
