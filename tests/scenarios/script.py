"""Scenario files: read, carried out, and printed again with what really happened. README.md has the language."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.limits import SECOND, SEQUENCE_BASE
from holdfast.core.queue import command as c
from holdfast.core.queue import receipt as receipts
from holdfast.core.queue.dedup import group_of
from holdfast.core.queue.handle import held
from holdfast.core.queue.headers import copy_of
from holdfast.core.queue.record import NO_DIGEST, Message, Sent
from holdfast.core.types import (
    Address,
    Cause,
    Counts,
    Header,
    Instant,
    Kind,
    LaneConfig,
    LaneId,
    Receipt,
    Redrive,
    ShardId,
    unpack_address,
)
from holdfast.runtime.crypto import ReceiptKey
from tests.scenarios.world import WALL_START, Mode, Network, World, changed_limits

SECRET = "the key that signs receipt handles in scenarios"
KEY = ReceiptKey(SECRET.encode())

CAUSES = {
    Cause.NONE: "no cause",
    Cause.RECEIVES: "received too often",
    Cause.TARGET_GONE: "target gone",
    Cause.LENGTH: "queue full",
    Cause.TIME_TO_LIVE: "time to live over",
    Cause.REDRIVE: "redriven",
}
NUMBERS = {
    "visibility": "visibility_timeout_s",
    "delay": "delay_s",
    "retention": "retention_s",
    "size-max": "message_bytes_max",
    "messages-max": "messages_max",
    "bytes-max": "bytes_max",
    "ttl": "time_to_live_s",
}
FLAGS = {
    "content-deduplication": "content_deduplication",
    "request-deduplication": "request_deduplication",
    "at-most-once": "at_most_once",
    "overflow-to-dead": "overflow_to_dead_letter",
    "strict": "is_strict",
}


# --- reading ------------------------------------------------------------------------------------------


class Block(msgspec.Struct):
    commands: list[str]
    expected: list[str]


class Case(msgspec.Struct):
    """`title` are the comment lines on top, without their sign."""

    title: list[str]
    blocks: list[Block]
    limits: dict[str, int]

    @property
    def name(self) -> str:
        return " ".join(self.title)

    def text(self, outputs: Iterable[list[str]] | None = None) -> str:
        shown = [block.expected for block in self.blocks] if outputs is None else outputs
        lines = [f"# {line}" for line in self.title]
        lines += [f"limit {name}={value}" for name, value in self.limits.items()]
        for block, output in zip(self.blocks, shown, strict=True):
            lines += [*block.commands, "----", *output, ""]
        return "\n".join(lines)


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    title: list[str] = []
    block = Block([], [])
    is_answer = False
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#") and not is_answer:
            title.append(line.removeprefix("#").strip())
        elif line == "----":
            is_answer = True
        elif line and is_answer:
            block.expected.append(line)
        elif line:
            if title:
                cases.append(Case(title, [], {}))
                title = []
            _read_command(line, block, cases[-1])
        elif is_answer:
            cases[-1].blocks.append(block)
            block, is_answer = Block([], []), False
        else:
            assert not block.commands, f"{path.name}: commands without an answer: {block.commands}"
    return cases


def _read_command(line: str, block: Block, case: Case) -> None:
    if line.startswith("limit "):
        assert not [*case.blocks, *block.commands], "limits come first in a case"
        case.limits.update((name, int(value)) for name, _, value in (w.partition("=") for w in line.split()[1:]))
    else:
        block.commands.append(line)


def outputs_of(case: Case, mode: Mode) -> list[list[str]]:
    """What really happens, block by block."""
    # Windows come back in several steps; a queue with groups would rather answer less than load more.
    loads = {"LOAD_MAX": 2} if mode is Mode.DROPPED and "group=" not in case.text() else {}
    with changed_limits({**case.limits, **loads}):
        script = Script(mode)
        return [[line for command in block.commands for line in script.run(command)] for block in case.blocks]


def text_of(cases: Iterable[Case]) -> str:
    return "\n".join(case.text() for case in cases)


class Words:
    """One command line: a verb, plain words, and options that are each asked for exactly once."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.verb, *rest = shlex.split(line)
        self.plain = [word for word in rest if "=" not in word]
        self.queue = ""
        self._options = dict(word.split("=", 1) for word in rest if "=" in word)

    def text(self, name: str, default: str = "") -> str:
        return self._options.pop(name, default)

    def number(self, name: str, default: int = 0) -> int:
        return int(self._options.pop(name, default))

    def maybe(self, name: str) -> int | None:
        return int(self._options.pop(name)) if name in self._options else None

    def has(self, name: str) -> bool:
        return name in self._options

    def finish(self) -> None:
        assert not self._options, f"{self.line}: unknown options {self._options}"


