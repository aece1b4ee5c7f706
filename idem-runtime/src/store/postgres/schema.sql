-- The table and functions of idem's PostgreSQL store. Safe to run again; needs PostgreSQL 11 or newer.
-- For another table replace `idem_record` everywhere. The functions carry a version, so that processes of two releases
-- can share the table while a deployment rolls. They refuse sequential scans, because a plan that was made while the table
-- was empty is one, and it lasts while the table grows.

-- Moments are milliseconds since 1970 from the server's clock: leases and expiry are compared in whole milliseconds, as
-- in every other store, and no session's time zone can touch them.
CREATE TABLE IF NOT EXISTS idem_record (
  epoch       bigint   NOT NULL,                -- fencing token of the newest owner: microseconds since 1970, growing
  attempt     bigint   NOT NULL,
  lease_until bigint   NOT NULL,
  expires     bigint   NOT NULL,                -- the record lives while this is greater than now
  purge_at    bigint   NOT NULL,                -- never below `expires`; indexed, and spared by most completions (HOT)
  state       smallint NOT NULL,                -- 1 in progress, 2 completed, 3 unknown
  hold        boolean  NOT NULL,
  waited      boolean  NOT NULL DEFAULT false,  -- a duplicate waits: the end of the attempt is worth a NOTIFY
  id          bytea    NOT NULL PRIMARY KEY,    -- SHA-256 of namespace, operation, scope and key
  token       bytea    NOT NULL,                -- names the attempt; kept, so that a repeated completion knows itself
  fingerprint bytea    NOT NULL,
  response    bytea
) WITH (fillfactor = 70);
ALTER TABLE idem_record ALTER COLUMN response SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS idem_record_purge_at ON idem_record (purge_at);

-- The common case comes first and is one statement, since each expression of a function is made ready again in every
-- transaction; under SERIALIZABLE a read before the insert would conflict with every claim on the same index page. Where
-- there is a row the insert takes no transaction id and writes no WAL, nor does what is read and decides nothing.
-- A takeover decides on the row as it was read, and writes only if it still is that row. READ COMMITTED gives each
-- statement in here a new snapshot; under a stricter isolation a lost race is a serialization failure, which the caller
-- repeats.
--
-- The advisory lock is held exclusively by an attempt whose record commits with the handler's own transaction: its row
-- can't be seen yet, and waiting for it would keep this connection. Claims share it, so they wait for each other's commit
-- only. An owner must be one after a crash too, whatever `synchronous_commit` the role or database is set to.
CREATE OR REPLACE FUNCTION idem_record_claim_v1(
  p_id bytea, p_token bytea, p_fingerprints bytea[], p_hold boolean, p_lease bigint, p_ttl bigint, p_waiting boolean,
  OUT outcome text, OUT owner_epoch bigint, OUT owner_attempt bigint, OUT lease_left bigint, OUT bytes bytea
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  live boolean;
  us bigint;
  ms bigint;
BEGIN
  FOR i IN 1..8 LOOP
    INSERT INTO idem_record AS t
      (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at)
    SELECT p_id, 1, p_token, c.us, 1, p_hold, p_fingerprints[1],
           c.us / 1000 + p_lease, c.us / 1000 + p_lease + p_ttl, c.us / 1000 + p_lease + p_ttl
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) c
    WHERE CASE
      WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply')
        OR set_config('synchronous_commit', 'on', true) = 'on'
      THEN pg_try_advisory_xact_lock_shared(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint)
    END
    ON CONFLICT (id) DO NOTHING
    RETURNING 'owner', t.epoch, 1 INTO outcome, owner_epoch, owner_attempt;
    IF FOUND THEN
      RETURN;
    END IF;

    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF NOT FOUND THEN
      -- Removed since, unless it is the lock that was in the way.
      CONTINUE WHEN pg_try_advisory_xact_lock_shared(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint);
      outcome := 'in_progress';
      RETURN;
    END IF;
    us := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    ms := us / 1000;
    live := r.expires > ms;

    IF live AND NOT (r.state = 1 AND r.token = p_token) THEN
      IF r.state NOT IN (1, 2, 3) THEN
        outcome := 'corrupt';
        RETURN;
      ELSIF r.fingerprint <> ALL (p_fingerprints) THEN
        outcome := 'mismatch';
        bytes := r.fingerprint;
        RETURN;
      ELSIF r.state = 2 THEN
        outcome := 'replay';
        bytes := r.response;
        RETURN;
      ELSIF r.state = 1 AND r.lease_until > ms THEN
        IF p_waiting AND NOT r.waited THEN
          UPDATE idem_record t SET waited = true WHERE t.id = p_id AND t.state = 1 AND t.token = r.token;
          CONTINUE WHEN NOT FOUND;
        END IF;
        outcome := 'in_progress';
        lease_left := r.lease_until - ms;
        RETURN;
      ELSIF r.state = 3 OR r.hold OR p_hold THEN
        outcome := 'unknown';
        RETURN;
      END IF;
    END IF;

    IF NOT pg_try_advisory_xact_lock_shared(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint) THEN
      outcome := 'in_progress';
      RETURN;
    END IF;
    IF live AND r.token = p_token THEN
      owner_epoch := r.epoch;
      owner_attempt := r.attempt;
    ELSE
      owner_epoch := greatest(r.epoch + 1, us);
      owner_attempt := CASE WHEN live THEN r.attempt + 1 ELSE 1 END;
    END IF;
    UPDATE idem_record t
    SET state = 1, token = p_token, epoch = owner_epoch, attempt = owner_attempt, hold = p_hold,
        waited = t.waited AND live, fingerprint = p_fingerprints[1], response = NULL,
        lease_until = ms + p_lease, expires = ms + p_lease + p_ttl, purge_at = ms + p_lease + p_ttl
    WHERE t.id = p_id AND t.state = r.state AND t.token = r.token AND t.epoch = r.epoch
      AND t.lease_until = r.lease_until AND t.expires = r.expires;
    IF FOUND THEN
      outcome := 'owner';
      RETURN;
    END IF;
  END LOOP;
  outcome := 'again';
