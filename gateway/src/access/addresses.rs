//! Under which names the server may be called, and from which pages.
//!
//! A web page can have its own name resolve to this machine and so call a server here as if it were its own (DNS rebinding). So a name
//! in `Host` must be known: `localhost`, or one that the settings have. An address in its place cannot have been rebound.
//! A page of another origin is refused unless the settings name it, also where a browser would have let it through.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use axum::http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use super::{AccessError, settings::Settings};

/// Known names and origins.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    hosts: BTreeSet<String>,
    origins: BTreeSet<String>,
}

/// Why a request is refused before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    /// `Host` is missing, or a name that is not known.
    #[error("the server is not known by the name in Host; an operator can add it to `hosts` in the access settings")]
    Host,
    /// `Origin` is another site's.
    #[error("pages of this origin may not call; an operator can add it to `cors_origins` in the access settings")]
    Origin,
}

impl Addresses {
    /// Reads what the settings say.
    pub fn of(settings: &Settings) -> Result<Addresses, AccessError> {
        for origin in &settings.cors_origins {
            let is_origin = origin.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.path() == "/");
            if !is_origin || origin.ends_with('/') || HeaderValue::from_str(origin).is_err() {
                let wrong = format!("cors_origins: {origin:?} is not an origin such as https://console.example.com");
                return Err(AccessError::Setting(wrong));
            }
        }
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase());
        Ok(Addresses { hosts: hosts.collect(), origins: settings.cors_origins.iter().cloned().collect() })
    }

    /// Whether pages of an origin may call.
    pub fn names(&self, origin: &HeaderValue) -> bool {
        origin.to_str().is_ok_and(|origin| self.origins.contains(origin))
    }

    /// Checks `Host` (or HTTP/2's authority) and `Origin`.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AddressRefused> {
        let authority = match (headers.get(header::HOST), uri.authority()) {
            (Some(host), _) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            (None, authority) => authority.cloned(),
        };
        let authority = authority.ok_or(AddressRefused::Host)?;
        if headers.get_all(header::HOST).iter().count() > 1 || !self.knows(authority.host()) {
            return Err(AddressRefused::Host);
        }
        match headers.get(header::ORIGIN) {
            None => Ok(()),
            Some(origin) => self.check_origin(origin, &authority),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        host == "localhost" || is_address(&host) || self.hosts.contains(&host)
    }

    fn check_origin(&self, origin: &HeaderValue, authority: &Authority) -> Result<(), AddressRefused> {
        let from = origin.to_str().map_err(|_| AddressRefused::Origin)?;
        let is_own = ["http://", "https://"]
            .iter()
            .any(|scheme| from.strip_prefix(scheme).is_some_and(|from| from.eq_ignore_ascii_case(authority.as_str())));
        if is_own || self.names(origin) { Ok(()) } else { Err(AddressRefused::Origin) }
    }
}

fn is_address(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    v6.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()) || host.parse::<IpAddr>().is_ok()
}

/// Whether only this machine can call.
pub fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &Addresses, host: &str, origin: Option<&str>) -> Result<(), AddressRefused> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        addresses.check(&Uri::from_static("/v1/spaces"), &headers)
    }

    fn addresses() -> Addresses {
        Addresses::of(&Settings {
            hosts: vec!["Recant.Example.com".to_owned()],
            cors_origins: vec!["https://console.example.com".to_owned()],
            ..Settings::default()
        })
        .unwrap()
    }

    #[test]
    fn a_name_must_be_known_and_an_address_cannot_be_rebound() {
        for known in ["localhost", "LOCALHOST:7470", "127.0.0.1:7470", "[::1]:7470", "10.1.2.3", "recant.example.com"] {
            assert_eq!(check(&addresses(), known, None), Ok(()), "{known}");
        }
        for unknown in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7470", "recant.example.com.", "a b"]
        {
            assert_eq!(check(&addresses(), unknown, None), Err(AddressRefused::Host), "{unknown}");
        }
        let nothing = addresses().check(&Uri::from_static("/"), &HeaderMap::new());
        assert_eq!(nothing, Err(AddressRefused::Host));
    }

    #[test]
    fn a_page_calls_its_own_server_or_is_named() {
        let from = |origin| check(&addresses(), "localhost:7470", Some(origin));
        assert_eq!(from("http://localhost:7470"), Ok(()));
        assert_eq!(from("https://console.example.com"), Ok(()));
        for other in
            ["http://localhost:8080", "http://evil.example", "null", "https://console.example.com.evil.example", ""]
        {
            assert_eq!(from(other), Err(AddressRefused::Origin), "{other}");
        }
    }

    #[test]
    fn an_origin_in_the_settings_is_one() {
        for wrong in ["*", "console.example.com", "https://console.example.com/", "https://a.example/path"] {
            let settings = Settings { cors_origins: vec![wrong.to_owned()], ..Settings::default() };
            assert!(Addresses::of(&settings).is_err(), "{wrong}");
        }
    }

    #[test]
    fn loopback_is_what_no_other_machine_reaches() {
        for loopback in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(loopback.parse().unwrap()), "{loopback}");
        }
        for other in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert!(!is_loopback(other.parse().unwrap()), "{other}");
        }
    }
}
