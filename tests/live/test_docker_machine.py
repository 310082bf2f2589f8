"""Container machines on a real Docker engine: their rights and limits, and what remains after their end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import schedbed
from schedbed.cluster.agent.cgroups import owner_mark, sweep_leftovers
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.machines.docker.container import AGENT_BYTES, DockerMachine
from schedbed.cluster.machines.docker.engine import connect, labels, sweep_containers
from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.certificates import make_certificates
from schedbed.deploy.doctor.loads import Loads, connected
from schedbed.deploy.doctor.rate_fit import FittedRate
from tests.harness.agents import TOKEN, node_spec
from tests.harness.engine import engine_or_skip, left_of

pytestmark = pytest.mark.live

NODE = {"cores": 1, "core_speed": 0.2, "memory_bytes": 2**29, "disk_bps": 40e6, "network_bps": 12.5e6}


class Rig:
    """Creates container machines of one run; `close` removes them with all their resources."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_id = f"test-{uuid.uuid4().hex[:8]}"
        self.made: list[DockerMachine] = []

    def machine(
        self, name: str = "n1", limits: str = "auto", owner: str = "", **changes: Any
    ) -> DockerMachine:
        plain: dict[str, Any] = {"token": TOKEN, "epoch_s": time.time(), "heartbeat_s": 0.2, "limits": limits}
        plain |= {"run_id": self.run_id, "root": self.root / "nodes" / name, "node": node_spec(name, **NODE)}
        made = DockerMachine(AgentConfig(**plain | changes), owner or owner_mark())
        self.made.append(made)
        return made

    @contextlib.asynccontextmanager
    async def loads(self, *machines: DockerMachine) -> AsyncIterator[Loads]:
        async with connected(machines, [machine.node for machine in machines], TOKEN, 2.0) as loads:
            yield loads

    async def close(self) -> None:
        for machine in self.made:
            await machine.stop()
        for machine in self.made:
            await machine.dispose()


Story = Callable[[Rig], Awaitable[None]]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Callable[[Story], None]]:
    """Yield a function that runs a test's coroutine with a rig; check that nothing is left of the run."""
    engine_or_skip()
    rigs: list[Rig] = []

    def tell(story: Story) -> None:
        async def whole() -> None:
            rigs.append(rig := Rig(tmp_path))
            try:
                await story(rig)
            finally:
                await rig.close()

        asyncio.run(whole())

    yield tell
    for rig in rigs:
        assert left_of(rig.run_id) == []


HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.live.test_docker_machine import Rig
async def main():
    rig = Rig(Path(sys.argv[1]))
    rig.run_id = sys.argv[2]
    await rig.machine().start()
    print("up", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def held(rig: Rig) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Yield a separate process that has started the machine n1 of the rig's run."""
    top = str(Path(schedbed.__file__).parents[1])
    command = [sys.executable, "-c", HOLDER, str(rig.root), rig.run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": top}) as holder:
        assert holder.stdout
        assert await asyncio.to_thread(holder.stdout.readline) == b"up\n"
        yield holder


def sweep_groups(rig: Rig) -> None:
    """Remove the control groups of a machine whose holder has died, as the next run would."""
    sweep_leftovers()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/schedbed-{rig.run_id}/*"))


def inspect(rig: Rig, name: str = "n1") -> dict[str, Any]:
    with contextlib.closing(connect()) as client:
        return client.api.inspect_container(f"schedbed-{rig.run_id}-{name}")


def inside(rig: Rig, *command: str) -> str:
    """Return the output of a command in n1's container, run with the rights of the container's processes."""
    with contextlib.closing(connect()) as client:
        made = client.api.exec_create(f"schedbed-{rig.run_id}-n1", command)
        return client.api.exec_start(made["Id"]).decode()


def test_a_container_may_do_next_to_nothing_and_has_its_limits(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        hello = await rig.machine().start()
        assert hello.limits["network"] == "tc" and "cgroup v" in hello.limits["memory"]
        in_groups = hello.limits["cpu"].startswith("cgroup v")  # of their own, which need root
        found = inspect(rig)
        host = found["HostConfig"]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"]
        assert host["SecurityOpt"] == ["no-new-privileges"] and not host["Privileged"]
        assert found["Config"]["User"] == "1000:1000" and host["PidsLimit"] == 512
        attempts_bytes = 0 if in_groups else NODE["memory_bytes"]
        assert host["Memory"] == host["MemorySwap"] == attempts_bytes + AGENT_BYTES
        assert host["CpuQuota"] / host["CpuPeriod"] == pytest.approx(0.2 + 0.3)
        assert host["PortBindings"] in (None, {})
        (network,) = found["NetworkSettings"]["Networks"].values()
        assert hello.url.startswith(f"http://{network['IPAddress']}:")
        status = inside(rig, "cat", "/proc/self/status")
        assert "NoNewPrivs:\t1" in status and "CapBnd:\t0000000000000000" in status
        assert "Read-only file system" in inside(rig, "touch", "/app/schedbed/tasks/x")
        assert "ray" not in inside(rig, "ls", "/usr/lib/python3/dist-packages").split()

    told(story)


REACH = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    one = socket.socket(socket.AF_INET, kind)
    one.settimeout(3.0)
    try:
        one.connect((sys.argv[1], int(sys.argv[2])))
        one.send(b"x")
        print(one.recv(1))
    except OSError as error:
        print(type(error).__name__)
"""


def test_a_container_reaches_no_service_of_its_host(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine()
        await machine.start()
        (network,) = inspect(rig)["NetworkSettings"]["Networks"].values()
        with contextlib.closing(connect()) as client:
            found = client.api.inspect_network(f"schedbed-{rig.run_id}")
        gateway = found["IPAM"]["Config"][0]["Gateway"].partition("/")[0]
        assert network["IPAddress"] != gateway
        with socket.create_server((gateway, 0)) as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            stream.settimeout(0.0)
            datagram.settimeout(0.0)
            datagram.bind((gateway, stream.getsockname()[1]))
            said = inside(rig, "python3", "-c", REACH, gateway, str(stream.getsockname()[1]))
            assert said.split() == ["TimeoutError", "TimeoutError"]
            for listening in (stream.accept, lambda: datagram.recv(1)):
                with pytest.raises(BlockingIOError):
                    listening()
        async with rig.loads(machine):
            pass  # The host still reaches the node.

    told(story)
    with warnings.catch_warnings():  # The Docker library leaves the sockets of `inside` open.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_the_disk_outlives_a_power_cut_and_the_address_is_told_anew(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        first = rig.machine()
        async with rig.loads(first) as loads:  # which has put a block
            (node,) = loads.nodes
            assert first.is_alive()
            await first.kill()
            assert not first.is_alive()
            again = rig.machine()
            async with rig.loads(again) as more:
                assert more.nodes[0].hello.url != node.hello.url
                url = f"{more.nodes[0].hello.url}/blocks/b_n1"
                async with more._session.get(url) as response:
                    assert response.status == 200

    told(story)


def test_an_attempt_over_its_memory_dies_alone(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        async with rig.loads(rig.machine()) as loads:
            assert await loads.memory(loads.nodes) == {"n1": FittedRate(1.0)}
            (node,) = loads.nodes
            assert node.machine.is_alive()
            assert (await loads.core(loads.nodes))["n1"].per_s > 0.2  # it still works

    told(story)


def test_a_slow_node_gets_less_of_everything_until_the_fault_ends(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine()
        await machine.start()
        rate = inside(rig, "tc", "class", "show", "dev", "ifb0")
        await machine.set_rates(cpu=0.5, disk=1.0, network=0.1)
        assert "rate 10500Kbit" in inside(rig, "tc", "class", "show", "dev", "ifb0")
        assert "rate 10500Kbit" in inside(rig, "tc", "class", "show", "dev", "eth0")
        await machine.set_rates(cpu=1.0, disk=1.0, network=1.0)
        assert inside(rig, "tc", "class", "show", "dev", "ifb0") == rate

    told(story)


def test_a_frozen_container_is_silent_until_it_thaws_and_can_be_killed(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        async with rig.loads(rig.machine()) as loads:
            (node,) = loads.nodes
            await node.machine.freeze()
            await asyncio.sleep(0.5)
            node.heartbeats.clear()
            await asyncio.sleep(1.0)
            assert not node.heartbeats and node.machine.is_alive()
            await node.machine.thaw()
            async with asyncio.timeout(20):
                while not node.heartbeats:
                    await asyncio.sleep(0.1)
            await node.machine.freeze()
            await node.machine.kill()
            assert not node.machine.is_alive()

    told(story)


def test_a_start_that_fails_says_why(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine(runner="no.such:runner")
        with pytest.raises(MachineFailed, match="n1: the warm process ended"):
            await machine.start()
        assert not machine.is_alive()

    told(story)


def test_a_container_ends_with_its_holder_and_its_owners_leftovers_are_swept(
    told: Callable[[Story], None],
) -> None:
    async def story(rig: Rig) -> None:
        async with held(rig) as holder:
            sweep_containers()
            assert len(left_of(rig.run_id)) == 3  # its owner lives
            holder.kill()
        async with asyncio.timeout(30):
            while len(left_of(rig.run_id)) > 2:  # the container goes by itself
                await asyncio.sleep(0.2)
        with contextlib.closing(connect()) as client:
            foreign = client.api.create_volume(
                f"{rig.run_id}-foreign", labels={"schedbed.user": str(os.getuid())}
            )
            mine = labels(rig.run_id, owner_mark())
            client.api.create_volume(f"{rig.run_id}-mine", labels=mine)
            try:
                assert {f"network schedbed-{rig.run_id}", f"volume schedbed-{rig.run_id}-n1"} <= set(
                    sweep_containers()
                )
                assert left_of(rig.run_id) == [f"{rig.run_id}-mine"]
                assert client.api.inspect_volume(foreign["Name"])
            finally:
                for name in ("foreign", "mine"):
                    client.api.remove_volume(f"{rig.run_id}-{name}")
        sweep_groups(rig)

    told(story)


def test_a_container_that_other_hosts_reach_speaks_tls_only(told: Callable[[Story], None]) -> None:
    tls = make_certificates()

    async def story(rig: Rig) -> None:
        hello = await rig.machine(listen="127.0.0.2", tls=tls).start()
        assert hello.url.startswith("https://127.0.0.2:")
        async with (
            agent_session(TOKEN, tls.public()) as session,
            session.get(f"{hello.url}/peers") as response,
        ):
            assert response.status == 200 and set((await response.json())["peers"]) == {"n1"}
        async with agent_session(TOKEN, None) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(hello.url.replace("https", "http") + "/peers")

    told(story)
