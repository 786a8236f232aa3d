// The TypeScript SDK 1.x as a client: it supports only the legacy era.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { answer, run, stdio, transport as kind, url } from './steps.mjs';

async function connect() {
  const client = new Client({ name: 'ts1', version: '1' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, answer);
  const transport = kind === 'stdio' ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(url());
  let version;
  // The client exposes the negotiated version only to its transport, through `setProtocolVersion`.
  const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (negotiated) => {
    version = negotiated;
    setProtocolVersion?.(negotiated);
  };
  await client.connect(transport);
  return {
    client,
    transport,
    version: () => version,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    async watch() {
      const changed = new Promise((resolve) => {
        client.setNotificationHandler(ToolListChangedNotificationSchema, resolve);
      });
      return () => changed;
    },
  };
}

await run({ connect });
