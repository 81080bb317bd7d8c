//! Which other processes of the log may be asked on a caller's behalf, with the caller's token.
//!
//! Anyone who may write to `recant.members` can announce an address; that is no reason to send a token there. So a process is asked
//! only at an address of this machine, or under a name that an operator wrote down: one of `hosts`, the names under which the
//! servers of this log are called. Over TLS it must prove that name, to the system's authorities or to the one in `tls.authority`.
//!
//! Whoever is asked finds out by itself who calls, and what the caller may: it trusts the process that asks no more than any caller.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{Certificate, Client, ClientBuilder, Url, redirect};

use super::{settings::Settings, tls::install_provider};

/// A process that is gone does not answer at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// An answer that has begun and goes no further for so long is broken off.
const STALLED_MAX: Duration = Duration::from_secs(30);

/// Why a process is not asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotAsked {
    /// Its address is none that may be asked.
    #[error(
        "the process that serves it is announced at {0:?}, which is no name in `hosts` of the access settings, nor on this machine: it is not given a caller's token"
    )]
    Unknown(String),
    /// There is no client to ask with.
    #[error("other processes cannot be asked: {0}")]
    NoClient(Arc<str>),
}

/// Who may be asked, and with what.
#[derive(Debug, Default)]
pub struct Peers {
    hosts: BTreeSet<String>,
    authority: Option<PathBuf>,
    /// Made when it is first needed: most servers have no others.
    client: OnceLock<Result<Client, Arc<str>>>,
}

impl Peers {
    pub(super) fn of(settings: &Settings) -> Peers {
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let authority = settings.tls.as_ref().and_then(|tls| tls.authority.clone());
        Peers { hosts, authority, client: OnceLock::new() }
    }

    /// A client for a process that is announced at an address, and that address, if it may be asked.
    pub(super) fn client(&self, announced: &str) -> Result<(Client, Url), NotAsked> {
        let unknown = || NotAsked::Unknown(announced.to_owned());
        let url: Url = announced.parse().map_err(|_| unknown())?;
        if !matches!(url.scheme(), "http" | "https") || !self.may_ask(url.host_str().ok_or_else(unknown)?) {
            return Err(unknown());
        }
        let client = self.client.get_or_init(|| self.build().map_err(Arc::from));
        client.clone().map(|client| (client, url)).map_err(NotAsked::NoClient)
    }

    fn may_ask(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback()) || self.hosts.contains(host)
    }

    fn build(&self) -> Result<Client, String> {
        install_provider();
        let mut builder: ClientBuilder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(STALLED_MAX);
        if let Some(path) = &self.authority {
            let pem = std::fs::read(path).map_err(|error| format!("tls: {}: {error}", path.display()))?;
            let authorities = Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())?;
            builder = builder.tls_certs_only(authorities);
        }
        builder.build().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protects tokens: whoever can announce an address does not get them.
    #[test]
    fn a_token_goes_only_where_an_operator_said_so() {
        let settings = Settings { hosts: vec!["Recant-0.example".to_owned()], ..Settings::default() };
        let peers = Peers::of(&settings);
        for known in
            ["https://recant-0.example:7470", "http://127.0.0.1:1", "http://[::1]:7470", "http://localhost:7470/"]
        {
            assert!(peers.client(known).is_ok(), "{known}");
        }
        for unknown in [
            "https://evil.example:7470",
            "https://recant-0.example.evil.example",
            "https://recant-0.example@evil.example",
            "http://10.0.0.5:7470",
            "ftp://localhost",
            "localhost:7470",
            "",
        ] {
            assert!(matches!(peers.client(unknown), Err(NotAsked::Unknown(_))), "{unknown}");
        }
    }
}
