#!/usr/bin/env python3
"""What the frameworks' own parsers say of settings. Runs in the environment that `run` makes, for one framework:

    parsers.py FRAMEWORK SOURCES < settings.json > refusals.json
    parsers.py Megatron-LM SOURCES --flags > flags.json

SOURCES is the folder where what cannot be installed lies unpacked. A refusal is the place in the list and the words.
"""
import argparse
import ast
import contextlib
import functools
import inspect
import io
import json
import os
import re
import shlex
import sys
import types
import warnings
from pathlib import Path

warnings.simplefilter("ignore")


def words_of(text, program):
    """The arguments behind the program in a command that goes over several lines."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    command = " ".join(line.rstrip("\\") for line in lines)
    return shlex.split(command[command.index(program) + len(program):])


class Megatron:
    """Its parser and its checks (megatron/training/arguments.py), which import nearly all of it."""

    def __init__(self, sources):
        import typing
        import typing_extensions
        typing.override = typing_extensions.override  # of Python 3.12
        sys.path.insert(0, str(sources / "megatron-core"))
        package = types.ModuleType("megatron.training")  # without what it imports to train
        package.__path__ = [str(sources / "megatron-core" / "megatron" / "training")]
        for name in ("args", "timers", "tokenizer", "signal_handler", "adlr_autoresume", "tensorboard_writer",
                     "wandb_writer", "one_logger"):
            setattr(package, f"get_{name}", None)
        sys.modules["megatron.training"] = package
        import megatron.training.arguments as arguments
        arguments.get_device_arch_version = lambda: 9  # of an H100
        arguments.is_te_min_version = lambda *_, **__: True  # Transformer Engine is not installed here: today's
        arguments.torch.cuda.get_device_capability = lambda *_: (9, 0)
        self.arguments = arguments

    def flags(self):
        """Every flag, and what it takes."""
        parser = self.arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
        lines = set()
        for action in parser._actions:
            takes = "" if action.nargs == 0 else "VALUE"
            if action.choices is not None and action.nargs is None:
                takes = "{" + ",".join(str(getattr(choice, "name", choice)) for choice in action.choices) + "}"
            lines.update(f"{name} {takes}".strip() for name in action.option_strings if name.startswith("--"))
        return sorted(lines)

    def check(self, text, settings):
        os.environ.update(WORLD_SIZE=str(settings["devices"]), RANK="0")
        os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        for name, value in re.findall(r"^(CUDA_\w+)=(\w+) ", text, re.M):
            os.environ[name] = value
        words = words_of(text, "pretrain_bert.py" if "pretrain_bert.py" in text else "pretrain_gpt.py")
        if "--num-layers" not in words:  # "and the arguments of your model's shape": here are some
            words += shlex.split("--num-layers 6 --hidden-size 256 --num-attention-heads 4 --seq-length 128 "
                                 "--max-position-embeddings 128")
        sys.argv = ["pretrain", *words, *shlex.split("--train-iters 10 --lr 1e-4 --tokenizer-type NullTokenizer "
                                                     "--vocab-size 32000 --mock-data")]
        args = self.arguments.parse_args()
        self.arguments.validate_args(args, {})
        layout = settings["layout"]
        found = [args.data_parallel_size, args.micro_batch_size]
        wanted = [layout["data"], layout["micro_batch"]]
        assert found == wanted, f"data parallelism and micro-batch {found}, not {wanted}"


class DeepSpeed:
    """Its configuration class, and Accelerate's and the keys that both know."""

    def __init__(self, sources):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        with contextlib.redirect_stdout(io.StringIO()):
            import deepspeed.runtime.config as config
            from accelerate.utils import DeepSpeedPlugin
        self.config, self.plugin = config, DeepSpeedPlugin
        constants = [value for module in (config, sys.modules["deepspeed.runtime.constants"])
                     for name, value in vars(module).items() if name.isupper() and isinstance(value, str)]
        source = "".join(inspect.getsource(sys.modules[name]) for name in sorted(sys.modules)
                         if name.startswith("deepspeed.") and name.rpartition(".")[2] in ("config", "constants"))
        self.keys = set(constants) | set(re.findall(r"[\"'](\w+)[\"']", source))

    def check(self, text, settings):
        document = json.loads(text)
        unknown = sorted(key for key in document if key not in self.keys)
        assert not unknown, f"unknown keys {unknown}"
        layout = settings["layout"]
        # As deepspeed.initialize calls it: the grid of a pipeline tells its data-parallel degree, else all devices count.
        self.config.dist = types.SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda *_: settings["devices"])
        grid = types.SimpleNamespace(get_data_parallel_world_size=lambda: layout["data"])
        with contextlib.redirect_stdout(io.StringIO()):
            found = self.config.DeepSpeedConfig(document, mpu=grid if layout["pipeline"] > 1 else None)
        assert found.zero_optimization_stage == layout["zero"], "another ZeRO stage"
        assert found.train_micro_batch_size_per_gpu == layout["micro_batch"], "another micro-batch"
        self.plugin(hf_ds_config=document)


class Titan:
    def __init__(self, sources):
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0"
        from torchtitan.config import ConfigManager
        self.manager = ConfigManager

    def check(self, text, settings):
        words = words_of(text, "./run_train.sh")
        model, size = ("qwen3", "qwen3_30b_a3b") if settings["layout"]["expert"] > 1 else ("llama3", "llama3_8b")
        words = ["--module", model, "--config", size, *words]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                found = self.manager().parse_args(words)
        except SystemExit:
            raise ValueError(re.sub(r"[\u2500-\u257f\s]+", " ", said.getvalue())[:300]) from None
        layout, parallel = settings["layout"], found.parallelism
        degrees = [parallel.tensor_parallel_degree, parallel.pipeline_parallel_degree, parallel.context_parallel_degree]
        wanted = [layout["tensor"], layout["pipeline"], layout["context"]]
        assert degrees == wanted, f"degrees {degrees}, not {wanted}"


