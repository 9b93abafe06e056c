#!/usr/bin/env python3
"""Tests of the laboratory's arithmetic; needs neither root nor PyTorch nor a quiet machine."""
import io
import json
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import accounting  # noqa: E402
import across  # noqa: E402
import cases  # noqa: E402
import emulation  # noqa: E402
import matrix  # noqa: E402
import network  # noqa: E402
import plans  # noqa: E402
import readers  # noqa: E402
import report  # noqa: E402


def usage(**changes):
    """What a worker reports of ten idle seconds."""
    idle = {"wall_s": 10, "busy_s": 8, "stolen_s": 0, "own_s": 4, "main_s": 3, "other_s": 1, "waited_s": 0.5,
            "processor": 0}
    return idle | changes


class Links(unittest.TestCase):
    def test_no_packet_is_larger_than_the_bucket(self):
        for rate in (50, 100, 300, 1000, 3000, 10000):
            self.assertLess(network.offload_bytes(rate), network.burst_bytes(rate))
        self.assertEqual(network.burst_bytes(1000), 125_000)  # 1 ms
        self.assertEqual(network.offload_bytes(0), 65_536)

    def test_the_device_has_a_name_that_gloo_takes(self):
        self.assertGreater(len(network.DEVICE), 1)


class Quiet(unittest.TestCase):
    def test_own_time_is_not_foreign(self):
        foreign, wait = accounting.disturbance([usage(), usage(processor=1)], 2)
        self.assertEqual((foreign, wait), (0, 0))
        self.assertTrue(accounting.is_quiet(foreign, wait))

    def test_others_are(self):
        foreign, _ = accounting.disturbance([usage(busy_s=10), usage(processor=1)], 2)
        self.assertAlmostEqual(foreign, 0.1)
        self.assertFalse(accounting.is_quiet(foreign, 0))

    def test_so_is_the_hypervisor(self):
        self.assertAlmostEqual(accounting.disturbance([usage(stolen_s=2), usage(processor=1)], 2)[0], 0.1)

    def test_waiting_for_a_thread_of_the_laboratory_is_no_disturbance(self):
        waiting = usage(waited_s=4.5)
        self.assertAlmostEqual(accounting.disturbance([waiting, usage(processor=1)], 2)[1], 0.35)
        self.assertEqual(accounting.disturbance([waiting, usage()], 2)[1], 0)


class Matrix(unittest.TestCase):
    def test_names_of_jobs_read_back(self):
        for name in ("gpt", "emu-gpt", "gpt@2", "emu-resnet18@8", "gpt+compile"):
            self.assertEqual(matrix.job_of(name).name, name)
        self.assertEqual(matrix.job_of("gpt@4").name, "gpt")  # the usual batch
        for name in ("vgg16", "gpt@x", "gpt+fast", "", "emu-"):
            with self.assertRaises(ValueError):
                matrix.job_of(name)

    def test_the_split_is_by_model(self):
        self.assertEqual({matrix.job_of(name).split for name in ("gpt", "emu-gpt@2", "gpt+compile")}, {"held_out"})
        self.assertEqual(set(matrix.SPLIT), set(matrix.BATCHES))

    def test_every_strategy_of_the_matrix_has_a_name_that_is_taken(self):
        for strategies in [*matrix.whole().values(), *matrix.QUICK.values()]:
            for strategy in strategies:
                self.assertTrue(plans.is_strategy(strategy), strategy)

    def test_the_quick_matrix_has_forty_rows(self):
        quick = matrix.configurations(matrix.QUICK, [2, 4], processors=2)
        self.assertGreaterEqual(len([c for c in quick if c[2] != "local"]), 40)
        self.assertEqual(len(quick), len(set(quick)))

    def test_only_what_fits_is_tried(self):
        found = matrix.configurations(matrix.whole(), [2, 4], processors=2)
        self.assertTrue(all(job.startswith("emu-") for job, world, _ in found if world == 4))
        self.assertTrue(all("gpt" in job for job, _, strategy in found if strategy.startswith(("tp", "sp", "pp"))))
        self.assertEqual({job for job, _, strategy in found if strategy == "embeddings"}, {"recommender"})
        self.assertNotIn(("emu-gpt", 2, "hsdp:block"), found)
        self.assertIn(("emu-gpt@2", 2, "pp:1f1b:2"), found)
        self.assertNotIn(("emu-gpt@2", 4, "pp:1f1b:2"), found)  # fewer micro-batches than stages
        self.assertIn(("emu-gpt", 4, "hsdp:block"), found)

    def test_one_rate_measures_all_and_the_others_a_few(self):
        self.assertEqual(matrix.at_rate(1000, "gpt@2", matrix.REAL), matrix.REAL)
        for rate in (300, 3000, 10000):
            self.assertLess(len(matrix.at_rate(rate, "gpt", matrix.REAL)), 10)
            self.assertEqual(matrix.at_rate(rate, "gpt+compile", matrix.REAL), [])


