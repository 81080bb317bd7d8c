//! Reads one partition of one topic, from any offset.
//!
//! What is committed alone is read (`read_committed`), so offsets have gaps: transactions leave markers, and aborted ones
//! records that nobody sees. The log's contract wants "no record" to mean "this is the end", so where nothing comes the
//! broker is asked where the end is; what lies before it can still be markers alone, which only a fetch that began after
//! that question can tell.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Message},
    topic_partition_list::Offset,
};
use recant_proto::position::Position;

use super::{
    REQUEST_TIMEOUT,
    client::{Quiet, create_consumer, failed, is_unanswered, lacks_leader},
    native,
    settings::Settings,
};
use crate::{Bounds, LogError, ReadLimit, Record, Topic};

/// So long a record that must be there may take to come.
const FETCH_PATIENCE: Duration = Duration::from_secs(30);

/// How often a partition without a leader is asked for one.
const LEADER_LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Reader {
    consumer: BaseConsumer<Quiet>,
    topic: String,
    partition: u32,
    /// Fetched, and not yet read.
    pending: VecDeque<Record>,
    /// The offset from which the fetched records go on; nothing while none are fetched.
    next: Option<u64>,
    /// The fetcher has told that it was at the end, and tells that once.
    told_end: bool,
    /// From `next` up to here there is no record.
    empty_until: u64,
}

enum Fetched {
    Record(Record),
    End,
    Nothing,
}

impl Reader {
    pub(super) fn new(settings: &Settings, topic: Topic, partition: u32) -> Result<Reader, LogError> {
        Ok(Reader {
            consumer: create_consumer(&settings.reader(), settings)?,
            topic: settings.names.topic(topic).to_owned(),
            partition,
            pending: VecDeque::new(),
            next: None,
            told_end: false,
            empty_until: 0,
        })
    }

    /// Up to where records were given.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Records from `from` on; none at the end.
    pub(super) fn read(&mut self, from: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        self.go_to(from)?;
        let records = self.take_fetched(limit)?;
        if !records.is_empty() || limit.records_max == 0 {
            return Ok(records);
        }
        let mut end = self.bounds()?.end;
        let mut fetching_anew = false;
        let begun = Instant::now();
        loop {
            if self.empty_until.max(from) >= end {
                return Ok(Vec::new());
            }
            // There are records, or markers. A fetcher that has told of the end before says nothing of markers.
            if self.told_end {
                self.assign(from)?;
                fetching_anew = true;
            }
            match self.fetch(Duration::from_secs(1))? {
                Fetched::Record(record) => {
                    self.pending.push_back(record);
                    return self.take_fetched(limit);
                }
                // Told by a fetch that began after the question.
                Fetched::End if fetching_anew => self.empty_until = end,
                Fetched::End => end = self.bounds()?.end,
                Fetched::Nothing if begun.elapsed() < FETCH_PATIENCE => {}
                Fetched::Nothing => {
                    let detail = format!(
                        "{} [{}]: nothing came from offset {from} on in {} s, and the partition ends at {end}",
                        self.topic,
                        self.partition,
                        FETCH_PATIENCE.as_secs()
                    );
                    return Err(LogError::Unreachable(detail));
                }
            }
        }
    }

