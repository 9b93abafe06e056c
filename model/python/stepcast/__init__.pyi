"""Forecasts the step time of distributed deep-learning training from profiler traces.

Quantities are plain SI floats with the unit in the name (`iteration_s`, `memory_bytes`, `bandwidth_bytes_per_s`). Where
an argument takes a quantity, a text with its unit ("25 Gb/s", "64 MiB", "5 us") is as good. Bad input raises
`InputError`; a plan that cannot run on a cluster raises `Inapplicable` where one plan was asked for, and is listed with
its reason where several were. Work that takes long releases the GIL. Objects are immutable, may be shared by threads,
pickled, and copied.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

__version__: str

File = str | PathLike[str] | bytes | bytearray | memoryview
Quantity = float | str

class InputError(ValueError):
    """What is wrong with an input: one line, and its parts."""

    where: str
    expected: str
    found: str
    hint: str

class Inapplicable(ValueError):
    """A question without an answer, with the reason."""

    reason: str

class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: float
    layer: int

class Layer:
    name: str
    forward_host_s: float
    forward_device_s: float
    backward_host_s: float
    backward_device_s: float

class RankReplay:
    source: str
    measured_s: float
    replayed_s: float
    relative_error: float
    scored: bool
    doubtful: bool
    note: str
    step_times_s: npt.NDArray[np.float64]
    rebuilt_s: npt.NDArray[np.float64]

class SelfCheck:
    """How well the trace itself is reproduced."""

    ranks: tuple[RankReplay, ...]
    missing: str
    trusted: bool
    caution: str
    lateness: str
    def to_json(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...

class Profile:
    """The costs of one training step, layer by layer, and what had to be assumed."""

    model: str
    device: str
    batch_samples: float
    step_s: float
    lone_step_s: float
    gradient_bytes: float
    activation_bytes: float
    layers: tuple[Layer, ...]
    tensors: tuple[Tensor, ...]
    """In the order in which their gradients become ready."""
    ready_s: npt.NDArray[np.float64]
    """When they do, from the start of the forward pass."""
    backward_order: tuple[int, ...]
    """Layers in the order of the backward pass."""
    step_times_s: npt.NDArray[np.float64]
    assumed: tuple[str, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    check: SelfCheck
    @staticmethod
    def from_json(text: str, source: str = "profile") -> Profile: ...
    def to_json(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def replace(self, *, batch_samples: float | None = None, model: str | None = None) -> Profile: ...
    def on(self, cluster: Cluster, *, same_device: bool = False, faster_compute: float = 0) -> Profile:
        """The profile as it would be on the cluster's device, where that is not the traced one: keep the traced compute
        times, or divide them. Without it, predictions on other devices raise `InputError`."""

def read(*files: File, model: str = "", batch: float = 0, kernels: File | None = None, strict: bool = False,
         check: bool = True) -> Profile:
    """The profile of the traces of a run's ranks (files, or their bytes), or the one that a file holds.

    `model` names a shipped list of parameters for traces without shapes; `check=False` leaves the replay out.
    """

def describe(model: str, device: str, *, batch: float = 1) -> Profile:
    """The profile of a model that nobody traced: "gpt:hidden=4096,layers=32,heads=32,seq=2048" on a shipped device."""

class Cluster:
    """Machines, their links, and what is known of the collectives on them."""

    name: str
    workers: int
    nodes: int
    per_node: int
    network_bytes_per_s: float
    network_latency_s: float
    inside_bytes_per_s: float
    inside_latency_s: float
    servers: int
    collective: str
    device: str
    device_memory_bytes: float
    relative_error: float
    provenance: tuple[str, ...]
    def __init__(self, cluster: str | PathLike[str] = "", *, workers: int = 0, per_node: int = 0,
                 network: Quantity = "", inside: Quantity = "", servers: int = 0, device_memory: Quantity = "",
                 collective: str = "", slow_worker: str = "", late_worker: str = "", degraded_link: str = "",
                 jitter: str = "", switch: str = "") -> None:
        """A shipped name or a JSON file, or what the flags of the same names say on the command line."""
    @staticmethod
    def from_json(text: str, source: str = "cluster") -> Cluster: ...
    def to_json(self) -> str: ...
    def replace(self, *, network: Quantity | None = None, latency: Quantity | None = None,
                workers: int | None = None) -> Cluster: ...

class Prediction:
    profile: Profile
    cluster: Cluster
    plan: str
    iteration_s: float
    interval_low_s: float
    interval_high_s: float
    step_spread_s: float
    compute_s: float
    exposed_communication_s: float
    hidden_communication_s: float
    codec_s: float
    input_stall_s: float
    bubble_s: float
    idle_s: float
    throughput_samples_per_s: float
    memory_bytes: float
    messages: int
    bound: str
    critical_path: tuple[str, ...]
    warnings: tuple[str, ...]
    steady: bool
    def to_json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...

class RankedPlan:
    prediction: Prediction
    standard: Prediction
    speed_up: float
    settings: str
    machines: int

class Ranking(Sequence[RankedPlan]):
    """Plans, best first: the exact ones, then those that change the arithmetic, if allowed (`others`)."""

    profile: Profile
    cluster: Cluster
    baseline: Prediction
    best: RankedPlan
    exact: tuple[RankedPlan, ...]
    others: tuple[RankedPlan, ...]
    inapplicable: Mapping[str, str]
    holds: tuple[float, float] | None
    """Network bandwidths in bytes per second between which the best plan stays best."""
    def to_json(self) -> str: ...
    def to_text(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> RankedPlan: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[RankedPlan, ...]: ...

class Sweep:
    """Rows of a sweep, as columns."""

    profile: Profile
    cluster: Cluster
    axes: tuple[str, ...]
    plans: tuple[str, ...]
    points: int
    cross_overs: tuple[tuple[float, str, str], ...]
    """Where, along the first axis, another plan becomes the best: value, plan below, plan above. Of a whole grid."""
    def values(self, axis: str) -> npt.NDArray[np.float64]: ...
    def __len__(self) -> int: ...
    def to_csv(self, *, header: bool = True) -> str: ...
    def to_json_lines(self) -> str: ...
    def to_svg(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def to_numpy(self) -> npt.NDArray[np.float64]:
        """Step times of shape (values of axis 1, ..., values of axis n, plans); NaN where a plan cannot run."""

class WhatIf:
    def to_json(self) -> str: ...
    def to_text(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...
    profiles: Mapping[str, Profile]

Traced = Profile | File

def predict(profile: Traced, cluster: Cluster, plan: str | CommPlan) -> Prediction: ...
def compare(profile: Traced, cluster: Cluster, plans: Iterable[str | CommPlan] | None = None, *, all: bool = False) -> Ranking: ...
def recommend(profile: Traced, cluster: Cluster, *, allow: Iterable[Literal["lossy", "stale", "periodic"]] = (),
              plans: Iterable[str] | None = None, tune: bool = True, search: Literal["grid", "bayesian"] = "grid",
              sensitivity: bool = True) -> Ranking: ...
def sweep(profile: Traced, cluster: Cluster, plans: Iterable[str] | None = None, *,
          over: Mapping[str, str | Sequence[Quantity] | npt.NDArray[np.float64]], tune: bool = False,
          threads: int = 0, first: int = 0, last: int | None = None) -> Sweep:
    """Plans over a grid: over={"bandwidth": "1Gb/s..100Gb/s", "workers": [2, 4, 8]}; rows of points [first, last)."""
def replay(*files: File, strict: bool = False) -> SelfCheck: ...
def whatif(profile: Traced, scenarios: str | Iterable[str], *, cluster: Cluster | None = None, plan: str = "ddp") -> WhatIf: ...
def report(profile: Traced, cluster: Cluster, *, validation: bool = True) -> str:
    """The page of `stepcast report`: one self-contained HTML document."""
def timeline(profile: Traced, cluster: Cluster, plan: str | CommPlan) -> str:
    """The timeline of a plan as Chrome trace events (JSON, for ui.perfetto.dev)."""

class Model:
    """A profile on a cluster, prepared once and asked for thousands of plans."""

    profile: Profile
    cluster: Cluster
    def __init__(self, profile: Traced, cluster: Cluster) -> None: ...
    def iteration_s(self, plan: str) -> float: ...
    @overload
    def predict_many(self, plans: Sequence[str], *, threads: int = 1) -> npt.NDArray[np.float64]:
        """Step times in seconds, NaN where a plan cannot run: of a list of plans, or of one plan with an option set to
        each of the values of an array: `model.predict_many("dear", bucket=np.geomspace(1e6, 1e8, 1000))`."""
    @overload
    def predict_many(self, plans: str, *, threads: int = 1, **option: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def predict(self, plan: str | CommPlan) -> Prediction: ...
    def recommend(self, **options: Any) -> Ranking: ...
    def on(self, cluster: Cluster) -> Model: ...

class CommPlan:
    """A plan of one's own: what is sent, when it may start, and who waits for it (comm_plan.hpp)."""

    name: str
    profile: Profile
    messages: int
    uncovered: str
    """Why some gradients are never sent; empty where all are."""

    def __init__(self, name: str, profile: Profile, *, update: Literal["after_backward", "before_forward", "on_server"] = "after_backward",
                 period: int = 1) -> None: ...
    def channel(self, name: str, discipline: Literal["fifo", "in_order", "priority", "parallel"] = "fifo", credit: Quantity = 0) -> int: ...
    def transfer(self, operation: str, tensors: range | int, *, channel: int = 0, priority: int = 0,
                 size: Quantity | None = None, carries_gradient: bool = True, delay: float = 0,
                 overhead: float = 0) -> int:
        """Adds a message that carries a run of tensors in gradient-ready order; its number."""
    def edge(self, source: tuple[str, int], target: tuple[str, int], *, lag: int = 0, source_phase: int = 0,
             target_phase: int = 0) -> None:
        """`target` starts after `source` ended: ("backward", layer), ("forward", layer), ("transfer", n), ("update", 0)."""
    @property
    def flaw(self) -> str:
        """What is wrong with the plan, in words; empty if nothing is."""

