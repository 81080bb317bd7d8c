//! The log's contract on a real broker: what `eventlog/tests/conformance.rs` asks of the other logs, as far as Kafka's clock and
//! offsets let it, and what is Kafka's own: fencing, gaps, topics that are not what they must be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{BaseProducer, BaseRecord, Producer},
};
use recant_eventlog::{
    AppendLog, Bounds, Commit, Committed, Epoch, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog, Record,
    Topic,
    kafka::{KafkaLog, NewLog, Passthrough, Settings},
};
use recant_processor::standalone::log_created;
use recant_proto::position::{Incarnation, Position};
use recant_tests::kafka::{broker::Broker, instance, settings};

const INCARNATION: Incarnation = Incarnation(*b"a log on brokers");
const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

fn create(settings: Settings, incarnation: Incarnation, partitions: u32) -> Result<KafkaLog, LogError> {
    let first_event = |incarnation, partitions, partition| log_created(incarnation, partitions, partition, false);
    KafkaLog::open_or_create(settings, &NewLog { incarnation, partitions, first_event: &first_event })
}

fn new_log(test: &str, partitions: u32) -> KafkaLog {
    create(settings(&Broker::shared().address(), &instance(test)), INCARNATION, partitions).unwrap()
}

fn event(partition: u32, value: &str) -> NewRecord {
    let headers = vec![("ce_id".to_owned(), b"e".to_vec()), ("b".to_owned(), vec![0, 255]), ("b".to_owned(), vec![])];
    NewRecord { partition, key: b"space".to_vec(), headers, value: value.into(), append_time_ms: None }
}

fn output(topic: Topic, value: &str) -> Output {
    Output { topic, key: b"space".to_vec(), headers: vec![("ce_id".to_owned(), b"c".to_vec())], value: value.into() }
}

fn committed(next_offset: u64) -> Committed {
    Committed { next_offset, metadata: format!("up to {next_offset} \u{0}").into_bytes() }
}

fn at(partition: u32, offset: u64) -> Position {
    Position { partition, offset }
}

fn read_all(log: &KafkaLog, topic: Topic, partition: u32) -> Vec<Record> {
    // What was committed is certain, and visible some moments later.
    log.settled_end(topic, partition, Duration::from_secs(60)).unwrap();
    let mut next = log.bounds(topic, partition).unwrap().earliest;
    let mut all = Vec::new();
    loop {
        let records = log.read(topic, partition, next, ALL).unwrap();
        let Some(last) = records.last() else { return all };
        next = last.position.offset + 1;
        all.extend(records);
    }
}

fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.value).into_owned()).collect()
}

/// Whoever opens it next finds the same log, and each partition begins with its first event, once.
#[test]
fn a_log_is_created_once() {
    let log = new_log("created", 3);
    assert_eq!((log.incarnation(), log.partitions()), (INCARNATION, 3));
    let again = create(log.settings().clone(), Incarnation([1; 16]), 7).unwrap();
    assert_eq!((again.incarnation(), again.partitions()), (INCARNATION, 3));
    assert_eq!(KafkaLog::open(log.settings().clone()).unwrap().incarnation(), INCARNATION);
    for partition in 0..3 {
        let records = read_all(&log, Topic::Events, partition);
        let expected = log_created(INCARNATION, 3, partition, false);
        assert_eq!(records.len(), 1);
        assert_eq!((&records[0].key, &records[0].value), (&expected.key, &expected.value));
        assert_eq!(log.bounds(Topic::Changes, partition).unwrap(), Bounds::default());
        assert_eq!(log.read(Topic::Changes, partition, 0, ALL).unwrap(), []);
        assert_eq!(log.committed(partition).unwrap(), Committed::default());
    }
    assert!(matches!(log.read(Topic::Events, 3, 0, ALL), Err(LogError::NoPartition(3))));
    assert!(matches!(log.acquire(3), Err(LogError::NoPartition(3))));
}

