"""States divided over the workers: FSDP2's fully_shard, on one mesh and on two dimensions, and ZeRO's first stage."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

import models
from ring import Queue, Ring, RingAllGather, RingReduceScatter
from strategies import Ddp, Local


class FullySharded(Local):
    """`block` wraps every block, `model` the model as a whole.

    Words: `keep` (parameters stay gathered between forward and backward pass), a number (they are divided again over
    so many workers only), `prefetch` (the next block is gathered while one computes), `ring` (collectives of this
    laboratory instead of gloo's).
    """
    communicates = True
    mesh_of = staticmethod(lambda world: init_device_mesh("cpu", (world,)))

    def __init__(self, job, wrap="block", *words):
        mesh, blocks = self.mesh_of(job.world), [m for _, m in models.blocks_of(job.model)]
        reshard = next((w for w in words if isinstance(w, int)), "keep" not in words)
        for module in (blocks if wrap == "block" else []) + [job.model]:
            fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
        sharded = [m for m in job.model.modules() if isinstance(m, FSDPModule)]
        for module in sharded:
            # gloo takes an average for a sum and says nothing.
            module.set_force_sum_reduction_for_comms(True)
        self.queue = None
        if "ring" in words:
            self.queue = Queue(job.schedule_thread)
            ring = Ring(job.rank, job.world)
            for module in sharded:
                module.set_custom_all_gather(RingAllGather(ring, self.queue))
                module.set_custom_reduce_scatter(RingReduceScatter(ring, self.queue))
        if "prefetch" in words:
            for module, following in zip(blocks, blocks[1:]):
                module.set_modules_to_forward_prefetch([following])
                following.set_modules_to_backward_prefetch([module])
        job.waits_within()
        super().__init__(job)

    def close(self):
        super().close()
        if self.queue:
            self.queue.end()


class HybridSharded(FullySharded):
    """Divided over pairs of workers; pairs hold the same and add up."""
    mesh_of = staticmethod(lambda world: init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("copies", "parts")))


class ZeroOne(Ddp):
    """DistributedDataParallel whose optimizer state is divided: each worker updates its part and sends it to all."""

    def __init__(self, job, size=25):
        super().__init__(job, size)
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9)
