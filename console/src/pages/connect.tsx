// What to write where, for each client, with this gateway's own URL.

import { useState } from "preact/hooks";
import { base } from "../api";
import type { Me } from "../types";
import { Copy, Page, plain } from "../ui";

interface Snippet {
  client: string;
  where: string;
  text: (url: string, login: boolean) => string;
}

const json = (value: unknown): string => JSON.stringify(value, null, 2);
const headers = (login: boolean, token: string): Record<string, unknown> => (login ? { headers: { Authorization: `Bearer ${token}` } } : {});
/** What mcp-remote wants to be told where a gateway on another machine has no TLS. */
const plainly = (url: string): string[] => {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !["localhost", "127.0.0.1"].includes(hostname) ? ["--allow-http"] : [];
};

const SNIPPETS: Snippet[] = [
  { client: "Claude Code", where: "In a terminal", text: (url, login) =>
    `claude mcp add --transport http armory ${url}` + (login ? ` --header "Authorization: Bearer $ARMORY_TOKEN"` : "") },
  { client: "Cursor", where: "~/.cursor/mcp.json", text: (url, login) =>
    json({ mcpServers: { armory: { url, ...headers(login, "${env:ARMORY_TOKEN}") } } }) },
  { client: "VS Code", where: ".vscode/mcp.json", text: (url, login) => json({
    servers: { armory: { type: "http", url, ...headers(login, "${input:armory-token}") } },
    ...(login ? { inputs: [{ type: "promptString", id: "armory-token", description: "Armory token", password: true }] } : {}) }) },
  { client: "Codex", where: "~/.codex/config.toml", text: (url, login) =>
    `[mcp_servers.armory]\nurl = ${JSON.stringify(url)}` + (login ? `\nbearer_token_env_var = "ARMORY_TOKEN"` : "") },
  { client: "Gemini CLI", where: "~/.gemini/settings.json", text: (url, login) =>
    json({ mcpServers: { armory: { httpUrl: url, ...headers(login, "$ARMORY_TOKEN") } } }) },
  { client: "opencode", where: "opencode.json", text: (url, login) =>
    json({ mcp: { armory: { type: "remote", url, enabled: true, ...headers(login, "{env:ARMORY_TOKEN}") } } }) },
  { client: "Zed", where: "settings.json", text: (url, login) =>
    json({ context_servers: { armory: { url, ...headers(login, "<token>") } } }) },
  { client: "Claude Desktop", where: "claude_desktop_config.json (by way of mcp-remote)", text: (url, login) => json({
    mcpServers: { armory: { command: "npx", args: ["-y", "mcp-remote", url, ...plainly(url), ...(login ? ["--header", "Authorization:${AUTH_HEADER}"] : [])],
      ...(login ? { env: { AUTH_HEADER: "Bearer <token>" } } : {}) } } }) },
];

/** Whether clients need a credential; that of `armory console` is for nothing else. */
export const wantsLogin = (me: Me): boolean =>
  me.method !== "anonymous" && !(me.features.anonymous && me.admin && me.method === "token" && me.principals.length === 0);

export function Connect({ me }: { me: Me }) {
  const [path, setPath] = useState("");
  const url = `${base}/mcp${path === "" ? "" : `/${path}`}`;
  const login = wantsLogin(me);
  return (
    <Page title="Connect" lead="One URL for every client. Choose the endpoint, copy what your client wants.">
      <div class="panel stack">
        <label class="field">Endpoint
          <select value={path} onChange={(event) => setPath(event.currentTarget.value)}>
            {me.endpoints.map((one) => (
              <option key={one} value={one}>{one === "" ? "everything, filtered by the query" : one.startsWith("set/") ? `the set ${plain(one.slice(4))}` : `the server ${plain(one)} alone, unchanged`}</option>
            ))}
          </select>
        </label>
        <div class="row"><code class="break">{plain(url)}</code> <Copy text={url} what="the URL" /></div>
        {login && <p class="small muted">The snippets take the token from a variable, where the client can: <code>export ARMORY_TOKEN=…</code>.
          {me.features.api_keys ? " Make a key of your own for each client, so that one can be revoked alone." : ""}</p>}
      </div>
      {SNIPPETS.map(({ client, where, text }) => (
        <section class="panel" key={client} aria-label={client}>
          <div class="row spread"><div><h2>{client}</h2><p class="small muted">{where}</p></div><Copy text={text(url, login)} what={`what ${client} wants`} /></div>
          <pre tabIndex={0}>{text(url, login)}</pre>
        </section>
      ))}
      <section class="panel" aria-label="REST">
        <h2>Without MCP</h2>
        <pre tabIndex={0}>{`curl -G ${base}/v1/retrieve_tools --data-urlencode "query=what you want to do"` + (login ? ` \\\n  -H "Authorization: Bearer $ARMORY_TOKEN"` : "")}</pre>
        <p class="small">All of it: <a href="../docs">the REST API</a>.</p>
      </section>
    </Page>
  );
}
