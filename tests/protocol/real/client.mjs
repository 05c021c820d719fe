// Lists and calls through the TypeScript client: client.mjs FOLDER URL MODE CALLS
// MODE: "legacy", "auto" or a revision to pin. CALLS: JSON [[tool, arguments], ...].
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, mode, calls] = process.argv.slice(2);
const found = createRequire(folder + "/").resolve("@modelcontextprotocol/client");
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(found).href);
const pinned = mode === "legacy" || mode === "auto" ? mode : { pin: mode };
const client = new Client(
  { name: "armory-test", version: "1" },
  { versionNegotiation: { mode: pinned } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const { prompts } = await client.listPrompts();
const { resources } = await client.listResources();
const { resourceTemplates } = await client.listResourceTemplates();
const named = (entries, key) => entries.map((entry) => entry[key]);
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  results.push(await client.callTool({ name, arguments: args }));
}
console.log(
  JSON.stringify({
    tools: named(tools, "name"),
    prompts: named(prompts, "name"),
    resources: named(resources, "uri"),
    templates: named(resourceTemplates, "uriTemplate"),
    results,
  }),
);
await client.close();
