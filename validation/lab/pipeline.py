"""Pipelines of torch.distributed.pipelining: GPipe, 1F1B, interleaved and the schedules without bubbles."""
import torch
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

import models
from strategies import Local

# Name, stages a worker, and whether its second stage lies on the way back (V).
SCHEDULES = {"gpipe": ("GPipe", 1, False), "1f1b": ("1F1B", 1, False), "interleaved": ("Interleaved1F1B", 2, False),
             "zb": ("InterleavedZeroBubble", 2, False), "zbv": ("ZBVZeroBubble", 2, True)}


def cut(count, parts):
    """Where `count` blocks are cut into `parts`: as even as can be, the larger ones in the middle."""
    return [round(i * count / parts) for i in range(parts + 1)]


class Pipeline(Local):
    """A part of the model on each worker, and micro-batches that pass through all of them."""
    communicates = True

    def __init__(self, job, schedule, parts):
        name, chunks, back = SCHEDULES[schedule]
        job.batch_of_rank(0)
        blocks, total = [m for _, m in models.blocks_of(job.model)], chunks * job.world
        bounds = cut(len(blocks), total)
        stages = []
        for chunk in range(chunks):
            number = total - 1 - job.rank if back and chunk == 1 else chunk * job.world + job.rank
            part = torch.nn.Sequential(*blocks[bounds[number]:bounds[number + 1]])
            stages.append(PipelineStage(part, number, total, torch.device("cpu")))
        self.first, self.last = any(s.is_first for s in stages), any(s.is_last for s in stages)
        entered = job.entered()
        job.waits_within()
        job.model = torch.nn.ModuleList(s.submod for s in stages)
        super().__init__(job)
        self.inputs = [entered] if self.first else []
        self.schedule = get_schedule_class(name)(stages if chunks > 1 else stages[0], parts, loss_fn=job.loss)

    def pass_through(self):
        if self.job.stages:
            self.job.synchronise()
        if self.last:
            self.schedule.step(*self.inputs, target=self.job.labels, losses=[])
        else:
            self.schedule.step(*self.inputs)
