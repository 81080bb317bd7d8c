//! In which of a run's texts does a value stand?
//!
//! Each text is a lattice: its words are the steps from one place to the next, and what is written in several words and
//! means one thing is a longer step beside them: `1 000,00`, `5 December 2023`, `6 PM`, `DE89 3704 0044 0532 0130 00`.
//! A value stands in a text if some path through the value's own lattice has the same readings as a path in the text's.
//! Groups that can only be read together (a number with `000`, an account in fours) are not found one by one.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    normalise::normalise,
    numbers,
    words::{self, Gap, Word},
};

/// Several words are read together up to this many.
const GROUPS_MAX: usize = 16;

/// A value to look for.
#[derive(Debug)]
pub struct Value {
    lattice: Lattice,
}

impl Value {
    /// A string.
    pub fn of_text(text: &str) -> Value {
        let normal = normalise(text);
        let words = words::words(&normal);
        let mut lattice = Lattice::of_words(&words);
        // What was read into a text, such as a particle left out, is not read into a value.
        for (place, word) in words.iter().enumerate() {
            if word.readings.len() > 1 && word.readings.iter().all(|reading| reading.starts_with('w')) {
                lattice.steps[place].truncate(1);
            }
        }
        Value { lattice }
    }

    /// A JSON number: it equals a number, or a long code of the same digits, and nothing else.
    pub fn of_number(number: &str) -> Value {
        let mut lattice = Lattice::default();
        if let Some(decimal) = numbers::plain_decimal(number) {
            let code = words::code(&decimal).map(|code| Step { to: 1, reading: format!("c{code}") });
            lattice.gaps.push(Gap::Marks);
            lattice.spaceless.push(false);
            lattice.steps.push(std::iter::once(Step { to: 1, reading: format!("n{decimal}") }).chain(code).collect());
        }
        Value { lattice }
    }

    fn is_one_spaceless_word(&self) -> bool {
        self.lattice.spaceless.as_slice() == [true]
    }

    /// Whether both the word at this place and the one before it are of scripts that do not part words, with no
    /// punctuation between them: then there must be none in a text either.
    fn is_within_spaceless(&self, place: usize) -> bool {
        let Lattice { gaps, spaceless, .. } = &self.lattice;
        place > 0 && spaceless[place] && spaceless[place - 1] && is_blank(gaps[place])
    }
}

/// The texts of one run, in which values are looked up.
#[derive(Debug, Default)]
pub struct Corpus {
    /// Each reading has a number, so that a long text takes little.
    readings: HashMap<String, u32>,
    texts: Vec<Text>,
    /// Where each reading begins a step: text and place.
    postings: Vec<Vec<(u32, u32)>>,
}

impl Corpus {
    /// Adds a text; texts are numbered from 0 in the order in which they come.
    pub fn add(&mut self, text: &str) {
        let normal = normalise(text);
        let lattice = Lattice::of_words(&words::words(&normal));
        let number = self.texts.len() as u32;
        let mut text = Text { gaps: lattice.gaps, spaceless: lattice.spaceless, ..Text::default() };
        for (place, from) in lattice.steps.into_iter().enumerate() {
            text.starts.push(text.steps.len() as u32);
            for step in from {
                let reading = self.number_of(step.reading);
                if let Some(posting) = self.postings.get_mut(reading as usize) {
                    posting.push((number, place as u32));
                }
                text.steps.push((step.to, reading));
            }
        }
        self.texts.push(text);
    }

    fn number_of(&mut self, reading: String) -> u32 {
        let next = self.postings.len() as u32;
        let number = *self.readings.entry(reading).or_insert(next);
        if number == next {
            self.postings.push(Vec::new());
        }
        number
    }