class Option:
    """A value that a strategy or a modifier takes: its type, default, accepted range, and what to search (SI units)."""

    name: str
    kind: Literal["size", "duration", "count", "number", "choice"]
    summary: str
    standard: float
    low: float
    high: float
    choices: tuple[str, ...]
    """Of a choice: how its values are written; empty otherwise. The default is `choices[int(standard)]`."""
    tuned: bool
    """Searched by `recommend`."""
    tune_low: float
    tune_high: float
    """Range worth searching; low to high where nothing narrower is known."""

class Listed:
    name: str
    title: str
    summary: str
    reference: str
    fidelity: Literal["exact", "lossy", "stale", "periodic"]
    """What it does to the arithmetic of training (exact for collectives)."""
    options: tuple[Option, ...]
    usual_base: str
    """Of a modifier: the strategy that it is offered with; empty otherwise."""

def strategies() -> tuple[Listed, ...]: ...
def modifiers() -> tuple[Listed, ...]: ...
def collectives() -> tuple[Listed, ...]: ...
def clusters() -> tuple[str, ...]: ...
def devices() -> tuple[str, ...]: ...
def models() -> tuple[str, ...]: ...
def validate(*suites: str, root: str | PathLike[str] = ".") -> pd.DataFrame:
    """Predictions beside measurements: one row a case (suite, case, split, predicted, measured, relative error)."""
def calibrate(*files: File, per_node: int = 0, name: str = "", collective: str = "") -> tuple[Cluster, pd.DataFrame]:
    """The cluster behind measured collectives (nccl-tests logs, CSV), and the residuals of its fit."""
