//! A consumer of one partition, as an agent is one: it lists what is believed, page by page, and follows the changes from
//! there; or it follows from the beginning. What it then believes must be the truth of its position.

use std::collections::BTreeMap;

use prost::Message as _;
use recant_eventlog::{ReadLimit, ReadLog as _, Topic};
use recant_projections::query::{self, Filter, Moment, PageError, PageRequest};
use recant_proto::{position::ChangeId, v1::Change};

use super::{Checked, Wrong, choices::Choices, disk::Disk, kafka::brokers::Brokers, truth::Truth, wrong};

/// Nodes on a page of a list.
const PAGE_ITEMS: usize = 7;

/// What a consumer knows: of each node of each space that it heard of, `IN` or `OUT`.
type Believed = BTreeMap<(String, String), String>;

/// A list that is being read, at one position over all its pages.
#[derive(Clone)]
struct Listing {
    spaces: Vec<String>,
    /// Where the next page of the first space begins.
    after: Option<String>,
    /// The position of all pages: everything below it is in.
    next_offset: Option<u64>,
    found: Believed,
}

impl Listing {
    /// Reads the next page; false if the state is behind the list: it has forgotten, or is of a process that is behind.
    fn read_page(&mut self, disk: &Disk, moment: &Moment, is_behind: bool) -> Checked<bool> {
        let Some(space) = self.spaces.last().cloned() else { return Ok(!is_behind) };
        let request = PageRequest { after: self.after.take(), items_max: PAGE_ITEMS };
        let page = match query::list(disk, &space, moment.clone(), &Filter::default(), &request) {
            Ok(_) | Err(PageError::Cursor(_)) if is_behind => return Ok(false),
            Ok(page) => page,
            Err(error) => return Err(Wrong(format!("a page of {space}: {error}"))),
        };
        for view in page.items {
            if self.found.insert((space.clone(), view.id.clone()), view.status.to_owned()).is_some() {
                return wrong(format!("{} of {space} is on two pages of one list", view.id));
            }
        }
        self.after = page.next;
        if self.after.is_none() {
            self.spaces.pop();
        }
        Ok(true)
    }
}

/// What survives the death of a consumer: what it knew, and from where it resumes.
#[derive(Clone)]
struct Saved {
    believed: Believed,
    /// The last record that it handled, of whole cascades alone.
    handled: Option<ChangeId>,
    /// From where it reads again: that, or an earlier one.
    cursor: Option<ChangeId>,
}

/// One consumer.
pub struct Consumer {
    partition: u32,
    lists_first: bool,
    listing: Option<Listing>,
    believed: Believed,
    handled: Option<ChangeId>,
    /// Up to where what it believes is the truth: the events below.
    next_offset: u64,
    /// Where it reads in the changes; unknown until it has looked for its cursor.
    offset: Option<u64>,
    /// The cascade that it does not hold whole yet.
    partial: Vec<Change>,
    saved: Saved,
}

impl Consumer {
    /// A consumer of a partition that knows nothing.
    pub fn new(partition: u32, lists_first: bool) -> Consumer {
        let saved = Saved { believed: Believed::new(), handled: None, cursor: None };
        let mut consumer = Consumer {
            partition,
            lists_first,
            listing: None,
            believed: Believed::new(),
            handled: None,
            next_offset: 0,
            offset: None,
            partial: Vec::new(),
            saved,
        };
        consumer.forget();
        consumer
    }

    /// The partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// It loses what it knows, and begins anew.
    pub fn forget(&mut self) {
        self.saved = Saved { believed: Believed::new(), handled: None, cursor: None };
        self.resume();
        let nothing = Listing { spaces: Vec::new(), after: None, next_offset: None, found: Believed::new() };
        self.listing = self.lists_first.then_some(nothing);
    }

    /// It dies, and resumes from what it saved. What it was listing it lists anew.
    pub fn die(&mut self) {
        if self.listing.is_some() {
            return self.forget();
        }
        self.resume();
    }

