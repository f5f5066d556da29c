"""Sends and a log whose next segment is long in the making."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.limits import SECOND
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import Accepted, Configure, Send
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Epoch, Instant, LaneConfig, LaneId, ShardId, WallMs
from tests.core.memory_disk import Plain

LANE = LaneId(1)
SEGMENT_BYTES = 32_768
RESERVE_BYTES = 8_192


class Log:
    """A primary and a log of small segments."""

    def __init__(self) -> None:
        self.journal = Journal(ShardId(1), Epoch(1), segment_bytes=SEGMENT_BYTES, reserve_bytes=RESERVE_BYTES)
        self.primary = Primary(Shard(ShardId(1)), self.journal)
        self.now = Instant(SECOND)
        self.make_segment()
        self.primary.submit(Configure(LANE, LaneConfig()), "made", self.now, WallMs(0))
        self.sync()

    def make_segment(self) -> None:
        if self.journal.wants_spare():
            self.journal.start_spare()
        self.journal.end_spare(Plain())

    def sync(self) -> dict[Any, Any]:
        self.now = Instant(self.now + SECOND // 10)
        self.primary.tick(self.now, WallMs(0))
        if self.primary.flush():
            self.primary.synced()
        return dict(self.primary.replies())

    def send(self, sizes: Sequence[int], token: int) -> None:
        sends = [Send(LANE, bytes(size), bytes(size), size) for size in sizes]
        if len(sends) == 1:
            self.primary.submit(sends[0], token, self.now, WallMs(0))
        else:
            self.primary.submit_all(sends, token, self.now, WallMs(0))


@pytest.mark.parametrize("count", [1, 2, 10])
def test_nothing_is_refused_nor_a_batch_torn_apart(count: int) -> None:
    """Wherever in a batch the last place is that the log has for sends."""
    for size in range(5, 1500, 13):
        log, answers, sent = Log(), dict[Any, Any](), 0
        while len(answers) == sent:
            log.send([size] * count, sent)
            sent += 1
            answers |= log.sync()
        assert log.primary.deadline() < log.now + SECOND, "the last one waits"
        log.make_segment()
        answers |= log.sync()
        outcomes = [each for answer in answers.values() for each in (answer if isinstance(answer, list) else [answer])]
        assert [type(each) for each in outcomes] == [Accepted] * (sent * count)
