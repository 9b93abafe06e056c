"""What people pass in, as the compiled module takes it: files as named bytes, quantities as exact texts.

Whatever is no such thing is an `InputError` that names the argument. Nothing is guessed: truth values, bytes and complex
numbers are no numbers, although Python would convert them.
"""

from __future__ import annotations

import collections.abc
import decimal
import itertools
import numbers
import operator
import os
import stat
from collections.abc import Iterable
from typing import Any

from . import _stepcast
from .errors import InputError

_SUFFIXES = (".json",)
_BYTES: Any = (bytes, bytearray, memoryview)
_MOST_VALUES = 10_000_001  # of an axis: one more than the rows of any sweep


def shown(value: Any) -> str:
    """What was found, in a few words."""
    plain = value is None or isinstance(value, (str, bytes, bool, int, float, complex))
    try:
        text = repr(value) if plain else type(value).__name__
    except ValueError:  # an integer of thousands of digits
        text = type(value).__name__
    return text if len(text) <= 80 else text[:80] + "..."


def text_of(value: Any, where: str) -> str:
    """A text that UTF-8 can write."""
    if not isinstance(value, str):
        raise InputError(where, "a text", shown(value))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(where, "a text in Unicode", shown(value)) from None
    return value


def number_of(value: Any, where: str, expected: str = "a number") -> float:
    """A real number of any type, also of NumPy's."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise InputError(where, expected, shown(value))


def count_of(value: Any, where: str, least: int = 0) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    is_truth = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if count is None or is_truth or not least <= count < 2**63:
        raise InputError(where, f"a whole number from {least}" if least > -2**31 else "a whole number", shown(value))
    return count


def flag_of(value: Any, where: str) -> bool:
    is_one = isinstance(value, int) or (getattr(value, "ndim", None) == 0 and value.dtype.kind == "b")
    if not is_one or value not in (0, 1):
        raise InputError(where, "True or False", shown(value))
    return bool(value)


def plans_of(plans: Any, own: Any = ()) -> Any:
    """A list of plans, of which those of the class `own` need no text; None stays. A text alone is one plan."""
    if plans is None:
        return None
    if isinstance(plans, (str, _stepcast.CommPlan)):
        plans = [plans]
    if not isinstance(plans, Iterable):
        raise InputError("plans", "a plan or a list of plans", shown(plans))
    return [plan if isinstance(plan, own) else text_of(plan, f"plans[{i}]") for i, plan in enumerate(plans)]


def texts_of(texts: Any, where: str) -> list[str]:
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Iterable):
        raise InputError(where, "a text or a list of texts", shown(texts))
    return [text_of(text, where) for text in texts]


def measured_of(measured: Any) -> list[str]:
    """Measured steps as texts, "plan=12.3 s"; of a mapping from plans to times."""
    if not isinstance(measured, collections.abc.Mapping):
        return texts_of(measured, "measured")
    return [text_of(plan, "measured") + "=" + (time if isinstance(time, str) else f"{number_of(time, 'measured')!r} s")
            for plan, time in measured.items()]


def axes_of(over: Any) -> list[tuple[str, Any]]:
    """Names of axes, and their values: a text, or numbers in SI units."""
    try:
        axes = dict(over)
    except (TypeError, ValueError):
        raise InputError("over", "axes and their values, such as {'bandwidth': '1Gb/s..10Gb/s'}", shown(over)) from None
    return [(text_of(name, "over"), _values_of(values, f"axis {name!r}")) for name, values in axes.items()]


def _values_of(values: Any, where: str) -> Any:
    if isinstance(values, str):
        return text_of(values, where)
    if isinstance(values, (*_BYTES, collections.abc.Mapping, collections.abc.Set)):
        raise InputError(where, "a text, or numbers in SI units", shown(values))
    is_one = not isinstance(values, Iterable) or getattr(values, "ndim", None) == 0
    each = [values] if is_one else list(itertools.islice(values, _MOST_VALUES))
    if not any(isinstance(value, str) for value in each):
        return [number_of(value, where, "a text, or numbers in SI units") for value in each]
    exact = {"axis 'bandwidth'": _stepcast.exact_rate, "axis 'latency'": _stepcast.exact_time}.get(where, repr)
    return ",".join(text_of(value, where) if isinstance(value, str) else exact(number_of(value, where))
                    for value in each)


def shown_name(path: str | bytes) -> str:
    """How messages name a file; names of files need not be UTF-8."""
    return os.fsdecode(path).encode("utf-8", "replace").decode()


def named(file: Any, position: int = 0) -> tuple[str, Any]:
    """The bytes of a file, or those given, with the name to use in messages. A file is not mapped: one that is cut
    meanwhile would end the interpreter."""
    if isinstance(file, _BYTES):
        name = f"bytes {position + 1}" if position else "bytes"
        try:
            view = memoryview(file)
            return name, view if view.c_contiguous else view.tobytes()
        except (ValueError, NotImplementedError) as error:  # released, or items of an odd format
            raise InputError(name, "bytes that can be read", str(error)) from None
    try:
        path = os.fspath(file)
    except TypeError:
        raise InputError(f"file {position + 1}", "a path or bytes", type(file).__name__) from None
    name = shown_name(path)
    try:
        with open(path, "rb") as opened:
            if stat.S_ISCHR(os.fstat(opened.fileno()).st_mode) and not opened.isatty():
                raise InputError(name, "a readable file", "a device")  # some never end
            return name, opened.read()
    except IsADirectoryError:
        raise InputError(name, "a readable file", "a folder") from None
    except (OSError, ValueError) as error:
        raise InputError(name, "a readable file", getattr(error, "strerror", None) or str(error)) from None


def text_of_file(file: Any) -> tuple[str, str]:
    """Name and text of a small file."""
    name, data = named(file)
    try:
        return name, bytes(data).decode()
    except UnicodeDecodeError:
        raise InputError(name, "text in UTF-8", "other bytes") from None


def read(files: Iterable[Any], model: str, batch: float, parameters: float, step: Any, kernels: Any, strict: bool,
         check: bool, recorded: bool = False) -> Any:
    """The profile that the files hold or that their traces give."""
    samples = number_of(batch, "batch", "a number of samples")
    count = number_of(parameters, "parameters", "a number of parameters")
    model = text_of(model, "model")
    sources = [named(file, i) for i, file in enumerate(files)]
    rules = [] if kernels is None else [named(kernels)]
    return _stepcast.read(sources, model, samples, count, _step(step), rules, flag_of(strict, "strict"),
                          flag_of(check, "check"), flag_of(recorded, "recorded"))


def _step(step: Any) -> str:
    """A time as a text: "204 ms"; a number is seconds."""
    return text_of(step, "step") if isinstance(step, str) else f"{number_of(step, 'step', 'seconds, or a text'):.12g} s"


def profile_of(traced: Any) -> Any:
    """A profile, or that of the trace that a file holds."""
    return traced if isinstance(traced, _stepcast.Profile) else read([traced], "", 0, 0, "", None, False, True)


def _quantity(value: Any, exact: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return text_of(value, where)
    return exact(number_of(value, where, "a number, or a text with a unit"))


def _factor(value: Any, where: str) -> str:
    """Of a number without a unit, or a text."""
    return _quantity(value, repr, where)


def _count(value: Any, where: str) -> str:
    """Nothing for 0, which is as if not given."""
    if isinstance(value, str):
        return text_of(value, where)
    count = 0 if value is None else count_of(value, where, -2**63)
    return str(count) if count else ""


def size_of(value: Any, where: str) -> float:
    if isinstance(value, str):
        return _stepcast.size_of(text_of(value, where), where)
    return number_of(value, where, "a number, or a text with a unit")


def replaced_cluster(cluster: Any, *, network: Any = None, latency: Any = None, workers: Any = None) -> Any:
    """The cluster with other links or another number of machines."""
    return cluster._replaced(_quantity(network, _stepcast.exact_rate, "network"),
                             _quantity(latency, _stepcast.exact_time, "latency"),
                             None if workers is None else count_of(workers, "workers"))


def replaced_profile(profile: Any, *, batch_samples: Any = None, model: Any = None) -> Any:
    """The profile under another name, or of another batch."""
    return profile._replaced(None if batch_samples is None else number_of(batch_samples, "batch_samples"),
                             None if model is None else text_of(model, "model"))


def profile_on(profile: Any, cluster: Any, *, same_device: Any = False, faster_compute: Any = 0) -> Any:
    """The profile as it would be on the cluster's device."""
    return profile._on(cluster, flag_of(same_device, "same_device"), number_of(faster_compute, "faster_compute"))


