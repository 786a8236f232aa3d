"""A server with the Python SDK: both eras. `python_mcp.py`, or `python_mcp.py http PORT`."""

import sys
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("python-mcp", version="1")
count = 0


class Name(BaseModel):
    name: str


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def slow(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3)
        await anyio.sleep(0.02)
    return "done"


@server.tool()
async def wait() -> str:
    global count
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        count += 1
        raise
    return "waited"


@server.tool()
def cancelled() -> str:
    return str(count)


def ask_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
async def ask(name: Annotated[Name, Resolve(ask_name)]) -> str:
    return f"Hello, {name.name}!"


@server.tool()
async def grow(ctx: Context) -> str:
    server.add_tool(lambda: "new", name="grown")
    await ctx.notify_tools_changed()
    if ctx.protocol_version < "2026":
        # `notify_tools_changed` notifies only modern clients.
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.resource("note://hello")
def note() -> str:
    return "hello"


if sys.argv[1:2] == ["http"]:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run()