class Readers(unittest.TestCase):
    def test_a_ring_may_lie_across_the_edges_of_what_was_traced(self):
        self.assertEqual(readers.across_the_edges("ddp:25", 4), readers.ACROSS_THE_EDGE)
        self.assertEqual(readers.across_the_edges("dear:5", 2), readers.ACROSS_THE_EDGE)
        self.assertEqual(readers.across_the_edges("dear:5", 4), 6)


class Across(unittest.TestCase):
    ROW = {"job": "gpt", "workers": 2, "link_mbit": 1000, "trace_of": "ddp:25", "trace_workers": 2, "trace_mbit": 1000}

    def test_changes_are_told_in_words(self):
        for a, b, change in (("ddp:25", "ddp:25", "none"), ("ddp:25", "ddp:1", "DDP otherwise"),
                             ("ddp:25", "fsdp:block", "DDP -> FSDP2"), ("zero1:25", "wfbp", "ZeRO-1 -> wfbp")):
            self.assertEqual(across.change_of(self.ROW | {"strategy": a}, self.ROW | {"strategy": b}), change)
        self.assertEqual(across.change_of(self.ROW | {"strategy": "wfbp"},
                                          self.ROW | {"strategy": "wfbp", "workers": 4, "link_mbit": 300}),
                         "workers, rate")

    def test_pairs_that_are_apart_are_in_order_or_not(self):
        found = [self.ROW | {"measured_ms": m, "predicted_ms": p}
                 for m, p in ((100, 90), (104, 80), (200, 210), (300, 205), (400, None))]
        # 100 and 104 are too near, what is not predicted does not count, and 200 and 300 are in the wrong order.
        self.assertEqual(across.ordered_pairs(found), (4, 5))


