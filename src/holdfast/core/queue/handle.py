"""What a receipt handle may do: delete a message, change its visibility.

Standard queues: any handle that was ever given works as long as the message exists, and deleting twice is fine.
FIFO queues: only the handle of the current receive, and only until its lease is over.
A handle whose (epoch, lsn) is not the message's names something that never was committed here; it deletes nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.errors import HoldfastError, InvalidParameterValue, ReceiptHandleIsInvalid
from holdfast.core.limits import SECOND, VISIBILITY_MAX_S
from holdfast.core.queue.command import DONE, ChangeVisibility, Command, Delete, Done, Need, Outcome
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Lease
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.record import Changed, Deleted, Expired, Record
from holdfast.core.queue.wheel import on_grid
from holdfast.core.types import Header, Instant, Receipt, Receipts, Seq

_delete: Final = Delete
_done: Final = DONE


def decide_delete(
    lane: Lane, command: Delete, found: dict[Seq, Header | None]
) -> tuple[tuple[Record, ...], Done] | Need:
    """`found`: headers that were looked up because an earlier decision needed them."""
    receipt = command.receipt
    lease = lane.leases.get(receipt.seq)
    if lease is not None:
        _check(lane, receipt, lease)
        return (Deleted(lane.lane, (receipt.seq,)),), DONE
    if lane.is_fifo:
        return (), DONE
    return _delete_unseen(lane, receipt, found)


def decide_deletes(lane: Lane, commands: Sequence[Command]) -> tuple[tuple[Record, ...], list[Outcome | None]]:
    """A batch at once, as far as it deletes messages that are leased, which nearly all are. None: to be decided alone,
    after these."""
    seqs: list[Any] = []  # they are not declared as numbers: compiled code would make new objects of them
    outcomes: list[Outcome | None] = []
    leases: dict[Any, Lease] = lane.leases
    own, is_fifo = lane.lane, lane.is_fifo
    last, is_ascending = 0, True
    for command in commands:
        if type(command) is not _delete or command.lane != own:
            outcomes.append(None)
            continue
        receipt: Any = command.receipt
        seq = receipt.seq
        lease = leases.get(seq)
        if lease is None:
            outcomes.append(None)
            continue
        lsn: int = receipt.lsn
        epoch: int = receipt.epoch
        if is_fifo or lsn != lease.lsn or epoch != lease.epoch:
            refusal = _refusal(lane, receipt, lease) if seq not in seqs else None  # what is deleted already is fine
            if refusal is not None:
                outcomes.append(refusal)
                continue
        number: int = seq
        is_ascending = is_ascending and number > last
        last = number
        seqs.append(seq)
        outcomes.append(_done)
    if not is_ascending:
        seqs = list(dict.fromkeys(seqs))  # each once
    return (Deleted(own, tuple(seqs)),) if seqs else (), outcomes


def decide_delete_all(lane: Lane, receipts: Receipts) -> Deleted | None:
    """As `decide_deletes` of each if all of them delete a leased message of a standard queue, each another one, in the
    order in which they were sent, as nearly all batches do. None: there is more to decide."""
    if lane.is_fifo:
        return None
    leases: dict[Any, Lease] = lane.leases
    last = 0
    for seq, epoch, lsn in zip(receipts.seqs, receipts.epochs, receipts.lsns, strict=True):
        lease = leases.get(seq)
        if lease is None or seq <= last or lsn != lease.lsn or epoch != lease.epoch:
            return None
        last = seq
    return Deleted(lane.lane, receipts.seqs)


def held(lane: Lane, receipt: Receipt) -> Header | None:
    """The message that a receipt was given for, if it was not deleted and is not gone."""
    lease = lane.leases.get(receipt.seq)
    is_same = lease is not None and (lease.epoch, lease.lsn) == (receipt.epoch, receipt.lsn)
    return lease.header(receipt.seq) if lease is not None and is_same else None


def decide_change(lane: Lane, command: ChangeVisibility, moment: Moment) -> tuple[tuple[Record, ...], Done]:
    receipt, timeout_s = command.receipt, command.timeout_s
    lease = lane.leases.get(receipt.seq)
    if lease is None:
        raise InvalidParameterValue(
            f"Value {receipt.handle} for parameter ReceiptHandle is invalid. "
            "Reason: Message does not exist or is not available for visibility timeout change."
        )
    _check(lane, receipt, lease)
    if moment.now + timeout_s * SECOND > lease.received + VISIBILITY_MAX_S * SECOND:
        raise InvalidParameterValue(
            f"Value {timeout_s} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout "
            f"for the message is beyond the limit [{VISIBILITY_MAX_S} seconds]."
        )
    until = on_grid(moment.now + timeout_s * SECOND) if timeout_s else Instant(0)
    request = command.request.id if command.request is not None else b""
    changed = Changed(lane.lane, receipt.seq, until, request)
    if command.rewritten is None or command.rewritten.header.at != lease.at:
        return (changed,), DONE
    return (command.rewritten, changed), DONE


def _check(lane: Lane, receipt: Receipt, lease: Lease) -> None:
    refusal = _refusal(lane, receipt, lease)
    if refusal is not None:
        raise refusal


def _refusal(lane: Lane, receipt: Receipt, lease: Lease) -> HoldfastError | None:
    """None: this receipt may do something with the message."""
    if receipt.lsn != lease.lsn or receipt.epoch != lease.epoch:
        return _unknown(receipt)
    if lane.is_fifo and (receipt.number != lease.number or not lease.until):
        return InvalidParameterValue(
            f"Value {receipt.handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        )
    return None


def _unknown(receipt: Receipt) -> HoldfastError:
    return ReceiptHandleIsInvalid(f'The input receipt handle "{receipt.handle}" is not a valid receipt handle.')


def _delete_unseen(
    lane: Lane, receipt: Receipt, found: dict[Seq, Header | None]
) -> tuple[tuple[Record, ...], Done] | Need:
    """Gone already; or it was handed out by a primary whose record of it was lost, and here it still waits."""
    header = lane.aside.search(receipt.seq) if lane.aside is not None else None
    if header is None and lane.backlog.has(receipt.seq):
        if receipt.seq not in found:
            return lane.backlog.need_one(receipt.seq)
        header = found[receipt.seq]
        if header is not None and header.is_aside:
            header = None
    if header is None:
        return (), DONE
    if (receipt.epoch, receipt.lsn) != (header.epoch, header.lsn):
        raise _unknown(receipt)
    return (Expired(lane.lane, header, True),), DONE
