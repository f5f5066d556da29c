"""A history in sentences that a person can follow."""

from tests.model.state import CANDIDATE, NAMES, PRIMARY, Host, Record, State
from tests.model.writing import Label

SENTENCES = {
    "append": "{host} makes lsn {1} in epoch {0} and sends it",
    "fsync": "{host} has synced its log up to lsn {0}",
    "deliver": "{host} takes what the leader of epoch {0} sent: its log ends at lsn {1} now",
    "commit": "{host} answers its client: lsn {1} is committed in epoch {0}",
    "snapshot": "{host} makes a snapshot up to lsn {0}",
    "suspect": "a manager asks the store for epoch {0} with {host} as candidate",
    "apply": "the store writes epoch {0}: {config}",
    "refuse": "the store refuses epoch {0} of {host}: a disk was replaced",
    "request": "{host} asks the store for epoch {0}: {config}",
    "told": "{host} learns that its epoch {0} was written, and leads",
    "deposed": "{host} reads epoch {0}, and leads no more",
    "refused": "{host} learns that all it asked for was refused, and goes on in epoch {0}",
    "resumes": "{host} reads an unchanged record, and goes on in epoch {0}",
    "candidate": "{host} promises epoch {0} and is its candidate, with a log up to lsn {1}",
    "fence": "{host} is fenced: it promises epoch {0}",
    "answer": "{host} hears from {other}, which is fenced too: its log ends at lsn {1} now",
    "freeze": "{host} freezes its log at lsn {1} and sends it, as candidate of epoch {0}",
    "crash": "the power of {host} is cut: its log ends at lsn {0}",
    "cut": "the power of {host} is cut, and it cuts its log at its high-water mark {0}",
    "wipe": "the disk of {host} is replaced: life {0}",
    "rot": "{host} restarts, and cannot read lsn {0}",
}


def sentence(label: Label) -> str:
    kind, index, *rest = label
    assert isinstance(index, int)
    words = {"host": NAMES[index], "config": "", "other": ""}
    if kind in {"apply", "request"}:
        members = rest[1]
        assert isinstance(members, tuple)
        words["config"] = f"{names(members)} led by {NAMES[index]}" if members else f"{NAMES[index]} recovers"
    if kind == "answer":
        assert isinstance(rest[0], int)
        words["other"] = NAMES[rest[0]]
    return SENTENCES[str(kind)].format(*rest, **words)


def names(hosts: tuple[int, ...]) -> str:
    return "{" + ", ".join(NAMES[host] for host in hosts) + "}"


def show_record(record: Record) -> str:
    state = "active" if record.is_active else "recovering"
    members = ", ".join(NAMES[host] + (f" (life {life})" if life else "") for host, life in record.members)
    return (
        f"epoch {record.epoch} {state}, primary {NAMES[record.primary]}, members {{{members}}}, "
        f"range of epoch {record.opened} from lsn {len(record.sealed) + 1}"
    )


def show_host(index: int, host: Host) -> str:
    role = {PRIMARY: f"primary of epoch {host.epoch}", CANDIDATE: f"candidate of epoch {host.epoch}"}
    parts = [f"{NAMES[index]}: promise {host.promise}", f"epochs of its frames {list(host.disk)}"]
    if host.log != host.disk:
        parts.append(f"not synced {list(host.log)}")
    if host.snapshot:
        parts.append(f"snapshot of {list(host.snapshot)}")
    if host.role in role:
        parts.append(role[host.role])
    return ", ".join(parts)


def show(trace: list[tuple[Label, State]], said: str) -> str:
    lines = [f"{number:4}. {sentence(label)}" for number, (label, _) in enumerate(trace, 1)]
    last = trace[-1][1]
    lines += [f"      => {said}", f"      store: {show_record(last.record)}"]
    lines += [f"      {show_host(index, host)}" for index, host in enumerate(last.hosts)]
    lines.append(f"      answered to clients: frames of the epochs {list(last.acknowledged)}")
    return "\n".join(lines)
