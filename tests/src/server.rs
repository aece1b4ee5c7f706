//! A real server on a loopback port, and the clients that talk to it.

use std::net::SocketAddr;

use axum::Router;
use reqwest::{Client, RequestBuilder, Response, header::HeaderMap};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Serves a router until dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    client: Client,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on a free loopback port.
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move { axum::serve(listener, service).await.expect("serve") });
        Self { address, client: Client::new(), task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A POST to `path` with this key.
    pub fn post(&self, path: &str, key: &str) -> RequestBuilder {
        self.keyless(path).header("idempotency-key", key)
    }

    /// A POST to `path` without a key.
    pub fn keyless(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path))
    }

    /// A GET of `path`.
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    /// A connection of its own, for requests that go wrong.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect to our server")
    }

    /// Sends `request` as it stands on a connection of its own, which is given back.
    pub async fn send_raw(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.expect("send to our server");
        stream
    }

    /// Sends `request` as it stands and reads until the server closes.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> Vec<u8> {
        let mut answer = Vec::new();
        let mut stream = self.send_raw(request).await;
        // A reset is an end too.
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer, taken apart for comparing.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body's bytes.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads the whole answer.
    pub async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.expect("a whole body").to_vec() }
    }

    /// Sends the request and reads the whole answer.
    pub async fn to(request: RequestBuilder) -> Self {
        Self::of(request.send().await.expect("an answer")).await
    }

    /// Whether it is marked as a replay.
    pub fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The `code` of a problem; checks that it is a well-formed one.
    pub fn problem(&self) -> String {
        let body: serde_json::Value =
            serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no problem: {}", self.text()));
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(body["status"], self.status, "{body}");
        let code = body["code"].as_str().expect("a code").to_owned();
        assert_eq!(body["type"], format!("urn:problem:idempotency:{code}"));
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        code
    }
}
