// Somebody who logs in with headless Chromium: login.mjs PACKAGES JSON
//
// PACKAGES holds node_modules with playwright-core. JSON: {url, steps}; each step is one of {press:
// label}, {fill: label, with: text}, {see: text}, {until: start of a URL}. Prints {url, text, errors}.
import { createRequire } from "node:module";

const [packages, given] = process.argv.slice(2);
const { url, steps } = JSON.parse(given);
const { chromium } = createRequire(`${packages}/`)("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.ARMORY_TEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const errors = [];
let failed;
const page = await browser.newPage();
page.setDefaultTimeout(60_000);
page.on("pageerror", (error) => errors.push(String(error)));
page.on("console", (line) => {
  const icon = line.location().url.endsWith("/favicon.ico"); // every page is asked for one
  if (line.type() === "error" && !icon) errors.push(line.text());
});
try {
  await page.goto(url);
  for (const step of steps) {
    if (step.press) await page.getByRole("button", { name: step.press, exact: true }).click();
    if (step.fill) await page.getByLabel(step.fill).fill(step.with);
    if (step.see) await page.getByText(step.see).first().waitFor();
    if (step.until) await page.waitForURL((place) => place.href.startsWith(step.until));
  }
} catch (error) {
  failed = String(error);
}
const text = await page.textContent("body");
console.log(JSON.stringify({ url: page.url(), text, errors, failed }));
await browser.close();
