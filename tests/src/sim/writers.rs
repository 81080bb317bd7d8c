//! Writers: each has letters to append, repeats what was not answered, and dies now and then.

use std::collections::VecDeque;

use recant_eventlog::{NewRecord, ReadLimit, ReadLog as _, Topic};
use recant_proto::position::Position;

use super::{
    Checked,
    choices::Choices,
    kafka::brokers::Brokers,
    letters::{Desk, Letter},
    mishaps::TOLD_TO,
    names::Fault,
    wrong,
};

/// At most so many letters in one append.
pub const LETTERS_MAX: u64 = 5;

/// One writer.
#[derive(Default)]
pub struct Writer {
    letters: VecDeque<Letter>,
    /// What was appended and not answered; it is appended again.
    unanswered: Option<Vec<NewRecord>>,
}

/// What a writer was told that the log holds.
pub type Acknowledged = Vec<(Position, Vec<u8>)>;

impl Writer {
    /// It is to write this too.
    pub fn give(&mut self, letter: Letter) {
        self.letters.push_back(letter);
    }

    /// Whether it has something to write.
    pub fn has_more(&self) -> bool {
        !self.letters.is_empty() || self.unanswered.is_some()
    }

    /// Appends, with a fault if one is given: what was not answered before, else some letters. The clock has been moved as
    /// `advance` is told.
    pub fn act(
        &mut self,
        log: &Brokers,
        desk: &mut Desk,
        choices: &mut Choices,
        fault: Option<Fault>,
        advance: &mut dyn FnMut(i64),
    ) -> Checked<Acknowledged> {
        let records = match self.unanswered.take() {
            Some(records) => records,
            None => self.next_records(log, desk, choices, advance)?,
        };
        match log.append_with(records.clone(), fault) {
            Ok(positions) => Ok(positions.into_iter().zip(records.into_iter().map(|record| record.value)).collect()),
            Err(error) if error.to_string().contains(TOLD_TO) => {
                self.unanswered = Some(records);
                Ok(Vec::new())
            }
            Err(error) => wrong(format!("an append failed: {error}")),
        }
    }

    fn next_records(
        &mut self,
        log: &Brokers,
        desk: &mut Desk,
        choices: &mut Choices,
        advance: &mut dyn FnMut(i64),
    ) -> Checked<Vec<NewRecord>> {
        let count = choices.between(1, LETTERS_MAX) as usize;
        let mut ends: Vec<u64> = Vec::new();
        for partition in 0..log.partitions() {
            ends.push(log.bounds(Topic::Events, partition)?.end);
        }
        let mut records = Vec::new();
        for letter in self.letters.drain(..count.min(self.letters.len())) {
            advance(letter.clock_ms);
            let record = desk.write(&letter, ends[letter.partition as usize]);
            ends[letter.partition as usize] += 1;
            records.push(record);
        }
        Ok(records)
    }

    /// It dies before it hears of an append: the log has taken it or not, and nobody repeats it. How many letters that
    /// were.
    pub fn die(&mut self) -> u64 {
        self.unanswered.take().map_or(0, |records| records.len() as u64)
    }
}

/// What was acknowledged is in the log.
pub fn check_acknowledged(log: &Brokers, acknowledged: &Acknowledged) -> Checked {
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    for (position, value) in acknowledged {
        let records = log.read(Topic::Events, position.partition, position.offset, one)?;
        if records.first().is_none_or(|record| record.position != *position || record.value != *value) {
            return wrong(format!("the event that was acknowledged at {position} is not there"));
        }
    }
    Ok(())
}
