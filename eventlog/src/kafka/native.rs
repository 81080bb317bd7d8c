//! The two calls of librdkafka that its Rust bindings lack or get wrong. All `unsafe` of this crate is here.
//!
//! - [`commit_transaction`]: the bindings' own polls in slices of 100 ms first, so that a transaction that the broker
//!   answers in 5 ms takes 106.
//! - [`headers`]: the bindings' own panics on a header whose name is not UTF-8, which any client can write.
#![allow(unsafe_code, reason = "librdkafka is C; each block says why it is sound")]

use std::{ffi::CStr, ptr, time::Duration};

use rdkafka::{
    bindings,
    error::{KafkaError, RDKafkaErrorCode},
    message::BorrowedMessage,
    producer::{Producer, ThreadedProducer},
};

use super::client::Quiet;

/// What a call on a transaction failed with, and what librdkafka says can be done.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: RDKafkaErrorCode,
    /// The producer is of no further use.
    pub(super) is_fatal: bool,
    /// The same call may be made again.
    pub(super) is_retriable: bool,
    /// The transaction has to be aborted; the producer may go on.
    pub(super) requires_abort: bool,
    pub(super) text: String,
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Failure {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        match &error {
            KafkaError::Transaction(inner) => Failure {
                code,
                is_fatal: inner.is_fatal(),
                is_retriable: inner.is_retriable(),
                requires_abort: inner.txn_requires_abort(),
                text: inner.string(),
            },
            _ => Failure { code, is_fatal: false, is_retriable: false, requires_abort: true, text: error.to_string() },
        }
    }
}

/// Commits the producer's transaction: sends what is queued, waits for it, and ends the transaction. Another thread must
/// poll the producer meanwhile, as that of a `ThreadedProducer` does.
pub(super) fn commit_transaction(producer: &ThreadedProducer<Quiet>, timeout: Duration) -> Result<(), Failure> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer is that of a client which `producer` keeps alive beyond the call, and librdkafka's calls may be
    // made from any thread. The error, where there is one, is ours: it is read while it is alive and destroyed once. Its
    // text is NUL-terminated, and copied before that.
    unsafe {
        let error = bindings::rd_kafka_commit_transaction(producer.client().native_ptr(), timeout_ms);
        if error.is_null() {
            return Ok(());
        }
        let failure = Failure {
            code: bindings::rd_kafka_error_code(error).into(),
            is_fatal: bindings::rd_kafka_error_is_fatal(error) != 0,
            is_retriable: bindings::rd_kafka_error_is_retriable(error) != 0,
            requires_abort: bindings::rd_kafka_error_txn_requires_abort(error) != 0,
            text: CStr::from_ptr(bindings::rd_kafka_error_string(error)).to_string_lossy().into_owned(),
        };
        bindings::rd_kafka_error_destroy(error);
        Err(failure)
    }
}

/// A record's headers in their order. What is no UTF-8 in a name is replaced, so that no name of ours is met by it; a null
/// value is an empty one.
pub(super) fn headers(message: &BorrowedMessage<'_>) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut list = ptr::null_mut();
    // SAFETY: the message is alive while it is borrowed, and owns its headers; nothing here outlives the borrow. Names are
    // NUL-terminated, and a value that is not null has the length that comes with it; both are copied at once.
    unsafe {
        if bindings::rd_kafka_message_headers(message.ptr(), &mut list)
            != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return found;
        }
        for index in 0..bindings::rd_kafka_header_cnt(list) {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            let error = bindings::rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut length);
            if error != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            let name = CStr::from_ptr(name).to_string_lossy().into_owned();
            let value = if value.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(value.cast::<u8>(), length).to_vec()
            };
            found.push((name, value));
        }
    }
    found
}
