"""The Python package: every function on shipped traces, the bytes of the command line, errors, threads, pickles."""

import ast
import gzip
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import stepcast

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = sorted((ROOT / "profiles" / "examples").glob("*.trace.json.gz"))
TRACE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
FLAGS = ["--workers", "16", "--per-node", "4", "--network", "10GbE"]


@pytest.fixture(scope="module")
def profile():
    return stepcast.read(TRACE)


@pytest.fixture(scope="module")
def cluster():
    return stepcast.Cluster(workers=16, per_node=4, network="10GbE")


@pytest.fixture(scope="module")
def ranking(profile, cluster):
    return stepcast.recommend(profile, cluster)


def said(*arguments):
    """What the command line says of the same question."""
    program = os.environ.get("STEPCAST_PROGRAM")
    if not program:
        pytest.skip("STEPCAST_PROGRAM does not name the program to compare with")
    return subprocess.run([program, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, check=True,
                          encoding="utf-8").stdout


def test_a_trace_without_shapes_needs_to_be_told_how_many_parameters_there_are():
    shapeless = gzip.decompress(TRACE.read_bytes()).replace(b"Input Dims", b"Dims")
    told = stepcast.read(shapeless, parameters=11e6)
    assert told.gradient_bytes == pytest.approx(44e6, rel=1e-5)
    assert any("number says" in line for line in told.assumed) and "input shapes" in told.missing
    for wrong in ("many", -1):
        with pytest.raises(stepcast.InputError):
            stepcast.read(shapeless, parameters=wrong)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_traces_are_read_from_paths_and_from_bytes(trace):
    by_path = stepcast.read(trace)
    assert by_path.step_s > 0 and by_path.layers and by_path.tensors
    assert by_path.gradient_bytes == sum(t.bytes for t in by_path.tensors)
    assert len(by_path.to_pandas()) == len(by_path.layers)
    if "1f1b" not in trace.name:  # a stage waits for the other one, and not as long in every step
        assert abs(by_path.check.ranks[0].relative_error) < 0.1 and by_path.check.trusted
    data = trace.read_bytes()
    for form in (data, bytearray(data), memoryview(data)):
        assert [l.name for l in stepcast.read(form).layers] == [l.name for l in by_path.layers]
    assert list(by_path.ready_s) == sorted(by_path.ready_s)
    with pytest.raises(ValueError):
        by_path.step_times_s[0] = 0


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_records_are_those_of_the_command_line(trace):
    os.chdir(ROOT)
    name = trace.relative_to(ROOT)
    p, c = stepcast.read(name), stepcast.Cluster(workers=16, per_node=4, network="10GbE")
    assert stepcast.predict(p, c, "dear(bucket=5 MiB)").to_json() == said("predict", name, *FLAGS, "--plan",
                                                                          "dear(bucket=5 MiB)", "--json")
    if "1f1b" in trace.name:  # a stage of a pipeline, for which no plan of gradients stands
        for ask in (stepcast.compare, stepcast.recommend):
            with pytest.raises(stepcast.InputError, match="between pipeline stages"):
                ask(p, c)
    else:
        assert stepcast.compare(p, c).to_json() == said("compare", name, *FLAGS, "--json")
        assert stepcast.recommend(p, c, allow=["lossy"]).to_json() == said("recommend", name, *FLAGS, "--allow", "lossy",
                                                                           "--json")
    assert stepcast.replay(name).to_json() == said("replay", name, "--json")
    assert stepcast.explain(name) == json.loads(said(name, "--json"))
    assert p.to_json() == said("profile", name, "--json")
    assert stepcast.whatif(p, "batch(to=64)", cluster=c).to_json() == said("whatif", name, *FLAGS, "--what",
                                                                           "batch(to=64)", "--json")


def test_the_best_plan_says_with_which_options_it_is_as_good():
    ranks = [str(ROOT / f"profiles/examples/gpt-cpu-ddp-rank{rank}.pt.trace.json.gz") for rank in (0, 1)]
    found = stepcast.recommend(stepcast.read(*ranks), stepcast.Cluster(workers=16, network="10GbE"))
    said_so = json.loads(found.to_json())["as_good"]
    assert found.as_good == (said_so["low"], said_so["high"]) and found.as_good[0] != found.as_good[1]


def test_why_and_diff_are_the_programs_answers():
    ranks = [str(ROOT / f"profiles/examples/gpt-cpu-ddp-rank{rank}.pt.trace.json.gz") for rank in (0, 1)]
    assert stepcast.why(*ranks) == json.loads(said("why", *ranks, "--json"))
    assert stepcast.diff(*ranks) == json.loads(said("diff", *ranks, "--json"))
    with pytest.raises(stepcast.InputError, match="several ranks"):
        stepcast.why(ranks[0])
    with pytest.raises(stepcast.InputError, match="expected one trace|recording|trace"):
        stepcast.diff(ranks[0], b"{}")


def test_a_prediction_adds_up(profile, cluster):
    p = stepcast.predict(profile, cluster, "dear(bucket=25 MiB)")
    parts = (p.compute_s + p.exposed_communication_s + p.codec_s + p.input_stall_s + p.bubble_s + p.idle_s)
    assert parts == pytest.approx(p.iteration_s)
    assert p.interval_low_s < p.iteration_s < p.interval_high_s
    assert p.throughput_samples_per_s == pytest.approx(16 * profile.batch_samples / p.iteration_s)
    assert p.to_dict()["plan"] == p.plan and p.plan in repr(p) and "step time" in repr(p)
    assert json.loads(stepcast.timeline(profile, cluster, "dear"))["traceEvents"]
    job = stepcast.export(profile, cluster, "dear(bucket=25 MiB)")
    assert len(job["execution_trace"]) > 1000 and "npus_count" in job["network"]
    assert json.loads(job["system"])["endpoint-delay"] == 0
    divided = stepcast.export(stepcast.describe("llama3-8b", "h100"), stepcast.Cluster("2xdgx-h100"),
                              "layout(tp=4, pp=2, mb=1)/ddp", global_batch=16)
    assert len(divided["execution_traces"]) == 16 and divided["nodes_s"] == pytest.approx(divided["iteration_s"], rel=0.01)
    assert json.loads(divided["groups"])["1"] == [0, 1, 2, 3]
    with pytest.raises(stepcast.InputError, match="a plan with a layout"):
        stepcast.export(profile, cluster, "ddp", global_batch=16)
    assert stepcast.predict(TRACE, cluster, "dear").iteration_s == p.iteration_s


def test_a_ranking_is_a_sequence(ranking):
    assert len(ranking) == len(ranking.exact) and ranking[0].prediction.iteration_s == ranking.best.prediction.iteration_s
    assert ranking[-1].prediction.iteration_s >= ranking[0].prediction.iteration_s and len(ranking[:2]) == 2
    with pytest.raises(IndexError):
        ranking[len(ranking)]
    table = ranking.to_pandas()
    assert list(table.plan[:len(ranking)]) == [r.prediction.plan for r in ranking]
    assert len(table) == len(ranking) + len(ranking.inapplicable)
    page = ranking._repr_html_()
    assert page.count("<tr>") == len(ranking) + 1 and "<script" not in page
    low, high = ranking.holds
    assert low < high


def test_a_faster_collective_is_named(profile):
    slow = stepcast.recommend(profile, stepcast.Cluster(workers=16, per_node=4, network="1GbE"))
    other = slow.other_collective
    assert "@" in other.prediction.plan
    fastest = min(r.prediction.iteration_s for r in slow.exact if r.prediction.plan.startswith(("ddp", "dear")))
    assert other.prediction.iteration_s < fastest
    assert pickle.loads(pickle.dumps(slow)).other_collective.prediction.plan == other.prediction.plan
    assert other.prediction.plan in slow.to_text() and other.prediction.plan in slow._repr_html_()
    assert stepcast.recommend(profile, slow.cluster, sensitivity=False).other_collective is None


def test_gradients_in_two_bytes_are_offered_where_the_network_bounds(profile):
    slow = stepcast.recommend(profile, stepcast.Cluster(workers=16, per_node=4, network="1GbE"))
    half = slow.halves.prediction
    assert half.plan.endswith("+fp16") and half.iteration_s <= 0.9 * slow.exact[0].prediction.iteration_s
    assert half.plan in slow._repr_html_() and pickle.loads(pickle.dumps(slow)).halves.prediction.plan == half.plan
    assert stepcast.recommend(profile, slow.cluster, allow=["lossy"]).halves is None


def test_quantities_are_numbers_or_texts(cluster):
    by_number = stepcast.Cluster(workers=16, per_node=4, network=1.25e9, inside=20e9, device_memory=80e9)
    by_text = stepcast.Cluster(workers=16, per_node=4, network="10 Gb/s", inside="20 GB/s", device_memory="80 GB")
    assert by_number.network_bytes_per_s == by_text.network_bytes_per_s
    assert by_number.device_memory_bytes == 80e9 and by_number.inside_bytes_per_s == 20e9
    faster = cluster.replace(network="25 Gb/s", latency=5e-6, workers=8)
    assert (faster.workers, faster.network_bytes_per_s, faster.network_latency_s) == (8, 25e9 / 8, 5e-6)
    assert cluster.workers == 16
    assert stepcast.Cluster.from_json(cluster.to_json()) == cluster


def test_errors_have_parts(tmp_path, profile, cluster):
    cases = [
        (lambda: stepcast.read(tmp_path / "absent"), "absent", "a readable file"),
        (lambda: stepcast.read(tmp_path), str(tmp_path), "a readable file"),
        (lambda: stepcast.read(b"{}"), "bytes", ""),
        (lambda: stepcast.read(), "read", "a trace"),
        (lambda: stepcast.read(3), "file 1", "a path or bytes"),
        (lambda: stepcast.predict(profile, cluster, "deer"), "column 1", "a strategy"),
        (lambda: stepcast.Cluster(workers=8, per_node=-1, network="10GbE"), "per_node", "a whole number"),
        (lambda: stepcast.Cluster(workers=8, network="fast"), "network", ""),
        (lambda: stepcast.Cluster("nowhere"), "cluster", "a shipped cluster"),
        (lambda: stepcast.recommend(profile, cluster, allow=["anything"]), "allow", "lossy"),
        (lambda: stepcast.compare(profile, cluster, []), "plans", "a plan"),
        (lambda: stepcast.Model(profile, cluster).predict_many(["ddp", "deer"]), "plans[1]", "a strategy"),
        (lambda: stepcast.Model(profile, cluster).predict_many(["ddp(bucket=auto)"]), "plans[0]", "a value"),
        (lambda: stepcast.Model(profile, cluster).predict_many("ddp", buckt=[1e6]), "buckt", "an option"),
        (lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"speed": [1]}), "", ""),
    ]
    for ask, where, expected in cases:
        with pytest.raises(stepcast.InputError) as caught:
            ask()
        assert where in caught.value.where and expected in caught.value.expected, str(caught.value)
        assert "\n" not in str(caught.value) and caught.value.found in str(caught.value)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value) and again.hint == caught.value.hint
    with pytest.raises(stepcast.Inapplicable) as refused:
        stepcast.predict(profile, cluster, "switchml" if "switchml" in [s.name for s in stepcast.strategies()]
                         else "ddp@switchml")
    assert refused.value.reason and isinstance(refused.value, ValueError)