    /// Waits until there is a record to read from `from` on, at most so long.
    pub(super) fn wait(&mut self, from: u64, timeout: Duration) -> Result<(), LogError> {
        self.go_to(from)?;
        let begun = Instant::now();
        while self.pending.is_empty() {
            let left = timeout.saturating_sub(begun.elapsed());
            if let Fetched::Record(record) = self.fetch(left)? {
                self.pending.push_back(record);
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(())
    }

    fn go_to(&mut self, from: u64) -> Result<(), LogError> {
        if self.next == Some(from) {
            return Ok(());
        }
        let bounds = self.bounds()?;
        if !(bounds.earliest..=bounds.end).contains(&from) {
            return Err(LogError::OutOfRange { partition: self.partition, offset: from, bounds });
        }
        self.empty_until = 0;
        self.assign(from)
    }

    /// Fetches from an offset on, whatever was fetched before.
    fn assign(&mut self, from: u64) -> Result<(), LogError> {
        let mut assignment = TopicPartitionList::with_capacity(1);
        // Offsets are below 2^63 in Kafka.
        let offset = Offset::Offset(i64::try_from(from).unwrap_or(i64::MAX));
        assignment
            .add_partition_offset(&self.topic, self.partition as i32, offset)
            .and_then(|()| self.consumer.assign(&assignment))
            .map_err(|error| failed("assigning a partition", &error))?;
        self.pending.clear();
        self.next = Some(from);
        self.told_end = false;
        Ok(())
    }

    /// What has been fetched already, within the limit.
    fn take_fetched(&mut self, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while records.len() < limit.records_max && bytes < limit.bytes_max {
            let record = match self.pending.pop_front() {
                Some(record) => record,
                None => match self.fetch(Duration::ZERO)? {
                    Fetched::Record(record) => record,
                    Fetched::End | Fetched::Nothing => break,
                },
            };
            bytes += record.value.len();
            self.next = Some(record.position.offset + 1);
            records.push(record);
        }
        Ok(records)
    }

    fn fetch(&mut self, timeout: Duration) -> Result<Fetched, LogError> {
        match self.consumer.poll(timeout) {
            None => Ok(Fetched::Nothing),
            Some(Ok(message)) => {
                let record = to_record(&message, self.partition);
                // One of an assignment before may still come.
                if self.next.is_some_and(|next| record.position.offset < next) {
                    return Ok(Fetched::Nothing);
                }
                self.told_end = false;
                Ok(Fetched::Record(record))
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {
                self.told_end = true;
                Ok(Fetched::End)
            }
            Some(Err(error)) => self.failed_fetch(&error),
        }
    }

    fn failed_fetch(&mut self, error: &KafkaError) -> Result<Fetched, LogError> {
        use RDKafkaErrorCode as Code;
        let from = self.next.unwrap_or_default();
        match error.rdkafka_error_code() {
            // librdkafka connects again by itself, and says these things many times over.
            Some(code)
                if is_unanswered(code) || matches!(code, Code::NotLeaderForPartition | Code::LeaderNotAvailable) =>
            {
                tracing::debug!(topic = self.topic, partition = self.partition, %error, "fetching goes on");
                Ok(Fetched::Nothing)
            }
            // Said once, and silence after it.
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                self.next = None;
                Err(LogError::OutOfRange { partition: self.partition, offset: from, bounds: self.bounds()? })
            }
            Some(Code::BadMessage | Code::BadCompression | Code::InvalidMessage) => {
                self.next = None;
                let position = Position { partition: self.partition, offset: from };
                Err(LogError::Damaged { position, detail: error.to_string() })
            }
            _ => {
                self.next = None;
                Err(failed(&format!("reading {} [{}]", self.topic, self.partition), error))
            }
        }
    }

    fn bounds(&self) -> Result<Bounds, LogError> {
        bounds(&self.consumer, &self.topic, self.partition)
    }
}

/// What is kept of a partition, and the end of what is committed.
pub(super) fn bounds(consumer: &BaseConsumer<Quiet>, topic: &str, partition: u32) -> Result<Bounds, LogError> {
    let begun = Instant::now();
    let (low, high) = loop {
        match consumer.fetch_watermarks(topic, partition as i32, REQUEST_TIMEOUT) {
            Ok(ends) => break ends,
            Err(error) if error.rdkafka_error_code().is_some_and(lacks_leader) && begun.elapsed() < REQUEST_TIMEOUT => {
                std::thread::sleep(LEADER_LOOK_INTERVAL);
            }
            Err(error) => return Err(failed(&format!("asking where {topic} [{partition}] ends"), &error)),
        }
    };
    let offset = |offset: i64| u64::try_from(offset).unwrap_or_default();
    Ok(Bounds { earliest: offset(low), end: offset(high) })
}

fn to_record(message: &BorrowedMessage<'_>, partition: u32) -> Record {
    // A record that was read has an offset, which is not negative.
    let offset = u64::try_from(message.offset()).unwrap_or_default();
    Record {
        position: Position { partition, offset },
        append_time_ms: message.timestamp().to_millis().unwrap_or_default(),
        key: message.key().unwrap_or_default().to_vec(),
        headers: native::headers(message),
        value: message.payload().unwrap_or_default().to_vec(),
    }
}