# --- carrying out -------------------------------------------------------------------------------------


class Queue(msgspec.Struct):
    name: str
    shard: ShardId
    lane: LaneId
    config: LaneConfig


class Asked(msgspec.Struct):
    """A command that was submitted; its answer may come later."""

    queue: Queue
    show: Callable[["Asked", Any], list[str]]
    wants: str = ""  # what else to show of a message
    label: str = ""  # w0, w1 … once it had to wait


class Script:
    def __init__(self, mode: Mode) -> None:
        self.world = World(mode)
        self.queues: dict[str, Queue] = {}
        self.lanes = 0
        self.numbers: dict[bytes, int] = {}  # MessageId -> #n
        self.handles: dict[str, str] = {}  # r0 -> receipt handle
        self.groups: dict[int, str] = {}
        self.tasks: dict[str, str] = {}
        self.waiting: dict[str, Asked] = {}
        self.waited = 0
        self.verbs: dict[str, Callable[[Words], list[str]]] = {
            "queue": self.queue,
            "configure": self.configure,
            "drop": lambda w: self.ask(w, c.Drop(self.on(w).lane), show_ok),
            "at": self.at,
            "clock": lambda _: [f"cluster time {seconds(self.world.time)}, wall time {self.wall(self.world.wall)}"],
            "disk": self.disk,
            "network": self.set_network,
            "restart": self.restart,
            "send": self.send,
            "receive": self.receive,
            "watch": lambda w: self.ask(w, c.Watch(self.on(w).lane), show_watched, wait_s=w.number("wait")),
            "delete": self.delete,
            "change": self.change,
            "cancel": self.cancel,
            "forge": self.forge,
            "purge": lambda w: self.ask(w, c.Purge(self.on(w).lane, self.on(w).name, request_of(w)), show_ok),
            "count": lambda w: self.ask(w, c.Count(self.on(w).lane), show_counts, wants=w.text("show")),
            "peek": self.peek,
            "move": self.move,
            "found": self.found,
            "drain": lambda w: self.ask(w, c.Drain(self.on(w).lane), show_ok),
            "bequeath": self.bequeath,
            "seal": lambda w: self.ask(w, c.Seal(self.on(w).lane), show_sealed),
            "open": lambda w: self.ask(w, c.Open(self.on(w).lane, self.address(w.text("parent"))), show_ok),
            "retire": lambda w: self.ask(w, c.Retire(self.on(w).lane), show_ok),
        }

    def run(self, line: str) -> list[str]:
        words = Words(line)
        try:
            output = self.verbs[words.verb](words)
        except HoldfastError as refusal:  # of a receipt handle, before any command was made
            return [self.refused(refusal)]
        words.finish()
        self.world.after_command()
        return output

    def on(self, words: Words) -> Queue:
        """The queue a command is for: named by on=, else q, a standard queue unless it was made otherwise."""
        words.queue = words.text("on", words.queue)
        if "q" not in self.queues and not words.queue:
            self.make_queue("q", ShardId(1), LaneConfig())
        return self.queues[words.queue or "q"]

    def ask(
        self,
        words: Words,
        command: c.Command,
        show: Callable[["Script", Asked, Any], list[str]],
        *,
        wants: str = "",
        wait_s: int = 0,
    ) -> list[str]:
        queue = self.on(words)
        asked = Asked(queue, lambda asked, answer: show(self, asked, answer), wants)
        asked.label = f"w{self.waited}"
        self.world.submit(queue.shard, command, asked.label, wait_s=wait_s)
        self.waiting[asked.label] = asked
        self.waited += 1
        self.world.settle()
        output = self.collect(asked.label)
        if asked.label in self.waiting:
            return [*output, f"{asked.label} waits"]
        return output

    def collect(self, own: str = "") -> list[str]:
        """Answers that have come: of the command just given, and of those that had to wait."""
        output: list[str] = []
        for label, answer in self.world.take_answers():
            asked = self.waiting.pop(label)
            lines = [self.refused(answer)] if isinstance(answer, HoldfastError) else asked.show(asked, answer)
            output += lines if label == own else [f"{label}: {line}" for line in lines]
        if own and own not in self.waiting:
            self.waited -= 1  # only those that wait are counted
        return output

    def refused(self, refusal: HoldfastError) -> str:
        text = refusal.message
        for name, handle in self.handles.items():
            text = text.replace(handle, name)
        return f"{type(refusal).__name__}: {text}"

    # queues

    def queue(self, words: Words) -> list[str]:
        name, *kind = words.plain
        config = LaneConfig(kind=Kind.FIFO if "fifo" in kind else Kind.STANDARD)
        shard = ShardId(words.number("shard", 1))
        return self.make_queue(name, shard, self.configured(config, words))

    def make_queue(self, name: str, shard: ShardId, config: LaneConfig) -> list[str]:
        self.lanes += 1
        queue = self.queues[name] = Queue(name, shard, LaneId(self.lanes), config)
        if config.redrive is not None and config.redrive.target.lane == 0:
            config = queue.config = msgspec.structs.replace(
                config, redrive=Redrive(Address(shard, queue.lane), config.redrive.receives_max)
            )
        self.world.submit(shard, c.Configure(queue.lane, config), "made")
        return self.quietly()

    def quietly(self) -> list[str]:
        self.world.settle()
        self.world.answers = [each for each in self.world.answers if each[0] != "made"]
        return self.collect()

    def configured(self, config: LaneConfig, words: Words) -> LaneConfig:
        changes: dict[str, Any] = {NUMBERS[name]: words.number(name) for name in NUMBERS if words.has(name)}
        changes |= {FLAGS[name]: words.text(name) == "yes" for name in FLAGS if words.has(name)}
        if words.has("scope"):
            changes["deduplication_per_group"] = words.text("scope") == "group"
        if words.has("dead"):
            dead = words.text("dead")
            target = self.queues.get(dead)
            where = Address(target.shard, target.lane) if target is not None else Address(ShardId(0), LaneId(0))
            receives_max = words.number("receives", 1000)
            changes["redrive"] = Redrive(where, receives_max) if dead != "none" else None
        return msgspec.structs.replace(config, version=config.version + 1, **changes)

    def configure(self, words: Words) -> list[str]:
        queue = self.on(words)
        queue.config = self.configured(queue.config, words)
        self.world.submit(queue.shard, c.Configure(queue.lane, queue.config), "made")
        return self.quietly()

    # the world

    def at(self, words: Words) -> list[str]:
        self.world.advance(Instant(round(float(words.plain[0]) * SECOND)))
        return self.collect()

    def disk(self, words: Words) -> list[str]:
        self.on(words)  # made before the disk stops
        shards = [ShardId(words.number("shard"))] if words.has("shard") else list(self.world.nodes)
        self.world.stopped = set(shards if words.plain == ["stops"] else [])
        for node in self.world.nodes.values():
            node.log.is_full = words.plain in (["full"], ["used", "up"])
            node.log.is_between = words.plain == ["between", "segments"]
            node.log.is_used_up = words.plain == ["used", "up"]
        self.world.settle()
        return self.collect()

    def set_network(self, words: Words) -> list[str]:
        if words.plain == ["repeats", "everything"]:
            self.world.repeat_everything()
        else:
            self.world.network = Network(" ".join(words.plain))
            self.world.settle()
        return self.collect()

    def restart(self, words: Words) -> list[str]:
        self.waiting.clear()
        self.world.restart(after_s=words.number("after"))
        return self.collect()

    def wall(self, wall: int) -> str:
        return seconds((wall - WALL_START) * 1000)

    # messages

    def send(self, words: Words) -> list[str]:
        queue = self.on(words)
        body, group = words.text("body", "x"), words.text("group")
        self.groups[group_of(group)] = group
        command = c.Send(
            queue.lane,
            body.encode(),
            body.encode(),
            words.number("size", len(body.encode())),
            group,
            words.text("id"),
            words.maybe("delay"),
            words.maybe("ttl"),
            request_of(words),
        )
        times, wants = words.number("times", 1), words.text("show")
        output: list[str] = []
        for _ in range(times):
            output += self.ask(words, command, show_accepted, wants=wants)
        return [*output[:1], "…", *output[-1:]] if times > 3 else output

    def receive(self, words: Words) -> list[str]:
        queue = self.on(words)
        times, wants, wait_s = words.number("times", 1), words.text("show"), words.number("wait")
        asked = (words.number("max", 1), words.maybe("timeout"), words.text("attempt"), request_of(words))
        command = c.Receive(queue.lane, *asked)
        output: list[str] = []
        for _ in range(times):
            output += self.ask(words, command, show_delivery, wants=wants, wait_s=wait_s)
        return tally(output) if wants == "tally" else output

    def delete(self, words: Words) -> list[str]:
        queue = self.on(words)
        output: list[str] = []
        for name in names_of(words.plain[0]):
            receipt = receipts.decode(self.handles[name], KEY, lane=queue.lane)
            output += self.ask(words, c.Delete(queue.lane, receipt), show_ok)
        return output if len(output) < 4 else output[:1]

    def change(self, words: Words) -> list[str]:
        queue = self.on(words)
        receipt = receipts.decode(self.handles[words.plain[0]], KEY, lane=queue.lane)
        command = c.ChangeVisibility(queue.lane, receipt, words.number("timeout"), request_of(words))
        if words.has("reason"):
            command = self.with_reason(command, queue, words.text("reason"))

        def show(script: Script, asked: Asked, _: Any) -> list[str]:
            lease = script.world.node(asked.queue.shard).shard.lanes[queue.lane].leases[receipt.seq]
            return [f"hidden until {seconds(lease.until)}" if command.timeout_s else "visible"]

        return self.ask(words, command, show)

    def with_reason(self, command: c.ChangeVisibility, queue: Queue, reason: str) -> c.ChangeVisibility:
        """As a shell does it: here the reason just follows the body."""
        header = held(self.world.node(queue.shard).shard.lanes[queue.lane], command.receipt)
        if header is None:
            return command
        message = self.message_at(queue, header)
        stored = message.content.partition(b"!")[0] + b"!" + reason.encode()
        rewritten = copy_of(header, msgspec.structs.replace(message, content=stored))
        return msgspec.structs.replace(command, rewritten=rewritten)

    def cancel(self, words: Words) -> list[str]:
        label = words.plain[0]
        asked = self.waiting.pop(label)
        self.world.node(asked.queue.shard).primary.cancel(label)
        self.world.settle()
        return self.collect()

    def forge(self, words: Words) -> list[str]:
        """A handle that nobody was given: of another message, or not signed by us."""
        name, key = words.plain[0], ReceiptKey(words.text("key", SECRET).encode())
        if words.has("text"):
            self.handles[name] = words.text("text")
            return []
        source = receipts.decode(self.handles[words.text("like")], KEY, lane=self.on(words).lane)
        changes = {each: words.number(each) for each in ("seq", "epoch", "lsn", "number") if words.has(each)}
        self.handles[name] = receipts.encode(msgspec.structs.replace(source, **changes), key)
        return []

    def peek(self, words: Words) -> list[str]:
        queue = self.on(words)
        after = words.text("after").removeprefix("#")
        seq = 0
        if after:
            seq = next(s for s, n in self.sequences(queue) if n == int(after))
        command = c.Peek(queue.lane, seq, words.number("max", 10))  # type: ignore[arg-type]
        return self.ask(words, command, show_peeked, wants=words.text("show"))

    def sequences(self, queue: Queue) -> list[tuple[int, int]]:
        log = self.world.node(queue.shard).log
        headers = log.headers_of(queue.lane).values()
        return [(header.seq, self.number_of(queue, header)) for header in headers]

    def move(self, words: Words) -> list[str]:
        queue = self.on(words)
        match words.plain:
            case ["start"]:
                name = f"t{len(self.tasks)}"
                target = self.queues[words.text("to")] if words.has("to") else None
                where = Address(target.shard, target.lane) if target is not None else None
                return self.ask(words, c.StartMove(queue.lane, name, where, words.number("rate")), show_task)
            case ["cancel", task]:
                return self.ask(words, c.CancelMove(queue.lane, task), show_task)
            case ["list"]:
                return self.ask(words, c.ListMoves(queue.lane), show_tasks)
        raise AssertionError(f"move {words.plain}?")

    # lanes that follow each other

    def address(self, name: str) -> Address:
        return Address(self.queues[name].shard, self.queues[name].lane)

    def found(self, words: Words) -> list[str]:
        parents = tuple(self.address(name) for name in words.text("parents").split(","))
        return self.ask(words, c.Found(self.on(words).lane, parents), show_lineage)

    def bequeath(self, words: Words) -> list[str]:
        """Part after part, from `on` to `to`, from where it was; with parts=N so many of them."""
        queue, heir, parts = self.on(words), self.queues[words.text("to")], words.number("parts", 1000)
        cursor, lineage = b"", c.Lineage(())
        for _ in range(parts):
            bequest = self.answer(queue, c.Bequeath(queue.lane, cursor))
            given = bequest if isinstance(bequest, HoldfastError) else self.answer(heir, c.Inherit(heir.lane, bequest))
            if isinstance(given, HoldfastError):
                return [self.refused(given)]
            (state,) = (each for each in given.parents if each.parent.lane == queue.lane)
            cursor, lineage = state.cursor, c.Lineage((state,))
            if state.is_complete:
                break
        return show_lineage(self, Asked(queue, lambda *_: []), lineage)

    def answer(self, queue: Queue, command: c.Command) -> Any:
        """Of a command whose answer is not shown."""
        self.world.submit(queue.shard, command, "unshown")
        self.world.settle()
        ((_, answer),) = self.world.take_answers()
        return answer

    # naming

    def message_at(self, queue: Queue, header: Header) -> Message:
        return self.world.node(queue.shard).log.message(header.at)

    def number_of(self, queue: Queue, header: Header) -> int:
        message = self.message_at(queue, header)
        if isinstance(message, Sent) or message.message_id == NO_DIGEST:
            name = receipts.message_id_bytes(queue.shard, header.epoch, header.lsn)
        else:
            name = message.message_id
        return self.numbers.setdefault(name, len(self.numbers))

    def name_of(self, queue: Queue, delivered: c.Delivered) -> str:
        header = delivered.header
        receipt = Receipt(queue.lane, header.seq, header.epoch, header.lsn, delivered.number)
        handle = receipts.encode(receipt, KEY)
        for name, known in self.handles.items():
            if known == handle:
                return name
        name = f"r{sum(each.startswith('r') for each in self.handles)}"
        self.handles[name] = handle
        return name

    def queue_at(self, address: Address) -> str:
        for queue in self.queues.values():
            if (queue.shard, queue.lane) == (address.shard, address.lane):
                return queue.name
        return "nowhere"


