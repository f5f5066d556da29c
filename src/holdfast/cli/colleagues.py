"""What workers tell each other beside commands, so that N of them are one host to everybody else: what they admitted,
because rates are the host's; and what they know, because one of them answers on the admin port for all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from holdfast.backend.host import stop_now
from holdfast.cli.crew import Worker
from holdfast.console.parts import Part, Told, counted, together
from holdfast.core.admission.bucket import Poured
from holdfast.frontend.admit import Rates
from holdfast.runtime.workers import Aside, Link

TELL_S = 0.05  # between two words about what was admitted; core/admission/bucket.py says what it costs
ANSWER_S = 5.0  # a worker that has not reported by then is being replaced, or has too much to do

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode

Look = Callable[[], Awaitable[Part]]  # what this process knows


class Colleagues:
    """Of one worker. A worker that is alone has none, and is the whole."""

    def __init__(self, worker: Worker, links: Mapping[int, Link], aside: Aside) -> None:
        self._links = links
        self._aside = aside
        self._telling: asyncio.Task[None] | None = None
        self._told = {index: Told(Path(f"{worker.path(index)}.told")) for index in range(worker.count) if links}
        self._own = self._told.get(worker.index)
        former = self._own.read() if self._own is not None else None  # of the worker that this one replaces
        self._former = counted(former) if former is not None else None

    def share(self, rates: Rates) -> None:
        if self._links and rates.is_limited:
            self._aside.on_poured = rates.pour
            self._telling = asyncio.create_task(self._keep_telling(rates))

    async def _keep_telling(self, rates: Rates) -> None:
        """A task that fails is noticed by nobody, so that ends the process."""
        while True:
            await asyncio.sleep(TELL_S)
            try:
                self._tell(rates.take_untold())
            except Exception as problem:  # noqa: BLE001 - the root of a task
                stop_now(problem)

    def _tell(self, poured: Poured) -> None:
        for link in self._links.values() if poured else ():
            link.tell_poured(poured)

    def report(self, look: Look) -> Look:
        """From now on the others get what `look` answers when they ask. Answers how to ask all of them."""

        async def told() -> bytes:
            return _encode(await self._part(look))

        self._aside.report = told
        return lambda: self._whole(look)

    async def _whole(self, look: Look) -> Part:
        """Of all workers. For one that does not answer stands what it told the last time."""
        asked = asyncio.gather(*map(self._ask, self._links))
        own, others = await self._part(look), await asked
        return together([own, *(each for each in others if each is not None)])

    async def _part(self, look: Look) -> Part:
        part = await look()
        if self._former is not None:
            part = together([part, self._former])
        if self._own is not None:
            await asyncio.to_thread(self._own.write, _encode(part))
        return part

    async def _ask(self, index: int) -> Part | None:
        inquiry = self._links[index].inquire()
        done, _ = await asyncio.wait([inquiry], timeout=ANSWER_S)
        if done and not inquiry.cancelled():
            return _decode(inquiry.result())
        inquiry.cancel()
        return await asyncio.to_thread(self._told[index].read)

    def are_there(self) -> bool:
        """Whether all can be asked: none has ended or is still starting."""
        return all(link.is_connected.is_set() for link in self._links.values())

    def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
