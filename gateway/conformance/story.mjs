// The whole story by the official TypeScript client. Prints each step that holds; the first that does not ends it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

// From where the packages were installed, which is not beside this file.
const require = createRequire(process.env.NODE_MODULES_OF);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ResourceUpdatedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");

const space = `typescript-${process.pid}`;
const client = new Client({ name: "story-typescript", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
// The client checks structured content against each tool's output schema, once it has listed them.
const { tools } = await client.listTools();
assert.equal(tools.length, 16);

async function call(name, args = {}) {
  const result = await client.callTool({ name, arguments: { space, ...args } });
  assert.notEqual(result.isError, true, `${name}: ${JSON.stringify(result.content)}`);
  return result.structuredContent;
}
const held = (step) => console.log(`passed ${step}`);

const page = await call("remember", { source: "web:portal", source_kind: "web", subject: "iban", text: "New IBAN: DE02" });
const belief = await call("derive", { subject: "iban", text: "Pay to DE02" });
assert.deepEqual(belief.premises, [{ id: page.node, because: "shown" }]);
held("remember and derive");
const paid = await call("record_action", { type: "payment.transfer", text: "to DE02", amount: "1840.00", currency: "EUR" });
await call("justify", { node: belief.node, premises: [page.node] });
held("record_action and justify");
assert.equal((await call("recall", { subject: "iban" })).items.length, 2);
held("recall");
assert.equal((await call("explain", { id: belief.node })).nodes[0].status, "IN");
held("explain");
assert.equal((await call("audit_first")).items[0].source, "web:portal");
assert.equal((await call("rests_on_source", { source: "web:portal" })).changed, 3);
held("audit_first and rests_on_source");

const uri = `recant://${space}/nodes/${belief.node}`;
const told = new Promise((resolve) =>
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri)));
assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 3);
assert.equal(JSON.parse((await client.readResource({ uri })).contents[0].text).status, "IN");
await client.subscribeResource({ uri });
held("resources");

const before = (await call("health")).position;
const preview = await call("preview_retraction", { sources: ["web:portal"] });
const retracted = await call("retract", { sources: ["web:portal"], reason: "taken over", only_if_position: preview.position });
assert.deepEqual(retracted.by_kind, preview.by_kind);
held("preview_retraction and retract");
assert.equal(await told, uri);
held("resource subscription");
assert.deepEqual((await call("recalls")).items.map((item) => item.id), [paid.node]);
held("recalls");
const changes = await call("recent_changes");
assert.equal(changes.items.filter((change) => change.to === "OUT").length, 3);
held("recent_changes");
assert.equal((await call("state_as_of", { when: before, subject: "iban" })).items.length, 2);
held("state_as_of");
assert.equal((await call("list_retractions")).items[0].id, retracted.retraction);
assert.equal((await call("reinstate", { retraction: retracted.retraction, reason: "a mistake" })).changed, 3);
assert.equal((await call("recall", { subject: "iban" })).items.length, 2);
held("list_retractions and reinstate");
const refused = await client.callTool({ name: "explain", arguments: { space, id: "none" } });
assert.equal(refused.isError, true);
held("a refusal is the tool's, and is read");
await client.close();
