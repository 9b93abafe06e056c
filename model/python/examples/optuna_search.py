"""An optimiser that looks for the fastest plan: Optuna asks, stepcast answers.

    python3 optuna_search.py TRACE --workers 16 --per-node 4 --network 1GbE --trials 400 --allow lossy

The space is what stepcast can predict: a strategy, the options of that strategy (each with the range that the strategy
itself gives), a modifier of its plan (compressed gradients, only if allowed), and a collective. It is conditional: a
bucket size exists only below the strategies that have one. Optuna's tree-structured Parzen estimator proposes plans, a
batch at a time; `Model.predict_many` evaluates the batch, a few microseconds a plan; a plan that cannot run is pruned
and its reason counted. At the end stands `recommend`, which tries all strategies and tunes each by itself, so that one
sees what the optimiser found and how long it took. It may find more: `recommend` leaves the collective to the cluster
and offers a modifier on its usual strategy only. Where one plan of many is as good as the best, limit `--strategies`.

With `--measure COMMAND` the finalists are run for real: COMMAND gets a plan as its last argument and prints seconds.
"""

from __future__ import annotations

import argparse
import collections
import math
import shlex
import subprocess
import sys
import warnings

import optuna
import stepcast

# What compression costs in accuracy is not predicted: its own options stay at their defaults, as a search would always
# send as little as it may.


def choices(allowed: set[str], named: list[str]) -> dict[str, dict[str, stepcast.Listed | None]]:
    """The three categorical axes, by name; None where a plan leaves that part out."""
    strategies = [s for s in stepcast.strategies() if (s.name in named if named else s.fidelity in allowed)]
    return {"strategy": {s.name: s for s in strategies},
            "modifier": {"none": None} | {m.name: m for m in stepcast.modifiers() if m.fidelity in allowed & {"lossy"}},
            "collective": {"default": None} | {c.name: c for c in stepcast.collectives()}}


def written(trial: optuna.Trial, strategy: stepcast.Listed, option: stepcast.Option) -> str:
    """Asks for the value of an option, and writes it as plans do: "bucket=1048576 B"."""
    name = f"{strategy.name}.{option.name}"
    if option.kind == "choice":
        return f"{option.name}={trial.suggest_categorical(name, option.choices)}"
    low, high = option.tune_low, option.tune_high
    if option.kind == "count":
        return f"{option.name}={trial.suggest_int(name, int(low), int(high), log=low > 0)}"
    value = trial.suggest_float(name, low, high, log=low > 0)
    if option.kind == "size":
        return f"{option.name}={value:.0f} B"
    return f"{option.name}={value:.4g}" + " s" * (option.kind == "duration")


def plan_of(trial: optuna.Trial, axes: dict[str, dict[str, stepcast.Listed | None]]) -> str:
    """The plan that a trial stands for."""
    name = {axis: trial.suggest_categorical(axis, list(values)) for axis, values in axes.items()}
    strategy = axes["strategy"][name["strategy"]]
    options = ", ".join(written(trial, strategy, option) for option in strategy.options if option.tuned)
    plan = f"{strategy.name}({options})" if options else strategy.name
    if name["modifier"] != "none":
        plan += f"+{name['modifier']}"
    return plan if name["collective"] == "default" else f"{plan}@{name['collective']}"


