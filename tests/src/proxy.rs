//! A TCP proxy between a store and its server that misbehaves when told to.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

/// Passes bytes on until told otherwise.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Faults {
    server: Mutex<SocketAddr>,
    replies_to_drop: AtomicUsize,
    delay_ms: AtomicU64,
    /// Grows with every cut; a connection lives as long as the number it began with.
    cuts: watch::Sender<u64>,
}

impl Proxy {
    /// Listens on a free loopback port for connections to `server`.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let faults = Arc::new(Faults {
            server: Mutex::new(server),
            replies_to_drop: AtomicUsize::new(0),
            delay_ms: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
        });
        let shared = Arc::clone(&faults);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, Arc::clone(&shared)));
            }
        });
        Ok(Self { address, faults, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next `count` replies are swallowed and their connections cut: the requests have reached the server.
    pub fn drop_replies(&self, count: usize) {
        self.faults.replies_to_drop.store(count, SeqCst);
    }

    /// How many replies are still to be dropped.
    pub fn replies_to_drop(&self) -> usize {
        self.faults.replies_to_drop.load(SeqCst)
    }

    /// New connections go to `server`; old ones stay, as in a failover by address.
    pub fn redirect(&self, server: SocketAddr) {
        *self.faults.server.lock().expect("a server") = server;
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        self.faults.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Holds every reply back for `delay`.
    pub fn delay(&self, delay: Duration) {
        self.faults.delay_ms.store(delay.as_millis().try_into().expect("a short delay"), SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// One connection, until either side or a cut ends it.
async fn connect(client: TcpStream, faults: Arc<Faults>) {
    let mut cuts = faults.cuts.subscribe();
    let server = *faults.server.lock().expect("a server");
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = cuts.changed() => {}
        () = requests(from_client, to_server) => {}
        () = replies(from_server, to_client, &faults) => {}
    }
}

async fn requests(mut client: OwnedReadHalf, mut server: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut client, &mut server).await;
}

async fn replies(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, faults: &Faults) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(length @ 1..) = server.read(&mut buffer).await else { return };
        let drops = &faults.replies_to_drop;
        if drops.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        let delay = faults.delay_ms.load(SeqCst);
        if delay > 0 {
            sleep(Duration::from_millis(delay)).await;
        }
        if client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
