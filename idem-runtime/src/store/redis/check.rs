//! What is asked of a server before it is trusted with records.

use ::redis::{Value, cmd};

use super::link::Link;
use crate::store::StoreError;

/// Refuses a server that can't keep the contract, and warns of settings under which it may lose records.
pub(super) async fn check(link: &Link) -> Result<(), StoreError> {
    match link.query(&cmd("INFO")).await {
        Ok(Value::Map(nodes)) => nodes.iter().try_for_each(|(_, info)| judge(link, &text(info))),
        Ok(info) => judge(link, &text(&info)),
        // Connected, but not allowed to ask.
        Err(error) if link.is_connected() => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(
                store = "redis",
                server = %link.server,
                cause,
                "INFO is refused, so version, maxmemory-policy and persistence could not be checked"
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn text(info: &Value) -> String {
    match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text.clone(),
        _ => String::new(),
    }
}

fn judge(link: &Link, info: &str) -> Result<(), StoreError> {
    let fact = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
    };
    let version = fact("redis_version");
    let major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0_u32);
    if major < 7 {
        return Err(link.fault(format_args!("it is version {version:?}; Redis 7.0 or newer, or Valkey, is needed")));
    }
    if fact("role") == "slave" {
        return Err(link.fault("it is a replica; connect to its primary"));
    }
    if fact("cluster_enabled") == "1" && !link.server.is_cluster() {
        return Err(link.fault("it is a node of a cluster; use a URL that starts with redis+cluster://"));
    }
    let policy = fact("maxmemory_policy");
    if policy != "noeviction" {
        tracing::warn!(
            store = "redis",
            server = %link.server,
            policy,
            "maxmemory-policy evicts records, and a lost record means a second run; set it to noeviction"
        );
    }
    if fact("aof_enabled") != "1" {
        tracing::warn!(
            store = "redis",
            server = %link.server,
            "no append-only file: a crash of the server loses its records, and a lost record means a second run; \
             set appendonly to yes"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::server::Server;

    fn refusal(info: &str) -> Option<String> {
        let link = Link::new(Server::parse("redis://127.0.0.1:1").ok()?);
        judge(&link, info).err().map(|error| std::error::Error::source(&error).unwrap().to_string())
    }

    #[test]
    fn servers_that_cannot_keep_the_contract_are_refused() {
        assert_eq!(refusal("redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n"), None);
        assert_eq!(refusal("redis_version:10.0.0\r\n"), None);
        assert!(refusal("redis_version:6.2.14\r\n").unwrap().contains("6.2.14"));
        assert!(refusal("").unwrap().contains("7.0"));
        assert!(refusal("redis_version:7.2.4\r\nrole:slave\r\n").unwrap().contains("primary"));
        assert!(refusal("redis_version:7.2.4\r\ncluster_enabled:1\r\n").unwrap().contains("redis+cluster://"));
    }
}
