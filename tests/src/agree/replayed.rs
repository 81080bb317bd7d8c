//! Every kind of question about an earlier moment, answered from the history and from a replay to that moment: the same
//! answer, to the last text.

use recant_projections::{
    fold::space::Space,
    query::{self, Filter, Moment, PageRequest},
    store::Store,
};
use recant_proto::time::Instant;

use super::{Chance, Differs, Purpose, same};
use crate::generate::SPACES;

/// Compares the answers of a store at an offset with those of one that ends there: how many nodes were asked about.
pub(super) fn answers(
    store: &impl Store,
    replayed: &impl Store,
    latest_ms: i64,
    chance: Chance,
    offset: u64,
) -> Result<u64, Differs> {
    let (Some(now), Some(then)) = (Moment::now(store)?, Moment::now(replayed)?) else { return Ok(0) };
    // On the writers' clock anything goes: half of the time all of it.
    let back_ms = chance.pick(400, Purpose::Time, offset) as i64 * 7 * 60 * 1000;
    let valid_at = chance.one_in(2, Purpose::Time, offset + 1).then(|| Instant::from_log_ms(latest_ms - back_ms));
    let (past, then) = (now.at_offset(offset).valid_at(valid_at), then.valid_at(valid_at));
    same("the position of the past", then.position, past.position)?;
    let mut asked = 0;
    for name in SPACES {
        let all = PageRequest { after: None, items_max: usize::MAX };
        let list = |store, moment: &Moment| query::list(store, name, moment.clone(), &Filter::default(), &all);
        let replayed_list = query::list(replayed, name, then.clone(), &Filter::default(), &all)?;
        same("a list of the past and of a replay", &replayed_list, &list(store, &past)?)?;
        same(
            "sources of the past and of a replay",
            query::sources(replayed, name, &then)?,
            query::sources(store, name, &past)?,
        )?;
        let retractions = (query::retractions(replayed, name, &then)?, query::retractions(store, name, &past)?);
        same("retractions of the past and of a replay", retractions.0, retractions.1)?;
        let (Some(before), Some(after)) =
            (opened(replayed, name, chance, offset)?, opened(store, name, chance, offset + 1)?)
        else {
            continue;
        };
        for draw in 0..4 {
            let which = chance.pick(replayed_list.items.len() as u64, Purpose::Explain, offset + draw) as usize;
            let Some(node) = replayed_list.items.get(which) else { break };
            let (expected, found) = (
                query::explain(replayed, &before, &then, &node.id, usize::MAX)?,
                query::explain(store, &after, &past, &node.id, usize::MAX)?,
            );
            same("an explanation of the past and of a replay", expected, found)?;
            let runs =
                (query::run_trace(replayed, name, &then, &node.run)?, query::run_trace(store, name, &past, &node.run)?);
            same("a run of the past and of a replay", runs.0, runs.1)?;
            asked += 1;
        }
    }
    Ok(asked)
}

/// A space in either form.
fn opened(store: &impl Store, name: &str, chance: Chance, offset: u64) -> Result<Option<Space>, Differs> {
    let resident_max = if chance.one_in(2, Purpose::PreviewPaged, offset) { 0 } else { u32::MAX };
    Ok(Space::open(store, name, resident_max)?)
}
