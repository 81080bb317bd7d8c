//! Who may do what.
//!
//! A [`Caller`] is known before anything is looked up ([`gate`]), by a token ([`tokens`]) or a JWT ([`oidc`], [`keys`]), and [`Caller::check`]
//! decides from the name of a space and a right alone, never from what the space holds. That is why what a caller may not see is exactly as if
//! it did not exist: the answer is the same, byte for byte and in the time that it takes. [`admit`] is the same for events: which right a
//! body needs, and in whose name it is. [`quota`] is how much a space may use; [`addresses`] keeps other people's web pages out; [`peers`] says
//! which other processes may be asked with a caller's token.
//!
//! On loopback without tokens everything is allowed to whoever runs programs on the machine; anywhere else a server without authentication does
//! not start. All settings are in one file ([`settings`]), read again when it changes.

mod addresses;
mod admission;
mod admit;
mod caller;
mod destinations;
pub mod gate;
mod keys;
mod oidc;
mod peers;
mod quota;
pub mod settings;
mod tls;
mod tokens;

#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::http::{HeaderMap, header};
use axum_server::tls_rustls::RustlsConfig;
use jiff::Timestamp;
use tokio::sync::{Mutex, watch};

pub use addresses::AddressRefused;
pub use admission::{Admission, Ended};
pub use admit::{admit, right_for};
pub use caller::{Caller, Denied, Grants, Right};
pub use destinations::{DestinationRefused, Destinations};
pub use peers::NotAsked;
pub use quota::{Exceeded, Quotas, StreamPermit};
pub use tls::install_provider;
pub use tokens::{NewToken, TOKEN_PREFIX, random_bytes};

use self::{addresses::Addresses, oidc::Oidc, peers::Peers, settings::Settings, tls::Tls, tokens::Tokens};

/// So often files are looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// So often an issuer is asked for its keys, in multiples of that: a key that it took back goes then.
const LOOKS_PER_ASKING: u32 = 60;

/// Larger settings are not read.
const SETTINGS_BYTES_MAX: u64 = 4 << 20;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why.
        error: String,
    },
    /// A setting cannot be meant.
    #[error("{0}")]
    Setting(String),
    /// Anybody could do anything.
    #[error(
        "{0} can be reached from other machines, and nothing says who may do what. Listen on 127.0.0.1, or make a token (recant token NAME --space SPACE=read,write) and name the file with it (--access FILE)"
    )]
    OpenToOthers(SocketAddr),
}

/// Why it is not known who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a valid token is needed: Authorization: Bearer TOKEN")]
pub enum Unauthenticated {
    /// There is no token.
    Missing,
    /// Nobody has this token.
    Unknown,
    /// It was valid until it expired.
    Expired,
    /// It is a JWT that the issuer did not make for us.
    Forged,
}

impl Unauthenticated {
    /// For logs and measures; the caller is told none of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Unauthenticated::Missing => "missing",
            Unauthenticated::Unknown => "unknown",
            Unauthenticated::Expired => "expired",
            Unauthenticated::Forged => "forged",
        }
    }
}

/// What the settings say, as it counts now.
pub struct Access {
    listen: SocketAddr,
    file: Option<PathBuf>,
    current: ArcSwap<Current>,
    /// How often the settings were read: changes when they have changed.
    readings: watch::Sender<u64>,
    quotas: Arc<Quotas>,
    tls: Option<Mutex<Tls>>,
}

#[derive(Default)]
struct Current {
    text: String,
    tokens: Tokens,
    oidc: Option<Oidc>,
    addresses: Addresses,
    destinations: Arc<Destinations>,
    peers: Peers,
}

impl Access {
    /// Without tokens, for this machine only.
    pub fn of_this_machine() -> Access {
        Access {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            file: None,
            current: ArcSwap::from_pointee(Current::default()),
            readings: watch::Sender::new(0),
            quotas: Arc::default(),
            tls: None,
        }
    }

    /// Reads the settings for a server that listens here. Without a file everything is allowed, on loopback only.
    pub async fn open(file: Option<&Path>, listen: SocketAddr) -> Result<Access, AccessError> {
        let (current, settings) = match file {
            Some(path) => Current::read(path)?,
            None => Current::of(String::new())?,
        };
        if !current.authenticates() && !addresses::is_loopback(listen) {
            return Err(AccessError::OpenToOthers(listen));
        }
        let tls = match &settings.tls {
            Some(settings) => Some(Mutex::new(Tls::open(settings).await?)),
            None => None,
        };
        let quotas = Arc::new(Quotas::default());
        quotas.set(settings.quota);
        Ok(Access {
            listen,
            file: file.map(Path::to_owned),
            current: ArcSwap::from_pointee(current),
            readings: watch::Sender::new(0),
            quotas,
            tls,
        })
    }

