"""A server with FastMCP: both eras. `fastmcp_server.py`, or `fastmcp_server.py http PORT`."""

import sys
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolListChangedNotification

server = FastMCP("fastmcp", version="1")
count = 0


@dataclass
class Name:
    name: str


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
async def slow(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3)
        await anyio.sleep(0.02)
    return "done"


@server.tool
async def wait() -> str:
    global count
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        count += 1
        raise
    return "waited"


@server.tool
def cancelled() -> str:
    return str(count)


FORM = ElicitRequestFormParams(
    message="Who are you?",
    requested_schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


@server.tool
async def ask(ctx: Context):
    if ctx.request_context.protocol_version < "2026":
        answer = await ctx.elicit("Who are you?", Name)
        return f"Hello, {answer.data.name}!"
    if not ctx.input_responses:
        return InputRequiredResult(input_requests={"name": ElicitRequest(params=FORM)})
    return f"Hello, {ctx.input_responses['name'].content['name']}!"


@server.tool
async def grow(ctx: Context) -> str:
    def grown() -> str:
        return "new"

    server.tool(grown)
    await ctx.send_notification(ToolListChangedNotification())
    return "grown"


@server.resource("note://hello")
def note() -> str:
    return "hello"


if sys.argv[1:2] == ["http"]:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    server.run(show_banner=False)
