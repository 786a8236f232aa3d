// The TypeScript SDK 2.x as a client: modern by negotiation, legacy by default.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answer, era, run, stdio, transport as kind, url } from './steps.mjs';

async function connect() {
  const client = new Client(
    { name: 'ts2', version: '1' },
    {
      capabilities: { elicitation: {} },
      versionNegotiation: era === 'modern' ? { mode: 'auto' } : undefined,
    },
  );
  client.setRequestHandler('elicitation/create', answer);
  const transport = kind === 'stdio' ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(url());
  await client.connect(transport);
  return {
    client,
    transport,
    version: () => client.getNegotiatedProtocolVersion(),
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    async watch() {
      const changed = new Promise((resolve) => {
        client.setNotificationHandler('notifications/tools/list_changed', resolve);
      });
      if (era === 'modern') await client.listen({ toolsListChanged: true });
      // Wrapped, because `await` would wait for the promise itself.
      return () => changed;
    },
  };
}

await run({ connect });
