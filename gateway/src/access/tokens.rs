//! Bearer tokens: `recant_` and 43 characters of base64url, which are 256 random bits. Since nobody can guess one, a plain
//! hash of it is enough to keep; it is compared in constant time.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use recant_proto::id::ID_BYTES_MAX;
use subtle::ConstantTimeEq;

use super::{AccessError, Caller, Unauthenticated, settings::TokenSettings};

/// How a token begins, so that scanners for secrets can find one that leaked.
pub const TOKEN_PREFIX: &str = "recant_";

const HASH_PREFIX: &str = "blake3:";
const RANDOM_BYTES: usize = 32;

/// Each call is compared with all of them.
const TOKENS_MAX: usize = 4_096;

/// A new token, and what is kept of it.
pub struct NewToken {
    /// To be given to the caller, and shown once.
    pub token: String,
    /// For the settings.
    pub hash: String,
}

/// Bytes that nobody can guess; none if the system has no randomness.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut random = [0; N];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut random).ok()?;
    Some(random)
}

impl NewToken {
    /// Makes one; none if the system has no randomness.
    pub fn make() -> Option<NewToken> {
        let random: [u8; RANDOM_BYTES] = random_bytes()?;
        let token = format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let hash = format!("{HASH_PREFIX}{}", blake3::hash(token.as_bytes()).to_hex());
        Some(NewToken { token, hash })
    }
}

/// The tokens that count.
#[derive(Debug, Default)]
pub struct Tokens(Vec<Known>);

#[derive(Debug)]
struct Known {
    hash: [u8; 32],
    expires: Option<Timestamp>,
    caller: Caller,
}

impl Tokens {
    /// Reads what the settings say.
    pub fn of(settings: &[TokenSettings]) -> Result<Tokens, AccessError> {
        if settings.len() > TOKENS_MAX {
            return Err(AccessError::Setting(format!("at most {TOKENS_MAX} tokens; use OIDC for more")));
        }
        settings.iter().map(known).collect::<Result<_, _>>().map(Tokens)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token it is.
    pub fn caller(&self, token: &str, now: Timestamp) -> Result<Caller, Unauthenticated> {
        let hash = blake3::hash(token.as_bytes());
        // All are compared, whichever it is.
        let same = |known: &&Known| bool::from(known.hash.ct_eq(hash.as_bytes()));
        let found = self.0.iter().filter(same).fold(None, |_, known| Some(known)).ok_or(Unauthenticated::Unknown)?;
        if found.expires.is_some_and(|expires| now >= expires) {
            return Err(Unauthenticated::Expired);
        }
        Ok(found.caller.clone())
    }
}

fn known(settings: &TokenSettings) -> Result<Known, AccessError> {
    let TokenSettings { name, hash, expires, spaces } = settings;
    let wrong = |what: &str| AccessError::Setting(format!("token {name:?}: {what}"));
    let digits = hash.strip_prefix(HASH_PREFIX).ok_or_else(|| wrong("its hash must begin with blake3:"))?;
    let hash = blake3::Hash::from_hex(digits).map_err(|_| wrong("its hash must have 64 hexadecimal digits"))?;
    let expires = expires.as_ref().map(|time| time.parse().map_err(|_| wrong("expires must be an RFC 3339 time")));
    // It stands in events, as an agent's name does.
    if !(1..=ID_BYTES_MAX).contains(&name.len()) || spaces.is_empty() {
        return Err(wrong("it must have a name of at most 256 bytes, and rights in some space"));
    }
    let expires = expires.transpose()?;
    let caller = Caller::named(name.as_str(), spaces.clone()).until(expires);
    Ok(Known { hash: *hash.as_bytes(), expires, caller })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grants, Right};

    fn settings(new: &NewToken, expires: Option<&str>) -> TokenSettings {
        TokenSettings {
            name: "planner".to_owned(),
            hash: new.hash.clone(),
            expires: expires.map(str::to_owned),
            spaces: Grants::default().grant("acme", &[Right::Read]),
        }
    }

    #[test]
    fn a_token_names_its_caller_until_it_expires() {
        let new = NewToken::make().unwrap();
        let tokens = Tokens::of(&[settings(&new, Some("2027-01-01T00:00:00Z"))]).unwrap();
        let before: Timestamp = "2026-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(tokens.caller(&new.token, before).unwrap().name(), Some("planner"));
        let then = "2027-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(tokens.caller(&new.token, then), Err(Unauthenticated::Expired));
    }

    #[test]
    fn nothing_but_the_token_is_the_token() {
        let (new, other) = (NewToken::make().unwrap(), NewToken::make().unwrap());
        let tokens = Tokens::of(&[settings(&new, None)]).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert!(tokens.caller(&new.token, now).is_ok());
        let cut = &new.token[..new.token.len() - 1];
        for wrong in ["", TOKEN_PREFIX, cut, &other.token, &new.hash, &new.token.to_uppercase()] {
            assert_eq!(tokens.caller(wrong, now), Err(Unauthenticated::Unknown), "{wrong:?}");
        }
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let new = NewToken::make().unwrap();
        let good = settings(&new, None);
        for bad in [
            TokenSettings { hash: new.token.clone(), ..good.clone() },
            TokenSettings { hash: "blake3:12".to_owned(), ..good.clone() },
            TokenSettings { expires: Some("soon".to_owned()), ..good.clone() },
            TokenSettings { name: String::new(), ..good.clone() },
            TokenSettings { spaces: Grants::default(), ..good.clone() },
        ] {
            let refused = Tokens::of(std::slice::from_ref(&bad)).unwrap_err().to_string();
            assert!(!refused.contains(&new.token), "{refused}");
        }
    }
}
