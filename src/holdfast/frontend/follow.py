"""What the front-end keeps of the metadata follows the store: queues in the Directory, keys in the Keyring.

Laws
- The Directory and the Keyring change here and nowhere else, in the order of the store's revisions. Who changes a queue
  writes it to the store and catches up; so do reads that have to be exact, and those that find nothing.
- The rest: between two catch-ups, which are at most FOLLOW_S apart, another process's change may not be seen yet.
"""

from collections.abc import Iterable

from holdfast.core import limits
from holdfast.core.coordination import catalogue
from holdfast.core.coordination.catalogue import FORMER, QUEUES, Former
from holdfast.core.coordination.identity import KEYS, USERS
from holdfast.core.coordination.store import Event, Record
from holdfast.core.types import QueueName
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.runtime import clock
from holdfast.runtime.rpc import Metadata

FOLLOW_S = 0.25  # how often a front-end asks by itself
NAME_REST_S = 60  # after a deletion, before the name may be used again


class Follow:
    def __init__(self, metadata: Metadata, directory: Directory, keyring: Keyring) -> None:
        self._metadata = metadata
        self._directory = directory
        self._keyring = keyring
        self._rests: dict[QueueName, int] = {}  # of deleted queues: until when, microseconds of elapsed time
        directory.catch_up = keyring.catch_up = self.catch_up

    def load(self) -> None:
        """Everything anew: at the start, and by one that has slept for too long."""
        queues, former = self._metadata.load(QUEUES, FORMER)
        rows = [catalogue.row_of(each) for each in queues.records]
        self._note_former(map(catalogue.former_of, former.records))
        self._directory.reset(rows)
        self._keyring.forget_all()

    def catch_up(self) -> None:
        changes = self._metadata.catch_up()
        if changes is None:
            self.load()
            return
        for event in changes.events:
            self._apply(event)

    def _apply(self, event: Event) -> None:
        key, record = event.key, event.record
        if key.startswith(QUEUES):
            self._apply_queue(key, record)
        elif key.startswith(FORMER) and record is not None:
            self._note_former([catalogue.former_of(record)])
        elif key.startswith(KEYS):
            self._keyring.forget_key(key.removeprefix(KEYS))
        elif key.startswith(USERS):
            account, _, name = key.removeprefix(USERS).partition("/")
            self._keyring.forget_user(account, name)

    def _apply_queue(self, key: str, record: Record | None) -> None:
        if record is None:
            self._directory.remove(catalogue.named_by(key))
        else:
            self._directory.put(catalogue.row_of(record))

    # names of deleted queues

    def _note_former(self, deleted: Iterable[Former]) -> None:
        now, wall = clock.elapsed_us(), clock.wall_ms()
        for name in [name for name, until in self._rests.items() if until <= now]:
            del self._rests[name]
        for former in deleted:
            self._directory.note_former(former.lane, former.queue)
            since_ms = max(0, wall - former.deleted)  # a wall clock that was set back cannot make it rest for longer
            if since_ms < NAME_REST_S * 1000:
                self._rests[former.queue] = now + NAME_REST_S * limits.SECOND - since_ms * 1000

    def is_resting(self, name: QueueName) -> bool:
        """Whether a queue of that name was deleted less than a minute ago, also by a server that ran before."""
        until = self._rests.get(name)
        return until is not None and clock.elapsed_us() < until
