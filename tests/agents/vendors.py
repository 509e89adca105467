"""The APIs of three vendors of models, as far as their clients use them: what a scripted model is made of.

A scripted model is a subclass of `ScriptedModel` with methods `anthropic`, `openai` and, where it has it, `google`. Each gets the
body of a request and ends with a `say_…` method.
"""

import http.server
import json
import os


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if isinstance(block, dict))


def tool_results(body):
    """The results of tools in a request of Anthropic's API: the id of each call, and its text."""
    return [
        (block.get("tool_use_id", ""), text_of(block.get("content")))
        for message in body.get("messages", [])
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def tool_outputs(body):
    """The same of OpenAI's API: the texts."""
    kinds = ("function_call_output", "mcp_tool_call_output")
    outputs = [item.get("output") for item in body.get("input", []) if item.get("type") in kinds]
    return [output if isinstance(output, str) else text_of(output) or json.dumps(output) for output in outputs]


def openai_message(text):
    return {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


class ScriptedModel(http.server.BaseHTTPRequestHandler):
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

    def google(self, body):
        self.reply_json({})

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

    def say_anthropic(self, body, said):
        """Answers with one block: a text, or the use of a tool."""
        stop = "tool_use" if said["type"] == "tool_use" else "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
                   "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 9}}
        if not body.get("stream"):
            return self.reply_json({**message, "content": [said], "stop_reason": stop})
        if said["type"] == "text":
            opened = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": said["text"]}
        else:
            opened = {**said, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said["input"])}
        self.stream([
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": opened},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ])

    def say_openai(self, item):
        """Answers with one item: a message, or the call of a function."""
        usage = {"input_tokens": 9, "input_tokens_details": None, "output_tokens": 9, "output_tokens_details": None, "total_tokens": 18}
        self.stream([
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "output": [item], "usage": usage}},
        ])


def serve(model, port_file):
    """Serves a model for ever, and writes its port into a file."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), model)
    with open(port_file + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()
