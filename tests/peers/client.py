"""The official Python SDK as a client: every feature once, in the era that is asked for.

usage: client.py (auto|legacy) (URL | COMMAND ARGUMENT...)
"""

import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import PromptReference

TIMEOUT = 20
MODERN = "2026-07-28"


class Checks:
    def __init__(self, label):
        self.label, self.passed, self.failed = label, 0, 0

    def check(self, rule, holds):
        self.passed += bool(holds)
        self.failed += not holds
        if not holds:
            print(f"  failed: {self.label}: {rule}")


async def visit(client, mode, checks):
    version = client.protocol_version
    checks.check("the era is the one asked for", (version == MODERN) == (mode == "auto"))

    tools = [tool.name for tool in (await client.list_tools()).tools]
    checks.check("tools are listed", "test_simple_text" in tools and len(tools) == len(set(tools)))

    result = await client.call_tool("test_simple_text", {})
    checks.check("a tool answers", result.content[0].text.startswith("This is a simple text") and not result.is_error)
    result = await client.call_tool("test_multiple_content_types", {})
    checks.check("all content comes", [block.type for block in result.content] == ["text", "image", "resource"])
    result = await client.call_tool("test_error_handling", {})
    checks.check("a tool may fail", result.is_error)

    news = []

    async def hear(progress, total, message):
        news.append((progress, total))

    await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
    checks.check("progress is heard", news == [(0, 100), (50, 100), (100, 100)])

    many = await asyncio.gather(*(client.call_tool("test_simple_text", {}) for _ in range(20)))
    checks.check("many calls at once", all(not result.is_error for result in many))

    contents = (await client.read_resource("test://static-text")).contents
    checks.check("a resource is read", contents[0].text.startswith("This is the content"))
    prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    checks.check("a prompt is filled in", "arg1='a', arg2='b'" in prompt.messages[0].content.text)
    reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    completion = await client.complete(reference, {"name": "arg1", "value": "par"})
    checks.check("an argument is completed", completion.completion.values == ["paris", "park", "party"])

    try:
        await client.call_tool("no_such_tool", {})
        checks.check("an unknown tool is an error", False)
    except MCPError as error:
        checks.check("an unknown tool is an error", error.code == -32602)


async def hear_of_change(client, legacy, checks):
    if client.protocol_version == MODERN:
        async with client.listen(tools_list_changed=True) as subscription:
            await client.call_tool("test_trigger_tool_change", {})
            async for _ in subscription:
                checks.check("a change is heard", True)
                return
        checks.check("a change is heard", False)
        return
    await client.call_tool("test_trigger_tool_change", {})
    await legacy.wait()
    checks.check("a change is heard", True)


async def main(mode, target):
    server = target[0] if target[0].startswith("http") else StdioServerParameters(command=target[0], args=target[1:])
    checks = Checks(f"python {mode} {'http' if isinstance(server, str) else 'stdio'}")
    changed = asyncio.Event()

    async def overhear(message):
        if "tools/list_changed" in repr(message) or "ToolListChanged" in type(message).__name__:
            changed.set()

    try:
        async with asyncio.timeout(TIMEOUT):
            async with Client(server, mode=mode, message_handler=overhear) as client:
                await visit(client, mode, checks)
                await hear_of_change(client, changed, checks)
    except Exception as error:  # noqa: BLE001: whatever it is, it is a failed check
        checks.check(f"no surprise: {error!r}", False)
    print(f"{checks.label}: {checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed else 0)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
