"""Runs code in Toolgate's sandbox and lends it functions of this process. Python 3.9 or later, standard library only.

    from toolgate import run

    report = run("http://127.0.0.1:7878", "return addNumbers(1, 2)",
                 functions={"addNumbers": ({"params": {"a": "number", "b": "number"}}, lambda a, b: a + b)})
"""

import base64
import hashlib
import json
import os
import socket
import struct
from urllib.parse import urlsplit

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class ToolgateError(Exception):
    """There was no run: the service refused, or the socket closed. `error` is the service's own words, if any."""

    def __init__(self, message, error=None):
        super().__init__(message)
        self.error = error


def run(base, code, functions=None, on_log=None, key=None, **request):
    """Runs a program and gives its report.

    `functions` maps a name to a pair: its signature (`{"params": {...}, "description": "..."}`) and a callable.
    `on_log(line, stream)` hears lines as they are printed. Other arguments (`context`, `timeoutMs`, `maxHeapMB`,
    `profile`) are as for POST /v1/run. Leaving early, by an exception, ends the run at once.
    """
    functions = functions or {}
    signatures = {name: signature for name, (signature, _) in functions.items()}
    with Socket(base, "/v1/run/ws", key) as ws:
        ws.send({"code": code, "functions": signatures, **request})
        while True:
            message = ws.receive()
            if "log" in message:
                if on_log:
                    on_log(message["log"], message["stream"])
            elif "report" in message:
                return message["report"]
            elif "error" in message:
                raise ToolgateError(message["error"]["message"], message["error"])
            else:
                ws.send(answer(functions, message))


def answer(functions, message):
    try:
        _, function = functions[message["fn"]]
        return {"call": message["call"], "result": function(*message["args"])}
    except Exception as error:  # whatever the function raises belongs to the program that called it
        return {"call": message["call"], "error": {"message": str(error), "code": type(error).__name__}}


class Socket:
    """As much of RFC 6455 as a client of JSON messages needs."""

    def __init__(self, base, path, key=None):
        url = urlsplit(base)
        port = url.port or 80
        self.stream = socket.create_connection((url.hostname, port))
        self.file = self.stream.makefile("rb")
        nonce = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {url.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {nonce}",
            "Sec-WebSocket-Version: 13",
        ]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        self.stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = self.file.readline().decode().strip()
        headers = dict(line.split(": ", 1) for line in iter(lambda: self.file.readline().decode().strip(), ""))
        headers = {name.lower(): value for name, value in headers.items()}
        expected = base64.b64encode(hashlib.sha1((nonce + GUID).encode()).digest()).decode()
        if " 101 " not in status + " " or headers.get("sec-websocket-accept") != expected:
            body = self.file.read(int(headers.get("content-length", 0))).decode()
            self.close()
            raise ToolgateError(f"no socket: {status} {body}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.stream.close()

    def send(self, message):
        self.frame(TEXT, json.dumps(message).encode())

    def frame(self, kind, payload):
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.stream.sendall(head + mask + masked)

    def receive(self):
        """The next message; answers pings on the way."""
        text = b""
        while True:
            first, second = self.exactly(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self.exactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self.exactly(8))
            payload, kind = self.exactly(size), first & 0x0F
            if kind == PING:
                self.frame(PONG, payload)
            elif kind == CLOSE:
                raise ToolgateError("the socket closed before the report came")
            elif kind != PONG:
                text += payload
                if first & 0x80:
                    return json.loads(text)

    def exactly(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise ToolgateError("the socket closed before the report came")
        return data