    /// What an operator should be told at start.
    pub fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        if !self.current().authenticates() {
            told.push("without tokens: whoever can run programs on this machine may do everything".to_owned());
        } else if self.tls.is_none() && !addresses::is_loopback(self.listen) {
            told.push(
                "without TLS: tokens can be read on the way, unless a proxy before this server encrypts".to_owned(),
            );
        }
        told
    }

    /// Whether callers need a token.
    pub fn asks_who_calls(&self) -> bool {
        self.current().authenticates()
    }

    /// Whether the settings have a certificate.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// For the server, where the settings have a certificate.
    pub async fn tls(&self) -> Option<RustlsConfig> {
        match &self.tls {
            Some(tls) => Some(tls.lock().await.config()),
            None => None,
        }
    }

    /// What each space may use.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    /// Where changes may be pushed to.
    pub fn destinations(&self) -> Arc<Destinations> {
        self.current().destinations.clone()
    }

    /// A client for another process of the log that is announced at an address, and that address, if it may be asked.
    pub fn peer(&self, announced: &str) -> Result<(reqwest::Client, reqwest::Url), NotAsked> {
        self.current().peers.client(announced)
    }

    /// Who calls.
    pub async fn authenticate(&self, headers: &HeaderMap, now: Timestamp) -> Result<Caller, Unauthenticated> {
        let current = self.current();
        if !current.authenticates() {
            return Ok(Caller::of_this_machine());
        }
        let token = bearer(headers)?;
        match &current.oidc {
            Some(oidc) if !token.starts_with(TOKEN_PREFIX) => oidc.caller(token).await,
            _ => current.tokens.caller(token, now),
        }
    }

    /// Looks at files and keys again and again, for as long as it is polled.
    pub async fn keep_current(&self) {
        for look in 0_u32.. {
            if let Some(oidc) = &self.current().oidc
                && look.is_multiple_of(LOOKS_PER_ASKING)
            {
                oidc.keys().ask().await;
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            self.refresh().await;
        }
    }

    /// Reads what has changed. What cannot be used changes nothing.
    pub async fn refresh(&self) {
        if let Some(tls) = &self.tls {
            tls.lock().await.refresh().await;
        }
        let Some(path) = &self.file else { return };
        let before = self.current();
        match Current::read(path) {
            Ok((current, _)) if current.text == before.text => {}
            // Not even on loopback: whoever started it with tokens does not mean that.
            Ok((current, _)) if before.authenticates() && !current.authenticates() => {
                tracing::warn!(
                    "the access settings have neither tokens nor OIDC any more; those from before go on to count"
                );
            }
            Ok((current, settings)) => {
                self.quotas.set(settings.quota);
                self.current.store(Arc::new(current));
                self.readings.send_modify(|readings| *readings += 1);
                tracing::info!("the access settings were read again");
            }
            Err(error) => {
                tracing::warn!(%error, "the access settings cannot be read; those from before go on to count");
            }
        }
    }

    /// Changes when the settings have changed.
    fn readings(&self) -> watch::Receiver<u64> {
        self.readings.subscribe()
    }

    fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }
}

impl Current {
    fn read(path: &Path) -> Result<(Current, Settings), AccessError> {
        let failed = |error: String| AccessError::File { path: path.display().to_string(), error };
        let bytes = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if bytes > SETTINGS_BYTES_MAX {
            return Err(failed(format!("larger than {SETTINGS_BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Current::of(text).map_err(|error| failed(error.to_string()))
    }

    fn of(text: String) -> Result<(Current, Settings), AccessError> {
        // Its Display shows the line, which could hold a token that someone put there for its hash.
        let parsed: Result<Settings, toml::de::Error> = toml::from_str(&text);
        let settings = parsed.map_err(|error| AccessError::Setting(error.message().to_owned()))?;
        let tokens = Tokens::of(&settings.token)?;
        let oidc = settings.oidc.as_ref().map(Oidc::of).transpose()?;
        let addresses = Addresses::of(&settings)?;
        let destinations = Arc::new(Destinations::of(&settings.webhooks)?);
        let peers = Peers::of(&settings);
        Ok((Current { text, tokens, oidc, addresses, destinations, peers }, settings))
    }

    fn authenticates(&self) -> bool {
        !self.tokens.is_empty() || self.oidc.is_some()
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return Err(Unauthenticated::Missing) };
    let value = value.to_str().map_err(|_| Unauthenticated::Unknown)?;
    let (scheme, token) = value.split_once(' ').ok_or(Unauthenticated::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthenticated::Missing);
    }
    Ok(token.trim())
}
