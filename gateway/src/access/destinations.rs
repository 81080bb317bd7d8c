//! Where this server may send what it knows: only where an operator has listed it, as a name or as a network.
//!
//! A name that is listed may lead to public addresses, and over `http` or to others (loopback, private) only where their network is
//! listed, too. Every address is checked when it is connected to, after its name was resolved, so that a name cannot first lead to one place
//! and then to another. An address in the place of a name needs its network to be listed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;
use url::Host;

use super::{AccessError, settings::WebhookSettings};

/// Why it is not sent there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationRefused {
    /// It is no URL that can be sent to.
    #[error("{0}")]
    Url(String),
    /// Nobody has listed it.
    #[error(
        "{0} is not among the webhooks' hosts and networks in the access settings (docs/how-to/subscriptions.md); an operator can add it"
    )]
    NotListed(String),
    /// The name leads where it may not.
    #[error(
        "{name} leads to {address}, which is not a public address (or not reached by https), and not in a network that is listed"
    )]
    Address {
        /// The name.
        name: String,
        /// Where it leads.
        address: IpAddr,
    },
}

/// What is listed.
#[derive(Debug, Clone, Default)]
pub struct Destinations {
    hosts: Vec<String>,
    networks: Vec<Network>,
}

#[derive(Debug, Clone, Copy)]
struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Destinations {
    /// Reads what the settings say.
    pub fn of(settings: &WebhookSettings) -> Result<Destinations, AccessError> {
        let networks = settings.networks.iter().map(|text| {
            Network::parse(text).ok_or_else(|| {
                AccessError::Setting(format!("webhooks.networks: {text:?} is no network such as 10.1.0.0/16"))
            })
        });
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Ok(Destinations { hosts, networks: networks.collect::<Result<_, _>>()? })
    }

    /// Checks a URL, before its name is resolved.
    pub fn check(&self, url: &str) -> Result<Url, DestinationRefused> {
        let refused = |detail: &str| DestinationRefused::Url(format!("{detail}: {url:?}"));
        let parsed: Url = url.parse().map_err(|error| refused(&format!("the webhook is no URL ({error})")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(refused("a webhook has https, or http to a network that is listed"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refused("a webhook's URL has no name and no password in it; it is signed instead"));
        }
        let is_listed = match parsed.host() {
            Some(Host::Domain(name)) => self.names(name),
            Some(Host::Ipv4(address)) => self.lists(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => self.lists(IpAddr::V6(address)),
            None => return Err(refused("a webhook's URL has a host")),
        };
        if is_listed {
            Ok(parsed)
        } else {
            Err(DestinationRefused::NotListed(parsed.host_str().unwrap_or_default().to_owned()))
        }
    }

    /// Checks an address to which a name that was checked leads.
    pub fn check_address(&self, name: &str, address: IpAddr, is_encrypted: bool) -> Result<(), DestinationRefused> {
        if self.lists(address) || (is_encrypted && is_public(address)) {
            return Ok(());
        }
        Err(DestinationRefused::Address { name: name.to_owned(), address })
    }

    fn names(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().any(|listed| match listed.strip_prefix("*.") {
            Some(above) => name.strip_suffix(above).is_some_and(|below| below.ends_with('.') && below.len() > 1),
            None => name == *listed,
        })
    }

    fn lists(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.holds(address.to_canonical()))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix_bits) = text.split_once('/')?;
        let network = Network { address: address.parse().ok()?, prefix_bits: prefix_bits.parse().ok()? };
        let bits = if network.address.is_ipv4() { 32 } else { 128 };
        (network.prefix_bits <= bits).then_some(network)
    }

    fn holds(&self, address: IpAddr) -> bool {
        let shift = |bits: u32| bits - u32::from(self.prefix_bits);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Whether an address is one of the open Internet's, by the registries of special addresses (RFC 6890 and its successors).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // All that is given out lies in 2000::/3. Of that, what holds an address of version 4 (6to4, Teredo) leads elsewhere.
    let is_given_out = a & 0xe000 == 0x2000;
    let is_special = a == 0x2002 || (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || (a == 0x3fff && b < 0x1000);
    is_given_out && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destinations(hosts: &[&str], networks: &[&str]) -> Destinations {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Destinations::of(&WebhookSettings { hosts: texts(hosts), networks: texts(networks) }).unwrap()
    }

    /// Protects what is behind the firewall: nothing is sent where nobody has listed it, however it is written.
    #[test]
    fn only_what_is_listed_is_sent_to() {
        let listed = destinations(&["hooks.example.com", "*.example.org"], &["10.1.0.0/16", "127.0.0.1/32"]);
        for url in
            ["https://hooks.example.com/x", "https://HOOKS.example.com.", "https://a.example.org", "http://10.1.2.3/"]
        {
            assert!(listed.check(url).is_ok(), "{url}");
        }
        for url in [
            "https://example.com",
            "https://example.org",
            "https://hooks.example.com.evil.net",
            "https://evilexample.org",
            "https://10.2.0.1",
            "https://[::1]/",
            "https://127.0.0.2",
            "https://0x7f.0.0.2",
            "ftp://hooks.example.com",
            "file:///etc/passwd",
            "https://u:p@hooks.example.com",
            "https://8.8.8.8",
            "hooks.example.com",
        ] {
            assert!(listed.check(url).is_err(), "{url}");
        }
        assert!(listed.check("http://0x7f.1/").is_ok(), "another way to write an address that is listed");
        assert!(destinations(&[], &[]).check("https://hooks.example.com").is_err());
    }

    /// Protects against names that lead elsewhere than they seem to.
    #[test]
    fn an_address_is_public_or_listed() {
        let listed = destinations(&["hooks.example.com"], &["10.1.0.0/16"]);
        let check = |address: &str, is_encrypted| {
            listed.check_address("hooks.example.com", address.parse().unwrap(), is_encrypted).is_ok()
        };
        assert!(check("93.184.216.34", true) && !check("93.184.216.34", false), "in the open with https alone");
        assert!(check("10.1.2.3", false) && check("::ffff:10.1.2.3", false) && check("2606:2800:220:1::1", true));
        for address in [
            "127.0.0.1",
            "10.2.0.1",
            "169.254.169.254",
            "192.168.1.1",
            "172.16.0.1",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!check(address, true), "{address}");
        }
    }

    #[test]
    fn networks_that_cannot_be_meant_are_refused() {
        for network in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1"] {
            let settings = WebhookSettings { networks: vec![network.to_owned()], ..WebhookSettings::default() };
            assert!(Destinations::of(&settings).is_err(), "{network}");
        }
        let all = destinations(&[], &["0.0.0.0/0", "::/0"]);
        assert!(all.check("http://127.0.0.1").is_ok() && all.check("http://[fe80::1]").is_ok());
    }
}
