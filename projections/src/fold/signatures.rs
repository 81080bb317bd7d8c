//! Logs whose writers sign: the keys that are in force, and whether an event has the signature that it needs.
//!
//! The keys of a log lie in the row of each partition, since each must decide by what lies in it alone. The first is named when the
//! log is created, and is an operator's; operators' keys enrol others, and revoke them, by events in the control space of each partition.
//! A key counts for what lies between its enrolment and its revocation in the partition, whenever it was signed. An id
//! that was revoked is spent.

use ed25519_dalek::{Signature, VerifyingKey};
use recant_proto::{
    reject::{Code, Violation},
    signing::{self, PUBLIC_KEY_BYTES, Signatory},
    v1::{Event, KeyEnrolled, KeyRevoked},
};

use super::incarnation_of;
use crate::tables::partition::{EnrolledKey, Row};

/// So many keys a log has at most, those included that were revoked: they are written with each batch.
pub const KEYS_MAX: usize = 256;

/// Refuses an event without the signature that it needs here.
pub(super) fn check(row: &Row, event: &Event) -> Result<(), Violation> {
    let Some(signatory) = event.body.as_ref().and_then(signing::signatory_of).filter(|_| row.writers_sign) else {
        return Ok(());
    };
    let Some(signature) = &event.signature else {
        let detail = "this log takes such an event only with the signature of an enrolled key (--key FILE)";
        return Err(Violation::at(Code::SignatureNeeded, "signature", detail));
    };
    let not_in_force = |what: &str| {
        let detail = format!("the key {:?} {what} at this position", signature.key_id);
        Violation::at(Code::KeyNotInForce, "signature.key_id", detail)
    };
    let key = find(row, &signature.key_id).ok_or_else(|| not_in_force("is not enrolled"))?;
    if key.is_revoked {
        return Err(not_in_force("is revoked"));
    }
    if signatory == Signatory::Operator && !key.is_operator {
        return Err(not_in_force("is not an operator's"));
    }
    let invalid = || {
        let detail = format!("it is not that of the key {:?} over this event in this log", signature.key_id);
        Violation::at(Code::SignatureInvalid, "signature.ed25519", detail)
    };
    let verifying = public_key(&key.public_key).ok_or_else(invalid)?;
    let signed = Signature::from_slice(&signature.ed25519).map_err(|_| invalid())?;
    let bytes = signing::signed_bytes(incarnation_of(row), event);
    verifying.verify_strict(&bytes, &signed).map_err(|_| invalid())
}

/// A key of a log.
pub(super) fn enrol(row: &mut Row, enrolled: &KeyEnrolled) -> Result<(), Violation> {
    if !row.writers_sign {
        return Err(Violation::new(
            Code::BadValue,
            "the writers of this log do not sign; that is decided at its creation",
        ));
    }
    if find(row, &enrolled.key_id).is_some() {
        let detail = format!("{:?} is or was the id of a key; give each key an id of its own", enrolled.key_id);
        return Err(Violation::at(Code::BadValue, "key_enrolled.key_id", detail));
    }
    if public_key(&enrolled.public_key).is_none() {
        let detail = format!("must be an Ed25519 public key, {PUBLIC_KEY_BYTES} bytes");
        return Err(Violation::at(Code::BadValue, "key_enrolled.public_key", detail));
    }
    if row.keys.len() >= KEYS_MAX {
        let detail = format!("the log has {KEYS_MAX} keys, revoked ones included, and has no more");
        return Err(Violation::new(Code::BadValue, detail));
    }
    row.keys.push(EnrolledKey {
        key_id: enrolled.key_id.clone(),
        public_key: enrolled.public_key.clone(),
        is_operator: enrolled.operator,
        is_revoked: false,
    });
    Ok(())
}

/// A key that counts no more.
pub(super) fn revoke(row: &mut Row, revoked: &KeyRevoked) -> Result<(), Violation> {
    let operators = row.keys.iter().filter(|key| key.is_operator && !key.is_revoked).count();
    let Some(key) = row.keys.iter_mut().find(|key| key.key_id == revoked.key_id && !key.is_revoked) else {
        let detail = format!("no key {:?} is in force", revoked.key_id);
        return Err(Violation::at(Code::BadValue, "key_revoked.key_id", detail));
    };
    if key.is_operator && operators == 1 {
        let detail = format!("{:?} is the last operator's key; enrol another first", revoked.key_id);
        return Err(Violation::at(Code::BadValue, "key_revoked.key_id", detail));
    }
    key.is_revoked = true;
    Ok(())
}

fn find<'a>(row: &'a Row, key_id: &str) -> Option<&'a EnrolledKey> {
    row.keys.iter().find(|key| key.key_id == key_id)
}

fn public_key(bytes: &[u8]) -> Option<VerifyingKey> {
    let bytes: &[u8; PUBLIC_KEY_BYTES] = bytes.try_into().ok()?;
    // One of small order signs anything.
    VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak())
}
