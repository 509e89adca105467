"""README's path with an installed package: an agent over standard input, `toolgate ui` in another process, a write approved
there, and the audit log. What is typed and written is what README says. `newcomer.py COMMAND FOLDER README`."""

import json, os, pathlib, re, subprocess, sys, urllib.request

command, folder, readme = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()
home = folder / "home"
env = {"PATH": f"{pathlib.Path(command).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
config = next(block for block in re.findall(r"```json\n(.*?)```", readme, re.S) if "demo.create_note" in block)
json.loads(config)
(home / ".config/toolgate").mkdir(parents=True, exist_ok=True)
(home / ".config/toolgate/toolgate.json").write_text(config)


def start(*arguments):
    return subprocess.Popen([command, *arguments], cwd=home, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


agent = start("serve")
ids = iter(range(1, 1000))


def ask(method, params):
    number = next(ids)
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    agent.stdin.flush()
    for line in agent.stdout:
        answer = json.loads(line)
        if answer.get("id") == number and "method" not in answer:
            return json.dumps(answer["result"])
    sys.exit("the gateway of the agent ended")


def call(name, **arguments):
    return ask("tools/call", {"name": name, "arguments": arguments})


ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "newcomer", "version": "1"}})
code = "await demo.create_note({ name: 'newcomer', text: 'from an agent' }); return (await demo.list_notes({})).notes ?? 'listed'"
paused = call("call_tool_chain", code=code)
assert "is paused" in paused, paused
run = re.search(r"[0-9a-f]{32}", paused)[0]

ui = start("ui", "--no-open")
link = next(line for line in ui.stdout if "#link=" in line).strip()
base, token = link.split("/#link=")
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
headers = {"content-type": "application/json", "origin": base}


def http(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with browser.open(urllib.request.Request(base + path, data=data, headers=headers, method=method), timeout=60) as reply:
        return json.loads(reply.read())


headers["x-toolgate-csrf"] = http("POST", "/page/session", {"link": token})["csrf"]
waiting = http("GET", "/v1/pending")["runs"]
assert [it["runId"] for it in waiting] == [run], waiting
asked = waiting[0]["pending"][0]
assert (asked["backend"], asked["tool"], asked["arguments"]["name"]) == ("demo", "create_note", "newcomer"), asked
http("POST", f"/v1/runs/{run}/decisions", {"decisions": [{"callId": asked["callId"], "decision": "approve"}]})
while http("GET", f"/v1/runs/{run}?wait=20")["status"] != "done":
    pass
listed = {it["runId"]: it["status"] for it in http("GET", "/v1/runs")["runs"]}
assert listed == {run: "done"}, listed
told = call("run_status", run_id=run)
assert "paused" not in told and '"isError": true' not in told, told
agent.stdin.close()
assert agent.wait(60) == 0
ui.terminate()
ui.wait(60)
shown = subprocess.run([command, "audit", "show", "--run", run], cwd=home, env=env, text=True, capture_output=True, timeout=60)
assert shown.returncode == 0 and "create_note" in shown.stdout and "policy[0]" in shown.stdout, shown
verified = subprocess.run([command, "audit", "verify"], cwd=home, env=env, text=True, capture_output=True, timeout=60)
assert verified.returncode == 0, verified
print("README's path ... ok (installed, an agent's write approved from `toolgate ui`, found in the audit log)")
