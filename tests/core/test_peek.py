"""Peeks: every message is found, however deep it lies, and nothing is changed by looking."""

import random

import pytest

from holdfast.core.limits import PEEK_MAX, WINDOW_MAX
from holdfast.core.queue import command as c
from holdfast.core.types import Kind, LaneConfig, LaneId, Seq
from tests.core.one_shard import LANE, SMALL, OneShard, receipt_of
from tests.scenarios.world import changed_limits

OTHER = LaneId(2)


def pages(host: OneShard, count_max: int) -> list[c.Peeked]:
    """All of them, page after page, as a client would."""
    found: list[c.Peeked] = []
    after = Seq(0)
    while page := host.do(c.Peek(LANE, after, count_max)).messages:
        assert len(page) <= count_max
        found += page
        after = page[-1].header.seq
    return found


def stir(host: OneShard, chance: random.Random, config: LaneConfig) -> set[str]:
    """Does what happens to queues; answers the bodies that are left."""
    host.configure(config)
    host.configure(LaneConfig(), OTHER)
    left: set[str] = set()
    for number in range(150):
        match chance.randrange(8):
            case 0:
                for each in host.receive(chance.randint(1, 4), chance.choice([5, 1000])):
                    if chance.random() < 0.7:
                        left.discard(host.body(each))
                        host.do(c.Delete(LANE, receipt_of(each)))
            case 1:
                host.send("elsewhere", lane=OTHER)
            case 2 if chance.random() < 0.3:
                host.drop_windows()
            case 3 if chance.random() < 0.3:
                host.compact()
            case _:
                body = f"m{number}"
                left.add(body)
                is_fifo = config.kind is Kind.FIFO
                delay = None if is_fifo else chance.choice([None, None, 60])
                host.send(
                    body,
                    delay_s=delay,
                    group=chance.choice("ab") if is_fifo else "",
                    deduplication_id=body if is_fifo else "",
                )
    return left


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", [Kind.STANDARD, Kind.FIFO])
def test_peeking_page_by_page_shows_every_message_once_and_in_order(seed: int, kind: Kind) -> None:
    chance = random.Random(seed)
    with changed_limits(SMALL):
        host = OneShard()
        left = stir(host, chance, LaneConfig(kind=kind))
        before = host.shard.dump()
        found = pages(host, chance.randint(1, 20))
        assert [each.header.seq for each in found] == sorted({each.header.seq for each in found})
        assert sorted(host.log.message(each.header.at).content.decode() for each in found) == sorted(left)
        assert host.shard.dump() == before


def test_a_look_far_behind_the_window_leaves_the_window_as_it_is() -> None:
    host = OneShard()
    host.configure(LaneConfig())
    count = 3 * WINDOW_MAX
    for number in range(count):
        host.send(f"m{number}")
    window = host.shard.lanes[LANE].backlog.window
    assert window is not None
    size = window.size()
    reply = host.do(c.Peek(LANE, Seq(count - 5), PEEK_MAX))
    assert [each.header.seq for each in reply.messages] == [count - 4, count - 3, count - 2, count - 1, count]
    assert reply.last == count
    assert window is host.shard.lanes[LANE].backlog.window
    assert window.size() == size < count


def test_the_place_of_the_newest_message_is_told_also_when_it_is_gone() -> None:
    host = OneShard()
    host.configure(LaneConfig())
    assert host.do(c.Peek(LANE)) == c.PeekReply((), Seq(0))
    host.send("a")
    host.do(c.Delete(LANE, receipt_of(host.receive()[0])))
    assert host.do(c.Peek(LANE)) == c.PeekReply((), Seq(1))


def test_two_looks_that_wait_for_headers_do_not_disturb_each_other() -> None:
    with changed_limits(SMALL):
        host = OneShard()
        host.configure(LaneConfig())
        for number in range(30):
            host.send(f"m{number}")
        host.drop_windows()
        needs = {command: decide(host, command) for command in (c.Peek(LANE, Seq(0), 10), c.Peek(LANE, Seq(4), 10))}
        replies: list[list[int]] = []
        while needs:
            command, need = next(iter(needs.items()))
            del needs[command]  # and to the end of the line, if it needs more
            assert isinstance(need, c.Need)
            host.shard.load(need, *host.log.headers(need))
            decided = decide(host, command)
            if isinstance(decided, c.Need):
                needs[command] = decided
            else:
                replies.append([each.header.seq for each in decided.messages])
        assert sorted(replies) == [list(range(1, 11)), list(range(5, 15))]


def decide(host: OneShard, command: c.Peek) -> c.PeekReply | c.Need:
    decided = host.shard.decide(command, host.shard.lsn)
    if isinstance(decided, c.Need):
        return decided
    assert isinstance(decided[1], c.PeekReply)
    return decided[1]
