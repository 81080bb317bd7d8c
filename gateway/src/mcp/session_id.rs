//! Session ids that are bound to their callers.
//!
//! Whoever learns a session's id could listen to what it is told, or have their words taken for its own. So the id that a client is given is
//! the session's own and a keyed hash of it with the caller's name: with another's token it is an id that does not exist.
//! There is a bound on sessions, of each caller and of all: each remembers what it was shown.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager as _, local::LocalSessionManager};
use subtle::ConstantTimeEq;

use crate::access::{Admission, Caller};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// So many sessions at once.
const SESSIONS_MAX: usize = 2_000;
/// So many of one caller, so that none can take the place of all others.
const SESSIONS_OF_CALLER_MAX: usize = 200;

/// So often it is noticed that a session has ended by itself.
const LOOK_AFTER: Duration = Duration::from_secs(60);
/// So long after its token a session ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Hexadecimal digits of the hash that an id carries.
const SEAL_DIGITS: usize = 32;

/// Binds ids, with a key that is made at start: sessions do not outlive the process.
pub struct Binding {
    key: [u8; 32],
    sessions: Arc<LocalSessionManager>,
    /// Of each caller, those that may still be there.
    begun: Mutex<HashMap<Option<String>, Vec<SessionId>>>,
}

impl Binding {
    /// With a new key; none if the system has no randomness.
    pub fn new(sessions: Arc<LocalSessionManager>) -> Option<Binding> {
        let mut key = [0; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut key).ok()?;
        Some(Binding { key, sessions, begun: Mutex::default() })
    }

    /// Whether a caller may begin another session.
    async fn has_room(&self, caller: &Caller) -> bool {
        let there = self.sessions.sessions.read().await;
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.values_mut().for_each(|sessions| sessions.retain(|session| there.contains_key(session)));
        begun.retain(|_, sessions| !sessions.is_empty());
        let of_caller = begun.get(&caller.name().map(str::to_owned)).map_or(0, Vec::len);
        there.len() < SESSIONS_MAX && of_caller < SESSIONS_OF_CALLER_MAX
    }

    fn note_begun(&self, caller: &Caller, session: &str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.entry(caller.name().map(str::to_owned)).or_default().push(session.into());
    }

    fn seal(&self, session: &str, caller: &Caller) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(session.len() as u64).to_le_bytes());
        hasher.update(session.as_bytes());
        // Nobody by name is not the one without a name.
        hasher.update(if caller.name().is_some() { b"named:" } else { b"local:" });
        hasher.update(caller.name().unwrap_or_default().as_bytes());
        let hash = hasher.finalize().to_hex();
        hash.get(..SEAL_DIGITS).unwrap_or_default().to_owned()
    }

    fn bound(&self, session: &str, caller: &Caller) -> String {
        format!("{session}.{}", self.seal(session, caller))
    }

    /// The session's own id, if it is this caller's.
    fn session_of<'id>(&self, bound: &'id str, caller: &Caller) -> Option<&'id str> {
        let (session, seal) = bound.rsplit_once('.')?;
        bool::from(self.seal(session, caller).as_bytes().ct_eq(seal.as_bytes())).then_some(session)
    }
}

/// Translates ids on the way in and out.
pub async fn bind(State(binding): State<Arc<Binding>>, caller: Caller, mut request: Request, next: Next) -> Response {
    let admission = request.extensions().get::<Admission>().cloned();
    let given = request.headers().get(SESSION_ID).cloned();
    let begins = given.is_none();
    match given {
        Some(given) => {
            let session = given.to_str().ok().and_then(|given| binding.session_of(given, &caller));
            // What the protocol has clients begin a new session at.
            let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) else {
                return (StatusCode::NOT_FOUND, "there is no such session").into_response();
            };
            request.headers_mut().insert(SESSION_ID, session);
        }
        None if !binding.has_room(&caller).await => {
            return (StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions; try again later").into_response();
        }
        None => {}
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let Some(session) = headers.get(SESSION_ID).and_then(|session| session.to_str().ok()) {
        if begins {
            binding.note_begun(&caller, session);
            if let Some(admission) = admission {
                tokio::spawn(end_with(admission, binding.clone(), session.into()));
            }
        }
        if let Ok(bound) = HeaderValue::from_str(&binding.bound(session, &caller)) {
            headers.insert(SESSION_ID, bound);
        }
    }
    response
}

/// Ends a session with the token that it was begun with, for as long as there is one.
async fn end_with(admission: Admission, binding: Arc<Binding>, session: SessionId) {
    let ended = admission.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            () = tokio::time::sleep(LOOK_AFTER) => {
                if !binding.sessions.sessions.read().await.contains_key(&session) {
                    return;
                }
            }
        }
    }
    // Its streams say why they end, and need a moment for that.
    tokio::time::sleep(LAST_WORDS).await;
    if let Err(error) = binding.sessions.close_session(&session).await {
        tracing::debug!(%error, "a session had ended by itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Grants;

    #[test]
    fn a_session_is_its_callers_and_nobody_elses() {
        let binding = Binding::new(Arc::default()).unwrap();
        let caller = |name: &str| Caller::named(name, Grants::default());
        let bound = binding.bound("s-1", &caller("planner"));
        assert_eq!(binding.session_of(&bound, &caller("planner")), Some("s-1"));
        assert_eq!(binding.session_of(&bound, &caller("other")), None);
        assert_eq!(binding.session_of(&bound, &Caller::of_this_machine()), None);
        let nobody = binding.bound("s-1", &Caller::of_this_machine());
        assert_eq!(binding.session_of(&nobody, &caller("")), None);
        for forged in ["s-1", "s-1.", ".", &bound.replace("s-1", "s-2"), &bound[..bound.len() - 1]] {
            assert_eq!(binding.session_of(forged, &caller("planner")), None, "{forged}");
        }
        let after_restart = Binding::new(Arc::default()).unwrap();
        assert_eq!(after_restart.session_of(&bound, &caller("planner")), None);
    }
}
