"""The GPT's layers divided over the workers by DTensor, as PyTorch's users write it."""
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput,
                                               RowwiseParallel, SequenceParallel as DividedNorm, parallelize_module)

import models
from strategies import Local

SEQUENCE = Shard(1)


class TensorParallel(Local):
    """Heads and features are divided; every block has two all-reduces forward and two backward."""
    communicates = True

    def __init__(self, job):
        job.model = models.made("gpt")
        job.inputs, job.labels = models.inputs("gpt", job.batch, 0)  # one batch for all
        mesh = init_device_mesh("cpu", (job.world,))
        for block in (m for m in job.model if isinstance(m, models.Block)):
            parallelize_module(block, mesh, self.divided())
        super().__init__(job)

    def divided(self):
        return {**{f"attention.{p}": ColwiseParallel() for p in "qkv"}, "attention.project": RowwiseParallel(),
                "feed_forward.widen": ColwiseParallel(), "feed_forward.narrow": RowwiseParallel()}


class SequenceParallel(TensorParallel):
    """Between products the sequence is divided: all-gathers and reduce-scatters take the place of all-reduces."""

    def divided(self):
        gathered = PrepareModuleInput(input_layouts=(SEQUENCE,), desired_input_layouts=(Replicate(),))
        return {"norm1": DividedNorm(), "norm2": DividedNorm(), "attention": gathered, "feed_forward": gathered,
                **{f"attention.{p}": ColwiseParallel() for p in "qkv"},
                "attention.project": RowwiseParallel(output_layouts=SEQUENCE),
                "feed_forward.widen": ColwiseParallel(),
                "feed_forward.narrow": RowwiseParallel(output_layouts=SEQUENCE)}

    def __init__(self, job):
        super().__init__(job)
        layers = list(self.model)
        mesh = init_device_mesh("cpu", (job.world,))
        # The sequence is divided when it enters the first block, and whole again behind the last one.
        parallelize_module(layers[1], mesh, PrepareModuleInput(
            input_layouts=(Replicate(),), desired_input_layouts=(SEQUENCE,), use_local_output=True))
        parallelize_module(layers[-3], mesh, PrepareModuleOutput(
            output_layouts=(SEQUENCE,), desired_output_layouts=(Replicate(),), use_local_output=True))
        self.parameters = list(self.model.parameters())
