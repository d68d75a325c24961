"""The log of a frozen container has all that it wrote."""

import os
import subprocess
import sys
import time

import pytest

from spotrun.runtime import processes

_READER = """
import os, subprocess, sys, time
read, write = os.pipe()
child = subprocess.Popen(["sleep", "100"], stdout=write, stderr=write)
print(child.pid, flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
print("waits", flush=True)
sys.stdin.read()
child.kill()
"""
"""As conmon does, it has the pipe of a process, and may still be busy with what it has read."""


@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_who_has_read_the_output_is_waited_for_until_it_waits(busy: float) -> None:
    """What is read is not written yet."""
    argv = [sys.executable, "-c", _READER, str(busy)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin
        assert reader.stdout
        pid = int(reader.stdout.readline())
        processes.wait_for_output(pid)
        os.set_blocking(reader.stdout.fileno(), False)
        time.sleep(0.05)
        assert reader.stdout.readline() == "waits\n"
        reader.stdin.close()
