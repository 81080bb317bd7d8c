//! One webhook: a change is posted to where a subscription pushes, signed as [Standard Webhooks](https://www.standardwebhooks.com) has it.
//!
//! | header | |
//! |---|---|
//! | `webhook-id` | the change's id: the same whenever it is sent |
//! | `webhook-timestamp` | when this attempt was made, in s since 1970 |
//! | `webhook-signature` | `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body` |
//!
//! The body is `{"type":"recant.v1.change","timestamp":…,"data":{a change}}`. An answer of 2xx takes it; everything else, a redirect too, is a
//! failure. Each attempt is a connection of its own, to an address that [`Destinations`] allows at that moment.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use recant_proto::names;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, USER_AGENT},
    redirect::Policy,
};
use serde::Serialize;
use serde_json::value::RawValue;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use super::{Push, SubscriptionError};
use crate::access::{Access, DestinationRefused, install_provider};

const AGENT: &str = concat!("recant/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How a secret begins, by the standard.
const SECRET_PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

/// A new secret, to be shown once; none if the system has no randomness.
pub fn new_secret() -> Option<String> {
    let mut random = [0; SECRET_BYTES];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut random).ok()?;
    Some(format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode(random)))
}

/// Why a change was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It may not be sent there.
    #[error(transparent)]
    Refused(#[from] DestinationRefused),
    /// What came back is no success.
    #[error("the receiver answered {0}")]
    Status(u16),
    /// The receiver sent it elsewhere.
    #[error("the receiver answered {0}, and redirects are not followed")]
    Redirect(u16),
    /// Nothing came back in time.
    #[error("the receiver did not answer within {0} ms")]
    TimedOut(u64),
    /// There was no connection, or it broke off.
    #[error("the receiver could not be reached: {0}")]
    Unreachable(String),
    /// It cannot be signed or written.
    #[error("the webhook could not be written: {0}")]
    Unwritable(String),
}

impl Failure {
    /// For measures.
    pub fn as_str(&self) -> &'static str {
        match self {
            Failure::Refused(_) => "refused",
            Failure::Status(_) => "status",
            Failure::Redirect(_) => "redirect",
            Failure::TimedOut(_) => "timed_out",
            Failure::Unreachable(_) => "unreachable",
            Failure::Unwritable(_) => "unwritable",
        }
    }
}

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'static str,
    timestamp: &'a str,
    data: &'a RawValue,
}

/// Sends webhooks.
pub struct Webhooks {
    access: Arc<Access>,
    encrypted: Client,
    plain: Client,
}

/// Resolves names, to addresses that may be connected to alone.
struct Resolver {
    access: Arc<Access>,
    is_encrypted: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (access, is_encrypted) = (self.access.clone(), self.is_encrypted);
        Box::pin(async move {
            let name = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let destinations = access.destinations();
            // One that may not is reason enough: a name that leads to both is not what it was listed for.
            for address in &found {
                destinations.check_address(name, address.ip(), is_encrypted)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl Webhooks {
    /// To where the access settings allow.
    pub fn new(access: Arc<Access>) -> Result<Webhooks, SubscriptionError> {
        install_provider();
        let client = |is_encrypted| {
            let resolver = Resolver { access: access.clone(), is_encrypted };
            let client = Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(Arc::new(resolver))
                .connect_timeout(CONNECT_TIMEOUT)
                .pool_max_idle_per_host(0)
                .https_only(is_encrypted)
                .build();
            client.map_err(|error| SubscriptionError::Client(error.to_string()))
        };
        Ok(Webhooks { encrypted: client(true)?, plain: client(false)?, access })
    }

    /// Whether it may be sent there.
    pub fn check(&self, url: &str) -> Result<Url, DestinationRefused> {
        self.access.destinations().check(url)
    }

    /// Delivers a change, once.
    pub async fn deliver(&self, push: &Push, secret: &str, id: &str, time: &str, change: &str) -> Result<(), Failure> {
        let url = self.check(&push.url)?;
        let unwritable = |error: &dyn std::fmt::Display| Failure::Unwritable(error.to_string());
        let data: &RawValue = serde_json::from_str(change).map_err(|error| unwritable(&error))?;
        let payload = Payload { r#type: names::CE_TYPE_CHANGE, timestamp: time, data };
        let body = serde_json::to_string(&payload).map_err(|error| unwritable(&error))?;
        let now_s = Timestamp::now().as_second();
        let signer = Webhook::new(secret).map_err(|error| unwritable(&error))?;
        let signature = signer.sign(id, now_s, body.as_bytes()).map_err(|error| unwritable(&error))?;
        let client = if url.scheme() == "https" { &self.encrypted } else { &self.plain };
        let sent = client
            .post(url)
            .timeout(Duration::from_millis(push.timeout_ms))
            .header(CONTENT_TYPE, names::JSON)
            .header(USER_AGENT, AGENT)
            .header(HEADER_WEBHOOK_ID, id)
            .header(HEADER_WEBHOOK_TIMESTAMP, now_s)
            .header(HEADER_WEBHOOK_SIGNATURE, signature)
            .body(body)
            .send();
        match sent.await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) if answer.status().is_redirection() => Err(Failure::Redirect(answer.status().as_u16())),
            Ok(answer) => Err(Failure::Status(answer.status().as_u16())),
            Err(error) if error.is_timeout() => Err(Failure::TimedOut(push.timeout_ms)),
            Err(error) => Err(failure_of(&error)),
        }
    }
}

fn failure_of(error: &reqwest::Error) -> Failure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut innermost = String::new();
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<DestinationRefused>() {
            return Failure::Refused(refused.clone());
        }
        innermost = error.to_string();
        cause = error.source();
    }
    Failure::Unreachable(innermost)
}
