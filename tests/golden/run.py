#!/usr/bin/env python3
"""Golden tests: transcripts of the command line, run again and compared.

A transcript is a text file (or a ```console block of a Markdown file) of

    $ stepcast list formats
    what it writes to standard output
    ! what it writes to standard error, line by line
    exit 2

where "exit N" is only written when N is not 0. Commands run in the repository root under bash; $TMP is an empty folder.
--update rewrites the expected text with what the program says now; review the difference.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = pathlib.Path(__file__).resolve().parent / "cases"
DOCUMENTS = ("README.md", "cli/README.md", "profiles/README.md", "validation/README.md")


def output_of(command: str, program: pathlib.Path, scratch: str) -> str:
    environment = dict(os.environ, TMP=scratch, LC_ALL="C.UTF-8", PATH=f"{program.parent}:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    text = done.stdout.decode("utf-8", "replace")
    if text and not text.endswith("\n"):
        text += "\n"
    text += "".join(f"! {line}\n" for line in done.stderr.decode("utf-8", "replace").splitlines())
    if done.returncode != 0:
        text += f"exit {done.returncode}\n"
    return text.replace(scratch, "$TMP")


def replayed(transcript: str, program: pathlib.Path, scratch: str) -> tuple[str, int]:
    """The transcript as the program writes it now, and the number of its commands."""
    out, commands = [], 0
    for line in transcript.splitlines(keepends=True):
        if line.startswith("$ "):
            commands += 1
            out.append(line + output_of(line[2:].rstrip("\n"), program, scratch))
        elif line.startswith("#") and not commands:
            out.append(line)
    return "".join(out), commands


def replayed_file(path: pathlib.Path, program: pathlib.Path) -> tuple[str, str, int]:
    """Expected text, actual text, and number of commands of a transcript or a Markdown file."""
    expected = path.read_text()
    with tempfile.TemporaryDirectory() as scratch:
        if path.suffix != ".md":
            return expected, *replayed(expected, program, scratch)
        count = 0

        def block(match: re.Match) -> str:
            nonlocal count
            text, commands = replayed(match.group(2), program, scratch)
            count += commands
            return match.group(1) + text + match.group(3)

        actual = re.sub(r"(```console\n)(.*?)(```)", block, expected, flags=re.S)
        return expected, actual, count


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", type=pathlib.Path, required=True, help="the stepcast to test")
    arguments.add_argument("--update", action="store_true", help="rewrite the expected text")
    arguments.add_argument("files", nargs="*", type=pathlib.Path,
                           help=f"default: all transcripts, {', '.join(DOCUMENTS)}")
    options = arguments.parse_args()
    if options.program.name != "stepcast" or not os.access(options.program, os.X_OK):
        arguments.error(f"{options.program} is no program named stepcast")
    passed = failed = 0
    for path in options.files or sorted(CASES.glob("*.txt")) + [ROOT / name for name in DOCUMENTS]:
        expected, actual, commands = replayed_file(path, options.program.resolve())
        if commands == 0:
            print(f"{path}: no command found")
            failed += 1
        elif expected == actual:
            passed += commands
        elif options.update:
            path.write_text(actual)
            print(f"{path}: updated")
            passed += commands
        else:
            failed += 1
            difference = subprocess.run(["diff", "-u", "--label", "expected", "--label", "actual", str(path), "-"],
                                        input=actual.encode(), capture_output=True)
            print(f"{path}:\n{difference.stdout.decode()}")
    print(f"golden: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
