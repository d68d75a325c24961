"""The network between the hosts: a bridge in the network namespace of one process."""

import subprocess

from tests.lab.shell import LabError, call

NETWORK = "10.99.0"
_SETUP = f"""
set -e
ip link set lo up
ip link add br0 type bridge forward_delay 0
ip addr add {NETWORK}.1/24 dev br0
ip link set br0 up
# there is no world behind the bridge: what is sent there is refused at once, not in silence
ip route add unreachable default
echo 1 >/proc/sys/net/ipv4/ip_forward
echo ready
exec sleep infinity >/dev/null 2>&1
"""


class Switch:
    """Connects hosts until it is closed, or this process ends."""

    def __init__(self) -> None:
        """Make the bridge."""
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sh", "-c", _SETUP],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout
        with self._process.stdout as said:
            first = said.readline()
            if first != "ready\n":
                self.close()
                raise LabError(f"no bridge: {first}")

    def plug(self, name: str, pid: int) -> None:
        """Give the network namespace of that process an eth0; `name` is the cable's other end."""
        self._ip("link", "add", name, "type", "veth", "peer", "eth0", "netns", str(pid))
        self._ip("link", "set", name, "master", "br0", "up")

    def unplug(self, name: str) -> None:
        """Take the cable away, if there is one."""
        self._ip("link", "del", name, check=False)

    def set(self, name: str, state: str) -> None:
        """Set a cable `down` or `up`."""
        self._ip("link", "set", name, state)

    def close(self) -> None:
        """Remove the bridge."""
        self._process.kill()
        self._process.wait()

    def _ip(self, *arguments: str, check: bool = True) -> None:
        call("nsenter", f"--target={self._process.pid}", "--net", "ip", *arguments, check=check)
