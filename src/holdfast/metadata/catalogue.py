"""The catalogue of queues in the metadata. What its records mean: core/coordination/catalogue.py."""

from holdfast.core.coordination import catalogue
from holdfast.core.coordination.catalogue import FORMER, LAST_LANE, LOOSE, Outdated, QueueRow
from holdfast.core.types import LaneId, ShardId
from holdfast.metadata.service import Metadata
from holdfast.runtime import clock


class Catalogue:
    """Waits for the store, so it is called from a thread that can. Changes raise Outdated when a queue is not as the
    caller believes."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def loose_lanes(self) -> list[tuple[LaneId, ShardId]]:
        return [catalogue.loose_of(each) for each in self._metadata.range(LOOSE)]

    def new_lane(self, shard: ShardId) -> LaneId:
        while True:
            lane, transaction = catalogue.make_lane(self._metadata.get(LAST_LANE), shard)
            try:
                self._metadata.transact(transaction)
            except Outdated:
                self._metadata.catch_up()  # another process took that one
            else:
                return lane

    def add(self, row: QueueRow) -> None:
        loose = self._metadata.get(catalogue.loose_key(row.lane))
        if loose is None:
            raise Outdated
        self._metadata.transact(catalogue.add(row, loose))

    def update(self, row: QueueRow) -> None:
        self._metadata.transact(catalogue.update(row))

    def remove(self, row: QueueRow) -> None:
        """O(FORMER_MAX)."""
        former = self._metadata.range(FORMER)
        self._metadata.transact(catalogue.remove(row, clock.wall_ms(), former=former))

    def dropped(self, lane: LaneId) -> None:
        self._metadata.transact(catalogue.drop_loose(lane))
