// How people use the console elsewhere, in headless Chromium: habits.mjs PACKAGES JSON
//
// PACKAGES holds node_modules with playwright-core and axe-core. JSON: {base, token, scenario}, or {texts} of
// whole pages for the scenario `pages`. Prints {facts, errors,
// failed}; errors are exceptions of the page.
import { createRequire } from "node:module";

const [packages, given] = process.argv.slice(2);
const { base, token, scenario, texts } = JSON.parse(given);
const require = createRequire(`${packages}/`);
const { chromium } = require("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.ARMORY_TEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  ignoreDefaultArgs: ["--disable-back-forward-cache"], // what people's browsers have
});
const facts = {};
const errors = [];
let failed;

const page = await (await browser.newContext({ timezoneId: "Pacific/Kiritimati" })).newPage(); // UTC+14
page.setDefaultTimeout(60_000);
page.on("pageerror", (error) => errors.push(error.message));
const open = async (place, name) => {
  await page.goto(`${base}/console/#/${place}`);
  await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
};
const logIn = async () => {
  await page.goto(`${base}/console/#token=${token}`);
  await page.getByText("· administrator").waitFor();
};
// both clicks of a button that asks once more, before anything is painted in between
const twiceAtOnce = async (name) => {
  const named = (label) => document.querySelector(`button[aria-label="${label}"]`);
  const click = (button) => (button.focus(), button.click());
  click(named(name));
  for (let turn = 0; !named(`${name}, really`) && turn < 1000; turn++) await Promise.resolve();
  click(named(`${name}, really`));
};
const focused = () => page.evaluate(() => document.activeElement.innerText);

