//! Records in a SQLite file.

mod clock;
mod connect;
mod table;
#[cfg(test)]
mod tests;
mod trouble;
mod verbs;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use self::{
    table::Table,
    trouble::Trouble,
    writer::{Shared, Task, Verb, Writing},
};
use super::{Ack, Claim, Claimed, Completion, PurgeLimits, Purged, Record, RecordId, Store, StoreError, Token};
use crate::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

/// After this long in the queue a caller has its 503, or soon will: below the store timeout of two seconds.
const DUE: Duration = Duration::from_millis(1500);
/// Replays are read beside the writer, and beside each other.
const READERS: usize = 2;
/// What one transaction of a purge takes, so that a claim behind it hardly notices; and as many rows as there were verbs
/// since the one before, so that it keeps up with them.
const PURGE_ROWS: u32 = 50;
const PURGE_BYTES: u64 = 4 << 20;
/// What removing a row leaves in the write-ahead log, about: ids are random, so hardly two share a page of their index.
const PURGE_ROW_BYTES: usize = 4 << 10;

/// Keeps records in one SQLite file, durably: an answer is given once its commit is on the disk.
///
/// Several processes on one host may share the file, which belongs to this store alone. It has a thread that writes and
/// a few that read: verbs that come at the same time share a commit, and a replay needs none. Dropped, it ends its
/// threads once they have answered.
///
/// A clone is the same store.
#[derive(Clone)]
pub struct SqliteStore {
    path: Arc<PathBuf>,
    writes: Sender<Task>,
    reads: Sender<Read>,
    shared: Arc<Shared>,
}

type Read = Box<dyn FnOnce(&mut Table<'_>) + Send>;
type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file at `path`, and makes it where there is none. Blocks for a moment: call it at start-up.
    ///
    /// A folder that isn't there, a file that can't be written to, is another program's or a newer version's is an
    /// error here and now.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path.as_ref(), |_| Ok(()))
    }

    fn open_with(path: &Path, set: impl Fn(&Connection) -> rusqlite::Result<()>) -> Result<Self, StoreError> {
        if path.as_os_str().is_empty() || path == Path::new(":memory:") {
            return Err(StoreError::fault("SQLite needs a file; to keep records in memory there is the memory store"));
        }
        let connect = || {
            let connection = connect::connect(path)?;
            set(&connection).map(|()| connection)
        };
        let writing = connect().map_err(StoreError::fault)?;
        connect::prepare(&writing)?;
        let (writes, write_queue) = channel();
        let (reads, read_queue) = channel();
        let (tell, told) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let read_queue = Arc::new(Mutex::new(read_queue));
        for _ in 0..READERS {
            let (connection, queue) = (connect().map_err(StoreError::fault)?, Arc::clone(&read_queue));
            start("idem-sqlite-read", move || read(&connection, &queue))?;
        }
        let (checkpointing, with) = (connect().map_err(StoreError::fault)?, Arc::clone(&shared));
        start("idem-sqlite-checkpoint", move || writer::checkpoint_when_told(&checkpointing, &told, &with))?;
        let with = Arc::clone(&shared);
        start("idem-sqlite-write", move || write(&writing, &write_queue, &tell, &with))?;
        Ok(Self { path: Arc::new(path.to_path_buf()), writes, reads, shared })
    }

    /// How many transactions it has committed: with many verbs at once, far fewer than verbs.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Relaxed)
    }

    /// A verb for the writer, and where its answer comes.
    fn verb<T, F: FnMut(&mut Writing<'_>) -> Result<T, Trouble>>(
        bytes: usize,
        lapses: bool,
        run: F,
    ) -> (Box<Verb<T, F>>, Answer<T>) {
        let (reply, answer) = oneshot::channel();
        let due = Instant::now() + DUE;
        (Box::new(Verb { run, due, lapses, bytes, reply, answer: Err(Trouble::Stopped) }), answer)
    }

    async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        run: impl FnMut(&mut Writing<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, answer) = Self::verb(bytes, false, run);
        self.writes.send(Task::Write(job)).map_err(|_| Trouble::Stopped)?;
        answer.await.map_err(|_| Trouble::Stopped)?
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(StoreError::fault)
}

