-- Times end in _ns: nanoseconds of CLOCK_BOOTTIME, which runs through suspend and begins anew with
-- each start of the machine. The views at the end show them as dates.

CREATE TABLE meta (
    only_row           INTEGER PRIMARY KEY CHECK (only_row = 1),
    boot_id            TEXT    NOT NULL, -- the start of the machine that all times below belong to
    booted_utc_ms      INTEGER NOT NULL, -- when that was, by the wall clock: for the views alone
    last_fencing_token INTEGER NOT NULL  -- the largest given so far
) STRICT;

CREATE TABLE holders (
    name          TEXT    NOT NULL,
    owner         TEXT    NOT NULL, -- random;client;host/pid;label;
    mode          TEXT    NOT NULL CHECK (mode IN ('exclusive', 'read', 'permits')),
    permits       INTEGER,          -- how many of the limit this holder has
    permit_limit  INTEGER,
    fencing_token INTEGER NOT NULL,
    granted_ns    INTEGER NOT NULL,
    expires_ns    INTEGER NOT NULL,
    hold_until_ns INTEGER NOT NULL, -- the end of the minimum hold; granted_ns when there is none
    kept          INTEGER NOT NULL, -- 1: given up, and the minimum hold still runs
    session       TEXT,             -- whose life it hangs on: a file in the directory beside
    note          TEXT,             -- what the holder published, such as a leader's address
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE waiters (
    name           TEXT    NOT NULL,
    ticket         INTEGER NOT NULL, -- the order of the queue
    owner          TEXT    NOT NULL,
    mode           TEXT    NOT NULL CHECK (mode IN ('exclusive', 'read', 'permits')),
    permits        INTEGER,
    permit_limit   INTEGER,
    ttl_ms         INTEGER NOT NULL,
    min_hold_ms    INTEGER,
    alive_until_ns INTEGER NOT NULL, -- counts as dead from then on unless it is heard from
    seq            INTEGER NOT NULL, -- the number of its last attempt
    session        TEXT,
    PRIMARY KEY (name, ticket, owner)
) STRICT, WITHOUT ROWID;

CREATE VIEW locks AS
SELECT
    name, mode, permits, permit_limit, owner, fencing_token,
    strftime('%Y-%m-%dT%H:%M:%SZ', (booted_utc_ms + granted_ns / 1000000) / 1000, 'unixepoch')
        AS granted,
    strftime('%Y-%m-%dT%H:%M:%SZ', (booted_utc_ms + expires_ns / 1000000) / 1000, 'unixepoch')
        AS expires,
    kept, session, note
FROM holders, meta;

CREATE VIEW queue AS
SELECT
    name, row_number() OVER (PARTITION BY name ORDER BY ticket) AS place, mode, owner, ttl_ms,
    strftime('%Y-%m-%dT%H:%M:%SZ', (booted_utc_ms + alive_until_ns / 1000000) / 1000, 'unixepoch')
        AS alive_until,
    session
FROM waiters, meta;
