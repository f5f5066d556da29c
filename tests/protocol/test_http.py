"""The HTTP protocol class, fed with bytes: whole, cut anywhere, several requests at once, and nonsense."""

import ipaddress
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.frontend import bounds
from tests.compatibility.claims import proves
from tests.protocol.http_peer import Peer, chunked, post


def test_a_request_is_answered() -> None:
    peer = Peer()
    peer.send(post(b"abc"))
    assert peer.answers() == [(200, b"POST / abc")]
    assert not peer.wire.is_closed


def test_header_names_are_found_in_lower_case_and_repeated_ones_are_joined() -> None:
    peer = Peer()
    peer.send(post(b"", "X-Amz-Target: A", "x-twice: 1", "X-Twice: 2"))
    assert peer.seen[0].headers[b"x-amz-target"] == b"A"
    assert peer.seen[0].headers[b"x-twice"] == b"1,2"


@pytest.mark.parametrize("length", [1000, 1], ids=["in one piece", "byte by byte"])
def test_blanks_around_a_value_are_no_part_of_it(length: int) -> None:
    peer, stream = Peer(), post(b"", "X-One: \ta b\t ", "X-Two: 1 ", "X-Two:\t2 ")
    for at in range(0, len(stream), length):
        peer.send(stream[at : at + length])
    assert peer.seen[0].headers[b"x-one"] == b"a b"
    assert peer.seen[0].headers[b"x-two"] == b"1,2"


@proves("http")
def test_every_answer_has_its_own_request_id() -> None:
    peer = Peer()
    peer.send(post(b"1") + post(b"2"))
    first, second = re.findall(rb"x-amzn-RequestId: (\S+)", peer.wire.written)
    assert first != second


REQUESTS = [post(b'{"a": 1}'), chunked(b"he", b"llo"), b"GET /x?y=1 HTTP/1.1\r\nHost: queue\r\n\r\n", post(b"z" * 700)]


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_a_request_may_be_cut_at_every_byte(request_bytes: bytes) -> None:
    whole = Peer()
    whole.send(request_bytes)
    for cut in range(1, len(request_bytes)):
        peer = Peer()
        peer.send(request_bytes[:cut])
        assert peer.answers() == []
        peer.send(request_bytes[cut:])
        assert peer.answers() == whole.answers()