class Horovod:
    """horovodrun's parser, the variables that its core reads, and the arguments of its optimizer."""

    def __init__(self, sources):
        folder = sources / "horovod"
        sys.path.insert(0, str(folder))
        self.variables = set(re.findall(r'"(HOROVOD_\w+)"', (folder / "horovod/common/common.h").read_text()))
        tree = ast.parse((folder / "horovod/torch/optimizer.py").read_text())
        optimizer = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "DistributedOptimizer")
        self.keywords = {argument.arg for argument in optimizer.args.args}
        from horovod.runner import launch
        self.launch = launch

    def check(self, text, settings):
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for name in re.findall(r"(HOROVOD_\w+)=", text):
            assert name in self.variables, f"unknown variable {name}"
        run = next(line for line in lines if "horovodrun" in line)
        sys.argv = ["horovodrun", *shlex.split(run)[shlex.split(run).index("horovodrun") + 1:]]
        args = self.launch.parse_args()
        assert args.num_proc == settings["devices"], f"{args.num_proc} processes"
        for call in (node for node in ast.walk(ast.parse(lines[-1])) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "DistributedOptimizer":
                unknown = [k.arg for k in call.keywords if k.arg not in self.keywords]
                assert not unknown, f"unknown arguments {unknown}"


class Torch:
    """The lines are run on a small model, with a process group that exchanges nothing, on the host."""

    def __init__(self, sources):
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what is compiled is called, and not compiled
        import torch
        from torch.testing._internal.distributed.fake_pg import FakeStore
        self.torch, self.store = torch, FakeStore

    def names(self):
        torch = self.torch
        from torch import nn
        import torch.distributed._composable  # noqa: F401
        from torch.distributed._composable import checkpoint, replicate
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (apply_activation_checkpointing,
                                                                                 checkpoint_wrapper)
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from torch.distributed import fsdp
        from torch.distributed.optim import ZeroRedundancyOptimizer
        from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                                  ScheduleZBVZeroBubble)
        from torch.nn.parallel import DistributedDataParallel
        from torchao import float8

        class CoreAttention(nn.Module):
            def forward(self, x):
                return torch.softmax(x, -1)

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.core_attention = nn.Linear(8, 8), CoreAttention()

            def forward(self, x):
                return x + self.core_attention(self.linear(x))

        CPUOffloadPolicy = functools.partial(fsdp.CPUOffloadPolicy, pin_memory=False)  # pinning takes a GPU
        blocks = nn.ModuleList(Block() for _ in range(6))
        model = nn.Sequential(*blocks, nn.Linear(8, 1))
        matrices = [p for p in blocks.parameters() if p.ndim == 2]
        # On the host 8-bit products are emulated.
        convert_to_float8_training = functools.partial(float8.convert_to_float8_training,
                                                       config=float8.Float8LinearConfig(emulate=True))
        return dict(vars(), contextlib=contextlib, nn=nn, lr=0.1, device=torch.device("cpu"),
                    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                    scaler=torch.amp.GradScaler("cpu", enabled=False),
                    loss_of=lambda model, batch: model(batch).float().sum(), loss_fn=lambda output, target: output.sum())

    def check(self, text, settings):
        distributed = self.torch.distributed
        if settings["framework"] == "PyTorch DDP":  # its hooks want what was exchanged
            distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
        else:
            distributed.init_process_group("fake", rank=0, world_size=settings["devices"], store=self.store())
        try:
            names, layout = self.names(), settings["layout"]
            batches = settings["micro_batches"]
            names["batch"] = self.torch.zeros(layout["micro_batch"] * (batches if layout["pipeline"] > 1 else 1), 8)
            names["micro_batches"] = [names["batch"]] * batches
            names["part"], names["parts"] = names["blocks"][0], list(names["blocks"])[:layout["chunks"]]
            lines = text.replace('"cuda"', '"cpu"')
            if settings["framework"] == "PyTorch DDP":  # of one process
                lines = re.sub(r'init_device_mesh\("cpu", \(\d+, \d+\)', 'init_device_mesh("cpu", (1, 1)', lines)
            step = "schedule.step(*([batch] if first else []), target=labels if last else None)"
            lines = lines.replace(step, "schedule.step")  # nobody answers its messages
            exec(compile(lines, "settings", "exec"), names)
        finally:
            distributed.destroy_process_group()


FRAMEWORKS = {"Megatron-LM": Megatron, "DeepSpeed": DeepSpeed, "torchtitan": Titan, "Horovod": Horovod,
              "PyTorch DDP": Torch, "PyTorch FSDP": Torch, "PyTorch pipelining": Torch}


def main():
    framework, sources = sys.argv[1], Path(sys.argv[2])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the parsers print is no answer
    parser = FRAMEWORKS[framework](sources)
    if "--flags" in sys.argv:
        json.dump(parser.flags(), out)
        return
    settings = json.load(sys.stdin)
    refusals = []
    for place, one in enumerate(settings):
        try:
            parser.check(one["text"], one)
        except (Exception, SystemExit) as error:  # a parser may end the program
            refusals.append([place, f"{type(error).__name__}: {error}".strip()[:400]])
    json.dump(refusals, out)
    out.close()


if __name__ == "__main__":
    main()
