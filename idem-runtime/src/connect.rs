//! Stores by URL.

use std::{error::Error, fmt, sync::Arc};

use crate::store::{DynStore, MemoryStore, StoreError};

/// What a store's URL may look like.
const ACCEPTED: &str = "`memory:`, `sqlite:./idem.db`, `postgres://user@host/database`, `redis://host:6379`, `rediss://host:6379` \
                        or `redis+cluster://host1:6379,host2:6379`";

/// Why no store was connected. Never shows more of the URL than its scheme: the rest may hold a password.
///
/// `Debug` says what `Display` says, because `fn main() -> Result<…>` prints that.
#[non_exhaustive]
pub enum ConnectError {
    /// The URL names no store.
    UnknownScheme(String),
    /// The URL names a store whose cargo feature is off.
    FeatureOff {
        /// The URL's scheme.
        scheme: String,
        /// The feature of `idem-runtime` to turn on.
        feature: &'static str,
    },
    /// The store can't be reached or won't do.
    Store(StoreError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownScheme(scheme) if scheme.is_empty() => {
                write!(f, "the store's URL is empty or has no scheme; write {ACCEPTED}")
            }
            Self::UnknownScheme(scheme) => write!(f, "`{scheme}:` is not a store; write {ACCEPTED}"),
            Self::FeatureOff { scheme, feature } => write!(
                f,
                "`{scheme}:` needs the feature `{feature}`: write idem-runtime = {{ version = \"{}\", features = [\"{feature}\"] }}",
                env!("CARGO_PKG_VERSION")
            ),
            // `source` is often not printed where a start-up fails, and the reason is all that helps there.
            Self::Store(error) => match error.source() {
                Some(cause) => write!(f, "{error}: {cause}"),
                None => error.fmt(f),
            },
        }
    }
}

impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::UnknownScheme(_) | Self::FeatureOff { .. } => None,
        }
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Connects the store that `url` names, creating what it needs.
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn DynStore>, ConnectError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "memory" => Ok(Arc::new(MemoryStore::new())),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Arc::new(crate::store::RedisStore::connect(url).await?)),
        #[cfg(feature = "redis-cluster")]
        "redis+cluster" | "rediss+cluster" => Ok(Arc::new(crate::store::RedisStore::connect(url).await?)),
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = url.trim_start_matches("sqlite:");
            let path = path.strip_prefix("//").unwrap_or(path).to_owned();
            let opened = tokio::task::spawn_blocking(move || crate::store::SqliteStore::open(path)).await;
            Ok(Arc::new(opened.map_err(StoreError::fault)??))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(crate::store::PostgresStore::connect(url).await?)),
        _ => Err(off_or_unknown(scheme)),
    }
}

fn off_or_unknown(scheme: &str) -> ConnectError {
    let feature = match scheme {
        "sqlite" => "sqlite",
        "postgres" | "postgresql" => "postgres",
        "redis" | "rediss" => "redis",
        "redis+cluster" | "rediss+cluster" => "redis-cluster",
        _ => return ConnectError::UnknownScheme(scheme.into()),
    };
    ConnectError::FeatureOff { scheme: scheme.into(), feature }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wrong_url_says_what_is_accepted() {
        let error = connect("mysql://root:hunter2@host/db").await.err().unwrap().to_string();
        assert!(error.contains("`mysql:` is not a store") && error.contains("`memory:`"), "{error}");
        assert!(!error.contains("hunter2"));
        let error = connect("redis.example").await.err().unwrap();
        assert!(error.to_string().contains("no scheme"), "{error}");
        // What a failed `main` prints.
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn a_feature_that_is_off_is_named() {
        let error = off_or_unknown("redis+cluster").to_string();
        assert!(error.contains(r#"features = ["redis-cluster"]"#), "{error}");
    }
}
