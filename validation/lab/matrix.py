"""What is measured: jobs, the strategies that can train them, and which jobs may be fitted to.

A job is a model as it is trained: `gpt`, `emu-gpt` (on the emulated accelerator), `gpt@2` (another batch),
`gpt+compile` (torch.compile).
"""
import dataclasses
import os

import plans

# Divided by model, before anything was measured: rows of the first kind may be fitted to, the others judge.
SPLIT = {"resnet18": "calibration", "mlp": "calibration", "gpt": "held_out", "recommender": "held_out"}
BATCHES = {"resnet18": (16, 8), "gpt": (4, 2), "mlp": (256, 64), "recommender": (512, 128)}
LAYERED = ("gpt",)  # models that pipelines and tensor parallelism cut
COMPILED = ("resnet18", "gpt")
RATES, QUICK_RATES = (300, 1000, 3000, 10000), (1000,)  # Mb/s of every link
AT_ALL_RATES = ("local", "ddp:25", "fsdp:block:ring", "tp", "pp:1f1b:4", "embeddings")  # the others at the quick one

DATA_PARALLEL = ["ddp:25", "ddp:1", "ddp:5", "ddp:100", "ddp:25:view", "ddp:25:static", "noov:25", "wfbp", "dear:5"]
SHARDED = ["fsdp:block", "fsdp:model", "fsdp:block:keep", "fsdp:block:prefetch", "fsdp:block:ring", "fsdp:model:ring"]
REAL = DATA_PARALLEL + SHARDED + ["fp16", "bf16", "powersgd:1", "accumulate:4", "localsgd:4", "zero1:25", "tp", "sp",
                                  "pp:gpipe:4", "pp:1f1b:4", "pp:interleaved:4", "pp:zb:4", "pp:zbv:4", "embeddings"]
EMULATED = ["ddp:25", "ddp:1", "ddp:5", "ddp:100", "noov:25", "wfbp", "dear:5", "ps:1", "rpc", "fsdp:block",
            "fsdp:model", "fsdp:block:keep", "fsdp:block:2", "fsdp:block:ring", "fsdp:block:ring:prefetch", "hsdp:block",
            "pp:gpipe:4", "pp:1f1b:4", "pp:interleaved:4"]
OTHER_BATCH, WITH_COMPILE = ["ddp:25", "ddp:1", "fsdp:block:ring", "pp:1f1b:2"], ["ddp:25", "fsdp:block:ring"]
QUICK = {"gpt": ["ddp:25", "ddp:1", "ddp:25:static", "fp16", "accumulate:4", "localsgd:4", "zero1:25", "fsdp:block",
                 "fsdp:model", "fsdp:block:keep", "fsdp:block:ring", "tp", "sp", "pp:gpipe:4", "pp:1f1b:4",
                 "pp:interleaved:4"],
         "resnet18": ["ddp:25", "bf16", "powersgd:1", "fsdp:block:ring"],
         "mlp": ["ddp:25", "wfbp", "fsdp:model:ring"],
         "recommender": ["ddp:25", "embeddings"],
         "emu-gpt": ["ddp:25", "ddp:1", "wfbp", "dear:5", "fsdp:block", "fsdp:block:ring", "hsdp:block", "pp:1f1b:4"],
         "emu-resnet18": ["ddp:25", "ddp:1", "ps:1", "rpc"]}


@dataclasses.dataclass(frozen=True)
class Job:
    model: str
    emulated: bool = False
    compiled: bool = False
    batch: int = 0

    @property
    def name(self):
        usual = self.batch == BATCHES[self.model][0]
        return (f"{'emu-' if self.emulated else ''}{self.model}{'+compile' if self.compiled else ''}"
                f"{'' if usual else f'@{self.batch}'}")

    @property
    def split(self):
        return SPLIT[self.model]


def job_of(name):
    """The job of that name; ValueError if there is none."""
    rest, _, batch = name.removeprefix("emu-").partition("@")
    model, _, word = rest.partition("+")
    if model not in BATCHES or word not in ("", "compile") or (batch and not batch.isdecimal()):
        raise ValueError(f"there is no job {name}; models: {', '.join(BATCHES)}, each also as emu-MODEL, MODEL@BATCH "
                         "and MODEL+compile")
    return Job(model, name.startswith("emu-"), word == "compile", int(batch or BATCHES[model][0]))


def fits(job, world, strategy):
    """Whether a strategy can train a job on that many processes."""
    kind, *values = strategy.split(":")
    if kind in ("tp", "sp") and (job.emulated or job.compiled):
        return False
    if kind in ("tp", "sp", "pp"):
        enough = kind != "pp" or (job.batch % int(values[1]) == 0 and int(values[1]) >= world)
        return job.model in LAYERED and not job.compiled and enough
    if kind == "embeddings":
        return job.model == "recommender" and not job.emulated
    if kind == "hsdp" or plans.has_servers(strategy) or strategy.startswith("fsdp:block:2"):
        return world == 4  # two and two
    if kind == "local":
        return world == 2 and not job.emulated
    if job.emulated and job.model == "recommender":
        return kind in ("ddp", "noov", "wfbp", "dear")
    return not (job.emulated and kind in ("fp16", "bf16", "powersgd", "localsgd", "accumulate", "zero1"))


def whole():
    """Strategies by job of the whole matrix."""
    found = {}
    for model, (usual, other) in BATCHES.items():
        found[model] = REAL
        found[f"emu-{model}"] = EMULATED
        found[f"{model}@{other}"] = OTHER_BATCH
        found[f"emu-{model}@{other}"] = OTHER_BATCH
        if model in COMPILED:
            found[f"{model}+compile"] = WITH_COMPILE
    return found


def at_rate(rate, name, strategies):
    """Of the whole matrix's strategies of a job those that are measured at a rate: all of them at one, so that it ends in
    time; at the others a few, of the usual batch, not compiled."""
    job = job_of(name)
    usual = job.batch == BATCHES[job.model][0] and not job.compiled
    return [s for s in strategies if rate in QUICK_RATES or (usual and s in AT_ALL_RATES)]


def configurations(strategies_of, worlds, processors=None):
    """(job, world, strategy) of everything that can be measured; real compute only where there is a processor each."""
    processors = processors or os.cpu_count()
    found = []
    for world in worlds:
        for name, strategies in strategies_of.items():
            job = job_of(name)
            if job.emulated or world <= processors:
                found += [(name, world, strategy) for strategy in ["local"] * ("local" not in strategies) + strategies
                          if fits(job, world, strategy)]
    return found
