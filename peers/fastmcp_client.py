"""The FastMCP 4 client, in both eras."""

import asyncio

from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

import steps

NOT_OFFERED = {
    "modern": {"notice": "its client has no `subscriptions/listen`, the only way to be told in this era"},
    "legacy": {},
}


class Peer(MessageHandler):
    async def connect(self):
        self.noticed = asyncio.Event()
        if steps.TRANSPORT == "stdio":
            transport = StdioTransport(steps.COMMAND, steps.ARGUMENTS)
        else:
            transport = StreamableHttpTransport(steps.URL)
        self.client = Client(
            transport,
            mode="auto" if steps.ERA == "modern" else "legacy",
            elicitation_handler=self.on_question,
            message_handler=self,
        )
        await self.client.__aenter__()
        self.tools = self.client.list_tools
        self.resources = self.client.list_resources
        self.templates = self.client.list_resource_templates
        self.prompts = self.client.list_prompts
        self.read = self.client.read_resource
        self.session_id = transport.get_session_id
        self.close = self.client.close
        return self

    async def on_question(self, message, response_type, params, context):
        steps.is_the_question(params)
        return response_type(name="Ada")

    async def on_tool_list_changed(self, message):
        self.noticed.set()

    async def complete(self, reference, argument):
        return (await self.client.complete(reference, argument)).values

    async def call(self, name, arguments, on_progress=None):
        return await self.client.call_tool(
            name, arguments, progress_handler=on_progress, raise_on_error=False
        )

    async def watch(self):
        pass  # A legacy server sends notifications without a subscription.

    async def changed(self):
        await self.noticed.wait()


steps.run(lambda: Peer().connect(), NOT_OFFERED[steps.ERA])