/// Two processes that start at the same time agree on the log's name.
#[test]
fn creating_at_the_same_time_makes_one_log() {
    let settings = settings(&Broker::shared().address(), &instance("race"));
    let logs: Vec<KafkaLog> = std::thread::scope(|scope| {
        let create = |number: u8| {
            let settings = settings.clone();
            scope.spawn(move || create(settings, Incarnation([number; 16]), 4).unwrap())
        };
        let racers: Vec<_> = (1..=4).map(create).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert!(logs.iter().all(|log| log.incarnation() == logs[0].incarnation()));
}

#[test]
fn records_come_back_as_they_were_in_order() {
    let log = new_log("order", 2);
    let positions = log.append(vec![event(1, "a"), event(0, "b"), event(1, "c"), event(1, "")]).unwrap();
    assert_eq!(positions, [at(1, 1), at(0, 1), at(1, 2), at(1, 3)]);
    let records = read_all(&log, Topic::Events, 1);
    assert_eq!(values(&records)[1..], ["a", "c", ""]);
    assert_eq!((&records[1].headers, &records[1].key[..]), (&event(1, "a").headers, &b"space"[..]));
    assert!(records.windows(2).all(|pair| pair[0].append_time_ms <= pair[1].append_time_ms));
    assert!(records[1].append_time_ms > 1_700_000_000_000, "the brokers' clock: {}", records[1].append_time_ms);
    // From any offset, forth and back; at least one record, however small the limit.
    let two = ReadLimit { records_max: 2, bytes_max: usize::MAX };
    let small = ReadLimit { records_max: 9, bytes_max: 1 };
    assert_eq!(log.read(Topic::Events, 1, 2, two).unwrap(), records[2..4]);
    assert_eq!(log.read(Topic::Events, 1, 0, two).unwrap(), records[..2]);
    assert_eq!(log.read(Topic::Events, 1, 1, small).unwrap(), records[1..2]);
    assert_eq!(log.read(Topic::Events, 1, 4, ALL).unwrap(), []);
    assert!(matches!(log.read(Topic::Events, 1, 5, ALL), Err(LogError::OutOfRange { offset: 5, .. })));
    // What is appended once the end was seen is seen.
    log.append(vec![event(1, "d")]).unwrap();
    log.wait(Topic::Events, 1, 4, Duration::from_secs(60)).unwrap();
    assert_eq!(values(&log.read(Topic::Events, 1, 4, ALL).unwrap()), ["d"]);
    assert_eq!(log.find_by_time(1, records[1].append_time_ms).unwrap().min(1), 1);
    assert_eq!((log.find_by_time(1, 0).unwrap(), log.find_by_time(1, i64::MAX).unwrap()), (0, 5));
    let dated = NewRecord { append_time_ms: Some(1), ..event(0, "x") };
    assert!(matches!(log.append(vec![dated]), Err(LogError::NotAccepting(_))));
    assert!(matches!(log.append(vec![event(2, "x")]), Err(LogError::NoPartition(2))));
}

#[test]
fn a_commit_publishes_outputs_position_and_metadata() {
    let log = new_log("commit", 2);
    log.append(vec![event(1, "a"), event(1, "b")]).unwrap();
    let (epoch, before) = log.acquire(1).unwrap();
    assert_eq!(before, Committed::default());
    log.read(Topic::Events, 1, 0, ALL).unwrap();
    let outputs = [(Topic::Changes, "c"), (Topic::Rejected, "r"), (Topic::Changes, "d")];
    let outputs = outputs.map(|(topic, value)| output(topic, value)).to_vec();
    assert_eq!(log.commit(1, epoch, outputs, committed(2)), Commit::Committed);
    assert_eq!(log.commit(1, epoch, vec![output(Topic::Changes, "e")], committed(3)), Commit::Committed);
    let changes = read_all(&log, Topic::Changes, 1);
    assert_eq!(values(&changes), ["c", "d", "e"]);
    assert_eq!((&changes[0].key[..], &changes[0].headers[0].0[..]), (&b"space"[..], "ce_id"));
    assert_eq!(values(&read_all(&log, Topic::Rejected, 1)), ["r"]);
    assert_eq!(log.committed(1).unwrap(), committed(3));
    assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 0);
    // A transaction without outputs moves the position alone.
    assert_eq!(log.commit(1, epoch, vec![], Committed { metadata: vec![], ..committed(3) }), Commit::Committed);
    assert_eq!(log.committed(1).unwrap(), Committed { next_offset: 3, metadata: vec![] });
    for (outputs, next_offset, reason) in [
        (vec![output(Topic::Events, "e")], 3, "events"),
        (vec![], 2, "back from 3 to 2"),
        (vec![output(Topic::Changes, "c")], 4, "beyond the end"),
    ] {
        let answer = log.commit(1, epoch, outputs, committed(next_offset));
        assert!(matches!(&answer, Commit::Aborted(text) if text.contains(reason)), "{answer:?}");
    }
    assert_eq!(values(&read_all(&log, Topic::Changes, 1)), ["c", "d", "e"]);
}

/// The promise on which all others rest: from the moment that a partition is acquired, whoever had it before publishes nothing,
/// also what it has sent already.
#[test]
fn only_the_last_to_acquire_can_commit() {
    let first = new_log("fencing", 1);
    let second = KafkaLog::open(first.settings().clone()).unwrap();
    first.append(vec![event(0, "a"), event(0, "b")]).unwrap();
    let commit =
        |log: &KafkaLog, epoch, text: &str| log.commit(0, epoch, vec![output(Topic::Changes, text)], committed(1));
    assert_eq!(commit(&first, Epoch(1), "nobody"), Commit::Fenced);
    let (of_first, _) = first.acquire(0).unwrap();
    assert_eq!(commit(&first, of_first, "first"), Commit::Committed);
    let (of_second, before) = second.acquire(0).unwrap();
    assert_eq!(before, committed(1), "what the one before has committed is seen");
    assert_eq!(commit(&first, of_first, "zombie"), Commit::Fenced);
    assert_eq!(commit(&first, of_first, "zombie"), Commit::Fenced);
    assert_eq!(commit(&second, of_second, "second"), Commit::Committed);
    assert_eq!(commit(&second, Epoch(of_second.0 + 1), "later"), Commit::Fenced);
    let (of_first_again, _) = first.acquire(0).unwrap();
    assert!(of_first_again > of_first);
    assert_eq!(commit(&first, of_first, "stale"), Commit::Fenced);
    assert_eq!(commit(&second, of_second, "zombie"), Commit::Fenced);
    assert_eq!(commit(&first, of_first_again, "third"), Commit::Committed);
    assert_eq!(values(&read_all(&second, Topic::Changes, 0)), ["first", "second", "third"]);
}

/// Agents may write in transactions of their own: what they abort is never read, and the markers are no end.
#[test]
fn events_of_transactions_are_read_once_committed() {
    let log = new_log("markers", 1);
    let topic = log.settings().names.topic(Topic::Events).to_owned();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", Broker::shared().address())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    let timeout = Duration::from_secs(60);
    producer.init_transactions(timeout).unwrap();
    let send = |value: &str| {
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::to(&topic).partition(0).key("space").payload(value)).unwrap();
        producer.flush(timeout).unwrap();
    };
    send("committed");
    producer.commit_transaction(timeout).unwrap();
    for _ in 0..3 {
        send("aborted");
        producer.abort_transaction(timeout).unwrap();
    }
    // Behind the last record there are markers and aborted records alone, and then an open transaction.
    assert_eq!(values(&read_all(&log, Topic::Events, 0))[1..], ["committed"]);
    let end = log.bounds(Topic::Events, 0).unwrap().end;
    send("open");
    log.append(vec![event(0, "behind it")]).unwrap();
    assert_eq!(log.bounds(Topic::Events, 0).unwrap().end, end, "the end of what is committed");
    assert_eq!(log.read(Topic::Events, 0, 2, ALL).unwrap(), []);
    producer.commit_transaction(timeout).unwrap();
    assert_eq!(values(&log.read(Topic::Events, 0, 2, ALL).unwrap()), ["open", "behind it"]);
    assert_eq!(log.read(Topic::Events, 0, log.bounds(Topic::Events, 0).unwrap().end, ALL).unwrap(), []);
}

