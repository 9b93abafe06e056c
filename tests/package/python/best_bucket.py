"""best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK: which bucket size is best for a training job, out of two
thousand for each of two strategies, and what the best one gives. The same program stands beside this one in C++ and C.
"""
import sys

import numpy as np
import stepcast


def best_bucket(trace: str, workers: int, per_node: int, network: str, other_network: str) -> int:
    # What a step costs, and whether the model can rebuild the steps that it was told.
    profile = stepcast.read(trace)
    if profile.check.caution:
        print("caution:", profile.check.caution)
    model = stepcast.Model(profile, stepcast.Cluster(workers=workers, per_node=per_node, network=network))

    buckets = 32768.0 * np.arange(1, 2001)
    best, least, best_size = "", np.nan, 0.0
    for strategy in ("ddp", "dear"):
        seconds = model.predict_many(strategy, bucket=buckets)
        if np.isnan(seconds).all():
            continue  # cannot run on this cluster
        at = np.nanargmin(seconds)
        print(f"{strategy}: of {buckets.size} bucket sizes {buckets[at]:.15g} bytes is the best, {seconds[at]:.15g} s")
        if not seconds[at] >= least:
            best, least, best_size = strategy, seconds[at], buckets[at]
    if not best:
        return 1

    plan = f"{best}(bucket={best_size:.0f} B)"
    answer = model.predict(plan)
    print(f"best: {best}, step {answer.iteration_s:.15g} s (80 % interval {answer.interval_low_s:.15g} to "
          f"{answer.interval_high_s:.15g}), of which {answer.exposed_communication_s:.15g} s wait for "
          f"{answer.messages} messages")

    # The same on another network: what a network does not change is not computed again.
    elsewhere = model.on(stepcast.Cluster(workers=workers, per_node=per_node, network=other_network))
    print(f"on {other_network}: {elsewhere.iteration_s(plan):.15g} s")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("usage: best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK")
    try:
        sys.exit(best_bucket(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]))
    except stepcast.InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
