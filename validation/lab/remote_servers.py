"""Parameter servers as torch.distributed.rpc has them: gradients go as arguments of a call, averages are what it returns.

Tensors are divided over the servers by size. Once a step, after the backward pass, a worker calls every server with its
gradients; the call ends when the calls of all workers are in (rpc.functions.async_execution).
"""
import os
import threading

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

from strategies import Local

PORT = 29_700  # of the rendezvous; one more for each time that the processes meet
meetings = 0


class Server:
    """Averages what its workers send, once all of them have."""
    here = None  # of this process

    def __init__(self, workers):
        self.workers, self.lock, self.sums, self.waiting = workers, threading.Lock(), None, []

    @staticmethod
    @rpc.functions.async_execution
    def averaged(gradients):
        return Server.here.add(gradients)

    def add(self, gradients):
        future = torch.futures.Future()
        with self.lock:
            if self.sums is None:
                self.sums = [g.clone() for g in gradients]
            else:
                for total, gradient in zip(self.sums, gradients):
                    total.add_(gradient)
            self.waiting.append(future)
            complete = len(self.waiting) == self.workers
            if complete:
                averages, callers = [total.div_(self.workers) for total in self.sums], self.waiting
                self.sums, self.waiting = None, []
        if complete:
            for caller in callers:
                caller.set_result(averages)
        return future


class RemoteServers(Local):
    """The upper half of the ranks are servers."""
    communicates = True

    def __init__(self, job):
        super().__init__(job)
        self.workers, self.serves = job.world // 2, job.rank >= job.world // 2
        if self.serves:
            Server.here = Server(self.workers)
        global meetings
        meetings += 1
        os.environ["TP_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"]
        rpc.init_rpc(f"rank{job.rank}", rank=job.rank, world_size=job.world,
                     rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                         num_worker_threads=4, init_method=f"tcp://{job.first_address}:{PORT + meetings}",
                         _transports=["uv"], _channels=["basic"]))  # TCP: it would find that all share a machine
        self.shares, filled = [[] for _ in range(job.world - self.workers)], [0] * (job.world - self.workers)
        for p in sorted(self.parameters, key=lambda p: -p.numel()):
            least = filled.index(min(filled))
            self.shares[least].append(p)
            filled[least] += p.numel()

    def step(self):
        if not self.serves:
            super().step()
        dist.barrier()  # nobody is asked for the next step's before this one's have left

    def exchange(self):
        calls = [rpc.rpc_async(f"rank{self.workers + s}", Server.averaged, args=([p.grad for p in share],))
                 for s, share in enumerate(self.shares) if share]
        for call, share in zip(calls, [share for share in self.shares if share]):
            for parameter, average in zip(share, call.wait()):
                parameter.grad.copy_(average)

    def close(self):
        rpc.shutdown()
        super().close()
