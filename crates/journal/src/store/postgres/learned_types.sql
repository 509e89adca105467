-- Learned types of all replicas: one row for each tool. Names and shapes are bytes, so that the encoding of the database does not matter.
CREATE TABLE IF NOT EXISTS toolgate_learned_types (
    version BIGINT NOT NULL,
    backend BYTEA NOT NULL,
    tool BYTEA NOT NULL,
    shape BYTEA NOT NULL,
    edition BIGINT NOT NULL,
    PRIMARY KEY (version, backend, tool)
);
-- `edition` rises with every change of the rows of a version; `cleared` is the edition in which some were last deleted.
CREATE TABLE IF NOT EXISTS toolgate_learned_editions (
    version BIGINT PRIMARY KEY,
    edition BIGINT NOT NULL,
    cleared BIGINT NOT NULL
);