/// What an owner that died had sent, and not committed, is no sign of a position that is gone.
#[test]
fn what_was_aborted_was_not_published() {
    let log = new_log("aborted", 1);
    let names = &log.settings().names;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", Broker::shared().address())
        .set("transactional.id", &names.transactional_ids(0)[0])
        .create()
        .unwrap();
    producer.init_transactions(Duration::from_secs(60)).unwrap();
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::to(names.topic(Topic::Changes)).partition(0).key("space").payload("c")).unwrap();
    producer.flush(Duration::from_secs(60)).unwrap();
    assert_eq!(log.acquire(0).unwrap().1, Committed::default());
    assert!(log.bounds(Topic::Changes, 0).unwrap().end > 0, "it was sent");
    assert_eq!(read_all(&log, Topic::Changes, 0), []);
}

/// A committed position that the brokers have forgotten is not taken for a beginning: everything would be published again.
#[test]
fn a_position_that_is_gone_is_noticed() {
    let log = new_log("forgotten", 1);
    let (epoch, _) = log.acquire(0).unwrap();
    assert_eq!(log.commit(0, epoch, vec![output(Topic::Changes, "c")], committed(1)), Commit::Committed);
    log.let_go(0);
    let admin = admin();
    let group = log.settings().names.group();
    pollster::block_on(admin.delete_groups(&[group], &AdminOptions::new())).unwrap()[0].as_ref().unwrap();
    assert!(matches!(log.acquire(0), Err(LogError::PositionLost { partition: 0, .. })));
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", Broker::shared().address()).create().unwrap()
}

