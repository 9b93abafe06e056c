"""What people pass in, as the compiled module takes it: files as named bytes, quantities as exact texts."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from typing import Any

from . import _stepcast
from .errors import InputError

_SUFFIXES = (".json",)


def shown_name(path: str | bytes) -> str:
    """How messages name a file; names of files need not be UTF-8."""
    return os.fsdecode(path).encode("utf-8", "replace").decode()


def named(file: Any, position: int = 0) -> tuple[str, Any]:
    """A file, mapped where possible, or the bytes themselves, with the name to use in messages."""
    if isinstance(file, (bytes, bytearray, memoryview)):
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
            try:
                return name, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            except (ValueError, OSError):  # empty, or no regular file
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


def read(files: Iterable[Any], model: str, batch: float, kernels: Any, strict: bool, check: bool) -> Any:
    """The profile that the files hold or that their traces give."""
    sources = [named(file, i) for i, file in enumerate(files)]
    rules = [] if kernels is None else [named(kernels)]
    try:
        samples = float(batch)
    except (TypeError, ValueError):
        raise InputError("batch", "a number of samples", repr(batch)) from None
    return _stepcast.read(sources, model, samples, rules, strict, check)


def profile_of(traced: Any) -> Any:
    """A profile, or that of the trace that a file holds."""
    return traced if isinstance(traced, _stepcast.Profile) else read([traced], "", 0, None, False, True)


def _quantity(value: Any, exact: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return exact(float(value))
    except (TypeError, ValueError):
        raise InputError(where, "a number, or a text with a unit", repr(value)) from None


def bandwidth_text(value: Any) -> str:
    return _quantity(value, _stepcast.exact_rate, "network")


def time_text(value: Any) -> str:
    return _quantity(value, _stepcast.exact_time, "latency")


def size_of(value: Any, where: str) -> float:
    try:
        return _stepcast.size_of(value, where) if isinstance(value, str) else float(value)
    except TypeError:
        raise InputError(where, "a number, or a text with a unit", repr(value)) from None


def cluster_of(cluster: Any = "", *, workers: int = 0, per_node: int = 0, network: Any = "", inside: Any = "",
               servers: int = 0, device_memory: Any = "", collective: str = "", slow_worker: Any = "",
               late_worker: Any = "", degraded_link: Any = "", jitter: Any = "", switch: str = "") -> Any:
    """The cluster that these words describe."""
    words = {
        "workers": str(workers) if workers else "",
        "per_node": str(per_node) if per_node else "",
        "network": _quantity(network, _stepcast.exact_rate, "network"),
        "inside": _quantity(inside, _stepcast.exact_rate, "inside"),
        "servers": str(servers) if servers else "",
        "device_memory": _quantity(device_memory, _stepcast.exact_size, "device_memory"),
        "collective": collective,
        "slow_worker": str(slow_worker),
        "late_worker": _quantity(late_worker, _stepcast.exact_time, "late_worker"),
        "degraded_link": str(degraded_link),
        "jitter": str(jitter),
        "switch": switch,
    }
    name = shown_name(os.fspath(cluster))
    if not name:
        return _stepcast.described_cluster(words, None)
    is_file = not isinstance(cluster, str) or "/" in name or name.endswith(_SUFFIXES)
    text = text_of_file(cluster)[1] if is_file else None
    return _stepcast.described_cluster({"cluster": name, **words}, text)