# --- printing -----------------------------------------------------------------------------------------


def request_of(words: Words) -> c.Request | None:
    """`request=NAME age=SECONDS`: asked under this id, for the first time so long ago."""
    if not words.has("request"):
        return None
    return c.Request(words.text("request").encode().rjust(16), words.number("age") * SECOND)


def seconds(instant: int) -> str:
    whole, rest = divmod(instant, SECOND)
    return str(whole) if not rest else f"{instant / SECOND:g}"


def names_of(word: str) -> list[str]:
    """r3 or r3..r7."""
    first, _, last = word.partition("..")
    return [f"r{n}" for n in range(int(first[1:]), int(last[1:]) + 1)] if last else [first]


def tally(lines: list[str]) -> list[str]:
    """How many of each line, in order of their first."""
    counted: dict[str, int] = {}
    for line in lines:
        counted[line] = counted.get(line, 0) + 1
    return [f"{count} × {line}" for line, count in counted.items()]


def show_ok(_: Script, __: Asked, ___: Any) -> list[str]:
    return ["ok"]


def show_lineage(script: Script, _: Asked, lineage: c.Lineage) -> list[str]:
    lines = []
    for each in lineage.parents:
        known = "everything" if each.is_complete else "something" if each.cursor else "nothing"
        lines.append(f"{known} from {script.queue_at(each.parent)}" + (", which is sealed" if each.is_over else ""))
    return lines


