"""How results look: lines for a terminal, tables for pandas, HTML for notebooks."""

from __future__ import annotations

import io
import json
import operator
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from . import _stepcast
from .errors import InputError
from .files import (  # noqa: F401: methods of compiled classes are looked up here
    count_of, flag_of, measured_of, number_of, plans_of, profile_on, replaced_cluster, replaced_profile, shown, size_of,
    text_of, texts_of)

_time, _size, _rate = _stepcast.time_text, _stepcast.size_text, _stepcast.rate_text


def _lines(title: str, rows: Iterable[tuple[str, str]]) -> str:
    rows = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def _few(values: Iterable[str], most: int = 3) -> str:
    values = list(values)
    more = len(values) - most
    return "; ".join(values[:most]) + (f"; and {more} more" if more > 0 else "")


def _frame(rows: Iterable[Any], columns: list[str]) -> Any:
    import pandas as pd  # not needed by those who never ask for a table

    return pd.DataFrame(list(rows), columns=columns)


# ---- profiles ----

def tensor_repr(t: Any) -> str:
    return f"Tensor({t.name!r}, shape={t.shape}, {_size(t.bytes)}, layer={t.layer})"


def layer_repr(l: Any) -> str:
    device = l.forward_device_s or l.backward_device_s
    forward, backward = (l.forward_device_s, l.backward_device_s) if device else (l.forward_host_s, l.backward_host_s)
    return f"Layer({l.name!r}, forward={_time(forward)}, backward={_time(backward)})"


def rank_replay_repr(r: Any) -> str:
    return f"RankReplay({r.source!r}, measured={_time(r.measured_s)}, replayed={_time(r.replayed_s)})"


def check_repr(c: Any) -> str:
    rows = [(r.source, f"{_time(r.replayed_s)} rebuilt, {_time(r.measured_s)} measured: {r.relative_error:+.1%}")
            for r in c.ranks]
    traced = [("as traced", as_traced_repr(c.as_traced))] if c.as_traced else []
    return _lines("SelfCheck", [*rows, *traced, ("missing", c.missing), ("caution", c.caution),
                                ("lateness", c.lateness)])


def as_traced_repr(t: Any) -> str:
    if t.missing:
        return f"{t.plan}: cannot say: {t.missing}" if t.plan else f"cannot say: {t.missing}"
    return f"{t.plan}: {_time(t.predicted_s)} predicted, {_time(t.measured_s)} measured: {t.relative_error:+.1%}"


def check_frame(c: Any) -> Any:
    names = ["source", "measured_s", "replayed_s", "relative_error", "scored", "doubtful", "note"]
    return _frame(([getattr(r, name) for name in names] for r in c.ranks), names)


def _profile_rows(p: Any) -> list[tuple[str, str]]:
    return [
        ("model", p.model),
        ("device", p.device or "the host"),
        ("batch", f"{p.batch_samples:g} samples" if p.batch_samples else ""),
        ("step", (f"{_time(p.step_s)} measured, " if p.step_s else "") + f"{_time(p.lone_step_s)} alone"),
        ("layers", f"{len(p.layers)}, with {len(p.tensors)} parameter tensors"),
        ("gradients", _size(p.gradient_bytes)),
        ("missing", _few(p.missing)),
        ("assumed", _few(p.assumed)),
        ("notes", _few(p.notes)),
        ("caution", p.check.caution),
    ]


def profile_repr(p: Any) -> str:
    return _lines("Profile", _profile_rows(p))


def _html_rows(title: str, rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}"
                    "</td></tr>" for name, value in rows if value)
    return f"<table><caption style='text-align:left'>{escape(title)}</caption>{cells}</table>"


def profile_html(p: Any) -> str:
    return _html_rows("Profile", _profile_rows(p))


def profile_frame(p: Any) -> Any:
    """One row a layer."""
    size = [0.0] * len(p.layers)
    tensors = [0] * len(p.layers)
    for t in p.tensors:
        size[t.layer] += t.bytes
        tensors[t.layer] += 1
    names = ["forward_host_s", "forward_device_s", "backward_host_s", "backward_device_s"]
    rows = ([l.name, *(getattr(l, name) for name in names), tensors[i], size[i]] for i, l in enumerate(p.layers))
    return _frame(rows, ["layer", *names, "tensors", "gradient_bytes"])


