//! RabbitMQ: a killed consumer's message goes back to its queue and is delivered again. `scripts/brokers` runs it.

use std::env;

use futures::StreamExt as _;
use idem_consumers::{Consumer, Result, Verdict, drive, is_consumer, to_publish};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
        ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::FieldTable,
};

const QUEUE: &str = "orders";

async fn connect(url: &str) -> Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;
    Ok((connection, channel))
}

async fn publish(url: &str) -> Result<()> {
    let (_connection, channel) = connect(url).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for id in to_publish() {
        // Persistent, and named by its sender: the delivery tag is another one at each delivery.
        let properties = BasicProperties::default().with_message_id(id.as_str().into()).with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), QUEUE.into(), options, id.as_bytes(), properties).await?.await?;
    }
    Ok(())
}

async fn consume(url: &str) -> Result<()> {
    let consumer = Consumer::from_env().await?;
    let (_connection, channel) = connect(url).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut deliveries = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    while let Some(delivery) = deliveries.next().await.transpose()? {
        let id = delivery.properties.message_id().as_ref().ok_or("a message without id")?.to_string();
        match consumer.handle(&id).await {
            Verdict::Acknowledge => {
                delivery.ack(BasicAckOptions::default()).await?;
                consumer.acknowledged(&id);
            }
            Verdict::PutBack(after) => {
                // A queue of its own with a dead-letter exchange would free the consumer meanwhile.
                tokio::time::sleep(after).await;
                delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
            }
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
    drive("RabbitMQ", &url).await
}
