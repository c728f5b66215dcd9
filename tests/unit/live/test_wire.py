"""HTTP on the wire: bodies of a length and in chunks, connections used again, and answers that are none."""

import asyncio

import pytest

from gfs.live import wire as wire_module
from gfs.live.wire import HEAD, Wire, WireError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: now\r\n\r\n{}"


def talk(answers, conversation):
    """Run a conversation with a server that gives these answers; what it was asked, and by which connection."""
    asked, left = [], list(answers)

    async def serve(reader, writer):
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
                body = await reader.readexactly(int(length[0].split()[1])) if length else b""
                asked.append((head.decode(), body, writer))
                writer.write(left.pop(0))
                if not left or left[0] == b"closed":
                    left[:1] = []
                    break
            writer.close()
        except asyncio.IncompleteReadError:
            writer.close()

    async def whole():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/root")
        try:
            return await conversation(wire)
        finally:
            wire.close()
            server.close()
            await server.wait_closed()

    return asyncio.run(whole()), asked


def test_requests_one_after_the_other_share_a_connection():
    async def conversation(wire):
        first = await wire.send("POST", "/a b", {"X": "1"}, b"{1}", {"limit": "5 0"})
        return first, await wire.send("GET", "/c", {})

    (first, second), asked = talk([OK, OK], conversation)
    assert (first.status, first.reason, first.content, first.headers["date"]) == (200, "OK", b"{}", "now")
    assert second.content == b"{}"
    (head, body, one), (again, nothing, two) = asked
    assert head.startswith("POST /root/a%20b?limit=5+0 HTTP/1.1\r\nHost: 127.0.0.1:"), "below the root of the address"
    assert "X: 1\r\n" in head
    assert (body, nothing) == (b"{1}", b"")
    assert "Content-Length" not in again
    assert one is two


def test_a_body_in_chunks():
    chunks = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n"
    answer, _ = talk([chunks], lambda wire: wire.send("GET", "/", {}))
    assert (answer.status, answer.content) == (201, b"abc0123456789")


def test_a_body_until_the_end_and_none_at_all():
    answer, _ = talk([b"HTTP/1.1 500 Oh\r\n\r\nall of it"], lambda wire: wire.send("GET", "/", {}))
    assert (answer.status, answer.content) == (500, b"all of it")
    answer, _ = talk([b"HTTP/1.1 204 No Content\r\n\r\n"], lambda wire: wire.send("GET", "/", {}))
    assert (answer.status, answer.content) == (204, b"")


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async def conversation(wire):
        await wire.send("GET", "/1", {})
        await asyncio.sleep(0.05)
        return await wire.send("GET", "/2", {})

    answer, asked = talk([OK, b"closed", OK], conversation)
    assert answer.status == 200
    assert asked[0][2] is not asked[1][2]


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch):
    async def conversation(wire):
        await wire.send("GET", "/1", {})
        monkeypatch.setattr(wire_module, "IDLE", 0.0)
        return await wire.send("GET", "/2", {})

    _, asked = talk([OK, OK], conversation)
    assert asked[0][2] is not asked[1][2]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * HEAD + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_is_no_answer_is_an_error_of_the_connection(answer):
    with pytest.raises(WireError):
        talk([answer], lambda wire: wire.send("GET", "/", {}))


def test_nobody_reads_the_answer_to_a_request_that_was_given_up():
    async def conversation(wire):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await wire.send("GET", "/slow", {})
        return await wire.send("GET", "/next", {})

    answer, asked = talk([b"HTTP/1.1 200 OK\r\n", OK], conversation)
    assert answer.content == b"{}"
    assert asked[0][2] is not asked[1][2]


def test_no_header_smuggles_another():
    with pytest.raises(WireError, match="line break"):
        talk([OK], lambda wire: wire.send("GET", "/", {"X": "1\r\nY: 2"}))
