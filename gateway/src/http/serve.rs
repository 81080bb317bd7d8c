//! Listens, and ends in order: streams end with a word, open requests may finish.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener},
};

use axum_server::{Handle, tls_rustls::RustlsAcceptor};

use super::{Gateway, stalled::Bounded};
use crate::{all_of_it, mcp::McpError};

/// Bytes that a connection gathers before they are sent, and of a request's head.
const CONNECTION_BUFFER_BYTES: usize = 64 << 10;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The network failed.
    #[error("serving failed: {0}")]
    Io(#[from] std::io::Error),
    /// Assistants cannot be served.
    #[error(transparent)]
    Mcp(#[from] McpError),
}

/// An address that is listened on.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Listens on an address; port 0 is any that is free.
    pub fn to(address: SocketAddr) -> Result<Bound, ServeError> {
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Bound { listener, address })
    }

    /// The address, with its port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until told to end, then ends streams, waits for open requests within the bound, and closes.
pub async fn serve(
    gateway: Gateway,
    bound: Bound,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let limits = gateway.limits.clone();
    let (handle, streams, access) = (Handle::new(), gateway.streams.clone(), gateway.access.clone());
    let (router, sessions) = all_of_it(gateway)?;
    let ending = tokio::spawn({
        let handle = handle.clone();
        let within = limits.shutdown_max;
        async move {
            end.await;
            streams.end();
            sessions.end();
            handle.graceful_shutdown(Some(within));
        }
    });
    let keeping_current = tokio::spawn({
        let access = access.clone();
        async move { access.keep_current().await }
    });
    let mut server = axum_server::from_tcp(bound.listener)?.handle(handle).first_request_timeout(limits.body_wait_max);
    let builder = server.http_builder();
    builder.http1().max_buf_size(CONNECTION_BUFFER_BYTES).header_read_timeout(limits.body_wait_max);
    builder.http2().max_send_buf_size(CONNECTION_BUFFER_BYTES);
    let bounded = Bounded::new(limits.connections_max, limits.stalled_max);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let served = match access.tls().await {
        Some(config) => server.acceptor(RustlsAcceptor::new(config).acceptor(bounded)).serve(service).await,
        None => server.acceptor(bounded).serve(service).await,
    };
    ending.abort();
    keeping_current.abort();
    Ok(served?)
}
