//! Appends records to the brokers' topics, idempotently: what librdkafka sends again by itself is there once.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rdkafka::{
    ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, Message, OwnedHeaders},
    producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer},
};

use super::{
    client::{Quiet, failed, refused},
    settings::Settings,
};
use crate::LogError;

/// So long a full queue is waited for.
const QUEUE_FULL_PATIENCE: Duration = Duration::from_secs(60);
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(1);

/// A record for any topic.
pub(super) struct Letter<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: u32,
    pub(super) key: &'a [u8],
    pub(super) headers: &'a [(String, Vec<u8>)],
    /// None for a tombstone.
    pub(super) value: Option<&'a [u8]>,
    /// What the record says of its time, where the topic keeps that.
    pub(super) time_ms: Option<i64>,
}

/// What became of the letter with this number.
struct Delivered {
    number: usize,
    offset: Result<u64, KafkaError>,
}

/// Goes with a letter, and tells of its delivery.
struct Receipt {
    number: usize,
    tell: Sender<Delivered>,
}

struct Deliveries(Quiet);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Receipt>;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Box<Receipt>) {
        let offset = match result {
            Ok(message) => Ok(u64::try_from(message.offset()).unwrap_or_default()),
            Err((error, _)) => Err(error.clone()),
        };
        // Whoever sent it may have given up.
        let _ = receipt.tell.send(Delivered { number: receipt.number, offset });
    }
}

pub(super) struct Appender {
    producer: ThreadedProducer<Deliveries>,
}

impl Appender {
    pub(super) fn new(settings: &Settings) -> Result<Appender, LogError> {
        let context = Deliveries(Quiet::new(settings));
        let producer = ThreadedProducer::from_config_and_context(&settings.appender(), context)
            .map_err(|error| refused(&error, settings))?;
        Ok(Appender { producer })
    }

    /// Sends letters, and waits until the brokers have them; gives their offsets. After an error some may be there.
    pub(super) fn send(&self, letters: &[Letter<'_>]) -> Result<Vec<u64>, LogError> {
        // Bounded by the letters in hand.
        let (tell, delivered) = unbounded();
        let enqueued = letters.iter().enumerate().try_for_each(|(number, letter)| {
            let receipt = Box::new(Receipt { number, tell: tell.clone() });
            self.enqueue(letter, receipt)
        });
        // Each letter that is under way has a sender of its own: the channel ends when all have been told of.
        drop(tell);
        let offsets = collect(letters.len(), &delivered);
        enqueued?;
        offsets
    }

    fn enqueue(&self, letter: &Letter<'_>, receipt: Box<Receipt>) -> Result<(), LogError> {
        let headers = letter
            .headers
            .iter()
            .fold(OwnedHeaders::new_with_capacity(letter.headers.len()), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
        let mut record = BaseRecord::with_opaque_to(letter.topic, receipt)
            .partition(letter.partition as i32)
            .key(letter.key)
            .headers(headers);
        record.payload = letter.value;
        record.timestamp = letter.time_ms;
        let begun = Instant::now();
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if begun.elapsed() < QUEUE_FULL_PATIENCE =>
                {
                    record = back;
                    std::thread::sleep(QUEUE_FULL_PAUSE);
                }
                Err((error, _)) => return Err(failed(&format!("appending to {}", letter.topic), &error)),
            }
        }
    }
}

/// The offsets of so many letters, in their order. librdkafka tells of each within its `message.timeout.ms`.
fn collect(count: usize, delivered: &Receiver<Delivered>) -> Result<Vec<u64>, LogError> {
    let mut offsets = vec![None; count];
    let mut failure = None;
    for Delivered { number, offset } in delivered {
        match offset {
            Ok(offset) => offsets[number] = Some(offset),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        return Err(failed("appending", &error));
    }
    let all: Option<Vec<u64>> = offsets.into_iter().collect();
    all.ok_or_else(|| LogError::Io("appending: the client ended before all was delivered".to_owned()))
}
