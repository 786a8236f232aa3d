// Judges the result files of one leg: how many scenarios ran, and that nothing failed, warned or was skipped.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [leg, revision, folder] = process.argv.slice(2);
const { scenarios, skipped, unscored } = JSON.parse(readFileSync(new URL("expected.json", import.meta.url)));
const expected = scenarios[leg][revision];

const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith("checks.json"));
const counts = { SUCCESS: 0, INFO: 0, FAILURE: 0, WARNING: 0, SKIPPED: 0 };
const faults = [];
let required = 0;
for (const file of files) {
  const scenario = file.replace(/^(server|client)-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
  const isLater = unscored.later.some((prefix) => scenario.startsWith(prefix));
  if (!unscored[leg][revision].includes(scenario) && !isLater) required += 1;
  for (const check of JSON.parse(readFileSync(join(folder, file)))) {
    if (isLater) continue;
    counts[check.status] += 1;
    const isFine = check.status === "SUCCESS" || check.status === "INFO";
    if (!isFine && !(check.status === "SKIPPED" && skipped.includes(check.id))) {
      faults.push(`${scenario}: ${check.status} ${check.id}: ${check.errorMessage ?? ""}`);
    }
  }
}
const summary = Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(", ");
console.log(`${leg} ${revision}: ${required} required of ${files.length} scenarios, ${summary}`);
if (required !== expected.required || files.length !== expected.all) {
  faults.push(`expected ${expected.required} required of ${expected.all} scenarios`);
}
for (const fault of faults) console.log(`  ${fault}`);
process.exit(faults.length === 0 ? 0 : 1);
