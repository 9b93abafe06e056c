"""Recorded times of a model as the stages of the emulated accelerator, and the same as a profile for stepcast."""

JOINED_S = 0.3e-3  # gradients of a block that become ready within that time form one stage


def stages_of(recorded):
    """Stages in forward order; forward time is spread over them in proportion to their backward time."""
    groups = []
    for gradient in recorded["gradients"]:
        if (groups and gradient["block"] == groups[-1][0]["block"]
                and gradient["ready_s"] - groups[-1][0]["ready_s"] < JOINED_S):
            groups[-1].append(gradient)
        else:
            groups.append([gradient])
    total = recorded["gradients"][-1]["ready_s"]
    stages, before = [], 0.0
    for group in groups:
        backward = group[-1]["ready_s"] - before
        before = group[-1]["ready_s"]
        forward = recorded["forward_s"] * backward / total
        stages.append({"forward_s": round(forward, 8), "backward_s": round(backward, 8),
                       "block": group[0]["block"],
                       "tensors": [{"name": g["name"], "shape": g["shape"]} for g in group]})
    return stages[::-1]


def profile_of(model, recorded, batch, provenance):
    """A `stepcast.profile/1` whose layers are the stages."""
    layers, tensors = [], []
    for number, stage in enumerate(stages_of(recorded)):
        name = f"stage{number}"
        handed_on = recorded.get("activation")
        layers.append({"name": name, "forward": {"host_s": stage["forward_s"]},
                       "backward": {"host_s": stage["backward_s"]},
                       **({"input_shape": [batch, *handed_on], "input_dtype": "f32"} if handed_on else {})})
        of_stage = [{**t, "dtype": "f32", "size_bytes": 4 * product(t["shape"]), "layer": name}
                    for t in stage["tensors"]]
        tensors = of_stage + tensors
    return {"schema": "stepcast.profile/1", "model": model, "batch_samples": batch, "layers": layers, "tensors": tensors,
            "optimizer": {"host_s": round(recorded["optimizer_s"], 8)}, "provenance": provenance}


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result
