//! Signs what this process writes to a log whose writers sign: for the command line, and for whoever calls a gateway and was
//! found to have the right to.
//!
//! The key is a file of three lines, `recant-signing-key-1`, its id, and the 32 secret bytes in base64. It is made readable for
//! its owner alone, and refused if others can read it.

use std::{
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::{Signer as _, SigningKey};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::Incarnation,
    signing,
    v1::{Event, Signature},
    wire,
};

use crate::standalone::NewEvent;

const FIRST_LINE: &str = "recant-signing-key-1";

/// What is wrong with a file that should hold a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It holds something else.
    #[error("it is not a signing key of recant (`recant key new` makes one)")]
    NotAKey,
    /// Others can read it.
    #[error("others can read it, or write it; chmod 600")]
    Open,
}

/// A key that signs, with its id.
#[derive(Clone)]
pub struct Signer {
    key_id: String,
    key: SigningKey,
}

impl Signer {
    /// Of 32 secret bytes.
    pub fn of(key_id: &str, secret: &[u8; 32]) -> Signer {
        Signer { key_id: key_id.to_owned(), key: SigningKey::from_bytes(secret) }
    }

    /// Reads a key.
    pub fn read(path: &Path) -> Result<Signer, SignerError> {
        if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
            return Err(SignerError::Open);
        }
        let text = fs::read_to_string(path)?;
        let [first, key_id, secret] = text.lines().collect::<Vec<_>>()[..] else { return Err(SignerError::NotAKey) };
        let secret = BASE64_STANDARD.decode(secret).map_err(|_| SignerError::NotAKey)?;
        let secret: [u8; 32] = secret.try_into().map_err(|_| SignerError::NotAKey)?;
        if first != FIRST_LINE || key_id.is_empty() {
            return Err(SignerError::NotAKey);
        }
        Ok(Signer::of(key_id, &secret))
    }

    /// Writes it to a file that does not exist.
    pub fn write(&self, path: &Path) -> Result<(), SignerError> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let secret = BASE64_STANDARD.encode(self.key.to_bytes());
        file.write_all(format!("{FIRST_LINE}\n{}\n{secret}\n", self.key_id).as_bytes())?;
        Ok(file.sync_all()?)
    }

    /// Its id.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// What others verify with.
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// The event with a signature for a log.
    pub fn sign(&self, incarnation: Incarnation, event: Event) -> Event {
        let signed = self.key.sign(&signing::signed_bytes(incarnation, &event));
        let signature = Signature { key_id: self.key_id.clone(), ed25519: signed.to_bytes().to_vec() };
        Event { signature: Some(signature), ..event }
    }

    /// The same of what is to be appended, if it needs a signature and has none. An event of the control space is signed by
    /// whoever makes it.
    pub(crate) fn sign_if_needed(&self, incarnation: Incarnation, new: NewEvent) -> NewEvent {
        let Ok(decoded) = wire::decode(&new.value, Some(new.content_type)) else { return new };
        let event = decoded.event;
        let is_needed = event.body.as_ref().and_then(signing::signatory_of).is_some();
        if !is_needed || event.signature.is_some() || event.space == CONTROL_SPACE {
            return new;
        }
        let value = wire::to_protobuf(&self.sign(incarnation, event));
        NewEvent { value, content_type: names::PROTOBUF, ..new }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
