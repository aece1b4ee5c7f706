//! Which server: what a URL says, and how to connect to it.

use std::fmt;

use ::redis::{
    Client, ConnectionInfo, ErrorKind, IntoConnectionInfo as _, ProtocolVersion, PushInfo, RedisError, RedisResult,
    ServerErrorKind,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

use super::link::{self, Connection};

/// A server or cluster to connect to. Shown, it is host and port and never a password.
#[derive(Clone)]
pub(super) enum Server {
    Single(Client),
    #[cfg(feature = "redis-cluster")]
    Cluster(Vec<ConnectionInfo>),
}

impl Server {
    /// Reads a URL; the error says what is wrong with it and repeats nothing of it: a password could be anywhere.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("not a Redis URL: it has no ://")?;
        match scheme {
            "redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" | "valkey+unix" | "unix" => {
                Client::open(node(url)?).map(Self::Single).map_err(|error| error.to_string())
            }
            "redis+cluster" | "valkey+cluster" => Self::cluster("redis", rest),
            "rediss+cluster" | "valkeys+cluster" => Self::cluster("rediss", rest),
            _ => Err("not a Redis URL: it starts with none of redis:// rediss:// redis+cluster:// rediss+cluster://"
                .to_owned()),
        }
    }

    #[cfg(feature = "redis-cluster")]
    fn cluster(scheme: &str, rest: &str) -> Result<Self, String> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        hosts
            .split(',')
            .map(|host| node(&format!("{scheme}://{user}{host}{path}")))
            .collect::<Result<_, _>>()
            .map(Self::Cluster)
    }

    #[cfg(not(feature = "redis-cluster"))]
    fn cluster(_: &str, _: &str) -> Result<Self, String> {
        Err("a cluster needs the feature `redis-cluster` of idem-runtime".to_owned())
    }

    /// Connects; with `pushes` for a subscriber, which must speak RESP3.
    pub(super) async fn connect(&self, pushes: Option<UnboundedSender<PushInfo>>) -> RedisResult<Connection> {
        match self {
            Self::Single(client) => {
                let mut client = client.clone();
                if pushes.is_some() {
                    let info = client.get_connection_info().clone();
                    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
                    client = Client::open(info.set_redis_settings(redis))?;
                }
                let settings = link::settings(pushes);
                client.get_multiplexed_async_connection_with_config(&settings).await.map(Connection::Single)
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(nodes) => {
                let mut builder = ::redis::cluster::ClusterClientBuilder::new(nodes.clone())
                    .tcp_settings(tcp())
                    .connection_timeout(link::CONNECT)
                    .response_timeout(link::ANSWER)
                    .retries(3)
                    .min_retry_wait(50)
                    .max_retry_wait(200);
                if let Some(pushes) = pushes {
                    builder = builder.use_protocol(ProtocolVersion::RESP3).push_sender(pushes);
                }
                builder.build()?.get_async_connection().await.map(Connection::Cluster)
            }
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        !matches!(self, Self::Single(_))
    }

    /// Whether the connection that gave this error is of no more use.
    pub(super) fn reconnects_after(&self, error: &RedisError) -> bool {
        match self {
            // The server, or another one by now, may answer on a new connection where this one is silent or read-only.
            Self::Single(_) => match error.kind() {
                ErrorKind::Server(kind) => matches!(
                    kind,
                    ServerErrorKind::ReadOnly
                        | ServerErrorKind::MasterDown
                        | ServerErrorKind::BusyLoading
                        | ServerErrorKind::Moved
                ),
                ErrorKind::Extension => false,
                _ => true,
            },
            // A cluster's connection finds its nodes again by itself, and one lost node must not cost the others theirs.
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(_) => false,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(client) => client.get_connection_info().addr().fmt(f),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { "," } else { "" }, node.addr())?;
                }
                Ok(())
            }
        }
    }
}

/// One node's address and credentials, with our settings for its socket.
fn node(url: &str) -> Result<ConnectionInfo, String> {
    let info = url.into_connection_info().map_err(|error| {
        if url.starts_with("rediss:") || url.starts_with("valkeys:") {
            format!("{error}; for TLS, add redis with its feature tokio-rustls-comp to the application")
        } else {
            error.to_string()
        }
    })?;
    if info.addr().is_supported() { Ok(info.set_tcp_settings(tcp())) } else { Err("not supported here".to_owned()) }
}

/// Requests leave at once, and a peer that is gone without a word is noticed within seconds.
fn tcp() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(2));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(5));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str) -> String {
        Server::parse(url).err().unwrap_or_else(|| panic!("{url} is accepted"))
    }

    #[test]
    fn wrong_urls_are_explained_and_never_repeated() {
        for url in
            ["", "localhost", "secret@host:6379", "http://:secret@host", "redis://:secret@", "redis://:secret@h/db"]
        {
            let error = error(url);
            assert!(!error.contains("secret") && !error.is_empty(), "{url}: {error}");
        }
        assert!(error("postgres://host").contains("redis://"));
    }

    #[test]
    fn tls_that_is_not_compiled_in_names_the_feature() {
        // Another crate in the build may have compiled it in.
        if let Err(error) = Server::parse("rediss://:secret@localhost") {
            assert!(error.contains("tokio-rustls-comp") && !error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "redis-cluster"))]
    #[test]
    fn a_cluster_names_the_feature() {
        assert!(error("redis+cluster://a:1,b:2").contains("redis-cluster"));
    }

    #[cfg(feature = "redis-cluster")]
    #[test]
    fn a_cluster_has_many_hosts_and_one_user() {
        let server = Server::parse("redis+cluster://app:s,e%40c@a:1,b,[::1]:3/0?protocol=resp3").ok().unwrap();
        assert_eq!(server.to_string(), "a:1,b:6379,::1:3");
        let Server::Cluster(nodes) = server else { panic!("one server") };
        for node in nodes {
            let redis = node.redis_settings();
            assert_eq!((redis.username(), redis.password()), (Some("app"), Some("s,e@c")));
        }
        assert!(!error("redis+cluster://:secret@").contains("secret"));
    }
}
