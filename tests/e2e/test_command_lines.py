"""What spotrun gives an engine for a command line is what the engine itself makes of that line."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from spotrun.runtime import admission, grammar, options
from tests.conftest import Hosts
from tests.lab.host import Host, wait_until
from tests.lab.images import archive, name
from tests.runtime.command_lines import LINES, words

pytestmark = [pytest.mark.lab, pytest.mark.slow]

EngineName = Literal["docker", "podman"]
ENGINES: Final[tuple[EngineName, ...]] = ("docker", "podman")
_HOME: Final = "/root"
_IMAGE: Final = "localhost/shell:1"
_REFUSED: Final = frozenset(
    ("--network=host", "--net=host", "--pid=host", "--runtime=habana", "--gpus=device=0,2")
)
_RUN_ONLY: Final = {"-d": "", "--detach": "", "--detach=true": "", "-d=false": "", "-itd": "-it"}
"""What `create` does not take, and what is left of it."""
_GPUS: Final = {
    "all": "all",
    '"all"': "all",
    '"device=2,3"': "2 3",
    '"device=1,2"': "1 2",
    'all,"capabilities=compute,utility"': "all",
    "1": "0",
    "2": "0 1",
    "device=GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a": "GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a",
}
"""The devices that `--gpus` means, as docker-run(1) has it."""
_ENDS: Final = {
    "--no-such-option=1 IMAGE": 125,
    "--rm=perhaps IMAGE": 125,
    "--name": 125,
    "IMAGE /etc/passwd": 126,
    "IMAGE no-such-command": 127,
    "IMAGE sh -c :": 0,
    "IMAGE sh -c 'exit 3'": 3,
    "--init IMAGE sh -c 'kill -9 $$'": 137,
}
"""Command lines and their exit codes, docker-run(1)."""
_CDI: Final = {
    "cdiVersion": "0.6.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {
            "name": gpu,
            "containerEdits": {"deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/zero"}]},
        }
        for gpu in sorted({gpu for names in _GPUS.values() for gpu in names.split()})
    ],
}
_DAEMON: Final = {
    "features": {"cdi": True},
    "runtimes": {"spotrun": {"path": "/var/lib/spotrun/spotrun-oci"}},
}
_DIFFERS: Final = frozenset(
    "Id Name Created State LogPath OCIRuntime ResolvConfPath HostnamePath HostsPath StaticDir"
    " OCIConfigPath ConmonPidFile PidFile GraphDriver lockNumber HostConfig.LogConfig"
    " HostConfig.Runtime HostConfig.Annotations Config.Annotations Config.CreateCommand".split()
)
"""What is another one in each container, or in each of spotrun's."""
_MADE_UP: Final = re.compile("[0-9a-f]{64}|ID[0-9a-f]{52}")
_NOTE: Final = re.compile("spotrun: (--|spotrun has its own|the host's shared memory)")


@pytest.mark.parametrize("engine", ENGINES)
def test_options_are_those_that_the_engine_lists(hosts: Hosts, engine: EngineName) -> None:
    """Each by its name, its letter, and whether it takes a value."""
    (host,) = hosts(1)
    shown = dict(_listed(host.run([engine, "run", "--help"]).stdout))
    for option, (letter, flag) in shown.items():
        known = grammar.KNOWN.get(option)
        assert known, option
        assert (known.flag, engine in known.engines) == (flag, True), option
        assert grammar.SHORT.get(letter, option) == option
    letters = {letter for letter, _ in shown.values() if letter}
    assert letters == set(grammar.SHORT)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_option_of_the_table_is_read_as_the_engine_reads_it(
    hosts: Hosts, engine: EngineName
) -> None:
    """An option at the end of a line lacks a value, or it is a flag and the image is missing."""
    (host,) = hosts(1)
    newer = {"--use-api-socket", "--creds", "--cert-dir"}
    names = {it: known.flag for it, known in grammar.KNOWN.items() if engine in known.engines}
    names |= {it: False for it, to in grammar.ALIASES.items() if to in names}
    script = f'for name; do echo "$name $({engine} run "$name" 2>&1 | head -n 1)"; done'
    said = host.run(["sh", "-c", script, "sh", *sorted(names.keys() - newer - {"--help"})]).stdout
    for line in said.splitlines():
        option, _, answer = line.partition(" ")
        if option == "--net-alias" and engine == "podman":
            continue  # docker's alone, and understood on both
        expected = "requires at least 1 arg" if names[option] else "flag needs an argument"
        assert expected in answer or "unknown flag" in answer, line
        assert "unknown flag" not in answer or option in grammar.ALIASES, line


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_make_the_containers_that_the_engine_makes(hosts: Hosts, engine: EngineName) -> None:
    """Equal in all that `inspect` shows but spotrun's marks, or refused in the same words."""
    (host,) = hosts(1, images=() if engine == "docker" else ("busybox",))
    _prepare(host, engine)
    made = 0
    for line in LINES:
        given, at = words(line, _HOME)
        before = [it for it in (_RUN_ONLY.get(word, word) for word in given[:at]) if it]
        command = ["spotrun", "create", f"--engine={engine}"]
        found = _created(host, engine, [*command, *before, _IMAGE, *given[at + 1 :]])
        spelled = {word for it in grammar.options(given) for word in it.words}
        if spelled & _REFUSED:
            assert found["status"] == "125", line
            continue
        reference = [engine, "create", *_as_meant(before), _IMAGE, *given[at + 1 :]]
        assert found.items() ^ _created(host, engine, reference).items() == set(), line
        made += found["status"] == "0"
    assert made >= 60


