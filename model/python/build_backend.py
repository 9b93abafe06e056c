"""Builds the wheel and the source distribution of stepcast: a PEP 517 backend of the standard library alone.

The wheel is what CMake builds and installs (component `python`), zipped with its metadata; the source distribution is
what git knows of, or the whole folder where there is no git. Nothing is fetched. `pip install . -C cmake=-DX=Y` passes
arguments on to CMake; CMAKE_ARGS in the environment does, too.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"project\(stepcast VERSION ([0-9.]+)", text)
    if not found:
        raise RuntimeError("CMakeLists.txt does not say the version")
    return found[1]


def _metadata() -> str:
    fields = [
        "Metadata-Version: 2.1", "Name: stepcast", f"Version: {_version()}",
        "Summary: Forecasts the step time of distributed deep-learning training from profiler traces",
        "Requires-Python: >=3.9", "Requires-Dist: numpy",
        "Provides-Extra: tables", 'Requires-Dist: pandas; extra == "tables"',
        "Provides-Extra: sweeps", 'Requires-Dist: distributed; extra == "sweeps"',
        "Provides-Extra: search", 'Requires-Dist: optuna; extra == "search"',
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(fields) + "\n\n" + (ROOT / "README.md").read_text()


def _tag() -> str:
    abi = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{abi}-{abi}-{platform}"


def _wheel_text() -> str:
    return f"Wheel-Version: 1.0\nGenerator: stepcast\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _built(folder: Path, settings: dict | None) -> Path:
    """Runs CMake; the folder that then holds the package."""
    build, installed = folder / "build", folder / "installed"
    given = (settings or {}).get("cmake", [])
    more = ([given] if isinstance(given, str) else list(given)) + shlex.split(os.environ.get("CMAKE_ARGS", ""))
    ninja = ["-G", "Ninja"] if subprocess.run(["ninja", "--version"], capture_output=True).returncode == 0 else []
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(build), *ninja, "-DCMAKE_BUILD_TYPE=Release", "-DSTEPCAST_TESTS=OFF",
         "-DSTEPCAST_PYTHON=ON", f"-DPython_EXECUTABLE={sys.executable}", "-DSTEPCAST_PYTHON_FOLDER=.", *more],
        ["cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1), "--target", "stepcast_python"],
        ["cmake", "--install", str(build), "--component", "python", "--strip", "--prefix", str(installed)],
    ):
        subprocess.run(command, check=True, stdout=sys.stderr)
    return installed


def _write_wheel(path: Path, files: dict[str, bytes]) -> None:
    """A wheel with its record; equal files give equal bytes."""
    info = f"stepcast-{_version()}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            wheel.writestr(entry, data)

        for name, data in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(name, data)
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode())


def _information() -> dict[str, bytes]:
    return {"METADATA": _metadata().encode(), "WHEEL": _wheel_text().encode(),
            "LICENSE": (ROOT / "LICENSE").read_bytes()}


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict | None = None) -> str:
    """Without it the whole wheel would be built to learn its name."""
    info = f"stepcast-{_version()}.dist-info"
    (Path(metadata_directory) / info).mkdir()
    for name, data in _information().items():
        (Path(metadata_directory) / info / name).write_bytes(data)
    return info


def build_wheel(wheel_directory: str, config_settings: dict | None = None,
                metadata_directory: str | None = None) -> str:
    info = f"stepcast-{_version()}.dist-info"
    with tempfile.TemporaryDirectory(prefix="stepcast-") as temporary:
        # A folder that stays makes the second build quick.
        kept = os.environ.get("STEPCAST_BUILD_FOLDER")
        installed = _built(Path(kept or temporary).resolve(), config_settings)
        files = {f"stepcast/{path.name}": path.read_bytes() for path in (installed / "stepcast").iterdir()
                 if path.is_file()}
    files |= {f"{info}/{name}": data for name, data in _information().items()}
    name = f"stepcast-{_version()}-{_tag()}.whl"
    _write_wheel(Path(wheel_directory) / name, files)
    return name


def _source_files() -> list[Path]:
    """What git knows of and is there; without git, everything but build folders."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        names = [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        names = [name for name in names if name.parts[0] not in ("build", ".git") and "__pycache__" not in name.parts]
    return sorted(name for name in names if (ROOT / name).is_file())


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    base = f"stepcast-{_version()}"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        def add(name: str, data: bytes, mode: int) -> None:
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))

        for name in _source_files():
            executable = os.access(ROOT / name, os.X_OK)
            add(name.as_posix(), (ROOT / name).read_bytes(), 0o755 if executable else 0o644)
        add("PKG-INFO", _metadata().encode(), 0o644)
    (Path(sdist_directory) / f"{base}.tar.gz").write_bytes(gzip.compress(out.getvalue(), mtime=0))
    return f"{base}.tar.gz"
