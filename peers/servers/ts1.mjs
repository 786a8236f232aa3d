// A server with the TypeScript SDK 1.x: the legacy era only.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
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
let cancelled = 0;
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
  server.registerTool('grown', {}, async () => text('new'));
  return text('grown');
});
server.registerResource('note', 'note://hello', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'hello' }] }));
await server.connect(new StdioServerTransport());
