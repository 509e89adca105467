"""Claude Code and Codex with a model that tries to approve its own payment; see `run`.

usage: approvals.py FOLDER_OF_TOOLGATE NODE TOOLS

Each client runs twice: with somebody who answers its forms (a hook of Claude Code, the client program of Codex's app server), and
without. The person is asked once, the model gets nothing approved, and the payment is made exactly once, after the approval.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

binaries, node, tools = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "CERT" in name}
passed = failed = 0
homes = []

# What answers a form in Claude Code: it notes the question and approves.
PERSON = """import json, sys
asked = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(asked) + "\\n")
answer = {"hookEventName": "Elicitation", "action": "accept", "content": {"decision": "approve"}}
print(json.dumps({"hookSpecificOutput": answer}))
"""


def check(what, is_true):
    global passed, failed
    passed, failed = passed + bool(is_true), failed + (not is_true)
    print(f"{'ok' if is_true else 'FAILED'}: {what}"[: 300 if is_true else 4000], flush=True)


def lines(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


class Home:
    """An empty home with Toolgate, a bank that is asked about, and a scripted model."""

    def __init__(self, client):
        self.path = tempfile.mkdtemp(prefix="approvals-")
        homes.append(self)
        self.paid, self.asked = os.path.join(self.path, "paid"), os.path.join(self.path, "asked")
        self.project = os.path.join(self.path, "project")
        os.makedirs(self.project)
        os.makedirs(os.path.join(self.path, ".config/toolgate"))
        path = [binaries, os.path.dirname(node), os.path.join(tools, "node_modules/.bin"), "/usr/local/bin", "/usr/bin", "/bin"]
        self.environment = {**kept, "HOME": self.path, "PATH": os.pathsep.join(path), "LANG": "C.UTF-8", "NO_COLOR": "1"}
        config = {
            "mcpServers": {"bank": {"command": sys.executable, "args": [os.path.join(here, "bank.py"), self.paid]}},
            "toolgate": {"policy": [{"tool": "bank.pay", "when": "args.amount > 100", "do": "ask", "reason": "Large transfers are checked."}]},
        }
        with open(os.path.join(self.path, ".config/toolgate/toolgate.json"), "w") as file:
            json.dump(config, file)
        port_file, self.log = os.path.join(self.path, "port"), os.path.join(self.path, "model.log")
        # The shell of Codex has a PATH of its own.
        toolgate = os.path.join(binaries, "toolgate") if client == "codex" else "toolgate"
        self.model = subprocess.Popen([sys.executable, os.path.join(here, "reaching.py"), port_file, self.log, toolgate])
        while not os.path.exists(port_file):
            time.sleep(0.05)
        with open(port_file) as file:
            self.address = f"http://127.0.0.1:{file.read()}"
        self.environment |= {
            "ANTHROPIC_BASE_URL": self.address, "ANTHROPIC_API_KEY": "scripted", "OPENAI_API_KEY": "scripted",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        self.run(f"toolgate connect {client}")

    def run(self, line, timeout=240):
        done = subprocess.run(["bash", "-c", line], cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        if done.returncode != 0:
            print(f"{line}: exit code {done.returncode}\n{done.stdout[-2000:]}")
        return done.stdout

    def result(self):
        """What the model said last, and all that it called."""
        requests = lines(self.log)
        results = max((request["results"] for request in requests), key=len, default=[])
        return results, [request for request in requests if request["tools"]]

    def close(self):
        self.model.kill()
        self.model.wait()
        homes.remove(self)
        shutil.rmtree(self.path, ignore_errors=True)


def tried_everything(name, home):
    """Without a form: the model tried all tools, and nothing was paid. A person approves at the command line, and it is paid once."""
    results, requests = home.result()
    seen = set(requests[-1]["tools"]) if requests else set()
    check(f"{name}: the run is paused, and says so: {results[:1]}", bool(results) and "is paused" in results[0])
    check(f"{name}: the model called each of the {len(seen)} tools of Toolgate twice, then the shell: {len(results)} results", len(seen) >= 5 and len(results) == 2 * len(seen) + 2)
    called = [request["call"] for request in requests if request["call"]["type"] in ("tool_use", "function_call")]
    shell = [call for call in called if "toolgate approve" in json.dumps(call)]
    check(f"{name}: the shell did not approve it: {json.dumps(shell)[:200]} {results[-1:]}", len(shell) == 1 and "approved" not in results[-1])
    check(f"{name}: nothing was paid: {lines(home.paid)}", lines(home.paid) == [])
    pending = json.loads(home.run("toolgate pending --json") or "[]")
    check(f"{name}: a person is asked once: {json.dumps(pending)[:600]}", len(pending) == 1)
    if not pending:
        return
    run, call = pending[0]["runId"], pending[0]["callId"]
    home.run(f"toolgate approve {run} {call}")
    service = subprocess.Popen(["toolgate", "serve", "--http", f"unix:{home.path}/socket"], cwd=home.project, env=home.environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while '"done"' not in home.run(f"toolgate runs show {run} --json") and time.monotonic() < end:
            time.sleep(0.3)
    finally:
        service.terminate()
        service.wait()
    check(f"{name}: after the approval it is paid, once: {lines(home.paid)}", lines(home.paid) == [{"to": "ann", "amount": 500}])


def answered_by_form(name, home):
    results, _ = home.result()
    check(f"{name}: the person is asked once: {lines(home.asked)}", len(lines(home.asked)) == 1)
    check(f"{name}: the question shows the call", "bank.pay" in json.dumps(lines(home.asked)) and "500" in json.dumps(lines(home.asked)))
    check(f"{name}: it is paid once: {lines(home.paid)}", lines(home.paid) == [{"to": "ann", "amount": 500}])
    check(f"{name}: the model has the answer: {results}", results and "paid 500 to ann" in results[0])


def claude(with_person):
    home = Home("claude-code")
    # The shell is the model's, but for what docs/POLICY.md says to deny.
    settings = {"permissions": {"deny": ["Bash(toolgate approve:*)", "Bash(toolgate policy:*)", "Bash(curl:*)"]}}
    if with_person:
        with open(os.path.join(home.path, "person.py"), "w") as file:
            file.write(PERSON)
        hook = {"type": "command", "command": f"{sys.executable} {home.path}/person.py {home.asked}"}
        settings["hooks"] = {"Elicitation": [{"hooks": [hook]}]}
    os.makedirs(os.path.join(home.path, ".claude"), exist_ok=True)
    with open(os.path.join(home.path, ".claude/settings.json"), "w") as file:
        json.dump(settings, file)
    said = home.run("claude -p 'Pay Ann.' --allowedTools mcp__toolgate Bash --model scripted")
    name = "Claude Code, " + ("a person answers forms" if with_person else "nobody answers forms")
    check(f"{name}: it ends: {said[-300:]}", "RESULT" in said)
    (answered_by_form if with_person else tried_everything)(name, home)
    home.close()


def provider(home):
    return f'model_providers.scripted={{name="scripted",base_url="{home.address}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'


def codex():
    home = Home("codex")
    said = home.run(f"codex exec --skip-git-repo-check -c model_provider=scripted -c '{provider(home)}' -m scripted 'Pay Ann.'")
    name = "Codex, nobody answers forms"
    check(f"{name}: it ends: {said[-300:]}", "RESULT" in said)
    tried_everything(name, home)
    home.close()


def codex_with_forms():
    """Codex's app server, whose client shows forms."""
    home, name = Home("codex"), "Codex, a person answers forms"
    server = subprocess.Popen(["codex", "app-server", "-c", "model_provider=scripted", "-c", provider(home)], cwd=home.project,
                              env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    timer = __import__("threading").Timer(240, server.kill)
    timer.start()

    def send(**message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()

    send(id=1, method="initialize", params={"clientInfo": {"name": "person", "version": "1"}, "capabilities": {"experimentalApi": True}})
    for line in server.stdout:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if message.get("id") == 1 and "result" in message:
            send(method="initialized")
            # What Codex itself asks about: nothing, so that only Toolgate's question is left. A policy of `never` would decline it.
            granular = {"granular": {"mcp_elicitations": True, "rules": False, "sandbox_approval": False}}
            send(id=2, method="thread/start", params={"model": "scripted", "cwd": home.project, "approvalPolicy": granular})
        elif message.get("id") == 2:
            if "error" in message:
                print(message)
                break
            send(id=3, method="turn/start", params={"threadId": message["result"]["thread"]["id"], "input": [{"type": "text", "text": "Pay Ann."}]})
        elif method == "mcpServer/elicitation/request":
            is_codex = "codex_approval_kind" in json.dumps(params)
            if is_codex:
                # Codex's own question whether the tool may be called at all.
                send(id=message["id"], result={"action": "accept", "content": {}})
                continue
            with open(home.asked, "a") as file:
                file.write(json.dumps(params) + "\n")
            send(id=message["id"], result={"action": "accept", "content": {"decision": "approve"}})
        elif method == "turn/completed":
            break
        elif "id" in message and method:
            send(id=message["id"], error={"code": -32601, "message": "not here"})
    timer.cancel()
    server.kill()
    server.wait()
    answered_by_form(name, home)
    home.close()


try:
    claude(False)
    claude(True)
    codex()
    codex_with_forms()
finally:
    for home in list(homes):
        home.close()
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
