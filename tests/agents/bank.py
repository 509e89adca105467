"""A bank with one tool, over stdio: `pay` notes each payment as a line of a file.

usage: bank.py FILE
"""

import json
import sys

TOOL = {
    "name": "pay",
    "description": "Pays an amount.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["to", "amount"],
    },
}


def answer(method, params):
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "bank", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        arguments = params["arguments"]
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(arguments) + "\n")
        return {"content": [{"type": "text", "text": f"paid {arguments['amount']} to {arguments['to']}"}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    reply |= {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    print(json.dumps(reply), flush=True)
