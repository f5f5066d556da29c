"""How each peer is started, in the setting that its line names."""

import re

from bench.contender import Absent, Contender, Place, Running
from bench.dialects.beanstalk import Beanstalk
from bench.dialects.nats import Nats
from bench.dialects.redis import RedisStreams
from bench.dialects.sqs import Sqs
from bench.peers import cache
from bench.peers.rabbitmq import RABBITMQ
from bench.processes import Served, free_port

MEMORY = "in memory"


def _number(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group() if found else text


def _sqs(command: list[str], place: Place, *, port: int, version: str, **environment: str) -> Running:
    served = Served(command, log=place.folder / "log", core=place.core, environment=environment)
    served.wait_for_port(port)
    return Running(served, Sqs(f"http://127.0.0.1:{port}"), version)


def start_elasticmq(place: Place) -> Running:
    folder = cache.folder() / f"elasticmq-{cache.ELASTICMQ}"
    if not (folder / "Main.class").exists():
        raise Absent(f"no ElasticMQ in {cache.folder()}; {cache.HINT}")
    port = free_port()
    java = str(cache.find("java"))
    command = [java, "-Xmx6g", "-cp", f"{folder}/jars/*:{folder}", "Main", str(port)]
    return _sqs(command, place, port=port, version=cache.ELASTICMQ)


def start_goaws(place: Place) -> Running:
    program = cache.find("goaws", cache.folder() / "go")
    port = free_port()
    config = place.folder / "goaws.yaml"
    config.write_text(f"Local:\n  Host: 127.0.0.1\n  Port: {port}\n  AccountId: '000000000000'\n", encoding="utf-8")
    return _sqs([str(program), "-config", str(config), "Local"], place, port=port, version=cache.GOAWS)


def start_moto(place: Place) -> Running:
    port = free_port()
    program = _python_program("moto_server", f"moto-{cache.MOTO}")
    return _sqs([program, "-p", str(port)], place, port=port, version=cache.MOTO)


def start_ministack(place: Place) -> Running:
    port = free_port()
    program = _python_program("ministack", f"ministack-{cache.MINISTACK}")
    return _sqs([program], place, port=port, version=cache.MINISTACK, GATEWAY_PORT=str(port))


def _python_program(name: str, environment: str) -> str:
    program = cache.folder() / environment / "bin" / name
    if not program.exists():
        raise Absent(f"no {name} in {cache.folder()}; {cache.HINT}")
    return str(program)


def start_redis(place: Place) -> Running:
    program = cache.find("redis-server", cache.debian_root() / "usr/bin")
    environment = cache.debian_environment()
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(place.folder), "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    served = Served([str(program), *options], log=place.folder / "log", core=place.core, environment=environment)
    served.wait_for_port(port)
    version = cache.version_of([str(program), "--version"], environment=environment)
    return Running(served, RedisStreams(port), _number(version))


def start_beanstalkd(place: Place) -> Running:
    program = cache.find("beanstalkd", cache.debian_root() / "usr/bin")
    port = free_port()
    options = ["-l", "127.0.0.1", "-p", str(port), "-b", str(place.folder), "-f", "0"]
    served = Served([str(program), *options], log=place.folder / "log", core=place.core)
    served.wait_for_port(port)
    return Running(served, Beanstalk(port), _number(cache.version_of([str(program), "-v"])))


def start_nats(place: Place, *, sync: str = "") -> Running:
    program = cache.find("nats-server", cache.folder() / "go")
    port = free_port()
    config = place.folder / "nats.conf"
    interval = f"  sync_interval: {sync}\n" if sync else ""
    config.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{\n  store_dir: "{place.folder}/store"\n{interval}}}\n',
        encoding="utf-8",
    )
    served = Served([str(program), "-c", str(config)], log=place.folder / "log", core=place.core)
    served.wait_for_port(port)
    return Running(served, Nats(port), _number(cache.version_of([str(program), "--version"])))


def start_nats_sync(place: Place) -> Running:
    return start_nats(place, sync="always")


PEERS = (
    Contender("ElasticMQ", False, MEMORY, start_elasticmq, warm_s_max=150.0),
    Contender("GoAWS", False, MEMORY, start_goaws),
    Contender("ministack", False, MEMORY, start_ministack, rounds_max=1),
    Contender("moto", False, MEMORY, start_moto, rounds_max=1),
    RABBITMQ,
    Contender("NATS JetStream", False, "file, synced every 2 minutes", start_nats),
    Contender("NATS JetStream sync", True, "file, sync_interval always", start_nats_sync),
    Contender("Redis Streams", True, "appendfsync always", start_redis),
    Contender("beanstalkd", True, "binlog, -f 0", start_beanstalkd),
)
