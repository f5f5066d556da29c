"""What the requests and replies of a test contained, noted by boto3's own events; so that claims can be checked."""

from collections.abc import Iterator
from typing import Any


class Ledger:
    """In the words of tests/compatibility/claims.py."""

    def __init__(self, client: Any) -> None:
        self.used: set[str] = set()
        client.meta.events.register("provide-client-params.sqs.*", self._note_request)
        client.meta.events.register("after-call.sqs.*", self._note_reply)

    def _note_request(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.used |= {model.name, *(f"{model.name}.{each}" for each in names(params))}
        self.used |= {f"Attribute.{each}" for each in params.get("Attributes", ())}
        self.used |= {f"Attribute.{each}" for each in params.get("AttributeNames", ()) if each == "All"}
        self.used |= {f"SystemAttribute.{each}" for each in params.get("MessageSystemAttributes", ())}
        self.used |= {
            f"SystemAttribute.{each}" for each in params.get("MessageSystemAttributeNames", ()) if each == "All"
        }

    def _note_reply(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        if error := parsed.get("Error"):
            self.used |= {f"Error.{error.get(each)}" for each in ("Code", "QueryErrorCode")}
        reply = {name: value for name, value in parsed.items() if name != "ResponseMetadata"}
        self.used |= {f"{model.name}:{each}" for each in names(reply)}
        self.used |= {f"Attribute.{each}" for each in parsed.get("Attributes", ())}
        for message in parsed.get("Messages", ()):
            self.used |= {f"SystemAttribute.{each}" for each in message.get("Attributes", ())}


def names(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, member in value.items():
        yield prefix + name
        for each in member if isinstance(member, list) else ():
            yield from names(each, f"{prefix}{name}.") if isinstance(each, dict) else ()
