// A server with the TypeScript SDK 2.x: both eras.
import { McpServer, acceptedContent, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
let cancelled = 0;
serveStdio(() => {
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
    server.registerTool('grown', none, async () => text('new'));
    return text('grown');
  });
  server.registerResource('note', 'note://hello', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'hello' }] }));
  return server;
});
