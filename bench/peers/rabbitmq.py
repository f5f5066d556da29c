"""RabbitMQ from unpacked packages, or as the system has it: one node in a folder of its own, without plugins."""

import shlex
from pathlib import Path

from bench.contender import Absent, Contender, Place, Running
from bench.dialects.amqp import Amqp
from bench.peers import cache
from bench.processes import Served, free_port


def start(place: Place) -> Running:
    server, erlang = _programs()
    port, names, distribution = free_port(), free_port(), free_port()
    folder = place.folder
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n", encoding="utf-8")
    (folder / "plugins").write_text("[].\n", encoding="utf-8")
    environment = {
        "PATH": f"{erlang / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    # The name server is started here, in the foreground: Erlang would start one that outlives the run. A node that
    # finds it not listening yet gives up.
    epmd = f"{shlex.quote(str(next(erlang.glob('erts-*/bin/epmd'))))} -port {names}"
    waiting = f"until {epmd} -names >/dev/null 2>&1; do sleep 0.1; done"
    script = f"{epmd} -address 127.0.0.1 & {waiting}; exec {shlex.quote(str(server))}"
    served = Served(["sh", "-c", script], log=folder / "log", core=place.core, environment=environment)
    served.wait_for_port(port)
    return Running(served, Amqp(port), server.parent.parent.name.removeprefix("rabbitmq_server-"))


def _programs() -> tuple[Path, Path]:
    for root in (cache.debian_root(), Path("/")):
        servers = sorted(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
        if servers and any((root / "usr/lib/erlang").glob("erts-*/bin/epmd")):
            return servers[-1], root / "usr/lib/erlang"
    raise Absent(f"no rabbitmq-server on this machine; {cache.HINT}")


RABBITMQ = Contender("RabbitMQ quorum", True, "one node, publisher confirms", start)
