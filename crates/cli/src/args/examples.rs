//! Examples that the help of commands ends with. Those of programs are in `programs` and `bench`.

pub(crate) const SERVE: &str = "\
Examples:
  toolgate serve                                       what an MCP client starts; `toolgate connect` writes it there
  toolgate serve --demo --http 127.0.0.1:7878          over HTTP, with the demo server: MCP at /mcp, the page at /
  toolgate serve --http --log-format json              log lines for a collector
  toolgate serve --mode direct                         the servers' own tools";

pub(crate) const UI: &str = "\
Examples:
  toolgate ui --demo                                   over the demo server
  toolgate ui --no-open --port 7000                    print the link only, at a port of your choice";

pub(crate) const IMPORT: &str = "\
Examples:
  toolgate import --dry-run                            what your clients have, what would be left out, and why
  toolgate import                                      take it over
  toolgate import cursor --move-secrets                of one client, with its secrets in the keyring
  toolgate import .mcp.json                            of a file";

pub(crate) const LIST: &str = "\
Examples:
  toolgate list
  toolgate list --json | jq '.backends[] | select(.state != \"ready\")'

Exit codes: 0 all servers are up, 1 one is not, 2 the command was used wrongly.";

pub(crate) const LOGIN: &str = "\
Examples:
  toolgate login notes
  toolgate login notes --no-browser                    from a machine without a browser: paste the address at the end
  toolgate login notes --scope files:write             ask for more than the server names";

pub(crate) const SECRET: &str = "\
Examples:
  pass show github | toolgate secret set GITHUB_TOKEN  then write ${keyring:GITHUB_TOKEN} in the configuration
  toolgate secret list
  toolgate secret remove GITHUB_TOKEN";

pub(crate) const SEARCH: &str = "\
Examples:
  toolgate search --demo list open issues
  toolgate search convert a time to another time zone --limit 1";

pub(crate) const DESCRIBE: &str = "\
Examples:
  toolgate describe demo.list_issues --demo
  toolgate describe list_issues --demo --json | jq .input_schema";

pub(crate) const CALL: &str = "\
Examples:
  toolgate call demo.list_issues '{\"limit\": 1}' --demo
  toolgate call demo.current_time --demo --json        the result as the server sent it";

pub(crate) const POLICY: &str = "\
Examples:
  toolgate policy draft                                rules for your servers, to review and put into the configuration
  toolgate policy explain 'demo.create_note({ name: \"a\" })' --demo
  toolgate policy list                                 the rules in the order in which they decide";

pub(crate) const TYPES: &str = "\
Examples:
  toolgate types --out tools.d.ts                      once, for an editor
  toolgate types --watch src                           kept fresh while tools change
  toolgate types learn github                          learn what undeclared results look like";

pub(crate) const CONNECT: &str = "\
Examples:
  toolgate connect claude-code                         with a backup; `toolgate disconnect claude-code` undoes it
  toolgate connect claude-code --take-over             and take the servers that Toolgate serves out of the client
  toolgate connect vscode --project                    for the project in this folder alone";

pub(crate) const AUDIT: &str = "\
Examples:
  toolgate audit show --tool create_note               who called it, which rule, who approved it
  toolgate audit verify                                prints the head: keep it elsewhere
  toolgate audit verify --expect HASH                  is what that check saw still there?

The log is written where the configuration has `\"toolgate\": {\"audit\": {\"enabled\": true}}`.";

pub(crate) const LOGS: &str = "\
Examples:
  toolgate logs --level warn                           what went wrong lately
  toolgate logs --follow                               runs as they end
  toolgate logs --json | jq 'select(.outcome == \"TIMEOUT\")'";

pub(crate) const DOCTOR: &str = "\
Examples:
  toolgate doctor
  toolgate doctor --json | jq '.layers[] | select(.active | not)'
  toolgate doctor --without landlock                   what it says when a layer is missing";

pub(crate) const KEY: &str = "\
Examples:
  toolgate key new ci                                  the key on standard output, its entry for toolgate.http.keys on standard error
  toolgate key new ci --json | jq -r .key";
