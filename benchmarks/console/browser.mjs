// Headless Chromium on the console, told what to do by its arguments; PACKAGES as for tests/node/console.mjs.
//
//   node browser.mjs PACKAGES '{"base", "token", "watch": [pages]}'   looks at pages until its input ends
//   node browser.mjs PACKAGES '{"base", "token", "scroll": steps}'    scrolls the list of tools, says what was slow
import { createRequire } from "node:module";
import path from "node:path";

const [, , packages, given] = process.argv;
const { base, token, watch, scroll } = JSON.parse(given);
const { chromium } = createRequire(path.join(packages, "package.json"))("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.ARMORY_TEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
const open = async (name) => {
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(`${base}/console/#token=${encodeURIComponent(token)}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.goto(`${base}/console/#/${name}`);
  await page.getByRole("heading", { level: 1, name: new RegExp(name, "i") }).waitFor();
  return page;
};

if (watch) {
  for (const name of watch) await open(name);
  console.log(JSON.stringify({ watching: watch.length }));
  for await (const _ of process.stdin) continue; // until it ends
} else {
  const page = await open("tools");
  await page.waitForFunction(() => document.body.innerText.includes("10,000 of 10,000") && !document.body.innerText.includes("loaded"));
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const spent = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return Object.fromEntries(metrics.filter((one) => /^(Task|Script|Layout|RecalcStyle)Duration$/.test(one.name)).map((one) => [one.name, one.value]));
  };
  const before = await spent();
  const seen = await page.getByRole("listbox", { name: "Tools" }).evaluate(async (box, steps) => {
    const long = [];
    const watcher = new PerformanceObserver((list) => long.push(...list.getEntries().map((entry) => entry.duration)));
    watcher.observe({ entryTypes: ["longtask"] });
    const frames = [];
    let last = performance.now();
    const frame = () => new Promise((done) => requestAnimationFrame((now) => { frames.push(now - last); last = now; done(); }));
    await frame();
    frames.length = 0;
    for (let step = 0; step < steps; step++) { // a hand on the wheel
      box.scrollTop += 300;
      await frame();
    }
    for (let jump = 0; jump < 50; jump++) { // the scroll bar
      box.scrollTop = (box.scrollHeight * ((jump * 37) % 50)) / 50;
      await frame();
    }
    await new Promise((done) => setTimeout(done, 200));
    watcher.disconnect();
    return { long, frames, rows: box.querySelectorAll("[role=option]").length };
  }, scroll);
  const after = await spent();
  const frames = seen.frames.sort((a, b) => a - b);
  console.log(JSON.stringify({
    frames: frames.length,
    frames_over_50_ms: frames.filter((one) => one > 50).length,
    long_tasks: seen.long.length,
    longest_task_ms: Math.round(Math.max(0, ...seen.long)),
    p50_frame_ms: Number(frames[frames.length >> 1].toFixed(1)),
    p99_frame_ms: Number(frames[Math.floor(frames.length * 0.99)].toFixed(1)),
    rows_in_the_page: seen.rows,
    main_thread_ms_a_frame: Object.fromEntries(Object.entries(after).map(([name, value]) => [name, Number((((value - before[name]) * 1000) / frames.length).toFixed(3))])),
    chromium: browser.version(),
  }));
}
await browser.close();