@pytest.mark.parametrize("engine", ENGINES)
def test_run_ends_with_the_exit_code_of_the_engines_own_run(
    hosts: Hosts, engine: EngineName
) -> None:
    """Its own errors, commands that cannot be started, and how those that can come to an end."""
    (host,) = hosts(1, images=() if engine == "docker" else ("busybox",))
    _prepare(host, engine)
    for line, status in _ENDS.items():
        given = [_IMAGE if word == "IMAGE" else word for word in shlex.split(line)]
        for command in ([engine, "run"], ["spotrun", "run", f"--engine={engine}"]):
            ended = host.run([*command, "--rm", *given], check=False)
            assert ended.returncode == status, (line, ended.stderr)


@pytest.mark.parametrize("engine", ENGINES)
def test_container_that_is_made_again_has_what_the_first_one_had(
    hosts: Hosts, engine: EngineName
) -> None:
    """GPUs, shared memory and a folder that was named from another one."""
    (host,) = hosts(1, images=() if engine == "docker" else ("busybox",))
    _prepare(host, engine)
    host.run(["mkdir", "-p", "/root/here"])
    given = ["-d", "--gpus=1", "--ipc=host", "-v", "./here:/there", "--label-file=labels", _IMAGE]
    count = "i=0; while :; do echo $i > /there/now; i=$((i+1)); sleep 0.1; done"
    start = ["spotrun", "run", f"--engine={engine}", "--name=job", *given, "sh", "-c", count]
    host.run(start)
    look = ["sh", "-c", f"{engine} exec job stat -c %t,%T /dev/gpu; {engine} exec job df /dev/shm"]
    before = host.run(look).stdout
    label = [engine, "inspect", "-f", '{{index .Config.Labels "my-label"}}', "job"]
    host.run(["spotrun", "checkpoint", "job"], timeout=300)
    saved = host.path("/root/here/now").read_text()
    host.run(["sh", "-c", "cd / && rm /root/labels && spotrun restore job"], timeout=300)
    assert host.run(look).stdout == before
    assert host.run(label).stdout == "2\n"
    wait_until(["sh", "-c", f'[ "$(cat /root/here/now)" -gt {saved}'.strip() + " ]"], host)


def _listed(text: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Read `  -a, --attach list   Attach to …`: name, letter, and whether no value is named."""
    for found in re.finditer(r"^ +(?:-(\w), )?(--[\w-]+)(.*)$", text, re.MULTILINE):
        letter, option, rest = found.groups()
        yield option, (letter or "", not re.match(r" \S", rest))


def _prepare(host: Host, engine: EngineName) -> None:
    """Let there be what the lines name: GPUs, folders of the host, networks and files."""
    for path, document in {"cdi/nvidia.json": _CDI, "docker/daemon.json": _DAEMON}.items():
        file = host.path(f"/etc/{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document))
    host.path("/root/env.list").write_text("A=1\n# no\nB=2\n")
    host.path("/root/labels").write_text("first=1\n\n# no\nmy-label=2\n")
    if engine == "docker":
        host.start_docker()
        host.load_image(archive("busybox"), name("busybox"), engine="docker")
    binds = {path for line in LINES for path in _folders(words(line, _HOME)[0])}
    host.run(["sh", "-c", 'for it; do [ -e "$it" ] || mkdir -p "$it"; done', "sh", *sorted(binds)])
    for network in ("dask", "elastic", "some-network --subnet=172.30.0.0/16"):
        host.run([engine, "network", "create", *network.split()])
    for other in ("some-db", "dbdata"):
        host.run([engine, "create", f"--name={other}", "-v/dbdata", name("busybox"), "sh"])
    host.run([engine, "commit", "--change=CMD sh", "dbdata", _IMAGE])


def _folders(given: Sequence[str]) -> tuple[str, ...]:
    spec = grammar.part(grammar.split(given), frozenset({"--label-file"}))
    return admission.user_binds(options.settled(spec, Path(_HOME)).options)


def _as_meant(given: Sequence[str]) -> list[str]:
    """Write out what spotrun is to put in the place of some options."""
    text = "\0".join([*given, ""])
    text = re.sub("(--(?:gpus|ipc|runtime))\0", r"\1=", text)
    visible = re.search("--runtime=nvidia\0-e\0NVIDIA_VISIBLE_DEVICES=([^\0]*)\0", text)
    gpus = visible[1].split(",") if visible else []
    text = re.sub(
        "--runtime=nvidia\0", "".join(f"--device=nvidia.com/gpu={it}\0" for it in gpus), text
    )
    for request, devices in _GPUS.items():
        named = "".join(f"--device=nvidia.com/gpu={it}\0" for it in devices.split())
        text = text.replace(f"--gpus={request}\0", named)
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    size = "" if "--shm-size" in text else f"--shm-size={half}\0"
    return text.replace("--ipc=host\0", f"--ipc=private\0{size}").split("\0")[:-1]


def _created(host: Host, engine: EngineName, argv: Sequence[str]) -> dict[str, str]:
    """Make a container; return what it is like, or why there is none."""
    done = host.run(argv, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not _NOTE.match(line)]
        why = _MADE_UP.sub("ID", said[-1])
        return {"status": str(done.returncode), "why": why}
    container = done.stdout.split()[-1]
    shown = host.run([engine, "container", "inspect", container]).stdout
    host.run([engine, "rm", "-f", "-v", container])
    (found,) = json.loads(_MADE_UP.sub("ID", shown.replace(container[:12], "ID")))
    return {"status": "0", **dict(_values("", found))}


def _values(path: str, found: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 # any JSON
    """Yield what is to be the same; lists that the engines keep as maps have no order."""
    if found is None or path in _DIFFERS or "io.spotrun." in path:
        return
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _values(f"{path}.{key}".lstrip("."), value)
    elif isinstance(found, list):
        yield path, json.dumps(sorted(json.dumps(it, sort_keys=True) for it in found))
    else:
        yield path, str(found)
