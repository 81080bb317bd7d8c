//! The public keys of an issuer: a JWKS in a file or at a URL.
//!
//! They rotate: a token that names a key which is not known is a reason to ask again, but not more often than
//! [`ASK_AGAIN_AFTER`], however many such tokens come. When they cannot be had, those that were had last go on to count.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{Jwk, JwkSet, PublicKeyUse},
};
use tokio::sync::Mutex;

use super::AccessError;

const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const SET_BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 256;

/// Where keys come from, and those that were had last.
#[derive(Debug)]
pub struct Keys {
    place: Place,
    current: ArcSwap<JwkSet>,
    /// When they were asked for last; held while they are, so that one asks and the others wait.
    asked: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    Url { url: reqwest::Url, client: reqwest::Client },
}

impl Keys {
    /// A URL with https, or http on loopback; else a file.
    pub fn at(place: &str) -> Result<Keys, AccessError> {
        Ok(Keys { place: Place::of(place)?, current: ArcSwap::default(), asked: Mutex::default() })
    }

    /// The key that a token names; or the only one that can be meant, if it names none.
    pub async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
        if let Some(key) = choose(&self.current.load(), id, algorithm) {
            return Some(key);
        }
        self.ask().await;
        choose(&self.current.load(), id, algorithm)
    }

    /// Asks for the keys, unless that was just done.
    pub async fn ask(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN_AFTER) {
            return;
        }
        match self.place.read().await {
            Ok(set) => self.current.store(Arc::new(set)),
            Err(error) => {
                tracing::warn!(%error, "the issuer's keys cannot be had; those that were had last go on to count")
            }
        }
        *asked = Some(Instant::now());
    }
}

fn choose(set: &JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<Jwk> {
    let fits = |key: &&Jwk| {
        let named = id.is_none_or(|id| key.common.key_id.as_deref() == Some(id));
        let for_signatures = !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
        let same_family = DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family());
        let same_algorithm = key.common.key_algorithm.is_none_or(|of_key| of_key == algorithm.into());
        named && for_signatures && same_family && same_algorithm
    };
    let mut fitting = set.keys.iter().filter(fits);
    let first = fitting.next()?;
    fitting.next().is_none().then(|| first.clone())
}

impl Place {
    fn of(place: &str) -> Result<Place, AccessError> {
        if !place.contains("://") {
            return Ok(Place::File(place.into()));
        }
        let wrong = |what: String| AccessError::Setting(format!("oidc: keys: {what}"));
        let url: reqwest::Url = place.parse().map_err(|error| wrong(format!("{place:?} is not a URL: {error}")))?;
        let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
            return Err(wrong("only https: whoever sits between could put keys of their own there".to_owned()));
        }
        super::tls::install_provider();
        let client = reqwest::Client::builder()
            .timeout(ASK_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Place::Url { url, client })
    }

    async fn read(&self) -> Result<JwkSet, String> {
        let bytes = match self {
            Place::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
            }
            Place::Url { url, client } => fetch(client, url).await?,
        };
        let set: JwkSet = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("more than {KEYS_MAX} keys"));
        }
        Ok(set)
    }
}

async fn fetch(client: &reqwest::Client, url: &reqwest::Url) -> Result<Vec<u8>, String> {
    let failed = |error: reqwest::Error| error.to_string();
    let mut response = client.get(url.clone()).send().await.map_err(failed)?.error_for_status().map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > SET_BYTES_MAX {
            return Err(format!("more than {SET_BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
