//! One call of a tool: who calls, in which space, and what is done for it. The right is checked before anything else.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use recant_processor::standalone::NewEvent;
use recant_projections::fold::Fate;
use recant_proto::{
    position::Position,
    v1::{Event, event::Body},
    validate, wire,
};
use rmcp::{RoleServer, service::RequestContext};
use uuid::Uuid;

use super::{Served, answer::Refusal, session::Session};
use crate::{
    access::{Caller, Right, Unauthenticated, admit},
    changes,
    host::{Freshness, Reading, Wait},
    observe::traces,
    outcome::{Decided, Outcome},
    problem::{Problem, Sort},
};

/// So long a call waits at most for what it needs.
pub const WITHIN: Duration = Duration::from_secs(10);

/// So many changes of a cascade are told at most.
pub const CHANGES_MAX: usize = 1_000;

/// A call.
pub struct Call<'a> {
    /// What is served.
    pub served: &'a Served,
    /// In which session.
    pub session: &'a Session,
    /// Who calls.
    pub caller: Caller,
    /// In which space.
    pub space: String,
    agent: String,
    /// The trace that the call is in.
    traceparent: Option<String>,
}

impl<'a> Call<'a> {
    /// Says who calls, and checks that it may.
    pub fn of(
        served: &'a Served,
        session: &'a Session,
        context: &RequestContext<RoleServer>,
        space: Option<String>,
        right: Right,
    ) -> Result<Call<'a>, Refusal> {
        let caller = caller(served, context)?;
        let space = space.unwrap_or_else(|| served.default_space.clone());
        caller.check(&space, right)?;
        let client = context.peer.peer_info().map(|info| info.client_info.name.clone());
        let agent = caller.name().map(str::to_owned).or(client).filter(|name| !name.is_empty());
        let agent = agent.unwrap_or_else(|| "assistant".to_owned());
        // A session answers in a task of its own, so that what the request carried is read again.
        let headers = context.extensions.get::<axum::http::request::Parts>().map(|parts| &parts.headers);
        let traceparent = headers.and_then(|headers| traces::traceparent_of(&traces::of_headers(headers)));
        Ok(Call { served, session, caller, space, agent, traceparent })
    }

    /// An event of this call.
    pub fn event(&self, body: Body) -> Event {
        Event {
            id: Uuid::now_v7().to_string(),
            space: self.space.clone(),
            agent: self.agent.clone(),
            run: self.session.run.clone(),
            occurred_at: Timestamp::now().to_string(),
            body: Some(body),
            ..Event::default()
        }
    }

    /// Asks something of the space, as it is with everything that was in the log when the question came.
    pub async fn read<R: Send + 'static>(
        &self,
        ask: impl FnOnce(Reading<'_>) -> Result<R, Problem> + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.served.host.read(&self.space, Freshness::Fresh, WITHIN, ask).await??)
    }

    /// Writes an event, and waits until it is applied.
    pub async fn write(&self, event: &mut Event) -> Result<Position, Refusal> {
        admit(&self.caller, event)?;
        let bytes = wire::to_protobuf(event).len();
        let broken = |violation| Problem::refused(Sort::Wrong, &violation);
        validate::check(event, bytes, &validate::DEFAULT_LIMITS).map_err(broken)?;
        let quotas = self.served.access.quotas();
        quotas.take(&self.space, 1, bytes, Instant::now()).map_err(Problem::from)?;
        let new = NewEvent { traceparent: self.traceparent.clone(), ..NewEvent::of(event) };
        let published = self.served.host.publish(vec![new], Wait::Applied(WITHIN)).await?;
        let Some(published) = published.into_iter().next() else { return Err(fate_unknown(None).into()) };
        match published.fate {
            Some(Fate::Accepted | Fate::Duplicate(_) | Fate::Skipped(_)) => Ok(published.position),
            Some(Fate::Rejected(violation)) => {
                let position = Some(published.position.to_string());
                Err(Problem { position, ..Problem::refused(Sort::No, &violation) }.into())
            }
            None => Err(fate_unknown(Some(published.position)).into()),
        }
    }

    /// Commits a retraction or reinstatement, and says what it did.
    pub async fn decide(&self, event: &mut Event, changes_max: usize) -> Result<Outcome, Refusal> {
        let position = self.write(event).await?;
        let log = self.served.host.log();
        let records = self.served.host.on_a_thread(move || changes::cascade(&*log, position)).await?;
        let records = records.map_err(Problem::from)?;
        let sources = records.first().and_then(|record| record.summary?.sources).unwrap_or_default();
        let decided = Decided { position: position.to_string(), records, sources, duplicate_of: None };
        Ok(Outcome::of(event, &decided, false, changes_max.min(CHANGES_MAX)))
    }

    /// Says what a retraction or reinstatement would do.
    pub async fn preview(&self, event: Event, changes_max: usize) -> Result<Outcome, Refusal> {
        self.read(move |reading| {
            let decided = reading.preview(&event)?;
            Ok(Outcome::of(&event, &decided, true, changes_max.min(CHANGES_MAX)))
        })
        .await
    }
}

/// Who calls: whom the gate found, or whoever started a server on standard input and output.
pub fn caller(served: &Served, context: &RequestContext<RoleServer>) -> Result<Caller, Problem> {
    if let Some(caller) = &served.caller_on_stdio {
        return Ok(caller.clone());
    }
    let parts = context.extensions.get::<axum::http::request::Parts>();
    parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned().ok_or_else(|| {
        Problem::new(Sort::No, "unauthenticated", "Who calls is not known", Unauthenticated::Missing.to_string())
    })
}

fn fate_unknown(position: Option<Position>) -> Problem {
    let detail =
        "it is in the log, and whether it was applied was not known in time; look for it before writing it again";
    Problem {
        position: position.map(|position| position.to_string()),
        ..Problem::new(Sort::CouldNot, "fate_unknown", "The fate of the event is not known", detail)
    }
}
