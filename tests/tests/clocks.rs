//! Protects the rule about writers' clocks (docs/how-to/time-travel.md): they order nothing. Whatever they show, the same events
//! give the same statuses, cascades and answers as of each position; they are asked about with `valid-at` and by the windows of retractions,
//! as instants, whichever offset they are written with. The log's clock never goes back, whatever its records say.
//!
//! The clocks drawn here jump, repeat themselves, lie in the future or before 1970, are written with +05:30 shortly before midnight
//! and with two offsets around the changes to and from summer time. The instant of a time is reckoned here from its fields, and by
//! no code of recant.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod engine;
mod table;

use std::collections::BTreeSet;

use engine::{Engine, Record, in_words, list_at, records};
use proptest::prelude::*;
use prost::Message as _;
use recant_projections::query::Filter;
use recant_proto::{
    time,
    v1::{Event, event::Body},
};
use recant_tests::generate::BEGIN_MS;
use table::{HOUR_MS, derived, observed, reinstated, retracted, source, within};

/// What a clock shows: the fields of a time, and its offset in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    date: [i64; 3],
    clock: [i64; 3],
    offset_minutes: i64,
}

impl Shown {
    fn text(self) -> String {
        let ([year, month, day], [hour, minute, second]) = (self.date, self.clock);
        let (sign, offset) =
            if self.offset_minutes < 0 { ('-', -self.offset_minutes) } else { ('+', self.offset_minutes) };
        let offset = match offset {
            0 => "Z".to_owned(),
            _ => format!("{sign}{:02}:{:02}", offset / 60, offset % 60),
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{offset}")
    }

    /// Seconds since 1970 in UTC.
    fn instant(self) -> i64 {
        let [hour, minute, second] = self.clock;
        days_since_1970(self.date) * 86_400 + hour * 3_600 + minute * 60 + second - self.offset_minutes * 60
    }
}

/// Counted year by year and month by month.
fn days_since_1970([year, month, day]: [i64; 3]) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = |year: i64| if is_leap(year) { 366 } else { 365 };
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: i64 =
        if year >= 1970 { (1970..year).map(days_of).sum() } else { -(year..1970).map(days_of).sum::<i64>() };
    years + months[..month as usize - 1].iter().sum::<i64>() + day - 1
}

fn shown() -> impl Strategy<Value = Shown> {
    let at = |date, hours: std::ops::Range<i64>, offsets: &'static [i64]| {
        (hours, 0..60_i64, 0..60_i64, prop::sample::select(offsets)).prop_map(
            move |(hour, minute, second, offset_minutes)| Shown { date, clock: [hour, minute, second], offset_minutes },
        )
    };
    let anywhere = (1..=9_998_i64, 1..=12_i64, 1..=28_i64, 0..24_i64, -1_439..=1_439_i64).prop_map(
        |(year, month, day, hour, offset_minutes)| Shown {
            date: [year, month, day],
            clock: [hour, 30, 59],
            offset_minutes,
        },
    );
    prop_oneof![
        // An ordinary day, in which many are the same.
        4 => (0..3_i64).prop_map(|hour| Shown { date: [2026, 3, 2], clock: [hour, 0, 0], offset_minutes: 0 }),
        // Kolkata, shortly before midnight: the day before in UTC, or not.
        2 => at([2026, 3, 1], 23..24, &[330]),
        2 => at([2026, 3, 1], 18..19, &[0]),
        // Berlin's summer time begins: there is no half past two; and ends: there are two.
        2 => at([2026, 3, 29], 1..4, &[60, 120]),
        2 => at([2026, 10, 25], 1..4, &[60, 120]),
        // Before 1970, and the last day before it.
        1 => at([1969, 12, 31], 0..24, &[0, -660, 840]),
        // A leap day.
        1 => at([2028, 2, 29], 0..24, &[0, -570]),
        // Anywhere, the far future included.
        2 => anywhere,
    ]
}

const OBSERVATIONS: usize = 12;

/// A history in which each observation's and each belief's writer has a clock; what is retracted and reinstated of it does not
/// name one.
fn history(clocks: &[Shown]) -> Vec<Event> {
    let mut events = Vec::new();
    for (number, clock) in clocks.iter().enumerate() {
        let written = |event: Event| Event { occurred_at: clock.text(), ..event };
        let observation = observed(&format!("O{number}"), &format!("S{}", number % 3));
        events.push(written(observation));
        events.push(written(derived(&format!("B{number}"), &[&format!("O{number}"), &format!("O{}", number / 2)])));
        if number % 4 == 3 {
            events.push(retracted(&format!("r{number}"), &[source(&format!("S{}", number % 3))]));
        }
        if number % 8 == 7 {
            events.push(reinstated(&format!("r{}", number - 4)));
        }
    }
    events
}

/// The changes of each event, in words.
fn folded(engine: &mut Engine, events: &[Event]) -> Vec<Vec<String>> {
    let in_order = |event| records(&engine.fold(event)).iter().skip(1).map(in_words).collect();
    events.iter().map(in_order).collect()
}

