"""What is run on one GPU, and which what-if each run checks; standard library only.

A configuration is one training run; a comparison predicts one run from the traces of others. Everything differs from a
model's base in as few points as possible, so that a wrong what-if is not hidden by another.
"""
from dataclasses import asdict, dataclass, replace

# Samples per step of the base run: large enough to fill a data-centre GPU, small enough that four times as many fit
# into 40 GB in fp32. `tiny` is for runs on a CPU that only exercise the scripts.
MODELS = {"resnet50": {"batch": 64, "tiny": 2}, "bert_base": {"batch": 16, "tiny": 1}, "gpt2_small": {"batch": 8, "tiny": 1},
          "gpt2_medium": {"batch": 4, "tiny": 1}, "vit_b": {"batch": 32, "tiny": 1}}
PRECISIONS = ("fp32", "tf32", "bf16")


@dataclass(frozen=True)
class Configuration:
    model: str
    batch: int
    precision: str = "fp32"   # fp32 with TF32 off; tf32; bf16: autocast, parameters stay fp32
    compiled: bool = False    # torch.compile
    fused: bool = False       # fused optimizer, else one launch per tensor and operation (foreach=False)
    graph: bool = False       # the whole step is one CUDA graph
    loader: bool = False      # batches are made and copied by the training process, else they are on the device

    @property
    def name(self):
        parts = [self.model, f"b{self.batch}", self.precision]
        parts += [flag for flag in ("compiled", "fused", "graph", "loader") if getattr(self, flag)]
        return "-".join(parts)

    def record(self):
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    base: Configuration
    what: str
    target: Configuration
    tolerance: float              # of the predicted step, relative
    other: Configuration = None   # second trace for batch(...)
    judged: bool = True           # False: shown, because the what-if's defaults are known not to fit
    note: str = ""


def base_of(model, tiny=False):
    return Configuration(model, MODELS[model]["tiny" if tiny else "batch"])


def configurations(models, tiny=False):
    """All runs of the models, without repetition, base first."""
    runs = []
    for model in models:
        base = base_of(model, tiny)
        tf32, bf16 = replace(base, precision="tf32"), replace(base, precision="bf16")
        runs += [base, tf32, bf16]
        runs += [replace(run, batch=factor * base.batch) for run in (base, tf32, bf16) for factor in (2, 4)]
        runs += [replace(run, **{flag: True}) for run in (tf32, bf16) for flag in ("compiled", "fused", "graph", "loader")]
        runs += [replace(bf16, fused=True, graph=True)]
    return list(dict.fromkeys(runs))


def comparisons(models, tiny=False):
    """What is predicted from what."""
    out = []
    for model in models:
        base = base_of(model, tiny)
        b = base.batch
        tf32, bf16 = replace(base, precision="tf32"), replace(base, precision="bf16")
        for run in (base, tf32, bf16):
            double, fourfold = replace(run, batch=2 * b), replace(run, batch=4 * b)
            out.append(Comparison(run, f"batch(to={2 * b})", double, 0.25, note="one trace: device time proportional"))
            out.append(Comparison(run, f"batch(to={4 * b})", fourfold, 0.10, other=double, note="line through two traces"))
        out.append(Comparison(tf32, "amp(gemm=2)", bf16, 0.25, note="tensor cores: half precision is twice TF32"))
        out.append(Comparison(base, "amp", bf16, 0.25, judged=False, note="the default factors are older than TF32"))
        for run in (tf32, bf16):
            out.append(Comparison(run, "fused_optimizer", replace(run, fused=True), 0.10))
            out.append(Comparison(run, "cuda_graphs", replace(run, graph=True), 0.10))
            out.append(Comparison(replace(run, loader=True), "faster_input", run, 0.10))
        out.append(Comparison(bf16, "fused_optimizer+cuda_graphs", replace(bf16, fused=True, graph=True), 0.15))
    return out