def _levels(level: Any) -> str:
    """Levels of a network, one text or several, as one."""
    if isinstance(level, str):
        return text_of(level, "level")
    try:
        texts = list(level)
    except TypeError:
        raise InputError("level", "a text such as 'spine:16, oversubscribed=2', or a list of them",
                         shown(level)) from None
    return ";".join(text_of(text, "level") for text in texts)


def cluster_of(cluster: Any = "", *, workers: Any = 0, per_node: Any = 0, network: Any = "", inside: Any = "",
               servers: Any = 0, device_memory: Any = "", collective: str = "", slow_worker: Any = "",
               late_worker: Any = "", degraded_link: Any = "", jitter: Any = "", switch: str = "", loss: Any = "",
               stalls: Any = "", rto: Any = "", level: Any = "", background: Any = "", connection: str = "",
               nccl_algo: str = "", nccl_proto: str = "") -> Any:
    """The cluster that these words describe."""
    words = {
        "workers": _count(workers, "workers"),
        "per_node": _count(per_node, "per_node"),
        "network": _quantity(network, _stepcast.exact_rate, "network"),
        "inside": _quantity(inside, _stepcast.exact_rate, "inside"),
        "servers": _count(servers, "servers"),
        "device_memory": _quantity(device_memory, _stepcast.exact_size, "device_memory"),
        "collective": text_of(collective, "collective"),
        "slow_worker": _factor(slow_worker, "slow_worker"),
        "late_worker": _quantity(late_worker, _stepcast.exact_time, "late_worker"),
        "degraded_link": _factor(degraded_link, "degraded_link"),
        "jitter": _factor(jitter, "jitter"),
        "switch": text_of(switch, "switch"),
        "loss": _factor(loss, "loss"),
        "stalls": _factor(stalls, "stalls"),
        "rto": _quantity(rto, _stepcast.exact_time, "rto"),
        "level": _levels(level),
        "background": _factor(background, "background"),
        "connection": _quantity(connection, _stepcast.exact_rate, "connection"),
        "nccl_algo": text_of(nccl_algo, "nccl_algo"),
        "nccl_proto": text_of(nccl_proto, "nccl_proto"),
    }
    if not isinstance(cluster, (str, bytes, os.PathLike)):
        raise InputError("cluster", "the name of a shipped cluster, or a path", shown(cluster))
    name = shown_name(os.fspath(cluster))
    if not name:
        return _stepcast.described_cluster(words, None)
    is_file = not isinstance(cluster, str) or "/" in name or name.endswith(_SUFFIXES)
    text = text_of_file(cluster)[1] if is_file else None
    return _stepcast.described_cluster({"cluster": name, **words}, text)
