"""Five real MCP servers behind one gateway: what an agent gets from them, and what is left of them afterwards.

usage: chain.py TOOLGATE NODE FOLDER

FOLDER has the servers: node_modules of npm's, venv of Python's. Needs Linux, for its list of processes.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

TIMEOUT = 60
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "check", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

# Every server has its part, and the parts depend on each other.
PROGRAM = """
const note = `${folder}/note.txt`;
const [meeting, sum, log] = await Promise.all([
  time.convert_time({ source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" }),
  everything.get_sum({ a: 19, b: 23 }),
  git.git_log({ repo_path: repository, max_count: 1 }),
]);
const subject: string = log.match(/Message: (.*)/)[1];
await filesystem.write_file({ path: note, content: `${subject} at ${meeting.target.datetime.slice(11, 16)}\\n` });
const { content } = await filesystem.read_text_file({ path: note });
await memory.create_entities({
  entities: [{ name: "note", entityType: "file", observations: [content.trim()] }],
});
const [found, status, echo, weather] = await Promise.all([
  memory.search_nodes({ query: "Tea" }),
  git.git_status({ repo_path: repository }),
  everything.echo({ message: content.trim() }),
  everything.get_structured_content({ location: "New York" }),
]);
return {
  found: found.entities.map((entity) => entity.observations),
  difference: meeting.time_difference,
  clean: status.includes("nothing to commit"),
  kinds: [typeof sum, typeof weather.temperature],
  sum, echo,
};
"""

EXPECTED = {
    "found": [["Tea for two at 21:00"]],
    "difference": "+9.0h",
    "clean": True,
    "kinds": ["string", "number"],
    "sum": "The sum of 19 and 23 is 42.",
    "echo": "Echo: Tea for two at 21:00",
}

# Programs that write first and are wrong later: with a type check nothing is written. One for each server.
WRONG = {
    "everything": ("return (await everything.get_structured_content({ location: 'New York' })).temprature", "temperature"),
    "filesystem": ("return (await filesystem.get_file_info({ path: folder })).contents", "content"),
    "memory": ("return (await memory.read_graph({})).entities.map((it) => it.observation)", "observations"),
    "git": ("const log = git.git_log({ repo_path: repository }); return log.split('\\n')", "await"),
    "time": ("const z = 'UTC'; return time.convert_time({ source_timezone: z, time: '12:00', target_tz: z })", "target_timezone"),
}

# The document with the same in words: a program for each server, and what a run of it prints.
TRANSCRIPTS = pathlib.Path(__file__).parents[2] / "docs/TYPES.md"

# What a program can catch, of three servers in two languages.
FAILURES = """
const failures = await Promise.allSettled([
  filesystem.read_text_file({ path: `${folder}/missing.txt` }),
  git.git_status({ repo_path: "/nowhere" }),
  time.convert_time({ source_timezone: "Nowhere/Land", time: "12:00", target_timezone: "UTC" }),
  everything.get_sum(JSON.parse('{"a": "one", "b": 2}')),
]);
return failures.map(({ reason }) => [reason.name, reason.backend, reason.tool, reason.code, reason.message]);
"""

EXPECTED_FAILURES = [
    ["filesystem", "read_text_file", "TOOL_FAILED", "no such file"],
    ["git", "git_status", "TOOL_FAILED", "/nowhere"],
    ["time", "convert_time", "TOOL_FAILED", "Nowhere/Land"],
    ["everything", "get-sum", "INVALID_ARGUMENTS", "do not fit everything.get-sum"],
]


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, rule, holds, shown=""):
        self.passed += bool(holds)
        self.failed += not holds
        print(f"ok      {rule}" if holds else f"FAILED  {rule}\n        {shown}")

    def equal(self, rule, found, expected):
        self.check(rule, found == expected, f"got {json.dumps(found)}")


class Agent:
    """A client of `toolgate serve`, over its standard input and output."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        # Whatever goes wrong, nobody waits for ever.
        self.watchdog = threading.Timer(TIMEOUT, self.process.kill)
        self.watchdog.start()
        self.asked = 0

    def send(self, method, params):
        self.asked += 1
        message = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return self.asked

    def ask(self, method, params):
        sent = self.send(method, params)
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == sent:
                return message.get("result", message.get("error"))
        raise SystemExit(f"no answer to {method}")

    def call(self, tool, arguments, **params):
        return self.ask("tools/call", {"name": tool, "arguments": arguments, **params})

    def chain(self, code, **params):
        result = self.call("call_tool_chain", {"code": code}, **params)
        text = result["content"][0]["text"]
        return text if result.get("isError") else json.loads(text)

    def ended(self):
        self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        self.watchdog.cancel()
        return code


def processes():
    """Parent and birth of every process, so that a number that is used again is not mistaken."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = (int(fields[1]), fields[19])
        except OSError:
            pass
    return found


def descendants(root):
    everybody = processes()
    family, grown = {root}, True
    while grown:
        children = {pid for pid, (parent, _) in everybody.items() if parent in family}
        grown = not children <= family
        family |= children
    return {(pid, everybody[pid][1]) for pid in family - {root}}


def left_of(family):
    alive = {(pid, born) for pid, (_, born) in processes().items()}
    return sorted(pid for pid, _ in family & alive)


def repository(folder):
    path = folder / "repository"
    git = ["git", "-C", path, "-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "--quiet", "-b", "main", path], check=True)
    (path / "tea.txt").write_text("tea\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "Tea for two"], check=True)
    return path


def configuration(folder, node, tools):
    def npm(name, *arguments, **more):
        program = tools / "node_modules/@modelcontextprotocol" / f"server-{name}/dist/index.js"
        return {"command": node, "args": [str(program), *map(str, arguments)], **more}

    def python(name, *arguments):
        return {"command": str(tools / "venv/bin" / f"mcp-server-{name}"), "args": list(map(str, arguments))}

    (folder / "files").mkdir()
    servers = {
        "everything": npm("everything"),
        "filesystem": npm("filesystem", folder / "files"),
        "memory": npm("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
        "time": python("time", "--local-timezone", "UTC"),
        "git": python("git", "--repository", repository(folder)),
    }
    path = folder / "toolgate.json"
    path.write_text(json.dumps({"mcpServers": servers, "toolgate": {"cache": {"dir": str(folder / "cache")}}}))
    return path


def named(folder):
    """Programs know no paths: they are told."""
    places = {"folder": str(folder / "files"), "repository": str(folder / "repository")}
    return "".join(f"const {name} = {json.dumps(place)};\n" for name, place in places.items())


def list_is_right(checks, toolgate, config, environment):
    command = [toolgate, "list", "--json", "--config", config]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
    backends = {it["name"]: it for it in listed["backends"]}
    checks.equal("five backends are listed", sorted(backends), ["everything", "filesystem", "git", "memory", "time"])
    ready = all(it["state"] == "ready" and it["tools"] > 0 for it in backends.values())
    checks.check("all are ready and have tools", ready, json.dumps(listed))


def legacy_agent(checks, agent, folder):
    capabilities = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": MODERN[list(MODERN)[1]]}
    agent.ask("initialize", capabilities)
    agent.process.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    checks.equal("one program uses five servers", agent.chain(named(folder) + PROGRAM), EXPECTED)
    written = folder / "files/note.txt"
    checks.check("its file is there", written.exists() and written.read_text() == "Tea for two at 21:00\n")
    failures = agent.chain(named(folder) + FAILURES)
    for (name, *found), expected in zip(failures, EXPECTED_FAILURES):
        right = name == "ToolError" and found[:3] == expected[:3] and expected[3] in found[3]
        checks.check(f"a failure of {expected[0]} can be caught", right, json.dumps([name, *found]))
    unsound = agent.chain("await memory.read_graph({}); return everything.get_sum({ a: 1 })")
    checks.check("what can't work is not begun", "`b` is required" in unsound and "nothing was called" in unsound, unsound)
    image = agent.call("call_tool_chain", {"code": "return everything.get_tiny_image({})"})
    kinds = [block["type"] for block in image["content"]]
    checks.equal("a picture arrives as one", kinds[:3], ["text", "image", "text"])
    missing = agent.chain(named(folder) + "return filesystem.read_text_file({ path: `${folder}/missing.txt` })")
    checks.check("a failure that nobody catches is told", "no such file" in missing, missing)


def modern_agent(checks, agent):
    found = agent.chain("return (await memory.read_graph({})).entities.map((it) => it.name)", _meta=MODERN)
    checks.equal("what was stored outlives the gateway", found, ["note"])
    hits = agent.call("search_tools", {"task_description": "convert time between time zones"}, _meta=MODERN)
    checks.check("a tool is found by its task", "time.convert_time" in hits["content"][0]["text"], json.dumps(hits))
    agent.send("tools/call", {
        "name": "call_tool_chain",
        "arguments": {"code": "return everything.trigger_long_running_operation({ duration: 50, steps: 50 })"},
        "_meta": {**MODERN, "progressToken": 1},
    })
    heard = json.loads(agent.process.stdout.readline())
    checks.equal("a long call reports that it started", heard.get("method"), "notifications/progress")


def wrong_programs(checks, toolgate, config, environment, folder):
    """What is wrong is found before the first write, by the TypeScript that is installed beside the servers."""
    written = folder / "files/early.txt"
    for server, (wrong, told) in WRONG.items():
        code = named(folder) + "await filesystem.write_file({ path: `${folder}/early.txt`, content: 'x' });\n" + wrong
        command = [toolgate, "run", "-", "--json", "--config", config]
        ran = subprocess.run(command, input=code, capture_output=True, text=True, env=environment)
        report = json.loads(ran.stdout)
        refused = report.get("code") == "INVALID_CODE" and report["calls"] == [] and told in json.dumps(report)
        checks.check(f"a wrong program over {server} writes nothing", refused and not written.exists(), ran.stdout)


def with_time_for_types(config):
    """The configuration for a busy machine, where the checker takes longer to start than a run waits by default."""
    settings = json.loads(config.read_text())
    settings["toolgate"]["limits"] = {"type_check": "20s"}
    patient = config.with_name("types.json")
    patient.write_text(json.dumps(settings))
    return patient


def block(section, language):
    return section.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def transcripts(checks, toolgate, config, environment, folder):
    """The programs of the document print what it says, and write nothing. Its folders are others."""
    text = TRANSCRIPTS.read_text()
    before = {path: path.read_bytes() for path in (folder / "files").rglob("*") if path.is_file()}
    for server in WRONG:
        section = text.split(f"\n## {server}\n", 1)[1]
        program = block(section, "ts").replace("/tmp/five/repo", str(folder / "repository"))
        (folder / f"{server}.ts").write_text(program.replace("/tmp/five", str(folder / "files")))
        command = [toolgate, "run", f"{server}.ts", "--config", config]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
        printed = (ran.stdout + ran.stderr).strip()
        checks.check(f"the transcript over {server} is what a run prints", printed == block(section, "text").strip(), printed)
    after = {path: path.read_bytes() for path in (folder / "files").rglob("*") if path.is_file()}
    checks.check("and nothing is written", before == after, str(after))


def main(toolgate, node, tools, compiler):
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        (folder / "home").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        config = configuration(folder, node, pathlib.Path(tools))
        list_is_right(checks, toolgate, config, environment)
        with_types = {**environment, "TOOLGATE_TSC": compiler}
        wrong_programs(checks, toolgate, with_time_for_types(config), with_types, folder)
        transcripts(checks, toolgate, with_time_for_types(config), with_types, folder)

        agent = Agent([toolgate, "serve", "--config", config], environment)
        legacy_agent(checks, agent, folder)
        family = descendants(agent.process.pid)
        checks.check("every server is a process of its own", len(family) >= 5)
        checks.equal("it ends well when its client is gone", agent.ended(), 0)
        checks.equal("and leaves no process behind", left_of(family), [])

        agent = Agent([toolgate, "serve", "--config", config], environment)
        modern_agent(checks, agent)
        family = descendants(agent.process.pid)
        agent.process.send_signal(signal.SIGTERM)
        checks.equal("it ends well when told to, in the middle of a call", agent.process.wait(TIMEOUT), 0)
        agent.ended()
        checks.equal("and leaves no process behind then", left_of(family), [])
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