    fn resume(&mut self) {
        self.believed = self.saved.believed.clone();
        self.handled = self.saved.handled;
        self.next_offset = self.handled.map_or(0, |id| id.position.offset + 1);
        self.offset = None;
        self.partial.clear();
    }

    /// It saves what it knows; the cursor at times only later, so that it will hear some records again.
    pub fn save(&mut self, with_cursor: bool) {
        if self.listing.is_some() {
            return;
        }
        let cursor = if with_cursor { self.handled } else { self.saved.cursor };
        self.saved = Saved { believed: self.believed.clone(), handled: self.handled, cursor };
    }

    /// Reads a page, or some records of the changes. What it has done, in words.
    pub fn act(&mut self, log: &Brokers, disk: &Disk, truth: &Truth, choices: &mut Choices) -> Checked<String> {
        match self.listing.take() {
            Some(listing) => self.list(listing, disk, truth),
            None => self.follow(log, truth, choices.between(1, 12) as usize),
        }
    }

    fn list(&mut self, mut listing: Listing, disk: &Disk, truth: &Truth) -> Checked<String> {
        let Some(moment) = Moment::now(disk)? else {
            self.forget();
            return Ok("nothing to list yet".to_owned());
        };
        let stands_at = moment.position.offset + 1;
        let next_offset = *listing.next_offset.get_or_insert(stands_at);
        if listing.spaces.is_empty() {
            listing.spaces = truth.spaces();
        }
        let moment = moment.at_offset(next_offset - 1);
        let is_behind = stands_at < next_offset;
        if !listing.read_page(disk, &moment, is_behind)? {
            self.forget();
            return Ok(format!("the state is at {stands_at}, and the list at {next_offset}"));
        }
        if !listing.spaces.is_empty() {
            let done = format!("a page at {next_offset}");
            self.listing = Some(listing);
            return Ok(done);
        }
        let cursor = ChangeId::from_cursor(&moment.cursor()).map_err(|error| Wrong(error.to_string()))?;
        self.believed = listing.found;
        self.next_offset = next_offset;
        self.handled = Some(cursor);
        self.saved = Saved { believed: self.believed.clone(), handled: self.handled, cursor: self.handled };
        self.check(truth, true)?;
        Ok(format!("listed {} nodes at {next_offset}", self.believed.len()))
    }

    fn follow(&mut self, log: &Brokers, truth: &Truth, records_max: usize) -> Checked<String> {
        let from = match self.offset {
            Some(offset) => offset,
            None => self.find(log)?,
        };
        let settled = log.settled_position(self.partition);
        let limit = ReadLimit { records_max, bytes_max: usize::MAX };
        let records = log.read(Topic::Changes, self.partition, from, limit)?;
        let count = records.len();
        for record in records {
            self.offset = Some(record.position.offset + 1);
            let change = Change::decode(record.value.as_slice()).map_err(|error| Wrong(error.to_string()))?;
            self.hear(change, truth)?;
        }
        if count == 0 {
            self.offset = Some(from);
        }
        if let (0, true, Some(settled)) = (count, self.partial.is_empty(), settled) {
            // Nothing is published behind what it has handled: what it believes holds up to the committed position.
            self.next_offset = self.next_offset.max(settled.next_offset);
            self.check(truth, false)?;
        }
        Ok(format!("heard {count} records, is at {}", self.next_offset))
    }

