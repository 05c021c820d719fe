// What goes wrong around the console, in headless Chromium: mishaps.mjs PACKAGES JSON
//
// PACKAGES holds node_modules with playwright-core. JSON: {base, token, scenario}. Prints {facts, errors,
// failed}; errors are exceptions of the page.
import { createRequire } from "node:module";

const [packages, given] = process.argv.slice(2);
const { base, token, scenario } = JSON.parse(given);
const { chromium } = createRequire(`${packages}/`)("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.ARMORY_TEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const facts = {};
const errors = [];
let failed;

const tab = async (before = () => undefined) => {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("dialog", (dialog) => void dialog.accept().catch(() => undefined)); // leaving what is not saved
  await page.addInitScript(before);
  return page;
};
const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const open = async (page, place, name) => {
  await page.goto(`${base}/console/#/${place}`);
  await heading(page, name);
};
const logged = async (before) => {
  const page = await tab(before);
  await page.goto(`${base}/console/#token=${token}`);
  await page.getByText("· administrator").waitFor();
  return page;
};
const refused = async (page) => {
  await page.getByLabel("Token or API key").waitFor();
  return page.getByRole("alert").innerText();
};

const focused = (page) => page.evaluate(() => document.activeElement.textContent);

const scenarios = {
  async credentials() {
    const page = await tab();
    await page.goto(`${base}/console/#token=50%off`);
    facts.broken = await refused(page);
    await page.goto(`${base}/console/`);
    await page.evaluate((value) => { location.hash = `token=${value}`; }, token); // a link into this tab
    await page.getByText("· administrator").waitFor();
    facts.address = page.url();

    // an answer to whoever was here before comes late
    let late = () => undefined;
    const held = new Promise((go) => { late = go; });
    const nobodys = (request) => request.url().endsWith("/v1/me") && !request.headers().authorization;
    await page.route("**/v1/me", async (route) => {
      if (nobodys(route.request())) await held;
      await route.continue().catch(() => undefined);
    });
    await page.getByRole("button", { name: "Log out" }).click();
    await page.evaluate((value) => { location.hash = `token=${value}`; }, token);
    await page.getByText("· administrator").waitFor();
    const answered = page.waitForResponse((response) => nobodys(response.request()));
    late();
    await (await answered).finished();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100))));
    facts.late = await page.locator(".who").innerText();
    await page.unroute("**/v1/me");

    await open(page, "playground", "Playground");
    await page.getByLabel("Query").fill("what the administrator asks");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await page.getByText("tools listed").waitFor();
    await open(page, "activity", "Activity");
    await page.getByRole("cell", { name: "what the administrator asks" }).waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await page.getByText("Nothing yet").waitFor();
    facts.kept = await page.evaluate(() => Object.keys(sessionStorage));

    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("button", { name: "Go on without a login" }).click();
    await heading(page, "Activity");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByLabel("Token or API key").fill("a–dash");
    await page.getByRole("button", { name: "Log in" }).click();
    facts.unsendable = await refused(page);
  },

  async words() {
    // a browser without a clipboard, as for pages over plain HTTP
    const page = await logged(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await open(page, "constructor", "Overview");
    await open(page, "playground", "Playground");
    await page.getByLabel("Query").fill("constructor");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await page.getByRole("button", { name: /^Right for/ }).first().click();
    await page.getByRole("heading", { name: "Labelled queries" }).waitFor();
    // what is shown still answers the question before: a label is of that one
    let answer = () => undefined;
    const held = new Promise((go) => { answer = go; });
    const searched = page.waitForRequest((request) => request.url().endsWith("/v1/search"));
    await page.route("**/v1/search", async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.getByLabel("Query").fill("another question");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await searched;
    const labelled = page.waitForRequest((request) => request.url().endsWith("/v1/labels"));
    await page.getByRole("button", { name: /^Wrong for/ }).first().click();
    facts.labelled = (await labelled).postDataJSON().query;
    answer();
    await page.unroute("**/v1/search");

    await open(page, "tools/odd__constructor", "Tools");
    await page.getByRole("heading", { level: 2, name: "odd__constructor" }).waitFor();
    await page.getByRole("listbox").getByRole("option", { selected: true }).waitFor(); // it is scrolled to
    facts.said = await page.getByRole("region", { name: "Definition" }).locator("pre").first().innerText();
    await page.evaluate(() => document.addEventListener("copy", (event) => { window.copied = event.target.value; }));
    await page.getByText("Definition in JSON").click();
    await page.getByRole("button", { name: "Copy the definition" }).click();
    facts.copied = await (await page.waitForFunction(() => window.copied)).jsonValue();
    facts.typed = await page.getByLabel("constructor").inputValue();
    facts.preset = await page.getByLabel("switch").locator("option").first().textContent();
    const call = page.getByRole("button", { name: "Call", exact: true });
    const number = page.getByLabel("number", { exact: false }).last();
    await number.fill("many");
    await call.click();
    await page.getByRole("alert").waitFor();
    facts.word = await page.getByRole("alert").innerText();
    facts.sent = [];
    for (const value of ["12345678901234567890", "2.50"]) {
      await page.locator("form .primary[aria-disabled=false]").waitFor(); // the call before has ended
      await number.fill(value);
      const asked = page.waitForRequest((request) => request.url().endsWith("/call"));
      await call.click();
      facts.sent.push((await asked).postData());
    }
    await page.getByRole("alert").waitFor(); // no server is behind it
    facts.focus = await focused(page);
    const turn = page.getByRole("button", { name: "Arguments in JSON" });
    await turn.click();
    await page.getByLabel("Arguments in JSON").fill('{"more": 1}');
    await page.getByRole("button", { name: "Back to the form" }).click();
    await turn.click();
    facts.json = await page.getByLabel("Arguments in JSON").inputValue();
    await page.evaluate(() => { location.hash = "#/tools/odd__tool_1"; });
    await page.getByRole("heading", { level: 2, name: "odd__tool_1" }).waitFor();
  },

  async people() {
    const page = await logged();
    await open(page, "people", "People");
    const users = page.getByRole("region", { name: "Users", exact: true });
    await users.getByRole("cell", { name: "user-0000", exact: true }).waitFor();
    await users.getByRole("button", { name: "More users" }).click();
    const one = page.getByRole("button", { name: "Delete user-0500", exact: true });
    await one.focus();
    await page.keyboard.press("Enter");
    await users.getByRole("button", { name: "Delete user-0500, really" }).waitFor();
    facts.asked = await focused(page);
    await page.keyboard.press("Enter");
    await one.waitFor();
    facts.kept = await focused(page);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await one.waitFor();
    facts.escaped = await focused(page);
    const keys = page.getByRole("region", { name: "Keys", exact: true });
    await keys.getByRole("cell", { name: "key-0500", exact: true }).waitFor();
    await keys.getByRole("button", { name: "More keys" }).click();
    await keys.getByRole("cell", { name: "key-0500", exact: true }).waitFor({ state: "detached" });
    await keys.getByRole("cell", { name: /^key-[0-9]{4}$/ }).first().waitFor();
    facts.oldest = await keys.getByRole("cell", { name: /^key-[0-9]{4}$/ }).count();
    const packs = page.getByRole("region", { name: "Packs", exact: true });
    await packs.getByText("pack-0000", { exact: true }).first().waitFor();
    await packs.getByRole("button", { name: "More packs" }).click();
    await packs.getByText("pack-0500", { exact: true }).first().waitFor();
    await users.getByRole("button", { name: "First users" }).click();
    await users.getByRole("cell", { name: "user-0000", exact: true }).waitFor();
  },

  // a link that is opened behind the tab that one looks at
  async background() {
    const page = await logged(() => Object.defineProperty(document, "hidden", { value: true }));
    await open(page, "tools/odd__constructor", "Tools");
    await page.getByRole("heading", { level: 2, name: "odd__constructor" }).waitFor();
  },

  async answers() {
    const page = await logged();
    const answer = (path, contentType, body) => page.route(`**${path}`, (route) => route.fulfill({ status: 200, contentType, body }));
    const result = '{"content": [], "structuredContent": {"id": 1234567890123456789}}';
    await answer("/call", "application/json", `{"result": ${result}, "error": null, "took_ms": 1, "bytes": 9}`);
    await open(page, "tools/odd__constructor", "Tools");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    facts.result = await page.getByRole("region", { name: "Result" }).innerText();
    const detail = "it said: \u202e\u001b[31mno";
    await page.route("**/call", (route) => route.fulfill({ status: 502, json: { status: 502, code: "upstream_error", detail } }));
    await page.getByRole("button", { name: "Call", exact: true }).click();
    facts.problem = await page.getByRole("alert").innerText();
    await answer("/v1/changes", "text/html", "<!doctype html><title>Log in</title>");
    await open(page, "changes", "Changes");
    facts.proxy = await page.getByRole("alert").innerText();
    await answer("/v1/upstreams", "application/json", '{"upstreams": [{"state": "ready"}]}');
    await page.goto(`${base}/console/#/overview`);
    await page.getByText("This page cannot be shown").waitFor();
    await page.getByRole("link", { name: "Connect", exact: true }).click();
    await heading(page, "Connect");
  },

  async none() {
    const page = await tab();
    await open(page, "overview", "Overview");
    await page.getByText("No upstream").waitFor();
    facts.overview = await page.locator("main").innerText();
    await open(page, "tools", "Tools");
    await page.getByText("No tool").waitFor();
    facts.tools = await page.locator("main").innerText();
  },

  async uninstalled() {
    // an administrator who is a user, and so sees what that user has installed
    const page = await logged();
    await open(page, "tools", "Tools");
    await page.getByText("No tool").waitFor();
    facts.tools = await page.locator("main").innerText();
  },

  async connect() {
    const page = await logged();
    await open(page, "connect", "Connect");
    facts.snippets = await page.locator("main").innerText();
  },

  async drafts() {
    const page = await logged();
    const editor = page.getByLabel("armory.yaml", { exact: true });
    const standing = page.locator(".bar").getByRole("status");
    const type = async (text) => {
      await editor.press("Control+End");
      await page.keyboard.insertText(text);
    };
    await open(page, "configuration", "Configuration");
    await page.getByText("As it is in the file.").waitFor();
    let answer = () => undefined;
    const asked = new Promise((begun) => void page.route("**/check", async (route) => {
      const held = new Promise((go) => { answer = go; });
      begun();
      await held;
      await route.continue().catch(() => undefined); // the page may have given it up
    }));
    await type("\n# mine\n");
    facts.unchecked = await standing.innerText();
    await asked;
    await page.getByRole("button", { name: "Undo all" }).click();
    facts.undone = await standing.innerText();
    answer();
    await page.unroute("**/check");

    await type("\n# mine\n");
    await page.getByText("It holds.").waitFor();
    await page.reload();
    await page.getByText("It holds.").waitFor();
    facts.reloaded = (await editor.inputValue()).includes("# mine");
    await open(page, "overview", "Overview");
    facts.other = await page.evaluate(async (value) => {
      const headers = { Authorization: `Bearer ${value}`, "Content-Type": "application/json" };
      const path = location.pathname.replace("/console/", "/v1/configuration");
      const there = await (await fetch(path, { headers })).json();
      const body = JSON.stringify({ text: `${there.text}\n# another's\n` });
      return (await fetch(path, { method: "PUT", headers: { ...headers, "If-Match": `"${there.tag}"` }, body })).status;
    }, token);
    await open(page, "configuration", "Configuration");
    await page.getByText("The file has changed since it was read here").waitFor();
    facts.behind = (await editor.inputValue()).includes("# mine");
    await type("# more");
    facts.review = await page.getByRole("button", { name: "Review" }).isDisabled();
    facts.standing = await standing.innerText();
    await page.getByRole("button", { name: "Read it again" }).click();
    await page.getByText("As it is in the file.").waitFor();
    facts.anew = await editor.inputValue();

    const help = page.getByRole("complementary", { name: "Help" });
    await type("\nstorage: {}");
    await help.getByRole("heading", { name: "storage" }).waitFor();
    facts.offered = await help.getByRole("button").count(); // a line below would be no YAML
    await help.getByText("Keys that it may have").waitFor();
    await type(`\nword${" ".repeat(200_000)}`); // what a line is has to be told in linear time
    await page.getByText(/^\d+ problems?$/).waitFor();
  },

  async packs() {
    // a list that comes in parts
    const page = await logged();
    const pack = (id) => ({ id, owner: null, title: `The pack ${id}`, description: "", servers: ["odd"], tools: [] });
    await page.route("**/v1/packs?*", async (route) => {
      const first = new URL(route.request().url()).searchParams.get("after") === "";
      await route.fulfill({ json: { packs: [pack(first ? "one" : "two")], next: first ? "one" : null } });
    });
    await open(page, "tools", "Tools");
    await page.getByRole("option", { name: "The pack two" }).waitFor({ state: "attached" });
    facts.packs = await page.getByRole("option", { name: /^The pack/ }).allInnerTexts();
  },

  async states() {
    // a balancer before two that see an upstream differently
    const page = await tab();
    const upstream = (server, state, error) => ({
      server, state, error, era: null, protocol_version: "", tools: 1, uptime: 1, transport: "stdio", since_s: 1,
    });
    const states = {
      one: [upstream("up", "ready", null), upstream("same", "ready", null)],
      two: [upstream("up", "down", "it has died"), upstream("same", "ready", null)],
    };
    let turn = 0;
    await page.route("**/v1/upstreams", async (route) => {
      const process = turn++ % 2 === 0 ? "one" : "two";
      await route.fulfill({ json: { process, upstreams: states[process] } });
    });
    await page.goto(`${base}/console/#token=${token}`);
    await page.getByText("· administrator").waitFor();
    await open(page, "overview", "Overview");
    await page.getByText("2 have answered within a minute").waitFor();
    const up = page.getByRole("region", { name: "Upstream up", exact: true });
    await up.getByText("At another replica: down it has died").waitFor(); // when the first answers again
    facts.same = await page.getByRole("region", { name: "Upstream same" }).getByText("At another replica").count();
  },

  async replicas() {
    // a balancer before two: each request goes to the other one
    const page = await tab();
    const at_ms = Date.now();
    const entry = (process, age) => ({
      seq: 5, at_ms: at_ms - age, kind: "call", who: "ann", what: `up__${process}`, server: "up", ok: true, ms: 1,
      found: [], visible: 0, saved_tokens: 0, degraded: null, trace: null, contents: true,
    });
    const entries = { one: entry("one", 1000), two: entry("two", 0) };
    let turn = 0;
    let told = () => undefined;
    const known = new Promise((done) => { told = done; });
    await page.route(/\/v1\/activity[?/]/, async (route) => {
      const url = new URL(route.request().url());
      const process = turn++ % 2 === 0 ? "one" : "two";
      if (!url.pathname.endsWith("/activity")) {
        if (url.searchParams.get("process") === process)
          await route.fulfill({ json: { arguments: `{"of":"${process}"}`, result: null } });
        else
          await route.fulfill({ status: 404, json: { status: 404, code: "other_process", detail: "another has it" } });
        return;
      }
      const seen = (url.searchParams.get("seen") ?? "").split(",");
      const news = seen.includes(`${process}:5`) ? [] : [entries[process]];
      await route.fulfill({ json: { process, last: 5, entries: news } });
      if (turn > 4 && ["one:5", "two:5"].every((one) => seen.includes(one))) told();
    });
    await page.goto(`${base}/console/#token=${token}`);
    await page.getByText("· administrator").waitFor();
    await open(page, "activity", "Activity");
    await known;
    facts.rows = await page.locator("tbody a.mono").allInnerTexts();
    await page.getByText("Of 2 processes").waitFor();
    facts.contents = [];
    for (const process of ["one", "two"]) {
      await page.getByRole("row", { name: `up__${process}` }).getByText("Arguments and result").click();
      await page.getByText(`"of": "${process}"`).waitFor();
      facts.contents.push(process);
    }
  },
};

try {
  await scenarios[scenario]();
} catch (error) {
  failed = String(error.stack).slice(0, 3000);
}
console.log(JSON.stringify({ facts, errors, failed }));
await browser.close();
