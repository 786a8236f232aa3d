// A real authorization server (oidc-provider) on a port of its own, for `peers/run-logins`. Prints its issuer, and has
// pages of its own: `/check` tells whether an opaque access token is valid, `/counts` how often each request was made, and `/secrets` lists everything that it issued and nobody else may see.
//
//   node server.mjs PUBLIC-KEY-FILE     the public key (JWK) of the client `service-key`
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const standardResource = "https://mcp.example.com/mcp";
const device = "urn:ietf:params:oauth:grant-type:device_code";
const user = { redirect_uris: [], response_types: [], grant_types: [device, "refresh_token"] };
const service = { redirect_uris: [], response_types: [], grant_types: ["client_credentials"] };
const clients = [
  { client_id: "cli", token_endpoint_auth_method: "none", application_type: "native", ...user },
  // Its tokens live for four seconds.
  { client_id: "cli-short", token_endpoint_auth_method: "none", application_type: "native", ...user },
  // Its codes live for two seconds.
  { client_id: "cli-late", token_endpoint_auth_method: "none", application_type: "native", ...user },
  { client_id: "service-basic", client_secret: "secret of basic%+&:=0123", token_endpoint_auth_method: "client_secret_basic", ...service },
  { client_id: "service-post", client_secret: "secret-of-post-0123456789", token_endpoint_auth_method: "client_secret_post", ...service },
  {
    client_id: "service-key",
    token_endpoint_auth_method: "private_key_jwt",
    jwks: { keys: [JSON.parse(readFileSync(process.argv[2], "utf8"))] },
    ...service,
  },
];

const secrets = [];
const counts = {};
const count = (what) => (counts[what] = (counts[what] ?? 0) + 1);

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

// The MCP servers of the tests have addresses of this machine, and verify JWTs. Others do not exist.
const isServer = (resource) => resource.startsWith("http://127.0.0.1:");

const provider = new Provider(issuer, {
  clients,
  scopes: ["openid", "offline_access", "notes:read", "notes:write"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_context, client) => client.grantTypeAllowed("refresh_token"),
  findAccount: async (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  cookies: { keys: ["key of the tests"] },
  ttl: { DeviceCode: (_context, _code, client) => (client.clientId === "cli-late" ? 2 : 600) },
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => standardResource,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, resource, client) => ({
        scope: "notes:read notes:write",
        audience: resource,
        accessTokenFormat: isServer(resource) ? "jwt" : "opaque",
        jwt: { sign: { alg: "RS256" } },
        accessTokenTTL: client.clientId === "cli-short" ? 4 : 3600,
      }),
    },
  },
});
provider.on("grant.success", (context) => {
  const { grant_type, code_verifier } = context.oidc.params;
  count(`${grant_type} ok`);
  if (code_verifier) secrets.push(code_verifier);
});
provider.on("registration_create.success", (_context, client) => {
  count("registration");
  if (client.clientSecret) secrets.push(client.clientSecret);
});
provider.on("grant.error", (context, error) => count(`${context.oidc.params?.grant_type} ${error.error}`));
provider.on("revocation.error", (_context, error) => count(`revocation ${error.error}`));

for (const kind of ["access_token", "authorization_code", "refresh_token", "client_credentials", "device_code"]) {
  for (const event of ["issued", "saved"]) provider.on(`${kind}.${event}`, (issued) => secrets.push(issued.jti));
}

provider.use(async (context, next) => {
  if (context.path === "/secrets") {
    context.body = secrets;
    return;
  }
  if (context.path === "/counts") {
    context.body = counts;
    return;
  }
  if (context.path === "/check") {
    const text = (context.get("authorization") ?? "").replace(/^Bearer /, "");
    const token = (await provider.AccessToken.find(text)) ?? (await provider.ClientCredentials.find(text));
    context.status = token?.isValid && [token.aud].flat().includes(standardResource) ? 200 : 401;
    context.body = { client: token?.clientId ?? null };
    return;
  }
  await next();
});
server.on("request", provider.callback());
console.log(issuer);
