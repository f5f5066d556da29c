"""The shard's tables know every command and every record: what `assert_never` would prove for a `match`."""

from typing import get_args

from holdfast.core.log.index import ENTRY_BYTES
from holdfast.core.queue import codec
from holdfast.core.queue.command import Command
from holdfast.core.queue.headers import HEADER_BYTES
from holdfast.core.queue.record import Record, Sent
from holdfast.core.queue.shard import Shard
from holdfast.core.types import ShardId


def test_every_command_has_a_rule() -> None:
    assert set(Shard(ShardId(0))._rules) == set(get_args(Command))


def test_every_record_has_an_effect_and_bytes() -> None:
    records = set(get_args(Record))
    assert set(Shard(ShardId(0))._effects) == records
    assert {*codec._ENCODERS, Sent} == records
    assert len(codec._DECODERS) == len(records)  # Sent is decoded apart, and Deleted has two forms


def test_sizes_are_those_of_the_formats_page() -> None:
    assert HEADER_BYTES == 77
    assert ENTRY_BYTES == 85
    assert codec.clear_bytes(codec.SENT) == 1 + 8 + 8 + 8 + 4 + 4 + 4 + 8 + 16 + 1
    assert codec.clear_bytes(codec.PLAIN) == 1 + 8 + 8 + 4 + 8