END $$;

CREATE OR REPLACE FUNCTION idem_record_complete_v1(
  p_id bytea, p_token bytea, p_epoch bigint, p_attempt bigint, p_fingerprint bytea, p_ttl bigint, p_response bytea,
  OUT ack text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  wake boolean;
  ms bigint;
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR i IN 1..8 LOOP
    ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    UPDATE idem_record t
    SET state = 2, response = p_response, expires = ms + p_ttl,
        purge_at = CASE WHEN t.purge_at BETWEEN ms + p_ttl AND ms + 2 * p_ttl THEN t.purge_at ELSE ms + p_ttl END
    WHERE t.id = p_id AND t.token = p_token AND t.state = 1 AND t.expires > ms
    RETURNING t.waited INTO wake;
    IF FOUND THEN
      IF wake THEN
        PERFORM pg_notify('idem_settled', encode(p_id, 'hex'));
      END IF;
      ack := 'done';
      RETURN;
    END IF;

    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF FOUND AND r.expires > ms THEN
      CONTINUE WHEN r.state = 1 AND r.token = p_token;
      ack := CASE WHEN r.state NOT IN (1, 2, 3) THEN 'corrupt' WHEN r.state = 2 AND r.token = p_token THEN 'done'
                  ELSE 'lost' END;
      RETURN;
    END IF;

    -- Nothing is there and the attempt did run: a retry must find what it did.
    EXIT WHEN NOT pg_try_advisory_xact_lock_shared(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint);
    IF r.id IS NULL THEN
      INSERT INTO idem_record
        (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at, response)
      VALUES (p_id, 2, p_token, p_epoch, p_attempt, false, p_fingerprint, ms, ms + p_ttl, ms + p_ttl, p_response)
      ON CONFLICT (id) DO NOTHING;
    ELSE
      UPDATE idem_record t
      SET state = 2, token = p_token, epoch = greatest(t.epoch, p_epoch), attempt = p_attempt, hold = false,
          waited = false, fingerprint = p_fingerprint, response = p_response,
          lease_until = ms, expires = ms + p_ttl, purge_at = ms + p_ttl
      WHERE t.id = p_id AND t.epoch = r.epoch AND t.expires = r.expires;
    END IF;
    IF FOUND THEN
      ack := 'done';
      RETURN;
    END IF;
  END LOOP;
  ack := 'again';
END $$;

-- Leaves the expiry alone, so that no index entry changes.
CREATE OR REPLACE FUNCTION idem_record_renew_v1(p_id bytea, p_token bytea, p_lease bigint, OUT ack text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  UPDATE idem_record t SET lease_until = ms + p_lease
  WHERE t.id = p_id AND t.token = p_token AND t.state = 1 AND t.expires > ms;
  ack := CASE WHEN FOUND THEN 'done' ELSE 'lost' END;
END $$;

CREATE OR REPLACE FUNCTION idem_record_release_v1(p_id bytea, p_token bytea, OUT ack text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  wake boolean;
  ms bigint;
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR i IN 1..8 LOOP
    ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    DELETE FROM idem_record t WHERE t.id = p_id AND t.token = p_token AND t.state = 1 AND t.expires > ms
    RETURNING t.waited INTO wake;
    IF FOUND THEN
      IF wake THEN
        PERFORM pg_notify('idem_settled', encode(p_id, 'hex'));
      END IF;
      ack := 'done';
      RETURN;
    END IF;
    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF NOT FOUND OR r.expires <= ms THEN
      ack := 'done';
      RETURN;
    ELSIF r.state <> 1 OR r.token <> p_token THEN
      ack := 'lost';
      RETURN;
    END IF;
  END LOOP;
  ack := 'again';
END $$;

CREATE OR REPLACE FUNCTION idem_record_hold_v1(p_id bytea, p_token bytea, p_ttl bigint, OUT ack text)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  wake boolean;
  ms bigint;
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR i IN 1..8 LOOP
    ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    UPDATE idem_record t SET state = 3, expires = ms + p_ttl, purge_at = ms + p_ttl
    WHERE t.id = p_id AND t.token = p_token AND t.state = 1 AND t.expires > ms
    RETURNING t.waited INTO wake;
    IF FOUND THEN
      IF wake THEN
        PERFORM pg_notify('idem_settled', encode(p_id, 'hex'));
      END IF;
      ack := 'done';
      RETURN;
    END IF;
    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF NOT FOUND OR r.expires <= ms OR r.token <> p_token OR r.state NOT IN (1, 3) THEN
      ack := 'lost';
      RETURN;
    ELSIF r.state = 3 THEN
      ack := 'done';
      RETURN;
    END IF;
  END LOOP;
  ack := 'again';
END $$;

-- The claim of an attempt whose record commits with the handler's own writes: the first statement of that transaction.
-- The lock comes before anything is written, so nobody waits here for another attempt; the insert comes before the read,
-- because under SERIALIZABLE an owner's read would conflict with every claim on the same index page. A record committed
-- after an older snapshot is a serialization failure here, before the handler has run. `hold`, because this row is seen by
-- others only if the handler commits by itself half-way: nobody then knows what it did. `place` is where the row is.
CREATE OR REPLACE FUNCTION idem_record_tx_claim_v1(
  p_id bytea, p_token bytea, p_fingerprints bytea[], p_lease bigint, p_ttl bigint,
  OUT outcome text, OUT owner_epoch bigint, OUT owner_attempt bigint, OUT lease_left bigint, OUT bytes bytea,
  OUT xact bigint, OUT place text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  locked boolean;
  live boolean;
  us bigint;
  ms bigint;
BEGIN
  -- The common case in one statement, since each expression of a function is made ready again in every transaction.
  INSERT INTO idem_record AS t
    (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at)
  SELECT p_id, 1, p_token, c.us, 1, true, p_fingerprints[1],
         c.us / 1000, c.us / 1000 + p_lease + p_ttl, c.us / 1000 + p_lease + p_ttl
  FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) c
  WHERE CASE WHEN txid_current_if_assigned() IS NULL
    THEN pg_try_advisory_xact_lock(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint)
  END
  ON CONFLICT (id) DO NOTHING
  RETURNING 'owner', t.epoch, 1, txid_current(), t.ctid::text INTO outcome, owner_epoch, owner_attempt, xact, place;
  IF FOUND THEN
    RETURN;
  END IF;
  IF txid_current_if_assigned() IS NOT NULL THEN
    outcome := 'stale';  -- an earlier user of this connection left a transaction open and wrote in it
    RETURN;
  END IF;

  locked := pg_try_advisory_xact_lock(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint);
  FOR i IN 1..8 LOOP
    us := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    ms := us / 1000;
    IF locked THEN
      owner_epoch := us;
      owner_attempt := 1;
      INSERT INTO idem_record (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at)
      VALUES (p_id, 1, p_token, us, 1, true, p_fingerprints[1], ms, ms + p_lease + p_ttl, ms + p_lease + p_ttl)
      ON CONFLICT (id) DO NOTHING RETURNING ctid::text INTO place;
      EXIT WHEN FOUND;
    END IF;

    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF NOT FOUND THEN
      CONTINUE WHEN locked;
      outcome := 'in_progress';
      RETURN;
    END IF;
    live := r.expires > ms;
    IF live THEN
      IF r.state NOT IN (1, 2, 3) THEN
        outcome := 'corrupt';
        RETURN;
      ELSIF r.fingerprint <> ALL (p_fingerprints) THEN
        outcome := 'mismatch';
        bytes := r.fingerprint;
        RETURN;
      ELSIF r.state = 2 THEN
        outcome := 'replay';
        bytes := r.response;
        RETURN;
      ELSIF r.state = 1 AND r.lease_until > ms THEN
        outcome := 'in_progress';
        lease_left := r.lease_until - ms;
        RETURN;
      ELSIF r.state = 3 OR r.hold THEN
        outcome := 'unknown';
        RETURN;
      END IF;
    END IF;
    IF NOT locked THEN
      outcome := 'in_progress';
      RETURN;
    END IF;

    owner_epoch := greatest(r.epoch + 1, us);
    owner_attempt := CASE WHEN live THEN r.attempt + 1 ELSE 1 END;
    UPDATE idem_record t
    SET state = 1, token = p_token, epoch = owner_epoch, attempt = owner_attempt, hold = true, waited = t.waited AND live,
        fingerprint = p_fingerprints[1], response = NULL,
        lease_until = ms, expires = ms + p_lease + p_ttl, purge_at = ms + p_lease + p_ttl
    WHERE t.id = p_id AND t.state = r.state AND t.token = r.token AND t.epoch = r.epoch
      AND t.lease_until = r.lease_until AND t.expires = r.expires
    RETURNING t.ctid::text INTO place;
    EXIT WHEN FOUND;
  END LOOP;
  outcome := CASE WHEN place IS NULL THEN 'again' ELSE 'owner' END;
  xact := txid_current();
END $$;

-- The last statement before the COMMIT. Only within the transaction of the claim: what the handler did after ending that
-- one itself does not commit with this record. The row is found by its place, because under SERIALIZABLE a look into the
-- index would conflict with every claim on the same page; nobody else can have moved it.
CREATE OR REPLACE FUNCTION idem_record_tx_complete_v1(
  p_id bytea, p_token bytea, p_xact bigint, p_place text, p_ttl bigint, p_response bytea, OUT ack text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  wake boolean;
  writer bigint;
  ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  UPDATE idem_record t
  SET state = 2, hold = false, response = p_response, expires = ms + p_ttl,
      purge_at = CASE WHEN t.purge_at BETWEEN ms + p_ttl AND ms + 2 * p_ttl THEN t.purge_at ELSE ms + p_ttl END
  WHERE t.ctid = p_place::tid
    AND t.id = p_id AND t.token = p_token AND t.state = 1 AND txid_current_if_assigned() = p_xact
  RETURNING t.waited, t.xmin::text::bigint INTO wake, writer;
  -- Nested: written by a subtransaction, since a savepoint is open.
  ack := CASE WHEN NOT FOUND THEN 'ended' WHEN writer <> p_xact % 4294967296 THEN 'nested' ELSE 'done' END;
  IF wake THEN
    PERFORM pg_notify('idem_settled', encode(p_id, 'hex'));
  END IF;
END $$;

-- Whether the caller's own transaction is the first with this record, which commits with it.
CREATE OR REPLACE FUNCTION idem_record_once_v1(
  p_id bytea, p_token bytea, p_fingerprint bytea, p_ttl bigint, OUT outcome text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  r idem_record;
  locked boolean;
  us bigint;
  ms bigint;
BEGIN
  locked := pg_try_advisory_xact_lock(('x' || encode(substr(p_id, 1, 8), 'hex'))::bit(64)::bigint);
  FOR i IN 1..8 LOOP
    us := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    ms := us / 1000;
    IF locked THEN
      INSERT INTO idem_record
        (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at, response)
      VALUES (p_id, 2, p_token, us, 1, false, p_fingerprint, ms, ms + p_ttl, ms + p_ttl, '')
      ON CONFLICT (id) DO NOTHING;
      IF FOUND THEN
        outcome := 'first';
        RETURN;
      END IF;
    END IF;

    SELECT * INTO r FROM idem_record t WHERE t.id = p_id;
    IF NOT FOUND THEN
      CONTINUE WHEN locked;
      outcome := 'busy';
      RETURN;
    ELSIF r.expires > ms AND r.state = 2 THEN
      outcome := 'repeated';
      RETURN;
    ELSIF NOT locked OR (r.expires > ms AND (r.state <> 1 OR r.hold OR r.lease_until > ms)) THEN
      outcome := 'busy';
      RETURN;
    END IF;

    UPDATE idem_record t
    SET state = 2, token = p_token, epoch = greatest(r.epoch + 1, us), attempt = 1, hold = false, waited = false,
        fingerprint = p_fingerprint, response = '', lease_until = ms, expires = ms + p_ttl, purge_at = ms + p_ttl
    WHERE t.id = p_id AND t.state = r.state AND t.token = r.token AND t.epoch = r.epoch
      AND t.lease_until = r.lease_until AND t.expires = r.expires;
    IF FOUND THEN
      outcome := 'first';
      RETURN;
    END IF;
  END LOOP;
  outcome := 'busy';
END $$;

CREATE OR REPLACE FUNCTION idem_record_get_v1(
  p_id bytea, OUT state bigint, OUT epoch bigint, OUT attempt bigint, OUT lease_left bigint, OUT expires_in bigint,
  OUT response bytea
) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
  ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
  SELECT r.state, r.epoch, r.attempt, r.lease_until - ms, r.expires - ms, r.response
  INTO state, epoch, attempt, lease_left, expires_in, response
  FROM idem_record r WHERE r.id = p_id AND r.expires > ms;
END $$;

CREATE OR REPLACE FUNCTION idem_record_forget_v1(p_id bytea, OUT was_live boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  wake boolean;
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  DELETE FROM idem_record t WHERE t.id = p_id
  RETURNING t.expires > floor(extract(epoch FROM clock_timestamp()) * 1000), t.waited INTO was_live, wake;
  IF wake THEN
    PERFORM pg_notify('idem_settled', encode(p_id, 'hex'));
  END IF;
  was_live := coalesce(was_live, false);
END $$;

-- One batch. Rows that someone works on are skipped, the expiry is checked again by the delete, and the commit needn't be
-- durable: what a crash brings back is expired still. The delete does not name `purge_at`: with statistics from when nothing
-- had expired, that index would look as good as the primary key, and all that has expired be read for each row.
CREATE OR REPLACE FUNCTION idem_record_purge_v1(p_rows bigint, p_bytes bigint, OUT removed bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  found_due bigint;
  ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH due AS MATERIALIZED (
    SELECT t.id, t.purge_at, coalesce(octet_length(t.response), 0) AS size
    FROM idem_record t WHERE t.purge_at <= ms ORDER BY t.purge_at LIMIT p_rows FOR UPDATE SKIP LOCKED
  ), sized AS (
    SELECT id, sum(size) OVER (ORDER BY purge_at, id) - size AS before FROM due
  ), gone AS (
    DELETE FROM idem_record t USING sized s
    WHERE t.id = s.id AND s.before < p_bytes AND t.expires <= ms RETURNING 1
  )
  SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM due) INTO removed, found_due;
  more := removed > 0 AND (found_due >= p_rows OR removed < found_due);
END $$;