def searched(model: stepcast.Model, axes: dict, trials: int, seed: int,
             batch: int) -> tuple[optuna.Study, collections.Counter]:
    """A study of that many trials, and why plans were pruned."""
    # constant_liar: a proposal counts as poor until its time is told, so that a batch is not the same plan many times
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=min(64, trials // 4 + 1), constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    reasons: collections.Counter = collections.Counter()
    while (left := trials - len(study.trials)) > 0:
        asked = [study.ask() for _ in range(min(batch, left))]
        plans = [plan_of(trial, axes) for trial in asked]
        for trial, plan, seconds in zip(asked, plans, model.predict_many(plans)):
            trial.set_user_attr("plan", plan)
            if math.isnan(seconds):
                try:
                    model.predict(plan)
                except stepcast.Inapplicable as why:
                    reasons[why.reason] += 1
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(trial, float(seconds))
    return study, reasons


def trials_until(study: optuna.Study, seconds: float) -> int | None:
    """The number of the first trial that is as fast; None if none is."""
    return next((t.number + 1 for t in study.trials if t.value is not None and t.value <= seconds), None)


def measured(command: str, plan: str) -> float:
    """Runs a plan for real: the last line that the command prints is the step time in seconds."""
    done = subprocess.run([*shlex.split(command), plan], check=True, capture_output=True, text=True)
    return float(done.stdout.split("\n")[-2])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--cluster", default="", help="shipped cluster or JSON file")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--per-node", type=int, default=0)
    parser.add_argument("--network", default="", help="link between machines: 10GbE")
    parser.add_argument("--inside", default="", help="link inside a machine: 250GB/s")
    parser.add_argument("--servers", type=int, default=0, help="machines for parameter servers")
    parser.add_argument("--allow", nargs="*", default=[], choices=["lossy", "stale", "periodic"],
                        help="plans that change the arithmetic of training")
    parser.add_argument("--strategies", nargs="*", default=[], help="only these, such as ddp horovod dear")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16, help="plans that are asked for and evaluated at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", metavar="COMMAND", help="measures a plan: prints seconds a step")
    parser.add_argument("--finalists", type=int, default=3, help="plans to measure")
    return parser.parse_args()


def main() -> int:
    flags = arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)

    cluster = stepcast.Cluster(flags.cluster, workers=flags.workers, per_node=flags.per_node, network=flags.network,
                               inside=flags.inside, servers=flags.servers)
    model = stepcast.Model(stepcast.read(*flags.traces), cluster)
    axes = choices({"exact", *flags.allow}, flags.strategies)
    if not axes["strategy"]:
        raise stepcast.InputError("--strategies", "strategies that stepcast knows", " ".join(flags.strategies))
    study, reasons = searched(model, axes, flags.trials, flags.seed, flags.batch)

    finished = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    print(f"trials      {len(study.trials)}, {len(finished)} evaluated, {sum(reasons.values())} pruned")
    for reason, times in reasons.most_common(3):
        print(f"pruned      {times:3} x {reason}")
    if not finished:
        print("no plan can run on this cluster")
        return 1
    best = study.best_trial
    print(f"optimiser   {best.user_attrs['plan']}: {best.value * 1e3:.2f} ms, trial {best.number + 1}")

    plans = [s if m == "none" else f"{s}+{m}" for s in axes["strategy"] for m in axes["modifier"]]
    ranking = model.recommend(allow=flags.allow, plans=plans if flags.strategies else None, sensitivity=False)
    fastest = min((ranked.prediction for ranked in [*ranking.exact, *ranking.others]), key=lambda p: p.iteration_s)
    print(f"recommend   {fastest.plan}: {fastest.iteration_s * 1e3:.2f} ms")
    within = trials_until(study, 1.01 * fastest.iteration_s)
    print(f"within 1 %  {'not reached' if within is None else f'after {within} trials'}")

    if flags.measure:  # only ranks finalists: told to the same study, one scale would be mistaken for the other
        best_of = {t.params["strategy"]: t for t in sorted(finished, key=lambda t: -t.value)}  # the last one stays
        finalists = sorted(best_of.values(), key=lambda t: t.value)[:flags.finalists]
        times = [(measured(flags.measure, t.user_attrs["plan"]), t) for t in finalists]
        for seconds, t in sorted(times, key=lambda pair: pair[0]):
            print(f"measured    {t.user_attrs['plan']}: {seconds * 1e3:.2f} ms, predicted {t.value * 1e3:.2f} ms")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (stepcast.InputError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}")
