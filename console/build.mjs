// Builds the console into the Python package: the same bytes from the same source, anywhere.
// `node build.mjs` writes; `node build.mjs --check` compares with what is committed.
import { readFile, writeFile, mkdir, readdir } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
// where `npm ci` put its packages: here, or in a folder of another's choice
const packages = process.env.ARMORY_CONSOLE_NODE ?? here;
const { build } = createRequire(path.join(packages, "package.json"))("esbuild");
const out = path.join(here, "..", "armory", "web", "console", "static");
const LARGEST = 250_000; // bytes, compressed, of a first load

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  outdir: "out",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  nodePaths: [path.join(packages, "node_modules")],
  legalComments: "eof",
  charset: "utf8",
  write: false,
  logLevel: "warning",
});

const files = new Map();
for (const file of result.outputFiles) files.set(path.basename(file.path), Buffer.from(file.contents));
const { dependencies } = JSON.parse(await readFile(path.join(here, "package.json"), "utf8"));
const licences = ["app.js contains these packages, changed by bundling and minifying.\n"];
for (const name of Object.keys(dependencies).sort()) {
  const folder = path.join(packages, "node_modules", name);
  const { version } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  licences.push(`${name} ${version}\n\n${(await readFile(path.join(folder, "LICENSE"), "utf8")).trim()}\n`);
}
files.set("licences.txt", Buffer.from(licences.join("\n")));
for (const name of ["index.html", "icon.svg"]) files.set(name, await readFile(path.join(here, "src", name)));

const loaded = [...files].filter(([name]) => name !== "licences.txt");
const size = loaded.reduce((sum, [, body]) => sum + gzipSync(body).length, 0);
if (size > LARGEST) {
  console.error(`the first load is ${size} bytes compressed; at most ${LARGEST}`);
  process.exit(1);
}

if (process.argv.includes("--check")) {
  const there = (await readdir(out)).sort().join(" ");
  const wanted = [...files.keys()].sort().join(" ");
  const stale = [];
  if (there !== wanted) stale.push(`${out} holds ${there}; the build gives ${wanted}`);
  for (const [name, body] of files) {
    const kept = await readFile(path.join(out, name)).catch(() => null);
    if (kept === null || !kept.equals(body)) stale.push(`${name} is not what the source builds`);
  }
  if (stale.length) {
    console.error(stale.join("\n") + "\nrun `npm ci && npm run build` in console/ and commit the result");
    process.exit(1);
  }
  console.log(`armory/web/console/static is the source's build; first load ${size} bytes compressed`);
} else {
  await mkdir(out, { recursive: true });
  for (const [name, body] of files) await writeFile(path.join(out, name), body);
  console.log(`built ${[...files.keys()].join(", ")}; first load ${size} bytes compressed`);
}