def show_sealed(script: Script, asked: Asked, answer: c.Done | Counts) -> list[str]:
    return ["sealed"] if isinstance(answer, c.Done) else ["not yet: " + show_counts(script, asked, answer)[0]]


def show_watched(_: Script, __: Asked, watched: c.Watched) -> list[str]:
    return [f"{watched.visible} to receive" if watched.visible else "nothing"]


def show_counts(_: Script, asked: Asked, counts: Counts) -> list[str]:
    line = f"visible {counts.visible}, in flight {counts.in_flight}, delayed {counts.delayed}"
    return [line + f", {counts.bytes} bytes" if asked.wants == "bytes" else line]


def show_accepted(script: Script, asked: Asked, accepted: c.Accepted) -> list[str]:
    queue = asked.queue
    name = receipts.message_id_bytes(accepted.shard or queue.shard, accepted.epoch, accepted.lsn)
    if name in script.numbers:
        return [f"duplicate of #{script.numbers[name]}"]
    number = script.numbers[name] = len(script.numbers)
    shard = script.world.node(queue.shard)
    lane = shard.shard.lanes[queue.lane]
    header = shard.log.headers_of(queue.lane)[accepted.lsn]
    visible_at = header.visible_at if header.is_aside else lane.visible_at(header)
    line = f"sent #{number} visible at {seconds(visible_at)}"
    return [line + f", sequence number {SEQUENCE_BASE + accepted.seq}" if asked.wants == "sequence" else line]


