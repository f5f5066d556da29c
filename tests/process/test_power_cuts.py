"""Power cuts of a real server under load: nothing that was acknowledged is lost. `make cuts` has more of them."""

import json
import struct
from pathlib import Path
from random import Random

import pytest

from tests.process.cuts import Cuts, Ended
from tests.process.platter import Platter


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_power_cuts_under_load(tmp_path: Path, seed: int) -> None:
    cuts = Cuts(tmp_path / "data", seed)
    for _ in range(8):
        cuts.cut()
    assert cuts.judge() == []
    assert cuts.lost, "the cuts took nothing away, so they proved nothing"
    assert len(cuts.history.sent) > 500
    assert len(cuts.history.deleted) > 100
    assert list((tmp_path / "data").glob("shards/*/snapshots/*.snap")), "no snapshot was made"


def test_a_disk_that_lies_about_syncs_is_found_out(tmp_path: Path) -> None:
    """By the server when it starts, if a later frame says so, else by the history."""
    cuts = Cuts(tmp_path / "data", 7)
    cuts.cut()
    cuts.cut(is_lying=True, may_be_early=False)
    try:
        problems = cuts.judge()
    except Ended as refusal:
        problems = [str(refusal)]
    signs = ("acknowledged and is lost", "the log is damaged")
    assert any(sign in problem for problem in problems for sign in signs), problems


def test_a_platter_without_notes_is_the_folder_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "data"
    (root / "keys").mkdir(parents=True)
    (root / "keys" / "a").write_bytes(b"content")
    platter = Platter(root)
    assert platter.cut(Random(1)) == 0
    assert (root / "keys" / "a").read_bytes() == b"content"


def noted(head: list[object], data: bytes) -> bytes:
    """As the layer writes it."""
    text = json.dumps(head).encode()
    return struct.pack("<II", len(text), len(data)) + text + data


def test_a_file_that_was_cut_off_and_synced_keeps_nothing_of_what_was_there(tmp_path: Path) -> None:
    """As the rest of a file that a killed process had begun, which the next one begins anew, and shorter."""
    root, journal = tmp_path / "data", tmp_path / "journal"
    root.mkdir()
    begun = root / "a.tmp"
    begun.write_bytes(b"longer")
    platter, inode = Platter(root), begun.stat().st_ino
    notes: list[tuple[list[object], bytes]] = [
        (["truncate", inode, 0], b""),
        (["write", inode, 0, 0], b"short"),
        (["syncing", inode, str(begun), [1, 1]], b""),
        (["synced", [1, 1]], b""),
    ]
    journal.write_bytes(b"".join(noted(*each) for each in notes))
    assert platter.replay(journal) == len(notes)
    platter.cut(Random(1))
    assert begun.read_bytes() == b"short"
