"""A scripted model behind the APIs of three vendors: it calls one tool of Toolgate, then says what came back.

usage: model.py PORT_FILE LOG_FILE

It answers `POST /v1/messages` (Anthropic), `/v1/responses` (OpenAI) and `:streamGenerateContent` (Google) with server-sent
events. In the first turn it calls `call_tool_chain` with the program of the environment variable PROGRAM, by the name that the
client gave the tool; where the client shows no such tool it looks for it with the client's own tool search. In the turn after
the result it answers `RESULT: ` and the result. LOG_FILE gets one line of JSON a request.
"""

import json
import os
import sys

from vendors import ScriptedModel, openai_message, serve, tool_outputs, tool_results

PROGRAM = os.environ["PROGRAM"]
LOG = open(sys.argv[2], "a", buffering=1)


def named(names, ending):
    return next((name for name in names if name.endswith(ending)), None)


class Model(ScriptedModel):
    def note(self, api, names, said, instructions=""):
        LOG.write(json.dumps({"api": api, "tools": names, "said": said, "instructions": instructions}) + "\n")

    def anthropic(self, body):
        names = [tool.get("name", "") for tool in body.get("tools", [])]
        results = tool_results(body)
        done = [text for call, text in results if call.startswith("toolu_chain")]
        chain = named(names, "call_tool_chain")
        if done:
            said = {"type": "text", "text": f"RESULT: {done[-1]}"}
        elif chain:
            said = {"type": "tool_use", "id": "toolu_chain1", "name": chain, "input": {"code": PROGRAM}}
        elif "ToolSearch" in names and not results:
            query = {"query": "select:mcp__toolgate__call_tool_chain"}
            said = {"type": "tool_use", "id": "toolu_search1", "name": "ToolSearch", "input": query}
        else:
            said = {"type": "text", "text": "there is no such tool"}
        system = json.dumps(body.get("system"))
        messages = json.dumps(body.get("messages", []))
        shown = "yes" if "Backends:" in system or "Backends:" in messages else "no"
        self.note("anthropic", names, said, shown)
        self.say_anthropic(body, said)

    def openai(self, body):
        tools = []
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                tools += [(tool.get("name"), inner.get("name", "")) for inner in tool.get("tools", [])]
            else:
                tools.append((None, tool.get("name", tool.get("type", ""))))
        names = [f"{space}{name}" if space else name for space, name in tools]
        done = tool_outputs(body)
        chain = next(((space, name) for space, name in tools if name.endswith("call_tool_chain")), None)
        if done:
            item = openai_message(f"RESULT: {done[-1]}")
        elif chain:
            arguments = json.dumps({"code": PROGRAM})
            item = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": chain[1], "arguments": arguments}
            if chain[0]:
                item["namespace"] = chain[0]
        else:
            item = openai_message("there is no such tool")
        self.note("openai", names, item)
        self.say_openai(item)

    def google(self, body):
        names = [function.get("name", "") for tool in body.get("tools", []) for function in tool.get("functionDeclarations", [])]
        done = [
            part["functionResponse"].get("response")
            for content in body.get("contents", [])
            for part in content.get("parts", [])
            if "functionResponse" in part
        ]
        chain = named(names, "call_tool_chain")
        if done:
            part = {"text": f"RESULT: {json.dumps(done[-1])}"}
        elif chain:
            part = {"functionCall": {"name": chain, "args": {"code": PROGRAM}}}
        else:
            part = {"text": "there is no such tool"}
        self.note("google", names, part)
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18},
        }
        if "stream" in self.path:
            return self.stream([answer])
        self.reply_json(answer)


serve(Model, sys.argv[1])