def test_compute_times_are_not_carried_over_in_silence(profile):
    other = stepcast.Cluster("16x4-a100-100gbe")
    with pytest.raises(stepcast.InputError, match="same_device=True"):
        stepcast.predict(profile, other, "ddp")
    same = stepcast.predict(profile.on(other, same_device=True), other, "ddp")
    faster = stepcast.predict(profile.on(other, faster_compute=2), other, "ddp")
    # Beside what transfers take from it, which is as much of either.
    assert faster.compute_s == pytest.approx(same.compute_s / 2, rel=0.01)
    third = stepcast.Cluster("32x8-a100-800gbib")
    with pytest.raises(stepcast.InputError, match="the device that was assumed"):
        stepcast.predict(profile.on(other, faster_compute=2), third, "ddp")


def test_everything_is_pickled_exactly(profile, cluster, ranking):
    sweep = stepcast.sweep(profile, cluster, ["ddp", "dear"], over={"bandwidth": "1Gb/s..8Gb/s"})
    whatif = stepcast.whatif(profile, "batch(to=64)", cluster=cluster)
    for value in (profile, profile.check, cluster, stepcast.predict(profile, cluster, "dear"), ranking, whatif):
        assert pickle.loads(pickle.dumps(value)).to_json() == value.to_json()
    assert pickle.loads(pickle.dumps(sweep)).to_csv() == sweep.to_csv()
    assert pickle.loads(pickle.dumps(profile)).check.to_json() == profile.check.to_json()
    assert stepcast.Prediction.__module__ == "stepcast"


