"""Types learned from five results of a tool, held against the 200 results that follow, on five real servers.

usage: learned.py TOOLGATE LEARNED_FIT NODE FOLDER TSC

FOLDER has the servers, as chain.py needs them. Goals: 99% of the later results fit, and every renamed key is noticed: by the
type itself, and by `toolgate check`, whose findings about programs that read the renamed keys are counted.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from chain import Checks, configuration, named

LESSONS = 5
RESULTS = 205
# The type check tells of at most 20 findings of a program.
KEYS_OF_A_PROGRAM = 15
ACCEPTED = 0.99

# One program for each server. `each` makes a tool's calls one after the other, so that the order of results is fixed.
HEAD = """
const RESULTS = @RESULTS@;
async function each(call) {
  const results = [];
  for (let i = 0; i < RESULTS; i++) results.push(await call(i));
  return results;
}
const pick = (list, i) => list[(i * 7 + 3) % list.length];
"""

PROGRAMS = {
    "everything": """
const places = ["New York", "Chicago", "Los Angeles"];
return {
  get_structured_content: await each((i) => everything.get_structured_content({ location: pick(places, i) })),
  get_sum: await each((i) => everything.get_sum({ a: i, b: i * i })),
  echo: await each((i) => everything.echo({ message: "x".repeat(i) })),
};
""",
    "filesystem": """
const file = (i) => `${folder}/part${i % 9}/file${i}.txt`;
for (let i = 0; i < 9; i++) await filesystem.create_directory({ path: `${folder}/part${i}` });
return {
  write_file: await each((i) => filesystem.write_file({ path: file(i), content: "line\\n".repeat(i % 50) })),
  read_text_file: await each((i) => filesystem.read_text_file({ path: file(i) })),
  get_file_info: await each((i) => filesystem.get_file_info({ path: i % 4 ? file(i) : `${folder}/part${i % 9}` })),
  list_directory: await each((i) => filesystem.list_directory({ path: i % 10 ? `${folder}/part${i % 9}` : folder })),
};
""",
    "memory": """
const entity = (i) => ({ name: `entity ${i}`, entityType: pick(["person", "place"], i), observations: Array(i % 4).fill("seen") });
return {
  create_entities: await each((i) => memory.create_entities({ entities: [entity(i)] })),
  create_relations: await each((i) =>
    memory.create_relations({ relations: [{ from: `entity ${i}`, to: `entity ${(i * 3) % RESULTS}`, relationType: "knows" }] })),
  search_nodes: await each((i) => memory.search_nodes({ query: `entity ${i}` })),
  open_nodes: await each((i) => memory.open_nodes({ names: [`entity ${i}`, `entity ${i + 1}`] })),
};
""",
    "git": """
return {
  git_log: await each((i) => git.git_log({ repo_path: repository, max_count: 1 + (i % 5) })),
  git_status: await each(() => git.git_status({ repo_path: repository })),
  git_branch: await each((i) => git.git_branch({ repo_path: repository, branch_type: pick(["local", "all"], i) })),
};
""",
    "time": """
const zones = ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York", "Australia/Adelaide"];
const clock = (i) => `${String(i % 24).padStart(2, "0")}:${String((i * 13) % 60).padStart(2, "0")}`;
return {
  get_current_time: await each((i) => time.get_current_time({ timezone: pick(zones, i) })),
  convert_time: await each((i) =>
    time.convert_time({ source_timezone: pick(zones, i), time: clock(i), target_timezone: pick(zones, i + 1) })),
};
""",
}


def results_of(server, program, toolgate, config, environment, folder, count=RESULTS):
    command = [toolgate, "run", "-", "--json", "--timeout", "120s", "--max-output", "10000000", "--config", config]
    code = named(folder) + HEAD.replace("@RESULTS@", str(count)) + program
    ran = subprocess.run(command, input=code, capture_output=True, text=True, env=environment)
    report = json.loads(ran.stdout)
    if "value" not in report:
        raise SystemExit(f"{server}: {ran.stdout[:2000]} {ran.stderr[:2000]}")
    for tool, results in report["value"].items():
        for result in results:
            yield {"tool": f"{server}.{tool}", "result": result}


def keys_of(value, path="result"):
    """The keys of a result and of what is in it, each as the expression of its object and its name."""
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item, f"{path}[0]")
    elif isinstance(value, dict):
        for key, field in value.items():
            if re.fullmatch(r"[A-Za-z_]\w*", key):
                yield path, key
                yield from keys_of(field, f"{path}.{key}")


def noticed(toolgate, config, environment, tool, keys):
    """How many of the keys `toolgate check` tells of, where a program reads each of them by another name."""
    count = 0
    for at in range(0, len(keys), KEYS_OF_A_PROGRAM):
        part = keys[at : at + KEYS_OF_A_PROGRAM]
        reads = "\n".join(f"console.log({path}.{key}Renamed);" for path, key in part)
        code = f'const given = JSON.parse("{{}}");\nconst result = await {tool}(given);\n{reads}\n'
        command = [toolgate, "check", "-", "--json", "--config", config]
        checked = subprocess.run(command, input=code, capture_output=True, text=True, env=environment)
        report = json.loads(checked.stdout)
        if not report["typesChecked"]:
            raise SystemExit(f"{tool}: the types were not checked: {checked.stdout} {checked.stderr}")
        lines = {finding["line"] for finding in report["errors"] + report["warnings"] if "Renamed" in finding["message"]}
        count += len(lines)
    return count


def checker_notices(checks, toolgate, node, tools, tsc, lines):
    """Five results of each tool are learned, by a gateway of their own; then every key of the later results is renamed."""
    keys = {}
    for line in lines:
        found = keys.setdefault(line["tool"], {})
        found.update(dict.fromkeys(keys_of(line["result"])))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        (folder / "home").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        config = configuration(folder, node, pathlib.Path(tools))
        settings = json.loads(config.read_text())
        settings["toolgate"]["engines"] = {"typescript": tsc}
        config.write_text(json.dumps(settings))
        for server, program in PROGRAMS.items():
            list(results_of(server, program, toolgate, config, environment, folder, LESSONS))
        for tool, found in keys.items():
            if found:
                told = noticed(toolgate, config, environment, tool, list(found))
                rule = f"{tool}: the check tells of {told} of {len(found)} renamed keys"
                checks.check(rule, told == len(found))


def main(toolgate, learned_fit, node, tools, tsc):
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        (folder / "home").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        config = configuration(folder, node, pathlib.Path(tools))
        lines = [
            line
            for server, program in PROGRAMS.items()
            for line in results_of(server, program, toolgate, config, environment, folder)
        ]
        text = "\n".join(map(json.dumps, lines))
        fits = subprocess.run([learned_fit], input=text, check=True, capture_output=True, text=True).stdout
    for fit in map(json.loads, fits.splitlines()):
        rule = "{tool}: {accepted} of {compared} later results fit, {noticed} of {renamed} renamed keys are noticed".format(**fit)
        accepted = fit["compared"] == RESULTS - 5 and fit["accepted"] >= ACCEPTED * fit["compared"]
        checks.check(rule, accepted and fit["noticed"] == fit["renamed"])
    checker_notices(checks, toolgate, node, tools, tsc, lines)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
