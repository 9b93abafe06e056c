"""Who used the processors while something was measured, and how threads are scheduled; standard library only.

A measurement is quiet when other processes (and the hypervisor) took at most a twelfth of the processors, and no
worker's main thread waited for its processor for more than 4 % of the time beyond what the laboratory's own threads on
that processor used. The rule looks at CPU time alone, never at how well a prediction fits.
"""
import ctypes
import os
import platform

FOREIGN_LIMIT, WAIT_LIMIT = 0.08, 0.04
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


def processor_ticks():
    """Busy ticks of all processors, and those that the hypervisor took."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, _, _, steal = map(int, file.readline().split()[1:9])
    return user + nice + system, steal


def thread_times(threads):
    """Seconds on a processor and waiting for one, of threads of this process."""
    ran = waited = 0
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread}/schedstat") as file:
                times = file.read().split()
        except FileNotFoundError:
            continue
        ran += int(times[0])
        waited += int(times[1])
    return ran / 1e9, waited / 1e9


def threads():
    return {int(t) for t in os.listdir("/proc/self/task")}


class SchedulingAttributes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64),
                ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64)]


def short_slices(thread, batch=False, slice_s=1e-4):
    """Short time slices for a communication thread; `batch` keeps gloo's loop from preempting whoever holds its lock.

    With default scheduling that loop spins until the next timer tick once it shares a processor: small all-reduces then
    take 4, 8 or 12 ms. Real-time policies would starve the machine. False where the kernel does not know the call.
    """
    call = SCHED_SETATTR.get(platform.machine())
    if call is None:
        return False
    attributes = SchedulingAttributes(size=ctypes.sizeof(SchedulingAttributes), runtime=int(slice_s * 1e9),
                                      policy=os.SCHED_BATCH if batch else os.SCHED_OTHER)
    return ctypes.CDLL(None).syscall(call, thread, ctypes.byref(attributes), 0) == 0


def disturbance(block, processors):
    """Foreign share of the processors and the longest excess wait of a worker, from the reports of one block.

    A report has `wall_s`, `busy_s` and `stolen_s` of the machine, `own_s` of its process, `main_s` and `other_s` of its
    threads, `waited_s` of its main thread and `processor`.
    """
    wall, busy = block[0]["wall_s"], block[0]["busy_s"] + block[0]["stolen_s"]
    foreign = max(0.0, busy - sum(r["own_s"] for r in block)) / (wall * processors)
    excess = 0.0
    for report in block:
        beside = report["other_s"] + sum(r["main_s"] + r["other_s"] for r in block
                                         if r is not report and r["processor"] == report["processor"])
        excess = max(excess, (report["waited_s"] - beside) / report["wall_s"])
    return foreign, max(0.0, excess)


def is_quiet(foreign, excess_wait):
    return foreign <= FOREIGN_LIMIT and excess_wait <= WAIT_LIMIT