    /// The first record behind its cursor. Change ids rise with the offsets.
    fn find(&self, log: &Brokers) -> Checked<u64> {
        let Some(cursor) = self.saved.cursor else { return Ok(0) };
        let bounds = log.bounds(Topic::Changes, self.partition)?;
        let (mut low, mut high) = (bounds.earliest, bounds.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let one = ReadLimit { records_max: 1, bytes_max: 1 };
            let records = log.read(Topic::Changes, self.partition, middle, one)?;
            // Markers, and what was aborted, take offsets and are not read.
            let Some(record) = records.first() else {
                high = middle;
                continue;
            };
            let change = Change::decode(record.value.as_slice()).map_err(|error| Wrong(error.to_string()))?;
            let is_behind = place(&id_of(&change)?) <= place(&cursor);
            if is_behind { low = record.position.offset + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn hear(&mut self, change: Change, truth: &Truth) -> Checked {
        if change.digest.is_some() {
            // Says nothing about a node.
            return Ok(());
        }
        let id = id_of(&change)?;
        if self.handled.is_some_and(|handled| place(&id) <= place(&handled)) {
            // Delivery is at least once.
            return Ok(());
        }
        let cascade = change.cascade.clone().unwrap_or_default();
        let index = cascade.index.unwrap_or_default();
        let expected = (self.partial.len() as u32, self.partial.first().map_or(id.position, position_of));
        if (index, id.position) != expected || id.index != index {
            return wrong(format!(
                "the record {} comes where record {} of the cascade at {} is next",
                change.id, expected.0, expected.1
            ));
        }
        self.partial.push(change);
        if index < cascade.total {
            return Ok(());
        }
        self.handled = Some(id);
        self.next_offset = id.position.offset + 1;
        for change in std::mem::take(&mut self.partial).into_iter().skip(1) {
            let key = (change.space.clone(), change.node.clone());
            // A birth IN is not a change: what it has not heard of was IN, unless the change says that it was born OUT.
            let before = self.believed.insert(key, change.to.clone());
            let before = before.or_else(|| (!change.from.is_empty()).then(|| "IN".to_owned())).unwrap_or_default();
            if before != change.from {
                return wrong(format!(
                    "{} says that {} was {:?}; the consumer believes {before:?}",
                    change.id, change.node, change.from
                ));
            }
        }
        self.check(truth, false)
    }

    /// What it believes is the truth of its position. From a list it knows every node; from changes those that ever changed.
    fn check(&self, truth: &Truth, knows_all: bool) -> Checked {
        let mut known = 0;
        for space in truth.spaces() {
            for (id, (status, _)) in truth.standings(&space, self.next_offset) {
                let believed = self.believed.get(&(space.clone(), id.to_owned()));
                known += usize::from(believed.is_some());
                let believed = believed.map(String::as_str).or((!knows_all).then_some("IN"));
                if believed != Some(status) {
                    return wrong(format!(
                        "a consumer of partition {} believes at {} that {id} of {space} is {believed:?}; it is {status}",
                        self.partition, self.next_offset
                    ));
                }
            }
        }
        if known == self.believed.len() {
            return Ok(());
        }
        wrong(format!(
            "a consumer of partition {} believes in {} nodes at {}, and {known} of them exist",
            self.partition,
            self.believed.len(),
            self.next_offset
        ))
    }

    /// Everything to the end, and the truth of it.
    pub fn finish(&mut self, log: &Brokers, disk: &Disk, truth: &Truth, choices: &mut Choices) -> Checked {
        let end = truth.end();
        let mut acts = 0;
        while self.listing.is_some() || self.next_offset < end {
            self.act(log, disk, truth, choices)?;
            acts += 1;
            if acts > 100_000 {
                return wrong(format!("a consumer of partition {} never comes to the end", self.partition));
            }
        }
        self.check(truth, false)
    }
}

fn place(id: &ChangeId) -> (u32, u64, u32) {
    (id.position.partition, id.position.offset, id.index)
}

fn id_of(change: &Change) -> Checked<ChangeId> {
    change.id.parse().map_err(|_| Wrong(format!("{:?} is no change id", change.id)))
}

fn position_of(change: &Change) -> recant_proto::position::Position {
    change.position.parse().unwrap_or(recant_proto::position::Position { partition: u32::MAX, offset: 0 })
}
