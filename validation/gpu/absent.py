"""The first rank of a group whose other ranks are not there: it shards, computes and updates as one of many, and sends nothing.

PyTorch's `fake` groups answer at once and leave results unwritten, so that numbers would become NaN and products of them
cheaper than real ones. Here every rank is taken to hold what this one holds: a gather copies its part to all places, a
scatter keeps the first part of its own. On a device each is one kernel that writes the whole result, so that a message
takes what its bytes take in the memory, and its copies before and after are the framework's own.
"""
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore


class Ready:
    """A message that has arrived."""

    def wait(self, *_):
        return True


def gathered(output, part):
    places = output.view(-1, part.numel())
    mine = places[0].data_ptr() == part.data_ptr()  # FSDP lays its part down where it belongs
    places[1 if mine else 0:].copy_(part.reshape(1, -1))
    return output


def kept(output, whole):
    output.view(-1).copy_(whole.reshape(-1)[:output.numel()])
    return output


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    gathered(output_tensor, input_tensor)
    return Ready() if async_op else None


def reduce_scatter_tensor(output, input, op=None, group=None, async_op=False):  # noqa: A002: PyTorch's name
    kept(output, input)
    return Ready() if async_op else None


def in_graphs():
    """The same for the operators that tensor parallelism and compiled graphs call."""
    library = torch.library.Library("_c10d_functional", "IMPL")
    for key in ("CPU", "CUDA"):
        library.impl("all_gather_into_tensor", lambda part, size, group: gathered(
            part.new_empty((part.shape[0] * size, *part.shape[1:])), part), key, allow_override=True)
        library.impl("reduce_scatter_tensor", lambda whole, op, size, group: kept(
            whole.new_empty((whole.shape[0] // size, *whole.shape[1:])), whole), key, allow_override=True)
    return library


def summed(_, bucket):
    """DDP's hook: the sum of a bucket is there."""
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


REAL = dist.all_gather_into_tensor, dist.reduce_scatter_tensor
LIBRARY = None


def join(devices):
    global LIBRARY
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)
    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = all_gather_into_tensor, reduce_scatter_tensor
    LIBRARY = in_graphs()


def leave():
    """Messages are real ones again."""
    global LIBRARY
    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = REAL
    LIBRARY = None
