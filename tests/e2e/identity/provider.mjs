// A certified OpenID provider that logs in whoever X-Person names, or whoever its page is told:
// provider.mjs FOLDER [closed]. Prints its issuer once it listens. Clients register themselves,
// unless it is closed; two are registered by hand: "known", and the gateway, "armory".
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, closed] = process.argv.slice(2);
const found = createRequire(folder + "/").resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(found).href);

const server = createServer();
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;
const resource = {
  scope: "mcp:use",
  accessTokenFormat: "jwt",
  accessTokenTTL: 600,
};
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "known",
      client_secret: "a-secret-that-was-given-by-hand",
      application_type: "native",
      redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
    {
      client_id: "armory",
      client_secret: "the-secret-of-the-gateway",
      application_type: "native",
      redirect_uris: ["http://127.0.0.1/oauth/callback", "http://127.0.0.1/connect/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
  ],
  clientDefaults: { application_type: "native", token_endpoint_auth_method: "client_secret_post" },
  scopes: ["openid", "offline_access", "mcp:use"],
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  interactions: { url: (_context, interaction) => `/login/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: !closed },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_context, name) => ({ ...resource, audience: name }),
      useGrantedResource: () => true,
    },
  },
});

const PAGE = `<!doctype html><title>Log in</title><form method="post">
<label>Who are you? <input name="person"></label><button>Log in</button></form>`;

async function entered(request) {
  if (request.method !== "POST") return undefined;
  let body = "";
  for await (const chunk of request) body += chunk;
  return new URLSearchParams(body).get("person");
}

async function login(request, response) {
  const details = await provider.interactionDetails(request, response);
  const accountId = request.headers["x-person"] ?? (await entered(request));
  if (!accountId) {
    response.setHeader("Content-Type", "text/html");
    return response.end(PAGE);
  }
  const { client_id: clientId, resource: asked } = details.params;
  const grant = new provider.Grant({ accountId, clientId });
  grant.addOIDCScope("openid offline_access mcp:use");
  for (const name of [asked].flat().filter(Boolean)) grant.addResourceScope(name, "mcp:use");
  const result = { login: { accountId }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on("request", (request, response) => {
  if (!request.url.startsWith("/login/")) return callback(request, response);
  login(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
});
console.log(issuer);
