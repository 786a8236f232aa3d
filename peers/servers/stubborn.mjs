// A server that ignores the end of its stdin and SIGTERM, and starts a child process that does so too.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

process.on('SIGTERM', () => {});
if (process.argv[2] === 'child') {
  setInterval(() => {}, 1000);
} else {
  spawn(process.execPath, [process.argv[1], 'child'], { stdio: 'ignore' });
  setInterval(() => {}, 1000);
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    const discovered = { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: {}, ttlMs: 0, cacheScope: 'private' };
    if (method === 'server/discover') console.log(JSON.stringify({ jsonrpc: '2.0', id, result: discovered }));
  });
}
