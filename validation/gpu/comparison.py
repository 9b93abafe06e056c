"""Predictions of `stepcast whatif` against measured steps; standard library only.

`stepcast whatif` is told the measured step of the base run (--step), with which it takes the profiler's own cost out of
the host's work: a ratio of two traced steps would take a cost that only the host has for one of the device, too. The
prediction is the measured step times the ratio that is found between the step after and before the change, which
leaves a misfit of the base out. What the trace alone would have told, profiler included, is shown beside it.
"""
import gzip
import json
import subprocess
from dataclasses import dataclass


@dataclass
class Row:
    base: str
    what: str
    target: str
    tolerance: float
    judged: bool
    measured_s: float = None
    predicted_s: float = None
    gain: float = None            # measured, base over target
    traced_s: float = None        # the base trace's step, rebuilt
    alone_s: float = None         # predicted from the trace alone
    base_s: float = None          # the base's step without the profiler
    missing: str = ""             # why there is no comparison

    @property
    def error(self):
        return None if self.predicted_s is None else self.predicted_s / self.measured_s - 1

    @property
    def failed(self):
        return self.judged and self.error is not None and abs(self.error) > self.tolerance


def whatif_command(program, trace, samples, what, other=None, other_samples=None, step=None, other_step=None):
    """`step` and `other_step`: seconds without the profiler, where they are known."""
    command = [str(program), "whatif", str(trace), "--batch", f"{samples:g}", "--what", what, "--json"]
    if other is not None:
        command += ["--other-batch", str(other), "--other-samples", f"{other_samples:g}"]
    for flag, seconds in (("--step", step), ("--other-step", other_step)):
        if seconds is not None:
            command += [flag, f"{1e3 * seconds:.6f}ms"]
    return command


def answer_of(command):
    """(step before, step after), or the reason why there is none."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        return done.stderr.strip() or f"stepcast ended with code {done.returncode}"
    answer = json.loads(done.stdout)
    scenario = answer["scenarios"][0]
    if scenario["inapplicable"]:
        return scenario["inapplicable"]
    return answer["base"]["alone_s"], scenario["alone_s"]


def recorded_in(folder, run, scratch=None):
    """The run's trace, or its profile where only that was kept (compressed: unpacked into `scratch`); None: neither."""
    profile = f"{run['name']}.profile.json"
    for name in (run.get("trace"), profile):
        if name and (folder / name).exists():
            return folder / name
    packed = folder / f"{profile}.gz"
    if scratch is None or not packed.exists():
        return None
    (scratch / profile).write_bytes(gzip.decompress(packed.read_bytes()))
    return scratch / profile


def row_of(comparison, results, folder, program, answer=answer_of, scratch=None):
    """`results` by name of the configuration; `answer` runs a command; `scratch`: where profiles are unpacked."""
    c = comparison
    row = Row(c.base.name, c.what, c.target.name, c.tolerance, c.judged)
    runs = [r for r in (c.base, c.target, c.other) if r is not None]
    absent = [r.name for r in runs if results.get(r.name, {}).get("step_s") is None]
    if absent:
        row.missing = "not measured: " + ", ".join(absent)
        return row
    recorded = {r.name: recorded_in(folder, results[r.name], scratch) for r in (c.base, c.other) if r is not None}
    untraced = [name for name, path in recorded.items() if path is None]
    if untraced:
        row.missing = "no trace: " + ", ".join(untraced)
        return row
    step, other, other_step = results[c.base.name]["step_s"], {}, {}
    if c.other is not None:
        other = {"other": recorded[c.other.name], "other_samples": c.other.batch}
        other_step = {"other_step": results[c.other.name]["step_s"]}
    trace = recorded[c.base.name]
    found = answer(whatif_command(program, trace, c.base.batch, c.what, **other, step=step, **other_step))
    alone = answer(whatif_command(program, trace, c.base.batch, c.what, **other))
    if isinstance(found, str) or isinstance(alone, str):
        row.missing = found if isinstance(found, str) else alone
        return row
    before, after = found
    row.base_s, row.measured_s = step, results[c.target.name]["step_s"]
    row.predicted_s = row.base_s * after / before
    row.traced_s, row.alone_s = alone
    row.gain = row.base_s / row.measured_s
    return row


def table_of(rows):
    """The rows as a Markdown table."""
    lines = ["| base | what if | measured | gain | predicted | error | tolerance | | traced / untraced base | error "
             "by the trace alone |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]
    for row in rows:
        if row.missing:
            lines.append(f"| {row.base} | `{row.what}` | | | | | | not compared: {row.missing} | | |")
            continue
        verdict = "**fails**" if row.failed else "" if row.judged else "shown only"
        lines.append(f"| {row.base} | `{row.what}` | {1e3 * row.measured_s:.2f} ms | {row.gain:.2f}x | "
                     f"{1e3 * row.predicted_s:.2f} ms | {100 * row.error:+.1f} % | {100 * row.tolerance:.0f} % | "
                     f"{verdict} | {row.traced_s / row.base_s:.2f} | {100 * (row.alone_s / row.measured_s - 1):+.1f} % |")
    return "\n".join(lines) + "\n"


def summary_of(rows):
    """One line, and the exit code: 1 when a row fails or nothing could be compared."""
    compared = [r for r in rows if not r.missing]
    failed = [r for r in rows if r.failed]
    errors = sorted(abs(r.error) for r in compared if r.judged)
    median = f"; median error {100 * errors[len(errors) // 2]:.1f} %" if errors else ""
    text = (f"{len(compared)} of {len(rows)} what-ifs compared, {len(failed)} outside tolerance{median}")
    return text, 1 if failed or not compared else 0
