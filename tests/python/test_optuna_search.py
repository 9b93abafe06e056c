"""The example of an optimiser: finds what the exhaustive search finds, says the same for the same seed."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

import stepcast

if importlib.util.find_spec("optuna") is None:
    raise unittest.SkipTest("python3-optuna is missing")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz")
CLUSTER = {"workers": 16, "per_node": 4, "network": "1GbE"}


def search(*flags):
    example = str(ROOT / "model/python/examples/optuna_search.py")
    done = subprocess.run([sys.executable, example, TRACE, "--workers", "16",
                           "--per-node", "4", "--network", "1GbE", *flags], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


class OptunaSearch(unittest.TestCase):
    def test_finds_a_plan_as_good_as_the_recommended_one(self):
        code, said, errors = search("--trials", "200", "--seed", "1")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(search("--trials", "200", "--seed", "1"), (code, said, errors))  # deterministic
        self.assertRegex(said, r"(?m)^pruned +\d+ x \S")
        plan, milliseconds = re.search(r"(?m)^optimiser +(.*): ([0-9.]+) ms, trial", said).groups()
        model = stepcast.Model(stepcast.read(TRACE), stepcast.Cluster(**CLUSTER))
        self.assertAlmostEqual(model.iteration_s(plan) * 1e3, float(milliseconds), delta=0.006)
        self.assertRegex(said, r"(?m)^within 1 %  after \d+ trials$")

    def test_finalists_are_measured(self):
        code, said, errors = search("--trials", "60", "--allow", "lossy", "--finalists", "2",
                                    "--measure", "sh -c 'echo step; echo 0.25'")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(len(re.findall(r"(?m)^measured +.*: 250\.00 ms, predicted [0-9.]+ ms$", said)), 2)

    def test_no_plan_can_run(self):
        code, said, errors = search("--trials", "3", "--network", "nonsense")
        self.assertEqual((code, said), (1, ""))
        self.assertRegex(errors, r"^network: .*nonsense.*\n$")


if __name__ == "__main__":
    unittest.main()
