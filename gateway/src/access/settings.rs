//! What an operator writes down about access: one TOML file, `recant serve --access FILE`, read again when it changes.
//!
//! ```toml
//! hosts = ["recant.example.com"]              # names under which the servers are called, beside localhost and addresses
//! cors_origins = ["https://console.example.com"]
//!
//! [[token]]                                   # `recant token` writes such a table
//! name = "planner"
//! hash = "blake3:…"
//! expires = "2027-01-01T00:00:00Z"            # may be absent
//! spaces = { acme = ["read", "write"], "*" = ["read"] }
//!
//! [oidc]
//! issuer = "https://id.example.com"
//! audience = ["recant"]
//! algorithms = ["ES256", "RS256"]
//! keys = "https://id.example.com/jwks.json"   # or a file
//! [[oidc.grant]]
//! claim = "groups"
//! value = "memory-operators"
//! spaces = { "*" = ["read", "retract", "operate"] }
//!
//! [tls]
//! certificate = "/etc/recant/tls.crt"
//! key = "/etc/recant/tls.key"
//! authority = "/etc/recant/ca.crt"            # who vouches for the other processes; the system's authorities if absent
//!
//! [webhooks]                                  # where changes may be pushed to; nowhere, without
//! hosts = ["hooks.example.com", "*.example.org"]
//! networks = ["10.1.0.0/16"]                  # addresses that are not public, or are reached by http
//!
//! [quota]                                     # of each space that has none of its own
//! events_per_s = 1000
//! bytes_per_s = 10_000_000
//! streams = 100
//! [quota.spaces.acme]
//! events_per_s = 10_000
//! ```

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::Grants;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Names under which the servers of the log are called, beside `localhost` and addresses.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Web origins whose pages may call; none unless said.
    #[serde(default)]
    pub cors_origins: Vec<String>,
    /// Bearer tokens.
    #[serde(default)]
    pub token: Vec<TokenSettings>,
    /// Whose JWTs count.
    pub oidc: Option<OidcSettings>,
    /// Certificate and key; plain HTTP without.
    pub tls: Option<TlsSettings>,
    /// Where changes may be pushed to.
    #[serde(default)]
    pub webhooks: WebhookSettings,
    /// What each space may use.
    #[serde(default)]
    pub quota: QuotaSettings,
}

/// Where changes may be pushed to: nowhere, unless it is listed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Names, or `*.` and what they end with.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Networks such as `10.1.0.0/16`: only there addresses may be other than public, or reached without TLS.
    #[serde(default)]
    pub networks: Vec<String>,
}

/// A bearer token, of which only the hash is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// Whom it names.
    pub name: String,
    /// `blake3:` and 64 hexadecimal digits.
    pub hash: String,
    /// From then on it does not count; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// What it grants.
    pub spaces: Grants,
}

/// An issuer of JWTs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// `iss`, to the letter.
    pub issuer: String,
    /// One of these must be in `aud`.
    pub audience: Vec<String>,
    /// Only these; none with a shared secret.
    pub algorithms: Vec<jsonwebtoken::Algorithm>,
    /// A JWKS: a URL with https (http on loopback), or a file.
    pub keys: String,
    /// How far clocks may differ.
    #[serde(default = "clock_skew_s")]
    pub clock_skew_s: u32,
    /// The claim that names the caller.
    #[serde(default = "name_claim")]
    pub name_claim: String,
    /// What claims grant.
    #[serde(default)]
    pub grant: Vec<ClaimGrant>,
}

fn clock_skew_s() -> u32 {
    60
}

fn name_claim() -> String {
    "sub".to_owned()
}

/// What a claim grants: where it is this text, or a list with this text in it, or for `scope` has it among its words.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimGrant {
    /// Its name.
    pub claim: String,
    /// Its value.
    pub value: String,
    /// What it grants.
    pub spaces: Grants,
}

/// Files in PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate, with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who vouches for the certificates of the other processes of the log; the system's authorities if absent.
    pub authority: Option<PathBuf>,
}

/// What each space may use.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct QuotaSettings {
    /// Of spaces that have none of their own.
    #[serde(flatten)]
    pub default: Quota,
    /// Of these.
    #[serde(default)]
    pub spaces: BTreeMap<String, Quota>,
}

/// What one space may use; unlimited where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Quota {
    /// Events.
    pub events_per_s: Option<NonZeroU32>,
    /// Bytes of events.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Change streams that are open at once.
    pub streams: Option<NonZeroU32>,
}

impl QuotaSettings {
    /// That of a space.
    pub fn of(&self, space: &str) -> Quota {
        self.spaces.get(space).copied().unwrap_or(self.default)
    }
}
