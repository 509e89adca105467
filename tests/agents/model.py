"""A scripted model behind the APIs of three vendors: it calls one tool of Toolgate, then says what came back.

usage: model.py PORT_FILE LOG_FILE

It answers `POST /v1/messages` (Anthropic), `/v1/responses` (OpenAI) and `:streamGenerateContent` (Google) with server-sent
events. In the first turn it calls `call_tool_chain` with the program of the environment variable PROGRAM, by the name that the
client gave the tool; where the client shows no such tool it looks for it with the client's own tool search. In the turn after
the result it answers `RESULT: ` and the result. LOG_FILE gets one line of JSON a request.
"""

import http.server
import json
import os
import sys

PROGRAM = os.environ["PROGRAM"]
LOG = open(sys.argv[2], "a", buffering=1)


def named(names, ending):
    return next((name for name in names if name.endswith(ending)), None)


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if isinstance(block, dict))


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        self.reply_json({"data": [], "models": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if "count_tokens" in self.path or "countTokens" in self.path:
            return self.reply_json({"input_tokens": 10, "totalTokens": 10})
        if "/messages" in self.path:
            return self.anthropic(body)
        if "/responses" in self.path:
            return self.openai(body)
        if "enerateContent" in self.path:
            return self.google(body)
        self.reply_json({})

    def note(self, api, names, said, instructions=""):
        LOG.write(json.dumps({"api": api, "tools": names, "said": said, "instructions": instructions}) + "\n")

    def reply_json(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())

    def anthropic(self, body):
        names = [tool.get("name", "") for tool in body.get("tools", [])]
        results = [
            (block.get("tool_use_id", ""), text_of(block.get("content")))
            for message in body.get("messages", [])
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
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
        system = text_of(body.get("system"))
        messages = json.dumps(body.get("messages", []))
        shown = "yes" if "Backends:" in system or "Backends:" in messages else "no"
        self.note("anthropic", names, said, shown)
        if not body.get("stream"):
            return self.reply_json(self.message([said]))
        start = {**self.message([]), "stop_reason": None}
        if said["type"] == "text":
            opened = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": said["text"]}
        else:
            opened = {**said, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said["input"])}
        stop = "tool_use" if said["type"] == "tool_use" else "end_turn"
        self.stream([
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": opened},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ])

    def message(self, content):
        stop = "tool_use" if content and content[0]["type"] == "tool_use" else "end_turn"
        usage = {"input_tokens": 9, "output_tokens": 9}
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
                "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def openai(self, body):
        tools = []
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                tools += [(tool.get("name"), inner.get("name", "")) for inner in tool.get("tools", [])]
            else:
                tools.append((None, tool.get("name", tool.get("type", ""))))
        names = [f"{space}{name}" if space else name for space, name in tools]
        done = [item for item in body.get("input", []) if item.get("type") in ("function_call_output", "mcp_tool_call_output")]
        chain = next(((space, name) for space, name in tools if name.endswith("call_tool_chain")), None)
        if done:
            output = done[-1].get("output")
            text = output if isinstance(output, str) else text_of(output) or json.dumps(output)
            item = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": f"RESULT: {text}"}]}
        elif chain:
            arguments = json.dumps({"code": PROGRAM})
            item = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": chain[1], "arguments": arguments}
            if chain[0]:
                item["namespace"] = chain[0]
        else:
            item = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "there is no such tool"}]}
        self.note("openai", names, item)
        usage = {"input_tokens": 9, "input_tokens_details": None, "output_tokens": 9, "output_tokens_details": None, "total_tokens": 18}
        self.stream([
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "output": [item], "usage": usage}},
        ])

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


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