fn write(connection: &Connection, queue: &Receiver<Task>, tell: &SyncSender<()>, shared: &Shared) {
    // A table that is gone ends the thread, and every caller hears that it has.
    if let Err(error) = writer::run(connection, queue, tell, shared) {
        tracing::error!(%error, "the SQLite store can't write");
    }
}

fn read(connection: &Connection, queue: &Mutex<Receiver<Read>>) {
    let mut table = match Table::new(connection) {
        Ok(table) => table,
        Err(error) => return tracing::error!(%error, "the SQLite store can't read"),
    };
    loop {
        // Held while waiting: the others wait for the lock instead, and take turns.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(read) = next else { return };
        table.look_at_clocks();
        read(&mut table);
    }
}

impl Store for SqliteStore {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let wanted = claim.clone();
        let writing = claim.clone();
        let (job, answer) = Self::verb(0, true, move |on| verbs::claim(&mut on.table, &writing, &mut on.newest));
        let writes = self.writes.clone();
        let look: Read = Box::new(move |table| match verbs::look(table, &wanted) {
            Ok(Some(claimed)) => drop(job.reply.send(Ok(claimed))),
            Ok(None) => drop(writes.send(Task::Write(job))),
            // Another process recovers the file: the writer waits for that until the claim is due.
            Err(trouble) if trouble.is_busy() => drop(writes.send(Task::Write(job))),
            Err(trouble) => drop(job.reply.send(Err(StoreError::from(trouble)))),
        });
        // A writer with nothing to do looks itself: one thread fewer to wake for a lone claim.
        let sent = if self.shared.idle.swap(false, Relaxed) {
            self.writes.send(Task::Look(look)).is_ok()
        } else {
            self.reads.send(look).is_ok()
        };
        if !sent {
            return Err(Trouble::Stopped.into());
        }
        answer.await.map_err(|_| Trouble::Stopped)?
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        let (id, token) = (*id, *token);
        self.write(0, move |on| verbs::renew(&mut on.table, &id, &token, lease)).await
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        let completion = completion.clone();
        self.write(completion.outcome.len(), move |on| verbs::complete(&mut on.table, &completion)).await
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        let (id, token) = (*id, *token);
        self.write(0, move |on| verbs::release(&mut on.table, &id, &token)).await
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        let (id, token) = (*id, *token);
        self.write(0, move |on| verbs::hold(&mut on.table, &id, &token, ttl)).await
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let id = *id;
        let (reply, record) = oneshot::channel();
        let read: Read = Box::new(move |table| drop(reply.send(verbs::get(table, &id))));
        self.reads.send(read).map_err(|_| Trouble::Stopped)?;
        Ok(record.await.map_err(|_| Trouble::Stopped)??)
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        let id = *id;
        self.write(0, move |on| verbs::forget(&mut on.table, &id)).await
    }

    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        let start = Instant::now();
        let bytes = limits.bytes.min(PURGE_BYTES);
        let mut verbs_before = self.shared.verbs.load(Relaxed);
        let mut purged = Purged::default();
        loop {
            let began = Instant::now();
            let verbs = self.shared.verbs.load(Relaxed);
            let meanwhile = u32::try_from(verbs - verbs_before).unwrap_or(u32::MAX);
            verbs_before = verbs;
            let rows = PURGE_ROWS.saturating_add(meanwhile).min(limits.rows.max(1));
            let weight = PURGE_ROW_BYTES * rows as usize;
            let batch = self.write(weight, move |on| verbs::purge(&mut on.table, rows, bytes)).await?;
            purged.removed += batch.removed;
            purged.more = batch.more;
            if !batch.more || start.elapsed() >= limits.time {
                return Ok(purged);
            }
            // For twice as long the writer is the claims' alone.
            tokio::time::sleep(2 * began.elapsed()).await;
        }
    }
}
