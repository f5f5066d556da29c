"""Queues that the configuration names: those it declares, and the template of those that are made when first used."""

from collections.abc import Iterator

from holdfast.cli.first_start import StartError
from holdfast.core.admission.wildcard import patterns
from holdfast.core.errors import HoldfastError
from holdfast.core.types import QueueName
from holdfast.frontend.admit import Gate
from holdfast.frontend.auto_create import AutoCreate
from holdfast.frontend.queues import Queues
from holdfast.protocol import attributes, json, names, tags
from holdfast.protocol.names import Site
from holdfast.runtime.config.declared import SECTION, DeclaredQueue
from holdfast.runtime.config.settings import Config
from holdfast.runtime.logs import log


def problems(config: Config) -> Iterator[str]:
    """What SQS would refuse, as far as it can be told without a server."""
    site = Site(config.server.account, config.server.region)
    is_strict = not config.server.relaxed
    for queue in config.queues:
        is_fifo = queue.name.endswith(".fifo")
        try:
            names.check_name(queue.name, is_fifo=is_fifo)
            attributes.check(_given(queue, site), is_fifo=is_fifo, is_strict=is_strict)
            if queue.tags:
                tags.add({}, dict(queue.tags), name=queue.name)
        except HoldfastError as refusal:
            yield f"{SECTION}.{queue.name}: {refusal.message}"
    auto = config.auto_create
    for is_fifo, given in (
        (False, dict(auto.attributes)),
        (True, {**dict(auto.attributes), **dict(auto.fifo_attributes)}),
    ):
        try:
            attributes.check(given, is_fifo=is_fifo, is_strict=is_strict)
        except HoldfastError as refusal:
            yield f"auto_create.{'fifo_attributes' if is_fifo else 'attributes'}: {refusal.message}"
    try:
        _ordered(config.queues)
    except StartError as problem:
        yield str(problem)


async def declare(config: Config, queues: Queues) -> None:
    """Before the first request. Does nothing where everything is as it should be."""
    site = Site(config.server.account, config.server.region)
    for queue in _ordered(config.queues):
        name, given = QueueName(site.account, queue.name), _given(queue, site)
        try:
            done = await queues.declare(name, given, dict(queue.tags), may_update=queue.may_update)
        except HoldfastError as refusal:
            fix = "" if queue.may_update else ' Change one of them, or write apply = "update" there.'
            raise StartError(f"{SECTION}.{queue.name}: {refusal.message}{fix}") from None
        if done:
            log.info(f"a declared queue was {done}", queue=queue.name)


def auto_create(config: Config, queues: Queues, gate: Gate) -> AutoCreate | None:
    auto = config.auto_create
    if not auto.queues:
        return None
    return AutoCreate(
        queues,
        gate,
        patterns(list(auto.queues)),
        attributes=dict(auto.attributes),
        fifo_attributes=dict(auto.fifo_attributes),
    )


def _given(queue: DeclaredQueue, site: Site) -> dict[str, str]:
    """All its attributes, as CreateQueue would be given them."""
    given = dict(queue.attributes)
    if queue.name.endswith(".fifo"):
        given.setdefault("FifoQueue", "true")
    if queue.dead_letter_queue:
        arn = names.queue_arn(site.region, QueueName(site.account, queue.dead_letter_queue))
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": queue.max_receive_count}
        given["RedrivePolicy"] = json.encode(policy).decode()
    return given


def _ordered(declared: tuple[DeclaredQueue, ...]) -> list[DeclaredQueue]:
    """Dead-letter queues before those whose letters they take."""
    left = {queue.name: queue for queue in declared}
    ordered: list[DeclaredQueue] = []
    while left:
        ready = [
            each
            for each in left.values()
            if each.dead_letter_queue in ("", each.name) or each.dead_letter_queue not in left
        ]
        if not ready:
            circle = ", ".join(sorted(left))
            raise StartError(
                f"{SECTION}: the dead-letter queues of {circle} form a circle. One of them has to have none."
            )
        ordered += ready
        for queue in ready:
            del left[queue.name]
    return ordered