def test_sweeps_in_numbers_and_tables(profile, cluster):
    over = {"bandwidth": [1.25e8, 1.25e9, "40 Gb/s"], "workers": [2, 16]}
    sweep = stepcast.sweep(profile, cluster, ["ddp", "dear"], over=over)
    times = sweep.to_numpy()
    assert times.shape == (3, 2, 2) and len(sweep) == 12 and sweep.points == 6
    assert sweep.axes == ("bandwidth", "workers") and list(sweep.values("workers")) == [2, 16]
    assert (np.diff(times, axis=0) <= 0).all()  # a faster network is never worse
    table = sweep.to_pandas()
    assert list(table.iteration_s) == list(times.ravel())
    assert sweep.to_svg().startswith("<svg") and len(sweep.to_json_lines().splitlines()) == 12
    parts = [stepcast.sweep(profile, cluster, ["ddp", "dear"], over=over, first=f, last=l) for f, l in ((0, 2), (2, 6))]
    assert parts[0].to_csv() + parts[1].to_csv(header=False) == sweep.to_csv()


def test_where_a_plan_keeps_a_share_or_a_step(profile, cluster):
    sweep = stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": "100Mb/s..100Gb/s", "workers": [8, 16]})
    for kept, workers in zip(sweep.kept("90%"), (8, 16)):
        assert kept["workers"] == workers and kept["plan"] == "ddp" and kept["high_is_end"]
        there = {"bandwidth": [kept["low"] * 0.99, kept["low"]], "workers": [workers]}
        before, at = stepcast.sweep(profile, cluster, ["ddp"], over=there).to_numpy().ravel()
        assert at == pytest.approx(kept["low_step_s"]) and at * 0.9 <= kept["best_step_s"] < before * 0.9
    assert sweep.kept(0.9) == sweep.kept("90%")
    assert all(kept["low"] is None and kept["best"] for kept in sweep.kept("1 us"))
    with pytest.raises(stepcast.InputError):
        sweep.kept("nine")
    with pytest.raises(stepcast.InputError):
        stepcast.sweep(profile, cluster, ["ddp"], over={"workers": [2, 16]}, last=1).kept("90%")


def test_many_plans_are_each_plan(profile, cluster):
    model = stepcast.Model(profile, cluster)
    plans = [f"{s}(bucket={1 << k} B)" for s in ("ddp", "dear") for k in range(16, 27)] * 20
    one = model.predict_many(plans)
    assert list(one) == list(model.predict_many(tuple(plans), threads=4)) and one.dtype == np.float64
    for plan, seconds in zip(plans[:22], one):
        assert seconds == model.iteration_s(plan) == stepcast.predict(profile, cluster, plan).iteration_s
    values = np.geomspace(1e6, 1e8, 30).reshape(5, 6)
    over = model.predict_many("dear", bucket=values, threads=2)
    assert over.shape == (5, 6) and over[2, 3] == model.iteration_s(f"dear(bucket={values[2, 3]!r} B)")
    assert np.isnan(model.predict_many("dear", bucket=[-1.0])[0])
    assert model.predict("dear").to_json() == stepcast.predict(profile, cluster, "dear").to_json()
    slower = model.on(cluster.replace(network="1 Gb/s"))
    assert slower.iteration_s("bsp") > model.iteration_s("bsp")
    assert model.recommend(tune=False).baseline.iteration_s == model.iteration_s("ddp")


def test_threads_make_progress_together(profile, cluster):
    model = stepcast.Model(profile, cluster)
    plans = [f"ddp(bucket={10000 + i} B)" for i in range(20000)]
    ticks, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):  # lets go of the interpreter itself
            ticks[0] += 1

    other = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to let go of the interpreter: calls do it by themselves
    try:
        other.start()
        model.predict_many(plans)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        other.join()
    assert ticks[0] > 0
    answers = [None] * 4

    def ask(i):
        answers[i] = list(model.predict_many(plans[:500]))

    asking = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert answers[0] and all(a == answers[0] for a in answers)


def all_at_the_end(profile, name="all at the end"):
    """Everything in one message after the backward pass: what `bsp` does."""
    plan = stepcast.CommPlan(name, profile)
    message = plan.transfer("all_reduce", range(len(profile.tensors)))
    plan.edge(("backward", profile.backward_order[-1]), ("transfer", message))
    plan.edge(("transfer", message), ("update", 0))
    return plan


def test_a_strategy_of_ones_own(profile, cluster):
    plan = all_at_the_end(profile)
    assert plan.flaw == "" and plan.messages == 1
    own, known = stepcast.predict(profile, cluster, plan), stepcast.predict(profile, cluster, "bsp")
    assert own.iteration_s == pytest.approx(known.iteration_s) and own.plan == "all at the end"
    ranking = stepcast.compare(profile, cluster, [plan, "ddp"])
    assert {r.prediction.plan for r in ranking} == {"all at the end", "ddp"}
    assert pickle.loads(pickle.dumps(own)).to_json() == own.to_json()
    assert pickle.loads(pickle.dumps(plan)).flaw == ""
    assert json.loads(stepcast.timeline(profile, cluster, plan))["traceEvents"]
    incomplete = stepcast.CommPlan("half", profile)
    incomplete.transfer("all_reduce", 0)
    assert "waits for nothing" in incomplete.flaw
    with pytest.raises(stepcast.Inapplicable, match="waits for nothing"):
        stepcast.predict(profile, cluster, incomplete)
    for wrong in (lambda: plan.transfer("all_reduce", range(len(profile.tensors) + 1)),
                  lambda: plan.transfer("allreduce", 0), lambda: plan.transfer("all_reduce", 0, channel=9),
                  lambda: plan.edge(("backward", len(profile.layers)), ("transfer", 0)),
                  lambda: plan.edge(("nowhere", 0), ("update", 0)), lambda: plan.channel("net", "stack")):
        with pytest.raises(stepcast.InputError):
            wrong()


