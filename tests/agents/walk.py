"""Walks the newcomer's path in an empty home and prints the transcript; see `run`.

usage: walk.py FOLDER_OF_TOOLGATE NODE TOOLS
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
home = tempfile.mkdtemp(prefix="newcomer-")
project = os.path.join(home, "project")
notes = os.path.join(home, "notes")
for folder in (project, notes):
    os.mkdir(folder)
with open(os.path.join(notes, "todo.txt"), "w") as file:
    file.write("buy milk\n")

# Each server is started through a script that notes it, in front of the real one on the search path.
noting, started = os.path.join(home, "noting"), os.path.join(home, "started")
os.mkdir(noting)
# Nothing of the caller's own settings, but for what reaches the network.
kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "CERT" in name or name == "NODE_EXTRA_CA_CERTS"}
path = [binaries, os.path.dirname(node), *(os.path.join(tools, part) for part in ("node_modules/.bin", "venv/bin", "venv1/bin")), "/usr/local/bin", "/usr/bin", "/bin"]
for folder in path[1:]:
    for name in os.listdir(folder) if tools in folder and os.path.isdir(folder) else []:
        if name.startswith("mcp-server-") or name == "playwright-mcp":
            with open(os.path.join(noting, name), "w") as file:
                file.write(f'#!/bin/sh\necho {name} >>"{started}"\nexec "{folder}/{name}" "$@"\n')
            os.chmod(os.path.join(noting, name), 0o755)
path.insert(1, noting)
environment = {**kept, "HOME": home, "PATH": os.pathsep.join(path), "LANG": "C.UTF-8", "NO_COLOR": "1"}

passed = failed = 0


def shown(text):
    for real, name in ((project, "~/project"), (home, "~"), (binaries + "/", "")):
        text = text.replace(real, name)
    return text


def check(what, is_true):
    global passed, failed
    passed, failed = passed + bool(is_true), failed + (not is_true)
    if not is_true:
        print(f"FAILED: {what}")


def run(line, *, code=0, timeout=300, label=None, lines=None, **more):
    """Runs a command line, prints it and what it says, and gives that back."""
    done = subprocess.run(["bash", "-c", line], cwd=project, env={**environment, **more}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    said = shown(done.stdout).rstrip()
    cut = said.splitlines()
    if lines is not None:
        cut = [line for line in cut if any(word in line for word in lines)]
    print(f"$ {label or shown(line)}", *(line[:160] for line in cut), sep="\n", flush=True)
    check(f"{line}: exit code {done.returncode}, expected {code}\n{said}", done.returncode == code)
    return said


# What a newcomer has: a project, and servers in Claude Code.
subprocess.run("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 'First commit'", shell=True, cwd=project, env=environment, check=True)
own = {
    "everything": {"command": "mcp-server-everything"},
    "files": {"command": "mcp-server-filesystem", "args": [notes]},
    "memory": {"command": "mcp-server-memory", "env": {"MEMORY_FILE_PATH": os.path.join(home, "memory.json")}},
    "thinking": {"command": "mcp-server-sequential-thinking"},
    "time": {"command": "mcp-server-time"},
}
with open(os.path.join(home, ".claude.json"), "w") as file:
    json.dump({"mcpServers": own}, file)
os.mkdir(os.path.join(home, ".gemini"))
with open(os.path.join(home, ".gemini/settings.json"), "w") as file:
    json.dump({"security": {"auth": {"selectedType": "gemini-api-key"}}}, file)

run("toolgate import")
for line in (
    f"toolgate add git -- mcp-server-git --repository {project}",
    f"toolgate add sqlite -- mcp-server-sqlite --db-path {home}/shop.db",
    "toolgate add calculator -- mcp-server-calculator",
    "toolgate add fetch -- mcp-server-fetch",
    "toolgate add browser -- playwright-mcp --headless",
):
    run(line, lines=["wrote"])
listed = run("toolgate list")
check("ten servers are up", listed.count(" ready ") == 10)
tools_behind = sum(int(row.split()[2]) for row in listed.splitlines() if " ready " in row)
found = run("toolgate search convert a time to another time zone --limit 1")
check("the tool is found", "convert_time" in found)
run("toolgate connect claude-code --take-over")
run("toolgate connect codex")
run("toolgate connect gemini")

# What is started from here on, an agent needed.
os.rename(started, started + ".before")
program = f"""const [zone, todo, log, sum] = await Promise.all([
  time.convert_time({{ source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" }}),
  files.read_text_file({{ path: "{notes}/todo.txt" }}),
  git.git_log({{ repo_path: "{project}", max_count: 1 }}),
  calculator.calculate({{ expression: "6 * 7" }}),
]);
const [{{ n }}] = [await sqlite.read_query({{ query: "SELECT 1 AS n" }})].flat().map((rows) => (typeof rows === "string" ? {{ n: /1/.test(rows) }} : rows));
return {{ tokyo: zone.time_difference, todo: todo.content ?? todo, commits: JSON.stringify(log).includes("First commit"), sum: String(sum.result ?? sum), n: Boolean(n) }};"""
port_file, log_file = os.path.join(home, "port"), os.path.join(home, "model.log")
model = subprocess.Popen([sys.executable, os.path.join(here, "model.py"), port_file, log_file], env={**os.environ, "PROGRAM": program})
try:
    while not os.path.exists(port_file):
        time.sleep(0.05)
    with open(port_file) as file:
        port = file.read()
    address = f"http://127.0.0.1:{port}"
    question = "What is the time difference to Tokyo, what must I buy, and is there a first commit?"
    provider = f'model_providers.scripted={{name="scripted",base_url="{address}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    agents = {
        "claude": f"claude -p '{question}' --allowedTools mcp__toolgate --model scripted",
        "codex": f"codex exec --skip-git-repo-check -c model_provider=scripted -c '{provider}' -m scripted '{question}'",
        "gemini": f"gemini -m gemini-2.5-flash -p '{question}' --approval-mode yolo --skip-trust",
    }
    keys = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "scripted", "OPENAI_API_KEY": "scripted", "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": address, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    for agent, line in agents.items():
        said = run(line, label=f"{line.split(' -')[0]} … '{question}'", lines=["RESULT", "tokyo", "todo", "buy", "commits", "sum"], **keys)
        for part in ("+9.0h", "buy milk", "commits", "42"):
            check(f"{agent} has {part}: {said}", part in said)
    with open(log_file) as file:
        requests = [json.loads(line) for line in file]
    for api in ("anthropic", "openai", "google"):
        names = {name for request in requests if request["api"] == api for name in request["tools"] if "toolgate" in name}
        check(f"{api}: {sorted(names)}", any(name.endswith("query_tools") for name in names))
        if api == "anthropic":
            print(f"tools of Toolgate: {len(names)}, behind it: {tools_behind}")
            check(f"a handful of tools instead of {tools_behind}: {sorted(names)}", len(names) == 10 and tools_behind == 85)
    check("Claude Code shows the model the backends", any(request["instructions"] == "yes" for request in requests))
finally:
    model.kill()
with open(started) as file:
    needed = set(file.read().split())
used = {"mcp-server-time", "mcp-server-filesystem", "mcp-server-git", "mcp-server-calculator", "mcp-server-sqlite"}
check(f"only the servers that the program names are started: {sorted(needed)}", needed == used)
run("toolgate disconnect claude-code")
with open(os.path.join(home, ".claude.json")) as file:
    servers = json.load(file)["mcpServers"]
check("the client has its servers again", set(servers) == set(own))
shutil.rmtree(home, ignore_errors=True)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