    /// The numbers of the texts in which the value stands.
    pub fn texts_with(&self, value: &Value) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let Some(first) = value.lattice.steps.first() else { return found };
        if !self.knows(value) {
            return found;
        }
        let mut dead_ends = HashSet::new();
        for step in first {
            let Some(reading) = self.readings.get(&step.reading) else { continue };
            for (number, place) in self.postings.get(*reading as usize).into_iter().flatten() {
                let (number, place) = (*number as usize, *place as usize);
                if !found.contains(&number) && self.stands_at(value, number, place, &mut dead_ends) {
                    found.insert(number);
                }
            }
        }
        found
    }

    /// Whether some path through the value has only readings that occur in the corpus at all.
    fn knows(&self, value: &Value) -> bool {
        let steps = &value.lattice.steps;
        let mut reached = vec![false; steps.len() + 1];
        reached[0] = true;
        for (place, from) in steps.iter().enumerate() {
            if reached[place] {
                let known = from.iter().filter(|step| self.readings.contains_key(&step.reading));
                known.for_each(|step| reached[step.to as usize] = true);
            }
        }
        reached[steps.len()]
    }

    /// Whether a path of the text from this place on has the readings of one through the value. `dead_ends` keeps the
    /// forks that were tried before, so that many readings of many places do not multiply.
    fn stands_at(
        &self,
        value: &Value,
        number: usize,
        place: usize,
        dead_ends: &mut HashSet<(usize, usize, usize)>,
    ) -> bool {
        let Some(text) = self.texts.get(number) else { return false };
        if value.is_one_spaceless_word() && text.has_spaceless_neighbour(place) {
            return false;
        }
        let mut open = vec![(0, place)];
        while let Some((in_value, in_text)) = open.pop() {
            let Some(steps) = value.lattice.steps.get(in_value) else { return true };
            let goes_on = !value.is_within_spaceless(in_value) || text.only_blank_before(in_text);
            if !goes_on {
                continue;
            }
            let before = open.len();
            for step in steps {
                let Some(reading) = self.readings.get(&step.reading) else { continue };
                let same = text.steps_from(in_text).iter().filter(|(_, of)| of == reading);
                open.extend(same.map(|(to, _)| (step.to as usize, *to as usize)));
            }
            if open.len() > before + 1 && !dead_ends.insert((in_value, number, in_text)) {
                open.truncate(before);
            }
        }
        false
    }
}

/// A text in a corpus: its lattice, with readings as numbers.
#[derive(Debug, Default)]
struct Text {
    gaps: Vec<Gap>,
    spaceless: Vec<bool>,
    /// For each place, where its steps begin.
    starts: Vec<u32>,
    /// To which place, and what is read on the way.
    steps: Vec<(u32, u32)>,
}

impl Text {
    fn steps_from(&self, place: usize) -> &[(u32, u32)] {
        let start_of = |place: usize| self.starts.get(place).map_or(self.steps.len(), |start| *start as usize);
        &self.steps[start_of(place)..start_of(place + 1)]
    }

    fn has_spaceless_neighbour(&self, place: usize) -> bool {
        let joined = |at: usize| self.gaps.get(at) == Some(&Gap::Joined);
        let spaceless = |at: usize| self.spaceless.get(at) == Some(&true);
        (place > 0 && joined(place) && spaceless(place - 1)) || (joined(place + 1) && spaceless(place + 1))
    }

    fn only_blank_before(&self, place: usize) -> bool {
        self.gaps.get(place).is_some_and(|gap| is_blank(*gap))
    }
}

fn is_blank(gap: Gap) -> bool {
    matches!(gap, Gap::Joined | Gap::Space | Gap::Blank)
}

#[derive(Debug)]
struct Step {
    to: u32,
    reading: String,
}

/// A text as places and the steps between them.
#[derive(Debug, Default)]
struct Lattice {
    /// What stands before the word at each place.
    gaps: Vec<Gap>,
    spaceless: Vec<bool>,
    /// The steps that begin at each place.
    steps: Vec<Vec<Step>>,
}

impl Lattice {
    fn of_words(words: &[Word<'_>]) -> Self {
        let single = |place: usize, word: &Word<'_>| -> Vec<Step> {
            word.readings.iter().map(|reading| Step { to: place as u32 + 1, reading: reading.clone() }).collect()
        };
        let mut lattice = Lattice {
            gaps: words.iter().map(|word| word.gap).collect(),
            spaceless: words.iter().map(|word| word.spaceless).collect(),
            steps: words.iter().enumerate().map(|(place, word)| single(place, word)).collect(),
        };
        lattice.read_codes_together(words);
        lattice.read_numbers_together(words);
        for place in 0..words.len() {
            for (length, reading) in dates_and_times(&words[place..]) {
                lattice.steps[place].push(Step { to: (place + length) as u32, reading });
            }
        }
        lattice
    }

    fn read_together(&mut self, place: usize, length: usize, reading: String, only_so: bool) {
        if only_so {
            self.steps[place..place + length].iter_mut().for_each(Vec::clear);
        }
        self.steps[place].push(Step { to: (place + length) as u32, reading });
    }

