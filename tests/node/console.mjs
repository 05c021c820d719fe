// Drives headless Chromium through the console and says what it met, as one JSON object.
//
//   node console.mjs PACKAGES '{"base", "token", "other", "scenario", "shots"}'
//
// PACKAGES holds node_modules with playwright-core and axe-core. Scenarios: `small` does what a person
// would do on every page, `large` has 10,000 tools, `restricted` and `phone` look at every page.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [, , packages, given] = process.argv;
const { base, token, issuer, scenario, shots, pages, hostile } = JSON.parse(given);
const require = createRequire(path.join(packages, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const WAIT = 90_000;
const report = { console: [], offOrigin: [], axe: [], markup: [], wide: [], facts: {} };
const browser = await chromium.launch({
  executablePath: process.env.ARMORY_TEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const phone = scenario === "phone";
// axe is put in beside the page's own policy, which would refuse it
const context = await browser.newContext({
  viewport: phone ? { width: 320, height: 640 } : { width: 1280, height: 860 },
  colorScheme: phone ? "dark" : "light",
  reducedMotion: "reduce",
});
const page = await context.newPage();
page.setDefaultTimeout(WAIT);
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) report.console.push(`${page.url()}: ${message.text()}`);
});
page.on("pageerror", (error) => report.console.push(`${page.url()}: ${error.message}`));
page.on("request", (request) => {
  const url = request.url();
  if (!url.startsWith(`${base}/`) && !url.startsWith("data:") && !(issuer && url.startsWith(`${issuer}/authorize?`))) report.offOrigin.push(url);
});

let session = null;
const inspect = async (name) => {
  // evaluated by the debugger, which no policy of the page concerns
  session ??= await context.newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: `if (!globalThis.axe) { ${axe} }` });
  const answer = await session.send("Runtime.evaluate", {
    expression: `axe.run(document, {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}}).then((r) => JSON.stringify([r.passes.length, r.violations.map((v) =>
      [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? n.all[0]?.message ?? ""))])]))`,
    awaitPromise: true,
    returnByValue: true,
  });
  const [passes, violations] = JSON.parse(answer.result.value);
  report.facts.rules = Math.min(report.facts.rules ?? passes, passes);
  for (const [id, nodes] of violations) report.axe.push(`${name}: ${id}: ${nodes.join(" | ")}`);
  const found = await page.evaluate(() => ({
    pwned: "pwned" in window,
    scripts: document.scripts.length,
    frames: document.querySelectorAll("iframe, object, embed, svg:not(.chart)").length,
    handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length,
    images: [...document.images].map((i) => i.getAttribute("src") ?? "").filter((s) => s !== "icon.svg" && !/^data:image\/(png|jpeg|gif|webp);base64,/.test(s)),
    links: [...document.links].map((a) => a.getAttribute("href") ?? "").filter((h) => !h.startsWith("#") && h !== "../docs" && !/^https?:[/][/][^/]+[/]connect[/][a-z]+$/.test(h)),
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  if (found.pwned || found.scripts !== 1 || found.frames || found.handlers || found.images.length || found.links.length)
    report.markup.push(`${name}: ${JSON.stringify(found)}`);
  if (found.over > 0) report.wide.push(`${name}: ${found.over} px too wide`);
};
const shot = async (name) => {
  if (shots) await page.screenshot({ path: path.join(shots, `console-${name}.png`) });
};
const open = async (name, title) => {
  await page.goto(`${base}/console/#/${name}`);
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
  await page.waitForFunction(() => !document.body.innerText.match(/^Loading .*…$/m));
};
const TITLES = {
  overview: "Overview", playground: "Playground", tools: "Tools", activity: "Activity", changes: "Changes", people: "People",
  usage: "Usage", configuration: "Configuration", connect: "Connect",
};
const everyPage = async () => {
  for (const name of pages) {
    await open(name, TITLES[name]);
    await inspect(`${scenario} ${name}`);
    report.facts.text = (report.facts.text ?? "") + (await page.locator("body").innerText());
    if (phone && name === "playground") await shot("phone");
  }
};
const login = async () => {
  await page.goto(`${base}/console/`);
  await page.getByLabel("Token or API key").waitFor();
  if (scenario === "small") await inspect("login");
  await page.getByLabel("Token or API key").fill("no such token");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  report.facts.refused = await page.getByRole("alert").innerText();
  await page.getByLabel("Token or API key").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // a refused credential is an error of the network to the browser, and no defect of the page
  report.console = report.console.filter((said) => !said.includes("401 (Unauthorized)"));
};
const search = async (text) => {
  await open("playground", "Playground");
  await page.getByLabel("Query").fill(text);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator(".ranked li").first().waitFor();
};

/** Waits until the text on the page is checked, and says what is wrong with it. */
const problems = async (wanted) => {
  await page.getByText(wanted, { exact: true }).waitFor();
  return page.locator("#problems").innerText();
};
const append = async (text) => {
  await page.getByLabel("armory.yaml", { exact: true }).press("Control+End");
  await page.keyboard.insertText(text);
};
const configuration = async () => {
  await open("configuration", "Configuration");
  const editor = page.getByLabel("armory.yaml", { exact: true });
  await page.getByText("As it is in the file.").waitFor();
  report.facts.file = await page.locator(".lead code").first().innerText();
  if ((await editor.inputValue()).includes(token)) throw new Error("the administrator's token is shown");
  await append("\nsets:\n  pair:\n    servrs: [notes]\n");
  const said = await problems("1 problem");
  if (!said.includes("sets.pair.servrs") || !said.includes("did you mean 'servers'")) throw new Error(said);
  await inspect("configuration with a problem");
  await page.locator("#problems button").click();
  const help = page.getByRole("complementary", { name: "Help" });
  await editor.press("ArrowUp");
  await editor.press("End");
  await help.getByRole("heading", { name: "sets.pair" }).waitFor();
  await help.getByText("A named part of the catalog").waitFor();
  await help.getByRole("button", { name: "servers", exact: true }).click();
  await page.keyboard.insertText("[notes]");
  await editor.press("ArrowDown");
  await editor.press("Home");
  await editor.press("Shift+End");
  await editor.press("Delete");
  await editor.press("Delete");
  await page.getByText("It holds.").waitFor();
  await help.waitFor();
  await page.getByRole("button", { name: "Review" }).click();
  const review = page.getByRole("region", { name: "Review" });
  await review.getByText("In force at once: sets").waitFor();
  await inspect("configuration, reviewed");
  if (shots) await review.scrollIntoViewIfNeeded();
  await shot("configuration");
  await review.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved. The gateway goes by it.").waitFor();
  await inspect("configuration, saved");

  // somebody else saves meanwhile
  await append("# mine\n");
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const there = await (await fetch(`${base}/v1/configuration`, { headers })).json();
  const put = { method: "PUT", headers: { ...headers, "If-Match": `"${there.tag}"` }, body: JSON.stringify({ text: `${there.text}# by another\n` }) };
  if ((await fetch(`${base}/v1/configuration`, put)).status !== 200) throw new Error("the other's change was refused");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("The file has changed since it was read here").waitFor();
  await page.getByRole("button", { name: "Read it again" }).click();
  await page.waitForFunction(() => document.querySelector(".editor textarea").value.includes("# by another"));
  report.console = report.console.filter((said) => !said.includes("412"));
};

const scenarios = {
  async oauth() {
    await page.goto(`${base}/console/#/connect`);
    await page.getByRole("button", { name: /^Log in at 127/ }).waitFor();
    await inspect("login at an issuer");
    await shot("login");
    await page.getByRole("button", { name: /^Log in at 127/ }).click();
    await page.getByRole("heading", { level: 1, name: "Connect" }).waitFor();
    report.facts.address = page.url();
    report.facts.who = await page.locator(".who").innerText();
    report.facts.cookies = (await context.cookies()).length;
    report.facts.kept = await page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage)]);
    await inspect("connect after a login at an issuer");
    // an answer that this tab did not ask for
    await page.goto(`${base}/console/?code=stolen&state=anothers`);
    await page.getByRole("alert").waitFor();
    report.facts.foreign = await page.getByRole("alert").innerText();
    report.console = report.console.filter((said) => !said.includes("401"));
  },
  async readonly() {
    await login();
    await open("configuration", "Configuration");
    report.facts.reason = await page.getByRole("note").innerText();
    await append("\n# for elsewhere\n");
    await page.getByText("It holds.").waitFor();
    await page.getByRole("button", { name: "Review" }).click();
    await page.getByText("It cannot be saved from here.").waitFor();
    report.facts.saves = await page.getByRole("button", { name: "Save", exact: true }).count();
    await inspect("configuration, read-only");
  },
  async small() {
    await login();
    await page.getByRole("button", { name: "Standard error of broken" }).click();
    await page.getByRole("region", { name: "Standard error of broken" }).getByText("onerror").first().waitFor();
    await inspect("overview with standard error");
    await shot("overview");
    await page.getByRole("button", { name: "Restart notes" }).click();
    await page.getByRole("button", { name: "Restart notes" }).waitFor();

    await search("write a note");
    const listed = () => page.locator(".ranked li:not(.off)").count();
    report.facts.listed = await listed();
    report.facts.first = await page.locator(".ranked li .name").first().innerText();
    const line = page.getByRole("slider", { name: "Threshold" });
    const ruler = await page.locator(".scale").boundingBox();
    const handle = await line.boundingBox();
    await page.mouse.move(handle.x + handle.width / 2, handle.y + 8);
    await page.mouse.down();
    await page.mouse.move(ruler.x + ruler.width * 0.3, handle.y + 8, { steps: 4 });
    await page.mouse.move(ruler.x + ruler.width * 0.05, handle.y + 8, { steps: 4 });
    await page.mouse.up();
    report.facts.dragged = Number(await line.getAttribute("aria-valuenow"));
    await page.waitForFunction((before) => document.querySelectorAll(".ranked li:not(.off)").length > before, report.facts.listed);
    report.facts.listedLower = await listed();
    await line.press("End");
    await page.waitForFunction(() => document.querySelectorAll(".ranked li:not(.off)").length <= 1);
    await page.getByRole("button", { name: "As configured" }).click();
    await page.waitForFunction((n) => document.querySelectorAll(".ranked li:not(.off)").length === n, report.facts.listed);
    await page.getByRole("button", { name: `Right for ${report.facts.first}`, exact: true }).click();
    await page.getByRole("heading", { name: "Labelled queries" }).waitFor();
    report.facts.folder = /armory eval "([^"]+)"/.exec(await page.locator("pre", { hasText: /armory eval "[^"]+"/ }).innerText())[1];
    await page.locator("summary", { hasText: "All numbers" }).first().click();
    await page.locator("summary", { hasText: "As a client asks it" }).first().click();
    await page.getByText("X-Armory-Query: write%20a%20note").waitFor();
    await inspect("playground with an answer");
    await page.locator("summary", { hasText: "As a client asks it" }).first().click();
    await shot("playground");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("region", { name: "Configuration B" }).locator(".ranked li").first().waitFor();
    await inspect("playground, two side by side");
    await shot("compare");
    await search(hostile);
    await inspect("playground with markup");

    await open("tools", "Tools");
    await page.getByRole("option", { name: "notes__add_note" }).click();
    await page.getByRole("heading", { name: "notes__add_note" }).waitFor();
    await page.getByLabel("Find").fill("nothing has such words");
    report.facts.keptOnSearch = await page.getByRole("heading", { name: "notes__add_note" }).isVisible();
    await page.getByLabel("Find").fill("");
    await page.getByRole("listbox", { name: "Tools" }).getByRole("option", { selected: true, name: "notes__add_note" }).waitFor();
    await page.getByLabel("title").fill("From the console");
    await page.getByLabel("text", { exact: false }).first().fill("Written in a form, api_key=0123456789abcdef");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("region", { name: "Result" }).getByText("done", { exact: true }).waitFor();
    report.facts.called = await page.getByRole("region", { name: "Result" }).innerText();
    await inspect("tools with a result");
    await shot("tools");
    await page.getByRole("listbox", { name: "Tools" }).press("Home");
    await page.getByRole("heading", { level: 2, name: "markup__" }).first().waitFor();
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("region", { name: "Result" }).getByText("onerror").first().waitFor();
    await page.locator("summary", { hasText: "Definition in JSON" }).click();
    await inspect("tools with markup everywhere");

    await open("activity", "Activity");
    await page.getByRole("link", { name: "notes__add_note" }).first().waitFor();
    const of = (name) => page.getByRole("row").filter({ has: page.getByRole("link", { name }) }).first();
    for (const name of [/^notes__add_note$/, /^markup__/]) await of(name).getByText("Arguments and result").click();
    await of(/^notes__add_note$/).getByText("From the console").first().waitFor();
    await of(/^markup__/).getByText("onerror").first().waitFor();
    report.facts.said = await of(/^notes__add_note$/).innerText();
    await inspect("activity with arguments and results");
    await shot("activity");
    await open("overview", "Overview");
    await page.getByRole("button", { name: "Restart markup" }).click();
    await open("changes", "Changes");
    await page.reload();
    await page.getByRole("button", { name: /^Approve markup/ }).waitFor();
    await inspect("changes with markup");
    await shot("changes");
    await page.getByRole("button", { name: /^Approve markup/ }).click();
    await page.getByText("Nothing has changed").waitFor();

    await open("people", "People");
    const printable = hostile.replace(/[^\x20-\x7e]/g, "").slice(0, 150); // as users' ids must be
    await page.getByLabel("Id of a new user").fill(printable);
    await page.getByRole("button", { name: "Make user" }).click();
    await page.getByRole("region", { name: "All users" }).getByText("onerror").first().waitFor();
    await page.getByLabel("Name of a new key").fill(`laptop ${printable}`);
    await page.getByLabel("User (empty").fill(printable);
    await page.getByRole("button", { name: "Make key" }).click();
    await page.getByText("It is shown this once").waitFor();
    report.facts.key = await page.locator(".notice code").innerText();
    await page.getByRole("button", { name: "Done" }).click();
    await inspect("people with markup");
    await shot("people");
    await page.getByRole("button", { name: /^Revoke laptop/ }).click();
    await page.getByRole("button", { name: /really$/ }).click();
    await page.getByText("revoked", { exact: true }).waitFor();
    await open("usage", "Usage");
    await page.getByRole("link", { name: "notes__add_note" }).waitFor();
    await page.locator("summary", { hasText: /^Calls as a table/ }).click();
    await page.getByRole("region", { name: "Calls over time" }).getByRole("cell").first().waitFor();
    await inspect("usage with a table");
    await page.locator("summary", { hasText: /^Calls as a table/ }).click();
    await page.locator("label", { hasText: /^Tool/ }).locator("select").selectOption("notes__add_note");
    await page.getByText(/^Since .*: 1 call, 0 failed\.$/).waitFor();
    await page.locator("label", { hasText: /^Tool/ }).locator("select").selectOption("");
    await shot("usage");

    await configuration();
    await page.reload(); // which sets there are is asked once
    await open("tools", "Tools");
    await page.locator("label", { hasText: /^Set/ }).locator("select").selectOption("pair");
    await page.getByText("12 of 12", { exact: true }).waitFor();

    await everyPage();
    await page.getByRole("button", { name: "Dark", exact: true }).click();
    await open("overview", "Overview");
    await inspect("overview in the dark");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token or API key").waitFor();
    report.console = report.console.filter((said) => !said.includes("401"));
  },
  async large() {
    await login();
    await open("tools", "Tools");
    await page.waitForFunction(() => document.body.innerText.includes("10,000 of 10,000") && !document.body.innerText.includes("loaded"));
    report.facts.elements = await page.locator("[role=option]").count();
    const list = page.getByRole("listbox", { name: "Tools" });
    await list.press("End");
    await list.getByRole("option", { selected: true }).waitFor();
    report.facts.last = await list.getByRole("option", { selected: true }).getAttribute("aria-posinset");
    // how long the page was busy with each of fifty steps of scrolling
    report.facts.frames = await list.evaluate(async (box) => {
      const times = [];
      for (let step = 0; step < 50; step++) {
        box.scrollTop = (box.scrollHeight * step) / 50;
        const began = performance.now();
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
        times.push(performance.now() - began);
      }
      return times.sort((a, b) => a - b);
    });
    await page.getByLabel("Find").fill("number 7777");
    await page.waitForFunction(() => /^1 of 10,000/m.test(document.body.innerText));
    await search("number 42");
    await everyPage();
  },
  async many() {
    await login();
    await open("overview", "Overview");
    await page.waitForFunction(() => /Tools\s+10,000/.test(document.body.innerText));
    await everyPage();
    report.facts.file = await page.locator(".editor textarea").inputValue();
  },
  // whoever has just begun: nobody logs in, a query, a call, its entry
  async first() {
    await page.goto(`${base}/`);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.waitForFunction(() => /Upstreams ready\s+(\d+) of \1\s+Tools\s+[1-9]/.test(document.body.innerText));
    report.facts.overview = await page.locator("main").innerText();
    await shot("first-overview");
    await search("write down a note");
    report.facts.found = await page.locator(".ranked li .name").first().innerText();
    await shot("first-playground");
    await open("tools", "Tools");
    await page.getByRole("option", { name: "notes__add_note" }).click();
    await page.getByLabel("title").fill("From a browser");
    await page.getByLabel("text", { exact: false }).first().fill("The first one");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("region", { name: "Result" }).getByText("done", { exact: true }).waitFor();
    report.facts.called = await page.getByRole("region", { name: "Result" }).innerText();
    await shot("first-tools");
    await open("activity", "Activity");
    await page.getByRole("link", { name: "notes__add_note" }).waitFor();
    report.facts.entries = await page.getByRole("row").allInnerTexts();
    await shot("first-activity");
    await everyPage();
  },
  async accounts() {
    await login();
    report.facts.wanted = await page.getByRole("link", { name: /^sign in/ }).count();
    await open("people", "People");
    const logins = page.getByRole("region", { name: "Upstream logins" });
    await logins.getByText("connected", { exact: true }).waitFor();
    await inspect("people with an upstream login");
    await page.getByRole("button", { name: "Disconnect docs" }).click();
    await page.getByRole("button", { name: "Disconnect docs, really" }).click();
    report.facts.people = await logins.getByRole("link", { name: "Sign in at docs" }).getAttribute("href");
    await open("overview", "Overview");
    report.facts.overview = await page.getByRole("link", { name: "sign in at docs" }).getAttribute("href");
    await inspect("overview with a login that is missing");
  },
  async restricted() {
    await login();
    await everyPage();
    await search("write a note");
    report.facts.text += await page.locator("body").innerText();
  },
  async phone() {
    await login();
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Tools" }).click();
    await page.getByRole("heading", { level: 1, name: "Tools" }).waitFor();
    await search("write a note");
    await inspect("phone playground with an answer");
    await everyPage();
  },
};

try {
  await scenarios[scenario]();
} catch (error) {
  report.failed = `${error.stack}\n${await page.locator("body").innerText().catch(() => "")}`.slice(0, 4000);
}
await browser.close();
console.log(JSON.stringify(report));