class Plans(unittest.TestCase):
    def test_strategies_map_to_plans(self):
        for strategy, plan in (("noov:25", "bsp(bucket=25 MiB)"), ("ddp:5", "ddp(bucket=5 MiB, first=5 MiB)"),
                               ("wfbp", "wfbp"),
                               ("ddp:25:view", "ddp(bucket=25 MiB, first=25 MiB)"),
                               ("powersgd:1", "ddp(first=25 MiB)+powersgd(rank=1)"),
                               ("accumulate:4", "ddp(first=25 MiB)+accumulate(steps=4)"), ("fsdp:block:ring", "layout(zero=3)/ddp")):
            self.assertEqual(plans.plan_of(strategy), plan)
        self.assertEqual(plans.plan_of("tp", 2, 4), "layout(tp=2, mb=4)/ddp")
        self.assertEqual(plans.plan_of("pp:1f1b:4", 2, 4), "layout(pp=2, schedule=1f1b, mb=1)/ddp")
        self.assertIsNone(plans.plan_of("hsdp:block", 4, 4))
        for other in ("pp:zbv:4", "fsdp:model", "fsdp:block:keep", "fsdp:block:2:ring"):
            self.assertIsNone(plans.plan_of(other, 4, 4), other)

    def test_what_runs_on_the_ring_is_predicted_with_its_tables(self):
        self.assertEqual([plans.runs_on_ring(s) for s in ("dear:5", "fsdp:block:ring", "fsdp:block", "ddp:25")],
                         [True, True, False, False])

    def test_workers_of_one_model_share_a_batch(self):
        self.assertEqual([plans.samples_of(s, 2, 4) for s in ("tp", "pp:1f1b:4", "ddp:25", "fsdp:block")], [4, 4, 8, 8])

    def test_names_are_checked(self):
        for name in ("ddp:25", "wfbp", "pp:1f1b:2", "fsdp:model", "fsdp:block:2:ring", "ddp:5:view:static"):
            self.assertTrue(plans.is_strategy(name), name)
        for name in ("ddp", "wfbp:1", "ddp:x", "ddp:0", "nccl:1", "", "pp:2", "pp:1f1b", "fsdp", "fsdp:block:fast",
                     "ddp:25:ring"):
            self.assertFalse(plans.is_strategy(name), name)

    def test_half_of_the_processes_are_servers(self):
        self.assertEqual(plans.workers_of("ps:1", 4), (2, 2))
        self.assertEqual(plans.workers_of("rpc", 4), (2, 2))
        self.assertEqual(plans.workers_of("ddp:1", 4), (4, 0))

    def test_calibration_is_checked_against_the_line(self):
        line = 16 * 2 ** 20 / (network.GOODPUT * 1e9 / 8)
        self.assertEqual(plans.calibration_warnings(1000, 2, [(1 << 24, line * 1.02), (1024, 1.0)]), [])
        self.assertEqual([s for s, _ in plans.calibration_warnings(1000, 2, [(1 << 24, line * 1.2)])], [1 << 24])
        self.assertEqual(plans.calibration_warnings(1000, 4, [(1 << 24, line * 1.5)]), [])

    def test_the_ring_has_tables_of_its_own(self):
        points = {2: {"all_reduce": [(1024, 1e-3)], "all_gather": [(1024, 4e-3)], "ring_all_gather": [(1024, 2e-3)]}}
        for ring, expected in ((False, 4e-3), (True, 2e-3)):
            tables = plans.cluster_of(1000, points, ring=ring)["tables"]
            self.assertEqual([(t["operation"], t["times_s"]) for t in tables],
                             [("all_reduce", [1e-3]), ("all_gather", [expected])])

    def test_tables_never_fall(self):
        self.assertEqual(plans.increasing([(2, 0.1), (1, 0.2), (3, 0.3)]), [(1, 0.2), (2, 0.2), (3, 0.3)])

    def test_contention_is_the_ratio_of_two_lines(self):
        alone, busy = [(1000, 2e-3), (2000, 3e-3)], [(1000, 6e-3), (2000, 8e-3)]
        factors = plans.contention_of(alone, busy, 0.2, 0.25)
        self.assertEqual(factors, {"network_under_compute": 2, "latency_under_compute": 4,
                                   "compute_under_communication": 1.25})

    def test_no_prediction_is_no_error(self):
        with tempfile.TemporaryDirectory() as folder:
            for code, text, expected in ((0, '{"iteration_s": 0.25}', {"iteration_s": 0.25}),
                                         (0, '{"reason": "not here"}', {"refused": "not here"}),
                                         (1, "", {"refused": ""}), (2, "bad", {"refused": "bad"})):
                program = pathlib.Path(folder) / "stepcast"
                program.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
                program.chmod(program.stat().st_mode | stat.S_IXUSR)
                self.assertEqual(plans.predicted(str(program), ["p"], "c", "ddp", 2), expected)

    def test_stepcast_takes_the_cluster_and_the_profile(self):
        program = os.environ.get("STEPCAST") or shutil.which("stepcast")
        if not program:
            self.skipTest("STEPCAST names no program")
        with tempfile.TemporaryDirectory() as folder:
            profile, cluster = pathlib.Path(folder) / "p.json", pathlib.Path(folder) / "c.json"
            profile.write_text(json.dumps(emulation.profile_of("m", Emulation.recorded, 8, "test")))
            points = {2: {"all_reduce": [(1024, 1e-3), (1 << 20, 9e-3)], "ring_all_gather": [(1024, 1e-3)],
                          "send": [(1024, 1e-3)]}}
            cluster.write_text(json.dumps(plans.cluster_of(1000, points, ring=True)))
            alone = plans.predicted(program, [str(profile)], str(cluster), "bsp", 1)["iteration_s"]
            self.assertAlmostEqual(alone, 0.1 + 0.2 + 0.01, places=6)
            both = plans.predicted(program, [str(profile)], str(cluster), plans.plan_of("noov:25"), 2)["iteration_s"]
            self.assertAlmostEqual(both - alone, 1e-3 + (8192 + 400 - 1024) / ((1 << 20) - 1024) * 8e-3, places=6)