fn standings_at(engine: &Engine, offset: u64) -> Vec<(String, &'static str)> {
    let moment = engine.now().at_offset(offset);
    let views = list_at(engine.partition.stored(), "s", moment, &Filter::default());
    views.into_iter().map(|view| (view.id, view.status)).collect()
}

fn ids(engine: &Engine, valid_at: &str) -> BTreeSet<String> {
    let instant = time::parse("valid_at", valid_at).unwrap();
    let moment = engine.now().valid_at(Some(instant));
    let views = list_at(engine.partition.stored(), "s", moment, &Filter::default());
    views.into_iter().map(|view| view.id).filter(|id| id.starts_with('O')).collect()
}

fn clocks() -> impl Strategy<Value = Vec<Shown>> {
    prop::collection::vec(shown(), OBSERVATIONS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Two sets of clocks, one history.
    #[test]
    fn writers_clocks_order_nothing(one in clocks(), other in clocks()) {
        let (mut first, mut second) = (Engine::new(), Engine::new());
        prop_assert_eq!(folded(&mut first, &history(&one)), folded(&mut second, &history(&other)));
        for offset in 0..first.log.len() as u64 {
            prop_assert_eq!(standings_at(&first, offset), standings_at(&second, offset));
        }
        // Times in the envelope are no content.
        prop_assert_eq!(first.digest("s"), second.digest("s"));
    }

    /// `valid-at` shows what is dated to that instant or before; asked exactly at each clock, and a second before.
    #[test]
    fn valid_at_compares_instants(clocks in clocks(), asked_with in prop::sample::select(&[0_i64, 330, -660][..])) {
        let mut engine = Engine::new();
        folded(&mut engine, &history(&clocks));
        for asked in &clocks {
            for seconds in [asked.instant(), asked.instant() - 1] {
                let expected = (0..).zip(&clocks).filter(|(_, clock)| clock.instant() <= seconds);
                let expected: BTreeSet<String> = expected.map(|(number, _): (usize, _)| format!("O{number}")).collect();
                let Some(asked_as) = in_offset(seconds, asked_with) else { continue };
                prop_assert_eq!(ids(&engine, &asked_as), expected, "at {}", asked_as);
            }
        }
    }

    /// A window of a retraction covers what is dated from its beginning on and before its end, by the writers' clocks.
    #[test]
    fn a_window_covers_instants(clocks in clocks(), one in shown(), other in shown(), before in any::<bool>()) {
        let (from, to) = if one.instant() <= other.instant() { (one, other) } else { (other, one) };
        let target = |number| within(source(&format!("S{number}")), &from.text(), &to.text(), "");
        let retraction = retracted("within", &[0, 1, 2].map(target));
        let observations: Vec<Event> = history(&clocks)
            .into_iter()
            .filter(|event| matches!(event.body, Some(Body::Observed(_))))
            .collect();
        let mut engine = Engine::new();
        // What arrives later is covered too.
        if before {
            engine.fold(&retraction);
        }
        folded(&mut engine, &observations);
        if !before {
            engine.fold(&retraction);
        }
        for (number, clock) in clocks.iter().enumerate() {
            let is_covered = (from.instant()..to.instant()).contains(&clock.instant());
            let expected = if is_covered { "OUT retracted" } else { "IN" };
            prop_assert_eq!(engine.standing("s", &format!("O{number}")), expected, "{} in {} to {}", clock.text(), from.text(), to.text());
        }
    }

    /// As of a time includes every record whose log time is at most that, and log time is the running maximum: also where the
    /// log's own clock jumps.
    #[test]
    fn the_logs_clock_never_goes_back(jumps in prop::collection::vec(-5_i64..=5, 1..40)) {
        let (mut now, mut latest) = (BEGIN_MS, i64::MIN);
        let mut log_times = Vec::new();
        let mut log = Vec::new();
        for (number, jump) in jumps.iter().enumerate() {
            now += jump * HOUR_MS;
            latest = latest.max(now);
            log_times.push(latest);
            let value = observed(&format!("O{number}"), "S").encode_to_vec();
            log.push(Record { append_time_ms: now, space: "s".to_owned(), value });
        }
        let engine = Engine::replayed(&log);
        for asked in log_times.iter().flat_map(|time| [*time, time - 1]) {
            let expected = log_times.iter().rposition(|time| *time <= asked).map(|offset| offset as u64);
            let found = engine.now().at_time(engine.partition.stored(), asked).unwrap();
            prop_assert_eq!(found.map(|moment| moment.position.offset), expected);
        }
    }
}

/// An instant written with an offset; none where its year has no four digits.
fn in_offset(seconds: i64, offset_minutes: i64) -> Option<String> {
    let local = seconds + offset_minutes * 60;
    let (days, rest) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    // From a year that is not after it.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_since_1970([year + 1, 1, 1]) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_since_1970([year, *month, 1]) <= days)?;
    let day = days - days_since_1970([year, month, 1]) + 1;
    let shown = Shown { date: [year, month, day], clock: [rest / 3_600, rest / 60 % 60, rest % 60], offset_minutes };
    (1..=9_999).contains(&year).then(|| shown.text())
}
