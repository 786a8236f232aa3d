// A user with a real browser (Chromium without a window): opens the page of a login, logs in, and approves or refuses.
// Prints the text of the page at which the browser ends.
//
//   node browser.mjs URL approve|refuse
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [, , start, decision] = process.argv;
const profile = mkdtempSync(join(tmpdir(), "browser-"));
const quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: [...quiet, ...(process.getuid() === 0 ? ["--no-sandbox"] : [])],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(start);
  for (let step = 0; step < 6 && !new URL(page.url()).pathname.startsWith("/callback"); step += 1) {
    if (await page.locator("input[name=login]").count()) {
      await page.fill("input[name=login]", "ada");
      await page.fill("input[name=password]", "x");
    } else if (decision === "refuse") {
      await Promise.all([page.waitForURL(/callback/), page.locator("a[href*=abort]").first().click()]);
      break;
    }
    await Promise.all([page.waitForNavigation(), page.locator("button[type=submit]").first().click()]);
  }
  console.log((await page.locator("body").innerText()).trim());
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