# ---- clusters ----

def cluster_repr(c: Any) -> str:
    return _lines(f"Cluster {c.name}", [
        ("workers", f"{c.workers}: {c.nodes} x {c.per_node} {c.device or 'devices'}"),
        ("network", f"{_rate(c.network_bytes_per_s)}, {_time(c.network_latency_s)} a step" if c.nodes > 1 else ""),
        ("inside", f"{_rate(c.inside_bytes_per_s)}, {_time(c.inside_latency_s)} a step" if c.per_node > 1 else ""),
        ("servers", str(c.servers) if c.servers else ""),
        ("memory", _size(c.device_memory_bytes) if c.device_memory_bytes else ""),
        ("from", _few(c.provenance)),
    ])


# ---- predictions ----

_PARTS = _stepcast.breakdown_names


def _prediction_rows(p: Any) -> list[tuple[str, str]]:
    def part(name: str) -> str:
        seconds = getattr(p, name)
        share = "" if name == "hidden_communication_s" else f" ({seconds / p.iteration_s:.0%})"  # it is outside the sum
        return f"{_time(seconds)}{share}" if seconds else ""

    return [
        ("step time", f"{_time(p.iteration_s)} ({_time(p.interval_low_s)} to {_time(p.interval_high_s)})"),
        *((name.removesuffix("_s").split("_")[0], part(name)) for name in _PARTS),
        ("throughput", f"{p.throughput_samples_per_s:.4g} samples/s" if p.throughput_samples_per_s else ""),
        ("memory", _size(p.memory_bytes) if p.memory_bytes else ""),
        ("bound by", p.bound),
        *(("warning", warning) for warning in p.warnings),
    ]


def prediction_repr(p: Any) -> str:
    return _lines(f"{p.plan} on {p.cluster.name}", _prediction_rows(p))


def prediction_html(p: Any) -> str:
    return _html_rows(f"{p.plan} on {p.cluster.name}", _prediction_rows(p))


def dict_of(result: Any) -> Any:
    return json.loads(result.to_json())


# ---- rankings ----

def ranked_repr(r: Any) -> str:
    return f"RankedPlan({r.prediction.plan!r}, {_time(r.prediction.iteration_s)}, speed_up={r.speed_up:.3g})"


def ranking_repr(r: Any) -> str:
    return r.to_text().rstrip("\n")


def ranking_frame(r: Any) -> Any:
    """One row a plan, best first; then those that cannot run, with the reason."""
    names = ["iteration_s", "interval_low_s", "interval_high_s", *_PARTS, "throughput_samples_per_s", "memory_bytes",
             "messages"]
    rows = []
    for group, plans in (("exact", r.exact), ("other", r.others)):
        for plan in plans:
            p = plan.prediction
            rows.append([p.plan, group, plan.speed_up, *(getattr(p, n) for n in names), plan.standard.iteration_s,
                         plan.machines, p.bound, plan.settings, ""])
    empty = [float("nan")] * (len(names) + 1)
    rows += [[plan, "inapplicable", float("nan"), *empty, 0, "", "", why] for plan, why in r.inapplicable.items()]
    return _frame(rows, ["plan", "group", "speed_up", *names, "standard_iteration_s", "machines", "bound", "settings",
                         "inapplicable"])


# Colours of Okabe and Ito, which people with any colour vision can tell apart.
_COLOURS = {"compute": "#0072b2", "exposed": "#d55e00", "codec": "#e69f00", "waiting": "#999999"}


def _bar(p: Any, longest: float) -> str:
    shares = {"compute": p.compute_s, "exposed": p.exposed_communication_s, "codec": p.codec_s,
              "waiting": p.input_stall_s + p.bubble_s + p.idle_s}
    spans = "".join(
        f"<span title='{name}: {escape(_time(seconds))}' style='display:inline-block;height:0.8em;"
        f"width:{100 * seconds / longest:.3f}%;background:{_COLOURS[name]}'></span>"
        for name, seconds in shares.items() if seconds > 0)
    return f"<div style='width:16em;white-space:nowrap;line-height:0.8em' role='img'>{spans}</div>"


