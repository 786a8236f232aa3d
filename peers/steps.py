"""The steps of each Python client, and their output. `peers/run` counts the steps.

    python CLIENT.py ERA stdio stdio-server PROGRAM LOG
    python CLIENT.py ERA http URL
"""

import asyncio
import json
import os
import sys
import traceback
import urllib.error
import urllib.request
from pathlib import Path

import mcp_types

VERSIONS = {"modern": "2026-07-28", "legacy": "2025-11-25"}
ERA, TRANSPORT, *SERVER = sys.argv[1:]
#: The command line for the stdio transport, and the URL for the HTTP transport.
COMMAND, *ARGUMENTS = SERVER
URL = SERVER[0]


def is_the_question(params):
    """Checks the elicitation request of the tool `ask`."""
    assert params.message == "Who are you?", params
    assert params.requested_schema["properties"]["name"]["type"] == "string", params


class Steps:
    """All steps, in order. `connect` returns a peer; see the two clients."""

    def __init__(self, connect):
        self.connect_peer = connect
        self.peer = None

    async def connect(self):
        self.peer = await self.connect_peer()
        assert self.peer.client.protocol_version == VERSIONS[ERA], self.peer.client.protocol_version
        assert self.peer.client.server_info.name == "everything"

    async def list(self):
        tools = names(await self.peer.tools())
        assert {"echo", "add", "sleep", "running", "ask", "fail", "grow"} <= set(tools), tools
        assert names(await self.peer.resources()) == ["motd"]
        assert names(await self.peer.templates()) == ["row"]
        assert names(await self.peer.prompts()) == ["greet"]

    async def call(self):
        assert await self.text("echo", {"text": "hello"}) == "hello"
        assert (await self.peer.call("add", {"a": 2, "b": 3})).structured_content == {"sum": 5}
        failed = await self.peer.call("fail", {"message": "no luck"})
        assert failed.is_error and failed.content[0].text == "no luck", failed

    async def read(self):
        assert (await self.peer.read("motd://today"))[0].text == "Be kind."
        assert (await self.peer.read("row://t/7"))[0].text == "row 7 of t"

    async def get(self):
        got = await self.peer.client.get_prompt("greet", {"language": "Latin"})
        assert got.messages[0].content.text == "Greet me in Latin.", got

    async def complete(self):
        greet = mcp_types.PromptReference(type="ref/prompt", name="greet")
        values = await self.peer.complete(greet, {"name": "language", "value": "G"})
        assert values == ["German", "Greek"], values

    async def ask(self):
        assert await self.text("ask", {}) == "Hello, Ada!"

    async def progress(self):
        seen = []

        async def on_progress(progress, total, message):
            seen.append((progress, total))

        slept = await self.peer.call("sleep", {"ms": 300}, on_progress)
        assert slept.content[0].text == "slept 300 ms", slept
        assert seen[0] == (1, 10) and len(seen) > 1, seen

    async def grow(self):
        await self.peer.watch()
        assert await self.text("grow", {}) == "grown"
        assert "grown" in names(await self.peer.tools())
        assert await self.text("grown", {}) == "I am new."

    async def notice(self):
        await asyncio.wait_for(self.peer.changed(), 5)

    async def cancel(self):
        sleeping = asyncio.create_task(self.peer.call("sleep", {"ms": 60_000}))
        await self.until_running("1")
        sleeping.cancel()
        ended = (await asyncio.gather(sleeping, return_exceptions=True))[0]
        assert isinstance(ended, asyncio.CancelledError), ended
        await self.until_running("0")

    async def end(self):
        session = self.peer.session_id() if TRANSPORT == "http" else None
        await self.peer.close()
        if TRANSPORT == "stdio":
            lines = Path(SERVER[-1]).read_text().split("\n")
            assert lines == ["started", "ended 0", ""], lines
            return
        assert (session is None) == (ERA == "modern"), session
        if session:
            assert ping(session) == 404
        self.peer = await self.connect_peer()
        assert await self.text("echo", {"text": "next"}) == "next"
        await self.peer.close()

    async def text(self, name, arguments):
        return (await self.peer.call(name, arguments)).content[0].text

    async def until_running(self, number):
        for _ in range(250):
            running = await self.text("running", {})
            if running == number:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not within 5 s: {number} sleeps run; there are {running}")


def run(connect, not_offered):
    """Runs all steps; `not_offered` has the reasons for steps that this client does not support."""
    asyncio.run(take(Steps(connect), not_offered))


async def take(steps, not_offered):
    order = "connect list call read get complete ask progress grow notice cancel end"
    for name in order.split():
        if name in not_offered:
            print(f"not offered {name}: {not_offered[name]}", flush=True)
            continue
        try:
            await getattr(steps, name)()
        except Exception:
            print(f"FAILED {name}: {traceback.format_exc()}", flush=True)
            os._exit(1)  # Exit at once: closing an open client may wait for the server.
        print(f"ok {name}", flush=True)


def names(items):
    return [item.name for item in items]


def ping(session):
    """Returns the HTTP status of a ping in a legacy session."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Mcp-Protocol-Version": VERSIONS["legacy"],
        "Mcp-Session-Id": session,
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    try:
        return urllib.request.urlopen(urllib.request.Request(URL, body, headers)).status
    except urllib.error.HTTPError as error:
        return error.code
