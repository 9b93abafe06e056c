"""The laboratory's network: one namespace per worker, joined by a bridge, both directions of every link shaped.

A shaped link is a token bucket (tbf) on either end of the worker's veth pair. Its burst is 1 ms of the rate, at least
40 kB, and segmentation offload makes no packet above it, since tbf splits larger ones into MTU-sized frames at a great
cost of CPU. TCP takes that size when it connects: `shape` the slowest link first, connect, then go faster.
"""
import os
import signal
import subprocess

DEVICE = "ve0"  # the name needs more than one letter: gloo ignores shorter ones
GOODPUT = 1448 / 1514  # TCP payload of a full frame over its length on the link, headers and timestamps off


def burst_bytes(mbit):
    """Size of the token bucket of a link of that rate."""
    return max(40_000, mbit * 125)


def offload_bytes(mbit):
    """Largest packet handed to a link of that rate; 0 is an unshaped link."""
    return min(65_536, burst_bytes(mbit) * 8 // 10) if mbit else 65_536


def run(*command, check=True):
    """Runs a command quietly; its own message is the error."""
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or 'failed'}")
    return done.stdout


class Network:
    """`with Network(4) as net:` makes namespaces scl0 .. scl3 and the bridge's; they vanish at the end in any case."""

    def __init__(self, workers):
        self.workers = workers
        self.bridge = "sclbr"

    def namespace(self, worker):
        return f"scl{worker}"

    def address(self, worker):
        return f"10.77.0.{worker + 1}"

    def inside(self, worker, *command):
        """The command line that runs `command` in a worker's namespace."""
        return ["ip", "netns", "exec", self.namespace(worker), *command]

    def __enter__(self):
        self.remove()
        try:
            self._make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def _make(self):
        bridge = ("ip", "-n", self.bridge, "link")
        run("ip", "netns", "add", self.bridge)
        run(*bridge, "add", "br0", "type", "bridge")
        run(*bridge, "set", "br0", "up")
        for i in range(self.workers):
            name = self.namespace(i)
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "add", DEVICE, "type", "veth", "peer", "name", f"port{i}",
                "netns", self.bridge)
            run("ip", "-n", name, "addr", "add", f"{self.address(i)}/24", "dev", DEVICE)
            run("ip", "-n", name, "link", "set", DEVICE, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run(*bridge, "set", f"port{i}", "master", "br0", "up")
            # BBR, the default of some machines, probes for more than a shaped link has.
            run(*self.inside(i, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"), check=False)

    def shape(self, mbit):
        """Gives every link that rate in Mb/s, both ways; 0 takes the limit off."""
        size = str(offload_bytes(mbit))
        for i in range(self.workers):
            for namespace, device in ((self.namespace(i), DEVICE), (self.bridge, f"port{i}")):
                run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
                run("ip", "-n", namespace, "link", "set", "dev", device, "gso_max_size", size)
                if mbit:
                    run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbit}mbit",
                        "burst", str(burst_bytes(mbit)), "limit", str(4 << 20))

    def remove(self):
        """Ends what runs in the namespaces and removes them."""
        there = {line.split()[0] for line in run("ip", "netns", "list", check=False).splitlines() if line.strip()}
        for name in [*map(self.namespace, range(max(self.workers, 8))), self.bridge]:
            if name not in there:
                continue
            for process in run("ip", "netns", "pids", name, check=False).split():
                try:
                    os.kill(int(process), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run("ip", "netns", "del", name, check=False)
