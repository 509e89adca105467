// An MCP server of 2026-07-28 that asks for a form before it books: its texts try markup, its answer is what it was told.
import { createInterface } from "node:readline";

const tools = [
  {
    name: "book",
    description: "Books a room for a guest.",
    inputSchema: { type: "object", properties: { room: { type: "integer" } }, required: ["room"] },
    annotations: { readOnlyHint: false },
  },
];
const schema = {
  type: "object",
  properties: {
    guest: { type: "string", title: "Guest", description: "<img src=x onerror=pwned=5>" },
    nights: { type: "integer", title: "Nights", default: 1 },
    bed: { type: "string", title: "Bed", enum: ["single", "<b>double</b>"] },
    breakfast: { type: "boolean", title: "Breakfast" },
    note: { type: "string", title: "Note" },
  },
  required: ["guest", "nights", "bed"],
};

const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const result = (id, value) => write({ id, result: { resultType: "complete", ...value } });
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === "subscriptions/listen") return;
  if (method === "server/discover") {
    const _meta = { "io.modelcontextprotocol/serverInfo": { name: "booking", version: "1" } };
    return result(id, { supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, _meta });
  }
  if (method === "tools/list") return result(id, { tools });
  if (method !== "tools/call") return write({ id, error: { code: -32601, message: "unknown method" } });
  const given = params.inputResponses?.booking;
  if (given?.action === "accept")
    return result(id, { content: [], structuredContent: { room: params.arguments.room, ...given.content } });
  const asked = { message: "Who is the <b>guest</b>?", requestedSchema: schema };
  const inputRequests = { booking: { method: "elicitation/create", params: asked } };
  return write({ id, result: { resultType: "input_required", inputRequests } });
});
