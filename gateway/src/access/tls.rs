//! TLS by rustls, with ring, from files that are read again when they change.

use axum_server::tls_rustls::RustlsConfig;

use super::{AccessError, settings::TlsSettings};

/// Certificate and key, as they were read last.
pub struct Tls {
    settings: TlsSettings,
    config: RustlsConfig,
    read: Pem,
}

#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Makes ring the one that ciphers for everything in this process, unless something else was chosen before.
pub fn install_provider() {
    // It fails when there is one already, which is as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Tls {
    /// Reads the files.
    pub async fn open(settings: &TlsSettings) -> Result<Tls, AccessError> {
        install_provider();
        let read = Pem::read(settings).await?;
        let config = RustlsConfig::from_pem(read.certificate.clone(), read.key.clone());
        let wrong = |error| AccessError::Setting(format!("tls: {}: {error}", settings.certificate.display()));
        Ok(Tls { settings: settings.clone(), config: config.await.map_err(wrong)?, read })
    }

    /// For the server; what is read later counts for the connections that come then.
    pub fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Reads the files again. What cannot be used changes nothing.
    pub async fn refresh(&mut self) {
        let refreshed = match Pem::read(&self.settings).await {
            Ok(pem) if pem == self.read => return,
            Ok(pem) => {
                let reloaded = self.config.reload_from_pem(pem.certificate.clone(), pem.key.clone()).await;
                // Remembered even if it is no good, so that it is said once.
                self.read = pem;
                reloaded.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match refreshed {
            Ok(()) => tracing::info!("the certificate was read again"),
            Err(error) => tracing::warn!(%error, "the certificate cannot be read; the one before goes on to count"),
        }
    }
}

impl Pem {
    async fn read(settings: &TlsSettings) -> Result<Pem, AccessError> {
        let TlsSettings { certificate, key, .. } = settings.clone();
        let read = tokio::task::spawn_blocking(move || {
            let file = |path: &std::path::Path| {
                std::fs::read(path).map_err(|error| AccessError::Setting(format!("tls: {}: {error}", path.display())))
            };
            Ok(Pem { certificate: file(&certificate)?, key: file(&key)? })
        });
        read.await.map_err(|error| AccessError::Setting(format!("tls: {error}")))?
    }
}
