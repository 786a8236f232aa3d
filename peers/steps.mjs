// The steps of each TypeScript client, and their output. `peers/run` counts the steps.
//
//   node CLIENT.mjs ERA stdio stdio-server PROGRAM LOG
//   node CLIENT.mjs ERA http URL
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const VERSIONS = { modern: '2026-07-28', legacy: '2025-11-25' };

export const [era, transport, ...server] = process.argv.slice(2);
/** The command line for the stdio transport. */
export const stdio = { command: server[0], args: server.slice(1) };
/** The URL for the HTTP transport. */
export const url = () => new URL(server[0]);

/** Answers the elicitation request of the tool `ask`. */
export function answer({ params }) {
  assert.equal(params.message, 'Who are you?');
  assert.equal(params.requestedSchema.properties.name.type, 'string');
  return { action: 'accept', content: { name: 'Ada' } };
}

/**
 * Runs all steps. `connect` returns a peer: the client, its transport, the negotiated version, and functions to call a
 * tool and to watch the tool list. `notOffered` has the reasons for steps that this client does not support.
 */
export async function run({ connect, notOffered = {} }) {
  let peer, client, changed;
  const text = async (name, args, options) => (await peer.call(name, args, options)).content[0].text;

  const steps = {
    async connect() {
      peer = await connect();
      client = peer.client;
      assert.equal(peer.version(), VERSIONS[era]);
      assert.equal(client.getServerVersion().name, 'everything');
    },
    async list() {
      const { tools } = await client.listTools();
      for (const name of ['echo', 'add', 'sleep', 'running', 'ask', 'fail', 'grow']) {
        assert(tools.some((tool) => tool.name === name), `no tool ${name}`);
      }
      assert.deepEqual(names((await client.listResources()).resources), ['motd']);
      assert.deepEqual(names((await client.listResourceTemplates()).resourceTemplates), ['row']);
      assert.deepEqual(names((await client.listPrompts()).prompts), ['greet']);
    },
    async call() {
      assert.equal(await text('echo', { text: 'hello' }), 'hello');
      assert.deepEqual((await peer.call('add', { a: 2, b: 3 })).structuredContent, { sum: 5 });
      const failed = await peer.call('fail', { message: 'no luck' });
      assert.equal(failed.isError, true);
      assert.equal(failed.content[0].text, 'no luck');
    },
    async read() {
      assert.equal((await client.readResource({ uri: 'motd://today' })).contents[0].text, 'Be kind.');
      assert.equal((await client.readResource({ uri: 'row://t/7' })).contents[0].text, 'row 7 of t');
    },
    async get() {
      const { messages } = await client.getPrompt({ name: 'greet', arguments: { language: 'Latin' } });
      assert.equal(messages[0].content.text, 'Greet me in Latin.');
    },
    async complete() {
      const ref = { type: 'ref/prompt', name: 'greet' };
      const { completion } = await client.complete({ ref, argument: { name: 'language', value: 'G' } });
      assert.deepEqual(completion.values, ['German', 'Greek']);
    },
    async ask() {
      assert.equal(await text('ask', {}), 'Hello, Ada!');
    },
    async progress() {
      const seen = [];
      const onprogress = ({ progress, total }) => seen.push([progress, total]);
      assert.equal(await text('sleep', { ms: 300 }, { onprogress }), 'slept 300 ms');
      assert.deepEqual(seen.at(0), [1, 10]);
      assert(seen.length > 1, 'progress came only once');
    },
    async grow() {
      changed = await peer.watch();
      assert.equal(await text('grow', {}), 'grown');
      assert(names((await client.listTools()).tools).includes('grown'));
      assert.equal(await text('grown', {}), 'I am new.');
    },
    async notice() {
      await within(changed(), 'the client is told of the new tool');
    },
    async cancel() {
      const controller = new AbortController();
      const sleeping = peer.call('sleep', { ms: 60_000 }, { signal: controller.signal });
      const rejected = assert.rejects(sleeping);
      await until(async () => (await text('running', {})) === '1', 'the sleep runs');
      controller.abort('enough');
      await rejected;
      await until(async () => (await text('running', {})) === '0', 'the sleep was cancelled');
    },
    async end() {
      if (transport === 'stdio') {
        await client.close();
        await until(ended, 'every server process has ended, the last one with code 0');
        return;
      }
      const { sessionId } = peer.transport;
      assert.equal(sessionId === undefined, era === 'modern');
      if (sessionId) await peer.transport.terminateSession();
      await client.close();
      if (sessionId) assert.equal((await ping(sessionId)).status, 404);
      const next = await connect();
      assert.equal((await next.call('echo', { text: 'next' })).content[0].text, 'next');
      await next.client.close();
    },
  };

  for (const [name, step] of Object.entries(steps)) {
    if (notOffered[name]) {
      console.log(`not offered ${name}: ${notOffered[name]}`);
      continue;
    }
    try {
      await step();
    } catch (error) {
      console.log(`FAILED ${name}: ${error.stack}`);
      process.exit(1);
    }
    console.log(`ok ${name}`);
  }
}

const names = (list) => list.map(({ name }) => name);

/** Returns whether every started process has exited, the last one with code 0. */
function ended() {
  const lines = readFileSync(server.at(-1), 'utf8').trim().split('\n');
  const started = lines.filter((line) => line === 'started').length;
  return started * 2 === lines.length && lines.at(-1) === 'ended 0';
}

function ping(sessionId) {
  return fetch(url(), {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': VERSIONS.legacy,
      'mcp-session-id': sessionId,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
}

async function until(holds, what) {
  for (let tries = 0; tries < 250; tries += 1) {
    if (await holds()) return;
    await sleep(20);
  }
  assert.fail(`not within 5 s: ${what}`);
}

async function within(promise, what) {
  const late = sleep(5000, undefined, { ref: false }).then(() => assert.fail(`not within 5 s: ${what}`));
  return Promise.race([promise, late]);
}
