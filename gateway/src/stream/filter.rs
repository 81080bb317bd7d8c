//! Which changes a follower wants to hear of.

use recant_proto::v1::Change;

/// Which changes. An absent field lets everything through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of nodes of this kind.
    pub kind: Option<String>,
    /// To this status.
    pub status: Option<&'static str>,
    /// Of what was observed from this source.
    pub source: Option<String>,
    /// Of what this agent wrote.
    pub agent: Option<String>,
    /// Of what was written in this run.
    pub run: Option<String>,
    /// About this subject.
    pub subject: Option<String>,
    /// Because of this retraction, or this event.
    pub cause: Option<String>,
}

/// What a follower is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of which changes.
    pub filter: Filter,
    /// Whether of digests, too.
    pub digests: bool,
}

impl Filter {
    /// Whether it is to hear of a change.
    pub fn lets_through(&self, change: &Change) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        self.lets_cause_through(change)
            && same(&self.kind, &change.kind)
            && same(&self.source, &change.source)
            && same(&self.agent, &change.agent)
            && same(&self.run, &change.run)
            && same(&self.subject, &change.subject)
            && self.status.is_none_or(|wanted| wanted == change.to)
    }

    /// Whether it is to hear of a cascade as a whole. With a filter on nodes there is no saying what its summary would count.
    pub fn lets_summary_through(&self, summary: &Change) -> bool {
        let of_cause_alone = Filter { cause: self.cause.clone(), ..Filter::default() };
        *self == of_cause_alone && self.lets_cause_through(summary)
    }

    fn lets_cause_through(&self, change: &Change) -> bool {
        let Some(wanted) = &self.cause else { return true };
        change.cause.as_ref().is_some_and(|cause| cause.retraction == *wanted || cause.event == *wanted)
    }
}

impl Selection {
    /// Whether a record of the stream is told.
    pub fn lets_through(&self, change: &Change) -> bool {
        if change.digest.is_some() {
            self.digests
        } else if change.summary.is_some() {
            self.filter.lets_summary_through(change)
        } else {
            self.filter.lets_through(change)
        }
    }
}