def test_what_is_known_is_listed():
    strategies = {s.name: s for s in stepcast.strategies()}
    bucket = {o.name: o for o in strategies["ddp"].options}["bucket"]
    assert bucket.kind == "size" and bucket.low <= bucket.tune_low < bucket.tune_high <= bucket.high
    assert {m.fidelity for m in stepcast.modifiers()} <= {"exact", "lossy", "stale", "periodic"}
    assert "ring" in {c.name for c in stepcast.collectives()}
    for name in stepcast.clusters():
        assert stepcast.Cluster(name).workers > 0
    assert stepcast.describe("bert:hidden=256,layers=2,heads=4,seq=128", stepcast.devices()[0], batch=8).batch_samples == 8
    assert stepcast.models()


def test_whatifs_and_their_profiles(profile, cluster):
    result = stepcast.whatif(profile, ["batch(to=64)", "amp"], cluster=cluster)
    assert result.profiles["batch(to=64)"].batch_samples == 64
    assert len(result.to_pandas()) == 2


def test_validation_and_calibration(tmp_path):
    table = stepcast.validate("exact", root=ROOT)
    assert {"predicted", "measured", "relative_error"} <= set(table.columns) and (table.outcome != "failed").all()
    sizes = [2 ** k for k in range(12, 27)]
    log = tmp_path / "all_reduce.csv"
    log.write_text("op,workers,bytes,time_s\n" + "".join(
        f"all_reduce,4,{m},{6 * 2e-5 + 1.5 * m / 1e9}\n" for m in sizes))
    cluster, residuals = stepcast.calibrate(log, name="mine")
    assert cluster.name == "mine" and cluster.workers == 4 and len(residuals) == len(sizes)
    assert cluster.network_bytes_per_s == pytest.approx(1e9, rel=0.05)


def test_the_page_is_one_file(profile, cluster):
    page = stepcast.report(profile, cluster, validation=False)
    assert page.lstrip().lower().startswith("<!doctype html") and 'id="record"' in page


def test_the_stubs_list_the_fields_of_results_and_every_field_is_explained():
    stubs = ast.parse((pathlib.Path(stepcast.__file__).parent / "__init__.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    for name in ("Prediction", "RankedPlan", "StragglerEffect", "InputDiagnosis", "TrainingRun"):
        is_property = lambda node: any(getattr(d, "id", "") == "property" for d in node.decorator_list)
        listed = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef) and is_property(node)}
        there = {key: value for key, value in vars(getattr(stepcast, name)).items() if isinstance(value, property)}
        assert listed == set(there), name
        by_hand = {"profile", "cluster", "prediction", "standard"}
        assert all(there[key].__doc__ for key in listed - by_hand), name


LOADER = "input(dataset=146GB, samples=1281167, storage=5MB/s, prep=199, workers=8, cache=0.4)"


def test_an_input_pipeline_is_a_text(profile, cluster):
    fed = stepcast.predict(profile, cluster, "ddp", whatif=LOADER)
    assert fed.input.synthetic_s + fed.input.prep_stall_s + fed.input.fetch_stall_s == pytest.approx(fed.iteration_s)
    assert fed.input.fetch_stall_s > 0 and 0 < fed.input.sufficient_cache <= 1 and fed.input.sufficient_workers >= 1
    assert json.loads(fed.to_json())["input"]["fetch_stall_s"] == fed.input.fetch_stall_s
    assert stepcast.predict(profile, cluster, "ddp").input is None
    better = stepcast.predict(profile, cluster, "ddp", whatif=LOADER + "+input(policy=never-evict)")
    assert better.iteration_s < fed.iteration_s
    divided = stepcast.predict(profile, cluster, "layout(pp=2)/ddp", whatif=LOADER)
    assert divided.input.fetch_stall_s > 0
    again = pickle.loads(pickle.dumps(divided))
    assert again == divided and again.input.cached_s == divided.input.cached_s
    for ranking in (stepcast.compare(profile, cluster, ["ddp", "dear"], whatif=LOADER),
                    stepcast.recommend(profile, cluster, plans=["ddp"], whatif=LOADER)):
        step = ranking[0].prediction
        assert step.iteration_s == stepcast.predict(profile, cluster, step.plan, whatif=LOADER).iteration_s
    sweep = stepcast.sweep(profile, cluster, ["ddp"], over={"input.cache": [0.4, 1]}, whatif=LOADER)
    assert list(sweep.to_numpy()[:, 0]) == [
        stepcast.predict(profile, cluster, "ddp", whatif=LOADER + f"+input(cache={x})").iteration_s for x in (0.4, 1)]
    page = stepcast.report(profile, cluster, validation=False, whatif=LOADER)
    assert "waits for" in page or "for fetching" in page
    with pytest.raises(stepcast.Inapplicable, match="dataset="):
        stepcast.recommend(profile, cluster, whatif="input(cache=1)")


