//! Connections: how they are set, and the file they are to.

use std::{path::Path, thread, time::Duration};

use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

const SCHEMA: &str = include_str!("../sql/sqlite.sql");
/// Says that the file is ours; in the schema too.
const APPLICATION: i64 = 0x6964_656d;
/// The schema's version; in the schema too.
const VERSION: i64 = 1;

/// Opens the file, which may be new.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Not SQLITE_OPEN_URI: a path is a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[allow(unused_mut, reason = "older rusqlite sets a busy handler through a shared reference")]
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait as fn(i32) -> bool))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA cache_size = -16384;",
    )?;
    Ok(connection)
}

/// Waits for another connection, for about 100 ms in all. SQLite's own handler sleeps too long between two tries to be
/// fair among processes.
fn wait(tries: i32) -> bool {
    let micros = 50_u64 << tries.clamp(0, 5);
    thread::sleep(Duration::from_micros(micros));
    tries < 70
}

/// Makes the file ours where it is new, and refuses it where it is not ours.
pub(super) fn prepare(connection: &Connection) -> Result<(), StoreError> {
    let mode: String = patiently(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
        .map_err(StoreError::fault)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::fault(format!("the database is kept in journal mode {mode}, it needs a file and WAL")));
    }
    patiently(|| connection.execute_batch("BEGIN IMMEDIATE")).map_err(StoreError::fault)?;
    let ready = make(connection);
    let end = if ready.is_ok() { "COMMIT" } else { "ROLLBACK" };
    ready.and(connection.execute_batch(end).map_err(StoreError::fault))
}

fn make(connection: &Connection) -> Result<(), StoreError> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::fault);
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    match (application, version) {
        (APPLICATION, VERSION) => {}
        (APPLICATION, _) => {
            let what = format!("the database has schema version {version}, this program knows {VERSION}");
            return Err(StoreError::fault(what));
        }
        (0, 0) if number("SELECT count(*) FROM sqlite_schema")? == 0 => {
            connection.execute_batch(SCHEMA).map_err(StoreError::fault)?;
        }
        _ => return Err(StoreError::fault("the database is another program's: give the store a file of its own")),
    }
    // Changes nothing, and fails on a file that can't be written to, which SQLite opens without a word.
    connection.execute_batch("UPDATE idem_record SET state = state WHERE id = x''").map_err(StoreError::fault)
}

/// Repeats what another process that opens the file makes busy: not everything at start-up asks the busy handler.
fn patiently<T>(mut call: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    for _ in 0..40 {
        match call() {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                thread::sleep(Duration::from_millis(25));
            }
            other => return other,
        }
    }
    call()
}
