// A server with the TypeScript SDK 1.x: the legacy era only. `ts1.mjs`, `ts1.mjs http PORT` with sessions, or
// `ts1.mjs sse PORT` for the HTTP+SSE transport (2024-11-05).
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
let cancelled = 0;
let grown = 0;
function make() {
  const server = new McpServer({ name: 'ts1', version: '1' });
  server.registerTool('echo', { inputSchema: { text: z.string() } }, async (args) => text(args.text));
  server.registerTool('slow', {}, async (extra) => {
    for (const progress of [1, 2, 3]) {
      const params = { progressToken: extra._meta.progressToken, progress, total: 3 };
      await extra.sendNotification({ method: 'notifications/progress', params });
      await sleep(20);
    }
    return text('done');
  });
  server.registerTool('wait', {}, async (extra) => {
    extra.signal.addEventListener('abort', () => (cancelled += 1));
    await sleep(60_000, undefined, { signal: extra.signal });
    return text('waited');
  });
  server.registerTool('cancelled', {}, async () => text(String(cancelled)));
  server.registerTool('ask', {}, async () => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const answer = await server.server.elicitInput({ message: 'Who are you?', requestedSchema });
    return text(`Hello, ${answer.content.name}!`);
  });
  server.registerTool('grow', {}, async () => {
    server.registerTool(`grown-${(grown += 1)}`, {}, async () => text('new'));
    return text('grown');
  });
  server.registerResource('note', 'note://hello', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'hello' }] }));
  return server;
}

const [mode, port] = process.argv.slice(2);
const sessions = new Map();
const web = (handle) => createServer(handle).listen(Number(port), '127.0.0.1');
if (mode === 'http') {
  web(async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = sessions.get(id);
    if (id !== undefined && !transport) {
      response.writeHead(404).end();
      return;
    }
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
} else if (mode === 'sse') {
  web(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (request.method === 'GET') {
      const transport = new SSEServerTransport('/post', response);
      sessions.set(transport.sessionId, transport);
      await make().connect(transport);
    } else if (url.pathname === '/post') {
      const transport = sessions.get(url.searchParams.get('sessionId'));
      if (transport) await transport.handlePostMessage(request, response);
      else response.writeHead(404).end();
    } else {
      response.writeHead(405).end();
    }
  });
} else {
  await make().connect(new StdioServerTransport());
}
