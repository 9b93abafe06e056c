"""The Python package under use that nobody planned: threads, interrupts, damaged pickles, odd values, the end of Python.

What could end the interpreter runs in a child, whose exit code is looked at. hostile_calls.py makes thousands of calls.
"""

import copy
import decimal
import fractions
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import stepcast

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "profiles/examples/resnet18-cpu-1-worker.pt.trace.json.gz"
GPT = "gpt:hidden=1024,layers=24,heads=16,seq=1024"


@pytest.fixture(scope="module")
def profile():
    return stepcast.read(TRACE, check=False)


@pytest.fixture(scope="module")
def cluster():
    return stepcast.Cluster(workers=16, per_node=4, network="10GbE")


def child(code, timeout=120):
    """Runs a program that begins with a profile p and a cluster c; its exit code and what it printed."""
    start = f"""
        import gc, os, pickle, signal, sys, threading, time
        import stepcast
        TRACE = {str(TRACE)!r}
        p = stepcast.read(TRACE, check=False)
        c = stepcast.Cluster(workers=16, per_node=4, network="10GbE")
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(code)], timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return done.returncode, done.stdout


def test_a_plan_may_grow_while_other_threads_predict_with_it():
    code, said = child("""
        plan = stepcast.CommPlan("x", p)
        end = time.monotonic() + 4
        def grow():
            global plan
            while time.monotonic() < end:
                new = stepcast.CommPlan("x", p); new.channel("wire"); plan = new
                for _ in range(3000):
                    new.edge(("backward", 0), ("transfer", new.transfer("all_reduce", 0)))
                    new.uncovered = "for reasons of its own, which are long enough to be kept elsewhere" * (new.messages % 3)
        writer = threading.Thread(target=grow)
        writer.start()
        model, calls = stepcast.Model(p, c), 0
        asks = [lambda: stepcast.predict(p, c, plan), lambda: stepcast.timeline(p, c, plan),
                lambda: stepcast.compare(p, c, [plan]), lambda: model.predict(plan)]
        while writer.is_alive():
            try:
                asks[calls % 4]()
            except stepcast.Inapplicable as why:
                assert "do not exist" not in str(why) and "phase" not in str(why), why
            calls += 1
        print(calls)
        """)
    assert code == 0 and int(said) > 3, said


@pytest.mark.parametrize("call", ["s.predict(p, c, 'dear')", "m.predict_many('dear', bucket=values)",
                                  "m.predict_many(['dear'] * 3000)", "s.recommend(p, c)",
                                  "s.sweep(p, c, ['dear'], over={'bandwidth': '1Gb/s..100Gb/s:500'})"])
def test_python_ends_while_a_daemon_thread_is_in_a_call(call):
    for pause in (0.05, 0.3):
        code, said = child(f"""
            s, m, values = stepcast, stepcast.Model(p, c), [1e6 + i for i in range(5000)]
            def forever():
                while True: {call}
            for _ in range(2): threading.Thread(target=forever, daemon=True).start()
            time.sleep({pause})
            """)
        assert code == 0, said


def test_what_is_asked_while_python_ends_is_answered():
    """By a function that runs after the module's own, which made another thread stop computing."""
    program = f"""
        import atexit, threading, time
        asked = []
        atexit.register(lambda: print(*[ask() for ask in asked]))
        import stepcast
        p = stepcast.read({str(TRACE)!r}, check=False)
        c = stepcast.Cluster(workers=16, per_node=4, network="10GbE")
        m = stepcast.Model(p, c)
        asked += [lambda: m.predict("ddp").iteration_s > 0, lambda: len(stepcast.recommend(p, c)) > 0]
        def forever():
            while True: m.predict_many(["dear"] * 3000)
        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.1)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    assert done.returncode == 0 and done.stdout.split() == ["True", "True"], done.stdout


def test_every_pickle_protocol_serves(profile, cluster):
    values = [cluster, profile, stepcast.strategies()[0], profile.layers[0], stepcast.Model(profile, cluster)]
    for value in values:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert repr(pickle.loads(pickle.dumps(value, protocol))) == repr(value)


def test_the_class_behind_all_others_makes_no_objects():
    code, said = child("""
        base = stepcast.Cluster.__mro__[1]
        for make in (base, lambda: base.__new__(base), lambda: __import__("copyreg")._reduce_ex(c, 0)):
            try: make()
            except TypeError: print("refused")
        """)
    assert (code, said.split()) == (0, ["refused"] * 3)


def test_a_trace_that_is_cut_while_it_is_read(tmp_path):
    import gzip
    text = gzip.decompress(TRACE.read_bytes())
    (tmp_path / "whole.json").write_bytes(text)
    code, said = child(f"""
        whole, name, end = open({str(tmp_path / 'whole.json')!r}, "rb").read(), {str(tmp_path / 't.json')!r}, time.monotonic() + 3
        open(name, "wb").write(whole)
        def cut():
            while time.monotonic() < end:
                open(name, "wb").write(whole); os.truncate(name, 100)
        writer = threading.Thread(target=cut)
        writer.start()
        calls = 0
        while writer.is_alive():
            try: stepcast.read(name, check=False)
            except stepcast.InputError: pass
            calls += 1
        print(calls)
        """)
    assert code == 0 and int(said) > 1, said


def test_devices_that_never_end_are_refused():
    if os.path.exists("/dev/zero"):
        with pytest.raises(stepcast.InputError, match="a device"):
            stepcast.read("/dev/zero")


def test_values_that_do_not_exist_have_no_time_however_many_options_vary(profile, cluster):
    model = stepcast.Model(profile, cluster)
    kinds = {"count", "choice"}
    tried = 0
    for strategy in stepcast.strategies():
        for option in strategy.options:
            if option.kind not in kinds:
                continue
            fine, odd = [option.standard], [option.standard + 0.5, option.low - 1, option.high + 1, float("nan")]
            other = next((o for o in strategy.options if o.name != option.name and o.kind not in kinds | {"layers"}), None)
            beside = {other.name: [other.standard or other.tune_low]} if other else {}
            required = any(o.standard != o.standard for o in strategy.options)
            for varied in ({}, beside):
                assert np.isnan(model.predict_many(strategy.name, **{option.name: odd}, **varied)).all(), option
                if not required:
                    one = model.predict_many(strategy.name, **{option.name: fine})[0]
                    assert np.array_equal(model.predict_many(strategy.name, **{option.name: fine * 3}, **varied),
                                          [one] * 3, equal_nan=True)
            tried += 1
    assert tried > 5
    assert np.isnan(model.predict_many("horovod", loop=[1.5], threshold=[6.4e7])[0])


def test_text_in_any_script_is_refused_in_words(profile, cluster):
    texts = ["é", "ä" * 400, "x" + "ä" * 400, "模型", "ddp(bücket=1)", "🚀", "\u202e", "\x1b]0;evil\x07", "\x9b31m", "a\udcffb"]
    model = stepcast.Model(profile, cluster)
    asks = [lambda t: stepcast.predict(profile, cluster, t), lambda t: stepcast.Cluster(t),
            lambda t: stepcast.Cluster.from_json(t), lambda t: stepcast.Cluster(workers=4, network=t),
            lambda t: stepcast.Cluster(workers=4, network="1GbE", slow_worker=t), lambda t: model.predict(t),
            lambda t: stepcast.describe(t, "A100"), lambda t: stepcast.describe(GPT, t),
            lambda t: stepcast.whatif(profile, t), lambda t: stepcast.sweep(profile, cluster, ["ddp"], over={t: [1]}),
            lambda t: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": t}),
            lambda t: stepcast.read(TRACE, model=t), lambda t: stepcast.read(t.encode("utf-8", "surrogatepass")),
            lambda t: stepcast.read(t.encode("latin-1", "replace")), lambda t: stepcast.recommend(profile, cluster, allow=t),
            lambda t: cluster.replace(network=t), lambda t: cluster.replace(latency=t),
            lambda t: model.predict_many([t]), lambda t: model.predict_many("ddp", **{t: [1.0]})]
    for number, ask in enumerate(asks):
        for text in texts:
            with pytest.raises(stepcast.InputError) as caught:
                ask(text)
            said = str(caught.value)
            assert said and said.isprintable() or "\u202e" in said, (number, text, said)
            again = pickle.loads(pickle.dumps(caught.value))
            assert (str(again), again.args) == (said, caught.value.args)
    with pytest.raises(stepcast.InputError, match="'é'"):
        stepcast.predict(profile, cluster, "é")


@pytest.mark.parametrize("call", [
    "m.predict_many('bytescheduler', partition=[1e5 + i for i in range(1000000)])",
    "m.predict_many('bytescheduler', partition=[1e5 + i for i in range(1000000)], threads=0)",
    "m.predict_many('horovod', threshold=[1e5 + i for i in range(1000000)], cycle=[1e-3])",
    "m.predict_many(['bytescheduler', 'p3', 'ddp'] * 200000)",
    "stepcast.sweep(p, c, ['bytescheduler'], over={'bandwidth': '1Gb/s..100Gb/s:72000'})",
    "stepcast.recommend(big, c, allow=['lossy', 'stale', 'periodic'])",
    "stepcast.report(big, c)",
])
def test_ctrl_c_is_heard_during_long_calls(call):
    code, said = child(f"""
        m = stepcast.Model(p, c)
        big = stepcast.describe("gpt:hidden=1024,layers=96,heads=16,seq=1024", "A100")
        def press():
            time.sleep(1)
            while True: os.kill(os.getpid(), signal.SIGINT); pressed.append(time.monotonic()); time.sleep(60)
        pressed = []
        try:
            threading.Thread(target=press, daemon=True).start()
            {call}
            print("finished")
        except KeyboardInterrupt:
            print(time.monotonic() - pressed[0])
        print(m.iteration_s("ddp") > 0)
        """)
    first, works = said.split()[-2:]
    assert code == 0 and works == "True", said
    assert first == "finished" or float(first) < 1, said


def test_all_results_are_pickled_and_copied(profile, cluster):
    option = next(s for s in stepcast.strategies() if s.name == "horovod").options[0]
    values = [profile.layers[0], profile.tensors[0], option, *stepcast.strategies(), *stepcast.modifiers(),
              *stepcast.collectives(), *(o for s in stepcast.strategies() for o in s.options)]
    for value in values:
        fields = [name for name in dir(value) if not name.startswith("_") and name != "options"]
        for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
            assert type(again) is type(value) and repr(again) == repr(value)
            assert all(np.array_equal(getattr(again, name), getattr(value, name), equal_nan=False)
                       or getattr(value, name) != getattr(value, name) for name in fields)
    step = stepcast.predict(profile, cluster, "ddp")
    for value, other in ((profile, profile.replace(model="other")), (step, stepcast.predict(profile, cluster, "dear"))):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value) and other != value and value != 3


def test_damaged_pickles_are_refused():
    code, said = child("""
        sweep = stepcast.sweep(p, c, ["ddp", "dear"], over={"bandwidth": "1Gb/s..8Gb/s", "workers": [4, 16]}, first=2, last=7)
        plan = stepcast.CommPlan("own", p)
        plan.channel("wire"); plan.edge(("backward", 0), ("transfer", plan.transfer("all_reduce", 0)))
        values = [sweep, plan, c, p, p.check, p.layers[0], p.tensors[0], stepcast.strategies()[0],
                  stepcast.predict(p, c, "ddp"), stepcast.recommend(p, c, tune=False), stepcast.Model(p, c),
                  stepcast.whatif(p, "amp", cluster=c), stepcast.predict(p, c, "layout()/ddp")]
        odd = [None, -1, 2**40, 1e300, float("nan"), "", "x", b"x", (), [], {}, [None], ["x"], (1, 2, 3), object()]
        def damaged(state, depth=0):
            if isinstance(state, (tuple, list)):
                yield from (type(state)(state[:n]) for n in range(min(len(state), 12)))
                yield type(state)([*state, 1])
                for i in range(min(len(state), 12)):
                    for other in [*odd, *(damaged(state[i], depth + 1) if depth < 4 else ())]:
                        yield type(state)([*state[:i], other, *state[i + 1:]])
            elif isinstance(state, dict):
                for key in state:
                    for other in [*odd, *(damaged(state[key], depth + 1) if depth < 4 else ())]:
                        yield {**state, key: other}
                yield {**state, "unknown": 1}
        def use(value):
            repr(value)
            for name in ("to_json", "to_csv", "to_numpy", "to_text", "to_json_lines"):
                if hasattr(value, name): getattr(value, name)()
            for name in ("flaw", "cross_overs"): getattr(value, name, None)
            if isinstance(value, stepcast.CommPlan): stepcast.predict(p, c, value)
        import random
        random.seed(1)
        calls = 0
        for value in values:
            state = value.__getstate__()
            states = list(damaged(state))
            for wrong in random.sample(states, min(len(states), 250)):
                new = type(value).__new__(type(value))
                try:
                    new.__setstate__(wrong)
                    use(new)
                except (ValueError, TypeError, OverflowError, IndexError): pass
                calls += 1
        print(calls)
        """)
    assert code == 0 and int(said) > 1000, said


def test_objects_without_init_are_refused():
    code, said = child("""
        for name in stepcast.__all__:
            kind = getattr(stepcast, name)
            if not isinstance(kind, type) or "pybind11" not in str(kind.__mro__): continue
            made = kind.__new__(kind)
            for member in dir(kind):
                if member.startswith("__") and (member not in ("__repr__", "__len__", "__hash__") or member not in vars(kind)): continue
                try:
                    value = getattr(made, member)
                    if callable(value): value(*["ddp"] * (member in ("iteration_s", "predict", "values")))
                    print("accepted", name, member)
                except (TypeError, ValueError): pass
            for ask in (lambda: stepcast.predict(made, c, "ddp"), lambda: stepcast.predict(p, made, "ddp"),
                        lambda: stepcast.predict(p, c, made), lambda: pickle.dumps(made)):
                try: ask(); print("accepted", name)
                except (TypeError, ValueError): pass
        """)
    assert code == 0 and "accepted" not in said, said


def test_names_of_channels_are_not_kept():
    code, said = child("""
        import resource
        def used(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
        def make(first):
            for i in range(first, first + 60000):
                stepcast.CommPlan("x", p).channel("a name of a channel that does not fit into the string itself" * 4 + str(i))
        make(0)
        before = used()
        make(10**6)
        print(used() - before)
        """)
    assert code == 0 and int(said) < 4e6, said


def test_what_is_no_number_is_no_number(profile, cluster):
    model = stepcast.Model(profile, cluster)
    z = np.complex128(3e9 + 4j)
    wrong = [
        *(lambda v=v: stepcast.sweep(profile, cluster, ["ddp"], over={axis: v}) for axis in ("bandwidth", "workers", "latency")
          for v in (b"{}", bytearray(b"12"), memoryview(b"12"), {1: 2}, {8}, [z], z, [True], [b"1"], [None])),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over="x y"),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over=5),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"\ud800": [1]}),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [1e9]}, threads=-1),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [1e9]}, first=-1),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [1e9]}, threads=decimal.Decimal(2)),
        lambda: stepcast.sweep(profile, cluster, ["ddp"], over={"bandwidth": [1e9]}, last=np.array([1])),
        *(lambda v=v: stepcast.Cluster(workers=4, network=v) for v in (z, True, b"1", [1e9], np.array([1e9]), 10**400)),
        *(lambda v=v, k=k: stepcast.Cluster(workers=8, network="1GbE", **{k: v}) for k in ("per_node", "servers")
          for v in ([], {}, set(), np.array([]), False, 2.0, 10**5000)),
        lambda: cluster.replace(network=z), lambda: cluster.replace(workers=z), lambda: cluster.replace(workers=True),
        lambda: profile.on(cluster, faster_compute=z), lambda: profile.replace(batch_samples=z),
        lambda: stepcast.compare(profile, cluster, 5), lambda: stepcast.compare(profile, cluster, [5]),
        lambda: stepcast.recommend(profile, cluster, allow=5), lambda: model.predict_many(5),
        lambda: model.predict_many(["ddp"], threads=-1), lambda: model.predict_many("ddp", bucket=["1"]),
        lambda: stepcast.CommPlan("x", profile).channel("x", credit=b""),
        lambda: stepcast.CommPlan(b"\xff", profile), lambda: setattr(stepcast.CommPlan("x", profile), "uncovered", b"\xff"),
        lambda: stepcast.CommPlan("x", profile).transfer("all_reduce", 0, size=b""),
        lambda: stepcast.CommPlan("x", profile).transfer("all_reduce", 0, priority=2**40),
        lambda: stepcast.CommPlan("x", profile).edge("backward", ("update", 0)),
        lambda: stepcast.predict(profile, cluster, stepcast.CommPlan("x", profile), whatif="amp"),
        lambda: stepcast.predict(profile, cluster, 5), lambda: stepcast.read(TRACE, batch=z),
    ]
    for number, ask in enumerate(wrong):
        with pytest.raises(stepcast.InputError) as caught:
            ask()
        assert str(caught.value).isprintable() and len(str(caught.value)) < 500, number
    fine = stepcast.Cluster(workers=np.int64(16), per_node=4, network=fractions.Fraction(10**10, 8), servers=0)
    assert fine.network_bytes_per_s == stepcast.Cluster(workers=16, per_node=4, network=np.float32(1.25e9)).network_bytes_per_s
    assert stepcast.Cluster(workers=4, network="1GbE", slow_worker=1.5).to_json() == stepcast.Cluster(
        workers=4, network="1GbE", slow_worker="1.5").to_json()
    ints = stepcast.sweep(profile, cluster, ["ddp"], over={"workers": np.array([4, 16]), "bandwidth": decimal.Decimal("1e9")})
    assert list(ints.values("workers")) == [4, 16] and list(ints.values("bandwidth")) == [1e9]


def test_what_is_no_cluster_is_told_in_one_line(profile, cluster):
    for ask in (lambda: stepcast.predict(profile, "10GbE", "ddp"), lambda: stepcast.Model(profile, 5),
                lambda: profile.on(None), lambda: stepcast.whatif(profile, "amp", cluster=5)):
        with pytest.raises(TypeError, match="^expected a stepcast.Cluster, found [a-zA-Z]+$"):
            ask()


def test_reading_needs_no_threads():
    """The answer is the same where the system has no memory for the stacks of further threads."""
    def limited():
        resource.setrlimit(resource.RLIMIT_STACK, (3 * 10**9, 3 * 10**9))
        resource.setrlimit(resource.RLIMIT_AS, (5 * 10**9, 5 * 10**9))

    largest = max((path for path in (ROOT / "profiles" / "examples").glob("*.trace.json.gz") if "1f1b" not in path.name),
                  key=lambda path: path.stat().st_size)
    program = ("import stepcast, sys; p = stepcast.read(sys.argv[1]); print(p.step_s, p.gradient_bytes, "
               "stepcast.recommend(p, stepcast.Cluster(workers=16, network='1GbE'))[0].prediction.plan)")
    said = [subprocess.run([sys.executable, "-c", program, largest], preexec_fn=limit, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, encoding="utf-8",
                           env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}).stdout for limit in (None, limited)]
    assert said[0] == said[1] and "Error" not in said[0], said


def test_what_is_documented_has_its_help():
    for method in (stepcast.Model.__init__, stepcast.Cluster.__init__, stepcast.Cluster.replace, stepcast.Profile.on):
        assert "(" in method.__doc__ and len(method.__doc__) > 60
    assert "workers" in stepcast.Cluster.__init__.__doc__


def test_programs_that_work_pass_the_type_checker(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(f"""
        import numpy as np
        import stepcast

        profile: stepcast.Profile = stepcast.read({str(TRACE)!r}, check=False)
        cluster = stepcast.Cluster(workers=16, per_node=4, network="10GbE", slow_worker=1.3, late_worker=0.005, jitter=0.05)
        weak = stepcast.Cluster(workers=4, network=1.25e9, degraded_link=0.5)
        plan = stepcast.CommPlan("own", profile)
        number: int = plan.transfer("all_reduce", range(len(profile.tensors)))
        plan.edge(("backward", 0), ("transfer", number))
        plan.edge(("transfer", number), ("update", 0))
        ranking: stepcast.Ranking = stepcast.compare(profile, cluster, plan)
        page: str = ranking._repr_html_() + profile._repr_html_() + ranking[0].prediction._repr_html_()
        assert len(stepcast.recommend(profile, cluster, allow="lossy", tune=False)) > 0
        sweep = stepcast.sweep(profile, weak, ["ddp"], over={{"workers": 4, "bandwidth": np.array([1e9, 2e9])}})
        shape: tuple[int, ...] = sweep.to_numpy().shape
        model = stepcast.Model(profile, cluster)
        times = model.predict_many(plan for plan in ("ddp", "dear"))
        best: float = float(times.min())
        assert model.recommend(allow="lossy", plans=["ddp"])[0].prediction.iteration_s > 0 and best > 0
        assert shape == (1, 2, 1) and page and sweep._repr_html_()
        """))
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-numpy.*,pandas.*]\nfollow_imports = skip\n"
                        "follow_imports_for_stubs = True\nignore_missing_imports = True\n[mypy-program]\n"
                        "disallow_any_unimported = False\nwarn_return_any = False\n")
    environment = {**os.environ, "MYPYPATH": str(pathlib.Path(stepcast.__file__).parents[1])}
    subprocess.run([sys.executable, program], check=True)
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", settings, program], env=environment,
                          cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_thousands_of_hostile_calls():
    driver = pathlib.Path(__file__).with_name("hostile_calls.py")
    done = subprocess.run([sys.executable, driver], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                          encoding="utf-8")
    assert done.returncode == 0, done.stdout[-4000:]
    assert json.loads(done.stdout.splitlines()[-1])["calls"] > 2000
