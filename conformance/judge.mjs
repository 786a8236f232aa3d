// Evaluates the result files of one leg: which scenarios ran, that each has at least one success, and that no check failed,
// warned or was skipped. For clients it also checks the exit codes, which the suite ignores.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [leg, revision, folder, exits] = process.argv.slice(2);
const all = JSON.parse(readFileSync(new URL("expected.json", import.meta.url)));
const expected = all[leg][revision];
const prefix = leg === "server" ? "server-" : "";

const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith("checks.json"));
const counts = { SUCCESS: 0, INFO: 0, FAILURE: 0, WARNING: 0, SKIPPED: 0 };
const faults = [];
const seen = new Set();
for (const file of files) {
  const scenario = file.slice(prefix.length).replace(/-\d{4}-\d\d-\d\dT.*$/, "");
  if (all.later[leg].some((prefix) => scenario.startsWith(prefix))) continue;
  seen.add(scenario);
  const checks = JSON.parse(readFileSync(join(folder, file)));
  for (const check of checks) {
    counts[check.status] += 1;
    const mayBeSkipped = all.skipped[scenario]?.includes(check.name);
    const isFine = ["SUCCESS", "INFO"].includes(check.status) || (check.status === "SKIPPED" && mayBeSkipped);
    if (!isFine) faults.push(`${scenario}: ${check.status} ${check.id} ${check.name}: ${check.errorMessage ?? ""}`);
  }
  const rows = all.rows[scenario] ?? checks.length;
  if (checks.length !== rows) faults.push(`${scenario}: ${checks.length} checks instead of ${rows}`);
  if (!checks.some((check) => check.status === "SUCCESS")) faults.push(`${scenario}: nothing succeeded`);
  if (exits && !all.mayGiveUp.includes(scenario)) {
    const exit = join(exits, scenario);
    const code = existsSync(exit) ? readFileSync(exit, "utf8").trim() : "nothing";
    if (code !== "0") faults.push(`${scenario}: the client ended with ${code}`);
  }
}
const summary = Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(", ");
const required = expected.required.filter((scenario) => seen.has(scenario)).length;
console.log(`${leg} ${revision}: ${required} required of ${files.length} scenarios, ${summary}`);
const known = [...expected.required, ...expected.unscored];
for (const scenario of known) if (!seen.has(scenario)) faults.push(`${scenario}: did not run`);
for (const scenario of seen) if (!known.includes(scenario)) faults.push(`${scenario}: is not known here`);
if (files.length !== expected.all) faults.push(`expected ${expected.all} scenarios, with those for later`);
for (const fault of faults) console.log(`  ${fault}`);
process.exit(faults.length === 0 ? 0 : 1);