@proves("http")
@given(cuts=st.lists(st.integers(0, sum(map(len, REQUESTS))), max_size=20))
def test_pipelined_requests_in_any_pieces_are_answered_in_order(cuts: list[int]) -> None:
    stream, peer = b"".join(REQUESTS), Peer()
    edges = [0, *sorted(cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        peer.send(stream[start:end])
    assert [body for _, body in peer.answers()] == [
        b'POST / {"a": 1}',
        b"POST / hello",
        b"GET /x?y=1 ",
        b"POST / " + b"z" * 700,
    ]


def test_the_next_request_waits_for_the_answer_of_the_one_before() -> None:
    peer = Peer(keeps=True)
    peer.send(post(b"first") + post(b"second"))
    assert [exchange.body for exchange in peer.seen] == [b"first"]
    assert peer.wire.reading == "paused"
    peer.kept[0].answer(b"1")
    assert [exchange.body for exchange in peer.seen] == [b"first", b"second"]
    assert peer.wire.reading == "resumed"
    peer.kept[1].answer(b"2")
    assert [body for _, body in peer.answers()] == [b"1", b"2"]


def test_thousands_of_pipelined_requests_do_not_exhaust_the_stack() -> None:
    peer = Peer()
    peer.send(post(b"") * 5000)
    assert len(peer.answers()) == 5000


@proves("http")
def test_a_client_that_expects_100_continue_is_told_to_go_on() -> None:
    peer = Peer()
    peer.send(post(b"abc", "Expect: 100-continue")[:-3])
    assert peer.wire.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.send(b"abc")
    assert peer.answers() == [(200, b"POST / abc")]


def test_100_continue_waits_behind_the_answer_that_is_owed() -> None:
    peer = Peer(keeps=True)
    peer.send(post(b"first") + post(b"abc", "Expect: 100-continue")[:-3])
    assert peer.wire.written == b""
    peer.kept[0].answer(b"1")
    assert peer.wire.written.endswith(b"1HTTP/1.1 100 Continue\r\n\r\n")


def test_a_body_that_is_refused_is_not_asked_for_afterwards() -> None:
    peer = Peer(keeps=True)
    peer.send(post(b"first") + b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    peer.kept[0].answer(b"1")
    assert peer.statuses() == [200, 400]


def test_another_expectation_is_refused() -> None:
    peer = Peer()
    peer.send(post(b"", "Expect: miracles"))
    assert peer.statuses() == [417]


def test_connection_close_is_obeyed() -> None:
    peer = Peer()
    peer.send(post(b"abc", "Connection: close"))
    assert b"Connection: close" in peer.wire.written
    assert peer.wire.is_closed


def test_an_http_1_0_request_closes_the_connection() -> None:
    peer = Peer()
    peer.send(b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\na")
    assert peer.statuses() == [200]
    assert peer.wire.is_closed


def test_head_gets_no_body() -> None:
    peer = Peer()
    peer.send(b"HEAD /x HTTP/1.1\r\n\r\n")
    assert peer.wire.written.endswith(b"Content-Length: 8\r\n\r\n")


MALFORMED = {
    b"nonsense\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na": 400,
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": 400,
    b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\na": 400,
    b"POST / HTTP/1.1\r\nContent-Length: 8388609\r\n\r\n": 413,
    b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n": 431,
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n": 431,
    b"POST / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(65)) + b"\r\n": 431,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": 400,
}


@pytest.mark.parametrize(("data", "status"), MALFORMED.items())
@pytest.mark.parametrize("piece", [1, 1000, 100_000])
def test_what_is_malformed_or_too_large_is_refused_and_the_connection_ends(
    data: bytes, status: int, piece: int
) -> None:
    peer = Peer()
    for start in range(0, len(data), piece):
        peer.send(data[start : start + piece])
    assert peer.statuses() == [status]
    assert peer.seen == []
    assert peer.wire.is_half_closed


def test_a_refusal_waits_its_turn() -> None:
    peer = Peer(keeps=True)
    peer.send(post(b"fine") + b"nonsense\r\n\r\n")
    assert peer.wire.written == b""
    peer.kept[0].answer(b"1")
    assert peer.statuses() == [200, 400]


def test_after_a_refusal_the_rest_is_thrown_away_until_the_client_ends_or_time_is_over() -> None:
    peer = Peer()
    peer.send(b"nonsense\r\n\r\n")
    peer.send(post(b"abc"))
    assert peer.statuses() == [400]
    assert not peer.wire.is_aborted
    pass_time(peer, bounds.LINGER_TIMEOUT_S + 1)
    assert peer.wire.is_aborted


def test_a_chunked_body_that_grows_too_long_is_refused() -> None:
    peer = Peer()
    peer.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
    for _ in range(bounds.BODY_BYTES_MAX // 0x40000 + 1):
        peer.send(chunk)
    assert peer.statuses() == [413]


@given(st.binary(max_size=300))
def test_no_bytes_whatever_make_it_fail(data: bytes) -> None:
    peer = Peer()
    peer.send(data)
    peer.send(post(b"abc"))
    assert set(peer.statuses()) <= {200, 400}


@given(st.data())
def test_a_damaged_request_is_answered_or_refused_or_waited_for(data: st.DataObject) -> None:
    request = bytearray(post(b'{"a": 1}', "X-Amz-Target: AmazonSQS.SendMessage"))
    for _ in range(data.draw(st.integers(1, 4))):
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    peer = Peer()
    peer.send(bytes(request))
    assert set(peer.statuses()) <= {200, 400, 413, 417, 431}


def pass_time(peer: Peer, seconds: int) -> None:
    peer.server.second += seconds
    peer.connection.check_stall()


def test_a_head_that_does_not_end_is_given_up() -> None:
    peer = Peer()
    peer.send(b"POST / HTTP/1.1\r\nHost: ")
    pass_time(peer, bounds.HEAD_TIMEOUT_S + 1)
    assert peer.statuses() == [408]


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    idle, waiting = Peer(), Peer(keeps=True)
    waiting.send(post(b"long poll"))
    for peer in (idle, waiting):
        pass_time(peer, bounds.IDLE_TIMEOUT_S + 1)
    assert (idle.wire.is_aborted, waiting.wire.is_aborted) == (True, False)


def test_a_client_that_does_not_read_gets_no_further_answers_and_is_cut() -> None:
    peer = Peer()
    peer.connection.pause_writing()
    peer.send(post(b"a"))
    assert peer.seen == []
    peer.connection.resume_writing()
    assert peer.statuses() == [200]
    peer.connection.pause_writing()
    pass_time(peer, bounds.UNREAD_TIMEOUT_S + 1)
    assert peer.wire.is_aborted


def test_a_client_that_leaves_is_noticed_and_its_answer_is_dropped() -> None:
    peer, left = Peer(keeps=True), []
    peer.send(post(b"long poll"))
    peer.kept[0].on_gone = lambda: left.append(True)
    peer.connection.connection_lost(None)
    assert left == [True]
    assert peer.kept[0].is_gone
    peer.kept[0].answer(b"too late")
    assert peer.wire.written == b""


def test_an_exchange_cannot_be_answered_twice() -> None:
    peer = Peer(keeps=True)
    peer.send(post(b""))
    peer.kept[0].answer(b"1")
    with pytest.raises(AssertionError):
        peer.kept[0].answer(b"2")


def test_draining_closes_idle_connections_and_lets_others_finish() -> None:
    idle, busy = Peer(), Peer(keeps=True)
    busy.send(post(b"a"))
    for peer in (idle, busy):
        peer.server.drain()
    assert idle.wire.is_closed
    assert not busy.wire.is_closed
    busy.kept[0].answer(b"1")
    assert b"Connection: close" in busy.wire.written
    assert busy.wire.is_closed


# what could be read in two ways


AMBIGUOUS = {
    "trailers": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Amz-Target: b\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "another host": b"POST http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no path": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "a folded header": b"POST / HTTP/1.1\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"POST / HTTP/1.1\nContent-Length: 0\n\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
@pytest.mark.parametrize("piece", [1, 1000])
def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(name: str, piece: int) -> None:
    stream, peer = AMBIGUOUS[name] + post(b"smuggled"), Peer()
    for start in range(0, len(stream), piece):
        peer.send(stream[start : start + piece])
    assert peer.statuses() == [400]
    assert peer.seen == []


def test_a_url_as_target_is_its_path() -> None:
    peer = Peer()
    peer.send(post(b"", target="http://queue/a?b=c") + post(b"", target="HTTP://queue"))
    assert [exchange.target for exchange in peer.seen] == [b"/a?b=c", b"/"]


# patience


def test_a_target_that_drips_is_given_up_as_any_other_head() -> None:
    peer = Peer()
    peer.send(b"POST /")
    for _ in range(bounds.HEAD_TIMEOUT_S):
        pass_time(peer, 1)
        peer.send(b"a")
        assert peer.statuses() == []
    pass_time(peer, 1)
    assert peer.statuses() == [408]


@pytest.mark.parametrize(("rate", "is_enough"), [(bounds.BODY_BYTES_PER_S_MIN, True), (100, False)])
def test_a_body_has_to_come_at_some_rate(rate: int, is_enough: bool) -> None:
    peer = Peer()
    peer.send(post(b"")[:-4].replace(b"Content-Length: 0", b"Content-Length: 1000000") + b"\r\n\r\n")
    for _ in range(bounds.BODY_GRACE_S * 2):
        peer.send(b"x" * rate)
        pass_time(peer, 1)
    assert peer.statuses() == ([] if is_enough else [408])


def test_a_body_in_endless_small_chunks_is_refused_for_its_length_on_the_wire() -> None:
    peer = Peer()
    peer.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(bounds.WIRE_BYTES_MAX // 60_000 + 1):
        peer.send(b"1\r\nx\r\n" * 10_000)
    assert peer.statuses() == [413]


def test_unfinished_bodies_together_have_a_bound_and_are_forgotten_when_they_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "UNFINISHED_BYTES_MAX", 1000)
    peer = Peer()
    for _ in range(3):
        peer.send(post(b"x" * 900)[:-1])
        peer.send(b"x")
    assert peer.statuses() == [200] * 3
    peer.send(post(b"x" * 1100)[:-1])
    peer.send(b"x")
    assert peer.statuses() == [200] * 3 + [503]
    other = Peer(of=peer.server)
    other.send(post(b"x" * 900)[:-1])
    other.send(b"x")
    assert other.statuses() == [200]


# one address


def test_one_address_has_a_bound_of_its_own_and_loopback_none() -> None:
    crowd = bounds.Crowd()
    for _ in range(bounds.CONNECTIONS_PER_ADDRESS_MAX):
        assert crowd.enter("192.0.2.1")
        assert crowd.enter("127.0.0.1")
    assert not crowd.enter("192.0.2.1")
    assert crowd.enter("192.0.2.2")
    assert crowd.enter("127.0.0.1")
    crowd.leave("192.0.2.1")
    assert crowd.enter("192.0.2.1")


def test_trusted_proxies_speak_for_many() -> None:
    crowd = bounds.Crowd(per_address_max=1, proxies=[ipaddress.ip_network("192.0.2.0/30")])
    for _ in range(3):
        assert crowd.enter("192.0.2.1")
    assert crowd.enter("192.0.2.4")
    assert not crowd.enter("192.0.2.4")


def test_ipv6_clients_are_counted_by_network_and_mapped_ones_as_ipv4() -> None:
    crowd = bounds.Crowd(per_address_max=1)
    assert crowd.enter("2001:db8::1")
    assert not crowd.enter("2001:db8::2")
    assert crowd.enter("2001:db8:0:1::1")
    assert crowd.enter("::ffff:192.0.2.1")
    assert not crowd.enter("192.0.2.1")
    assert crowd.enter("fe80::1%eth0")
    assert crowd.enter("::1")
    assert not crowd.enter("::1")
