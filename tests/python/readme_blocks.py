#!/usr/bin/env python3
"""Runs the Python of the documentation: what a reader copies works, and prints what is shown.

    python3 tests/python/readme_blocks.py [--update] [model/README.md model/python/README.md ...]

Executed are all blocks of these languages, from top to bottom, those of one file in one session:

- ```python: statements;
- ```pycon: `>>>` and its output, as doctest compares it ("..." stands for any text); `--update` writes what is printed;
- ```sh, if every command is `python3 ...`: by this interpreter. Other commands are run elsewhere.

A block that cannot run by itself says so in the line before it: `<!-- not run: needs a training job -->`. They run in a
folder of their own in which the folders of the repository can be seen. Exit status 5 where packages are missing.
"""

import argparse
import contextlib
import doctest
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|pycon|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXCLUDED = re.compile(r"<!-- not run: .+ -->\n\Z")
PACKAGES = ("numpy", "pandas", "optuna", "distributed")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def statements(code, where, session):
    exec(compile(code, where, "exec"), session)  # noqa: S102: this is what the program is for


def dialogue(code, where, session):
    """Runs a dialogue; the failure as text, and the dialogue as it went."""
    test = doctest.DocTestParser().get_doctest(code, session, where, where, 0)
    report, went = io.StringIO(), code

    class Recorded(doctest.DocTestRunner):
        def report_failure(self, out, test, example, got):
            nonlocal went
            super().report_failure(out, test, example, got)
            asked = "".join(f"{'...' if n else '>>>'} {line}\n" for n, line in enumerate(example.source.splitlines()))
            went = went.replace(asked + example.want, asked + got, 1)

    Recorded(optionflags=FLAGS).run(test, out=report.write, clear_globs=False)
    session.update(test.globs)
    return report.getvalue(), went


def commands(code):
    """The commands of a block of shell, if all of them are Python's."""
    lines = code.replace("\\\n", " ").splitlines()
    return code if all(line.startswith("python3 ") for line in lines if line.strip()) else None


def run_commands(code):
    with tempfile.TemporaryDirectory() as folder:
        this = pathlib.Path(folder, "python3")
        this.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        this.chmod(0o755)
        path = os.pathsep.join([folder, os.environ.get("PATH", "")])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], env=os.environ | {"PATH": path}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stdout}")


def check(path, update):
    """The numbers of blocks of a file that passed and failed."""
    text = path.read_text(encoding="utf-8")
    session = {"__name__": "__main__"}
    passed = failed = 0
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        where = f"{path.relative_to(ROOT)}:{line}"
        if EXCLUDED.search(text[:block.start()]) or (language == "sh" and not commands(code)):
            continue
        failure = ""
        try:
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    statements("\n" * (line - 1) + code, str(path), session)
            elif language == "sh":
                run_commands(code)
            else:
                failure, went = dialogue(code, where, session)
                if failure and update:
                    path.write_text(path.read_text(encoding="utf-8").replace(code, went, 1), encoding="utf-8")
        except Exception:
            failure = traceback.format_exc()
        passed, failed = passed + (not failure), failed + bool(failure)
        if failure:
            print(f"{where}:\n{failure}")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path,
                        default=[ROOT / name for name in ("README.md", "model/README.md", "model/python/README.md")])
    parser.add_argument("--update", action="store_true", help="write what dialogues printed")
    flags = parser.parse_args()
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: missing packages: {', '.join(missing)}")
        return 5
    files = [path.resolve() for path in flags.files]
    passed = failed = 0
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            for part in ROOT.iterdir():
                if part.is_dir() and not part.name.startswith(".") and part.name != "build":
                    os.symlink(part, os.path.join(folder, part.name))
            os.chdir(folder)
            good, bad = check(path, flags.update)
            os.chdir(ROOT)
        passed, failed = passed + good, failed + bad
    print(f"readme blocks: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
