#!/usr/bin/env python3
"""Tests of the parts that need neither torch nor a GPU; where stepcast is built also of the commands that it is given."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import comparison  # noqa: E402
import layout_matrix  # noqa: E402
import matrix  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "cli" / "stepcast"


def step_profile(batch, scale=1.0):
    """A profile with 1 ms of host time, (1 + batch) ms of device time and 2 ms of input, all times `scale`."""
    cost = {"host_s": 5e-4 * scale, "device_s": 5e-4 * scale * (1 + batch), "device_gemm_s": 4e-4 * scale * batch}
    return {"schema": "stepcast.profile/1", "model": "m", "device": "NVIDIA Test", "batch_samples": batch,
            "host_waits_for_device": True, "input_s": 2e-3 * scale,
            "layers": [{"name": "layer", "forward": cost, "backward": cost}],
            "optimizer": {"host_s": 3e-3 * scale, "device_s": 1e-4 * scale}}


class Layouts(unittest.TestCase):
    CASES = pathlib.Path(__file__).resolve().parents[1] / "cases"

    def test_names_are_unique(self):
        names = [r.name for r in layout_matrix.layouts()]
        self.assertEqual(len(set(names)), len(names))

    def runs_of(self, card):
        path = pathlib.Path(__file__).parent / card / "layouts.json"
        return {r["name"]: r for r in json.loads(path.read_text())["runs"]}

    def test_cases_are_runs_that_were_recorded(self):
        known = {r.name: r for r in layout_matrix.layouts()}
        for card, least in (("h100", 40), ("h200", 50)):
            runs = self.runs_of(card)
            cases = json.loads((self.CASES / f"{card}.json").read_text())["cases"]
            self.assertGreaterEqual(len(cases), least)
            for case in cases:
                run, layout, inputs = runs[case["id"]], known[case["id"]], case["inputs"]
                self.assertNotIn("note", run)
                self.assertAlmostEqual(case["measured_s"], run["step_s"], delta=1e-5 * run["step_s"])
                self.assertEqual((inputs["model"], inputs["plan"], inputs["workers"], inputs["global_batch"]),
                                 (layout.description, layout.plan, layout.devices, layout.batch * layout.dp))

    def test_cases_of_memory_are_runs_that_were_recorded(self):
        cases = json.loads((self.CASES / "memory.json").read_text())["cases"]
        of_h100 = {c["id"] for c in json.loads((self.CASES / "h100.json").read_text())["cases"]}
        for card, counts in (("h100", lambda run: run["name"] in of_h100), ("h200", lambda run: "dp" in run)):
            of_card = {c["id"][5:]: c["measured_bytes"] for c in cases if c["id"].startswith(card + "/")}
            self.assertEqual(of_card, {name: run["allocated_bytes"] for name, run in self.runs_of(card).items()
                                       if counts(run)})


class Matrix(unittest.TestCase):
    def test_names_are_unique_and_bases_come_first(self):
        runs = matrix.configurations(matrix.MODELS)
        self.assertEqual(len({r.name for r in runs}), len(runs))
        self.assertEqual(runs[0], matrix.base_of("resnet50"))

    def test_every_comparison_is_of_runs_that_are_collected(self):
        for tiny in (False, True):
            runs = set(matrix.configurations(matrix.MODELS, tiny))
            for c in matrix.comparisons(matrix.MODELS, tiny):
                self.assertLessEqual({r for r in (c.base, c.target, c.other) if r}, runs)
                self.assertNotEqual(c.base, c.target)
                self.assertEqual(c.base.model, c.target.model)

    def test_a_comparison_changes_what_its_name_says(self):
        for c in matrix.comparisons(matrix.MODELS):
            changed = {k for k, v in c.base.record().items() if c.target.record()[k] != v}
            expected = {"batch": {"batch"}, "amp": {"precision"}, "fused_optimizer": {"fused"}, "cuda_graphs": {"graph"},
                        "faster_input": {"loader"}}
            self.assertEqual(changed, set().union(*(expected[w.split("(")[0]] for w in c.what.split("+"))))


class Rows(unittest.TestCase):
    def setUp(self):
        b = matrix.base_of("vit_b")
        self.comparison = next(c for c in matrix.comparisons(["vit_b"]) if c.other)
        c = self.comparison
        self.results = {name: {"name": name, "step_s": step, "trace": trace}
                        for name, step, trace in ((c.base.name, 0.10, "a"), (c.other.name, 0.18, "b"),
                                                  (c.target.name, 0.30, None))}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("a", "b"):
            (self.folder / name).touch()
        self.assertEqual(c.base, b)

    def row(self, answer):
        return comparison.row_of(self.comparison, self.results, self.folder, "stepcast", answer)

    def test_prediction_is_told_the_measured_steps_and_stands_beside_that_of_the_trace_alone(self):
        commands = []
        row = self.row(lambda command: commands.append(command) or ((0.10, 0.33) if "--step" in command else (0.12, 0.45)))
        self.assertAlmostEqual(row.predicted_s, 0.33)
        self.assertAlmostEqual(row.traced_s, 0.12)
        self.assertAlmostEqual(row.alone_s, 0.45)
        self.assertIn("+50.0 %", comparison.table_of([row]))
        self.assertEqual(commands[0][commands[0].index("--step") + 1], "100.000000ms")
        self.assertEqual(commands[0][commands[0].index("--other-step") + 1], "180.000000ms")
        self.assertNotIn("--other-step", commands[1])
        self.assertAlmostEqual(row.error, 0.10)
        self.assertIn("--other-batch", commands[0])
        self.assertEqual(commands[0][commands[0].index("--other-samples") + 1], f"{self.comparison.other.batch}")
        self.assertIn("0.33", f"{row.predicted_s:.2f}")

    def test_outside_tolerance_fails_and_shown_only_does_not(self):
        row = self.row(lambda _: (0.1, 0.4))
        self.assertTrue(row.failed)
        self.assertEqual(comparison.summary_of([row])[1], 1)
        self.assertIn("**fails**", comparison.table_of([row]))
        row.judged = False
        self.assertFalse(row.failed)
        self.assertEqual(comparison.summary_of([row])[1], 0)

    def test_what_is_missing_is_said_and_comparing_nothing_is_a_failure(self):
        inapplicable = self.row(lambda _: "amp: computed on the host")
        profile = self.folder / f"{self.comparison.base.name}.profile.json"
        (self.folder / "a").rename(profile)
        kept = self.row(lambda command: (0.1, 0.3) if str(profile) in command else self.fail("the profile was kept"))
        self.assertEqual(kept.missing, "")
        profile.unlink()
        untraced = self.row(lambda _: self.fail("must not be asked"))
        del self.results[self.comparison.target.name]
        unmeasured = self.row(lambda _: self.fail("must not be asked"))
        self.assertIn("computed on the host", comparison.table_of([inapplicable]))
        self.assertTrue(untraced.missing.startswith("no trace"))
        self.assertTrue(unmeasured.missing.startswith("not measured"))
        self.assertEqual(comparison.summary_of([inapplicable, untraced, unmeasured])[1], 1)


class Program(unittest.TestCase):
    """The commands are understood, and every what-if of the matrix is one of stepcast's."""

    def setUp(self):
        if not PROGRAM.exists():
            self.skipTest(f"{PROGRAM} is not built; see --program")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, profile):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps(profile))
        return path

    def test_every_what_if_of_the_matrix_is_answered(self):
        base = self.write("a.json", step_profile(8))
        for what in sorted({c.what for c in matrix.comparisons(matrix.MODELS)}):
            answer = comparison.answer_of(comparison.whatif_command(PROGRAM, base, 8, what))
            self.assertIsInstance(answer, tuple, f"{what}: {answer}")

    def test_two_traces_give_the_line_through_them(self):
        small, large = self.write("a.json", step_profile(8)), self.write("b.json", step_profile(16))
        command = comparison.whatif_command(PROGRAM, small, 8, "batch(to=32)", large, 16)
        expected = comparison.answer_of(comparison.whatif_command(PROGRAM, self.write("c.json", step_profile(32)), 32,
                                                                  "scale(layers=*)"))
        self.assertAlmostEqual(comparison.answer_of(command)[1], expected[0], places=9)

    def test_a_whole_folder_is_checked(self):
        runs = []
        for c in matrix.configurations(["vit_b"]):
            self.write(c.name + ".json", {**step_profile(c.batch), "step_times_s": [0.1]})
            runs.append({**c.record(), "name": c.name, "step_s": 0.1, "trace": c.name + ".json"})
        self.write("results.json", {"schema": "stepcast.gpu_results/1", "tiny": False, "device": "d", "torch": "t",
                                    "cuda": "c", "runs": runs})
        check = pathlib.Path(__file__).resolve().parent / "check"
        done = subprocess.run([sys.executable, check, self.folder.name, "--program", PROGRAM], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)  # equal steps at every batch: predictions must fail
        self.assertIn("**fails**", done.stdout)


class Shipped(unittest.TestCase):
    """The tables that are shipped are what `check` says of the profiles beside them."""

    def test_tables_are_reproduced(self):
        if not PROGRAM.exists():
            self.skipTest(f"{PROGRAM} is not built; see --program")
        folder = pathlib.Path(__file__).resolve().parent
        for results in sorted(folder.glob("*/results.json")):
            table = results.with_name("table.md").read_text()
            done = subprocess.run([sys.executable, folder / "check", results.parent, "--program", PROGRAM],
                                  capture_output=True, text=True)
            self.assertEqual(done.stdout, table, f"{results.parent.name}: 'check {results.parent} -o "
                                                 f"{results.with_name('table.md')}' writes it anew; review the difference")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="default: %(default)s")
    PROGRAM = parser.parse_args().program
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules["__main__"]))
    bad = len(result.failures) + len(result.errors)
    print(f"gpu scripts: {result.testsRun - bad - len(result.skipped)} passed, {bad} failed")
    sys.exit(1 if bad else 0)
