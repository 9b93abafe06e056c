#!/usr/bin/env python3
"""Asks bash, zsh and fish what they would complete, and man(1)'s tools what they think of the manual page.

usage: run.py --program build/cli/stepcast

Each case is a command line with the cursor at its end, words that have to be among what the shell offers, and words
that must not be. Every shell that is installed is started clean, without anybody's settings; one that is absent is
skipped and said. The help pages are checked as well: 80 columns, and every value has a name of its own.
"""
import argparse
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# (command line, offered, not offered); the folder holds trace.json, clusters/ and "two words.json".
CASES = [
    ("stepcast ", ["recommend", "sweep", "report", "list", "completion"], ["trace.json"]),
    ("stepcast rec", ["recommend"], ["report", "replay"]),
    ("stepcast recommend --sea", ["--search"], ["--strict"]),
    ("stepcast recommend --search ", ["grid", "bayesian"], ["trace.json", "--json"]),
    ("stepcast recommend --objective ", ["step", "memory", "devices", "cost"], ["trace.json"]),
    ("stepcast recommend --cluster ", ["8x1-v100-10gbe", "trace.json"], ["resnet50"]),
    ("stepcast recommend --model ", ["resnet50", "bert_base", "gpt:"], ["trace.json"]),
    ("stepcast predict --plan d", ["ddp", "dear"], ["trace.json"]),
    ("stepcast recommend t", ["trace.json"], ["--help"]),
    ("stepcast recommend --workers 8 trace.json --network 25GbE --json --allow ", ["lossy", "stale"], ["clusters"]),
    ("stepcast list ", ["strategies", "devices"], ["trace.json"]),
    ("stepcast validate ", ["survey"], ["trace.json"]),
    ("stepcast completion ", ["bash", "zsh", "fish"], ["trace.json"]),
    ("stepcast calibrate --start ", ["a100-sxm4-80gb"], ["8x1-v100-10gbe"]),
    ("stepcast whatif --what ", ["amp", "batch"], ["trace.json"]),
]
BASH_CASES = [
    ("stepcast recommend --search=", ["grid", "bayesian"], ["trace.json"]),
    ("stepcast recommend --workers ", [], ["trace.json", "--json", "grid"]),
    ("stepcast recommend --allow lossy,", ["lossy,stale", "lossy,periodic"], ["trace.json"]),
    ("stepcast recommend tw", ["two words.json"], []),
]
FISH_CASES = [("stepcast recommend --allow lossy,", ["lossy,stale"], [])]

BASH = r"""
source "$1"
line=$2
COMP_LINE=$line COMP_POINT=${#line}
read -ra COMP_WORDS <<< "${line//=/ = }"
[[ $line == *[\ =] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete -p stepcast > /dev/null || exit 3
_stepcast
printf '%s\n' "${COMPREPLY[@]}"
"""

# Completion of zsh needs its line editor, which needs a terminal: what it shows after a TAB is what it offers.
ZSH = r"""
cd {folder}; PS1=; LISTMAX=9999; COLUMNS=200; LINES=500; unset zle_bracketed_paste; setopt nolistbeep nobeep
fpath=({scripts} $fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' menu no; unsetopt automenu
mark() {{ zle -I; print -r -- REA''DY }}; zle -N mark; bindkey '^X' mark; print -r -- STA''RTED
"""


def offered_by_bash(script, line, folder):
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", BASH, "bash", script, line], cwd=folder,
                          capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines(), done.stderr


def read_until(terminal, mark, seconds=60):
    text, end = "", time.monotonic() + seconds
    while mark not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # closed
                break
    return text if mark in text else ""


