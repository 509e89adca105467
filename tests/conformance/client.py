#!/usr/bin/env python3
"""The real `toolgate` command as the client of the conformance suite.

usage: client.py TOOLGATE URL

Does what a person does in an empty home: lists the server, runs a program that calls every tool twice, and logs in whenever Toolgate asks
for it, at most three times. The browser is a plain HTTP client that follows redirects. Exit code 0 if every call succeeded.

The tools of the scenarios of `auth/` need no arguments. In the others, the calls are those that the scenario names, else one of each tool with
arguments that fit its schema, and a call that fails is no failure of the client: some scenarios have tools that must not be called.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

MAX_LOGINS = 3
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"


class User:
    def __init__(self, program, url):
        self.program, self.logins = program, 0
        self.home = tempfile.TemporaryDirectory()
        self.context = context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
        auth = {"clientMetadata": CLIENT_METADATA}
        if "client_id" in context:
            auth["clientId"] = context["client_id"]
        if "client_secret" in context:
            auth["clientSecret"] = context["client_secret"]
        if "client-credentials" in os.environ.get("MCP_CONFORMANCE_SCENARIO", ""):
            auth["grant"] = "client_credentials"
        config = {
            "mcpServers": {"server": {"url": url, "auth": auth}},
            "toolgate": {"cache": {"enabled": False}, "limits": {"start_timeout": "60s"}},
        }
        folder = os.path.join(self.home.name, ".config", "toolgate")
        os.makedirs(folder)
        with open(os.path.join(folder, "toolgate.json"), "w") as file:
            json.dump(config, file)
        self.env = {"HOME": self.home.name, "PATH": os.environ["PATH"], "TOOLGATE_LOG": "debug"}
        # With a session bus, logins are in its keyring.
        for name in ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"]:
            if name in os.environ:
                self.env[name] = os.environ[name]

    def start(self, *args):
        pipe = subprocess.PIPE
        return subprocess.Popen([self.program, *args], env=self.env, cwd=self.home.name, text=True,
                                stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

    def run(self, *args):
        process = self.start(*args)
        stdout, stderr = process.communicate(timeout=60)
        print("$ toolgate", *args, "->", process.returncode, stdout[:2000], stderr[-2000:], sep="\n", file=sys.stderr)
        return process.returncode, stdout, stderr

    def log_in(self, words):
        """Runs a login that Toolgate named; false if there were too many, or it failed."""
        self.logins += 1
        if self.logins > MAX_LOGINS:
            return False
        process = self.start(*words)
        url = process.stdout.readline().strip()
        if url:
            try:
                urllib.request.urlopen(url, timeout=20).read()
            except urllib.error.URLError as error:
                print("browser:", error, file=sys.stderr)
                process.terminate()
        _, stderr = process.communicate(timeout=60)
        print("$ toolgate", *words, "->", process.returncode, stderr[-2000:], sep="\n", file=sys.stderr)
        return process.returncode == 0

    def until_logged_in(self, *args):
        """Runs a command, and again after each login that it asks for."""
        while True:
            code, stdout, stderr = self.run(*args)
            # The whole command is in backticks; a table may show its beginning only.
            named = re.findall(r"`toolgate (login server[^`\n]*)`", stdout + stderr)
            if code == 0 or not named or not self.log_in(named[-1].split()):
                return code, stdout


PROGRAM = """
const names = Object.keys(server);
for (const name of [...names, ...names]) await server[name]({});
return names;
"""

PROGRAM_WITH_ARGUMENTS = """
const draw = (schema) => {
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'number': case 'integer': return schema.minimum ?? 5;
    case 'boolean': return true;
    case 'array': return [];
    case 'null': return null;
    case 'object': return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, one]) => [key, draw(one)]));
    default: return ' text with ä and spaces ';
  }
};
const names = Object.keys(server);
const drawn = () => names.map((name) => ({ name, arguments: draw({ type: 'object', ...__getToolInterface(`server.${name}`).input_schema }) }));
for (const call of context.toolCalls ?? drawn()) {
  // An argument that is null is left out: schemas that do not allow null are held to.
  const given = Object.fromEntries(Object.entries(call.arguments).filter(([, value]) => value !== null));
  await __backends.server[call.name](given).catch((error) => console.log(call.name, error.message));
}
return names;
"""


def main():
    user = User(sys.argv[1], sys.argv[2])
    program = os.path.join(user.home.name, "all.ts")
    is_login = os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/")
    with open(program, "w") as file:
        file.write(PROGRAM if is_login else PROGRAM_WITH_ARGUMENTS)
    if user.until_logged_in("list")[0] != 0:
        return 1
    given = os.path.join(user.home.name, "context.json")
    with open(given, "w") as file:
        json.dump(user.context, file)
    code, names = user.until_logged_in("run", program, "--context", given)
    return 0 if code == 0 and (json.loads(names) or not is_login) else 1


if __name__ == "__main__":
    sys.exit(main())
