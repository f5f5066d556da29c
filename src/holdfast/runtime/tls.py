"""TLS for the ports: one certificate with its key, read again on demand.

Connections that are open keep what they were made with; the next handshake uses what was read last. Files that cannot
be used leave the old certificate in force.
"""

import ssl
from pathlib import Path
from typing import Any

HANDSHAKE_TIMEOUT_S = 15.0  # a client that says nothing is cut


class TlsError(Exception):
    """A certificate or key cannot be used; says what to do."""


class Certificate:
    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = _context(*self._files)

    def options(self) -> dict[str, Any]:
        """For create_server."""
        return {"ssl": self.context, "ssl_handshake_timeout": HANDSHAKE_TIMEOUT_S}

    def reload(self) -> None:
        """Raises TlsError, and then changes nothing."""
        _context(*self._files)
        self.context.load_cert_chain(*self._files)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        if not path.is_file():
            raise TlsError(f"{path} is not there. Name a certificate (tls.certificate) and its key (tls.key) in PEM.")
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # else somebody would be asked for it
    except (ssl.SSLError, OSError) as problem:
        raise TlsError(
            f"{certificate} and {key} cannot be used ({problem.strerror or problem}). Both must be PEM files, the key "
            "without a password, and belong together."
        ) from None
    return context