fn create_topics(topics: &[NewTopic<'_>]) {
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    for result in pollster::block_on(admin().create_topics(topics, &options)).unwrap() {
        result.unwrap();
    }
}

/// Topics that an operator made are used as they are where they will do, and refused with what to do where they will not.
#[test]
fn topics_are_checked() {
    let one = || TopicReplication::Fixed(1);
    let right: &[(&str, &str)] =
        &[("retention.ms", "-1"), ("message.timestamp.type", "LogAppendTime"), ("max.message.bytes", "2097152")];
    let wrong: &[(&str, &str, &str)] = &[
        ("retention.ms", "604800000", "kept for ever"),
        ("retention.bytes", "1000000", "kept for ever"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("max.message.bytes", "1048588", "2097152"),
        ("cleanup.policy", "compact", "must be delete"),
    ];
    let attempt = |name: &str, partitions, changed: Option<(&str, &str)>| {
        let settings = settings(&Broker::shared().address(), name);
        let events = settings.names.topic(Topic::Events).to_owned();
        let mut topic = NewTopic::new(&events, partitions, one());
        for (key, value) in right.iter().copied().filter(|(key, _)| changed.is_none_or(|(other, _)| other != *key)) {
            topic = topic.set(key, value);
        }
        if let Some((key, value)) = changed {
            topic = topic.set(key, value);
        }
        create_topics(&[topic]);
        create(settings, INCARNATION, 16)
    };
    assert_eq!(attempt(&instance("operators"), 5, None).unwrap().partitions(), 5, "as many as the operator chose");
    for (key, value, advice) in wrong {
        let refused = attempt(&instance("refused"), 1, Some((key, value))).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, LogError::Topic { .. }), "{text}");
        assert!(text.contains(key) && text.contains(value) && text.contains(advice), "{text}");
    }
    let unequal = settings(&Broker::shared().address(), &instance("unequal"));
    create_topics(&[NewTopic::new(unequal.names.topic(Topic::Changes), 2, one()).set("max.message.bytes", "6291456")]);
    let text = create(unequal, INCARNATION, 3).unwrap_err().to_string();
    assert!(text.contains("has 2 partitions") && text.contains("has 3"), "{text}");
    // Raised later: spaces would be looked for where they are not.
    let raised = new_log("raised", 2);
    let names = &raised.settings().names;
    for topic in Topic::ALL {
        let more = rdkafka::admin::NewPartitions::new(names.topic(topic), 4);
        for result in pollster::block_on(admin().create_partitions(&[more], &AdminOptions::new())).unwrap() {
            result.unwrap();
        }
    }
    let text = KafkaLog::open(raised.settings().clone()).unwrap_err().to_string();
    assert!(text.contains("created with 2 partitions, and the topic has 4"), "{text}");
    let absent = settings(&Broker::shared().address(), &instance("absent"));
    let text = KafkaLog::open(absent).unwrap_err().to_string();
    assert!(text.contains("does not exist"), "{text}");
}

/// Wrong settings and brokers that are not there are told of in words, without secrets.
#[test]
fn what_cannot_work_is_refused() {
    let mut wrong = settings(&Broker::shared().address(), "wrong");
    wrong.passthrough = Passthrough::default();
    wrong.passthrough.set_typed("no.such.setting=1").unwrap();
    let text = KafkaLog::open(wrong.clone()).unwrap_err().to_string();
    assert!(text.contains("no.such.setting"), "{text}");
    wrong.passthrough = Passthrough::default();
    wrong.passthrough.set_from([("RECANT_KAFKA_SSL_KEY_PEM".to_owned(), "hunter2".to_owned())]).unwrap();
    wrong.passthrough.set_typed("security.protocol=ssl").unwrap();
    let text = format!("{:?}", KafkaLog::open(wrong).unwrap_err());
    assert!(!text.contains("hunter2"), "{text}");
}
