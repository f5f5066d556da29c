"""What a queue is set to: attributes, tags, permissions."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.admission import permission
from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.errors import MissingParameter, QueueDoesNotExist, QueueNameExists
from holdfast.core.types import QueueName
from holdfast.frontend.changes import Changes, Handler
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.locate import Queue, name_of
from holdfast.protocol import actions, attributes, dead_letters, json, tags
from holdfast.protocol.actions import required
from holdfast.runtime import clock


class Settings:
    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._directory = changes.directory
        self.handlers: dict[type[actions.Request], Handler] = {
            actions.SetQueueAttributes: changes.task(self._set_attributes),
            actions.TagQueue: changes.task(self._tag),
            actions.UntagQueue: changes.task(self._untag),
            actions.ListQueueTags: self._list_tags,
            actions.AddPermission: changes.task(self._add_permission),
            actions.RemovePermission: changes.task(self._remove_permission),
        }

    def check(self, given: dict[str, str], *, name: str, is_new: bool) -> dict[str, str]:
        """Attributes for the queue `name` as they are kept, or why they are refused."""
        is_fifo = name.endswith(".fifo") or (is_new and "FifoQueue" in given)
        return attributes.check(given, is_fifo=is_fifo, is_new=is_new, is_strict=self._changes.is_strict)

    def check_target(self, kept: dict[str, str], *, name: QueueName) -> None:
        """The dead-letter queue that the attributes name, if they do, takes letters of the queue `name`."""
        text = kept.get("RedrivePolicy")
        if not text:
            return
        is_fifo = name.name.endswith(".fifo")
        try:
            target_name = name_of(dead_letters.redrive_policy(text).target_arn)
        except QueueDoesNotExist:
            target_name = None
        if target_name == name:
            return  # a queue may take its own dead letters
        target = self._directory.get(target_name) if target_name else None
        dead_letters.check_target(
            text,
            source_arn=self._directory.arn_of(name),
            is_fifo=is_fifo,
            target=target.config if target else None,
            allow=target.row.attributes.get("RedriveAllowPolicy", "") if target else "",
        )

    async def _set_attributes(self, request: actions.SetQueueAttributes, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)
        if not request.attributes:
            raise MissingParameter("The request must contain the parameter Attributes.")
        kept = self.check(request.attributes, name=queue.name.name, is_new=False)
        self.check_target(kept, name=queue.name)
        await self._changes.update(queue, _with_attributes(queue, attributes.merge(queue.row.attributes, kept)))
        return json.NOTHING

    async def align(self, queue: Queue, given: dict[str, str], held: dict[str, str], *, may_update: bool) -> bool:
        """Whether it had to be changed. What is not given stays as it is."""
        kept = self.check(given, name=queue.name.name, is_new=True)
        kept.pop("FifoQueue", None)
        drift = _drift(queue, kept, held)
        if not drift:
            return False
        if not may_update:
            raise QueueNameExists(drift)
        self.check_target(kept, name=queue.name)
        changed = _with_attributes(queue, attributes.merge(queue.row.attributes, kept))
        await self._changes.update(queue, msgspec.structs.replace(changed, tags={**queue.row.tags, **held}))
        return True

    # tags: no business of the lane

    async def _tag(self, request: actions.TagQueue, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)
        changed = tags.add(queue.row.tags, request.tags, name=queue.name.name)
        await self._changes.update(queue, msgspec.structs.replace(queue.row, tags=changed))
        return json.NOTHING

    async def _untag(self, request: actions.UntagQueue, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)
        left = tags.remove(queue.row.tags, request.tag_keys)
        await self._changes.update(queue, msgspec.structs.replace(queue.row, tags=left))
        return json.NOTHING

    def _list_tags(self, request: actions.ListQueueTags, exchange: Exchange) -> None:
        self._changes.follow.catch_up()
        held = self._changes.queue(request, exchange).row.tags
        exchange.answer(json.encode({"Tags": held}) if held else json.NOTHING)

    # permissions: statements in the attribute Policy

    async def _add_permission(self, request: actions.AddPermission, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)

        def add(policy: str) -> str:
            return permission.add_permission(
                policy,
                queue_arn=self._directory.arn_of(queue.name),
                label=required(request.label, "Label"),
                accounts=request.account_ids or (),
                actions=request.actions or (),
            )

        return await self._change_policy(queue, add)

    async def _remove_permission(self, request: actions.RemovePermission, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)
        label = required(request.label, "Label")
        return await self._change_policy(queue, lambda policy: permission.remove_permission(policy, label=label))

    async def _change_policy(self, queue: Queue, change: Callable[[str], str]) -> bytes:
        held: dict[str, Any] = queue.row.attributes
        policy = change(held.get("Policy", ""))
        await self._changes.update(queue, _with_attributes(queue, attributes.merge(held, {"Policy": policy})))
        return json.NOTHING


def _with_attributes(queue: Queue, changed: dict[str, str]) -> QueueRow:
    row = queue.row
    return msgspec.structs.replace(row, attributes=changed, modified=clock.wall_ms(), version=row.version + 1)


def _drift(queue: Queue, kept: dict[str, str], held: dict[str, str]) -> str:
    """The first way in which a queue is not as declared, as a sentence; empty: there is none."""
    row = queue.row
    different = attributes.first_difference(kept, row.attributes, is_fifo=queue.is_fifo)
    if different:
        present = attributes.effective(row.attributes, is_fifo=queue.is_fifo).get(different, "not set")
        return f"its attribute {different} is {present}, and {kept[different]} is declared."
    for key, value in held.items():
        if row.tags.get(key) != value:
            return f"its tag {key} is {row.tags.get(key, 'not set')}, and {value} is declared."
    return ""
