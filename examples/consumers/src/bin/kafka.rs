//! Kafka's protocol, by librdkafka's mock cluster: what was not committed is read again. `scripts/brokers` runs it.

use std::{env, time::Duration};

use idem_consumers::{Consumer, Result, Verdict, drive, is_consumer, to_publish};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    mocking::MockCluster,
    producer::{FutureProducer, FutureRecord},
};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 2;

async fn publish(url: &str) -> Result<()> {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", url).create()?;
    for id in to_publish() {
        let record = FutureRecord::to(TOPIC).key(&id).payload(&id);
        producer.send(record, Duration::from_secs(10)).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn consume(url: &str) -> Result<()> {
    let consumer = Consumer::from_env().await?;
    let reading: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", url)
        .set("group.id", "shipping")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()?;
    // One consumer at a time here; several would `subscribe`, and wait for the session of the one that was killed.
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset(TOPIC, partition, Offset::Stored)?;
    }
    reading.assign(&partitions)?;
    loop {
        let message = reading.recv().await?;
        // The sender's name for it: the offset is another one when a sender repeats itself.
        let id = String::from_utf8_lossy(message.key().ok_or("a message without id")?).into_owned();
        // There is nothing to put a message back to: its partition waits.
        while let Verdict::PutBack(after) = consumer.handle(&id).await {
            tokio::time::sleep(after).await;
        }
        reading.commit_message(&message, CommitMode::Sync)?;
        consumer.acknowledged(&id);
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    if is_consumer() {
        return consume(&env::var("URL")?).await;
    }
    let cluster = MockCluster::new(1)?;
    cluster.create_topic(TOPIC, PARTITIONS, 1)?;
    let url = cluster.bootstrap_servers();
    publish(&url).await?;
    drive("Kafka (mock cluster)", &url).await
}
