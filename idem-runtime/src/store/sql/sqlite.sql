-- The table of SqliteStore, in a file of its own. Opening a store creates it; here it is for those who look inside.
-- states: 1 in progress, 2 completed, 3 unknown
CREATE TABLE idem_record (
  id BLOB NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  token BLOB NOT NULL,           -- kept after completion, so that a repeated complete recognises itself
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  hold INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  boot BLOB NOT NULL,            -- the boot whose clock lease_until is of; another boot: lapsed. Empty: the wall clock
  lease_until INTEGER NOT NULL,  -- milliseconds of that clock
  expires_at INTEGER NOT NULL,   -- milliseconds since 1970
  outcome BLOB
) STRICT;
CREATE INDEX idem_record_expires_at ON idem_record (expires_at);
PRAGMA application_id = 0x6964656d;
PRAGMA user_version = 1;
