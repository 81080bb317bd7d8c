//! Appends what many have asked for: whatever has gathered while one append was under way goes into the next. So fifty writers are one
//! append, and a lone one does not wait.

use std::sync::Arc;

use recant_eventlog::LogError;
use recant_processor::standalone::NewEvent;
use recant_projections::fold::Fate;
use recant_proto::position::Position;
use tokio::sync::{mpsc, oneshot};

use super::error::HostError;

/// So many calls may wait to be appended.
const WAITING_MAX: usize = 1_024;
/// No further call joins an append that holds so many events.
const EVENTS_MAX: usize = 4_096;

/// What a call is answered once its events are durable.
pub(super) struct Accepted {
    /// Where they lie.
    pub(super) positions: Vec<Position>,
    /// What becomes of them; never, if that is not learned.
    pub(super) fates: oneshot::Receiver<Vec<Fate>>,
}

/// A call's part of an append, and who is told the fates of its events; nobody, if nobody waits.
pub(super) struct Appended {
    pub(super) positions: Vec<Position>,
    pub(super) tell: oneshot::Sender<Vec<Fate>>,
}

struct Request {
    events: Vec<NewEvent>,
    accepted: oneshot::Sender<Result<Accepted, HostError>>,
}

/// Takes calls.
pub(super) struct Calls {
    requests: mpsc::Sender<Request>,
}

/// The calls that were taken, for the thread that appends.
pub(super) struct Gathering {
    requested: mpsc::Receiver<Request>,
}

/// Calls, and where they gather.
pub(super) fn calls() -> (Calls, Gathering) {
    let (requests, requested) = mpsc::channel(WAITING_MAX);
    (Calls { requests }, Gathering { requested })
}

impl Calls {
    /// Has events appended, all or none; nothing if nobody appends any more.
    pub(super) async fn append(&self, events: Vec<NewEvent>) -> Option<Result<Accepted, HostError>> {
        let (accepted, told) = oneshot::channel();
        self.requests.send(Request { events, accepted }).await.ok()?;
        told.await.ok()
    }
}

impl Gathering {
    /// Appends until nobody calls any more, or nobody takes what was appended. Blocks.
    pub(super) fn append_all<A>(
        mut self,
        append: impl Fn(Vec<NewEvent>) -> Result<(Vec<Position>, A), LogError>,
        hand_on: impl Fn(A, Vec<Appended>) -> bool,
    ) {
        while let Some(gathered) = self.gather() {
            let (mut events, mut callers) = (Vec::new(), Vec::new());
            for request in gathered {
                callers.push((request.events.len(), request.accepted));
                events.extend(request.events);
            }
            match append(events) {
                Ok((positions, with)) => {
                    if !hand_on(with, share(positions, callers)) {
                        return;
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for (_, caller) in callers {
                        let _ = caller.send(Err(HostError::Append(error.clone())));
                    }
                }
            }
        }
    }

    /// The next calls; none if there are no more.
    fn gather(&mut self) -> Option<Vec<Request>> {
        let mut gathered = vec![self.requested.blocking_recv()?];
        let mut events = gathered.iter().map(|request| request.events.len()).sum::<usize>();
        while events < EVENTS_MAX
            && let Ok(next) = self.requested.try_recv()
        {
            events += next.events.len();
            gathered.push(next);
        }
        Some(gathered)
    }
}

/// Tells each caller where its events lie.
fn share(
    positions: Vec<Position>,
    callers: Vec<(usize, oneshot::Sender<Result<Accepted, HostError>>)>,
) -> Vec<Appended> {
    let mut positions = positions.into_iter();
    let mut shares = Vec::with_capacity(callers.len());
    for (count, caller) in callers {
        let positions: Vec<Position> = positions.by_ref().take(count).collect();
        let (tell, fates) = oneshot::channel();
        // Whoever asked may have stopped waiting; the events are there all the same.
        let _ = caller.send(Ok(Accepted { positions: positions.clone(), fates }));
        shares.push(Appended { positions, tell });
    }
    shares
}
