"""The Python SDK (`mcp` 2.x) as a client, in both eras."""

import asyncio
from contextlib import AsyncExitStack

import httpx2
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import steps


class Peer:
    async def connect(self):
        self.stack = AsyncExitStack()
        self.noticed = asyncio.Event()
        self.sessions = set()
        if steps.TRANSPORT == "stdio":
            server = StdioServerParameters(command=steps.COMMAND, args=steps.ARGUMENTS)
        else:
            http = httpx2.AsyncClient(timeout=30, event_hooks={"response": [self.on_response]})
            server = streamable_http_client(steps.URL, http_client=await self.stack.enter_async_context(http))
        self.client = Client(
            server,
            mode="auto" if steps.ERA == "modern" else "legacy",
            elicitation_callback=self.on_question,
            message_handler=self.on_message,
        )
        await self.stack.enter_async_context(self.client)
        return self

    async def on_response(self, response):
        if session := response.headers.get("mcp-session-id"):
            self.sessions.add(session)

    async def on_question(self, context, params):
        steps.is_the_question(params)
        return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})

    async def on_message(self, message):
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.noticed.set()

    async def tools(self):
        return (await self.client.list_tools()).tools

    async def resources(self):
        return (await self.client.list_resources()).resources

    async def templates(self):
        return (await self.client.list_resource_templates()).resource_templates

    async def prompts(self):
        return (await self.client.list_prompts()).prompts

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents

    async def complete(self, reference, argument):
        return (await self.client.complete(reference, argument)).completion.values

    async def call(self, name, arguments, on_progress=None):
        return await self.client.call_tool(name, arguments, progress_callback=on_progress)

    async def watch(self):
        if steps.ERA == "modern":
            changes = self.client.listen(tools_list_changed=True)
            self.subscription = await self.stack.enter_async_context(changes)

    async def changed(self):
        if steps.ERA == "modern":
            await anext(self.subscription)
        else:
            await self.noticed.wait()

    def session_id(self):
        assert len(self.sessions) < 2, self.sessions
        return next(iter(self.sessions), None)

    async def close(self):
        await self.stack.aclose()


steps.run(lambda: Peer().connect(), not_offered={})
