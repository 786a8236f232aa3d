// A server with the TypeScript SDK 2.x: both eras. `ts2.mjs`, `ts2.mjs http PORT`, or `ts2.mjs sessions PORT` for the
// legacy era with sessions.
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
let cancelled = 0;
let grown = 0;
let changed = () => {};
function grow(server, number) {
  server.registerTool(`grown-${number}`, { inputSchema: z.object({}) }, async () => text('new'));
}
function make() {
  const server = new McpServer({ name: 'ts2', version: '1' });
  const none = { inputSchema: z.object({}) };
  server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, async (args) => text(args.text));
  server.registerTool('slow', none, async (_, ctx) => {
    for (const progress of [1, 2, 3]) {
      const params = { progressToken: ctx.mcpReq._meta.progressToken, progress, total: 3 };
      await ctx.mcpReq.notify({ method: 'notifications/progress', params });
      await sleep(20);
    }
    return text('done');
  });
  server.registerTool('wait', none, async (_, ctx) => {
    ctx.mcpReq.signal.addEventListener('abort', () => (cancelled += 1));
    await sleep(60_000, undefined, { signal: ctx.mcpReq.signal });
    return text('waited');
  });
  server.registerTool('cancelled', none, async () => text(String(cancelled)));
  server.registerTool('ask', none, async (_, ctx) => {
    const schema = z.object({ name: z.string() });
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'name', schema);
    if (!answer) {
      const elicit = inputRequired.elicit({ message: 'Who are you?', requestedSchema: schema });
      return inputRequired({ inputRequests: { name: elicit } });
    }
    return text(`Hello, ${answer.name}!`);
  });
  server.registerTool('grow', none, async () => {
    grow(server, (grown += 1));
    changed();
    return text('grown');
  });
  for (let number = 1; number <= grown; number += 1) grow(server, number);
  server.registerResource('note', 'note://hello', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'hello' }] }));
  return server;
}

const [mode, port] = process.argv.slice(2);
if (mode === 'http') {
  // A new server for every request; shared state is declared above.
  const handler = createMcpHandler(make);
  changed = () => handler.notify.toolsChanged();
  createServer(toNodeHandler(handler)).listen(Number(port), '127.0.0.1');
} else if (mode === 'sessions') {
  const sessions = new Map();
  const serve = async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = sessions.get(id);
    if (id !== undefined && !transport) return response.writeHead(404).end();
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  };
  createServer(serve).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(make);
}
