"""`make bench-peers`: fetches what the registries offer into the user's cache folder. Needs no rights of root.

Registries are those that pip, Maven, Go and apt are configured to use. What cannot be fetched is said and left out.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.peers import cache

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.elasticmq</groupId><artifactId>elasticmq-rest-sqs_2.13</artifactId>
    <version>{cache.ELASTICMQ}</version>
    <exclusions><exclusion>
      <groupId>org.elasticmq</groupId><artifactId>elasticmq-common-test_2.13</artifactId>
    </exclusion></exclusions>
  </dependency></dependencies>
</project>
"""

_MAIN = """import org.elasticmq.rest.sqs.SQSRestServerBuilder$;

public class Main {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        SQSRestServerBuilder$.MODULE$.withPort(port).withInterface("127.0.0.1").start().waitUntilStarted();
        Thread.currentThread().join();
    }
}
"""


class NotInstalled(Exception):
    """Why a peer could not be had."""


def call(*command: str, cwd: Path | None = None, **environment: str) -> None:
    if shutil.which(command[0]) is None:
        raise NotInstalled(f"there is no {command[0]} on this machine")
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines() or [""]
        raise NotInstalled(f"{command[0]} failed: {said[-1][:200]}")


def install_elasticmq() -> None:
    folder = cache.folder() / f"elasticmq-{cache.ELASTICMQ}"
    if (folder / "Main.class").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM, encoding="utf-8")
    (folder / "Main.java").write_text(_MAIN, encoding="utf-8")
    call("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars", cwd=folder)
    call("javac", "-cp", "jars/*", "Main.java", cwd=folder)


def install_go(package: str, version: str) -> None:
    folder = cache.folder() / "go"
    folder.mkdir(parents=True, exist_ok=True)
    call("go", "install", f"{package}@{version}", GOBIN=str(folder))


def install_nats() -> None:
    install_go("github.com/nats-io/nats-server/v2", cache.NATS)


def install_goaws() -> None:
    install_go("github.com/Admiral-Piett/goaws/app/cmd", cache.GOAWS)
    (cache.folder() / "go" / "cmd").rename(cache.folder() / "go" / "goaws")


def install_python(name: str, *requirements: str) -> None:
    folder = cache.folder() / name
    if (folder / ".ready").exists():
        return
    call(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
    call(sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", *requirements)
    (folder / ".ready").touch()


def install_moto() -> None:
    install_python(f"moto-{cache.MOTO}", f"moto[server]=={cache.MOTO}")


def install_ministack() -> None:
    install_python(f"ministack-{cache.MINISTACK}", f"ministack=={cache.MINISTACK}")


def install_debian(*names: str) -> None:
    """Packages are unpacked, not installed: no service is started, and nothing outside the folder changes."""
    packages = cache.folder() / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    call("apt-get", "download", *names, cwd=packages)
    for package in sorted(file for name in names for file in packages.glob(f"{name}_*.deb")):
        call("dpkg", "-x", str(package), str(cache.debian_root()))


def install_rabbitmq() -> None:
    """Erlang is told where it is now."""
    install_debian(*cache.RABBITMQ)
    script = cache.debian_root() / "usr/lib/erlang/bin/erl"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("=/usr/lib/erlang\n", f"={cache.debian_root()}/usr/lib/erlang\n"), encoding="utf-8")


INSTALLERS: dict[str, Callable[[], None]] = {
    "ElasticMQ": install_elasticmq,
    "GoAWS": install_goaws,
    "NATS": install_nats,
    "moto": install_moto,
    "ministack": install_ministack,
    "beanstalkd, Redis": partial(install_debian, *cache.DEBIAN),
    "RabbitMQ": install_rabbitmq,
}


def main() -> None:
    for name, install in INSTALLERS.items():
        print(f"{name:20} …", end=" ", flush=True)
        try:
            install()
        except NotInstalled as problem:
            print(f"absent: {problem}")
        else:
            print("installed")
    print(f"in {cache.folder()}")


if __name__ == "__main__":
    main()
