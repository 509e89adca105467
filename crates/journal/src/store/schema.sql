-- The same tables in SQLite and PostgreSQL. Rows of `entries`, `blobs` and `pending` are sealed.
-- `lease_until`: when a running run may be taken over, or a paused one is due; 0 is at once.
CREATE TABLE IF NOT EXISTS toolgate_runs (
    run TEXT PRIMARY KEY,
    caller TEXT NOT NULL,
    status TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    began BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    idempotency BYTES UNIQUE,
    abort BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS toolgate_runs_by_lease ON toolgate_runs (status, lease_until);
CREATE INDEX IF NOT EXISTS toolgate_runs_by_caller ON toolgate_runs (caller, status);
CREATE TABLE IF NOT EXISTS toolgate_entries (
    run TEXT NOT NULL REFERENCES toolgate_runs (run) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    body BYTES NOT NULL,
    PRIMARY KEY (run, number)
);
CREATE TABLE IF NOT EXISTS toolgate_blobs (
    run TEXT NOT NULL REFERENCES toolgate_runs (run) ON DELETE CASCADE,
    name TEXT NOT NULL,
    body BYTES NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE TABLE IF NOT EXISTS toolgate_pending (
    run TEXT NOT NULL REFERENCES toolgate_runs (run) ON DELETE CASCADE,
    call BIGINT NOT NULL,
    question BYTES NOT NULL,
    decision BYTES,
    PRIMARY KEY (run, call)
);
-- Calls that were let through on a day, counted since 1970. `name` is a keyed hash of the caller and what is counted.
CREATE TABLE IF NOT EXISTS toolgate_counts (
    day BIGINT NOT NULL,
    name TEXT NOT NULL,
    calls BIGINT NOT NULL,
    PRIMARY KEY (day, name)
);