def ranking_html(r: Any) -> str:
    plans = [*r.exact, *r.others]
    if not plans:
        return f"<p>No plan can run on {escape(r.cluster.name)}.</p>"
    longest = max(p.prediction.iteration_s for p in plans)
    left = "style='text-align:left'"
    rows = []
    for place, plan in enumerate(plans, 1):
        p = plan.prediction
        what = "" if place <= len(r.exact) else " <em>(changes the arithmetic)</em>"
        rows.append(f"<tr><td>{place}</td><td {left}><code>{escape(p.plan)}</code>{what}</td>"
                    f"<td>{escape(_time(p.iteration_s))}</td><td>{plan.speed_up:.2f} x</td><td {left}>"
                    f"{_bar(p, longest)}</td><td>{escape(_time(p.hidden_communication_s))}</td>"
                    f"<td {left}>{escape(p.bound)}</td></tr>")
    keys = " ".join(f"<span style='color:{colour}'>&#9632;</span> {name}" for name, colour in _COLOURS.items())
    caution = r.profile.check.caution
    notes = [f"{len(r.inapplicable)} plans cannot run there."] if r.inapplicable else []
    if r.holds is not None:
        notes.append(f"The best plan stays best from {_rate(r.holds[0])} to {_rate(r.holds[1])}.")
    if r.other_collective is not None:
        other = r.other_collective.prediction
        notes.append(f"Over another collective, {other.plan}: {_time(other.iteration_s)}.")
    if r.halves is not None:
        half = r.halves.prediction
        notes.append(f"Gradients in two bytes, {half.plan}: {_time(half.iteration_s)}.")
    if caution:
        notes.append(f"Caution: {caution}.")
    return (f"<table><caption {left}>{escape(r.profile.model)} on {escape(r.cluster.name)}. {keys}</caption>"
            f"<thead><tr><th></th><th {left}>plan</th><th>step time</th><th>speed-up</th><th {left}>made of</th>"
            f"<th>hidden</th><th {left}>bound by</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p>{escape(' '.join(notes))}</p>")


# ---- sweeps and what-ifs ----

def sweep_frame(s: Any) -> Any:
    import pandas as pd

    return pd.read_csv(io.StringIO(s.to_csv()), float_precision="round_trip")


def sweep_kept(s: Any, what: str | float) -> list[dict[str, Any]]:
    return [json.loads(line) for line in s._kept_json_lines(str(what)).splitlines()]


def sweep_repr(s: Any) -> str:
    axes = ", ".join(f"{axis} ({len(s.values(axis))})" for axis in s.axes)
    return _lines("Sweep", [("over", axes), ("plans", _few(s.plans, 8)), ("rows", str(len(s)))])


def sweep_html(s: Any) -> str:
    try:
        return s.to_svg()
    except InputError:  # a range of the grid, or more panels than a person can look at
        return f"<pre>{escape(sweep_repr(s))}</pre>"


def text_repr(result: Any) -> str:
    return result.to_text().rstrip("\n")


def whatif_frame(w: Any) -> Any:
    import pandas as pd

    frame = pd.json_normalize(json.loads(w.to_json())["scenarios"])
    return frame.rename(columns=lambda name: name.removeprefix("prediction."))


# ---- searches ----

def document(text: str) -> dict[str, Any]:
    return json.loads(text)  # type: ignore[no-any-return]


# ---- models ----

def model_repr(m: Any) -> str:
    return f"Model({m.profile.model!r} on {m.cluster.name!r})"


def predict_many(model: Any, plans: Any, *, threads: int = 1, **option: Any) -> Any:
    threads = min(count_of(threads, "threads"), 2**31)
    if not isinstance(plans, Iterable):
        raise InputError("plans", "a plan or a list of plans", shown(plans))
    if not isinstance(plans, str):
        if option:
            raise InputError(next(iter(option)), "one plan for the values of an option", "a list of plans")
        return model._of_texts(plans, threads)
    if not option:
        return model._of_texts([plans], threads)
    text_of(plans, "plans")
    for name in option:
        text_of(name, "an option")
    try:
        given = [np.asarray(values) for values in option.values()]
        if any(values.dtype.kind not in "biufO" for values in given):  # which would lose what they mean
            raise ValueError("complex numbers, dates or texts")
        arrays = np.broadcast_arrays(*(values.astype(np.float64, copy=False) for values in given))
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(", ".join(option), "numbers in SI units, in arrays of one shape", str(error)) from None
    return model._of_template(plans, list(zip(option, arrays)), threads)


