"""The whole story by the official Python client. Prints each step that holds; the first that does not ends it."""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.types import ResourceUpdatedNotification


async def main(url: str) -> None:
    space = f"python-{os.getpid()}"
    told: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await told.put(str(message.params.uri))

    async with Client(url, message_handler=on_message) as client:

        async def call(name: str, **arguments: object) -> dict:
            result = await client.call_tool(name, {"space": space, **arguments})
            assert not result.is_error, (name, result.content)
            return result.structured_content

        def held(step: str) -> None:
            print(f"passed {step}", flush=True)

        assert len((await client.list_tools()).tools) == 16
        page = await call("remember", source="web:portal", source_kind="web", subject="iban", text="New IBAN: DE02")
        belief = await call("derive", subject="iban", text="Pay to DE02")
        assert belief["premises"] == [{"id": page["node"], "because": "shown"}], belief
        held("remember and derive")
        paid = await call("record_action", type="payment.transfer", text="to DE02", amount="1840.00", currency="EUR")
        await call("justify", node=belief["node"], premises=[page["node"]])
        held("record_action and justify")
        assert len((await call("recall", subject="iban"))["items"]) == 2
        held("recall")
        assert (await call("explain", id=belief["node"]))["nodes"][0]["status"] == "IN"
        held("explain")
        assert (await call("audit_first"))["items"][0]["source"] == "web:portal"
        assert (await call("rests_on_source", source="web:portal"))["changed"] == 3
        held("audit_first and rests_on_source")

        uri = f"recant://{space}/nodes/{belief['node']}"
        assert len((await client.list_resource_templates()).resource_templates) == 3
        assert json.loads((await client.read_resource(uri)).contents[0].text)["status"] == "IN"
        await client.subscribe_resource(uri)
        held("resources")

        before = (await call("health"))["position"]
        preview = await call("preview_retraction", sources=["web:portal"])
        retracted = await call(
            "retract", sources=["web:portal"], reason="taken over", only_if_position=preview["position"]
        )
        assert retracted["by_kind"] == preview["by_kind"]
        held("preview_retraction and retract")
        assert await asyncio.wait_for(told.get(), 60) == uri
        held("resource subscription")
        assert [item["id"] for item in (await call("recalls"))["items"]] == [paid["node"]]
        held("recalls")
        changes = await call("recent_changes")
        assert len([change for change in changes["items"] if change.get("to") == "OUT"]) == 3
        held("recent_changes")
        assert len((await call("state_as_of", when=before, subject="iban"))["items"]) == 2
        held("state_as_of")
        assert (await call("list_retractions"))["items"][0]["id"] == retracted["retraction"]
        assert (await call("reinstate", retraction=retracted["retraction"], reason="a mistake"))["changed"] == 3
        assert len((await call("recall", subject="iban"))["items"]) == 2
        held("list_retractions and reinstate")
        refused = await client.call_tool("explain", {"space": space, "id": "none"})
        assert refused.is_error
        held("a refusal is the tool's, and is read")


asyncio.run(main(sys.argv[1]))