def offered_by_zsh(script, line, folder):
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execlp("zsh", "zsh", "-f", "-i")
    try:
        setup = ZSH.format(folder=shlex.quote(folder), scripts=shlex.quote(os.path.dirname(script)))
        os.write(terminal, setup.encode())
        if not read_until(terminal, "STARTED"):
            return [], "zsh did not start"
        os.write(terminal, line.encode() + b"\t\x18")
        shown = read_until(terminal, "READY")
        # Names that hold what was typed are completed in the line itself.
        return re.findall(r"[^\s,]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", shown)), "" if shown else "no answer"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def offered_by_fish(script, line, folder):
    command = 'source "$argv[1]"; complete -C "$argv[2]"'
    done = subprocess.run(["fish", "--no-config", "-c", command, script, line], cwd=folder, capture_output=True,
                          text=True, timeout=60)
    return [row.split("\t")[0] for row in done.stdout.splitlines()], done.stderr


class Failures:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, what):
        if good:
            self.passed += 1
            return
        self.failed += 1
        print("FAILED: " + what)


def check_shells(program, failures, work):
    folder = os.path.join(work, "files")
    os.makedirs(os.path.join(folder, "clusters"))
    for name in ("trace.json", "two words.json"):
        open(os.path.join(folder, name), "w").close()
    names = {"bash": "stepcast", "zsh": "_stepcast", "fish": "stepcast.fish"}
    askers = {"bash": offered_by_bash, "zsh": offered_by_zsh, "fish": offered_by_fish}
    more = {"bash": BASH_CASES, "zsh": [], "fish": FISH_CASES}
    for shell, name in names.items():
        script = os.path.join(work, shell, name)
        os.makedirs(os.path.dirname(script))
        with open(script, "w") as out:
            subprocess.run([program, "completion", shell], stdout=out, check=True)
        if not shutil.which(shell):
            print(f"skipped: {shell} is not installed")
            continue
        syntax = subprocess.run([shell, "-n", script], capture_output=True, text=True)
        failures.check(syntax.returncode == 0, f"{shell} -n: {syntax.stderr}")
        for line, wanted, unwanted in CASES + more[shell]:
            words, complaint = askers[shell](script, line, folder)
            words = [word.rstrip(" ") for word in words]
            missing = [word for word in wanted if word not in words]
            wrong = [word for word in unwanted if word in words]
            failures.check(not missing and not wrong and not complaint,
                           f"{shell}: '{line}' offers {words}; missing {missing}, too many {wrong} {complaint}")


def check_manual(program, failures, work, verbs):
    page = os.path.join(work, "stepcast.1")
    with open(page, "w") as out:
        subprocess.run([program, "manual"], stdout=out, check=True)
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-P-c", page], capture_output=True, text=True)
        failures.check(done.returncode == 0 and not done.stderr, "groff: " + done.stderr)
        text = re.sub(".\b", "", done.stdout)
        for word in verbs + ["--search", "EXIT STATUS", "--unit-frontier", "powersgd"]:
            failures.check(word in text, f"'{word}' is not in the manual page")
        long = [row for row in text.splitlines() if len(row) > 80]
        failures.check(not long, f"wider than 80 columns: {long[:3]}")
    else:
        print("skipped: groff is not installed")
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
        complaints = [row for row in done.stdout.splitlines() if "missing date" not in row]
        failures.check(not complaints, "mandoc: " + "\n".join(complaints))
    else:
        print("skipped: mandoc is not installed")


def check_help(program, failures):
    """Returns the verbs."""
    top = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  ([a-z]+) ", top.split("Subcommands:")[1], re.M)
    failures.check(len(verbs) >= 13, f"few verbs: {verbs}")
    for verb in [None] + verbs:
        command = [program, "--help"] if verb is None else [program, verb, "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for row in text.splitlines():
            failures.check(len(row) <= 80, f"{verb} --help: wider than 80 columns: {row}")
            failures.check(not re.search(r"^  -.*\b(TEXT|UINT|INT|FLOAT)\b", row), f"{verb} --help: a nameless value: {row}")
        if verb:
            failures.check("Example:\n  " in text, f"{verb} --help: no example")
    return verbs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    program = os.path.abspath(parser.parse_args().program)
    failures = Failures()
    verbs = check_help(program, failures)
    with tempfile.TemporaryDirectory() as work:
        check_shells(program, failures, work)
        check_manual(program, failures, work, verbs)
    print(f"completion: {failures.passed} passed, {failures.failed} failed")
    return 1 if failures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