class Emulation(unittest.TestCase):
    recorded = {"forward_s": 0.1, "backward_s": 0.21, "optimizer_s": 0.01, "gradients": [
        {"name": "b", "block": "two", "shape": [100], "ready_s": 0.0500},
        {"name": "w", "block": "two", "shape": [32, 64], "ready_s": 0.0502},
        {"name": "a", "block": "one", "shape": [], "ready_s": 0.2}]}

    def test_gradients_that_are_ready_together_form_a_stage(self):
        stages = emulation.stages_of(self.recorded)
        self.assertEqual([[t["name"] for t in s["tensors"]] for s in stages], [["a"], ["b", "w"]])
        self.assertAlmostEqual(sum(s["forward_s"] for s in stages), 0.1)
        self.assertAlmostEqual(stages[1]["backward_s"], 0.0502)

    def test_a_stage_ends_with_its_block(self):
        apart = self.recorded | {"gradients": [g | {"block": g["name"]} for g in self.recorded["gradients"]]}
        self.assertEqual([s["block"] for s in emulation.stages_of(apart)], ["a", "w", "b"])

    def test_the_profile_lists_tensors_in_the_order_of_readiness(self):
        profile = emulation.profile_of("m", self.recorded, 8, "test")
        self.assertEqual([t["name"] for t in profile["tensors"]], ["b", "w", "a"])
        self.assertEqual([t["size_bytes"] for t in profile["tensors"]], [400, 8192, 4])
        self.assertEqual(profile["tensors"][0]["layer"], "stage1")


class Traces(unittest.TestCase):
    def test_names_and_an_unused_group_are_left_out(self):
        sys.modules.setdefault("torch", types.ModuleType("torch"))  # tracing needs it, cleaning does not
        import trace
        text = '{\n  "distributedInfo": {"rank": 0, "pg_config": [{"ranks": [0, 1]}]},\n  "host_name": "me",\n  "n": 1}'
        self.assertEqual(json.loads(trace.without_names(text, 1)), {"host_name": "", "n": 1})
        self.assertEqual(set(json.loads(trace.without_names(text, 2))), {"distributedInfo", "host_name", "n"})