const scenarios = {
  // Enter ends a word that an input method composes
  async composing() {
    await logIn();
    await open("playground", "Playground");
    const query = page.getByLabel("Query");
    await query.focus();
    await page.evaluate(() => addEventListener("keydown", (event) => { window.composed = [event.isComposing, event.defaultPrevented]; }));
    const session = await page.context().newCDPSession(page);
    await session.send("Input.imeSetComposition", { text: "とうきょう", selectionStart: 5, selectionEnd: 5 });
    await query.press("Enter");
    facts.composed = await page.evaluate(() => window.composed);
    facts.asked = await page.getByText("No query yet").count();
    await session.send("Input.insertText", { text: "東京" });
    await query.press("Enter");
    await page.getByText("tools listed").waitFor();
    facts.query = await query.inputValue();
  },

  async times() {
    const noon = Date.UTC(2026, 0, 1, 12);
    const entry = {
      seq: 1, at_ms: noon, kind: "call", who: "ann", what: "odd__tool_1", server: "odd", ok: true, ms: 1,
      found: [], visible: 0, saved_tokens: 0, degraded: null, trace: null, contents: false,
    };
    await page.route(/\/v1\/activity\?/, (route) => route.fulfill({ json: { process: "one", last: 1, entries: [entry] } }));
    const minute = { at_ms: noon, calls: 1, errors: 0, queries: 0, empty: 0, saved_tokens: 0, p50_ms: 1, p99_ms: 1 };
    await page.route(/\/v1\/activity\/minutes/, (route) => route.fulfill({
      json: { process: "one", since_ms: noon, stretch_ms: 60_000, callers: [], minutes: [minute] },
    }));
    await logIn();
    facts.made = await page.evaluate(async ([credential, at]) => {
      const headers = { Authorization: `Bearer ${credential}`, "Content-Type": "application/json" };
      const body = JSON.stringify({ name: "a-key", user: null, scopes: [], expires_at_ms: at });
      return (await fetch("../v1/keys", { method: "POST", headers, body })).status;
    }, [token, Date.UTC(2099, 0, 1, 12)]);
    await open("people", "People");
    facts.key = await page.getByRole("row", { name: "a-key" }).innerText();
    await open("activity", "Activity");
    facts.entry = await page.getByRole("row", { name: "odd__tool_1" }).innerText();
    await open("usage", "Usage");
    facts.chart = await page.locator(".figure-chart").first().innerText();
  },

  // the keyboard stays where it was, and is never nowhere
  async keyboard() {
    await logIn();
    await open("people", "People");
    const users = page.getByRole("region", { name: "Users", exact: true });
    facts.focus = [];
    await users.getByLabel("Id of a new user").fill("ann");
    await users.getByRole("button", { name: "Make user" }).press("Enter");
    const remove = users.getByRole("button", { name: "Delete ann", exact: true });
    await remove.waitFor();
    facts.focus.push(await focused());
    await remove.press("Enter");
    await users.getByRole("button", { name: "Delete ann, really" }).press("Enter");
    await remove.waitFor({ state: "detached" });
    await users.getByText("No user yet").waitFor();
    facts.focus.push(await focused());
    await users.getByLabel("Id of a new user").fill("bob");
    await users.getByRole("button", { name: "Make user" }).press("Enter");
    await users.getByRole("button", { name: "Delete bob", exact: true }).waitFor();
    await page.evaluate(twiceAtOnce, "Delete bob");
    await users.getByText("No user yet").waitFor();
    facts.focus.push(await focused());
    const keys = page.getByRole("region", { name: "Keys", exact: true });
    await keys.getByLabel("Name of a new key").fill("a-key");
    await keys.getByLabel("Name of a new key").press("Enter");
    await keys.getByRole("button", { name: "Done" }).press("Enter");
    facts.focus.push(await focused());

    const change = { tool: "odd__tool_1", pinned: "1", now: "2", difference: [] };
    await page.route(/\/v1\/changes/, (route) => {
      const approving = route.request().method() === "POST";
      if (approving) change.approved = true;
      return route.fulfill({ json: approving ? {} : { mode: "block", changes: change.approved ? [] : [change] } });
    });
    await open("changes", "Changes");
    await page.getByRole("button", { name: "Approve" }).press("Enter");
    await page.getByText("Nothing has changed").waitFor();
    facts.focus.push(await focused());

    let text = "server: {}\n";
    const effects = { applied: [], needs_restart: [], kept: [], restarted: [], added: [], removed: [] };
    await page.route(/\/v1\/configuration(\/check)?$/, (route) => {
      const method = route.request().method();
      if (method === "PUT") text = route.request().postDataJSON().text;
      const answers = {
        GET: { path: "armory.yaml", text, tag: "1", writable: true, reason: null, in_force: true, needs_restart: [], problems: [] },
        POST: { problems: [], effects },
        PUT: { tag: "1", effects },
      };
      return route.fulfill({ json: answers[method] });
    });
    await open("configuration", "Configuration");
    const editor = page.getByLabel("armory.yaml", { exact: true });
    await editor.fill("server: {console: true}\n");
    await page.getByText("It holds.").waitFor();
    await page.getByRole("button", { name: "Undo all" }).press("Enter");
    await page.getByText("As it is in the file.").waitFor();
    facts.focus.push(await focused());
    await editor.fill("server: {console: true}\n");
    await page.getByRole("button", { name: "Review" }).press("Enter");
    await page.getByRole("button", { name: "Save" }).press("Enter");
    await page.getByText("Saved.").waitFor();
    facts.focus.push(await focused());
  },

  // what is not known is not said, and what went wrong can be asked again
  async away() {
    await page.route(/\/v1\/(activity|users)/, (route) => route.abort());
    await logIn();
    await open("overview", "Overview");
    await page.getByRole("alert").waitFor();
    facts.figures = await page.locator(".figure").filter({ hasText: /^(Calls|Queries|Tokens saved)/ }).locator("dd").allInnerTexts();
    await open("people", "People");
    const users = page.getByRole("region", { name: "Users", exact: true });
    await users.getByRole("alert").waitFor();
    await page.unroute(/\/v1\/(activity|users)/);
    await users.getByRole("button", { name: "Try again" }).click();
    await users.getByText("No user yet").waitFor();
  },

  // where many are down, what else there is to say is still seen on a phone
  async down() {
    const upstream = (number) => ({
      server: `server-${number}`, state: "down", error: null, era: null, protocol_version: "", tools: 0, uptime: 0, transport: "stdio", since_s: 1,
    });
    await page.route("**/v1/upstreams", (route) => route.fulfill({
      json: { process: "one", upstreams: Array.from({ length: 50 }, (_, number) => upstream(number)) },
    }));
    await logIn();
    await page.setViewportSize({ width: 360, height: 700 });
    await page.getByText("50 upstreams are not ready").waitFor();
    facts.figures = (await page.locator(".figures").boundingBox()).y;
    await page.getByText("The others").click();
    facts.others = await page.locator(".notice details").innerText();
  },

  // what the gateway itself shows a person, on a phone, by day and by night
  async pages() {
    const axe = require.resolve("axe-core/axe.min.js");
    await page.setViewportSize({ width: 320, height: 640 });
    facts.wide = [];
    facts.axe = [];
    for (const colorScheme of ["light", "dark"])
      for (const [name, text] of Object.entries(texts)) {
        await page.emulateMedia({ colorScheme });
        await page.setContent(text);
        await page.evaluate(() => { for (const one of document.querySelectorAll("details")) one.open = true; });
        if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) facts.wide.push(name);
        await page.addScriptTag({ path: axe });
        const found = await page.evaluate(() => window.axe.run());
        facts.axe.push(...found.violations.map((one) => `${name} ${colorScheme}: ${one.id}`));
        facts.rules = found.passes.length;
      }
  },

  // a credential that is not accepted any more, and one whose page another may not see
  async ended() {
    await logIn();
    await open("tools", "Tools");
    await page.route(/\/v1\//, (route) => route.fulfill({ status: 401, json: { status: 401, code: "no_credential", detail: "ended" } }));
    await page.getByRole("link", { name: "Usage" }).press("Enter");
    await page.getByLabel("Token or API key").waitFor();
    facts.focus = await focused();
    await page.unroute(/\/v1\//);
    await page.route(/\/v1\/me$/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), admin: false } });
    });
    await page.goto(`${base}/console/#/configuration`);
    await page.getByLabel("Token or API key").fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    facts.current = await page.locator("nav [aria-current=page]").allInnerTexts();
  },

  // back to a page as it was before its reader logged out
  async back() {
    await logIn();
    await open("tools", "Tools");
    await page.getByRole("listbox", { name: "Tools" }).getByRole("option").first().waitFor();
    await page.evaluate(() => addEventListener("pageshow", (event) => { window.restored = event.persisted; }));
    await page.goto(`${base}/docs`);
    await page.goto(`${base}/console/`);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token or API key").waitFor();
    await page.goBack({ waitUntil: "commit" });
    await page.goBack({ waitUntil: "commit" });
    await page.waitForFunction(() => window.restored);
    await page.getByLabel("Token or API key").waitFor();
    facts.left = await page.getByText("odd__").count();
  },

  // an arrow key that is held: browsers bound how often a page may write its address
  async held() {
    await page.addInitScript(() => {
      const write = history.replaceState.bind(history);
      let left = 10;
      history.replaceState = (...given) => {
        if (left-- <= 0) throw new DOMException("Too many calls to Location or History APIs", "SecurityError");
        write(...given);
      };
    });
    await logIn();
    await open("tools", "Tools");
    const list = page.getByRole("listbox", { name: "Tools" });
    await list.getByRole("option").first().waitFor();
    await list.focus();
    for (let turn = 0; turn < 60; turn++) await page.keyboard.press("ArrowDown");
    await list.locator("[aria-posinset='60'][aria-selected=true]").waitFor();
    const box = await list.boundingBox();
    const one = await list.getByRole("option", { selected: true }).boundingBox();
    facts.seen = one.y >= box.y && one.y + one.height <= box.y + box.height + 1;
  },

  // a set that is no more since it was asked
  async gone() {
    await logIn();
    await page.evaluate(() => sessionStorage.setItem("armory.playground", JSON.stringify({ text: "one", endpoint: "set/gone" })));
    await open("playground", "Playground");
    const asked = page.waitForRequest((request) => request.url().endsWith("/v1/search"));
    await page.getByRole("button", { name: "Search", exact: true }).click();
    facts.endpoint = (await asked).postDataJSON().endpoint;
    await page.getByText("tools listed").waitFor();
  },
};

try {
  await scenarios[scenario]();
} catch (error) {
  failed = String(error.stack).slice(0, 3000);
}
console.log(JSON.stringify({ facts, errors, failed }));
await browser.close();
