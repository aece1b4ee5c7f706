//! The one thread that writes: whatever waits for it goes into one durable commit.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Read, table::Table, trouble::Trouble};
use crate::{
    protocol::Micros,
    store::StoreError,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
};

/// As many verbs as one commit takes, and as many bytes of outcomes: more would keep the first one waiting.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// What a small write leaves in the write-ahead log, about: the pages it touched.
const WRITE_BYTES: usize = 16 << 10;
/// How large the log may grow before a checkpoint is due.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// After how long without work the log is put back into the file.
const IDLE: Duration = Duration::from_millis(500);

/// What verbs see of the writer: the table inside a transaction, and the newest epoch.
pub(super) struct Writing<'c> {
    pub(super) table: Table<'c>,
    pub(super) newest: Micros,
}

/// What comes to the writer.
pub(super) enum Task {
    Write(Box<dyn Job>),
    /// A look at a record before its claim is written; it may put that into the queue.
    Look(Read),
}

/// A verb in the queue.
pub(super) trait Job: Send {
    /// When its caller has given up.
    fn due(&self) -> Instant;
    /// Whether it is skipped then: a claim that nobody waits for only blocks its key.
    fn lapses(&self) -> bool;
    /// How many bytes it writes beside the row.
    fn bytes(&self) -> usize;
    /// Runs it, keeping its answer; fails when the transaction can't go on.
    fn run(&mut self, writing: &mut Writing<'_>) -> Result<(), Trouble>;
    /// Sends the answer that was kept, or the trouble that undid it.
    fn reply(self: Box<Self>, trouble: Option<Trouble>);
}

/// The only kind of [`Job`].
pub(super) struct Verb<T, F> {
    pub(super) run: F,
    pub(super) due: Instant,
    pub(super) lapses: bool,
    pub(super) bytes: usize,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
    pub(super) answer: Result<T, Trouble>,
}

impl<T, F> Job for Verb<T, F>
where
    T: Send,
    F: FnMut(&mut Writing<'_>) -> Result<T, Trouble> + Send,
{
    fn due(&self) -> Instant {
        self.due
    }
    fn lapses(&self) -> bool {
        self.lapses
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn run(&mut self, writing: &mut Writing<'_>) -> Result<(), Trouble> {
        self.answer = (self.run)(writing);
        match &self.answer {
            Err(trouble @ Trouble::Sql(_)) => Err(trouble.clone()),
            _ => Ok(()),
        }
    }
    fn reply(self: Box<Self>, trouble: Option<Trouble>) {
        let answer = trouble.map_or(self.answer, Err);
        // A caller that is gone needs no answer.
        let _ = self.reply.send(answer.map_err(StoreError::from));
    }
}

type Jobs = Vec<Box<dyn Job>>;

/// What the writer shares with the store and the checkpoints' thread.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) commits: AtomicU64,
    /// How many verbs there were in them.
    pub(super) verbs: AtomicU64,
    /// The writer waits for work.
    pub(super) idle: AtomicBool,
    /// A checkpoint has just run beside the writer.
    checkpointed: AtomicBool,
}

/// Puts the write-ahead log back into the file, off the commits' path.
pub(super) fn checkpoint_when_told(connection: &Connection, told: &Receiver<()>, shared: &Shared) {
    while told.recv().is_ok() {
        checkpoint(connection);
        shared.checkpointed.store(true, Relaxed);
    }
}

fn checkpoint(connection: &Connection) {
    // Readers or another process's checkpoint may be in the way; the next one takes the rest.
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

/// Writes what the queue brings until nobody can send any more.
pub(super) fn run(
    connection: &Connection,
    queue: &Receiver<Task>,
    tell: &SyncSender<()>,
    shared: &Shared,
) -> rusqlite::Result<()> {
    let writing = Writing { table: Table::new(connection)?, newest: Micros(0) };
    let mut writer = Writer { connection, writing, queue, ahead: None, tell, shared, log_bytes: 0 };
    while let Some(first) = writer.next() {
        let jobs = writer.gather(first);
        writer.commit(jobs);
        if writer.log_bytes > CHECKPOINT_BYTES {
            writer.checkpoint_soon();
        }
        if shared.checkpointed.swap(false, Relaxed) {
            // Only between two commits is the log put back whole, so that the next one starts it anew; little is left.
            checkpoint(connection);
        }
    }
    Ok(())
}

struct Writer<'c> {
    connection: &'c Connection,
    writing: Writing<'c>,
    queue: &'c Receiver<Task>,
    /// Taken from the queue already.
    ahead: Option<Task>,
    tell: &'c SyncSender<()>,
    shared: &'c Shared,
    log_bytes: usize,
}

impl Writer<'_> {
    /// Waits for work; nothing when nobody can send any more.
    fn next(&mut self) -> Option<Task> {
        self.look_ahead();
        let next = self.ahead.take().or_else(|| self.wait());
        self.shared.idle.store(false, Relaxed);
        next
    }

    fn wait(&mut self) -> Option<Task> {
        match self.queue.recv_timeout(IDLE) {
            Err(RecvTimeoutError::Timeout) => {
                if self.log_bytes > 0 {
                    self.checkpoint_soon();
                }
                self.queue.recv().ok()
            }
            next => next.ok(),
        }
    }

    /// Sees whether there is work, and tells those who bring some.
    fn look_ahead(&mut self) {
        self.ahead = self.ahead.take().or_else(|| self.queue.try_recv().ok());
        let idle = self.ahead.is_none() && !self.shared.checkpointed.load(Relaxed);
        self.shared.idle.store(idle, Relaxed);
    }

    fn checkpoint_soon(&mut self) {
        self.log_bytes = 0;
        let _ = self.tell.try_send(());
    }

    /// Whatever waits, up to one commit's worth.
    fn gather(&mut self, first: Task) -> Jobs {
        let (mut jobs, mut bytes) = (Jobs::new(), 0);
        let mut next = Some(first);
        while let Some(task) = next {
            match task {
                Task::Write(job) => {
                    bytes += job.bytes();
                    jobs.push(job);
                }
                Task::Look(look) => self.look(look),
            }
            next = if jobs.len() < BATCH && bytes < BATCH_BYTES { self.queue.try_recv().ok() } else { None };
        }
        jobs
    }

    /// Outside a transaction: what is seen is durable, and another process that writes is not in the way.
    fn look(&mut self, look: Read) {
        self.roll_back();
        if self.connection.is_autocommit() {
            self.writing.table.look_at_clocks();
            look(&mut self.writing.table);
        }
    }

    /// Runs `jobs` in one transaction and answers them once it is durable. Where that fails, each gets its own.
    fn commit(&mut self, jobs: Jobs) {
        let mut jobs = self.begin(jobs);
        if jobs.is_empty() {
            return;
        }
        self.writing.table.look_at_clocks();
        let ran = jobs.iter_mut().try_for_each(|job| job.run(&mut self.writing));
        let committed = ran.and_then(|()| Ok(self.connection.execute_batch("COMMIT")?));
        let Err(trouble) = committed else {
            self.shared.commits.fetch_add(1, Relaxed);
            self.shared.verbs.fetch_add(jobs.len() as u64, Relaxed);
            self.log_bytes += jobs.iter().map(|job| job.bytes() + WRITE_BYTES).sum::<usize>();
            // Before the answers: who gets one may be back before this thread waits again.
            self.look_ahead();
            for job in jobs {
                job.reply(None);
            }
            return;
        };
        self.roll_back();
        if jobs.len() == 1 {
            refuse(jobs, &trouble);
        } else {
            for job in jobs {
                self.commit(vec![job]);
            }
        }
    }

    /// Begins a transaction. Gives back the jobs to run in it: none where it can't begin.
    fn begin(&self, mut jobs: Jobs) -> Jobs {
        self.roll_back();
        loop {
            jobs = answer_overdue(jobs, |job| job.lapses());
            if jobs.is_empty() {
                return jobs;
            }
            match self.connection.execute_batch("BEGIN IMMEDIATE").map_err(Trouble::from) {
                Ok(()) => return jobs,
                Err(trouble) if trouble.is_busy() => jobs = answer_overdue(jobs, |_| true),
                Err(trouble) => {
                    refuse(jobs, &trouble);
                    return Vec::new();
                }
            }
        }
    }

    fn roll_back(&self) {
        // SQLite has rolled back by itself after some errors.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Answers those whose time is up and that `may_lapse`; gives back the others.
fn answer_overdue(jobs: Jobs, may_lapse: impl Fn(&dyn Job) -> bool) -> Jobs {
    let now = Instant::now();
    let (overdue, rest): (Jobs, Jobs) = jobs.into_iter().partition(|job| now >= job.due() && may_lapse(job.as_ref()));
    refuse(overdue, &Trouble::Overdue);
    rest
}

fn refuse(jobs: Jobs, trouble: &Trouble) {
    for job in jobs {
        job.reply(Some(trouble.clone()));
    }
}