def show_delivery(script: Script, asked: Asked, delivery: c.Delivery) -> list[str]:
    queue = asked.queue
    if not delivery.messages:
        return ["nothing"]
    lines = []
    for delivered in delivery.messages:
        header = delivered.header
        number, name = script.number_of(queue, header), script.name_of(queue, delivered)
        message = script.message_at(queue, header)
        if asked.wants == "tally":
            lines.append(f"{message.content.decode()} of {script.groups[header.group] or 'nobody'}")
            continue
        lane = script.world.node(queue.shard).shard.lanes[queue.lane]
        lease = lane.leases.get(header.seq)
        until = f"hidden until {seconds(lease.until)}" if lease is not None and lease.until else "visible"
        shown = [f"#{number} {message.content.decode()} as {name}", until if lease is not None else "gone"]
        lines.append(", ".join([*shown, *extras(script, asked, delivered, message)]))
    return lines


def extras(script: Script, asked: Asked, delivered: c.Delivered, message: Message) -> list[str]:
    header = delivered.header
    cause = Cause.NONE if isinstance(message, Sent) else message.cause
    known = {
        "receives": f"receive {delivered.count}",
        "first": f"first received at {script.wall(delivered.first_wall)}",
        "sent": f"sent at {script.wall(message.wall)}",
        "sequence": f"sequence number {SEQUENCE_BASE + header.seq}",
        "group": f"group {script.groups[header.group]}" if header.group else "no group",
        "cause": CAUSES[cause],
        "source": f"from {script.queue_at(unpack_address(header.origin))}" if header.origin else "from nowhere",
    }
    return [known[want] for want in asked.wants.split(",") if want]


def show_peeked(script: Script, asked: Asked, reply: c.PeekReply) -> list[str]:
    lines = []
    for peeked in reply.messages:
        number = script.number_of(asked.queue, peeked.header)
        body = script.message_at(asked.queue, peeked.header).content.decode()
        until = f" until {seconds(peeked.until)}" if peeked.until else ""
        line = f"#{number} {body} {peeked.state}{until}"
        if "receives" in asked.wants:
            line += f", {peeked.count} receives"
        lines.append(line if peeked.cause is Cause.NONE else f"{line}, {CAUSES[peeked.cause]}")
    return lines or ["nothing"]


def show_task(script: Script, _: Asked, status: c.MoveStatus) -> list[str]:
    script.tasks[status.task] = status.state
    parts = [f"{status.task} {status.state}", f"{status.moved} of {status.to_move} moved"]
    if status.target is not None:
        parts.append(f"to {script.queue_at(status.target)}")
    if status.rate:
        parts.append(f"{status.rate} per second")
    if status.failure:
        parts.append(status.failure)
    return [", ".join(parts)]


def show_tasks(script: Script, asked: Asked, reply: c.MovesReply) -> list[str]:
    return [line for status in reply.tasks for line in show_task(script, asked, status)] or ["no tasks"]
