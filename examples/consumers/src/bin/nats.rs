//! NATS JetStream: what isn't acknowledged in time is delivered again. `scripts/brokers` runs it.

use std::{env, time::Duration};

use async_nats::{
    HeaderMap,
    jetstream::{self, AckKind, consumer::pull, stream},
};
use futures::StreamExt as _;
use idem_consumers::{Consumer, Result, Verdict, drive, is_consumer, to_publish};

const STREAM: &str = "ORDERS";
const SUBJECT: &str = "orders.created";
const ID: &str = "Message-Id";

async fn publish(url: &str) -> Result<()> {
    let jetstream = jetstream::new(async_nats::connect(url).await?);
    let config = stream::Config { name: STREAM.into(), subjects: vec![SUBJECT.into()], ..Default::default() };
    jetstream.create_stream(config).await?;
    for id in to_publish() {
        let mut headers = HeaderMap::new();
        // Not `Nats-Msg-Id`: the server drops a repeated one, though only for its window, and nothing would be shown.
        headers.insert(ID, id.as_str());
        jetstream.publish_with_headers(SUBJECT, headers, id.into()).await?.await?;
    }
    Ok(())
}

async fn consume(url: &str) -> Result<()> {
    let consumer = Consumer::from_env().await?;
    let jetstream = jetstream::new(async_nats::connect(url).await?);
    let config = pull::Config {
        durable_name: Some("shipping".into()),
        ack_wait: Duration::from_secs(3),
        max_ack_pending: 1,
        ..Default::default()
    };
    let pulling = jetstream.get_stream(STREAM).await?.get_or_create_consumer("shipping", config).await?;
    let mut messages = pulling.stream().max_messages_per_batch(1).messages().await?;
    while let Some(message) = messages.next().await.transpose()? {
        let id =
            message.headers.as_ref().and_then(|headers| headers.get(ID)).ok_or("a message without id")?.to_string();
        match consumer.handle(&id).await {
            Verdict::Acknowledge => {
                message.double_ack().await?;
                consumer.acknowledged(&id);
            }
            Verdict::PutBack(after) => message.ack_with(AckKind::Nak(Some(after))).await?,
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::var("URL")?;
    if is_consumer() {
        return consume(&url).await;
    }
    publish(&url).await?;
    drive("NATS JetStream", &url).await
}