def test_a_whole_run_has_its_warm_up(profile):
    cluster = stepcast.Cluster(workers=4, network="10GbE", servers=4)
    step = stepcast.predict(profile, cluster, "cd_sgd", iterations=100000)
    slow = stepcast.predict(profile, cluster, "dist_sync").iteration_s
    assert step.run.warm_up_iterations == 1000 and step.run.iterations == 100000
    assert step.run.duration_s == pytest.approx(1000 * slow + 99000 * step.iteration_s)
    assert json.loads(step.to_json())["run"]["duration_s"] == step.run.duration_s
    assert stepcast.predict(profile, cluster, "cd_sgd").run is None
    assert pickle.loads(pickle.dumps(step)).run.duration_s == step.run.duration_s
    plans = ["cd_sgd", "ssd_sgd", "od_sgd"]
    for ranking in (stepcast.recommend(profile, cluster, plans=plans, iterations=700),
                    stepcast.compare(profile, cluster, plans, iterations=700),
                    stepcast.Model(profile, cluster).recommend(plans=plans, iterations=700)):
        runs = [plan.prediction.run.duration_s for plan in ranking]
        assert len(runs) == 3 and runs == sorted(runs)
    for wrong in (-1, 0.5, float("nan"), "many"):
        with pytest.raises((stepcast.InputError, TypeError)):
            stepcast.predict(profile, cluster, "ddp", iterations=wrong)


def test_a_sweep_of_a_cluster_with_servers_is_each_prediction(profile):
    cluster = stepcast.Cluster(workers=4, network="1GbE", servers=1)
    sweep = stepcast.sweep(profile, cluster, ["bytescheduler_ps", "wfbp_ps"], over={"workers": [4, 16]})
    for row, workers in zip(sweep.to_numpy(), (4, 16)):
        there = stepcast.Cluster(workers=workers, network="1GbE", servers=1)
        assert list(row) == [stepcast.predict(profile, there, plan).iteration_s for plan in sweep.plans]
        resized = cluster.replace(workers=workers)
        assert list(row) == [stepcast.predict(profile, resized, plan).iteration_s for plan in sweep.plans]


def test_slow_workers_are_told(profile):
    cluster = stepcast.Cluster(workers=16, per_node=4, network="10GbE", slow_worker="1.5")
    answer = stepcast.predict(profile, cluster, "ddp")
    assert answer.stragglers.without_s < answer.iteration_s
    assert json.loads(answer.to_json())["stragglers"]["without_s"] == answer.stragglers.without_s
    copy = pickle.loads(pickle.dumps(answer))
    assert copy.stragglers.description == answer.stragglers.description
    assert answer.fidelity == "exact" and stepcast.predict(profile, cluster, "ddp+fp16").fidelity == "lossy"


def test_the_stubs_say_what_is_there(tmp_path):
    pytest.importorskip("mypy.stubtest")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\n[mypy-numpy.*,pandas.*,distributed.*,torch.*]\nfollow_imports = skip\n"
                        "follow_imports_for_stubs = True\nignore_missing_imports = True\n"
                        "[mypy-stepcast.distributed,stepcast.operators,stepcast.torch]\nignore_errors = True\n")
    environment = {**os.environ, "MYPYPATH": str(pathlib.Path(stepcast.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "stepcast", "--ignore-missing-stub", "--concise",
                           "--mypy-config-file", str(settings)],
                          env=environment, cwd="/", capture_output=True, encoding="utf-8")
    assert "not checking stubs" not in done.stdout, done.stdout
    # Compiled classes have a metaclass and an __init__ of their own.
    accepted = ("metaclass differs", "__init__ is inconsistent", "stepcast.distributed", "stepcast.operators",
                "stepcast.torch")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("stepcast.")
             and not any(text in line for text in accepted)]
    assert not wrong, "\n".join(wrong)


def test_none_is_no_profile_and_no_cluster(profile, cluster):
    questions = [
        lambda: stepcast.predict(profile, None, "ddp"),
        lambda: stepcast.compare(profile, None),
        lambda: stepcast.recommend(profile, None),
        lambda: stepcast.sweep(profile, None, ["ddp"], over={"bandwidth": [1e9]}),
        lambda: stepcast.report(profile, None),
        lambda: stepcast.timeline(profile, None, "ddp"),
        lambda: stepcast.Model(profile, None),
        lambda: stepcast.Model(profile, cluster).on(None),
        lambda: stepcast.CommPlan("own", None),
        lambda: profile.on(None),
    ]
    for ask in questions:
        with pytest.raises(TypeError):
            ask()
    assert stepcast.whatif(profile, "amp", cluster=None).to_text()


def test_odd_values_are_input_errors(profile, cluster, tmp_path):
    model, released = stepcast.Model(profile, cluster), memoryview(b"{}")
    released.release()
    own = stepcast.CommPlan("own", profile)
    odd = [
        lambda: stepcast.read("absent\udcff"),
        lambda: stepcast.read(released),
        lambda: stepcast.read(TRACE, batch="many"),
        lambda: stepcast.Cluster("nowhere\udcff"),
        lambda: profile.replace(batch_samples=float("inf")),
        lambda: model.predict_many("ddp", bucket=[1 + 1j]),
        lambda: model.predict_many("ddp", bucket=np.array(["2020-01-01"], dtype="M8[D]")),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [None]}),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"workers": [[1, 2], [3, 4]]}),
        lambda: stepcast.CommPlan("own", profile, period=-2**63),
        lambda: own.transfer("all_reduce", 1.5),
        lambda: own.transfer("all_reduce", range(10**30)),
        lambda: own.transfer("all_reduce", 0, delay=1),  # would have no effect
        lambda: own.transfer("all_reduce", 0, overhead=float("inf")),
        lambda: own.transfer("all_reduce", 0, size=[1]),
    ]
    for number, ask in enumerate(odd):
        with pytest.raises(stepcast.InputError) as caught:
            ask()
        assert str(caught.value), number
    named = os.path.join(os.fsencode(tmp_path), b"trace\xff.json.gz")
    try:
        with open(named, "wb") as copy:
            copy.write(TRACE.read_bytes())
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    assert stepcast.read(pathlib.Path(os.fsdecode(named))).model == stepcast.read(TRACE).model


