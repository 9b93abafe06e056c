"""What stepcast prints for frameworks: models of several kinds under layouts that use every dimension and option."""
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "profiles" / "examples" / "gpt-cpu-1-worker.pt.trace.json.gz"


class Settings(NamedTuple):
    """The text for one framework, and what it is a text for."""
    framework: str
    text: str
    question: str  # the command that prints it
    layout: dict  # as `predict --json` resolves it: degrees, micro-batch, ...
    devices: int
    micro_batches: int
    model: str


LLAMA = ("llama3-8b", 64)
MODELS = [LLAMA, ("qwen3-32b", 64), ("mixtral-8x7b", 64), ("gpt-oss-20b", 64), ("gpt2-xl", 64), ("llama3-8b:dtype=f16", 64),
          ("llama3-8b:gradients=bf16", 64), ("llama3-8b:kernels=compiled,loss=eager", 64),
          ("llama3-8b:kernels=eager,loss=compiled", 64), ("gpt2-xl:loss=compiled", 64),
          ("llama3-8b:linear=f8,optimizer=muon", 64), ("llama3-8b:linear=f4", 64), ("llama3-8b:launch=graphs", 64), ("qwen3-30b-a3b:launch=graphs,linear=f8", 64), ("gemma3-12b", 64),
          ("llama3-8b:dtype=f32", 64), ("bert:hidden=1024,layers=24,heads=16,seq=512", 64), ("resnet50:image=224", 64),
          (TRACE, 4)]
PLANS = ["ddp", "ddp(bucket=100 MiB)", "dear(bucket=8 MiB)", "horovod", "fsdp", "zero2", "layout(zero=1)/ddp",
         "layout(zero=1, overlap_gather=off)/ddp", "layout(zero=1, mb=1)/ddp", "layout(zero=1, whole_tensors=on)/ddp",
         "layout(zero=1, whole_tensors=on, shard=8)/ddp",
         "layout(zero=3, shard=8)/ddp", "layout(zero=3, hpz=8)/ddp", "layout(zero=3, hpz=8, qwz=on, qgz=on)/ddp",
         "layout(zero=3, in_flight=4)/ddp", "layout(zero=3, recompute=full)/ddp",
         "layout(recompute=selective)/ddp", "layout(zero=2, mb=1)/ddp", "layout(mb=1)/ddp", "layout(tp=4)/ddp",
         "layout(tp=4, sp=on)/ddp", "layout(tp=4, sp=on, zero=3)/ddp", "layout(tp=4, sp=on, zero=1)/ddp",
         "layout(tp=4, zero=2)/ddp", "layout(tp=2, sp=on, overlap_tp=on, zero=3)/ddp", "layout(pp=4, mb=1)/ddp",
         "layout(pp=4, mb=1, schedule=gpipe)/ddp", "layout(pp=4, chunks=2, mb=1)/ddp", "layout(pp=4, chunks=2, mb=1, schedule=zb_v, overlap_dp=off)/ddp",
         "layout(pp=4, chunks=3, mb=1, zero=2)/ddp", "layout(pp=2, chunks=4, mb=1, zero=2, recompute=full)/ddp",
         "layout(pp=2, chunks=2, mb=1, schedule=zb_v, zero=2)/ddp", "layout(pp=4, zero=1, mb=1)/ddp", "layout(pp=4, zero=1, mb=1, overlap_dp=off)/ddp",
         "layout(pp=2, tp=4, sp=on, zero=1, mb=1, recompute=full, overlap_dp=off)/ddp", "layout(pp=3, mb=1)/ddp",
         "layout(cp=2, zero=3)/ddp", "layout(cp=2, tp=2, sp=on)/ddp", "layout(ep=8, zero=1)/ddp",
         "layout(ep=8, tp=2, sp=on, zero=1)/ddp", "layout(pp=4, order=tp-cp-pp-dp, mb=1)/ddp",
         "layout(zero=1, shard=8)/ddp", "layout(cp=2, cp_comm=a2a)/ddp", "layout(cp=2, cp_comm=allgather, zero=3)/ddp",
         "layout(zero=3, recompute=op)/ddp", "layout(ep=8, ep_comm=deepep, zero=1, recompute=layernorm+moe_act)/ddp",
         "layout(ep=8, mb=1, zero=1, overlap_ep=on)/ddp", "layout(ep=8, ep_comm=deepep, mb=1, zero=1, overlap_ep=on)/ddp",
         "layout(pp=2, chunks=2, ep=8, mb=1, zero=1, overlap_ep=on)/ddp",
         "layout(tp=2, sp=on, ep=8, etp=1, ep_comm=deepep, mb=1, zero=1, overlap_ep=on, recompute=moe_act)/ddp",
         "layout(ep=8, ep_comm=deepep, zero=3)/ddp", "layout(zero=1, offload=optimizer)/ddp",
         "layout(tp=2, sp=on, pp=2, mb=1, zero=1, offload=optimizer)/ddp", "layout(zero=3, offload=parameters)/ddp",
         "layout(tp=2, sp=on, zero=3, offload=parameters)/ddp", "layout(zero=2, offload=optimizer)/ddp",
         "layout(zero=3, recompute=full, offload=parameters+activations)/ddp",
         "layout(tp=2, sp=on, zero=1, offload=optimizer+activations, mb=1)/ddp"]


def printed(program):
    """All settings, each text once; and how many questions had an answer."""
    seen, found, answered = set(), [], 0
    for model, devices in MODELS:
        for plan in PLANS:
            traced = isinstance(model, Path)
            # H100 has no products of four bits, nor those that a recorded mixture runs.
            chip = "b200" if any(word in str(model) for word in ("linear=f4", "launch=graphs")) else "h100"
            command = [str(program), "predict", *([str(model)] if traced else ["--model", model, "--device", chip]),
                       *(["--workers", str(devices), "--per-node", "2", "--network", "100GbE"] if traced
                         else ["--cluster", f"{devices // 8}xdgx-{chip}"]),
                       "--plan", plan, "--global-batch", str(devices * 8), "--json"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            if done.returncode not in (0, 1):  # a layout that this model has not, told in a line
                if done.returncode != 2:
                    raise SystemExit(f"{' '.join(command)}: {done.stderr}")
                continue
            answer = json.loads(done.stdout)
            if "settings" not in answer:
                continue
            answered += 1
            for one in answer["settings"]:
                key = (one["framework"], one["text"], str(model))
                if one["text"] is None or key in seen:
                    continue
                seen.add(key)
                found.append(Settings(one["framework"], one["text"], f"{model} on {devices}: {plan}", answer["layout"],
                                      answer["devices"], answer["micro_batches"], model.name if traced else model))
    return found, answered