class Rows(unittest.TestCase):
    key = ("emu-resnet18", 4, 1000, "ddp:25")

    def blocks(self):
        quiet = {"foreign": 0.01, "wait": 0.0, "quiet": True, "operations": [2.0] * 4}
        return [{"times_s": [0.1, 0.1, 0.1], **quiet}, {"times_s": [0.104, 0.104, 0.104], **quiet},
                {"times_s": [0.9, 0.9, 0.9], **quiet, "foreign": 0.5, "quiet": False}]

    def predicted(self, at=0, seconds=0.09):
        return report.with_prediction(report.row_of(self.key, self.blocks()[at:]), "ddp(bucket=25 MiB)",
                                      {"iteration_s": seconds})

    def test_disturbed_blocks_count_only_where_there_is_no_other(self):
        row = report.row_of(self.key, self.blocks())
        self.assertEqual((row["iterations"], row["blocks"], row["quiet"]), (6, 2, True))
        self.assertAlmostEqual(row["measured_ms"], 102)
        self.assertAlmostEqual(row["noise_percent"], 100 * 2 / 102)
        self.assertFalse(report.row_of(self.key, self.blocks()[2:])["quiet"])

    def test_quantiles_interpolate(self):
        self.assertEqual([report.quantile([3, 1, 2], q) for q in (0, 0.25, 0.5, 1)], [1, 1.5, 2, 3])

    def test_cases_are_quiet_predicted_and_free_of_noise(self):
        row = self.predicted()
        noisy, disturbed = row | {"strategy": "ddp:1", "noise_percent": 8.0}, row | {"quiet": False}
        said = types.SimpleNamespace(steps={}, profiles={"emu-resnet18": {}, "other": {}},
                                     clusters={"lab-1000mbit": {}, "lab-3000mbit": {}})
        layout = row | {"strategy": "fsdp:block", "plan": "layout(zero=3)/ddp"}
        suite = cases.suite_of("mine", "here", [row, noisy, disturbed, layout, row | {"predicted_ms": None}], said)
        self.assertEqual([c["id"] for c in suite["cases"]],
                         [f"emu-resnet18/1000 Mb/s/4/{s}" for s in ("ddp:25", "ddp:1", "fsdp:block")])
        self.assertEqual(["excluded" in c for c in suite["cases"]], [False, True, False])
        self.assertEqual([c["inputs"].get("global_batch") for c in suite["cases"]], [None, None, 64])
        self.assertEqual({c["split"] for c in suite["cases"]}, {"calibration"})
        self.assertEqual((list(suite["profiles"]), list(suite["clusters"])), (["emu-resnet18"], ["lab-1000mbit"]))
        self.assertEqual(json.loads(cases.text_of(suite)), suite)

    def test_the_table_says_why_there_is_no_prediction(self):
        row = report.row_of(self.key, self.blocks())
        rows = [self.predicted(), report.with_prediction(row, None, {"refused": "stepcast has no plan for it"}),
                report.failed_row(("gpt", 2, 1000, "pp:zb:4"), "a worker failed: no answer")]
        table = report.table(rows)
        self.assertIn("-11.8 %", table)
        self.assertIn("stepcast has no plan for it", table)
        self.assertIn("not measured: a worker failed", table)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write_rows(pathlib.Path(folder), [report.row_of(self.key, self.blocks())])
            report.write_results(pathlib.Path(folder), {"rates": [1000]})
            text = (pathlib.Path(folder) / "results.csv").read_text()
            self.assertEqual(text.splitlines()[0], ",".join(report.COLUMNS))
            self.assertIn("emu-resnet18,calibration,4,1000,ddp:25", text)
            self.assertEqual(json.loads((pathlib.Path(folder) / "results.json").read_text())["rates"], [1000])

    def test_summary_leaves_disturbed_rows_out(self):
        said = report.summary([self.predicted(seconds=0.1), self.predicted(2, 0.1)])
        self.assertIn("-2.0 %", said)
        self.assertNotIn("-88", said)
        self.assertIn("1 rows (!) were disturbed", said)

    def test_the_noise_floor_is_how_far_medians_moved(self):
        earlier = {("emu-resnet18", 4, 1000, "ddp:25"): 100.0, ("gpt", 2, 1000, "tp"): 50.0}
        row = report.row_of(self.key, self.blocks())
        self.assertIn("1 rows measured in both", report.moved([row], earlier))
        self.assertIn("2.0 %", report.moved([row], earlier))

    def test_a_suite_of_the_laboratory_is_an_earlier_run(self):
        medians = report.read_medians(pathlib.Path(__file__).resolve().parents[1] / "cases" / "lab_pytorch.json")
        self.assertGreater(len(medians), 30)
        self.assertTrue(all(matrix.job_of(job) and world in (2, 4) and plans.is_strategy(strategy) and ms > 1
                            for (job, world, _, strategy), ms in medians.items()))


if __name__ == "__main__":
    stream = io.StringIO()
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=stream).run(tests)
    failed = len(result.failures) + len(result.errors)
    if failed:
        print(stream.getvalue())
    print(f"laboratory: {result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
