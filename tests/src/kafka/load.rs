//! The load of the crash tests, spread over the partitions of a log on Kafka.

use std::collections::BTreeMap;

use recant_eventlog::{AppendLog, LogError, NewRecord, ReadLog, kafka::KafkaLog};
use recant_proto::{names, position::Position, v1::Event, wire};

use crate::crash::events::Writer;

/// Several writers, each with spaces of its own, so that every partition has some.
pub struct Load {
    writers: Vec<Writer>,
    next: usize,
    /// What was acknowledged: where, and which event.
    pub acknowledged: BTreeMap<Position, String>,
}

impl Load {
    /// Of so many writers; what they write follows from the seed.
    pub fn new(seed: u64, writers: u64) -> Load {
        let writers = (0..writers).map(|number| Writer::new(seed, 0, number)).collect();
        Load { writers, next: 0, acknowledged: BTreeMap::new() }
    }

    /// The next writer's next call, as records.
    pub fn next_call(&mut self, partitions: u32) -> Vec<(Event, NewRecord)> {
        let number = self.next % self.writers.len();
        self.next += 1;
        let own_space = |mut event: Event| {
            event.space = format!("{}-{number}", event.space);
            let record = record(&event, partitions);
            (event, record)
        };
        self.writers[number].next_call().into_iter().map(own_space).collect()
    }

    /// Appends at least so many events. What is not acknowledged is appended again, as a client does.
    pub fn append(&mut self, log: &KafkaLog, events: usize) {
        let mut appended = 0;
        while appended < events {
            let call = self.next_call(log.partitions());
            let records: Vec<NewRecord> = call.iter().map(|(_, record)| record.clone()).collect();
            appended += records.len();
            let positions = loop {
                match log.append(records.clone()) {
                    Ok(positions) => break positions,
                    Err(LogError::Unreachable(_)) => {}
                    Err(error) => panic!("an append failed: {error}"),
                }
            };
            self.acknowledged.extend(positions.into_iter().zip(call.into_iter().map(|(event, _)| event.id)));
        }
    }
}

/// An event as it is appended.
pub fn record(event: &Event, partitions: u32) -> NewRecord {
    NewRecord {
        partition: names::partition_of(event.space.as_bytes(), partitions),
        key: event.space.clone().into_bytes(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(event),
        append_time_ms: None,
    }
}
