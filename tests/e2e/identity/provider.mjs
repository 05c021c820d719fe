// A certified OpenID provider that logs in whoever X-Person names: provider.mjs FOLDER
// Prints its issuer once it listens. Clients register themselves; one, "known", is registered.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
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
  ],
  clientDefaults: { application_type: "native", token_endpoint_auth_method: "client_secret_post" },
  scopes: ["openid", "offline_access", "mcp:use"],
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  interactions: { url: (_context, interaction) => `/login/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_context, name) => ({ ...resource, audience: name }),
      useGrantedResource: () => true,
    },
  },
});

async function login(request, response) {
  const details = await provider.interactionDetails(request, response);
  const accountId = request.headers["x-person"];
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