def test_searches_say_what_the_command_line_says():
    """Layouts, the frontier of units and placements: the same documents, whose plans can be predicted."""
    model = "gpt:hidden=256,layers=2,heads=4,seq=128"
    flags = ["--model", model, "--device", "A100", "--global-batch", "8", "--per-node", "4", "--network", "25GbE"]
    profile = stepcast.describe(model, "A100", batch=2)
    cluster = stepcast.Cluster(workers=4, per_node=4, network="25GbE")
    found = stepcast.unit_frontier(profile, cluster, workers=[2, 4], memory="20 GB", global_batch=8)
    assert [count["devices"] for count in found["counts"]] == [2, 4]
    told = json.loads(said("recommend", *flags, "--unit-frontier", "--over", "workers=2,4", "--memory", "20 GB", "--json"))
    assert found["counts"] == told["counts"]
    for count in found["counts"]:
        there = cluster.replace(workers=count["devices"])
        for point in count["frontier"][:: max(1, len(count["frontier"]) // 4)]:
            again = stepcast.predict(profile, there, point["plan"], global_batch=8)
            assert again.iteration_s == pytest.approx(point["iteration_s"], rel=1e-3)
            assert again.memory_bytes == pytest.approx(point["memory_bytes"], rel=1e-3)
    layouts = stepcast.layouts(profile, cluster, global_batch=8)
    told = json.loads(said("recommend", *flags, "--workers", "4", "--json"))
    assert [one["plan"] for one in layouts["best"]] == [one["plan"] for one in told["best"]]
    assert layouts["equals"] >= 1 and layouts["search"]["not_tried"]
    ours = stepcast.layouts(profile, cluster, global_batch=8, framework="horovod")
    assert [one["framework"] for one in ours["settings"]] == ["Horovod"]
    assert all(one["layout"]["tensor"] == one["layout"]["pipeline"] == 1 for one in ours["best"])
    with pytest.raises(stepcast.InputError): stepcast.layouts(profile, cluster, global_batch=8, framework="horovd")
    devices = json.dumps({"schema": "stepcast.devices/1", "name": "two", "groups": [
        {"name": "a", "devices": 1, "speed": 1}, {"name": "b", "devices": 1, "speed": 0.5}],
        "other_links": {"latency": "10 us", "bandwidth": "1 GB/s"}}).encode()
    best = stepcast.place(profile, devices, global_batch=8)
    assert stepcast.place(profile, devices, best["plan"], global_batch=8)["iteration_s"] == best["iteration_s"]
    with pytest.raises(stepcast.InputError): stepcast.place(profile, devices, "placement(devices=0+0, units=2+2)", global_batch=8)
    with pytest.raises(stepcast.Inapplicable): stepcast.place(profile, devices, "placement(devices=0+5, units=2+2)", global_batch=8)
    with pytest.raises(stepcast.InputError): stepcast.unit_frontier(profile, cluster, objective="cost", global_batch=8)


def test_a_layout_of_one_framework_is_predicted_as_it_was_searched():
    """With the kernels, the memory and the settings of that framework, as the command line says it."""
    model = "llama:hidden=256,layers=2,heads=4,seq=128"
    flags = ["--model", model, "--device", "A100", "--global-batch", "8", "--per-node", "4", "--network", "25GbE"]
    profile, cluster = stepcast.describe(model, "A100", batch=2), stepcast.Cluster(workers=4, per_node=4, network="25GbE")
    for framework in ("pytorch", "torchtitan"):
        best = stepcast.layouts(profile, cluster, global_batch=8, framework=framework)["best"][0]
        asked = stepcast.predict(profile, cluster, best["plan"], global_batch=8, framework=framework)
        assert asked.iteration_s == pytest.approx(best["iteration_s"]) and asked.to_dict()["settings"]
        assert asked.to_dict()["memory_bytes"] == best["memory_bytes"]
        assert asked.iteration_s != stepcast.predict(profile, cluster, best["plan"], global_batch=8).iteration_s
        told = json.loads(said("predict", *flags, "--workers", "4", "--plan", best["plan"], "--framework", framework, "--json"))
        assert asked.to_dict() == told
        assert pickle.loads(pickle.dumps(asked)) == asked
    for odd, plan in (("horovd", "layout/ddp"), (7, "layout/ddp"), ("pytorch", stepcast.CommPlan("own", profile))):
        with pytest.raises(stepcast.InputError): stepcast.predict(profile, cluster, plan, framework=odd)
    with pytest.raises(stepcast.InputError, match="layout"):
        stepcast.predict(stepcast.read(TRACE), cluster, "ddp", framework="pytorch")


def test_a_described_model_has_a_usual_batch_and_measured_steps_correct_it():
    """As the command line says it, where neither global_batch nor a batch of the description is given."""
    cluster, plan = stepcast.Cluster("1xdgx-h100"), "layout(zero=3, mb=1)/ddp"
    flags = ["--model", "llama3-8b", "--device", "h100", "--cluster", "1xdgx-h100", "--plan", plan, "--json"]
    unsaid, said_one = stepcast.describe("llama3-8b", "h100"), stepcast.describe("llama3-8b", "h100", batch=1)
    usual = stepcast.predict(unsaid, cluster, plan)
    assert usual.to_dict() == json.loads(said("predict", *flags))
    assert usual.to_dict()["global_batch_samples"] == 512
    assert any("usual" in line for line in usual.to_dict()["workload_assumed"])
    assert stepcast.predict(said_one, cluster, plan).to_dict()["global_batch_samples"] == 8
    assert stepcast.predict(unsaid.replace(batch_samples=1), cluster, plan).to_dict()["global_batch_samples"] == 8
    assert pickle.loads(pickle.dumps(unsaid)) == unsaid != said_one
    measured = stepcast.predict(unsaid, cluster, plan, global_batch=64, measured={"fsdp": 11})
    told = json.loads(said("predict", *flags, "--global-batch", "64", "--measured", "fsdp=11 s"))["measured"]
    ours = measured.to_dict()["measured"]
    assert ours["changed"] == told["changed"] and ours["relative_error"] == told["relative_error"] < 0.13
    assert measured.iteration_s > 1.3 * stepcast.predict(unsaid, cluster, plan, global_batch=64).iteration_s
    assert pickle.loads(pickle.dumps(measured)).iteration_s == measured.iteration_s
    layouts = stepcast.layouts(unsaid, cluster, global_batch=64, measured="fsdp=11 s")
    assert layouts["measured"]["steps"][0]["plan"] == "layout(mb=1, zero=3)/ddp"
    alone = stepcast.predict(said_one, cluster, plan, measured=["fsdp(dp=4, mb=1) = 800 ms"])
    assert alone.to_dict()["measured"]["steps"][0]["devices"] == 4
    for odd in ("fsdp", "fsdp=1 us", "fspd=1 s", 7, {"fsdp": "soon"}):
        with pytest.raises(stepcast.InputError): stepcast.predict(unsaid, cluster, plan, global_batch=64, measured=odd)
    with pytest.raises(stepcast.InputError): stepcast.predict(unsaid, cluster, plan, measured="fsdp=11 s")


def test_all_functions_take_the_same_batch_and_measured_steps_of_a_described_model():
    cluster, model = stepcast.Cluster("2xdgx-h100"), "gpt:hidden=1600,layers=48,heads=25,seq=1024"
    profile = stepcast.describe(model, "h100")
    alone, divided = (stepcast.predict(profile, cluster, plan) for plan in ("ddp", "layout/ddp"))
    assert alone.iteration_s == divided.iteration_s
    ranking = stepcast.compare(profile, cluster, ["ddp", "wfbp"])
    assert {plan.prediction.plan: plan.prediction.iteration_s for plan in ranking.exact}[alone.plan] == alone.iteration_s
    assert ranking.profile.batch_samples == 64 and "usual" in ranking.profile.assumed[0]
    assert pickle.loads(pickle.dumps(ranking)).exact[0].prediction.iteration_s == ranking.exact[0].prediction.iteration_s
    swept = stepcast.sweep(profile, cluster, ["ddp"], over={"workers": [16]})
    assert swept.to_numpy()[0, 0] == alone.iteration_s

    measured = {"layout(dp=16, mb=4)/ddp": 5.0}
    said_one = stepcast.describe(model, "h100", batch=4)
    slow = stepcast.predict(said_one, cluster, "ddp", measured=measured).iteration_s
    assert slow > 1.2 * stepcast.predict(said_one, cluster, "ddp").iteration_s
    assert stepcast.compare(said_one, cluster, ["ddp"], measured=measured).exact[0].prediction.iteration_s == slow
    swept = stepcast.sweep(said_one, cluster, ["ddp"], over={"workers": [16]}, measured=measured)
    assert swept.to_numpy()[0, 0] == slow
    assert pickle.loads(pickle.dumps(swept)).to_csv() == swept.to_csv()
    best = stepcast.recommend(said_one, cluster, plans=["ddp"], tune=False, sensitivity=False, measured=measured)
    assert best.best.prediction.iteration_s == slow
    for function in (stepcast.compare, stepcast.recommend):
        with pytest.raises(stepcast.InputError): function(said_one, cluster, measured="ddp")
    with pytest.raises(stepcast.InputError):
        stepcast.compare(stepcast.read(str(ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz")),
                         stepcast.Cluster(workers=4, network="10GbE"), measured="ddp=1 s")


def test_a_saved_described_profile_keeps_its_error():
    cluster = stepcast.Cluster("2xdgx-h100")
    profile = stepcast.describe("gpt:hidden=1600,layers=48,heads=25,seq=1024", "h100", batch=1)
    saved = stepcast.Profile.from_json(profile.to_json())
    both = [stepcast.predict(p, cluster, "ddp") for p in (profile, saved)]
    assert both[0].interval_high_s == both[1].interval_high_s > 1.2 * both[1].iteration_s


def test_one_question_with_a_layout_a_whatif_and_a_strategy():
    """The command line and Python answer the same question to the last digit."""
    trace = str(ROOT / "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz")
    profile = stepcast.read(trace)
    cluster = stepcast.Cluster(workers=8, per_node=4, network="10GbE")
    plan, whatif = "layout(zero=1)/dear(bucket=5 MiB)", "scale(layers=*, host=0.5)"
    told = said("predict", trace, "--workers", "8", "--per-node", "4", "--network", "10GbE", "--what", whatif, "--plan",
                plan, "--json")
    asked = stepcast.predict(profile, cluster, plan, whatif=whatif)
    document = json.loads(told)
    assert asked.iteration_s == document["iteration_s"]
    assert json.loads(asked.to_json()) == document
    assert stepcast.Model(profile, cluster).predict(plan, whatif=whatif).iteration_s == asked.iteration_s
    assert pickle.loads(pickle.dumps(asked)).iteration_s == asked.iteration_s
    assert "zero=1" in asked.plan and asked.bubble_s == 0
    rows = stepcast.sweep(profile, cluster, ["layout(mb=1)/ddp"], over={"tp": [1, 2]})
    assert rows.to_numpy()[0, 0] == stepcast.predict(profile, cluster, "layout(mb=1)/ddp").iteration_s
    assert rows.to_numpy()[1, 0] == stepcast.predict(profile, cluster, "layout(tp=2, mb=1)/ddp").iteration_s
    copy = pickle.loads(pickle.dumps(rows))
    assert (copy.to_numpy() == rows.to_numpy()).all()
    page = stepcast.report(profile, cluster, validation=False, plans=[plan])
    assert 'id="asked"' in page
    with pytest.raises(stepcast.InputError):
        stepcast.predict(profile, cluster, "layout(tp=2)/nonsense")


RANKS = [ROOT / f"profiles/examples/gpt-cpu-ddp-rank{rank}.pt.trace.json.gz" for rank in range(2)]
TWO = {"workers": 2, "network": "1Gb/s"}


@pytest.fixture(scope="module")
def recorded():
    return stepcast.read(*RANKS, recorded=True)


def test_a_profile_of_the_recorded_step_answers_what_the_command_line_says_with_recorded(recorded):
    machines = stepcast.Cluster(**TWO)
    plan, flags = "ddp(bucket=1 MiB)", [*RANKS, "--workers", 2, "--network", "1Gb/s", "--recorded", "--json"]
    one = stepcast.predict(recorded, machines, plan)
    assert one.of_recorded_step
    assert one.iteration_s == json.loads(said("predict", *flags, "--plan", plan))["iteration_s"]
    compared = json.loads(said("compare", *flags, "--plan", plan, "--plan", "wfbp"))["predictions"]
    ranking = stepcast.compare(recorded, machines, [plan, "wfbp"])
    assert [p.prediction.iteration_s for p in ranking.exact] == [p["iteration_s"] for p in compared]
    advised = json.loads(said("recommend", *flags))["predictions"]
    ranking = stepcast.recommend(recorded, machines)
    assert [p.prediction.iteration_s for p in ranking.exact] == [p["iteration_s"] for p in advised]
    swept = said("sweep", *flags[:-1], "--over", "bandwidth=1Gb/s,2Gb/s", "--plan", plan)
    assert stepcast.sweep(recorded, machines, [plan], over={"bandwidth": "1Gb/s,2Gb/s"}).to_csv() == swept
    assert "in the recorded step messages follow" in stepcast.report(recorded, machines, validation=False)


def test_all_ways_to_ask_of_the_recorded_step_agree_and_so_do_copies(recorded):
    machines = stepcast.Cluster(**TWO)
    step = stepcast.predict(recorded, machines, "wfbp").iteration_s
    assert step != stepcast.predict(stepcast.read(*RANKS), machines, "wfbp").iteration_s
    for profile in (recorded, pickle.loads(pickle.dumps(recorded)), recorded.on(machines, same_device=True)):
        model = stepcast.Model(profile, machines)
        assert model.iteration_s("wfbp") == model.predict("wfbp").iteration_s == step
        assert np.isnan(model.predict_many(["wfbp", "dear"])).tolist() == [False, True]
        assert model.predict_many(["wfbp"])[0] == step
        steps = model.predict_many("ddp", bucket=[2**20], threads=2)
        assert steps[0] == stepcast.predict(profile, machines, "ddp(bucket=1 MiB)").iteration_s
        faster = stepcast.Cluster(workers=2, network="10Gb/s")
        assert model.on(faster).iteration_s("wfbp") == stepcast.predict(profile, faster, "wfbp").iteration_s


@pytest.mark.parametrize("ask, why", [
    (lambda p, c: stepcast.predict(p, c, "layout(tp=2)/ddp"), "plans that divide the batch only"),
    (lambda p, c: stepcast.sweep(p, c, ["ddp"], over={"tp": [1, 2]}), "plans that divide the batch only"),
    (lambda p, c: stepcast.layouts(p, c), "plans that divide the batch only"),
    (lambda p, c: stepcast.place(p, b"{}"), "plans over equal devices"),
    (lambda p, c: stepcast.predict(p, c, "ddp", whatif="batch(to=8)"), "the job as it was recorded"),
    (lambda p, c: stepcast.recommend(p, c, whatif="batch(to=8)"), "the job as it was recorded"),
    (lambda p, c: stepcast.Model(p.replace(batch_samples=8), c), "the job as it was recorded"),
    (lambda p, c: stepcast.whatif(p, "batch(to=8)"), "whatif --recorded"),
    (lambda p, c: stepcast.timeline(p, c, "ddp"), "predict TRACE --recorded --timeline"),
    (lambda p, c: stepcast.predict(p, c, stepcast.CommPlan("mine", p)), "plans by their names"),
    (lambda p, c: stepcast.read(RANKS[0], recorded=True, step="400ms"), "the step as it was recorded"),
    (lambda p, c: stepcast.read(RANKS[0], recorded=True, check=False), "the self-check"),
    (lambda p, c: stepcast.read(TRACE, recorded=True), "traces of several workers"),
])
def test_what_cannot_be_asked_of_the_recorded_step_is_refused(recorded, ask, why):
    with pytest.raises(stepcast.InputError, match=why):
        ask(recorded, stepcast.Cluster(**TWO))


def test_messages_of_a_job_that_no_plan_stands_for_are_exchanged_in_its_recorded_step():
    trace = (ROOT.parent / "shared/traces/facebookresearch__HolisticTraceAnalysis" /
             "trace_diff__control__control.json.gz")
    if not trace.exists():
        pytest.skip(f"no file {trace}")
    profile = stepcast.read(trace)
    assert profile.check.as_traced.plan == "recorded" and "alltoall" in profile.check.caution
    slow, fast = (stepcast.Cluster(workers=8, per_node=8, inside=inside) for inside in ("5 GB/s", "200 GB/s"))
    ranking = pickle.loads(pickle.dumps(stepcast.recommend(profile, slow)))
    plans = {plan.prediction.plan: plan.prediction for plan in ranking.exact}
    assert {"recorded", "wfbp"} < set(plans) and any(name.startswith("ddp") for name in plans)
    assert not plans["recorded"].of_recorded_step and plans["wfbp"].of_recorded_step
    assert "CAUTION" not in ranking.to_text() and json.loads(ranking.to_json())["replay"]["trusted"]
    assert "dear" in ranking.inapplicable
    one = stepcast.predict(profile, slow, "wfbp")
    assert one.iteration_s == pytest.approx(plans["wfbp"].iteration_s)
    assert not any("doubtful" in warning for warning in one.warnings)
    assert stepcast.predict(profile, fast, "wfbp").iteration_s < one.iteration_s
    steps = stepcast.sweep(profile, slow, ["wfbp"], over={"bandwidth": [5e9, 200e9]}).to_numpy()
    assert steps.ravel() == pytest.approx([one.iteration_s, stepcast.predict(profile, fast, "wfbp").iteration_s])
    assert stepcast.Model(profile, slow).iteration_s("wfbp") == one.iteration_s
    with pytest.raises(stepcast.InputError, match="predict TRACE --recorded --timeline"):
        stepcast.timeline(profile, slow, "wfbp")
    assert "CAUTION" in stepcast.whatif(profile, "faster_device(by=2)").to_text()  # by layers
    with pytest.raises(stepcast.Inapplicable, match="in the recorded step"):
        stepcast.predict(profile, slow, "dear")
