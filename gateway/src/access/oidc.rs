//! JWTs of an OIDC issuer: signature, issuer, audience, times, and what their claims grant.

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header, errors::ErrorKind};
use recant_proto::id::ID_BYTES_MAX;
use serde_json::{Map, Value};

use super::{
    AccessError, Caller, Grants, Unauthenticated,
    keys::Keys,
    settings::{ClaimGrant, OidcSettings},
};

/// Longer ones are not looked at.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// An issuer whose JWTs count.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    keys: Keys,
}

impl Oidc {
    /// Reads what the settings say. Keys are fetched when they are needed.
    pub fn of(settings: &OidcSettings) -> Result<Oidc, AccessError> {
        let wrong = |what: &str| AccessError::Setting(format!("oidc: {what}"));
        if settings.issuer.is_empty() || settings.audience.is_empty() || settings.algorithms.is_empty() {
            return Err(wrong(
                "issuer, audience and algorithms must be there: without them anybody's token would count",
            ));
        }
        if settings.algorithms.iter().any(|algorithm| algorithm.family() == AlgorithmFamily::Hmac) {
            return Err(wrong("an algorithm with a shared secret would let whoever checks tokens make them"));
        }
        Ok(Oidc { keys: Keys::at(&settings.keys)?, settings: settings.clone() })
    }

    /// The keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whose token it is.
    pub async fn caller(&self, token: &str) -> Result<Caller, Unauthenticated> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Unauthenticated::Unknown);
        }
        let header = decode_header(token).map_err(|_| Unauthenticated::Unknown)?;
        if !self.settings.algorithms.contains(&header.alg) {
            return Err(Unauthenticated::Forged);
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await.ok_or(Unauthenticated::Forged)?;
        let key = DecodingKey::from_jwk(&key).map_err(|_| Unauthenticated::Forged)?;
        let claims = decode::<Map<String, Value>>(token, &key, &self.validation(header.alg)).map_err(reason)?.claims;
        let name = claims
            .get(&self.settings.name_claim)
            .and_then(Value::as_str)
            .filter(|name| (1..=ID_BYTES_MAX).contains(&name.len()));
        let caller = Caller::named(name.ok_or(Unauthenticated::Forged)?, self.grants(&claims));
        let expires_s = claims.get("exp").and_then(Value::as_f64).unwrap_or_default() as i64;
        Ok(caller.until(Timestamp::from_second(expires_s.saturating_add(self.settings.clock_skew_s.into())).ok()))
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        validation.leeway = self.settings.clock_skew_s.into();
        validation
    }

    fn grants(&self, claims: &Map<String, Value>) -> Grants {
        let applies = |grant: &&ClaimGrant| claims.get(&grant.claim).is_some_and(|value| says(grant, value));
        self.settings.grant.iter().filter(applies).fold(Grants::default(), |grants, grant| grants.and(&grant.spaces))
    }
}

fn says(grant: &ClaimGrant, value: &Value) -> bool {
    match value {
        // Defined as words with spaces between them (RFC 8693).
        Value::String(text) if grant.claim == "scope" => text.split(' ').any(|word| word == grant.value),
        Value::String(text) => *text == grant.value,
        Value::Array(list) => list.iter().any(|item| item.as_str() == Some(&grant.value)),
        _ => false,
    }
}

fn reason(error: jsonwebtoken::errors::Error) -> Unauthenticated {
    match error.kind() {
        ErrorKind::ExpiredSignature => Unauthenticated::Expired,
        _ => Unauthenticated::Forged,
    }
}
