//! The routes for people in the OpenAPI document. The stream of events is left out, since a client of a document would
//! wait for its end.

use serde_json::{Map, Value, json};

use super::backends::BackendsReply;
use super::check::{CheckReply, CheckRequest};
use super::doctor::DoctorReply;
use super::history::{HistoryReply, HistoryRunReply, MAX_NUMBER, MAX_RUNS};
use super::logins::{LoginReply, LoginRequest, LoginStatusReply};
use super::pending::{self, PendingRunsReply};
use super::policy::PolicyReply;
use super::record::{ForkReply, ForkRequest, ReplayReply};
use super::rules::{ExplainReply, ExplainRequest};
use super::stats::StatsReply;
use super::tools::{MAX_TOOLS, ToolReply, ToolsReply};
use crate::openapi::{KEYED, READS_A_BODY, Schemas, operation, parameter};
use crate::page::{LinkReply, SignInRequest, SignedInReply};

/// Adds the paths.
pub(crate) fn add_paths(schemas: &mut Schemas, key: &Value, paths: &mut Map<String, Value>) {
    let list = |name: &str, schema: Value, description: &str| json!({"name": name, "in": "query", "required": false, "schema": schema, "description": description});
    let text = || json!({"type": "string", "maxLength": 250});
    let number = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    let mut add = |path: &str, operations: Value| {
        paths.insert(path.to_owned(), operations);
    };

    let ok = schemas.writes::<BackendsReply>("The backends that the caller may use.");
    let backends = operation(schemas, "backends", "Lists backends.", (200, ok), &[KEYED]);
    add("/v1/backends", json!({"get": backends.keyed(key)}));

    let ok = json!({"description": "The backend is started again."});
    let restart = operation(schemas, "restartBackend", "Restarts a backend.", (202, ok), &[KEYED, &[404]])
        .with("parameters", json!([parameter("name")]));
    add("/v1/backends/{name}/restart", json!({"post": restart.keyed(key)}));

    let ok = schemas.writes::<LoginReply>("What to open in a browser on the machine of the service.");
    let body = schemas.reads::<LoginRequest>();
    let login = operation(
        schemas,
        "logIn",
        "Begins a login at a backend.",
        (201, ok),
        &[READS_A_BODY, KEYED, &[403, 404, 503]],
    )
    .also(200, schemas.writes::<LoginReply>("There is a login already."))
    .with("requestBody", body)
    .with("parameters", json!([parameter("name")]));
    let ok = schemas.writes::<LoginStatusReply>("How the login at the backend stands.");
    let summary = "Says how the login at a backend stands.";
    let status = operation(schemas, "loginStatus", summary, (200, ok), &[KEYED, &[400, 403, 404, 503]])
        .with("parameters", json!([parameter("name")]));
    add("/v1/backends/{name}/login", json!({"post": login.keyed(key), "get": status.keyed(key)}));

    let ok = schemas.writes::<ToolsReply>("Tools that the caller may use.");
    let tools = operation(schemas, "tools", "Searches or lists tools.", (200, ok), &[KEYED, &[503]]).with(
        "parameters",
        json!([
            list("query", text(), "A task in plain words; the best tools come first."),
            list("limit", number(1, MAX_TOOLS), "The most tools of a reply; 50 if absent."),
            list("after", json!({"type": "string", "maxLength": 250, "pattern": "^$|/"}), "`next` of the page before."),
        ]),
    );
    add("/v1/tools", json!({"get": tools.keyed(key)}));

    let ok = schemas.writes::<ToolReply>("The tool.");
    let tool = operation(schemas, "tool", "Describes a tool.", (200, ok), &[KEYED, &[404, 503]])
        .with("parameters", json!([parameter("backend"), parameter("tool")]));
    add("/v1/tools/{backend}/{tool}", json!({"get": tool.keyed(key)}));

    let ok = schemas.writes::<CheckReply>("What the program would call, and what is wrong with that.");
    let body = schemas.reads::<CheckRequest>();
    let summary = "Checks a program without running it.";
    let check = operation(schemas, "check", summary, (200, ok), &[READS_A_BODY, KEYED]).with("requestBody", body);
    add("/v1/check", json!({"post": check.keyed(key)}));

    let ok = schemas.writes::<HistoryReply<'static>>("Runs of the caller, newest first.");
    let history = operation(schemas, "history", "Lists recent runs.", (200, ok), &[KEYED, &[503]]).with(
        "parameters",
        json!([
            list("limit", number(1, MAX_RUNS), "The most runs of a reply; 100 if absent."),
            list("before", number(0, MAX_NUMBER), "`next` of the page before."),
            list("door", text(), "Only runs that came by this door."),
            list("outcome", text(), "`ok`, `failed`, or the code of a failure."),
            list("search", text(), "Part of an id, or of the name of a tool."),
        ]),
    );
    add("/v1/history", json!({"get": history.keyed(key)}));

    let ok = schemas.writes::<HistoryRunReply<'static>>("The run.");
    let run = operation(schemas, "historyRun", "Reads a recent run.", (200, ok), &[KEYED, &[404, 503]])
        .with("parameters", json!([parameter("executionId")]));
    add("/v1/history/{executionId}", json!({"get": run.keyed(key)}));

    let ok = schemas.writes::<StatsReply>("Counts.");
    let stats = operation(schemas, "stats", "Counts runs, calls and bytes.", (200, ok), &[KEYED]);
    add("/v1/stats", json!({"get": stats.keyed(key)}));

    let ok = schemas.writes::<PolicyReply>("The caller's rights, the rules about its calls, and those of backends.");
    let policy = operation(schemas, "policy", "Shows what the caller may use.", (200, ok), &[KEYED]);
    add("/v1/policy", json!({"get": policy.keyed(key)}));

    let ok = schemas.writes::<PendingRunsReply>("The runs that wait for a decision of the caller.");
    let pending = operation(schemas, "pending", "Lists what waits for a decision.", (200, ok), &[KEYED, &[503]]).with(
        "parameters",
        json!([
            list("limit", number(1, pending::MAX_RUNS), "The most runs of a reply; 50 if absent."),
            list("before", text(), "`next` of an earlier page."),
        ]),
    );
    add("/v1/pending", json!({"get": pending.keyed(key)}));

    let ok = schemas.writes::<ExplainReply>("What would happen to the call, and why.");
    let body = schemas.reads::<ExplainRequest>();
    let summary = "Says what the policy does to a call, without making it.";
    let explain = operation(schemas, "explain", summary, (200, ok), &[READS_A_BODY, KEYED]).with("requestBody", body);
    add("/v1/policy/explain", json!({"post": explain.keyed(key)}));

    let ok = json!({"description": "The approval is forgotten."});
    let summary = "Forgets an approval that stands for later calls.";
    let forget = operation(schemas, "forgetApproval", summary, (204, ok), &[KEYED, &[404, 503]])
        .with("parameters", json!([parameter("id")]));
    add("/v1/policy/remembered/{id}", json!({"delete": forget.keyed(key)}));

    let ok = json!({"description": "The cassette, one JSON object a line; secrets are stand-ins.", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}});
    let summary = "Exports a durable run as a cassette.";
    let cassette = operation(schemas, "cassette", summary, (200, ok), &[KEYED, &[404, 409, 503]])
        .with("parameters", json!([parameter("runId")]));
    add("/v1/runs/{runId}/cassette", json!({"get": cassette.keyed(key)}));

    let ok = schemas.writes::<ReplayReply>("How the repetition ended, and whether as recorded.");
    let summary = "Repeats a durable run from its record; no tool is called.";
    let replay = operation(schemas, "replay", summary, (200, ok), &[KEYED, &[404, 409, 503]])
        .with("parameters", json!([parameter("runId")]));
    add("/v1/runs/{runId}/replay", json!({"post": replay.keyed(key)}));

    let ok = schemas.writes::<ForkReply>("The new run goes on by itself.");
    let body = schemas.reads::<ForkRequest>();
    let summary = "Begins a run that keeps the first answered calls of a durable run and makes the rest.";
    let fork = operation(schemas, "fork", summary, (202, ok), &[READS_A_BODY, KEYED, &[404, 409]])
        .with("requestBody", body)
        .with("parameters", json!([parameter("runId")]));
    add("/v1/runs/{runId}/fork", json!({"post": fork.keyed(key)}));

    let ok = schemas.writes::<DoctorReply>("The layers that confine programs.");
    let doctor = operation(schemas, "doctor", "Runs a program and shows what confined it.", (200, ok), &[KEYED]);
    add("/v1/doctor", json!({"get": doctor.keyed(key)}));

    let ok = schemas.writes::<LinkReply>("The link. Its token is returned only here.");
    let link =
        operation(schemas, "pageLink", "Makes a link that signs a browser in once.", (201, ok), &[KEYED, &[503]]);
    add("/v1/page/links", json!({"post": link.keyed(key)}));

    let signed_in = {
        let ok = schemas.writes::<SignedInReply>("Who is signed in.");
        operation(schemas, "signedIn", "Says who is signed in to the page.", (200, ok), &[])
    };
    let sign_in = {
        let ok = schemas.writes::<SignedInReply>("Signed in; the session's cookie is in `Set-Cookie`.");
        let body = schemas.reads::<SignInRequest>();
        operation(schemas, "signIn", "Signs a browser in to the page.", (200, ok), &[READS_A_BODY, &[401, 403]])
            .with("requestBody", body)
    };
    let sign_out = {
        let ok = json!({"description": "Signed out."});
        operation(schemas, "signOut", "Signs a browser out.", (204, ok), &[])
    };
    let no_key = json!([]);
    add(
        "/page/session",
        json!({"get": signed_in.keyed(&no_key), "post": sign_in.keyed(&no_key), "delete": sign_out.keyed(&no_key)}),
    );
}
