"""Two hosts on one machine: network namespaces with a link between them, and an mpirun over both. Needs root, and ip and tc
(iproute2). For tests of lost hosts (tests/cli/test_ranks_lost.py) and for measurements on a slow network (bench/hosts.py)."""
import os
import shutil
import signal
import subprocess

AGENT = """#!/bin/sh
# HOST COMMAND...: what mpirun has instead of ssh
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; eval "$@"' "$host" "$*"
"""
NETWORK = "10.77.0."


def missing():
    """Why there can be no hosts here; None: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    return next((f"{tool} (iproute2) is not here" for tool in ("ip", "tc") if not shutil.which(tool)), None)


class TwoHosts:
    """rate: of the link, as tc writes it ("1gbit"); None: as fast as it is. Gone at the end, with all that runs there."""

    def __init__(self, folder, rate=None):
        self.names = [f"ebb{os.getpid()}a", f"ebb{os.getpid()}b"]
        self.agent = os.path.abspath(os.path.join(folder, "agent.sh"))
        self.rate = rate

    def __enter__(self):
        with open(self.agent, "w", encoding="utf8") as file:
            file.write(AGENT)
        os.chmod(self.agent, 0o755)
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        run = lambda *words: subprocess.run(words, check=True, capture_output=True)
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth", "netns", self.names[0], "type", "veth", "peer", "name", "eth", "netns", self.names[1])
        for i, name in enumerate(self.names):
            run("ip", "-n", name, "addr", "add", f"{NETWORK}{i + 1}/24", "dev", "eth")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth", "up")
            # On the way TCP gives up after seconds: else mpirun itself would wait for its other half for a quarter of an hour.
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv4.tcp_retries2=3")
            if self.rate is not None:
                run("tc", "-n", name, "qdisc", "add", "dev", "eth", "root", "tbf", "rate", self.rate, "burst", "128kb", "latency", "100ms")
            os.makedirs(f"/etc/netns/{name}", exist_ok=True)
            with open(f"/etc/netns/{name}/hosts", "w", encoding="utf8") as file:
                file.write("127.0.0.1 localhost\n" + "".join(f"{NETWORK}{k + 1} {other}\n" for k, other in enumerate(self.names)))

    def command(self, each, *words):
        """An mpirun with so many processes on each host."""
        where = ["--host", ",".join(f"{name}:{each}" for name in self.names), "-np", str(2 * each), "--oversubscribe", "--bind-to", "none"]
        # (Each host believes to have all cores: who spins, or is bound to the first, stands in the other's way.)
        for name, value in [("plm_rsh_agent", self.agent), ("btl", "tcp,self"), ("mpi_yield_when_idle", "1"),
                            ("btl_tcp_if_include", NETWORK + "0/24"), ("oob_tcp_if_include", NETWORK + "0/24")]:
            where += ["--mca", name, value]
        return ["sh", self.agent, self.names[0], "exec", "mpirun", *where, *map(str, words)]

    def cut(self):
        subprocess.run(["ip", "-n", self.names[1], "link", "set", "eth", "down"], check=True)

    def __exit__(self, *_):
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout.split()
            for pid in map(int, pids):  # a daemon of mpirun that was cut off stays
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
