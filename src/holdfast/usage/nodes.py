"""What a server is called in its usage folder. Each worker is a node of its own: it counts by itself.

    eu-1-3fa9c1        a server with one process
    eu-1-3fa9c1-w0     the first of several

The name stays when the server is restarted, and is another one in a copy of the data: two servers that number the same
segments would look like one that repeats itself. So it is made once, with chance in it, and not backed up.
"""

import re
import secrets
import socket
from pathlib import Path

from holdfast.usage import places, schema
from holdfast.usage.convert import nodes
from holdfast.usage.folders import make_folders, replace_file

_FILE = "node"


def server_name(root: Path) -> str:
    """Made when there is none. Of several workers, the parent asks first."""
    path = root / _FILE
    if not path.exists():
        make_folders(root)
        host = re.sub("[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-")[:32] or "holdfast"
        replace_file(path, f"{host}-{secrets.token_hex(3)}\n".encode())
    return path.read_text(encoding="ascii").strip()


def node_name(server: str, *, index: int, count: int) -> str:
    return server if count == 1 else f"{server}-w{index}"


def others(root: Path, server: str, *, count: int) -> list[str]:
    """Nodes of this server that are there from a start with another number of workers."""
    now = {node_name(server, index=index, count=count) for index in range(count)}
    known = {*nodes(root), *(each.node for each in places.streams(root, schema.METER))}
    pattern = re.compile(re.escape(server) + r"(-w[0-9]+)?")
    return sorted(each for each in known - now if pattern.fullmatch(each))
