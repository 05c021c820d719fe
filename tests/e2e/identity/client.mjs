// Logs in with the TypeScript client's own OAuth and lists tools: client.mjs FOLDER URL PERSON
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, person] = process.argv.slice(2);
const found = createRequire(folder + "/").resolve("@modelcontextprotocol/client");
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await import(
  pathToFileURL(found).href
);
const kept = {};
let back;

// A browser without a page: follows redirects, keeps cookies, lets the client in where it is asked,
// stops at the client's own URL.
async function browse(place) {
  const cookies = new Map();
  for (let hop = 0; hop < 20; hop++) {
    if (place.href.startsWith(authProvider.redirectUrl)) return place.searchParams;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { cookie, "x-person": person };
    const answer = await fetch(place, { redirect: "manual", headers });
    keep(cookies, answer);
    let next = answer.headers.get("location");
    const form = next ? null : /name="request" value="([^"]+)"/.exec(await answer.text());
    if (form) next = await allow(new URL("consent", place), form[1], cookies);
    if (!next) throw new Error(`${place}: ${answer.status}`);
    place = new URL(next, place);
  }
  throw new Error("redirected without end");
}

async function allow(place, request, cookies) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const body = new URLSearchParams({ request, action: "allow" });
  const headers = { cookie, origin: place.origin };
  const answer = await fetch(place, { method: "POST", body, headers, redirect: "manual" });
  keep(cookies, answer);
  return answer.headers.get("location");
}

function keep(cookies, answer) {
  for (const line of answer.headers.getSetCookie()) {
    const [pair] = line.split(";");
    cookies.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
  }
}

const authProvider = {
  redirectUrl: "http://127.0.0.1:9/callback",
  clientMetadata: {
    client_name: "a TypeScript client",
    redirect_uris: ["http://127.0.0.1:9/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    application_type: "native",
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  redirectToAuthorization: async (place) => void (back = await browse(place)),
};

async function connected() {
  const client = new Client({ name: "armory-test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!back) throw error;
    const params = back;
    back = undefined;
    await transport.finishAuth(params);
    return connected();
  }
  return client;
}

const client = await connected();
const { tools } = await client.listTools();
console.log(JSON.stringify(tools.map((tool) => tool.name)));
await client.close();
