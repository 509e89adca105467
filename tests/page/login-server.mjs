// An MCP server behind OAuth and its authorization server in one, whose person always agrees.
import http from "node:http";

const TOOL = { name: "read", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } };

/** @returns {Promise<{url: string, close: () => void}>} */
export async function loginServer() {
  const server = http.createServer(
    (request, response) => void answer(request, response).catch(() => response.destroy()),
  );
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const origin = `http://127.0.0.1:${port}`;

  const documents = {
    "/.well-known/oauth-protected-resource": { resource: `${origin}/mcp`, authorization_servers: [origin] },
    "/.well-known/oauth-authorization-server": {
      issuer: origin,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      code_challenge_methods_supported: ["S256"],
      response_types_supported: ["code"],
    },
    "/register": { client_id: "page" },
    "/token": { access_token: "granted", token_type: "Bearer", expires_in: 3600 },
  };

  /** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
  async function answer(request, response) {
    let text = "";
    for await (const part of request) text += part;
    const url = new URL(request.url ?? "/", origin);
    const send = (status, value, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(value === undefined ? "" : JSON.stringify(value));
    };
    if (url.pathname === "/authorize") {
      const back = new URL(url.searchParams.get("redirect_uri") ?? "");
      back.searchParams.set("code", "code");
      back.searchParams.set("state", url.searchParams.get("state") ?? "");
      response.writeHead(303, { location: back.href });
      return response.end();
    }
    const known = documents[url.pathname];
    if (known) return send(url.pathname === "/register" ? 201 : 200, known);
    if (url.pathname !== "/mcp") return send(404, {});
    if (request.headers.authorization !== "Bearer granted") {
      const metadata = `${origin}/.well-known/oauth-protected-resource`;
      return send(401, {}, { "www-authenticate": `Bearer resource_metadata="${metadata}"` });
    }
    if (request.method !== "POST") return send(405, {});
    const { id, method, params } = JSON.parse(text);
    if (id === undefined) return send(202);
    const results = {
      initialize: {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {} },
        serverInfo: { name: "locked", version: "1" },
      },
      ping: {},
      "tools/list": { tools: [TOOL] },
      "tools/call": { content: [{ type: "text", text: `${params?.name} is done` }] },
    };
    const result = results[method];
    return send(200, {
      jsonrpc: "2.0",
      id,
      ...(result ? { result } : { error: { code: -32601, message: "no such method" } }),
    });
  }

  return { url: `${origin}/mcp`, close: () => void server.close() };
}
