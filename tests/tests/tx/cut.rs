//! A proxy before the server that knows what is said, and cuts the line at a given sentence.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use idem_tests::postgres::Postgres;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// When the line is cut, with regard to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The server never sees it.
    Before,
    /// The server has done it, and its answer is lost.
    After,
}

#[derive(Default)]
struct Orders {
    next: Mutex<Option<(&'static str, When)>>,
    cuts: AtomicUsize,
}

/// Forwards to a server until a statement that it was told of.
pub(crate) struct Cutter {
    pub(crate) url: String,
    orders: Arc<Orders>,
}

impl Cutter {
    pub(crate) async fn start(server: &Postgres, database: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("postgres://postgres@{}/{database}", listener.local_addr().unwrap());
        let orders = Arc::<Orders>::default();
        let (to, shared) = (server.port(), Arc::clone(&orders));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let orders = Arc::clone(&shared);
                tokio::spawn(async move {
                    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await.unwrap();
                    forward(client, server, &orders).await;
                });
            }
        });
        Self { url, orders }
    }

    /// Cuts one connection, at the next statement with `text` in it.
    pub(crate) fn arm(&self, text: &'static str, when: When) {
        *self.orders.next.lock().unwrap() = Some((text, when));
    }

    pub(crate) fn cuts(&self) -> usize {
        self.orders.cuts.load(SeqCst)
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, orders: &Orders) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut asked, mut answered) = (Vec::new(), vec![0; 1 << 16]);
    let mut statements = HashMap::new();
    let mut begun = false;
    let mut swallow = false;
    loop {
        tokio::select! {
            read = client.read_buf(&mut asked) => {
                if !matches!(read, Ok(1..)) {
                    return;
                }
                while let Some(message) = message(&mut asked, &mut begun) {
                    let text = said(&message, &mut statements);
                    let order = orders.next.lock().unwrap().take_if(|(wanted, _)| text.contains(*wanted));
                    if let Some((_, when)) = order {
                        orders.cuts.fetch_add(1, SeqCst);
                        if when == When::Before {
                            return;
                        }
                        swallow = true;
                    }
                    if server.write_all(&message).await.is_err() {
                        return;
                    }
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if swallow || client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Takes the first whole message. The one that opens a connection has no type.
fn message(bytes: &mut Vec<u8>, begun: &mut bool) -> Option<Vec<u8>> {
    let tag = usize::from(*begun);
    let length: [u8; 4] = bytes.get(tag..tag + 4)?.try_into().unwrap();
    let length = tag + u32::from_be_bytes(length) as usize;
    if bytes.len() < length {
        return None;
    }
    *begun = true;
    Some(bytes.drain(..length).collect())
}

/// The statement that a message runs; nothing where it runs none.
fn said(message: &[u8], statements: &mut HashMap<Vec<u8>, String>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = message.get(5..).unwrap_or_default();
    let mut strings = body.split(|byte| *byte == 0);
    match message.first() {
        Some(b'Q') => text(body),
        Some(b'P') => {
            let name = strings.next().unwrap_or_default().to_vec();
            statements.insert(name, text(strings.next().unwrap_or_default()));
            String::new()
        }
        // The portal, then the statement.
        Some(b'B') => statements.get(strings.nth(1).unwrap_or_default()).cloned().unwrap_or_default(),
        _ => String::new(),
    }
}
