"""The recommender's tables divided over the workers: all-to-all of embeddings, all-reduce of the dense layers."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import models
from strategies import Local


class Exchange(torch.autograd.Function):
    """Each worker's rows of every table from whoever holds it; the gradient goes back the same way."""

    @staticmethod
    def forward(_, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(_, gradient):
        out = torch.empty_like(gradient)
        dist.all_to_all_single(out, gradient.contiguous())
        return out


class DividedTables(Local):
    """Worker r holds tables r, r + n, ..., looks its rows up for the batches of all workers, and sends them."""
    communicates = True

    def __init__(self, job, size=25):
        world, batch = job.world, job.batch
        numbers, own = job.inputs
        batches = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(batches, own)
        everyone = torch.cat(batches)
        tables = [job.model.tables[i] for i in range(job.rank, models.TABLES, world)]
        indices = [everyone[:, i] for i in range(job.rank, models.TABLES, world)]

        def pooled(_):
            looked_up = torch.stack([t(i) for t, i in zip(tables, indices)], 1)  # (world x batch) x tables x factors
            mixed = Exchange.apply(looked_up)
            return mixed.unflatten(0, (world, batch)).transpose(0, 1).flatten(1)

        job.model.pooled = pooled
        job.model.tables = torch.nn.ModuleList(tables)
        super().__init__(job)
        dense = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        dense(job.model, [name for name, _ in job.model.named_parameters() if name.startswith("tables.")])
        self.parallel = DistributedDataParallel(job.model, bucket_cap_mb=size)

    def output(self):
        return self.parallel(self.job.inputs)