def recommend_by(model: Any, *, allow: Iterable[str] = (), plans: Iterable[str] | None = None, tune: bool = True,
                 search: str = "grid", sensitivity: bool = True, by_step: bool = False, iterations: float = 0) -> Any:
    return model._recommend(texts_of(allow, "allow"), plans_of(plans), flag_of(tune, "tune"), text_of(search, "search"),
                            flag_of(sensitivity, "sensitivity"), flag_of(by_step, "by_step"),
                            number_of(iterations, "iterations"))


def predict_by(model: Any, plan: Any, *, whatif: str = "", global_batch: float = 0, iterations: float = 0) -> Any:
    if isinstance(plan, _stepcast.CommPlan):
        refuse_beside_own_plan(whatif, global_batch, iterations)
        return model._predict_own(plan)
    return model._predict(text_of(plan, "plan"), text_of(whatif, "whatif"), number_of(global_batch, "global_batch"),
                          number_of(iterations, "iterations"))


def refuse_beside_own_plan(whatif: Any, global_batch: Any, iterations: Any, measured: Any = (),
                           framework: Any = "") -> None:
    """A plan of one's own names the layers and tensors of one profile, which what-ifs and layouts change."""
    if text_of(whatif, "whatif"):
        raise InputError("whatif", "nothing beside a CommPlan", shown(whatif), "ask of the profile after the what-ifs")
    if number_of(global_batch, "global_batch"):
        raise InputError("global_batch", "nothing beside a CommPlan", shown(global_batch))
    if number_of(iterations, "iterations"):
        raise InputError("iterations", "nothing beside a CommPlan", shown(iterations), "it has no warm-up")
    if measured_of(measured):
        raise InputError("measured", "nothing beside a CommPlan", shown(measured))
    if text_of(framework, "framework"):
        raise InputError("framework", "nothing beside a CommPlan", shown(framework))


# ---- plans of one's own, and lists ----

def add_transfer(plan: Any, operation: str, tensors: Any, *, channel: int = 0, priority: int = 0, size: Any = None,
                 carries_gradient: bool = True, delay: float = 0, overhead: float = 0) -> int:
    if isinstance(tensors, range):
        if tensors.step != 1 or not tensors or tensors.stop > 2**31:
            raise InputError("tensors", "a run of tensors, range(first, end)", repr(tensors))
        first, count = tensors.start, len(tensors)
    else:
        try:
            first, count = operator.index(tensors), 1
        except TypeError:
            raise InputError("tensors", "a run of tensors, range(first, end), or one number", shown(tensors)) from None
    number = None if size is None else size_of(size, "size")
    urgency = count_of(priority, "priority", -2**31)
    if not -2**31 <= min(first, urgency) or not max(first, urgency) < 2**31:
        raise InputError("tensors or priority", "numbers of 32 bits", shown(max(first, urgency, key=abs)))
    return plan._transfer(text_of(operation, "operation"), first, count, count_of(channel, "channel"), urgency, number,
                          flag_of(carries_gradient, "carries_gradient"), number_of(delay, "delay"),
                          number_of(overhead, "overhead"))


def add_channel(plan: Any, name: str, discipline: str = "fifo", credit: Any = 0) -> int:
    return plan._channel(text_of(name, "channel"), text_of(discipline, "discipline"), size_of(credit, "credit"))


def add_edge(plan: Any, source: Any, target: Any, *, lag: int = 0, source_phase: int = 0,
             target_phase: int = 0) -> None:
    try:
        plan._edge(source, target, lag, source_phase, target_phase)
    except TypeError:
        found = ", ".join(shown(part) for part in (source, target, lag, source_phase, target_phase))
        raise InputError("edge", "two ends, such as ('backward', 0), and whole numbers", found) from None


def comm_plan_repr(plan: Any) -> str:
    return _lines(f"CommPlan {plan.name}", [("messages", str(plan.messages)), ("flaw", plan.flaw)])


def option_repr(o: Any) -> str:
    if o.kind == "choice":
        return f"Option({o.name!r}, {' | '.join(o.choices)})"
    return f"Option({o.name!r}, {o.kind}, {o.low:g} to {o.high:g}, standard {o.standard:g})"


def listed_repr(l: Any) -> str:
    return f"Listed({l.name!r}, {l.title!r})"