    /// `1 000,00`, `12 345`: groups of three with a space between. A group that begins with a zero, or decimals at the
    /// end, show that they are one number; else they may also be several.
    fn read_numbers_together(&mut self, words: &[Word<'_>]) {
        let mut place = 0;
        while place < words.len() {
            let length =
                run_of(&words[place..], &[Gap::Space], |word| word.raw.starts_with(|c: char| c.is_ascii_digit()));
            let groups: Vec<&str> = words[place..place + length].iter().map(|word| word.raw).collect();
            if (2..=GROUPS_MAX).contains(&length) && groups[0].len() <= 3 {
                let decimals = groups[length - 1].len() > 3;
                let only_so = decimals || groups[1..].iter().any(|group| group.starts_with('0'));
                for reading in numbers::number_readings(&groups.join("'")) {
                    self.read_together(place, length, format!("n{reading}"), only_so);
                }
            }
            place += length.max(1);
        }
    }

    /// An account, card or telephone number in groups. Only a whole run counts, so that no shorter code is found in it.
    fn read_codes_together(&mut self, words: &[Word<'_>]) {
        let is_group = |word: &Word<'_>| {
            let shaped = word.raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            shaped && word.raw.bytes().any(|byte| byte.is_ascii_digit())
        };
        let mut place = 0;
        while place < words.len() {
            let mut length = run_of(&words[place..], &[Gap::Space, Gap::Brackets], is_group);
            // The second group of an IBAN may be the letters of a bank: `GB29 NWBK 6016`.
            if length == 1 && is_country_and_check(words[place].raw) && words.get(place + 1).is_some_and(is_bank) {
                length += 1 + run_of(&words[place + 2..], &[Gap::Space], is_group);
            }
            let groups: Vec<&str> = words[place..place + length].iter().map(|word| word.raw).collect();
            if (2..=GROUPS_MAX).contains(&length)
                && let Some(code) = words::code(&groups.concat())
            {
                self.read_together(place, length, format!("c{code}"), is_in_fours(&groups));
            }
            place += length.max(1);
        }
    }
}

/// How many words from the first on are of that kind, with such gaps between them.
fn run_of(words: &[Word<'_>], gaps: &[Gap], belongs: impl Fn(&Word<'_>) -> bool) -> usize {
    let goes_on = |(index, word): (usize, &Word<'_>)| belongs(word) && (index == 0 || gaps.contains(&word.gap));
    words.iter().enumerate().take_while(|(index, word)| goes_on((*index, word))).count()
}

fn is_country_and_check(raw: &str) -> bool {
    matches!(raw.as_bytes(), [a, b, c, d] if a.is_ascii_lowercase() && b.is_ascii_lowercase() && c.is_ascii_digit() && d.is_ascii_digit())
}

fn is_bank(word: &Word<'_>) -> bool {
    word.gap == Gap::Space && word.raw.len() == 4 && word.raw.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// At least four groups of four, the last perhaps shorter, that are not just years.
fn is_in_fours(groups: &[&str]) -> bool {
    let Some((last, others)) = groups.split_last() else { return false };
    let is_year = |group: &&str| group.starts_with("19") || group.starts_with("20");
    groups.len() >= 4 && last.len() <= 4 && others.iter().all(|group| group.len() == 4) && !groups.iter().all(is_year)
}

/// What the first two to four words mean together: `5 December 2023`, `December 5th, 2023`, `6 PM`.
fn dates_and_times(words: &[Word<'_>]) -> Vec<(usize, String)> {
    let raw = |index: usize| words.get(index).map_or("", |word| word.raw);
    let mut readings = Vec::new();
    if let Some(time) = numbers::twelve_hour_reading(raw(0), raw(1)) {
        readings.push((2, format!("t{time}")));
    }
    let of = usize::from(raw(1) == "of");
    let day_first = (raw(0), raw(1 + of), raw(2 + of), 3 + of);
    let month_first = (raw(1), raw(0), raw(2), 3);
    for (day, month, year, length) in [day_first, month_first] {
        if year.len() != 4 {
            continue;
        }
        let day = ["st", "nd", "rd", "th"].iter().find_map(|suffix| day.strip_suffix(suffix)).unwrap_or(day);
        if let Some(month) = numbers::month(month)
            && let Some(date) = numbers::day(year, &month.to_string(), day)
        {
            readings.push((length, format!("d{date}")));
        }
    }
    readings
}
